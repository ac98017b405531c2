//! Merges beside changes, across restarts, and without room.

use crate::gated::GatedStore;
use crate::memory::MemoryStore;
use crate::support::{
    add, all_exist, batch, create, engine, idempotency_key, items, name, options,
};
use cuckood::chain::params::{FilterRequest, LayoutKind};
use cuckood::engine::{
    AddMode, AddOptions, AddResult, Caller, Created, DiskReserve, Engine, EngineError,
    IdempotencyKey, ImportId, ImportLines, NewFilter, Overload,
};
use cuckood::store::Condition;
use cuckood::store::disk::DiskSpace;
use std::ops::{ControlFlow, Range};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use tokio::runtime::Handle;

fn paged() -> FilterRequest {
    FilterRequest {
        capacity: Some(2_000),
        layout: Some(LayoutKind::Paged),
        ..FilterRequest::default()
    }
}

fn sibling_of(filter: &str) -> NewFilter {
    NewFilter {
        sibling_of: Some(name(filter)),
        ..NewFilter::default()
    }
}

async fn siblings(engine: &Engine) {
    siblings_with(engine, [0..1_000, 500..5_000]).await;
}

/// `a` with the first items, `b` with the others.
async fn siblings_with(engine: &Engine, [of_a, of_b]: [Range<u64>; 2]) {
    create(engine, "a", &paged()).await;
    let b = name("b");
    let made = engine.create_filter(&b, &sibling_of("a"), None).await;
    made.unwrap();
    add(engine, "a", of_a).await;
    add(engine, "b", of_b).await;
}

/// Merges `b` into `a`; how many items that has then.
async fn merge(engine: &Engine, key: Option<IdempotencyKey>) -> Result<(u64, bool), EngineError> {
    let hold = |_| Ok(());
    let (a, b) = (name("a"), [name("b")]);
    let merged = Box::pin(engine.merge(&a, &b, hold, key)).await?;
    Ok((merged.answer.items, merged.replayed))
}

