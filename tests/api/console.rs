//! The console's files, and the routes that were made for it.

use crate::keys::Keyed;
use crate::server::{Answer, Server, Setup};
use cuckood::access::Scope;
use reqwest::Method;
use serde_json::{Value, json};
use std::time::Duration;

#[tokio::test]
async fn the_console_is_served_with_a_strict_policy_while_the_engine_opens() {
    let server = Server::not_open(Setup::default()).await;
    let page = server.get("/console").await;
    assert_eq!(page.status, 200);
    assert_eq!(page.header("content-type"), "text/html; charset=utf-8");
    let policy = page.header("content-security-policy");
    assert!(policy.starts_with("default-src 'none'; script-src 'self'"));
    assert!(!policy.contains("unsafe") && !policy.contains("http"));
    assert_eq!(page.header("referrer-policy"), "no-referrer");
    for (name, media_type) in [
        ("app.js", "text/javascript; charset=utf-8"),
        ("style.css", "text/css; charset=utf-8"),
        ("egg.svg", "image/svg+xml"),
    ] {
        let file = server.get(&format!("/console/{name}")).await;
        assert_eq!(file.status, 200, "{name}");
        assert_eq!(file.header("content-type"), media_type);
        assert_eq!(file.header("content-security-policy"), policy);
    }
    for path in [
        "/console/nope.js",
        "/console/mod.rs",
        "/console/index.html",
        "/console/%2e%2e/app.js",
        "/console/a/b",
    ] {
        server.get(path).await.problem(404, "unknown_route");
    }
    let post = Answer::of(server.request(Method::POST, "/console")).await;
    post.problem(405, "method_not_allowed");
}

#[tokio::test]
async fn a_file_that_did_not_change_is_not_sent_again() {
    let server = Server::start().await;
    let first = server.get("/console/app.js").await;
    assert_eq!(first.header("cache-control"), "no-cache");
    let tag = first.header("etag").to_owned();
    assert!(tag.starts_with("W/\""), "{tag}");
    let again = |tag: &str| {
        server
            .request(Method::GET, "/console/app.js")
            .header("if-none-match", tag)
            .header("accept-encoding", "gzip")
    };
    let unchanged = Answer::of(again(&tag)).await;
    assert_eq!((unchanged.status, unchanged.bytes.len()), (304, 0));
    assert_eq!(unchanged.header("etag"), tag);
    let changed = Answer::of(again("W/\"another\"")).await;
    assert_eq!(changed.status, 200);
    assert_eq!(changed.header("content-encoding"), "gzip");
    assert_eq!(changed.header("etag"), tag);
    assert!(changed.bytes.len() < first.bytes.len());
    let other = server.get("/console/style.css").await;
    assert_ne!(other.header("etag"), tag);
}

#[tokio::test]
async fn an_item_is_located_where_its_count_is() {
    let server = Server::start().await;
    let items: Vec<String> = (0..3000).map(|it| format!("item {it}")).collect();
    let create = json!({"items": items, "create": {"capacity": 500, "error_rate": 0.01}});
    server.post("/filters/f/items", create).await.ok();
    server
        .post("/filters/f/items", json!({"items": vec!["hot"; 50]}))
        .await
        .ok();
    let info = server.get("/filters/f").await.ok();
    let chain = info["sub_filters"].as_array().unwrap();
    for item in ["item+1", "item+2999", "hot", "never"] {
        let located = server.get(&format!("/filters/f/locate?item={item}")).await;
        let located = located.ok();
        let counted = server.get(&format!("/filters/f/count?item={item}")).await;
        assert_eq!(located["count"], counted.ok()["count"], "{item}");
        assert_eq!(located["sub_filters"], chain.len());
        let places = located["places"].as_array().unwrap();
        assert_eq!(places.len(), chain.len());
        let mut matches = 0;
        for (position, (place, sub)) in places.iter().zip(chain).enumerate() {
            assert_eq!(place["sub_filter"], position);
            matches += place["counted"].as_u64().unwrap();
            for bucket in place["buckets"].as_array().unwrap() {
                assert!(bucket["page"].as_u64() < sub["pages"].as_u64());
                assert!(bucket["bucket"].as_u64() < sub["buckets"].as_u64());
                let slots = bucket["slots"].as_array().unwrap();
                assert_eq!(slots.len(), 4);
                matches += slots.iter().filter(|slot| **slot == "match").count() as u64;
            }
        }
        assert_eq!(located["count"], matches, "{item}");
    }
}

#[tokio::test]
async fn a_question_where_an_item_lies_is_refused_as_any_question_is() {
    let server = Server::start().await;
    server
        .get("/filters/missing/locate?item=a")
        .await
        .problem(404, "filter_not_found");
    server.put("/filters/f", json!({})).await.ok();
    let refused = server.get("/filters/f/locate").await.refused();
    assert_eq!(refused, ["item"]);
    let long = format!("/filters/f/locate?item={}", "a".repeat(4097));
    server
        .get(&long)
        .await
        .problem(414, "item_too_long_for_query");
}

