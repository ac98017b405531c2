//! Many times more clients than the server can serve, with a key of their own, that
//! ask again at once whatever they are told: those who behave are served as if they
//! were alone, memory is bounded, and what is refused is refused in words.
//!
//! `CUCKOOD_TEST_QUIET` says that the machine does nothing else: then what is
//! promised of times is asserted; else only what holds beside other work.

use crate::server::{Server, add_key, client_with};
use crate::wire::Wire;
use reqwest::StatusCode;
use reqwest::blocking::Client;
use serde_json::json;
use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// Clients that flood, and items of each of their requests: so many that the server
/// can't serve all of them, however quick the machine.
const HOSTILE: usize = 160;
const HOSTILE_ITEMS: usize = 20_000;

/// Clients that behave, items of each of their requests, and the part of the
/// server's capacity that they use, which is found first. A machine that is busy
/// with other things meanwhile has less to give.
const POLITE: usize = 8;
const POLITE_ITEMS: usize = 10;
const PART: f64 = 0.1;

/// Connections over which they ask then: so many that a request is sent when it is
/// due, even while others wait for their answers.
const CONNECTIONS: usize = 64;

/// How long the capacity is measured, how long a flood lasts before anything is
/// measured, and how long it is measured.
const CALIBRATION: Duration = Duration::from_secs(2);
const BEFORE: Duration = Duration::from_secs(1);
const PHASE: Duration = Duration::from_secs(5);

/// After so long what was not sent yet counts as not served.
const LONGEST: Duration = Duration::from_secs(15);

/// The part of the polite requests that are answered so soon: on a machine that
/// does nothing else, and on any.
const SERVED: f64 = 0.95;
const SOON: Duration = Duration::from_millis(100);
const SOON_ON_ANY: Duration = Duration::from_secs(1);

/// How much the memory may grow: bodies, what is made of them, and what the
/// allocator keeps.
const MOST_MIB: u64 = 512;

/// Asks and adds, in turns.
fn polite_request(http: &Client, server: &Server, client: usize, round: u64) -> StatusCode {
    let items = (0..POLITE_ITEMS).map(|n| format!("{client} {round} {n}\n"));
    let path = ["items", "exists"][round as usize % 2];
    let url = server.url(&format!("/filters/polite:f/{path}"));
    let request = http.post(url).header("content-type", "text/plain");
    let answer = request.body(items.collect::<String>()).send().unwrap();
    let status = answer.status();
    answer.bytes().unwrap();
    status
}

