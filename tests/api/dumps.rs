use crate::gated::{GatedStore, Point};
use crate::memory::MemoryStore;
use crate::server::{Answer, Server, Setup, expect_detail};
use cuckood::chain::params::Defaults;
use cuckood::file::{FileKey, FileView, Header};
use flate2::read::GzDecoder;
use reqwest::Method;
use serde_json::{Value, json};
use std::io::Read as _;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::io::AsyncWriteExt as _;
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tokio::time::sleep;

const DUMP: &str = "application/octet-stream";

async fn with_filter(key: &str, items: std::ops::Range<u64>) -> Server {
    let server = Server::start().await;
    fill(&server, key, items).await;
    server
}

async fn fill(server: &Server, key: &str, items: std::ops::Range<u64>) {
    let items: Vec<u64> = items.collect();
    let body = json!({"items": items, "create": {"capacity": 1000}});
    server
        .post(&format!("/filters/{key}/items"), body)
        .await
        .ok();
}

async fn dump(server: &Server, key: &str) -> Answer {
    let dump = server.get(&format!("/filters/{key}/dump")).await;
    assert_eq!(dump.status, 200, "{}", String::from_utf8_lossy(&dump.bytes));
    dump
}

async fn restore(server: &Server, path: &str, bytes: &[u8], headers: &[(&str, &str)]) -> Answer {
    let mut request = server
        .request(Method::PUT, path)
        .header("content-type", DUMP)
        .body(bytes.to_vec());
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    Answer::of(request).await
}

fn items(answer: &Answer) -> Value {
    answer.ok()["items"].clone()
}

#[tokio::test]
async fn a_filter_moves_from_one_server_to_another() {
    let here = with_filter("f", 0..3000).await;
    let dumped = dump(&here, "f").await;
    assert_eq!(dumped.header("content-type"), DUMP);

    let there = Server::start().await;
    let restored = restore(&there, "/filters/g/dump", &dumped.bytes, &[]).await;
    assert_eq!(restored.status, 201, "{}", restored.text());
    assert_eq!(restored.header("location"), "/filters/g");
    assert_eq!(items(&restored), 3000);
    let mut expected = here.get("/filters/f").await.ok();
    let found = there.get("/filters/g").await.ok();
    for field in ["key", "memory_bytes", "disk_bytes"] {
        expected[field] = found[field].clone();
    }
    assert_eq!(found, expected);
    let again = dump(&there, "g").await;
    assert_ne!(again.header("etag"), dumped.header("etag"));
    let content = |file: &[u8]| FileView::open(file).unwrap().verify().unwrap();
    assert_eq!(content(&again.bytes), content(&dumped.bytes));
}

#[tokio::test]
async fn a_client_that_has_the_state_of_now_is_told_so_and_needs_no_place_for_it() {
    let store = GatedStore::new(Arc::new(MemoryStore::new()));
    let server = Server::with(Setup::over(&store)).await;
    fill(&server, "f", 0..100).await;
    let first = dump(&server, "f").await;
    let (tag, changed) = (first.header("etag"), first.header("last-modified"));
    let asked = async |tag: &str| {
        let request = server.request(Method::GET, "/filters/f/dump");
        Answer::of(request.header("if-none-match", tag)).await
    };
    // All places are taken by dumps that do not begin.
    store.hold(Point::FilterRead, 16);
    let mut open = JoinSet::new();
    for _ in 0..16 {
        let request = server.request(Method::GET, "/filters/f/dump");
        open.spawn(async { Answer::of(request).await.status });
    }
    let started = Instant::now();
    while store.held() < 16 {
        assert!(started.elapsed() < Duration::from_secs(20));
        sleep(Duration::from_millis(5)).await;
    }
    for known in [tag, &format!("W/{tag}"), &format!("\"x\", {tag}"), "*"] {
        let known = asked(known).await;
        assert_eq!((known.status, known.bytes.len()), (304, 0));
        assert_eq!(known.header("etag"), tag);
        assert_eq!(known.header("last-modified"), changed);
    }
    let lineage = tag.split('-').next().unwrap();
    for other in [
        "\"x\"",
        &format!("{lineage}-0-0\""),
        &tag.to_uppercase(),
        "",
    ] {
        asked(other).await.problem(503, "overloaded");
    }
    fill(&server, "f", 100..101).await;
    asked(tag).await.problem(503, "overloaded");
    let absent = server.request(Method::GET, "/filters/g/dump");
    let absent = Answer::of(absent.header("if-none-match", "*")).await;
    absent.problem(404, "filter_not_found");
    store.open();
    assert_eq!(open.join_all().await, [200; 16]);
}