#[tokio::test]
async fn a_preview_is_what_is_created_and_creates_nothing() {
    let server = Server::start().await;
    for fields in [
        json!({}),
        json!({"capacity": 50_000, "error_rate": 0.0001, "expansion": 0}),
        json!({"capacity": 1_000, "bucket_size": 3, "max_expansions": 2, "ttl_seconds": 60}),
    ] {
        let preview = server.post("/preview", fields.clone()).await.ok();
        assert_eq!(server.get("/filters").await.ok()["filters"], json!([]));
        let made = server.put("/filters/f", fields.clone()).await.ok();
        for field in [
            "layout",
            "capacity",
            "fingerprint_bits",
            "error_rate",
            "promised_growth",
            "max_growth",
            "bucket_size",
            "max_iterations",
            "expansion",
            "max_expansions",
            "ttl_seconds",
            "slot_bytes",
            "bits_per_item_at_capacity",
        ] {
            assert_eq!(preview[field], made[field], "{field} of {fields}");
        }
        assert_eq!(preview["buckets"], made["sub_filters"][0]["buckets"]);
        assert_eq!(preview["pages"], made["sub_filters"][0]["pages"]);
        assert_eq!(preview["stages"][0]["bytes"], made["slot_bytes"]);
        assert_eq!(preview["stages"][0]["items"], made["adds_before_expansion"]);
        server.delete("/filters/f").await;
    }
    let empty = Answer::of(server.request(Method::POST, "/preview")).await;
    assert_eq!(empty.ok()["capacity"], 1024);
    let refused = server.post("/preview", json!({"capacity": 0, "error_rate": 7}));
    assert_eq!(refused.await.refused(), ["/error_rate", "/capacity"]);
    let never = server.post("/preview", json!({"expansion": 0})).await.ok();
    assert_eq!(never["stopped_by"], "expansion_off");
    let grows = server.post("/preview", json!({})).await.ok();
    assert_eq!(grows["stopped_by"], Value::Null);
}

#[tokio::test]
async fn the_list_says_of_each_filter_what_its_description_says() {
    let server = Server::start().await;
    let items: Vec<String> = (0..5000).map(|it| format!("item {it}")).collect();
    let create = json!({"items": items, "create": {"capacity": 500, "error_rate": 0.01}});
    server.post("/filters/f/items", create).await.ok();
    let info = server.get("/filters/f").await.ok();
    for (key, fields) in [
        (
            "ga",
            json!({"attributes": [{"name": "plan", "values": ["free"]}, {"name": "tag", "hash_bits": 4}]}),
        ),
        ("gv", json!({"value_bits": 4})),
        ("gw", json!({"window_seconds": 60})),
    ] {
        server.put(&format!("/filters/{key}"), fields).await.ok();
    }
    let list = server.get("/filters").await.ok();
    assert_eq!(list["filters"][1]["attributes"], json!(["plan", "tag"]));
    assert_eq!(list["filters"][2]["value_bits"], 4);
    assert_eq!(list["filters"][3]["window_seconds"], 60);
    let line = &list["filters"][0];
    for field in ["attributes", "value_bits", "window_seconds"] {
        assert_eq!(line[field], json!(null), "{field}");
    }
    for field in [
        "items",
        "error_rate",
        "error_rate_holds",
        "expected_false_positive_rate",
    ] {
        assert_eq!(line[field], info[field], "{field}");
    }
    let chain = info["sub_filters"].as_array().unwrap();
    assert_eq!(line["sub_filters"], chain.len());
    let sum = |of: &dyn Fn(&Value) -> f64| chain.iter().map(of).sum::<f64>();
    let slots = |sub: &Value| sub["buckets"].as_f64().unwrap() * 4.0;
    let used = sum(&|sub| sub["load"].as_f64().unwrap() * slots(sub));
    let load = line["load"].as_f64().unwrap();
    assert!((load - used / sum(&slots)).abs() < 1e-9, "{load}");
}

#[tokio::test]
async fn the_history_of_a_filter_begins_with_the_first_survey_and_is_its_own() {
    let server = Server::start().await;
    server
        .get("/filters/f/history")
        .await
        .problem(404, "filter_not_found");
    server.put("/filters/f", json!({})).await.ok();
    let items = json!({"items": ["a", "b", "c"]});
    server.post("/filters/f/items", items).await.ok();
    let none = server.get("/filters/f/history").await.ok();
    assert_eq!(none["samples"], json!([]));
    server.engine().survey_filters(0).unwrap();
    let mut samples = json!([]);
    for _ in 0..500 {
        samples = server.get("/filters/f/history").await.ok()["samples"].take();
        if samples != json!([]) {
            break;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let info = server.get("/filters/f").await.ok();
    assert_eq!(samples.as_array().unwrap().len(), 1, "{samples}");
    for field in ["items", "slot_bytes", "expected_false_positive_rate"] {
        assert_eq!(samples[0][field], info[field], "{field}");
    }
    // Another filter of the name begins anew.
    server.delete("/filters/f").await;
    server.put("/filters/f", json!({})).await.ok();
    let anew = server.get("/filters/f/history").await.ok();
    assert_eq!(anew["samples"], json!([]));
}

#[tokio::test]
async fn a_key_is_told_what_it_allows() {
    let server = Server::start().await;
    let anybody = json!({"key_name": null, "scope": "admin", "export": true, "prefix": null});
    assert_eq!(server.get("/caller").await.ok(), anybody);
    let (keyed, _) = Keyed::start().await;
    for scope in Scope::ALL {
        for prefix in [None, Some("shop:")] {
            let name = format!("{scope}-{}", prefix.is_some());
            let token = keyed.add(&name, scope, prefix);
            let told = keyed.get(&token, "/caller").await.ok();
            let wanted =
                json!({"key_name": name, "scope": scope.name(), "export": true, "prefix": prefix});
            assert_eq!(told, wanted);
        }
    }
}
