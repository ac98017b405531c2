//! Filters in memory against the crate `cuckoofilter`, in the same run, rounds
//! interleaved: adding from empty to 95 % of the slots, then asking.
//!
//! `cargo bench --bench resident`: a few minutes and 1 GiB. Adding is measured
//! in rounds of 2^24 slots and once with all 2^27; asking, in rounds, of those.
//! `CUCKOOD_BENCH_SLOTS_LOG2` makes the large filters smaller;
//! `CUCKOOD_BENCH_ENGINE=1` fills an engine, too, which takes several minutes
//! more. Prints one table; the median of the rounds' ratios is what to quote.
//!
//! Hashing is part of every figure. The other crate has slots of 8 bits, as the
//! first of ours; its hash is SipHash-1-3, as ours.

use cuckood::chain::meta::Chain;
use cuckood::chain::params::{Defaults, FilterParams, FilterRequest};
use cuckood::chain::plan::AddMode;
use cuckood::chain::resident::ResidentFilter;
use cuckood::cuckoo::hash::{HashKey, ItemHash};
use cuckood::engine::{
    AddOptions, Clock, DiskReserve, Engine, EngineOptions, FilterName, ItemBatch,
};
use cuckood::metrics::Metrics;
use cuckood::store::memory::MemoryStore;
use cuckoofilter::CuckooFilter;
use std::collections::hash_map::DefaultHasher;
use std::error::Error;
use std::hint::black_box;
use std::sync::Arc;
use std::time::Instant;

/// Items hashed, added or asked about at once.
const BATCH: usize = 4_096;

/// Questions a round.
const QUESTIONS: u64 = 8_000_000;

/// Rounds of each.
const ROUNDS: u64 = 5;

/// Slots of the filters of a round of adding.
const SLOTS_OF_A_ROUND: u64 = 1 << 24;

fn main() -> Result<(), Box<dyn Error>> {
    let log2 = std::env::var("CUCKOOD_BENCH_SLOTS_LOG2").map_or(Ok(27), |it| it.parse())?;
    let slots = 1u64 << log2;
    println!("millions a second (ratio to cuckoofilter)");
    println!("| round | items | what | cuckoofilter 0.5 | 8 bits | 16 bits | 16 bits, engine |");
    println!("|---|---|---|---|---|---|---|");
    let mut table = Table::default();
    for round in 0..ROUNDS {
        let filled = Filled::new(SLOTS_OF_A_ROUND, round << 40)?;
        table.row(round, filled.items, "add 0 to 95 %", filled.adds);
    }
    let filled = Filled::new(slots, 1 << 50)?;
    table.row(0, filled.items, "add 0 to 95 %, once", filled.adds);
    for round in 0..ROUNDS {
        let present = (1 << 50) + round * QUESTIONS % filled.items;
        for (what, from) in [
            ("exists, present", present),
            ("exists, absent", (1 << 60) + round * QUESTIONS),
        ] {
            let numbers = from..from + QUESTIONS.min(filled.items / 2);
            let rates = [
                ask_theirs(&filled.theirs, numbers.clone()),
                ask(&filled.eight, numbers.clone()),
                ask(&filled.sixteen, numbers.clone()),
                match &filled.served {
                    Some(served) => served.ask(numbers)?,
                    None => f64::NAN,
                },
            ];
            table.row(round, filled.items, what, rates);
        }
    }
    table.medians();
    Ok(())
}

/// One filter of each kind, and how many millions a second went in.
struct Filled {
    items: u64,
    theirs: CuckooFilter<DefaultHasher>,
    eight: ResidentFilter,
    sixteen: ResidentFilter,
    served: Option<Served>,
    adds: [f64; 4],
}

impl Filled {
    fn new(slots: u64, first: u64) -> Result<Filled, Box<dyn Error>> {
        let items = slots / 100 * 95;
        let (theirs, their_adds) = fill_theirs(slots, first, items);
        let (eight, eight_adds) = fill(8, slots, first, items)?;
        let (sixteen, sixteen_adds) = fill(16, slots, first, items)?;
        let served = match std::env::var_os("CUCKOOD_BENCH_ENGINE") {
            Some(_) => Some(Served::fill(slots, first, items)?),
            None => None,
        };
        let served_adds = served.as_ref().map_or(f64::NAN, |served| served.adds);
        Ok(Filled {
            items,
            theirs,
            eight,
            sixteen,
            adds: [their_adds, eight_adds, sixteen_adds, served_adds],
            served,
        })
    }
}

/// The ratios to the other crate, by what was measured.
#[derive(Default)]
struct Table {
    ratios: Vec<(&'static str, [Vec<f64>; 3])>,
}

impl Table {
    fn row(&mut self, round: u64, items: u64, what: &'static str, rates: [f64; 4]) {
        let [theirs, ours @ ..] = rates;
        let [eight, sixteen, engine] = ours.map(|rate| match rate.is_nan() {
            true => "–".to_owned(),
            false => format!("{rate:.1} ({:.1}x)", rate / theirs),
        });
        println!("| {round} | {items} | {what} | {theirs:.1} | {eight} | {sixteen} | {engine} |");
        if !self.ratios.iter().any(|(known, _)| *known == what) {
            self.ratios.push((what, Default::default()));
        }
        if let Some((_, of_what)) = self.ratios.iter_mut().find(|(known, _)| *known == what) {
            for (all, rate) in of_what.iter_mut().zip(ours) {
                all.push(rate / theirs);
            }
        }
    }

