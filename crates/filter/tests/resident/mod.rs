//! A filter whose pages are plain memory: the whole of `chain` without a store
//! and without an engine.
//!
//! It is what the rules are tested on and measured with, and the shortest
//! answer to how chain, pages and planner fit together.
//! Tests and benchmarks here and elsewhere include this file.

#![allow(dead_code, reason = "none of those who include it needs all of it")]

use cuckood_filter::chain::address::{Ordinal, PageAddress, WordAddress};
use cuckood_filter::chain::contents::Contents;
use cuckood_filter::chain::counters::Counters;
use cuckood_filter::chain::locate::{Located, locate};
use cuckood_filter::chain::meta::Chain;
use cuckood_filter::chain::pages::{Draft, PageWords, WholePage};
use cuckood_filter::chain::plan::compact::{Slice, SliceEnd};
use cuckood_filter::chain::plan::{
    AddMode, AddResult, ChangedPage, OverlaidPages, Overlay, PageChanges, Plan, PlanInput,
    PlanStats, Planner,
};
use cuckood_filter::chain::read;
pub(crate) use cuckood_filter::chain::resident::Pages;
use cuckood_filter::cuckoo::bucket::occupied_of_all;
use cuckood_filter::cuckoo::candidates::BucketIndex;
use cuckood_filter::cuckoo::hash::ItemHash;
use cuckood_filter::cuckoo::kick::KickSearch;
use std::mem;

/// A filter in memory.
pub(crate) struct ResidentFilter {
    chain: Chain,
    pages: Pages,
    search: KickSearch,
}

/// What became of items that were added at once.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Added {
    /// One result an item.
    pub(crate) results: Vec<AddResult>,
    /// What the algorithm did.
    pub(crate) stats: PlanStats,
    /// Pages that were written to, each counted once.
    pub(crate) pages_written: usize,
}

impl ResidentFilter {
    /// A filter without an item.
    pub(crate) fn new(chain: Chain) -> Self {
        let mut filter = ResidentFilter {
            chain,
            pages: Pages::default(),
            search: KickSearch::default(),
        };
        filter.pages.add_sub_filters(&filter.chain);
        filter
    }

    /// Its description.
    pub(crate) fn chain(&self) -> &Chain {
        &self.chain
    }

    /// Adds items to the pages as they are, without a plan that could be
    /// dropped; see [`add`](Self::add) for one with. The pages are the same
    /// afterwards.
    pub(crate) fn add_at_once(&mut self, items: &[ItemHash], mode: AddMode) -> Vec<AddResult> {
        let mut results = None;
        self.at_once(|planner| results = add_all(planner, items, mode));
        results.unwrap_or_default()
    }

    /// Works on the pages as they are. Returns what the algorithm did.
    pub(crate) fn at_once(&mut self, work: impl FnOnce(&mut Planner<'_, Pages>)) -> PlanStats {
        let (chain, pages) = (self.chain.clone(), mem::take(&mut self.pages));
        let mut planner = Planner::on(pages, chain, &mut self.search);
        work(&mut planner);
        let (chain, pages, stats) = planner.into_parts();
        (self.chain, self.pages) = (chain, pages);
        stats
    }

    /// Adds items.
    pub(crate) fn add(&mut self, items: &[ItemHash], mode: AddMode) -> Added {
        let (results, plan) = self.planned(|planner| add_all(planner, items, mode));
        let stats = plan.as_ref().map(|plan| plan.stats.clone());
        Added {
            pages_written: self.apply(plan),
            results: results.unwrap_or_default(),
            stats: stats.unwrap_or_default(),
        }
    }

    /// Deletes one copy of each item; says of each whether there was one.
    pub(crate) fn delete(&mut self, items: &[ItemHash]) -> Vec<bool> {
        let (results, plan) = self.planned(|planner| {
            let results = items.iter().map(|&hash| planner.delete(hash));
            results.collect::<Option<Vec<_>>>()
        });
        self.apply(plan);
        results.unwrap_or_default()
    }

    /// Moves what the newest sub-filters hold into older ones, as far as those
    /// have room for all of it, and drops those that are empty then. Returns
    /// how many entries moved.
    pub(crate) fn compact(&mut self) -> u64 {
        let closed = self.chain.begin_compaction(1.0);
        let subs = self.chain.sub_filters().rev();
        let ordinals: Vec<Ordinal> = subs.take(closed).map(|sub| sub.ordinal).collect();
        let mut moved = 0;
        'filter: for ordinal in ordinals {
            let mut from = BucketIndex(0);
            loop {
                let slice = Slice {
                    ordinal,
                    from,
                    max_pages: 16,
                    max_entries: 512,
                    max_units: 32_768,
                };
                let (compacted, plan) = self.planned(|planner| planner.compact(&slice));
                self.apply(plan);
                let Some(compacted) = compacted else {
                    break 'filter;
                };
                moved += u64::from(compacted.moved);
                match compacted.end {
                    SliceEnd::At(bucket) => from = bucket,
                    SliceEnd::Through => break,
                    SliceEnd::NoRoom | SliceEnd::Reopened => break 'filter,
                }
            }
        }
        self.chain.end_compaction();
        self.pages.truncate(self.chain.sub_filter_count());
        moved
    }

