//! Filters whose items expire by themselves, on a clock that the tests set.

use crate::server::{Answer, Server, Setup, expect_detail};
use cuckood::engine::Clock;
use reqwest::Method;
use serde_json::{Value, json};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// 2026-11-21T10:00:00Z.
const START_MS: u64 = 1_795_255_200_000;

/// A server with one filter of a day, "mails", and one without a window, "plain".
async fn with_filters() -> (Server, Arc<AtomicU64>) {
    let now_ms = Arc::new(AtomicU64::new(START_MS));
    let mut setup = Setup::default();
    setup.engine.clock = Clock::Set(Arc::clone(&now_ms));
    let server = Server::with(setup).await;
    let mails = json!({"capacity": 1000, "window_seconds": 86_400});
    let made = server.put("/filters/mails", mails).await;
    assert_eq!(made.status, 201);
    let plain = json!({"capacity": 1000});
    server.put("/filters/plain", plain).await.ok();
    (server, now_ms)
}

fn pass(now_ms: &AtomicU64, seconds: u64) {
    now_ms.fetch_add(1000 * seconds, Ordering::SeqCst);
}

async fn add(server: &Server, body: Value) -> Value {
    server.post("/filters/mails/items", body).await.ok()["results"].clone()
}

async fn exists(server: &Server, query: &str) -> Value {
    let path = format!("/filters/mails/exists?{query}");
    server.get(&path).await.ok()["exists"].clone()
}

/// The place, what was given and what is allowed, of the only refused field.
fn refusal(answer: &Answer) -> [String; 3] {
    let problem = answer.problem(422, "invalid_fields");
    let error = &problem["errors"][0];
    let text = |field: &str| error[field].as_str().unwrap_or_default().to_owned();
    let place = match error.get("pointer") {
        Some(Value::String(pointer)) => pointer.clone(),
        _ => text("parameter"),
    };
    [place, text("given"), text("allowed")]
}

#[tokio::test]
async fn an_item_is_found_until_it_expires_and_longer_if_it_is_refreshed() {
    let (server, now_ms) = with_filters().await;
    let info = server.get("/filters/mails").await.ok();
    assert_eq!(info["window_seconds"], 86_400);
    assert_eq!(info["window_resolution_seconds"], 3_600);
    assert_eq!(info["value_bits"], json!(null));
    assert_eq!(info["epochs"].as_array().unwrap().len(), 25);
    assert_eq!(info["epochs"][0]["from"], "2026-11-21T10:00:00.000Z");
    let plain = server.get("/filters/plain").await.ok();
    assert_eq!(plain["epochs"], json!(null));

    let added = add(&server, json!({"items": ["ada", "bob", "ada"]})).await;
    assert_eq!(added, json!(["added", "added", "refreshed"]));
    pass(&now_ms, 7_200);
    let added = add(&server, json!({"items": ["ada", "eve"]})).await;
    assert_eq!(added, json!(["refreshed", "added"]));
    let absent = json!({"items": ["bob", "joe"], "only_if_absent": true});
    assert_eq!(add(&server, absent).await, json!(["exists", "added"]));

    let info = server.get("/filters/mails").await.ok();
    assert_eq!(info["items"], 4);
    let by_age: Vec<u64> = info["epochs"]
        .as_array()
        .unwrap()
        .iter()
        .map(|epoch| epoch["items"].as_u64().unwrap())
        .collect();
    assert_eq!(by_age[..4], [3, 0, 1, 0]);

    assert_eq!(exists(&server, "item=bob").await, true);
    assert_eq!(exists(&server, "item=bob&within_seconds=3600").await, false);
    assert_eq!(exists(&server, "item=bob&within_seconds=7201").await, true);
    assert_eq!(exists(&server, "item=ada&within_seconds=1").await, true);
    let asked = json!({"items": ["ada", "bob", "eve", "zoe"], "within_seconds": 3600});
    let found = server.post("/filters/mails/exists", asked).await.ok();
    assert_eq!(found, json!({"results": [true, false, true, false]}));
    let path = "/filters/mails/exists?within_seconds=3600";
    let lines = server.send(path, "text/plain", "ada\n\nbob\n").await.ok();
    assert_eq!(lines, json!({"results": [true, null, false]}));
    let count = json!({"items": ["ada", "zoe"]});
    let count = server.post("/filters/mails/count", count).await.ok();
    assert_eq!(count, json!({"results": [1, 0]}));

    // Bob was seen 26 hours ago, one more than the window and its resolution.
    pass(&now_ms, 86_400 - 3_600 + 3_600);
    assert_eq!(exists(&server, "item=bob").await, false);
    assert_eq!(exists(&server, "item=ada").await, true);
    pass(&now_ms, 3_600);
    assert_eq!(exists(&server, "item=ada").await, false);
    let info = server.get("/filters/mails").await.ok();
    assert_eq!(info["items"], 0);
    let listed = server.get("/filters").await.ok();
    assert_eq!(listed["filters"][0]["items"], 0);
    let again = add(&server, json!({"items": ["ada"]})).await;
    assert_eq!(again, json!(["added"]));
}

