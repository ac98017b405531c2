//! The rules against an exact multiset: no false negative, counts of at least
//! the truth, and every delete of what is there succeeds.

mod encoding;
mod overlaid;
mod value_rates;
mod values;
mod void_copies;
mod windows;

use crate::chain::address::PageAddress;
use crate::chain::counters::Counters;
use crate::chain::meta::{Chain, FullReason, Known, Table};
use crate::chain::paged::planner::MAX_DUE_SPLITS;
use crate::chain::paged::values::ValueCopies;
use crate::chain::pages::{Draft as _, WholePage};
use crate::chain::params::{Defaults, FilterParams, FilterRequest};
use crate::chain::plan::{AddMode, AddResult, PlanStats, Planner, ReplaceResult};
use crate::cuckoo::bucket::{self, SlotWidth};
use crate::cuckoo::hash::{HashId, HashKey, ItemHash};
use crate::cuckoo::kick::KickSearch;
use crate::cuckoo::paged::code::SlotCode;
use crate::cuckoo::paged::rate::{self, SplitLoads};
use crate::cuckoo::paged::{PAGE_WORDS, Paged};
use crate::resident::{Pages, ResidentFilter};
use std::collections::HashMap;

const WIDTHS: [SlotWidth; 4] = [
    SlotWidth::Bits12,
    SlotWidth::Bits16,
    SlotWidth::Bits21,
    SlotWidth::Bits32,
];

const SEED: u64 = 20_260_102;

/// A filter in memory, and what the algorithm did in it.
struct Filter {
    filter: ResidentFilter,
    stats: PlanStats,
    commits: u64,
}

impl Filter {
    /// Of a table, with what else is asked for.
    fn of(table: Table, request: &FilterRequest) -> Filter {
        let params = FilterParams::resolve(request, &Defaults::default()).unwrap();
        let chain = Chain::new(params, HashKey([7; 16]), 0).unwrap();
        Filter {
            filter: ResidentFilter::new(chain.with_table_for_tests(table)),
            stats: PlanStats::default(),
            commits: 0,
        }
    }

    fn table(&self) -> &Table {
        self.filter.chain().table().unwrap()
    }

    fn page(&self, page: u32) -> Option<WholePage> {
        self.filter.page(PageAddress { sub: 0, page })
    }

