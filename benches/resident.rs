//! Filters in memory against the crate `cuckoofilter`, from 10^5 items to 10^8,
//! in the same run, rounds interleaved: adding from empty to 95 % of the slots,
//! then asking for items that are there and items that are not.
//!
//! `cargo bench --bench resident`: up to 2^23 slots, a minute.
//! `CUCKOOD_BENCH_SLOTS_LOG2=27` goes on to 127 million items, a quarter of an
//! hour and 1 GiB, and with `CUCKOOD_BENCH_LEAST_LOG2=27` with nothing else;
//! `CUCKOOD_BENCH_ROUNDS` sets other rounds than five. `CUCKOOD_BENCH_ENGINE=1` fills an engine, too, which takes
//! longer still. `CUCKOOD_BENCH_PLOT=docs/cost-by-size.svg` draws the medians.
//!
//! Time is what the thread had of a processor, and what passed where an engine
//! has threads of its own. Hashing is part of every figure. The other crate has slots of 8 bits; its
//! hash is SipHash-1-3, as ours. It has a power of two of slots, so all filters
//! of a size are given that, or a few more.

mod support;

#[path = "../crates/pages/tests/memory/mod.rs"]
mod memory;
#[path = "../crates/filter/tests/resident/mod.rs"]
mod resident;

use crate::memory::MemoryStore;
use cuckood::chain::meta::Chain;
use cuckood::chain::params::{Defaults, FilterParams, FilterRequest};
use cuckood::chain::plan::AddMode;
use cuckood::cuckoo::hash::{HashKey, ItemHash};
use cuckood::engine::{AddOptions, Engine, EngineOptions, FilterName, ItemBatch};
use cuckood::metrics::Metrics;
use cuckood::store::PageStore;
use cuckoofilter::CuckooFilter;
use plotters::prelude::*;
use resident::ResidentFilter;
use std::collections::hash_map::DefaultHasher;
use std::error::Error;
use std::hint::black_box;
use std::ops::Range;
use std::sync::Arc;
use support::legend::legend;
use support::rounds::{Spread, processor_seconds, wall_seconds};
use support::{engines, seed, setting};

/// Items hashed, added or asked about at once.
const BATCH: usize = 4_096;

/// Questions of each kind a round.
const QUESTIONS: u64 = 4_000_000;

/// Slots filled a round at least; small filters are filled several times.
const SLOTS_OF_A_ROUND: u64 = 1 << 21;

/// Sizes, as powers of two of the slots.
const SIZES: [u32; 6] = [17, 19, 21, 23, 25, 27];

/// What is measured.
const WORK: [&str; 3] = ["add, 0 to 95 %", "exists, present", "exists, absent"];

/// What it is measured with.
const FILTERS: [&str; 4] = ["cuckoofilter 0.5", "12 bits", "16 bits", "16 bits, engine"];

