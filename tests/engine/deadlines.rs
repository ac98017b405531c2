//! Callers who wait no longer than until their deadline.

use crate::gated::{GatedStore, Point};
use crate::memory::MemoryStore;
use crate::support::{
    Random, add, all_exist, batch, create, engine, exists, idempotency_key, items, name, options,
};
use cuckood::chain::params::{FilterRequest, LayoutKind};
use cuckood::engine::{
    AddOptions, Caller, Engine, EngineError, EngineOptions, LookupFilters, LookupMode,
};
use std::sync::Arc;
use std::time::{Duration, Instant};

const SOON: Duration = Duration::from_millis(50);

/// One that comes long after everything else here.
const LATE: Duration = Duration::from_secs(60);

fn one_lane() -> EngineOptions {
    EngineOptions {
        lanes: 1,
        ..options(512)
    }
}

fn waiting_for(engine: &Engine, wait: Duration) -> Engine {
    engine.for_caller(Caller {
        has_rivals: false,
        key: None,
        deadline: Some(Instant::now() + wait),
        ..Caller::default()
    })
}

async fn try_add(engine: &Engine, item: u64, key: Option<u8>) -> Result<(), EngineError> {
    let key = key.map(|key| idempotency_key(key, 1));
    let always = AddOptions::default();
    let added = engine.add(&name("f"), &batch([item]), &always, key).await;
    added.map(|_| ())
}

