//! `Idempotency-Key` over a real socket.

use crate::server::{Answer, Server, Setup, expect_detail};
use reqwest::Method;
use serde_json::{Value, json};

async fn keyed(server: &Server, method: Method, path: &str, key: &str, body: Value) -> Answer {
    let request = server.request(method, path).header("idempotency-key", key);
    Answer::of(match body {
        Value::Null => request,
        body => request.json(&body),
    })
    .await
}

fn replayed(answer: &Answer) -> bool {
    match answer.header("idempotency-replayed") {
        "true" => true,
        other => {
            assert_eq!(other, "");
            false
        }
    }
}

#[tokio::test]
async fn a_retry_gets_the_stored_answer_byte_for_byte() {
    let server = Server::start().await;
    let steps = [
        (Method::PUT, "/filters/f", json!({"capacity": 1000}), 201),
        (
            Method::PUT,
            "/filters/f",
            json!({"capacity": 1000, "expansion": 2}),
            200,
        ),
        (
            Method::POST,
            "/filters/f/items",
            json!({"items": ["a", "b", "a"]}),
            200,
        ),
        (
            Method::POST,
            "/filters/f/items/delete",
            json!({"items": ["a", "x"]}),
            200,
        ),
        (
            Method::PATCH,
            "/filters/f",
            json!({"ttl_seconds": 600}),
            200,
        ),
    ];
    let mut first = Vec::new();
    for (number, (method, path, body, status)) in steps.iter().enumerate() {
        let key = format!("key-{number}");
        let answer = keyed(&server, method.clone(), path, &key, body.clone()).await;
        assert_eq!(answer.status, *status, "{}", answer.text());
        assert!(!replayed(&answer));
        first.push(answer);
    }
    for (number, (method, path, body, status)) in steps.iter().enumerate() {
        let key = format!("key-{number}");
        let answer = keyed(&server, method.clone(), path, &key, body.clone()).await;
        assert_eq!(answer.status, *status);
        assert!(replayed(&answer), "{method} {path}");
        assert_eq!(answer.bytes, first[number].bytes);
        assert_eq!(answer.header("location"), first[number].header("location"));
    }
}

#[tokio::test]
async fn a_retry_is_not_answered_for_another_filter_of_the_name() {
    let server = Server::start().await;
    let add = || async {
        let items = json!({"items": ["a"]});
        keyed(&server, Method::POST, "/filters/f/items", "k", items).await
    };
    let remove = || keyed(&server, Method::DELETE, "/filters/f", "k", Value::Null);
    server.put("/filters/f", json!({})).await.ok();
    assert!(!replayed(&add().await));
    assert!(replayed(&add().await));
    assert!(!replayed(&remove().await));
    add().await.problem(409, "idempotency_filter_gone");
    server.put("/filters/f", json!({})).await.ok();
    add().await.problem(409, "idempotency_filter_gone");
    let removed = remove().await;
    assert_eq!((removed.status, replayed(&removed)), (204, true));
    assert_eq!(server.get("/filters/f").await.ok()["items"], 0);
}

#[tokio::test]
async fn a_key_counts_for_one_method_path_and_request() {
    let server = Server::start().await;
    for filter in ["/filters/f", "/filters/g"] {
        let made = keyed(&server, Method::PUT, filter, "k", json!({})).await;
        assert_eq!((made.status, replayed(&made)), (201, false));
        let path = format!("{filter}/items");
        let added = keyed(&server, Method::POST, &path, "k", json!({"items": ["a"]})).await;
        assert!(!replayed(&added));
        let other = keyed(&server, Method::POST, &path, "k", json!({"items": ["b"]})).await;
        other.problem(422, "idempotency_key_reused");
        let lines = server
            .request(Method::POST, &path)
            .header("idempotency-key", "k")
            .header("content-type", "text/plain")
            .body("a");
        Answer::of(lines)
            .await
            .problem(422, "idempotency_key_reused");
        assert_eq!(server.get(filter).await.ok()["items"], 1);
    }
}

#[tokio::test]
async fn a_replayed_answer_has_the_form_that_is_asked_for() {
    let server = Server::start().await;
    let add = |accept: &'static str| {
        let request = server
            .request(
                Method::POST,
                "/filters/f/items?create=true&only_if_absent=true",
            )
            .header("idempotency-key", "k")
            .header("accept", accept)
            .header("content-type", "text/plain");
        Answer::of(request.body("a\n\na\nb\n"))
    };
    let first = add("text/plain").await;
    assert_eq!(
        (first.text(), replayed(&first)),
        ("added\n\nexists\nadded\n", false)
    );
    let again = add("application/json").await;
    assert!(replayed(&again));
    let results = json!({"results": ["added", null, "exists", "added"]});
    assert_eq!(again.ok(), results);
}

