//! What is under way with a key when it is removed, or expires: streams in both
//! directions end soon, and nobody takes what came for the whole.

use crate::gated::{GatedStore, Point};
use crate::keys::Keyed;
use crate::memory::MemoryStore;
use crate::server::{Answer, Setup};
use cuckood::access::Scope;
use cuckood::access::token::Token;
use cuckood::backup::BackupOptions;
use cuckood::engine::DiskReserve;
use reqwest::Method;
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpSocket, TcpStream};
use tokio::time::{sleep, timeout};

/// How soon a stream ends whose key is gone. In the process: how long a server
/// takes to notice that the file changed comes on top.
const SOON: Duration = Duration::from_secs(1);

const DUMP: &str = "content-type: application/octet-stream\r\n";
const TEXT: &str = "content-type: text/plain\r\n";

/// A request whose head was sent, by a client that reads and sends as the test
/// likes. Little of an answer fits between it and the server.
struct Open(TcpStream);

impl Open {
    async fn begin(keyed: &Keyed, token: &Token, request: &str, headers: &str) -> Open {
        let socket = TcpSocket::new_v4().unwrap();
        socket.set_recv_buffer_size(4096).unwrap();
        let mut stream = socket.connect(keyed.server.address).await.unwrap();
        let head = format!(
            "{request} HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer {}\r\n{headers}\r\n",
            token.as_str()
        );
        stream.write_all(head.as_bytes()).await.unwrap();
        Open(stream)
    }

    /// With a body whose end does not come.
    async fn sending(keyed: &Keyed, token: &Token, request: &str, media: &str) -> Open {
        let headers = format!("{media}transfer-encoding: chunked\r\n");
        Open::begin(keyed, token, request, &headers).await
    }

    async fn send(&mut self, bytes: &[u8]) {
        let size = format!("{:x}\r\n", bytes.len());
        let chunk = [size.as_bytes(), bytes, b"\r\n"].concat();
        self.0.write_all(&chunk).await.unwrap();
    }

    /// The head of an answer whose rest is not read.
    async fn head(&mut self) -> String {
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            head.push(self.0.read_u8().await.unwrap());
        }
        String::from_utf8(head).unwrap()
    }

    /// What comes until the connection ends, however it ends.
    async fn rest(&mut self) -> Vec<u8> {
        let mut rest = Vec::new();
        let mut piece = vec![0; 64 << 10];
        loop {
            let read = timeout(Duration::from_secs(20), self.0.read(&mut piece));
            match read.await.expect("the connection does not end") {
                Ok(0) | Err(_) => return rest,
                Ok(read) => rest.extend_from_slice(&piece[..read]),
            }
        }
    }

    /// Sees that the request is refused soon, with the problem's code; returns
    /// the detail.
    async fn refused(mut self, code: &str) -> String {
        let started = Instant::now();
        let answer = String::from_utf8(self.rest().await).unwrap();
        assert!(started.elapsed() < SOON, "{:?}", started.elapsed());
        assert!(answer.starts_with("HTTP/1.1 401 "), "{answer}");
        let (_, body) = answer.split_once("\r\n\r\n").unwrap();
        let problem: Value = serde_json::from_str(body).unwrap();
        assert_eq!(problem["code"], code);
        problem["detail"].as_str().unwrap().to_owned()
    }
}

/// Waits until something holds.
async fn until(holds: impl AsyncFn() -> bool) {
    let started = Instant::now();
    while !holds().await {
        assert!(started.elapsed() < Duration::from_secs(60));
        sleep(Duration::from_millis(10)).await;
    }
}

async fn text_batch(keyed: &Keyed, token: &Token, filter: &str, items: std::ops::Range<u64>) {
    let lines: String = items.map(|item| format!("code {item}\n")).collect();
    let request = keyed.request(token, Method::POST, &format!("/filters/{filter}/items"));
    let request = request.header("content-type", "text/plain").body(lines);
    assert_eq!(request.send().await.unwrap().status(), 200);
}

