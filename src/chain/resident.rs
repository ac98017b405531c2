//! A filter whose pages are plain memory: the whole of `chain` without a store
//! and without an engine.
//!
//! It is what the rules are tested on and measured with, and the shortest
//! answer to how chain, pages and planner fit together.

use super::address::{PageAddress, WordAddress};
use super::contents::Contents;
use super::counters::{CounterKey, Counters};
use super::locate::{Located, locate};
use super::meta::Chain;
use super::pages::{Draft, HeldPages, PageWords, PlanPages, WholePage};
use super::plan::compact::{Slice, SliceEnd};
use super::plan::{
    AddMode, AddResult, ChangedPage, OverlaidPages, Overlay, PageChanges, Plan, PlanInput,
    PlanStats, Planner,
};
use super::read;
use crate::cuckoo::candidates::BucketIndex;
use crate::cuckoo::hash::ItemHash;
use crate::cuckoo::kick::KickSearch;
use crate::hints;
use crate::page::Ordinal;
use std::collections::BTreeMap;
use std::mem;
use std::ops::RangeInclusive;

/// A filter in memory.
pub struct ResidentFilter {
    chain: Chain,
    pages: Pages,
    search: KickSearch,
}

/// What became of items that were added at once.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Added {
    /// One result an item.
    pub results: Vec<AddResult>,
    /// What the algorithm did.
    pub stats: PlanStats,
    /// Pages that were written to, each counted once.
    pub pages_written: usize,
}

impl ResidentFilter {
    /// A filter without an item.
    pub fn new(chain: Chain) -> Self {
        let mut filter = ResidentFilter {
            chain,
            pages: Pages::default(),
            search: KickSearch::new(),
        };
        filter.pages.note_grown(&filter.chain);
        filter
    }

    /// Its description.
    pub fn chain(&self) -> &Chain {
        &self.chain
    }

    /// Adds items to the pages as they are, without a plan that could be
    /// dropped; see [`add`](Self::add) for one with. The pages are the same
    /// afterwards.
    pub fn add_at_once(&mut self, items: &[ItemHash], mode: AddMode) -> Vec<AddResult> {
        let mut results = None;
        self.at_once(|planner| results = add_all(planner, items, mode));
        results.unwrap_or_default()
    }

