use super::*;
use crate::chain::meta::{FullReason, MAX_ITEMS};
use crate::chain::paged::values::ValueCopies;
use crate::chain::params::{Attributes, Codes, Defaults, FilterParams, FilterRequest, LayoutKind};
use crate::chain::plan::{AddMode, AddResult};
use crate::chain::read;
use crate::cuckoo::hash::{HashKey, ItemHash};
use std::collections::BTreeMap;
use std::ops::Range;

/// A filter in memory.
#[derive(Clone)]
struct Filter {
    chain: Chain,
    pages: Vec<WholePage>,
}

fn request(bits: u64, value_bits: u64) -> FilterRequest {
    FilterRequest {
        capacity: Some(2_000),
        fingerprint_bits: Some(bits),
        value_bits: (value_bits > 0).then_some(value_bits),
        ..FilterRequest::default()
    }
}

fn chain(request: &FilterRequest) -> Chain {
    let params = FilterParams::resolve(request, &Defaults::default()).unwrap();
    Chain::new(params, HashKey([7; 16]), 0).unwrap()
}

fn value_of(item: u32, copy: u32) -> u32 {
    item * 7 + copy * 3
}

impl Filter {
    fn new(request: &FilterRequest) -> Filter {
        let chain = chain(request);
        let pages = chain.table().unwrap().layout.pages();
        Filter {
            chain,
            pages: (0..pages).map(|_| WholePage::empty()).collect(),
        }
    }

    fn of(chain: Chain, pages: &Pages) -> Filter {
        let layout = Layout::Paged(chain.table().unwrap().layout);
        let page = |number| {
            let at = PageAddress::new(0, number);
            let words = pages.words(at).unwrap();
            let contents = Contents::of_page(&layout, number, words.iter().copied(), None);
            WholePage {
                words: Box::new(words.try_into().unwrap()),
                occupied: contents.unwrap().occupied as u32,
                counters: pages.counters(at).cloned().unwrap_or_default(),
            }
        };
        let pages = (0..layout.pages()).map(page).collect();
        Filter { chain, pages }
    }

    fn page(&self, number: u32) -> Result<WholePage, UnionError> {
        let page = self.pages.get(number as usize).cloned();
        page.ok_or(UnionError::Damaged(number))
    }

    fn loaded(&self) -> Pages {
        load(&self.chain, |number| self.page(number)).unwrap()
    }

    fn hash(&self, item: u32) -> ItemHash {
        self.chain.hash(&item.to_le_bytes())
    }