fn main() -> Result<(), Box<dyn Error>> {
    let seed = seed()?;
    let sizes = setting("CUCKOOD_BENCH_LEAST_LOG2", 17)?..=setting("CUCKOOD_BENCH_SLOTS_LOG2", 23)?;
    let rounds = setting("CUCKOOD_BENCH_ROUNDS", 5)?;
    let with_engine = std::env::var_os("CUCKOOD_BENCH_ENGINE").is_some();
    println!(
        "\nMillions of items a second, median of {rounds} rounds (min to max), and the median of the ratios to the other crate:\n"
    );
    println!("| items | what | cuckoofilter 0.5 | 12 bits | 16 bits | 16 bits, engine |");
    println!("|---|---|---|---|---|---|");
    let (mut curves, mut memory) = (Vec::new(), Vec::new());
    for log2 in SIZES.into_iter().filter(|log2| sizes.contains(log2)) {
        let slots = 1u64 << log2;
        let items = slots / 100 * 95;
        let mut rates: [[Vec<f64>; 4]; 3] = Default::default();
        let mut bytes = [0.0; 3];
        for round in 0..rounds {
            let first = seed.rotate_left(32) ^ (round << 40);
            let measured = measure(slots, items, first, with_engine, &mut bytes)?;
            for (rates, measured) in rates.iter_mut().zip(measured) {
                for (rates, rate) in rates.iter_mut().zip(measured) {
                    rates.push(rate);
                }
            }
        }
        for (what, rates) in WORK.into_iter().zip(&rates) {
            println!("| {items} | {what} | {} |", cells(rates).join(" | "));
        }
        memory.push((items, bytes));
        curves.push((
            items,
            rates.map(|rates| rates.map(|it| Spread::of(it).median)),
        ));
    }
    println!("\nBytes of memory an item at 95 % load, and the ratio to slot width / load:\n");
    println!("| items | cuckoofilter 0.5 | 12 bits | 16 bits |\n|---|---|---|---|");
    for (items, bytes) in memory {
        let cells: Vec<String> = bytes
            .iter()
            .zip([1.0, 1.5, 2.0])
            .map(|(bytes, width)| format!("{bytes:.3} ({:.3})", bytes / (width / 0.95)))
            .collect();
        println!("| {items} | {} |", cells.join(" | "));
    }
    if let Some(path) = std::env::var_os("CUCKOOD_BENCH_PLOT") {
        std::fs::write(path, plot(&curves)?)?;
    }
    Ok(())
}

/// What one line of the table says.
fn cells(rates: &[Vec<f64>; 4]) -> Vec<String> {
    let [theirs, ..] = rates;
    let cell = |own: &Vec<f64>| {
        let Spread { min, median, max } = Spread::of(own.clone());
        let ratios = own.iter().zip(theirs).map(|(own, theirs)| own / theirs);
        match median.is_nan() {
            true => "–".to_owned(),
            false => format!(
                "{median:.1} ({min:.1} to {max:.1}), {:.1}x",
                Spread::of(ratios.collect()).median
            ),
        }
    };
    rates.iter().map(cell).collect()
}

/// Fills one filter of each kind, asks it, and says the millions a second.
fn measure(
    slots: u64,
    items: u64,
    first: u64,
    with_engine: bool,
    bytes: &mut [f64; 3],
) -> Result<[[f64; 4]; 3], Box<dyn Error>> {
    let times = SLOTS_OF_A_ROUND.div_ceil(slots);
    let (theirs, their_adds) = repeat(processor_seconds, times, items, || {
        Ok(fill_theirs(slots, first, items))
    })?;
    let (twelve, twelve_adds) = repeat(processor_seconds, times, items, || {
        fill(12, slots, first, items)
    })?;
    let (sixteen, sixteen_adds) = repeat(processor_seconds, times, items, || {
        fill(16, slots, first, items)
    })?;
    let served = match with_engine {
        true => Some(repeat(wall_seconds, 1, items, || {
            Served::fill(slots, first, items)
        })?),
        false => None,
    };
    let own = |filter: &ResidentFilter| filter.chain().slot_bytes() as f64 / items as f64;
    *bytes = [
        theirs.memory_usage() as f64 / items as f64,
        own(&twelve),
        own(&sixteen),
    ];
    let served_adds = served.as_ref().map_or(f64::NAN, |(_, rate)| *rate);
    let mut rates = [
        [their_adds, twelve_adds, sixteen_adds, served_adds],
        [f64::NAN; 4],
        [f64::NAN; 4],
    ];
    let [_, present, absent] = &mut rates;
    for (rates, from) in [(present, first), (absent, first ^ 1 << 60)] {
        let numbers = from..from + items.min(QUESTIONS);
        let times = QUESTIONS.div_ceil(items);
        let asked = items.min(QUESTIONS);
        let rate = |clock: Clock, asks: &dyn Fn() -> Result<(), Box<dyn Error>>| {
            let started = clock();
            for _ in 0..times {
                asks()?;
            }
            Ok::<f64, Box<dyn Error>>(per_second(times * asked, clock() - started))
        };
        *rates = [
            rate(processor_seconds, &|| {
                ask_theirs(&theirs, numbers.clone());
                Ok(())
            })?,
            rate(processor_seconds, &|| {
                ask(&twelve, numbers.clone());
                Ok(())
            })?,
            rate(processor_seconds, &|| {
                ask(&sixteen, numbers.clone());
                Ok(())
            })?,
            match &served {
                Some((served, _)) => rate(wall_seconds, &|| served.ask(numbers.clone()))?,
                None => f64::NAN,
            },
        ];
    }
    Ok(rates)
}

