//! What a compaction costs others: how long adds and questions take while
//! nothing else goes on, and while the same filter is compacted, in one run.
//!
//! `cargo bench --bench compaction`; RocksDB on disk, every commit forced to
//! it. Of a filter of the layout `classic`: those of the layout `paged` need none.

mod support;

use cuckood::chain::params::FilterRequest;
use cuckood::engine::{AddOptions, CompactionState, Engine, FilterName, ItemBatch};
use cuckood::metrics::Metrics;
use cuckood::store::PageStore;
use cuckood::store::rocks::{RocksOptions, RocksStore};
use std::error::Error;
use std::sync::Arc;
use std::time::{Duration, Instant};
use support::engines;

/// Items added; one in eight of them stays.
const ITEMS: u64 = 8_000_000;
const CAPACITY: u64 = ITEMS / 7;
const BATCH: u64 = 10_000;

fn main() -> Result<(), Box<dyn Error>> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_time()
        .build()?;
    runtime.block_on(measure(FilterRequest {
        bucket_size: Some(4),
        capacity: Some(CAPACITY),
        expansion: Some(2),
        ..FilterRequest::default()
    }))
}

async fn measure(request: FilterRequest) -> Result<(), Box<dyn Error>> {
    let folder = tempfile::tempdir_in(std::env::current_dir()?.join("target"))?;
    let rocks = RocksStore::open(folder.path(), RocksOptions::default())?;
    let store = PageStore::open(Arc::new(rocks))?;
    let options = engines::options(512 << 20);
    let engine = Engine::open(Arc::new(store), &options, Arc::new(Metrics::new()?))?;
    let filter = FilterName::parse("bench")?;
    engine.create_filter(&filter, &request.into(), None).await?;
    for first in (0..ITEMS).step_by(BATCH as usize) {
        let items = batch(first..first + BATCH);
        engine
            .add(&filter, &items, &AddOptions::default(), None)
            .await?;
    }
    for first in (0..ITEMS).step_by(BATCH as usize) {
        let items = batch((first..first + BATCH).filter(|n| n % 8 != 0));
        engine.delete(&filter, &items, None).await?;
    }
    let before = engine.filter_info(&filter).await?;
    let mut next = ITEMS;
    let until = Instant::now() + Duration::from_secs(3);
    let quiet = work(&engine, &filter, &mut next, || Instant::now() < until).await?;

    let began = Instant::now();
    engine.compact(&filter, None).await?;
    let running = async || {
        let state = engine.compaction(&filter).await.map(|it| it.state);
        matches!(state, Ok(CompactionState::Running))
    };
    let mut busy = Times::default();
    while running().await {
        let until = Instant::now() + Duration::from_millis(20);
        busy.extend(work(&engine, &filter, &mut next, || Instant::now() < until).await?);
    }
    let seconds = began.elapsed().as_secs_f64();
    let it = engine.compaction(&filter).await?;
    let after = engine.filter_info(&filter).await?;
    println!(
        "{} items, {} sub-filters of {} MiB to {} of {} MiB ({:?}); {} entries moved in {seconds:.1} s, {:.0} a second",
        before.items,
        before.sub_filters.len(),
        before.slot_bytes >> 20,
        after.sub_filters.len(),
        after.slot_bytes >> 20,
        it.state,
        it.moved,
        it.moved as f64 / seconds,
    );
    println!(
        "{:>24} {:>10} {:>10} {:>10} {:>10}",
        "", "p50, µs", "p99, µs", "longest", "requests"
    );
    for (name, times) in [
        ("adds, quiet", quiet.adds),
        ("adds, compacting", busy.adds),
        ("questions, quiet", quiet.questions),
        ("questions, compacting", busy.questions),
    ] {
        print_line(name, times);
    }
    engine.shutdown()?;
    Ok(())
}

#[derive(Default)]
struct Times {
    adds: Vec<u64>,
    questions: Vec<u64>,
}

impl Times {
    fn extend(&mut self, other: Times) {
        self.adds.extend(other.adds);
        self.questions.extend(other.questions);
    }
}

/// One client that adds 10 items, and asks about 10, in turn.
async fn work(
    engine: &Engine,
    filter: &FilterName,
    next: &mut u64,
    goes_on: impl Fn() -> bool,
) -> Result<Times, Box<dyn Error>> {
    let mut times = Times::default();
    while goes_on() {
        let items = batch(*next..*next + 10);
        *next += 10;
        let started = Instant::now();
        engine
            .add(filter, &items, &AddOptions::default(), None)
            .await?;
        times.adds.push(started.elapsed().as_micros() as u64);
        let started = Instant::now();
        engine.exists(filter, &items).await?;
        times.questions.push(started.elapsed().as_micros() as u64);
    }
    Ok(times)
}

fn print_line(name: &str, mut times: Vec<u64>) {
    times.sort_unstable();
    let at = |share: f64| {
        let position = (times.len() as f64 * share) as usize;
        times.get(position).or(times.last()).copied().unwrap_or(0)
    };
    println!(
        "{name:>24} {:>10} {:>10} {:>10} {:>10}",
        at(0.5),
        at(0.99),
        at(1.0),
        times.len()
    );
}

fn batch(items: impl Iterator<Item = u64>) -> ItemBatch {
    let mut batch = ItemBatch::default();
    for item in items {
        batch.push(format!("item-{item}").as_bytes());
    }
    batch
}
