//! Shares of API keys, row by row of the table in `docs/limits.md`: one key takes
//! all that it can, another is served.
//!
//! What is held is held by requests that do not end: a body that stops coming,
//! an answer that is not read.

use crate::gated::{GatedStore, Point};
use crate::memory::MemoryStore;
use crate::server::{Server, Setup};
use crate::tenants::{Raw, Reply, SERVED, Tenants, restarted, send};
use cuckood::access::token::Token;
use serde_json::json;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::time::{sleep, timeout};

/// A row: what holds something of a resource, and what needs a little of it.
struct Row {
    /// As metrics name it.
    resource: &'static str,
    /// The n-th request of the key that takes all it can.
    takes: fn(usize) -> Raw,
    /// Whether such a request is answered at once, and holds until it is read.
    is_answer: bool,
    /// What the other key asks meanwhile, and gets.
    needs: Box<dyn Fn() -> Raw>,
}

/// The greedy key takes until it is refused, and then the modest one is served:
/// as the greedy one's first request was.
async fn holds(setup: Setup, row: Row) {
    let tenants = Tenants::with(setup).await;
    // Its dump is to be larger than what sockets hold.
    let fields = r#"{"capacity": 1500000, "fingerprint_bits": 32}"#;
    let create = Raw::whole("PUT /filters/g", "application/json", fields);
    assert_eq!(tenants.answered(&tenants.greedy, &create).await.status, 201);
    if row.resource == "downloads" {
        for first in (0..MANY).step_by(100_000) {
            let lines: String = (first..first + 100_000).map(|n| format!("{n}\n")).collect();
            let add = Raw::whole("POST /filters/g/items", "text/plain", &lines);
            assert_eq!(tenants.answered(&tenants.greedy, &add).await.status, 200);
        }
    }
    let mut held = Vec::new();
    let refused = loop {
        assert!(held.len() < 100, "{}: it is never refused", row.resource);
        let request = (row.takes)(held.len());
        match row.is_answer {
            false => match tenants.ask(&tenants.greedy, &request, row.resource).await {
                Ok(reply) => break reply,
                Err(stream) => held.push(stream),
            },
            true => {
                let mut stream = send(&tenants.server, &tenants.greedy, &request).await;
                let reply = Reply::read(&mut stream).await;
                if reply.status != 200 {
                    break reply;
                }
                held.push(stream);
            }
        }
    };
    refused.is_refused(429, "over_share");
    assert!(held.len() > 1, "{}: {}", row.resource, held.len());
    assert!(tenants.refusals(row.resource, "share") > 0);
    let started = Instant::now();
    for _ in 0..3 {
        let served = tenants.answered(&tenants.modest, &(row.needs)()).await;
        let body = &served.body;
        assert!(
            (200..300).contains(&served.status),
            "{}: {body}",
            row.resource
        );
    }
    assert!(started.elapsed() < 3 * SERVED, "{:?}", started.elapsed());
    assert_eq!(tenants.refusals(row.resource, "bound"), 0);
    // What is let go of is there again.
    drop(held);
    let started = Instant::now();
    while !(200..300).contains(
        &tenants
            .answered(&tenants.greedy, &(row.needs)())
            .await
            .status,
    ) {
        assert!(started.elapsed() < Duration::from_secs(20));
        sleep(Duration::from_millis(20)).await;
    }
}

/// Filters in compaction at the same time.
const MOST_COMPACTIONS: usize = 64;

/// Items enough for an answer, or for a dump, that sockets don't hold.
const MANY: usize = 1_200_000;

fn roomy() -> Setup {
    let mut setup = Setup::default();
    setup.engine.max_queued_items = 2 * MANY;
    setup.engine.cache_bytes = 64 << 20;
    setup.engine.lanes = 1;
    setup.limits.max_batch_items = MANY;
    setup.limits.max_buffered_bytes = 128 << 20;
    setup
}

fn question() -> Raw {
    Raw::whole("POST /filters/g/exists", "text/plain", "one")
}

