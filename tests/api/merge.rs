//! Siblings, and filters that become the union of themselves and others.

use crate::keys::Keyed;
use crate::server::{Answer, Server, Setup, expect_detail};
use clap::Parser as _;
use cuckood::access::Scope;
use cuckood::access::token::Token;
use cuckood::config::Cli;
use cuckood::file::FileView;
use cuckood::share::Claimant;
use reqwest::Method;
use serde_json::{Value, json};
use std::process::ExitCode;

async fn made(server: &Server, key: &str, fields: Value, items: std::ops::Range<u64>) {
    let put = server.put(&format!("/filters/{key}"), fields).await;
    assert_eq!(put.status, 201, "{}", put.text());
    add(server, key, items).await;
}

async fn add(server: &Server, key: &str, items: std::ops::Range<u64>) {
    let items: Vec<u64> = items.collect();
    for items in items.chunks(20_000) {
        let path = format!("/filters/{key}/items");
        server.post(&path, json!({"items": items})).await.ok();
    }
}

async fn counts(server: &Server, key: &str, items: std::ops::Range<u64>) -> Vec<u64> {
    let items: Vec<u64> = items.collect();
    let mut all = Vec::new();
    for items in items.chunks(20_000) {
        let path = format!("/filters/{key}/count");
        let counted = server.post(&path, json!({"items": items})).await.ok();
        let results = counted["results"].as_array().unwrap().iter();
        all.extend(results.map(|it| it.as_u64().unwrap()));
    }
    all
}

async fn merge(server: &Server, key: &str, from: &[&str]) -> Answer {
    let path = format!("/filters/{key}/merge");
    server.post(&path, json!({"from": from})).await
}

async fn dump(server: &Server, key: &str) -> Vec<u8> {
    let dump = server.get(&format!("/filters/{key}/dump")).await;
    assert_eq!(dump.status, 200);
    dump.bytes
}

fn content(file: &[u8]) -> [u8; 32] {
    FileView::open(file).unwrap().verify().unwrap()
}

/// `may`, and two siblings with items of its.
async fn siblings(server: &Server) {
    let may = json!({"capacity": 20_000, "error_rate": 0.02});
    made(server, "may", may, 0..30_000).await;
    let sibling = json!({"sibling_of": "may"});
    made(server, "june", sibling.clone(), 20_000..45_000).await;
    made(server, "july", sibling, 44_000..46_000).await;
    add(server, "july", 44_000..46_000).await;
}

#[tokio::test]
async fn a_filter_that_takes_others_in_is_what_their_dumps_are_merged() {
    let server = Server::start().await;
    siblings(&server).await;
    // Items that were never added, too: some of them are found.
    let all = 0..100_000;
    let mut sums = vec![0; 100_000];
    for key in ["may", "june", "july"] {
        let counts = counts(&server, key, all.clone()).await;
        sums.iter_mut().zip(counts).for_each(|(sum, it)| *sum += it);
    }
    assert!(sums.iter().skip(46_000).any(|&it| it > 0));
    let folder = tempfile::tempdir().unwrap();
    let mut line = vec!["cuckood".into(), "merge".into()];
    for key in ["may", "june", "july"] {
        let path = folder.path().join(key);
        std::fs::write(&path, dump(&server, key).await).unwrap();
        line.push(path.into_os_string());
    }
    let merged = folder.path().join("merged");
    line.extend(["-o".into(), merged.clone().into_os_string()]);
    let command = Cli::parse_from(line).command;
    let run = tokio::task::spawn_blocking(|| cuckood::commands::run(command));
    assert_eq!(run.await.unwrap(), ExitCode::SUCCESS);

    let (june, july) = (dump(&server, "june").await, dump(&server, "july").await);
    let told = merge(&server, "may", &["june", "july"]).await.ok();
    assert_eq!(told["items"], 59_000);
    assert_eq!(counts(&server, "may", all).await, sums);
    let file = std::fs::read(merged).unwrap();
    assert_eq!(content(&dump(&server, "may").await), content(&file));
    // The others are as they were, and it goes on.
    assert_eq!(content(&dump(&server, "june").await), content(&june));
    assert_eq!(content(&dump(&server, "july").await), content(&july));
    add(&server, "may", 100_000..101_000).await;
    let path = "/filters/may/items/delete";
    let deleted = server
        .post(path, json!({"items": [1, 25_000, 25_000]}))
        .await;
    assert_eq!(deleted.ok()["results"], json!([true, true, true]));
    assert_eq!(server.get("/filters/may").await.ok()["items"], 59_997);
}

