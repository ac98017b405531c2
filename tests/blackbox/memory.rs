//! Keys that take at once all that is bounded: bodies, answers, streams, imports,
//! what is kept, queues, reads of the disk. The memory of the server stays within
//! what `docs/limits.md` reckons from its flags, and another key is served.

use crate::server::{Server, add_key, client_with, insist};
use serde_json::json;
use socket2::{Domain, Socket, Type};
use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::sync::{Barrier, Mutex};
use std::thread;
use std::time::{Duration, Instant};

const MIB: usize = 1 << 20;

/// The flags from which the bound follows, in MiB.
const CACHE: usize = 64;
const BLOCK_CACHE: usize = 16;
const BODIES: usize = 128;
const COLD_READS: usize = 16;
/// Of a cache of this size they are bounded by the pages that they may touch.
const PLANS: usize = 3 * CACHE / 2;

/// What the page adds to them: the storage engine's write buffers, and all that
/// no flag bounds.
const WRITE_BUFFERS: usize = 128;
const BASE: usize = 128;

/// Keys that take all that they can.
const GREEDY: usize = 3;

/// Items of a large question, which is answered by six bytes for each.
const MANY: usize = 600_000;

/// A key, and what it holds.
struct Tenant {
    key: String,
    number: usize,
    port: u16,
    held: Mutex<Vec<TcpStream>>,
}

impl Tenant {
    /// Sends the head of a request and so much of its body, and takes its refusal
    /// as it comes.
    fn begin(&self, line: &str, headers: &str, length: usize, sent: &[u8]) -> TcpStream {
        let socket = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
        // A small buffer: what is not read stays with the server.
        socket.set_recv_buffer_size(4096).unwrap();
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, self.port));
        socket.connect(&address.into()).unwrap();
        let mut stream = TcpStream::from(socket);
        stream
            .set_read_timeout(Some(Duration::from_secs(60)))
            .unwrap();
        let head = format!(
            "{line} HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer {}\r\ncontent-length: {length}\r\n{headers}\r\n",
            self.key
        );
        // One that is refused is closed while it is being sent.
        let _ = stream
            .write_all(head.as_bytes())
            .and_then(|()| stream.write_all(sent));
        stream
    }

    /// Sends a request that stays unfinished.
    fn holds(&self, line: &str, headers: &str, length: usize, sent: &[u8]) {
        let stream = self.begin(line, headers, length, sent);
        self.held.lock().unwrap().push(stream);
    }

    /// Sends a whole request and reads the status of its answer; the rest of it
    /// stays with the server.
    fn asks(&self, line: &str, headers: &str, body: &[u8]) -> Option<u16> {
        let mut stream = self.begin(line, headers, body.len(), body);
        let mut status = [0; 12];
        stream.read_exact(&mut status).ok()?;
        self.held.lock().unwrap().push(stream);
        std::str::from_utf8(&status[9..]).ok()?.parse().ok()
    }

    fn takes_bodies(&self) {
        let sent = vec![b'x'; 30 * MIB];
        for _ in 0..10 {
            self.holds("POST /filters/g/exists", TEXT, 31 * MIB, &sent);
        }
    }

    fn takes_answers(&self) {
        let items = "x\n".repeat(MANY);
        // 300 MiB of all keys, which is more than the bound has left.
        for _ in 0..28 {
            self.asks("POST /filters/g/exists", TEXT, items.as_bytes());
        }
    }

    fn takes_downloads(&self) {
        for _ in 0..12 {
            self.holds("GET /filters/g/dump", "", 0, b"");
        }
    }

    fn takes_restores(&self, dump: &[u8]) {
        for n in 0..12 {
            let line = format!("PUT /filters/new-{}-{n}/dump", self.number);
            self.holds(&line, DUMP, dump.len(), &dump[..dump.len() - 10]);
        }
    }

    fn takes_imports(&self) {
        let lines: String = (0..20_000).map(|n| format!("{n}-{n}\n")).collect();
        let sent = format!("{lines}{}", "y".repeat(60 << 10));
        for n in 0..20 {
            let line = format!("POST /filters/g/import?import_id={}-{n}", self.number);
            self.holds(&line, TEXT, 100 * MIB, sent.as_bytes());
        }
    }

    /// Requests that leave something behind.
    fn leaves_behind(&self) {
        for n in 0..40 {
            let line = format!("POST /filters/g/import?import_id=kept-{}-{n}", self.number);
            self.asks(&line, TEXT, b"x");
            let headers = format!("{TEXT}idempotency-key: {n}\r\n");
            self.asks("POST /filters/g/items", &headers, b"x\ny\nz");
        }
    }

    /// Changes of as many words as the cache lets them have.
    fn takes_the_queue(&self) {
        let line = format!("POST /filters/q{}/items", self.number);
        for n in 0..3 {
            let items: String = (0..300_000).map(|item| format!("{n}q{item}\n")).collect();
            self.asks(&line, PLANNED, items.as_bytes());
        }
    }

    /// Questions about pages that nobody asked for before.
    fn takes_reads(&self, thread: usize) {
        for n in 0..3 {
            let first = ((self.number * 100 + thread) * 10 + n) * 10_000;
            let items: String = (first..first + 7000).map(|n| format!("{n}\n")).collect();
            self.asks("POST /filters/cold/exists", WAITS, items.as_bytes());
        }
    }
}

