//! Imports over a real socket.

use crate::gated::{GatedStore, Point};
use crate::memory::MemoryStore;
use crate::server::{Answer, Server, Setup, expect_detail};
use flate2::Compression;
use flate2::write::GzEncoder;
use reqwest::Method;
use serde_json::{Value, json};
use std::io::Write as _;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::time::{sleep, timeout};

async fn with_filter(setup: Setup, capacity: u64) -> Server {
    let server = Server::with(setup).await;
    let made = server.put("/filters/f", json!({"capacity": capacity}));
    made.await.ok();
    server
}

async fn import(server: &Server, query: &str, body: impl Into<reqwest::Body>) -> Answer {
    let path = format!("/filters/f/import?{query}");
    server.send(&path, "text/plain", body).await
}

fn numbers(lines: std::ops::RangeInclusive<u64>) -> String {
    lines.map(|line| format!("code {line}\n")).collect()
}

async fn item_count(server: &Server) -> u64 {
    server.get("/filters/f").await.ok()["items"]
        .as_u64()
        .unwrap()
}

/// A request whose body comes in chunks for as long as the test likes.
struct Stream(TcpStream);

impl Stream {
    async fn open(server: &Server, query: &str) -> Stream {
        let mut stream = TcpStream::connect(server.address).await.unwrap();
        let head = format!(
            "POST /filters/f/import?{query} HTTP/1.1\r\nhost: localhost\r\n\
             content-type: text/plain\r\ntransfer-encoding: chunked\r\n\r\n"
        );
        stream.write_all(head.as_bytes()).await.unwrap();
        Stream(stream)
    }

    async fn send(&mut self, text: &str) {
        let chunk = format!("{:x}\r\n{text}\r\n", text.len());
        self.0.write_all(chunk.as_bytes()).await.unwrap();
    }

    /// The whole answer, to the end of the connection or a pause.
    async fn answer(mut self) -> String {
        let mut answer = Vec::new();
        let reading = self.0.read_to_end(&mut answer);
        let _ = tokio::time::timeout(Duration::from_secs(10), reading).await;
        String::from_utf8(answer).unwrap()
    }
}

/// Lines that are in by now.
async fn committed(server: &Server, import: &str) -> u64 {
    let progress = server.get(&format!("/filters/f/imports/{import}")).await;
    match progress.status {
        200 => progress.ok()["committed_lines"].as_u64().unwrap(),
        _ => 0,
    }
}

