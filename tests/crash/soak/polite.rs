//! A well-behaved tenant: clients that send small requests when they are due,
//! whether the last ones were quick or not. Times count from when a request was
//! due, so that one that waits for the one before counts as slow as it is.

use crate::load::Life;
use crate::random::Random;
use crate::server::{Server, client_with, post_lines};
use reqwest::blocking::Client;
use serde_json::{Value, json};
use std::thread;
use std::time::{Duration, Instant};

/// Between two requests of a client.
const PERIOD: Duration = Duration::from_millis(50);

/// Items of a change, and of a question.
const ADDED: u64 = 5;
const ASKED: u64 = 10;

/// A tenth of a second is what people wait for without a thought.
const SOON: Duration = Duration::from_millis(100);

/// The part that is served as soon on a machine that does nothing else, and on
/// any; on that a tenth may take longer than the second time.
const SERVED_SOON: f64 = 0.95;
const LATE: Duration = Duration::from_secs(1);
const SERVED_LATE: f64 = 0.9;

pub(super) struct Polite {
    filter: String,
    client: Client,
    random: Random,
    /// Items from 0 that were acknowledged, but for those of the changes that were
    /// not answered.
    next: u64,
    unanswered: Vec<u64>,
    /// Changes that were not answered and took place, as the filter's items say.
    settled: u64,
    times: Vec<Duration>,
    found: u64,
    lost: u64,
}

impl Polite {
    pub(super) fn new(server: &Server, number: u64, key: &str, seed: u64) -> Polite {
        let filter = format!("polite:{number}");
        let fields = json!({"capacity": 1000, "fingerprint_bits": 32, "expansion": 2});
        server.create_filter(&filter, &fields);
        Polite {
            filter,
            client: client_with(Some(key)),
            random: Random(seed),
            next: 0,
            unanswered: Vec::new(),
            settled: 0,
            times: Vec::new(),
            found: 0,
            lost: 0,
        }
    }

    pub(super) fn work(&mut self, base: &str, life: &Life) {
        let url = format!("{base}/filters/{}", self.filter);
        let mut due = Instant::now();
        while !life.is_over() {
            thread::sleep(due.saturating_duration_since(Instant::now()));
            let answered = match self.random.below(2) {
                0 => self.add(&url),
                _ => self.ask(&url, ASKED),
            };
            if !answered {
                assert!(life.is_over(), "a request failed while the server was up");
                return;
            }
            self.times.push(due.elapsed());
            due += PERIOD;
        }
    }

    fn names(items: impl Iterator<Item = u64>) -> Vec<String> {
        items.map(|item| format!("polite item {item}")).collect()
    }

    fn add(&mut self, url: &str) -> bool {
        let first = self.next;
        self.next += ADDED;
        let names = Polite::names(first..self.next);
        let Some(added) = post_lines(&self.client, &format!("{url}/items"), &names) else {
            self.unanswered.push(first);
            return false;
        };
        assert!(added.iter().all(|result| result == "added"), "{added:?}");
        true
    }

    /// Asks for items that were acknowledged.
    fn ask(&mut self, url: &str, items: u64) -> bool {
        if self.next == 0 {
            return true;
        }
        let mut asked = Vec::new();
        for _ in 0..items {
            asked.push(self.random.below(self.next));
        }
        asked.retain(|item| self.is_acknowledged(*item));
        self.ask_for(url, &asked)
    }

    fn is_acknowledged(&self, item: u64) -> bool {
        !self.unanswered.contains(&(item - item % ADDED))
    }

    fn ask_for(&mut self, url: &str, asked: &[u64]) -> bool {
        let names = Polite::names(asked.iter().copied());
        let Some(found) = post_lines(&self.client, &format!("{url}/exists"), &names) else {
            return false;
        };
        let there = found.iter().filter(|found| *found == "true").count() as u64;
        self.found += there;
        self.lost += asked.len() as u64 - there;
        assert_eq!(there, asked.len() as u64, "{} has lost items", self.filter);
        true
    }

    /// After a restart: everything acknowledged is there, and nothing more but for
    /// what was sent last and not answered.
    pub(super) fn verify(&mut self, server: &Server) {
        let items = server.items(&self.filter);
        let acknowledged = self.next - ADDED * self.unanswered.len() as u64;
        let settled = items - acknowledged - self.settled;
        assert!(settled == 0 || settled == ADDED, "{items} {acknowledged}");
        self.settled += settled;
        let url = server.url(&format!("/filters/{}", self.filter));
        let all: Vec<u64> = (0..self.next)
            .filter(|it| self.is_acknowledged(*it))
            .collect();
        for asked in all.chunks(5_000) {
            assert!(self.ask_for(&url, asked));
        }
    }

    pub(super) fn forget_times(&mut self) {
        self.times.clear();
    }

    pub(super) fn leave(&self, server: &Server) {
        super::hostile::remove(server, &self.filter);
    }
}

fn times(polite: &[Polite]) -> Vec<Duration> {
    let mut times: Vec<Duration> = polite.iter().flat_map(|it| it.times.clone()).collect();
    times.sort_unstable();
    times
}

/// The part of them that took no longer.
fn within(times: &[Duration], longest: Duration) -> f64 {
    times.partition_point(|it| *it <= longest) as f64 / times.len() as f64
}

/// The times since they were forgotten.
pub(super) fn figures(polite: &[Polite]) -> Value {
    let times = times(polite);
    let ms = |thousandths: usize| {
        let time = times[(times.len() - 1) * thousandths / 1000];
        (time.as_secs_f64() * 1e5).round() / 100.0
    };
    json!({
        "requests": times.len(),
        "ms_p50": ms(500),
        "ms_p95": ms(950),
        "ms_p99": ms(990),
        "ms_p999": ms(999),
        "ms_most": ms(1000),
        "served_within_100_ms": (within(&times, SOON) * 1e4).round() / 1e4,
        "items_found": polite.iter().map(|it| it.found).sum::<u64>(),
        "items_lost": polite.iter().map(|it| it.lost).sum::<u64>(),
    })
}

pub(super) fn assert_served(polite: &[Polite]) {
    let times = times(polite);
    let (longest, least) = match std::env::var_os("CUCKOOD_TEST_QUIET") {
        Some(_) => (SOON, SERVED_SOON),
        None => (LATE, SERVED_LATE),
    };
    let part = within(&times, longest);
    assert!(
        part >= least,
        "{part} within {longest:?}: {}",
        figures(polite)
    );
}
