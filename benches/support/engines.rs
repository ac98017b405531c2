//! An engine on RocksDB, as the program has it, and items to fill it with.

use super::metered::{Counts, MeteredStore};
use cuckood::chain::params::FilterRequest;
use cuckood::engine::{AddOptions, AddResult, Engine, EngineOptions, FilterName, ItemBatch};
use cuckood::metrics::Metrics;
use cuckood::store::rocks::{RocksOptions, RocksStore};
use cuckood::store::{Garbage, PageStore};
use std::error::Error;
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;
use tokio::runtime::Runtime;

/// The usual settings of the program with a cache of so many bytes.
pub(crate) fn options(cache_bytes: u64) -> EngineOptions {
    EngineOptions {
        max_log_bytes: 64 << 20,
        max_open_filters: 10_000,
        max_queued_commands: 1024,
        ..EngineOptions::with_cache(cache_bytes)
    }
}

/// An engine with one filter, and what is counted beside it.
pub(crate) struct Bench {
    pub(crate) runtime: Runtime,
    pub(crate) engine: Engine,
    pub(crate) store: Arc<PageStore>,
    metered: MeteredStore,
    pub(crate) metrics: Arc<Metrics>,
    name: FilterName,
    seed: u64,
}

impl Bench {
    /// Opens a data directory as the program does.
    pub(crate) fn open(
        path: &Path,
        options: &EngineOptions,
        seed: u64,
    ) -> Result<Bench, Box<dyn Error>> {
        let usual = RocksOptions::default();
        let block_cache = super::setting("CUCKOOD_BENCH_BLOCK_CACHE", usual.block_cache_bytes)?;
        let rocks = RocksOptions {
            block_cache_bytes: block_cache,
            ..usual
        };
        Bench::open_with(path, options, rocks, seed)
    }

    /// The same with other settings of the store.
    pub(crate) fn open_with(
        path: &Path,
        options: &EngineOptions,
        rocks: RocksOptions,
        seed: u64,
    ) -> Result<Bench, Box<dyn Error>> {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .enable_time()
            .build()?;
        let metrics = Arc::new(Metrics::new()?);
        let metered = MeteredStore::new(Arc::new(RocksStore::open(path, rocks)?));
        let reads = metrics.page_reads.with_label_values(&["store"]);
        let store = Arc::new(PageStore::open(Arc::new(metered.clone()))?.counting_in(reads));
        let engine = Engine::open(Arc::clone(&store), options, Arc::clone(&metrics))?;
        Ok(Bench {
            runtime,
            engine,
            store,
            metered,
            metrics,
            name: FilterName::parse("bench")?,
            seed,
        })
    }

    /// Makes the filter.
    pub(crate) fn create(&self, request: FilterRequest) -> Result<(), Box<dyn Error>> {
        let wanted = request.into();
        let created = self.engine.create_filter(&self.name, &wanted, None);
        self.runtime.block_on(created)?;
        Ok(())
    }

    /// Adds the items with these numbers in batches, `clients` of them under
    /// way at the same time. Returns the seconds that each batch took.
    ///
    /// # Errors
    /// Also if an item found no room.
    pub(crate) fn add(
        &self,
        numbers: std::ops::Range<u64>,
        batch_items: u64,
        clients: u64,
    ) -> Result<Vec<f64>, Box<dyn Error>> {
        let work: Vec<_> = (0..clients)
            .map(|client| {
                let (engine, name, seed) = (self.engine.clone(), self.name.clone(), self.seed);
                let as_usual = AddOptions::default();
                let numbers = numbers.clone();
                self.runtime.spawn(async move {
                    let mut seconds = Vec::new();
                    let first = numbers.start + client * batch_items;
                    for from in (first..numbers.end).step_by((clients * batch_items) as usize) {
                        let items = batch(seed, from..(from + batch_items).min(numbers.end));
                        let started = Instant::now();
                        let added = engine.add(&name, &items, &as_usual, None).await;
                        let added = added.map_err(|error| error.to_string())?;
                        seconds.push(started.elapsed().as_secs_f64());
                        if let Some(other) = added.answer.iter().find(|it| **it != AddResult::Added)
                        {
                            return Err(format!("an item was not added: {other:?}"));
                        }
                    }
                    Ok::<Vec<f64>, String>(seconds)
                })
            })
            .collect();
        let mut seconds = Vec::new();
        for client in work {
            seconds.extend(self.runtime.block_on(client)??);
        }
        Ok(seconds)
    }

