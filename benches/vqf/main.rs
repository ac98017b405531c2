//! Filters of other kinds beside ours, in memory, in one run: a Vector Quotient Filter
//! (`vqf.rs`), which adds and deletes as ours does, and binary fuse filters (Graf and
//! Lemire, 2022; the crate `xorf`), which are built once.
//!
//! `cargo bench --bench vqf`: 16 million slots, a minute; `CUCKOOD_BENCH_SLOTS_LOG2` for
//! others, `CUCKOOD_BENCH_ROUNDS` for other rounds than five. On x86-64 with BMI2.
//!
//! Adds are measured by how full the filter is. Each filter is filled to 95 % of its slots,
//! or until an item finds no room. To compare filters of different rates, the last column says by how many bits an item takes more
//! than log2(1/rate), which no filter goes below. Time is what the thread had of a
//! processor, hashing included.

#![cfg_attr(
    target_arch = "x86_64",
    allow(clippy::indexing_slicing, reason = "a bench")
)]

#[path = "../../crates/filter/tests/resident/mod.rs"]
mod resident;
#[path = "../support/mod.rs"]
mod support;
#[cfg(target_arch = "x86_64")]
mod vqf;

use std::error::Error;

#[cfg(not(target_arch = "x86_64"))]
fn main() -> Result<(), Box<dyn Error>> {
    Err("a Vector Quotient Filter needs BMI2, which x86-64 has".into())
}

#[cfg(target_arch = "x86_64")]
fn main() -> Result<(), Box<dyn Error>> {
    measured::all()
}

#[cfg(target_arch = "x86_64")]
mod measured {
    use super::resident::ResidentFilter;
    use super::support::rounds::{Spread, processor_seconds};
    use super::support::{seed, setting};
    use super::vqf::{Vqf, Vqf8, Vqf16};
    use cuckood::chain::meta::Chain;
    use cuckood::chain::params::{Defaults, FilterParams, FilterRequest};
    use cuckood::chain::plan::{AddMode, AddResult};
    use cuckood::cuckoo::hash::HashKey;
    use std::collections::hash_map::DefaultHasher;
    use std::error::Error;
    use std::hash::Hasher as _;
    use std::hint::black_box;
    use std::ops::Range;
    use xorf::{BinaryFuse8, BinaryFuse16, BinaryFuse32, Filter};

    /// Items hashed, added or asked about at once.
    const BATCH: u64 = 4_096;

    /// Parts of the slots, in percent, whose adds are measured apart.
    const LOADS: [u64; 5] = [0, 50, 80, 90, 95];

    /// Something that holds items, which are numbers.
    trait Measured {
        /// None where all items are there from the begin.
        fn slots(&self) -> Option<u64>;
        fn bytes(&self) -> usize;
        fn add(&mut self, items: &[u64]) -> u64;
        fn ask(&mut self, items: &[u64]) -> u64;
        /// `None`: it deletes nothing.
        fn delete(&mut self, items: &[u64]) -> Option<u64>;
    }

    struct Ours(ResidentFilter);

    impl Ours {
        fn new(bits: u64, slots: u64) -> Result<Ours, Box<dyn Error>> {
            // The largest capacity that is given so many slots.
            let per_mille = if bits == 12 { 950 } else { 945 };
            let request = FilterRequest {
                capacity: Some(slots * per_mille / 1000),
                fingerprint_bits: Some(bits),
                expansion: Some(0),
                ..FilterRequest::default()
            };
            let params = FilterParams::resolve(&request, &Defaults::default());
            let params = params.map_err(|refused| format!("{refused:?}"))?;
            let chain = Chain::new(params, HashKey([7; 16]), 0).ok_or("too large")?;
            Ok(Ours(ResidentFilter::new(chain)))
        }

        fn hashes(&self, items: &[u64]) -> Vec<cuckood::cuckoo::hash::ItemHash> {
            let items: Vec<[u8; 8]> = items.iter().map(|it| it.to_le_bytes()).collect();
            let mut hashes = Vec::with_capacity(items.len());
            let hasher = self.0.chain().hash_id().hasher();
            hasher.hash_all(items.iter().map(<[u8; 8]>::as_slice), &mut hashes);
            hashes
        }
    }

    impl Measured for Ours {
        fn slots(&self) -> Option<u64> {
            let layouts = self.0.chain().sub_filters().map(|it| it.layout.slots());
            Some(layouts.sum())
        }

        fn bytes(&self) -> usize {
            self.0.chain().slot_bytes() as usize
        }

        fn add(&mut self, items: &[u64]) -> u64 {
            let hashes = self.hashes(items);
            let added = self.0.add_at_once(&hashes, AddMode::Always);
            added.iter().filter(|it| **it == AddResult::Added).count() as u64
        }

        fn ask(&mut self, items: &[u64]) -> u64 {
            let mut found = Vec::with_capacity(items.len());
            self.0.exists_all(&self.hashes(items), &mut found);
            found.into_iter().filter(|it| *it).count() as u64
        }

