//! `ttl_seconds`, on a clock that the tests set.

use crate::server::{Answer, Server, Setup};
use cuckood::engine::Clock;
use reqwest::Method;
use serde_json::{Value, json};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// 2026-11-21T10:00:00Z.
const START_MS: u64 = 1_795_255_200_000;

async fn server() -> (Server, Arc<AtomicU64>) {
    let now_ms = Arc::new(AtomicU64::new(START_MS));
    let mut setup = Setup::default();
    setup.engine.clock = Clock::Set(Arc::clone(&now_ms));
    (Server::with(setup).await, now_ms)
}

async fn patch(server: &Server, path: &str, body: Value) -> Answer {
    Answer::of(server.request(Method::PATCH, path).json(&body)).await
}

#[tokio::test]
async fn a_filter_shows_when_it_ends_and_is_gone_then() {
    let (server, now_ms) = server().await;
    let made = server.put("/filters/a", json!({"ttl_seconds": 60})).await;
    assert_eq!(made.status, 201);
    assert_eq!(made.ok()["ttl_seconds"], 60);
    assert_eq!(made.ok()["expires_at"], "2026-11-21T10:01:00.000Z");
    let stays = server.put("/filters/b", json!({})).await.ok();
    assert_eq!(stays["expires_at"], json!(null));
    assert_eq!(stays["ttl_seconds"], json!(null));
    let listed = server.get("/filters").await.ok();
    assert_eq!(
        listed["filters"][0]["expires_at"],
        "2026-11-21T10:01:00.000Z"
    );
    assert_eq!(listed["filters"][1]["expires_at"], json!(null));

    let differs = server.put("/filters/a", json!({"ttl_seconds": 61})).await;
    let problem = differs.problem(409, "filter_differs");
    assert_eq!(problem["errors"][0]["pointer"], "/ttl_seconds");
    assert_eq!(problem["errors"][0]["existing"], "60");

    now_ms.fetch_add(60_000, Ordering::SeqCst);
    server
        .get("/filters/a")
        .await
        .problem(404, "filter_not_found");
    let asked = server.get("/filters/a/exists?item=x").await;
    asked.problem(404, "filter_not_found");
    let lookup = json!({"items": ["x"], "prefix": "a"});
    let found = server.post("/lookup", lookup).await.ok();
    assert_eq!(
        found["missing_filters"],
        json!([]),
        "as if it had never been"
    );
    let listed = server.get("/filters?limit=1").await.ok();
    assert_eq!(listed["filters"][0]["key"], "b");
    assert_eq!(listed["next_cursor"], json!(null));
    let made = server.put("/filters/a", json!({"capacity": 50})).await;
    assert_eq!(made.status, 201, "the name is free");
    assert_eq!(made.ok()["expires_at"], json!(null));
    server.stop().await;
}

#[tokio::test]
async fn an_end_is_changed_by_patch() {
    let (server, now_ms) = server().await;
    server.put("/filters/a", json!({})).await.ok();
    let changed = patch(&server, "/filters/a", json!({"ttl_seconds": 90})).await;
    assert_eq!(changed.ok()["expires_at"], "2026-11-21T10:01:30.000Z");
    let stays = patch(&server, "/filters/a", json!({"ttl_seconds": null})).await;
    assert_eq!(stays.ok()["expires_at"], json!(null));
    patch(&server, "/filters/a", json!({"ttl_seconds": 1}))
        .await
        .ok();
    now_ms.fetch_add(1_000, Ordering::SeqCst);
    let late = patch(&server, "/filters/a", json!({"ttl_seconds": null})).await;
    late.problem(404, "filter_not_found");
}

