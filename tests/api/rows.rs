//! Filters whose items have rows of attributes, and values that are replaced.

use crate::server::{Answer, Server, expect_detail};
use reqwest::Method;
use serde_json::{Value, json};
use std::collections::BTreeSet;

fn attributes() -> Value {
    json!([{"name": "plan", "values": ["free", "pro"]}, {"name": "tag", "hash_bits": 15}])
}

/// One filter with rows of 16 bits, "users", one with values of 12, "joins", and one
/// without, "plain".
async fn with_filters() -> Server {
    let server = Server::start().await;
    let users = json!({"capacity": 1000, "attributes": attributes(), "values_per_item": 2});
    server.put("/filters/users", users).await.ok();
    let joins = json!({"capacity": 1000, "value_bits": 12});
    server.put("/filters/joins", joins).await.ok();
    server
        .put("/filters/plain", json!({"capacity": 1000}))
        .await
        .ok();
    server
}

fn row(plan: &str, tag: &str) -> Value {
    json!({"plan": plan, "tag": tag})
}

fn entry(item: &str, plan: &str, tag: &str) -> Value {
    json!({"item": item, "attributes": row(plan, tag)})
}

/// The place, what was given and what is allowed, of the only refused field.
fn refusal(answer: &Answer) -> (String, String, String) {
    let problem = answer.problem(422, "invalid_fields");
    assert_eq!(problem["errors"].as_array().unwrap().len(), 1, "{problem}");
    let error = &problem["errors"][0];
    let text = |field: &str| error[field].as_str().unwrap_or_default().to_owned();
    let place = match error["pointer"].is_null() {
        true => format!("?{}", text("parameter")),
        false => text("pointer"),
    };
    (place, text("given"), text("allowed"))
}

async fn lines(server: &Server, path: &str, body: &'static str) -> String {
    let request = server
        .request(Method::POST, &format!("/filters/{path}"))
        .header("content-type", "text/plain")
        .header("accept", "text/plain")
        .body(body);
    let answer = Answer::of(request).await;
    assert_eq!(answer.status, 200, "{}", answer.text());
    answer.text().to_owned()
}