/// A server with a filter whose dump is larger than what fits between it and a
/// client that reads nothing.
async fn with_large_filter() -> (Keyed, Token) {
    let mut setup = Setup::default();
    setup.engine.cache_bytes = 256 << 20;
    let (keyed, root) = Keyed::with(setup).await;
    let request = keyed.request(&root, Method::PUT, "/filters/large");
    let made = request.json(&json!({"capacity": 8_000_000})).send().await;
    assert_eq!(made.unwrap().status(), 201);
    for batch in 0..4 {
        text_batch(&keyed, &root, "large", batch * 10_000..(batch + 1) * 10_000).await;
    }
    (keyed, root)
}

#[tokio::test]
async fn an_import_ends_with_its_key_and_says_what_it_committed() {
    let (keyed, root) = Keyed::with(Setup::default()).await;
    assert_eq!(keyed.put(&root, "/filters/f").await.status, 201);
    for (import, code) in [("one", "api_key_revoked"), ("two", "api_key_expired")] {
        let token = keyed.add(import, Scope::Write, None);
        let request = format!("POST /filters/f/import?import_id={import}");
        let mut stream = Open::sending(&keyed, &token, &request, TEXT).await;
        let lines: String = (0..20_000)
            .map(|line| format!("{import} {line}\n"))
            .collect();
        stream.send(lines.as_bytes()).await;
        let path = format!("/filters/f/imports/{import}");
        let committed = async || {
            let progress = keyed.get(&root, &path).await;
            let progress: Value = serde_json::from_slice(&progress.bytes).unwrap();
            let lines = progress["committed_lines"].as_u64().unwrap_or(0);
            (
                lines,
                progress["state"].as_str().unwrap_or_default().to_owned(),
            )
        };
        until(async || committed().await.0 >= 16_384).await;
        match code {
            "api_key_revoked" => keyed.remove(import),
            _ => {
                keyed.set_expiry(import, Some(Duration::from_secs(1)));
                sleep(Duration::from_secs(1)).await;
            }
        }
        let detail = stream.refused(code).await;
        let (lines, state) = committed().await;
        assert!(detail.contains(&format!("{lines} lines")), "{detail}");
        assert_eq!(state, "interrupted");
        // It goes on with another key.
        let path = format!(
            "/filters/f/import?import_id={import}&from_line={}",
            lines + 1
        );
        let request = keyed.request(&root, Method::POST, &path);
        let request = request
            .header("content-type", "text/plain")
            .body("the last\n");
        let answer: Value = request.send().await.unwrap().json().await.unwrap();
        assert_eq!(answer["committed_lines"], lines + 1);
        assert_eq!(answer["state"], "complete");
    }
}

/// A server with a filter `f`, whose store can be held up.
async fn with_filter_behind_a_gate() -> (GatedStore, Keyed, Token) {
    let store = GatedStore::new(Arc::new(MemoryStore::new()));
    let setup = Setup::over(&store);
    let (keyed, root) = Keyed::with(setup).await;
    assert_eq!(keyed.put(&root, "/filters/f").await.status, 201);
    (store, keyed, root)
}

#[tokio::test]
async fn an_import_that_ends_with_its_key_says_what_its_last_commit_did() {
    let (store, keyed, root) = with_filter_behind_a_gate().await;
    let token = keyed.add("importer", Scope::Write, None);
    store.hold_first(Point::CommitDone);
    let request = "POST /filters/f/import?import_id=i";
    let mut stream = Open::sending(&keyed, &token, request, TEXT).await;
    let lines: String = (0..8192).map(|line| format!("{line}\n")).collect();
    stream.send(lines.as_bytes()).await;
    store.arrival().await;
    // It is done, and the import has not heard of it yet.
    keyed.remove("importer");
    sleep(Duration::from_millis(100)).await;
    store.open();
    let detail = stream.refused("api_key_revoked").await;
    assert!(detail.contains(" 8192 lines"), "{detail}");
    let progress = keyed.get(&root, "/filters/f/imports/i").await.ok();
    assert_eq!(progress["committed_lines"], 8192);
    assert_eq!(progress["state"], "interrupted");
}