/// Fills a filter some times; returns the last and the millions a second.
fn repeat<T>(
    clock: Clock,
    times: u64,
    items: u64,
    mut fill: impl FnMut() -> Result<T, Box<dyn Error>>,
) -> Result<(T, f64), Box<dyn Error>> {
    let started = clock();
    for _ in 1..times {
        black_box(fill()?);
    }
    let last = fill()?;
    Ok((last, per_second(times * items, clock() - started)))
}

/// Tells seconds since some moment.
type Clock = fn() -> f64;

/// Millions a second.
fn per_second(count: u64, seconds: f64) -> f64 {
    count as f64 / seconds / 1e6
}

/// Numbers in a scattered order, so that no filter profits from neighbours.
fn scattered(number: u64) -> u64 {
    number.wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(32)
}

fn fill_theirs(slots: u64, first: u64, items: u64) -> CuckooFilter<DefaultHasher> {
    let mut filter = CuckooFilter::with_capacity(slots as usize);
    for number in first..first + items {
        // Near the end it may find no room: that costs what it costs.
        let _ = black_box(filter.add(&scattered(number)));
    }
    filter
}

fn ask_theirs(filter: &CuckooFilter<DefaultHasher>, numbers: Range<u64>) {
    let found = numbers.filter(|&number| filter.contains(&scattered(number)));
    black_box(found.count());
}

fn hash_all(chain: &Chain, numbers: Range<u64>, hashes: &mut Vec<ItemHash>) {
    hashes.clear();
    let items: Vec<[u8; 8]> = numbers
        .map(|number| scattered(number).to_le_bytes())
        .collect();
    let hasher = chain.hash_id().hasher();
    hasher.hash_all(items.iter().map(<[u8; 8]>::as_slice), hashes);
}

fn params(bits: u64, slots: u64) -> FilterRequest {
    // The largest capacity that is given so many slots, or the pages that they take.
    let per_mille = if bits == 12 { 950 } else { 945 };
    FilterRequest {
        capacity: Some(slots * per_mille / 1000),
        fingerprint_bits: Some(bits),
        expansion: Some(0),
        ..FilterRequest::default()
    }
}

fn fill(bits: u64, slots: u64, first: u64, items: u64) -> Result<ResidentFilter, Box<dyn Error>> {
    let params = FilterParams::resolve(&params(bits, slots), &Defaults::default())
        .map_err(|refused| format!("{refused:?}"))?;
    let chain = Chain::new(params, HashKey([7; 16]), 0).ok_or("too large")?;
    let mut filter = ResidentFilter::new(chain);
    let mut hashes = Vec::with_capacity(BATCH);
    for from in (first..first + items).step_by(BATCH) {
        let numbers = from..(from + BATCH as u64).min(first + items);
        hash_all(filter.chain(), numbers, &mut hashes);
        black_box(filter.add_at_once(&hashes, AddMode::Always));
    }
    Ok(filter)
}

fn ask(filter: &ResidentFilter, numbers: Range<u64>) {
    let (mut hashes, mut found) = (Vec::with_capacity(BATCH), Vec::with_capacity(BATCH));
    for from in numbers.clone().step_by(BATCH) {
        let numbers = from..(from + BATCH as u64).min(numbers.end);
        hash_all(filter.chain(), numbers, &mut hashes);
        found.clear();
        filter.exists_all(&hashes, &mut found);
        black_box(&found);
    }
}

/// The same through an engine: lanes, redo log (in memory), cache, versions.
struct Served {
    runtime: tokio::runtime::Runtime,
    engine: Engine,
    name: FilterName,
}