#[tokio::test]
async fn a_lookup_asks_filters_with_windows_what_they_saw_lately() {
    let (server, now_ms) = with_filters().await;
    let week = json!({"capacity": 1000, "window_seconds": 604_800});
    server.put("/filters/mails-week", week).await;
    add(&server, json!({"items": ["ada", "bob"]})).await;
    let of = json!({"items": ["bob", "eve"]});
    server.post("/filters/mails-week/items", of).await.ok();
    pass(&now_ms, 7_200);
    add(&server, json!({"items": ["ada"]})).await;

    let items = ["ada", "bob", "eve", "zoe"];
    let look_up = async |fields: Value| {
        let mut body = json!({"items": items});
        let fields = fields.as_object().unwrap().clone();
        body.as_object_mut().unwrap().extend(fields);
        server.post("/lookup", body).await
    };
    let found = async |fields| look_up(fields).await.ok()["results"].clone();
    let whole = json!([["mails"], ["mails", "mails-week"], ["mails-week"], []]);
    assert_eq!(found(json!({"prefix": "mails"})).await, whole);
    let lately = json!({"prefix": "mails", "within_seconds": 3_600});
    // An epoch of the one is an hour, of the other seven.
    let by_epochs = json!([["mails"], ["mails-week"], ["mails-week"], []]);
    assert_eq!(found(lately).await, by_epochs);
    let lately = json!({"prefix": "mails", "within_seconds": 3_600 * 3});
    assert_eq!(found(lately).await, whole);
    let first = json!({"prefix": "mails", "within_seconds": 3_600 * 3, "first": true});
    let first = found(first).await;
    assert_eq!(first, json!([["mails"], ["mails"], ["mails-week"], []]));

    let mixed = json!({"filters": ["mails", "plain"], "within_seconds": 60});
    let mixed = look_up(mixed).await;
    let problem = mixed.problem(422, "not_for_this_filter");
    expect_detail(&problem, "the filter plain do not expire");
    let longer = look_up(json!({"prefix": "mails", "within_seconds": 86_401})).await;
    let window = "1 to 86400, the window of the filter mails";
    assert_eq!(refusal(&longer), ["/within_seconds", "86401", window]);
    let wrong = look_up(json!({"prefix": "mails", "within_seconds": "60"})).await;
    assert_eq!(refusal(&wrong)[0], "/within_seconds");
}

#[tokio::test]
async fn what_a_window_does_not_take_is_refused_and_says_why() {
    let (server, _) = with_filters().await;
    add(&server, json!({"items": ["ada"]})).await;
    let of = json!({"items": ["ada"]});
    let deleted = server.post("/filters/mails/items/delete", of.clone()).await;
    let problem = deleted.problem(422, "not_for_this_filter");
    expect_detail(&problem, "expire by themselves");
    let entries = json!({"entries": [{"item": "ada", "value": 1}]});
    let answer = server.post("/filters/mails/values", entries).await;
    answer.problem(422, "not_for_this_filter");
    assert_eq!(exists(&server, "item=ada").await, true);

    let asked = server
        .get("/filters/plain/exists?item=ada&within_seconds=60")
        .await;
    let problem = asked.problem(422, "not_for_this_filter");
    expect_detail(&problem, "do not expire");

    let window = "1 to 86400, the window of the filter mails";
    let asked = server
        .get("/filters/mails/exists?item=ada&within_seconds=86401")
        .await;
    assert_eq!(refusal(&asked), ["within_seconds", "86401", window]);
    let asked = json!({"items": ["ada"], "within_seconds": 0});
    let asked = server.post("/filters/mails/exists", asked).await;
    assert_eq!(refusal(&asked), ["/within_seconds", "0", window]);
    for wrong in [json!(-1), json!("60"), json!(1.5), json!(null)] {
        let asked = json!({"items": ["ada"], "within_seconds": wrong});
        let asked = server.post("/filters/mails/exists", asked).await;
        assert_eq!(refusal(&asked)[0], "/within_seconds");
    }
    let asked = json!({"entries": [{"item": "a", "value": 1}], "within_seconds": 60});
    let asked = server.post("/filters/mails/exists", asked).await;
    assert_eq!(refusal(&asked)[0], "/within_seconds");
}

