//! Clients that ask for much and read nothing of it: what waits for them is
//! bounded, and others are answered.

use crate::server::{Server, post_lines};
use serde_json::json;
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::time::{Duration, Instant};

/// Items of each question; the answer takes six bytes for each.
const ITEMS: usize = 1_000_000;
const ANSWER_MIB: u64 = 6;

/// Clients that read no more than the status.
const DEAF: usize = 40;

/// Answers may take a quarter of what bodies may.
const BUFFERED_MIB: u64 = 128;
const ANSWERS_MIB: u64 = BUFFERED_MIB / 4;

/// Asks, and reads up to the status.
fn ask_and_read_the_status(server: &Server, question: &str) -> (TcpStream, u16) {
    let mut stream = TcpStream::connect(("127.0.0.1", server.port())).unwrap();
    let body = "a\n".repeat(ITEMS);
    let head = format!(
        "POST /filters/seen/{question} HTTP/1.1\r\nhost: localhost\r\ncontent-type: text/plain\r\naccept: text/plain\r\ncontent-length: {}\r\n\r\n",
        body.len()
    );
    stream.write_all(head.as_bytes()).unwrap();
    stream.write_all(body.as_bytes()).unwrap();
    let mut status = [0; 12];
    stream.read_exact(&mut status).unwrap();
    let status = std::str::from_utf8(&status).unwrap();
    (stream, status[9..].parse().unwrap())
}

#[test]
fn answers_that_nobody_reads_are_bounded_together() {
    let data = tempfile::tempdir().unwrap();
    let server = Server::start(
        data.path(),
        &[
            &format!("--max-batch-items={ITEMS}"),
            &format!("--max-buffered-bytes={BUFFERED_MIB}MiB"),
            "--max-queued-items=2000000",
            "--write-timeout-seconds=600",
        ],
    );
    server.create_filter("seen", &json!({"capacity": 100_000}));
    let others_are_answered = || {
        let started = Instant::now();
        for path in ["items", "exists"] {
            let url = server.url(&format!("/filters/seen/{path}"));
            let answer = post_lines(server.client(), &url, &["b".to_owned()]);
            assert_eq!(answer.unwrap().len(), 1);
        }
        assert!(started.elapsed() < Duration::from_secs(5));
    };
    others_are_answered();
    // What such requests leave with the allocator is no answer.
    for _ in 0..4 {
        for question in ["exists", "items/delete"] {
            drop(ask_and_read_the_status(&server, question));
        }
    }
    let before = server.memory("VmRSS");

    // Changes of the same size among them: they take theirs beforehand.
    let mut held = Vec::new();
    let mut refused = Vec::new();
    for number in 0..DEAF {
        let question = ["exists", "items/delete"][number % 2];
        match ask_and_read_the_status(&server, question) {
            (stream, 200) => held.push(stream),
            (stream, 503) => refused.push(stream),
            (_, status) => panic!("{question}: {status}"),
        }
    }
    others_are_answered();
    let after = server.memory("VmRSS");
    println!(
        "{} of {DEAF} unread answers of {ANSWER_MIB} MiB are held, the others were refused; memory was {before} MiB and is {after} MiB",
        held.len()
    );
    assert!(
        (2..=ANSWERS_MIB / (ANSWER_MIB - 1)).contains(&(held.len() as u64)),
        "{}",
        held.len()
    );
    assert!(
        after < before + ANSWERS_MIB + 64,
        "{before} MiB became {after} MiB"
    );
    // They are told when to come again.
    let mut problem = String::new();
    let stream = refused.first_mut().unwrap();
    stream
        .set_read_timeout(Some(Duration::from_secs(20)))
        .unwrap();
    let mut piece = [0; 4096];
    while !problem.contains("--max-buffered-bytes") {
        let length = stream.read(&mut piece).unwrap();
        assert!(length > 0, "{problem}");
        problem.push_str(std::str::from_utf8(&piece[..length]).unwrap());
    }
    assert!(
        problem.to_lowercase().contains("\r\nretry-after: "),
        "{problem}"
    );

    // When they are gone, so are their answers.
    drop((held, refused));
    let started = Instant::now();
    while ask_and_read_the_status(&server, "exists").1 != 200 {
        assert!(started.elapsed() < Duration::from_secs(20));
        std::thread::sleep(Duration::from_millis(50));
    }
    server.stop();
}
