//! One filter that is larger than the page cache: filling it, starting again
//! with a quarter of the cache, questions cold and warm, adds on cold pages,
//! and a start after `kill -9`. Each is a process of its own, the engine as the
//! program has it, on RocksDB, every commit forced to the disk.
//! `CUCKOOD_BENCH_PARTS=1,2,4,8,16` does it with a cache for all slots, for half
//! of them, and so on, one after the other.
//!
//! `cargo bench --bench scale`: 10^7 items in slots of 12 bits, half a minute.
//! `CUCKOOD_BENCH_ITEMS=1_000_000_000` and `CUCKOOD_BENCH_BITS=16` for more;
//! the data lies under `target` and is removed in the end.

mod support;

use cuckood::chain::params::FilterRequest;
use cuckood::engine::EngineOptions;
use std::error::Error;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};
use support::engines::{self, Bench};
use support::rounds::{Spread, percentile};
use support::{machine, phases, seed, setting};

/// Where the numbers of items begin that are never added.
const ABSENT: u64 = 1 << 60;

struct Run {
    seed: u64,
    /// Items that go in while every page fits the cache.
    items: u64,
    /// Items that go in each time that it is started again.
    cold_adds: u64,
    /// The times before this one.
    time: u64,
    /// One part in so many of the slots fits the cache.
    part: u64,
    parts: Vec<u64>,
    bits: u64,
}

fn main() -> Result<(), Box<dyn Error>> {
    let phase = phases::current();
    let items: u64 = setting("CUCKOOD_BENCH_ITEMS", 10_000_000)?;
    let parts = setting("CUCKOOD_BENCH_PARTS", "4".to_owned())?;
    let parts: Result<Vec<u64>, _> = parts.split(',').map(str::parse).collect();
    let mut run = Run {
        seed: match phase {
            None => seed()?,
            Some(_) => setting("CUCKOOD_BENCH_SEED", 20_261_121)?,
        },
        items,
        cold_adds: setting("CUCKOOD_BENCH_COLD_ITEMS", (items / 50).min(1_000_000))?,
        time: 0,
        part: 1,
        parts: parts?,
        bits: setting("CUCKOOD_BENCH_BITS", 12)?,
    };
    let Some((phase, folder)) = phase else {
        let folder = support::folder()?;
        phases::run("fill 0", folder.path())?;
        for time in 0..run.parts.len() {
            phases::run_and_kill(&format!("serve {time}"), folder.path())?;
            phases::run(&format!("again {time}"), folder.path())?;
        }
        return Ok(());
    };
    let (phase, time) = phase.split_once(' ').ok_or("a phase has a number")?;
    run.time = time.parse()?;
    let part = run.parts.get(run.time as usize);
    run.part = *part.ok_or("there are not so many parts")?;
    match phase {
        "fill" => run.fill(&folder),
        "serve" => run.serve(&folder),
        _ => run.again(&folder),
    }
}

impl Run {
    /// Items that there are in the end.
    fn capacity(&self) -> u64 {
        self.items + self.cold_adds * self.parts.len() as u64
    }

    /// Those that are added this time.
    fn added(&self) -> std::ops::Range<u64> {
        let first = self.items + self.cold_adds * self.time;
        first..first + self.cold_adds
    }

    /// Bytes of the slots.
    fn slot_bytes(&self) -> u64 {
        let words = self.capacity() as f64 / (64 / self.bits) as f64;
        // Pages are filled to 0.945 of their slots, or a little less.
        (words * 8.0 / 0.94) as u64
    }

    /// A cache in which every page fits and may be dirty for long, and a log as
    /// long as that is worth. No more memory is taken than there are pages.
    fn roomy(&self) -> EngineOptions {
        EngineOptions {
            max_log_bytes: 1 << 30,
            ..engines::options(self.slot_bytes() * 9 + (256 << 20))
        }
    }

    /// That part of the slots fits.
    fn tight(&self) -> EngineOptions {
        match self.part {
            1 => self.roomy(),
            part => engines::options((self.slot_bytes() / part).max(2 << 20)),
        }
    }