    fn medians(self) {
        for (what, of_what) in self.ratios {
            let [eight, sixteen, engine] = of_what.map(median);
            print!("median, {what}: {eight:.1}x with 8 bits, {sixteen:.1}x with 16 bits");
            if !engine.is_nan() {
                print!(", {engine:.1}x through the engine");
            }
            println!();
        }
    }
}

fn rate(count: u64, started: Instant) -> f64 {
    count as f64 / started.elapsed().as_secs_f64() / 1e6
}

/// Numbers in a scattered order, so that no filter profits from neighbours.
fn scattered(number: u64) -> u64 {
    number.wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(32)
}

fn fill_theirs(slots: u64, first: u64, items: u64) -> (CuckooFilter<DefaultHasher>, f64) {
    let mut filter = CuckooFilter::with_capacity(slots as usize);
    let started = Instant::now();
    for number in first..first + items {
        // Near the end it may find no room: that costs what it costs.
        let _ = black_box(filter.add(&scattered(number)));
    }
    (filter, rate(items, started))
}

fn ask_theirs(filter: &CuckooFilter<DefaultHasher>, numbers: std::ops::Range<u64>) -> f64 {
    let count = numbers.end - numbers.start;
    let started = Instant::now();
    let found = numbers.filter(|&number| filter.contains(&scattered(number)));
    black_box(found.count());
    rate(count, started)
}

fn hash_all(chain: &Chain, numbers: std::ops::Range<u64>, hashes: &mut Vec<ItemHash>) {
    hashes.clear();
    hashes.extend(numbers.map(|number| chain.hash(&scattered(number).to_le_bytes())));
}

fn params(bits: u64, slots: u64) -> FilterRequest {
    // The largest capacity that is given so many slots.
    let per_mille = if bits == 8 { 940 } else { 950 };
    FilterRequest {
        capacity: Some(slots * per_mille / 1000 - 1),
        fingerprint_bits: Some(bits),
        expansion: Some(0),
        ..FilterRequest::default()
    }
}

fn fill(
    bits: u64,
    slots: u64,
    first: u64,
    items: u64,
) -> Result<(ResidentFilter, f64), Box<dyn Error>> {
    let params = FilterParams::resolve(&params(bits, slots), &Defaults::default())
        .map_err(|refused| format!("{refused:?}"))?;
    let chain = Chain::new(params, HashKey([7; 16]), 0).ok_or("too large")?;
    let mut filter = ResidentFilter::new(chain);
    let mut hashes = Vec::with_capacity(BATCH);
    let started = Instant::now();
    for from in (first..first + items).step_by(BATCH) {
        hash_all(
            filter.chain(),
            from..(from + BATCH as u64).min(first + items),
            &mut hashes,
        );
        black_box(filter.add_at_once(&hashes, AddMode::Always));
    }
    Ok((filter, rate(items, started)))
}

fn ask(filter: &ResidentFilter, numbers: std::ops::Range<u64>) -> f64 {
    let (mut hashes, mut found) = (Vec::with_capacity(BATCH), Vec::with_capacity(BATCH));
    let count = numbers.end - numbers.start;
    let started = Instant::now();
    for from in numbers.clone().step_by(BATCH) {
        hash_all(
            filter.chain(),
            from..(from + BATCH as u64).min(numbers.end),
            &mut hashes,
        );
        found.clear();
        filter.exists_all(&hashes, &mut found);
        black_box(&found);
    }
    rate(count, started)
}

/// The same through an engine: lanes, redo log (in memory), cache, versions.
struct Served {
    runtime: tokio::runtime::Runtime,
    engine: Engine,
    name: FilterName,
    adds: f64,
}

impl Served {
    fn fill(slots: u64, first: u64, items: u64) -> Result<Served, Box<dyn Error>> {
        let runtime = tokio::runtime::Builder::new_current_thread().build()?;
        let cache_bytes = (slots * 4).max(256 << 20);
        let options = EngineOptions {
            clock: Clock::System,
            defaults: Defaults::default(),
            lanes: 1,
            cache_bytes,
            max_dirty_bytes: cache_bytes / 4,
            max_log_bytes: 64 << 20,
            checkpoint_slice_bytes: 256 << 10,
            max_open_filters: 16,
            compaction_threshold_percent: 0,
            max_queued_commands: 16,
            max_retry_bytes: 1 << 20,
            max_imports: 16,
            disk_reserve: DiskReserve::Usual,
            max_queued_items: 1_000_000,
        };
        let engine = Engine::open(
            Arc::new(MemoryStore::new()),
            &options,
            Arc::new(Metrics::new()?),
        )?;
        let (name, as_usual) = (FilterName::parse("resident")?, AddOptions::default());
        runtime.block_on(engine.create_filter(&name, &params(16, slots).into()))?;
        let started = Instant::now();
        for from in (first..first + items).step_by(BATCH) {
            let batch = batch(from..(from + BATCH as u64).min(first + items));
            let added = runtime.block_on(engine.add(&name, &batch, &as_usual));
            black_box(added?);
        }
        let adds = rate(items, started);
        Ok(Served {
            runtime,
            engine,
            name,
            adds,
        })
    }

    fn ask(&self, numbers: std::ops::Range<u64>) -> Result<f64, Box<dyn Error>> {
        let count = numbers.end - numbers.start;
        let started = Instant::now();
        for from in numbers.clone().step_by(BATCH) {
            let batch = batch(from..(from + BATCH as u64).min(numbers.end));
            black_box(
                self.runtime
                    .block_on(self.engine.exists(&self.name, &batch))?,
            );
        }
        Ok(rate(count, started))
    }
}

fn batch(numbers: std::ops::Range<u64>) -> ItemBatch {
    let mut batch = ItemBatch::new();
    for number in numbers {
        batch.push(&scattered(number).to_le_bytes());
    }
    batch
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}
