//! Merges beside changes, across restarts, and without room.

use crate::gated::GatedStore;
use crate::memory::MemoryStore;
use crate::support::{add, all_exist, batch, create, engine, items, name, options};
use cuckood::chain::params::{FilterRequest, LayoutKind};
use cuckood::engine::{
    ANSWER_KEPT_FOR, Caller, DiskReserve, Engine, EngineError, IdempotencyKey, NewFilter, Overload,
};
use cuckood::store::Condition;
use cuckood::store::disk::DiskSpace;
use std::ops::{ControlFlow, Range};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};
use tokio::runtime::Handle;

async fn siblings(engine: &Engine) {
    siblings_with(engine, [0..1_000, 500..5_000]).await;
}

/// `a` with the first items, `b` with the others.
async fn siblings_with(engine: &Engine, [of_a, of_b]: [Range<u64>; 2]) {
    let request = FilterRequest {
        capacity: Some(2_000),
        layout: Some(LayoutKind::Paged),
        ..FilterRequest::default()
    };
    create(engine, "a", &request).await;
    let wanted = NewFilter {
        sibling_of: Some(name("a")),
        ..NewFilter::default()
    };
    let b = name("b");
    engine.create_filter(&b, &wanted, None).await.unwrap();
    add(engine, "a", of_a).await;
    add(engine, "b", of_b).await;
}

/// Merges `b` into `a`; how many items that has then.
async fn merge(engine: &Engine, key: Option<IdempotencyKey>) -> Result<(u64, bool), EngineError> {
    let hold = |_| Ok(());
    let merged = engine.merge(&name("a"), &[name("b")], hold, key).await?;
    Ok((merged.answer.items, merged.replayed))
}

/// The same while something happens once the filter itself was read, so many times.
fn beside(
    engine: &Engine,
    times: u64,
    happens: impl AsyncFn(&Engine, u64) + Copy + Send + Sync + 'static,
) -> Engine {
    let (runtime, done, at) = (
        Handle::current(),
        Arc::new(AtomicU64::new(0)),
        engine.clone(),
    );
    let it = engine.clone();
    it.paced(move || {
        let (runtime, done, at) = (runtime.clone(), Arc::clone(&done), at.clone());
        let mut is_new = true;
        Box::new(move || {
            let number = done.load(Ordering::Relaxed);
            if std::mem::take(&mut is_new) && number < times {
                done.fetch_add(1, Ordering::Relaxed);
                runtime.block_on(happens(&at, number));
            }
            ControlFlow::Continue(())
        })
    })
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_merge_has_what_came_meanwhile_or_says_that_the_filter_changes() {
    let store = MemoryStore::new();
    let it = engine(Arc::new(store.clone()), &options(1024));
    siblings(&it).await;
    let busy = beside(&it, 2, async |engine: &Engine, number| {
        add(engine, "a", [90_000 + number]).await;
    });
    assert_eq!(merge(&busy, None).await.unwrap(), (5_502, false));
    assert!(all_exist(&it, "a", (0..5_000).chain([90_000, 90_001])).await);
    let restless = beside(&it, u64::MAX, async |engine: &Engine, number| {
        add(engine, "a", [91_000 + number]).await;
    });
    let refused = merge(&restless, None).await;
    let is_restless = matches!(
        refused,
        Err(EngineError::Overloaded(Overload::FilterChanges))
    );
    assert!(is_restless, "{refused:?}");
    assert_eq!(items(&it, "a").await, 5_505);
    // What was not taken is nowhere.
    let started = Instant::now();
    while !crate::support::kept(&store).garbage().unwrap().is_empty() {
        assert!(started.elapsed() < Duration::from_secs(20));
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn filters_that_go_meanwhile_are_named() {
    for gone in ["a", "b"] {
        let it = engine(Arc::new(MemoryStore::new()), &options(1024));
        siblings(&it).await;
        let going = beside(&it, 1, async move |engine: &Engine, _| {
            engine.delete_filter(&name(gone), None).await.unwrap();
        });
        let refused = merge(&going, None).await;
        let is_named = |it: &EngineError| match it {
            EngineError::NotFound { name } => name.as_str() == gone,
            _ => false,
        };
        assert!(refused.as_ref().is_err_and(is_named), "{refused:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_merge_is_there_after_a_start_and_done_once() {
    let store = MemoryStore::new();
    let key = Some(IdempotencyKey {
        key: [1; 32],
        fingerprint: [1; 32],
        kept_for: ANSWER_KEPT_FOR,
    });
    let it = engine(Arc::new(store.clone()), &options(1024));
    siblings(&it).await;
    assert_eq!(merge(&it, key).await.unwrap(), (5_500, false));
    add(&it, "a", 6_000..6_100).await;
    // As a crash leaves it: what the log has is replayed.
    let again = engine(Arc::new(store.fork()), &options(1024));
    assert_eq!(merge(&again, key).await.unwrap(), (5_500, true));
    assert_eq!(items(&again, "a").await, 5_600);
    assert!(all_exist(&again, "a", (0..5_000).chain(6_000..6_100)).await);
    let deleted = batch([700, 700, 700]);
    let deleted = again.delete(&name("a"), &deleted, None).await.unwrap();
    assert_eq!(deleted.answer, [true, true, false]);
    assert_eq!(items(&again, "b").await, 4_500);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_merge_without_room_or_time_leaves_the_filter_as_it_was() {
    let store = GatedStore::new(Arc::new(MemoryStore::new()));
    let free = |free_bytes| Condition {
        disk: Some(DiskSpace {
            free_bytes,
            size_bytes: 1 << 30,
            device: 1,
        }),
        ..Condition::default()
    };
    store.set_condition(free(10 << 20));
    let mut options = options(1024);
    options.disk_reserve = DiskReserve::Bytes(1 << 20);
    let it = engine(Arc::new(store.clone()), &options);
    siblings(&it).await;
    let none = |bytes| Err::<(), _>(EngineError::MergeTooLarge { bytes });
    let small = it.merge(&name("a"), &[name("b")], none, None).await;
    let is_refused = matches!(small, Err(EngineError::MergeTooLarge { .. }));
    assert!(is_refused, "{small:?}");
    let late = it.for_caller(Caller {
        deadline: Some(Instant::now()),
        ..Caller::default()
    });
    let late = merge(&late, None).await;
    assert!(
        matches!(late, Err(EngineError::DeadlineExceeded)),
        "{late:?}"
    );
    store.set_condition(free(1_000));
    let started = Instant::now();
    while it.health().disk_short.is_none() {
        assert!(started.elapsed() < Duration::from_secs(60));
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    let short = merge(&it, None).await;
    assert!(matches!(short, Err(EngineError::DiskShort(_))), "{short:?}");
    assert_eq!(items(&it, "a").await, 1_000);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_filter_that_may_not_grow_so_far_says_so() {
    let mut options = options(1024);
    options.defaults.max_filter_bytes = 16 << 10;
    let it = engine(Arc::new(MemoryStore::new()), &options);
    siblings_with(&it, [0..6_000, 10_000..16_000]).await;
    let full = merge(&it, None).await;
    let full = full.unwrap_err().to_string();
    assert!(
        full.contains("takes no more items: MaxFilterBytes"),
        "{full}"
    );
    assert_eq!(items(&it, "a").await, 6_000);
}