#[tokio::test]
async fn what_is_no_key_is_refused_where_keys_count() {
    let server = Server::start().await;
    server.put("/filters/f", json!({})).await.ok();
    let longer = "k".repeat(256);
    for key in ["", longer.as_str(), "two words", "a\tb", "schl\u{fc}ssel"] {
        for (method, path, body) in [
            (Method::PUT, "/filters/g", json!({})),
            (Method::PATCH, "/filters/f", json!({"ttl_seconds": 1})),
            (Method::DELETE, "/filters/f", Value::Null),
            (Method::POST, "/filters/f/items", json!({"items": ["a"]})),
            (
                Method::POST,
                "/filters/f/items/delete",
                json!({"items": ["a"]}),
            ),
        ] {
            let refused = keyed(&server, method, path, key, body).await;
            refused.problem(422, "invalid_idempotency_key");
        }
        // A question changes nothing, so it needs none and minds none.
        let asked = json!({"items": ["a"]});
        keyed(&server, Method::POST, "/filters/f/exists", key, asked)
            .await
            .ok();
    }
    let info = server.get("/filters/f").await.ok();
    assert_eq!(
        (&info["items"], &info["expires_at"]),
        (&json!(0), &json!(null))
    );
}

#[tokio::test]
async fn errors_are_not_kept() {
    let server = Server::start().await;
    let items = json!({"items": ["a"]});
    let missing = keyed(
        &server,
        Method::POST,
        "/filters/f/items",
        "k",
        items.clone(),
    )
    .await;
    missing.problem(404, "filter_not_found");
    let put = |body: Value| {
        let request = server
            .request(Method::PUT, "/filters/f")
            .header("idempotency-key", "k")
            .header("if-none-match", "*");
        Answer::of(request.json(&body))
    };
    server.put("/filters/f", json!({})).await.ok();
    put(json!({})).await.problem(412, "filter_exists");
    put(json!({"capacity": 5}))
        .await
        .problem(412, "filter_exists");
    server.delete("/filters/f").await;
    assert_eq!(put(json!({})).await.status, 201);
    let again = put(json!({})).await;
    assert_eq!((again.status, replayed(&again)), (201, true));
    let added = keyed(&server, Method::POST, "/filters/f/items", "k", items).await;
    assert!(!replayed(&added));
    assert_eq!(added.ok(), json!({"results": ["added"]}));
}

#[tokio::test]
async fn a_full_table_refuses_new_keys_and_says_what_to_do() {
    let mut setup = Setup::default();
    setup.engine.max_retry_bytes = 1_000;
    let server = Server::with(setup).await;
    server.put("/filters/f", json!({})).await.ok();
    let add = |key: String| {
        let body = json!({"items": ["a"]});
        let server = &server;
        async move { keyed(server, Method::POST, "/filters/f/items", &key, body).await }
    };
    let mut kept = 0;
    let refused = loop {
        let answer = add(kept.to_string()).await;
        if answer.status != 200 {
            break answer;
        }
        kept += 1;
    };
    let problem = refused.problem(503, "idempotency_full");
    let detail = problem["detail"].as_str().unwrap();
    for said in [
        "--max-idempotency-bytes",
        "1000 bytes",
        "Idempotency-Key-Lifetime",
    ] {
        assert!(detail.contains(said), "{detail}");
    }
    assert!(replayed(&add("0".to_owned()).await));
    let unkeyed = server
        .post("/filters/f/items", json!({"items": ["a"]}))
        .await;
    unkeyed.ok();
    assert_eq!(server.get("/filters/f").await.ok()["items"], kept + 1);
    let metrics = server.get("/metrics").await;
    let counted = "cuckood_idempotency_requests_total{outcome=\"full\"} 1";
    assert!(metrics.text().contains(counted), "{}", metrics.text());
}

#[tokio::test]
async fn a_key_lives_as_long_as_asked_and_a_refusal_says_when_the_first_ends() {
    let mut setup = Setup::default();
    setup.engine.max_retry_bytes = 400;
    let server = Server::with(setup).await;
    server.put("/filters/f", json!({})).await.ok();
    let add = |key: &'static str, lifetime: &'static str| {
        let request = server.request(Method::POST, "/filters/f/items");
        let request = request.header("idempotency-key", key);
        let request = request.header("idempotency-key-lifetime", lifetime);
        Answer::of(request.json(&json!({"items": ["a"]})))
    };
    for wrong in ["0", "86401", "1m", ""] {
        let refused = add("k", wrong).await;
        let problem = refused.problem(422, "invalid_idempotency_lifetime");
        expect_detail(&problem, "1 to 86400");
    }
    assert!(!replayed(&add("day", "86400").await));
    assert!(!replayed(&add("short", "2").await));
    assert!(replayed(&add("short", "86400").await));
    let refused = add("third", "2").await;
    let after = refused.header("retry-after").parse::<u64>().unwrap();
    assert!((1..=4).contains(&after), "{after}");
    refused.problem(503, "idempotency_full");
    tokio::time::sleep(std::time::Duration::from_secs(after + 1)).await;
    assert!(!replayed(&add("third", "2").await));
    assert!(replayed(&add("day", "1").await));
}
