//! Clients that are slow on purpose, and many that do nothing: the others do
//! not notice, memory stays as it is, and a stop stops.
//!
//! `CUCKOOD_TEST_SCALE` multiplies their number (default 1). Times are compared
//! with a quiet phase right before. On a machine that does nothing else
//! (`CUCKOOD_TEST_QUIET`) each of several comparisons must hold, and less than
//! [`QUIET_FLOOR`] is not compared. On any other one of them must, and less than
//! [`FLOOR`] is not compared: what slow clients hold up is held up each time.

use crate::besieging::Siege;
use crate::server::{Sent as _, Server, add_key, insist, post_lines};
use reqwest::blocking::Client;
use serde_json::json;
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// Comparisons that are made, at the most.
const TRIES: usize = 3;

/// How much slower others may be, and below which time nobody cares.
const FACTOR: u32 = 3;
const FLOOR: Duration = Duration::from_millis(20);
const QUIET_FLOOR: Duration = Duration::from_millis(1);

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
                        let item = format!("item {}", times.len());
                        let path = ["exists", "items"][times.len() % 2];
                        insist(client, &format!("{url}/{path}"), &item);
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

/// Compares a quiet phase and a loud one, until it has been seen that they are alike.
fn others_do_not_notice(
    quiet: impl Fn() -> (Duration, usize),
    loud: impl Fn() -> (Duration, usize),
) {
    let is_quiet = std::env::var_os("CUCKOOD_TEST_QUIET").is_some();
    let floor = if is_quiet { QUIET_FLOOR } else { FLOOR };
    for tries in 1..=TRIES {
        let (quiet, asked) = quiet();
        let (loud, asked_then) = loud();
        println!(
            "p99 {quiet:?} of {asked} requests while quiet, {loud:?} of {asked_then} beside them"
        );
        let are_alike = loud <= FACTOR * quiet.max(floor);
        let must_be = is_quiet || tries == TRIES;
        assert!(are_alike || !must_be, "{quiet:?} became {loud:?}");
        if are_alike && !is_quiet {
            return;
        }
    }
}

