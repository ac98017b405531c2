//! The rules of values against an exact multiset of (item, value): no pair is
//! missing, every delete of one succeeds, and nothing is left at the end but
//! what splits copied.

use super::*;
use crate::chain::counters::MAX_VALUE_COUNTERS;
use crate::chain::params::MAX_VALUES_PER_ITEM;

/// What a run of the oracle is about.
struct ValueRun {
    code: SlotCode,
    pages: u64,
    /// Pairs at the peak.
    peak: usize,
    /// Items that there are.
    items: usize,
    /// Values that pairs have.
    values: usize,
    /// How skewed items are: the larger, the more pairs some of them have.
    skew: u32,
    /// Whether adds may be refused.
    brutal: bool,
}

/// A filter beside the pairs that are in it.
struct ValueOracle {
    filter: Filter,
    truth: HashMap<u64, HashMap<u32, u64>>,
    pairs: Vec<(u64, u32)>,
    refused: u64,
    random: u64,
}

impl ValueOracle {
    /// An item: the more skewed, the more often a small number.
    fn item(&mut self, run: &ValueRun) -> u64 {
        (0..run.skew).fold(below(&mut self.random, run.items), |item, _| {
            below(&mut self.random, item + 1)
        }) as u64
    }

    fn add(&mut self, run: &ValueRun) {
        let again = !self.pairs.is_empty() && below(&mut self.random, 8) == 0;
        let pair = match again {
            true => self.pairs[below(&mut self.random, self.pairs.len())],
            false => (self.item(run), below(&mut self.random, run.values) as u32),
        };
        match self.filter.add_value(pair.0, pair.1) {
            AddResult::Added => {
                *self
                    .truth
                    .entry(pair.0)
                    .or_default()
                    .entry(pair.1)
                    .or_default() += 1;
                self.pairs.push(pair);
                self.check_pair(pair);
            }
            AddResult::Full(FullReason::MaxValuesPerItem) => {
                assert!(self.filter.values(pair.0).len() as u64 >= MAX_VALUES_PER_ITEM);
                self.refused += 1;
            }
            AddResult::Full(end) => {
                assert!(run.brutal, "full: {end:?}");
                self.refused += 1;
            }
            AddResult::Exists | AddResult::Refreshed => panic!("it was to be added again"),
        }
    }

    fn delete(&mut self) {
        let at = below(&mut self.random, self.pairs.len());
        let (item, value) = self.pairs.swap_remove(at);
        assert!(
            self.filter.delete_value(item, value),
            "({item}, {value}) can't be deleted"
        );
        let values = self.truth.get_mut(&item).unwrap();
        let copies = values.get_mut(&value).unwrap();
        *copies -= 1;
        if *copies == 0 {
            values.remove(&value);
        }
        if values.is_empty() {
            self.truth.remove(&item);
        }
    }

    /// Another value in place of one that is there, or of one that may not be.
    fn replace(&mut self, run: &ValueRun) {
        let at = below(&mut self.random, self.pairs.len());
        let (item, from) = self.pairs[at];
        let to = below(&mut self.random, run.values) as u32;
        match self.filter.replace_value(item, from, to) {
            ReplaceResult::Replaced => {
                self.pairs[at] = (item, to);
                let values = self.truth.get_mut(&item).unwrap();
                let copies = values.get_mut(&from).unwrap();
                *copies -= 1;
                if *copies == 0 {
                    values.remove(&from);
                }
                *values.entry(to).or_default() += 1;
                self.check_pair((item, to));
            }
            ReplaceResult::Full(FullReason::MaxValuesPerItem) => {
                let values = self.filter.values(item);
                assert!(values.len() as u64 >= MAX_VALUES_PER_ITEM);
                assert!(values.iter().any(|it| it.value == from && it.copies > 1));
            }
            ReplaceResult::Full(end) => assert!(run.brutal, "full: {end:?}"),
            ReplaceResult::Absent => panic!("({item}, {from}) can't be replaced"),
        }
    }

