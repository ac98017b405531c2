use crate::gated::{GatedStore, Point};
use crate::memory::MemoryStore;
use crate::server::{Answer, Server, Setup, expect_detail};
use cuckood::backup::BackupOptions;
use cuckood::backup::archive::{Progress, verify};
use cuckood::engine::DiskReserve;
use reqwest::Method;
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tempfile::TempDir;

struct Backed {
    server: Server,
    store: GatedStore,
    directory: TempDir,
}

async fn backed(keep: usize) -> Backed {
    let store = GatedStore::new(Arc::new(MemoryStore::new()));
    let directory = tempfile::tempdir().unwrap();
    let server = Server::with(Setup {
        store: Arc::new(store.clone()),
        backups: Some(BackupOptions {
            directory: directory.path().join("backups"),
            keep,
            disk_reserve: DiskReserve::Usual,
        }),
        ..Setup::default()
    })
    .await;
    Backed {
        server,
        store,
        directory,
    }
}

impl Backed {
    async fn post(&self) -> Answer {
        Answer::of(self.server.request(Method::POST, "/admin/backups")).await
    }

    /// Begins a backup and returns its name.
    async fn begin(&self) -> String {
        let begun = self.post().await;
        assert_eq!(begun.status, 202, "{}", begun.text());
        let id = begun.ok()["id"].as_str().unwrap().to_owned();
        let status = format!("/admin/backups/{id}/status");
        assert_eq!(begun.header("location"), status);
        id
    }