#[tokio::test]
async fn what_is_sent_with_a_key_that_is_removed_meanwhile_changes_nothing() {
    let (keyed, root) = Keyed::with(Setup::default()).await;
    assert_eq!(keyed.put(&root, "/filters/f").await.status, 201);
    text_batch(&keyed, &root, "f", 0..500).await;
    let dump = keyed.get(&root, "/filters/f/dump").await.bytes;
    let token = keyed.add("writer", Scope::Admin, None);
    let mut open = Vec::new();
    for (request, media, begin) in [
        ("POST /filters/f/items", TEXT, &b"new\n"[..]),
        ("POST /filters/f/items/delete", TEXT, b"code 1\n"),
        ("POST /filters/f/exists", TEXT, b"code 1\n"),
        ("PUT /filters/g/dump", DUMP, &dump[..dump.len() / 2]),
        (
            "PUT /filters/f/dump?replace=true",
            DUMP,
            &dump[..dump.len() - 1],
        ),
    ] {
        let mut stream = Open::sending(&keyed, &token, request, media).await;
        stream.send(begin).await;
        open.push(stream);
    }
    let in_flight = &keyed.server.metrics.http_in_flight;
    until(async || in_flight.get() >= open.len() as i64).await;
    keyed.remove("writer");
    for stream in open {
        stream.refused("api_key_revoked").await;
    }
    let listed = keyed.get(&root, "/filters").await.ok();
    assert_eq!(listed["filters"].as_array().unwrap().len(), 1);
    assert_eq!(keyed.get(&root, "/filters/f/dump").await.bytes, dump);
}

#[tokio::test]
async fn what_is_sent_with_a_key_that_stays_is_taken() {
    let (keyed, root) = Keyed::with(Setup::default()).await;
    assert_eq!(keyed.put(&root, "/filters/f").await.status, 201);
    let _other = keyed.add("other", Scope::Read, None);
    let token = keyed.add("writer", Scope::Write, None);
    let mut stream = Open::sending(&keyed, &token, "POST /filters/f/items", TEXT).await;
    stream.send(b"one\n").await;
    keyed.remove("other");
    keyed.set_expiry("writer", Some(Duration::from_secs(3600)));
    sleep(Duration::from_millis(300)).await;
    stream.send(b"two\n").await;
    stream.0.write_all(b"0\r\n\r\n").await.unwrap();
    assert!(stream.head().await.starts_with("HTTP/1.1 200 "));
    assert_eq!(keyed.get(&root, "/filters/f").await.ok()["items"], 2);
}

#[tokio::test]
async fn an_answer_that_is_being_sent_is_cut_off_with_its_key() {
    let (keyed, root) = with_large_filter().await;
    // Longest names, so that a lookup's answer is long.
    let items: Vec<String> = (0..1000).map(|item| format!("item {item}")).collect();
    for filter in 0..60 {
        let path = format!("/filters/{}{filter:02}/items", "x".repeat(250));
        let body = json!({"items": items, "create": {}});
        assert_eq!(keyed.post(&root, &path, body).await.status, 200);
    }
    let question = json!({"prefix": "x", "items": items}).to_string();
    let lookup = format!(
        "content-type: application/json\r\ncontent-length: {}\r\n\r\n{question}",
        question.len()
    );
    for (request, headers) in [
        ("GET /filters/large/dump", ""),
        // What is unpacked is cut off as well as what is not.
        ("POST /lookup", lookup.as_str()),
    ] {
        let token = keyed.add("reader", Scope::Read, None);
        let mut stream = Open::begin(&keyed, &token, request, headers).await;
        let head = stream.head().await.to_lowercase();
        assert!(head.starts_with("http/1.1 200 "), "{head}");
        sleep(Duration::from_millis(200)).await;
        keyed.remove("reader");
        sleep(SOON).await;
        let rest = stream.rest().await;
        let announced = head
            .lines()
            .find_map(|line| line.strip_prefix("content-length: "));
        match announced {
            Some(bytes) => assert!(rest.len() < bytes.parse().unwrap(), "{head}"),
            None => assert!(!rest.ends_with(b"0\r\n\r\n"), "{request} ended well"),
        }
        // With another key there is more of it.
        let other = keyed.add("other", Scope::Read, None);
        let mut stream = Open::begin(&keyed, &other, request, headers).await;
        stream.head().await;
        let mut whole = 0;
        while whole <= rest.len() {
            let mut piece = vec![0; 64 << 10];
            let read = stream.0.read(&mut piece).await.unwrap();
            assert!(read > 0, "{request}: the whole is no longer");
            whole += read;
        }
        keyed.remove("other");
    }
}