impl Served {
    fn fill(slots: u64, first: u64, items: u64) -> Result<Served, Box<dyn Error>> {
        let runtime = tokio::runtime::Builder::new_current_thread().build()?;
        let options = EngineOptions {
            lanes: 1,
            ..engines::options((slots * 4).max(256 << 20))
        };
        let store = Arc::new(PageStore::open(Arc::new(MemoryStore::new()))?);
        let engine = Engine::open(store, &options, Arc::new(Metrics::new()?))?;
        let (name, as_usual) = (FilterName::parse("resident")?, AddOptions::default());
        runtime.block_on(engine.create_filter(&name, &params(16, slots).into(), None))?;
        for from in (first..first + items).step_by(BATCH) {
            let batch = batch(from..(from + BATCH as u64).min(first + items));
            let added = runtime.block_on(engine.add(&name, &batch, &as_usual, None));
            black_box(added?);
        }
        Ok(Served {
            runtime,
            engine,
            name,
        })
    }

    fn ask(&self, numbers: Range<u64>) -> Result<(), Box<dyn Error>> {
        for from in numbers.clone().step_by(BATCH) {
            let batch = batch(from..(from + BATCH as u64).min(numbers.end));
            let asked = self.engine.exists(&self.name, &batch);
            black_box(self.runtime.block_on(asked)?);
        }
        Ok(())
    }
}

fn batch(numbers: Range<u64>) -> ItemBatch {
    let mut batch = ItemBatch::default();
    for number in numbers {
        batch.push(&scattered(number).to_le_bytes());
    }
    batch
}

/// What each size costs: items, and the medians by work and filter.
type Curve = (u64, [[f64; 4]; 3]);

/// Two plots side by side: nanoseconds an item by the items of the filter.
fn plot(curves: &[Curve]) -> Result<String, Box<dyn Error>> {
    // Colours that differ in brightness, too, for those who see no hue.
    let colours = [
        RGBColor(176, 112, 0),
        RGBColor(166, 38, 28),
        RGBColor(29, 112, 118),
        RGBColor(46, 46, 90),
    ];
    let nanos = |work: usize, filter: usize| -> Vec<(f64, f64)> {
        let points = curves.iter().filter_map(|(items, rates)| {
            let rate = rates.get(work)?.get(filter)?;
            Some((*items as f64, 1e3 / rate))
        });
        points.filter(|(_, nanos)| nanos.is_finite()).collect()
    };
    let mut svg = String::new();
    {
        let area = SVGBackend::with_string(&mut svg, (920, 420)).into_drawing_area();
        area.fill(&WHITE)?;
        let halves = area.split_evenly((1, 2));
        for (half, (work, caption)) in halves
            .iter()
            .zip([(2, "exists, absent"), (0, "add, from empty to 95 %")])
        {
            let mut chart = ChartBuilder::on(half)
                .margin(16)
                .caption(caption, ("sans-serif", 18))
                .x_label_area_size(44)
                .y_label_area_size(56)
                .build_cartesian_2d((1e5..2e8).log_scale(), (10.0..1000.0).log_scale())?;
            chart
                .configure_mesh()
                .x_desc("items in the filter")
                .y_desc("ns an item")
                .x_label_formatter(&|items: &f64| format!("1e{:.0}", items.log10()))
                .y_label_formatter(&|nanos: &f64| format!("{nanos:.0}"))
                .light_line_style(WHITE.mix(0.0))
                .bold_line_style(RGBColor(226, 222, 213))
                .label_style(("sans-serif", 14))
                .draw()?;
            for (filter, (name, colour)) in FILTERS.into_iter().zip(colours).enumerate() {
                let points = nanos(work, filter);
                if points.is_empty() {
                    continue;
                }
                chart
                    .draw_series(LineSeries::new(points, colour.stroke_width(3)))?
                    .label(name)
                    .legend(move |(x, y)| {
                        PathElement::new([(x, y), (x + 22, y)], colour.stroke_width(3))
                    });
            }
            legend(&mut chart, SeriesLabelPosition::UpperLeft)?;
        }
        area.present()?;
    }
    Ok(svg)
}