#[tokio::test]
async fn values_and_rows_add_up_and_the_filter_keeps_when_it_ends() {
    let server = Server::start().await;
    let fields = json!({"capacity": 1000, "value_bits": 8, "ttl_seconds": 1000});
    made(&server, "a", fields, 0..0).await;
    made(&server, "b", json!({"sibling_of": "a"}), 0..0).await;
    for (key, value) in [("a", 1), ("b", 1), ("b", 2)] {
        let entries = json!({"entries": [{"item": "ada", "value": value}]});
        let path = format!("/filters/{key}/values");
        server.post(&path, entries).await.ok();
    }
    let ends = server.get("/filters/a").await.ok()["expires_at"].clone();
    let merged = merge(&server, "a", &["b"]).await.ok();
    assert_eq!(merged["expires_at"], ends);
    assert!(ends.is_string());
    assert_eq!(
        server.get("/filters/b").await.ok()["expires_at"],
        json!(null)
    );
    let asked = json!({"items": ["ada"], "counts": true});
    let listed = server.post("/filters/a/values/query", asked).await.ok();
    assert_eq!(listed, json!({"results": [[1, 2]], "counts": [[2, 1]]}));
    // Another kind of items.
    let rows = json!({"capacity": 1000, "attributes": [{"name": "x", "hash_bits": 8}]});
    made(&server, "rows", rows, 0..0).await;
    let refused = merge(&server, "a", &["rows"]).await;
    refused.problem(409, "not_siblings");
}

#[tokio::test]
async fn a_sibling_is_made_as_the_other_was_and_with_its_key() {
    let server = Server::start().await;
    let shape = json!({"capacity": 5_000, "fingerprint_bits": 21, "expansion": 0});
    made(&server, "a", shape, 0..1000).await;
    let sibling = json!({"sibling_of": "a", "capacity": 5_000, "ttl_seconds": 900});
    let told = server.put("/filters/b", sibling.clone()).await;
    assert_eq!(
        (told.status, told.ok()["ttl_seconds"].clone()),
        (201, 900.into())
    );
    let fields = ["capacity", "fingerprint_bits", "expansion", "slot_bytes"];
    let a = server.get("/filters/a").await.ok();
    assert!(fields.iter().all(|&it| told.ok()[it] == a[it]), "{a}");
    assert_eq!(told.ok()["items"], 0);
    // It is there, and one that is none differs.
    assert_eq!(server.put("/filters/b", sibling).await.status, 200);
    made(&server, "other", json!({"capacity": 5_000}), 0..0).await;
    let differs = server
        .put("/filters/other", json!({"sibling_of": "a"}))
        .await;
    let problem = differs.problem(409, "filter_differs");
    assert_eq!(problem["errors"][0]["pointer"], "/sibling_of");
    let contradicting = json!({"sibling_of": "a", "capacity": 6_000, "error_rate": 0.1});
    let refused = server.put("/filters/c", contradicting).await;
    let problem = refused.problem(409, "not_siblings");
    let detail = problem["detail"].as_str().unwrap();
    assert!(
        detail.contains("capacity is 5000 in one and 6000"),
        "{detail}"
    );
    for bad in [json!(1), json!("a b"), json!(null)] {
        let refused = server.put("/filters/c", json!({"sibling_of": bad})).await;
        assert_eq!(refused.refused(), ["/sibling_of"]);
    }
    let missing = server
        .put("/filters/c", json!({"sibling_of": "none"}))
        .await;
    let problem = missing.problem(404, "filter_not_found");
    expect_detail(&problem, "none");
    made(&server, "classic", json!({"layout": "classic"}), 0..0).await;
    made(&server, "window", json!({"window_seconds": 60}), 0..0).await;
    // One that is there stays what it is when the other is gone.
    made(&server, "gone", json!({}), 0..0).await;
    let create = json!({"sibling_of": "gone"});
    made(&server, "left", create.clone(), 0..0).await;
    server.delete("/filters/gone").await;
    let add = json!({"items": ["x"], "create": create});
    server.post("/filters/left/items", add).await.ok();
    assert_eq!(server.put("/filters/left", create).await.status, 200);
    for (of, why) in [("classic", "layout classic"), ("window", "items expire")] {
        let refused = server.put("/filters/c", json!({"sibling_of": of})).await;
        let problem = refused.problem(409, "not_siblings");
        assert!(
            problem["detail"].as_str().unwrap().contains(why),
            "{problem}"
        );
    }
    // Whatever makes filters.
    let preview = server.post("/preview", json!({"sibling_of": "a"})).await;
    assert_eq!(preview.ok()["capacity"], 5_000);
    let first = json!({"items": ["x"], "create": {"sibling_of": "a"}});
    server.post("/filters/c/items", first).await.ok();
    let lines = "/filters/d/items?create=true&sibling_of=a";
    assert_eq!(server.send(lines, "text/plain", "y\n").await.status, 200);
    let merged = merge(&server, "b", &["a", "c", "d"]).await.ok();
    assert_eq!(merged["items"], 1002);
}

