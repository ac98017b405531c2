//! Bounds of the server as a whole: what is over one is told so at once.

use crate::gated::{GatedStore, Point};
use crate::memory::MemoryStore;
use crate::server::{Answer, Server, Setup, expect_detail};
use cuckood::access::keys::ApiKeys;
use cuckood::access::{Scope, file};
use reqwest::Method;
use serde_json::json;
use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::{Duration, Instant, UNIX_EPOCH};
use tokio::io::AsyncWriteExt as _;
use tokio::net::TcpStream;
use tokio::time::sleep;

/// A request whose body never ends.
async fn endless(server: &Server) -> TcpStream {
    let mut stream = TcpStream::connect(server.address).await.unwrap();
    let head = "POST /filters/f/items HTTP/1.1\r\nhost: localhost\r\ncontent-type: text/plain\r\ncontent-length: 9\r\n\r\na";
    stream.write_all(head.as_bytes()).await.unwrap();
    stream
}

#[tokio::test]
async fn requests_beyond_those_that_may_be_worked_on_are_turned_away_at_once() {
    let mut setup = Setup::default();
    setup.limits.max_in_flight = 2;
    let server = Server::with(setup).await;
    server.put("/filters/f", json!({})).await.ok();
    let busy = [endless(&server).await, endless(&server).await];
    while server.metrics.http_in_flight.get() < 2 {
        sleep(Duration::from_millis(5)).await;
    }
    let started = Instant::now();
    for _ in 0..10 {
        let refused = server.get("/filters/f").await;
        let problem = refused.problem(503, "overloaded");
        expect_detail(&problem, "--max-in-flight");
    }
    assert!(started.elapsed() < Duration::from_secs(2));
    // Those who look after the server get through.
    for path in ["/livez", "/readyz", "/metrics", "/openapi.json"] {
        assert_eq!(server.get(path).await.status, 200, "{path}");
    }
    drop(busy);
    while server.get("/filters/f").await.status != 200 {
        assert!(started.elapsed() < Duration::from_secs(20));
        sleep(Duration::from_millis(10)).await;
    }
}

#[tokio::test]
async fn a_key_that_asks_too_often_is_told_when_to_ask_again() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("keys.json");
    let [fast, slow] = ["fast", "slow"].map(|name| {
        file::add(
            &path,
            file::NewKey::new(name.parse().unwrap(), Scope::Read),
            UNIX_EPOCH,
        )
        .unwrap()
    });
    let ring = ApiKeys::open(&path, NonZeroU32::new(5)).unwrap();
    let server = Server::with(Setup {
        keys: Some(Arc::new(ring)),
        ..Setup::default()
    })
    .await;
    let ask = |key: &str| Answer::of(server.request(Method::GET, "/filters").bearer_auth(key));
    let started = Instant::now();
    let mut refused = 0;
    for _ in 0..40 {
        let answer = ask(fast.as_str()).await;
        if answer.status == 200 {
            continue;
        }
        answer.problem(429, "rate_limited");
        assert_eq!(answer.header("retry-after"), "1");
        refused += 1;
    }
    // What it has at once, and what came back meanwhile.
    let allowed = 5.0 + started.elapsed().as_secs_f64() * 5.0 + 1.0;
    assert!(
        refused > 0 && f64::from(40 - refused) <= allowed,
        "{refused}"
    );
    assert_eq!(ask(slow.as_str()).await.status, 200);
    sleep(Duration::from_millis(1100)).await;
    assert_eq!(ask(fast.as_str()).await.status, 200);
}