const TEXT: &str = "content-type: text/plain\r\n";
/// Not for as long as others hold what it waits for.
const WAITS: &str = "content-type: text/plain\r\nprefer: wait=3\r\n";
const PLANNED: &str = "content-type: text/plain\r\nprefer: wait=20\r\n";
const DUMP: &str = "content-type: application/octet-stream\r\n";

/// All of a key's requests, at once, until all have what they get.
fn takes_everything(tenant: &Tenant, dump: &[u8], imported: &Barrier) {
    // Later there would be no place for these, nor memory.
    tenant.leaves_behind();
    tenant.takes_answers();
    thread::scope(|scope| {
        tenant.takes_downloads();
        // First, as they need bodies, of which the others leave nothing, to any tenant.
        tenant.takes_imports();
        imported.wait();
        scope.spawn(|| tenant.takes_bodies());
        scope.spawn(|| tenant.takes_restores(dump));
        scope.spawn(|| tenant.takes_the_queue());
        for thread in 0..12 {
            scope.spawn(move || tenant.takes_reads(thread));
        }
    });
}

fn refusals(server: &Server) -> Vec<String> {
    let metrics = server.get_text("/metrics");
    let lines = metrics.lines();
    lines
        .filter(|line| line.starts_with("cuckood_resource_refusals_total") && !line.ends_with(" 0"))
        .map(str::to_owned)
        .collect()
}

