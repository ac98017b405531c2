use crate::server::{Server, Setup};
use cuckood::engine::LookupBounds;
use cuckood::http::Limits;
use serde_json::json;

async fn campaigns() -> Server {
    let server = Server::with(Setup {
        limits: Limits {
            lookup: LookupBounds {
                max_filters: 4,
                max_probes: 20,
            },
            ..Limits::default()
        },
        ..Setup::default()
    })
    .await;
    for (filter, items) in [
        ("campaign-3", json!(["ann", "bob"])),
        ("campaign-17", json!(["ann", 7])),
        ("other", json!(["ann"])),
    ] {
        let body = json!({"items": items, "create": {}});
        server
            .post(&format!("/filters/{filter}/items"), body)
            .await
            .ok();
    }
    server
}

#[tokio::test]
async fn items_are_looked_up_in_filters_by_name_or_prefix() {
    let server = campaigns().await;
    let asked = json!({"items": ["ann", "bob", 7, "eve"], "prefix": "campaign-"});
    assert_eq!(
        server.post("/lookup", asked).await.ok(),
        json!({
            "results": [["campaign-17", "campaign-3"], ["campaign-3"], ["campaign-17"], []],
            "missing_filters": [],
        })
    );
    let asked = json!({"items": ["ann"], "filters": ["other", "gone", "campaign-3"]});
    assert_eq!(
        server.post("/lookup", asked).await.ok(),
        json!({"results": [["other", "campaign-3"]], "missing_filters": ["gone"]})
    );
    let asked = json!({"items": ["ann", "eve"], "prefix": "", "first": true});
    assert_eq!(
        server.post("/lookup", asked).await.ok(),
        json!({"results": [["campaign-17"], []], "missing_filters": []})
    );
    let asked = json!({"items": ["YW5u"], "encoding": "base64", "filters": ["other"]});
    assert_eq!(
        server.post("/lookup", asked).await.ok(),
        json!({"results": [["other"]], "missing_filters": []})
    );
    let asked = json!({"items": [], "filters": []});
    assert_eq!(
        server.post("/lookup", asked).await.ok(),
        json!({"results": [], "missing_filters": []})
    );
}

#[tokio::test]
async fn a_lookup_has_bounds() {
    let server = campaigns().await;
    let refused = async |body| {
        let answer = server.post("/lookup", body).await;
        answer.problem(422, "lookup_too_large")["detail"].to_string()
    };
    let five = json!({"items": [], "filters": ["a", "b", "c", "d", "e"]});
    assert!(refused(five).await.contains("--max-lookup-filters"));
    let items: Vec<u64> = (0..7).collect();
    let product = json!({"items": items, "prefix": ""});
    assert!(refused(product).await.contains("--max-lookup-probes"));

    for path in ["/lookup?first=true", "/lookup?x=1"] {
        let answer = server.post(path, json!({"items": [], "prefix": ""})).await;
        answer.refused();
    }
    let lines = server.send("/lookup", "text/plain", "ann\n").await;
    let problem = lines.problem(415, "unsupported_media_type");
    assert!(!problem["detail"].as_str().unwrap().contains("one item"));
    let refused = server.post("/lookup", json!({"items": ["a"]})).await;
    assert_eq!(refused.refused(), ["/filters"]);
    server
        .get("/lookup")
        .await
        .problem(405, "method_not_allowed");
}