    /// Works on the pages as they are. Returns what the algorithm did.
    pub(in crate::chain) fn at_once(
        &mut self,
        work: impl FnOnce(&mut Planner<'_, Pages>),
    ) -> PlanStats {
        let (chain, pages) = (self.chain.clone(), mem::take(&mut self.pages));
        let mut planner = Planner::on(pages, chain, &mut self.search);
        work(&mut planner);
        let (chain, pages, stats) = planner.into_parts();
        (self.chain, self.pages) = (chain, pages);
        stats
    }

    /// Adds items.
    pub fn add(&mut self, items: &[ItemHash], mode: AddMode) -> Added {
        let (results, plan) = self.planned(|planner| add_all(planner, items, mode));
        let stats = plan.as_ref().map(|plan| plan.stats.clone());
        Added {
            pages_written: self.apply(plan),
            results: results.unwrap_or_default(),
            stats: stats.unwrap_or_default(),
        }
    }

    /// Deletes one copy of each item; says of each whether there was one.
    pub fn delete(&mut self, items: &[ItemHash]) -> Vec<bool> {
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
    pub fn compact(&mut self) -> u64 {
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
        self.pages.subs.truncate(self.chain.sub_filter_count());
        moved
    }

    /// Whether an item is found.
    pub fn exists(&mut self, item: ItemHash) -> bool {
        let found = read::exists(&self.chain, item, &mut self.pages);
        found.unwrap_or_default()
    }

    /// Whether each of the items is found, in groups whose memory is asked for
    /// at once.
    pub fn exists_all(&self, items: &[ItemHash], found: &mut Vec<bool>) {
        let mut answers = [None; read::GROUP];
        for group in items.chunks(read::GROUP) {
            read::exists_group(&self.chain, group, &mut &self.pages, &mut answers);
            let answers = answers.iter().take(group.len());
            found.extend(answers.map(|answer| answer.unwrap_or_default()));
        }
    }

    /// How often an item is found.
    pub fn count(&mut self, item: ItemHash) -> u64 {
        let found = read::count(&self.chain, item, &mut self.pages);
        found.unwrap_or_default()
    }

    /// The slots in which an item lies.
    pub fn locate(&mut self, item: ItemHash) -> Option<Located> {
        locate(&self.chain, item, &mut self.pages)
    }

    /// The word at an address.
    pub fn word(&self, at: WordAddress) -> u64 {
        self.pages.at(at).copied().unwrap_or_default()
    }

    /// The counters of a page.
    pub fn counters(&self, page: PageAddress) -> Option<&Counters> {
        self.pages.sub(page)?.counters.get(&page.page)
    }

    /// A page as a whole.
    pub fn page(&self, page: PageAddress) -> Option<WholePage> {
        let sub = self.pages.sub(page)?;
        let mut whole = WholePage::empty();
        let words = sub
            .words
            .chunks(sub.words_per_page)
            .nth(page.page as usize)?;
        for (to, from) in whole.words.iter_mut().zip(words) {
            *to = *from;
        }
        whole.occupied = *sub.occupied.get(page.page as usize)?;
        whole.counters = sub.counters.get(&page.page).cloned().unwrap_or_default();
        Some(whole)
    }

    /// What its description says of the pages of each sub-filter, and what whoever
    /// verifies stored pages finds in them; `None`: what no such page can hold.
    pub fn told_and_found(&self) -> impl Iterator<Item = (Contents, Option<Contents>)> + '_ {
        self.chain.sub_filters().enumerate().map(|(position, sub)| {
            let pages = (0..sub.layout.pages()).map(|page| PageAddress::new(position, page));
            let mut found = pages.map(|page| {
                let pages = self.pages.sub(page)?;
                let mut all = pages.words.chunks(pages.words_per_page);
                let words = all.nth(page.page as usize)?.iter().copied();
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
    pub fn plan(&mut self, items: &[ItemHash], mode: AddMode) -> Option<Plan> {
        self.planned(|planner| add_all(planner, items, mode)).1
    }

    /// Plans over an overlay. All pages are at hand, so every plan is complete.
    fn planned<T>(
        &mut self,
        work: impl FnOnce(&mut OverlaidPlanner<'_>) -> Option<T>,
    ) -> (Option<T>, Option<Plan>) {
        let pending = Overlay::new();
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
        self.pages.note_grown(&self.chain);
        let changes = plan.overlay.changes();
        for page in &changes.pages {
            self.pages.apply(&changes, page);
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

/// The pages of all sub-filters.
#[derive(Default)]
pub(in crate::chain) struct Pages {
    subs: Vec<SubPages>,
}

struct SubPages {
    words_per_page: usize,
    words: Vec<u64>,
    /// By page.
    occupied: Vec<u32>,
    counters: BTreeMap<u32, Counters>,
}

impl SubPages {
    /// Where a word is in `words`.
    #[inline]
    fn index(&self, at: WordAddress) -> usize {
        at.page as usize * self.words_per_page + usize::from(at.word)
    }
}

impl Pages {
    #[inline]
    fn sub(&self, page: PageAddress) -> Option<&SubPages> {
        self.subs.get(page.sub as usize)
    }

    #[inline]
    fn at(&self, at: WordAddress) -> Option<&u64> {
        let sub = self.subs.get(at.sub as usize)?;
        sub.words.get(sub.index(at))
    }

    fn apply(&mut self, changes: &PageChanges, page: &ChangedPage) -> Option<()> {
        let sub = self.subs.get_mut(page.address.sub as usize)?;
        for word in changes.words_of(page) {
            let index = sub.index(word.at);
            *sub.words.get_mut(index)? = word.value;
        }
        let occupied = sub.occupied.get_mut(page.address.page as usize)?;
        *occupied = occupied.saturating_add_signed(page.occupied);
        for counter in changes.counters_of(page) {
            let counters = sub.counters.entry(page.address.page).or_default();
            counters.set(counter.key, counter.copies);
        }
        Some(())
    }
}

impl<'a> HeldPages for &'a Pages {
    type Page = &'a [u64];

    #[inline]
    fn hold(&mut self, page: PageAddress) -> Option<&'a [u64]> {
        let sub = self.sub(page)?;
        let first = page.page as usize * sub.words_per_page;
        sub.words.get(first..first + sub.words_per_page)
    }

    #[inline]
    fn load(page: &'a [u64], word: u16) -> u64 {
        page.get(usize::from(word)).copied().unwrap_or(0)
    }

    #[inline]
    fn prefetch(page: &'a [u64], word: u16) {
        if let Some(word) = page.get(usize::from(word)) {
            hints::prefetch(word);
        }
    }
}

impl PageWords for Pages {
    #[inline]
    fn word(&mut self, at: WordAddress) -> Option<u64> {
        self.at(at).copied()
    }

    fn counter(&mut self, page: PageAddress, key: CounterKey) -> Option<u64> {
        let counters = self.sub(page)?.counters.get(&page.page);
        Some(counters.map_or(0, |counters| counters.get(key)))
    }

    fn counters_within(
        &mut self,
        page: PageAddress,
        keys: RangeInclusive<CounterKey>,
    ) -> Option<Counters> {
        let counters = self.sub(page)?.counters.get(&page.page);
        Some(counters.map(|it| it.within(keys)).unwrap_or_default())
    }

    #[inline]
    fn prefetch(&self, at: WordAddress) {
        if let Some(word) = self.at(at) {
            hints::prefetch(word);
        }
    }
}

impl PlanPages for Pages {
    #[inline]
    fn occupied(&mut self, page: PageAddress) -> Option<u32> {
        self.sub(page)?.occupied.get(page.page as usize).copied()
    }

    fn counters(&mut self, page: PageAddress) -> Option<usize> {
        let counters = self.sub(page)?.counters.get(&page.page);
        Some(counters.map_or(0, Counters::len))
    }
}

impl Draft for Pages {
    #[inline(always)]
    fn set_slot(&mut self, at: WordAddress, value: u64, _: u16, more: i32) {
        let Some(sub) = self.subs.get_mut(at.sub as usize) else {
            return;
        };
        let index = sub.index(at);
        if let Some(word) = sub.words.get_mut(index) {
            *word = value;
        }
        if let Some(occupied) = sub.occupied.get_mut(at.page as usize) {
            *occupied = occupied.saturating_add_signed(more);
        }
    }

    fn set_counter(&mut self, page: PageAddress, key: CounterKey, copies: u64, _: i32) {
        if let Some(sub) = self.subs.get_mut(page.sub as usize) {
            let counters = sub.counters.entry(page.page).or_default();
            counters.set(key, copies);
        }
    }

    fn note_grown(&mut self, chain: &Chain) {
        for sub in chain.sub_filters().skip(self.subs.len()) {
            let words_per_page = (sub.layout.page_bytes() as usize).div_ceil(8);
            let pages = sub.layout.pages() as usize;
            self.subs.push(SubPages {
                words_per_page,
                words: vec![0; pages * words_per_page],
                occupied: vec![0; pages],
                counters: BTreeMap::new(),
            });
        }
    }

    fn set_page(&mut self, page: PageAddress, whole: WholePage) {
        let Some(sub) = self.subs.get_mut(page.sub as usize) else {
            return;
        };
        let number = page.page as usize;
        if number == sub.occupied.len() {
            sub.occupied.push(0);
            sub.words.resize(sub.words.len() + sub.words_per_page, 0);
        }
        let words = sub.words.chunks_mut(sub.words_per_page).nth(number);
        for (to, from) in words.unwrap_or_default().iter_mut().zip(whole.words.iter()) {
            *to = *from;
        }
        if let Some(occupied) = sub.occupied.get_mut(number) {
            *occupied = whole.occupied;
        }
        match whole.counters.is_empty() {
            true => sub.counters.remove(&page.page),
            false => sub.counters.insert(page.page, whole.counters),
        };
    }

    fn drop_page(&mut self, page: PageAddress) {
        if let Some(sub) = self.subs.get_mut(page.sub as usize) {
            let pages = page.page as usize;
            sub.occupied.truncate(pages);
            sub.words.truncate(pages * sub.words_per_page);
            sub.counters.split_off(&page.page);
        }
    }
}