    /// How many of the items with these numbers are found, asked at once.
    pub(crate) fn found(&self, numbers: std::ops::Range<u64>) -> Result<usize, Box<dyn Error>> {
        let items = batch(self.seed, numbers);
        let answers = self
            .runtime
            .block_on(self.engine.exists(&self.name, &items))?;
        Ok(answers.iter().filter(|&&found| found).count())
    }

    /// What the filter says of itself.
    pub(crate) fn info(&self) -> Result<cuckood::engine::FilterInfo, Box<dyn Error>> {
        Ok(self.runtime.block_on(self.engine.filter_info(&self.name))?)
    }

    /// Has RocksDB compact all pages of the filter; says the bytes that they take
    /// in table files then.
    pub(crate) fn compact_store(&self) -> Result<u64, Box<dyn Error>> {
        let stored = self.store.filter_by_name(self.name.as_str())?;
        let stored = stored.ok_or("there is no filter")?;
        self.store.compact_range(Garbage::Filter(stored.id))?;
        Ok(self.store.approximate_page_bytes(stored.id)?)
    }

    /// A number that RocksDB tells of itself.
    pub(crate) fn gauge(&self, name: &str) -> f64 {
        let gauges = self.store.gauges();
        let found = gauges.iter().find(|(known, ..)| *known == name);
        found.map_or(f64::NAN, |&(_, _, value)| value)
    }

    /// What the store was asked for so far.
    pub(crate) fn counts(&self) -> Counts {
        self.metered.counts()
    }
}

/// The items with these numbers, 12 bytes each.
pub(crate) fn batch(seed: u64, numbers: std::ops::Range<u64>) -> ItemBatch {
    let mut batch = ItemBatch::default();
    for number in numbers {
        batch.push(&item(seed, number));
    }
    batch
}

/// An item: no two numbers have the same.
pub(crate) fn item(seed: u64, number: u64) -> [u8; 12] {
    let mut item = [0; 12];
    let (low, high) = item.split_at_mut(8);
    low.copy_from_slice(&number.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_le_bytes());
    high.copy_from_slice(&(seed as u32).to_le_bytes());
    item
}

/// A store that is open, and engines on it that are not for long.
pub(crate) struct Reopened {
    runtime: Runtime,
    store: Arc<PageStore>,
    metered: MeteredStore,
    name: FilterName,
    seed: u64,
}

impl Reopened {
    /// Opens a data directory.
    pub(crate) fn open(path: &Path, seed: u64) -> Result<Reopened, Box<dyn Error>> {
        let rocks = RocksStore::open(path, RocksOptions::default())?;
        let metered = MeteredStore::new(Arc::new(rocks));
        Ok(Reopened {
            runtime: tokio::runtime::Builder::new_multi_thread()
                .worker_threads(2)
                .enable_time()
                .build()?,
            store: Arc::new(PageStore::open(Arc::new(metered.clone()))?),
            metered,
            name: FilterName::parse("bench")?,
            seed,
        })
    }

    /// An engine with nothing in memory.
    pub(crate) fn engine(&self) -> Result<Engine, Box<dyn Error>> {
        let store = Arc::clone(&self.store);
        let options = options(64 << 20);
        Ok(Engine::open(store, &options, Arc::new(Metrics::new()?))?)
    }

    /// Asks an engine for the items with these numbers.
    pub(crate) fn exists(
        &self,
        engine: &Engine,
        numbers: std::ops::Range<u64>,
    ) -> Result<Vec<bool>, Box<dyn Error>> {
        let items = batch(self.seed, numbers);
        Ok(self.runtime.block_on(engine.exists(&self.name, &items))?)
    }

    /// What the store was asked for so far.
    pub(crate) fn counts(&self) -> Counts {
        self.metered.counts()
    }
}
