use crate::server::{Answer, Server, Setup};
use reqwest::Method;
use serde_json::{Value, json};
use std::sync::Arc;

/// One filter with values of 12 bits, "joins", and one without, "plain".
async fn with_filters() -> Server {
    let server = Server::start().await;
    let joins = json!({"capacity": 1000, "value_bits": 12, "values_per_item": 4});
    server.put("/filters/joins", joins).await.ok();
    let plain = json!({"capacity": 1000});
    server.put("/filters/plain", plain).await.ok();
    server
}

fn entry(item: &str, value: u64) -> Value {
    json!({"item": item, "value": value})
}

/// The place, what was given and what is allowed, of the only refused field.
fn refusal(answer: &Answer) -> (String, String, String) {
    let problem = answer.problem(422, "invalid_fields");
    let error = &problem["errors"][0];
    let text = |field: &str| error[field].as_str().unwrap_or_default().to_owned();
    (text("pointer"), text("given"), text("allowed"))
}

#[tokio::test]
async fn values_are_added_asked_for_listed_and_deleted() {
    let server = with_filters().await;
    let entries = [
        entry("ada", 17),
        entry("ada", 3),
        entry("ada", 17),
        entry("", 0),
        json!({"value": 4095, "item": 7}),
    ];
    let added = server
        .post("/filters/joins/values", json!({"entries": entries}))
        .await
        .ok();
    assert_eq!(added, json!({"results": vec!["added"; 5]}));

    let again = json!({"entries": [entry("ada", 3), entry("ada", 4)], "only_if_absent": true});
    let added = server.post("/filters/joins/values", again).await.ok();
    assert_eq!(added, json!({"results": ["exists", "added"]}));

    let listed = server.get("/filters/joins/values?item=ada").await.ok();
    assert_eq!(listed, json!({"values": [3, 4, 17]}));
    let asked = json!({"items": ["ada", "bob", "7", ""], "counts": true});
    let listed = server.post("/filters/joins/values/query", asked).await.ok();
    assert_eq!(
        listed,
        json!({
            "results": [[3, 4, 17], [], [4095], [0]],
            "counts": [[1, 1, 2], [], [1], [1]],
        })
    );
    let none = json!({"items": []});
    let listed = server.post("/filters/joins/values/query", none).await.ok();
    assert_eq!(listed, json!({"results": []}));

    let asked = json!({"entries": [entry("ada", 17), entry("ada", 18), entry("bob", 17)]});
    let found = server.post("/filters/joins/exists", asked).await.ok();
    assert_eq!(found, json!({"results": [true, false, false]}));
    let asked = json!({"items": ["ada", "bob"]});
    let found = server.post("/filters/joins/exists", asked).await.ok();
    assert_eq!(found, json!({"results": [true, false]}));
    let count = server.get("/filters/joins/count?item=ada").await.ok();
    assert_eq!(count, json!({"count": 4}));

    let gone = json!({"entries": [
        entry("ada", 17), entry("ada", 17), entry("ada", 17), entry("bob", 3),
    ]});
    let deleted = server.post("/filters/joins/values/delete", gone).await.ok();
    assert_eq!(deleted, json!({"results": [true, true, false, false]}));
    let listed = server.get("/filters/joins/values?item=ada").await.ok();
    assert_eq!(listed, json!({"values": [3, 4]}));

    let info = server.get("/filters/joins").await.ok();
    assert_eq!((&info["items"], &info["deletions"]), (&json!(4), &json!(2)));
    assert_eq!(
        (&info["value_bits"], &info["values_per_item"]),
        (&json!(12), &json!(4))
    );
    let plain = server.get("/filters/plain").await.ok();
    assert_eq!(
        (&plain["value_bits"], &plain["values_per_item"]),
        (&json!(null), &json!(null))
    );
}