    fn check_pair(&mut self, (item, value): (u64, u32)) {
        assert!(self.filter.exists(hash(item)), "{item} is lost");
        let has = self.filter.has_value(item, value);
        assert!(has, "({item}, {value}) is lost");
    }

    /// A pair at random, with all that is asked of its item.
    fn check_one(&mut self) {
        if self.pairs.is_empty() {
            return;
        }
        let at = below(&mut self.random, self.pairs.len());
        let (item, value) = self.pairs[at];
        self.check_pair((item, value));
        self.check_values(item);
    }

    fn check_values(&mut self, item: u64) {
        let found = self.filter.values(item);
        assert!(found.is_sorted_by(|one, next| one.value < next.value));
        for (&value, &copies) in &self.truth[&item] {
            let at = found.binary_search_by_key(&value, |it| it.value);
            let it = found[at.unwrap_or_else(|_| panic!("({item}, {value}) is not listed"))];
            assert!(it.copies >= copies, "{it:?} of {copies}");
        }
        let copies: u64 = found.iter().map(|it| it.copies).sum();
        assert_eq!(self.filter.count(hash(item)), copies);
    }

    fn check(&mut self) {
        check(&self.filter);
        assert_eq!(self.filter.table().items(), self.pairs.len() as u64);
        let items: Vec<u64> = self.truth.keys().copied().collect();
        for item in items {
            self.check_values(item);
        }
        for pair in self.pairs.clone() {
            self.check_pair(pair);
        }
    }
}

/// Growth, contraction, growth again, and contraction to nothing.
fn run_values(run: &ValueRun) -> Filter {
    let mut oracle = ValueOracle {
        filter: filter(run.pages, run.code),
        truth: HashMap::new(),
        pairs: Vec::new(),
        refused: 0,
        random: SEED ^ run.pages << 32 ^ run.peak as u64,
    };
    let (mut operations, mut deepest) = (0u64, 0);
    for (target, adds_in_100) in [(run.peak, 80), (run.peak / 20, 20), (run.peak, 70), (0, 10)] {
        let refused = oracle.refused;
        while match adds_in_100 > 50 {
            true => oracle.pairs.len() < target,
            false => oracle.pairs.len() > target,
        } {
            operations += 1;
            match oracle.pairs.is_empty() || below(&mut oracle.random, 100) < adds_in_100 {
                true => oracle.add(run),
                false => oracle.delete(),
            }
            if operations.is_multiple_of(4) && !oracle.pairs.is_empty() {
                oracle.replace(run);
            }
            if operations.is_multiple_of(16) {
                oracle.check_one();
            }
            deepest = deepest.max(oracle.filter.table().layout.level());
            // A filter that is full stays so: on with the next phase.
            if oracle.refused - refused > 100 {
                break;
            }
        }
        oracle.check();
    }
    println!(
        "{:?}, {} pages, {} values: {operations} operations, {} refused, level {deepest}, left {} in slots and {} counted on {} pages, {:?}",
        run.code,
        run.pages,
        run.values,
        oracle.refused,
        oracle.filter.table().occupied,
        oracle.filter.table().counted,
        oracle.filter.table().layout.pages(),
        PlanStats {
            kick_paths: Vec::new(),
            ..oracle.filter.stats.clone()
        },
    );
    oracle.filter
}

#[test]
fn values_agree_with_an_exact_multiset_through_growth_and_contraction() {
    println!("seed {SEED}");
    for (width, value_bits, values) in [
        (SlotWidth::Bits16, 4, 16),
        (SlotWidth::Bits21, 7, 100),
        (SlotWidth::Bits32, 8, 200),
        (SlotWidth::Bits32, 16, 60_000),
    ] {
        for (pages, skew) in [(1, 0), (2, 1), (3, 0)] {
            let filter = run_values(&ValueRun {
                code: code(width, value_bits, None),
                pages,
                peak: 2 * peak(),
                items: 4 * peak(),
                values,
                skew,
                brutal: false,
            });
            assert_eq!(filter.stats.forced_splits, 0);
            if filter.stats.void_copies == 0 {
                let table = filter.table();
                assert_eq!(table.occupied + table.counted, 0);
                assert_eq!(u64::from(table.layout.pages()), pages);
            }
        }
    }
}

