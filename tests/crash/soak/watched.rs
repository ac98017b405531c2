//! What the server takes of the machine while it lives, and what it has done.

use crate::server::Server;
use serde_json::{Value, json};
use std::thread;
use std::time::{Duration, Instant};

/// Between two looks.
const EVERY: Duration = Duration::from_millis(500);

/// How much more the last third may have than the one before: what the storage
/// engine holds goes up and down with its files. In the first minutes of a life
/// its buffers fill.
const MORE_MIB: u64 = 32;
const MORE_MIB_AT_FIRST: u64 = 96;
const AT_FIRST: Duration = Duration::from_secs(300);
const MORE_DESCRIPTORS: u64 = 32;

/// Most memory and descriptors at all, with the bounds that the server has here.
const MOST_MIB: u64 = 768;
const MOST_DESCRIPTORS: u64 = 1024;

/// What must have happened for the test to mean something.
const COUNTERS: [&str; 6] = [
    "cuckood_cache_evictions_total",
    "cuckood_compactions_total{outcome=\"done\"}",
    "cuckood_compaction_entries_total",
    "cuckood_filters_expired_total",
    "cuckood_checkpoint_pages_total",
    "cuckood_page_reads_total{source=\"store\"}",
];

/// Memory in MiB and descriptors, of the two halves of a life.
#[derive(Default)]
pub(super) struct Watched {
    halves: [Vec<(u64, u64)>; 2],
    took: Duration,
}

impl Watched {
    /// Watches a server until then.
    pub(super) fn watch(&mut self, server: &Server, ends: Instant) {
        let begun = Instant::now();
        let middle = begun + (ends - begun) / 2;
        while Instant::now() < ends {
            let half = usize::from(Instant::now() >= middle);
            let looked = (server.memory("VmRSS"), server.descriptors());
            self.halves[half].push(looked);
            thread::sleep(EVERY);
        }
        self.took = begun.elapsed();
    }

    fn most(&self, half: usize) -> (u64, u64) {
        let looked = &self.halves[half];
        let memory = looked.iter().map(|it| it.0).max().unwrap();
        (memory, looked.iter().map(|it| it.1).max().unwrap())
    }

    fn medians(&self, half: usize) -> (u64, u64) {
        let median = |of: fn(&(u64, u64)) -> u64| {
            let mut looked: Vec<u64> = self.halves[half].iter().map(of).collect();
            looked.sort_unstable();
            looked[looked.len() / 2]
        };
        (median(|it| it.0), median(|it| it.1))
    }

    pub(super) fn figures(&self) -> Value {
        let third = |half: usize| {
            let (most, medians) = (self.most(half), self.medians(half));
            json!({
                "looks": self.halves[half].len(),
                "memory_mib_most": most.0,
                "memory_mib_median": medians.0,
                "descriptors_most": most.1,
                "descriptors_median": medians.1,
            })
        };
        json!({"middle_third": third(0), "last_third": third(1)})
    }

    /// That nothing grows.
    pub(super) fn assert_flat(&self) {
        let more = match self.took < AT_FIRST {
            true => MORE_MIB_AT_FIRST,
            false => MORE_MIB,
        };
        let (before, after) = (self.most(0), self.most(1));
        assert!(after.0 <= before.0 + more, "{}", self.figures());
        assert!(after.1 <= before.1 + MORE_DESCRIPTORS, "{}", self.figures());
        let (before, after) = (self.medians(0), self.medians(1));
        assert!(after.0 <= before.0 + more, "{}", self.figures());
        let most = self.most(0).max(self.most(1));
        assert!(most.0 <= MOST_MIB, "{}", self.figures());
        assert!(most.1 <= MOST_DESCRIPTORS, "{}", self.figures());
    }
}

/// What the server has counted.
pub(super) fn counters(server: &Server) -> Value {
    let counted = COUNTERS.map(|name| (name.to_owned(), json!(server.metric(name))));
    Value::Object(counted.into_iter().collect())
}
