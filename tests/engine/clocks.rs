//! The wall clock against the time since the machine's start: what ends filters,
//! what does not, and what is said of it.

use crate::listening::heard;
use crate::memory::MemoryStore;
use crate::support::{name, options};
use cuckood::engine::{Clock, ClockState, Engine, EngineError, EngineOptions, NewFilter};
use cuckood::metrics::Metrics;
use cuckood::store::PageStore;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

const START_MS: u64 = 1_800_000_000_000;
const HOUR: u64 = 3600;
const DAY: u64 = 24 * HOUR;

/// Longer than it takes until the engine looks at the clocks again, twice.
const TWO_LOOKS: Duration = Duration::from_millis(1200);

const JUMPED: &str =
    "the system's clock has jumped ahead: no filter ends by it until it is put right, or confirmed";
const BELIEVED: &str = "the system's clock is believed again";
const ENDED: &str = "filters have ended while the server did not run, by the system's clock";

/// A machine whose clocks stand until they are moved, and what it stores.
struct Machine {
    wall_ms: Arc<AtomicU64>,
    since_boot_ms: Arc<AtomicU64>,
    memory: MemoryStore,
}

struct Running {
    engine: Engine,
    metrics: Arc<Metrics>,
}

impl Machine {
    fn new() -> Machine {
        Machine {
            wall_ms: Arc::new(AtomicU64::new(START_MS)),
            since_boot_ms: Arc::new(AtomicU64::new(HOUR * 1000)),
            memory: MemoryStore::new(),
        }
    }

    fn set_ahead(&self, seconds: u64) {
        self.wall_ms.fetch_add(seconds * 1000, Ordering::SeqCst);
    }

    fn set_back(&self, seconds: u64) {
        self.wall_ms.fetch_sub(seconds * 1000, Ordering::SeqCst);
    }

    /// Time passes, by both clocks.
    fn pass(&self, seconds: u64) {
        self.set_ahead(seconds);
        self.since_boot_ms
            .fetch_add(seconds * 1000, Ordering::SeqCst);
    }

    fn start(&self) -> Running {
        crate::listening::listen();
        let options = EngineOptions {
            clock: Clock::Both {
                wall_ms: Arc::clone(&self.wall_ms),
                since_boot_ms: Arc::clone(&self.since_boot_ms),
            },
            ..options(512)
        };
        let store = PageStore::open(Arc::new(self.memory.clone())).unwrap();
        let metrics = Arc::new(Metrics::new().unwrap());
        let engine = Engine::open(Arc::new(store), &options, Arc::clone(&metrics)).unwrap();
        Running { engine, metrics }
    }
}

impl Running {
    fn stop(self) {
        tokio::task::block_in_place(|| self.engine.shutdown().unwrap());
    }

    async fn create(&self, filter: &str, ttl_seconds: u64) {
        let ending = NewFilter {
            ttl_seconds: Some(ttl_seconds),
            ..NewFilter::default()
        };
        let filter = name(filter);
        let created = self.engine.create_filter(&filter, &ending, None).await;
        created.unwrap();
    }

    async fn has(&self, filter: &str) -> bool {
        match self.engine.filter_info(&name(filter)).await {
            Ok(_) => true,
            Err(EngineError::NotFound { .. }) => false,
            Err(error) => panic!("{error}"),
        }
    }

