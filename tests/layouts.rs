//! What the layouts promise, measured on filters in memory. The tables of
//! `docs/engine.md` come from the long form:
//! `CUCKOOD_LONG=1 cargo test --release --test layouts -- --nocapture --test-threads 1`

#![expect(
    clippy::unwrap_used,
    reason = "what helps a test may fail as the test does"
)]

#[path = "../crates/filter/tests/resident/mod.rs"]
mod resident;

use cuckood::chain::meta::Chain;
use cuckood::chain::params::{Defaults, FilterParams, FilterRequest};
use cuckood::chain::plan::{AddMode, AddResult};
use cuckood::chain::read::candidate_pages;
use cuckood::cuckoo::hash::{HashKey, ItemHash};
use resident::ResidentFilter;
use std::collections::BTreeSet;

/// Keys of the filters' hashes, and with them the placement of all items.
const SEED: u8 = 0x5e;

fn filter(request: &FilterRequest) -> ResidentFilter {
    let defaults = Defaults {
        max_expansions: 1_000,
        max_chain_length: 1 << 16,
        max_filter_bytes: 1 << 40,
        ..Defaults::default()
    };
    let params = FilterParams::resolve(request, &defaults).unwrap();
    ResidentFilter::new(Chain::new(params, HashKey([SEED; 16]), 0).unwrap())
}

fn hashes(it: &ResidentFilter, numbers: std::ops::Range<u64>) -> Vec<ItemHash> {
    numbers
        .map(|number| it.chain().hash(&number.to_le_bytes()))
        .collect()
}

/// Adds the items of these numbers, in batches.
fn add(it: &mut ResidentFilter, numbers: std::ops::Range<u64>) {
    for first in numbers.clone().step_by(4_096) {
        let items = hashes(it, first..(first + 4_096).min(numbers.end));
        let added = it.add(&items, AddMode::Always);
        assert!(
            added
                .results
                .iter()
                .all(|&result| result == AddResult::Added)
        );
    }
}

/// How many of so many items that were never added are found.
fn false_positives(it: &ResidentFilter, probes: u64) -> u64 {
    let (mut found, mut wrong) = (Vec::with_capacity(4_096), 0);
    for first in (0..probes).step_by(4_096) {
        let first = first + (1 << 40);
        let items = hashes(it, first..first + 4_096.min(probes + (1 << 40) - first));
        found.clear();
        it.exists_all(&items, &mut found);
        wrong += found.iter().filter(|&&found| found).count() as u64;
    }
    wrong
}

fn paged(bits: u64, capacity: u64) -> FilterRequest {
    FilterRequest {
        capacity: Some(capacity),
        fingerprint_bits: Some(bits),
        ..Default::default()
    }
}

fn classic(bucket_size: u64, capacity: u64) -> FilterRequest {
    FilterRequest {
        capacity: Some(capacity),
        bucket_size: Some(bucket_size),
        ..Default::default()
    }
}

/// Whether to take the time that a good figure takes.
fn is_long() -> bool {
    std::env::var_os("CUCKOOD_LONG").is_some()
}

