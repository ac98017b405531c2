//! A small disk that fills up under load: changes are refused, questions are
//! answered, and once there is room changes are taken again by themselves. A start
//! on a full one says so.
//!
//! Where there can't be such a disk the tests are skipped, or fail if it is required
//! (see `required`).

use crate::kill::check_command;
use crate::ports::free_port;
use crate::server::{Server, refused_start};
use crate::small_disk::SmallDisk;
use reqwest::StatusCode;
use reqwest::blocking::Client;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// Bytes of the disk.
const DISK_BYTES: u64 = 400 << 20;

/// Bytes of the one on which servers start.
const START_DISK_BYTES: u64 = 64 << 20;

/// What `--disk-reserve` is, where it is on.
const RESERVE_BYTES: u64 = 48 << 20;

/// Changes are taken again within so long of there being room.
const RESUMES_WITHIN: Duration = Duration::from_secs(10);

/// A full disk is met within so long.
const REFUSES_WITHIN: Duration = Duration::from_secs(60);

/// How long it stays full.
const FULL_FOR: Duration = Duration::from_secs(3);

const WRITERS: usize = 4;
const BATCH: u64 = 50;

/// What the clients share.
#[derive(Default)]
struct Clients {
    stop: AtomicBool,
    /// Items of each writer that were acknowledged.
    acknowledged: [AtomicU64; WRITERS],
    /// Answers to changes by status and code.
    answers: Mutex<BTreeMap<String, u64>>,
    questions: AtomicU64,
    slowest_question: Mutex<Duration>,
}

impl Clients {
    /// Adds batches, each until it is taken: so all of them count once.
    fn write(&self, writer: usize, client: &Client, base: &str) {
        let acknowledged = &self.acknowledged[writer];
        while !self.stop.load(Ordering::SeqCst) {
            let first = acknowledged.load(Ordering::SeqCst);
            let request = client
                .post(format!("{base}/filters/f/items"))
                .header("content-type", "text/plain")
                .header("idempotency-key", format!("{writer}-{first}"))
                .body(names(writer, first..first + BATCH).join("\n"));
            let answer = request.send().unwrap();
            let status = answer.status();
            let body: Value = answer.json().unwrap();
            let code = body["code"].as_str().unwrap_or("taken");
            let said = format!("{} {code}", status.as_u16());
            *self.answers.lock().unwrap().entry(said).or_insert(0) += 1;
            match (status.as_u16(), code) {
                (200, _) => {
                    let results = body["results"].as_array().unwrap();
                    assert!(results.iter().all(|result| result == "added"), "{body}");
                    acknowledged.fetch_add(BATCH, Ordering::SeqCst);
                }
                (507, "disk_reserve" | "disk_full")
                | (503, "overloaded")
                | (409, "idempotency_in_flight") => thread::sleep(Duration::from_millis(20)),
                _ => panic!("{body}"),
            }
        }
    }

    /// Asks for what was acknowledged, which is always answered.
    fn read(&self, client: &Client, base: &str) {
        let mut writer = 0;
        while !self.stop.load(Ordering::SeqCst) {
            writer = (writer + 1) % WRITERS;
            let there = self.acknowledged[writer].load(Ordering::SeqCst);
            let asked = names(writer, there.saturating_sub(20)..there);
            let started = Instant::now();
            let answer = client
                .post(format!("{base}/filters/f/exists"))
                .json(&json!({"items": asked}))
                .send()
                .unwrap();
            assert_eq!(answer.status(), StatusCode::OK);
            let body: Value = answer.json().unwrap();
            let found = body["results"].as_array().unwrap();
            assert!(found.iter().all(|found| found == true), "{body}");
            let ready = client.get(format!("{base}/readyz")).send().unwrap();
            assert_eq!(ready.status(), StatusCode::OK);
            let mut slowest = self.slowest_question.lock().unwrap();
            *slowest = slowest.max(started.elapsed());
            drop(slowest);
            self.questions.fetch_add(1, Ordering::SeqCst);
        }
    }

    fn taken(&self) -> u64 {
        let counts = self.acknowledged.iter();
        counts.map(|count| count.load(Ordering::SeqCst)).sum()
    }

