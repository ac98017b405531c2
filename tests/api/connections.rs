use crate::keys::Keyed;
use crate::server::{Server, Setup};
use cuckood::store::KeyValueStore;
use cuckood::store::rocks::{RocksOptions, RocksStore};
use serde_json::json;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::time::{sleep, timeout};

const LIVEZ: &[u8] = b"GET /livez HTTP/1.1\r\nhost: localhost\r\n\r\n";

/// Reads until the server has closed the connection.
async fn rest(stream: &mut TcpStream) -> String {
    let mut text = Vec::new();
    let reading = stream.read_to_end(&mut text);
    timeout(Duration::from_secs(10), reading)
        .await
        .expect("the server kept it open")
        .unwrap();
    String::from_utf8(text).unwrap()
}

/// Reads one small answer.
async fn answer(stream: &mut TcpStream) -> String {
    let mut bytes = vec![0; 4096];
    let length = timeout(Duration::from_secs(10), stream.read(&mut bytes))
        .await
        .unwrap()
        .unwrap();
    String::from_utf8(bytes[..length].to_vec()).unwrap()
}

fn impatient() -> Setup {
    let mut setup = Setup::default();
    setup.server.header_timeout = Duration::from_millis(200);
    setup.server.idle_timeout = Duration::from_millis(600);
    setup
}

