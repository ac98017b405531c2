//! The same mistake is told the same over HTTP and over the Redis protocol: the same
//! sentence, and the same advice whether to ask again.

use crate::server::{Server, Setup};
use crate::wire::Client;
use axum::body::Body;
use axum::http::Request;
use cuckood::chain::params::Defaults;
use cuckood::codes::{Code, Retry};
use serde_json::{Value, json};

/// What HTTP answers: the kind of error, its sentence, and whether to ask again.
fn over_http(server: &Server, method: &str, path: &str, body: &Value) -> (Code, String, bool) {
    let request = Request::builder()
        .method(method)
        .uri(path)
        .header("host", "localhost")
        .header("content-type", "application/json");
    let request = request.body(Body::from(body.to_string())).unwrap();
    let (headers, problem) = server.http(request);
    let code = Code::of_name(problem["code"].as_str().unwrap()).unwrap();
    let detail = problem["detail"].as_str().unwrap().to_owned();
    (code, detail, headers.contains_key("retry-after"))
}

/// What the Redis protocol answers: the first word, and the sentence.
fn over_redis(client: &mut Client, line: &str) -> (String, String) {
    let words: Vec<&str> = line.split(' ').collect();
    let reply = String::from_utf8(client.ask(&words)).unwrap();
    let words = reply.strip_prefix('-').unwrap().trim_end();
    let (first, sentence) = words.split_once(' ').unwrap();
    (first.to_owned(), sentence.to_owned())
}

/// Each protocol has a filter of its own shape.
fn without_numbers(text: &str) -> String {
    text.chars().filter(|it| !it.is_ascii_digit()).collect()
}

fn assert_same(
    server: &Server,
    (method, path, body): (&str, &str, Value),
    line: &str,
    expected: (Code, &str),
) {
    let (code, told, may_retry) = over_http(server, method, path, &body);
    let (first, sentence) = over_redis(&mut server.connect(), line);
    assert_eq!((code, first.as_str()), expected, "{told} / {sentence}");
    assert_eq!(without_numbers(&told), without_numbers(&sentence));
    assert_eq!(may_retry, code.retry() == Retry::Soon, "{told}");
    assert_eq!(may_retry, ["TRYAGAIN", "LOADING"].contains(&first.as_str()));
}

#[test]
fn a_server_that_is_starting_is_told_the_same() {
    let server = Server::with(Setup {
        is_open: false,
        ..Setup::default()
    });
    let asked = ("GET", "/filters/k/exists?item=a", Value::Null);
    let expected = (Code::Starting, "LOADING");
    assert_same(&server, asked, "CF.EXISTS k a", expected);
}

#[test]
fn a_bound_of_the_server_is_told_the_same() {
    let server = Server::with(Setup {
        defaults: Defaults {
            max_total_bytes: Some(1 << 20),
            ..Defaults::default()
        },
        ..Setup::default()
    });
    let body = json!({"capacity": 10_000_000, "layout": "classic"});
    let asked = ("PUT", "/filters/k", body);
    let expected = (Code::OverQuota, "OOM");
    assert_same(&server, asked, "CF.RESERVE k 10000000", expected);
}

#[test]
fn what_a_filter_does_not_take_is_told_the_same() {
    let server = Server::start();
    let (_, created) = server.http(
        Request::put("/filters/k")
            .header("host", "localhost")
            .header("content-type", "application/json")
            .body(Body::from(json!({"window_seconds": 60}).to_string()))
            .unwrap(),
    );
    assert!(created["code"].is_null(), "{created}");
    let asked = ("POST", "/filters/k/items/delete", json!({"items": ["a"]}));
    let expected = (Code::NotForThisFilter, "ERR");
    assert_same(&server, asked, "CF.DEL k a", expected);
}