#[test]
fn slow_clients_slow_down_nobody_else_and_do_not_hold_up_a_stop() {
    const PHASE: Duration = Duration::from_millis(1500);
    const DRAIN: u64 = 5;
    /// Who reads nothing holds up what waits for it for 30 s, the others for longer.
    const HELD_UP: Duration = Duration::from_secs(20);
    let (data, keys) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let keys = keys.path().join("keys.json");
    let ours = add_key(&keys, "ours", &["--scope=admin"]);
    let slow = add_key(&keys, "slow", &["--scope=admin", "--prefix=slow:"]);
    // The limits are the usual ones.
    let keys = format!("--keys-file={}", keys.display());
    let drain = format!("--drain-timeout-seconds={DRAIN}");
    let server = Server::start(data.path(), &[&keys, &drain]).with_key(&ours);
    let big = json!({"capacity": 1_000_000, "error_rate": 1e-7});
    for (key, fields) in [("seen", json!({"capacity": 100_000})), ("slow:big", big)] {
        server.create_filter(key, &fields);
    }
    server.create_filter("slow:seen", &json!({}));
    for batch in 0..4 {
        let items: Vec<String> = (0..250_000).map(|n| format!("{batch} {n}")).collect();
        server
            .post_lines("/filters/slow:big/items", &items)
            .unwrap();
    }
    let siege = Siege::of(server.port(), &slow, "slow:", 100 * scale());
    p99(&server, 2, PHASE);
    let memory = server.memory("VmRSS");

    let loud = || {
        let (stop, connections) = (AtomicBool::new(false), AtomicU64::new(0));
        thread::scope(|scope| {
            scope.spawn(|| siege.go_on(&stop, &connections));
            while server.metric("cuckood_http_connections") < siege.clients() as f64 * 0.6 {
                thread::sleep(Duration::from_millis(50));
            }
            // Dumps are work, read or not; once they are begun, nobody reads them.
            thread::sleep(PHASE);
            let measured = p99(&server, 2, PHASE);
            stop.store(true, Ordering::Relaxed);
            println!(
                "{} slow connections were made",
                connections.load(Ordering::Relaxed)
            );
            measured
        })
    };
    others_do_not_notice(|| p99(&server, 2, PHASE), loud);
    let (now, most) = (server.memory("VmRSS"), server.memory("VmHWM"));
    println!("memory was {memory} MiB, is {now} MiB, at most {most} MiB");
    // All dumps together hold what the redo log says of less than a million
    // slots, and what waits for their clients.
    assert!(most < memory + 96, "{memory} MiB became {most} MiB");

    // A stop in the middle of it: who is slow is cut off, who was taken is answered.
    let answered = AtomicU64::new(0);
    let (stop, connections) = (AtomicBool::new(false), AtomicU64::new(0));
    let items_before = server.items("seen");
    let (url, client) = (server.url("/filters/seen/items"), server.client().clone());
    let stopped_in = thread::scope(|scope| {
        scope.spawn(|| siege.go_on(&stop, &connections));
        for client_number in 0..2 {
            let (url, client, answered) = (&url, &client, &answered);
            scope.spawn(move || {
                for n in 0.. {
                    let items: Vec<String> = (0..10)
                        .map(|item| format!("{client_number} {n} {item}"))
                        .collect();
                    if post_lines(client, url, &items).is_none() {
                        return;
                    }
                    answered.fetch_add(10, Ordering::SeqCst);
                }
            });
        }
        thread::sleep(Duration::from_secs(1));
        while answered.load(Ordering::SeqCst) == 0 {
            thread::sleep(Duration::from_millis(50));
        }
        let started = Instant::now();
        server.signal("TERM");
        let (status, log) = server.wait();
        let stopped_in = started.elapsed();
        stop.store(true, Ordering::Relaxed);
        assert_eq!(status.code(), Some(0), "{log}");
        stopped_in
    });
    println!("stopped in {stopped_in:?}");
    assert!(stopped_in < HELD_UP, "{stopped_in:?}");
    let server = Server::start(data.path(), &[&keys]).with_key(&ours);
    let there = server.items("seen") - items_before;
    let answered = answered.load(Ordering::SeqCst);
    // Each of the two has at most one batch whose answer it did not get.
    assert!(
        answered > 0 && (answered..=answered + 20).contains(&there),
        "{answered} {there}"
    );
    println!("{answered} items were acknowledged until then, {there} are there");
}

#[test]
fn idle_connections_up_to_the_bound_cost_little_and_slow_nobody_down() {
    const PHASE: Duration = Duration::from_millis(1000);
    const OTHERS: usize = 20;
    let idle = 600 * scale();
    let data = tempfile::tempdir().unwrap();
    let bound = format!("--max-connections={}", idle + OTHERS);
    let server = Server::start(
        data.path(),
        &[
            &bound,
            "--max-connections-per-address=1000000",
            "--idle-timeout-seconds=600",
            "--header-timeout-seconds=600",
        ],
    );
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
    server.items("seen");
    let descriptors = server.descriptors();
    for part in 1..200 {
        let request = "POST /filters/seen/items HTTP/1.1\r\nhost: localhost\r\ncontent-type: text/plain\r\ncontent-length: 100\r\n\r\nabc";
        let mut stream = TcpStream::connect(("127.0.0.1", server.port())).unwrap();
        stream
            .write_all(&request.as_bytes()[..part.min(request.len())])
            .unwrap();
    }
    let started = Instant::now();
    // Some may not have been accepted yet.
    let more = || server.descriptors().saturating_sub(descriptors);
    while server.metric("cuckood_http_connections") > 2.0 || more() > 2 {
        assert!(
            started.elapsed() < Duration::from_secs(20),
            "connections are still open: {} more descriptors",
            more()
        );
        thread::sleep(Duration::from_millis(20));
    }
    assert_eq!(server.items("seen"), 0);
    let answer = client.get(server.url("/readyz")).sent().unwrap();
    assert_eq!(answer.status(), 200);
    server.stop();
}