    fn work<T>(&mut self, work: impl FnOnce(&mut Planner<'_, Pages>) -> Option<T>) -> T {
        let mut result = None;
        let stats = self.filter.at_once(|planner| result = work(planner));
        self.stats.kick_paths.extend(stats.kick_paths);
        self.stats.splits += stats.splits;
        self.stats.forced_splits += stats.forced_splits;
        self.stats.max_splits = self.stats.max_splits.max(stats.max_splits);
        self.stats.merges += stats.merges;
        self.stats.failed_merges += stats.failed_merges;
        self.stats.expansions += stats.expansions;
        self.stats.void_copies += stats.void_copies;
        self.commits += 1;
        // A page in 64 commits, however many there are.
        let often = 64 * u64::from(self.table().layout.pages());
        if self.commits.is_multiple_of(often) {
            self.verify();
        }
        result.unwrap()
    }

    /// What verifies stored pages finds what the description says.
    fn verify(&self) {
        for (told, found) in self.filter.told_and_found() {
            assert_eq!(found, Some(told));
        }
    }

    fn add(&mut self, item: ItemHash) -> AddResult {
        self.work(|planner| planner.add(item, AddMode::Always))
    }

    fn delete(&mut self, item: ItemHash) -> bool {
        self.work(|planner| planner.delete(item))
    }

    fn exists(&mut self, item: ItemHash) -> bool {
        let found = self.filter.exists(item);
        let mut in_group = Vec::new();
        self.filter.exists_all(&[item; 2], &mut in_group);
        assert_eq!(in_group, [found; 2]);
        found
    }

    fn count(&mut self, item: ItemHash) -> u64 {
        self.filter.count(item)
    }

    fn add_value(&mut self, item: u64, value: u32) -> AddResult {
        self.work(|planner| planner.add_value(hash(item), value, AddMode::Always))
    }

    fn delete_value(&mut self, item: u64, value: u32) -> bool {
        self.work(|planner| planner.delete_value(hash(item), value))
    }

    fn replace_value(&mut self, item: u64, from: u32, to: u32) -> ReplaceResult {
        self.work(|planner| planner.replace_value(hash(item), from, to))
    }

    fn has_value(&mut self, item: u64, value: u32) -> bool {
        self.work(|planner| planner.has_value(hash(item), value))
    }

    fn values(&mut self, item: u64) -> Vec<ValueCopies> {
        self.work(|planner| planner.values(hash(item)))
    }
}

fn table(pages: u64, code: SlotCode) -> Table {
    Table::new(Paged::new(pages, code).unwrap())
}

fn filter(pages: u64, code: SlotCode) -> Filter {
    Filter::of(table(pages, code), &FilterRequest::default())
}

/// A code of slots with values, by their width, bits of the value and, unless it
/// is as ever, of the anchor.
fn code(width: SlotWidth, value_bits: u8, anchor_bits: Option<u8>) -> SlotCode {
    let code = SlotCode::with_values(width, value_bits).unwrap();
    anchor_bits.map_or(code, |it| code.with_anchor_bits(it))
}

fn hash(item: u64) -> ItemHash {
    HashId::SipHash13(HashKey([7; 16])).hash(&item.to_le_bytes())
}

/// A number below `limit`, from a sequence that the seed decides.
fn below(state: &mut u64, limit: usize) -> usize {
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    (*state % limit as u64) as usize
}

/// Every record of what pages hold agrees with what they hold.
fn check(filter: &Filter) {
    filter.verify();
    let (table, layout) = (filter.table(), filter.table().layout);
    let (code, width) = (layout.code(), layout.code().width());
    let mut known = Known::of(code.suffix_bits(), Vec::new());
    let (mut counted, mut keys) = (0, 0);
    for number in 0..layout.pages() {
        let (page, level) = (filter.page(number).unwrap(), layout.level_of(number));
        let mut classes: HashMap<(u16, u32), u32> = HashMap::new();
        let of_class = !code.value_mask();
        for word in 0..PAGE_WORDS {
            for lane in 0..width.slots_per_word() {
                let slot = bucket::get(width, page.words[usize::from(word)], lane);
                if slot != 0 {
                    let class = layout.class_bucket(layout.bucket_at(number, word), slot);
                    *classes.entry((class, slot & of_class)).or_default() += 1;
                    assert!(code.known(slot, level) >= code.suffix_bits());
                    known.add(code.known(slot, level));
                }
            }
        }
        assert_eq!(classes.values().sum::<u32>(), page.occupied);
        for (key, copies) in page.counters.iter() {
            let class = ((key.0 >> 32) as u16, key.0 as u32 & of_class);
            assert!(classes.contains_key(&class), "copies without a slot");
            counted += copies;
            keys += 1;
        }
        let mut bytes = Vec::new();
        page.counters.encode(&mut bytes);
        assert_eq!(Counters::decode(&bytes).as_ref(), Ok(&page.counters));
    }
    assert!(filter.page(layout.pages()).is_none());
    assert_eq!(&known, &table.known);
    assert_eq!(known.total(), table.occupied);
    assert_eq!(counted, table.counted);
    assert_eq!(keys, table.keys);
    // What is there beyond the items was copied by splits; merges forget some of it.
    let entries = table.occupied + table.counted;
    assert!(entries >= table.items());
    assert!(entries <= table.items() + filter.stats.void_copies);
}

/// What a run of the oracle is about.
struct Run {
    code: SlotCode,
    pages: u64,
    /// Items at the peak.
    peak: usize,
    /// Copies of an item at most.
    copies: u32,
    /// Whether slots are so short that adds may be refused.
    brutal: bool,
}

/// A filter beside what is in it.
struct Oracle {
    filter: Filter,
    truth: HashMap<u64, u32>,
    list: Vec<u64>,
    next: u64,
    refused: u64,
    random: u64,
}

impl Oracle {
    fn add(&mut self, run: &Run) {
        let again = !self.list.is_empty() && below(&mut self.random, 10) < 3;
        let old = again.then(|| self.list[below(&mut self.random, self.list.len())]);
        let old = old.filter(|item| self.truth[item] < run.copies);
        let item = old.unwrap_or_else(|| {
            self.next += 1;
            self.next
        });
        match self.filter.add(hash(item)) {
            AddResult::Added => {
                *self.truth.entry(item).or_default() += 1;
                self.list.push(item);
            }
            AddResult::Full(end) => {
                assert!(run.brutal, "full: {end:?}");
                self.refused += 1;
            }
            AddResult::Exists | AddResult::Refreshed => panic!("it was to be added again"),
        }
    }

