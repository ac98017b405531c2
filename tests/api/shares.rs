//! Shares of API keys, row by row of the table in `docs/limits.md`: one key takes
//! all that it can, another is served.
//!
//! What is held is held by requests that do not end: a body that stops coming,
//! an answer that is not read.

use crate::gated::{GatedStore, Point};
use crate::server::{Server, Setup};
use cuckood::access::keys::ApiKeys;
use cuckood::access::token::Token;
use cuckood::access::{Scope, file};
use cuckood::store::memory::MemoryStore;
use serde_json::Value;
use std::sync::Arc;
use std::time::{Duration, Instant, UNIX_EPOCH};
use tempfile::TempDir;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpSocket, TcpStream};
use tokio::time::{sleep, timeout};

/// When a request that was not refused counts as one that holds something.
const HOLDS: Duration = Duration::from_millis(400);

/// Within which time the other key is served; a busy machine needs some of it.
const SERVED: Duration = Duration::from_secs(3);

/// A server with two keys for different people.
struct Tenants {
    server: Server,
    greedy: Token,
    modest: Token,
    _folder: TempDir,
}

impl Tenants {
    async fn with(mut setup: Setup) -> Tenants {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("keys.json");
        let [greedy, modest] = ["greedy", "modest"].map(|name| {
            let name = name.parse().unwrap();
            file::add(&path, file::NewKey::new(name, Scope::Admin), UNIX_EPOCH).unwrap()
        });
        setup.keys = Some(Arc::new(ApiKeys::open(&path, None).unwrap()));
        Tenants {
            server: Server::with(setup).await,
            greedy,
            modest,
            _folder: folder,
        }
    }

    /// Sends a request that is not to be answered, and the answer if it is
    /// refused.
    async fn ask(&self, key: &Token, request: &Raw, resource: &str) -> Result<Reply, TcpStream> {
        let mut stream = send(&self.server, key, request).await;
        let started = Instant::now();
        while started.elapsed() < HOLDS {
            if self.refusals(resource, "share") > 0 {
                // The rest of its body is waited for.
                return Ok(Reply::read(&mut stream).await);
            }
            sleep(Duration::from_millis(10)).await;
        }
        Err(stream)
    }

    async fn answered(&self, key: &Token, request: &Raw) -> Reply {
        let mut stream = send(&self.server, key, request).await;
        let reply = timeout(Duration::from_secs(20), Reply::read(&mut stream)).await;
        reply.expect("an answer in time")
    }

    fn refusals(&self, resource: &str, by: &str) -> u64 {
        let family = &self.server.metrics.resource_refusals;
        family.with_label_values(&[resource, by]).get()
    }
}

/// A request, of which maybe not all is sent.
struct Raw {
    line: String,
    media_type: &'static str,
    length: usize,
    sent: String,
}

impl Raw {
    fn whole(line: &str, media_type: &'static str, body: &str) -> Raw {
        Raw::part(line, media_type, body, body.len())
    }

    fn part(line: &str, media_type: &'static str, sent: &str, length: usize) -> Raw {
        Raw {
            line: line.to_owned(),
            media_type,
            length,
            sent: sent.to_owned(),
        }
    }
}

async fn send(server: &Server, key: &Token, request: &Raw) -> TcpStream {
    // A small buffer: what is not read stays with the server.
    let socket = TcpSocket::new_v4().unwrap();
    socket.set_recv_buffer_size(4096).unwrap();
    let mut stream = socket.connect(server.address).await.unwrap();
    let text = format!(
        "{} HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer {}\r\ncontent-type: {}\r\ncontent-length: {}\r\n\r\n{}",
        request.line,
        key.as_str(),
        request.media_type,
        request.length,
        request.sent
    );
    stream.write_all(text.as_bytes()).await.unwrap();
    stream
}

struct Reply {
    status: u16,
    head: String,
    /// As much of it as came with the head.
    body: String,
}

impl Reply {
    async fn read(stream: &mut TcpStream) -> Reply {
        let mut bytes = Vec::new();
        while !bytes.windows(4).any(|four| four == b"\r\n\r\n") {
            let read = stream.read_buf(&mut bytes).await.unwrap();
            assert!(read > 0, "closed without an answer");
        }
        let text = String::from_utf8_lossy(&bytes).into_owned();
        let (head, _) = text.split_once("\r\n\r\n").unwrap();
        let is_problem = head.contains("application/problem+json");
        let body_at = head.len() + 4;
        while is_problem && !bytes[body_at..].ends_with(b"\n") {
            let read = stream.read_buf(&mut bytes).await.unwrap();
            assert!(read > 0, "closed in the middle of an answer");
        }
        let body = String::from_utf8_lossy(&bytes[body_at..]);
        Reply {
            status: head[9..12].parse().unwrap(),
            head: head.to_ascii_lowercase(),
            body: body.into_owned(),
        }
    }

