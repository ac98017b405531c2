use super::*;
use crate::chain::counters::{CounterKey, Counters, MAX_COUNTERS};
use crate::chain::params::FilterRequest;
use crate::error::Overload;
use crate::memory::MemoryStore;
use crate::metrics::Metrics;
use crate::page::Sequence;
use crate::pages::image;
use crate::store::PageStore;
use crate::{AddOptions, Engine, EngineOptions};
use std::ops::Range;

const CACHE: u64 = 4 << 20;

#[tokio::test(flavor = "multi_thread")]
async fn counters_beside_pages_that_commands_hold_take_half_of_the_cache_at_most() {
    let options = EngineOptions {
        lanes: 1,
        checkpoint_slice_bytes: 8 * 4_096,
        ..EngineOptions::with_cache(CACHE)
    };
    let store = Arc::new(PageStore::open(Arc::new(MemoryStore::new())).unwrap());
    let metrics = Arc::new(Metrics::new().unwrap());
    let engine = Engine::open(Arc::clone(&store), &options, metrics).unwrap();
    let [hot, small] = ["hot", "small"].map(|it| FilterName::parse(it).unwrap());
    for (name, capacity) in [(&hot, 1_000_000), (&small, 100)] {
        let request = FilterRequest {
            capacity: Some(capacity),
            ..FilterRequest::default()
        };
        let made = engine.create_filter(name, &request.into(), None).await;
        made.unwrap();
    }
    let hot = engine.find(&hot).await.unwrap();
    let view = hot.view.load_full();
    let (table, lanes) = (&view.tables[0], &engine.state.lanes);
    let mut counters = Counters::default();
    counters.set_all((1..=MAX_COUNTERS as u64).map(|key| (CounterKey(key), 1)));
    let pages = table.pages().min(150);
    assert!(pages == 150, "{pages} pages");
    for page in 0..pages {
        let page_bytes = table.geometry().page_bytes();
        let image = image::encode([0; 512].into_iter(), page_bytes, Some(&counters));
        store
            .checkpoint(&[(table.id(page), image)], Sequence(0))
            .unwrap();
    }
    let addresses = |pages: Range<u32>| -> Vec<PageAddress> {
        pages.map(|page| PageAddress { sub: 0, page }).collect()
    };
    let permit = |pages: usize| {
        let pinnable = &lanes.loader.pinnable;
        pinnable.try_take(None, pages as u64).unwrap()
    };
    let pin = |pages: Range<u32>| {
        let pages = addresses(pages);
        let pins = || lanes.loader.pin(&view.tables, &pages, permit(pages.len()));
        tokio::task::block_in_place(pins).unwrap()
    };
    let most = CACHE / 2 + counters.bytes() as u64;
    println!("{pages} pages, {} bytes of counters each", counters.bytes());
    // More than there is room for, by one command and by two.
    assert!(pin(0..pages).is_none());
    let one = pin(0..20);
    assert!(one.is_some() && pin(20..pages).is_none());
    assert!(lanes.cache.counter_bytes() <= most);
    let other = pin(0..20);
    assert!(other.is_some());

    // What is refused gives back what it held, so something goes on after it.
    let add = || async {
        let (item, options) = (ItemBatch::of(b"one"), AddOptions::default());
        engine.add(&small, &item, &options, None).await
    };
    add().await.unwrap();
    let rest = (20..pages).map_while(|page| pin(page..page + 1));
    let rest: Vec<Pins> = rest.collect();
    assert!(rest.len() < (20..pages).len());
    let refused = add().await.map(|_| ());
    assert!(
        matches!(refused, Err(EngineError::Overloaded(Overload::Counters))),
        "{refused:?}"
    );
    drop(rest);
    add().await.unwrap();
    tokio::task::block_in_place(|| engine.halt());
}