#[tokio::test]
async fn a_head_that_never_ends_is_answered_408() {
    let server = Server::with(impatient()).await;
    let mut stream = TcpStream::connect(server.address).await.unwrap();
    stream
        .write_all(b"GET /livez HTTP/1.1\r\nhost: lo")
        .await
        .unwrap();
    let started = Instant::now();
    let text = rest(&mut stream).await;
    assert!(text.starts_with("HTTP/1.1 408 "), "{text}");
    assert!(
        text.contains("application/problem+json") && text.contains(r#""code":"head_timeout""#),
        "{text}"
    );
    assert!(started.elapsed() < Duration::from_secs(2));
}

#[tokio::test]
async fn a_head_that_drips_is_answered_408_as_well() {
    let server = Server::with(impatient()).await;
    let mut stream = TcpStream::connect(server.address).await.unwrap();
    for byte in b"GET /livez HTTP/1.1\r\nx: yyyyyyyyyyyyyyyyyyy" {
        if stream.write_all(&[*byte]).await.is_err() {
            break;
        }
        sleep(Duration::from_millis(20)).await;
    }
    let mut text = Vec::new();
    // Bytes on their way when the server closed may reset the connection.
    let _ = stream.read_to_end(&mut text).await;
    let text = String::from_utf8(text).unwrap();
    assert!(
        text.is_empty() || text.starts_with("HTTP/1.1 408 "),
        "{text}"
    );
}

#[tokio::test]
async fn an_idle_connection_outlives_the_head_timeout_and_is_closed_in_silence() {
    let server = Server::with(impatient()).await;
    let mut stream = TcpStream::connect(server.address).await.unwrap();
    for _ in 0..2 {
        stream.write_all(LIVEZ).await.unwrap();
        assert!(answer(&mut stream).await.starts_with("HTTP/1.1 200 "));
        sleep(Duration::from_millis(350)).await;
    }
    assert_eq!(rest(&mut stream).await, "");
}

#[tokio::test]
async fn a_connection_that_says_nothing_is_closed_after_the_time_for_a_head() {
    let mut setup = impatient();
    setup.server.idle_timeout = Duration::from_secs(60);
    let server = Server::with(setup).await;
    let mut silent = TcpStream::connect(server.address).await.unwrap();
    let started = Instant::now();
    assert_eq!(rest(&mut silent).await, "");
    assert!(started.elapsed() >= Duration::from_millis(150));
    // One that was asked something may be silent for longer.
    let mut stream = TcpStream::connect(server.address).await.unwrap();
    stream.write_all(LIVEZ).await.unwrap();
    assert!(answer(&mut stream).await.starts_with("HTTP/1.1 200 "));
    sleep(Duration::from_millis(500)).await;
    stream.write_all(LIVEZ).await.unwrap();
    assert!(answer(&mut stream).await.starts_with("HTTP/1.1 200 "));
}

/// A connection of a client at this address, which has asked and was answered.
async fn from(server: &Server, address: &str) -> std::io::Result<TcpStream> {
    let socket = tokio::net::TcpSocket::new_v4()?;
    socket.bind(format!("{address}:0").parse().unwrap())?;
    let mut stream = socket.connect(server.address).await?;
    stream.write_all(LIVEZ).await?;
    let mut status = [0; 12];
    let reading = stream.read_exact(&mut status);
    timeout(Duration::from_secs(10), reading).await.unwrap()?;
    match &status {
        b"HTTP/1.1 200" => Ok(stream),
        other => Err(std::io::Error::other(String::from_utf8_lossy(other))),
    }
}

#[tokio::test]
async fn an_address_that_takes_all_the_connections_it_can_leaves_some_to_others() {
    let mut setup = Setup::default();
    setup.server.max_connections = 64;
    setup.server.max_connections_per_address = 16;
    let server = Server::with(setup).await;
    // Four times what it may have, all quiet.
    let mut quiet = Vec::new();
    let mut closed = 0;
    for _ in 0..64 {
        match from(&server, "127.0.0.2").await {
            Ok(stream) => quiet.push(stream),
            Err(refused) => {
                assert!(refused.to_string().contains(" 503"), "{refused}");
                closed += 1;
            }
        }
    }
    assert_eq!((quiet.len(), closed), (16, 48));
    let refusals = &server.metrics.resource_refusals;
    let refused = refusals.with_label_values(&["connections", "share"]);
    assert_eq!(refused.get(), 48);
    let started = Instant::now();
    let others = [
        from(&server, "127.0.0.3").await,
        from(&server, "127.0.0.4").await,
    ];
    assert!(others.iter().all(Result::is_ok));
    assert!(started.elapsed() < Duration::from_secs(2));
    // A place that is given up is there for the next.
    drop(quiet.pop());
    while from(&server, "127.0.0.2").await.is_err() {
        assert!(started.elapsed() < Duration::from_secs(10));
        sleep(Duration::from_millis(20)).await;
    }
}

#[tokio::test]
async fn a_connection_too_many_is_told_so_in_the_shape_of_all_errors() {
    let mut setup = Setup::default();
    setup.server.max_connections_per_address = 1;
    let server = Server::with(setup).await;
    let held = from(&server, "127.0.0.1").await.unwrap();
    // Whoever is still sending does not read: what it sends is read for it.
    let body = "x".repeat(300 << 10);
    let post = format!(
        "POST /filters/f/items HTTP/1.1\r\nhost: localhost\r\ncontent-type: text/plain\r\n\
         content-length: {}\r\n\r\n{body}",
        body.len()
    );
    for request in [LIVEZ, post.as_bytes()] {
        let text = answer_to_head(&server, request).await;
        assert!(text.starts_with("HTTP/1.1 503 "), "{text}");
        for part in [
            "\r\nretry-after: 1\r\n",
            "\r\nconnection: close\r\n",
            "\r\nx-request-id: ",
            r#""code":"too_many_connections""#,
            "--max-connections-per-address",
        ] {
            assert!(text.contains(part), "{part} is not in {text}");
        }
    }
    drop(held);
}

#[tokio::test]
async fn what_turning_connections_away_costs_is_bounded() {
    let mut setup = Setup::default();
    setup.server.max_connections_per_address = 1;
    let server = Server::with(setup).await;
    let held = from(&server, "127.0.0.2").await.unwrap();
    // They say nothing: 64 of them are waited for, the others closed at once.
    let mut silent = Vec::new();
    for _ in 0..200 {
        let socket = tokio::net::TcpSocket::new_v4().unwrap();
        socket.bind("127.0.0.2:0".parse().unwrap()).unwrap();
        silent.push(socket.connect(server.address).await.unwrap());
    }
    let began = Instant::now();
    // Nobody else is held up.
    from(&server, "127.0.0.3").await.unwrap();
    let mut at_once = 0;
    for stream in &mut silent {
        assert_eq!(rest(stream).await, "");
        at_once += usize::from(began.elapsed() < Duration::from_millis(500));
    }
    let all = began.elapsed();
    assert!(all < Duration::from_secs(8), "{all:?}, {at_once} at once");
    let refusals = &server.metrics.resource_refusals;
    let refused = refusals.with_label_values(&["connections", "share"]);
    assert_eq!(refused.get(), 200);
    // There are places again among those that are told.
    let again = from(&server, "127.0.0.2").await.unwrap_err();
    assert!(again.to_string().contains(" 503"), "{again}");
    drop(held);
}

/// Asks for the list of filters with a key.
async fn ask_with_key(stream: &mut TcpStream, token: &str) -> String {
    let request = format!(
        "GET /filters HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer {token}\r\n\r\n"
    );
    stream.write_all(request.as_bytes()).await.unwrap();
    answer(stream).await
}

#[tokio::test]
async fn those_who_show_no_key_do_not_keep_out_those_who_do() {
    let mut setup = Setup::default();
    setup.server.max_connections = 16;
    setup.server.max_connections_per_address = 4;
    let (keyed, root) = Keyed::with(setup).await;
    let server = &keyed.server;
    let mut quiet = Vec::new();
    for address in ["127.0.0.2", "127.0.0.3", "127.0.0.4", "127.0.0.5"] {
        for _ in 0..4 {
            quiet.push(from(server, address).await.unwrap());
        }
    }
    // All places are taken.
    let given_up = &server.metrics.connections_given_up;
    assert_eq!(given_up.get(), 0);
    let started = Instant::now();
    let mut known = Vec::new();
    for count in 1..=8 {
        let address = if count > 4 { "127.0.0.7" } else { "127.0.0.6" };
        let mut stream = from(server, address).await.unwrap();
        // What `from` left of its answer.
        answer(&mut stream).await;
        let text = ask_with_key(&mut stream, root.as_str()).await;
        assert!(text.starts_with("HTTP/1.1 200 "), "{text}");
        known.push(stream);
        assert_eq!(given_up.get(), count);
    }
    // Others without a key take the places of others without a key.
    for _ in 0..3 {
        let stream = from(server, "127.0.0.8").await;
        quiet.push(stream.unwrap());
    }
    assert_eq!(given_up.get(), 11);
    for stream in &mut known {
        let text = ask_with_key(stream, root.as_str()).await;
        assert!(text.starts_with("HTTP/1.1 200 "), "{text}");
    }
    assert!(started.elapsed() < Duration::from_secs(5));
    // Whose place it was is told by the end of the connection, the oldest first.
    rest(&mut quiet[0]).await;
}

#[tokio::test]
async fn connections_over_the_limit_wait_for_a_place() {
    let mut setup = Setup::default();
    setup.server.max_connections = 1;
    let server = Server::with(setup).await;
    let mut first = TcpStream::connect(server.address).await.unwrap();
    first.write_all(LIVEZ).await.unwrap();
    assert!(answer(&mut first).await.starts_with("HTTP/1.1 200 "));
    let mut second = TcpStream::connect(server.address).await.unwrap();
    second.write_all(LIVEZ).await.unwrap();
    let early = timeout(Duration::from_millis(300), second.read(&mut [0; 16])).await;
    assert!(early.is_err(), "it was served beside the first");
    drop(first);
    assert!(answer(&mut second).await.starts_with("HTTP/1.1 200 "));
}

#[tokio::test]
async fn pipelined_requests_are_answered_in_order() {
    let server = Server::start().await;
    let mut stream = TcpStream::connect(server.address).await.unwrap();
    let mut both = LIVEZ.to_vec();
    both.extend_from_slice(b"GET /readyz HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n");
    stream.write_all(&both).await.unwrap();
    let text = rest(&mut stream).await;
    assert_eq!(text.matches("HTTP/1.1 200 OK").count(), 2, "{text}");
}

/// Sends a head and returns what is answered before the connection ends.
async fn answer_to_head(server: &Server, head: &[u8]) -> String {
    let mut stream = TcpStream::connect(server.address).await.unwrap();
    stream.write_all(head).await.unwrap();
    rest(&mut stream).await
}

#[tokio::test]
async fn a_head_that_is_too_large_is_refused_in_the_shape_of_all_errors() {
    let server = Server::start().await;
    let long = "y".repeat(70 << 10);
    let many: String = (0..101).map(|n| format!("x{n}: y\r\n")).collect();
    for head in [
        format!("GET /livez HTTP/1.1\r\nhost: localhost\r\nx: {long}\r\n\r\n"),
        format!("GET /livez HTTP/1.1\r\nhost: localhost\r\n{many}\r\n"),
        format!("GET /filters/f/exists?item={long} HTTP/1.1\r\nhost: localhost\r\n\r\n"),
        // It never ends, and much of it is on its way when it is refused.
        format!("GET /livez HTTP/1.1\r\nx: {}", long.repeat(10)),
    ] {
        let text = answer_to_head(&server, head.as_bytes()).await;
        assert!(text.starts_with("HTTP/1.1 431 "), "{text}");
        for part in [
            "\r\ncontent-type: application/problem+json\r\n",
            "\r\nx-request-id: ",
            r#""code":"head_too_large""#,
        ] {
            assert!(text.contains(part), "{part}: {text}");
        }
    }
}

#[tokio::test]
async fn what_is_no_http_is_refused_in_the_shape_of_all_errors() {
    let server = Server::start().await;
    for head in [
        &b"hello\r\n\r\n"[..],
        b"GET /livez HTTP/9.9\r\n\r\n",
        b"GET /livez HTTP/1.1\r\nhost localhost\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
        b"POST /livez HTTP/1.1\r\nhost: localhost\r\ncontent-length: -1\r\n\r\n",
    ] {
        let text = answer_to_head(&server, head).await;
        assert!(text.starts_with("HTTP/1.1 400 "), "{text}");
        assert!(text.contains(r#""code":"bad_request""#), "{text}");
    }
    // Behind an answer on the same connection, too.
    let text = answer_to_head(&server, &[LIVEZ, b"hello\r\n\r\n"].concat()).await;
    assert!(text.starts_with("HTTP/1.1 200 "), "{text}");
    assert!(
        text.ends_with("}\n") && text.contains("HTTP/1.1 400 "),
        "{text}"
    );
}

#[tokio::test]
async fn requests_under_way_are_finished_before_the_server_stops() {
    let mut server = Server::start().await;
    server.put("/filters/f", json!({})).await.ok();
    let mut busy = TcpStream::connect(server.address).await.unwrap();
    let head = "POST /filters/f/items HTTP/1.1\r\nhost: localhost\r\ncontent-type: text/plain\r\ncontent-length: 2\r\n\r\na";
    busy.write_all(head.as_bytes()).await.unwrap();
    let mut idle = TcpStream::connect(server.address).await.unwrap();
    idle.write_all(LIVEZ).await.unwrap();
    assert!(answer(&mut idle).await.starts_with("HTTP/1.1 200 "));

    server.ask_to_stop();
    assert_eq!(rest(&mut idle).await, "", "an idle connection ends");
    busy.write_all(b"\n").await.unwrap();
    let text = rest(&mut busy).await;
    assert!(
        text.starts_with("HTTP/1.1 200 ") && text.contains("added"),
        "{text}"
    );
    let address = server.address;
    assert_eq!(server.stopped().await, 0);
    assert!(TcpStream::connect(address).await.is_err());
}

#[tokio::test]
async fn a_head_that_has_begun_is_answered_though_the_server_stops() {
    let mut server = Server::start().await;
    let (begin, end) = LIVEZ.split_at(LIVEZ.len() - 3);
    let mut fresh = TcpStream::connect(server.address).await.unwrap();
    let mut asked_before = TcpStream::connect(server.address).await.unwrap();
    asked_before.write_all(LIVEZ).await.unwrap();
    let first = answer(&mut asked_before).await;
    assert!(first.starts_with("HTTP/1.1 200 "), "{first}");
    for stream in [&mut fresh, &mut asked_before] {
        stream.write_all(begin).await.unwrap();
    }
    // Until it has arrived, nothing is asked.
    sleep(Duration::from_millis(200)).await;
    server.ask_to_stop();
    sleep(Duration::from_millis(200)).await;
    for stream in [&mut fresh, &mut asked_before] {
        stream.write_all(end).await.unwrap();
        let text = rest(stream).await;
        assert!(text.starts_with("HTTP/1.1 200 "), "{text}");
    }
    assert_eq!(server.stopped().await, 0);
}

#[tokio::test]
async fn requests_that_do_not_end_are_cut_off_when_their_time_is_up() {
    let mut setup = Setup::default();
    setup.server.drain_timeout = Duration::from_millis(300);
    let server = Server::with(setup).await;
    let mut busy = TcpStream::connect(server.address).await.unwrap();
    let head = "POST /filters/f/items HTTP/1.1\r\nhost: localhost\r\ncontent-type: text/plain\r\ncontent-length: 2\r\n\r\na";
    busy.write_all(head.as_bytes()).await.unwrap();
    while server.metrics.http_in_flight.get() == 0 {
        sleep(Duration::from_millis(5)).await;
    }
    assert_eq!(server.stop().await, 1);
}

#[tokio::test]
async fn what_was_acknowledged_is_there_after_a_restart() {
    let directory = tempfile::tempdir().unwrap();
    let open = || -> Arc<dyn KeyValueStore> {
        Arc::new(RocksStore::open(directory.path(), RocksOptions::default()).unwrap())
    };
    let server = Server::with(Setup {
        store: open(),
        ..Setup::default()
    })
    .await;
    server
        .post(
            "/filters/f/items",
            json!({"items": ["a", "b"], "create": {}}),
        )
        .await
        .ok();
    assert_eq!(server.stop().await, 0);

    let server = Server::with(Setup {
        store: open(),
        ..Setup::default()
    })
    .await;
    let found = server
        .post("/filters/f/exists", json!({"items": ["a", "b", "c"]}))
        .await
        .ok();
    assert_eq!(found, json!({"results": [true, true, false]}));
    assert_eq!(server.get("/filters/f").await.ok()["items"], 2);
    server.stop().await;
}

#[tokio::test]
async fn a_client_that_reads_no_answer_loses_its_connection_whatever_else_it_sends() {
    let mut setup = impatient();
    setup.server.write_timeout = Duration::from_millis(300);
    let server = Server::with(setup).await;
    server.put("/filters/f", json!({})).await;
    let socket = tokio::net::TcpSocket::new_v4().unwrap();
    socket.set_recv_buffer_size(4096).unwrap();
    let mut stream = socket.connect(server.address).await.unwrap();
    // Answers of many megabytes, more than the sockets between hold.
    let lines = "x\n".repeat(250_000);
    let request = format!(
        "POST /filters/f/exists HTTP/1.1\r\nhost: localhost\r\ncontent-type: text/plain\r\n\
         accept: text/plain\r\ncontent-length: {}\r\n\r\n{lines}",
        lines.len()
    );
    let sending = async {
        for _ in 0..8 {
            stream.write_all(request.as_bytes()).await?;
            sleep(Duration::from_millis(100)).await;
        }
        // The first byte of one more head, while answers wait to be read.
        stream.write_all(b"G").await
    };
    // The server may have hung up before everything was sent.
    let _ = timeout(Duration::from_secs(3), sending).await;
    let started = Instant::now();
    while server.metrics.http_connections.get() > 0 {
        assert!(
            started.elapsed() < Duration::from_secs(5),
            "the connection is still there"
        );
        sleep(Duration::from_millis(50)).await;
    }
    drop(stream);
}