/// Has a commit hang that adds an item with a key, and tells what its caller
/// is told.
async fn hang(engine: &Engine, store: &GatedStore) -> Result<(), EngineError> {
    store.hold_first(Point::CommitDone);
    let waiting = waiting_for(engine, SOON);
    let held = tokio::spawn(async move { try_add(&waiting, 100, Some(1)).await });
    tokio::task::block_in_place(|| store.await_arrival());
    held.await.unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_waits_behind_a_commit_that_hangs_is_withdrawn_and_never_done() {
    let store = GatedStore::new(Arc::new(MemoryStore::new()));
    let engine = engine(Arc::new(store.clone()), &one_lane());
    create(&engine, "f", &FilterRequest::default()).await;
    create(&engine, "gone", &FilterRequest::default()).await;
    add(&engine, "f", 0..10).await;
    let begun = hang(&engine, &store).await;
    assert!(matches!(begun, Err(EngineError::OutcomeLate)), "{begun:?}");

    let started = Instant::now();
    for refused in [
        try_add(&waiting_for(&engine, SOON), 101, Some(2)).await,
        waiting_for(&engine, SOON)
            .delete(&name("f"), &batch([1]), None)
            .await
            .map(|_| ()),
        waiting_for(&engine, SOON)
            .delete_filter(&name("gone"), None)
            .await
            .map(|_| ()),
        waiting_for(&engine, SOON)
            .create_filter(&name("new"), &FilterRequest::default().into(), None)
            .await
            .map(|_| ()),
    ] {
        let is_late = matches!(refused, Err(EngineError::DeadlineExceeded));
        assert!(is_late, "{refused:?}");
    }
    assert!(started.elapsed() < Duration::from_secs(5));
    // Those who wait are none the worse for it.
    let patient = tokio::spawn({
        let engine = waiting_for(&engine, LATE);
        async move { try_add(&engine, 102, None).await }
    });
    assert!(all_exist(&engine, "f", 0..10).await);

    // The outcome of the first one is not known to others, so it can't be sent
    // again.
    let again = try_add(&engine, 100, Some(1)).await;
    assert!(
        matches!(again, Err(EngineError::RetryInFlight)),
        "{again:?}"
    );
    store.open();
    patient.await.unwrap().unwrap();

    // What was begun took place, once.
    try_add(&engine, 100, Some(1)).await.unwrap();
    assert!(all_exist(&engine, "f", [100, 102]).await);
    assert_eq!(exists(&engine, "f", [101]).await, [false]);
    assert_eq!(items(&engine, "f").await, 12);
    assert!(engine.has_filter(&name("gone")).await.unwrap());
    assert!(!engine.has_filter(&name("new")).await.unwrap());
    // What was withdrawn may be sent again, with the same key.
    try_add(&engine, 101, Some(2)).await.unwrap();
    assert_eq!(items(&engine, "f").await, 13);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_commands_planned_together_exactly_those_that_were_not_withdrawn_are_done() {
    const SEED: u64 = 7;
    println!("seed {SEED}");
    let engine = engine(Arc::new(MemoryStore::new()), &one_lane());
    let request = FilterRequest {
        layout: Some(LayoutKind::Paged),
        fingerprint_bits: Some(32),
        capacity: Some(100),
        ..FilterRequest::default()
    };
    create(&engine, "f", &request).await;
    let mut random = Random(SEED);
    let (mut done, mut withdrawn, mut late) = (0, 0, 0);
    for round in 0..60_u64 {
        let tasks: Vec<_> = (0..40_u64)
            .map(|number| {
                let item = round * 40 + number;
                let wait = Duration::from_micros(random.below(3_000));
                let engine = waiting_for(&engine, wait);
                tokio::spawn(async move {
                    // Something to plan, and some that grow the filter.
                    let some = batch((0..20).map(|copy| item * 20 + copy));
                    let always = AddOptions::default();
                    (item, engine.add(&name("f"), &some, &always, None).await)
                })
            })
            .collect();
        for task in tasks {
            let (item, outcome) = task.await.unwrap();
            let found = exists(&engine, "f", (0..20).map(|copy| item * 20 + copy)).await;
            match outcome {
                Ok(_) => {
                    done += 1;
                    assert!(found.iter().all(|&found| found), "{item}");
                }
                Err(EngineError::DeadlineExceeded) => {
                    withdrawn += 1;
                    assert!(!found.iter().any(|&found| found), "{item}");
                }
                Err(EngineError::OutcomeLate) => late += 1,
                Err(other) => panic!("{other:?}"),
            }
        }
    }
    println!("done {done}, withdrawn {withdrawn}, late {late}");
    assert!(done > 0 && withdrawn > 0);
    let there = items(&engine, "f").await;
    assert!((20 * done..=20 * (done + late)).contains(&there), "{there}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_question_that_needs_the_disk_ends_at_its_deadline_and_others_go_on() {
    let memory = MemoryStore::new();
    let before = engine(Arc::new(memory.clone()), &options(512));
    create(&before, "f", &FilterRequest::default()).await;
    create(&before, "g", &FilterRequest::default()).await;
    add(&before, "f", 0..10).await;
    add(&before, "g", 0..10).await;
    tokio::task::block_in_place(|| before.shutdown().unwrap());
    drop(before);

    let store = GatedStore::new(Arc::new(memory));
    let engine = engine(Arc::new(store.clone()), &options(512));
    assert!(all_exist(&engine, "g", 0..10).await);
    store.hold_first(Point::ReadDone);
    let waiting = waiting_for(&engine, SOON);
    let asked = tokio::spawn(async move { waiting.exists(&name("f"), &batch(0..10)).await });
    tokio::task::block_in_place(|| store.await_arrival());
    let late = asked.await.unwrap();
    assert!(
        matches!(late, Err(EngineError::DeadlineExceeded)),
        "{late:?}"
    );
    assert!(all_exist(&engine, "g", 0..10).await);

    // It waits for the page that is on its way.
    let filters = LookupFilters::Named(vec![name("g"), name("f")]);
    let late = waiting_for(&engine, SOON)
        .lookup(&filters, &batch(0..10), LookupMode::All, None, 10)
        .await;
    assert!(
        matches!(late, Err(EngineError::DeadlineExceeded)),
        "{late:?}"
    );
    store.open();
    assert!(all_exist(&engine, "f", 0..10).await);
}

#[tokio::test]
async fn nothing_is_begun_after_the_deadline() {
    let engine = engine(Arc::new(MemoryStore::new()), &options(512));
    create(&engine, "f", &FilterRequest::default()).await;
    let over = waiting_for(&engine, Duration::ZERO);
    let added = try_add(&over, 1, None).await;
    assert!(
        matches!(added, Err(EngineError::DeadlineExceeded)),
        "{added:?}"
    );
    let asked = over.exists(&name("f"), &batch([1])).await;
    assert!(
        matches!(asked, Err(EngineError::DeadlineExceeded)),
        "{asked:?}"
    );
    assert_eq!(items(&engine, "f").await, 0);
}