/// Requests a second that polite clients get answered if they ask without a pause
/// and are alone.
fn capacity(server: &Server, http: &Client) -> f64 {
    let (ends, answered) = (Instant::now() + CALIBRATION, AtomicU64::new(0));
    thread::scope(|scope| {
        for client in 0..POLITE {
            let answered = &answered;
            scope.spawn(move || {
                for round in 0.. {
                    if Instant::now() >= ends {
                        return;
                    }
                    assert_eq!(polite_request(http, server, client, round), 200);
                    answered.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
    });
    answered.into_inner() as f64 / CALIBRATION.as_secs_f64()
}

/// What became of polite requests: times since they were due, and refusals.
#[derive(Default)]
struct Polite {
    times: Vec<Duration>,
    refused: BTreeMap<u16, u64>,
    /// Those that were due and had to wait for others for too long.
    never_sent: usize,
}

impl Polite {
    /// So many requests a second, each sent when it is due, for so long.
    fn ask(server: &Server, http: &Client, per_second: f64) -> Polite {
        let polite = Mutex::new(Polite::default());
        let period = Duration::from_secs_f64(CONNECTIONS as f64 / per_second);
        let begins = Instant::now();
        thread::scope(|scope| {
            for client in 0..CONNECTIONS {
                let polite = &polite;
                scope.spawn(move || {
                    // Not all at once.
                    let mut due = begins + period * client as u32 / CONNECTIONS as u32;
                    for round in 1 << 32.. {
                        if due >= begins + PHASE {
                            return;
                        }
                        if begins.elapsed() > LONGEST {
                            polite.lock().unwrap().never_sent += 1;
                            due += period;
                            continue;
                        }
                        thread::sleep(due.saturating_duration_since(Instant::now()));
                        let status = polite_request(http, server, client, round);
                        let mut polite = polite.lock().unwrap();
                        match status.as_u16() {
                            200 => polite.times.push(due.elapsed()),
                            other => *polite.refused.entry(other).or_insert(0) += 1,
                        }
                        due += period;
                    }
                });
            }
        });
        let mut polite = polite.into_inner().unwrap();
        polite.times.sort_unstable();
        polite
    }

    fn asked(&self) -> usize {
        self.times.len() + self.refused.values().sum::<u64>() as usize + self.never_sent
    }

    /// The part that was answered so soon, of all that were asked.
    fn served_within(&self, longest: Duration) -> f64 {
        let soon = self.times.partition_point(|time| *time <= longest);
        soon as f64 / self.asked() as f64
    }

    fn ms(&self, hundredths: usize) -> f64 {
        let time = self.times[(self.times.len() - 1) * hundredths / 100];
        (time.as_secs_f64() * 1e5).round() / 100.0
    }

    fn figures(&self) -> serde_json::Value {
        json!({
            "asked": self.asked(),
            "refused": self.refused,
            "never_sent": self.never_sent,
            "ms_p50": self.ms(50),
            "ms_p95": self.ms(95),
            "ms_p99": self.ms(99),
            "served_within_100_ms": (self.served_within(SOON) * 1e4).round() / 1e4,
        })
    }
}

/// Sends large batches until it is told to stop, and counts answers by status.
fn flood(port: u16, key: &str, client: usize, stop: &AtomicBool) -> BTreeMap<u16, u64> {
    // Made once: the clients are to take as little of the machine as they can.
    let items = (0..HOSTILE_ITEMS).map(|n| format!("{client}-{n}\n"));
    let body = items.collect::<String>();
    let requests = ["items?only_if_absent=true", "exists"].map(|path| {
        let length = body.len();
        format!(
            "POST /filters/hostile:f/{path} HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer {key}\r\n\
             content-type: text/plain\r\ncontent-length: {length}\r\n\r\n{body}"
        )
        .into_bytes()
    });
    let (mut wire, mut answers) = (Wire::from_elsewhere(port), BTreeMap::new());
    for round in 0.. {
        if stop.load(Ordering::Relaxed) {
            break;
        }
        // A connection that is closed in the middle is counted, too.
        let answer = wire.whole(&requests[round % 2]);
        let status = answer.map_or_else(
            |_| {
                wire = Wire::from_elsewhere(port);
                0
            },
            |answer| answer.status,
        );
        *answers.entry(status).or_insert(0) += 1;
    }
    answers
}

#[test]
fn those_who_behave_are_served_beside_a_flood() {
    let (data, keys) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let keys = keys.path().join("keys.json");
    let admin = add_key(&keys, "admin", &["--scope=admin"]);
    let polite = add_key(&keys, "polite", &["--scope=write", "--prefix=polite:"]);
    let hostile = ["--scope=write", "--export", "--prefix=hostile:"];
    let hostile = add_key(&keys, "hostile", &hostile);
    // The limits are the usual ones.
    let keys = format!("--keys-file={}", keys.display());
    let flags = [keys.as_str(), "--log=error"];
    let server = Server::start(data.path(), &flags).with_key(&admin);
    for filter in ["polite:f", "hostile:f"] {
        server.create_filter(filter, &json!({"capacity": 100_000, "expansion": 2}));
    }
    let http = client_with(Some(&polite));
    let capacity = capacity(&server, &http);
    let per_second = PART * capacity;
    let before = server.memory("VmHWM");
    let alone = Polite::ask(&server, &http, per_second);
    let stop = AtomicBool::new(false);
    let (beside, refused) = thread::scope(|scope| {
        let (port, hostile, stop) = (server.port(), hostile.as_str(), &stop);
        let flooding: Vec<_> = (0..HOSTILE)
            .map(|client| scope.spawn(move || flood(port, hostile, client, stop)))
            .collect();
        thread::sleep(BEFORE);
        let beside = Polite::ask(&server, &http, per_second);
        stop.store(true, Ordering::Relaxed);
        let mut answers = BTreeMap::new();
        for client in flooding {
            for (status, count) in client.join().unwrap() {
                *answers.entry(status).or_insert(0) += count;
            }
        }
        (beside, answers)
    });
    let after = server.memory("VmHWM");
    println!(
        "{}",
        json!({
            "test": "overload",
            "capacity_per_second": capacity.round(),
            "asked_per_second": per_second.round(),
            "hostile_clients": HOSTILE,
            "hostile_answers_by_status": refused,
            "alone": alone.figures(),
            "beside_the_flood": beside.figures(),
            "most_memory_mib": [before, after],
        })
    );
    let is_quiet = std::env::var_os("CUCKOOD_TEST_QUIET").is_some();
    let soon = if is_quiet { SOON } else { SOON_ON_ANY };
    assert!(alone.refused.is_empty());
    assert!(beside.served_within(soon) >= SERVED, "{}", beside.figures());
    assert!(after < before + MOST_MIB, "{before} MiB became {after} MiB");
    // Whoever is refused is told so on a connection that goes on.
    let told = |status: &u16| [200, 413, 429, 503].contains(status);
    assert!(refused.keys().all(told), "{refused:?}");
    // And when it is over, it is over.
    assert_eq!(server.get_json("/filters/polite:f")["key"], "polite:f");
    server.stop();
}