    #[track_caller]
    fn is_refused(&self, status: u16, code: &str) {
        assert_eq!(self.status, status, "{} {}", self.head, self.body);
        let problem: Value = serde_json::from_str(self.body.trim()).unwrap();
        assert_eq!(problem["code"], code, "{problem}");
        let retries = self.head.contains("\r\nretry-after: 1");
        assert_eq!(retries, status != 507, "{}", self.head);
    }
}

/// A row: what holds something of a resource, and what needs a little of it.
struct Row {
    /// As metrics name it.
    resource: &'static str,
    /// The n-th request of the key that takes all it can.
    takes: fn(usize) -> Raw,
    /// Whether such a request is answered at once, and holds until it is read.
    is_answer: bool,
    /// What the other key asks meanwhile, and gets.
    needs: fn() -> Raw,
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
        needs: question,
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
        needs: || {
            let large = "x".repeat(50 << 10);
            Raw::whole("POST /filters/g/exists", "text/plain", &large)
        },
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
        needs: || {
            let items = "x\n".repeat(20_000);
            Raw::whole("POST /filters/g/exists", "text/plain", &items)
        },
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
        needs: || Raw::whole("POST /filters/g/import?import_id=modest", "text/plain", "x"),
    };
    holds(setup, row).await;
}

#[tokio::test]
async fn downloads() {
    let row = Row {
        resource: "downloads",
        takes: |_| Raw::whole("GET /filters/g/dump", "text/plain", ""),
        is_answer: true,
        needs: || Raw::whole("GET /filters/g/dump", "text/plain", ""),
    };
    holds(roomy(), row).await;
}

