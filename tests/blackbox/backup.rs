//! Backups taken under load, restored elsewhere: each is a state that existed.

use crate::server::{Sent as _, Server, cuckood, post_lines};
use cuckood::page::{FilterId, Ordinal, PageId, PageIndex, Sequence};
use cuckood::store::PageStore;
use cuckood::store::rocks::{RocksOptions, RocksStore};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::process::Output;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// Bounds so small that checkpoints run and the log is cut all the time.
const TIGHT: &[&str] = &[
    "--max-log-bytes=64KiB",
    "--max-dirty-bytes=4MiB",
    "--checkpoint-slice-bytes=64KiB",
    "--cache-bytes=32MiB",
];

/// Backups taken during the load, and kept.
const TAKEN: usize = 4;
const KEPT: usize = 3;

fn item(number: u64) -> String {
    format!("item {number}")
}

/// Adds items one after another, each to one filter and then to the other, and
/// counts those that are acknowledged in both.
fn follow(server: &Server, added: &AtomicU64, stop: &AtomicBool) {
    for number in 0.. {
        if stop.load(Ordering::Relaxed) {
            return;
        }
        for filter in ["first", "second"] {
            let answer = server.post_lines(&format!("/filters/{filter}/items"), &[item(number)]);
            assert_eq!(answer.unwrap(), ["added"]);
        }
        added.store(number + 1, Ordering::SeqCst);
    }
}

/// Keeps checkpoints busy.
fn disturb(server: &Server, stop: &AtomicBool) {
    let (client, url) = (server.client(), server.url("/filters/noise/items"));
    for batch in 0.. {
        if stop.load(Ordering::Relaxed) {
            return;
        }
        let items: Vec<String> = (0..200).map(|n| format!("{batch} {n}")).collect();
        post_lines(client, &url, &items).unwrap();
    }
}

/// Takes a backup and waits until it is complete.
fn back_up(server: &Server) -> String {
    let answer = server
        .client()
        .post(server.url("/admin/backups"))
        .sent()
        .unwrap();
    assert_eq!(answer.status(), 202);
    let begun: Value = answer.json().unwrap();
    let id = begun["id"].as_str().unwrap().to_owned();
    let started = Instant::now();
    loop {
        let status = server.get_json(&format!("/admin/backups/{id}/status"));
        match status["state"].as_str().unwrap() {
            "complete" => return id,
            "writing" | "verifying" => thread::sleep(Duration::from_millis(20)),
            _ => panic!("{status}\n{}", server.log()),
        }
        assert!(started.elapsed() < Duration::from_secs(60), "{status}");
    }
}

fn restore(archive: &Path, data_dir: &Path) -> Output {
    cuckood()
        .args(["restore", "--backup"])
        .arg(archive)
        .arg("--data-dir")
        .arg(data_dir)
        .output()
        .unwrap()
}

fn archive(directory: &Path, id: &str) -> PathBuf {
    directory.join(format!("cuckood-{id}.tar"))
}

/// Starts a server on what was restored and sees that it holds the first items
/// and no others, from `at_least` to `at_most` of them.
fn is_a_state_that_existed(data_dir: &Path, at_least: u64, at_most: u64) {
    let server = Server::start(data_dir, &[]);
    let (first, second) = (server.items("first"), server.items("second"));
    assert!(
        first == second || first == second + 1,
        "{first} in the first filter, {second} in the second"
    );
    assert!(
        (at_least..=at_most + 1).contains(&first) && second >= at_least,
        "{first} items, {at_least} to {at_most} were acknowledged"
    );
    for (filter, items) in [("first", first), ("second", second)] {
        let asked: Vec<String> = (0..items + 1000).map(item).collect();
        let found = server.post_lines(&format!("/filters/{filter}/exists"), &asked);
        let found = found.unwrap();
        let (known, unknown) = found.split_at(items as usize);
        assert!(known.iter().all(|found| found == "true"));
        let wrong = unknown.iter().filter(|found| *found == "true").count();
        assert!(wrong < 50, "{wrong} of 1000 later items are found");
    }
    server.stop();
}

