//! Many clients that do nothing, or go away in the middle: the others do not
//! notice, and memory stays as it is.
//!
//! `CUCKOOD_TEST_SCALE` multiplies their number (default 1). Times are compared
//! with a quiet phase right before; since a busy machine has moods of its own,
//! the best of several comparisons counts.

use crate::server::{Server, post_lines};
use reqwest::blocking::Client;
use serde_json::json;
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::thread;
use std::time::{Duration, Instant};

/// Comparisons that are made before none is good enough.
const ATTEMPTS: usize = 6;

/// How much slower others may be, and below which time nobody cares.
const FACTOR: u32 = 3;
const FLOOR: Duration = Duration::from_millis(5);

pub(crate) fn scale() -> usize {
    std::env::var("CUCKOOD_TEST_SCALE").map_or(1, |text| text.parse().unwrap())
}

/// The slowest of a hundred requests, while `clients` of them ask and add.
fn p99(server: &Server, clients: usize, time: Duration) -> (Duration, usize) {
    let url = server.url("/filters/seen");
    let client = server.client();
    let ends = Instant::now() + time;
    let mut times = thread::scope(|scope| {
        let threads: Vec<_> = (0..clients)
            .map(|_| {
                let url = &url;
                scope.spawn(move || {
                    let mut times = Vec::new();
                    while Instant::now() < ends {
                        let started = Instant::now();
                        let items = [format!("item {}", times.len())];
                        let path = ["exists", "items"][times.len() % 2];
                        post_lines(client, &format!("{url}/{path}"), &items).unwrap();
                        times.push(started.elapsed());
                    }
                    times
                })
            })
            .collect();
        let times = threads.into_iter().map(|thread| thread.join().unwrap());
        times.collect::<Vec<_>>().concat()
    });
    times.sort();
    (times[times.len() * 99 / 100], times.len())
}

/// Compares until once the loud phase is as good as the quiet one.
fn others_do_not_notice(
    quiet: impl Fn() -> (Duration, usize),
    loud: impl Fn() -> (Duration, usize),
) {
    let mut seen = Vec::new();
    for _ in 0..ATTEMPTS {
        let (quiet, asked) = quiet();
        let (loud, asked_then) = loud();
        println!(
            "p99 {quiet:?} of {asked} requests while quiet, {loud:?} of {asked_then} beside them"
        );
        if loud <= FACTOR * quiet.max(FLOOR) {
            return;
        }
        seen.push((quiet, loud));
    }
    panic!("others are slowed down by more than {FACTOR} times: {seen:?}");
}

#[test]
fn idle_connections_up_to_the_bound_cost_little_and_slow_nobody_down() {
    const PHASE: Duration = Duration::from_millis(1000);
    const OTHERS: usize = 20;
    let idle = 600 * scale();
    let data = tempfile::tempdir().unwrap();
    let bound = format!("--max-connections={}", idle + OTHERS);
    let server = Server::start(data.path(), &[&bound, "--idle-timeout-seconds=600"]);
    server.create_filter("seen", &json!({"capacity": 100_000}));
    p99(&server, 2, PHASE);
    let memory = server.memory("VmRSS");
    let connect = |n: usize| {
        let mut stream = TcpStream::connect(("127.0.0.1", server.port())).unwrap();
        // Half of them have asked something before.
        if n.is_multiple_of(2) {
            stream
                .write_all(b"GET /livez HTTP/1.1\r\nhost: localhost\r\n\r\n")
                .unwrap();
            assert!(stream.read(&mut [0; 512]).unwrap() > 0);
        }
        stream
    };
    let held = || {
        let held: Vec<TcpStream> = (0..idle).map(connect).collect();
        while server.metric("cuckood_http_connections") < idle as f64 {
            thread::sleep(Duration::from_millis(20));
        }
        held
    };
    others_do_not_notice(
        || p99(&server, 2, PHASE),
        || {
            let held = held();
            let measured = p99(&server, 2, PHASE);
            drop(held);
            measured
        },
    );
    let mut held = held();
    let more = server.memory("VmRSS").saturating_sub(memory);
    println!("{idle} idle connections take {more} MiB");
    assert!(more as usize * 1024 < 64 * idle.max(1000), "{more} MiB");
    // Over the bound one waits, and is served when there is a place.
    let filling: Vec<TcpStream> = (0..OTHERS)
        .map(|_| TcpStream::connect(("127.0.0.1", server.port())).unwrap())
        .collect();
    let mut waiting = TcpStream::connect(("127.0.0.1", server.port())).unwrap();
    waiting
        .write_all(b"GET /livez HTTP/1.1\r\nhost: localhost\r\n\r\n")
        .unwrap();
    waiting
        .set_read_timeout(Some(Duration::from_millis(300)))
        .unwrap();
    assert!(
        waiting.read(&mut [0; 512]).is_err(),
        "it was served over the bound"
    );
    held.truncate(idle / 2);
    drop(filling);
    waiting
        .set_read_timeout(Some(Duration::from_secs(20)))
        .unwrap();
    assert!(waiting.read(&mut [0; 512]).unwrap() > 0);
    drop(held);
    server.stop();
}

/// A client with a connection of its own for each request.
#[test]
fn a_client_that_goes_away_in_the_middle_leaves_nothing_behind() {
    let data = tempfile::tempdir().unwrap();
    let server = Server::start(data.path(), &[]);
    server.create_filter("seen", &json!({"capacity": 1000}));
    let client = Client::builder().no_proxy().build().unwrap();
    for part in 1..200 {
        let request = "POST /filters/seen/items HTTP/1.1\r\nhost: localhost\r\ncontent-type: text/plain\r\ncontent-length: 100\r\n\r\nabc";
        let mut stream = TcpStream::connect(("127.0.0.1", server.port())).unwrap();
        stream
            .write_all(&request.as_bytes()[..part.min(request.len())])
            .unwrap();
    }
    let started = Instant::now();
    while server.metric("cuckood_http_connections") > 2.0 {
        assert!(
            started.elapsed() < Duration::from_secs(20),
            "connections are still open"
        );
        thread::sleep(Duration::from_millis(20));
    }
    assert_eq!(server.items("seen"), 0);
    let answer = client.get(server.url("/readyz")).send().unwrap();
    assert_eq!(answer.status(), 200);
    server.stop();
}