#[tokio::test]
async fn restores() {
    let row = Row {
        resource: "restores",
        takes: |n| {
            let line = format!("PUT /filters/new-{n}/dump");
            Raw::part(&line, "application/octet-stream", "abc", 100)
        },
        is_answer: false,
        needs: question,
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

/// With the keys and the store of before.
async fn restarted(tenants: Tenants, setup: Setup) -> Tenants {
    let Tenants {
        server,
        greedy,
        modest,
        _folder,
    } = tenants;
    server.stop().await;
    let keys = ApiKeys::open(&_folder.path().join("keys.json"), None).unwrap();
    let keys = Some(Arc::new(keys));
    Tenants {
        server: Server::with(Setup { keys, ..setup }).await,
        greedy,
        modest,
        _folder,
    }
}

fn create(name: &str, capacity: u64) -> Raw {
    let fields = format!(r#"{{"capacity": {capacity}, "fingerprint_bits": 8}}"#);
    Raw::whole(&format!("PUT /filters/{name}"), "application/json", &fields)
}

#[tokio::test]
async fn filters_of_a_key() {
    let store = Arc::new(MemoryStore::new());
    let setup = || {
        let mut setup = Setup {
            store: store.clone(),
            ..Setup::default()
        };
        setup.engine.defaults.max_filters_per_key = Some(3);
        setup
    };
    // One that was made before there were keys is nobody's.
    let before = Server::with(setup()).await;
    before.put("/filters/old", serde_json::json!({})).await.ok();
    before.stop().await;

    let mut tenants = Tenants::with(setup()).await;
    for n in 0..3 {
        let filter = create(&format!("g{n}"), 1000);
        assert_eq!(tenants.answered(&tenants.greedy, &filter).await.status, 201);
    }
    for _ in 0..2 {
        let more = create("more", 1000);
        let refused = tenants.answered(&tenants.greedy, &more).await;
        refused.is_refused(507, "over_key_quota");
        assert!(
            refused.body.contains("--max-filters-per-key"),
            "{}",
            refused.body
        );
        assert!(tenants.refusals("filters", "share") > 0);
        let served = tenants.answered(&tenants.modest, &create("m", 1000)).await;
        assert!([200, 201].contains(&served.status), "{}", served.body);
        // The accounts outlive a restart.
        tenants = restarted(tenants, setup()).await;
    }
    // Whoever deletes one makes room for one of its key.
    let delete = Raw::whole("DELETE /filters/g1", "text/plain", "");
    assert_eq!(tenants.answered(&tenants.modest, &delete).await.status, 204);
    let again = tenants
        .answered(&tenants.greedy, &create("again", 1000))
        .await;
    assert_eq!(again.status, 201, "{}", again.body);
    let refused = tenants
        .answered(&tenants.greedy, &create("more", 1000))
        .await;
    refused.is_refused(507, "over_key_quota");
}

#[tokio::test]
async fn bytes_of_filters_of_a_key() {
    let store = Arc::new(MemoryStore::new());
    let setup = || {
        let mut setup = Setup {
            store: store.clone(),
            ..Setup::default()
        };
        setup.engine.defaults.max_bytes_per_key = Some(100_000);
        setup
    };
    let tenants = Tenants::with(setup()).await;
    let small = tenants
        .answered(&tenants.greedy, &create("small", 1000))
        .await;
    assert_eq!(small.status, 201, "{}", small.body);
    let large = tenants
        .answered(&tenants.greedy, &create("large", 1_000_000))
        .await;
    large.is_refused(507, "over_key_quota");
    // It grows a little filter instead, until it is over, and no further.
    let mut first = 0;
    let refused = loop {
        assert!(first < 2_000_000, "it is never refused");
        let lines: String = (first..first + 20_000).map(|n| format!("{n}\n")).collect();
        let add = Raw::whole("POST /filters/small/items", "text/plain", &lines);
        let reply = tenants.answered(&tenants.greedy, &add).await;
        match reply.status {
            200 => first += 20_000,
            _ => break reply,
        }
    };
    refused.is_refused(507, "over_key_quota");
    let tenants = restarted(tenants, setup()).await;
    let add = Raw::whole("POST /filters/small/items", "text/plain", "x");
    let refused = tenants.answered(&tenants.greedy, &add).await;
    refused.is_refused(507, "over_key_quota");
    let import = Raw::whole("POST /filters/small/import?import_id=i", "text/plain", "x");
    let refused = tenants.answered(&tenants.greedy, &import).await;
    refused.is_refused(507, "over_key_quota");
    // Questions and deletes are served, and so is the other key.
    let ask = Raw::whole("POST /filters/small/exists", "text/plain", "1");
    assert_eq!(tenants.answered(&tenants.greedy, &ask).await.status, 200);
    let made = tenants
        .answered(&tenants.modest, &create("modest", 50_000))
        .await;
    assert_eq!(made.status, 201, "{}", made.body);
    let add = Raw::whole("POST /filters/modest/items", "text/plain", "x");
    assert_eq!(tenants.answered(&tenants.modest, &add).await.status, 200);
    let delete = Raw::whole("DELETE /filters/small", "text/plain", "");
    assert_eq!(tenants.answered(&tenants.greedy, &delete).await.status, 204);
    let made = tenants
        .answered(&tenants.greedy, &create("next", 50_000))
        .await;
    assert_eq!(made.status, 201, "{}", made.body);
}

/// The greedy key does what leaves something behind until it is refused, also
/// after a restart; the modest one does it as well.
async fn leaves_behind(set: fn(&mut Setup), resource: &str, request: fn(usize) -> Raw) {
    let store = Arc::new(MemoryStore::new());
    let setup = || {
        let mut setup = Setup {
            store: store.clone(),
            ..Setup::default()
        };
        set(&mut setup);
        setup
    };
    let mut tenants = Tenants::with(setup()).await;
    let create = create("g", 1000);
    assert_eq!(tenants.answered(&tenants.greedy, &create).await.status, 201);
    let mut left = 0;
    let refused = loop {
        assert!(left < 100, "{resource}: it is never refused");
        let reply = tenants.answered(&tenants.greedy, &request(left)).await;
        if reply.status != 200 {
            break reply;
        }
        left += 1;
    };
    assert!(left > 1, "{resource}: {left}");
    refused.is_refused(507, "over_key_quota");
    assert!(tenants.refusals(resource, "share") > 0);
    for restart in 0..2 {
        let served = tenants
            .answered(&tenants.modest, &request(1000 + restart))
            .await;
        assert_eq!(served.status, 200, "{}", served.body);
        tenants = restarted(tenants, setup()).await;
        let refused = tenants.answered(&tenants.greedy, &request(left)).await;
        refused.is_refused(507, "over_key_quota");
    }
}

#[tokio::test]
async fn bytes_of_answers_for_retries() {
    let set = |setup: &mut Setup| setup.engine.max_retry_bytes = 4000;
    leaves_behind(set, "idempotency_bytes", |n| {
        let media_type = format!("text/plain\r\nidempotency-key: key-{n}").leak();
        Raw::whole("POST /filters/g/items", media_type, "x")
    })
    .await;
}

#[tokio::test]
async fn imports_that_are_kept() {
    let set = |setup: &mut Setup| setup.engine.max_imports = 10;
    leaves_behind(set, "imports_kept", |n| {
        let line = format!("POST /filters/g/import?import_id=import-{n}");
        Raw::whole(&line, "text/plain", "x")
    })
    .await;
}