    /// Waits until a backup is neither being written nor verified.
    async fn ended(&self, id: &str) -> Value {
        let started = Instant::now();
        loop {
            let status = format!("/admin/backups/{id}/status");
            let status = self.server.get(&status).await.ok();
            if !["writing", "verifying"].contains(&status["state"].as_str().unwrap()) {
                return status;
            }
            assert!(started.elapsed() < Duration::from_secs(20), "{status}");
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    async fn names(&self) -> Vec<String> {
        let list = self.server.get("/admin/backups").await.ok();
        let backups = list["backups"].as_array().unwrap();
        let name = |backup: &Value| backup["id"].as_str().unwrap().to_owned();
        backups.iter().map(name).collect()
    }

    fn files(&self) -> usize {
        let directory = self.directory.path().join("backups");
        std::fs::read_dir(directory).unwrap().count()
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_backup_is_followed_listed_and_downloaded() {
    let backed = backed(7).await;
    let bytes = 1_000_000;
    backed.store.freeze_to(bytes);
    backed.store.hold_first(Point::FrozenOpen);
    let id = backed.begin().await;

    let status = format!("/admin/backups/{id}/status");
    let writing = backed.server.get(&status).await.ok();
    assert_eq!(writing["state"], "writing");
    assert_eq!(writing["done_bytes"], 0);
    assert!(writing["bytes"].as_u64().unwrap() > bytes);
    let second = backed.post().await;
    let problem = second.problem(409, "backup_running");
    expect_detail(&problem, &id);
    let path = format!("/admin/backups/{id}");
    backed
        .server
        .get(&path)
        .await
        .problem(409, "backup_running");
    assert_eq!(backed.names().await, std::slice::from_ref(&id));

    backed.store.arrival().await;
    backed.store.open();
    let complete = backed.ended(&id).await;
    assert_eq!(complete["state"], "complete");
    assert_eq!(complete["bytes"], writing["bytes"]);
    assert_eq!(complete["done_bytes"], writing["bytes"]);
    let list = backed.server.get("/admin/backups").await.ok();
    assert_eq!(list, json!({"backups": [complete], "keep": 7}));

    let download = backed
        .server
        .request(Method::GET, &path)
        .header("accept-encoding", "gzip");
    let download = Answer::of(download).await;
    assert_eq!(download.status, 200);
    assert_eq!(download.header("content-type"), "application/x-tar");
    assert_eq!(download.header("content-encoding"), "");
    assert_eq!(
        download.header("content-disposition"),
        format!("attachment; filename=\"cuckood-{id}.tar\"")
    );
    assert_eq!(
        download.header("content-length"),
        complete["bytes"].to_string()
    );
    assert_eq!(download.bytes.len() as u64, complete["bytes"]);
    verify(&download.bytes[..], &Progress::default()).unwrap();

    let metrics = backed.server.get("/metrics").await;
    assert!(
        metrics
            .text()
            .contains("cuckood_backups_total{outcome=\"complete\"} 1\n")
    );
    assert!(
        !metrics
            .text()
            .contains("cuckood_last_backup_timestamp_seconds 0\n")
    );
}

#[tokio::test]
async fn the_newest_backup_is_a_figure_only_of_a_server_that_makes_some() {
    const NAME: &str = "cuckood_last_backup_timestamp_seconds";
    let without = Server::start().await;
    assert!(!without.get("/metrics").await.text().contains(NAME));
    let with = backed(2).await;
    let metrics = with.server.get("/metrics").await;
    assert!(metrics.text().contains(&format!("{NAME} 0\n")));
}

#[tokio::test]
async fn only_as_many_backups_are_kept_as_asked_for() {
    let backed = backed(2).await;
    backed.store.freeze_to(10_000);
    let mut made = Vec::new();
    for _ in 0..4 {
        let id = backed.begin().await;
        assert_eq!(backed.ended(&id).await["state"], "complete");
        made.push(id);
    }
    let keyed = backed.server.request(Method::POST, "/admin/backups");
    let keyed = Answer::of(keyed.header("idempotency-key", "k")).await;
    keyed.problem(422, "idempotency_key_not_taken");
    let kept: Vec<String> = made.iter().rev().take(2).cloned().collect();
    assert_eq!(backed.names().await, kept);
    assert_eq!(backed.files(), 2);
    for path in ["", "/status"] {
        let gone = format!("/admin/backups/{}{path}", made[0]);
        let gone = backed.server.get(&gone).await;
        gone.problem(404, "backup_not_found");
        let odd = format!("/admin/backups/..%2Fx{path}");
        let odd = backed.server.get(&odd).await;
        odd.problem(404, "backup_not_found");
    }
}

#[tokio::test]
async fn a_backup_that_does_not_fit_on_the_disk_is_refused() {
    let backed = backed(2).await;
    backed.store.freeze_to(1 << 60);
    let problem = backed.post().await.problem(507, "no_room");
    expect_detail(&problem, "--backup-keep");
    assert_eq!(backed.files(), 0);
    // And nothing is in the way of the next one.
    backed.store.freeze_to(100);
    let id = backed.begin().await;
    assert_eq!(backed.ended(&id).await["state"], "complete");
}

#[tokio::test]
async fn a_backup_that_fails_says_so_and_leaves_nothing() {
    let backed = backed(2).await;
    backed.store.freeze_to(5_000_000);
    backed.store.hold_first(Point::FrozenOpen);
    let id = backed.begin().await;
    backed.store.arrival().await;
    let directory = backed.directory.path().join("backups");
    // As if somebody had cleaned up: the archive can't get its name.
    std::fs::remove_dir_all(&directory).unwrap();
    std::fs::create_dir(&directory).unwrap();
    backed.store.open();
    let failed = backed.ended(&id).await;
    assert_eq!(failed["state"], "failed");
    assert!(failed["failure"].as_str().unwrap().len() > 10);
    assert_eq!(backed.names().await, [id]);
    assert_eq!(backed.files(), 0);
}

#[tokio::test]
async fn a_server_without_a_directory_makes_no_backups() {
    let server = Server::start().await;
    let post = Answer::of(server.request(Method::POST, "/admin/backups")).await;
    let problem = post.problem(403, "backups_off");
    expect_detail(&problem, "--backup-dir");
    for path in ["", "/20261121T114517Z", "/20261121T114517Z/status"] {
        let answer = server.get(&format!("/admin/backups{path}")).await;
        answer.problem(403, "backups_off");
    }
    // A store in memory has no files.
    let backed = backed(1).await;
    backed.post().await.problem(403, "backups_off");
}