    fn refused(&self) -> u64 {
        let answers = self.answers.lock().unwrap();
        let refused = answers.iter().filter(|(said, _)| said.starts_with("507"));
        refused.map(|(_, count)| count).sum()
    }

    /// Waits until changes are taken that were not before.
    fn resume(&self) -> Duration {
        let (before, started) = (self.taken(), Instant::now());
        // All writers have one on its way that was refused.
        while self.taken() < before + 2 * WRITERS as u64 * BATCH {
            assert!(
                started.elapsed() < RESUMES_WITHIN,
                "changes are not taken {RESUMES_WITHIN:?} after there was room"
            );
            thread::sleep(Duration::from_millis(5));
        }
        started.elapsed()
    }
}

fn names(writer: usize, items: std::ops::Range<u64>) -> Vec<String> {
    items
        .map(|item| format!("writer {writer} item {item}"))
        .collect()
}

#[test]
fn a_disk_that_fills_up_under_load_costs_507_and_nothing_else() {
    let Some(disk) = SmallDisk::new(DISK_BYTES) else {
        return;
    };
    let started = Instant::now();
    let clients = Clients::default();
    let with_reserve = format!("--disk-reserve={RESERVE_BYTES}");
    // Where the reserve is off, the disk is met full in the middle of writes.
    for (round, flag) in [with_reserve.as_str(), "--disk-reserve=0"]
        .into_iter()
        .enumerate()
    {
        let flags = &[flag, "--cache-bytes=64MiB", "--max-log-bytes=256KiB"];
        let mut server = disk.serve(flags);
        if round == 0 {
            server.create_filter("f", &json!({"capacity": 1_000_000}));
            for key in ["dumped", "doomed"] {
                server.create_filter(key, &json!({"capacity": 100_000}));
                let items = names(0, 0..10_000);
                server
                    .post_lines(&format!("/filters/{key}/items"), &items)
                    .unwrap();
            }
        }
        clients.stop.store(false, Ordering::SeqCst);
        let resumed = thread::scope(|scope| {
            let (client, base) = (server.client().clone(), server.url(""));
            for writer in 0..WRITERS {
                let (client, base, clients) = (client.clone(), base.clone(), &clients);
                scope.spawn(move || clients.write(writer, &client, &base));
            }
            let (reader, base, load) = (client.clone(), base.clone(), &clients);
            scope.spawn(move || load.read(&reader, &base));
            let stopping = StopOnDrop(&clients.stop);

            thread::sleep(Duration::from_secs(1));
            let (before, questions) = (clients.refused(), clients.questions.load(Ordering::SeqCst));
            let left_free = if round == 0 { RESERVE_BYTES / 2 } else { 0 };
            let mut ballast = disk.fill(left_free);
            let filled = Instant::now();
            // What the log has taken of the disk beforehand is still written to.
            while clients.refused() == before {
                assert!(filled.elapsed() < REFUSES_WITHIN, "nothing was refused");
                thread::sleep(Duration::from_millis(5));
            }
            let refused = Instant::now();
            // Files that the server drops do not help it.
            while refused.elapsed() < FULL_FOR {
                ballast += disk.fill(left_free);
                thread::sleep(Duration::from_millis(5));
            }
            asked_of_a_full_server(&server, round == 0);
            assert!(clients.questions.load(Ordering::SeqCst) > questions + 20);
            disk.make_room();
            let resumed = clients.resume();
            println!("full with {ballast} bytes of ballast, resumed after {resumed:?}");
            thread::sleep(Duration::from_millis(500));
            drop(stopping);
            resumed
        });
        server.end();
        let server = disk.serve(flags);
        let (looked_for, lost) = verify(&server, &clients);
        println!(
            "{}",
            json!({
                "test": "full_disk",
                "disk_reserve_bytes": if round == 0 { RESERVE_BYTES } else { 0 },
                "resumed_after_ms": resumed.as_millis() as u64,
                "answers_to_changes": *clients.answers.lock().unwrap(),
                "questions_answered": clients.questions.load(Ordering::SeqCst),
                "slowest_question_ms": clients.slowest_question.lock().unwrap().as_millis() as u64,
                "items_acknowledged": clients.taken(),
                "acknowledged_items_looked_for": looked_for,
                "acknowledged_items_lost": lost,
                "seconds": started.elapsed().as_secs(),
            })
        );
        assert_eq!(lost, 0);
        server.stop();
        let check = disk
            .within(&check_command(&disk.data_dir()))
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&check.stderr);
        assert!(check.status.success(), "{said}");
    }
    let answers = clients.answers.lock().unwrap();
    for said in ["200 taken", "507 disk_reserve", "507 disk_full"] {
        assert!(answers.contains_key(said), "{answers:?}");
    }
}

