//! Stores that refuse, lie about refusing, or are damaged.

use crate::gated::{Failing, GatedStore};
use crate::memory::MemoryStore;
use crate::support::{
    self, add, all_exist, batch, create, engine, exists, items, name, of_capacity, options,
};
use cuckood::chain::params::FilterRequest;
use cuckood::engine::{AddOptions, Engine, EngineError, Replace};
use cuckood::metrics::Metrics;
use cuckood::store::PageStore;
use std::sync::Arc;
use std::time::Duration;

async fn settled_add(engine: &cuckood::engine::Engine, filter: &str, item: u64) {
    for _ in 0..100 {
        match engine
            .add(&name(filter), &batch([item]), &AddOptions::default(), None)
            .await
        {
            Ok(_) => return,
            Err(EngineError::Overloaded(_)) => tokio::time::sleep(Duration::from_millis(20)).await,
            Err(error) => panic!("{error}"),
        }
    }
    panic!("the lane never recovered");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_failed_commit_changes_nothing_and_the_next_one_settles_it() {
    for failing in [Failing::Before, Failing::After] {
        let memory = MemoryStore::new();
        let store = GatedStore::new(Arc::new(memory.clone()));
        let engine = engine(Arc::new(store.clone()), &options(512));
        create(&engine, "f", &of_capacity(64)).await;
        create(&engine, "g", &FilterRequest::default()).await;
        add(&engine, "f", 0..50).await;
        add(&engine, "g", 0..50).await;

        store.fail_commits(failing);
        // Expansion, delete, creation and removal, none of which may show.
        let error = engine
            .add(&name("f"), &batch(1000..1400), &AddOptions::default(), None)
            .await;
        assert!(
            matches!(error, Err(EngineError::OutcomeUnknown(_))),
            "{error:?}"
        );
        assert_eq!(items(&engine, "f").await, 50);
        let error = engine
            .add(&name("f"), &batch([1]), &AddOptions::default(), None)
            .await;
        assert!(
            matches!(error, Err(EngineError::Overloaded(_))),
            "{error:?}"
        );
        let removal = engine.delete_filter(&name("g"), None).await;
        assert!(removal.is_err());
        let creation = engine
            .create_filter(&name("h"), &FilterRequest::default().into(), None)
            .await;
        assert!(creation.is_err());
        // A filter whose creation only seemed to fail can be found for now.
        let _ = engine.exists(&name("h"), &batch([1])).await;

        // A crash now may show all of the failed commits or none, never a part.
        let crashed = support::engine(Arc::new(memory.fork()), &options(512));
        let found = items(&crashed, "f").await;
        assert!(found == 50 || found == 450, "{found} items");
        assert!(all_exist(&crashed, "f", 0..50).await);
        assert!(found == 50 || all_exist(&crashed, "f", 1000..1400).await);

        store.fail_commits(Failing::Nothing);
        settled_add(&engine, "f", 2000).await;
        settled_add(&engine, "g", 2000).await;
        let crashed = support::engine(Arc::new(memory.fork()), &options(512));
        for engine in [&engine, &crashed] {
            assert_eq!(items(engine, "f").await, 51, "{failing:?}");
            assert_eq!(items(engine, "g").await, 51, "{failing:?}");
            assert!(all_exist(engine, "f", (0..50).chain([2000])).await);
            assert!(all_exist(engine, "g", (0..50).chain([2000])).await);
            let phantom = exists(engine, "f", 1000..1400).await;
            let share = phantom.iter().filter(|&&found| found).count();
            assert!(
                share < 80,
                "{failing:?}: {share} of 400 items of a failed commit are found"
            );
        }
        create(&engine, "h", &FilterRequest::default()).await;
        add(&engine, "h", [1]).await;
        let crashed = support::engine(Arc::new(memory.fork()), &options(512));
        assert_eq!(items(&crashed, "h").await, 1, "{failing:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_lane_settles_what_is_indeterminate_even_if_nobody_asks_for_anything() {
    let memory = MemoryStore::new();
    let store = GatedStore::new(Arc::new(memory.clone()));
    let engine = engine(Arc::new(store.clone()), &options(512));
    create(&engine, "f", &FilterRequest::default()).await;
    store.fail_commits(Failing::After);
    let error = engine
        .add(&name("f"), &batch([1]), &AddOptions::default(), None)
        .await;
    assert!(error.is_err());
    store.fail_commits(Failing::Nothing);
    tokio::time::sleep(Duration::from_millis(1200)).await;
    assert_eq!(
        memory.log_sequences(),
        [],
        "the record of unknown outcome is gone"
    );
    assert_eq!(
        items(
            &support::engine(Arc::new(memory.fork()), &options(512)),
            "f"
        )
        .await,
        0
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn checkpoints_that_fail_refuse_writes_at_the_bound_and_keep_reads_going() {
    let store = GatedStore::new(Arc::new(MemoryStore::new()));
    let mut options = options(512);
    options.max_log_bytes = 3_000;
    let engine = engine(Arc::new(store.clone()), &options);
    create(&engine, "f", &FilterRequest::default()).await;
    store.fail_checkpoints(true);
    let mut accepted = 0;
    let refused = loop {
        match engine
            .add(&name("f"), &batch([accepted]), &AddOptions::default(), None)
            .await
        {
            Ok(_) => accepted += 1,
            Err(error) => break error,
        }
        assert!(accepted < 100_000, "the bound was never reached");
    };
    assert!(matches!(refused, EngineError::Overloaded(_)), "{refused}");
    assert!(all_exist(&engine, "f", 0..accepted).await);
    store.fail_checkpoints(false);
    tokio::time::sleep(Duration::from_millis(1200)).await;
    add(&engine, "f", [accepted]).await;
    assert_eq!(items(&engine, "f").await, accepted + 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn bounds_far_below_the_load_slow_commits_down_but_never_stop_them() {
    let memory = MemoryStore::new();
    let mut options = options(256);
    options.max_log_bytes = 500;
    options.max_dirty_bytes = 2 * support::PAGE_BYTES;
    options.checkpoint_slice_bytes = support::PAGE_BYTES;
    let engine = engine(Arc::new(memory.clone()), &options);
    let filters = ["a", "b", "c", "d"];
    for filter in filters {
        create(&engine, filter, &of_capacity(600_000)).await;
    }
    let clients = filters.map(|filter| {
        let engine = engine.clone();
        tokio::spawn(async move {
            for n in 0..150u64 {
                add(&engine, filter, [n]).await;
            }
        })
    });
    for client in clients {
        tokio::time::timeout(Duration::from_secs(60), client)
            .await
            .expect("no deadlock")
            .unwrap();
    }
    let crashed = support::engine(Arc::new(memory.fork()), &options);
    for filter in filters {
        assert!(all_exist(&crashed, filter, 0..150).await);
        assert_eq!(items(&crashed, filter).await, 150);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_batch_over_more_pages_than_the_cache_holds_is_refused_by_name() {
    let engine = engine(Arc::new(MemoryStore::new()), &options(256));
    create(&engine, "f", &of_capacity(4_000_000)).await;
    let refused = engine
        .add(&name("f"), &batch(0..2_000), &AddOptions::default(), None)
        .await;
    assert!(
        matches!(refused, Err(EngineError::TooManyPages { bound: 42, .. })),
        "{refused:?}"
    );
    assert_eq!(items(&engine, "f").await, 0);
    // Questions are answered in slices whatever the cache.
    assert!(!exists(&engine, "f", 0..2_000).await.contains(&true));
    add(&engine, "f", 0..8).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn open_filters_are_bounded_and_closed_ones_come_back() {
    let mut options = options(512);
    options.max_open_filters = 16;
    let store = Arc::new(PageStore::open(Arc::new(MemoryStore::new())).unwrap());
    let metrics = Arc::new(Metrics::new().unwrap());
    let engine = Engine::open(store, &options, Arc::clone(&metrics)).unwrap();
    for n in 0..200u64 {
        let filter = format!("filter-{n}");
        create(&engine, &filter, &FilterRequest::default()).await;
        add(&engine, &filter, [n]).await;
        let open = metrics.open_filters.get();
        assert!(open <= 18, "{open} filters are open");
    }
    for n in 0..200u64 {
        assert!(all_exist(&engine, &format!("filter-{n}"), [n]).await);
    }
    let listed = engine
        .list_filters("filter-1", "", None, 1000)
        .await
        .unwrap()
        .filters;
    assert_eq!(listed.len(), 111);
    assert!(listed.iter().all(|filter| filter.items == 1));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_filter_that_was_found_while_indeterminate_is_gone_once_its_creation_is_taken_back() {
    let memory = MemoryStore::new();
    let store = GatedStore::new(Arc::new(memory.clone()));
    let engine = engine(Arc::new(store.clone()), &options(512));
    store.fail_commits(Failing::After);
    let creation = engine
        .create_filter(&name("f"), &FilterRequest::default().into(), None)
        .await;
    assert!(matches!(creation, Err(EngineError::OutcomeUnknown(_))));
    assert_eq!(
        exists(&engine, "f", [1]).await,
        [false],
        "it is in the store"
    );
    store.fail_commits(Failing::Nothing);
    tokio::time::sleep(Duration::from_millis(1200)).await;
    let refused = engine
        .add(&name("f"), &batch([1]), &AddOptions::default(), None)
        .await;
    assert!(
        matches!(refused, Err(EngineError::NotFound { .. })),
        "{refused:?}"
    );
    create(&engine, "f", &FilterRequest::default()).await;
    add(&engine, "f", [1]).await;
    let crashed = support::engine(Arc::new(memory.fork()), &options(512));
    assert!(all_exist(&crashed, "f", [1]).await);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn the_pages_of_a_filter_whose_naming_is_taken_back_are_reclaimed_without_a_restart() {
    for failing in [Failing::Before, Failing::After] {
        let memory = MemoryStore::new();
        let store = GatedStore::new(Arc::new(memory.clone()));
        let engine = engine(Arc::new(store.clone()), &options(512));
        create(&engine, "f", &FilterRequest::default()).await;
        add(&engine, "f", 0..100).await;
        let mut whole = Vec::new();
        engine.dump(&name("f"), &mut whole).unwrap();
        let staged = engine.intake(&name("f"), Replace::Nothing).await.unwrap();
        let staged = staged.dump(whole.as_slice()).unwrap();
        store.fail_commits(failing);
        let named = engine.adopt(&name("g"), staged, Replace::Nothing).await;
        assert!(matches!(named, Err(EngineError::OutcomeUnknown(_))));
        assert_eq!(support::kept(&memory).garbage().unwrap().len(), {
            usize::from(failing == Failing::Before)
        });
        store.fail_commits(Failing::Nothing);
        let mut left = Vec::new();
        for _ in 0..200 {
            left = support::kept(&memory).garbage().unwrap();
            let is_there = engine.has_filter(&name("g")).await.unwrap();
            if left.is_empty() && !is_there {
                break;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        assert_eq!(left, [], "{failing:?}");
        assert!(!engine.has_filter(&name("g")).await.unwrap());
        tokio::task::block_in_place(|| engine.shutdown().unwrap());
        cuckood::engine::check::check(&support::kept(&memory)).unwrap();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn an_expansion_over_more_pages_than_a_commit_may_touch_is_refused() {
    let engine = engine(Arc::new(MemoryStore::new()), &options(512));
    let request = FilterRequest {
        capacity: Some(4_000),
        bucket_size: Some(2),
        expansion: Some(4096),
        ..Default::default()
    };
    create(&engine, "f", &request).await;
    for first in (0..6_000).step_by(1_000) {
        add(&engine, "f", first..first + 1_000).await;
    }
    let (filter, items_over, always) = (name("f"), batch(6_000..10_000), AddOptions::default());
    let work = engine.add(&filter, &items_over, &always, None);
    let refused = tokio::time::timeout(Duration::from_secs(20), work).await;
    let refused = refused.expect("a lane must not wait for its own frames");
    assert!(
        matches!(refused, Err(EngineError::TooManyPages { .. })),
        "{refused:?}"
    );
    assert_eq!(items(&engine, "f").await, 6_000);
    add(&engine, "f", 6_000..6_010).await;
}