#[test]
fn a_filter_fills_to_its_load_and_an_add_writes_one_page() {
    println!(
        "| slot bits | pages | slots | load at first failure | pages written an add, load 0.90 to 0.95 |"
    );
    println!("|---|---|---|---|---|");
    for (bits, pages, load) in [
        (12, 389, 0.96),
        (16, 512, 0.96),
        (16, 613, 0.96),
        (16, 9_001, 0.96),
        (21, 677, 0.94),
        (32, 1_024, 0.96),
        (32, 1_351, 0.96),
        (16, if is_long() { 65_536 } else { 2_048 }, 0.96),
    ] {
        let slots = pages * 512 * (64 / bits);
        // The largest capacity of so many pages, in thousandths.
        let target = match bits {
            12 => 950,
            21 => 915,
            _ => 945,
        };
        let request = FilterRequest {
            expansion: Some(0),
            ..paged(bits, slots * target / 1000)
        };
        let mut it = filter(&request);
        assert_eq!(it.chain().slot_bytes(), pages * 4096);
        add(&mut it, 0..slots * 9 / 10);
        let (mut written, mut adds) = (0, 0);
        for number in slots * 9 / 10.. {
            let added = it.add(&hashes(&it, number..number + 1), AddMode::Always);
            if added.results != [AddResult::Added] {
                break;
            }
            if it.chain().load() < 0.95 {
                written += added.pages_written;
                adds += 1;
            }
        }
        let reached = it.chain().load();
        let written = written as f64 / f64::from(adds);
        println!("| {bits} | {pages} | {slots} | {reached:.4} | {written:.4} |");
        assert!(reached >= load, "{bits} bits, {pages} pages: {reached}");
        // Buckets of three slots are full more often so near the end, far above the load
        // at which pages are split.
        let most = match bits {
            21 => 1.2,
            _ => 1.02,
        };
        assert!(written <= most, "{bits} bits, {pages} pages: {written}");
    }
}

/// Bits that slots take for each item.
fn bits_per_item(it: &ResidentFilter, items: u64) -> f64 {
    it.chain().slot_bytes() as f64 * 8.0 / items as f64
}

/// Pages that a question about an absent item reads when none is in memory.
fn pages_of_absent(it: &ResidentFilter) -> f64 {
    let absent = hashes(it, 1 << 40..(1 << 40) + 100_000);
    let pages = absent.iter().map(|&hash| {
        let pages: BTreeSet<_> = candidate_pages(it.chain(), hash).collect();
        pages.len()
    });
    pages.sum::<usize>() as f64 / absent.len() as f64
}

#[test]
fn growth_costs_few_bits_and_pages_and_splits_a_page_at_a_time() {
    let growth = if is_long() { 32 } else { 4 };
    println!(
        "| slot bits | bits an item, most | mean of a doubling | pages of an absent item | most splits an add | forced | counted |"
    );
    println!("|---|---|---|---|---|---|---|");
    for (bits, target, most_allowed, mean_allowed) in [
        (12, 950, 27.0, 20.0),
        (16, 945, 33.0, 24.5),
        (21, 915, 45.0, 33.5),
        (32, 945, 67.0, 49.0),
    ] {
        let capacity = 11 * 512 * (64 / bits) * target / 1000;
        let mut it = filter(&paged(bits, capacity));
        assert_eq!(it.chain().slot_bytes(), 11 * 4096);
        add(&mut it, 0..capacity);
        let (mut most, mut sum, mut steps) = (0f64, 0.0, 0);
        let (mut splits, mut forced, mut pages) = (0, 0, pages_of_absent(&it));
        let mut items = capacity;
        while items < growth * capacity {
            let hashes = hashes(&it, items..items + capacity / 50);
            let stats = it.add(&hashes, AddMode::Always).stats;
            items += capacity / 50;
            splits = splits.max(stats.max_splits);
            forced += stats.forced_splits;
            most = most.max(bits_per_item(&it, items));
            if items > growth * capacity / 2 {
                sum += bits_per_item(&it, items);
                steps += 1;
            }
            if steps % 25 == 1 {
                pages = pages.max(pages_of_absent(&it));
            }
        }
        let mean = sum / f64::from(steps);
        let counted: u64 = it.chain().sub_filters().map(|sub| sub.counted).sum();
        let counted = counted as f64 / items as f64;
        println!(
            "| {bits} | {most:.1} | {mean:.1} | {pages:.3} | {splits} | {forced} | {counted:.6} |"
        );
        assert!(most <= most_allowed && mean <= mean_allowed, "{bits} bits");
        assert!(pages <= 1.13, "{bits} bits: {pages} pages");
        assert_eq!((splits, forced), (1, 0), "{bits} bits");
    }
}