#[tokio::test]
async fn the_memory_of_a_filter_has_the_lists_of_its_values() {
    let server = Server::start().await;
    let joins = json!({"capacity": 256, "value_bits": 10, "values_per_item": 1024});
    server.put("/filters/joins", joins).await.ok();
    let items: Vec<String> = (0..32).map(|item| format!("item-{item}")).collect();
    let pairs = items
        .iter()
        .flat_map(|it| (0..1024).map(move |value| entry(it, value)));
    let all: Vec<Value> = pairs.collect();
    for some in all.chunks(1 << 16) {
        let added = json!({ "entries": some });
        server.post("/filters/joins/values", added).await.ok();
    }
    // All but the first value of each item are counted beside pages.
    let info = server.get("/filters/joins").await.ok();
    let bytes = |field: &str| info[field].as_u64().unwrap();
    let (in_memory, copies) = (bytes("memory_bytes"), 1023 * 32);
    let allowed = 8 * copies..16 * copies + bytes("slot_bytes");
    assert!(allowed.contains(&in_memory), "{in_memory}, not {allowed:?}");
}

#[tokio::test]
async fn entries_can_be_lines_and_so_can_answers() {
    let server = with_filters().await;
    let lines = async |path: &str, body: &'static str| {
        let request = server
            .request(Method::POST, &format!("/filters/joins/{path}"))
            .header("content-type", "text/plain")
            .header("accept", "text/plain")
            .body(body);
        let answer = Answer::of(request).await;
        assert_eq!(answer.status, 200, "{}", answer.text());
        answer.text().to_owned()
    };
    assert_eq!(
        lines("values", "ada\t17\n\nada\t3\r\n").await,
        "added\n\nadded\n"
    );
    assert_eq!(
        lines("values?only_if_absent=true", "ada\t3\na\tb\t9\n").await,
        "exists\nadded\n"
    );
    assert_eq!(
        lines("values/query", "ada\n\nnobody\na\tb\n").await,
        "3 17\n\n\n9\n"
    );
    assert_eq!(
        lines("values/delete?encoding=base64", "YWRh\t17\nYWRh\t17").await,
        "true\nfalse\n"
    );
    let asked = json!({"items": ["YWRh"], "encoding": "base64"});
    let listed = server.post("/filters/joins/values/query", asked).await.ok();
    assert_eq!(listed, json!({"results": [[3]]}));
}

