//! Filters that shrank get shorter, while they are used.

use crate::gated::{Failing, GatedStore, Point};
use crate::memory::MemoryStore;
use crate::support::{
    self, Random, add, all_exist, batch, create, engine, exists, idempotency_key, items, name,
    options,
};
use cuckood::chain::params::FilterRequest;
use cuckood::engine::{Caller, Compaction, CompactionState, Engine, EngineError, EngineOptions};
use cuckood::metrics::Metrics;
use cuckood::store::{KeyValueStore, PageStore};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

/// Filters with buckets of two sizes. Those of the layout `paged` merge pages
/// as items are deleted, and have nothing to compact.
fn kinds() -> [FilterRequest; 2] {
    let request = FilterRequest {
        capacity: Some(3_000),
        expansion: Some(2),
        ..Default::default()
    };
    [
        FilterRequest {
            bucket_size: Some(4),
            ..request.clone()
        },
        FilterRequest {
            bucket_size: Some(2),
            ..request
        },
    ]
}

/// Waits until the compaction of `f` has ended.
async fn ended(engine: &Engine) -> Compaction {
    for _ in 0..1_000 {
        match engine.compaction(&name("f")).await {
            Ok(it) if it.state != CompactionState::Running => return it,
            Ok(_) | Err(EngineError::CompactionNotFound) => {}
            Err(error) => panic!("{error}"),
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("it never ended: {:?}", engine.compaction(&name("f")).await);
}

/// Begins the compaction of `f`, whose first commit is durable then and not
/// yet known to be.
async fn held_at_its_beginning(engine: &Engine, store: &GatedStore) -> tokio::task::JoinHandle<()> {
    store.hold_first(Point::CommitDone);
    let compacting = tokio::spawn({
        let engine = engine.clone();
        async move {
            engine.compact(&name("f"), None).await.unwrap();
        }
    });
    store.arrival().await;
    compacting
}

async fn sub_filters(engine: &Engine) -> usize {
    let info = engine.filter_info(&name("f")).await.unwrap();
    info.sub_filters.len()
}

async fn delete(engine: &Engine, items: impl IntoIterator<Item = u64>) {
    let deleted = engine
        .delete(&name("f"), &batch(items), None)
        .await
        .unwrap()
        .answer;
    assert!(deleted.iter().all(|&found| found));
}

/// The items that [`shrunk`] leaves, in all of its sub-filters.
fn left() -> impl Iterator<Item = u64> {
    (0..20_000).filter(|n| n % 7 == 0)
}

const LEFT: u64 = 2_858;

/// A filter of 20,000 items, of which one in seven is left.
async fn shrunk(store: Arc<dyn KeyValueStore>, options: &EngineOptions) -> Engine {
    let engine = engine(store, options);
    for first in (0..20_000).step_by(1_000) {
        add(&engine, "f", first..first + 1_000).await;
    }
    for first in (0..20_000).step_by(1_000) {
        delete(&engine, (first..first + 1_000).filter(|n| n % 7 != 0)).await;
    }
    engine
}

async fn created(request: &FilterRequest, store: Arc<dyn KeyValueStore>) {
    let engine = engine(store, &options(512));
    create(&engine, "f", request).await;
    tokio::task::block_in_place(|| engine.shutdown().unwrap());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_filter_that_shrank_gets_shorter_and_answers_as_before() {
    for request in kinds() {
        let memory = MemoryStore::new();
        created(&request, Arc::new(memory.clone())).await;
        let engine = shrunk(Arc::new(memory.clone()), &options(512)).await;
        let grown = sub_filters(&engine).await;
        assert!(grown >= 3, "{grown}");
        let closed = engine.compact(&name("f"), None).await.unwrap().answer;
        assert_eq!(closed as usize, grown - 1, "{request:?}");
        let it = ended(&engine).await;
        assert_eq!(it.state, CompactionState::Done);
        assert!(it.asked_for && it.moved > 1_000, "{it:?}");
        assert_eq!(it.dropped as usize, grown - 1);
        for engine in [
            engine,
            support::engine(Arc::new(memory.fork()), &options(512)),
        ] {
            assert_eq!(sub_filters(&engine).await, 1);
            assert_eq!(items(&engine, "f").await, LEFT);
            assert!(all_exist(&engine, "f", left()).await);
            let gone = exists(&engine, "f", 30_000..40_000).await;
            let found = gone.into_iter().filter(|&found| found).count();
            assert!(
                found < 600,
                "{request:?}: {found} of 10,000 that never were"
            );
            delete(&engine, left()).await;
            assert_eq!(items(&engine, "f").await, 0);
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_filter_is_compacted_while_it_is_used_and_has_not_all_its_pages_in_memory() {
    for request in kinds() {
        let mut random = Random(7);
        let memory = MemoryStore::new();
        let options = EngineOptions {
            lanes: 1,
            // Fewer would not do for a search.
            ..options(2048)
        };
        let request = FilterRequest {
            capacity: Some(60_000),
            ..request
        };
        created(&request, Arc::new(memory.clone())).await;
        let engine = engine(Arc::new(memory.clone()), &options);
        let mut held: BTreeSet<u64> = (0..150_000).collect();
        for first in (0..150_000).step_by(6) {
            add(&engine, "f", first..first + 6).await;
        }
        let grown = sub_filters(&engine).await;
        let gone: Vec<u64> = held.iter().copied().filter(|n| n % 5 != 0).collect();
        for gone in gone.chunks(6) {
            delete(&engine, gone.iter().copied()).await;
        }
        held.retain(|n| n % 5 == 0);
        assert!(engine.compact(&name("f"), None).await.unwrap().answer > 0);
        let again = engine.compact(&name("f"), None).await;
        assert!(
            matches!(again, Err(EngineError::CompactionRunning)),
            "{again:?}"
        );
        let mut rounds = 0;
        loop {
            let state = engine.compaction(&name("f")).await.unwrap().state;
            // What is added while it runs is where it is looked for.
            let new: Vec<u64> = (0..6).map(|_| 1_000_000 + random.below(1 << 40)).collect();
            add(&engine, "f", new.iter().copied()).await;
            held.extend(new);
            let old: Vec<u64> = held.iter().copied().take(6).collect();
            delete(&engine, old.iter().copied()).await;
            held.retain(|n| !old.contains(n));
            let some: Vec<u64> = held
                .iter()
                .copied()
                .skip(random.below(25_000) as usize)
                .take(200)
                .collect();
            assert!(all_exist(&engine, "f", some).await, "{request:?}");
            rounds += 1;
            if state != CompactionState::Running {
                assert_eq!(state, CompactionState::Done, "{request:?}");
                break;
            }
        }
        assert!(rounds > 3, "{request:?}: {rounds} rounds");
        assert!(sub_filters(&engine).await < grown);
        for engine in [engine, support::engine(Arc::new(memory.fork()), &options)] {
            assert_eq!(items(&engine, "f").await, held.len() as u64);
            for some in held.iter().copied().collect::<Vec<_>>().chunks(500) {
                assert!(all_exist(&engine, "f", some.iter().copied()).await);
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn what_a_restart_interrupts_is_taken_up_again() {
    for request in kinds() {
        let memory = MemoryStore::new();
        created(&request, Arc::new(memory.clone())).await;
        let store = GatedStore::new(Arc::new(memory.clone()));
        let engine = shrunk(Arc::new(store.clone()), &options(512)).await;
        let compacting = held_at_its_beginning(&engine, &store).await;
        let middle = memory.fork();
        store.open();
        compacting.await.unwrap();
        ended(&engine).await;
        assert_eq!(sub_filters(&engine).await, 1);

        let restarted = support::engine(Arc::new(middle), &options(512));
        let it = ended(&restarted).await;
        assert_eq!(it.state, CompactionState::Done, "{request:?}");
        assert!(!it.asked_for && it.moved > 0);
        assert_eq!(sub_filters(&restarted).await, 1);
        assert_eq!(items(&restarted, "f").await, LEFT);
        assert!(all_exist(&restarted, "f", left()).await);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_store_that_refuses_for_a_while_only_delays_it() {
    for failing in [Failing::Before, Failing::After] {
        let [_, request] = kinds();
        let memory = MemoryStore::new();
        created(&request, Arc::new(memory.clone())).await;
        let store = GatedStore::new(Arc::new(memory.clone()));
        let engine = shrunk(Arc::new(store.clone()), &options(512)).await;
        engine.compact(&name("f"), None).await.unwrap();
        store.fail_commits(failing);
        tokio::time::sleep(Duration::from_millis(300)).await;
        assert!(all_exist(&engine, "f", left()).await);
        store.fail_commits(Failing::Nothing);
        assert_eq!(ended(&engine).await.state, CompactionState::Done);
        assert_eq!(sub_filters(&engine).await, 1);
        for engine in [
            engine,
            support::engine(Arc::new(memory.fork()), &options(512)),
        ] {
            assert!(all_exist(&engine, "f", left()).await);
            assert_eq!(items(&engine, "f").await, LEFT);
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_filter_is_compacted_unasked_once_its_share_was_deleted() {
    let [request, _] = kinds();
    let memory = MemoryStore::new();
    created(&request, Arc::new(memory.clone())).await;
    let options = EngineOptions {
        compaction_threshold_percent: 10,
        ..options(512)
    };
    let engine = shrunk(Arc::new(memory), &options).await;
    let it = ended(&engine).await;
    assert_eq!(it.state, CompactionState::Done);
    assert!(!it.asked_for);
    // The deletes went on while it ran; in the end there is no more to drop.
    for _ in 0..500 {
        if sub_filters(&engine).await == 1 {
            break;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert_eq!(sub_filters(&engine).await, 1);
    assert!(all_exist(&engine, "f", left()).await);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn adds_that_need_the_room_end_a_compaction() {
    let [_, request] = kinds();
    let memory = MemoryStore::new();
    created(&request, Arc::new(memory.clone())).await;
    let store = GatedStore::new(Arc::new(memory.clone()));
    let before = shrunk(Arc::new(store.clone()), &options(512)).await;
    tokio::task::block_in_place(|| before.shutdown().unwrap());
    let metrics = Arc::new(Metrics::new().unwrap());
    let kept = Arc::new(PageStore::open(Arc::new(store.clone())).unwrap());
    let engine = Engine::open(kept, &options(512), Arc::clone(&metrics)).unwrap();
    let grown = sub_filters(&engine).await;
    let compacting = held_at_its_beginning(&engine, &store).await;
    // They come before the first slice.
    let adding = tokio::spawn({
        let engine = engine.clone();
        async move { add(&engine, "f", 100_000..110_000).await }
    });
    let waiting = |lane: &str| metrics.lane_queue_depth.with_label_values(&[lane]).get();
    while waiting("0") + waiting("1") == 0 {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    store.open();
    compacting.await.unwrap();
    adding.await.unwrap();
    let it = ended(&engine).await;
    assert_eq!(it.state, CompactionState::Overtaken);
    assert_eq!(sub_filters(&engine).await, grown);
    assert_eq!(items(&engine, "f").await, 10_000 + LEFT);
    assert!(all_exist(&engine, "f", left().chain(100_000..110_000)).await);
}

/// The pages of one owner's filter come slowly, or not at all.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn the_compactions_of_one_owner_do_not_wait_for_those_of_another() {
    let [_, request] = kinds();
    let memory = MemoryStore::new();
    for (owner, filter) in [("slow", "slow"), ("modest", "f")] {
        let engine = engine(Arc::new(memory.clone()), &options(512));
        let caller = Caller {
            key: Some(Arc::from(owner)),
            ..Caller::default()
        };
        create(&engine.for_caller(caller), filter, &request).await;
        add(&engine, filter, 0..20_000).await;
        let gone = (0..20_000).filter(|n| n % 7 != 0);
        engine
            .delete(&name(filter), &batch(gone), None)
            .await
            .unwrap();
        tokio::task::block_in_place(|| engine.shutdown().unwrap());
    }
    let store = GatedStore::new(Arc::new(memory));
    let engine = engine(Arc::new(store.clone()), &options(512));
    store.hold_reads_of_one_filter(usize::MAX);
    engine.compact(&name("slow"), None).await.unwrap();
    tokio::task::block_in_place(|| store.await_arrival());
    engine.compact(&name("f"), None).await.unwrap();
    assert_eq!(ended(&engine).await.state, CompactionState::Done);
    let slow = engine.compaction(&name("slow")).await.unwrap();
    assert_eq!((slow.state, slow.moved), (CompactionState::Running, 0));
    store.open();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_compaction_asked_for_again_with_its_key_is_answered_as_before() {
    let [_, request] = kinds();
    let memory = MemoryStore::new();
    created(&request, Arc::new(memory.clone())).await;
    let engine = shrunk(Arc::new(memory.clone()), &options(512)).await;
    let retry = Some(idempotency_key(1, 2));
    let first = engine.compact(&name("f"), retry).await.unwrap();
    assert!(first.answer > 0 && !first.replayed);
    ended(&engine).await;
    let crashed = support::engine(Arc::new(memory.fork()), &options(512));
    for engine in [&engine, &crashed] {
        let again = engine.compact(&name("f"), retry).await.unwrap();
        assert_eq!(again.answer, first.answer);
        assert!(again.replayed);
    }
    let unknown = crashed.compaction(&name("f")).await;
    assert!(matches!(unknown, Err(EngineError::CompactionNotFound)));
    // Nothing is left to do: it ends at once, and says so.
    assert_eq!(engine.compact(&name("f"), None).await.unwrap().answer, 0);
    let it = ended(&engine).await;
    assert_eq!((it.state, it.moved), (CompactionState::Done, 0));
    let missing = engine.compact(&name("g"), None).await;
    assert!(matches!(missing, Err(EngineError::NotFound { .. })));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_filter_that_splits_pages_has_nothing_to_compact_and_gives_pages_back_as_it_shrinks() {
    let memory = MemoryStore::new();
    let request = FilterRequest {
        capacity: Some(3_000),
        fingerprint_bits: Some(16),
        ..Default::default()
    };
    created(&request, Arc::new(memory.clone())).await;
    let engine = shrunk(Arc::new(memory.clone()), &options(512)).await;
    let info = engine.filter_info(&name("f")).await.unwrap();
    // Of ten pages; two would be more than four tenths full.
    assert_eq!((info.slot_bytes, info.expansions), (3 * 4096, 0));
    assert_eq!(engine.compact(&name("f"), None).await.unwrap().answer, 0);
    let it = ended(&engine).await;
    assert_eq!((it.state, it.moved), (CompactionState::Done, 0));
    let restarted = support::engine(Arc::new(memory.fork()), &options(512));
    for engine in [engine, restarted] {
        assert_eq!(items(&engine, "f").await, LEFT);
        assert!(all_exist(&engine, "f", left()).await);
        delete(&engine, left()).await;
        assert_eq!(items(&engine, "f").await, 0);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_filter_that_is_deleted_while_it_is_compacted_is_gone() {
    let [_, request] = kinds();
    let memory = MemoryStore::new();
    created(&request, Arc::new(memory.clone())).await;
    let engine = shrunk(Arc::new(memory), &options(512)).await;
    engine.compact(&name("f"), None).await.unwrap();
    engine.delete_filter(&name("f"), None).await.unwrap();
    create(&engine, "f", &request).await;
    add(&engine, "f", 0..10).await;
    let unknown = engine.compaction(&name("f")).await;
    assert!(matches!(unknown, Err(EngineError::CompactionNotFound)));
    assert_eq!(items(&engine, "f").await, 10);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_filter_far_larger_than_what_a_command_may_touch_is_compacted_with_no_page_in_memory() {
    let [request, _] = kinds();
    let memory = MemoryStore::new();
    let request = FilterRequest {
        // 256 pages, and in the end 1,792.
        capacity: Some(800_000),
        bucket_size: Some(2),
        ..request
    };
    let large = EngineOptions {
        lanes: 1,
        ..options(16_384)
    };
    created(&request, Arc::new(memory.clone())).await;
    let engine = engine(Arc::new(memory.clone()), &large);
    for first in (0..3_200_000).step_by(20_000) {
        add(&engine, "f", first..first + 20_000).await;
    }
    assert_eq!(sub_filters(&engine).await, 3);
    for first in (0..3_200_000).step_by(20_000) {
        delete(&engine, (first..first + 20_000).filter(|n| n % 16 != 0)).await;
    }
    tokio::task::block_in_place(|| engine.shutdown().unwrap());
    let small = EngineOptions {
        lanes: 1,
        // A command may touch 341 pages.
        ..options(2_048)
    };
    let engine = support::engine(Arc::new(memory), &small);
    assert_eq!(engine.compact(&name("f"), None).await.unwrap().answer, 2);
    let it = ended(&engine).await;
    assert_eq!(it.state, CompactionState::Done, "{it:?}");
    assert_eq!(sub_filters(&engine).await, 1);
    assert_eq!(items(&engine, "f").await, 200_000);
    for first in (0..3_200_000).step_by(1_600) {
        let some = (first..first + 1_600).filter(|n| n % 16 == 0);
        assert!(all_exist(&engine, "f", some).await);
    }
}