#[tokio::test]
async fn request_places() {
    let mut setup = Setup::default();
    setup.limits.max_in_flight = 8;
    let row = Row {
        resource: "requests",
        takes: |_| Raw::part("POST /filters/g/exists", "text/plain", "a", 9),
        is_answer: false,
        needs: Box::new(question),
    };
    holds(setup, row).await;
}

#[tokio::test]
async fn places_of_changes() {
    let mut setup = Setup::default();
    setup.limits.max_in_flight = 8;
    let row = Row {
        resource: "changes",
        takes: |_| Raw::part("POST /filters/g/items", "text/plain", "a", 9),
        is_answer: false,
        needs: Box::new(|| Raw::whole("POST /filters/g/items", "text/plain", "one")),
    };
    holds(setup, row).await;
}

#[tokio::test]
async fn memory_of_bodies() {
    let mut setup = Setup::default();
    setup.limits.max_body_bytes = 128 << 10;
    setup.limits.max_buffered_bytes = 512 << 10;
    let row = Row {
        resource: "bodies",
        takes: |_| {
            let most = "x".repeat(60 << 10);
            Raw::part("POST /filters/g/exists", "text/plain", &most, 100 << 10)
        },
        is_answer: false,
        needs: Box::new(|| {
            let large = "x".repeat(50 << 10);
            Raw::whole("POST /filters/g/exists", "text/plain", &large)
        }),
    };
    holds(setup, row).await;
}

#[tokio::test]
async fn memory_of_answers() {
    // A quarter of what bodies may take is for answers.
    let setup = roomy();
    let row = Row {
        resource: "answers",
        takes: |_| {
            let items = "x\n".repeat(MANY);
            Raw::whole("POST /filters/g/exists", "text/plain", &items)
        },
        is_answer: true,
        needs: Box::new(|| {
            let items = "x\n".repeat(20_000);
            Raw::whole("POST /filters/g/exists", "text/plain", &items)
        }),
    };
    holds(setup, row).await;
}

#[tokio::test]
async fn imports_that_run() {
    let mut setup = Setup::default();
    setup.limits.max_buffered_bytes = 64 << 20;
    let row = Row {
        resource: "imports",
        takes: |n| {
            let line = format!("POST /filters/g/import?import_id=greedy-{n}");
            Raw::part(&line, "text/plain", "abc", 100)
        },
        is_answer: false,
        needs: Box::new(|| {
            Raw::whole("POST /filters/g/import?import_id=modest", "text/plain", "x")
        }),
    };
    holds(setup, row).await;
}

#[tokio::test]
async fn downloads() {
    let row = Row {
        resource: "downloads",
        takes: |_| Raw::whole("GET /filters/g/dump", "text/plain", ""),
        is_answer: true,
        needs: Box::new(|| Raw::whole("GET /filters/g/dump", "text/plain", "")),
    };
    holds(roomy(), row).await;
}

#[tokio::test]
async fn restores() {
    // A whole dump is taken in meanwhile.
    let server = Server::start().await;
    let made = server.put("/filters/f", json!({"capacity": 100})).await;
    assert_eq!(made.status, 201);
    let dump = server.get("/filters/f/dump").await.bytes;
    let line = "PUT /filters/m/dump?replace=true";
    let row = Row {
        resource: "restores",
        takes: |n| {
            let line = format!("PUT /filters/new-{n}/dump");
            Raw::part(&line, "application/octet-stream", "abc", 100)
        },
        is_answer: false,
        needs: Box::new(move || Raw::whole(line, "application/octet-stream", &dump)),
    };
    holds(Setup::default(), row).await;
}