/// Ten thousands of values of few items.
#[test]
fn long_lists_split_pages_and_are_put_together_again() {
    println!("seed {SEED}");
    for (width, value_bits, pages, items) in [
        (SlotWidth::Bits16, 2, 1, 4 * peak()),
        (SlotWidth::Bits21, 9, 1, 100),
        (SlotWidth::Bits32, 10, 2, 60),
        (SlotWidth::Bits32, 16, 1, 300),
    ] {
        let values = 1 << value_bits;
        let filter = run_values(&ValueRun {
            code: code(width, value_bits, None),
            pages,
            peak: 5 * peak(),
            items,
            values,
            skew: 0,
            brutal: false,
        });
        let table = filter.table();
        assert!(filter.stats.splits > 0, "no page was split");
        assert_eq!(filter.stats.forced_splits, 0);
        assert_eq!(table.keys + table.occupied + table.counted, 0);
        assert_eq!(u64::from(table.layout.pages()), pages);
    }
}

#[test]
fn lists_that_become_short_bring_pages_together_again() {
    let mut filter = filter(1, code(SlotWidth::Bits32, 16, None));
    let (items, values) = (200, 300);
    let all = || (0..items).flat_map(|item| (0..values).map(move |value| (item, value)));
    for (item, value) in all() {
        assert_eq!(filter.add_value(item, value), AddResult::Added);
    }
    let grown = filter.table().layout.pages();
    assert!(grown > 4, "{grown} pages");
    // No slot becomes free: one value of each item stays.
    for (item, value) in all().filter(|(_, value)| *value > 0) {
        assert!(filter.delete_value(item, value));
    }
    assert_eq!(filter.table().keys, 0);
    assert_eq!(filter.table().layout.pages(), 1);
    assert!((0..items).all(|item| filter.has_value(item, 0)));
    check(&filter);
}

#[test]
fn values_of_slots_that_know_next_to_nothing_are_not_lost() {
    println!("seed {SEED}");
    for pages in [1, 2] {
        for (width, value_bits, anchor_bits, values, skew) in [
            (SlotWidth::Bits12, 1, 9, 2, 0),
            (SlotWidth::Bits16, 4, 10, 16, 0),
            (SlotWidth::Bits16, 5, 9, 3, 0),
            (SlotWidth::Bits32, 16, 13, 65_536, 0),
        ] {
            run_values(&ValueRun {
                code: code(width, value_bits, Some(anchor_bits)),
                pages,
                peak: 3 * peak(),
                items: 6 * peak(),
                values,
                skew,
                brutal: true,
            });
        }
    }
}

#[test]
fn an_item_takes_so_many_values_and_no_growth() {
    let mut filter = filter(1, code(SlotWidth::Bits32, 16, None));
    let most = MAX_VALUES_PER_ITEM as u32;
    for value in 0..most {
        assert_eq!(filter.add_value(7, value), AddResult::Added);
    }
    let full = AddResult::Full(FullReason::MaxValuesPerItem);
    assert_eq!(filter.add_value(7, most), full);
    // A copy of a value that is there is none more, in the slot or beside it.
    for value in [0, 1, most - 1] {
        assert_eq!(filter.add_value(7, value), AddResult::Added);
    }
    let values = filter.values(7);
    assert!((0..most).eq(values.iter().map(|it| it.value)));
    let table = filter.table();
    assert_eq!((table.occupied, table.layout.pages()), (1, 1));
    assert!(filter.delete_value(7, 5) && !filter.delete_value(7, 5));
    assert_eq!(filter.add_value(7, most), AddResult::Added);
    check(&filter);
}

/// A number of values up to `most`, of which `n` is as frequent as `n` to the power of
/// minus 1.25.
fn zipf(random: &mut u64, most: usize) -> u32 {
    loop {
        let n = 1 + below(random, most);
        let frequency = (n as f64).powf(-1.25);
        if (below(random, 1 << 20) as f64) < frequency * f64::from(1 << 20) {
            return n as u32;
        }
    }
}