#[test]
fn a_backup_under_load_is_a_state_that_existed() {
    let place = tempfile::tempdir().unwrap();
    let backups = place.path().join("backups");
    let (backup_dir, keep) = (
        format!("--backup-dir={}", backups.display()),
        format!("--backup-keep={KEPT}"),
    );
    let flags = [TIGHT, &[&backup_dir, &keep]].concat();
    let server = Server::start(&place.path().join("data"), &flags);
    for filter in ["first", "second"] {
        server.create_filter(filter, &json!({"capacity": 100_000}));
    }
    server.create_filter("noise", &json!({"capacity": 4_000_000}));

    let (added, stop) = (AtomicU64::new(0), AtomicBool::new(false));
    let taken: Vec<(String, u64, u64)> = thread::scope(|scope| {
        scope.spawn(|| follow(&server, &added, &stop));
        scope.spawn(|| disturb(&server, &stop));
        let taken = (0..TAKEN)
            .map(|_| {
                thread::sleep(Duration::from_millis(300));
                let at_least = added.load(Ordering::SeqCst);
                let id = back_up(&server);
                (id, at_least, added.load(Ordering::SeqCst))
            })
            .collect();
        stop.store(true, Ordering::Relaxed);
        taken
    });
    assert!(server.metric("cuckood_checkpoint_slices_total") > 10.0);
    let list = server.get_json("/admin/backups");
    assert_eq!(list["backups"].as_array().unwrap().len(), KEPT);
    let (newest, at_least, at_most) = taken.last().unwrap().clone();
    let download = server
        .client()
        .get(server.url(&format!("/admin/backups/{newest}")))
        .sent()
        .unwrap()
        .bytes()
        .unwrap();
    server.stop();

    assert!(!archive(&backups, &taken[0].0).exists());
    for (id, at_least, at_most) in &taken[TAKEN - KEPT..] {
        println!("backup {id}: {at_least} to {at_most} items");
        let data_dir = place.path().join("restored").join(id);
        let restored = restore(&archive(&backups, id), &data_dir);
        let said = String::from_utf8_lossy(&restored.stderr);
        assert!(restored.status.success(), "{said}");
        is_a_state_that_existed(&data_dir, *at_least, *at_most);
    }
    let downloaded = place.path().join("downloaded.tar");
    std::fs::write(&downloaded, download).unwrap();
    let data_dir = place.path().join("from_download");
    std::fs::create_dir(&data_dir).unwrap();
    assert!(restore(&downloaded, &data_dir).status.success());
    is_a_state_that_existed(&data_dir, at_least, at_most);
}

#[test]
fn a_damaged_backup_is_refused_and_nothing_is_overwritten() {
    let place = tempfile::tempdir().unwrap();
    let backups = place.path().join("backups");
    let data = place.path().join("data");
    let backup_dir = format!("--backup-dir={}", backups.display());
    let server = Server::start(&data, &[&backup_dir]);
    server.create_filter("seen", &json!({"capacity": 100_000}));
    let items: Vec<String> = (0..10_000).map(item).collect();
    server.post_lines("/filters/seen/items", &items).unwrap();
    let whole = archive(&backups, &back_up(&server));
    server.stop();
    let bytes = std::fs::read(&whole).unwrap();

    let damaged = place.path().join("damaged.tar");
    let elsewhere = place.path().join("elsewhere");
    let mut middle = bytes.clone();
    let at = middle.len() / 2;
    middle[at] ^= 1;
    let cut = &bytes[..bytes.len() * 3 / 4];
    for (content, word) in [
        (&middle[..], "damaged"),
        (cut, "damaged"),
        (b"nonsense", "a dump is restored with PUT /filters/KEY/dump"),
        (b"", "damaged"),
    ] {
        std::fs::write(&damaged, content).unwrap();
        let refused = restore(&damaged, &elsewhere);
        let said = String::from_utf8_lossy(&refused.stderr);
        assert_eq!(refused.status.code(), Some(1), "{said}");
        assert!(
            said.contains(word) && said.trim().lines().count() == 1,
            "{said}"
        );
        assert!(!elsewhere.exists());
    }
    let refused = restore(&whole, &data);
    let said = String::from_utf8_lossy(&refused.stderr);
    assert_eq!(refused.status.code(), Some(1), "{said}");
    assert!(said.contains("not empty"), "{said}");
    let left: Vec<_> = std::fs::read_dir(place.path())
        .unwrap()
        .map(|entry| entry.unwrap().file_name())
        .collect();
    assert_eq!(left.len(), 3, "{left:?}");

    let restored = restore(&whole, &elsewhere);
    let said = String::from_utf8_lossy(&restored.stdout);
    assert!(
        restored.status.success() && said.contains("10000 items"),
        "{said}"
    );
}

