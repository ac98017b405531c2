//! Refusals before a body was read: one small enough is thrown away, so that the
//! connection goes on; after a large one it ends; and a client that waits to be
//! told to send (`Expect: 100-continue`) is not told to.

use crate::server::{Server, Setup};
use cuckood::access::keys::ApiKeys;
use cuckood::access::{Scope, file};
use serde_json::json;
use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::{Duration, Instant, UNIX_EPOCH};
use tempfile::TempDir;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::time::{sleep, timeout};

/// Every route that reads a body, and a media type that it does not take.
const ROUTES: [(&str, &str); 10] = [
    ("POST /filters/f/items", "text/html"),
    ("POST /filters/f/items/delete", "text/html"),
    ("POST /filters/f/exists", "text/html"),
    ("POST /filters/f/count", "text/html"),
    ("POST /filters/f/import?import_id=i", "text/html"),
    ("PUT /filters/f/dump?replace=true", "text/html"),
    ("PUT /filters/g", "text/html"),
    ("PATCH /filters/f", "text/html"),
    ("POST /preview", "text/html"),
    ("POST /lookup", "text/plain"),
];

/// More than is read ahead of a request.
const SMALL: usize = 300 << 10;

/// More than is read of a body that is refused.
const LARGE: usize = 1 << 30;

/// A request's head, and the status that it is to be refused with.
struct Refused {
    head: String,
    status: u16,
}

impl Refused {
    fn new(status: u16, route: &str, headers: &str, length: usize) -> Refused {
        let head =
            format!("{route} HTTP/1.1\r\nhost: localhost\r\ncontent-length: {length}\r\n{headers}");
        Refused { head, status }
    }

    /// Sends the head, with more headers.
    async fn send(&self, server: &Server, headers: &str) -> TcpStream {
        let mut stream = TcpStream::connect(server.address).await.unwrap();
        let head = format!("{}{headers}\r\n", self.head);
        stream.write_all(head.as_bytes()).await.unwrap();
        stream
    }

    fn check(&self, answer: &str) {
        let status = format!("HTTP/1.1 {} ", self.status);
        assert!(answer.starts_with(&status), "{}: {answer}", self.head);
    }

    fn check_end(&self, answer: &str) {
        self.check(answer);
        let ends = answer.to_lowercase().contains("\r\nconnection: close\r\n");
        assert!(ends, "{}: {answer}", self.head);
    }
}

/// One answer.
async fn answer(stream: &mut TcpStream) -> String {
    let mut text = String::new();
    loop {
        if let Some((head, body)) = text.split_once("\r\n\r\n") {
            let length = head.split_once("\r\ncontent-length: ").unwrap().1;
            let length = length.split("\r\n").next().unwrap();
            if body.len() == length.parse::<usize>().unwrap() {
                return text;
            }
        }
        let mut bytes = vec![0; 4096];
        let reading = timeout(Duration::from_secs(10), stream.read(&mut bytes));
        let length = reading.await.expect("nothing came").unwrap();
        assert!(length > 0, "the connection ended: {text}");
        text.push_str(std::str::from_utf8(&bytes[..length]).unwrap());
    }
}

/// All that comes until the connection ends.
async fn rest(stream: &mut TcpStream) -> String {
    let mut text = Vec::new();
    let reading = timeout(Duration::from_secs(10), stream.read_to_end(&mut text));
    reading.await.expect("the connection did not end").unwrap();
    String::from_utf8(text).unwrap()
}

/// A body that comes after the head is thrown away, and another request is
/// answered.
async fn goes_on_after_a_small_body(server: &Server, refused: &Refused) {
    let mut stream = refused.send(server, "").await;
    sleep(Duration::from_millis(20)).await;
    let body = b"x\n".repeat(SMALL / 2);
    stream.write_all(&body).await.unwrap();
    let text = answer(&mut stream).await;
    refused.check(&text);
    assert!(!text.to_lowercase().contains("connection: close"), "{text}");
    let next = "GET /livez HTTP/1.1\r\nhost: localhost\r\n\r\n";
    stream.write_all(next.as_bytes()).await.unwrap();
    let next = answer(&mut stream).await;
    assert!(
        next.starts_with("HTTP/1.1 200 "),
        "{}: {next}",
        refused.head
    );
}