#[tokio::test]
async fn a_time_to_live_out_of_range_is_refused_wherever_it_stands() {
    let (server, _) = server().await;
    server.put("/filters/a", json!({})).await.ok();
    for refused in [
        json!(0),
        json!(-1),
        json!(3_162_240_001_u64),
        json!("60"),
        json!(1.5),
    ] {
        let body = json!({"ttl_seconds": refused});
        let put = server.put("/filters/n", body.clone()).await;
        assert_eq!(put.refused(), ["/ttl_seconds"], "{refused}");
        let patched = patch(&server, "/filters/a", body.clone()).await;
        assert_eq!(patched.refused(), ["/ttl_seconds"], "{refused}");
        let add = json!({"items": ["x"], "create": body});
        let added = server.post("/filters/n/items", add).await;
        assert_eq!(added.refused(), ["/create/ttl_seconds"], "{refused}");
    }
    assert_eq!(
        patch(&server, "/filters/a", json!({})).await.refused(),
        ["/ttl_seconds"]
    );
    let unknown = patch(
        &server,
        "/filters/a",
        json!({"ttl_seconds": 1, "capacity": 5}),
    )
    .await;
    assert_eq!(unknown.refused(), ["/capacity"]);
    let bare = Answer::of(server.request(Method::PATCH, "/filters/a").body("{}")).await;
    bare.problem(415, "unsupported_media_type");
    let lines = "/filters/n/items?create=true&ttl_seconds=0";
    let added = server.send(lines, "text/plain", "x").await;
    assert_eq!(added.refused(), ["ttl_seconds"]);
    server
        .get("/filters/n")
        .await
        .problem(404, "filter_not_found");
}

#[tokio::test]
async fn an_add_gives_the_filter_that_it_creates_an_end() {
    let (server, now_ms) = server().await;
    let lines = "/filters/l/items?create=true&ttl_seconds=10";
    server.send(lines, "text/plain", "x").await.ok();
    let body = json!({"items": ["x"], "create": {"ttl_seconds": 10}});
    server.post("/filters/j/items", body).await.ok();
    for filter in ["/filters/l", "/filters/j"] {
        let info = server.get(filter).await.ok();
        assert_eq!(info["expires_at"], "2026-11-21T10:00:10.000Z");
    }
    now_ms.fetch_add(10_000, Ordering::SeqCst);
    // The next one starts anew, with nothing of the one before.
    server.send(lines, "text/plain", "y").await.ok();
    let found = server
        .post("/filters/l/exists", json!({"items": ["x", "y"]}))
        .await;
    assert_eq!(found.ok(), json!({"results": [false, true]}));
}

#[tokio::test]
async fn a_clock_that_jumps_ahead_ends_nothing_until_it_is_confirmed() {
    let wall_ms = Arc::new(AtomicU64::new(START_MS));
    let since_boot_ms = Arc::new(AtomicU64::new(9_000));
    let mut setup = Setup::default();
    setup.engine.clock = Clock::Both {
        wall_ms: Arc::clone(&wall_ms),
        since_boot_ms: Arc::clone(&since_boot_ms),
    };
    let server = Server::with(setup).await;
    let made = server.put("/filters/a", json!({"ttl_seconds": 3600})).await;
    assert_eq!(made.status, 201);
    assert_eq!(
        server.get("/admin/clock").await.ok()["jump_seconds"],
        json!(null)
    );

    wall_ms.fetch_add(86_400_000, Ordering::SeqCst);
    let clock = server.get("/admin/clock").await.ok();
    assert_eq!(
        clock,
        json!({
            "now": "2026-11-21T10:00:00.000Z",
            "system": "2026-11-22T10:00:00.000Z",
            "jump_seconds": 86_400
        })
    );
    assert_eq!(server.get("/filters/a").await.status, 200);
    for round in 0.. {
        if server.metrics.clock_jump_seconds.get() == 86_400 {
            break;
        }
        assert!(round < 100, "no metric tells the jump");
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    }
    // What passes by the other clock passes.
    for clock in [&wall_ms, &since_boot_ms] {
        clock.fetch_add(3_599_000, Ordering::SeqCst);
    }
    assert_eq!(server.get("/filters/a").await.status, 200);

    let confirmed = server.post("/admin/clock/confirm", json!({})).await.ok();
    assert_eq!(confirmed["jump_seconds"], json!(null));
    assert_eq!(confirmed["now"], "2026-11-22T10:59:59.000Z");
    server
        .get("/filters/a")
        .await
        .problem(404, "filter_not_found");
}