    fn fill(&self, folder: &Path) -> Result<(), Box<dyn Error>> {
        let bench = Bench::open(folder, &self.roomy(), self.seed)?;
        bench.create(FilterRequest {
            capacity: Some(self.capacity()),
            fingerprint_bits: Some(self.bits),
            expansion: Some(0),
            ..FilterRequest::default()
        })?;
        println!(
            "\n{} items in slots of {} bits: {} MiB; 10,000 a batch, 2 clients, every page in memory\n",
            self.items,
            self.bits,
            bench.info()?.slot_bytes >> 20
        );
        println!("| items | adds a second | bytes logged an item | dirty, MiB | memory, MiB |");
        println!("|---|---|---|---|---|");
        let began = Instant::now();
        let part = (self.items / 10).max(1);
        for first in (0..self.items).step_by(part as usize) {
            let (before, started) = (bench.counts(), Instant::now());
            let numbers = first..(first + part).min(self.items);
            let count = (numbers.end - numbers.start) as f64;
            bench.add(numbers.clone(), 10_000, 2)?;
            println!(
                "| {} | {:.0} | {:.2} | {} | {} |",
                numbers.end,
                count / started.elapsed().as_secs_f64(),
                (bench.counts().log_bytes - before.log_bytes) as f64 / count,
                (bench.metrics.dirty_pages.get() * 4096) >> 20,
                machine::resident_bytes("self") >> 20,
            );
        }
        let seconds = began.elapsed().as_secs_f64();
        let stopping = Instant::now();
        bench.engine.shutdown()?;
        println!(
            "\nfilled in {seconds:.0} s, {:.0} a second; clean stop {:.2} s; {} MiB on disk, {} MiB written",
            self.items as f64 / seconds,
            stopping.elapsed().as_secs_f64(),
            machine::directory_bytes(folder)? >> 20,
            machine::written_bytes() >> 20,
        );
        Ok(())
    }

    fn serve(&self, folder: &Path) -> Result<(), Box<dyn Error>> {
        let options = self.tight();
        let started = Instant::now();
        let bench = Bench::open(folder, &options, self.seed)?;
        println!(
            "\nstarted again after the clean stop in {:.3} s; {} MiB of cache, 1/{} of the slots\n",
            started.elapsed().as_secs_f64(),
            options.cache_bytes >> 20,
            self.part,
        );
        let memory = Memory::watch();
        println!(
            "| what | items a second | p50, µs | p99, µs | pages read an item | memory, MiB |"
        );
        println!("|---|---|---|---|---|---|");
        let questions = 20_000;
        self.ask(
            &bench,
            &memory,
            "absent, one at a time, cold",
            ABSENT..ABSENT + questions,
            1,
        )?;
        let some = questions * 10;
        let absent = ABSENT + questions..ABSENT + questions + some;
        self.ask(
            &bench,
            &memory,
            "absent, 1,000 at a time, cold",
            absent,
            1_000,
        )?;
        let missing = some as usize
            - self.ask(
                &bench,
                &memory,
                "present, 1,000 at a time, cold",
                0..some,
                1_000,
            )?;
        // So few that their pages fit the cache together.
        let frames = options.cache_bytes / 4096;
        let warm = ABSENT * 2..ABSENT * 2 + (frames / 4).clamp(100, 20_000);
        bench.found(warm.clone())?;
        self.ask(
            &bench,
            &memory,
            "absent, one at a time, warm",
            warm.clone(),
            1,
        )?;
        self.ask(
            &bench,
            &memory,
            "absent, 1,000 at a time, warm",
            warm,
            1_000,
        )?;

        let stop = AtomicBool::new(false);
        let alone = std::thread::scope(|scope| {
            let asking = scope.spawn(|| ask_now_and_then(&bench, ABSENT * 3, &stop));
            std::thread::sleep(Duration::from_secs(5));
            stop.store(true, Ordering::Relaxed);
            asking.join().unwrap_or_default()
        });
        let (before, written) = (bench.counts(), machine::written_bytes());
        let folded = bench.metrics.folded_pages.get();
        let started = Instant::now();
        // A request may touch a sixth of the cache over the number of lanes.
        let at_once = (frames / 26).clamp(1, 1_000);
        let stop = AtomicBool::new(false);
        let (added, beside) = std::thread::scope(|scope| {
            let asking = scope.spawn(|| ask_now_and_then(&bench, ABSENT * 4, &stop));
            let added = bench.add(self.added(), at_once, 4);
            stop.store(true, Ordering::Relaxed);
            (added, asking.join().unwrap_or_default())
        });
        let mut seconds = added?;
        let rate = self.cold_adds as f64 / started.elapsed().as_secs_f64();
        let counts = bench.counts();
        let each = |bytes: u64| bytes as f64 / self.cold_adds as f64;
        println!(
            "| adds, {at_once} at a time, 4 clients, cold | {rate:.0} | {:.0} | {:.0} | {:.2} | {} |",
            percentile(&mut seconds, 0.5) * 1e6,
            percentile(&mut seconds, 0.99) * 1e6,
            each(counts.pages_read - before.pages_read),
            memory.range(),
        );
        println!(
            "\nfor each added item {:.2} bytes logged, {:.0} bytes of page images, {:.0} bytes to the disk in all",
            each(counts.log_bytes - before.log_bytes),
            each(counts.image_bytes_written - before.image_bytes_written),
            each(machine::written_bytes() - written),
        );
        for (what, mut seconds) in [("alone", alone), ("beside the adds", beside)] {
            println!(
                "one question in a millisecond, absent, cold, {what}: p50 {:.0} µs, p99 {:.0} µs of {}",
                percentile(&mut seconds, 0.5) * 1e6,
                percentile(&mut seconds, 0.99) * 1e6,
                seconds.len(),
            );
        }
        println!(
            "{} pages folded, {} KiB parked",
            bench.metrics.folded_pages.get() - folded,
            bench.metrics.parked_bytes.get() >> 10,
        );
        println!(
            "killed with {} MiB of dirty pages and {} MiB of log; {missing} items were missing",
            (bench.metrics.dirty_pages.get() * 4096) >> 20,
            bench.metrics.log_bytes.get() >> 20,
        );
        phases::wait_to_be_killed()
    }

