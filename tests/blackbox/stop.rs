//! A server that is asked to stop answers what it has taken, keeps it, and
//! ends with exit code 0.
//!
//! With a drain delay no request is refused or cut off whose client, as load
//! balancers do, turns to another server when it is told to. Without one the server
//! ends connections on which nothing is asked, and requests that were on their way
//! there are not done: what is there afterwards is what was acknowledged, to the item.

use crate::server::{Sent as _, Server};
use crate::wire::{Answer, Sending, Wire};
use reqwest::blocking::Client;
use serde_json::json;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// Items of each request.
const BATCH: u64 = 10;

/// Clients with the library that the program's own clients use, which ask without
/// a pause.
const LIBRARY_CLIENTS: usize = 3;

/// Pauses of the clients that have a connection and no library: they send when the
/// server may be closing it.
const PAUSES_MS: [u64; 6] = [0, 0, 3, 20, 150, 310];

/// Who pauses for longer sends without a look whether the connection is still open.
const LOOKS_AFTER: Duration = Duration::from_millis(100);

/// What became of the requests of all clients.
#[derive(Debug, Default)]
struct Outcomes {
    answered: AtomicU64,
    /// Not sent, since nobody listened.
    not_connected: AtomicU64,
    /// Without an answer, since its connection ended.
    cut_off: AtomicU64,
}

fn count(counter: &AtomicU64) {
    counter.fetch_add(1, Ordering::SeqCst);
}

fn body(client: &str, batch: u64) -> String {
    let items = (0..BATCH).map(|n| format!("client {client} batch {batch} item {n}\n"));
    items.collect()
}

/// Sends until nobody listens any more.
fn ask_with_a_library(client: usize, url: &str, outcomes: &Outcomes) {
    let http = Client::builder().no_proxy().build().unwrap();
    for batch in 0.. {
        let request = http.post(url).header("content-type", "text/plain");
        match request.body(body(&format!("l{client}"), batch)).sent() {
            Ok(answer) => {
                assert_eq!(answer.status(), 200);
                count(&outcomes.answered);
            }
            Err(error) if error.is_connect() => return count(&outcomes.not_connected),
            // The next one is sent on another connection.
            Err(_) => count(&outcomes.cut_off),
        }
    }
}

/// The same over a connection that is kept as long as no answer ends it. Leaves
/// at the first answer that does if there is another server to turn to.
fn ask_by_hand(client: usize, port: u16, outcomes: &Outcomes, leaves: bool) {
    let pause = Duration::from_millis(PAUSES_MS[client % PAUSES_MS.len()]);
    let mut wire = match pause < LOOKS_AFTER {
        true => Wire::to(port),
        false => Wire::that_does_not_look(port),
    };
    for batch in 0.. {
        let body = body(&format!("h{client}"), batch);
        let Answer { status, ends, text } = match wire.post("/filters/seen/items", &body) {
            Ok(Sending::Answered(answer)) => answer,
            Ok(Sending::NotConnected) => return count(&outcomes.not_connected),
            Err(_) => return count(&outcomes.cut_off),
        };
        assert_eq!(status, 200, "{text}");
        count(&outcomes.answered);
        if ends && leaves {
            return;
        }
        thread::sleep(pause);
    }
}

/// One stop under load; returns what became of the requests and how long it took.
fn stop_under_load(server: Server, signal: &str, leaves: bool) -> (Outcomes, Duration) {
    let (outcomes, port) = (Outcomes::default(), server.port());
    let url = server.url("/filters/seen/items");
    let took = thread::scope(|scope| {
        let (outcomes, url) = (&outcomes, url.as_str());
        for client in 0..LIBRARY_CLIENTS {
            if !leaves {
                scope.spawn(move || ask_with_a_library(client, url, outcomes));
            }
        }
        for client in 0..PAUSES_MS.len() {
            scope.spawn(move || ask_by_hand(client, port, outcomes, leaves));
        }
        thread::sleep(Duration::from_millis(400));
        server.signal(signal);
        let asked = Instant::now();
        let (status, log) = server.wait();
        assert_eq!(status.code(), Some(0), "{log}");
        assert!(!log.contains("cut off"), "{log}");
        asked.elapsed()
    });
    (outcomes, took)
}

fn assert_all_is_there(server: &Server, acknowledged: u64) {
    assert_eq!(server.items("seen"), acknowledged * BATCH);
    // A clean stop leaves nothing to replay, if it takes no longer than some seconds.
    assert_eq!(server.metric("cuckood_log_bytes"), 0.0);
}