/// What the import came to, once nobody works on it.
async fn settled(server: &Server, import: &str) -> Value {
    for _ in 0..500 {
        let progress = server.get(&format!("/filters/f/imports/{import}")).await;
        if progress.status == 200 && progress.ok()["state"] != "running" {
            return progress.ok();
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("the import goes on");
}

#[tokio::test]
async fn a_stream_is_imported_and_reported_line_by_line() {
    let server = with_filter(Setup::default(), 1000).await;
    let longest = "x".repeat(64 << 10);
    let body = format!("a\r\n\nb\n{longest}x\n{longest}\na");
    let imported = import(&server, "import_id=i", body.clone()).await.ok();
    let first_bad = json!([{"line": 4, "reason": "too_long"}]);
    for (field, expected) in [
        ("import_id", json!("i")),
        ("state", json!("complete")),
        ("committed_lines", json!(6)),
        ("added", json!(4)),
        ("exists", json!(0)),
        ("full", json!(0)),
        ("full_reason", json!(null)),
        ("blank_lines", json!(1)),
        ("bad_lines", json!(1)),
        ("first_bad_lines", first_bad),
    ] {
        assert_eq!(imported[field], expected, "{field}");
    }
    assert_eq!(server.get("/filters/f/imports/i").await.ok(), imported);

    // Sent again it adds nothing, and more lines go on behind it.
    let again = import(&server, "import_id=i", body).await.ok();
    assert_eq!((&again["added"], item_count(&server).await), (&json!(4), 4));
    let more = import(
        &server,
        "import_id=i&from_line=7&only_if_absent=true",
        "a\nc",
    )
    .await
    .ok();
    assert_eq!(more["committed_lines"], 8);
    assert_eq!((&more["added"], &more["exists"]), (&json!(5), &json!(1)));
    let gap = import(&server, "import_id=i&from_line=10", "z").await;
    assert_eq!(gap.refused(), ["from_line"]);
    assert_eq!(item_count(&server).await, 5);
}

#[tokio::test]
async fn json_lines_and_gzip_are_taken() {
    let server = with_filter(Setup::default(), 1000).await;
    let ndjson = "\"a b\"\n17\n\n1.5\nnonsense\n\"17\"\n";
    let path = "/filters/f/import?import_id=n";
    let imported = server.send(path, "application/x-ndjson", ndjson).await.ok();
    assert_eq!(
        (&imported["added"], &imported["bad_lines"]),
        (&json!(3), &json!(2))
    );
    let reasons = json!([{"line": 4, "reason": "not_an_item"}, {"line": 5, "reason": "not_json"}]);
    assert_eq!(imported["first_bad_lines"], reasons);
    let count = server.get("/filters/f/count?item=17").await.ok();
    assert_eq!(count, json!({"count": 2}));

    let mut gzip = GzEncoder::new(Vec::new(), Compression::best());
    gzip.write_all(numbers(1..=20_000).as_bytes()).unwrap();
    let request = server
        .request(Method::POST, "/filters/f/import?import_id=z")
        .header("content-type", "text/plain; charset=utf-8")
        .header("content-encoding", "gzip");
    let imported = Answer::of(request.body(gzip.finish().unwrap())).await.ok();
    assert_eq!(
        (&imported["added"], &imported["committed_lines"]),
        (&json!(20_000), &json!(20_000))
    );
}

#[tokio::test]
async fn what_an_import_can_not_be_is_refused() {
    let server = with_filter(Setup::default(), 1000).await;
    let long = "i".repeat(101);
    for (query, refused) in [
        (String::new(), "import_id"),
        ("import_id=".to_owned(), "import_id"),
        ("import_id=a/b".to_owned(), "import_id"),
        (format!("import_id={long}"), "import_id"),
        ("import_id=i&from_line=0".to_owned(), "from_line"),
        ("import_id=i&from_line=x".to_owned(), "from_line"),
        ("import_id=i&from_line=2".to_owned(), "from_line"),
        ("import_id=i&only_if_absent=1".to_owned(), "only_if_absent"),
        ("import_id=i&create=true".to_owned(), "create"),
    ] {
        assert_eq!(
            import(&server, &query, "a").await.refused(),
            [refused],
            "{query}"
        );
    }
    for media_type in ["application/json", "text/html", ""] {
        let answer = server
            .send("/filters/f/import?import_id=i", media_type, "a")
            .await;
        answer.problem(415, "unsupported_media_type");
    }
    let keyed = server
        .request(Method::POST, "/filters/f/import?import_id=i")
        .header("idempotency-key", "k")
        .header("content-type", "text/plain");
    let problem = Answer::of(keyed.body("a")).await;
    let problem = problem.problem(422, "idempotency_key_not_taken");
    expect_detail(&problem, "import_id");
    let missing = server
        .send("/filters/g/import?import_id=i", "text/plain", "a")
        .await;
    missing.problem(404, "filter_not_found");
    server
        .get("/filters/g/imports/i")
        .await
        .problem(404, "filter_not_found");
    server
        .get("/filters/f/imports/i")
        .await
        .problem(404, "import_not_found");
    server
        .get(&format!("/filters/f/imports/{long}"))
        .await
        .refused();
    assert_eq!(item_count(&server).await, 0);
}

#[tokio::test]
async fn a_connection_that_is_cut_is_taken_up_where_it_broke() {
    let server = with_filter(Setup::default(), 100_000).await;
    let lines = 60_000;
    let (mut done, mut cuts) = (0, 0);
    while done < lines - 20_000 {
        let mut stream =
            Stream::open(&server, &format!("import_id=i&from_line={}", done + 1)).await;
        stream.send(&numbers(done + 1..=done + 13_000)).await;
        // A line that never ends.
        stream.send("code 9").await;
        while committed(&server, "i").await <= done {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        drop(stream);
        cuts += 1;
        let progress = settled(&server, "i").await;
        assert_eq!(progress["state"], "interrupted");
        let committed = progress["committed_lines"].as_u64().unwrap();
        assert!(
            (done + 1..=done + 13_000).contains(&committed),
            "{committed} after {done}"
        );
        assert_eq!(item_count(&server).await, committed);
        done = committed;
    }
    assert!(cuts >= 3);
    // The whole of it once more: what is there is passed over.
    let imported = import(&server, "import_id=i", numbers(1..=lines))
        .await
        .ok();
    assert_eq!(imported["committed_lines"], lines);
    assert_eq!(imported["added"], lines);
    assert_eq!(item_count(&server).await, lines);
}

#[tokio::test]
async fn an_import_runs_once_at_a_time() {
    let server = with_filter(Setup::default(), 1000).await;
    let mut stream = Stream::open(&server, "import_id=i").await;
    stream.send("a\n").await;
    let mut refused = import(&server, "import_id=i", "b").await;
    for _ in 0..1_000 {
        if refused.status == 409 {
            break;
        }
        refused = import(&server, "import_id=i", "b").await;
    }
    refused.problem(409, "import_running");
    import(&server, "import_id=other", "c").await.ok();
    stream.send("d\n").await;
    stream.0.write_all(b"0\r\n\r\n").await.unwrap();
    let answer = stream.answer().await;
    assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
    assert_eq!(settled(&server, "i").await["state"], "complete");
}

#[tokio::test]
async fn the_bounds_of_other_bodies_do_not_apply_but_a_stall_ends_it() {
    let mut setup = Setup::default();
    setup.limits.max_body_bytes = 10_000;
    setup.limits.body_timeout = Duration::from_millis(400);
    setup.limits.body_idle_timeout = Duration::from_millis(1_500);
    let server = with_filter(setup, 100_000).await;
    let mut stream = Stream::open(&server, "import_id=slow").await;
    for first in (1..=9_000).step_by(1_000) {
        stream.send(&numbers(first..=first + 999)).await;
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    let answer = stream.answer().await;
    assert!(answer.starts_with("HTTP/1.1 408 "), "{answer}");
    assert!(answer.contains("\"body_timeout\""), "{answer}");
    let progress = settled(&server, "slow").await;
    assert_eq!(progress["state"], "interrupted");
    assert_eq!(progress["committed_lines"], 8192);
    let rest = import(
        &server,
        "import_id=slow&from_line=8193",
        numbers(8_193..=20_000),
    )
    .await;
    assert_eq!(rest.ok()["added"], 20_000);
}

#[tokio::test]
async fn imports_count_against_the_memory_for_bodies() {
    let mut setup = Setup::default();
    setup.limits.max_body_bytes = 1 << 20;
    setup.limits.max_buffered_bytes = 9 << 20;
    let server = with_filter(setup, 1000).await;
    let mut streams = Vec::new();
    for stream in ["a", "b"] {
        let mut stream = Stream::open(&server, &format!("import_id={stream}")).await;
        stream.send("x\n").await;
        streams.push(stream);
    }
    let mut refused = import(&server, "import_id=c", "y").await;
    for _ in 0..1_000 {
        if refused.status == 503 {
            break;
        }
        refused = import(&server, "import_id=c", "y").await;
    }
    refused.problem(503, "overloaded");
    drop(streams);
    let mut taken = import(&server, "import_id=c", "y").await;
    for _ in 0..1_000 {
        if taken.status == 200 {
            break;
        }
        taken = import(&server, "import_id=c", "y").await;
    }
    taken.ok();
}

#[tokio::test]
async fn a_server_that_stops_ends_an_import_between_two_commits() {
    let mut server = with_filter(Setup::default(), 100_000).await;
    let mut stream = Stream::open(&server, "import_id=i").await;
    stream.send(&numbers(1..=9_000)).await;
    while committed(&server, "i").await == 0 {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    server.ask_to_stop();
    // Once nobody is let in any more, everybody knows.
    while TcpStream::connect(server.address).await.is_ok() {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    stream.send(&numbers(9_001..=20_000)).await;
    let answer = stream.answer().await;
    assert!(answer.starts_with("HTTP/1.1 503 "), "{answer}");
    assert_eq!(server.stopped().await, 0);
}

#[tokio::test]
async fn a_full_filter_is_reported() {
    let server = Server::start().await;
    let small = json!({"capacity": 100, "bucket_size": 2, "expansion": 0});
    server.put("/filters/f", small).await.ok();
    let imported = import(&server, "import_id=i", numbers(1..=1_000))
        .await
        .ok();
    let (added, full) = (
        imported["added"].as_u64().unwrap(),
        imported["full"].as_u64().unwrap(),
    );
    assert_eq!(
        (added + full, &imported["full_reason"]),
        (1_000, &json!("expansion_off"))
    );
    assert!(full > 0);
    assert_eq!(item_count(&server).await, added);
}

/// A request whose body comes in pieces of so many bytes until it is answered.
async fn trickle(
    server: &Server,
    line: &str,
    media_type: &str,
    body: &[u8],
    piece: usize,
) -> String {
    let mut stream = TcpStream::connect(server.address).await.unwrap();
    let head = format!(
        "{line} HTTP/1.1\r\nhost: localhost\r\ncontent-type: {media_type}\r\ncontent-length: 1000000\r\n\r\n"
    );
    stream.write_all(head.as_bytes()).await.unwrap();
    let (mut read, mut write) = stream.split();
    let mut answer = String::new();
    let dripping = async {
        for piece in body.chunks(piece) {
            sleep(Duration::from_millis(20)).await;
            if write.write_all(piece).await.is_err() {
                break;
            }
        }
        std::future::pending::<()>().await;
    };
    tokio::select! {
        ended = timeout(Duration::from_secs(20), read.read_to_string(&mut answer)) => {
            ended.expect("an answer in time").unwrap();
        }
        () = dripping => {}
    }
    answer
}

#[tokio::test]
async fn an_import_that_trickles_ends_after_its_time_and_keeps_what_came() {
    let mut setup = Setup::default();
    setup.limits.import_timeout = Duration::from_secs(1);
    let server = Server::with(setup).await;
    server.put("/filters/f", json!({})).await.ok();
    let line = "POST /filters/f/import?import_id=slow";
    let answer = trickle(&server, line, "text/plain", &b"line\n".repeat(1000), 5).await;
    assert!(answer.starts_with("HTTP/1.1 408 "), "{answer}");
    assert!(answer.contains("--import-timeout-seconds"), "{answer}");
    let progress = server.get("/filters/f/imports/slow").await.ok();
    let lines = progress["committed_lines"].as_u64().unwrap();
    assert!(lines > 0, "{progress}");
    assert_eq!(progress["state"], "interrupted");
    let rest = format!("/filters/f/import?import_id=slow&from_line={}", lines + 1);
    let resumed = server.send(&rest, "text/plain", "last").await.ok();
    assert_eq!(resumed["committed_lines"], lines + 1);
}

#[tokio::test]
async fn a_dump_that_trickles_in_is_refused() {
    let mut setup = Setup::default();
    setup.limits.body_idle_timeout = Duration::from_secs(1);
    setup.limits.min_restore_rate = 1 << 20;
    let server = Server::with(setup).await;
    server.put("/filters/f", json!({})).await.ok();
    let items = json!({"items": (0..500).collect::<Vec<_>>()});
    server.post("/filters/f/items", items).await.ok();
    let dump = server.get("/filters/f/dump").await.bytes;
    let line = "PUT /filters/g/dump";
    let answer = trickle(&server, line, "application/octet-stream", &dump, 1).await;
    assert!(answer.starts_with("HTTP/1.1 408 "), "{answer}");
    assert!(answer.contains("--min-restore-rate"), "{answer}");
    server
        .get("/filters/g")
        .await
        .problem(404, "filter_not_found");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_import_that_runs_into_its_deadline_is_told_to_resume() {
    let store = GatedStore::new(Arc::new(MemoryStore::new()));
    let mut setup = Setup::over(&store);
    setup.engine.lanes = 1;
    setup.limits.request_timeout = Duration::from_secs(1);
    let server = with_filter(setup, 1000).await;
    import(&server, "import_id=i", "a\nb\n").await.ok();
    let resume = "import_id=i&from_line=3";
    store.hold_first(Point::CommitDone);
    // The first is being written, the second waits behind it.
    for (query, status, code) in [
        (resume, 500, "outcome_unknown"),
        ("import_id=other", 503, "deadline_exceeded"),
    ] {
        let problem = import(&server, query, "c\nd\n").await;
        let problem = problem.problem(status, code);
        let detail = problem["detail"].as_str().unwrap();
        assert!(detail.contains("resume after them"), "{detail}");
        for wrong in ["nothing was changed", "Prefer", "ask for the items"] {
            assert!(!detail.contains(wrong), "{detail}");
        }
    }
    store.open();
    let mut lines = settled(&server, "i").await["committed_lines"].clone();
    while lines != 4 {
        sleep(Duration::from_millis(10)).await;
        lines = settled(&server, "i").await["committed_lines"].clone();
    }
    import(&server, resume, "c\nd\ne\n").await.ok();
    assert_eq!(item_count(&server).await, 5);
}

#[tokio::test]
async fn the_imports_into_a_filter_are_listed_by_name_each_as_it_is() {
    let mut setup = Setup::default();
    setup.engine.max_imports = 200;
    let server = with_filter(setup, 10_000).await;
    let none = server.get("/filters/f/imports").await.ok();
    assert_eq!(none, json!({"imports": [], "next_cursor": null}));
    server.put("/filters/g", json!({})).await.ok();
    let ids: Vec<String> = (0..150).map(|it| format!("i-{it:03}")).collect();
    for id in &ids {
        let path = format!("/filters/g/import?import_id={id}");
        let request = server.request(Method::POST, &path);
        let request = request.header("content-type", "text/plain").body("a\nb\n");
        Answer::of(request).await.ok();
    }
    // One that is not complete, of another filter.
    let mut stream = Stream::open(&server, "import_id=i-500").await;
    stream.send(&"x\n".repeat(20_000)).await;
    let begun = async {
        while committed(&server, "i-500").await == 0 {
            sleep(Duration::from_millis(10)).await;
        }
    };
    timeout(Duration::from_secs(10), begun).await.unwrap();
    let own = server.get("/filters/f/imports").await.ok();
    assert_eq!(own["imports"].as_array().unwrap().len(), 1, "{own}");
    assert_eq!(own["imports"][0]["state"], "running");

    let first = server.get("/filters/g/imports").await.ok();
    assert_eq!(first["next_cursor"], "i-099");
    let second = server.get("/filters/g/imports?cursor=i-099").await.ok();
    assert_eq!(second["next_cursor"], json!(null));
    let pages = [&first, &second].map(|page| page["imports"].as_array().unwrap());
    let listed: Vec<&Value> = pages.into_iter().flatten().collect();
    let names: Vec<&str> = listed
        .iter()
        .map(|it| it["import_id"].as_str().unwrap())
        .collect();
    assert_eq!(names, ids);
    let alone = server.get("/filters/g/imports/i-007").await.ok();
    assert_eq!(*listed[7], alone);
    let refused = server.get("/filters/g/imports?cursor=%20").await.refused();
    assert_eq!(refused, ["cursor"]);
    server
        .get("/filters/none/imports")
        .await
        .problem(404, "filter_not_found");
}
