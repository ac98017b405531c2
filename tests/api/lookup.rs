use crate::server::{Answer, Server, Setup, expect_detail};
use cuckood::server::Limits;
use reqwest::Method;
use serde_json::json;

async fn campaigns() -> Server {
    let mut setup = Setup {
        limits: Limits {
            max_lookup_filters: 4,
            ..Limits::default()
        },
        ..Setup::default()
    };
    setup.engine.max_probes = 20;
    let server = Server::with(setup).await;
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
    let refused = async |path, body, status, code| {
        let answer = server.post(path, body).await;
        answer.problem(status, code)["detail"].to_string()
    };
    let five = json!({"items": [], "filters": ["a", "b", "c", "d", "e"]});
    let said = refused("/lookup", five, 422, "lookup_too_large").await;
    assert!(said.contains("--max-lookup-filters"), "{said}");
    let items: Vec<u64> = (0..7).collect();
    let product = json!({"items": items, "prefix": ""});
    let said = refused("/lookup", product, 413, "too_costly").await;
    assert!(
        said.contains("--max-probes") && said.contains("21"),
        "{said}"
    );
    let items: Vec<u64> = (0..21).collect();
    for path in ["/filters/other/exists", "/filters/other/count"] {
        let said = refused(path, json!({"items": items}), 413, "too_costly").await;
        assert!(
            said.contains("--max-probes") && said.contains("21"),
            "{said}"
        );
    }

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

#[tokio::test]
async fn a_server_in_no_cluster_refuses_a_consistency_that_makes_no_sense_and_every_position() {
    let server = Server::start().await;
    server.put("/filters/f", json!({})).await.ok();
    let asked = async |name, value: &str| {
        let asked = server.request(Method::GET, "/filters/f/exists?item=a");
        Answer::of(asked.header(name, value)).await
    };
    for value in ["local", "strong"] {
        asked("cuckood-consistency", value).await.ok();
    }
    for value in ["weak", ""] {
        let refused = asked("cuckood-consistency", value).await;
        let problem = refused.problem(422, "invalid_position");
        expect_detail(&problem, "local or strong");
    }
    for value in ["1.3.4711", "0.0.0", "soon", ""] {
        let refused = asked("cuckood-min-position", value).await;
        let problem = refused.problem(422, "invalid_position");
        expect_detail(&problem, "leave it out");
    }

    let change = server.request(Method::PUT, "/filters/g").json(&json!({}));
    let refused = Answer::of(change.header("cuckood-min-position", "1.3.4711")).await;
    refused.problem(422, "invalid_position");
    server
        .get("/filters/g")
        .await
        .problem(404, "filter_not_found");
}