#[tokio::test]
async fn rows_are_added_asked_for_listed_and_deleted() {
    let server = with_filters().await;
    let entries = [
        entry("ada", "pro", "DE"),
        entry("ada", "free", "AT"),
        entry("bob", "free", "DE"),
        json!({"attributes": {"tag": "", "plan": "pro"}, "item": 7}),
    ];
    let added = server
        .post("/filters/users/values", json!({"entries": entries}))
        .await
        .ok();
    assert_eq!(added, json!({"results": vec!["added"; 4]}));
    let again = json!({"entries": [entry("ada", "pro", "DE")], "only_if_absent": true});
    let added = server.post("/filters/users/values", again).await.ok();
    assert_eq!(added, json!({"results": ["exists"]}));

    // Of an exact attribute the value, of a hashed one its code.
    let listed = server.get("/filters/users/values?item=ada").await.ok();
    let values = listed["values"].as_array().unwrap();
    let plans: BTreeSet<&str> = values
        .iter()
        .map(|it| it["plan"].as_str().unwrap())
        .collect();
    assert_eq!(plans, BTreeSet::from(["free", "pro"]));
    let tags = values.iter().map(|it| it["tag"].as_u64().unwrap());
    assert_eq!(tags.filter(|&tag| tag < 1 << 15).count(), 2);
    let asked = json!({"items": ["ada", "bob", "eve"], "counts": true});
    let all = server.post("/filters/users/values/query", asked).await.ok();
    assert_eq!(all["results"][0], listed["values"]);
    assert_eq!(all["results"][1][0]["plan"], "free");
    assert_eq!(
        (&all["results"][2], &all["counts"]),
        (&json!([]), &json!([[1, 1], [1], []]))
    );

    // All of a condition must be met by one row.
    let found = async |condition: Value| {
        let asked = json!({"items": ["ada", "bob", "eve"], "where": condition});
        let answer = server.post("/filters/users/exists", asked).await.ok();
        answer["results"].clone()
    };
    assert_eq!(
        found(json!({"plan": ["pro"]})).await,
        json!([true, false, false])
    );
    assert_eq!(
        found(json!({"plan": ["pro", "free"]})).await,
        json!([true, true, false])
    );
    assert_eq!(
        found(json!({"tag": ["DE"]})).await,
        json!([true, true, false])
    );
    let both = json!({"plan": ["pro"], "tag": ["AT", "DE"]});
    assert_eq!(found(both).await, json!([true, false, false]));
    let of_two_rows = json!({"plan": ["free"], "tag": ["DE"]});
    assert_eq!(found(of_two_rows).await, json!([false, true, false]));
    let asked = json!({"entries": [entry("ada", "free", "AT"), entry("bob", "pro", "DE")]});
    let answer = server.post("/filters/users/exists", asked).await.ok();
    assert_eq!(answer, json!({"results": [true, false]}));
    let asked = "/filters/users/exists?item=ada&where=%7B%22plan%22:[%22pro%22]%7D";
    assert_eq!(server.get(asked).await.ok(), json!({"exists": true}));
    let asked = "/filters/users/exists?item=bob&where=%7B%22plan%22:[%22pro%22]%7D";
    assert_eq!(server.get(asked).await.ok(), json!({"exists": false}));
    let exists = server.get("/filters/users/exists?item=bob").await.ok();
    assert_eq!(exists, json!({"exists": true}));

    let gone = json!({"entries": [entry("ada", "pro", "DE"), entry("ada", "pro", "DE")]});
    let deleted = server.post("/filters/users/values/delete", gone).await.ok();
    assert_eq!(deleted, json!({"results": [true, false]}));
    assert_eq!(
        found(json!({"plan": ["pro"]})).await,
        json!([false, false, false])
    );
    let none = json!({"entries": []});
    let added = server.post("/filters/users/values", none).await.ok();
    assert_eq!(added, json!({"results": []}));
}

#[tokio::test]
async fn a_description_shows_attributes_as_they_were_asked_for() {
    let server = with_filters().await;
    let info = server.get("/filters/users").await.ok();
    assert_eq!(info["attributes"], attributes());
    assert_eq!(
        (&info["value_bits"], &info["values_per_item"]),
        (&json!(null), &json!(2))
    );
    let plain = server.get("/filters/joins").await.ok();
    assert_eq!(plain["attributes"], json!(null));
    let preview = json!({"attributes": attributes()});
    let preview = server.post("/preview", preview).await.ok();
    assert_eq!(preview["attributes"], attributes());

    let same = json!({"attributes": attributes(), "values_per_item": 2});
    assert_eq!(server.put("/filters/users", same).await.status, 200);
    let other = json!({"attributes": [{"name": "plan", "values": ["pro", "free"]}]});
    let problem = server.put("/filters/users", other).await;
    let problem = problem.problem(409, "filter_differs");
    assert_eq!(problem["errors"][0]["pointer"], "/attributes", "{problem}");

    // They are part of a dump.
    let entries = json!({"entries": [entry("ada", "pro", "DE")]});
    server.post("/filters/users/values", entries).await.ok();
    let dump = server.get("/filters/users/dump").await;
    let request = server
        .request(Method::PUT, "/filters/copy/dump")
        .header("content-type", "application/octet-stream")
        .body(dump.bytes.clone());
    let restored = Answer::of(request).await;
    assert_eq!(restored.status, 201, "{}", restored.text());
    let copy = server.get("/filters/copy").await.ok();
    assert_eq!(copy["attributes"], attributes());
    let asked = json!({"items": ["ada"], "where": {"plan": ["pro"], "tag": ["DE"]}});
    let found = server.post("/filters/copy/exists", asked).await.ok();
    assert_eq!(found, json!({"results": [true]}));
}