    fn delete(&mut self) {
        let item = self
            .list
            .swap_remove(below(&mut self.random, self.list.len()));
        assert!(self.filter.exists(hash(item)), "{item} is lost");
        assert!(self.filter.delete(hash(item)), "{item} can't be deleted");
        let copies = self.truth.get_mut(&item).unwrap();
        *copies -= 1;
        if *copies == 0 {
            self.truth.remove(&item);
        }
    }

    fn check(&mut self) {
        check(&self.filter);
        assert_eq!(self.filter.table().items(), self.list.len() as u64);
        for (&item, &copies) in &self.truth {
            assert!(self.filter.exists(hash(item)), "{item} is lost");
            let count = self.filter.count(hash(item));
            assert!(count >= u64::from(copies), "{item}: {count} < {copies}");
        }
    }
}

/// Growth, contraction, growth again, and contraction to nothing.
fn run(run: &Run) -> Filter {
    let mut oracle = Oracle {
        filter: filter(run.pages, run.code),
        truth: HashMap::new(),
        list: Vec::new(),
        next: 0,
        refused: 0,
        random: SEED ^ run.pages,
    };
    let peak = run.peak;
    let phases = [
        (peak / 500, 100),
        (peak, 75),
        (peak * 9 / 10, 45),
        (peak / 500, 25),
        (peak, 75),
        (0, 20),
    ];
    let (mut operations, mut deepest) = (0, 0);
    for (target, adds_in_100) in phases {
        while oracle.list.len() != target {
            operations += 1;
            let refused = oracle.refused;
            match oracle.list.is_empty() || below(&mut oracle.random, 100) < adds_in_100 {
                true => oracle.add(run),
                false => oracle.delete(),
            }
            deepest = deepest.max(oracle.filter.table().layout.level());
            if operations % (peak / 2) == 0 {
                oracle.check();
            }
            // A filter that is full stays so: on with the next phase.
            if oracle.refused > refused && oracle.refused.is_multiple_of(1000) && adds_in_100 > 50 {
                break;
            }
        }
        oracle.check();
    }
    println!(
        "{:?}, {} anchor bits, {} pages, {} copies: {operations} operations, {} refused, level {deepest}, {} slots left on {} pages, {:?}",
        run.code.width(),
        run.code.anchor_bits(),
        run.pages,
        run.copies,
        oracle.refused,
        oracle.filter.table().occupied,
        oracle.filter.table().layout.pages(),
        PlanStats {
            kick_paths: Vec::new(),
            ..oracle.filter.stats.clone()
        },
    );
    oracle.filter
}

/// How many items the oracle's runs have at their peak: more by hand, by
/// building with `CUCKOOD_ORACLE_ITEMS`.
fn peak() -> usize {
    let given = option_env!("CUCKOOD_ORACLE_ITEMS");
    given.and_then(|it| it.parse().ok()).unwrap_or(8_000)
}

#[test]
fn a_filter_agrees_with_an_exact_multiset_through_growth_and_contraction() {
    println!("seed {SEED}");
    for pages in [1, 2, 3, 64] {
        for width in WIDTHS {
            let filter = run(&Run {
                code: SlotCode::of(width),
                pages,
                peak: peak(),
                copies: 3,
                brutal: false,
            });
            let (table, stats) = (filter.table(), &filter.stats);
            assert!(100 * stats.forced_splits <= stats.splits, "{width:?}");
            assert!(stats.max_splits <= 17, "{width:?}");
            // Void copies outlive their items.
            assert!(void_copies::is_contracted(&filter), "{width:?}");
            if stats.void_copies == 0 {
                assert_eq!(table.occupied + table.counted, 0);
                assert_eq!(u64::from(table.layout.pages()), pages);
            }
        }
    }
}

#[test]
fn slots_that_know_next_to_nothing_lose_nothing() {
    println!("seed {SEED}");
    for pages in [1, 2, 3, 7] {
        for (width, anchor_bits, share, copies) in [
            (SlotWidth::Bits12, 8, 10, 12),
            (SlotWidth::Bits12, 7, 10, 30),
            (SlotWidth::Bits16, 11, 10, 6),
            (SlotWidth::Bits16, 8, 5, 50),
            (SlotWidth::Bits12, 6, 4, 2),
        ] {
            let filter = run(&Run {
                code: SlotCode::of(width).with_anchor_bits(anchor_bits),
                pages,
                // Fewer would not split a page.
                peak: (peak() / share).max(30_000),
                copies,
                brutal: true,
            });
            assert!(filter.stats.splits > 0, "{width:?}");
        }
    }
}

/// Adds items from `first` on until there are `items` of them.
fn fill(filter: &mut Filter, first: u64, items: u64) {
    for item in filter.table().items()..items {
        assert_eq!(filter.add(hash(first + item)), AddResult::Added);
    }
}

/// Items up to the load at which the first page is split.
fn capacity(filter: &Filter) -> u64 {
    let layout = &filter.table().layout;
    let first = SplitLoads::of(layout.code().width()).first;
    u64::from(layout.families()) * layout.slots_per_page() * first / 1000
}

#[test]
fn distinct_items_split_a_page_at_a_time_and_force_nothing() {
    for pages in [2, 3, 16] {
        for width in WIDTHS {
            let mut filter = filter(pages, SlotCode::of(width));
            let capacity = capacity(&filter);
            fill(&mut filter, 0, capacity);
            assert_eq!(filter.stats.splits, 0, "{width:?}");
            fill(&mut filter, 0, peak().max(8 * capacity as usize) as u64);
            let stats = &filter.stats;
            assert!(filter.table().layout.level() >= 3, "{width:?}");
            assert_eq!((stats.max_splits, stats.forced_splits), (1, 0), "{width:?}");
            check(&filter);
        }
    }
}

#[test]
fn a_table_that_was_filled_without_growing_splits_few_pages_for_each_add() {
    for width in WIDTHS {
        let filter = filter(256, SlotCode::of(width));
        let chain = filter.filter.chain().clone();
        let (slots, expansion) = (filter.table().layout.slots(), chain.params().expansion());
        let mut pages = Pages::default();
        pages.add_sub_filters(&chain);
        let mut search = KickSearch::default();
        let mut filling = Planner::on(pages, chain.with_expansion(0), &mut search);
        let mut items = 0..;
        let mut filled = 0;
        while filled < slots * rate::load_of_list(width) / 1000 {
            let added = filling.add(hash(items.next().unwrap()), AddMode::Always);
            filled += u64::from(added == Some(AddResult::Added));
        }
        let (chain, pages, _) = filling.into_parts();
        let due = chain.table().unwrap().splits_after(0);
        assert!(due > 2 * u64::from(MAX_DUE_SPLITS), "{due}");
        let mut growing = Planner::on(pages, chain.with_expansion(expansion), &mut search);
        let more: Vec<u64> = items.take(200).collect();
        for &item in &more {
            let added = growing.add(hash(item), AddMode::Always);
            assert_eq!(added, Some(AddResult::Added), "{width:?}");
        }
        assert!(
            more.iter()
                .all(|&it| growing.exists(hash(it), None) == Some(true))
        );
        let (chain, _, stats) = growing.into_parts();
        // One that finds no room among them splits some once more.
        assert!(
            stats.max_splits <= 2 * u64::from(MAX_DUE_SPLITS),
            "{width:?}: {stats:?}"
        );
        assert!(
            stats.splits >= due && stats.forced_splits == 0,
            "{width:?}: {stats:?}"
        );
        assert_eq!(chain.table().unwrap().splits_after(0), 0, "{width:?}");
    }
}

#[test]
fn items_that_come_three_times_take_the_room_of_one() {
    for width in WIDTHS {
        let mut filter = filter(16, SlotCode::of(width));
        let items = capacity(&filter) / 3;
        for copy in 0..30 {
            for item in copy / 3 * items..(copy / 3 + 1) * items {
                assert_eq!(filter.add(hash(item)), AddResult::Added);
            }
            assert!(copy > 2 || filter.stats.splits == 0, "{width:?}");
        }
        let stats = &filter.stats;
        assert!(stats.splits > 16, "{width:?}");
        assert_eq!((stats.max_splits, stats.forced_splits), (1, 0), "{width:?}");
        check(&filter);
    }
}

#[test]
fn copies_of_hot_items_live_through_growth_and_contraction() {
    for width in WIDTHS {
        for pages in [1, 3] {
            let mut filter = filter(pages, SlotCode::of(width));
            let hot: Vec<ItemHash> = (0..64).map(|n| hash(1 << 50 | n)).collect();
            let capacity = capacity(&filter);
            for &hot in &hot {
                for _ in 0..200 {
                    assert_eq!(filter.add(hot), AddResult::Added);
                }
            }
            // Other items of their classes may be among them.
            assert!((1..=64).contains(&filter.table().occupied));
            let mut items = 0;
            let at_least = |filter: &mut Filter, copies| {
                for &hot in &hot {
                    assert!(filter.count(hot) >= copies, "{width:?}");
                }
            };
            while items < 32 * capacity {
                assert_eq!(filter.add(hash(items)), AddResult::Added);
                items += 1;
            }
            at_least(&mut filter, 200);
            check(&filter);
            let grown = filter.table().layout.pages();
            while items > capacity / 2 {
                items -= 1;
                assert!(filter.delete(hash(items)), "{width:?}");
            }
            assert!(filter.table().layout.pages() < grown / 8);
            at_least(&mut filter, 200);
            for left in (0..200).rev() {
                for &hot in &hot {
                    assert!(filter.exists(hot) && filter.delete(hot), "{width:?}");
                }
                if left % 50 == 0 {
                    at_least(&mut filter, left);
                }
            }
            for item in 0..items {
                assert!(filter.exists(hash(item)), "{width:?}");
            }
            check(&filter);
        }
    }
}

/// Hits among so many absent items.
fn hits(filter: &mut Filter, absent: u64) -> u64 {
    (0..absent)
        .filter(|n| filter.exists(hash(1 << 40 | n)))
        .count() as u64
}

#[test]
fn the_rate_that_is_measured_is_the_one_that_counters_tell() {
    let (growths, absent): (&[f64], u64) = match peak() {
        ..1_000_000 => (&[1.0, 1.5, 4.0], 60_000),
        // By hand.
        _ => (&[1.0, 1.5, 4.0, 64.0, 1024.0], 8_000_000),
    };
    for width in [SlotWidth::Bits12, SlotWidth::Bits16] {
        let mut filter = filter(1, SlotCode::of(width));
        let capacity = capacity(&filter);
        for &growth in growths {
            fill(&mut filter, 0, (capacity as f64 * growth) as u64);
            let hits = hits(&mut filter, absent) as f64;
            let expected = filter.table().false_positive_rate();
            let ratio = hits / absent as f64 / expected;
            println!(
                "{width:?} at {growth} times its capacity: rate {expected:.3e}, measured / expected {ratio:.3} of {hits} hits"
            );
            // Four standard deviations, and 3 % where that is more.
            let allowed = (4.0 / (expected * absent as f64).sqrt()).max(0.03);
            assert!((ratio - 1.0).abs() < allowed, "{ratio}");
        }
    }
}

#[test]
fn a_filter_that_may_not_grow_is_full_and_says_why() {
    let with = |expansion, max_expansions| FilterRequest {
        expansion: Some(expansion),
        max_expansions: Some(max_expansions),
        ..FilterRequest::default()
    };
    for (request, end) in [
        (with(0, 9), FullReason::ExpansionOff),
        (with(2, 1), FullReason::MaxExpansions),
    ] {
        let code = SlotCode::of(SlotWidth::Bits32);
        let mut filter = Filter::of(table(2, code), &request);
        let results: Vec<AddResult> = (0..6_000).map(|item| filter.add(hash(item))).collect();
        let added = results.iter().filter(|&&it| it == AddResult::Added);
        assert_eq!(filter.table().items(), added.count() as u64);
        assert!(results.contains(&AddResult::Full(end)), "{end:?}");
        assert!(filter.filter.chain().load() > 0.95);
        check(&filter);
    }
}

#[test]
fn slots_that_record_no_more_doublings_end_the_growth() {
    // Three bits of suffix, so eight pages of each family and then some.
    let code = SlotCode::of(SlotWidth::Bits12).with_anchor_bits(9);
    let mut filter = filter(1, code);
    let mut item = 0;
    let end = loop {
        item += 1;
        if let AddResult::Full(end) = filter.add(hash(item)) {
            break end;
        }
        assert!(item < 10_000_000);
    };
    assert_eq!(end, FullReason::GrowthLimit);
    check(&filter);
    for item in 1..item {
        assert!(filter.exists(hash(item)));
    }
}
