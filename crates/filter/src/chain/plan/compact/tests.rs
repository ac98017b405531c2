use super::super::fixture::{Filter, classics, filter};
use super::*;
use crate::chain::counters::{CounterKey, Counters, MAX_COUNTERS};
use crate::chain::params::FilterRequest;
use crate::chain::plan::{AddMode, AddResult};
use proptest::prelude::*;
use std::collections::BTreeMap;

impl Filter {
    fn slice(&mut self, slice: &Slice) -> Option<Compacted> {
        self.apply(|planner| planner.compact(slice)).0
    }

    /// The slice that a compaction begins with: of the newest sub-filter.
    fn first_slice(&self) -> Slice {
        Slice {
            ordinal: self.chain.sub_filters().last().unwrap().ordinal,
            from: BucketIndex(0),
            max_pages: 2,
            max_entries: 40,
            max_units: 10_000,
        }
    }

    /// Goes on with a compaction. Says what comes next, or how it ended.
    fn go_on(&mut self, mut slice: Slice) -> Result<Slice, SliceEnd> {
        match self.slice(&slice).unwrap().end {
            SliceEnd::At(bucket) => slice.from = bucket,
            SliceEnd::Through => {
                let position = self.chain.position_of(slice.ordinal).unwrap();
                let it = self.chain.sub_filter(position).unwrap();
                assert_eq!(it.items, 0, "it is through and not empty");
                if position == self.chain.open() {
                    return Err(SliceEnd::Through);
                }
                slice.ordinal = self.chain.sub_filter(position - 1).unwrap().ordinal;
                slice.from = BucketIndex(0);
            }
            end => return Err(end),
        }
        Ok(slice)
    }

    /// Drops what is empty, in the chain and on the pages.
    fn end(&mut self) -> usize {
        let dropped = self.chain.end_compaction().len();
        let left = self.chain.sub_filter_count() as u32;
        self.pages.forget_from(left);
        dropped
    }

    fn compact(&mut self) -> usize {
        self.chain.begin_compaction(1.0);
        let mut slice = Ok(self.first_slice());
        while let (true, Ok(next)) = (self.chain.is_compacting(), slice) {
            slice = self.go_on(next);
        }
        self.end()
    }
}

fn grown(mut request: FilterRequest, sub_filters: usize) -> (Filter, u64) {
    request.expansion = Some(2);
    let mut it = filter(request);
    let mut items = 0;
    while it.chain.sub_filter_count() < sub_filters {
        it.add(items);
        items += 1;
    }
    (it, items)
}

#[test]
fn a_filter_that_shrank_gets_as_short_as_it_would_be_without_what_is_gone() {
    for request in classics(1_500) {
        let (mut it, items) = grown(request.clone(), 5);
        // Few enough for the first two sub-filters, or the first.
        let keep = items / 12;
        for n in keep..items {
            assert!(it.delete(n), "{request:?}");
        }
        let would_do = it.chain.would_do(1.0);
        assert!(would_do <= 2, "{request:?}");
        assert_eq!(it.compact(), 5 - would_do, "{request:?}");
        assert_eq!(it.chain.sub_filter_count(), would_do);
        assert_eq!(it.chain.items(), keep);
        assert_eq!(it.chain.deletions_since_compaction(), 0);
        it.occupied();
        for n in 0..keep {
            assert!(it.exists(n), "{request:?} item {n}");
        }
        for n in 0..keep {
            assert!(it.delete(n), "{request:?} item {n}");
        }
        assert_eq!(it.chain.items(), 0);
        assert_eq!(it.occupied(), 0);
    }
}

#[test]
fn what_needs_all_sub_filters_is_left_as_it_is() {
    for request in classics(1_500) {
        let (mut it, _) = grown(request, 4);
        for n in 0..50 {
            it.delete(n);
        }
        let newest = it.chain.sub_filter(3).unwrap().layout.slots();
        let mut n = 1_000_000;
        while it.chain.sub_filter(3).unwrap().occupied < newest / 2 {
            it.add(n);
            n += 1;
        }
        let pages = it.pages.clone();
        assert_eq!(it.compact(), 0);
        assert!(it.pages == pages);
    }
}

#[test]
fn counted_copies_move_with_the_last_slot_of_their_class() {
    for request in classics(1_500) {
        let (mut it, items) = grown(request.clone(), 4);
        let (hot, copies) = (items + 1, 5_000);
        for _ in 0..copies {
            it.add(hot);
        }
        assert!(
            it.chain.sub_filter(3).unwrap().counted > 4_000,
            "{request:?}"
        );
        for n in 0..items {
            assert!(it.delete(n));
        }
        assert_eq!(it.compact(), 3, "{request:?}");
        assert_eq!(it.count(hot), copies, "{request:?}");
        assert_eq!(it.chain.items(), copies);
        it.occupied();
        for left in (0..copies).rev() {
            assert!(it.delete(hot), "{request:?}");
            assert_eq!(it.exists(hot), left > 0);
        }
        assert_eq!(it.occupied(), 0);
    }
}

