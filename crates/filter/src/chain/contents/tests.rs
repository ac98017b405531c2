//! After every change, what whoever verifies pages finds in them, what a sum of another
//! kind finds there, what the description says and what an exact multiset has are the
//! same: with items that are chosen for the edges of keys, of which random ones meet
//! none.

use super::*;
use crate::chain::address::PageAddress;
use crate::chain::counters::CounterKey;
use crate::chain::params::{Defaults, FilterParams, FilterRequest, LayoutKind};
use crate::chain::plan::{AddMode, AddResult, Planner, ReplaceResult};
use crate::cuckoo::classic::Classic;
use crate::cuckoo::hash::{HashKey, ItemHash};
use crate::cuckoo::paged::Paged;
use crate::resident::{Pages, ResidentFilter};
use std::collections::BTreeSet;

const SEED: u64 = 20_261_123;

/// A moment in 2027, in milliseconds.
const START_MS: u64 = 1_800_000_000_123;

/// Copies beyond which a filter is emptied, by turns: few lie on one page, many fill it,
/// split it, and have a filter grow or refuse.
const MOST_HELD: [usize; 2] = [1_500, 30_000];

/// Items of the smallest and largest fingerprints, in the first and last buckets of the
/// first and last pages.
fn edges_of_classic(layout: &Classic) -> Vec<ItemHash> {
    let per_page = u64::from(layout.page_bytes()) / u64::from(layout.bucket_size());
    let last = layout.buckets() - 1;
    let mut edges = Vec::new();
    for bucket in [0, 1, per_page - 1, last] {
        for fingerprint in [1, 2, 128, 255] {
            let mut hashes = (0..255).map(|it| ItemHash::from(bucket + it * layout.buckets()));
            edges.extend(hashes.find(|&it| layout.candidates(it).fingerprint.0 == fingerprint));
        }
    }
    edges
}

/// The same of a layout whose fingerprints are an anchor and a path: anchors that cross
/// and such that don't, and paths that look empty, but for a bit, and full.
fn edges_of_paged(layout: &Paged) -> Vec<ItemHash> {
    let (buckets, code) = (u64::from(layout.buckets_per_page()), layout.code());
    let anchors = 1u64 << code.anchor_bits();
    let mut edges = Vec::new();
    for within in [0, 1, buckets - 1] {
        for anchor in [0, 1, 2, anchors - 7, anchors - 1] {
            for path in [0, 1, 1 << (code.suffix_bits() - 1), u64::MAX] {
                let low = within | anchor << 9 | path << (9 + code.anchor_bits());
                let ends = [0, u64::MAX].map(|high| u128::from(high) << 64 | u128::from(low));
                edges.extend(ends.map(ItemHash));
            }
        }
    }
    edges
}

/// A filter beside what is in it.
struct Checked {
    filter: ResidentFilter,
    edges: Vec<ItemHash>,
    /// Every copy, with its value.
    held: Vec<(ItemHash, u32)>,
    keys_seen: BTreeSet<CounterKey>,
    now_ms: u64,
    random: u64,
    refused: usize,
    commands: u64,
}

impl Checked {
    fn new(request: &FilterRequest, now_ms: u64) -> Checked {
        let params = FilterParams::resolve(request, &Defaults::default()).unwrap();
        let chain = Chain::new(params, HashKey([7; 16]), now_ms).unwrap();
        let edges = match chain.sub_filter(0).unwrap().layout {
            Layout::Classic(layout) => edges_of_classic(&layout),
            Layout::Paged(layout) => edges_of_paged(&layout),
        };
        Checked {
            filter: ResidentFilter::new(chain),
            edges,
            held: Vec::new(),
            keys_seen: BTreeSet::new(),
            now_ms,
            random: SEED,
            refused: 0,
            commands: 0,
        }
    }

    fn layout(&self) -> Layout {
        self.filter.chain().sub_filter(0).unwrap().layout
    }

    fn expires(&self) -> bool {
        self.filter.chain().params().window().is_some()
    }

    fn most_value(&self) -> u32 {
        match self.expires() {
            true => 0,
            false => (1 << self.layout().value_bits()) - 1,
        }
    }

    fn below(&mut self, limit: usize) -> usize {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        (self.random % limit as u64) as usize
    }