/// Who waits to be told to send is refused at once, and told nothing else.
async fn ends_where_the_client_waits(server: &Server, refused: &Refused) {
    let started = Instant::now();
    let mut stream = refused.send(server, "expect: 100-continue\r\n").await;
    refused.check_end(&rest(&mut stream).await);
    assert!(
        started.elapsed() < Duration::from_millis(1500),
        "{}",
        refused.head
    );
}

/// More than is thrown away, or what never comes, ends the connection.
async fn ends_after_a_large_body(server: &Server, refused: &Refused) {
    let mut stream = refused.send(server, "").await;
    refused.check_end(&rest(&mut stream).await);
}

/// Small bodies of all of these, with and without waiting.
async fn each_is_treated_alike(server: &Server, refused: &[Refused]) {
    for refused in refused {
        goes_on_after_a_small_body(server, refused).await;
        ends_where_the_client_waits(server, refused).await;
    }
}

async fn with_filter(setup: Setup) -> Server {
    let server = Server::with(setup).await;
    server.put("/filters/f", json!({})).await.ok();
    server
}

#[tokio::test]
async fn an_unread_body_of_another_media_type_is_treated_as_all_are() {
    let server = with_filter(Setup::default()).await;
    let refused = ROUTES.map(|(route, media_type)| {
        let header = format!("content-type: {media_type}\r\n");
        Refused::new(415, route, &header, SMALL)
    });
    each_is_treated_alike(&server, &refused).await;
}

#[tokio::test]
async fn an_unread_body_of_an_encoding_that_is_not_taken_is_treated_as_all_are() {
    let server = with_filter(Setup::default()).await;
    let refused = ROUTES.map(|(route, _)| {
        let header = "content-type: application/json\r\ncontent-encoding: br\r\n";
        Refused::new(415, route, header, SMALL)
    });
    each_is_treated_alike(&server, &refused).await;
}

#[tokio::test]
async fn an_unread_body_that_is_too_large_is_treated_as_all_are() {
    let mut setup = Setup::default();
    setup.limits.max_body_bytes = SMALL - 1;
    let server = with_filter(setup).await;
    let streamed = ["import", "dump"];
    let buffered = ROUTES
        .iter()
        .filter(|(route, _)| !streamed.iter().any(|name| route.contains(name)));
    let refused: Vec<Refused> = buffered
        .map(|(route, _)| Refused::new(413, route, "content-type: application/json\r\n", SMALL))
        .collect();
    assert_eq!(refused.len(), 8);
    each_is_treated_alike(&server, &refused).await;
}

#[tokio::test]
async fn a_body_without_a_route_or_a_filter_is_treated_as_all_are() {
    let server = with_filter(Setup::default()).await;
    let header = "content-type: text/plain\r\n";
    let refused = [
        Refused::new(404, "POST /nothing", header, SMALL),
        Refused::new(405, "PATCH /filters/f/items", header, SMALL),
        Refused::new(404, "POST /filters/none/import?import_id=i", header, SMALL),
        Refused::new(422, "POST /filters/%20/items", header, SMALL),
        Refused::new(422, "POST /filters/f/items?what=1", header, SMALL),
        Refused::new(404, "DELETE /filters/none", header, SMALL),
        Refused::new(
            403,
            "POST /filters/f/items",
            "origin: https://example.org\r\n",
            SMALL,
        ),
    ];
    each_is_treated_alike(&server, &refused).await;
    // What is known of the filter alone is known after the body was read.
    let read = Refused::new(404, "POST /filters/none/exists", header, SMALL);
    goes_on_after_a_small_body(&server, &read).await;
}

#[tokio::test]
async fn a_body_before_the_server_is_ready_is_treated_as_all_are() {
    let server = Server::not_open(Setup::default()).await;
    let refused = ROUTES.map(|(route, _)| {
        let header = match route.contains("import") {
            true => "content-type: text/plain\r\n",
            false => "content-type: application/json\r\n",
        };
        Refused::new(503, route, header, SMALL)
    });
    // A preview and the fields of a filter need no engine until they are read.
    let refused: Vec<Refused> = refused
        .into_iter()
        .filter(|refused| {
            !["/preview", "PUT /filters/g", "PATCH"]
                .iter()
                .any(|route| refused.head.contains(route))
        })
        .collect();
    each_is_treated_alike(&server, &refused).await;
}

