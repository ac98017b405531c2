//! Filters that split and merge pages, as callers see them: what they may take on the
//! disk, and what is refused.

use crate::server::{Answer, Server, Setup};
use crate::tenants::{Tenants, create};
use reqwest::{Method, RequestBuilder};
use serde_json::{Value, json};
use std::ops::Range;

/// Bytes of a page.
const PAGE: u64 = 4096;

fn request(tenants: &Tenants, method: Method, path: &str) -> RequestBuilder {
    let request = tenants.server.request(method, path);
    request.bearer_auth(tenants.greedy.as_str())
}

async fn change(tenants: &Tenants, action: &str, items: Range<u64>) -> Answer {
    let lines: String = items.map(|item| format!("{item}\n")).collect();
    let change = request(tenants, Method::POST, &format!("/filters/f/{action}"));
    Answer::of(change.header("content-type", "text/plain").body(lines)).await
}

/// The items of the filter, and the bytes of its slots.
async fn size(tenants: &Tenants) -> (u64, u64) {
    let described = Answer::of(request(tenants, Method::GET, "/filters/f")).await;
    let described = described.ok();
    let number = |field: &str| described[field].as_u64().unwrap();
    (number("items"), number("slot_bytes"))
}

#[tokio::test]
async fn the_bytes_of_a_key_follow_the_pages_that_its_filter_splits_and_merges() {
    const MOST: u64 = 50 * PAGE;
    let mut setup = Setup::default();
    setup.engine.defaults.max_bytes_per_key = Some(MOST);
    let tenants = Tenants::with(setup).await;
    let made = create("f", 1_000);
    assert_eq!(tenants.answered(&tenants.greedy, &made).await.status, 201);

    let (mut added, mut before) = (0, PAGE);
    let refused = loop {
        let reply = change(&tenants, "items", added..added + 1_000).await;
        let (items, bytes) = size(&tenants).await;
        if reply.status != 200 {
            // Nothing of it is kept.
            assert_eq!((items, bytes), (added, before));
            break reply;
        }
        // Whoever is within the bytes may add, however many that makes.
        assert!(before <= MOST, "{before} bytes, {added} items");
        (added, before) = (added + 1_000, bytes);
        assert_eq!(items, added);
    };
    refused.problem(507, "over_key_quota");
    assert!(before > MOST, "{before} bytes");
    let another = create("another", 1_000);
    let refused = tenants.answered(&tenants.greedy, &another).await;
    refused.is_refused(507, "over_key_quota");

    // Deletes are served, and give back the pages that they merge.
    let mut deleted = 0;
    while before > MOST {
        let reply = change(&tenants, "items/delete", deleted..deleted + 500).await;
        assert_eq!(reply.status, 200, "{}", reply.text());
        deleted += 500;
        before = size(&tenants).await.1;
    }
    assert!(deleted < added);
    let reply = change(&tenants, "items", added..added + 1).await;
    assert_eq!(reply.status, 200, "{}", reply.text());
    let reply = change(&tenants, "items/delete", deleted..added + 1).await;
    assert_eq!(reply.status, 200, "{}", reply.text());
    assert_eq!(size(&tenants).await, (0, PAGE));
    // 45 pages of 2,560 slots, beside the one.
    let another = create("another", 45 * 2_400);
    let made = tenants.answered(&tenants.greedy, &another).await;
    assert_eq!(made.status, 201, "{}", made.body);
}

#[tokio::test]
async fn a_filter_splits_no_page_beyond_its_bytes_and_says_so() {
    const MOST: u64 = 8 * PAGE;
    let mut setup = Setup::default();
    setup.engine.defaults.max_filter_bytes = MOST;
    let server = Server::with(setup).await;
    server.put("/filters/f", json!({})).await.ok();
    let items = |numbers: Range<u64>| {
        let items: Vec<String> = numbers.map(|item| item.to_string()).collect();
        json!({"items": items})
    };
    let answer = server.post("/filters/f/items", items(0..20_000)).await.ok();
    assert_eq!(answer["full_reason"], "max_filter_bytes");
    let results = answer["results"].as_array().unwrap();
    let added = results.iter().filter(|it| **it == "added").count() as u64;
    let described = server.get("/filters/f").await.ok();
    assert_eq!(described["slot_bytes"], MOST);
    assert_eq!(described["items"], added);
    // Eight pages are full, but for the last few slots.
    assert!(
        described["sub_filters"][0]["load"].as_f64().unwrap() > 0.9,
        "{described}"
    );
    let added: Vec<u64> = (0..)
        .zip(results)
        .filter_map(|(item, it)| (it == "added").then_some(item))
        .collect();
    let gone: Vec<String> = added.iter().take(2_000).map(u64::to_string).collect();
    server
        .post("/filters/f/items/delete", json!({"items": gone}))
        .await
        .ok();
    // What was freed is used again.
    let answer = server
        .post("/filters/f/items", items(30_000..31_000))
        .await
        .ok();
    assert_eq!(answer["full_reason"], Value::Null);
}

#[tokio::test]
async fn what_no_slots_keep_or_no_such_filter_has_is_refused_with_what_to_do() {
    let server = Server::start().await;
    for (fields, given, allowed) in [
        (
            json!({"error_rate": 2e-8, "promised_growth": 1025}),
            "1025",
            "1 to 1024 with the error_rate 2e-8, kept by slots of 32 bits; ask for a larger error_rate, or for a larger capacity and less growth",
        ),
        (
            json!({"fingerprint_bits": 12, "promised_growth": 65}),
            "65",
            "1 to 64 with fingerprint_bits 12; ask for more bits",
        ),
        (
            json!({"expansion": 0, "error_rate": 0.01, "promised_growth": 2}),
            "2",
            "1 with expansion 0, which keeps the filter from growing",
        ),
        (
            json!({"fingerprint_bits": 8}),
            "8",
            "12, 16, 21 or 32; slots of 8 bits are those of the layout classic",
        ),
        (
            json!({"layout": "paged", "bucket_size": 2}),
            "2",
            "no value with the layout paged: it belongs to the layout classic, where the bucket size decides the error; leave it out and say the error_rate, or leave error_rate, promised_growth, fingerprint_bits and layout out",
        ),
    ] {
        let refused = server.put("/filters/f", fields.clone()).await;
        let problem = refused.problem(422, "invalid_fields");
        let error = &problem["errors"][0];
        assert_eq!(
            (&error["given"], &error["allowed"]),
            (&json!(given), &json!(allowed))
        );
        let preview = server.post("/preview", fields).await;
        assert_eq!(
            preview.problem(422, "invalid_fields")["errors"][0]["allowed"],
            allowed
        );
    }
    server
        .get("/filters/f")
        .await
        .problem(404, "filter_not_found");
}
