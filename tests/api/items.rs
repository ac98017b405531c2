use crate::server::{Answer, Server, Setup, expect_detail};
use reqwest::Method;
use serde_json::json;

async fn with_filter() -> Server {
    let server = Server::start().await;
    server
        .put("/filters/f", json!({"capacity": 1000}))
        .await
        .ok();
    server
}

#[tokio::test]
async fn items_are_added_asked_for_counted_and_deleted() {
    let server = with_filter().await;
    let added = server
        .post("/filters/f/items", json!({"items": ["a", "b", "a", 7, ""]}))
        .await;
    assert_eq!(
        added.ok(),
        json!({"results": ["added", "added", "added", "added", "added"]})
    );

    let asked = json!({"items": ["a", "b", "absent", 7, ""]});
    let found = server.post("/filters/f/exists", asked.clone()).await.ok();
    assert_eq!(found, json!({"results": [true, true, false, true, true]}));
    let counts = server.post("/filters/f/count", asked).await.ok();
    assert_eq!(counts, json!({"results": [2, 1, 0, 1, 1]}));

    let deleted = server
        .post(
            "/filters/f/items/delete",
            json!({"items": ["a", "absent", "a", "a"]}),
        )
        .await;
    assert_eq!(deleted.ok(), json!({"results": [true, false, true, false]}));
    assert_eq!(
        server.get("/filters/f/exists?item=a").await.ok(),
        json!({"exists": false})
    );
    let info = server.get("/filters/f").await.ok();
    assert_eq!(info["items"], 3);
    assert_eq!(info["deletions"], 2);
}

#[tokio::test]
async fn one_item_is_asked_for_in_the_query() {
    let server = with_filter().await;
    server
        .post(
            "/filters/f/items",
            json!({"items": ["a b+c", "a b+c", "", 18446744073709551615_u64]}),
        )
        .await
        .ok();
    assert_eq!(
        server.get("/filters/f/exists?item=a+b%2Bc").await.ok(),
        json!({"exists": true})
    );
    assert_eq!(
        server.get("/filters/f/exists?item=a%20b%2Bc").await.ok(),
        json!({"exists": true})
    );
    assert_eq!(
        server.get("/filters/f/count?item=a+b%2Bc").await.ok(),
        json!({"count": 2})
    );
    assert_eq!(
        server.get("/filters/f/exists?item=").await.ok(),
        json!({"exists": true})
    );
    assert_eq!(
        server
            .get("/filters/f/exists?item=18446744073709551615")
            .await
            .ok(),
        json!({"exists": true})
    );
    assert_eq!(
        server.get("/filters/f/count?item=zzz").await.ok(),
        json!({"count": 0})
    );

    assert_eq!(server.get("/filters/f/exists").await.refused(), ["item"]);
    assert_eq!(
        server.get("/filters/f/exists?itme=a").await.refused(),
        ["itme"]
    );
    assert_eq!(
        server
            .get("/filters/f/exists?item=a&item_base64url=YQ")
            .await
            .refused(),
        ["item_base64url"]
    );
    assert_eq!(
        server
            .get("/filters/f/exists?item_base64url=**")
            .await
            .refused(),
        ["item_base64url"]
    );
    server
        .get("/filters/f/exists?item=a&item=b")
        .await
        .problem(400, "malformed_query");
    server
        .get("/filters/f/exists?item=%zz")
        .await
        .problem(400, "malformed_query");
    server
        .get("/filters/f/exists?item=%ff")
        .await
        .problem(400, "malformed_query");
}

#[tokio::test]
async fn an_item_too_long_for_a_query_is_sent_to_the_post() {
    let server = with_filter().await;
    let longest = "x".repeat(4096);
    server
        .get(&format!("/filters/f/exists?item={longest}"))
        .await
        .ok();
    for (path, post) in [
        ("exists", "POST /filters/{key}/exists"),
        ("count", "POST /filters/{key}/count"),
    ] {
        let answer = server
            .get(&format!("/filters/f/{path}?item={longest}x"))
            .await;
        let problem = answer.problem(414, "item_too_long_for_query");
        assert!(
            problem["detail"].as_str().unwrap().contains(post),
            "{problem}"
        );
    }
}

#[tokio::test]
async fn an_item_may_have_64_kib_and_not_more() {
    let server = with_filter().await;
    let longest = "x".repeat(64 << 10);
    server
        .post("/filters/f/items", json!({"items": [longest]}))
        .await
        .ok();
    let found = server
        .post("/filters/f/exists", json!({"items": [longest]}))
        .await
        .ok();
    assert_eq!(found, json!({"results": [true]}));
    let longer = format!("{longest}x");
    let refused = server
        .post("/filters/f/items", json!({"items": ["a", longer]}))
        .await;
    assert_eq!(refused.refused(), ["/items/1"]);
    let refused = server
        .send("/filters/f/items", "text/plain", format!("a\n{longer}\n"))
        .await;
    assert_eq!(refused.refused(), ["line 2"]);
    assert_eq!(server.get("/filters/f").await.ok()["items"], 1);
}

