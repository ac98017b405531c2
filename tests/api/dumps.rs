use crate::server::{Answer, Server, Setup};
use cuckood::chain::params::Defaults;
use reqwest::Method;
use serde_json::{Value, json};
use std::time::{Duration, Instant};
use tokio::io::AsyncWriteExt as _;
use tokio::net::TcpStream;
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
    assert_eq!(
        dumped.header("content-length"),
        dumped.bytes.len().to_string()
    );
    let tag = dumped.header("etag").to_owned();
    assert_eq!(tag.len(), 66);

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
    assert_eq!(again.header("etag"), tag);
    assert_eq!(again.bytes, dumped.bytes);

    let known = there
        .request(Method::GET, "/filters/g/dump")
        .header("if-none-match", &tag);
    let known = Answer::of(known).await;
    assert_eq!((known.status, known.bytes.len()), (304, 0));
    assert_eq!(known.header("etag"), tag);
    fill(&there, "g", 3000..3001).await;
    assert_ne!(dump(&there, "g").await.header("etag"), tag);
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
    // Whatever is asked for, the digest is remembered.
    let other = format!("\"{}\"", "0".repeat(64));
    let refused = restore(&server, replace, &before.bytes, &[("if-match", &other)]).await;
    refused.problem(412, "filter_changed");
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
    assert!(
        problem["detail"]
            .as_str()
            .unwrap()
            .contains("--max-filter-bytes")
    );
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
    let tag = format!("\"{}\"", "0".repeat(64));
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
