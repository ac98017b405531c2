//! The audit log: one line for each act that ends or replaces a filter, and for
//! operators' acts, whatever becomes of them.

use crate::gated::{Failing, GatedStore, Point};
use crate::keys::Keyed;
use crate::listening::{AuditLine, audited};
use crate::memory::MemoryStore;
use crate::server::{Answer, Setup};
use cuckood::access::Scope;
use cuckood::access::token::Token;
use cuckood::backup::BackupOptions;
use cuckood::engine::{Clock, DiskReserve};
use reqwest::Method;
use serde_json::json;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};
use tokio::io::AsyncWriteExt as _;
use tokio::net::TcpStream;
use tokio::time::sleep;

const DUMP: &str = "application/octet-stream";

/// What a line says, in this order: action, caller, note, outcome, code.
fn said(line: &AuditLine) -> [&str; 5] {
    ["action", "caller", "note", "outcome", "code"]
        .map(|field| line.get(field).map_or("-", String::as_str))
}

/// The one line about a request.
#[track_caller]
fn line_of(answer: &Answer) -> AuditLine {
    let id = answer.header("x-request-id");
    let [line] = audited("request_id", id).try_into().unwrap();
    assert_eq!(line["status"], answer.status.to_string());
    line
}

async fn ask(keyed: &Keyed, token: &Token, method: Method, path: &str) -> Answer {
    Answer::of(keyed.request(token, method, path)).await
}

async fn patch(keyed: &Keyed, token: &Token, path: &str, ttl: Option<u64>) -> Answer {
    let request = keyed.request(token, Method::PATCH, path);
    Answer::of(request.json(&json!({"ttl_seconds": ttl}))).await
}

async fn restore(keyed: &Keyed, token: &Token, path: &str, dump: &[u8]) -> Answer {
    let request = keyed.request(token, Method::PUT, path);
    Answer::of(request.header("content-type", DUMP).body(dump.to_vec())).await
}

#[tokio::test]
async fn each_act_has_one_line_that_says_who_did_what_to_which_filter() {
    let (keyed, root) = Keyed::with(Setup::default()).await;
    assert_eq!(keyed.put(&root, "/filters/audit-one").await.status, 201);
    let dump = keyed.get(&root, "/filters/audit-one/dump").await.bytes;
    let (one, two) = ("/filters/audit-one", "/filters/audit-two");
    let set = patch(&keyed, &root, one, Some(3600)).await;
    let unset = patch(&keyed, &root, one, None).await;
    let created = restore(&keyed, &root, &format!("{two}/dump"), &dump).await;
    let replaced = restore(&keyed, &root, &format!("{two}/dump?replace=true"), &dump).await;
    let path = "/filters/audit-three";
    let sibling = keyed.request(&root, Method::PUT, path);
    let sibling = sibling.json(&json!({"sibling_of": "audit-one"})).send();
    assert_eq!(sibling.await.unwrap().status(), 201);
    let merge = json!({"from": ["audit-three"]});
    let merged = keyed.post(&root, &format!("{one}/merge"), merge).await;
    let compacted = ask(&keyed, &root, Method::POST, &format!("{one}/compact")).await;
    let deleted = ask(&keyed, &root, Method::DELETE, two).await;
    for (answer, filter, expected) in [
        (&set, "audit-one", ["patch_filter", "ttl_seconds=3600"]),
        (&unset, "audit-one", ["patch_filter", "ttl_seconds=none"]),
        (&created, "audit-two", ["restore_filter", "created"]),
        (&replaced, "audit-two", ["restore_filter", "replaced"]),
        (&merged, "audit-one", ["merge_filter", "merged audit-three"]),
        (&compacted, "audit-one", ["compact_filter", "-"]),
        (&deleted, "audit-two", ["delete_filter", "-"]),
    ] {
        let line = line_of(answer);
        let [action, note] = expected;
        assert_eq!(said(&line), [action, "root", note, "done", "-"]);
        assert_eq!(line["filter"], filter);
    }
    // Everything else has none.
    let items = json!({"items": ["audit-item"]});
    for path in ["items", "exists", "items/delete"] {
        let answer = keyed
            .post(&root, &format!("{one}/{path}"), items.clone())
            .await;
        assert_eq!(answer.status, 200);
    }
    assert_eq!(audited("filter", "audit-one").len(), 4);
    assert_eq!(audited("filter", "audit-two").len(), 3);
}