#[tokio::test]
async fn a_filter_that_is_there_is_replaced_only_when_asked() {
    let server = with_filter("rebuilt", 0..100).await;
    let rebuilt = dump(&server, "rebuilt").await.bytes;
    fill(&server, "live", 0..10).await;
    let path = "/filters/live/dump";
    let taken = restore(&server, path, &rebuilt, &[]).await;
    taken.problem(409, "filter_taken");
    let tag = dump(&server, "live").await.header("etag").to_owned();
    fill(&server, "live", 10..11).await;
    let replace = "/filters/live/dump?replace=true";
    let late = restore(&server, replace, &rebuilt, &[("if-match", &tag)]).await;
    late.problem(412, "filter_changed");
    assert_eq!(items(&server.get("/filters/live").await), 11);
    let tag = dump(&server, "live").await.header("etag").to_owned();
    let in_time = restore(&server, replace, &rebuilt, &[("if-match", &tag)]).await;
    assert_eq!(in_time.status, 200);
    assert_eq!(items(&in_time), 100);
    assert_eq!(restore(&server, replace, &rebuilt, &[]).await.status, 200);
    let any = restore(&server, replace, &rebuilt, &[("if-match", "*")]).await;
    assert_eq!(any.status, 200);

    let missing = "/filters/missing/dump?replace=true";
    for tag in ["*", tag.as_str()] {
        let none = restore(&server, missing, &rebuilt, &[("if-match", tag)]).await;
        none.problem(412, "filter_changed");
    }
    assert_eq!(restore(&server, missing, &rebuilt, &[]).await.status, 201);
    let nonsense = restore(&server, replace, &rebuilt, &[("if-match", "\"x\"")]).await;
    nonsense.problem(412, "filter_changed");
    let unasked = restore(&server, path, &rebuilt, &[("if-match", "*")]).await;
    assert_eq!(unasked.refused(), ["replace"]);
}

#[tokio::test]
async fn a_value_that_became_another_is_a_change_to_whoever_replaces_its_filter() {
    let server = Server::start().await;
    let joins = json!({"capacity": 1000, "value_bits": 12});
    server.put("/filters/joins", joins).await.ok();
    let entries = json!({"entries": [{"item": "ada", "value": 1}]});
    server.post("/filters/joins/values", entries).await.ok();
    let before = dump(&server, "joins").await;
    let replace = "/filters/joins/dump?replace=true";
    let both = json!({"entries": [{"item": "ada", "from": 1, "to": 2}]});
    let path = "/filters/joins/values/replace";
    let replaced = server.post(path, both).await.ok();
    assert_eq!(replaced, json!({"results": ["replaced"]}));
    let tag = before.header("etag");
    let late = restore(&server, replace, &before.bytes, &[("if-match", tag)]).await;
    late.problem(412, "filter_changed");
    let listed = server.get("/filters/joins/values?item=ada").await.ok();
    assert_eq!(listed, json!({"values": [2]}));
    assert_ne!(dump(&server, "joins").await.header("etag"), tag);
}

#[tokio::test]
async fn a_replaced_filter_keeps_its_time_to_end() {
    let server = with_filter("rebuilt", 0..100).await;
    let rebuilt = dump(&server, "rebuilt").await.bytes;
    server
        .put("/filters/live", json!({"ttl_seconds": 1000}))
        .await
        .ok();
    let ends = server.get("/filters/live").await.ok()["expires_at"].clone();
    assert!(ends.is_string());
    let replace = "/filters/live/dump?replace=true";
    let replaced = restore(&server, replace, &rebuilt, &[]).await.ok();
    assert_eq!(replaced["expires_at"], ends);
    assert_eq!(
        server.get("/filters/rebuilt").await.ok()["expires_at"],
        json!(null)
    );
}

