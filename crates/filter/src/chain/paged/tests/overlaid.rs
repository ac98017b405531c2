//! Plans over overlays: whatever is at hand, and however many of them wait, they
//! change what the same items change on the pages themselves.

use super::*;
use crate::chain::address::{PageAddress, WordAddress};
use crate::chain::counters::{CounterKey, CounterKeys};
use crate::chain::pages::{PageWords, PlanPages, WholePage};
use crate::chain::plan::{Overlay, PageChanges, Plan, PlanInput};
use crate::cuckoo::kick::KickSearch;
use std::collections::BTreeSet;

/// Pages as they are published, some of which are not at hand.
#[derive(Default)]
struct Published {
    pages: Vec<WholePage>,
    hidden: BTreeSet<u32>,
    missed: BTreeSet<u32>,
}

impl Published {
    fn at_hand(&mut self, page: PageAddress) -> Option<&WholePage> {
        if self.hidden.contains(&page.page) {
            self.missed.insert(page.page);
            return None;
        }
        Some(&self.pages[page.page as usize])
    }

    /// Takes over changes, which leave `pages` pages.
    fn apply(&mut self, changes: &PageChanges, pages: u32) {
        for page in &changes.pages {
            let published = &mut self.pages[page.address.page as usize];
            for word in changes.words_of(page) {
                assert_eq!(word.at.on(), page.address);
                published.words[usize::from(word.at.word)] = word.value;
            }
            for counter in changes.counters_of(page) {
                published.counters.set(counter.key, counter.copies);
            }
            published.occupied = published
                .occupied
                .checked_add_signed(page.occupied)
                .unwrap();
        }
        for (address, whole) in &changes.wholes {
            let number = address.page as usize;
            self.pages
                .resize(self.pages.len().max(number + 1), WholePage::empty());
            self.pages[number] = WholePage::clone(whole);
        }
        let first_dropped = changes.dropped.first().map(|it| it.page as usize);
        self.pages
            .truncate(first_dropped.unwrap_or(self.pages.len()));
        assert_eq!(self.pages.len(), pages as usize);
    }
}

impl PageWords for Published {
    fn word(&mut self, at: WordAddress) -> Option<u64> {
        Some(self.at_hand(at.on())?.words[usize::from(at.word)])
    }

    fn counter(&mut self, page: PageAddress, key: CounterKey) -> Option<u64> {
        Some(self.at_hand(page)?.counters.get(key))
    }

    fn counters_within(&mut self, page: PageAddress, keys: CounterKeys) -> Option<Counters> {
        Some(self.at_hand(page)?.counters.within(keys))
    }
}

impl PlanPages for Published {
    fn occupied(&mut self, page: PageAddress) -> Option<u32> {
        Some(self.at_hand(page)?.occupied)
    }

    fn counters(&mut self, page: PageAddress) -> Option<usize> {
        Some(self.at_hand(page)?.counters.len())
    }
}

#[derive(Clone, Copy)]
enum Command {
    Add(u64, u32),
    Delete(u64, u32),
}

/// Plans commands, again and again until all pages that they need were loaded.
fn plan(commands: &[Command], chain: &Chain, pending: &Overlay, published: &mut Published) -> Plan {
    let mut search = KickSearch::default();
    for _ in 0..200 {
        let input = PlanInput {
            chain: chain.clone(),
            pending,
            fresh_from: 1,
        };
        let mut planner = Planner::new(input, published, &mut search);
        let done: Vec<Option<bool>> = commands
            .iter()
            .map(|command| match *command {
                Command::Add(item, value) => {
                    let added = planner.add_value(hash(item), value, AddMode::Always);
                    added.map(|it| it == AddResult::Added)
                }
                Command::Delete(item, value) => planner.delete_value(hash(item), value),
            })
            .collect();
        let plan = planner.finish();
        let missed = std::mem::take(&mut published.missed);
        let Some(plan) = plan else {
            assert!(!missed.is_empty());
            published.hidden.retain(|page| !missed.contains(page));
            continue;
        };
        assert!(missed.is_empty() && done.iter().all(|&it| it == Some(true)));
        return plan;
    }
    panic!("a plan must come to know all its pages");
}