    /// One that is chosen, or one like any other.
    fn item(&mut self) -> ItemHash {
        let any = ItemHash(u128::from(self.random) << 64 | u128::from(self.random.rotate_left(29)));
        let edge = self.below(self.edges.len());
        match self.below(4) {
            0 => any,
            _ => self.edges[edge],
        }
    }

    fn value(&mut self) -> u32 {
        let most = self.most_value();
        let one = self.below(4);
        [0, 1, most / 2, most][one].min(most)
    }

    fn work<T>(&mut self, work: impl FnOnce(&mut Planner<'_, Pages>) -> Option<T>) -> T {
        let (mut result, now_ms) = (None, self.now_ms);
        self.filter.at_once(|planner| {
            planner.at(now_ms);
            result = work(planner);
        });
        self.check();
        result.unwrap()
    }

    fn add(&mut self, item: ItemHash, value: u32) {
        let has_values = self.most_value() > 0;
        let added = self.work(|planner| match has_values {
            true => planner.add_value(item, value, AddMode::Always),
            false => planner.add(item, AddMode::Always),
        });
        match added {
            AddResult::Added => self.held.push((item, value)),
            AddResult::Refreshed => assert!(self.expires()),
            AddResult::Full(_) => self.refused += 1,
            AddResult::Exists => panic!("it was to be added again"),
        }
        self.count();
    }

    fn count(&self) {
        let items = self.filter.chain().items();
        assert!(self.expires() || items == self.held.len() as u64);
    }

    fn delete(&mut self) {
        if self.held.is_empty() || self.expires() {
            return;
        }
        let one = self.below(self.held.len());
        let (item, value) = self.held.swap_remove(one);
        let has_values = self.most_value() > 0;
        assert!(self.work(|planner| match has_values {
            true => planner.delete_value(item, value),
            false => planner.delete(item),
        }));
        self.count();
    }

    fn replace(&mut self) {
        if self.held.is_empty() || self.most_value() == 0 {
            return;
        }
        let (one, to) = (self.below(self.held.len()), self.value());
        let (item, from) = self.held[one];
        let replaced = self.work(|planner| planner.replace_value(item, from, to));
        match replaced {
            ReplaceResult::Replaced => self.held[one].1 = to,
            other => assert_eq!(from, to, "{other:?}"),
        }
    }

    /// Deletes all there is, so that pages merge.
    fn empty(&mut self) {
        while !self.expires() && !self.held.is_empty() {
            self.delete();
        }
    }

    /// Time goes on, and pages are swept; or sub-filters are brought together.
    fn tidy(&mut self) {
        if self.expires() {
            let one = self.below(4);
            let ahead_ms = [0, 1_000, 5_000, 60_000][one];
            self.now_ms = self.now_ms.saturating_add(ahead_ms);
            self.work(|planner| planner.sweep(0, 3));
        } else if matches!(self.layout(), Layout::Classic(_)) {
            self.filter.compact();
            self.check();
        }
    }

    /// Slots in use and copies, without anything that says so in the program.
    fn summed(&self) -> (u64, u64) {
        let (mut occupied, mut counted) = (0, 0);
        for (position, sub) in self.filter.chain().sub_filters().enumerate() {
            let (bits, lanes) = (
                sub.layout.slot_width().bits(),
                64 / sub.layout.slot_width().bits(),
            );
            for number in 0..sub.layout.pages() {
                let address = PageAddress::new(position, number);
                let page = self.filter.page(address).unwrap();
                for (word, lane) in page
                    .words
                    .iter()
                    .flat_map(|&it| (0..lanes).map(move |lane| (it, lane)))
                {
                    occupied += u64::from(word >> (bits * lane) & ((1 << bits) - 1) != 0);
                }
                if !self.expires() {
                    counted += page.counters.iter().map(|it| it.1).sum::<u64>();
                }
            }
        }
        (occupied, counted)
    }

    fn check(&mut self) {
        self.commands += 1;
        let (mut occupied, mut counted) = (0, 0);
        for (told, found) in self.filter.told_and_found() {
            (occupied, counted) = (occupied + told.occupied, counted + told.counted);
            assert_eq!(found, Some(told));
        }
        assert_eq!(self.summed(), (occupied, counted));
        let items = self.filter.chain().items();
        assert!(occupied + counted >= items);
        for (position, sub) in self.filter.chain().sub_filters().enumerate() {
            for number in 0..sub.layout.pages() {
                let counters = self.filter.counters(PageAddress::new(position, number));
                let keys = counters.into_iter().flat_map(Counters::iter);
                self.keys_seen.extend(keys.map(|it| it.0));
            }
        }
    }
}

fn checked(request: &FilterRequest, now_ms: u64, steps: usize) -> Checked {
    println!("seed {SEED}, from {now_ms}: {request:?}");
    let mut it = Checked::new(request, now_ms);
    let mut most_held = MOST_HELD.into_iter().cycle();
    let mut most = most_held.next();
    for _ in 0..steps {
        match it.below(16) {
            0..=6 => {
                let (item, value, copies) = (it.item(), it.value(), it.below(6) + 1);
                (0..copies).for_each(|_| it.add(item, value));
            }
            7 | 8 => {
                let (item, value) = (it.item(), it.value());
                it.add(item, value);
            }
            9 | 10 => it.replace(),
            11 => it.tidy(),
            _ => (0..4).for_each(|_| it.delete()),
        }
        if most.is_some_and(|most| it.held.len() > most) {
            it.empty();
            most = most_held.next();
        }
    }
    it.empty();
    println!("{} commands, {} items refused", it.commands, it.refused);
    it
}

fn classic(bucket_size: u64) -> FilterRequest {
    FilterRequest {
        layout: Some(LayoutKind::Classic),
        capacity: Some(600),
        bucket_size: Some(bucket_size),
        ..FilterRequest::default()
    }
}

fn paged(width: u64) -> FilterRequest {
    FilterRequest {
        layout: Some(LayoutKind::Paged),
        capacity: Some(100),
        fingerprint_bits: Some(width),
        ..FilterRequest::default()
    }
}

/// Steps of each filter; by hand as many as `CUCKOOD_CONTENTS_STEPS` said when it was built.
fn steps() -> usize {
    let by_hand = option_env!("CUCKOOD_CONTENTS_STEPS");
    by_hand.map_or(300, |steps| steps.parse().unwrap())
}

#[test]
fn copies_under_every_key_are_found_and_told_alike_where_items_have_no_values() {
    let classic = [1, 2, 3, 4, 255].map(classic);
    let paged = [12, 16, 21, 32].map(paged);
    for request in classic.into_iter().chain(paged) {
        for expansion in [None, Some(0)] {
            let request = FilterRequest {
                expansion,
                ..request.clone()
            };
            let it = checked(&request, START_MS, steps());
            // The key that is that of a stamp elsewhere.
            assert!(it.keys_seen.contains(&CounterKey::STAMP), "{request:?}");
            let most = it.layout().slot_width().fingerprints();
            let largest = it.keys_seen.iter().any(|it| it.0 as u32 == most);
            assert!(largest, "{request:?}: {:?}", it.keys_seen);
        }
    }
}

#[test]
fn values_under_every_key_are_found_and_told_alike() {
    for (width, value_bits) in [(16, 1), (16, 4), (21, 9), (32, 1), (32, 16)] {
        let request = FilterRequest {
            value_bits: Some(value_bits),
            ..paged(width)
        };
        let it = checked(&request, START_MS, steps());
        assert!(!it.keys_seen.contains(&CounterKey::STAMP));
        // The list of the smallest fingerprint there is.
        let smallest = 1 << value_bits;
        let values = smallest..2 * smallest;
        let of_smallest = |it: &&CounterKey| values.contains(&it.0);
        assert!(
            it.keys_seen.iter().any(|key| of_smallest(&key)),
            "{request:?}"
        );
    }
}

#[test]
fn stamps_of_every_epoch_count_nothing() {
    for (width, seconds, resolution) in [(16, 1, 1), (16, 10, 1), (21, 255, 1), (32, 255, 1)] {
        let request = FilterRequest {
            window_seconds: Some(seconds),
            window_resolution_seconds: Some(resolution),
            ..paged(width)
        };
        for now_ms in [0, 1_000, START_MS, u64::MAX - 1_000] {
            let it = checked(&request, now_ms, steps());
            assert_eq!(
                it.keys_seen.into_iter().collect::<Vec<_>>(),
                [CounterKey::STAMP]
            );
        }
    }
}