#[tokio::test]
async fn what_is_no_dump_is_refused_and_leaves_nothing() {
    let server = with_filter("f", 0..3000).await;
    let whole = dump(&server, "f").await.bytes;
    let path = "/filters/g/dump";
    let mut altered = whole.clone();
    altered[whole.len() / 2] ^= 1;
    let mut newer = whole.clone();
    newer[8] = 200;
    for (bytes, code) in [
        (&altered[..], "corrupt_dump"),
        (&whole[..whole.len() - 1], "corrupt_dump"),
        (b"", "corrupt_dump"),
        (b"nonsense", "corrupt_dump"),
        (&newer, "newer_dump"),
    ] {
        let refused = restore(&server, path, bytes, &[]).await;
        refused.problem(422, code);
    }
    let keyed = restore(&server, path, &whole, &[("idempotency-key", "k")]).await;
    keyed.problem(422, "idempotency_key_not_taken");
    let typed = server
        .request(Method::PUT, path)
        .header("content-type", "text/plain")
        .body(whole.clone());
    let typed = Answer::of(typed).await;
    typed.problem(415, "unsupported_media_type");
    server
        .get("/filters/g")
        .await
        .problem(404, "filter_not_found");
    server
        .get("/filters/g/dump")
        .await
        .problem(404, "filter_not_found");
    server.get("/filters/f/dump?x=1").await.refused();

    let small = Server::with(Setup {
        engine: cuckood::engine::EngineOptions {
            defaults: Defaults {
                max_filter_bytes: 4095,
                ..Defaults::default()
            },
            ..Setup::default().engine
        },
        ..Setup::default()
    })
    .await;
    let problem = restore(&small, path, &whole, &[]).await;
    let problem = problem.problem(422, "filter_too_large");
    expect_detail(&problem, "--max-filter-bytes");
}

#[tokio::test]
async fn a_dump_of_a_longer_chain_than_the_server_allows_is_refused_and_names_the_cap() {
    let with_cap = |max_chain_length| Setup {
        engine: cuckood::engine::EngineOptions {
            defaults: Defaults {
                max_chain_length,
                ..Defaults::default()
            },
            ..Setup::default().engine
        },
        ..Setup::default()
    };
    let long = Server::with(with_cap(100)).await;
    let asked = json!({"layout": "classic", "expansion": 1, "max_expansions": 99});
    assert_eq!(long.put("/filters/f", asked).await.status, 201);
    let dumped = dump(&long, "f").await;

    let short = Server::with(with_cap(64)).await;
    let problem = restore(&short, "/filters/f/dump", &dumped.bytes, &[]).await;
    let problem = problem.problem(422, "filter_too_large");
    assert_eq!(
        problem["detail"],
        "the filter may have 100 sub-filters, 64 are allowed; start the server with a larger --max-chain-length"
    );
    short
        .get("/filters/f")
        .await
        .problem(404, "filter_not_found");
}

#[tokio::test]
async fn a_condition_is_looked_at_only_with_a_place_among_restores() {
    let server = with_filter("f", 0..100).await;
    let tag = format!("\"{}-0-0\"", "0".repeat(32));
    let path = "/filters/f/dump?replace=true";
    let changed = restore(&server, path, b"", &[("if-match", &tag)]).await;
    changed.problem(412, "filter_changed");
    // All places are taken by dumps that do not come to their end.
    let mut open = Vec::new();
    for number in 0..16 {
        let mut stream = TcpStream::connect(server.address).await.unwrap();
        let head = format!(
            "PUT /filters/g{number}/dump HTTP/1.1\r\nhost: localhost\r\ncontent-type: {DUMP}\r\ncontent-length: 9\r\n\r\na"
        );
        stream.write_all(head.as_bytes()).await.unwrap();
        open.push(stream);
    }
    let started = Instant::now();
    while server.metrics.http_in_flight.get() < 16 {
        assert!(started.elapsed() < Duration::from_secs(20));
        sleep(Duration::from_millis(10)).await;
    }
    sleep(Duration::from_millis(100)).await;
    let refused = restore(&server, path, b"", &[("if-match", &tag)]).await;
    refused.problem(503, "overloaded");
}

async fn asked(server: &Server, method: Method, path: &str, headers: &[(&str, &str)]) -> Answer {
    let mut request = server.request(method, path);
    // Otherwise the client asks for gzip, and takes it apart.
    if !headers.iter().any(|it| it.0 == "accept-encoding") {
        request = request.header("accept-encoding", "identity");
    }
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    Answer::of(request).await
}