/// A keys file with one key for questions about other filters, which may ask as
/// often as `per_second` says.
fn keys(per_second: Option<NonZeroU32>) -> (TempDir, Arc<ApiKeys>, String) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("keys.json");
    let name = "asks".parse().unwrap();
    let token = file::add(&path, file::NewKey::new(name, Scope::Read), UNIX_EPOCH).unwrap();
    let keys = ApiKeys::open(&path, per_second).unwrap();
    let header = format!("authorization: Bearer {}\r\n", token.as_str());
    (folder, Arc::new(keys), header)
}

#[tokio::test]
async fn a_body_of_a_caller_that_is_not_let_in_is_treated_as_all_are() {
    let (_folder, keys, header) = keys(None);
    let server = Server::with(Setup {
        keys: Some(keys),
        ..Setup::default()
    })
    .await;
    let mut refused = Vec::from(ROUTES.map(|(route, _)| Refused::new(401, route, "", SMALL)));
    for route in [
        "POST /filters/f/items",
        "PUT /filters/g",
        "PATCH /filters/f",
    ] {
        refused.push(Refused::new(403, route, &header, SMALL));
    }
    each_is_treated_alike(&server, &refused).await;
}

#[tokio::test]
async fn a_body_of_a_caller_that_asks_too_often_is_treated_as_all_are() {
    let (_folder, keys, header) = keys(NonZeroU32::new(1));
    let server = Server::with(Setup {
        keys: Some(keys),
        ..Setup::default()
    })
    .await;
    let refused = Refused::new(429, "POST /filters/f/exists", &header, SMALL);
    let ask = async || {
        let request = server.request(reqwest::Method::GET, "/filters");
        let request = request.header("authorization", header[15..].trim());
        assert!([200, 429].contains(&request.send().await.unwrap().status().as_u16()));
    };
    // Its one request a second is used up before each.
    ask().await;
    goes_on_after_a_small_body(&server, &refused).await;
    ask().await;
    ends_where_the_client_waits(&server, &refused).await;
}

#[tokio::test]
async fn a_body_that_finds_no_place_is_treated_as_all_are() {
    let mut setup = Setup::default();
    setup.limits.max_in_flight = 1;
    let server = with_filter(setup).await;
    let mut busy = TcpStream::connect(server.address).await.unwrap();
    let head = "POST /filters/f/items HTTP/1.1\r\nhost: localhost\r\ncontent-type: text/plain\r\ncontent-length: 9\r\n\r\na";
    busy.write_all(head.as_bytes()).await.unwrap();
    while server.metrics.http_in_flight.get() < 1 {
        sleep(Duration::from_millis(5)).await;
    }
    let refused = ROUTES.map(|(route, _)| Refused::new(503, route, "", SMALL));
    each_is_treated_alike(&server, &refused).await;
}

#[tokio::test]
async fn a_large_body_that_is_refused_ends_the_connection() {
    let server = with_filter(Setup::default()).await;
    let refused = [
        Refused::new(
            415,
            "POST /filters/f/items",
            "content-type: text/html\r\n",
            LARGE,
        ),
        Refused::new(
            413,
            "POST /filters/f/items",
            "content-type: text/plain\r\n",
            LARGE,
        ),
        Refused::new(404, "POST /nothing", "", LARGE),
        Refused::new(
            415,
            "PUT /filters/f/dump",
            "content-type: text/html\r\n",
            LARGE,
        ),
    ];
    let [one, two, three, four] = &refused;
    tokio::join!(
        ends_after_a_large_body(&server, one),
        ends_after_a_large_body(&server, two),
        ends_after_a_large_body(&server, three),
        ends_after_a_large_body(&server, four),
    );
}

#[tokio::test]
async fn who_is_let_in_is_told_to_send() {
    let server = with_filter(Setup::default()).await;
    let mut stream = TcpStream::connect(server.address).await.unwrap();
    let head = "POST /filters/f/items HTTP/1.1\r\nhost: localhost\r\nexpect: 100-continue\r\ncontent-type: text/plain\r\ncontent-length: 2\r\n\r\n";
    stream.write_all(head.as_bytes()).await.unwrap();
    let mut told = [0; 25];
    stream.read_exact(&mut told).await.unwrap();
    assert_eq!(&told, b"HTTP/1.1 100 Continue\r\n\r\n");
    stream.write_all(b"a\n").await.unwrap();
    let text = answer(&mut stream).await;
    assert!(text.starts_with("HTTP/1.1 200 "), "{text}");
}
