//! What an item takes in memory and on the disk, and what is written for it:
//! a filter filled while every page fits the cache, its data compacted, all of
//! it read into memory again, and then items added with a quarter of the cache.
//!
//! `cargo bench --bench space`: 5·10^6 items in slots of 12 and of 16 bits, a
//! minute. `CUCKOOD_BENCH_ITEMS=100_000_000` for more, and
//! `CUCKOOD_BENCH_COLD_ITEMS` for the items of the last part.
//!
//! Three sources: the engine's counters for redo records and page images,
//! RocksDB's own for its log, flushes and compactions, and `write_bytes` of
//! `/proc/self/io` for what the kernel was given to write, which counts a block
//! of 4 KiB again whenever it changes after it was written.

mod support;

use cuckood::chain::params::FilterRequest;
use cuckood::engine::EngineOptions;
use std::error::Error;
use std::path::Path;
use std::time::Instant;
use support::engines::{self, Bench};
use support::{machine, phases, seed, setting};

/// Items added by one request.
const BATCH: u64 = 1_000;

struct Run {
    seed: u64,
    items: u64,
    cold_items: u64,
}

fn main() -> Result<(), Box<dyn Error>> {
    let phase = phases::current();
    let items: u64 = setting("CUCKOOD_BENCH_ITEMS", 5_000_000)?;
    let run = Run {
        seed: match phase {
            None => seed()?,
            Some(_) => setting("CUCKOOD_BENCH_SEED", 20_261_121)?,
        },
        items,
        cold_items: setting("CUCKOOD_BENCH_COLD_ITEMS", (items / 25).min(1_000_000))?,
    };
    let Some((phase, folder)) = phase else {
        for bits in [12, 16] {
            let folder = support::folder()?;
            for phase in ["fill", "disk", "memory", "cold"] {
                phases::run(&format!("{phase} {bits}"), folder.path())?;
            }
        }
        return Ok(());
    };
    let (phase, bits) = phase.split_once(' ').ok_or("a phase has a width")?;
    let bits = bits.parse()?;
    match phase {
        "fill" => run.fill(&folder, bits),
        "disk" => run.disk(&folder, bits),
        "memory" => run.memory(&folder, bits),
        _ => run.cold(&folder, bits),
    }
}

impl Run {
    fn request(&self, bits: u64) -> FilterRequest {
        FilterRequest {
            // As many as it can take: 95 % of the slots, 94.5 % of wider ones.
            capacity: Some(self.items + self.cold_items),
            fingerprint_bits: Some(bits),
            expansion: Some(0),
            ..FilterRequest::default()
        }
    }

    fn slot_bytes(&self, bits: u64) -> u64 {
        (self.items + self.cold_items) * 8 / (64 / bits) * 107 / 100
    }

    fn fill(&self, folder: &Path, bits: u64) -> Result<(), Box<dyn Error>> {
        // Every page fits, and all of them may be dirty.
        let options = engines::options(self.slot_bytes(bits) * 5 + (64 << 20));
        let bench = Bench::open(folder, &options, self.seed)?;
        bench.create(self.request(bits))?;
        println!(
            "\n## {} items in slots of {bits} bits\n\nFilled in batches of {BATCH}, one client, every commit forced to the disk; {}",
            self.items,
            settings(&options)
        );
        let writes = Writes::now(&bench);
        bench.add(0..self.items, BATCH, 1)?;
        writes.print(&bench, "filling", self.items);
        bench.engine.shutdown()?;
        Ok(())
    }

    fn disk(&self, folder: &Path, bits: u64) -> Result<(), Box<dyn Error>> {
        // Opening writes what was in RocksDB's write buffers to table files.
        let bench = Bench::open(folder, &engines::options(64 << 20), self.seed)?;
        let pages = bench.compact_store()? as f64 / self.items as f64;
        let load = load(bench.info()?.slot_bytes, bits, self.items);
        let wanted = slot_bytes_of(bits) / load;
        println!(
            "\nOn the disk, after a clean stop and a compaction: {pages:.3} bytes an item in table files of pages; slot width / load is {wanted:.3} at load {load:.3}; ratio **{:.3}**. The whole directory has {} MiB, what is left of logs that were cut included.",
            pages / wanted,
            machine::directory_bytes(folder)? >> 20,
        );
        bench.engine.shutdown()?;
        Ok(())
    }