#[tokio::test]
async fn what_is_no_entry_is_refused_with_its_place() {
    let server = with_filters().await;
    let cases = [
        (
            json!([entry("a", 1), entry("b", 5000)]),
            "/entries/1/value",
            "5000",
        ),
        (json!([{"item": "a"}]), "/entries/0/value", "left out"),
        (json!([{"value": 1}]), "/entries/0/item", "left out"),
        (
            json!([{"item": "a", "value": -1}]),
            "/entries/0/value",
            "-1",
        ),
        (
            json!([{"item": "a", "value": 1.5}]),
            "/entries/0/value",
            "1.5",
        ),
        (
            json!([{"item": "a", "value": "1"}]),
            "/entries/0/value",
            "\"1\"",
        ),
        (
            json!([{"item": "a", "value": 1e15}]),
            "/entries/0/value",
            "1000000000000000.0",
        ),
        (
            json!([{"item": null, "value": 1}]),
            "/entries/0/item",
            "null",
        ),
        (
            json!([{"item": "a", "value": 1, "at": 2}]),
            "/entries/0/at",
            "not a field here",
        ),
        (json!(["a"]), "/entries/0", "a string"),
        (json!([[1]]), "/entries/0", "an array"),
        (json!({"item": "a", "value": 1}), "/entries", "an object"),
        (json!(null), "/entries", "null"),
    ];
    for path in ["values", "values/delete", "exists"] {
        for (entries, place, given) in &cases {
            let body = json!({"entries": entries});
            let answer = server.post(&format!("/filters/joins/{path}"), body).await;
            let (pointer, said, allowed) = refusal(&answer);
            assert_eq!(
                (pointer.as_str(), said.as_str()),
                (*place, *given),
                "{path}"
            );
            assert!(!allowed.is_empty());
        }
    }
    let too_large = json!({"entries": [entry("b", 5000)]});
    let (_, _, allowed) = refusal(&server.post("/filters/joins/values", too_large).await);
    assert_eq!(allowed, "0 to 4095: the values of the filter have 12 bits");

    let both = json!({"items": ["a"], "entries": [entry("a", 1)]});
    let (place, ..) = refusal(&server.post("/filters/joins/exists", both).await);
    assert_eq!(place, "/items");
    for (path, field) in [
        ("values", "/entries"),
        ("values/query", "/items"),
        ("exists", "/items"),
    ] {
        let answer = server
            .post(&format!("/filters/joins/{path}"), json!({}))
            .await;
        let (place, given, _) = refusal(&answer);
        assert_eq!((place.as_str(), given.as_str()), (field, "left out"));
    }
    for (body, place, given) in [
        ("ada\t1\nada", "line 2", "without a TAB"),
        ("\n\nada\t5000", "line 3", "5000"),
        ("ada\tx", "line 1", "x"),
    ] {
        let request = server.request(Method::POST, "/filters/joins/values");
        let request = request.header("content-type", "text/plain").body(body);
        let (pointer, said, _) = refusal(&Answer::of(request).await);
        assert_eq!(
            (pointer.as_str(), said.as_str()),
            (place, given),
            "{body:?}"
        );
    }
    let several = json!({"entries": [entry("a", 5000), entry("b", 1), entry("c", 6000)]});
    let answer = server.post("/filters/joins/values", several).await;
    assert_eq!(answer.refused(), ["/entries/0/value", "/entries/2/value"]);
    let swapped = json!({"entries": [
        {"item": "a", "from": 1, "to": 5000}, {"item": "a", "from": 6000, "to": 1},
    ]});
    let answer = server.post("/filters/joins/values/replace", swapped).await;
    assert_eq!(answer.refused(), ["/entries/0/to", "/entries/1/from"]);
    assert_eq!(server.get("/filters/joins").await.ok()["items"], 0);
}

#[tokio::test]
async fn a_filter_of_the_other_kind_says_what_it_is() {
    let server = with_filters().await;
    let (items, entries) = (json!({"items": ["a"]}), json!({"entries": [entry("a", 1)]}));
    let refused = [
        ("plain/values", &entries, "the filter has no values"),
        ("plain/values/delete", &entries, "the filter has no values"),
        ("plain/values/query", &items, "the filter has no values"),
        ("plain/exists", &entries, "the filter has no values"),
        ("joins/items", &items, "have values of 12 bits"),
        ("joins/items/delete", &items, "have values of 12 bits"),
    ];
    for (path, body, says) in refused {
        let answer = server.post(&format!("/filters/{path}"), body.clone()).await;
        let problem = answer.problem(422, "not_for_this_filter");
        let detail = problem["detail"].as_str().unwrap();
        assert!(detail.contains(says), "{path}: {detail}");
    }
    let answer = server.get("/filters/plain/values?item=a").await;
    answer.problem(422, "not_for_this_filter");
    let create = json!({"items": ["a"], "create": {"value_bits": 4}});
    let answer = server.post("/filters/new/items", create).await;
    answer.problem(422, "not_for_this_filter");
    assert_eq!(server.get("/filters/new").await.status, 404);
}