    /// Whether an item is found.
    pub(crate) fn exists(&mut self, item: ItemHash) -> bool {
        let found = read::exists(&self.chain, item, &mut self.pages);
        found.unwrap_or_default()
    }

    /// Whether each of the items is found, in groups whose memory is asked for
    /// at once.
    pub(crate) fn exists_all(&self, items: &[ItemHash], found: &mut Vec<bool>) {
        let mut answers = [None; read::GROUP];
        for group in items.chunks(read::GROUP) {
            read::exists_group(&self.chain, group, &mut &self.pages, &mut answers);
            let answers = answers.iter().take(group.len());
            found.extend(answers.map(|answer| answer.unwrap_or_default()));
        }
    }

    /// How often an item is found.
    pub(crate) fn count(&mut self, item: ItemHash) -> u64 {
        let found = read::count(&self.chain, item, &mut self.pages);
        found.unwrap_or_default()
    }

    /// The slots in which an item lies.
    pub(crate) fn locate(&mut self, item: ItemHash) -> Option<Located> {
        locate(&self.chain, item, &mut self.pages)
    }

    /// The word at an address.
    pub(crate) fn word(&self, at: WordAddress) -> u64 {
        let words = self.pages.words(at.on());
        let word = words.and_then(|it| it.get(usize::from(at.word)));
        word.copied().unwrap_or_default()
    }

    /// The counters of a page.
    pub(crate) fn counters(&self, page: PageAddress) -> Option<&Counters> {
        self.pages.counters(page)
    }

    /// A page as a whole.
    pub(crate) fn page(&self, page: PageAddress) -> Option<WholePage> {
        let mut whole = WholePage::empty();
        let words = self.pages.words(page)?;
        for (to, from) in whole.words.iter_mut().zip(words) {
            *to = *from;
        }
        let width = self
            .chain
            .sub_filter(page.sub as usize)?
            .layout
            .slot_width();
        whole.occupied = occupied_of_all(width, words.iter().copied())? as u32;
        whole.counters = self.pages.counters(page).cloned().unwrap_or_default();
        Some(whole)
    }

    /// What its description says of the pages of each sub-filter, and what whoever
    /// verifies stored pages finds in them; `None`: what no such page can hold.
    pub(crate) fn told_and_found(&self) -> impl Iterator<Item = (Contents, Option<Contents>)> + '_ {
        self.chain.sub_filters().enumerate().map(|(position, sub)| {
            let pages = (0..sub.layout.pages()).map(|page| PageAddress::new(position, page));
            let mut found = pages.map(|page| {
                let words = self.pages.words(page)?.iter().copied();
                Contents::of_page(&sub.layout, page.page, words, self.counters(page))
            });
            let sum = |mut sum: Contents, found: Option<Contents>| {
                sum.add(&found?);
                Some(sum)
            };
            let found = found.try_fold(Contents::none_of(&sub.layout), sum);
            (Contents::told_by(&self.chain, &sub), found)
        })
    }

    /// Plans adds, over an overlay, and changes nothing.
    pub(crate) fn plan(&mut self, items: &[ItemHash], mode: AddMode) -> Option<Plan> {
        self.planned(|planner| add_all(planner, items, mode)).1
    }

    /// Plans over an overlay. All pages are at hand, so every plan is complete.
    fn planned<T>(
        &mut self,
        work: impl FnOnce(&mut OverlaidPlanner<'_>) -> Option<T>,
    ) -> (Option<T>, Option<Plan>) {
        let pending = Overlay::default();
        let input = PlanInput {
            chain: self.chain.clone(),
            pending: &pending,
            fresh_from: self.chain.sub_filter_count() as u32,
        };
        let mut planner = Planner::new(input, &mut self.pages, &mut self.search);
        let result = work(&mut planner);
        (result, planner.finish())
    }

    /// Takes over what was planned. Returns how many pages were written to.
    fn apply(&mut self, plan: Option<Plan>) -> usize {
        let Some(plan) = plan else {
            return 0;
        };
        self.chain = plan.chain;
        self.pages.add_sub_filters(&self.chain);
        let changes = plan.overlay.changes();
        for page in &changes.pages {
            apply(&mut self.pages, &changes, page);
        }
        for (address, whole) in &changes.wholes {
            self.pages.set_page(*address, WholePage::clone(whole));
        }
        if let Some(&first) = changes.dropped.first() {
            self.pages.drop_page(first);
        }
        changes.pages.len() + changes.wholes.len()
    }
}

type OverlaidPlanner<'a> = Planner<'a, OverlaidPages<'a, Pages>>;

fn add_all(
    planner: &mut Planner<'_, impl Draft>,
    items: &[ItemHash],
    mode: AddMode,
) -> Option<Vec<AddResult>> {
    let mut results = Vec::with_capacity(items.len());
    planner.add_all(items, mode, u64::MAX, |added| results.extend(added));
    (results.len() == items.len()).then_some(results)
}

fn apply(pages: &mut Pages, changes: &PageChanges, page: &ChangedPage) {
    for word in changes.words_of(page) {
        pages.set_slot(word.at, word.value, 0, 0);
    }
    for counter in changes.counters_of(page) {
        pages.set_counter(page.address, counter.key, counter.copies, 0);
    }
    let first = page.address.word(0);
    let word = pages.word(first).unwrap_or_default();
    pages.set_slot(first, word, 0, page.occupied);
}