/// The changes of one key wait for a commit that takes a while; those of another
/// find room behind it, and are done.
async fn waits_in_the_queue(setup: Setup, resource: &str, lines: usize, held: usize) {
    let store = GatedStore::new(Arc::new(MemoryStore::new()));
    let mut setup = Setup {
        store: Arc::new(store.clone()),
        ..setup
    };
    setup.engine.lanes = 1;
    let tenants = Tenants::with(setup).await;
    let create = Raw::whole("PUT /filters/g", "application/json", "{}");
    assert_eq!(tenants.answered(&tenants.greedy, &create).await.status, 201);
    store.hold_first(Point::CommitDone);
    let items: String = (0..lines).map(|n| format!("{n}\n")).collect();
    let add = Raw::whole("POST /filters/g/items", "text/plain", &items);
    let mut waiting = Vec::new();
    let refused = loop {
        assert!(waiting.len() < 20, "{resource}: it is never refused");
        match tenants.ask(&tenants.greedy, &add, resource).await {
            Ok(reply) => break reply,
            Err(stream) => waiting.push(stream),
        }
    };
    refused.is_refused(429, "over_share");
    assert_eq!(waiting.len(), held, "{resource}");
    let one = Raw::whole("POST /filters/g/items", "text/plain", "one");
    let mut modest = send(&tenants.server, &tenants.modest, &one).await;
    sleep(Duration::from_millis(100)).await;
    store.open();
    let started = Instant::now();
    let served = timeout(SERVED, Reply::read(&mut modest)).await;
    assert_eq!(served.expect("an answer in time").status, 200);
    assert!(started.elapsed() < SERVED);
    for mut stream in waiting {
        assert_eq!(Reply::read(&mut stream).await.status, 200);
    }
}

#[tokio::test]
async fn changes_that_wait() {
    let mut setup = Setup::default();
    setup.engine.max_queued_commands = 8;
    waits_in_the_queue(setup, "queued_commands", 1, 4).await;
}

#[tokio::test]
async fn items_that_wait() {
    let mut setup = Setup::default();
    setup.engine.max_queued_items = 1000;
    waits_in_the_queue(setup, "queued_items", 200, 2).await;
}

/// A filter of several sub-filters, most of whose items are deleted again.
async fn has_shrunk(tenants: &Tenants, key: &Token, filter: &str) {
    let fields = r#"{"layout": "classic", "capacity": 8, "bucket_size": 2, "expansion": 1}"#;
    let create = Raw::whole(
        &format!("PUT /filters/{filter}"),
        "application/json",
        fields,
    );
    assert_eq!(tenants.answered(key, &create).await.status, 201);
    let items: String = (0..60).map(|n| format!("{n}\n")).collect();
    for (action, items) in [("items", &items[..]), ("items/delete", &items[..100])] {
        let line = format!("POST /filters/{filter}/{action}");
        let change = Raw::whole(&line, "text/plain", items);
        assert_eq!(tenants.answered(key, &change).await.status, 200);
    }
}

#[tokio::test]
async fn compactions() {
    let store = GatedStore::new(Arc::new(MemoryStore::new()));
    let setup = || {
        let mut setup = Setup::over(&store);
        setup.engine.compaction_threshold_percent = 0;
        setup.engine.read_patience = Duration::MAX;
        setup
    };
    let tenants = Tenants::with(setup()).await;
    for n in 0..MOST_COMPACTIONS {
        has_shrunk(&tenants, &tenants.greedy, &format!("g{n}")).await;
    }
    has_shrunk(&tenants, &tenants.modest, "m").await;
    // Their pages come from the disk, which does not answer.
    let tenants = restarted(tenants, setup()).await;
    store.hold(Point::ReadDone, usize::MAX);
    let compact =
        |filter: &str| Raw::whole(&format!("POST /filters/{filter}/compact"), "text/plain", "");
    let mut begun = 0;
    let refused = loop {
        assert!(begun < MOST_COMPACTIONS, "it is never refused");
        let compact = compact(&format!("g{begun}"));
        let reply = tenants.answered(&tenants.greedy, &compact).await;
        if reply.status != 202 {
            break reply;
        }
        begun += 1;
    };
    refused.is_refused(503, "overloaded");
    assert_eq!(begun, MOST_COMPACTIONS / 2);
    assert_eq!(
        tenants.server.metrics.compactions_running.get(),
        begun as i64
    );
    let served = tenants.answered(&tenants.modest, &compact("m")).await;
    assert_eq!(served.status, 202, "{}", served.body);
    assert!(tenants.refusals("compactions", "share") > 0);
    assert_eq!(tenants.refusals("compactions", "bound"), 0);
    store.open();
}