#[tokio::test]
async fn rows_can_be_lines_and_so_can_answers() {
    let server = with_filters().await;
    let added = "ada\tpro\tDE\n\na\tb\tfree\tAT\r\n";
    assert_eq!(
        lines(&server, "users/values?attributes=plan,tag", added).await,
        "added\n\nadded\n"
    );
    assert_eq!(
        lines(
            &server,
            "users/values?attributes=tag,plan&only_if_absent=true",
            "ada\tDE\tpro\n"
        )
        .await,
        "exists\n"
    );
    let found = "users/exists?where=%7B%22plan%22:[%22pro%22]%7D";
    assert_eq!(
        lines(&server, found, "ada\n\na\tb\n").await,
        "true\n\nfalse\n"
    );
    let listed = lines(&server, "users/values/query", "ada\n\nnobody\na\tb\n").await;
    let listed: Vec<&str> = listed.split('\n').collect();
    assert!(
        listed[0].starts_with("{\"plan\":\"pro\",\"tag\":"),
        "{listed:?}"
    );
    assert_eq!((listed[1], listed[2]), ("", ""));
    assert!(
        listed[3].starts_with("{\"plan\":\"free\",\"tag\":"),
        "{listed:?}"
    );
    let replaced = "ada\tpro\tDE\tfree\tDE\nada\tpro\tDE\tfree\tDE\n";
    assert_eq!(
        lines(
            &server,
            "users/values/replace?attributes=plan,tag",
            replaced
        )
        .await,
        "replaced\nabsent\n"
    );
    assert_eq!(
        lines(
            &server,
            "users/values/delete?attributes=plan,tag&encoding=base64",
            "YWRh\tfree\tDE\n"
        )
        .await,
        "true\n"
    );
    assert_eq!(lines(&server, "joins/values", "ada\t17\n").await, "added\n");
    let replaced = "ada\t17\t18\n\nada\t17\t18\n";
    assert_eq!(
        lines(&server, "joins/values/replace", replaced).await,
        "replaced\n\nabsent\n"
    );
}

#[tokio::test]
async fn rows_are_imported_from_lines_and_from_json() {
    let server = with_filters().await;
    let text = "ada\tpro\tDE\n\na\tb\tfree\tAT\r\nada\tDE\nada\tvip\tDE\nada\tpro\tDE\n";
    let json = "{\"item\": \"eve\", \"attributes\": {\"tag\": \"CH\", \"plan\": \"pro\"}}\n\
        {\"item\": \"eve\", \"attributes\": {\"plan\": \"vip\", \"tag\": \"CH\"}}\n\
        {\"item\": \"eve\", \"attributes\": {\"plan\": \"pro\"}}\n\
        {\"item\": \"eve\", \"value\": 3}\n\
        {\"item\": \"eve\", \"attributes\": {\"plan\": \"pro\", \"tag\": \"CH\", \"x\": \"y\"}}\n\
        {\"item\": \"eve\", \"attributes\": {\"plan\": \"pro\", \"tag\": 5}}\n";
    let (entry, unknown) = ("not_an_entry", "unknown_value");
    for (id, media_type, body, added, bad) in [
        ("t", "text/plain", text, 3, vec![(4, entry), (5, unknown)]),
        (
            "j",
            "application/x-ndjson",
            json,
            1,
            vec![(2, unknown), (3, entry), (4, entry), (5, entry), (6, entry)],
        ),
    ] {
        let bad: Vec<Value> = bad
            .into_iter()
            .map(|(line, reason)| json!({"line": line, "reason": reason}))
            .collect();
        let path = format!("/filters/users/import?import_id={id}");
        let imported = server.send(&path, media_type, body).await.ok();
        assert_eq!(imported["added"], added, "{imported}");
        assert_eq!(imported["first_bad_lines"], json!(bad));
    }
    let asked =
        json!({"items": ["ada", "a\tb", "eve"], "where": {"plan": ["pro"], "tag": ["DE", "CH"]}});
    let found = server.post("/filters/users/exists", asked).await.ok();
    assert_eq!(found, json!({"results": [true, false, true]}));
    let count = server.get("/filters/users/count?item=ada").await.ok();
    assert_eq!(count, json!({"count": 2}));
}

