//! The neighbour: another API key that asks one small thing each 10 ms, and adds one
//! item each 10 ms, each when it is due.

use crate::wire::{Answer, Wire};
use std::thread;
use std::time::{Duration, Instant};

const PERIOD: Duration = Duration::from_millis(10);

/// Longest wait for the server to be as quick as before.
const LONGEST: Duration = Duration::from_secs(60);

pub(crate) struct Neighbour {
    pub(crate) port: u16,
    pub(crate) key: String,
}

/// How long its requests took since they were due, shortest first.
pub(crate) struct Times(Vec<Duration>);

impl Times {
    pub(crate) fn at(&self, part: f64) -> Duration {
        self.0[((self.0.len() - 1) as f64 * part).round() as usize]
    }
}

impl Neighbour {
    /// Asks, or adds, an item.
    fn once(&self, wire: &mut Wire, adds: bool, item: &str) {
        let key = &self.key;
        let request = match adds {
            true => format!(
                "POST /filters/neighbour/items HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer {key}\r\ncontent-type: text/plain\r\ncontent-length: {}\r\n\r\n{item}",
                item.len()
            ),
            false => format!(
                "GET /filters/neighbour/exists?item={item} HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer {key}\r\n\r\n"
            ),
        };
        let Answer { status, text, .. } = wire.whole(request.as_bytes()).unwrap();
        assert_eq!(status, 200, "the neighbour was refused: {text}");
    }

    /// What it sees for so long.
    pub(crate) fn during(&self, lasts: Duration) -> Times {
        let begins = Instant::now();
        let go_on = |adds: bool| {
            let (mut wire, mut times) = (Wire::to(self.port), Vec::new());
            let mut due = begins + if adds { PERIOD / 2 } else { Duration::ZERO };
            while due < begins + lasts {
                thread::sleep(due.saturating_duration_since(Instant::now()));
                self.once(&mut wire, adds, &format!("{:?}", due - begins));
                times.push(due.elapsed());
                due += PERIOD;
            }
            times
        };
        let mut times = thread::scope(|scope| {
            let adding = scope.spawn(|| go_on(true));
            let mut times = go_on(false);
            times.extend(adding.join().unwrap());
            times
        });
        times.sort_unstable();
        Times(times)
    }

    /// Waits until five requests in a row are answered that quickly, or for a minute;
    /// how long that takes.
    pub(crate) fn until_quick(&self, quick: Duration) -> Duration {
        let (began, mut wire, mut in_a_row) = (Instant::now(), Wire::to(self.port), 0);
        while in_a_row < 5 && began.elapsed() < LONGEST {
            let asked = Instant::now();
            self.once(&mut wire, in_a_row % 2 == 1, "settled");
            in_a_row = if asked.elapsed() <= quick {
                in_a_row + 1
            } else {
                0
            };
        }
        began.elapsed()
    }
}