#[tokio::test]
async fn a_download_of_a_backup_is_cut_off_with_its_key() {
    let folder = tempfile::tempdir().unwrap();
    let store = GatedStore::new(Arc::new(MemoryStore::new()));
    let bytes = 24_000_000;
    store.freeze_to(bytes);
    let setup = Setup {
        store: Arc::new(store),
        backups: Some(BackupOptions {
            directory: folder.path().join("backups"),
            keep: 1,
            disk_reserve: DiskReserve::Usual,
        }),
        ..Setup::default()
    };
    let (keyed, root) = Keyed::with(setup).await;
    let begun = keyed.request(&root, Method::POST, "/admin/backups");
    let begun = Answer::of(begun).await.ok();
    let id = begun["id"].as_str().unwrap();
    let status = format!("/admin/backups/{id}/status");
    until(async || keyed.get(&root, &status).await.ok()["state"] == "complete").await;
    let token = keyed.add("operator", Scope::Admin, None);
    let request = format!("GET /admin/backups/{id}");
    let mut stream = Open::begin(&keyed, &token, &request, "").await;
    let head = stream.head().await;
    assert!(head.starts_with("HTTP/1.1 200 "), "{head}");
    keyed.remove("operator");
    sleep(SOON).await;
    let rest = stream.rest().await.len() as u64;
    assert!(rest < bytes, "{rest}");
}

#[tokio::test]
async fn a_client_that_reads_nothing_holds_no_place_once_its_key_is_gone() {
    let (keyed, _) = with_large_filter().await;
    let [one, two] = ["one", "two"].map(|name| keyed.add(name, Scope::Read, None));
    let begin = async |token: &Token| {
        let request = "GET /filters/large/dump";
        let mut stream = Open::begin(&keyed, token, request, "connection: close\r\n").await;
        let is_begun = stream.head().await.starts_with("HTTP/1.1 200 ");
        is_begun.then_some(stream)
    };
    // Each takes all it can get.
    let mut open = Vec::new();
    for token in [&one, &two] {
        while let Some(stream) = begin(token).await {
            open.push(stream);
            assert!(open.len() < 17, "there is no bound");
        }
    }
    keyed.remove("one");
    let started = Instant::now();
    while begin(&two).await.is_none() {
        assert!(started.elapsed() < 2 * SOON, "its places are still taken");
        sleep(Duration::from_millis(20)).await;
    }
    keyed.remove("two");
    drop(open);
    keyed.server.stop().await;
}

#[tokio::test]
async fn a_merge_ends_with_its_key_and_changes_nothing() {
    let (store, keyed, root) = with_filter_behind_a_gate().await;
    let sibling = json!({"items": ["a"], "create": {"sibling_of": "f"}});
    keyed.post(&root, "/filters/g/items", sibling).await.ok();
    let token = keyed.add("writer", Scope::Write, None);
    store.hold_first(Point::FilterRead);
    let body = json!({"from": ["g"]}).to_string();
    let headers = format!(
        "content-type: application/json\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{body}",
        body.len()
    );
    let stream = Open::begin(&keyed, &token, "POST /filters/f/merge", &headers).await;
    store.arrival().await;
    keyed.remove("writer");
    store.open();
    stream.refused("api_key_revoked").await;
    assert_eq!(keyed.get(&root, "/filters/f").await.ok()["items"], 0);
}

#[tokio::test]
async fn a_dump_that_is_not_begun_yet_ends_with_its_key() {
    let (store, keyed, root) = with_filter_behind_a_gate().await;
    let token = keyed.add("reader", Scope::Read, None);
    store.hold_first(Point::FilterRead);
    let close = "connection: close\r\n";
    let stream = Open::begin(&keyed, &token, "GET /filters/f/dump", close).await;
    store.arrival().await;
    keyed.remove("reader");
    stream.refused("api_key_revoked").await;
    store.open();
    assert_eq!(keyed.get(&root, "/filters/f/dump").await.status, 200);
}