/// The same while something happens once a filter is being read, so many times.
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
    assert_eq!(items(&it, "a").await, 5_508);
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
    let key = Some(idempotency_key(1, 1));
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
async fn a_merge_ends_wherever_its_pace_breaks_and_has_one_turn_at_a_time() {
    let it = engine(Arc::new(MemoryStore::new()), &options(1024));
    siblings(&it).await;
    let (turns, calls) = (Arc::new(()), Arc::new(AtomicU64::new(0)));
    for most in 0.. {
        let (turns, calls) = (Arc::clone(&turns), Arc::clone(&calls));
        calls.store(0, Ordering::Relaxed);
        let paced = it.clone().paced(move || {
            let (turn, calls) = (Arc::clone(&turns), Arc::clone(&calls));
            Box::new(move || {
                // That of the test, that of the engine and that of this turn.
                assert_eq!(Arc::strong_count(&turn), 3);
                match calls.fetch_add(1, Ordering::Relaxed) < most {
                    true => ControlFlow::Continue(()),
                    false => ControlFlow::Break(()),
                }
            })
        });
        let merged = merge(&paced, None).await;
        if let Ok((items, _)) = merged {
            assert_eq!(items, 5_500);
            assert!(most > 10, "{most}");
            break;
        }
        let is_over = matches!(merged, Err(EngineError::DeadlineExceeded));
        assert!(is_over, "{most}: {merged:?}");
        assert_eq!(items(&it, "a").await, 1_000);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_filter_that_is_another_meanwhile_is_not_read_beyond_the_memory_that_is_held() {
    let it = engine(Arc::new(MemoryStore::new()), &options(1024));
    siblings(&it).await;
    let held = Mutex::new(Vec::new());
    let hold = |bytes| {
        held.lock().unwrap().push(bytes);
        Ok(())
    };
    let exchanged = beside(&it, 1, async |engine: &Engine, _| {
        add(engine, "b", 10_000..60_000).await;
    });
    let (a, b) = (name("a"), name("b"));
    let merge = Box::pin(exchanged.merge(&a, std::slice::from_ref(&b), hold, None));
    assert_eq!(merge.await.unwrap().answer.items, 55_500);
    let held = held.into_inner().unwrap();
    assert!(held.len() == 2 && held[1] > 2 * held[0], "{held:?}");
    // Nor one that is no sibling.
    let exchanged = beside(&it, 1, async |engine: &Engine, _| {
        engine.delete_filter(&name("b"), None).await.unwrap();
        create(engine, "b", &paged()).await;
    });
    let refused = Box::pin(exchanged.merge(&a, &[b], |_| Ok(()), None)).await;
    let why = refused.unwrap_err().to_string();
    assert!(why.contains("keys of their hashes differ"), "{why}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn imports_and_answers_are_of_the_union_too() {
    let store = MemoryStore::new();
    let it = engine(Arc::new(store.clone()), &options(1024));
    siblings(&it).await;
    let key = |key| idempotency_key(key, 1);
    let added = async |engine: &Engine| {
        let (a, items, options) = (name("a"), batch([80_000, 80_001]), AddOptions::default());
        let added = engine.add(&a, &items, &options, Some(key(7))).await;
        added.map(|it| it.replayed)
    };
    assert!(!added(&it).await.unwrap());
    let (a, id) = (name("a"), ImportId::parse("i").unwrap());
    let mut import = it.begin_import(&a, &id, AddMode::Always).await.unwrap();
    let lines = ImportLines {
        first_line: 1,
        count: 100,
        items: batch(70_000..70_100),
        item_lines: (0..100).collect(),
        ..ImportLines::default()
    };
    import.commit(&lines).await.unwrap();
    drop(import);
    let totals = || crate::support::kept(&store).side_record_totals().unwrap();
    for round in 1..3 {
        let items = 1_102 + 4_500 * round;
        let merged = merge(&it, Some(key(round as u8))).await;
        assert_eq!(merged.unwrap(), (items, false));
        // As a crash leaves it, too.
        for engine in [&it, &engine(Arc::new(store.fork()), &options(1024))] {
            assert!(added(engine).await.unwrap());
            let import = engine.begin_import(&a, &id, AddMode::Always).await;
            assert_eq!(import.unwrap().progress().committed_lines, 100);
            assert_eq!(items, crate::support::items(engine, "a").await);
        }
        assert_eq!(totals().imports, 1);
    }
    // Of another filter of the name neither is known.
    it.delete_filter(&a, None).await.unwrap();
    create(&it, "a", &FilterRequest::default()).await;
    let gone = added(&it).await;
    assert!(
        matches!(gone, Err(EngineError::RetryFilterGone)),
        "{gone:?}"
    );
    let progress = it.import_progress(&a, &id).await;
    assert!(matches!(progress, Err(EngineError::ImportNotFound)));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_sibling_may_be_as_large_as_filters_are_now_and_need_not_have_its_other_for_ever() {
    let store = MemoryStore::new();
    let mut options = options(1024);
    let most = options.defaults.max_filter_bytes;
    options.defaults.max_filter_bytes = 64 << 10;
    let before = engine(Arc::new(store.clone()), &options);
    create(&before, "a", &paged()).await;
    options.defaults.max_filter_bytes = most;
    let store = store.fork();
    let it = engine(Arc::new(store.clone()), &options);
    let (b, wanted) = (name("b"), sibling_of("a"));
    let made = it.create_filter(&b, &wanted, None).await.unwrap();
    let Created::New(made) = made.answer else {
        panic!("{made:?}");
    };
    assert_eq!(made.params.max_filter_bytes(), most);
    it.delete_filter(&name("a"), None).await.unwrap();
    let there = it.create_filter(&b, &wanted, None).await.unwrap();
    assert!(matches!(there.answer, Created::Existing(_)), "{there:?}");
    let creating = AddOptions {
        create: Some(wanted),
        ..AddOptions::default()
    };
    let added = it.add(&b, &batch([1]), &creating, None).await.unwrap();
    assert_eq!(added.answer, [AddResult::Added]);
    let absent = it.add(&name("c"), &batch([1]), &creating, None).await;
    assert!(matches!(absent, Err(EngineError::NotFound { .. })));
    options.defaults.max_filter_bytes = 4 << 10;
    let small = engine(Arc::new(store.fork()), &options);
    let large = small
        .create_filter(&name("c"), &sibling_of("b"), None)
        .await;
    assert!(matches!(large, Err(EngineError::InvalidParams(_))));
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
