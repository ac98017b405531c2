//! What the engine tests share: engines of a convenient size, items, crashes.

use crate::memory::MemoryStore;
use cuckood::chain::params::{Defaults, FilterRequest, LayoutKind};
use cuckood::engine::{
    ANSWER_KEPT_FOR, AddOptions, AddResult, Engine, EngineError, EngineOptions, FilterName,
    IdempotencyKey, ItemBatch, slot_of,
};
use cuckood::metrics::Metrics;
use cuckood::page::FilterId;
use cuckood::store::{KeyValueStore, PageStore};
use std::sync::Arc;

pub(crate) const PAGE_BYTES: u64 = 4096;

/// Options for a small engine: `frames` pages of cache.
pub(crate) fn options(frames: u64) -> EngineOptions {
    EngineOptions {
        defaults: Defaults {
            // Small pages make small filters of many pages.
            layout: LayoutKind::Classic,
            max_expansions: 1000,
            max_chain_length: 1 << 16,
            ..Defaults::default()
        },
        checkpoint_slice_bytes: 8 * PAGE_BYTES,
        max_dirty_bytes: frames / 4 * PAGE_BYTES,
        after_commit: Some(crate::checked::after_commit),
        ..EngineOptions::with_cache(frames * PAGE_BYTES)
    }
}

/// A number that the environment gives, or another.
pub(crate) fn from_environment(name: &str, otherwise: u64) -> u64 {
    std::env::var(name).map_or(otherwise, |text| text.parse().unwrap())
}

/// An engine on what is kept there.
pub(crate) fn engine(kept: Arc<dyn KeyValueStore>, options: &EngineOptions) -> Engine {
    engine_on(Arc::new(PageStore::open(kept).unwrap()), options)
}

pub(crate) fn engine_on(store: Arc<PageStore>, options: &EngineOptions) -> Engine {
    Engine::open(store, options, Arc::new(Metrics::new().unwrap())).unwrap()
}

/// What an engine on `memory` keeps there, seen from outside.
pub(crate) fn kept(memory: &MemoryStore) -> PageStore {
    PageStore::open(Arc::new(memory.clone())).unwrap()
}

pub(crate) fn name(text: &str) -> FilterName {
    FilterName::parse(text).unwrap()
}

/// The number of the filter of this name that was made as the so manieth of a server.
pub(crate) fn number(text: &str, serial: u64) -> FilterId {
    FilterId::new(slot_of(&name(text)), serial)
}

pub(crate) fn batch(items: impl IntoIterator<Item = u64>) -> ItemBatch {
    let mut batch = ItemBatch::default();
    for item in items {
        batch.push(format!("item-{item}").as_bytes());
    }
    batch
}

/// What is asked for a filter that holds so many items, and is as usual otherwise.
pub(crate) fn of_capacity(capacity: u64) -> FilterRequest {
    FilterRequest {
        capacity: Some(capacity),
        ..FilterRequest::default()
    }
}

/// A key of a request, whose bytes are all the same, as are those of what it asked for.
pub(crate) fn idempotency_key(key: u8, fingerprint: u8) -> IdempotencyKey {
    IdempotencyKey {
        key: [key; 32],
        fingerprint: [fingerprint; 32],
        kept_for: ANSWER_KEPT_FOR,
    }
}

pub(crate) async fn create(engine: &Engine, filter: &str, request: &FilterRequest) {
    let wanted = request.clone().into();
    engine
        .create_filter(&name(filter), &wanted, None)
        .await
        .unwrap();
}

/// Adds items and expects each to be in afterwards.
pub(crate) async fn add(engine: &Engine, filter: &str, items: impl IntoIterator<Item = u64>) {
    let results = engine
        .add(&name(filter), &batch(items), &AddOptions::default(), None)
        .await
        .unwrap()
        .answer;
    assert!(
        results.iter().all(|&result| result == AddResult::Added),
        "{results:?}"
    );
}

/// Has a change done in parts, as large as the cache has room for their pages.
pub(crate) async fn in_parts<T>(
    items: &[u64],
    change: impl AsyncFn(ItemBatch) -> Result<Vec<T>, EngineError>,
) -> Vec<T> {
    let (mut results, mut at_once) = (Vec::new(), items.len());
    while results.len() < items.len() {
        let left = items.iter().skip(results.len()).take(at_once);
        match change(batch(left.copied())).await {
            Ok(part) => results.extend(part),
            Err(EngineError::TooManyPages { .. }) if at_once > 1 => at_once /= 2,
            Err(error) => panic!("{error}"),
        }
    }
    results
}

pub(crate) async fn exists(
    engine: &Engine,
    filter: &str,
    items: impl IntoIterator<Item = u64>,
) -> Vec<bool> {
    engine.exists(&name(filter), &batch(items)).await.unwrap()
}

pub(crate) async fn all_exist(
    engine: &Engine,
    filter: &str,
    items: impl IntoIterator<Item = u64>,
) -> bool {
    exists(engine, filter, items)
        .await
        .into_iter()
        .all(|found| found)
}

pub(crate) async fn items(engine: &Engine, filter: &str) -> u64 {
    engine.filter_info(&name(filter)).await.unwrap().items
}

/// How many filters there are, if they are few.
pub(crate) async fn filter_count(engine: &Engine) -> usize {
    let listed = engine.list_filters("", "", None, 10).await;
    listed.unwrap().filters.len()
}

/// A small generator with a seed that tests print (SplitMix64, Steele, Lea and
/// Flood, OOPSLA 2014).
pub(crate) struct Random(pub(crate) u64);

impl Random {
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound
    }
}