#[tokio::test]
async fn entries_are_imported_from_lines_and_from_json() {
    let server = with_filters().await;
    let text = "ada\t17\nada\t3\r\n\n\t\t0\nada\nada\tx\nada\t4096\nada\t17";
    let json = "{\"item\": \"bob\", \"value\": 5}\n{\"value\": 4095, \"item\": 7}\n\"ada\"\n\
        {\"item\": \"ada\"}\n{\"item\": null, \"value\": 1}\n{\"item\": \"ada\", \"value\": 4096}\n{\n";
    let bad = |lines: &[(u64, &str)]| -> Vec<Value> {
        let line = |&(line, reason): &(u64, &str)| json!({"line": line, "reason": reason});
        lines.iter().map(line).collect()
    };
    let (entry, large) = ("not_an_entry", "value_too_large");
    for (id, media_type, body, added, skipped) in [
        (
            "t",
            "text/plain",
            text,
            4,
            bad(&[(5, entry), (6, entry), (7, large)]),
        ),
        (
            "j",
            "application/x-ndjson",
            json,
            2,
            bad(&[
                (3, entry),
                (4, entry),
                (5, "not_an_item"),
                (6, large),
                (7, "not_json"),
            ]),
        ),
    ] {
        let path = format!("/filters/joins/import?import_id={id}");
        let imported = server.send(&path, media_type, body).await.ok();
        assert_eq!(imported["added"], added, "{imported}");
        assert_eq!(imported["first_bad_lines"], json!(skipped));
        // Sent again it adds nothing.
        let again = server.send(&path, media_type, body).await.ok();
        assert_eq!(again["added"], added);
    }
    let asked = json!({"items": ["ada", "bob", "7", "\t"], "counts": true});
    let listed = server.post("/filters/joins/values/query", asked).await.ok();
    assert_eq!(listed["results"], json!([[3, 17], [5], [4095], [0]]));
    assert_eq!(listed["counts"], json!([[1, 2], [1], [1], [1]]));

    let path = "/filters/joins/import?import_id=once&only_if_absent=true";
    let body = "ada\t17\nada\t18\n";
    let imported = server.send(path, "text/plain", body).await.ok();
    assert_eq!(
        (&imported["added"], &imported["exists"]),
        (&json!(1), &json!(1))
    );
}

#[tokio::test]
async fn an_import_of_many_entries_takes_several_commits_and_no_entry_twice() {
    let server = with_filters().await;
    let lines: Vec<String> = (0..20_000u64)
        .map(|it| format!("user {}\t{}\n", it / 4, it % 4000))
        .collect();
    let path = "/filters/joins/import?import_id=many";
    let imported = server.send(path, "text/plain", lines[..9_000].concat());
    assert_eq!(imported.await.ok()["added"], 9_000);
    let imported = server.send(path, "text/plain", lines.concat()).await.ok();
    assert_eq!(imported["committed_lines"], 20_000);
    assert_eq!(imported["added"], 20_000);
    let users: Vec<String> = (0..5_000).map(|it| format!("user {it}")).collect();
    let asked = json!({"items": users, "counts": true});
    let listed = server.post("/filters/joins/values/query", asked).await.ok();
    for user in 0..5_000 {
        let found = listed["results"][user].as_array().unwrap();
        for value in (4 * user..).take(4).map(|it| json!(it % 4000)) {
            assert!(
                found.contains(&value),
                "{value} of user {user} in {found:?}"
            );
        }
    }
    let info = server.get("/filters/joins").await.ok();
    assert_eq!(info["items"], 20_000);
}

#[tokio::test]
async fn what_a_filter_with_values_is_asked_to_be_is_checked() {
    let server = Server::start().await;
    for (fields, place) in [
        (json!({"value_bits": 0}), "/value_bits"),
        (json!({"value_bits": 17}), "/value_bits"),
        (json!({"value_bits": "4"}), "/value_bits"),
        (
            json!({"value_bits": 4, "values_per_item": 0}),
            "/values_per_item",
        ),
        (
            json!({"value_bits": 4, "values_per_item": 1025}),
            "/values_per_item",
        ),
        (json!({"values_per_item": 2}), "/values_per_item"),
        (json!({"value_bits": 4, "layout": "classic"}), "/value_bits"),
        (
            json!({"value_bits": 4, "fingerprint_bits": 12}),
            "/value_bits",
        ),
    ] {
        let answer = server.put("/filters/f", fields.clone()).await;
        let places = answer.refused();
        assert!(places.iter().any(|it| it == place), "{fields}: {places:?}");
    }
    let wanted = json!({"value_bits": 4, "values_per_item": 2});
    assert_eq!(server.put("/filters/f", wanted.clone()).await.status, 201);
    assert_eq!(server.put("/filters/f", wanted).await.status, 200);
    let other = server.put("/filters/f", json!({"value_bits": 5})).await;
    other.problem(409, "filter_differs");
}