#[test]
fn the_false_positive_rate_is_what_theory_says() {
    println!("| slot bits | load | probes | expected 2*slots*load/2^bits | measured | ratio |");
    println!("|---|---|---|---|---|---|");
    for (bits, probes, loads) in [
        (12, 10_000_000, [0.5, 0.94]),
        (
            16,
            if is_long() { 100_000_000 } else { 10_000_000 },
            [0.5, 0.94],
        ),
    ] {
        // Chance scatters the 1,200 matches of the short form by three percent.
        let band = if bits == 12 || is_long() { 0.05 } else { 0.15 };
        for load in loads {
            let mut it = filter(&paged(bits, 1_000_000));
            let slots = it.chain().sub_filter(0).unwrap().layout.slots();
            let mut next = 0;
            while it.chain().load() < load {
                add(&mut it, next..next + 4_096.min(slots - next));
                next += 4_096;
            }
            assert_eq!(it.chain().expansions(), 0);
            let load = it.chain().load();
            let slots = (64 / bits) as f64;
            let expected = 2.0 * slots * load / 2f64.powi(bits as i32);
            let measured = false_positives(&it, probes) as f64 / probes as f64;
            let ratio = measured / expected;
            println!(
                "| {bits} | {load:.3} | {probes} | {expected:.3e} | {measured:.3e} | {ratio:.3} |"
            );
            assert!((ratio - 1.0).abs() < band, "{measured} against {expected}");
            let info = it.chain().false_positive_rate();
            assert!(
                (info / expected - 1.0).abs() < 0.02,
                "{info} against {expected}"
            );
        }
    }
}

#[test]
fn a_filter_keeps_its_error_rate_while_it_grows() {
    let capacity = if is_long() { 100_000 } else { 20_000 };
    println!(
        "| filter | promised | items / capacity | expansions | expected | measured | bits per item |"
    );
    println!("|---|---|---|---|---|---|---|");
    let asked = |error_rate| FilterRequest {
        capacity: Some(capacity),
        error_rate: Some(error_rate),
        ..Default::default()
    };
    let kinds = [
        ("paged", asked(0.001)),
        ("paged", asked(0.0005)),
        ("paged", asked(0.02)),
        ("classic, 2 slots, expansion 1", classic(2, capacity)),
        (
            "classic, 2 slots, expansion 2",
            FilterRequest {
                expansion: Some(2),
                ..classic(2, capacity)
            },
        ),
        (
            "classic, 4 slots, expansion 2",
            FilterRequest {
                expansion: Some(2),
                ..classic(4, capacity)
            },
        ),
    ];
    for (name, request) in kinds {
        let mut it = filter(&request);
        let mut items = 0;
        let is_chain_of_equals = request.bucket_size.is_some() && request.expansion.is_none();
        for growth in [1, 16, 24, 64, 128] {
            if is_chain_of_equals && growth > 24 {
                // A hundred sub-filters find almost everything.
                continue;
            }
            add(&mut it, items..growth * capacity);
            items = growth * capacity;
            let probes = if is_long() { 10_000_000 } else { 1_000_000 };
            let measured = false_positives(&it, probes) as f64 / probes as f64;
            let expected = it.chain().false_positive_rate();
            let promised = it.chain().params().error_rate();
            println!(
                "| {name} | {} | {growth} | {} | {expected:.3e} | {measured:.3e} | {:.1} |",
                promised.map_or("none".to_owned(), |rate| rate.to_string()),
                it.chain().expansions(),
                it.chain().slot_bytes() as f64 * 8.0 / items as f64,
            );
            let Some(promised) = promised else {
                continue;
            };
            if growth > 64 {
                continue;
            }
            assert!(it.chain().keeps_promise(), "{growth}");
            assert!(expected <= promised, "{expected} at {growth}");
            // Chance: three standard deviations of a count so small.
            let chance = 3.0 * (promised / probes as f64).sqrt();
            assert!(measured <= promised + chance, "{measured} at {growth}");
        }
    }
}
