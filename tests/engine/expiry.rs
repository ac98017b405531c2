//! Filters that end, on a clock that the tests set.

use crate::gated::{Failing, GatedStore};
use crate::memory::MemoryStore;
use crate::support::{
    self, add, all_exist, batch, create, filter_count, items, name, number, options,
};
use cuckood::chain::params::FilterRequest;
use cuckood::engine::{AddOptions, Clock, Created, Engine, EngineError, EngineOptions, NewFilter};
use cuckood::store::KeyValueStore;
use cuckood::store::format::StoredValue;
use cuckood::store::kv::{Column, Durability, WriteBatch};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

const START_MS: u64 = 1_800_000_000_000;

/// A clock that stands until it is moved.
#[derive(Clone)]
struct Hands(Arc<AtomicU64>);

impl Hands {
    fn new() -> Hands {
        Hands(Arc::new(AtomicU64::new(START_MS)))
    }

    fn advance(&self, seconds: u64) {
        self.0.fetch_add(seconds * 1000, Ordering::SeqCst);
    }

    fn options(&self) -> EngineOptions {
        EngineOptions {
            clock: Clock::Set(Arc::clone(&self.0)),
            ..options(512)
        }
    }

    fn engine(&self, store: Arc<dyn KeyValueStore>) -> Engine {
        support::engine(store, &self.options())
    }
}

fn ending(ttl_seconds: u64) -> NewFilter {
    NewFilter {
        ttl_seconds: Some(ttl_seconds),
        ..NewFilter::default()
    }
}

async fn create_ending(engine: &Engine, filter: &str, ttl_seconds: u64) {
    let created = engine
        .create_filter(&name(filter), &ending(ttl_seconds), None)
        .await
        .unwrap()
        .answer;
    assert!(matches!(created, Created::New(_)), "{created:?}");
}