#[tokio::test]
async fn an_item_takes_1024_values_and_the_filter_does_not_grow_for_more() {
    let server = with_filters().await;
    let before = server.get("/filters/joins").await.ok();
    let entries: Vec<Value> = (0..1025).map(|value| entry("ada", value)).collect();
    let added = server
        .post("/filters/joins/values", json!({"entries": entries}))
        .await
        .ok();
    let results = added["results"].as_array().unwrap();
    assert!(results[..1024].iter().all(|it| it == "added"));
    assert_eq!(results[1024], "full");
    assert_eq!(added["full_reason"], "max_values_per_item");
    // One that it has is counted.
    let again = json!({"entries": [entry("ada", 1023)]});
    let added = server.post("/filters/joins/values", again).await.ok();
    assert_eq!(added, json!({"results": ["added"]}));
    let listed = server.get("/filters/joins/values?item=ada").await.ok();
    assert_eq!(listed["values"].as_array().unwrap().len(), 1024);
    let after = server.get("/filters/joins").await.ok();
    assert_eq!(after["slot_bytes"], before["slot_bytes"]);
}

#[tokio::test]
async fn values_are_added_once_with_a_key_and_the_answer_is_the_same() {
    let server = with_filters().await;
    for replayed in [false, true] {
        let request = server
            .request(Method::POST, "/filters/joins/values")
            .header("idempotency-key", "k")
            .json(&json!({"entries": [entry("ada", 1)]}));
        let answer = Answer::of(request).await;
        assert_eq!(
            answer.headers.contains_key("idempotency-replayed"),
            replayed
        );
        assert_eq!(answer.ok(), json!({"results": ["added"]}));
    }
    let count = server.get("/filters/joins/count?item=ada").await.ok();
    assert_eq!(count, json!({"count": 1}));
}

#[tokio::test]
async fn values_outlive_restarts_and_dumps() {
    let store = Setup::default().store;
    let setup = || Setup {
        store: Arc::clone(&store),
        ..Setup::default()
    };
    let asked: Vec<String> = (0..400).map(|n| format!("user-{n}")).collect();
    let asked = json!({"items": asked, "counts": true});
    let server = Server::with(setup()).await;
    let fields = json!({"capacity": 500, "value_bits": 4, "values_per_item": 3});
    server.put("/filters/f", fields).await.ok();
    let entries: Vec<Value> = (0..1600)
        .map(|n| entry(&format!("user-{}", n % 300), n * 7 % 11))
        .collect();
    server
        .post("/filters/f/values", json!({"entries": entries}))
        .await
        .ok();
    let before = server
        .post("/filters/f/values/query", asked.clone())
        .await
        .ok();
    let dump = server.get("/filters/f/dump").await.bytes;
    server.stop().await;

    let server = Server::with(setup()).await;
    let after = server
        .post("/filters/f/values/query", asked.clone())
        .await
        .ok();
    assert_eq!(after, before);
    let restored = server
        .request(Method::PUT, "/filters/g/dump")
        .header("content-type", "application/octet-stream")
        .body(dump);
    assert_eq!(Answer::of(restored).await.status, 201);
    let after = server.post("/filters/g/values/query", asked).await.ok();
    assert_eq!(after, before);
}