#[test]
fn a_start_on_a_full_disk_says_that_it_is_full_and_what_to_do() {
    let Some(disk) = SmallDisk::new(START_DISK_BYTES) else {
        return;
    };
    let flags = &["--disk-reserve=0", "--cache-bytes=32MiB"];
    let refused = || {
        let refused = refused_start(&mut disk.start(free_port(), flags));
        assert_eq!(refused.status.code(), Some(1));
        let said = String::from_utf8(refused.stderr).unwrap();
        let path = disk.data_dir();
        for words in ["the disk is full", "free space", path.to_str().unwrap()] {
            assert!(said.contains(words), "{words} in {said}");
        }
    };

    // With an empty directory, and with what a server that was killed left to be
    // replayed.
    disk.fill(0);
    refused();
    disk.make_room();
    let items = names(0, 0..20_000);
    let mut server = disk.serve(flags);
    server.create_filter("f", &json!({"capacity": 100_000}));
    server.post_lines("/filters/f/items", &items).unwrap();
    server.end();
    disk.fill(0);
    refused();
    disk.make_room();
    assert_eq!(disk.serve(flags).items("f"), items.len() as u64);
}

/// Ends the clients, whatever happens to the thread that waits for them.
struct StopOnDrop<'a>(&'a AtomicBool);

impl Drop for StopOnDrop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::SeqCst);
    }
}

/// What else is refused and allowed while the disk is full.
fn asked_of_a_full_server(server: &Server, has_reserve: bool) {
    let client = server.client();
    let ready = server.get_text("/readyz");
    let says = match has_reserve {
        true => "\ndisk_reserve: ",
        false => "\nstorage_refuses: ",
    };
    assert!(
        ready.starts_with("ok\n") && ready.contains(says),
        "{ready}{}",
        server.log()
    );
    if has_reserve {
        // Removing a filter makes room, and the reserve has room for that.
        let removed = client.delete(server.url("/filters/doomed")).send().unwrap();
        assert_eq!(removed.status(), StatusCode::NO_CONTENT);
    }
    let dump = client
        .get(server.url("/filters/dumped/dump"))
        .send()
        .unwrap();
    assert_eq!(dump.status(), StatusCode::OK);
    let restored = client
        .put(server.url("/filters/restored/dump"))
        .header("content-type", "application/octet-stream")
        .body(dump.bytes().unwrap())
        .send()
        .unwrap();
    assert_eq!(restored.status(), StatusCode::INSUFFICIENT_STORAGE);
    let gone = client.get(server.url("/filters/restored")).send().unwrap();
    assert_eq!(gone.status(), StatusCode::NOT_FOUND);
    let import = client
        .post(server.url("/filters/f/import?import_id=full"))
        .header("content-type", "text/plain")
        .body("one\ntwo\n")
        .send()
        .unwrap();
    assert_eq!(import.status(), StatusCode::INSUFFICIENT_STORAGE);
}

/// Everything acknowledged is there, and nothing more; returns how many items
/// were looked for, and how many of them are lost.
fn verify(server: &Server, clients: &Clients) -> (u64, usize) {
    assert_eq!(server.items("f"), clients.taken());
    let mut lost = 0;
    for (writer, acknowledged) in clients.acknowledged.iter().enumerate() {
        let there = acknowledged.load(Ordering::SeqCst);
        for first in (0..there).step_by(20_000) {
            let names = names(writer, first..there.min(first + 20_000));
            let found = server.post_lines("/filters/f/exists", &names).unwrap();
            lost += found.iter().filter(|found| *found != "true").count();
        }
    }
    let restored = server.client().get(server.url("/filters/restored"));
    assert_eq!(restored.send().unwrap().status(), StatusCode::NOT_FOUND);
    (clients.taken(), lost)
}