#[tokio::test]
async fn filters_beyond_those_that_there_may_be_are_refused() {
    let store = MemoryStore::new();
    let setup = || {
        let mut setup = Setup::over(&store);
        setup.engine.defaults.max_filters = Some(2);
        setup
    };
    let server = Server::with(setup()).await;
    for key in ["a", "b"] {
        assert_eq!(
            server
                .put(&format!("/filters/{key}"), json!({}))
                .await
                .status,
            201
        );
    }
    let full = |answer: Answer| {
        let problem = answer.problem(507, "too_many_filters");
        expect_detail(&problem, "--max-filters");
    };
    full(server.put("/filters/c", json!({})).await);
    let create = json!({"items": ["x"], "create": {}});
    full(server.post("/filters/c/items", create).await);
    let dump = server.get("/filters/a/dump").await;
    let restore = |path: &str| {
        let request = server.request(Method::PUT, path).body(dump.bytes.clone());
        Answer::of(request.header("content-type", "application/octet-stream"))
    };
    full(restore("/filters/c/dump").await);
    // One that takes the place of another is none more.
    assert_eq!(restore("/filters/b/dump?replace=true").await.status, 200);
    full(server.put("/filters/c", json!({})).await);
    // Those that are there are still served, and one less makes room for one.
    server
        .post("/filters/a/items", json!({"items": ["x"]}))
        .await
        .ok();
    assert_eq!(server.put("/filters/a", json!({})).await.status, 200);
    assert_eq!(server.delete("/filters/a").await.status, 204);
    assert_eq!(server.put("/filters/c", json!({})).await.status, 201);
    server.stop().await;
    // They are counted again by a start.
    let server = Server::with(setup()).await;
    full(server.put("/filters/d", json!({})).await);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn of_filters_made_at_the_same_moment_no_more_come_into_being_than_may() {
    let mut setup = Setup::default();
    setup.engine.defaults.max_filters = Some(5);
    let store = GatedStore::new(Arc::new(MemoryStore::new()));
    setup.store = Arc::new(store.clone());
    setup.engine.lanes = 1;
    let server = Server::with(setup).await;
    // The first one's commit takes a while: all the others come meanwhile.
    store.hold_first(Point::CommitDone);
    let asked = (0..24).map(|number| {
        let request = server.request(Method::PUT, &format!("/filters/f{number}"));
        tokio::spawn(Answer::of(request))
    });
    let asked: Vec<_> = asked.collect();
    sleep(Duration::from_millis(300)).await;
    store.open();
    let mut statuses = Vec::new();
    for answer in asked {
        statuses.push(answer.await.unwrap().status);
    }
    let made = statuses.iter().filter(|&&status| status == 201).count();
    let refused = statuses.iter().filter(|&&status| status == 507).count();
    assert_eq!((made, refused), (5, 19), "{statuses:?}");
    // What was promised to those that were refused is free again.
    let names = server.get("/filters").await.ok();
    let name = names["filters"][0]["key"].as_str().unwrap();
    let path = format!("/filters/{name}");
    assert_eq!(server.delete(&path).await.status, 204);
    assert_eq!(server.put("/filters/last", json!({})).await.status, 201);
    assert_eq!(server.put("/filters/late", json!({})).await.status, 507);
}

/// A request of this key whose body never ends.
async fn endless_of(server: &Server, key: &str) -> TcpStream {
    let mut stream = TcpStream::connect(server.address).await.unwrap();
    let head = format!(
        "POST /filters/f/exists HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer {key}\r\ncontent-type: text/plain\r\ncontent-length: 9\r\n\r\na"
    );
    stream.write_all(head.as_bytes()).await.unwrap();
    stream
}

#[tokio::test]
async fn one_key_takes_no_more_than_half_of_the_places_while_there_are_others() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("keys.json");
    let add = |name: &str| {
        let new = file::NewKey::new(name.parse().unwrap(), Scope::Admin);
        file::add(&path, new, UNIX_EPOCH).unwrap()
    };
    let greedy = add("greedy");
    let ring = Arc::new(ApiKeys::open(&path, None).unwrap());
    let mut setup = Setup {
        keys: Some(Arc::clone(&ring)),
        ..Setup::default()
    };
    setup.limits.max_in_flight = 4;
    let server = Server::with(setup).await;
    let ask = |key: &str| Answer::of(server.request(Method::GET, "/filters").bearer_auth(key));
    let create = server.request(Method::PUT, "/filters/f");
    Answer::of(create.bearer_auth(greedy.as_str())).await.ok();
    let in_flight = async |count: i64| {
        while server.metrics.http_in_flight.get() != count {
            sleep(Duration::from_millis(5)).await;
        }
    };

    // The only one may have all.
    let mut busy = Vec::new();
    for _ in 0..3 {
        busy.push(endless_of(&server, greedy.as_str()).await);
    }
    in_flight(3).await;
    assert_eq!(ask(greedy.as_str()).await.status, 200);
    drop(busy);
    in_flight(0).await;

    let other = add("other");
    ring.reload().unwrap();
    let busy = [
        endless_of(&server, greedy.as_str()).await,
        endless_of(&server, greedy.as_str()).await,
    ];
    in_flight(2).await;
    let refused = ask(greedy.as_str()).await;
    let problem = refused.problem(429, "over_share");
    expect_detail(&problem, "2 requests in flight");
    assert_eq!(refused.header("retry-after"), "1");
    assert_eq!(ask(other.as_str()).await.status, 200);
    drop(busy);
    in_flight(0).await;
    assert_eq!(ask(greedy.as_str()).await.status, 200);
}

#[tokio::test]
async fn a_request_waits_for_a_place_for_a_moment_before_it_is_turned_away() {
    let mut setup = Setup::default();
    setup.limits.max_in_flight = 1;
    let server = Server::with(setup).await;
    server.put("/filters/f", json!({})).await.ok();
    let busy = endless(&server).await;
    while server.metrics.http_in_flight.get() < 1 {
        sleep(Duration::from_millis(5)).await;
    }
    let (answer, ()) = tokio::join!(server.get("/filters/f"), async {
        sleep(Duration::from_millis(30)).await;
        drop(busy);
    });
    assert_eq!(answer.status, 200);
}