#[tokio::test]
async fn an_act_that_is_refused_has_its_line_and_is_marked() {
    let (keyed, root) = Keyed::with(Setup::default()).await;
    let writer = keyed.add("writer", Scope::Write, None);
    let narrow = keyed.add("narrow", Scope::Admin, Some("other:"));
    let stranger = Token::generate().unwrap();
    let path = "/filters/audit-kept";
    assert_eq!(keyed.put(&root, path).await.status, 201);
    let (dump, replace) = (format!("{path}/dump"), format!("{path}/dump?replace=true"));
    let delete = async |token| ask(&keyed, token, Method::DELETE, path).await;
    let refused = [
        (delete(&writer).await, "writer", "scope_insufficient"),
        (delete(&narrow).await, "narrow", "filter_forbidden"),
        (delete(&stranger).await, "-", "api_key_unknown"),
        (
            patch(&keyed, &writer, path, Some(1)).await,
            "writer",
            "scope_insufficient",
        ),
        (
            patch(&keyed, &root, path, Some(0)).await,
            "root",
            "invalid_fields",
        ),
        (
            restore(&keyed, &writer, &replace, b"").await,
            "writer",
            "scope_insufficient",
        ),
        (
            restore(&keyed, &root, &dump, b"").await,
            "root",
            "filter_taken",
        ),
        (
            restore(&keyed, &root, &replace, b"no dump").await,
            "root",
            "corrupt_dump",
        ),
    ];
    for (answer, caller, code) in &refused {
        let line = line_of(answer);
        let [_, said_caller, _, outcome, said_code] = said(&line);
        assert_eq!(
            [said_caller, outcome, said_code],
            [*caller, "refused", *code]
        );
        assert_eq!(line["filter"], "audit-kept");
    }
    let missing = ask(&keyed, &root, Method::DELETE, "/filters/audit-missing").await;
    let line = line_of(&missing);
    assert_eq!(said(&line)[3..], ["refused", "filter_not_found"]);
    // What is no name of a filter is not written down.
    let nameless = ask(&keyed, &root, Method::DELETE, "/filters/audit%20nameless").await;
    assert!(!line_of(&nameless).contains_key("filter"));
    // Nor is there a line where nothing of the kind was asked.
    let method = ask(&keyed, &root, Method::DELETE, "/filters").await;
    assert_eq!(
        audited("request_id", method.header("x-request-id")).len(),
        0
    );
    assert_eq!(audited("filter", "audit-kept").len(), refused.len());
}

#[tokio::test]
async fn an_answer_that_is_sent_again_is_no_second_deletion() {
    let (keyed, root) = Keyed::with(Setup::default()).await;
    assert_eq!(keyed.put(&root, "/filters/audit-again").await.status, 201);
    let delete = || {
        let request = keyed.request(&root, Method::DELETE, "/filters/audit-again");
        Answer::of(request.header("idempotency-key", "once"))
    };
    for outcome in ["done", "replayed"] {
        let line = line_of(&delete().await);
        assert_eq!(said(&line), ["delete_filter", "root", "-", outcome, "-"]);
    }
}

fn gated() -> (GatedStore, Setup) {
    let store = GatedStore::new(Arc::new(MemoryStore::new()));
    let setup = Setup::over(&store);
    (store, setup)
}