    /// Asks, prints a line, and says how many were found.
    fn ask(
        &self,
        bench: &Bench,
        memory: &Memory,
        what: &str,
        numbers: std::ops::Range<u64>,
        at_once: u64,
    ) -> Result<usize, Box<dyn Error>> {
        let (before, mut found, mut seconds) = (bench.counts(), 0, Vec::new());
        memory.forget();
        for from in numbers.clone().step_by(at_once as usize) {
            let started = Instant::now();
            found += bench.found(from..(from + at_once).min(numbers.end))?;
            seconds.push(started.elapsed().as_secs_f64());
        }
        let count = (numbers.end - numbers.start) as f64;
        println!(
            "| {what} | {:.0} | {:.0} | {:.0} | {:.3} | {} |",
            count / seconds.iter().sum::<f64>(),
            percentile(&mut seconds, 0.5) * 1e6,
            percentile(&mut seconds, 0.99) * 1e6,
            (bench.counts().pages_read - before.pages_read) as f64 / count,
            memory.range(),
        );
        Ok(found)
    }

    fn again(&self, folder: &Path) -> Result<(), Box<dyn Error>> {
        let started = Instant::now();
        let bench = Bench::open(folder, &self.tight(), self.seed)?;
        let seconds = started.elapsed().as_secs_f64();
        let all = self.added().end;
        // The last ones were added last, and some from everywhere.
        let last = all - self.cold_adds.min(100_000);
        let mut missing = (all - last) as usize - bench.found(last..all)?;
        let step = (all / 100).max(1_000);
        for from in (0..all - 1_000).step_by(step as usize) {
            missing += 1_000 - bench.found(from..from + 1_000)?;
        }
        println!(
            "started again after kill -9 in {seconds:.3} s; {} items, {missing} missing",
            bench.info()?.items
        );
        bench.engine.shutdown()?;
        match missing {
            0 => Ok(()),
            _ => Err("items are missing".into()),
        }
    }
}

/// Asks for an item that is not there, and pauses, until it is told to stop. Returns how
/// long the answers took.
fn ask_now_and_then(bench: &Bench, first: u64, stop: &AtomicBool) -> Vec<f64> {
    let mut seconds = Vec::new();
    for number in first.. {
        if stop.load(Ordering::Relaxed) {
            break;
        }
        let started = Instant::now();
        if bench.found(number..number + 1).is_err() {
            break;
        }
        seconds.push(started.elapsed().as_secs_f64());
        std::thread::sleep(Duration::from_millis(1));
    }
    seconds
}

/// Looks at this process's memory ten times a second.
struct Memory {
    least: Arc<AtomicU64>,
    most: Arc<AtomicU64>,
    stop: Arc<AtomicBool>,
}

impl Memory {
    fn watch() -> Memory {
        let memory = Memory {
            least: Arc::new(AtomicU64::new(u64::MAX)),
            most: Arc::default(),
            stop: Arc::default(),
        };
        let (least, most) = (Arc::clone(&memory.least), Arc::clone(&memory.most));
        let stop = Arc::clone(&memory.stop);
        std::thread::spawn(move || {
            while !stop.load(Ordering::Relaxed) {
                let now = machine::resident_bytes("self") >> 20;
                least.fetch_min(now, Ordering::Relaxed);
                most.fetch_max(now, Ordering::Relaxed);
                std::thread::sleep(Duration::from_millis(100));
            }
        });
        memory
    }

    fn forget(&self) {
        let now = machine::resident_bytes("self") >> 20;
        self.least.store(now, Ordering::Relaxed);
        self.most.store(now, Ordering::Relaxed);
    }

    /// From the least to the most since the last time that was forgotten.
    fn range(&self) -> String {
        let least = self.least.load(Ordering::Relaxed) as f64;
        let most = self.most.load(Ordering::Relaxed) as f64;
        let Spread { min, max, .. } = Spread::of(vec![least, most]);
        format!("{min:.0} to {max:.0}")
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
    }
}
