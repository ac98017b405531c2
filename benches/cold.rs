//! Pages read from RocksDB for a question about an item that is not there, when
//! no page is in memory: both layouts, as they were created, and grown to 4 and
//! to 8 times that, which is as many sub-filters of the layout `classic`. Every
//! question is asked of an engine that has just been opened.
//!
//! `cargo bench --bench cold`: a minute. `CUCKOOD_BENCH_ITEMS` are the items of
//! each filter, `CUCKOOD_BENCH_QUESTIONS` the questions asked of each.

mod support;

use cuckood::chain::params::{FilterRequest, LayoutKind};
use std::error::Error;
use std::time::Instant;
use support::engines::{self, Bench};
use support::rounds::percentile;
use support::{seed, setting};

/// Where the numbers of items begin that are never added.
const ABSENT: u64 = 1 << 60;

fn main() -> Result<(), Box<dyn Error>> {
    let seed = seed()?;
    let items = setting("CUCKOOD_BENCH_ITEMS", 1_000_000)?;
    let questions: u64 = setting("CUCKOOD_BENCH_QUESTIONS", 3_000)?;
    println!(
        "\n{items} items a filter, slots of 16 bits (paged) and buckets of 2 slots (classic); {questions} questions\n"
    );
    println!(
        "| layout | growth | pages read for a question | in theory | reads a question | p50, µs | 100 items at once: reads, pages |"
    );
    println!("|---|---|---|---|---|---|---|");
    for (layout, theory) in [(LayoutKind::Paged, 1.125), (LayoutKind::Classic, 2.0)] {
        for growth in [1, 4, 8] {
            measure(layout, theory, growth, items, questions, seed)?;
        }
    }
    Ok(())
}

fn measure(
    layout: LayoutKind,
    theory: f64,
    growth: u64,
    items: u64,
    questions: u64,
    seed: u64,
) -> Result<(), Box<dyn Error>> {
    let folder = support::folder()?;
    let filled = Bench::open(folder.path(), &engines::options(256 << 20), seed)?;
    let request = FilterRequest {
        capacity: Some(items / growth),
        layout: Some(layout),
        // All of a size, so that the oldest has many pages, too.
        expansion: Some(1),
        ..FilterRequest::default()
    };
    filled.create(match layout {
        LayoutKind::Paged => FilterRequest {
            fingerprint_bits: Some(16),
            ..request
        },
        LayoutKind::Classic => FilterRequest {
            bucket_size: Some(2),
            ..request
        },
    })?;
    // Until the newest sub-filter has a few items.
    let (mut next, first_bytes) = (0, filled.info()?.slot_bytes);
    while filled.info()?.slot_bytes < growth * first_bytes || next < items / 2 {
        filled.add(next..next + 2_000, 2_000, 1)?;
        next += 2_000;
    }
    filled.engine.shutdown()?;
    drop(filled);

    let mut seconds = Vec::new();
    let (mut reads, mut pages) = (0, 0);
    // One store for all: opening RocksDB takes longer than what is measured.
    let store = engines::Reopened::open(folder.path(), seed)?;
    for number in ABSENT..ABSENT + questions {
        let cold = store.engine()?;
        let before = store.counts();
        let started = Instant::now();
        store.exists(&cold, number..number + 1)?;
        seconds.push(started.elapsed().as_secs_f64());
        let counts = store.counts();
        reads += counts.reads - before.reads;
        pages += counts.pages_read - before.pages_read;
        cold.halt();
    }
    let cold = store.engine()?;
    let before = store.counts();
    store.exists(&cold, ABSENT * 2..ABSENT * 2 + 100)?;
    let counts = store.counts();
    cold.halt();
    let theory = match layout {
        LayoutKind::Paged => theory,
        LayoutKind::Classic => theory * growth as f64,
    };
    println!(
        "| {} | {growth} | {:.3} | {theory} | {:.3} | {:.0} | {}, {} |",
        layout.name(),
        pages as f64 / questions as f64,
        reads as f64 / questions as f64,
        percentile(&mut seconds, 0.5) * 1e6,
        counts.reads - before.reads,
        counts.pages_read - before.pages_read,
    );
    Ok(())
}