#[test]
fn copies_stay_with_their_slot_where_no_more_counters_fit() {
    let (mut it, items) = grown(classics(1_500).swap_remove(3), 3);
    let hot = items + 1;
    for _ in 0..100 {
        it.add(hot);
    }
    for n in 0..items {
        it.delete(n);
    }
    let mut full = Counters::default();
    for n in 0..MAX_COUNTERS as u64 {
        // Of a slot that no page has.
        full.set(CounterKey(u64::from(u16::MAX) << 32 | (n + 1)), 1);
    }
    let page = PageAddress { sub: 0, page: 0 };
    it.pages.counters.insert(page, full);
    it.chain.begin_compaction(1.0);
    let before = it.chain.clone();
    let slice = Slice {
        max_pages: 1_000,
        ..it.first_slice()
    };
    let compacted = it.slice(&slice).unwrap();
    assert_eq!(compacted.end, SliceEnd::NoRoom);
    assert_eq!(it.count(hot), 100);
    assert_eq!(it.chain.items(), before.items());
    assert_eq!(
        it.chain.sub_filter(2).unwrap().counted,
        before.sub_filter(2).unwrap().counted
    );
}

#[test]
fn adds_leave_closed_sub_filters_alone_until_they_need_their_room() {
    for request in classics(1_500) {
        let (mut it, items) = grown(request.clone(), 3);
        for n in 0..items {
            it.delete(n);
        }
        assert_eq!(it.chain.begin_compaction(1.0), 2);
        let mut n = items;
        while it.chain.is_compacting() {
            assert_eq!(it.chain.sub_filter(1).unwrap().occupied, 0);
            assert_eq!(it.add(n), AddResult::Added);
            n += 1;
        }
        let subs: Vec<_> = it.chain.sub_filters().collect();
        let [first, second, newest] = subs[..] else {
            panic!("it grew");
        };
        assert!(first.load() > 0.4, "{request:?}: {}", first.load());
        assert_eq!(second.occupied + newest.occupied, 1);
        let slice = it.first_slice();
        let end = SliceEnd::Reopened;
        assert_eq!(it.slice(&slice), Some(Compacted { moved: 0, end }));
    }
}

#[test]
fn what_a_slice_does_does_not_depend_on_what_was_at_hand() {
    for request in classics(6_000) {
        let (mut warm, items) = grown(request.clone(), 3);
        for n in (0..items).filter(|n| n % 4 != 0) {
            warm.delete(n);
        }
        for _ in 0..50 {
            warm.add(items + 1);
        }
        let mut cold = Filter {
            chain: warm.chain.clone(),
            pages: warm.pages.clone(),
            search: crate::cuckoo::kick::KickSearch::default(),
        };
        warm.chain.begin_compaction(1.0);
        cold.chain.begin_compaction(1.0);
        let mut slice = warm.first_slice();
        for _ in 0..10 {
            let expected = warm.slice(&slice);
            for (sub, it) in (0..).zip(cold.chain.sub_filters()) {
                let pages = (0..it.layout.pages()).map(|page| PageAddress { sub, page });
                cold.pages.hidden.extend(pages);
            }
            let mut rounds = 0;
            let found = loop {
                let found = cold.slice(&slice);
                if found.is_some() {
                    break found;
                }
                for page in std::mem::take(&mut cold.pages.missed) {
                    cold.pages.hidden.remove(&page);
                }
                rounds += 1;
                assert!(rounds < 40, "a plan must come to know all its pages");
            };
            cold.pages.hidden.clear();
            assert_eq!(found, expected);
            assert!(cold.chain == warm.chain && cold.pages == warm.pages);
            match expected.unwrap().end {
                SliceEnd::At(bucket) => slice.from = bucket,
                _ => break,
            }
        }
    }
}

/// A chain that is compacted into sub-filters that are nearly full then, so that most
/// entries take searches for kick-outs, of wide buckets in all of them.
#[test]
fn a_slice_costs_no_more_than_it_may_and_one_entry() {
    const MAX_UNITS: u64 = 2_000;
    for request in classics(1_500) {
        let (mut it, mut items) = grown(request.clone(), 4);
        let newest = |it: &Filter| it.chain.sub_filter(3).unwrap();
        while newest(&it).occupied < newest(&it).layout.slots() / 2 {
            it.add(items);
            items += 1;
        }
        let mut gone = (0..).map(|n| n * 7_919 % items);
        while it.chain.would_do(1.0) > 3 {
            it.delete(gone.next().unwrap());
        }
        let closed = it.chain.begin_compaction(1.0);
        assert_eq!(closed, 1, "{request:?}");
        let mut slice = Slice {
            max_pages: 16,
            max_entries: 512,
            max_units: MAX_UNITS,
            ..it.first_slice()
        };
        let (mut dearest, mut slices, mut moved) = (0, 0, 0);
        let end = loop {
            let ((compacted, spent), _) =
                it.apply(|planner| (planner.compact(&slice).unwrap(), planner.spent));
            (dearest, slices) = (spent.max(dearest), slices + 1);
            moved += compacted.moved;
            match compacted.end {
                SliceEnd::At(bucket) => slice.from = bucket,
                end => break end,
            }
        };
        println!("{dearest} units, {slices} slices, {moved} of {items} moved: {request:?}");
        assert_eq!(end, SliceEnd::Through, "{request:?}");
        assert!(slices > 10 && moved > 2_000, "{request:?}");
        // A search that finds room is short.
        assert!(dearest <= MAX_UNITS + 500, "{request:?}: {dearest} units");
    }
}