#[tokio::test]
async fn a_value_or_row_is_replaced_by_another_or_nothing_is() {
    let server = with_filters().await;
    let entries = json!({"entries": [{"item": "ada", "value": 17}, {"item": "ada", "value": 17}]});
    server.post("/filters/joins/values", entries).await.ok();
    let both = json!({"entries": [
        {"item": "ada", "from": 17, "to": 18},
        {"item": "ada", "from": 3, "to": 4},
        {"to": 19, "from": 18, "item": "ada"},
    ]});
    let replaced = server
        .post("/filters/joins/values/replace", both)
        .await
        .ok();
    assert_eq!(
        replaced,
        json!({"results": ["replaced", "absent", "replaced"]})
    );
    let listed = server.get("/filters/joins/values?item=ada").await.ok();
    assert_eq!(listed, json!({"values": [17, 19]}));
    let info = server.get("/filters/joins").await.ok();
    assert_eq!((&info["items"], &info["deletions"]), (&json!(2), &json!(0)));

    let entries = json!({"entries": [entry("ada", "free", "DE")]});
    server.post("/filters/users/values", entries).await.ok();
    let both =
        json!({"entries": [{"item": "ada", "from": row("free", "DE"), "to": row("pro", "DE")}]});
    let replaced = async || {
        server
            .post("/filters/users/values/replace", both.clone())
            .await
            .ok()
    };
    assert_eq!(replaced().await, json!({"results": ["replaced"]}));
    assert_eq!(replaced().await, json!({"results": ["absent"]}));
    let asked = json!({"items": ["ada"], "where": {"plan": ["free"]}});
    let found = server.post("/filters/users/exists", asked).await.ok();
    assert_eq!(found, json!({"results": [false]}));
}

#[tokio::test]
async fn a_repeated_replacement_is_made_once() {
    let server = with_filters().await;
    let entries = json!({"entries": [{"item": "ada", "value": 1}, {"item": "ada", "value": 1}]});
    server.post("/filters/joins/values", entries).await.ok();
    let body = json!({"entries": [{"item": "ada", "from": 1, "to": 2}, {"item": "x", "from": 1, "to": 2}]});
    for replayed in [None, Some("true")] {
        let request = server
            .request(Method::POST, "/filters/joins/values/replace")
            .header("idempotency-key", "one")
            .json(&body);
        let answer = Answer::of(request).await;
        let header = answer.headers.get("idempotency-replayed");
        assert_eq!(header.map(|it| it.to_str().unwrap()), replayed);
        assert_eq!(answer.ok(), json!({"results": ["replaced", "absent"]}));
    }
    let listed = server.get("/filters/joins/values?item=ada").await.ok();
    assert_eq!(listed, json!({"values": [1, 2]}));
}

#[tokio::test]
async fn an_item_that_is_full_of_values_says_so_of_a_replacement() {
    let server = with_filters().await;
    let entries: Vec<Value> = (0..1_024)
        .chain([5])
        .map(|value| json!({"item": "ada", "value": value}))
        .collect();
    server
        .post("/filters/joins/values", json!({"entries": entries}))
        .await
        .ok();
    let both = json!({"entries": [{"item": "ada", "from": 5, "to": 2000}, {"item": "ada", "from": 6, "to": 2000}]});
    let replaced = server
        .post("/filters/joins/values/replace", both)
        .await
        .ok();
    assert_eq!(replaced["results"], json!(["full", "replaced"]));
    assert_eq!(replaced["full_reason"], "max_values_per_item");
}