    async fn wait_for(&self, what: &str, mut is_so: impl FnMut(&Metrics) -> bool) {
        let began = Instant::now();
        while !is_so(&self.metrics) {
            assert!(began.elapsed() < Duration::from_secs(60), "{what}");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    /// What the metrics say: seconds of the jump, jumps, and filters that ended
    /// while nothing ran.
    fn told(&self) -> (i64, u64, i64) {
        let metrics = &self.metrics;
        (
            metrics.clock_jump_seconds.get(),
            metrics.clock_jumps.get(),
            metrics.ended_while_stopped.get(),
        )
    }

    fn clock(&self) -> ClockState {
        self.engine.clock()
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_jump_is_counted_and_said_once_however_often_it_is_looked_at() {
    let machine = Machine::new();
    let running = machine.start();
    running.create("f", HOUR).await;
    // No other test has a jump of so many seconds.
    let jump = DAY + 11;
    machine.set_ahead(jump);
    running
        .wait_for("no jump", |it| it.clock_jumps.get() == 1)
        .await;
    let lines = || heard(JUMPED, "seconds", &jump.to_string());
    tokio::time::sleep(TWO_LOOKS).await;
    assert_eq!(running.told(), (jump as i64, 1, 0));
    assert_eq!(lines().len(), 1);
    assert_eq!(lines()[0]["level"], "ERROR");
    assert!(running.has("f").await);
    assert_eq!(running.clock().now_ms, START_MS);
    // Confirmed, it ends the filter, once.
    assert_eq!(running.engine.confirm_clock().jump_ms, None);
    assert!(!running.has("f").await);
    running
        .wait_for("it is not removed", |it| it.filters_expired.get() == 1)
        .await;
    assert_eq!(running.told(), (0, 1, 0));
    assert!(!heard(BELIEVED, "level", "INFO").is_empty());
    // Another jump is another one.
    machine.set_ahead(DAY);
    running
        .wait_for("no second jump", |it| it.clock_jumps.get() == 2)
        .await;
    machine.set_back(DAY);
    running
        .wait_for("it stays", |it| it.clock_jump_seconds.get() == 0)
        .await;
    tokio::time::sleep(TWO_LOOKS).await;
    assert_eq!(running.told(), (0, 2, 0));
    running.stop();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn silence_is_no_jump_and_ends_what_is_due() {
    let machine = Machine::new();
    let running = machine.start();
    running.create("short", HOUR).await;
    running.create("long", 2 * DAY).await;
    // As a machine that was suspended for a day.
    machine.pass(DAY);
    assert!(!running.has("short").await);
    assert!(running.has("long").await);
    running
        .wait_for("it is not removed", |it| it.filters_expired.get() == 1)
        .await;
    tokio::time::sleep(TWO_LOOKS).await;
    assert_eq!(running.told(), (0, 0, 0));
    assert_eq!(running.clock().now_ms, START_MS + DAY * 1000);
    running.stop();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_clock_that_is_set_back_ends_nothing_and_is_no_jump() {
    let machine = Machine::new();
    let running = machine.start();
    running.create("f", HOUR).await;
    machine.set_back(DAY);
    tokio::time::sleep(TWO_LOOKS).await;
    machine.pass(DAY + HOUR - 1);
    assert!(running.has("f").await);
    // Forward to where it was, it comes to no jump either.
    tokio::time::sleep(TWO_LOOKS).await;
    assert_eq!(running.told(), (0, 0, 0));
    assert_eq!(running.metrics.filters_expired.get(), 0);
    machine.pass(1);
    assert!(!running.has("f").await);
    running.stop();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn across_a_restart_the_wall_clock_is_believed_and_what_it_ends_is_told() {
    let machine = Machine::new();
    let running = machine.start();
    // As many as no other test ends so.
    let ending = 7;
    for n in 0..ending {
        running.create(&format!("f{n}"), HOUR + n).await;
    }
    running.create("stays", 2 * DAY).await;
    running.stop();
    machine.set_ahead(DAY);
    machine.since_boot_ms.fetch_add(1000, Ordering::SeqCst);
    let running = machine.start();
    assert_eq!(running.told(), (0, 0, ending as i64));
    assert_eq!(running.clock().jump_ms, None);
    for n in 0..ending {
        assert!(!running.has(&format!("f{n}")).await);
    }
    assert!(running.has("stays").await);
    let lines = heard(ENDED, "filters", &ending.to_string());
    assert_eq!(lines.len(), 1);
    assert_eq!(lines[0]["level"], "WARN");
    running
        .wait_for("they are not removed", |it| {
            it.filters_expired.get() == ending
        })
        .await;
    tokio::time::sleep(TWO_LOOKS).await;
    assert_eq!(running.told(), (0, 0, ending as i64));
    running.stop();
    // The next start has nothing to tell.
    let running = machine.start();
    assert_eq!(running.told(), (0, 0, 0));
    running.stop();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_clock_that_is_set_back_across_a_restart_ends_nothing() {
    let machine = Machine::new();
    let running = machine.start();
    running.create("f", HOUR).await;
    running.stop();
    machine.set_back(DAY);
    let running = machine.start();
    tokio::time::sleep(TWO_LOOKS).await;
    assert!(running.has("f").await);
    assert_eq!(running.told(), (0, 0, 0));
    assert_eq!(running.clock().jump_ms, None);
    assert_eq!(running.metrics.filters_expired.get(), 0);
    running.stop();
}
