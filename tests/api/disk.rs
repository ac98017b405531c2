use crate::gated::GatedStore;
use crate::memory::MemoryStore;
use crate::server::{Answer, Server, Setup, expect_detail};
use cuckood::backup::BackupOptions;
use cuckood::engine::{DiskReserve, Writes};
use cuckood::store::Condition;
use cuckood::store::disk::DiskSpace;
use reqwest::Method;
use serde_json::json;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tempfile::TempDir;

const RESERVE: u64 = 1_000_000;

fn with_free(free_bytes: u64) -> Condition {
    Condition {
        disk: Some(DiskSpace {
            free_bytes,
            size_bytes: 1 << 30,
            device: 1,
        }),
        writes: Writes::Taken,
    }
}

async fn started() -> (GatedStore, Server, TempDir) {
    let store = GatedStore::new(Arc::new(MemoryStore::new()));
    store.set_condition(with_free(2 * RESERVE));
    let backups = tempfile::tempdir().unwrap();
    let mut setup = Setup {
        store: Arc::new(store.clone()),
        backups: Some(BackupOptions {
            directory: backups.path().to_owned(),
            keep: 1,
            disk_reserve: DiskReserve::Bytes(RESERVE),
        }),
        ..Setup::default()
    };
    setup.engine.disk_reserve = DiskReserve::Bytes(RESERVE);
    let server = Server::with(setup).await;
    server.put("/filters/f", json!({})).await.ok();
    let items = json!({"items": ["a", "b"]});
    server.post("/filters/f/items", items).await.ok();
    (store, server, backups)
}

/// Waits until `/readyz` says this, and nothing else beside `ok`.
async fn readyz_says(server: &Server, names: &[&str]) -> String {
    let started = Instant::now();
    loop {
        let answer = server.get("/readyz").await;
        assert_eq!(answer.status, 200);
        let mut lines = answer.text().lines();
        assert_eq!(lines.next(), Some("ok"));
        let said: Vec<&str> = lines.map(|line| line.split_once(": ").unwrap().0).collect();
        if said == names {
            return answer.text().to_owned();
        }
        assert!(started.elapsed() < Duration::from_secs(10), "{said:?}");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

#[tokio::test]
async fn below_the_reserve_changes_get_507_and_questions_are_answered() {
    let (store, server, _backups) = started().await;
    let dump = server.get("/filters/f/dump").await;
    assert_eq!(dump.status, 200);
    store.set_condition(with_free(RESERVE - 1));
    let said = readyz_says(&server, &["disk_reserve"]).await;
    assert!(
        said.contains("999999") && said.contains("1000000"),
        "{said}"
    );

    let items = || json!({"items": ["secret"]});
    let refused = server.post("/filters/f/items", items()).await;
    let problem = refused.problem(507, "disk_reserve");
    let detail = problem["detail"].as_str().unwrap();
    for said in ["999999", "1000000", "--disk-reserve", "nothing was changed"] {
        assert!(detail.contains(said), "{detail}");
    }
    let patched = server.request(Method::PATCH, "/filters/f");
    let patched = Answer::of(patched.json(&json!({"ttl_seconds": 5}))).await;
    let restored = server.request(Method::PUT, "/filters/h/dump");
    let restored = restored
        .header("content-type", "application/octet-stream")
        .body(dump.bytes);
    for answer in [
        server.post("/filters/f/items/delete", items()).await,
        server.put("/filters/g", json!({})).await,
        server
            .send("/filters/f/import?import_id=i", "text/plain", "a\nb\n")
            .await,
        Answer::of(server.request(Method::POST, "/admin/backups")).await,
        patched,
        Answer::of(restored).await,
    ] {
        answer.problem(507, "disk_reserve");
    }
    let exists = server.get("/filters/f/exists?item=a").await.ok();
    assert_eq!(exists, json!({"exists": true}));
    server
        .get("/filters/h")
        .await
        .problem(404, "filter_not_found");
    let metrics = server.get("/metrics").await;
    for line in [
        "cuckood_disk_short 1",
        "cuckood_disk_reserve_bytes 1000000",
        "cuckood_storage_writes_refused 0",
        r#"cuckood_http_rejected_total{reason="disk_reserve"} 7"#,
    ] {
        assert!(metrics.text().contains(line), "{line}");
    }
    assert_eq!(server.delete("/filters/f").await.status, 204);

    store.set_condition(with_free(2 * RESERVE));
    readyz_says(&server, &[]).await;
    server.put("/filters/f", json!({})).await.ok();
    server.post("/filters/f/items", items()).await.ok();
}

#[tokio::test]
async fn a_disk_that_fills_up_while_a_change_is_written_gets_507_with_the_outcome_open() {
    let (store, server, _backups) = started().await;
    store.fill_disk(true);
    let add = || server.post("/filters/f/items", json!({"items": ["c"]}));
    let problem = add().await.problem(507, "disk_full");
    expect_detail(&problem, "Idempotency-Key");
    add().await.problem(507, "disk_reserve");
    let exists = server.get("/filters/f/exists?item=a").await.ok();
    assert_eq!(exists, json!({"exists": true}));
    store.fill_disk(false);
    let started = Instant::now();
    while add().await.status != 200 {
        assert!(started.elapsed() < Duration::from_secs(10));
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert_eq!(server.get("/filters/f").await.ok()["items"], 3);
}

#[tokio::test]
async fn readyz_names_what_keeps_changes_from_being_taken_but_no_file() {
    let (store, server, _backups) = started().await;
    let refusing = |is_disk_full| Condition {
        writes: Writes::Refused {
            reason: "IO error: /secret/path".to_owned(),
            is_disk_full,
        },
        ..with_free(2 * RESERVE)
    };
    for is_disk_full in [false, true] {
        store.set_condition(refusing(is_disk_full));
        let said = readyz_says(&server, &["storage_refuses"]).await;
        assert!(!said.contains("secret"), "{said}");
    }
    store.set_condition(Condition {
        writes: Writes::Stalled,
        ..with_free(2 * RESERVE)
    });
    readyz_says(&server, &["storage_stalled"]).await;
    store.set_condition(with_free(0));
    readyz_says(&server, &["disk_reserve"]).await;
}