#[test]
fn a_slice_asks_for_no_more_pages_than_its_entries_may_need() {
    for request in classics(60_000) {
        let (mut it, mut items) = grown(request.clone(), 3);
        while it.chain.sub_filter(2).unwrap().occupied < 5_000 {
            it.add(items);
            items += 1;
        }
        for n in (0..items).filter(|n| n % 8 != 0) {
            it.delete(n);
        }
        it.chain.begin_compaction(1.0);
        let open = it.chain.open();
        for (sub, known) in (0..).zip(it.chain.sub_filters()).take(open) {
            let pages = (0..known.layout.pages()).map(|page| PageAddress { sub, page });
            it.pages.hidden.extend(pages);
        }
        let slice = Slice {
            max_pages: 16,
            max_entries: 20,
            ..it.first_slice()
        };
        assert_eq!(it.slice(&slice), None);
        let bucket = it.chain.sub_filter(0).unwrap().layout.bucket_size();
        let most = 2 * open * (20 + usize::from(bucket));
        let asked = it.pages.missed.len();
        assert!((1..=most).contains(&asked), "{request:?}: {asked}");
    }
}

#[test]
fn an_empty_sub_filter_is_through_without_a_page() {
    for request in classics(6_000) {
        let (mut it, items) = grown(request, 3);
        for n in 0..items {
            it.delete(n);
        }
        it.chain.begin_compaction(1.0);
        let pages = it.chain.sub_filter(2).unwrap().layout.pages();
        let pages = (0..pages).map(|page| PageAddress { sub: 2, page });
        it.pages.hidden.extend(pages);
        let slice = it.first_slice();
        let end = SliceEnd::Through;
        assert_eq!(it.slice(&slice), Some(Compacted { moved: 0, end }));
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    #[test]
    fn a_chain_that_is_compacted_all_along_agrees_with_an_exact_multiset(
        kind in 0usize..5,
        expansion in prop_oneof![Just(1u64), Just(2), Just(4)],
        capacity in 64u64..1_000,
        steps in proptest::collection::vec((0u64..1_500, 0u8..16), 1..4_000),
    ) {
        let mut request = classics(capacity).swap_remove(kind);
        request.expansion = Some(expansion);
        request.max_expansions = Some(200);
        let mut it = filter(request);
        let mut model: BTreeMap<u64, u64> = BTreeMap::new();
        let mut running = None;
        let end = steps.len();
        for (number, (item, kind)) in steps.into_iter().enumerate() {
            // In the second half more is deleted than added.
            let adds = if number < end / 2 { 9 } else { 3 };
            match (kind, running) {
                (0, None) => {
                    it.chain.begin_compaction(1.0);
                    running = it.chain.is_compacting().then(|| it.first_slice());
                }
                (0..=1, Some(slice)) => match it.go_on(slice) {
                    Ok(next) => running = Some(next),
                    Err(_) => {
                        it.end();
                        running = None;
                    }
                },
                (2.., _) if kind - 2 < adds => {
                    let hash = it.hash(item);
                    let added = it.apply(|planner| planner.add(hash, AddMode::Always)).0;
                    prop_assert_eq!(added, Some(AddResult::Added));
                    *model.entry(item).or_default() += 1;
                }
                _ => {
                    if let Some(copies) = model.get_mut(&item).filter(|it| **it > 0) {
                        prop_assert!(it.delete(item));
                        *copies -= 1;
                    }
                }
            }
        }
        it.end();
        it.compact();
        for (&item, &copies) in &model {
            prop_assert!(it.count(item) >= copies);
            prop_assert!(copies == 0 || it.exists(item));
        }
        prop_assert_eq!(it.chain.items(), model.values().sum::<u64>());
        it.occupied();
        for (&item, &copies) in &model {
            for _ in 0..copies {
                prop_assert!(it.delete(item));
            }
        }
        prop_assert_eq!(it.chain.items(), 0);
        prop_assert_eq!(it.occupied(), 0);
    }
}