#[tokio::test]
async fn what_can_t_be_merged_is_refused_by_name_and_changes_nothing() {
    let server = Server::start().await;
    siblings(&server).await;
    made(&server, "stranger", json!({"capacity": 20_000}), 0..10).await;
    made(&server, "classic", json!({"layout": "classic"}), 0..10).await;
    made(&server, "window", json!({"window_seconds": 60}), 0..10).await;
    let before = dump(&server, "may").await;
    for (from, why) in [
        (
            ["june", "stranger"],
            "stranger can't be merged: the keys of their hashes differ",
        ),
        (
            ["june", "classic"],
            "classic can't be merged: filters of the layout classic",
        ),
        (["june", "window"], "window can't be merged"),
    ] {
        let problem = merge(&server, "may", &from)
            .await
            .problem(409, "not_siblings");
        assert!(
            problem["detail"].as_str().unwrap().contains(why),
            "{problem}"
        );
    }
    for key in ["classic", "window"] {
        let refused = merge(&server, key, &["june"]).await;
        refused.problem(409, "not_siblings");
    }
    let missing = merge(&server, "may", &["june", "none"]).await;
    missing.problem(404, "filter_not_found");
    let missing = merge(&server, "none", &["june"]).await;
    missing.problem(404, "filter_not_found");
    assert_eq!(
        merge(&server, "may", &["june", "may"]).await.refused(),
        ["/from/1"]
    );
    assert_eq!(
        merge(&server, "may", &["june", "june"]).await.refused(),
        ["/from/1"]
    );
    assert_eq!(merge(&server, "may", &["a b"]).await.refused(), ["/from/0"]);
    assert_eq!(merge(&server, "may", &[]).await.refused(), ["/from"]);
    let many: Vec<String> = (0..17).map(|it| it.to_string()).collect();
    let many: Vec<&str> = many.iter().map(String::as_str).collect();
    assert_eq!(merge(&server, "may", &many).await.refused(), ["/from"]);
    for body in [
        json!({}),
        json!({"from": "june"}),
        json!({"from": ["june"], "x": 1}),
    ] {
        server.post("/filters/may/merge", body).await.refused();
    }
    assert_eq!(dump(&server, "may").await, before);
}

#[tokio::test]
async fn a_merge_with_a_key_is_done_once_also_when_the_other_is_gone() {
    let server = Server::start().await;
    siblings(&server).await;
    let ask = async |from: &str| {
        let request = server.request(Method::POST, "/filters/june/merge");
        let request = request.header("idempotency-key", "k");
        Answer::of(request.json(&json!({"from": [from]}))).await
    };
    let first = ask("july").await;
    assert_eq!(first.ok()["items"], 29_000);
    server.delete("/filters/july").await;
    let again = ask("july").await;
    assert_eq!(again.header("idempotency-replayed"), "true");
    assert_eq!(again.ok(), first.ok());
    ask("may").await.problem(422, "idempotency_key_reused");
    assert_eq!(server.get("/filters/june").await.ok()["items"], 29_000);
}

