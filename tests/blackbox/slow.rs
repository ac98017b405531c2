//! Clients that are slow on purpose, and many that do nothing: the others do
//! not notice, memory stays as it is, and a stop stops.
//!
//! `CUCKOOD_TEST_SCALE` multiplies their number (default 1). Times are compared
//! with a quiet phase right before; since a busy machine has moods of its own,
//! the best of several comparisons counts.

use crate::server::{Sent as _, Server, post_lines};
use reqwest::blocking::Client;
use serde_json::json;
use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// Comparisons that are made before none is good enough.
const ATTEMPTS: usize = 6;

/// How much slower others may be, and below which time nobody cares.
const FACTOR: u32 = 3;
const FLOOR: Duration = Duration::from_millis(1);

pub(crate) fn scale() -> usize {
    std::env::var("CUCKOOD_TEST_SCALE").map_or(1, |text| text.parse().unwrap())
}

/// How a client is slow.
#[derive(Clone, Copy, Debug)]
enum Slow {
    /// A byte of a head at a time.
    Head,
    /// A byte of a batch at a time.
    Batch,
    /// A byte of an import at a time.
    Import,
    /// A byte of a dump at a time.
    Restore,
    /// It connects, and that is all.
    Silent,
    /// It asks for much, and reads nothing.
    Deaf,
}

const SLOW: [(Slow, usize); 6] = [
    (Slow::Head, 100),
    (Slow::Batch, 60),
    (Slow::Import, 40),
    (Slow::Restore, 20),
    (Slow::Silent, 60),
    (Slow::Deaf, 20),
];

/// What is wrong with the clients: all of it, or what `CUCKOOD_TEST_SLOW` names
/// (`Head,Deaf`), to find out which of it others notice.
fn slow_kinds() -> Vec<(Slow, usize)> {
    let wanted = std::env::var("CUCKOOD_TEST_SLOW").ok();
    let is_wanted = |slow: &Slow| match &wanted {
        None => true,
        Some(wanted) => wanted.split(',').any(|name| name == format!("{slow:?}")),
    };
    SLOW.into_iter()
        .filter(|(slow, _)| is_wanted(slow))
        .collect()
}

impl Slow {
    fn begin(self) -> String {
        let line = match self {
            Slow::Head => return "GET /livez HTTP/1.1\r\nhost: localhost\r\nx: ".to_owned(),
            Slow::Silent => return String::new(),
            Slow::Deaf => {
                return "GET /filters/big/dump HTTP/1.1\r\nhost: localhost\r\n\r\n".to_owned();
            }
            Slow::Batch => "POST /filters/seen/exists",
            Slow::Import => "POST /filters/seen/import?import_id=slow",
            Slow::Restore => "PUT /filters/slow/dump",
        };
        let media_type = match self {
            Slow::Restore => "application/octet-stream",
            _ => "text/plain",
        };
        format!(
            "{line} HTTP/1.1\r\nhost: localhost\r\ncontent-type: {media_type}\r\ncontent-length: 1000000\r\n\r\n"
        )
    }

    fn goes_on(self) -> &'static [u8] {
        match self {
            Slow::Head | Slow::Batch | Slow::Import | Slow::Restore => b"y",
            Slow::Silent | Slow::Deaf => b"",
        }
    }

    /// Connects with a small buffer, so that what is not read stays with the
    /// server.
    async fn connect(self, address: SocketAddr) -> Option<TcpStream> {
        let socket = tokio::net::TcpSocket::new_v4().ok()?;
        socket.set_recv_buffer_size(4096).ok()?;
        let connecting = tokio::time::timeout(Duration::from_secs(1), socket.connect(address));
        let mut stream = connecting.await.ok()?.ok()?.into_std().ok()?;
        stream.set_nonblocking(true).ok()?;
        stream.write_all(self.begin().as_bytes()).ok()?;
        Some(stream)
    }
}

/// Keeps all slow clients going until it is told to stop; one whose connection
/// is closed comes again.
fn besiege(address: SocketAddr, stop: &AtomicBool, connections: &AtomicU64) {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    let clients = slow_kinds()
        .into_iter()
        .flat_map(|(slow, number)| vec![slow; number * scale()]);
    let mut clients: Vec<(Slow, Option<TcpStream>)> = clients.map(|slow| (slow, None)).collect();
    while !stop.load(Ordering::Relaxed) {
        for (slow, stream) in &mut clients {
            let alive = stream.as_mut().is_some_and(|stream| {
                let gone = match slow {
                    Slow::Deaf => false,
                    _ => stream.read(&mut [0; 512]).is_ok(),
                };
                !gone && stream.write_all(slow.goes_on()).is_ok()
            });
            if !alive && !stop.load(Ordering::Relaxed) {
                connections.fetch_add(1, Ordering::Relaxed);
                *stream = runtime.block_on(slow.connect(address));
            }
        }
        thread::sleep(Duration::from_millis(100));
    }
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
fn slow_clients_slow_down_nobody_else_and_do_not_hold_up_a_stop() {
    const PHASE: Duration = Duration::from_millis(1500);
    const DRAIN: u64 = 5;
    let data = tempfile::tempdir().unwrap();
    let server = Server::start(
        data.path(),
        &[
            "--header-timeout-seconds=2",
            "--idle-timeout-seconds=4",
            "--write-timeout-seconds=30",
            "--body-idle-timeout-seconds=2",
            "--max-connections=20000",
            &format!("--drain-timeout-seconds={DRAIN}"),
        ],
    );
    server.create_filter("seen", &json!({"capacity": 100_000}));
    server.create_filter("big", &json!({"capacity": 1_000_000, "error_rate": 1e-7}));
    for batch in 0..4 {
        let items: Vec<String> = (0..250_000).map(|n| format!("{batch} {n}")).collect();
        server.post_lines("/filters/big/items", &items).unwrap();
    }
    let address = SocketAddr::from(([127, 0, 0, 1], server.port()));
    p99(&server, 2, PHASE);
    let memory = server.memory("VmRSS");

    let loud = || {
        let (stop, connections) = (AtomicBool::new(false), AtomicU64::new(0));
        thread::scope(|scope| {
            scope.spawn(|| besiege(address, &stop, &connections));
            let most: usize = slow_kinds().iter().map(|(_, number)| number).sum();
            while server.metric("cuckood_http_connections") < most as f64 * 0.6 {
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
        scope.spawn(|| besiege(address, &stop, &connections));
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
        let started = Instant::now();
        server.signal("TERM");
        let (status, log) = server.wait();
        let stopped_in = started.elapsed();
        stop.store(true, Ordering::Relaxed);
        assert_eq!(status.code(), Some(0), "{log}");
        stopped_in
    });
    println!("stopped in {stopped_in:?}");
    assert!(
        stopped_in < Duration::from_secs(DRAIN + 5),
        "{stopped_in:?}"
    );
    let server = Server::start(data.path(), &[]);
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
    let answer = client.get(server.url("/readyz")).sent().unwrap();
    assert_eq!(answer.status(), 200);
    server.stop();
}