async fn is_there(engine: &Engine, filter: &str) -> bool {
    match engine.filter_info(&name(filter)).await {
        Ok(_) => true,
        Err(EngineError::NotFound { .. }) => false,
        Err(error) => panic!("{error}"),
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn damaged_entries_and_filters_do_not_keep_others_from_ending() {
    let (memory, hands) = (MemoryStore::new(), Hands::new());
    let engine = hands.engine(Arc::new(memory.clone()));
    // More than are removed at once, and the damaged ones come first.
    for n in 0..300 {
        create_ending(&engine, &format!("f{n}"), 100).await;
    }
    tokio::task::block_in_place(|| engine.shutdown().unwrap());
    drop(engine);
    for n in 0..280 {
        let meta = StoredValue::FilterMeta(number(&format!("f{n}"), n + 1));
        assert!(memory.damage(&meta, 20), "filter {n}");
    }
    let mut damaged = WriteBatch::default();
    for at_ms in 1..5u64 {
        damaged.put(Column::Due, &at_ms.to_be_bytes(), vec![1; 6]);
    }
    memory.write(damaged, Durability::Ordered).unwrap();
    let engine = hands.engine(Arc::new(memory.clone()));
    hands.advance(200);
    for _ in 0..200 {
        let kept = support::kept(&memory);
        let left = kept.due_entries(0, u64::MAX, 1_000).unwrap();
        if left.len() == 284 && kept.garbage().unwrap().is_empty() {
            tokio::task::block_in_place(|| engine.halt());
            return;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    panic!("sound filters do not end");
}

/// Waits until the store holds nothing that is due.
async fn until_removed(memory: &MemoryStore) {
    let store = support::kept(memory);
    for _ in 0..200 {
        let left = store.due(0, u64::MAX, 1).unwrap();
        if left.is_empty() && store.garbage().unwrap().is_empty() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    panic!("what has ended is still there");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_filter_that_has_ended_is_gone_at_once_and_removed_later() {
    let (memory, hands) = (MemoryStore::new(), Hands::new());
    let engine = hands.engine(Arc::new(memory.clone()));
    create(&engine, "stays", &FilterRequest::default()).await;
    create_ending(&engine, "ends", 60).await;
    add(&engine, "ends", 0..100).await;
    let id = support::kept(&memory)
        .filter_by_name("ends")
        .unwrap()
        .unwrap()
        .id;

    hands.advance(59);
    assert!(all_exist(&engine, "ends", 0..100).await);
    hands.advance(1);
    let (filter, always) = (name("ends"), AddOptions::default());
    let missing = |error: Option<EngineError>| matches!(error, Some(EngineError::NotFound { .. }));
    assert!(!is_there(&engine, "ends").await);
    assert!(missing(engine.exists(&filter, &batch([1])).await.err()));
    assert!(missing(engine.count(&filter, &batch([1])).await.err()));
    assert!(missing(
        engine.add(&filter, &batch([1]), &always, None).await.err()
    ));
    assert!(missing(
        engine.delete(&filter, &batch([1]), None).await.err()
    ));
    assert!(missing(engine.delete_filter(&filter, None).await.err()));
    assert!(missing(engine.set_ttl(&filter, None, None).await.err()));
    assert_eq!(filter_count(&engine).await, 1);

    until_removed(&memory).await;
    assert_eq!(support::kept(&memory).filter_by_id(id).unwrap(), None);
    assert!(is_there(&engine, "stays").await);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn the_name_of_a_filter_that_has_ended_is_free() {
    let (memory, hands) = (MemoryStore::new(), Hands::new());
    let engine = hands.engine(Arc::new(memory.clone()));
    // Both before and after the background pass came by.
    for round in 0..20 {
        create_ending(&engine, "f", 60).await;
        add(&engine, "f", 0..50).await;
        hands.advance(61);
        if round % 4 == 3 {
            until_removed(&memory).await;
        }
        let options = AddOptions {
            create: Some(ending(1000)),
            ..AddOptions::default()
        };
        match round % 2 {
            0 => create_ending(&engine, "f", 1000).await,
            _ => drop(
                engine
                    .add(&name("f"), &batch([7]), &options, None)
                    .await
                    .unwrap()
                    .answer,
            ),
        }
        assert_eq!(items(&engine, "f").await, round % 2);
        hands.advance(1001);
    }
    until_removed(&memory).await;
    assert!(
        support::kept(&memory)
            .list_filters("", None, 9)
            .unwrap()
            .is_empty()
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn an_end_can_be_moved_and_taken_away_and_survives_a_restart() {
    let (memory, hands) = (MemoryStore::new(), Hands::new());
    let mut engine = hands.engine(Arc::new(memory.clone()));
    for filter in ["later", "never", "sooner"] {
        create_ending(&engine, filter, 60).await;
    }
    engine
        .set_ttl(&name("later"), Some(600), None)
        .await
        .unwrap();
    engine.set_ttl(&name("never"), None, None).await.unwrap();
    let info = engine
        .set_ttl(&name("sooner"), Some(5), None)
        .await
        .unwrap()
        .answer;
    assert_eq!(info.expiry.unwrap().ttl_seconds, 5);
    hands.advance(5);
    for _ in 0..2 {
        assert!(!is_there(&engine, "sooner").await);
        assert!(is_there(&engine, "later").await && is_there(&engine, "never").await);
        engine = hands.engine(Arc::new(memory.fork()));
    }
    hands.advance(594);
    assert!(is_there(&engine, "later").await);
    hands.advance(1);
    assert!(!is_there(&engine, "later").await && is_there(&engine, "never").await);
    let listed = engine.list_filters("", "", None, 1).await.unwrap().filters;
    assert_eq!(listed.len(), 1, "those that have ended take no place");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_filter_agrees_with_the_time_to_live_that_it_was_given() {
    let hands = Hands::new();
    let engine = hands.engine(Arc::new(MemoryStore::new()));
    create_ending(&engine, "f", 60).await;
    hands.advance(30);
    let again = engine
        .create_filter(&name("f"), &ending(60), None)
        .await
        .unwrap()
        .answer;
    let Created::Existing(info) = again else {
        panic!("{again:?}")
    };
    let left_ms = info.expiry.unwrap().at_ms - info.created_at_ms;
    assert_eq!(left_ms, 60_000, "asking again does not extend it");
    let other = engine
        .create_filter(&name("f"), &ending(61), None)
        .await
        .unwrap()
        .answer;
    assert!(matches!(other, Created::Differs(..)));
    for refused in [0, cuckood::engine::MAX_TTL_SECONDS + 1] {
        let refused = engine
            .create_filter(&name("g"), &ending(refused), None)
            .await;
        assert!(matches!(refused, Err(EngineError::InvalidParams(_))));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_failed_commit_leaves_every_end_as_it_was() {
    for failing in [Failing::Before, Failing::After] {
        let (memory, hands) = (MemoryStore::new(), Hands::new());
        let store = GatedStore::new(Arc::new(memory.clone()));
        let options = EngineOptions {
            lanes: 1,
            ..hands.options()
        };
        let engine = support::engine(Arc::new(store.clone()), &options);
        create_ending(&engine, "f", 600).await;
        add(&engine, "f", 0..50).await;
        let before = support::kept(&memory).due(0, u64::MAX, 9).unwrap();

        let settle = async || {
            store.fail_commits(Failing::Nothing);
            tokio::time::sleep(Duration::from_millis(1200)).await;
        };
        store.fail_commits(failing);
        let moved = engine.set_ttl(&name("f"), Some(5), None).await;
        assert!(matches!(moved, Err(EngineError::OutcomeUnknown(_))));
        settle().await;
        assert_eq!(
            support::kept(&memory).due(0, u64::MAX, 9).unwrap(),
            before,
            "{failing:?}"
        );

        store.fail_commits(failing);
        assert!(engine.delete_filter(&name("f"), None).await.is_err());
        settle().await;
        assert_eq!(
            support::kept(&memory).due(0, u64::MAX, 9).unwrap(),
            before,
            "{failing:?}"
        );

        store.fail_commits(failing);
        let made = engine.create_filter(&name("g"), &ending(7), None).await;
        assert!(made.is_err());
        settle().await;
        assert_eq!(
            support::kept(&memory).due(0, u64::MAX, 9).unwrap(),
            before,
            "{failing:?}"
        );

        let crashed = hands.engine(Arc::new(memory.fork()));
        for engine in [&engine, &crashed] {
            let info = engine.filter_info(&name("f")).await.unwrap();
            assert_eq!(info.expiry.unwrap().ttl_seconds, 600);
            assert_eq!(info.items, 50);
            assert!(!is_there(engine, "g").await);
        }
    }
}