#[test]
fn a_job_asks_for_a_backup_and_restores_it_before_the_first_start_only() {
    let place = tempfile::tempdir().unwrap();
    let backups = place.path().join("backups");
    let backup_dir = format!("--backup-dir={}", backups.display());
    let server = Server::start(&place.path().join("data"), &[&backup_dir]);
    server.create_filter("seen", &json!({"capacity": 1_000}));
    server
        .post_lines("/filters/seen/items", &[item(1)])
        .unwrap();
    let job = |port: u16| {
        cuckood()
            .args(["backup", "--server", &format!("localhost:{port}")])
            .output()
            .unwrap()
    };
    let done = job(server.port());
    let said = String::from_utf8_lossy(&done.stdout);
    assert!(done.status.success(), "{said}{:?}", done.stderr);
    let id = said.split(' ').nth(1).unwrap().to_owned();
    assert!(said.contains("is complete"), "{said}");
    let port = server.port();
    server.stop();
    let refused = job(port);
    assert_eq!(refused.status.code(), Some(1));

    let data_dir = place.path().join("volume").join("data");
    let missing = restore(&archive(&backups, "missing"), &data_dir);
    let said = String::from_utf8_lossy(&missing.stderr);
    assert!(said.contains("cuckood-missing.tar: "), "{said}");
    let prepare = || {
        let done = cuckood()
            .args(["restore", "--unless-present", "--backup"])
            .arg(archive(&backups, &id))
            .arg("--data-dir")
            .arg(&data_dir)
            .output()
            .unwrap();
        assert!(done.status.success(), "{:?}", done.stderr);
        String::from_utf8(done.stdout).unwrap()
    };
    assert!(prepare().starts_with("restored"));
    let server = Server::start(&data_dir, &[]);
    assert_eq!(server.items("seen"), 1);
    server
        .post_lines("/filters/seen/items", &[item(2)])
        .unwrap();
    server.stop();
    assert!(prepare().starts_with("kept"));
    let server = Server::start(&data_dir, &[]);
    assert_eq!(server.items("seen"), 2);
    let off = job(server.port());
    let said = String::from_utf8_lossy(&off.stderr);
    assert!(
        said.contains("403") && said.contains("--backup-dir"),
        "{said}"
    );
}

/// Stores pages of a filter that there is none of, as another program might.
fn leave_pages_of_no_filter(data_dir: &Path) {
    let rocks = RocksStore::open(data_dir, RocksOptions::default()).unwrap();
    let store = PageStore::open(Arc::new(rocks)).unwrap();
    let page = PageId {
        filter: FilterId(1 << 40),
        ordinal: Ordinal(0),
        page: PageIndex(0),
    };
    store.checkpoint(&[(page, vec![1])], Sequence(0)).unwrap();
    store.sync().unwrap();
}

#[test]
fn damage_of_no_filter_is_removed_by_a_repair_and_backups_are_complete_again() {
    let place = tempfile::tempdir().unwrap();
    let data_dir = place.path().join("data");
    let backup_dir = format!("--backup-dir={}", place.path().join("backups").display());
    let check = |flags: &[&str]| {
        let mut command = cuckood();
        let done = command.args(["check", "--data-dir"]).arg(&data_dir);
        let done = done.args(flags).output().unwrap();
        let said = [done.stdout, done.stderr].concat();
        (done.status.success(), String::from_utf8(said).unwrap())
    };
    let server = Server::start(&data_dir, &[]);
    server.create_filter("seen", &json!({"capacity": 1_000}));
    let items: Vec<String> = (0..500).map(item).collect();
    server.post_lines("/filters/seen/items", &items).unwrap();
    server.stop();
    leave_pages_of_no_filter(&data_dir);

    let server = Server::start(&data_dir, &[&backup_dir]);
    let begun = server.client().post(server.url("/admin/backups"));
    let begun: Value = begun.sent().unwrap().json().unwrap();
    let status = format!("/admin/backups/{}/status", begun["id"].as_str().unwrap());
    let began = Instant::now();
    let failed = loop {
        let status = server.get_json(&status);
        if status["state"] == "failed" {
            break status.to_string();
        }
        assert!(began.elapsed() < Duration::from_secs(60), "{status}");
        thread::sleep(Duration::from_millis(20));
    };
    assert!(failed.contains("cuckood check --repair"), "{failed}");
    server.stop();

    for _ in 0..2 {
        let (is_sound, said) = check(&[]);
        assert!(!is_sound && said.contains("1 fault was found"), "{said}");
    }
    let (is_sound, said) = check(&["--repair"]);
    assert!(
        is_sound && said.contains("the pages of 1 sub-filters"),
        "{said}"
    );
    assert!(check(&[]).0);
    let server = Server::start(&data_dir, &[&backup_dir]);
    assert_eq!(server.items("seen"), 500);
    back_up(&server);
}
