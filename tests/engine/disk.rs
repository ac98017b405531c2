//! A disk that is almost full, and one that is.

use crate::gated::{GatedStore, Point};
use crate::memory::MemoryStore;
use crate::support::{
    self, add, all_exist, batch, create, engine, filter_count, items, name, of_capacity, options,
};
use cuckood::chain::params::FilterRequest;
use cuckood::engine::{
    AddMode, AddOptions, Adopted, CompactionState, DiskReserve, DiskShort, Engine, EngineError,
    ImportId, ImportLines, Overload, Replace, RestoreError, Writes,
};
use cuckood::store::disk::DiskSpace;
use cuckood::store::{Condition, StoreError};
use std::sync::Arc;
use std::time::{Duration, Instant};

const RESERVE: u64 = 1_000;
/// Of a disk with room for a dump, too.
const ROOM: u64 = 10 << 20;
const SHORT: DiskShort = DiskShort {
    free_bytes: 999,
    reserve_bytes: RESERVE,
};

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

fn full() -> Condition {
    Condition {
        writes: Writes::Refused {
            reason: "no space".to_owned(),
            is_disk_full: true,
        },
        ..with_free(0)
    }
}

fn opened(memory: &MemoryStore) -> (GatedStore, Engine) {
    opened_with(memory, 1 << 20)
}

fn opened_with(memory: &MemoryStore, max_log_bytes: u64) -> (GatedStore, Engine) {
    let store = GatedStore::new(Arc::new(memory.clone()));
    store.set_condition(with_free(2 * RESERVE));
    let mut options = options(512);
    options.disk_reserve = DiskReserve::Bytes(RESERVE);
    options.max_log_bytes = max_log_bytes;
    let engine = engine(Arc::new(store.clone()), &options);
    (store, engine)
}