#[test]
fn memory_stays_within_what_the_flags_say_whatever_is_taken() {
    let (data, folder) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let path = folder.path().join("keys.json");
    let [root, modest] = ["root", "modest"].map(|name| add_key(&path, name, &["--scope=admin"]));
    let greedy: Vec<String> = (0..GREEDY)
        .map(|number| add_key(&path, &format!("greedy-{number}"), &["--scope=admin"]))
        .collect();
    let flags = [
        format!("--keys-file={}", path.display()),
        format!("--cache-bytes={CACHE}MiB"),
        format!("--block-cache-bytes={BLOCK_CACHE}MiB"),
        format!("--max-buffered-bytes={BODIES}MiB"),
        format!("--max-cold-read-bytes={COLD_READS}MiB"),
        format!("--max-batch-items={MANY}"),
        format!("--max-queued-items={}", 2 * MANY),
        "--max-connections=4096".to_owned(),
        "--max-connections-per-address=4096".to_owned(),
        "--max-imports=50".to_owned(),
        "--max-idempotency-bytes=10KiB".to_owned(),
        "--write-timeout-seconds=600".to_owned(),
        // What is held stays held while the machine stands still.
        "--header-timeout-seconds=60".to_owned(),
        "--body-idle-timeout-seconds=600".to_owned(),
        "--lanes=2".to_owned(),
    ];
    let flags: Vec<&str> = flags.iter().map(String::as_str).collect();
    let server = Server::start(data.path(), &flags).with_key(&root);
    server.create_filter("g", &json!({"capacity": 2_000_000, "fingerprint_bits": 32}));
    // Of 4 times as many pages as the cache has.
    server.create_filter(
        "cold",
        &json!({"capacity": 165_000_000, "fingerprint_bits": 12}),
    );
    server.post_lines("/filters/cold/items", &["x".to_owned()]);
    for number in 0..GREEDY {
        let name = format!("q{number}");
        server.create_filter(&name, &json!({"capacity": 900_000, "fingerprint_bits": 32}));
    }
    let dump = server.client().get(server.url("/filters/g/dump"));
    let dump = dump.send().unwrap().bytes().unwrap();

    let tenants: Vec<Tenant> = (greedy.into_iter().enumerate())
        .map(|(number, key)| Tenant {
            key,
            number,
            port: server.port(),
            held: Mutex::default(),
        })
        .collect();
    let started = Instant::now();
    let imported = Barrier::new(tenants.len());
    thread::scope(|scope| {
        for tenant in &tenants {
            scope.spawn(|| takes_everything(tenant, &dump, &imported));
        }
    });
    println!("all is taken after {:?}", started.elapsed());
    let http = client_with(Some(&modest));
    let started = Instant::now();
    for path in ["g/exists", "g/items", "cold/exists", "cold/items"] {
        insist(&http, &server.url(&format!("/filters/{path}")), "modest");
    }
    let served = started.elapsed();
    let shared = BODIES + BODIES / 4 + COLD_READS + PLANS;
    let bound = CACHE + 3 * CACHE / 20 + BLOCK_CACHE + WRITE_BUFFERS + shared + BASE;
    // All that is bounded is taken, as far as it goes; dumps are slow to begin.
    let started = Instant::now();
    let refusals = loop {
        let refusals = refusals(&server);
        let is_refused = |resource: &&str| {
            let named = format!("resource=\"{resource}\"");
            refusals.iter().any(|line| line.contains(&named))
        };
        if TAKEN.iter().all(is_refused) {
            break refusals;
        }
        assert!(
            started.elapsed() < Duration::from_secs(180),
            "{refusals:#?}"
        );
        thread::sleep(Duration::from_secs(1));
        // Whose dumps a busy machine began too late asks for them again.
        if !is_refused(&"downloads") {
            tenants.iter().for_each(Tenant::takes_downloads);
        }
    };
    let most = server.memory("VmHWM") as usize;
    println!(
        "at most {most} MiB of {bound} MiB; four requests of another key took {served:?}; refused: {refusals:#?}"
    );
    assert!(most <= bound, "{most} MiB, more than {bound} MiB");
    assert!(most > BODIES, "{most} MiB: little was taken");
    // Nothing refuses these: what is beyond the bound waits.
    let reads = server.metric("cuckood_page_reads_total{source=\"store\"}");
    assert!(reads > 1000.0, "{reads} pages were read");
    drop(tenants);
    server.stop();
}

/// What the greedy keys are refused at least once, as metrics name it.
const TAKEN: [&str; 7] = [
    "bodies",
    "answers",
    "imports",
    "downloads",
    "restores",
    "imports_kept",
    "idempotency_bytes",
];

/// A change that comes to most of the words that one may write takes no more than
/// the page reckons for a lane.
#[test]
fn a_plan_takes_no_more_than_is_reckoned_for_a_lane() {
    const OF_A_LANE: usize = 80;
    const ITEMS: u64 = 900_000;
    let data = tempfile::tempdir().unwrap();
    let flags = [
        "--lanes=1",
        "--cache-bytes=256MiB",
        "--max-batch-items=1000000",
        "--max-queued-items=2000000",
    ];
    let server = Server::start(data.path(), &flags);
    server.create_filter("p", &json!({"capacity": 4_000_000, "fingerprint_bits": 32}));
    let http = client_with(None);
    let asks = |action: &str, items: std::ops::Range<u64>| {
        let items: String = items.map(|n| format!("{n}\n")).collect();
        let url = server.url(&format!("/filters/p/{action}"));
        let asked = http.post(url).header("content-type", "text/plain");
        let answer = asked.body(items).send().unwrap();
        assert_eq!(answer.status(), 200, "{}", answer.text().unwrap());
        answer.bytes().unwrap();
    };
    // All its pages are in memory, and all that a question of that size takes.
    for n in 1..10 {
        asks("items", n * ITEMS..n * ITEMS + 10_000);
    }
    asks("exists", 0..ITEMS);
    let before = server.memory("VmHWM") as usize;
    let slices = server.metric("cuckood_plan_slices_total");
    asks("items", 0..ITEMS);
    let slices = server.metric("cuckood_plan_slices_total") - slices;
    let took = server.memory("VmHWM") as usize - before;
    println!("a plan of {slices} slices took {took} MiB of {OF_A_LANE} MiB");
    assert!(slices > 20.0, "{slices} slices");
    assert!(took > OF_A_LANE / 8, "{took} MiB: it was not measured");
    assert!(took <= OF_A_LANE, "{took} MiB");
    server.stop();
}