fn stops_without_losing_anything(signal: &str) {
    const ROUNDS: u64 = 4;
    let data = tempfile::tempdir().unwrap();
    let server = Server::start(data.path(), &[]);
    server.create_filter("seen", &json!({"capacity": 1_000_000, "expansion": 2}));
    server.stop();
    let mut acknowledged = 0;
    for round in 1..=ROUNDS {
        let server = Server::start(data.path(), &[]);
        assert_all_is_there(&server, acknowledged);
        let (outcomes, took) = stop_under_load(server, signal, false);
        println!("round {round}: {outcomes:?}, stopped in {took:?}");
        assert!(outcomes.answered.load(Ordering::SeqCst) > 0);
        let clients = (LIBRARY_CLIENTS + PAUSES_MS.len()) as u64;
        let by_hand = outcomes.cut_off.into_inner();
        assert!(outcomes.not_connected.into_inner() + by_hand >= clients);
        // Batches of different rounds have the same items; all of them count.
        acknowledged += outcomes.answered.into_inner();
    }
    let server = Server::start(data.path(), &[]);
    assert_all_is_there(&server, acknowledged);
    server.stop();
}

#[test]
fn a_server_under_load_stops_cleanly_on_sigterm() {
    stops_without_losing_anything("TERM");
}

#[test]
fn a_server_under_load_stops_cleanly_on_ctrl_c() {
    stops_without_losing_anything("INT");
}

/// With a delay there is time to turn to another server: who does so when an
/// answer says that its connection ends meets no refusal of any kind.
#[test]
fn clients_that_leave_when_they_are_told_to_notice_nothing_of_a_stop() {
    let data = tempfile::tempdir().unwrap();
    let server = Server::start(data.path(), &["--drain-delay-seconds=1"]);
    server.create_filter("seen", &json!({"capacity": 1_000_000, "expansion": 2}));
    let (outcomes, took) = stop_under_load(server, "TERM", true);
    println!("{outcomes:?}, stopped in {took:?}");
    assert!(took >= Duration::from_secs(1), "{took:?}");
    assert_eq!(outcomes.cut_off.into_inner(), 0);
    assert_eq!(outcomes.not_connected.into_inner(), 0);
    let server = Server::start(data.path(), &[]);
    assert_all_is_there(&server, outcomes.answered.into_inner());
    server.stop();
}

/// During the delay `/readyz` says no, and everything else is answered, on new
/// connections, too, each of which ends with its answer.
#[test]
fn during_the_delay_of_a_stop_requests_are_answered() {
    let data = tempfile::tempdir().unwrap();
    let server = Server::start(data.path(), &["--drain-delay-seconds=1"]);
    server.create_filter("seen", &json!({}));
    let (port, stopping) = (server.port(), AtomicBool::new(false));
    let mut kept = Wire::to(port);
    assert!(!kept.answer("GET", "/filters/seen", "").unwrap().ends);
    server.signal("TERM");
    while !stopping.load(Ordering::Relaxed) {
        let ready = Wire::to(port).answer("GET", "/readyz", "").unwrap();
        stopping.store(ready.status == 503, Ordering::Relaxed);
    }
    for mut wire in [kept, Wire::to(port)] {
        let answer = wire.answer("GET", "/filters/seen", "").unwrap();
        assert_eq!((answer.status, answer.ends), (200, true));
    }
    let (status, log) = server.wait();
    assert!(status.success(), "{log}");
}

/// A connection on which nothing is asked ends at once, and holds up no stop.
#[test]
fn an_idle_connection_ends_when_the_server_stops() {
    let data = tempfile::tempdir().unwrap();
    let server = Server::start(data.path(), &[]);
    let mut asked_before = Wire::to(server.port());
    assert_eq!(
        asked_before.answer("GET", "/livez", "").unwrap().status,
        200
    );
    let mut fresh = Wire::to(server.port());
    fresh.connect().unwrap();
    server.signal("TERM");
    let asked = Instant::now();
    for wire in [&mut asked_before, &mut fresh] {
        assert!(wire.read().is_err());
    }
    let (status, log) = server.wait();
    assert!(status.success(), "{log}");
    assert!(
        asked.elapsed() < Duration::from_secs(20),
        "{:?}",
        asked.elapsed()
    );
}
