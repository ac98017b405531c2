//! Readers beside writers: no false negative, whatever moves.

use crate::support::{self, Random, batch, create, engine, name, options};
use cuckood::chain::params::FilterRequest;
use cuckood::store::memory::MemoryStore;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// Adds items so that kick-outs and expansions go on all the time, while
/// readers ask for items that were acknowledged.
async fn no_false_negative(frames: u64, capacity: u64, largest_batch: u64, checks: u64, seed: u64) {
    println!("seed {seed}");
    let mut options = options(frames);
    options.lanes = 1;
    let engine = engine(Arc::new(MemoryStore::new()), &options);
    let request = FilterRequest {
        capacity: Some(capacity),
        ..Default::default()
    };
    create(&engine, "f", &request).await;
    let acknowledged = Arc::new(AtomicU64::new(0));
    let stop = Arc::new(AtomicBool::new(false));
    let checked = Arc::new(AtomicU64::new(0));
    let readers: Vec<_> = (0..2)
        .map(|reader| {
            let (engine, acknowledged) = (engine.clone(), Arc::clone(&acknowledged));
            let (stop, checked) = (Arc::clone(&stop), Arc::clone(&checked));
            let mut random = Random(seed + reader);
            tokio::spawn(async move {
                while !stop.load(Ordering::Relaxed) {
                    let known = acknowledged.load(Ordering::Acquire);
                    if known == 0 {
                        tokio::task::yield_now().await;
                        continue;
                    }
                    let asked: Vec<u64> = (0..100).map(|_| random.below(known)).collect();
                    let found = engine
                        .exists(&name("f"), &batch(asked.clone()))
                        .await
                        .unwrap();
                    for (item, found) in asked.into_iter().zip(found) {
                        assert!(found, "item {item} of {known} is a false negative");
                    }
                    let counted = engine
                        .count(&name("f"), &batch([random.below(known)]))
                        .await
                        .unwrap();
                    assert!(counted.iter().all(|&count| count >= 1));
                    checked.fetch_add(101, Ordering::Relaxed);
                }
            })
        })
        .collect();
    let mut added = 0;
    let mut random = Random(seed);
    let started = std::time::Instant::now();
    while added < 6 * capacity && started.elapsed().as_secs() < 12 {
        let next = added + 1 + random.below(largest_batch);
        support::add(&engine, "f", added..next).await;
        added = next;
        acknowledged.store(added, Ordering::Release);
    }
    // The chain is long now; adds and deletes of others keep it moving.
    while checked.load(Ordering::Relaxed) < checks && started.elapsed().as_secs() < 30 {
        let others = 1 << 40..(1 << 40) + largest_batch;
        support::add(&engine, "f", others.clone()).await;
        engine.delete(&name("f"), &batch(others)).await.unwrap();
    }
    stop.store(true, Ordering::Relaxed);
    for reader in readers {
        reader.await.unwrap();
    }
    let total = checked.load(Ordering::Relaxed);
    println!("{total} checks beside {added} adds");
    assert!(total >= checks, "only {total} checks");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn readers_see_every_acknowledged_item_during_kick_outs_and_expansions() {
    no_false_negative(2_048, 20_000, 20, 1_000_000, 1).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn readers_of_a_filter_larger_than_the_cache_see_every_acknowledged_item() {
    no_false_negative(256, 100_000, 3, 20_000, 2).await;
}
