use super::*;
use crate::chain::params::{Defaults, FilterRequest, LayoutKind};
use crate::cold::ROUNDS;
use crate::filters::FilterView;
use crate::memory::MemoryStore;
use crate::metrics::Metrics;
use crate::store::PageStore;
use crate::{AddOptions, EngineOptions};
use std::time::Duration;

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
    let mut batch = ItemBatch::default();
    for item in items {
        batch.push(&item.to_le_bytes());
    }
    batch
}

/// Where commits overtake all items, they are asked while nothing is published.
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
    let filters = [engine.find(&name).await.unwrap()];
    let mut sweep = Sweep::new(
        &engine,
        &filters,
        Asked {
            items: &items,
            mode: LookupMode::All,
            question: Exists::default(),
        },
        SoFar {
            asked: 0,
            matches: MatchBitSet::none(items.len(), filters.len()),
            unkeyed: None,
        },
    )
    .await
    .unwrap();
    let mut overtaken: Vec<Pair> = (0..200).map(|item| Pair { filter: 0, item }).collect();
    let mut round = ROUNDS;
    while !overtaken.is_empty() {
        // What is read may take the frames of pages that were resident.
        assert!(round < 2 * ROUNDS, "{} of 200 are open", overtaken.len());
        overtaken = sweep.read_and_ask(overtaken, round).await.unwrap();
        round += 1;
    }

    let answers = engine.exists(&name, &items).await.unwrap();
    let found = |item: usize| sweep.so_far.matches.next(item, 0).is_some();
    assert_eq!((0..200).map(found).collect::<Vec<_>>(), answers);
    assert!(answers[..100].iter().all(|&found| found));
    assert!(answers[100..].iter().filter(|&&found| found).count() < 10);
    tokio::task::block_in_place(|| engine.halt());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lane_that_is_kept_from_publishing_goes_on_afterwards() {
    let engine = tiny();
    let name = FilterName::parse("f").unwrap();
    let wanted = FilterRequest::default().into();
    engine.create_filter(&name, &wanted, None).await.unwrap();
    let filter = engine.find(&name).await.unwrap();
    let state = &engine.state;
    assert!(state.hold_publications(&filter, ROUNDS - 1).is_none());
    let adding = {
        let (engine, name) = (engine.clone(), name.clone());
        let add = async move {
            let always = AddOptions::default();
            engine.add(&name, &batch(0..10), &always, None).await
        };
        let held = state.hold_publications(&filter, ROUNDS);
        assert!(held.is_some());
        let adding = tokio::spawn(add);
        let view = filter.view.load_full();
        for _ in 0..20 {
            std::thread::sleep(Duration::from_millis(5));
            assert!(Arc::ptr_eq(&view, &filter.view.load_full()));
        }
        adding
    };
    adding.await.unwrap().unwrap();
    let found = engine.exists(&name, &batch(0..10)).await.unwrap();
    assert_eq!(found, [true; 10]);
    tokio::task::block_in_place(|| engine.halt());
}

/// Neither "yes" nor "no": the pages that an older view names are not what it
/// takes them for, though nothing is published to them any more.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_view_from_before_a_split_or_a_merge_answers_nothing() {
    let engine = tiny();
    let name = FilterName::parse("f").unwrap();
    let wanted = FilterRequest {
        layout: Some(LayoutKind::Paged),
        capacity: Some(1_000),
        ..FilterRequest::default()
    };
    engine
        .create_filter(&name, &wanted.into(), None)
        .await
        .unwrap();
    let (items, always) = (batch(0..1_000), AddOptions::default());
    engine.add(&name, &items, &always, None).await.unwrap();
    let filter = engine.find(&name).await.unwrap();
    let (cache, images) = (&engine.state.cache, Images::default());
    let hasher = filter.view.load().chain.hash_id().hasher();
    let mut hashes = Vec::new();
    hasher.hash_all(items.iter(), &mut hashes);
    let answered = |view: &FilterView| {
        let mut found = vec![false; hashes.len()];
        let open = Groups::new(cache, &filter, view).settle(Exists::default(), &hashes, &mut found);
        assert_eq!(
            open.len() + found.iter().filter(|&&found| found).count(),
            1_000
        );
        let mut words = PublishedWords::new(cache, &filter, view, &images);
        let one_by_one = hashes
            .iter()
            .filter(|&&hash| words.settle(Exists::default(), hash).is_some());
        (1_000 - open.len(), one_by_one.count())
    };
    let grow = async |items: Range<u32>| {
        let added = engine.add(&name, &batch(items), &always, None).await;
        assert_eq!(added.unwrap().answer.len(), 1_000);
    };

    let before = filter.view.load_full();
    grow(1_000..2_000).await;
    let after = filter.view.load_full();
    assert!(after.tables[0].pages() > 1);
    assert_eq!(answered(&before), (0, 0));
    assert_eq!(answered(&after), (1_000, 1_000));
    for first in 2..5 {
        grow(1_000 * first..1_000 * (first + 1)).await;
    }
    let most = filter.view.load_full();
    let gone = batch(1_000..5_000);
    engine.delete(&name, &gone, None).await.unwrap();
    let merged = filter.view.load_full();
    assert!(merged.tables[0].pages() < 4);
    assert_eq!(answered(&most), (0, 0));
    assert_eq!(answered(&merged), (1_000, 1_000));
    // Not even one that has as many pages again.
    grow(1_000..2_000).await;
    for first in 2..5 {
        grow(1_000 * first..1_000 * (first + 1)).await;
    }
    let again = filter.view.load_full();
    assert_eq!(again.chain.slot_bytes(), most.chain.slot_bytes());
    assert_eq!(answered(&most), (0, 0));
    assert_eq!(answered(&again), (1_000, 1_000));
    tokio::task::block_in_place(|| engine.halt());
}
