use crate::server::{Answer, Server};
use reqwest::Method;
use serde_json::json;

async fn lines(server: &Server, path: &str, body: &'static str) -> Answer {
    let request = server
        .request(Method::POST, path)
        .header("content-type", "text/plain; charset=utf-8")
        .header("accept", "text/plain");
    Answer::of(request.body(body)).await
}

#[tokio::test]
async fn a_file_is_loaded_line_by_line() {
    let server = Server::start().await;
    server.put("/filters/f", json!({})).await.ok();
    let added = lines(
        &server,
        "/filters/f/items",
        "SPRING-24\r\n\r\nAUTUMN-24\n17",
    )
    .await;
    assert_eq!(added.status, 200);
    assert_eq!(added.header("content-type"), "text/plain; charset=utf-8");
    assert_eq!(added.text(), "added\n\nadded\nadded\n");
    assert_eq!(server.get("/filters/f").await.ok()["items"], 3);

    let found = lines(&server, "/filters/f/exists", "AUTUMN-24\n\nWINTER-24\n").await;
    assert_eq!(found.text(), "true\n\nfalse\n");
    let counts = lines(&server, "/filters/f/count", "17\nWINTER-24\n").await;
    assert_eq!(counts.text(), "1\n0\n");
    let deleted = lines(&server, "/filters/f/items/delete", "17\n17\n").await;
    assert_eq!(deleted.text(), "true\nfalse\n");
    assert_eq!(lines(&server, "/filters/f/exists", "").await.text(), "");
    // What some editors write before the first line is no part of it, unless in JSON.
    let found = lines(&server, "/filters/f/exists", "\u{feff}AUTUMN-24\n").await;
    assert_eq!(found.text(), "true\n");
    let asked = json!({"items": ["\u{feff}AUTUMN-24"]});
    let found = server.post("/filters/f/exists", asked).await.ok();
    assert_eq!(found, json!({"results": [false]}));
}

#[tokio::test]
async fn lines_are_answered_in_json_unless_asked_otherwise() {
    let server = Server::start().await;
    server.put("/filters/f", json!({})).await.ok();
    let added = server
        .send("/filters/f/items", "text/plain", "a\n\nb\n")
        .await;
    assert_eq!(added.ok(), json!({"results": ["added", null, "added"]}));
    let counts = server.send("/filters/f/count", "text/plain", "\na\n").await;
    assert_eq!(counts.ok(), json!({"results": [null, 1]}));
}

#[tokio::test]
async fn the_same_item_comes_as_a_line_and_as_json() {
    let server = Server::start().await;
    server.put("/filters/f", json!({})).await.ok();
    server
        .send("/filters/f/items", "text/plain", "é \"quoted\"\n")
        .await
        .ok();
    let asked = json!({"items": ["é \"quoted\""]});
    assert_eq!(
        server.post("/filters/f/exists", asked).await.ok(),
        json!({"results": [true]})
    );
}

#[tokio::test]
async fn options_of_lines_stand_in_the_query() {
    let server = Server::start().await;
    let path = "/filters/f/items?create=true&capacity=300&bucket_size=4&only_if_absent=true";
    assert_eq!(
        lines(&server, path, "a\na\n").await.text(),
        "added\nexists\n"
    );
    let info = server.get("/filters/f").await.ok();
    assert_eq!(
        (&info["capacity"], &info["bucket_size"]),
        (&json!(300), &json!(4))
    );

    let base64 = "/filters/f/items?encoding=base64";
    assert_eq!(lines(&server, base64, "AP8=\n").await.text(), "added\n");
    assert_eq!(
        server
            .get("/filters/f/exists?item_base64url=AP8")
            .await
            .ok(),
        json!({"exists": true})
    );
    assert_eq!(
        lines(&server, base64, "AP8=\n\n?\n").await.refused(),
        ["line 3"]
    );

    for (query, parameter) in [
        ("capacity=300", "capacity"),
        ("create=yes", "create"),
        ("only_if_absent=1", "only_if_absent"),
        ("create=true&capacity=-5", "capacity"),
        ("create=true&layout=pages", "layout"),
        ("create=true&error_rate=2", "error_rate"),
        ("create=true&error_rate=x", "error_rate"),
        ("create=true&fingerprint_bits=9", "fingerprint_bits"),
        ("create=true&bucket_size=300", "bucket_size"),
        ("encoding=hex", "encoding"),
        ("iems=a", "iems"),
    ] {
        let answer = lines(&server, &format!("/filters/g/items?{query}"), "a\n").await;
        assert!(answer.refused().contains(&parameter.to_owned()), "{query}");
    }
    let answer = lines(&server, "/filters/f/exists?only_if_absent=true", "a\n").await;
    assert_eq!(answer.refused(), ["only_if_absent"]);
    server
        .get("/filters/g")
        .await
        .problem(404, "filter_not_found");
}