#[tokio::test]
async fn a_dump_is_had_as_any_file_is() {
    let server = with_filter("f", 0..3000).await;
    // With counters behind its pages.
    for _ in 0..3 {
        fill(&server, "f", 0..300).await;
    }
    let path = "/filters/f/dump";
    let whole = asked(&server, Method::GET, path, &[]).await;
    let (bytes, tag) = (&whole.bytes[..], whole.header("etag").to_owned());
    let header = Header::decode(bytes).unwrap();
    // Two of the items may share a class.
    assert!(header.parts.counters >= 290);
    assert_eq!(tag, format!("\"{}\"", header.version));
    let told = &bytes[bytes.len() - 40..bytes.len() - 8];
    assert_eq!(FileView::open(bytes).unwrap().verify().unwrap(), told);
    let (length, pages_end) = (bytes.len(), header.parts.pages_end() as usize);
    assert_eq!(whole.header("content-length"), length.to_string());
    assert_eq!(whole.header("accept-ranges"), "bytes");

    let head = asked(&server, Method::HEAD, path, &[("range", "bytes=0-9")]).await;
    assert_eq!((head.status, head.bytes.len()), (200, 0));
    assert_eq!(head.header("content-length"), length.to_string());
    assert_eq!(head.header("etag"), tag);
    let gzip = [("accept-encoding", "br;q=1, gzip;q=0.5")];
    let both = [("if-match", "\"other\""), ("if-none-match", "*")];
    assert_eq!(asked(&server, Method::GET, path, &both).await.status, 412);

    let pages_at = header.parts.pages_at as usize;
    for (range, part) in [
        ("bytes=0-0".to_owned(), 0..1),
        ("bytes=0-255".to_owned(), 0..256),
        ("Bytes=5-".to_owned(), 5..length),
        ("bytes=-48".to_owned(), length - 48..length),
        (format!("bytes=-{}", 2 * length), 0..length),
        (format!("bytes=7-{}", 2 * length), 7..length),
        (format!("bytes=7-{}", u64::MAX), 7..length),
        (
            format!("bytes={}-{}", pages_at - 1, pages_at),
            pages_at - 1..pages_at + 1,
        ),
        (
            format!("bytes={}-{}", pages_at + 4095, pages_at + 8200),
            pages_at + 4095..pages_at + 8201,
        ),
        (format!("bytes=9-{}", pages_end - 1), 9..pages_end),
        (
            format!("bytes={}-{pages_end}", pages_end - 9),
            pages_end - 9..pages_end + 1,
        ),
        (
            format!("bytes={}-{}", length - 1, length - 1),
            length - 1..length,
        ),
    ] {
        let same = [
            ("range", range.as_str()),
            ("if-range", &tag),
            ("if-match", &tag),
        ];
        let had = asked(&server, Method::GET, path, &same).await;
        assert_eq!(had.status, 206, "{range}: {}", had.text());
        assert!(had.bytes == bytes[part.clone()], "{range}");
        let told = format!("bytes {}-{}/{length}", part.start, part.end - 1);
        assert_eq!(had.header("content-range"), told);
        assert_eq!(had.header("content-length"), part.len().to_string());
        assert_eq!(had.header("etag"), tag);
    }
    for range in [
        "bytes=0-1,5-6",
        "items=0-1",
        "bytes=6-5",
        "bytes=+1-5",
        "bytes=a-b",
        "bytes=-",
        "5-6",
    ] {
        let had = asked(&server, Method::GET, path, &[("range", range)]).await;
        assert_eq!(had.status, 200, "{range}");
        assert!(had.bytes == bytes, "{range}");
    }
    for range in [
        "bytes=999999999-999999999",
        "bytes=-0",
        &format!("bytes={length}-"),
    ] {
        let none = asked(&server, Method::GET, path, &[("range", range)]).await;
        none.problem(416, "range_beyond_end");
        assert_eq!(none.header("content-range"), format!("bytes */{length}"));
    }

    let packed = asked(&server, Method::GET, path, &gzip).await;
    assert_eq!(packed.header("content-encoding"), "gzip");
    assert_eq!(packed.header("accept-ranges"), "none");
    assert_eq!(
        packed.header("etag"),
        format!("{}-gzip\"", tag.trim_end_matches('"'))
    );
    // As long as it comes to be.
    let head = asked(&server, Method::HEAD, path, &gzip).await;
    for name in ["content-encoding", "accept-ranges", "etag"] {
        assert_eq!(head.header(name), packed.header(name), "{name}");
    }
    assert_eq!(head.headers.get("content-length"), None);
    let mut unpacked = Vec::new();
    GzDecoder::new(&packed.bytes[..])
        .read_to_end(&mut unpacked)
        .unwrap();
    assert!(unpacked == bytes && packed.bytes.len() < length);
    let known = [gzip[0], ("if-none-match", packed.header("etag"))];
    let known = asked(&server, Method::GET, path, &known).await;
    assert_eq!(
        (known.status, known.header("etag")),
        (304, packed.header("etag"))
    );
    let part = [gzip[0], ("range", "bytes=0-9")];
    assert_eq!(
        asked(&server, Method::GET, path, &part).await.bytes,
        bytes[..10]
    );
    let refused = [("accept-encoding", "gzip;q=0")];
    assert!(asked(&server, Method::GET, path, &refused).await.bytes == bytes);

    // Of another state there is no part, and nothing at all for who wants that one alone.
    fill(&server, "f", 5000..5001).await;
    for other in [
        tag.as_str(),
        packed.header("etag"),
        "W/\"x\"",
        "Tue, 24 Nov 2026 00:00:00 GMT",
    ] {
        let late = [("range", "bytes=0-9"), ("if-range", other)];
        let late = asked(&server, Method::GET, path, &late).await;
        assert_eq!(late.status, 200);
        assert!(late.bytes.len() >= length);
    }
    let late = asked(&server, Method::GET, path, &[("if-match", &tag)]).await;
    late.problem(412, "filter_changed");
    let absent = asked(&server, Method::HEAD, "/filters/g/dump", &[]).await;
    assert_eq!(absent.status, 404);
}