        fn delete(&mut self, items: &[u64]) -> Option<u64> {
            let hashes = self.hashes(items);
            let mut deleted = 0;
            self.0.at_once(|planner| {
                let each = hashes.iter().map(|hash| planner.delete(*hash));
                deleted = each.filter(|it| *it == Some(true)).count() as u64;
            });
            Some(deleted)
        }
    }

    fn hashes(items: &[u64]) -> Vec<u64> {
        let hash = |item: &u64| {
            // SipHash-1-3, as ours.
            let mut hasher = DefaultHasher::new();
            hasher.write_u64(*item);
            hasher.finish()
        };
        items.iter().map(hash).collect()
    }

    impl<const BUCKETS: usize, const SLOTS: usize, const WIDTH: usize> Measured
        for Vqf<BUCKETS, SLOTS, WIDTH>
    {
        fn slots(&self) -> Option<u64> {
            Some(self.slots())
        }

        fn bytes(&self) -> usize {
            self.bytes()
        }

        #[expect(unsafe_code, reason = "main looked for the instructions")]
        fn add(&mut self, items: &[u64]) -> u64 {
            // SAFETY: `all` has seen that the processor has them.
            unsafe { self.add_all(&hashes(items)) }
        }

        #[expect(unsafe_code, reason = "main looked for the instructions")]
        fn ask(&mut self, items: &[u64]) -> u64 {
            // SAFETY: as above.
            unsafe { self.ask_all(&hashes(items)) }
        }

        #[expect(unsafe_code, reason = "main looked for the instructions")]
        fn delete(&mut self, items: &[u64]) -> Option<u64> {
            // SAFETY: as above.
            Some(unsafe { self.delete_all(&hashes(items)) })
        }
    }

    struct Fuse<T> {
        filter: T,
        bytes: usize,
    }

    impl<T: Filter<u64>> Measured for Fuse<T> {
        fn slots(&self) -> Option<u64> {
            None
        }

        fn bytes(&self) -> usize {
            self.bytes
        }

        fn add(&mut self, _: &[u64]) -> u64 {
            0
        }

        fn ask(&mut self, items: &[u64]) -> u64 {
            let hashes = hashes(items);
            hashes.iter().filter(|it| self.filter.contains(it)).count() as u64
        }

        fn delete(&mut self, _: &[u64]) -> Option<u64> {
            None
        }
    }

    /// What is known of a filter after a round, in nanoseconds an item but for the last.
    #[derive(Default)]
    struct Round {
        adds: Vec<f64>,
        present: f64,
        absent: f64,
        deletes: f64,
        bits: f64,
        /// Items by slots, where it was full; at most 95.
        percent: f64,
        rate: f64,
    }

    type Make = Box<dyn Fn(u64) -> Result<(Box<dyn Measured>, f64), Box<dyn Error>>>;

    pub(super) fn all() -> Result<(), Box<dyn Error>> {
        let found = ["bmi1", "bmi2", "lzcnt", "popcnt"];
        let has_all = is_x86_feature_detected!("bmi1")
            && is_x86_feature_detected!("bmi2")
            && is_x86_feature_detected!("lzcnt")
            && is_x86_feature_detected!("popcnt");
        if !has_all {
            return Err(format!("this needs a processor with {}", found.join(", ")).into());
        }
        let slots = 1u64 << setting("CUCKOOD_BENCH_SLOTS_LOG2", 24u32)?;
        let rounds: u64 = setting("CUCKOOD_BENCH_ROUNDS", 5)?;
        let seed = seed()?;
        let contenders: Vec<(&str, Make)> = vec![
            ("slots of 12 bits", ours(12, slots)),
            (
                "VQF, 8 bits",
                Box::new(move |_| Ok((Box::new(Vqf8::new(slots)), 0.0))),
            ),
            (
                "binary fuse, 8 bits",
                fuse(slots, |it| Ok((BinaryFuse8::try_from(it)?, 1))),
            ),
            ("slots of 16 bits", ours(16, slots)),
            (
                "VQF, 16 bits",
                Box::new(move |_| Ok((Box::new(Vqf16::new(slots)), 0.0))),
            ),
            (
                "binary fuse, 16 bits",
                fuse(slots, |it| Ok((BinaryFuse16::try_from(it)?, 2))),
            ),
            ("slots of 21 bits", ours(21, slots)),
            ("slots of 32 bits", ours(32, slots)),
            (
                "binary fuse, 32 bits",
                fuse(slots, |it| Ok((BinaryFuse32::try_from(it)?, 4))),
            ),
        ];
        println!(
            "\nNanoseconds an item, medians of {rounds} rounds; `add` by the load of the slots in percent\n"
        );
        let loads = LOADS
            .windows(2)
            .map(|it| format!("add, {} to {}", it[0], it[1]));
        let loads: Vec<String> = loads.collect();
        println!(
            "| filter | {} | exists, present | exists, absent | delete | full at | bits an item | wrong yes | bits above log2(1/rate) |",
            loads.join(" | ")
        );
        println!("|{}", "---|".repeat(LOADS.len() + 7));
        let mut measured: Vec<Vec<Round>> = contenders.iter().map(|_| Vec::new()).collect();
        for round in 0..rounds {
            let first = seed.rotate_left(32) ^ (round << 40);
            for ((_, make), rounds) in contenders.iter().zip(&mut measured) {
                rounds.push(measure(make, first, slots)?);
            }
        }
        for ((name, _), rounds) in contenders.iter().zip(&measured) {
            let of =
                |it: &dyn Fn(&Round) -> f64| Spread::of(rounds.iter().map(it).collect()).median;
            let adds = (0..LOADS.len() - 1).map(|at| cell(of(&|it| it.adds[at])));
            let (bits, rate) = (of(&|it| it.bits), of(&|it| it.rate));
            println!(
                "| {name} | {} | {} | {} | {} | {:.1} % | {bits:.2} | {rate:.2e} | {:.2} |",
                adds.collect::<Vec<_>>().join(" | "),
                cell(of(&|it| it.present)),
                cell(of(&|it| it.absent)),
                cell(of(&|it| it.deletes)),
                of(&|it| it.percent),
                bits + rate.log2()
            );
        }
        Ok(())
    }