#[tokio::test]
async fn attributes_that_can_not_be_are_refused_where_they_stand() {
    let server = Server::start().await;
    let labels = |count: usize| (0..count).map(|it| it.to_string()).collect::<Vec<_>>();
    let hashed = |name: &str, bits: u64| json!({"name": name, "hash_bits": bits});
    let nine: Vec<Value> = (0..9).map(|it| hashed(&it.to_string(), 1)).collect();
    for (attributes, pointer, given) in [
        (json!("plan"), "/attributes", "\"plan\""),
        (json!([]), "/attributes", "a list of 0"),
        (json!(nine), "/attributes", "a list of 9"),
        (json!(["plan"]), "/attributes/0", "\"plan\""),
        (json!([{"name": "a"}]), "/attributes/0/values", "left out"),
        (json!([{"hash_bits": 3}]), "/attributes/0/name", "left out"),
        (
            json!([{"name": "a", "hash_bits": 3, "x": 1}]),
            "/attributes/0/x",
            "not a field here",
        ),
        (
            json!([{"name": "a", "hash_bits": 3, "values": ["x"]}]),
            "/attributes/0/values",
            "given twice, or beside the other",
        ),
        (json!([hashed("a b", 1)]), "/attributes/0/name", "a b"),
        (
            json!([{"name": 1, "hash_bits": 1}]),
            "/attributes/0/name",
            "1",
        ),
        (json!([hashed("a", 17)]), "/attributes/0/hash_bits", "17"),
        (
            json!([hashed("a", 1000)]),
            "/attributes/0/hash_bits",
            "1000",
        ),
        (
            json!([{"name": "a", "values": [1]}]),
            "/attributes/0/values",
            "[1]",
        ),
        (
            json!([{"name": "a", "values": labels(257)}]),
            "/attributes/0/values",
            "a list of 257",
        ),
        (
            json!([{"name": "a", "values": ["x", "x"]}]),
            "/attributes/0/values/1",
            "x",
        ),
        (
            json!([hashed("a", 9), hashed("b", 8)]),
            "/attributes/1",
            "17 bits with those before",
        ),
        (
            json!([hashed("a", 1), hashed("a", 1)]),
            "/attributes/1/name",
            "a",
        ),
    ] {
        let answer = server
            .put("/filters/f", json!({"attributes": attributes}))
            .await;
        let (place, said, allowed) = refusal(&answer);
        assert_eq!((place.as_str(), said.as_str()), (pointer, given));
        assert!(!allowed.is_empty());
    }
    let sixteen_bits = attributes();
    for (beside, pointer) in [
        (json!({"value_bits": 4}), "/value_bits"),
        (json!({"window_seconds": 60}), "/attributes"),
        (json!({"fingerprint_bits": 16}), "/attributes"),
        (json!({"layout": "classic"}), "/attributes"),
        (json!({"values_per_item": 1025}), "/values_per_item"),
    ] {
        let mut fields = beside;
        fields["attributes"] = sixteen_bits.clone();
        let answer = server.put("/filters/f", fields).await;
        assert_eq!(refusal(&answer).0, pointer);
    }
    let answer = server
        .put("/filters/f", json!({"values_per_item": 2}))
        .await;
    assert_eq!(refusal(&answer).0, "/values_per_item");
    assert_eq!(server.get("/filters/f").await.status, 404);
}