    fn memory(&self, folder: &Path, bits: u64) -> Result<(), Box<dyn Error>> {
        let options = engines::options(self.slot_bytes(bits) * 5 / 4 + (64 << 20));
        let bench = Bench::open(folder, &options, self.seed)?;
        // Once, so that whatever questions need is there.
        bench.found(0..10)?;
        let before = machine::resident_bytes("self");
        let info = bench.info()?;
        for from in (0..self.items).step_by(2_000) {
            if bench.metrics.cache_bytes.get() as u64 >= info.slot_bytes {
                break;
            }
            bench.found(from..(from + 2_000).min(self.items))?;
        }
        let load = load(info.slot_bytes, bits, self.items);
        let wanted = slot_bytes_of(bits) / load;
        let pages = bench.metrics.cache_bytes.get() as f64 / self.items as f64;
        let blocks = bench.gauge("rocksdb_block_cache_bytes");
        let grown = machine::resident_bytes("self") as f64 - before as f64 - blocks;
        let grown = grown / self.items as f64;
        println!(
            "\nIn memory, every page: {pages:.3} bytes an item; slot width / load is {wanted:.3} at load {:.3}; ratio **{:.3}**. The process grew by {grown:.3} bytes an item, tables and the pages' own fields included, RocksDB's block cache of {:.0} MiB not: ratio **{:.3}**.",
            load,
            pages / wanted,
            blocks / f64::from(1 << 20),
            grown / wanted,
        );
        bench.engine.shutdown()?;
        Ok(())
    }

    fn cold(&self, folder: &Path, bits: u64) -> Result<(), Box<dyn Error>> {
        let options = EngineOptions {
            // One filter has one lane, however many there are.
            lanes: 1,
            ..engines::options((self.slot_bytes(bits) / 4).max(2 << 20))
        };
        let bench = Bench::open(folder, &options, self.seed)?;
        println!(
            "\nAdded with a quarter of the cache, 4 clients; {}",
            settings(&options)
        );
        // A request may touch a sixth of the cache over the number of lanes.
        let at_once = (options.cache_bytes / 4096 / 12).clamp(1, BATCH);
        let writes = Writes::now(&bench);
        bench.add(self.items..self.items + self.cold_items, at_once, 4)?;
        writes.print(&bench, &format!("{at_once} at a time"), self.cold_items);
        bench.engine.shutdown()?;
        Ok(())
    }
}

/// Bytes of a slot, with its part of what a word has left.
fn slot_bytes_of(bits: u64) -> f64 {
    8.0 / (64 / bits) as f64
}

/// Share of the slots in use.
fn load(slot_bytes: u64, bits: u64, items: u64) -> f64 {
    items as f64 / (slot_bytes / 8 * (64 / bits)) as f64
}

/// The settings that decide how much is written.
fn settings(options: &EngineOptions) -> String {
    format!(
        "`--cache-bytes` {} MiB, `--max-dirty-bytes` {} MiB, `--max-log-bytes` {} MiB, `--checkpoint-slice-bytes` {} KiB:",
        options.cache_bytes >> 20,
        options.max_dirty_bytes >> 20,
        options.max_log_bytes >> 20,
        options.checkpoint_slice_bytes >> 10,
    )
}

/// What was written up to a moment.
struct Writes {
    began: Instant,
    log: u64,
    images: u64,
    read: u64,
    rocks: [f64; 3],
    all: u64,
}

/// RocksDB's log, flushes and compactions.
const ROCKS: [&str; 3] = [
    "rocksdb_wal_written_bytes",
    "rocksdb_flush_written_bytes",
    "rocksdb_compaction_written_bytes",
];

impl Writes {
    fn now(bench: &Bench) -> Writes {
        let counts = bench.counts();
        Writes {
            began: Instant::now(),
            log: counts.log_bytes,
            images: counts.image_bytes_written,
            read: counts.pages_read,
            rocks: ROCKS.map(|name| bench.gauge(name)),
            all: machine::written_bytes(),
        }
    }

    /// What was written since, in bytes an item.
    fn print(&self, bench: &Bench, what: &str, items: u64) {
        let now = Writes::now(bench);
        let each = |now: u64, then: u64| (now - then) as f64 / items as f64;
        let [log, flushes, compactions] = [0, 1, 2].map(|at| {
            let of = |writes: &Writes| writes.rocks.get(at).copied().unwrap_or(f64::NAN);
            (of(&now) - of(self)) / items as f64
        });
        println!(
            "\n| bytes an item | redo records | page images | RocksDB's log | its flushes | its compactions | all, by the kernel | pages read | items a second |"
        );
        println!("|---|---|---|---|---|---|---|---|---|");
        println!(
            "| {what} | {:.2} | {:.1} | {log:.1} | {flushes:.1} | {compactions:.1} | {:.1} | {:.3} | {:.0} |",
            each(now.log, self.log),
            each(now.images, self.images),
            each(now.all, self.all),
            each(now.read, self.read),
            items as f64 / self.began.elapsed().as_secs_f64(),
        );
    }
}
