//! Compactions over a real socket.

use crate::server::{Answer, Server};
use reqwest::Method;
use serde_json::{Value, json};
use std::time::Duration;

/// Waits until the compaction has ended, and says how.
async fn ended(server: &Server) -> Value {
    loop {
        let status = server.get("/filters/f/compaction").await.ok();
        if status["state"] != "running" {
            return status;
        }
        assert_eq!(status["ended_at"], json!(null));
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

#[tokio::test]
async fn a_filter_is_compacted_and_tells_how_far_it_is() {
    let server = Server::start().await;
    server
        .put(
            "/filters/f",
            json!({"capacity": 500, "bucket_size": 4, "expansion": 2}),
        )
        .await;
    let unknown = server.get("/filters/f/compaction").await;
    unknown.problem(404, "compaction_not_found");
    let items: Vec<u64> = (0..8_000).collect();
    let body = json!({"items": items});
    server.post("/filters/f/items", body).await.ok();
    let grown = server.get("/filters/f").await.ok();
    let sub_filters = grown["sub_filters"].as_array().unwrap().len();
    assert!(sub_filters > 1);
    let (kept, gone): (Vec<u64>, Vec<u64>) = items.into_iter().partition(|n| n % 20 == 0);
    let body = json!({"items": gone});
    server.post("/filters/f/items/delete", body).await.ok();

    let compact = || {
        server
            .request(Method::POST, "/filters/f/compact")
            .header("idempotency-key", "k")
    };
    let begun = Answer::of(compact()).await;
    assert_eq!(begun.status, 202);
    assert_eq!(begun.header("location"), "/filters/f/compaction");
    let closed = begun.ok()["closed_sub_filters"].as_u64().unwrap() as usize;
    assert_eq!(closed, sub_filters - 1);
    let it = ended(&server).await;
    assert_eq!(it["state"], "done");
    assert_eq!(it["asked_for"], true);
    assert_eq!(it["dropped_sub_filters"], closed);
    assert!(it["moved"].as_u64().unwrap() > 0);
    assert!(it["ended_at"].is_string());

    let shrunk = server.get("/filters/f").await.ok();
    assert_eq!(shrunk["sub_filters"].as_array().unwrap().len(), 1);
    assert_eq!(shrunk["items"], 400);
    let body = json!({"items": kept});
    let found = server.post("/filters/f/exists", body).await.ok();
    assert_eq!(found["results"], json!(vec![true; 400]));

    // Asked for again by its key it is not done again.
    let again = Answer::of(compact()).await;
    assert_eq!(again.status, 202);
    assert_eq!(again.header("idempotency-replayed"), "true");
    assert_eq!(again.bytes, begun.bytes);
    // Without, it finds nothing to do.
    let nothing = server.request(Method::POST, "/filters/f/compact");
    assert_eq!(Answer::of(nothing).await.ok()["closed_sub_filters"], 0);
    let it = ended(&server).await;
    assert_eq!((&it["state"], &it["moved"]), (&json!("done"), &json!(0)));

    let metrics = server.get("/metrics").await;
    assert!(
        metrics
            .text()
            .contains("cuckood_compactions_total{outcome=\"done\"} 2\n")
    );
    assert!(metrics.text().contains("cuckood_compactions_running 0\n"));
}

#[tokio::test]
async fn only_filters_that_are_there_are_compacted() {
    let server = Server::start().await;
    let missing = server.request(Method::POST, "/filters/f/compact");
    Answer::of(missing).await.problem(404, "filter_not_found");
    let missing = server.get("/filters/f/compaction").await;
    missing.problem(404, "filter_not_found");
    let asked = server.request(Method::POST, "/filters/f/compact?now=1");
    Answer::of(asked).await.problem(422, "invalid_fields");
}
