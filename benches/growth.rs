//! What growth does to the longest batch: batches of 1,000 adds, one after the other,
//! while a filter doubles, beside a filter of twice the capacity that gets the same
//! items and splits no page; and where a quarter of the pages fit into the cache, from
//! the first split on.
//!
//! `cargo bench --bench growth`: 10^6 items. `CUCKOOD_BENCH_ITEMS=10_000_000` for more,
//! `CUCKOOD_BENCH_ROUNDS` for other rounds than three. The least of the rounds' longest
//! counts: everything else that the machine does makes batches longer.
//!
//! The first lines are without a forced write, so that nothing else is in the times.

mod support;

use cuckood::chain::params::FilterRequest;
use cuckood::engine::EngineOptions;
use cuckood::store::WalSync;
use cuckood::store::rocks::RocksOptions;
use std::error::Error;
use std::path::Path;
use support::engines::{self, Bench};
use support::rounds::percentile;
use support::{seed, setting};

const BATCH: u64 = 1_000;

/// Items of a batch where pages have to be read: most touch one or two of their own.
const COLD_BATCH: u64 = 25;

struct Run {
    seed: u64,
    items: u64,
}

fn main() -> Result<(), Box<dyn Error>> {
    let run = Run {
        seed: seed()?,
        items: setting("CUCKOOD_BENCH_ITEMS", 1_000_000)?,
    };
    println!(
        "\n{} items, then as many again; slots of 16 bits\n",
        run.items
    );
    println!("| round | what | batches | pages split | p50, ms | p99, ms | longest, ms |");
    println!("|---|---|---|---|---|---|---|");
    for round in 1..=setting("CUCKOOD_BENCH_ROUNDS", 3)? {
        for (wal_sync, forced) in [(WalSync::Never, "not forced"), (WalSync::Always, "forced")] {
            for (capacities, what) in [(1, "doubles"), (2, "splits nothing")] {
                let folder = support::folder()?;
                let bench = run.filled(folder.path(), capacities, wal_sync)?;
                let more = run.items..2 * run.items;
                print_batches(&bench, &format!("{round} | {what}, {forced}"), more, BATCH)?;
                bench.engine.shutdown()?;
            }
        }
        run.cold(round)?;
    }
    Ok(())
}

impl Run {
    /// A filter of so many times the capacity of its items, all in memory.
    fn filled(
        &self,
        folder: &Path,
        capacities: u64,
        wal_sync: WalSync,
    ) -> Result<Bench, Box<dyn Error>> {
        let options = engines::options(self.items * 16 + (64 << 20));
        let bench = self.open(folder, &options, wal_sync)?;
        bench.create(FilterRequest {
            capacity: Some(self.items * capacities),
            fingerprint_bits: Some(16),
            ..FilterRequest::default()
        })?;
        bench.add(0..self.items, 2_000, 1)?;
        Ok(bench)
    }

    fn open(
        &self,
        folder: &Path,
        options: &EngineOptions,
        wal_sync: WalSync,
    ) -> Result<Bench, Box<dyn Error>> {
        let rocks = RocksOptions {
            wal_sync,
            ..RocksOptions::default()
        };
        Bench::open_with(folder, options, rocks, self.seed)
    }

    /// The filter when it begins to split pages, started again with little cache.
    fn cold(&self, round: usize) -> Result<(), Box<dyn Error>> {
        let folder = support::folder()?;
        let bench = self.filled(folder.path(), 1, WalSync::Never)?;
        bench.engine.shutdown()?;
        drop(bench);
        let options = EngineOptions {
            lanes: 1,
            ..engines::options((self.items * 2 / 4).max(2 << 20))
        };
        let bench = self.open(folder.path(), &options, WalSync::Never)?;
        let more = self.items..self.items + (self.items / 50).max(20 * COLD_BATCH);
        print_batches(
            &bench,
            &format!("{round} | doubles, cold"),
            more,
            COLD_BATCH,
        )?;
        bench.engine.shutdown()?;
        Ok(())
    }
}

fn print_batches(
    bench: &Bench,
    what: &str,
    items: std::ops::Range<u64>,
    batch: u64,
) -> Result<(), Box<dyn Error>> {
    let before = bench.metrics.page_splits.get();
    let mut seconds = bench.add(items, batch, 1)?;
    let splits = bench.metrics.page_splits.get() - before;
    let [p50, p99, longest] = [0.5, 0.99, 1.0].map(|share| 1e3 * percentile(&mut seconds, share));
    println!(
        "| {what} | {} of {batch} | {splits} | {p50:.2} | {p99:.2} | {longest:.2} |",
        seconds.len()
    );
    Ok(())
}