#[test]
fn slots_are_full_before_a_filter_grows_that_knows_how_many_values_there_are() {
    println!("seed {SEED}");
    for (width, value_bits, per_item, most) in [
        (SlotWidth::Bits16, 4, 3, 4),
        (SlotWidth::Bits32, 8, 3, 4),
        (SlotWidth::Bits32, 10, 61, 1024),
    ] {
        let capacity = 120_000 / u64::from(per_item);
        let pages = rate::pages_for_values(capacity, per_item, width);
        let mut filter = filter(pages, code(width, value_bits, None));
        let slots = filter.table().layout.slots();
        let (mut random, mut items, mut entries) = (SEED, 0, 0);
        while filter.stats.splits == 0 {
            let values = match most {
                4 => 1 + below(&mut random, 4) as u32,
                _ => zipf(&mut random, most),
            };
            for value in 0..values {
                assert_eq!(filter.add_value(items, value), AddResult::Added);
            }
            (items, entries) = (items + 1, entries + values);
        }
        let load = filter.table().occupied as f64 / slots as f64;
        let target = SplitLoads::of(width).first as f64 / 1000.0;
        println!(
            "{width:?}, up to {most} values: the first split after {:.2} of the capacity, at a load of {load:.3}, {:.3} of the target; {entries} entries of {items} items on {pages} pages",
            items as f64 / capacity as f64,
            load / target
        );
        assert!(items >= capacity, "{items}");
        assert!(most > 4 || load >= 0.96 * target, "{load}");
    }
}

/// A filter of one page that may grow so many times.
fn bounded(code: SlotCode, max_expansions: u64) -> Filter {
    let request = FilterRequest {
        max_expansions: Some(max_expansions),
        ..FilterRequest::default()
    };
    Filter::of(table(1, code), &request)
}

#[test]
fn a_page_whose_list_is_full_takes_further_values_into_slots() {
    let mut filter = bounded(code(SlotWidth::Bits32, 16, None), 0);
    let (items, each) = (200u64, 83u32);
    for value in 0..each {
        for item in 0..items {
            assert_eq!(filter.add_value(item, value), AddResult::Added);
        }
    }
    check(&filter);
    let table = filter.table();
    assert!(u64::from(each) * items > MAX_VALUE_COUNTERS as u64);
    assert!(table.occupied > items && table.keys == MAX_VALUE_COUNTERS as u64);
    for item in 0..items {
        assert_eq!(filter.values(item).len(), each as usize);
    }
    for item in 0..items {
        for value in 0..each {
            assert!(filter.delete_value(item, value));
        }
    }
    check(&filter);
    assert_eq!(filter.table().occupied + filter.table().counted, 0);
}

#[test]
fn a_replaced_value_takes_no_room_and_what_is_absent_changes_nothing() {
    let mut filter = filter(1, code(SlotWidth::Bits32, 16, None));
    for value in [5, 6, 6] {
        assert_eq!(filter.add_value(7, value), AddResult::Added);
    }
    assert_eq!(filter.replace_value(7, 9, 10), ReplaceResult::Absent);
    assert_eq!(filter.replace_value(8, 5, 10), ReplaceResult::Absent);
    let values = |filter: &mut Filter| {
        let values = filter.values(7);
        values
            .iter()
            .map(|it| (it.value, it.copies))
            .collect::<Vec<_>>()
    };
    assert_eq!(values(&mut filter), [(5, 1), (6, 2)]);
    // In the slot, of two copies beside it, and as another that is there.
    for (from, to, expected) in [
        (5, 8, &[(6, 2), (8, 1)][..]),
        (6, 9, &[(6, 1), (8, 1), (9, 1)]),
        (6, 8, &[(8, 2), (9, 1)]),
        (9, 9, &[(8, 2), (9, 1)]),
    ] {
        assert_eq!(filter.replace_value(7, from, to), ReplaceResult::Replaced);
        assert_eq!(values(&mut filter), expected);
        check(&filter);
    }
    let table = filter.table();
    assert_eq!((table.items(), table.occupied, table.counted), (3, 1, 2));
}

