use crate::server::{Answer, Server, Setup, expect_detail};
use flate2::Compression;
use flate2::write::GzEncoder;
use reqwest::Method;
use serde_json::json;
use std::io::{Read as _, Write as _};
use std::time::Duration;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

async fn with_filter(setup: Setup) -> Server {
    let server = Server::with(setup).await;
    server.put("/filters/f", json!({})).await.ok();
    server
}

async fn encoded(server: &Server, encoding: &str, body: Vec<u8>) -> Answer {
    let request = server
        .request(Method::POST, "/filters/f/exists")
        .header("content-type", "text/plain")
        .header("content-encoding", encoding);
    Answer::of(request.body(body)).await
}

#[tokio::test]
async fn what_is_not_json_is_malformed_and_what_is_another_type_is_refused() {
    let server = with_filter(Setup::default()).await;
    for body in [
        "",
        "{",
        r#"{"items": ["a"}"#,
        "nonsense",
        r#"{"items": []} {}"#,
        "{\"items\": [\"\u{1}\"]}",
    ] {
        let answer = server
            .send("/filters/f/items", "application/json", body)
            .await;
        answer.problem(400, "malformed_json");
    }
    let invalid = server
        .send(
            "/filters/f/items",
            "application/json",
            b"{\"items\": [\"\xff\"]}".to_vec(),
        )
        .await;
    invalid.problem(400, "malformed_json");
    for (body, given) in [
        ("[]", "an array"),
        ("7", "a number"),
        (" null", "null"),
        ("true", "a boolean"),
        (r#""text""#, "a string"),
    ] {
        for path in ["/filters/f/items", "/preview"] {
            let answer = server.send(path, "application/json", body).await;
            assert_eq!(answer.refused(), [""], "{path} {body}");
            let problem = answer.problem(422, "invalid_fields");
            assert_eq!(problem["errors"][0]["given"], given, "{path} {body}");
        }
    }
    assert_eq!(server.get("/filters/f").await.ok()["items"], 0);
}

#[tokio::test]
async fn the_media_type_must_be_one_of_ours() {
    let server = with_filter(Setup::default()).await;
    for media_type in [
        "text/html",
        "application/x-www-form-urlencoded",
        "application/jsonp",
        "",
    ] {
        let answer = server.send("/filters/f/items", media_type, "{}").await;
        let problem = answer.problem(415, "unsupported_media_type");
        let detail = problem["detail"].as_str().unwrap();
        let with_curl = "with curl: -H 'content-type: application/json'";
        assert!(detail.ends_with(with_curl), "{detail}");
    }
    for (path, media_type) in [
        ("items", "text/plain; charset=iso-8859-1"),
        ("items", "application/json;charset=\"UTF-16\""),
        ("import?import_id=i", "application/x-ndjson; charset=latin1"),
    ] {
        let path = format!("/filters/f/{path}");
        let answer = server.send(&path, media_type, "").await;
        let problem = answer.problem(415, "unsupported_media_type");
        let detail = problem["detail"].as_str().unwrap();
        assert!(detail.contains("(texts are UTF-8)"), "{detail}");
    }
    for media_type in [
        "text/plain; charset=utf-8",
        "Text/Plain;format=flowed; Charset=\"UTF-8\"",
        "text/plain; charset=us-ascii",
    ] {
        let answer = server.send("/filters/f/items", media_type, "a\n").await;
        answer.ok();
    }
    let none = server.request(Method::POST, "/filters/f/items").body("{}");
    Answer::of(none)
        .await
        .problem(415, "unsupported_media_type");
    let put = server.request(Method::PUT, "/filters/g").body("{}");
    Answer::of(put).await.problem(415, "unsupported_media_type");
    let loud = server
        .send(
            "/filters/f/exists",
            "Application/JSON; charset=utf-8",
            r#"{"items": []}"#,
        )
        .await;
    loud.ok();
}

#[tokio::test]
async fn a_gzipped_request_is_read_and_another_encoding_refused() {
    let server = with_filter(Setup::default()).await;
    let answer = encoded(&server, "gzip", gzip(b"a\nb\n")).await;
    assert_eq!(answer.ok(), json!({"results": [false, false]}));
    encoded(&server, "br", b"a".to_vec())
        .await
        .problem(415, "unsupported_content_encoding");
    encoded(&server, "gzip", b"no gzip at all".to_vec())
        .await
        .problem(400, "unreadable_body");
    let mut cut = gzip(b"a\nb\n");
    cut.truncate(cut.len() / 2);
    encoded(&server, "gzip", cut)
        .await
        .problem(400, "unreadable_body");
}

#[tokio::test]
async fn a_gzip_bomb_is_too_large() {
    let mut setup = Setup::default();
    setup.limits.max_body_bytes = 1 << 20;
    let server = with_filter(setup).await;
    let bomb = gzip(&vec![b'x'; 100 << 20]);
    assert!(bomb.len() < 1 << 20);
    encoded(&server, "gzip", bomb)
        .await
        .problem(413, "body_too_large");
    let whole = gzip(&[b'\n'].repeat(1 << 10));
    assert_eq!(encoded(&server, "gzip", whole).await.status, 200);
}

#[tokio::test]
async fn a_body_over_the_limit_is_too_large_whether_announced_or_not() {
    let mut setup = Setup::default();
    setup.limits.max_body_bytes = 1 << 20;
    let server = with_filter(setup).await;
    let body = vec![b'x'; (1 << 20) + 1];
    let announced = server
        .send("/filters/f/exists", "text/plain", body.clone())
        .await;
    let problem = announced.problem(413, "body_too_large");
    expect_detail(&problem, "--max-body-bytes");
    let chunks: Vec<Result<Vec<u8>, std::io::Error>> =
        body.chunks(1 << 16).map(|c| Ok(c.to_vec())).collect();
    let stream = reqwest::Body::wrap_stream(tokio_stream::iter(chunks));
    server
        .send("/filters/f/exists", "text/plain", stream)
        .await
        .problem(413, "body_too_large");
}

#[tokio::test]
async fn a_large_answer_is_gzipped_for_those_who_take_it() {
    let server = with_filter(Setup::default()).await;
    let body = "x\n".repeat(5000);
    let request = || {
        server
            .request(Method::POST, "/filters/f/count")
            .header("content-type", "text/plain")
            .body(body.clone())
    };
    let plain = Answer::of(request()).await;
    assert_eq!(plain.header("content-encoding"), "");
    let small = Answer::of(request().header("accept-encoding", "gzip")).await;
    assert_eq!(small.header("content-encoding"), "gzip");
    let mut text = String::new();
    flate2::read::GzDecoder::new(small.bytes.as_slice())
        .read_to_string(&mut text)
        .unwrap();
    assert_eq!(text, plain.text());
}

#[tokio::test]
async fn a_body_that_stops_coming_times_out() {
    let mut setup = Setup::default();
    setup.limits.body_idle_timeout = Duration::from_millis(200);
    let server = with_filter(setup).await;
    let mut stream = TcpStream::connect(server.address).await.unwrap();
    let head = "POST /filters/f/exists HTTP/1.1\r\nhost: localhost\r\ncontent-type: text/plain\r\ncontent-length: 10\r\n\r\nabc";
    stream.write_all(head.as_bytes()).await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    assert!(answer.starts_with("HTTP/1.1 408 "), "{answer}");
    assert!(answer.contains(r#""code":"body_timeout""#), "{answer}");
}

#[tokio::test]
async fn a_body_that_drips_times_out_as_well() {
    let mut setup = Setup::default();
    setup.limits.body_timeout = Duration::from_millis(400);
    let server = with_filter(setup).await;
    let mut stream = TcpStream::connect(server.address).await.unwrap();
    let head = "POST /filters/f/exists HTTP/1.1\r\nhost: localhost\r\ncontent-type: text/plain\r\ncontent-length: 1000\r\n\r\n";
    stream.write_all(head.as_bytes()).await.unwrap();
    let (mut read, mut write) = stream.split();
    let mut answer = String::new();
    tokio::select! {
        outcome = read.read_to_string(&mut answer) => { outcome.unwrap(); }
        () = async { loop {
            tokio::time::sleep(Duration::from_millis(50)).await;
            if write.write_all(b"x").await.is_err() { std::future::pending::<()>().await; }
        } } => {}
    }
    assert!(answer.contains(r#""code":"body_timeout""#), "{answer}");
}

#[tokio::test]
async fn bodies_in_memory_are_bounded_for_the_whole_server() {
    let mut setup = Setup::default();
    setup.limits.max_body_bytes = 64 << 10;
    setup.limits.max_buffered_bytes = 64 << 10;
    let server = with_filter(setup).await;
    let mut held = TcpStream::connect(server.address).await.unwrap();
    let head = format!(
        "POST /filters/f/exists HTTP/1.1\r\nhost: localhost\r\ncontent-type: text/plain\r\ncontent-length: 60000\r\n\r\n{}",
        "x".repeat(50_000)
    );
    held.write_all(head.as_bytes()).await.unwrap();
    while server.metrics.http_request_body_bytes.get() < 50_000 {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    let other = server
        .send("/filters/f/exists", "text/plain", "y".repeat(40_000))
        .await;
    other.problem(503, "overloaded");
    server
        .send("/filters/f/exists", "text/plain", "small")
        .await
        .ok();
    drop(held);
    loop {
        let again = server
            .send("/filters/f/exists", "text/plain", "y".repeat(40_000))
            .await;
        if again.status == 200 {
            break;
        }
        again.problem(503, "overloaded");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

#[tokio::test]
async fn imports_that_stall_leave_room_for_batches() {
    let mut setup = Setup::default();
    setup.limits.max_buffered_bytes = 16 << 20;
    let server = with_filter(setup).await;
    let mut stalled = Vec::new();
    // More than there are places: the third below takes one now and then.
    for n in 0..6 {
        let head = format!(
            "POST /filters/f/import?import_id=slow-{n} HTTP/1.1\r\nhost: localhost\r\ncontent-type: text/plain\r\ncontent-length: 100\r\n\r\nabc"
        );
        let mut stream = TcpStream::connect(server.address).await.unwrap();
        stream.write_all(head.as_bytes()).await.unwrap();
        stalled.push(stream);
    }
    loop {
        let third = server
            .send("/filters/f/import?import_id=third", "text/plain", "x")
            .await;
        if third.status == 503 {
            third.problem(503, "overloaded");
            break;
        }
        third.ok();
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    let lines = format!("{}\n", "y".repeat(999)).repeat(6_000);
    server
        .send("/filters/f/exists", "text/plain", lines)
        .await
        .ok();
    drop(stalled);
}

#[tokio::test]
async fn dumps_that_stall_on_their_way_in_leave_those_alone_that_go_out() {
    let server = with_filter(Setup::default()).await;
    let mut stalled = Vec::new();
    // More than there are places: the one below takes one now and then.
    for n in 0..24 {
        let head = format!(
            "PUT /filters/new-{n}/dump HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/octet-stream\r\ncontent-length: 100\r\n\r\nabc"
        );
        let mut stream = TcpStream::connect(server.address).await.unwrap();
        stream.write_all(head.as_bytes()).await.unwrap();
        stalled.push(stream);
    }
    loop {
        let request = server
            .request(Method::PUT, "/filters/one-more/dump")
            .header("content-type", "application/octet-stream")
            .body("abc");
        let answer = Answer::of(request).await;
        if answer.status == 503 {
            answer.problem(503, "overloaded");
            break;
        }
        answer.problem(422, "corrupt_dump");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    assert_eq!(server.get("/filters/f/dump").await.status, 200);
    drop(stalled);
}
