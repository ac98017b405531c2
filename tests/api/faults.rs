use crate::gated::{Failing, GatedStore};
use crate::memory::MemoryStore;
use crate::server::{Server, Setup};
use cuckood::page::{Ordinal, PageId, PageIndex};
use cuckood::store::PageStore;
use cuckood::store::format::StoredValue;
use serde_json::json;
use std::sync::Arc;

#[tokio::test]
async fn a_failed_commit_leaves_the_outcome_open_and_says_so() {
    let store = GatedStore::new(Arc::new(MemoryStore::new()));
    let server = Server::with(Setup::over(&store)).await;
    server.put("/filters/f", json!({})).await.ok();
    store.fail_commits(Failing::Before);
    let answer = server
        .post("/filters/f/items", json!({"items": ["secret-item"]}))
        .await;
    let problem = answer.problem(500, "outcome_unknown");
    assert!(!problem.to_string().contains("secret-item"));
    // Until it is known, changes are turned away and questions answered.
    server
        .post("/filters/f/items", json!({"items": ["b"]}))
        .await
        .problem(503, "overloaded");
    assert_eq!(
        server.get("/filters/f/exists?item=secret-item").await.ok(),
        json!({"exists": false})
    );
    store.fail_commits(Failing::Nothing);
}

#[tokio::test]
async fn a_damaged_page_is_an_error_and_never_an_answer() {
    let memory = MemoryStore::new();
    let server = Server::with(Setup {
        store: Arc::new(memory.clone()),
        ..Setup::default()
    })
    .await;
    server.put("/filters/f", json!({})).await.ok();
    server
        .post("/filters/f/items", json!({"items": ["a"]}))
        .await
        .ok();
    server.stop().await;

    let store = PageStore::open(Arc::new(memory.clone())).unwrap();
    let filter = store.filter_by_name("f").unwrap().unwrap().id;
    let page = PageId {
        filter,
        ordinal: Ordinal(0),
        page: PageIndex(0),
    };
    assert!(memory.damage(&StoredValue::Page(page), 7));
    let server = Server::with(Setup {
        store: Arc::new(memory),
        ..Setup::default()
    })
    .await;
    let answer = server.get("/filters/f/exists?item=a").await;
    let problem = answer.problem(500, "storage_failed");
    assert!(
        !problem["detail"].as_str().unwrap().contains("page"),
        "{problem}"
    );
    server.get("/filters/f").await.ok();
}