#[test]
fn an_item_with_as_many_values_as_it_may_have_can_change_them_but_not_get_more() {
    let mut filter = filter(1, code(SlotWidth::Bits32, 16, None));
    let most = MAX_VALUES_PER_ITEM as u32;
    for value in (0..most).chain([5]) {
        assert_eq!(filter.add_value(7, value), AddResult::Added);
    }
    // One of two copies would stay.
    let full = ReplaceResult::Full(FullReason::MaxValuesPerItem);
    assert_eq!(filter.replace_value(7, 5, most), full);
    assert_eq!(filter.replace_value(7, 5, 6), ReplaceResult::Replaced);
    for value in 0..5 {
        let replaced = filter.replace_value(7, value, most + value);
        assert_eq!(replaced, ReplaceResult::Replaced);
    }
    let values = filter.values(7);
    assert!((5..most + 5).eq(values.iter().map(|it| it.value)));
    check(&filter);
}

#[test]
fn a_value_beside_a_page_whose_list_is_full_can_be_replaced() {
    // It has no more than eight pages then, however long lists become.
    let mut filter = bounded(code(SlotWidth::Bits32, 16, None), 3);
    for value in 0..3 {
        for item in 0..5_000 {
            assert_eq!(filter.add_value(item, value), AddResult::Added);
        }
    }
    // Two copies of one, so that a new value is one counter more.
    for item in 0..500 {
        assert_eq!(filter.add_value(item, 1), AddResult::Added);
    }
    fill_lists(&mut filter, 10, 500);
    let (items, occupied) = (filter.table().items(), filter.table().occupied);
    for item in 0..500 {
        let replaced = filter.replace_value(item, 1, 60_000);
        assert_eq!(replaced, ReplaceResult::Replaced);
        assert!(filter.has_value(item, 1) && filter.has_value(item, 60_000));
    }
    assert_eq!(filter.table().items(), items);
    assert!(filter.table().occupied > occupied, "no list was full");
    check(&filter);
}

/// Fills the list of every page, with values of items from 0 on.
fn fill_lists(filter: &mut Filter, from_value: u32, to_value: u32) {
    let layout = filter.table().layout;
    let is_full = |filter: &Filter, page| {
        let counters = filter.page(page).unwrap().counters;
        counters.len() >= MAX_VALUE_COUNTERS
    };
    for item in 0.. {
        if (0..layout.pages()).all(|page| is_full(filter, page)) {
            return;
        }
        let pages = layout
            .candidates(hash(item))
            .map(|it| layout.address(it.bucket).0);
        for value in from_value..to_value {
            if pages.iter().any(|&page| is_full(filter, page)) {
                break;
            }
            assert_eq!(filter.add_value(item, value), AddResult::Added);
        }
    }
}

#[test]
fn a_delete_takes_the_longest_match_and_not_the_shorter_one_of_another_item() {
    let code = code(SlotWidth::Bits21, 9, None);
    // It has no more pages then, however long lists become.
    let mut filter = bounded(code, 2);
    // Those that are added first know least, once the filter has grown.
    let old = 0..1_400;
    for item in old.clone() {
        assert_eq!(filter.add_value(item, 1), AddResult::Added);
    }
    for item in 1_400..5_300 {
        assert_eq!(filter.add_value(item, 2), AddResult::Added);
    }
    let level = filter.table().layout.level();
    assert!(level >= 2, "{level}");
    // Without room beside the page, what would be counted with a shorter match
    // takes a slot of its own, and that knows more.
    fill_lists(&mut filter, 3, 512);
    let known_less = (1u64 << 40..).filter(|&item| filter.filter.exists(hash(item)));
    let found: Vec<u64> = known_less.take(400).collect();
    let in_slots = filter.table().occupied;
    for &item in &found {
        assert_eq!(filter.add_value(item, 1), AddResult::Added);
    }
    assert!(filter.table().occupied > in_slots + 100);
    for &item in &found {
        assert!(filter.delete_value(item, 1), "{item} can't be deleted");
    }
    for item in old {
        assert!(filter.has_value(item, 1), "({item}, 1) is lost");
    }
    check(&filter);
}