#[tokio::test]
async fn an_integer_is_its_digits() {
    let server = with_filter().await;
    server
        .post(
            "/filters/f/items",
            json!({"items": [42, i64::MIN, u64::MAX]}),
        )
        .await
        .ok();
    let asked = json!({"items": ["42", "-9223372036854775808", "18446744073709551615"]});
    let found = server.post("/filters/f/exists", asked).await.ok();
    assert_eq!(found, json!({"results": [true, true, true]}));
}

#[tokio::test]
async fn only_if_absent_leaves_what_is_there() {
    let server = with_filter().await;
    let once = json!({"items": ["a", "b", "a"], "only_if_absent": true});
    let results = server.post("/filters/f/items", once.clone()).await.ok();
    assert_eq!(results, json!({"results": ["added", "added", "exists"]}));
    let results = server.post("/filters/f/items", once).await.ok();
    assert_eq!(results, json!({"results": ["exists", "exists", "exists"]}));
    assert_eq!(server.get("/filters/f").await.ok()["items"], 2);
}

#[tokio::test]
async fn a_missing_filter_is_created_when_the_add_says_how() {
    let server = Server::start().await;
    for path in ["items", "items/delete", "exists", "count"] {
        let answer = server
            .post(&format!("/filters/g/{path}"), json!({"items": ["a"]}))
            .await;
        answer.problem(404, "filter_not_found");
    }
    let create = json!({"items": ["a"], "create": {"capacity": 500, "bucket_size": 4}});
    assert_eq!(
        server.post("/filters/g/items", create.clone()).await.ok(),
        json!({"results": ["added"]})
    );
    let info = server.get("/filters/g").await.ok();
    assert_eq!(info["capacity"], 500);
    assert_eq!(info["bucket_size"], 4);
    assert_eq!(info["items"], 1);
    // What exists is used as it is.
    let other = json!({"items": ["b"], "create": {"capacity": 9000}});
    server.post("/filters/g/items", other).await.ok();
    assert_eq!(server.get("/filters/g").await.ok()["capacity"], 500);

    let bad = json!({"items": ["a"], "create": {"capacity": 1, "expansion": -1}});
    assert_eq!(
        server.post("/filters/h/items", bad).await.refused(),
        ["/create/expansion"]
    );
    let bad = json!({"items": ["a"], "create": {"capacity": 1, "bucket_size": 300}});
    let mut refused = server.post("/filters/h/items", bad).await.refused();
    refused.sort();
    assert_eq!(refused, ["/create/bucket_size", "/create/capacity"]);
    server
        .get("/filters/h")
        .await
        .problem(404, "filter_not_found");
}

#[tokio::test]
async fn a_full_filter_says_full_and_why() {
    let server = Server::start().await;
    server
        .put(
            "/filters/f",
            json!({"capacity": 4, "bucket_size": 1, "expansion": 0}),
        )
        .await
        .ok();
    let items: Vec<String> = (0..100).map(|n| format!("item-{n}")).collect();
    let answer = server
        .post("/filters/f/items", json!({"items": items}))
        .await
        .ok();
    let results = answer["results"].as_array().unwrap();
    let full = results.iter().filter(|result| *result == "full").count();
    assert_eq!(results.len(), 100);
    assert!(full >= 90, "{answer}");
    assert_eq!(answer["full_reason"], "expansion_off");
    assert!(
        answer["full_detail"]
            .as_str()
            .unwrap()
            .contains("expansion 0")
    );
    assert_eq!(server.get("/filters/f").await.ok()["items"], 100 - full);

    server
        .put(
            "/filters/g",
            json!({"capacity": 4, "bucket_size": 2, "max_expansions": 1}),
        )
        .await
        .ok();
    let answer = server
        .post("/filters/g/items", json!({"items": items}))
        .await
        .ok();
    assert_eq!(answer["full_reason"], "max_expansions");
}

#[tokio::test]
async fn binary_items_come_in_base64() {
    let server = with_filter().await;
    let binary = json!({"items": ["AP8QIA==", "AP8QIQ"], "encoding": "base64"});
    server.post("/filters/f/items", binary.clone()).await.ok();
    assert_eq!(
        server.post("/filters/f/exists", binary).await.ok(),
        json!({"results": [true, true]})
    );
    assert_eq!(
        server
            .get("/filters/f/exists?item_base64url=AP8QIA")
            .await
            .ok(),
        json!({"exists": true})
    );
    assert_eq!(
        server
            .get("/filters/f/exists?item_base64url=AP8QIA==")
            .await
            .ok(),
        json!({"exists": true})
    );
    let text = json!({"items": ["AP8QIA=="]});
    assert_eq!(
        server.post("/filters/f/exists", text).await.ok(),
        json!({"results": [false]})
    );
}