#[tokio::test]
async fn an_act_whose_outcome_is_not_known_says_so() {
    let (store, setup) = gated();
    let (keyed, root) = Keyed::with(setup).await;
    let path = "/filters/audit-doubtful";
    assert_eq!(keyed.put(&root, path).await.status, 201);
    store.fail_commits(Failing::Before);
    let deleted = ask(&keyed, &root, Method::DELETE, path).await;
    store.fail_commits(Failing::Nothing);
    deleted.problem(500, "outcome_unknown");
    let line = line_of(&deleted);
    assert_eq!(said(&line)[3..], ["unknown", "outcome_unknown"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_act_that_is_written_after_its_deadline_is_not_called_refused() {
    let (store, setup) = gated();
    let (keyed, root) = Keyed::with(setup).await;
    let path = "/filters/audit-late";
    assert_eq!(keyed.put(&root, path).await.status, 201);
    store.hold_first(Point::CommitDone);
    let delete = keyed.request(&root, Method::DELETE, path);
    let deleted = Answer::of(delete.header("prefer", "wait=1")).await;
    store.open();
    deleted.problem(500, "outcome_unknown");
    let line = line_of(&deleted);
    assert_eq!(said(&line)[3..], ["unknown", "outcome_unknown"]);
}

#[tokio::test]
async fn an_act_whose_client_does_not_wait_has_its_line_once_it_is_done() {
    let (store, setup) = gated();
    let (keyed, root) = Keyed::with(setup).await;
    assert_eq!(keyed.put(&root, "/filters/audit-left").await.status, 201);
    store.hold_first(Point::CommitDone);
    let mut stream = TcpStream::connect(keyed.server.address).await.unwrap();
    let head = format!(
        "DELETE /filters/audit-left HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer {}\r\n\r\n",
        root.as_str()
    );
    stream.write_all(head.as_bytes()).await.unwrap();
    store.arrival().await;
    drop(stream);
    sleep(Duration::from_millis(200)).await;
    assert_eq!(audited("filter", "audit-left").len(), 0);
    store.open();
    let started = Instant::now();
    while audited("filter", "audit-left").is_empty() {
        assert!(started.elapsed() < Duration::from_secs(20));
        sleep(Duration::from_millis(10)).await;
    }
    sleep(Duration::from_millis(100)).await;
    let [line] = audited("filter", "audit-left").try_into().unwrap();
    assert_eq!(said(&line), ["delete_filter", "root", "-", "done", "-"]);
    assert_eq!(keyed.get(&root, "/filters/audit-left").await.status, 404);
}

#[tokio::test]
async fn backups_are_begun_and_fetched_by_somebody() {
    let folder = tempfile::tempdir().unwrap();
    let (store, setup) = gated();
    store.freeze_to(100_000);
    let setup = Setup {
        backups: Some(BackupOptions {
            directory: folder.path().join("backups"),
            keep: 1,
            disk_reserve: DiskReserve::Usual,
        }),
        ..setup
    };
    let (keyed, root) = Keyed::with(setup).await;
    let begun = ask(&keyed, &root, Method::POST, "/admin/backups").await;
    let id = begun.ok()["id"].as_str().unwrap().to_owned();
    assert_eq!(
        said(&line_of(&begun)),
        ["create_backup", "root", id.as_str(), "done", "-"]
    );
    let status = format!("/admin/backups/{id}/status");
    while keyed.get(&root, &status).await.ok()["state"] != "complete" {
        sleep(Duration::from_millis(10)).await;
    }
    let path = format!("/admin/backups/{id}");
    let fetched = keyed.get(&root, &path).await;
    let line = line_of(&fetched);
    assert_eq!(said(&line), ["download_backup", "root", "-", "done", "-"]);
    assert_eq!(line["backup"], id);
    let asked = keyed.get(&root, &status).await;
    assert_eq!(audited("request_id", asked.header("x-request-id")).len(), 0);
}

#[tokio::test]
async fn the_clock_is_confirmed_by_somebody() {
    let (wall_ms, since_boot_ms) = (Arc::new(AtomicU64::new(1 << 40)), Arc::default());
    let mut setup = Setup::default();
    setup.engine.clock = Clock::Both {
        wall_ms: Arc::clone(&wall_ms),
        since_boot_ms,
    };
    let (keyed, root) = Keyed::with(setup).await;
    let writer = keyed.add("writer", Scope::Write, None);
    wall_ms.fetch_add(86_400_000, Ordering::SeqCst);
    let path = "/admin/clock/confirm";
    let refused = ask(&keyed, &writer, Method::POST, path).await;
    let line = line_of(&refused);
    let expected = [
        "confirm_clock",
        "writer",
        "-",
        "refused",
        "scope_insufficient",
    ];
    assert_eq!(said(&line), expected);
    for note in ["jump_seconds=86400", "jump_seconds=none"] {
        let confirmed = ask(&keyed, &root, Method::POST, path).await;
        assert_eq!(confirmed.status, 200);
        let line = line_of(&confirmed);
        assert_eq!(said(&line), ["confirm_clock", "root", note, "done", "-"]);
    }
    // Who only looks has none.
    let asked = keyed.get(&root, "/admin/clock").await;
    assert_eq!(audited("request_id", asked.header("x-request-id")).len(), 0);
}
