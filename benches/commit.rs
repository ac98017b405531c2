//! What a durable add costs: the redo record of a batch against writing every
//! page that the batch touches, in the same run, rounds interleaved.
//!
//! `cargo bench --bench commit`; every batch is forced to the disk before it
//! is answered. Prints one table; each round's ratio counts, and the median of
//! the rounds is what to quote.

mod support;

use cuckood::chain::params::FilterRequest;
use cuckood::cuckoo::hash::murmur64a;
use cuckood::engine::{AddOptions, Engine, FilterName, ItemBatch};
use cuckood::metrics::Metrics;
use cuckood::page::{FilterId, Ordinal, PageId, PageIndex, Sequence};
use cuckood::store::rocks::{RocksOptions, RocksStore};
use cuckood::store::{Commit, PageStore};
use std::collections::BTreeSet;
use std::error::Error;
use std::sync::Arc;
use std::time::Instant;
use support::engines;
use support::metered::MeteredStore;
use support::rounds::Spread;

const CAPACITY: u64 = 10_000_000;
const BATCH: u64 = 1_000;
const ROUNDS: usize = 5;

fn main() -> Result<(), Box<dyn Error>> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .build()?;
    let folder = tempfile::tempdir_in(std::env::current_dir()?.join("target"))?;
    let rocks = RocksStore::open(folder.path().join("engine"), RocksOptions::default())?;
    let metered = MeteredStore::new(Arc::new(rocks));
    let store = Arc::new(PageStore::open(Arc::new(metered.clone()))?);
    let options = engines::options(512 << 20);
    let engine = Engine::open(store, &options, Arc::new(Metrics::new()?))?;
    let filter = FilterName::parse("bench")?;
    let request = FilterRequest {
        capacity: Some(CAPACITY),
        ..FilterRequest::default()
    };
    runtime.block_on(engine.create_filter(&filter, &request.into(), None))?;
    let naive = RocksStore::open(folder.path().join("naive"), RocksOptions::default())?;
    let naive = PageStore::open(Arc::new(naive))?;

    // Half full, so that both sides work on pages as they are in real life.
    let mut next = 0;
    while next < CAPACITY / 2 {
        add(&runtime, &engine, &filter, &mut next, 1, 20)?;
    }
    println!("{CAPACITY} capacity, half full, batches of {BATCH}, one forced write a batch");
    println!(
        "{:>5} {:>16} {:>16} {:>16} {:>9} {:>9}",
        "round", "redo, 1 client", "redo, 4 clients", "every page", "1 / page", "4 / page"
    );
    let mut ratios = (Vec::new(), Vec::new());
    let before = metered.counts();
    let first = next;
    for round in 0..ROUNDS {
        let one = add(&runtime, &engine, &filter, &mut next, 1, 200)?;
        let four = add(&runtime, &engine, &filter, &mut next, 4, 200)?;
        let pages = write_pages(&naive, round as u64, 30)?;
        println!(
            "{round:>5} {one:>14.0}/s {four:>14.0}/s {pages:>14.0}/s {:>8.1}x {:>8.1}x",
            one / pages,
            four / pages
        );
        ratios.0.push(one / pages);
        ratios.1.push(four / pages);
    }
    println!(
        "median: {:.1}x with 1 client, {:.1}x with 4",
        Spread::of(ratios.0).median,
        Spread::of(ratios.1).median
    );
    let counts = metered.counts();
    println!(
        "{:.2} bytes logged per added item, {:.2} bytes of page images",
        (counts.log_bytes - before.log_bytes) as f64 / (next - first) as f64,
        (counts.image_bytes_written - before.image_bytes_written) as f64 / (next - first) as f64,
    );
    engine.shutdown()?;
    Ok(())
}

/// Items a second through the engine.
fn add(
    runtime: &tokio::runtime::Runtime,
    engine: &Engine,
    filter: &FilterName,
    next: &mut u64,
    clients: u64,
    batches: u64,
) -> Result<f64, Box<dyn Error>> {
    let started = Instant::now();
    let work: Vec<_> = (0..clients)
        .map(|client| {
            let (engine, filter) = (engine.clone(), filter.clone());
            let first = *next + client * batches * BATCH;
            runtime.spawn(async move {
                for batch in 0..batches {
                    let mut items = ItemBatch::default();
                    for n in 0..BATCH {
                        items.push(format!("item-{}", first + batch * BATCH + n).as_bytes());
                    }
                    engine
                        .add(&filter, &items, &AddOptions::default(), None)
                        .await?;
                }
                Ok::<(), cuckood::engine::EngineError>(())
            })
        })
        .collect();
    for client in work {
        runtime.block_on(client)??;
    }
    *next += clients * batches * BATCH;
    Ok((clients * batches * BATCH) as f64 / started.elapsed().as_secs_f64())
}

/// Items a second if a commit writes the pages it touches: same geometry, same
/// hash, the pages half full.
fn write_pages(store: &PageStore, round: u64, batches: u64) -> Result<f64, Box<dyn Error>> {
    const BUCKETS: u64 = 8 << 20;
    const BUCKETS_PER_PAGE: u64 = 2048;
    let image: Vec<u8> = (0..4096u32)
        .map(|n| if n % 2 == 0 { (n % 255 + 1) as u8 } else { 0 })
        .collect();
    let started = Instant::now();
    for batch in 0..batches {
        let pages: BTreeSet<u32> = (0..BATCH)
            .map(|n| {
                let number = (round * batches + batch) * BATCH + n;
                let hash = murmur64a(&number.to_le_bytes(), 0);
                (hash % BUCKETS / BUCKETS_PER_PAGE) as u32
            })
            .collect();
        let images: Vec<(PageId, Vec<u8>)> = pages
            .into_iter()
            .map(|page| {
                let id = PageId {
                    filter: FilterId(1),
                    ordinal: Ordinal(0),
                    page: PageIndex(page),
                };
                (id, image.clone())
            })
            .collect();
        store.checkpoint(&images, Sequence(0))?;
        // Forces both to the disk with one write.
        store.commit(&Commit {
            sequence: Sequence(1),
            ..Commit::default()
        })?;
    }
    Ok((batches * BATCH) as f64 / started.elapsed().as_secs_f64())
}