#[tokio::test]
async fn a_merge_holds_its_memory_and_one_without_room_says_how_much_it_takes() {
    let mut setup = Setup::default();
    setup.limits.max_buffered_bytes = 2 << 20;
    let server = Server::with(setup).await;
    siblings(&server).await;
    let refused = merge(&server, "may", &["june"]).await;
    let problem = refused.problem(413, "too_costly");
    let detail = problem["detail"].as_str().unwrap();
    // Of that it takes a quarter at most.
    let (_, bytes) = detail.split_once("the merge takes ").unwrap();
    let bytes: u64 = bytes.split(' ').next().unwrap().parse().unwrap();
    let enough = format!(
        "--max-buffered-bytes={}MiB or more",
        bytes.div_ceil(1 << 18)
    );
    expect_detail(&problem, &enough);
    assert_eq!(server.get("/filters/may").await.ok()["items"], 30_000);
    // Nor while others have it, or other merges a quarter.
    made(&server, "a", json!({"capacity": 100}), 0..10).await;
    made(&server, "b", json!({"sibling_of": "a"}), 0..10).await;
    let admission = &server.app.admission;
    let bodies = &admission.bodies;
    let held = bodies.try_take(None, bodies.bound() - (64 << 10)).unwrap();
    merge(&server, "a", &["b"]).await.problem(503, "overloaded");
    drop(held);
    assert!(admission.merge(None, (512 << 10) + 1).is_err());
    let held = admission.merge(None, (512 - 64) << 10).unwrap();
    merge(&server, "a", &["b"]).await.problem(503, "overloaded");
    drop(held);
    assert_eq!(merge(&server, "a", &["b"]).await.ok()["items"], 20);
    assert_eq!(bodies.held(), 0);
}

#[tokio::test]
async fn a_key_that_has_its_share_of_the_memory_is_told_so() {
    let (keyed, root) = Keyed::start().await;
    let _rival = keyed.add("rival", Scope::Read, None);
    for (key, create) in [("a", json!({})), ("b", json!({"sibling_of": "a"}))] {
        let fields = json!({"items": [key], "create": create});
        let path = format!("/filters/{key}/items");
        keyed.post(&root, &path, fields).await.ok();
    }
    let holder = Claimant::of("root".into(), true);
    let admission = &keyed.server.app.admission;
    let bound = admission.limits.max_buffered_bytes as u64 / 4;
    let _held = admission.merge(Some(&holder), bound / 2).unwrap();
    let body = json!({"from": ["b"]});
    let refused = keyed.post(&root, "/filters/a/merge", body).await;
    refused.problem(429, "over_share");
}

#[tokio::test]
async fn a_merge_takes_write_and_its_prefix_and_a_sibling_takes_export() {
    let (keyed, root) = Keyed::start().await;
    let put = async |token: &Token, key: &str, fields: Value| {
        let request = keyed.request(token, Method::PUT, &format!("/filters/{key}"));
        Answer::of(request.json(&fields)).await
    };
    for (key, of) in [("t:a", None), ("t:b", Some("t:a")), ("u:c", Some("t:a"))] {
        let fields = of.map_or(json!({}), |it| json!({"sibling_of": it}));
        assert_eq!(put(&root, key, fields).await.status, 201);
    }
    let reads = keyed.add("reads", Scope::Read, None);
    let tenant = keyed.add("tenant", Scope::Write, Some("t:"));
    let plain = keyed.add_without_export("plain", Scope::Write);
    let merge = async |token: &Token, from: &str| {
        keyed
            .post(token, "/filters/t:a/merge", json!({"from": [from]}))
            .await
    };
    merge(&reads, "t:b")
        .await
        .problem(403, "scope_insufficient");
    merge(&tenant, "u:c").await.problem(403, "filter_forbidden");
    // Also of what is not there.
    merge(&tenant, "u:d").await.problem(403, "filter_forbidden");
    merge(&tenant, "t:b").await.ok();
    merge(&plain, "u:c").await.ok();
    for (token, of) in [(&tenant, "u:c"), (&tenant, "u:d")] {
        let refused = put(token, "t:new", json!({"sibling_of": of})).await;
        refused.problem(403, "filter_forbidden");
    }
    let sibling = json!({"sibling_of": "t:a"});
    let refused = put(&plain, "t:new", sibling.clone()).await;
    refused.problem(403, "scope_insufficient");
    let first = json!({"items": ["x"], "create": sibling});
    let refused = keyed.post(&plain, "/filters/t:new/items", first).await;
    refused.problem(403, "scope_insufficient");
    let refused = keyed.post(&plain, "/preview", sibling.clone()).await;
    refused.problem(403, "scope_insufficient");
    assert_eq!(put(&tenant, "t:new", sibling).await.status, 201);
}