#[tokio::test]
async fn a_refused_batch_leaves_nothing_behind() {
    let server = with_filter().await;
    for (last, pointer) in [
        (json!(1.5), "/items/2"),
        (json!(null), "/items/2"),
        (json!([]), "/items/2"),
        (json!({}), "/items/2"),
        (json!(true), "/items/2"),
        (json!(1e300), "/items/2"),
    ] {
        let refused = server
            .post("/filters/f/items", json!({"items": ["a", 1, last]}))
            .await;
        assert_eq!(refused.refused(), [pointer]);
    }
    let typo = json!({"items": ["a"], "only_if_absnet": true});
    assert_eq!(
        server.post("/filters/f/items", typo).await.refused(),
        ["/only_if_absnet"]
    );
    let misplaced = json!({"items": ["a"], "create": {}});
    assert_eq!(
        server.post("/filters/f/exists", misplaced).await.refused(),
        ["/create"]
    );
    assert_eq!(
        server.post("/filters/f/items", json!({})).await.refused(),
        ["/items"]
    );
    assert_eq!(
        server
            .post("/filters/f/items", json!({"items": "a"}))
            .await
            .refused(),
        ["/items"]
    );
    assert_eq!(server.get("/filters/f").await.ok()["items"], 0);
}

#[tokio::test]
async fn an_empty_batch_is_answered_empty() {
    let server = with_filter().await;
    for path in ["items", "items/delete", "exists", "count"] {
        let answer = server
            .post(&format!("/filters/f/{path}"), json!({"items": []}))
            .await;
        assert_eq!(answer.ok(), json!({"results": []}), "{path}");
    }
}

#[tokio::test]
async fn a_batch_over_the_limit_is_refused_and_the_limit_named() {
    let mut setup = Setup::default();
    setup.limits.max_batch_items = 3;
    let server = Server::with(setup).await;
    server.put("/filters/f", json!({})).await.ok();
    server
        .post("/filters/f/items", json!({"items": [1, 2, 3]}))
        .await
        .ok();
    let answer = server
        .post("/filters/f/items", json!({"items": [1, 2, 3, 4]}))
        .await;
    let problem = answer.problem(413, "batch_too_large");
    expect_detail(&problem, "--max-batch-items");
    let lines = server
        .send("/filters/f/items", "text/plain", "1\n2\n3\n4\n")
        .await;
    lines.problem(413, "batch_too_large");
    let blank = server
        .send("/filters/f/exists", "text/plain", "\n\n\n\n")
        .await;
    blank.problem(413, "batch_too_large");
    assert_eq!(server.get("/filters/f").await.ok()["items"], 3);
}

#[tokio::test]
async fn a_large_batch_is_one_request() {
    let server = Server::start().await;
    server
        .put("/filters/f", json!({"capacity": 200_000}))
        .await
        .ok();
    let items: Vec<u32> = (0..200_000).collect();
    let answer = server
        .post("/filters/f/items", json!({"items": items}))
        .await
        .ok();
    let results = answer["results"].as_array().unwrap();
    assert_eq!(results.len(), 200_000);
    assert!(results.iter().all(|result| result == "added"));
    let answer = server
        .post("/filters/f/exists", json!({"items": items}))
        .await
        .ok();
    assert!(
        answer["results"]
            .as_array()
            .unwrap()
            .iter()
            .all(|found| found == true)
    );
}

#[tokio::test]
async fn a_filter_of_more_sub_filters_than_the_server_allows_is_refused_at_once() {
    let server = Server::start().await;
    let lines: String = (0..250_000).map(|n| format!("{n}\n")).collect();
    let path = "/filters/x/items?create=true&layout=classic&bucket_size=1&capacity=2&expansion=1&max_expansions=65535";
    let began = std::time::Instant::now();
    let request = server.request(Method::POST, path);
    let request = request.header("content-type", "text/plain").body(lines);
    let problem = Answer::of(request).await.problem(422, "invalid_fields");
    assert!(
        problem.to_string().contains("--max-chain-length"),
        "{problem}"
    );
    // The lane was not asked: planning alone would take minutes.
    assert_eq!(server.metrics.commit_items.get_sample_count(), 0);
    assert!(began.elapsed() < std::time::Duration::from_secs(30));
    server
        .get("/filters/x")
        .await
        .problem(404, "filter_not_found");
}
