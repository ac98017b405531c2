//! Requests that are not worked on for longer than they say, or than the server
//! allows.

use crate::gated::{GatedStore, Point};
use crate::memory::MemoryStore;
use crate::server::{Answer, Server, Setup, expect_detail};
use reqwest::Method;
use serde_json::json;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

async fn add(server: &Server, wait: &str, item: &str) -> Answer {
    let request = server.request(Method::POST, "/filters/f/items");
    let request = request
        .header("prefer", wait)
        .json(&json!({"items": [item]}));
    Answer::of(request).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_change_that_waits_is_withdrawn_at_its_deadline_and_one_being_written_is_indeterminate() {
    let store = GatedStore::new(Arc::new(MemoryStore::new()));
    let mut setup = Setup::over(&store);
    setup.engine.lanes = 1;
    let server = Server::with(setup).await;
    server.put("/filters/f", json!({})).await.ok();
    store.hold_first(Point::CommitDone);
    let written = add(&server, "wait=0.2", "deadline-written").await;
    written.problem(500, "outcome_unknown");
    let waiting = add(&server, "wait=0.2", "deadline-waiting").await;
    let problem = waiting.problem(503, "deadline_exceeded");
    assert_eq!(waiting.header("retry-after"), "1");
    // All of it was read, so the next request may follow.
    assert_eq!(waiting.header("connection"), "");
    expect_detail(&problem, "nothing was changed");
    // What needs no commit is answered meanwhile.
    let there = server.get("/filters/f/exists?item=other").await.ok();
    assert_eq!(there, json!({"exists": false}));

    store.open();
    add(&server, "wait=20", "deadline-later").await.ok();
    for (item, exists) in [
        ("deadline-written", true),
        ("deadline-waiting", false),
        ("deadline-later", true),
    ] {
        let asked = server.get(&format!("/filters/f/exists?item={item}")).await;
        assert_eq!(asked.ok()["exists"], exists, "{item}");
    }
    let rejected = &server.metrics.http_rejected;
    assert_eq!(rejected.with_label_values(&["deadline_exceeded"]).get(), 1);
}

#[tokio::test]
async fn the_server_has_a_longest_time_that_a_request_cannot_extend() {
    let mut setup = Setup::default();
    setup.limits.request_timeout = Duration::from_millis(300);
    let server = Server::with(setup).await;
    server.put("/filters/f", json!({})).await.ok();
    for prefer in ["", "prefer: wait=3600\r\n"] {
        let started = Instant::now();
        let mut stream = TcpStream::connect(server.address).await.unwrap();
        let head = format!(
            "POST /filters/f/exists HTTP/1.1\r\nhost: localhost\r\ncontent-type: text/plain\r\n{prefer}content-length: 10\r\n\r\nabc"
        );
        stream.write_all(head.as_bytes()).await.unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.unwrap();
        assert!(answer.starts_with("HTTP/1.1 503 "), "{answer}");
        assert!(answer.contains(r#""code":"deadline_exceeded""#), "{answer}");
        assert!(answer.contains("connection: close"), "{answer}");
        assert!(started.elapsed() < Duration::from_secs(20));
    }
}

#[tokio::test]
async fn a_stream_takes_as_long_as_it_likes() {
    let mut setup = Setup::default();
    setup.limits.request_timeout = Duration::from_millis(200);
    let server = Server::with(setup).await;
    server.put("/filters/f", json!({})).await.ok();
    let mut stream = TcpStream::connect(server.address).await.unwrap();
    let head = "POST /filters/f/import?import_id=i HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\ncontent-type: text/plain\r\ncontent-length: 4\r\n\r\na\n";
    stream.write_all(head.as_bytes()).await.unwrap();
    tokio::time::sleep(Duration::from_millis(500)).await;
    stream.write_all(b"b\n").await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
    assert!(answer.contains(r#""added":2"#), "{answer}");
}

#[tokio::test]
async fn a_wait_that_is_no_time_is_refused() {
    let server = Server::start().await;
    server.put("/filters/f", json!({})).await.ok();
    for (prefer, given) in [
        ("wait=soon", "soon"),
        ("wait=0", "0"),
        ("return=minimal, wait=-1", "-1"),
    ] {
        let problem = add(&server, prefer, "a").await;
        let problem = problem.problem(422, "invalid_deadline");
        expect_detail(&problem, &format!("is {given},"));
    }
    assert_eq!(server.get("/filters/f").await.ok()["items"], 0);
    add(&server, "return=minimal", "a").await.ok();
    add(&server, "wait=2.5", "b").await.ok();
}

#[tokio::test(flavor = "multi_thread")]
async fn changes_that_wait_leave_places_for_questions() {
    let store = GatedStore::new(Arc::new(MemoryStore::new()));
    let mut setup = Setup::over(&store);
    setup.limits.max_in_flight = 4;
    let server = Arc::new(Server::with(setup).await);
    server.put("/filters/f", json!({})).await.ok();
    store.hold_first(Point::CommitDone);
    let waiting: Vec<_> = (0..3)
        .map(|item| {
            let server = Arc::clone(&server);
            tokio::spawn(async move { add(&server, "wait=60", &format!("{item}")).await })
        })
        .collect();
    tokio::task::block_in_place(|| store.await_arrival());
    while server.metrics.http_in_flight.get() < 3 {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    let refused = add(&server, "wait=60", "one too many").await;
    refused.problem(503, "overloaded");
    for _ in 0..10 {
        server.get("/filters/f/exists?item=a").await.ok();
    }
    store.open();
    for added in waiting {
        added.await.unwrap().ok();
    }
    add(&server, "wait=60", "now").await.ok();
    assert_eq!(server.get("/filters/f").await.ok()["items"], 4);
}

#[tokio::test(flavor = "multi_thread")]
async fn large_changes_that_wait_for_the_disk_hold_up_neither_large_questions_nor_changes() {
    let store = GatedStore::new(Arc::new(MemoryStore::new()));
    let mut setup = Setup::over(&store);
    // Large enough for two lanes.
    setup.engine.cache_bytes = 80 << 20;
    let server = Arc::new(Server::with(setup).await);
    let create = json!({"capacity": 10_000});
    let lines: String = (0..10_000).map(|item| format!("item {item}\n")).collect();
    let large = |path: String| {
        let (server, lines) = (Arc::clone(&server), lines.clone());
        tokio::spawn(async move { server.send(&path, "text/plain", lines).await })
    };
    server.put("/filters/f", create.clone()).await.ok();
    for n in 0..8 {
        let path = format!("/filters/other{n}");
        server.put(&path, create.clone()).await.ok();
    }
    store.hold_first(Point::CommitDone);
    let changes = 2 * std::thread::available_parallelism().map_or(1, usize::from);
    let waiting: Vec<_> = (0..changes)
        .map(|_| large("/filters/f/items".to_owned()))
        .collect();
    tokio::task::block_in_place(|| store.await_arrival());
    while server
        .metrics
        .lane_queue_depth
        .with_label_values(&["0"])
        .get()
        + server
            .metrics
            .lane_queue_depth
            .with_label_values(&["1"])
            .get()
        == 0
    {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    for _ in 0..3 {
        large("/filters/f/exists".to_owned()).await.unwrap().ok();
    }
    // Some of these have the other lane.
    let mut others: Vec<_> = (0..8)
        .map(|n| large(format!("/filters/other{n}/items")))
        .collect();
    let done = tokio::time::timeout(Duration::from_secs(20), async {
        while !others.iter().any(|it| it.is_finished()) {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    });
    done.await.expect("a change of the other lane");
    store.open();
    others.extend(waiting);
    for added in others {
        added.await.unwrap().ok();
    }
}