/// Waits until the engine has seen how the store is.
async fn seen(engine: &Engine, store: &GatedStore, condition: Condition) {
    let is_short = condition.disk.is_some_and(|disk| disk.free_bytes < RESERVE);
    let writes = condition.writes.clone();
    store.set_condition(condition);
    let started = Instant::now();
    loop {
        let health = engine.health();
        if health.disk_short.is_some() == is_short && health.writes == writes {
            return;
        }
        assert!(started.elapsed() < Duration::from_secs(60), "{health:?}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

async fn try_add(engine: &Engine, filter: &str, item: u64) -> Result<(), EngineError> {
    let always = AddOptions::default();
    let added = engine
        .add(&name(filter), &batch([item]), &always, None)
        .await;
    added.map(|_| ())
}

fn is_short<T>(outcome: &Result<T, EngineError>) -> bool {
    matches!(outcome, Err(EngineError::DiskShort(_)))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn below_the_reserve_every_change_is_refused_and_every_question_answered() {
    let memory = MemoryStore::new();
    let (store, engine) = opened(&memory);
    create(&engine, "f", &FilterRequest::default()).await;
    create(&engine, "g", &FilterRequest::default()).await;
    add(&engine, "f", 0..100).await;
    seen(&engine, &store, with_free(RESERVE - 1)).await;
    let log = memory.log_sequences();

    let add_refused = try_add(&engine, "f", 100).await;
    assert!(
        matches!(add_refused, Err(EngineError::DiskShort(short)) if short == SHORT),
        "{add_refused:?}"
    );
    assert!(is_short(
        &engine.delete(&name("f"), &batch([1]), None).await
    ));
    let wanted = FilterRequest::default().into();
    assert!(is_short(
        &engine.create_filter(&name("h"), &wanted, None).await
    ));
    assert!(is_short(&engine.set_ttl(&name("f"), Some(100), None).await));
    let creating = AddOptions {
        create: Some(FilterRequest::default().into()),
        ..AddOptions::default()
    };
    assert!(is_short(
        &engine.add(&name("h"), &batch([1]), &creating, None).await
    ));
    assert_eq!(memory.log_sequences(), log, "nothing was committed");

    assert!(all_exist(&engine, "f", 0..100).await);
    let counts = engine.count(&name("f"), &batch([1])).await.unwrap();
    assert_eq!(counts, [1]);
    assert_eq!(items(&engine, "f").await, 100);
    // Removing a filter makes room.
    engine.delete_filter(&name("g"), None).await.unwrap();

    seen(&engine, &store, with_free(2 * RESERVE)).await;
    add(&engine, "f", [100]).await;
    assert_eq!(items(&engine, "f").await, 101);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_filter_is_deleted_where_checkpoints_have_no_room_and_the_log_is_at_its_bound() {
    let memory = MemoryStore::new();
    let (store, engine) = opened_with(&memory, 4096);
    for filter in ["f", "g", "h"] {
        create(&engine, filter, &FilterRequest::default()).await;
    }
    store.fail_checkpoints(true);
    let mut refused = [false; 3];
    for item in 0..500 {
        for (filter, refused) in ["f", "g", "h"].iter().zip(&mut refused) {
            *refused |= try_add(&engine, filter, item).await.is_err();
        }
    }
    assert_eq!(refused, [true; 3], "changes wait for room in both lanes");
    seen(&engine, &store, with_free(0)).await;
    for filter in ["f", "g", "h"] {
        engine.delete_filter(&name(filter), None).await.unwrap();
    }
    assert_eq!(filter_count(&engine).await, 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_disk_that_fills_up_loses_nothing_and_is_written_to_again_by_itself() {
    let memory = MemoryStore::new();
    let (store, engine) = opened(&memory);
    create(&engine, "f", &FilterRequest::default()).await;
    create(&engine, "g", &FilterRequest::default()).await;
    add(&engine, "f", 0..100).await;
    add(&engine, "g", 0..100).await;

    // It fills up before anybody has looked.
    store.fill_disk(true);
    let unknown = try_add(&engine, "f", 100).await;
    assert!(
        matches!(&unknown, Err(EngineError::OutcomeUnknown(error))
            if matches!(**error, StoreError::NoSpace { .. })),
        "{unknown:?}"
    );
    let behind = try_add(&engine, "f", 101).await;
    assert!(is_short(&behind), "{behind:?}");
    seen(&engine, &store, full()).await;
    // The lane of this one has met nothing yet, and is not let to.
    assert!(is_short(&try_add(&engine, "g", 100).await));
    for filter in ["f", "g"] {
        assert!(all_exist(&engine, filter, 0..100).await);
        assert_eq!(items(&engine, filter).await, 100);
    }

    store.fill_disk(false);
    seen(&engine, &store, with_free(2 * RESERVE)).await;
    let started = Instant::now();
    while let Err(refused) = try_add(&engine, "f", 102).await {
        assert!(started.elapsed() < Duration::from_secs(60), "{refused}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    add(&engine, "g", [102]).await;
    let crashed = support::engine(Arc::new(memory.fork()), &options(512));
    for engine in [&engine, &crashed] {
        for filter in ["f", "g"] {
            assert_eq!(items(engine, filter).await, 101);
            assert!(all_exist(engine, filter, (0..100).chain([102])).await);
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_store_that_refuses_for_another_reason_is_not_written_to_either() {
    let memory = MemoryStore::new();
    let (store, engine) = opened(&memory);
    create(&engine, "f", &FilterRequest::default()).await;
    let broken = Condition {
        writes: Writes::Refused {
            reason: "the disk burns".to_owned(),
            is_disk_full: false,
        },
        ..with_free(2 * RESERVE)
    };
    seen(&engine, &store, broken).await;
    let refused = try_add(&engine, "f", 1).await;
    assert!(
        matches!(refused, Err(EngineError::Overloaded(_))),
        "{refused:?}"
    );
    seen(&engine, &store, with_free(2 * RESERVE)).await;
    add(&engine, "f", [1]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn an_import_keeps_what_was_committed_and_goes_on_behind_it() {
    let (store, engine) = opened(&MemoryStore::new());
    create(&engine, "f", &FilterRequest::default()).await;
    let (filter, id) = (name("f"), ImportId::parse("codes").unwrap());
    let lines = |first_line: u64, is_last| ImportLines {
        first_line,
        count: 100,
        items: batch(first_line..first_line + 100),
        item_lines: (0..100).collect(),
        is_last,
        ..ImportLines::default()
    };
    let begin = || engine.begin_import(&filter, &id, AddMode::Always);
    let mut import = begin().await.unwrap();
    import.commit(&lines(1, false)).await.unwrap();
    seen(&engine, &store, with_free(0)).await;
    assert!(is_short(&import.commit(&lines(101, true)).await));
    assert_eq!(import.progress().committed_lines, 100);
    drop(import);

    seen(&engine, &store, with_free(2 * RESERVE)).await;
    let mut import = begin().await.unwrap();
    assert_eq!(import.progress().committed_lines, 100);
    import.commit(&lines(101, true)).await.unwrap();
    assert_eq!(items(&engine, "f").await, 200);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn nothing_is_kept_of_a_dump_that_finds_no_room() {
    let memory = MemoryStore::new();
    let (store, engine) = opened(&memory);
    let large = of_capacity(1_000_000);
    create(&engine, "f", &large).await;
    for first in (0..4_000).step_by(25) {
        add(&engine, "f", first..first + 25).await;
    }
    let mut dump = Vec::new();
    engine.dump(&name("f"), &mut dump).unwrap();

    // Refused before it is read.
    seen(&engine, &store, with_free(0)).await;
    assert!(is_short(
        &engine
            .intake(&name("f"), Replace::Nothing)
            .await
            .map(|_| ())
    ));

    // The disk runs short of room, has none for all of it, or fills up, while it is read.
    for (before, meanwhile, is_full) in [
        (ROOM, 0, false),
        (2 * RESERVE, 2 * RESERVE, false),
        (ROOM, ROOM, true),
    ] {
        seen(&engine, &store, with_free(0)).await;
        seen(&engine, &store, with_free(before)).await;
        let intake = engine.intake(&name("f"), Replace::Nothing).await.unwrap();
        seen(&engine, &store, with_free(meanwhile)).await;
        store.fill_disk(is_full);
        let bytes = dump.clone();
        let taken = tokio::task::spawn_blocking(move || intake.dump(&bytes[..]).map(|_| ()));
        let refused = taken.await.unwrap();
        match is_full {
            false => assert!(matches!(refused, Err(RestoreError::DiskShort(_)))),
            true => assert!(matches!(
                refused,
                Err(RestoreError::Store(StoreError::NoSpace { .. }))
            )),
        }
        store.fill_disk(false);
    }
    seen(&engine, &store, with_free(ROOM)).await;
    let started = Instant::now();
    while !support::kept(&memory).garbage().unwrap().is_empty() {
        assert!(started.elapsed() < Duration::from_secs(60));
        tokio::time::sleep(Duration::from_millis(20)).await;
    }

    let intake = engine.intake(&name("f"), Replace::Nothing).await.unwrap();
    let bytes = dump;
    let staged = tokio::task::spawn_blocking(move || intake.dump(&bytes[..])).await;
    let (g, staged) = (name("g"), staged.unwrap().unwrap());
    let adopted = engine.adopt(&g, staged, Replace::Nothing).await;
    assert!(matches!(adopted.unwrap(), Adopted::New(_)));
    assert_eq!(items(&engine, "g").await, 4_000);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_stop_on_a_full_disk_leaves_the_log_to_the_next_start() {
    let memory = MemoryStore::new();
    let (store, engine) = opened(&memory);
    create(&engine, "f", &FilterRequest::default()).await;
    add(&engine, "f", 0..100).await;
    store.set_condition(with_free(RESERVE / 4 - 1));
    engine.shutdown().unwrap();
    assert!(!memory.log_sequences().is_empty());
    let (_, engine) = opened(&memory);
    assert!(all_exist(&engine, "f", 0..100).await);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn who_waits_for_a_checkpoint_does_not_wait_on_a_disk_without_room_for_one() {
    let (store, engine) = opened_with(&MemoryStore::new(), 3_000);
    create(&engine, "f", &FilterRequest::default()).await;
    // The first checkpoint comes to no end, so the log reaches its bound.
    store.hold_first(Point::CheckpointStart);
    let mut item = 0;
    let waiting = loop {
        item += 1;
        let engine = engine.clone();
        let mut adding = tokio::spawn(async move { try_add(&engine, "f", item).await });
        match tokio::time::timeout(Duration::from_secs(2), &mut adding).await {
            Ok(added) => added.unwrap().unwrap(),
            Err(_) => break adding,
        }
        assert!(item < 10_000, "the bound was never reached");
    };
    store.set_condition(with_free(0));
    let refused = tokio::time::timeout(Duration::from_secs(5), waiting).await;
    assert!(is_short(&refused.unwrap().unwrap()));
    store.open();
    seen(&engine, &store, with_free(2 * RESERVE)).await;
    add(&engine, "f", [20_000]).await;
    assert_eq!(items(&engine, "f").await, item);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_compaction_waits_for_room_however_long_that_takes() {
    let memory = MemoryStore::new();
    let (store, engine) = opened(&memory);
    let request = of_capacity(500);
    create(&engine, "f", &request).await;
    add(&engine, "f", 0..4_000).await;
    let gone = batch((0..4_000).filter(|n| n % 10 != 0));
    engine.delete(&name("f"), &gone, None).await.unwrap();
    // The disk is short once it has begun.
    store.hold_first(Point::CommitDone);
    let begun = tokio::spawn({
        let engine = engine.clone();
        async move { engine.compact(&name("f"), None).await }
    });
    let gate = store.clone();
    let arrived = tokio::task::spawn_blocking(move || gate.await_arrival());
    arrived.await.unwrap();
    seen(&engine, &store, with_free(RESERVE - 1)).await;
    store.open();
    assert!(begun.await.unwrap().unwrap().answer > 0);
    tokio::time::sleep(Duration::from_secs(6)).await;
    let it = engine.compaction(&name("f")).await.unwrap();
    assert_eq!(it.state, CompactionState::Running);
    seen(&engine, &store, with_free(2 * RESERVE)).await;
    loop {
        let it = engine.compaction(&name("f")).await.unwrap();
        if it.state != CompactionState::Running {
            assert_eq!(it.state, CompactionState::Done);
            break;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    assert!(all_exist(&engine, "f", (0..4_000).filter(|n| n % 10 == 0)).await);
    assert_eq!(items(&engine, "f").await, 400);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_disk_that_hangs_is_told_and_changes_are_refused_until_it_answers() {
    let memory = MemoryStore::new();
    let (store, engine) = opened(&memory);
    create(&engine, "f", &FilterRequest::default()).await;
    add(&engine, "f", 0..10).await;
    assert_eq!(engine.health().writes_hang_for, None);

    store.hold_first(Point::CommitDone);
    let held = tokio::spawn({
        let engine = engine.clone();
        async move { try_add(&engine, "f", 10).await }
    });
    tokio::task::block_in_place(|| store.await_arrival());
    let started = Instant::now();
    while engine.health().writes_hang_for.is_none() {
        assert!(started.elapsed() < Duration::from_secs(30));
        assert!(all_exist(&engine, "f", 0..10).await);
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    assert!(started.elapsed() > Duration::from_secs(4));
    for refused in [
        try_add(&engine, "f", 11).await,
        engine.delete_filter(&name("f"), None).await.map(|_| ()),
    ] {
        assert!(
            matches!(refused, Err(EngineError::Overloaded(Overload::DiskHangs))),
            "{refused:?}"
        );
    }

    store.open();
    held.await.unwrap().unwrap();
    assert_eq!(engine.health().writes_hang_for, None);
    try_add(&engine, "f", 11).await.unwrap();
    assert!(all_exist(&engine, "f", 0..12).await);
}
