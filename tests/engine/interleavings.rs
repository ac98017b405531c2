//! The interleavings that break simpler schemes, driven by hand.

use crate::gated::{GatedStore, Point};
use crate::memory::MemoryStore;
use crate::support::{
    self, add, all_exist, create, engine, exists, items, name, of_capacity, options,
};
use cuckood::chain::params::FilterRequest;
use cuckood::engine::Engine;
use std::sync::Arc;
use std::time::Duration;

fn gated() -> (MemoryStore, GatedStore) {
    let memory = MemoryStore::new();
    let store = GatedStore::new(Arc::new(memory.clone()));
    (memory, store)
}

fn large() -> FilterRequest {
    of_capacity(400_000)
}

/// Opens what a crash at this moment leaves behind.
fn after_crash(memory: &MemoryStore) -> Engine {
    engine(Arc::new(memory.fork()), &options(512))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn an_image_that_was_read_early_does_not_replace_a_newer_page() {
    let (_, store) = gated();
    let engine = engine(Arc::new(store.clone()), &options(512));
    create(&engine, "f", &large()).await;
    store.hold_first(Point::ReadDone);
    let reader = tokio::spawn({
        let engine = engine.clone();
        async move { exists(&engine, "f", [1]).await }
    });
    tokio::task::block_in_place(|| store.await_arrival());
    // The reader holds images from before this add of the same pages.
    let writer = tokio::spawn({
        let engine = engine.clone();
        async move { add(&engine, "f", [1]).await }
    });
    tokio::time::sleep(Duration::from_millis(50)).await;
    assert!(
        !writer.is_finished(),
        "the writer must wait for the flight of its page"
    );
    store.open();
    reader.await.unwrap();
    writer.await.unwrap();
    assert!(all_exist(&engine, "f", [1]).await);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_crash_during_the_checkpoint_of_a_clean_stop_loses_nothing() {
    let (memory, store) = gated();
    let engine = engine(Arc::new(store.clone()), &options(512));
    create(&engine, "f", &FilterRequest::default()).await;
    add(&engine, "f", 0..10).await;
    let checkpoint = {
        store.hold_first(Point::CheckpointStart);
        let engine = engine.clone();
        tokio::task::spawn_blocking(move || engine.shutdown().unwrap())
    };
    tokio::task::block_in_place(|| store.await_arrival());
    let crashed = after_crash(&memory);
    assert!(all_exist(&crashed, "f", 0..10).await);
    store.open();
    checkpoint.await.unwrap();
    assert!(
        memory.log_sequences().is_empty(),
        "a clean stop leaves no log"
    );
    assert!(all_exist(&after_crash(&memory), "f", 0..10).await);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_commit_published_during_a_checkpoint_survives_the_next_cut() {
    let (memory, store) = gated();
    let mut options = options(512);
    options.lanes = 1;
    options.max_log_bytes = 2_000;
    let engine = engine(Arc::new(store.clone()), &options);
    // One page, so every commit changes the page whose image is being written.
    create(&engine, "f", &FilterRequest::default()).await;
    for round in 0..30u64 {
        store.hold_first(Point::CheckpointStart);
        let before = round * 40..round * 40 + 39;
        add(&engine, "f", before).await;
        // Whether or not a checkpoint stands at the gate, this one is
        // published after its image was copied.
        tokio::time::sleep(Duration::from_millis(2)).await;
        let late = tokio::spawn({
            let engine = engine.clone();
            async move { add(&engine, "f", [round * 40 + 39]).await }
        });
        tokio::time::sleep(Duration::from_millis(2)).await;
        store.open();
        late.await.unwrap();
        tokio::time::sleep(Duration::from_millis(3)).await;
        let crashed = after_crash(&memory);
        let all = (round + 1) * 40;
        assert!(all_exist(&crashed, "f", 0..all).await, "round {round}");
        assert_eq!(items(&crashed, "f").await, all);
    }
    let last = memory.log_sequences();
    assert!(
        last.first().is_some_and(|first| first.0 > 10),
        "the log was never cut: {last:?}"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn the_log_is_not_cut_past_a_record_that_is_durable_but_not_published() {
    let (memory, store) = gated();
    // Large enough for two lanes, so that others go on beside the held one.
    let mut options = options(16_384);
    options.max_log_bytes = 200 * 80;
    let engine = engine(Arc::new(store.clone()), &options);
    let busy: Vec<String> = (0..40).map(|n| format!("busy-{n}")).collect();
    create(&engine, "slow", &FilterRequest::default()).await;
    for filter in &busy {
        create(&engine, filter, &FilterRequest::default()).await;
    }
    add(&engine, "slow", [1]).await;
    let earlier = memory.log_sequences().last().copied().unwrap();
    store.hold_first(Point::CommitDone);
    let unpublished = tokio::spawn({
        let engine = engine.clone();
        async move { add(&engine, "slow", [2]).await }
    });
    tokio::task::block_in_place(|| store.await_arrival());
    let held = memory.log_sequences().last().copied().unwrap();
    // Filters of the other lane commit until the log is over half its bound
    // and is cut; those of the held lane wait.
    let mut committed = 0;
    let mut waiting = Vec::new();
    for round in 0..40 {
        for filter in &busy {
            // Once is enough: after five seconds the disk counts as hanging.
            if waiting.contains(&filter) {
                continue;
            }
            let one = tokio::spawn({
                let (engine, filter) = (engine.clone(), filter.clone());
                async move { add(&engine, &filter, [round]).await }
            });
            match tokio::time::timeout(Duration::from_millis(30), one).await {
                Ok(done) => {
                    done.unwrap();
                    committed += 1;
                }
                Err(_) => waiting.push(filter),
            }
            if committed > 130 {
                break;
            }
        }
        if committed > 130 {
            break;
        }
    }
    assert!(
        committed > 100,
        "only {committed} commits beside the held one"
    );
    tokio::time::sleep(Duration::from_millis(100)).await;
    let log = memory.log_sequences();
    assert!(
        !log.contains(&earlier),
        "the log was not cut at all: {log:?}"
    );
    assert_eq!(
        log.first(),
        Some(&held),
        "the cut must stop before the held record"
    );
    let crashed = after_crash(&memory);
    assert!(all_exist(&crashed, "slow", [1, 2]).await);
    assert_eq!(items(&crashed, "slow").await, 2);

    store.open();
    unpublished.await.unwrap();
    for filter in &busy {
        add(&engine, filter, [100, 101, 102]).await;
    }
    tokio::time::sleep(Duration::from_millis(100)).await;
    let crashed = after_crash(&memory);
    assert!(all_exist(&crashed, "slow", [1, 2]).await);
    for filter in &busy {
        assert!(all_exist(&crashed, filter, [100, 101, 102]).await);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_description_that_was_read_early_does_not_replace_a_newer_one() {
    let (memory, store) = gated();
    let small = of_capacity(100);
    let before = engine(Arc::new(memory.clone()), &options(512));
    create(&before, "f", &small).await;
    add(&before, "f", 0..10).await;
    tokio::task::block_in_place(|| before.shutdown().unwrap());

    let mut options = options(512);
    options.max_open_filters = 16;
    let engine = engine(Arc::new(store.clone()), &options);
    store.hold_first(Point::FilterRead);
    let late = tokio::spawn({
        let engine = engine.clone();
        async move { exists(&engine, "f", 0..10).await }
    });
    tokio::task::block_in_place(|| store.await_arrival());
    // Somebody else opens the filter, makes it grow, and it is closed again.
    add(&engine, "f", 10..2_000).await;
    for n in 0..60 {
        create(&engine, &format!("other-{n}"), &small).await;
    }
    store.open();
    assert!(!late.await.unwrap().contains(&false));
    assert_eq!(items(&engine, "f").await, 2_000);
    add(&engine, "f", [5_000]).await;
    for engine in [engine, after_crash(&memory)] {
        assert_eq!(items(&engine, "f").await, 2_001);
        assert!(all_exist(&engine, "f", (0..2_000).chain([5_000])).await);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_sub_filter_that_was_dropped_never_shines_through_the_next_one() {
    let memory = MemoryStore::new();
    let mut engine = engine(Arc::new(memory.clone()), &options(512));
    create(
        &engine,
        "f",
        &FilterRequest {
            capacity: Some(100),
            bucket_size: Some(4),
            ..Default::default()
        },
    )
    .await;
    for round in 0..6u64 {
        let (first, last) = (round * 1000, round * 1000 + 600);
        add(&engine, "f", first..last).await;
        let grown = engine
            .filter_info(&name("f"))
            .await
            .unwrap()
            .sub_filters
            .len();
        assert!(grown > 3);
        if round % 2 == 0 {
            // With images in the store, and without.
            tokio::task::block_in_place(|| engine.shutdown().unwrap());
            engine = support::engine(Arc::new(memory.clone()), &options(512));
        }
        let deleted = engine
            .delete(&name("f"), &support::batch(first..last), None)
            .await
            .unwrap()
            .answer;
        assert!(deleted.iter().all(|&found| found));
        let closed = engine.compact(&name("f"), None).await.unwrap().answer;
        assert_eq!(closed as usize, grown - 1);
        while engine
            .compaction(&name("f"))
            .await
            .unwrap()
            .ended_at_ms
            .is_none()
        {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        // Fill again so that the chain grows over the same positions.
        add(&engine, "f", first + 600..first + 900).await;
        for crashed in [engine.clone(), after_crash(&memory)] {
            assert_eq!(items(&crashed, "f").await, 300);
            let counts = crashed
                .count(&name("f"), &support::batch(first + 600..first + 900))
                .await
                .unwrap();
            assert!(counts.iter().all(|&count| count >= 1));
            let found = exists(&crashed, "f", first..last).await;
            let share = found.iter().filter(|&&found| found).count() as f64 / 600.0;
            assert!(
                share < 0.3,
                "round {round}: {share} of what was deleted is found"
            );
        }
        let rest = engine
            .delete(&name("f"), &support::batch(first + 600..first + 900), None)
            .await
            .unwrap()
            .answer;
        assert!(rest.iter().all(|&found| found));
    }
    tokio::time::sleep(Duration::from_millis(200)).await;
    assert!(
        support::kept(&memory).garbage().unwrap().is_empty(),
        "dropped pages are reclaimed"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_new_filter_of_an_old_name_is_empty_before_and_after_a_crash() {
    let memory = MemoryStore::new();
    let engine = engine(Arc::new(memory.clone()), &options(4096));
    for round in 0..5 {
        create(&engine, "f", &large()).await;
        assert_eq!(items(&engine, "f").await, 0, "round {round}");
        assert!(!exists(&engine, "f", 0..2_000).await.contains(&true));
        add(&engine, "f", 0..2_000).await;
        engine.delete_filter(&name("f"), None).await.unwrap();
        create(&engine, "f", &large()).await;
        let crashed = after_crash(&memory);
        assert!(!exists(&crashed, "f", 0..2_000).await.contains(&true));
        engine.delete_filter(&name("f"), None).await.unwrap();
        assert!(engine.filter_info(&name("f")).await.is_err());
    }
    tokio::time::sleep(Duration::from_millis(200)).await;
    assert!(support::kept(&memory).garbage().unwrap().is_empty());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn replaying_twice_gives_the_same_bytes() {
    let memory = MemoryStore::new();
    let engine = engine(Arc::new(memory.clone()), &options(512));
    create(&engine, "f", &of_capacity(2_000)).await;
    for batch in 0..30u64 {
        add(&engine, "f", batch * 100..batch * 100 + 100).await;
        engine
            .delete(
                &name("f"),
                &support::batch(batch * 100..batch * 100 + 30),
                None,
            )
            .await
            .unwrap();
    }
    engine.halt();
    let once = memory.fork();
    support::engine(Arc::new(once.clone()), &options(512))
        .shutdown()
        .unwrap();
    // The second store is replayed, halted before any checkpoint, replayed
    // with a cache so small that images are written half way, and again.
    let twice = memory.fork();
    support::engine(Arc::new(twice.clone()), &options(512)).halt();
    support::engine(Arc::new(twice.clone()), &options(256)).halt();
    support::engine(Arc::new(twice.clone()), &options(512))
        .shutdown()
        .unwrap();
    assert_eq!(pages(&once), pages(&twice));
    assert!(pages(&once).iter().any(Option::is_some));
}

/// All page images a small filter can have.
fn pages(memory: &MemoryStore) -> Vec<Option<Vec<u8>>> {
    let store = support::kept(memory);
    use cuckood::page::{Ordinal, PageId, PageIndex};
    let id = store.filter_by_name("f").unwrap().unwrap().id;
    let ids: Vec<PageId> = (0..8)
        .flat_map(|ordinal| {
            (0..4).map(move |page| PageId {
                filter: id,
                ordinal: Ordinal(ordinal),
                page: PageIndex(page),
            })
        })
        .collect();
    let mut images = Vec::new();
    store
        .read_pages(&ids, &mut |_, bytes| images.push(bytes.map(<[u8]>::to_vec)))
        .unwrap();
    images
}