#[tokio::test]
async fn parameters_of_windows_are_checked() {
    let (server, _) = with_filters().await;
    for (fields, place) in [
        (json!({"window_seconds": 0}), "/window_seconds"),
        (
            json!({"window_resolution_seconds": 60}),
            "/window_resolution_seconds",
        ),
        (
            json!({"window_seconds": 86_400, "window_resolution_seconds": 300}),
            "/window_resolution_seconds",
        ),
        (
            json!({"window_seconds": 60, "window_resolution_seconds": 61}),
            "/window_resolution_seconds",
        ),
        (
            json!({"window_seconds": 60, "value_bits": 4}),
            "/value_bits",
        ),
        (
            json!({"window_seconds": 86_400, "fingerprint_bits": 12}),
            "/window_resolution_seconds",
        ),
    ] {
        let refused = server.put("/filters/new", fields.clone()).await;
        assert_eq!(refusal(&refused)[0], place, "{fields}");
    }
    let classic = json!({"window_seconds": 60, "layout": "classic"});
    let refused = server.put("/filters/new", classic).await;
    assert_eq!(refusal(&refused)[0], "/window_seconds");

    let same = json!({"window_seconds": 86_400, "window_resolution_seconds": 3_600});
    assert_eq!(server.put("/filters/mails", same).await.status, 200);
    let other = json!({"window_seconds": 3_600});
    let differs = server.put("/filters/mails", other).await;
    let problem = differs.problem(409, "filter_differs");
    assert_eq!(problem["errors"][0]["existing"], "86400");
    let other = json!({"window_seconds": 3_600});
    let differs = server.put("/filters/plain", other).await;
    differs.problem(409, "filter_differs");

    let preview = json!({"capacity": 1000, "window_seconds": 600});
    let preview = server.post("/preview", preview).await.ok();
    assert_eq!(preview["window_seconds"], 600);
    assert_eq!(preview["window_resolution_seconds"], 25);
}

#[tokio::test]
async fn a_lookup_finds_what_has_not_expired() {
    let (server, now_ms) = with_filters().await;
    add(&server, json!({"items": ["ada", "bob"]})).await;
    pass(&now_ms, 86_400);
    add(&server, json!({"items": ["bob"]})).await;
    pass(&now_ms, 7_200);
    let asked = json!({"items": ["ada", "bob"], "filters": ["plain", "mails"]});
    let found = server.post("/lookup", asked).await.ok();
    assert_eq!(found["results"], json!([[], ["mails"]]));
}

#[tokio::test]
async fn a_dump_of_a_window_is_restored_as_it_was() {
    let (server, now_ms) = with_filters().await;
    let items: Vec<u64> = (0..500).collect();
    add(&server, json!({"items": items})).await;
    pass(&now_ms, 36_000);
    let items: Vec<u64> = (500..1_000).collect();
    add(&server, json!({"items": items})).await;
    let dump = server.get("/filters/mails/dump").await.bytes;
    let restoring = server
        .request(Method::PUT, "/filters/copy/dump")
        .header("content-type", "application/octet-stream")
        .body(dump);
    assert_eq!(Answer::of(restoring).await.status, 201);
    let info = server.get("/filters/copy").await.ok();
    assert_eq!(
        info["items"],
        server.get("/filters/mails").await.ok()["items"]
    );
    pass(&now_ms, 86_400 - 36_000 + 3_600);
    let asked: Vec<u64> = (0..1_000).collect();
    let asked = json!({"items": asked});
    let found = server.post("/filters/copy/exists", asked).await.ok();
    let found = found["results"].as_array().unwrap();
    assert!(found[500..].iter().all(|it| it == true));
    assert!(found[..500].iter().filter(|it| **it == true).count() < 5);
}
