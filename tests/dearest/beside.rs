//! The neighbour: another API key that asks one small thing each 10 ms, and adds one
//! item each 10 ms, each when it is due, over connections that take turns.

use crate::wire::{Answer, Wire};
use std::io::Write as _;
use std::path::PathBuf;
use std::thread::{self, ScopedJoinHandle};
use std::time::{Duration, Instant};

const PERIOD: Duration = Duration::from_millis(10);

/// Connections that take turns at asking, and as many at adding: over one, a request that
/// takes longer than the period would hold up all that are due after it, and what is
/// measured would be how far one connection falls behind, and not how long a request takes.
const POOL: u32 = 8;

/// Longest wait for the server to be as quick as before.
const LONGEST: Duration = Duration::from_secs(60);

pub(crate) struct Neighbour {
    pub(crate) port: u16,
    pub(crate) key: String,
    /// A folder on the disk of the server's data.
    pub(crate) disk: PathBuf,
}

/// How long its requests took since they were due, and beside them forced writes to the
/// same disk, which nothing of the server holds up but what it writes.
#[derive(Default)]
pub(crate) struct Times {
    asking: Vec<Duration>,
    adding: Vec<Duration>,
    writing: Vec<Duration>,
}

fn at(mut all: Vec<Duration>, part: f64) -> Duration {
    all.sort_unstable();
    all[((all.len() - 1) as f64 * part).round() as usize]
}

impl Times {
    /// What a part of all requests did not exceed.
    pub(crate) fn at(&self, part: f64) -> Duration {
        at([&self.asking[..], &self.adding].concat(), part)
    }

    /// The same of the forced writes.
    pub(crate) fn disk_at(&self, part: f64) -> Duration {
        at(self.writing.clone(), part)
    }

    /// The slowest question and the slowest addition.
    pub(crate) fn slowest(&self) -> [Duration; 2] {
        [&self.asking, &self.adding].map(|it| it.iter().copied().max().unwrap_or_default())
    }

    /// Of how many requests.
    pub(crate) fn count(&self) -> usize {
        self.asking.len() + self.adding.len()
    }

    pub(crate) fn extend(&mut self, more: Times) {
        self.asking.extend(more.asking);
        self.adding.extend(more.adding);
        self.writing.extend(more.writing);
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
        let each = |offset: Duration, period: Duration, act: &mut dyn FnMut(Duration)| {
            let (mut due, mut times) = (begins + offset, Vec::new());
            while due < begins + lasts {
                thread::sleep(due.saturating_duration_since(Instant::now()));
                act(due - begins);
                times.push(due.elapsed());
                due += period;
            }
            times
        };
        let go_on = |adds: bool, offset: Duration| {
            let mut wire = Wire::to(self.port);
            each(offset, PERIOD * POOL, &mut |at| {
                self.once(&mut wire, adds, &format!("{at:?}"));
            })
        };
        let write = || {
            let mut file = tempfile::tempfile_in(&self.disk).unwrap();
            each(PERIOD / 4, PERIOD, &mut |_| {
                file.write_all(&[0; 4096]).unwrap();
                file.sync_data().unwrap();
            })
        };
        thread::scope(|scope| {
            let pool = |adds: bool, first: Duration| {
                let connection = |n| scope.spawn(move || go_on(adds, first + PERIOD * n));
                (0..POOL).map(connection).collect::<Vec<_>>()
            };
            let (asking, adding) = (pool(false, Duration::ZERO), pool(true, PERIOD / 2));
            let writing = scope.spawn(write);
            let all = |pool: Vec<ScopedJoinHandle<'_, Vec<Duration>>>| {
                pool.into_iter().flat_map(|it| it.join().unwrap()).collect()
            };
            Times {
                asking: all(asking),
                adding: all(adding),
                writing: writing.join().unwrap(),
            }
        })
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
