//! The disk hangs under load: it answers nothing, fails nothing, and goes on
//! after a while. What is in memory is asked for as before, changes that are not
//! being written are withdrawn and were not done, and everything resumes by itself.
//!
//! `CUCKOOD_STALL_SECONDS` sets for how long (default 12). `CUCKOOD_TEST_QUIET` says
//! that the machine does nothing else: then questions about what is in memory take
//! hardly longer than usual.

use crate::kill::check;
use crate::mount::Mounted;
use crate::power::mounted;
use crate::random::from_environment;
use crate::server::{Server, client_with};
use reqwest::blocking::Client;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

const WRITERS: usize = 8;
const READERS: usize = 2;

/// More than there are threads that may block.
const COLD_CLIENTS: usize = 600;

/// How long a request is worked on, on this server.
const TIMEOUT: Duration = Duration::from_secs(3);

/// Everything goes on within so long after the disk does.
const RESUMES_WITHIN: Duration = Duration::from_secs(20);

/// Items of the filter that stays in memory.
const WARM: u64 = 1000;

/// What became of the items that writers sent, each of them once.
#[derive(Default)]
struct Sent {
    done: Vec<String>,
    not_done: Vec<String>,
    unknown: Vec<String>,
    answers: BTreeMap<String, u64>,
}

#[derive(Default)]
struct Load {
    stop: AtomicBool,
    sent: Mutex<Sent>,
    done: AtomicUsize,
    /// How long questions about pages in memory took.
    asked: Mutex<Vec<Duration>>,
}

/// How long questions took.
struct Latencies {
    asked: usize,
    p99: Duration,
    p999: Duration,
    slowest: Duration,
}

impl Load {
    fn write(&self, client: &Client, base: &str, writer: usize) {
        let mut number = 0;
        while !self.stop.load(Ordering::SeqCst) {
            number += 1;
            let item = format!("writer {writer} item {number}");
            // Every writer has a filter of its own, so all lanes are in use.
            let request = client
                .post(format!("{base}/filters/w{writer}/items"))
                .json(&json!({"items": [item]}));
            let answer = request.send().unwrap();
            let status = answer.status().as_u16();
            let body: Value = answer.json().unwrap();
            let code = body["code"].as_str().unwrap_or("done");
            let mut sent = self.sent.lock().unwrap();
            *sent.answers.entry(format!("{status} {code}")).or_insert(0) += 1;
            match (status, code) {
                (200, _) => {
                    sent.done.push(item);
                    self.done.fetch_add(1, Ordering::SeqCst);
                }
                (503, "deadline_exceeded" | "overloaded") => {
                    sent.not_done.push(item);
                    drop(sent);
                    thread::sleep(Duration::from_millis(50));
                }
                (500, "outcome_unknown") => sent.unknown.push(item),
                _ => panic!("{body}"),
            }
        }
    }

    fn read(&self, client: &Client, base: &str) {
        let mut number = 0;
        while !self.stop.load(Ordering::SeqCst) {
            number = (number + 1) % WARM;
            let started = Instant::now();
            let asked = client.get(format!("{base}/filters/warm/exists?item=item%20{number}"));
            let answer = asked.send().unwrap();
            let took = started.elapsed();
            assert_eq!(answer.status(), 200);
            assert_eq!(answer.json::<Value>().unwrap(), json!({"exists": true}));
            self.asked.lock().unwrap().push(took);
            thread::sleep(Duration::from_millis(2));
        }
    }

    /// What was asked since the last time.
    fn latencies(&self) -> Latencies {
        let mut asked = std::mem::take(&mut *self.asked.lock().unwrap());
        asked.sort_unstable();
        let at = |part: usize| asked[(asked.len() - 1) * part / 1000];
        Latencies {
            asked: asked.len(),
            p99: at(990),
            p999: at(999),
            slowest: at(1000),
        }
    }

    /// Waits until changes are taken again.
    fn resume(&self) -> Duration {
        let (before, started) = (self.done.load(Ordering::SeqCst), Instant::now());
        while self.done.load(Ordering::SeqCst) < before + 5 * WRITERS {
            assert!(started.elapsed() < RESUMES_WITHIN, "changes are not taken");
            thread::sleep(Duration::from_millis(10));
        }
        started.elapsed()
    }
}

