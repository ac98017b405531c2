//! Readers beside writers: no false negative, whatever moves.

use crate::memory::MemoryStore;
use crate::support::{self, Random, batch, create, engine, name, of_capacity, options};
use cuckood::chain::params::FilterRequest;
use cuckood::engine::Engine;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// What the writer tells the readers.
#[derive(Default)]
struct Shared {
    /// Items 0 to this were added and acknowledged.
    acknowledged: AtomicU64,
    checked: AtomicU64,
    stop: AtomicBool,
}

/// Stops the readers however the writer ends, so that a failure is a failure
/// and not a test that runs for ever.
struct StopReaders(Arc<Shared>);

impl Drop for StopReaders {
    fn drop(&mut self) {
        self.0.stop.store(true, Ordering::Relaxed);
    }
}

async fn read_until_stopped(engine: Engine, shared: Arc<Shared>, seed: u64, batch_size: u64) {
    let mut random = Random(seed);
    let start = shared.acknowledged.load(Ordering::Acquire);
    while !shared.stop.load(Ordering::Relaxed) {
        let known = shared.acknowledged.load(Ordering::Acquire);
        let asked: Vec<u64> = (0..batch_size).map(|_| random.below(known)).collect();
        let found = engine.exists(&name("f"), &batch(asked.clone())).await;
        for (item, found) in asked.into_iter().zip(found.unwrap()) {
            assert!(found, "item {item} of {known} is a false negative");
        }
        let one = batch([random.below(known)]);
        let counted = engine.count(&name("f"), &one).await.unwrap();
        assert!(counted.iter().all(|&count| count >= 1));
        shared.checked.fetch_add(batch_size + 1, Ordering::Relaxed);
        // Readers that are far ahead of the writer let it catch up, so that
        // there is something to overtake them.
        let added = shared.acknowledged.load(Ordering::Relaxed) - start;
        match shared.checked.load(Ordering::Relaxed) > 100 * (added + 500) {
            true => tokio::time::sleep(Duration::from_millis(1)).await,
            false => tokio::task::yield_now().await,
        }
    }
}

/// Adds new items and moves others in and out while two readers ask for what
/// was acknowledged, until they have made `checks` checks and the filter has doubled
/// so often.
async fn no_false_negative(
    engine: Engine,
    known: u64,
    largest_batch: u64,
    checks: u64,
    doublings: u64,
    seed: u64,
) {
    println!("seed {seed}");
    let shared = Arc::new(Shared::default());
    shared.acknowledged.store(known, Ordering::Release);
    let stop = StopReaders(Arc::clone(&shared));
    let readers = [1, 2].map(|reader| {
        let (engine, shared) = (engine.clone(), Arc::clone(&shared));
        tokio::spawn(read_until_stopped(engine, shared, seed + reader, 100))
    });
    let mut random = Random(seed);
    let mut added = known;
    let started = Instant::now();
    let mut grown = 0;
    while (shared.checked.load(Ordering::Relaxed) < checks || grown < doublings)
        && started.elapsed() < Duration::from_secs(60)
    {
        assert!(
            readers.iter().all(|reader| !reader.is_finished()),
            "a reader failed"
        );
        let next = added + 1 + random.below(largest_batch);
        support::add(&engine, "f", added..next).await;
        added = next;
        shared.acknowledged.store(added, Ordering::Release);
        let others = 1 << 40..(1 << 40) + largest_batch;
        support::add(&engine, "f", others.clone()).await;
        engine
            .delete(&name("f"), &batch(others), None)
            .await
            .unwrap();
        let info = engine.filter_info(&name("f")).await.unwrap();
        grown = u64::from(info.expansions);
    }
    drop(stop);
    for reader in readers {
        reader.await.unwrap();
    }
    let checked = shared.checked.load(Ordering::Relaxed);
    println!(
        "{checked} checks beside {} adds, doubled {grown} times",
        added - known
    );
    assert!(checked >= checks, "only {checked} checks");
    assert!(grown >= doublings, "doubled only {grown} times");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn readers_see_every_acknowledged_item_during_kick_outs_and_expansions() {
    let engine = engine(Arc::new(MemoryStore::new()), &options(4_096));
    let request = FilterRequest {
        capacity: Some(2_000),
        expansion: Some(2),
        ..Default::default()
    };
    create(&engine, "f", &request).await;
    support::add(&engine, "f", 0..500).await;
    no_false_negative(engine, 500, 20, 1_000_000, 2, 1).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn readers_of_a_filter_larger_than_the_cache_see_every_acknowledged_item() {
    let memory = MemoryStore::new();
    // Filled with room to spare, then asked through a cache of 450 pages.
    let large = engine(Arc::new(memory.clone()), &options(16_384));
    let request = of_capacity(100_000);
    create(&large, "f", &request).await;
    let mut added = 0;
    while large.filter_info(&name("f")).await.unwrap().slot_bytes < 520 << 12 {
        support::add(&large, "f", added..added + 5_000).await;
        added += 5_000;
    }
    let pages: u64 = large
        .filter_info(&name("f"))
        .await
        .unwrap()
        .sub_filters
        .iter()
        .map(|sub| sub.pages)
        .sum();
    assert!(pages > 500, "{pages} pages fit the cache");
    tokio::task::block_in_place(|| large.shutdown().unwrap());
    let small = engine(Arc::new(memory), &options(450));
    no_false_negative(small, added, 1, 20_000, 0, 2).await;
}