    fn worked(&self, work: impl FnOnce(&mut Planner<'_, Pages>)) -> Filter {
        let mut search = KickSearch::default();
        let mut planner = Planner::on(self.loaded(), self.chain.clone(), &mut search);
        work(&mut planner);
        let (chain, pages, _) = planner.into_parts();
        Filter::of(chain, &pages)
    }

    /// With these items, every tenth of them five times; where they have values, with
    /// values that follow from the item.
    fn with(&self, items: Range<u32>) -> Filter {
        let has_values = self.chain.params().value_bits() > 0;
        let mask = (1 << self.chain.params().value_bits()) - 1;
        self.worked(|planner| {
            for item in items {
                for copy in 0..copies(item) {
                    let hash = self.hash(item);
                    let added = match has_values {
                        true => {
                            planner.add_value(hash, value_of(item, copy) & mask, AddMode::Always)
                        }
                        false => planner.add(hash, AddMode::Always),
                    };
                    assert_eq!(added, Some(AddResult::Added));
                }
            }
        })
    }

    /// Without these, of which there are no others.
    fn without(&self, items: Range<u32>) -> Filter {
        let mask = (1 << self.chain.params().value_bits()) - 1;
        self.worked(|planner| {
            for item in items {
                for copy in 0..copies(item) {
                    let value = value_of(item, copy) & mask;
                    assert_eq!(planner.delete_value(self.hash(item), value), Some(true));
                }
            }
        })
    }

    fn with_all_of(&self, other: &Filter) -> Result<Filter, UnionError> {
        let base = (self.chain.clone(), self.loaded());
        let page = |number| other.page(number);
        let (chain, pages) = union(base, &other.chain, page, || Ok(()))?;
        let union = Filter::of(chain, &pages);
        let counters = union.pages.iter().map(|it| it.counters.bytes() as u64);
        let (counters, slots) = (counters.sum::<u64>(), union.chain.slot_bytes());
        let most = memory(&[self.chain.clone(), other.chain.clone()], slots) - slots;
        assert!(counters <= most, "{counters} of {most}");
        // What verifies stored pages finds what the description says.
        union.loaded();
        let encoded = union.chain.encode();
        assert_eq!(Chain::decode(&encoded).as_ref(), Ok(&union.chain));
        Ok(union)
    }

    /// How often an item is found, and its values.
    fn told(&self, pages: &mut Pages, item: u32) -> (bool, u64, BTreeMap<u32, u64>) {
        let hash = self.hash(item);
        let values = read::values(&self.chain, hash, pages).unwrap();
        (
            read::exists(&self.chain, hash, pages).unwrap(),
            read::count(&self.chain, hash, pages).unwrap(),
            values
                .iter()
                .map(|it: &ValueCopies| (it.value, it.copies))
                .collect(),
        )
    }
}

fn copies(item: u32) -> u32 {
    if item.is_multiple_of(10) { 5 } else { 1 }
}

/// Filters of one key and width: empty, fresh, grown in the middle of a level, and shrunk.
fn states(request: &FilterRequest, items: u32) -> Vec<(&'static str, Filter)> {
    let empty = Filter::new(request);
    let from = items;
    let grown = empty.with(from..from + 9_000);
    vec![
        ("fresh", empty.with(from..from + 1_400)),
        ("shrunk", grown.without(from + 1_000..from + 9_000)),
        ("grown", grown),
        ("empty", empty),
    ]
}

/// Finds exactly what either found, as often as both together.
fn check(name: &str, one: &Filter, other: &Filter, union: &Filter) -> u32 {
    let [mut a, mut b, mut both] = [one, other, union].map(Filter::loaded);
    let mut wrong = 0;
    for item in (0..60_000).chain(1_000_000..1_040_000) {
        let (one, other) = (one.told(&mut a, item), other.told(&mut b, item));
        let mut values = one.2;
        for (value, copies) in other.2 {
            *values.entry(value).or_default() += copies;
        }
        let told = (one.0 || other.0, one.1 + other.1, values);
        assert_eq!(union.told(&mut both, item), told, "{name}: {item}");
        wrong += u32::from(item >= 1_000_000 && told.0);
    }
    let items = one.chain.items() + other.chain.items();
    assert_eq!(union.chain.items(), items, "{name}");
    wrong
}

#[test]
fn a_union_finds_what_either_found_and_as_often_as_both() {
    for (bits, value_bits) in [
        (12, 0),
        (16, 0),
        (21, 0),
        (32, 0),
        (21, 4),
        (32, 8),
        (16, 2),
    ] {
        let request = request(bits, value_bits);
        // Of the second some are in the first, too.
        let (ones, others) = (states(&request, 0), states(&request, 8_500));
        for (of_one, one) in &ones {
            for (of_other, other) in others.iter().chain([("itself", one.clone())].iter()) {
                let name = format!("{bits} bits, values of {value_bits}, {of_one} and {of_other}");
                let union = one
                    .with_all_of(other)
                    .unwrap_or_else(|it| panic!("{name}: {it}"));
                let wrong = check(&name, one, other, &union);
                let layout = &union.chain.table().unwrap().layout;
                println!(
                    "{name}: {} pages, load {:.3}, {wrong} wrong yes",
                    layout.pages(),
                    union.chain.load()
                );
                // Those of itself take no slot.
                if *of_other == "itself" {
                    assert_eq!(layout, &one.chain.table().unwrap().layout, "{name}");
                }
            }
        }
    }
}

#[test]
fn entries_that_know_no_bit_that_would_tell_go_wherever_they_may_belong() {
    // 64 doublings and more of 12 bits: some know nothing of their path.
    let request = FilterRequest {
        capacity: Some(10),
        ..request(12, 0)
    };
    let (small, large) = (
        Filter::new(&request).with(0..3_000),
        Filter::new(&request)
            .with(0..300_000)
            .with(1_000_000..1_000_100),
    );
    let larger = large.with(300_000..600_000);
    assert!(larger.chain.table().unwrap().layout.level() >= 7);
    for (name, one, other) in [
        ("a small one", &large, &small),
        ("into a small one", &small, &large),
        ("a larger one", &larger, &large),
        ("itself", &large, &large),
    ] {
        let union = one
            .with_all_of(other)
            .unwrap_or_else(|it| panic!("{name}: {it}"));
        let wrong = check(name, one, other, &union);
        println!("{name}: {} pages, {wrong} wrong yes", union.pages.len());
    }
}

#[test]
fn what_was_added_to_either_can_be_deleted_as_often_and_the_rest_stays() {
    for bits in [12, 16, 21, 32] {
        let empty = Filter::new(&request(bits, 0));
        let (one, other) = (empty.with(0..6_000), empty.with(5_000..9_000));
        let union = one.with_all_of(&other).unwrap();
        let rest = union.without(0..6_000);
        let mut pages = rest.loaded();
        for item in 5_000..9_000 {
            let (found, count, _) = rest.told(&mut pages, item);
            assert!(found && count >= copies(item).into(), "{bits} bits: {item}");
        }
        assert_eq!(rest.without(5_000..9_000).chain.items(), 0);
    }
}

#[test]
fn a_union_into_a_filter_that_may_not_grow_takes_what_fits_and_else_nothing() {
    let request = FilterRequest {
        expansion: Some(0),
        ..request(16, 0)
    };
    let empty = Filter::new(&request);
    let (one, few, many) = (
        empty.with(0..1_000),
        empty.with(900..1_300),
        empty.with(1_000..4_400),
    );
    let union = one.with_all_of(&few).unwrap();
    check("few", &one, &few, &union);
    let full = one.with_all_of(&many).map(|it| it.pages.len());
    assert_eq!(full, Err(UnionError::Full(FullReason::ExpansionOff)));
}

#[test]
fn values_of_an_item_are_bounded_in_a_union_too() {
    let empty = Filter::new(&FilterRequest {
        values_per_item: Some(1_024),
        ..request(32, 16)
    });
    let with = |values: Range<u32>| {
        empty.worked(|planner| {
            for value in values {
                let added = planner.add_value(empty.hash(1), value, AddMode::Always);
                assert_eq!(added, Some(AddResult::Added));
            }
        })
    };
    let (one, rest, more) = (with(0..1_000), with(900..1_024), with(900..1_025));
    let union = one.with_all_of(&rest).unwrap();
    assert_eq!(union.told(&mut union.loaded(), 1).2.len(), 1_024);
    let refused = one.with_all_of(&more).map(|it| it.pages.len());
    assert_eq!(refused, Err(UnionError::Full(FullReason::MaxValuesPerItem)));
}

#[test]
fn counts_double_until_they_can_be_counted_no_more() {
    for bits in [12, 32] {
        let mut it = Filter::new(&request(bits, 0)).with(0..1_000);
        let full = loop {
            match it.with_all_of(&it) {
                Ok(twice) => it = twice,
                Err(full) => break full,
            }
        };
        assert_eq!(full, UnionError::Full(FullReason::GrowthLimit));
        assert!(it.chain.items() > MAX_ITEMS / 4);
        // Nor does an entry that is not there yet find a slot.
        let more = Filter::new(&request(bits, 0)).with(2_000..2_100);
        let table = it.chain.table_mut().unwrap();
        let left = MAX_ITEMS - table.occupied - table.counted;
        (table.counted, table.items) = (table.counted + left, table.items + left);
        let mut pages = Pages::default();
        pages.add_sub_filters(&it.chain);
        let mut search = KickSearch::default();
        let mut planner = Planner::on(pages, it.chain.clone(), &mut search);
        let page = more.page(0).unwrap();
        let page = OtherPage::of(&more.chain.table().unwrap().layout, 0, &page);
        let full = NotTaken::Full(FullReason::GrowthLimit);
        assert_eq!(planner.take_in(&page), Some(Err(full)));
        let added = planner.add(it.hash(7), AddMode::Always);
        assert_eq!(added, Some(AddResult::Full(FullReason::GrowthLimit)));
        let (chain, ..) = planner.into_parts();
        assert_eq!(Chain::decode(&chain.encode()), Ok(chain));
    }
}

#[test]
fn filters_that_differ_in_labels_that_are_not_told_are_refused() {
    let with = |last: &str| {
        let labels = (0..40).map(|it| it.to_string()).chain([last.to_owned()]);
        let codes = Codes::Exact(labels.collect());
        let attributes = Attributes::new(vec![("plan".to_owned(), codes)]).unwrap();
        chain(&FilterRequest {
            attributes: Some(attributes),
            ..FilterRequest::default()
        })
    };
    let refused = with("x").may_unite(&with("y")).unwrap_err();
    assert!(
        refused.to_string().starts_with("attributes is"),
        "{refused}"
    );
    assert_eq!(with("x").may_unite(&with("x")), Ok(()));
}

#[test]
fn strangers_are_refused_with_their_difference() {
    let one = chain(&request(16, 0));
    let of = |change: fn(&mut FilterRequest)| {
        let mut request = request(16, 0);
        change(&mut request);
        chain(&request)
    };
    let refused = |other: &Chain| one.may_unite(other).unwrap_err().to_string();
    let classic = of(|it| {
        it.layout = Some(LayoutKind::Classic);
        it.fingerprint_bits = None;
    });
    assert_eq!(
        refused(&classic),
        "filters of the layout classic can't be merged"
    );
    assert!(classic.may_unite(&classic).is_err());
    let window = of(|it| {
        it.window_seconds = Some(100);
        it.fingerprint_bits = None;
    });
    assert_eq!(
        refused(&window),
        "filters whose items expire can't be merged"
    );
    let wider = of(|it| it.fingerprint_bits = Some(32));
    assert_eq!(
        refused(&wider),
        "fingerprint_bits is 16 in one and 32 in the other"
    );
    let valued = of(|it| it.value_bits = Some(2));
    assert_eq!(
        refused(&valued),
        "value_bits is 0 in one and 2 in the other"
    );
    let larger = of(|it| it.capacity = Some(20_000));
    let said = refused(&larger);
    assert!(
        said.starts_with("the number of pages at first is 2 in one and 11"),
        "{said}"
    );
    let key = Chain::new(one.params().clone(), HashKey([8; 16]), 0).unwrap();
    assert!(refused(&key).contains("keys of their hashes differ"));
    assert_eq!(one.may_unite(&chain(&request(16, 0))), Ok(()));
}

#[test]
fn pages_that_can_not_be_are_refused() {
    let mut random = 0x5eed_u64;
    let mut next = || {
        random = random
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        random >> 16
    };
    for (bits, value_bits) in [(12, 0), (16, 2), (21, 0), (32, 0)] {
        let empty = Filter::new(&request(bits, value_bits));
        let (one, other) = (empty.with(0..2_000), empty.with(1_000..9_000));
        for _ in 0..200 {
            let mut damaged = other.clone();
            let number = next() as usize % damaged.pages.len();
            let page = &mut damaged.pages[number];
            match next() % 3 {
                0 => page.words[next() as usize % 512] ^= 1 << (next() % 64),
                1 => page.words[next() as usize % 512] = next(),
                _ => page
                    .counters
                    .add(crate::chain::counters::CounterKey(next() % (1 << 44)), 1),
            }
            let base = (one.chain.clone(), one.loaded());
            // It may be refused, or hold as much as it should; it never panics.
            let page = |it| damaged.page(it);
            if let Ok((chain, pages)) = union(base, &damaged.chain, page, || Ok(())) {
                Filter::of(chain, &pages).loaded();
            }
        }
    }
}
