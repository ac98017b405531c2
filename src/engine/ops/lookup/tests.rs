use super::*;
use crate::chain::params::{Defaults, FilterRequest, LayoutKind};
use crate::engine::{AddOptions, EngineOptions};
use crate::metrics::Metrics;
use crate::store::PageStore;
use crate::store::memory::MemoryStore;

/// An engine whose lane may touch 42 pages for one command.
fn tiny() -> Engine {
    let options = EngineOptions {
        defaults: Defaults {
            // Small pages make small filters of many pages.
            layout: LayoutKind::Classic,
            ..Defaults::default()
        },
        lanes: 1,
        checkpoint_slice_bytes: 8 * 4096,
        max_queued_items: 100_000,
        ..EngineOptions::with_cache(256 * 4096)
    };
    let store = PageStore::open(Arc::new(MemoryStore::new())).unwrap();
    let metrics = Arc::new(Metrics::new().unwrap());
    Engine::open(Arc::new(store), &options, metrics).unwrap()
}

fn batch(items: Range<u32>) -> ItemBatch {
    let mut batch = ItemBatch::new();
    for item in items {
        batch.push(&item.to_le_bytes());
    }
    batch
}

/// Where commits overtake all items, the lane answers; of more pages than a
/// command may touch, in parts.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn items_that_commits_overtake_are_answered_however_many_pages_they_are_on() {
    let engine = tiny();
    let name = FilterName::parse("f").unwrap();
    let wanted = FilterRequest {
        capacity: Some(1_000_000),
        ..FilterRequest::default()
    };
    engine
        .create_filter(&name, &wanted.into(), None)
        .await
        .unwrap();
    for first in 0..10 {
        let (items, always) = (batch(10 * first..10 * first + 10), AddOptions::default());
        engine.add(&name, &items, &always, None).await.unwrap();
    }
    let items = batch(0..200);
    let filters = [engine.state.find(&engine.caller, &name).await.unwrap()];
    let mut sweep = Sweep::new(
        &engine.state,
        &engine.caller,
        &filters,
        &items,
        LookupMode::All,
    )
    .await
    .unwrap();
    let overtaken: Vec<Pair> = (0..200).map(|item| Pair { filter: 0, item }).collect();
    sweep.ask_lanes(&overtaken).await.unwrap();
    assert!(!sweep.is_stale);

    let asked: Vec<usize> = (0..200).collect();
    let answers = engine
        .state
        .ask_lane::<Exists>(&engine.caller, &filters[0], &items, &asked)
        .await
        .unwrap()
        .unwrap();
    let found = |item: usize| sweep.matches.next(item, 0).is_some();
    assert_eq!((0..200).map(found).collect::<Vec<_>>(), answers);
    assert!(answers[..100].iter().all(|&found| found));
    assert!(answers[100..].iter().filter(|&&found| found).count() < 10);
    tokio::task::block_in_place(|| engine.halt());
}