/// Ends the load, and has the disk go on, whatever happens to the thread that
/// waits for them.
struct EndOnDrop<'a>(&'a Load, &'a Mounted);

impl Drop for EndOnDrop<'_> {
    fn drop(&mut self) {
        self.1.go_on();
        self.0.stop.store(true, Ordering::SeqCst);
    }
}

fn items(count: u64) -> Vec<String> {
    (0..count).map(|item| format!("item {item}")).collect()
}

/// Asks for an item whose pages are on the disk; returns the status.
fn ask_cold(port: u16, number: usize) -> u16 {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
    let filter = number % 20;
    let head = format!(
        "GET /filters/cold{filter}/exists?item=item%20{number} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n"
    );
    stream.write_all(head.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer.split(' ').nth(1).unwrap().parse().unwrap()
}

/// What is asked of a server whose disk hangs.
fn asked_meanwhile(server: &Server) {
    let client = client_with(None);
    let started = Instant::now();
    assert_eq!(server.get_text("/livez"), "ok\n");
    let ready = server.get_text("/readyz");
    assert!(ready.starts_with("ok\ndisk_hangs: "), "{ready}");
    let pending = server.metric("cuckood_storage_pending_seconds{operation=\"write\"}");
    assert!(pending > 5.0, "{pending}");
    // A body that is parsed on a thread that may block.
    let asked = client
        .post(server.url("/filters/warm/exists"))
        .json(&json!({"items": items(10_000)}));
    assert_eq!(asked.send().unwrap().status(), 200);
    assert!(
        started.elapsed() < Duration::from_secs(5),
        "{:?}",
        started.elapsed()
    );
    let listed = client.get(server.url("/filters")).send().unwrap();
    assert_eq!(listed.status(), 503);
}

#[test]
fn a_disk_that_hangs_holds_up_what_needs_it_and_nothing_else() {
    let Some(disk) = mounted() else { return };
    let stall = Duration::from_secs(from_environment("CUCKOOD_STALL_SECONDS").unwrap_or(12));
    assert!(stall > 3 * TIMEOUT, "too short for anything to be seen");
    let data_dir = disk.path().join("data");
    let flags = &[
        "--request-timeout-seconds=3",
        "--lanes=2",
        "--cache-bytes=64MiB",
        "--max-connections-per-address=1024",
    ];
    let server = Server::start(&data_dir, flags);
    for filter in 0..20 {
        server.create_filter(&format!("cold{filter}"), &json!({"capacity": 100_000}));
        server
            .post_lines(&format!("/filters/cold{filter}/items"), &items(1000))
            .unwrap();
    }
    let exact = json!({"capacity": 100_000, "fingerprint_bits": 32});
    server.create_filter("warm", &exact);
    server
        .post_lines("/filters/warm/items", &items(WARM))
        .unwrap();
    for writer in 0..WRITERS {
        server.create_filter(&format!("w{writer}"), &exact);
    }
    // Only what is asked for is in memory after a start.
    server.stop();
    let server = Server::start(&data_dir, flags);
    server
        .post_lines("/filters/warm/exists", &items(WARM))
        .unwrap();

    let (load, started) = (Load::default(), Instant::now());
    let (usual, hung, cold, resumed) = thread::scope(|scope| {
        let ending = EndOnDrop(&load, &disk);
        let base = server.url("");
        for writer in 0..WRITERS {
            let (load, base) = (&load, base.clone());
            scope.spawn(move || load.write(&client_with(None), &base, writer));
        }
        for _ in 0..READERS {
            let (load, base) = (&load, base.clone());
            scope.spawn(move || load.read(&client_with(None), &base));
        }
        thread::sleep(Duration::from_secs(2));
        let usual = load.latencies();

        disk.hang();
        let hung_at = Instant::now();
        let port = server.port();
        let cold: Vec<_> = (0..COLD_CLIENTS)
            .map(|number| {
                let builder = thread::Builder::new().stack_size(128 << 10);
                let asking = move || {
                    let started = Instant::now();
                    (ask_cold(port, number), started.elapsed())
                };
                builder.spawn_scoped(scope, asking).unwrap()
            })
            .collect();
        let cold: Vec<(u16, Duration)> = cold.into_iter().map(|it| it.join().unwrap()).collect();
        thread::sleep(Duration::from_secs(6).saturating_sub(hung_at.elapsed()));
        asked_meanwhile(&server);
        thread::sleep(stall.saturating_sub(hung_at.elapsed()));
        let hung = load.latencies();
        disk.go_on();
        let resumed = load.resume();
        while !server.get_text("/readyz").eq("ok\n") {
            assert!(hung_at.elapsed() < stall + RESUMES_WITHIN);
            thread::sleep(Duration::from_millis(50));
        }
        assert_eq!(ask_cold(port, 0), 200);
        thread::sleep(Duration::from_millis(500));
        drop(ending);
        (usual, hung, cold, resumed)
    });

    // Those that needed the disk ended at their deadline, or were told sooner.
    let refused = cold.iter().filter(|(status, _)| *status == 503).count();
    let slowest_cold = cold.iter().map(|(_, took)| *took).max().unwrap();
    let mut answers = cold.iter().map(|(status, _)| *status);
    assert!(answers.all(|it| it == 503 || it == 200));
    assert!(refused > COLD_CLIENTS / 2, "{refused} of {COLD_CLIENTS}");
    assert!(slowest_cold < 3 * TIMEOUT, "{slowest_cold:?}");
    let sent = load.sent.into_inner().unwrap();
    let lost = verify(&server, &sent);
    let figures = json!({
        "test": "hang",
        "stalled_seconds": stall.as_secs(),
        "usual_p99_ms": usual.p99.as_secs_f64() * 1e3,
        "usual_p999_ms": usual.p999.as_secs_f64() * 1e3,
        "hung_p99_ms": hung.p99.as_secs_f64() * 1e3,
        "hung_p999_ms": hung.p999.as_secs_f64() * 1e3,
        "hung_slowest_ms": hung.slowest.as_secs_f64() * 1e3,
        "questions_answered_meanwhile": hung.asked,
        "cold_questions_refused": refused,
        "slowest_cold_question_ms": slowest_cold.as_millis() as u64,
        "resumed_after_ms": resumed.as_millis() as u64,
        "answers_to_changes": sent.answers,
        "acknowledged_lost": lost,
        "seconds": started.elapsed().as_secs(),
    });
    println!("{figures}");
    assert_eq!(lost, 0);
    assert!(hung.asked > 100, "{figures}");
    let bound = match std::env::var_os("CUCKOOD_TEST_QUIET") {
        Some(_) => 3 * usual.p99 + Duration::from_millis(5),
        None => (10 * usual.p99).max(Duration::from_millis(100)),
    };
    assert!(hung.p99 <= bound, "{figures}");
    for said in [
        "200 done",
        "503 deadline_exceeded",
        "503 overloaded",
        "500 outcome_unknown",
    ] {
        assert!(sent.answers.contains_key(said), "{figures}");
    }
    server.stop();
    check(&data_dir);
}

/// Compares what is there with what clients were told. Returns how many
/// acknowledged items are not there.
fn verify(server: &Server, sent: &Sent) -> usize {
    let found = |item: &String| {
        let writer = item.split(' ').nth(1).unwrap();
        let path = format!("/filters/w{writer}/exists");
        let there = server
            .post_lines(&path, std::slice::from_ref(item))
            .unwrap();
        there == ["true"]
    };
    for item in &sent.not_done {
        assert!(!found(item), "{item} is there and was said not to be done");
    }
    let there = (0..WRITERS)
        .map(|writer| server.items(&format!("w{writer}")))
        .sum::<u64>();
    let (done, unknown) = (sent.done.len() as u64, sent.unknown.len() as u64);
    assert!(
        (done..=done + unknown).contains(&there),
        "{done} and {unknown}, {there}"
    );
    sent.done.iter().filter(|item| !found(item)).count()
}