    fn cell(nanos: f64) -> String {
        match nanos.is_finite() {
            true => format!("{nanos:.0}"),
            false => "–".to_owned(),
        }
    }

    fn ours(bits: u64, slots: u64) -> Make {
        Box::new(move |_| Ok((Box::new(Ours::new(bits, slots)?), 0.0)))
    }

    /// A filter, and the bytes of a fingerprint.
    type Built<T> = Result<(T, usize), &'static str>;

    /// What is built, and nanoseconds an item that this took.
    fn fuse<T: Filter<u64> + 'static>(slots: u64, build: fn(&[u64]) -> Built<T>) -> Make {
        Box::new(move |first| {
            let items = slots / 100 * 95;
            let started = processor_seconds();
            let hashes = hashes(&scattered(first..first + items));
            let (filter, width) = build(&hashes)?;
            let nanos = (processor_seconds() - started) * 1e9 / items as f64;
            let bytes = filter.len() * width;
            Ok((Box::new(Fuse { filter, bytes }), nanos))
        })
    }

    fn measure(make: &Make, first: u64, slots: u64) -> Result<Round, Box<dyn Error>> {
        let (mut filter, built) = make(first)?;
        let all = filter.slots().unwrap_or(slots);
        let mut round = Round::default();
        // What is built has all from the begin.
        let mut items = if filter.slots().is_some() {
            0
        } else {
            all / 100 * 95
        };
        let mut is_full = items > 0;
        for load in LOADS.windows(2) {
            let (begin, mut seconds) = (items, 0.0);
            let end = all / 100 * load[1];
            while !is_full && items < end {
                let batch = scattered(first + items..first + (items + BATCH).min(end));
                let started = processor_seconds();
                let added = filter.add(&batch);
                seconds += processor_seconds() - started;
                // With the first that finds no room the filter is full.
                is_full = added < batch.len() as u64;
                items += if is_full { 0 } else { added };
            }
            round.adds.push(match filter.slots() {
                None => built,
                Some(_) => seconds * 1e9 / (items - begin) as f64,
            });
        }
        let mut ask = |first: u64| timed(first, 0..items, |part| Ok(filter.ask(part)));
        let (present, found) = ask(first)?;
        if found != items {
            return Err(format!("{found} of {items} items are found").into());
        }
        let (absent, wrong) = ask(first ^ 1 << 60)?;
        (round.present, round.absent) = (present, absent);
        round.bits = filter.bytes() as f64 * 8.0 / items as f64;
        round.percent = items as f64 * 100.0 / all as f64;
        // None at all is less than one.
        round.rate = wrong.max(1) as f64 / items as f64;
        let tenth = 0..items / 10;
        let (deletes, _) = timed(first, tenth, |part| Ok(filter.delete(part).unwrap_or(0)))?;
        let can = filter.delete(&[]).is_some();
        round.deletes = if can { deletes } else { f64::NAN };
        Ok(round)
    }

    /// Nanoseconds an item, and the sum of what was said of each batch.
    fn timed(
        first: u64,
        part: Range<u64>,
        mut act: impl FnMut(&[u64]) -> Result<u64, Box<dyn Error>>,
    ) -> Result<(f64, u64), Box<dyn Error>> {
        let (mut seconds, mut sum) = (0.0, 0);
        for from in part.clone().step_by(BATCH as usize) {
            let items = scattered(first + from..first + (from + BATCH).min(part.end));
            let started = processor_seconds();
            sum += black_box(act(&items)?);
            seconds += processor_seconds() - started;
        }
        Ok((seconds * 1e9 / (part.end - part.start) as f64, sum))
    }

    /// Numbers in a scattered order, so that no filter profits from neighbours.
    fn scattered(numbers: Range<u64>) -> Vec<u64> {
        let scatter = |it: u64| it.wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(32);
        numbers.map(scatter).collect()
    }
}