#[tokio::test]
async fn rows_and_conditions_that_the_filter_does_not_know_are_refused_where_they_stand() {
    let server = with_filters().await;
    let ada = entry("ada", "pro", "DE");
    let with = |row: Value| json!({"item": "b", "attributes": row});
    let long = "x".repeat(257);
    let many: serde_json::Map<String, Value> =
        (0..9).map(|it| (format!("a{it}"), json!("x"))).collect();
    for (bad, pointer, given) in [
        (with(row("vip", "DE")), "/attributes/plan", "vip"),
        (with(json!({"plan": "pro"})), "/attributes/tag", "left out"),
        (with(json!({})), "/attributes/plan", "left out"),
        (
            with(json!({"plan": "pro", "tag": "DE", "colour": "red"})),
            "/attributes/colour",
            "no attribute of it",
        ),
        (
            with(json!({"plan": "pro", "tag": 5})),
            "/attributes/tag",
            "5",
        ),
        (
            with(json!({"plan": null, "tag": "DE"})),
            "/attributes/plan",
            "null",
        ),
        (
            with(json!({"plan": ["pro"], "tag": "DE"})),
            "/attributes/plan",
            "an array",
        ),
        (with(row("pro", &long)), "/attributes/tag", "257 bytes long"),
        (with(json!(many)), "/attributes/a6", "one more"),
        (with(json!("pro")), "/attributes", "\"pro\""),
        (with(json!(["pro"])), "/attributes", "an array"),
        (
            json!({"item": "b", "value": 3}),
            "/value",
            "a value beside attributes",
        ),
        (json!({"item": "b"}), "/value", "left out"),
        (json!({"attributes": row("pro", "DE")}), "/item", "left out"),
        (json!("b"), "", "a string"),
    ] {
        let body = json!({"entries": [ada, bad]});
        for path in ["values", "values/delete", "exists"] {
            let answer = server
                .post(&format!("/filters/users/{path}"), body.clone())
                .await;
            let (place, said, allowed) = refusal(&answer);
            let expected = format!("/entries/1{pointer}");
            assert_eq!((place, said.as_str()), (expected, given), "{path}");
            assert!(!allowed.is_empty());
        }
    }
    // A name given twice is no object of serde_json.
    let twice = r#"{"entries": [{"item": "a", "attributes": {"plan": "pro", "plan": "free"}}]}"#;
    let answer = server
        .send("/filters/users/values", "application/json", twice)
        .await;
    assert_eq!(refusal(&answer).0, "/entries/0/attributes/plan");
    // Half of a surrogate pair is no text.
    let lone = r#"{"entries": [{"item": "\ud800", "attributes": {"plan": "pro"}}]}"#;
    let answer = server
        .send("/filters/users/values", "application/json", lone)
        .await;
    answer.problem(400, "malformed_json");

    let sixty_five: Vec<String> = (0..65).map(|it| it.to_string()).collect();
    for (condition, pointer, given) in [
        (json!({"plan": ["pro", "vip"]}), "/where/plan/1", "vip"),
        (
            json!({"colour": ["red"]}),
            "/where/colour",
            "no attribute of it",
        ),
        (json!({"plan": []}), "/where/plan", "an empty array"),
        (json!({"tag": sixty_five}), "/where/tag", "an array of 65"),
        (json!({"plan": "pro"}), "/where/plan", "\"pro\""),
        (json!({}), "/where", "of 0 attributes"),
        (json!([]), "/where", "[]"),
    ] {
        let asked = json!({"items": ["ada"], "where": condition});
        let answer = server.post("/filters/users/exists", asked).await;
        let (place, said, allowed) = refusal(&answer);
        assert_eq!((place.as_str(), said.as_str()), (pointer, given));
        assert!(!allowed.is_empty());
        let condition = percent_encoded(&condition.to_string());
        let answer = server
            .get(&format!("/filters/users/exists?item=a&where={condition}"))
            .await;
        assert_eq!(refusal(&answer).0, "?where");
    }
    for (beside, pointer) in [
        (
            json!({"entries": [ada], "where": {"plan": ["pro"]}}),
            "/where",
        ),
        (
            json!({"items": ["a"], "where": {"plan": ["pro"]}, "within_seconds": 5}),
            "/within_seconds",
        ),
    ] {
        let answer = server.post("/filters/users/exists", beside).await;
        assert_eq!(refusal(&answer).0, pointer);
    }
    let pro = percent_encoded(r#"{"plan": ["pro"]}"#);
    let path = format!("/filters/users/exists?where={pro}&within_seconds=5");
    let answer = server.send(&path, "text/plain", "a\n").await;
    assert_eq!(refusal(&answer).0, "?within_seconds");
    // Nothing of a refused request was kept.
    let info = server.get("/filters/users").await.ok();
    assert_eq!(info["items"], 0);
}

#[tokio::test]
async fn an_answer_lists_no_more_rows_than_64_mib_of_them() {
    let server = Server::start().await;
    // Rows of some 2,150 bytes at least; two labels have to be told apart.
    let attributes: Vec<Value> = (0..8)
        .map(|number| json!({"name": format!("a{number}"), "values": ["x".repeat(256), "y"]}))
        .collect();
    let made = json!({"capacity": 100, "attributes": attributes});
    server.put("/filters/long", made).await.ok();
    let row: serde_json::Map<String, Value> = (0..8)
        .map(|number| (format!("a{number}"), json!("y")))
        .collect();
    let entry = json!({"entries": [{"item": "ada", "attributes": row}]});
    server.post("/filters/long/values", entry).await.ok();
    let asked = async |times: usize| {
        let items = json!({"items": vec!["ada"; times]});
        server.post("/filters/long/values/query", items).await
    };
    let listed = asked(1_100).await.ok();
    assert_eq!(listed["results"].as_array().unwrap().len(), 1_100);
    asked(40_000).await.problem(413, "too_costly");
}

fn percent_encoded(text: &str) -> String {
    text.bytes().map(|byte| format!("%{byte:02X}")).collect()
}

#[tokio::test]
async fn replacements_that_can_not_be_are_refused_where_they_stand() {
    let server = with_filters().await;
    for (filter, bad, pointer, given) in [
        ("joins", json!({"item": "a", "from": 1}), "/to", "left out"),
        ("joins", json!({"item": "a", "to": 1}), "/from", "left out"),
        ("joins", json!({"from": 2, "to": 1}), "/item", "left out"),
        (
            "joins",
            json!({"item": "a", "from": 1, "to": 4096}),
            "/to",
            "4096",
        ),
        (
            "joins",
            json!({"item": "a", "from": 4096, "to": 1}),
            "/from",
            "4096",
        ),
        (
            "joins",
            json!({"item": "a", "from": 1, "to": -1}),
            "/to",
            "-1",
        ),
        (
            "joins",
            json!({"item": "a", "from": 1, "to": "2"}),
            "/to",
            "\"2\"",
        ),
        (
            "joins",
            json!({"item": "a", "value": 1, "to": 2}),
            "/value",
            "not a field here",
        ),
        (
            "users",
            json!({"item": "a", "from": row("pro", "DE"), "to": 3}),
            "/to",
            "a value beside attributes",
        ),
        (
            "users",
            json!({"item": "a", "from": row("pro", "DE"), "to": row("vip", "DE")}),
            "/to/plan",
            "vip",
        ),
        (
            "users",
            json!({"item": "a", "from": {"plan": "pro"}, "to": row("pro", "DE")}),
            "/from/tag",
            "left out",
        ),
    ] {
        let path = format!("/filters/{filter}/values/replace");
        let answer = server.post(&path, json!({"entries": [bad]})).await;
        let (place, said, _) = refusal(&answer);
        assert_eq!(
            (place, said.as_str()),
            (format!("/entries/0{pointer}"), given)
        );
    }
    for (path, body, says) in [
        (
            "users/values?attributes=plan,tag",
            "ada\tpro",
            "line 1 is with too few TABs",
        ),
        (
            "users/values?attributes=plan,tag",
            "ada\tpro\tDE\nada\tvip\tDE",
            "line 2 is plan: vip",
        ),
        (
            "users/values?attributes=plan",
            "ada\tpro",
            "line 1 is tag: left out",
        ),
        (
            "users/values?attributes=plan,tag,x",
            "ada\tpro\tDE\ty",
            "line 1 is x: no attribute",
        ),
        (
            "users/values?attributes=plan,plan",
            "ada\tpro\tpro",
            "attributes is plan,plan",
        ),
        (
            "joins/values/replace",
            "ada\t17",
            "line 1 is with too few TABs",
        ),
        ("joins/values/replace", "ada\t17\t4096", "line 1 is 4096"),
    ] {
        let answer = server
            .send(&format!("/filters/{path}"), "text/plain", body)
            .await;
        let problem = answer.problem(422, "invalid_fields");
        let detail = problem["detail"].as_str().unwrap();
        assert!(detail.contains(says), "{path}: {detail}");
    }
}

#[tokio::test]
async fn what_a_filter_does_not_hold_is_refused_with_what_it_does() {
    let server = with_filters().await;
    let items = json!({"items": ["a"]});
    let values = json!({"entries": [{"item": "a", "value": 1}]});
    let rows = json!({"entries": [entry("a", "pro", "DE")]});
    let condition = json!({"items": ["a"], "where": {"plan": ["pro"]}});
    let both = json!({"entries": [{"item": "a", "from": 1, "to": 2}]});
    let both_rows =
        json!({"entries": [{"item": "a", "from": row("pro", "DE"), "to": row("free", "DE")}]});
    let (has_rows, has_values) = ("have attributes (plan, tag)", "have values of 12 bits");
    let (no_values, no_rows) = ("the filter has no values", "have no attributes");
    for (path, body, says) in [
        ("users/items", &items, has_rows),
        ("users/items/delete", &items, has_rows),
        ("users/values", &values, has_rows),
        ("users/values/delete", &values, has_rows),
        ("users/values/replace", &both, has_rows),
        ("users/exists", &values, has_rows),
        ("joins/values", &rows, has_values),
        ("joins/values/replace", &both_rows, has_values),
        ("joins/exists", &rows, has_values),
        ("joins/exists", &condition, no_rows),
        ("plain/exists", &condition, no_rows),
        ("plain/values", &rows, no_values),
        ("plain/values/replace", &both, no_values),
    ] {
        let answer = server.post(&format!("/filters/{path}"), body.clone()).await;
        let problem = answer.problem(422, "not_for_this_filter");
        let detail = problem["detail"].as_str().unwrap();
        assert!(detail.contains(says), "{path}: {detail}");
    }
    let answer = server
        .send("/filters/users/values", "text/plain", "a\t1\n")
        .await;
    let problem = answer.problem(422, "not_for_this_filter");
    expect_detail(&problem, "attributes=plan,tag");
    let create = json!({"items": ["a"], "create": {"attributes": attributes()}});
    let answer = server.post("/filters/new/items", create).await;
    answer.problem(422, "not_for_this_filter");
}

#[tokio::test]
async fn many_rows_are_added_and_asked_for_in_several_turns() {
    let server = Server::start().await;
    let users = json!({"capacity": 20_000, "attributes": attributes()});
    server.put("/filters/users", users).await.ok();
    let plan = |user: usize| ["free", "pro"][user % 2];
    let entries: Vec<Value> = (0..20_000)
        .map(|user| {
            entry(
                &format!("user {user}"),
                plan(user),
                &format!("tag {}", user % 50),
            )
        })
        .collect();
    let added = server
        .post("/filters/users/values", json!({"entries": entries}))
        .await
        .ok();
    let added = added["results"].as_array().unwrap();
    assert!(added.len() == 20_000 && added.iter().all(|it| it == "added"));
    let users: Vec<String> = (0..20_000).map(|user| format!("user {user}")).collect();
    let asked = json!({"items": users, "where": {"plan": ["pro"]}});
    let found = server.post("/filters/users/exists", asked).await.ok();
    let found = found["results"].as_array().unwrap();
    let wrong = |user: &usize| found[*user] != (user % 2 == 1);
    // Only those of an item that another's entry is taken for: 1 in 1,000 and fewer.
    let wrong: Vec<usize> = (0..20_000).filter(wrong).collect();
    assert!(
        wrong.iter().all(|user| user % 2 == 0) && wrong.len() < 40,
        "{wrong:?}"
    );
}