#[test]
fn plans_over_overlays_change_what_they_would_change_at_once() {
    println!("seed {SEED}");
    let plain = WIDTHS.map(SlotCode::of).into_iter().zip([1, 2, 3, 5]);
    let valued = [(SlotWidth::Bits16, 4, 2), (SlotWidth::Bits32, 16, 3)]
        .map(|(width, bits, pages)| (SlotCode::with_values(width, bits).unwrap(), pages));
    for (code, pages) in plain.chain(valued) {
        let mut at_once = filter(pages, code);
        let mut chain = at_once.filter.chain().clone();
        let mut published = Published {
            pages: (0..pages).map(|_| WholePage::empty()).collect(),
            ..Published::default()
        };
        let mut random = SEED ^ pages;
        let (mut list, mut next): (Vec<(u64, u32)>, u64) = (Vec::new(), 0);
        let (mut splits, mut merges) = (0, 0);
        for round in 0..24 {
            let mut pending = Overlay::default();
            for _ in 0..3 {
                // Grows for eight rounds, then shrinks, then grows again.
                let adds_in_10 = if (8..16).contains(&round) { 1 } else { 9 };
                let commands: Vec<Command> = (0..900 * pages)
                    .map(|_| match below(&mut random, 10) {
                        adds if adds < adds_in_10 || list.is_empty() => {
                            let again = !list.is_empty() && adds % 4 == 0;
                            let value = random as u32 & code.value_mask();
                            let (item, value) = match again {
                                true => list[below(&mut random, list.len())],
                                // Two values an item, where there are values.
                                false => (next >> u32::from(code.value_bits() > 0), value),
                            };
                            next += 1;
                            list.push((item, value));
                            Command::Add(item, value)
                        }
                        _ => {
                            let at = below(&mut random, list.len());
                            let (item, value) = list.swap_remove(at);
                            Command::Delete(item, value)
                        }
                    })
                    .collect();
                published.hidden = (0..published.pages.len() as u32).collect();
                let plan = plan(&commands, &chain, &pending, &mut published);
                splits += plan.stats.splits;
                merges += plan.stats.merges;
                pending.merge(plan.overlay);
                chain = plan.chain;
                for command in &commands {
                    match *command {
                        Command::Add(item, value) => {
                            assert_eq!(at_once.add_value(item, value), AddResult::Added);
                        }
                        Command::Delete(item, value) => {
                            assert!(at_once.delete_value(item, value));
                        }
                    }
                }
            }
            assert_eq!(&chain, at_once.filter.chain());
            let pages = at_once.table().layout.pages();
            published.apply(&pending.changes(), pages);
            for (number, page) in (0..).zip(&published.pages) {
                let expected = at_once.page(number).unwrap();
                assert!(page.words == expected.words, "page {number}");
                assert_eq!(page.occupied, expected.occupied, "page {number}");
                assert_eq!(page.counters, expected.counters, "page {number}");
            }
        }
        assert!(splits > 6 && merges > 3, "{splits} splits, {merges} merges");
        check(&at_once);
    }
}

/// What planning items of a filter came to.
struct Planned {
    plan: Plan,
    results: Vec<Option<AddResult>>,
    /// What was spent by the end of each item that was the last of a call.
    spent: Vec<(usize, u64)>,
}

/// Plans adds, so many items in each call and until so much more is spent.
fn plan_adds(
    filter: &Filter,
    items: &[ItemHash],
    mode: AddMode,
    mut calls: impl FnMut() -> (usize, u64),
) -> Planned {
    let pages = 0..filter.table().layout.pages();
    let mut published = Published {
        pages: pages.map(|it| filter.page(it).unwrap()).collect(),
        ..Published::default()
    };
    let (mut search, pending) = (KickSearch::default(), Overlay::default());
    let input = PlanInput {
        chain: filter.filter.chain().clone(),
        pending: &pending,
        fresh_from: 1,
    };
    let mut planner = Planner::new(input, &mut published, &mut search);
    let (mut results, mut spent) = (Vec::new(), Vec::new());
    while results.len() < items.len() {
        let (size, more) = calls();
        let end = items.len().min(results.len() + size);
        let group = &items[results.len()..end];
        let until = planner.spent.saturating_add(more);
        let done = planner.add_all(group, mode, until, |it| results.push(it));
        assert!(done > 0 && (done == group.len() || planner.spent >= until));
        spent.push((results.len(), planner.spent));
    }
    Planned {
        plan: planner.finish().unwrap(),
        results,
        spent,
    }
}

#[test]
fn items_in_groups_change_what_they_would_change_one_by_one() {
    println!("seed {SEED}");
    let mut random = SEED;
    for (width, pages) in WIDTHS.into_iter().zip([1, 2, 3, 5]) {
        for mode in [AddMode::Always, AddMode::OnlyIfAbsent] {
            for grows in [true, false] {
                let request = FilterRequest {
                    expansion: Some(u64::from(grows)),
                    ..FilterRequest::default()
                };
                let mut filter = Filter::of(table(pages, SlotCode::of(width)), &request);
                // More than fit, and one in four is there already.
                let capacity = capacity(&filter);
                fill(&mut filter, 0, capacity / 2);
                let items: Vec<ItemHash> = (0..capacity)
                    .map(|_| hash(below(&mut random, 2 * capacity as usize) as u64))
                    .collect();
                let one_by_one = plan_adds(&filter, &items, mode, || (1, u64::MAX));
                let grouped = plan_adds(&filter, &items, mode, || {
                    let until = [1 + below(&mut random, 90) as u64, u64::MAX];
                    (2 + below(&mut random, 31), until[below(&mut random, 2)])
                });
                assert_eq!(grouped.results, one_by_one.results);
                assert_eq!(&grouped.plan.chain, &one_by_one.plan.chain);
                let changes = |it: &Planned| it.plan.overlay.changes();
                assert!(changes(&grouped) == changes(&one_by_one));
                let stats = |it: &Planned| format!("{:?}", it.plan.stats);
                assert_eq!(stats(&grouped), stats(&one_by_one));
                // A plan that is cut stops at the first item that spends too much.
                for &(items, spent) in &grouped.spent {
                    assert_eq!(one_by_one.spent[items - 1], (items, spent));
                }
                // Everything that may become of an item was met.
                let results = &grouped.results;
                let is_full = |it: &Option<AddResult>| matches!(it, Some(AddResult::Full(_)));
                assert!(results.contains(&Some(AddResult::Added)));
                assert_eq!(results.iter().any(is_full), !grows, "{width:?}");
                let exists = results.contains(&Some(AddResult::Exists));
                assert_eq!(exists, mode == AddMode::OnlyIfAbsent);
                assert_eq!(grouped.plan.stats.splits > 0, grows);
            }
        }
    }
}