#[tokio::test]
async fn conditions_are_about_what_would_be_sent() {
    let server = with_filter("f", 0..3000).await;
    let path = "/filters/f/dump";
    let (gzip, part) = (("accept-encoding", "gzip"), ("range", "bytes=0-9"));
    let whole = asked(&server, Method::GET, path, &[]).await;
    let packed = asked(&server, Method::GET, path, &[gzip]).await;
    let (tag, changed) = (whole.header("etag"), whole.header("last-modified"));
    let packed = packed.header("etag");
    let before = "Thu, 01 Jan 1970 00:00:00 GMT";
    let later = "Fri, 01 Jan 2100 00:00:00 GMT";
    for (headers, status, answered) in [
        (&[("if-match", tag)][..], 200, tag),
        (&[("if-match", packed)], 412, ""),
        (&[("if-match", packed), gzip], 200, packed),
        (&[("if-match", packed), gzip, part], 412, ""),
        (&[("if-range", tag), gzip, part], 206, tag),
        (&[("if-range", packed), gzip, part], 200, tag),
        // Both have the same state.
        (&[("if-none-match", tag)], 304, tag),
        (&[("if-none-match", packed)], 304, tag),
        (&[("if-none-match", tag), gzip], 304, packed),
        (&[("if-none-match", packed), gzip, part], 304, tag),
        (&[("if-modified-since", changed)], 304, tag),
        (&[("if-modified-since", before)], 200, tag),
        (&[("if-modified-since", later)], 200, tag),
        (&[("if-unmodified-since", later)], 200, tag),
        (&[("if-modified-since", "now")], 200, tag),
        (&[("if-unmodified-since", changed)], 200, tag),
        (&[("if-unmodified-since", before)], 412, ""),
        // Tags are asked first.
        (
            &[("if-none-match", "\"x\""), ("if-modified-since", changed)],
            200,
            tag,
        ),
        (
            &[("if-match", tag), ("if-unmodified-since", before)],
            200,
            tag,
        ),
    ] {
        for method in [Method::GET, Method::HEAD] {
            // Of HEAD there is no part.
            if method == Method::HEAD && headers.contains(&part) {
                continue;
            }
            let had = asked(&server, method, path, headers).await;
            let told = (had.status, had.header("etag"));
            assert_eq!(told, (status, answered), "{headers:?}");
            // It holds a key.
            assert_eq!(had.header("cache-control"), "no-store");
        }
    }
}

#[tokio::test]
async fn a_dump_without_its_key_is_asked_with_it_and_not_restored() {
    let server = with_filter("f", 0..100).await;
    let whole = dump(&server, "f").await;
    let FileKey::Here(key) = Header::decode(&whole.bytes).unwrap().key else {
        panic!("it has a key");
    };
    let bare = server.get("/filters/f/dump?without_key=true").await;
    assert_eq!(bare.status, 200);
    assert!(!bare.bytes.windows(16).any(|it| it == key.0));
    let view = FileView::open(&bare.bytes[..]).unwrap();
    view.verify().unwrap();
    assert!(view.exists(b"7", None).is_err());
    let view = view.with_key(key).unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(view.exists(b"7", None), Ok(true));
    let refused = restore(&server, "/filters/g/dump", &bare.bytes, &[]).await;
    let problem = refused.problem(422, "corrupt_dump");
    expect_detail(&problem, "the key of its hash was left out");
    let wrong = server.get("/filters/f/dump?without_key=perhaps").await;
    assert_eq!(wrong.refused(), ["without_key"]);
}
