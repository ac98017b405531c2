//! Shares of what waits for the disk, row by row of the table in
//! `docs/limits.md`: a filter is larger than the cache, the disk does not answer
//! the reads of one key, and another key is served from it.

use crate::gated::GatedStore;
use crate::memory::MemoryStore;
use crate::server::Setup;
use crate::tenants::{Raw, Reply, Tenants, create, send};
use std::ops::RangeInclusive;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::time::{sleep, timeout};

/// The greedy key waits for less time than the disk may be silent before
/// everyone who would wait for it is refused, however slow the machine is; and for
/// long enough that all its requests have come to the disk, or wait to, by then,
/// also if the machine stands still for seconds.
const GREEDY: &str = "text/plain\r\nprefer: wait=10";
const SILENCE: Duration = Duration::MAX;

/// How long anything else is waited for.
const PATIENCE: Duration = Duration::from_secs(60);

/// Threads that wait for the disk.
const THREADS: usize = 128;

/// Items that no other request has: on other pages, most of them.
fn lines(request: usize, items: usize) -> String {
    let first = 1_000_000 * request;
    (first..first + items).map(|n| format!("{n}\n")).collect()
}

fn asks(request: usize, items: usize) -> Raw {
    Raw::whole("POST /filters/g/exists", GREEDY, &lines(request, items))
}

fn adds(request: usize, items: usize) -> Raw {
    Raw::whole("POST /filters/g/items", GREEDY, &lines(request, items))
}

/// A few items, of the modest key.
fn few(action: &str) -> Raw {
    let line = format!("POST /filters/m/{action}");
    Raw::whole(&line, "text/plain", &lines(2000, 4))
}

/// A question of more than 64 KiB about few items.
fn long(filter: &str, media_type: &'static str, request: usize) -> Raw {
    let items = (0..5).map(|n| format!("{request} {n} {}\n", "x".repeat(20 << 10)));
    let line = format!("POST /filters/{filter}/exists");
    Raw::whole(&line, media_type, &items.collect::<String>())
}

struct Row {
    /// Reads that the disk does not answer.
    most_held: usize,
    /// How many of the requests of the greedy key such reads are for; an item
    /// lies on one page or two.
    held: RangeInclusive<usize>,
    requests: usize,
    greedy: fn(usize) -> Raw,
    /// What the other key asks, about the other filter.
    modest: fn() -> Raw,
}

/// Releases what is held also when the test fails: the runtime waits for it.
struct Opened<'a>(&'a GatedStore);

impl Drop for Opened<'_> {
    fn drop(&mut self) {
        self.0.open();
    }
}

/// All requests of the greedy key are in the hands of the server before the
/// modest one asks.
async fn serves_from_a_disk_that_hangs_for_one(mut setup: Setup, row: Row) {
    let store = GatedStore::new(Arc::new(MemoryStore::new()));
    setup.store = Arc::new(store.clone());
    setup.engine.lanes = 1;
    setup.engine.read_patience = SILENCE;
    setup.server.header_timeout = PATIENCE;
    let tenants = Tenants::with(setup).await;
    // Two filters, and large ones: who asks for a page that is being read waits
    // for that read.
    for name in ["g", "m"] {
        let large = create(name, 3_000_000_000);
        assert_eq!(tenants.answered(&tenants.greedy, &large).await.status, 201);
        let line = format!("POST /filters/{name}/items");
        let one = Raw::whole(&line, "text/plain", "one");
        assert_eq!(tenants.answered(&tenants.greedy, &one).await.status, 200);
    }

    let _opened = Opened(&store);
    store.hold_reads_of_one_filter(row.most_held);
    let mut greedy = Vec::new();
    for request in 0..row.requests {
        let request = (row.greedy)(request);
        greedy.push(send(&tenants.server, &tenants.greedy, &request).await);
    }
    let started = Instant::now();
    while store.held() < *row.held.start() {
        let held = store.held();
        assert!(started.elapsed() < PATIENCE, "{held} held");
        sleep(Duration::from_millis(10)).await;
    }
    // Some may still come, and are held, too.
    sleep(Duration::from_millis(200)).await;
    let served = tenants.answered(&tenants.modest, &(row.modest)()).await;
    assert_eq!(served.status, 200, "{}", served.body);
    // It did not wait for the greedy key's requests to end: none has an answer.
    for stream in &greedy {
        let came = timeout(Duration::from_millis(1), stream.peek(&mut [0])).await;
        assert!(came.is_err(), "served after the greedy key: {came:?}");
    }
    for mut stream in greedy {
        let late = timeout(PATIENCE, Reply::read(&mut stream)).await;
        late.unwrap().is_refused(503, "deadline_exceeded");
    }
    // Whoever would come past a bound has come by now.
    let held = store.held();
    assert!(row.held.contains(&held), "{held} held");
    // What they left behind ends when the disk answers.
    store.open();
    let again = tenants.answered(&tenants.greedy, &(row.greedy)(0)).await;
    assert_eq!(again.status, 200, "{}", again.body);
}

#[tokio::test]
async fn cold_reads() {
    let mut setup = Setup::default();
    setup.engine.max_cold_read_bytes = 64 * (8 << 10);
    let row = Row {
        most_held: usize::MAX,
        held: 2..=5,
        requests: 8,
        greedy: |n| asks(n, 8),
        modest: || few("exists"),
    };
    serves_from_a_disk_that_hangs_for_one(setup, row).await;
}

#[tokio::test]
async fn disk_threads() {
    let row = Row {
        most_held: usize::MAX,
        held: THREADS / 2 - 2..=THREADS / 2,
        requests: THREADS + 10,
        greedy: |n| asks(n, 1),
        modest: || few("exists"),
    };
    serves_from_a_disk_that_hangs_for_one(Setup::default(), row).await;
}

#[tokio::test]
async fn pinned_pages() {
    let row = Row {
        most_held: 1,
        held: 1..=1,
        requests: 6,
        greedy: |n| adds(n, 300),
        modest: || few("items"),
    };
    serves_from_a_disk_that_hangs_for_one(Setup::default(), row).await;
}

/// A large question that waits for the disk has given its turn to others.
#[tokio::test]
async fn turns_of_large_questions() {
    let cores = std::thread::available_parallelism().unwrap().get();
    let questions = 4 * cores.max(2);
    let row = Row {
        most_held: usize::MAX,
        held: questions..=questions,
        requests: questions,
        greedy: |n| long("g", GREEDY, n),
        modest: || long("m", "text/plain", 0),
    };
    serves_from_a_disk_that_hangs_for_one(Setup::default(), row).await;
}
