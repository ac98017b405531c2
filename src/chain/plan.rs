//! Changes, planned over an overlay of the pages.
//!
//! A [`Planner`] works through the items of one command. It reads words of
//! pages, and what it would change it keeps in an [`Overlay`]; the pages
//! themselves stay as they are until the caller has made the plan durable. So
//! a plan that can't be finished, or a commit that failed, is simply dropped.
//!
//! The rules, newest sub-filter first: a class that fills its share of slots
//! in the newest sub-filter is counted beside the page; else an add takes a
//! free slot in one of the two candidate buckets of any sub-filter; if there
//! is none, a path of kick-outs in the newest; if there is none, a new
//! sub-filter. A delete takes a counted copy, and a slot only where there is
//! none.
//!
//! While a chain is compacted ([`compact`]), "newest" is the newest sub-filter
//! that takes adds; those after it take them again before the chain grows.

pub mod compact;
mod overlay;

pub use overlay::Overlay;

use super::counters::{CounterKey, MAX_COUNTERS};
use super::meta::{Chain, MAX_ITEMS};
use super::read::{self, PageAddress, PageWords, WordAddress, counter_of};
use crate::cuckoo::bucket::{self, SlotWidth};
use crate::cuckoo::hash::ItemHash;
use crate::cuckoo::kick::{KickSearch, Slot};
use crate::cuckoo::layout::{BucketIndex, Candidates, Geometry, Layout};
use crate::cuckoo::paged::OfWidth;
use overlay::{Growth, PageKey, PageNumber};
use std::ops::Range;

/// Hands out what a plan needs to know of pages beyond their words. What it
/// says must not depend on which pages happen to be at hand.
pub trait PlanPages: PageWords {
    /// Slots of a page in use, or `None` if the page is not at hand.
    fn occupied(&mut self, page: PageAddress) -> Option<u32>;

    /// How many classes are counted beside a page, or `None` likewise.
    fn counters(&mut self, page: PageAddress) -> Option<usize>;

    /// Says that these words will be asked for soon, so that their pages can
    /// be taken hold of together.
    #[inline]
    fn expect(&mut self, words: &[WordAddress]) {
        for &word in words {
            self.prefetch(word);
        }
    }
}

/// Where a plan puts what it changes: an overlay, or, where nobody has to agree
/// first, the pages themselves.
pub trait Draft: PlanPages {
    /// Sets a word of which one slot was written; `more` slots are in use then.
    fn set_slot(&mut self, at: WordAddress, value: u64, lane: u16, more: i32);

    /// Sets a side counter; there are `more` of them then.
    fn set_counter(&mut self, page: PageAddress, key: CounterKey, copies: u64, more: i32);

    /// Hears that the chain has a sub-filter more, all of whose words are 0.
    fn note_grown(&mut self, chain: &Chain);
}

/// What to do with an item that is found already.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum AddMode {
    /// Add another copy of it.
    #[default]
    Always,
    /// Leave it.
    OnlyIfAbsent,
}

/// What became of one added item.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AddResult {
    /// It is in.
    Added,
    /// It was found already and left ([`AddMode::OnlyIfAbsent`]).
    Exists,
    /// There was no room and the filter may not grow.
    Full(FullReason),
}

/// Why a filter may not grow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FullReason {
    /// It was created with `expansion` 0.
    ExpansionOff,
    /// It has as many sub-filters as `max_expansions` allows.
    MaxExpansions,
    /// The next sub-filter would exceed the bytes a filter may have.
    MaxFilterBytes,
}

/// What the algorithm did, for whoever keeps count.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Facts {
    /// Kick-outs of each path that made room, one entry a path.
    pub kick_paths: Vec<u16>,
    /// Sub-filters appended.
    pub expansions: u32,
    /// Whether the filter grew beyond what its error rate is promised for.
    pub promise_ended: bool,
}

/// A word as it shall be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChangedWord {
    /// Where it lies.
    pub at: WordAddress,
    /// The whole word.
    pub value: u64,
    /// The slots of it that were written, bit `n` for slot `n` of the word.
    pub slots: u8,
}

/// A side counter as it shall be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChangedCounter {
    /// The class.
    pub key: CounterKey,
    /// Its copies beyond its slots; 0: there is no counter.
    pub copies: u64,
}

/// A page that changes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChangedPage {
    /// Which.
    pub address: PageAddress,
    /// Its words, as a range of [`PageChanges::words`].
    pub words: Range<usize>,
    /// Its counters, as a range of [`PageChanges::counters`].
    pub counters: Range<usize>,
    /// How many more of its slots are in use.
    pub occupied: i32,
}

/// All that changes, by ascending sub-filter, page, and word or class: an
/// order that no hash map decides.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PageChanges {
    /// The pages.
    pub pages: Vec<ChangedPage>,
    /// The words of all pages.
    pub words: Vec<ChangedWord>,
    /// The counters of all pages.
    pub counters: Vec<ChangedCounter>,
}

impl PageChanges {
    /// The words of one of the pages.
    pub fn words_of(&self, page: &ChangedPage) -> &[ChangedWord] {
        self.words.get(page.words.clone()).unwrap_or_default()
    }

    /// The counters of one of the pages.
    pub fn counters_of(&self, page: &ChangedPage) -> &[ChangedCounter] {
        self.counters.get(page.counters.clone()).unwrap_or_default()
    }
}

/// What to plan over: how the filter stands before the command.
pub struct Basis<'a> {
    /// The filter's description.
    pub chain: Chain,
    /// Changes planned before and not yet on the pages.
    pub pending: &'a Overlay,
    /// Sub-filters from this position on have no pages yet: all words are 0.
    pub fresh_from: u32,
}

/// A command's items, planned one after another.
pub struct Planner<'a, D> {
    chain: Chain,
    words: Words<D>,
    search: &'a mut KickSearch,
    /// Searches for kick-outs, whatever they found.
    searches: u32,
    facts: Facts,
    complete: bool,
}

/// A finished plan.
pub struct Plan {
    /// The filter's description afterwards.
    pub chain: Chain,
    /// What changes in the pages.
    pub overlay: Overlay,
    /// What the algorithm did.
    pub facts: Facts,
}

impl<'a, P: PlanPages> Planner<'a, Overlaid<'a, P>> {
    /// Starts a plan over an overlay.
    pub fn new(basis: Basis<'a>, pages: &'a mut P, search: &'a mut KickSearch) -> Self {
        let draft = Overlaid {
            overlay: Overlay::new(),
            pending: basis.pending,
            fresh_from: basis.fresh_from,
            pages,
            here: None,
        };
        Planner::on(draft, basis.chain, search)
    }

    /// Makes room for the changes of so many items.
    pub fn reserve(&mut self, items: usize) {
        self.words.draft.overlay.reserve(items);
    }

    /// The plan, or `None` if a page was not at hand.
    pub fn finish(self) -> Option<Plan> {
        self.complete.then_some(Plan {
            chain: self.chain,
            overlay: self.words.draft.overlay,
            facts: self.facts,
        })
    }
}

impl<'a, D: Draft> Planner<'a, D> {
    /// Starts to change a draft that has all pages at hand.
    pub fn on(draft: D, chain: Chain, search: &'a mut KickSearch) -> Self {
        Planner {
            chain,
            words: Words {
                draft,
                missing: false,
            },
            search,
            searches: 0,
            facts: Facts::default(),
            complete: true,
        }
    }

    /// The chain as it is by now.
    pub fn into_chain(self) -> Chain {
        self.chain
    }

    /// Says that a group of items, up to [`GROUP`](read::GROUP), comes next:
    /// their candidates in the newest sub-filter, where most adds end, are
    /// asked for together.
    #[inline]
    pub fn expect(&mut self, items: &[ItemHash]) {
        let subs = self.chain.sub_filters().iter().enumerate();
        let Some((position, sub)) = subs.take(self.chain.open()).next_back() else {
            return;
        };
        const NOWHERE: WordAddress = WordAddress {
            sub: 0,
            page: 0,
            word: 0,
        };
        let mut words = [NOWHERE; 2 * read::GROUP];
        let (pairs, _) = words.as_chunks_mut::<2>();
        for (&hash, pair) in items.iter().zip(pairs) {
            let candidates = sub.layout.candidates(hash);
            *pair = [candidates.first, candidates.second]
                .map(|bucket| read::first_word(&sub.layout, position, bucket));
        }
        let named = 2 * items.len().min(read::GROUP);
        self.words
            .draft
            .expect(words.get(..named).unwrap_or_default());
    }

    /// Plans an add. `None`: a page was not at hand; the plan can't be
    /// finished, but going on finds out which other pages are needed.
    pub fn add(&mut self, hash: ItemHash, mode: AddMode) -> Option<AddResult> {
        if mode == AddMode::OnlyIfAbsent {
            let found = self.exists(hash)?;
            if found {
                return Some(AddResult::Exists);
            }
        }
        let placed = self.count_or_place(hash);
        if self.settled(placed)?.is_some() {
            return Some(AddResult::Added);
        }
        let kicked = self.kick_out(self.newest()?, hash);
        if self.settled(kicked)?.is_some() {
            return Some(AddResult::Added);
        }
        if self.chain.reopen() {
            return self.add(hash, AddMode::Always);
        }
        Some(self.expand(hash))
    }

    /// Plans a delete and says whether there was a match to clear. `None` as
    /// for [`add`](Self::add).
    pub fn delete(&mut self, hash: ItemHash) -> Option<bool> {
        let cleared = self.clear_match(hash);
        Some(self.settled(cleared)?.is_some())
    }

    /// Whether the item is found, what was planned before included.
    pub fn exists(&mut self, hash: ItemHash) -> Option<bool> {
        let found = read::exists(&self.chain, hash, &mut self.words);
        self.settled_by(found)
    }

    /// How often the item is found, what was planned before included.
    pub fn count(&mut self, hash: ItemHash) -> Option<u64> {
        let found = read::count(&self.chain, hash, &mut self.words);
        self.settled_by(found)
    }

    /// Turns "found nothing" into "not known" if a word was missing on the
    /// way: what would have been there decides the order of trying.
    fn settled<T>(&mut self, found: Option<T>) -> Option<Option<T>> {
        if std::mem::take(&mut self.words.missing) {
            self.complete = false;
            return None;
        }
        Some(found)
    }

    fn settled_by<T>(&mut self, known: Option<T>) -> Option<T> {
        self.words.missing = false;
        self.complete &= known.is_some();
        known
    }

    /// Position of the newest sub-filter that takes adds.
    fn newest(&self) -> Option<usize> {
        self.chain.open().checked_sub(1)
    }

    /// Counts one more copy of a class that has its share of slots, or takes
    /// a free slot among the candidates, newest sub-filter first. Returns the
    /// position of the sub-filter.
    fn count_or_place(&mut self, located: impl Locate) -> Option<usize> {
        let newest = self.newest()?;
        for position in (0..=newest).rev() {
            let sub = *self.chain.sub_filters().get(position)?;
            let candidates = located.candidates(&sub.layout);
            let surveys = self.words.survey(position, &sub.layout, &candidates);
            let [first, second] = &surveys;
            if position == newest
                && first.matches + second.matches >= sub.layout.class_limit(&candidates)
                && self.count_copy(position, &candidates).is_some()
            {
                return Some(position);
            }
            if !sub.has_room() {
                continue;
            }
            let second_first =
                self.words
                    .second_is_emptier(position, &sub.layout, &candidates, &surveys);
            let free = match second_first {
                true => second.free().or(first.free()),
                false => first.free().or(second.free()),
            };
            if let Some(free) = free {
                let free = free.spot(position, &sub.layout);
                self.words.fill(&sub.layout, free, candidates.fingerprint.0);
                self.chain.note_added(position);
                return Some(position);
            }
        }
        None
    }

    /// Counts one more copy of a class, unless its page has too many counters.
    fn count_copy(&mut self, position: usize, candidates: &Candidates) -> Option<()> {
        let sub = self.chain.sub_filters().get(position)?;
        let (page, key) = counter_of(sub, position, candidates);
        let copies = self.words.counter(page, key)?;
        let too_many = copies == 0 && self.words.counters(page)? >= MAX_COUNTERS;
        if too_many || self.chain.items() >= MAX_ITEMS {
            return None;
        }
        self.words.set_counter(page, key, copies, copies + 1);
        self.chain.note_copy_added(position);
        Some(())
    }

    /// Makes room in a sub-filter along a shortest path of kick-outs. Returns
    /// its position.
    fn kick_out(&mut self, position: usize, located: impl Locate) -> Option<usize> {
        let sub = *self.chain.sub_filters().get(position)?;
        if !sub.has_room() {
            return None;
        }
        let (layout, candidates) = (sub.layout, located.candidates(&sub.layout));
        let surveys = self.words.survey(position, &layout, &candidates);
        let mut roots = [candidates.first, candidates.second];
        if self
            .words
            .second_is_emptier(position, &layout, &candidates, &surveys)
        {
            roots.reverse();
        }
        let longest = self.chain.params().max_iterations().unwrap_or(u16::MAX);
        self.searches += 1;
        self.search
            .start(roots.into_iter(), layout.search_bounds(), longest);
        let mut slots = [0u32; u8::MAX as usize];
        while let Some(bucket) = self.search.next_bucket() {
            match self.words.load(position, &layout, bucket, &mut slots) {
                Some(slots) => {
                    self.search.look(&layout, slots);
                    for bucket in self.search.added() {
                        read::prefetch_bucket(&layout, position, bucket, &self.words.draft);
                    }
                }
                None => self.search.pass(),
            }
        }
        let mut free = self.search.empty_slot()?;
        if self.words.missing {
            return None;
        }
        let mut kick_outs = 0u16;
        for step in self.search.moves() {
            self.words.relocate(position, &layout, step.from, step.to);
            free = step.from;
            kick_outs += 1;
        }
        self.words
            .put(position, &layout, free, candidates.fingerprint.0);
        self.chain.note_added(position);
        self.facts.kick_paths.push(kick_outs);
        Some(position)
    }

    /// Appends a sub-filter and puts the item into its first candidate.
    fn expand(&mut self, hash: ItemHash) -> AddResult {
        let kept = self.chain.keeps_promise();
        if let Err(reason) = self.chain.grow() {
            return AddResult::Full(reason);
        }
        self.words.draft.note_grown(&self.chain);
        self.facts.expansions += 1;
        self.facts.promise_ended |= kept && !self.chain.keeps_promise();
        // All slots of the new sub-filter are free.
        match self.count_or_place(hash) {
            Some(_) => AddResult::Added,
            None => AddResult::Full(FullReason::MaxFilterBytes),
        }
    }

    /// Takes a counted copy away or clears a slot, newest sub-filter first.
    fn clear_match(&mut self, hash: ItemHash) -> Option<()> {
        for position in (0..self.chain.sub_filters().len()).rev() {
            let sub = *self.chain.sub_filters().get(position)?;
            let candidates = sub.layout.candidates(hash);
            let [first, second] = self.words.survey(position, &sub.layout, &candidates);
            let Some(found) = first.matching().or(second.matching()) else {
                continue;
            };
            let found = found.spot(position, &sub.layout);
            let (page, key) = counter_of(&sub, position, &candidates);
            match self.words.counter(page, key) {
                None => continue,
                Some(0) => {
                    self.words.fill(&sub.layout, found, 0);
                    self.chain.note_deleted(position);
                }
                Some(copies) => {
                    self.words.set_counter(page, key, copies, copies - 1);
                    self.chain.note_copy_deleted(position);
                }
            }
            return Some(());
        }
        None
    }
}

/// What has candidate buckets in every sub-filter: an item, or an entry of a
/// newer one.
trait Locate: Copy {
    /// Its fingerprint and candidate buckets in a sub-filter.
    fn candidates(self, layout: &Layout) -> Candidates;
}

impl Locate for ItemHash {
    #[inline]
    fn candidates(self, layout: &Layout) -> Candidates {
        layout.candidates(self)
    }
}

/// What a candidate bucket holds.
#[derive(Clone, Copy, Default)]
struct Survey {
    /// Where the bucket lies.
    page: u32,
    /// Slots that hold the item's fingerprint.
    matches: u32,
    /// Empty slots.
    empty: u32,
    /// The first empty slot, by its number within the page.
    free: Option<u16>,
    /// The first slot that holds the fingerprint.
    matching: Option<u16>,
}

impl Survey {
    #[inline]
    fn free(&self) -> Option<SlotOfPage> {
        let page = self.page;
        self.free.map(|slot| SlotOfPage { page, slot })
    }

    #[inline]
    fn matching(&self) -> Option<SlotOfPage> {
        let page = self.page;
        self.matching.map(|slot| SlotOfPage { page, slot })
    }
}

/// A slot, by its page.
#[derive(Clone, Copy)]
struct SlotOfPage {
    page: u32,
    slot: u16,
}

impl SlotOfPage {
    #[inline]
    fn spot(self, position: usize, layout: &Layout) -> Spot {
        let (word, lane) = layout.slot_width().word_and_lane(self.slot);
        Spot {
            at: WordAddress {
                sub: position as u32,
                page: self.page,
                word,
            },
            lane,
        }
    }
}

/// A slot, by its word.
#[derive(Clone, Copy)]
struct Spot {
    at: WordAddress,
    lane: u16,
}

/// A draft, and whether a page of it was not at hand since that was last taken.
struct Words<D> {
    draft: D,
    missing: bool,
}

impl<D: Draft> PageWords for Words<D> {
    #[inline]
    fn word(&mut self, at: WordAddress) -> Option<u64> {
        let value = self.draft.word(at);
        self.missing |= value.is_none();
        value
    }

    fn counter(&mut self, page: PageAddress, key: CounterKey) -> Option<u64> {
        let copies = self.draft.counter(page, key);
        self.missing |= copies.is_none();
        copies
    }
}

impl<D: Draft> PlanPages for Words<D> {
    #[inline]
    fn occupied(&mut self, page: PageAddress) -> Option<u32> {
        let slots = self.draft.occupied(page);
        self.missing |= slots.is_none();
        slots
    }

    fn counters(&mut self, page: PageAddress) -> Option<usize> {
        let classes = self.draft.counters(page);
        self.missing |= classes.is_none();
        classes
    }
}

/// Pages as they are planned to be: changes over others that wait over the
/// pages themselves.
pub struct Overlaid<'a, P> {
    overlay: Overlay,
    pending: &'a Overlay,
    fresh_from: u32,
    pages: &'a mut P,
    /// The page that was asked for last: the next word is likely to lie on it,
    /// too.
    here: Option<Here>,
}

/// A page, and what is planned for it.
#[derive(Clone, Copy)]
struct Here {
    page: PageAddress,
    key: PageKey,
    planned: Option<PageNumber>,
    pending: Option<PageNumber>,
}

impl<P> Overlaid<'_, P> {
    #[inline]
    fn here(&mut self, page: PageAddress) -> Here {
        match self.here {
            Some(here) if here.page == page => here,
            _ => {
                let key = PageKey::of(page);
                *self.here.insert(Here {
                    page,
                    key,
                    planned: self.overlay.page(key),
                    pending: self.pending.page(key),
                })
            }
        }
    }

    /// The page's place in the overlay, to be written to.
    #[inline]
    fn here_to_change(&mut self, page: PageAddress) -> PageNumber {
        let here = self.here(page);
        if let Some(number) = here.planned {
            return number;
        }
        let number = self.overlay.add_page(here.key);
        self.here = Some(Here {
            planned: Some(number),
            ..here
        });
        number
    }

    /// By how much a page has more than before all that is planned.
    fn growth(&mut self, page: PageAddress) -> Growth {
        let here = self.here(page);
        let of = |overlay: &Overlay, number: Option<PageNumber>| {
            number.map(|it| overlay.growth(it)).unwrap_or_default()
        };
        let (planned, pending) = (
            of(&self.overlay, here.planned),
            of(self.pending, here.pending),
        );
        Growth {
            occupied: planned.occupied + pending.occupied,
            counters: planned.counters + pending.counters,
        }
    }
}

impl<P: PageWords> PageWords for Overlaid<'_, P> {
    #[inline]
    fn word(&mut self, at: WordAddress) -> Option<u64> {
        let here = self.here(at.on());
        let planned = here.planned.and_then(|it| self.overlay.word(it, at.word));
        if planned.is_some() {
            return planned;
        }
        let pending = here.pending.and_then(|it| self.pending.word(it, at.word));
        if pending.is_some() {
            return pending;
        }
        match at.sub >= self.fresh_from {
            true => Some(0),
            false => self.pages.word(at),
        }
    }

    fn counter(&mut self, page: PageAddress, key: CounterKey) -> Option<u64> {
        let planned = self.overlay.counter(page, key);
        if let Some(copies) = planned.or_else(|| self.pending.counter(page, key)) {
            return Some(copies);
        }
        match page.sub >= self.fresh_from {
            true => Some(0),
            false => self.pages.counter(page, key),
        }
    }

    #[inline]
    fn prefetch(&self, at: WordAddress) {
        self.pages.prefetch(at);
    }
}

impl<P: PlanPages> PlanPages for Overlaid<'_, P> {
    #[inline]
    fn expect(&mut self, words: &[WordAddress]) {
        self.pages.expect(words);
    }

    fn occupied(&mut self, page: PageAddress) -> Option<u32> {
        let before = match page.sub >= self.fresh_from {
            true => Some(0),
            false => self.pages.occupied(page),
        };
        let more = self.growth(page).occupied;
        Some(before?.saturating_add_signed(more))
    }

    fn counters(&mut self, page: PageAddress) -> Option<usize> {
        let before = match page.sub >= self.fresh_from {
            true => Some(0),
            false => self.pages.counters(page),
        };
        let more = self.growth(page).counters;
        Some(before?.saturating_add_signed(more as isize))
    }
}

impl<P: PlanPages> Draft for Overlaid<'_, P> {
    fn set_slot(&mut self, at: WordAddress, value: u64, lane: u16, more: i32) {
        let page = self.here_to_change(at.on());
        self.overlay.set_slot(page, at.word, value, lane);
        let grown = Growth {
            occupied: more,
            counters: 0,
        };
        self.overlay.grow(page, grown);
    }

    fn set_counter(&mut self, page: PageAddress, key: CounterKey, copies: u64, more: i32) {
        let number = self.here_to_change(page);
        self.overlay.set_counter(page, key, copies);
        let grown = Growth {
            occupied: 0,
            counters: more,
        };
        self.overlay.grow(number, grown);
    }

    /// Sub-filters beyond those that have pages read as 0 anyway.
    fn note_grown(&mut self, _: &Chain) {}
}

impl<D: Draft> Words<D> {
    /// Looks at both candidate buckets; at one, if they are the same.
    #[inline]
    fn survey(&mut self, position: usize, layout: &Layout, candidates: &Candidates) -> [Survey; 2] {
        match layout {
            Layout::Classic(classic) => self.survey_both(position, classic, candidates),
            Layout::Paged(paged) => match paged.width() {
                SlotWidth::Bits8 => self.survey_both(position, &OfWidth::<8>(*paged), candidates),
                SlotWidth::Bits16 => self.survey_both(position, &OfWidth::<16>(*paged), candidates),
                SlotWidth::Bits32 => self.survey_both(position, &OfWidth::<32>(*paged), candidates),
            },
        }
    }

    #[inline]
    fn survey_both<G: Geometry>(
        &mut self,
        position: usize,
        layout: &G,
        candidates: &Candidates,
    ) -> [Survey; 2] {
        let Candidates {
            fingerprint,
            first,
            second,
        } = *candidates;
        let in_first = self.survey_bucket(position, layout, first, fingerprint.0);
        let in_second = match second == first {
            true => Survey::default(),
            false => self.survey_bucket(position, layout, second, fingerprint.0),
        };
        [in_first, in_second]
    }

    #[inline]
    fn survey_bucket<G: Geometry>(
        &mut self,
        position: usize,
        layout: &G,
        bucket: BucketIndex,
        fingerprint: u32,
    ) -> Survey {
        let (place, width) = (layout.place(bucket), layout.slot_width());
        let (mut matches, mut empty) = (0, 0);
        let (mut free_slot, mut matching_slot) = (None, None);
        for piece in layout.pieces(place.first_slot) {
            let at = WordAddress {
                sub: position as u32,
                page: place.page,
                word: piece.word,
            };
            let Some(value) = self.word(at) else {
                continue;
            };
            let slot = |lane| piece.word * width.slots_per_word() + lane;
            let matching = bucket::find(width, value, piece, fingerprint);
            let free = bucket::find(width, value, piece, 0);
            matches += matching.count();
            empty += free.count();
            matching_slot = matching_slot.or(matching.first().map(slot));
            free_slot = free_slot.or(free.first().map(slot));
        }
        Survey {
            page: place.page,
            matches,
            empty,
            free: free_slot,
            matching: matching_slot,
        }
    }

    /// Whether to try the second candidate before the first. The layout
    /// `classic` never does, as RedisBloom; `paged` balances: the emptier
    /// bucket of a page, the emptier of two pages.
    fn second_is_emptier(
        &mut self,
        position: usize,
        layout: &Layout,
        candidates: &Candidates,
        [first, second]: &[Survey; 2],
    ) -> bool {
        match layout {
            Layout::Classic(_) => false,
            Layout::Paged(_) if layout.is_near(candidates.first, candidates.second) => {
                second.empty > first.empty
            }
            Layout::Paged(_) => {
                let [first, second] = [candidates.first, candidates.second].map(|bucket| {
                    self.occupied(PageAddress {
                        sub: position as u32,
                        page: layout.place(bucket).page,
                    })
                });
                first
                    .zip(second)
                    .is_some_and(|(first, second)| second < first)
            }
        }
    }

    /// Writes a slot whose word was read before. Does nothing once a page was
    /// missing.
    fn fill(&mut self, layout: &Layout, spot: Spot, fingerprint: u32) {
        let Some(value) = self.word(spot.at).filter(|_| !self.missing) else {
            return;
        };
        let width = layout.slot_width();
        let before = bucket::get(width, value, spot.lane);
        let more = i32::from(fingerprint != 0) - i32::from(before != 0);
        let value = bucket::set(width, value, spot.lane, fingerprint);
        self.draft.set_slot(spot.at, value, spot.lane, more);
    }

    fn set_counter(&mut self, page: PageAddress, key: CounterKey, before: u64, after: u64) {
        if !self.missing {
            let more = i32::from(after != 0) - i32::from(before != 0);
            self.draft.set_counter(page, key, after, more);
        }
    }

    /// The slots of a bucket, copied into `slots`.
    fn load<'s>(
        &mut self,
        position: usize,
        layout: &Layout,
        bucket: BucketIndex,
        slots: &'s mut [u32; u8::MAX as usize],
    ) -> Option<&'s [u32]> {
        let (place, width) = (layout.place(bucket), layout.slot_width());
        let mut filled = 0;
        for piece in bucket::pieces(width, place.first_slot, layout.bucket_size()) {
            let at = WordAddress {
                sub: position as u32,
                page: place.page,
                word: piece.word,
            };
            let value = self.word(at)?;
            let lanes = bucket::lanes_of(width, piece);
            for (lane, slot) in lanes.zip(slots.iter_mut().skip(filled)) {
                *slot = bucket::get(width, value, lane);
                filled += 1;
            }
        }
        slots.get(..filled)
    }

    /// Moves a fingerprint from one slot to another.
    fn relocate(&mut self, position: usize, layout: &Layout, from: Slot, to: Slot) {
        let Spot { at, lane } = spot_of(position, layout, from);
        let value = self.word(at);
        let fingerprint = value.map(|value| bucket::get(layout.slot_width(), value, lane));
        self.put(position, layout, to, fingerprint.unwrap_or(0));
        self.put(position, layout, from, 0);
    }

    fn put(&mut self, position: usize, layout: &Layout, slot: Slot, fingerprint: u32) {
        self.fill(layout, spot_of(position, layout, slot), fingerprint);
    }
}

fn spot_of(position: usize, layout: &Layout, slot: Slot) -> Spot {
    let place = layout.place(slot.bucket);
    let slot = SlotOfPage {
        page: place.page,
        slot: place.first_slot + u16::from(slot.slot),
    };
    slot.spot(position, layout)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chain::counters::Counters;
    use crate::chain::params::{Defaults, FilterParams, FilterRequest};
    use crate::chain::resident::ResidentFilter;
    use crate::cuckoo::hash::HashKey;
    use proptest::prelude::*;
    use std::collections::{BTreeMap, BTreeSet};

    /// Pages as plain arrays, some of which may be hidden.
    #[derive(Default, Clone, PartialEq, Debug)]
    pub(super) struct Pages {
        words: BTreeMap<(u32, u32, u16), u64>,
        pub(super) counters: BTreeMap<PageAddress, Counters>,
        occupied: BTreeMap<PageAddress, u32>,
        pub(super) hidden: BTreeSet<PageAddress>,
        pub(super) missed: BTreeSet<PageAddress>,
    }

    impl Pages {
        fn at_hand(&mut self, page: PageAddress) -> Option<()> {
            if self.hidden.contains(&page) {
                self.missed.insert(page);
                return None;
            }
            Some(())
        }

        /// Forgets the pages of sub-filters from that position on.
        pub(super) fn forget_from(&mut self, sub: u32) {
            self.words.retain(|at, _| at.0 < sub);
            self.counters.retain(|page, _| page.sub < sub);
            self.occupied.retain(|page, _| page.sub < sub);
        }

        fn apply(&mut self, changes: &PageChanges) {
            for word in &changes.words {
                let at = (word.at.sub, word.at.page, word.at.word);
                self.words.insert(at, word.value);
            }
            for page in &changes.pages {
                assert!(!page.words.is_empty() || !page.counters.is_empty());
                let occupied = self.occupied.entry(page.address).or_default();
                *occupied = occupied.checked_add_signed(page.occupied).unwrap();
                let counters = self.counters.entry(page.address).or_default();
                for counter in changes.counters_of(page) {
                    counters.set(counter.key, counter.copies);
                }
                for word in changes.words_of(page) {
                    assert_eq!(word.at.on(), page.address);
                }
            }
        }
    }

    impl PageWords for Pages {
        fn word(&mut self, at: WordAddress) -> Option<u64> {
            self.at_hand(at.on())?;
            let word = self.words.get(&(at.sub, at.page, at.word));
            Some(word.copied().unwrap_or(0))
        }

        fn counter(&mut self, page: PageAddress, key: CounterKey) -> Option<u64> {
            self.at_hand(page)?;
            Some(self.counters.get(&page).map_or(0, |it| it.get(key)))
        }
    }

    impl PlanPages for Pages {
        fn occupied(&mut self, page: PageAddress) -> Option<u32> {
            self.at_hand(page)?;
            Some(self.occupied.get(&page).copied().unwrap_or(0))
        }

        fn counters(&mut self, page: PageAddress) -> Option<usize> {
            self.at_hand(page)?;
            Some(self.counters.get(&page).map_or(0, Counters::len))
        }
    }

    pub(super) struct Filter {
        pub(super) chain: Chain,
        pub(super) pages: Pages,
        pub(super) search: KickSearch,
    }

    pub(super) fn filter(request: FilterRequest) -> Filter {
        let params = FilterParams::resolve(&request, &Defaults::default()).unwrap();
        Filter {
            chain: Chain::new(params, HashKey([0x5a; 16]), 0).unwrap(),
            pages: Pages::default(),
            search: KickSearch::new(),
        }
    }

    impl Filter {
        /// Plans with `work` and, if the plan is complete, applies it.
        pub(super) fn apply<T>(
            &mut self,
            work: impl FnOnce(&mut Planner<'_, Overlaid<'_, Pages>>) -> T,
        ) -> (T, Option<Facts>) {
            let pending = Overlay::new();
            let basis = Basis {
                fresh_from: self.chain.sub_filters().len() as u32,
                chain: self.chain.clone(),
                pending: &pending,
            };
            let mut planner = Planner::new(basis, &mut self.pages, &mut self.search);
            let result = work(&mut planner);
            let Some(plan) = planner.finish() else {
                return (result, None);
            };
            self.chain = plan.chain;
            self.pages.apply(&plan.overlay.changes());
            (result, Some(plan.facts))
        }

        pub(super) fn hash(&self, item: u64) -> ItemHash {
            self.chain.hash(item.to_string().as_bytes())
        }

        pub(super) fn add(&mut self, item: u64) -> AddResult {
            let hash = self.hash(item);
            self.apply(|planner| planner.add(hash, AddMode::Always))
                .0
                .unwrap()
        }

        pub(super) fn delete(&mut self, item: u64) -> bool {
            let hash = self.hash(item);
            self.apply(|planner| planner.delete(hash)).0.unwrap()
        }

        pub(super) fn exists(&mut self, item: u64) -> bool {
            let hash = self.hash(item);
            read::exists(&self.chain, hash, &mut self.pages).unwrap()
        }

        pub(super) fn count(&mut self, item: u64) -> u64 {
            let hash = self.hash(item);
            read::count(&self.chain, hash, &mut self.pages).unwrap()
        }

        /// Occupied slots as the pages have them, which every record of them
        /// must agree with.
        pub(super) fn occupied(&self) -> u64 {
            let width = self.chain.params().slot_width();
            let mut of_pages: BTreeMap<PageAddress, u32> = BTreeMap::new();
            for (&(sub, page, _), &word) in &self.pages.words {
                let found = of_pages.entry(PageAddress { sub, page }).or_default();
                *found += bucket::occupied(width, word);
            }
            for (page, &found) in &of_pages {
                assert_eq!(self.pages.occupied.get(page), Some(&found));
            }
            for (position, sub) in self.chain.sub_filters().iter().enumerate() {
                let here = |it: &PageAddress| it.sub == position as u32;
                let slots = of_pages.iter().filter(|(page, _)| here(page));
                assert_eq!(
                    slots.map(|(_, &slots)| u64::from(slots)).sum::<u64>(),
                    sub.occupied
                );
                let counted = self.pages.counters.iter().filter(|(page, _)| here(page));
                let copies = counted
                    .flat_map(|(_, it)| it.iter())
                    .map(|(_, copies)| copies);
                assert_eq!(copies.sum::<u64>(), sub.counted);
            }
            of_pages.values().map(|&slots| u64::from(slots)).sum()
        }
    }

    /// One request of each kind of filter.
    pub(super) fn kinds(capacity: u64) -> Vec<FilterRequest> {
        let classic = [1, 2, 3, 4, 255].map(|bucket_size| FilterRequest {
            capacity: Some(capacity.max(2 * bucket_size)),
            bucket_size: Some(bucket_size),
            ..Default::default()
        });
        let paged = [8, 16, 32].map(|bits| FilterRequest {
            capacity: Some(capacity),
            fingerprint_bits: Some(bits),
            ..Default::default()
        });
        classic.into_iter().chain(paged).collect()
    }

    #[test]
    fn the_requested_capacity_fits_without_expansion() {
        let sizes = [5_000, 27_000, 24_000, 62_000, 9_000, 40_000, 19_000, 9_000];
        for (mut request, capacity) in kinds(1).into_iter().zip(sizes) {
            request.capacity = Some(capacity);
            let mut it = filter(request.clone());
            for n in 0..capacity {
                assert_eq!(it.add(n), AddResult::Added, "{request:?}, item {n}");
            }
            assert_eq!(it.chain.sub_filters().len(), 1, "{request:?}");
            assert_eq!(it.chain.items(), capacity);
            it.occupied();
        }
    }

    #[test]
    fn a_full_filter_without_expansion_reports_full_and_says_why() {
        for mut request in kinds(4) {
            request.expansion = Some(0);
            let mut it = filter(request.clone());
            let results: Vec<AddResult> = (0..5_000).map(|n| it.add(n)).collect();
            assert!(
                results.contains(&AddResult::Full(FullReason::ExpansionOff)),
                "{request:?}"
            );
            let added = results
                .iter()
                .filter(|&&result| result == AddResult::Added)
                .count();
            assert_eq!(it.chain.items(), added as u64);
            it.occupied();
        }
    }

    #[test]
    fn a_sub_filter_takes_no_more_than_keeps_the_promise() {
        let mut it = filter(FilterRequest {
            capacity: Some(7_000),
            error_rate: Some(0.00093),
            ..Default::default()
        });
        let mut n = 0;
        while it.chain.sub_filters().len() < 8 {
            it.add(n);
            n += 1;
        }
        while it.chain.sub_filters().len() == 8 {
            it.add(n);
            n += 1;
        }
        let full = &it.chain.sub_filters()[..8];
        assert!(full.iter().all(|sub| sub.load() > 0.94), "{full:?}");
        let missed: f64 = full
            .iter()
            .map(|sub| 1.0 - sub.false_positive_rate())
            .product();
        assert!(1.0 - missed <= 0.00093, "{}", 1.0 - missed);
    }

    #[test]
    fn copies_of_one_item_cost_a_few_slots_and_one_counter() {
        for request in kinds(1_000) {
            let mut it = filter(request.clone());
            for n in 0..500 {
                it.add(n);
            }
            let (hot, copies) = (it.hash(250), 100_000);
            let (results, _) = it.apply(|planner| {
                (1..copies)
                    .map(|_| planner.add(hot, AddMode::Always))
                    .collect::<Vec<_>>()
            });
            assert!(
                results
                    .iter()
                    .all(|&result| result == Some(AddResult::Added))
            );
            assert_eq!(it.chain.sub_filters().len(), 1, "{request:?}");
            assert!(it.occupied() < 500 + 13, "{request:?}");
            assert_eq!(it.chain.items(), 499 + copies);
            assert!(it.count(250) >= copies);
            // Items of its class were added among the 500.
            let others = it.count(250) - copies;
            for left in (0..copies).rev() {
                assert!(it.delete(250), "{request:?}");
                if left % 9_973 < 5 {
                    assert_eq!(it.count(250), others + left, "{request:?}");
                    assert_eq!(it.exists(250), others + left > 0);
                }
            }
            assert_eq!(it.chain.items(), 499);
            assert_eq!(it.chain.sub_filters()[0].counted, 0, "{request:?}");
            it.occupied();
            for n in (0..500).filter(|&n| n != 250) {
                assert!(it.exists(n), "{request:?} item {n}");
            }
        }
    }

    #[test]
    fn a_page_with_too_many_counters_gives_slots_instead() {
        let mut it = filter(FilterRequest {
            capacity: Some(30_000),
            bucket_size: Some(255),
            ..Default::default()
        });
        let page = PageAddress { sub: 0, page: 0 };
        let mut full = Counters::default();
        for n in 0..MAX_COUNTERS as u64 {
            full.set(CounterKey(u64::from(u16::MAX) << 32 | (n + 1)), 1);
        }
        let pages = it.chain.sub_filters()[0].layout.pages();
        for page in 0..pages {
            it.pages
                .counters
                .insert(PageAddress { sub: 0, page }, full.clone());
        }
        for _ in 0..100 {
            it.add(1);
        }
        assert_eq!(it.count(1), 100);
        assert_eq!(it.chain.sub_filters()[0].occupied, 100);
        it.pages.counters.remove(&page);
        for number in 1..pages {
            it.pages.counters.remove(&PageAddress {
                sub: 0,
                page: number,
            });
        }
        it.add(1);
        assert_eq!(it.chain.sub_filters()[0].counted, 1);
    }

    #[test]
    fn only_if_absent_leaves_what_is_found() {
        let mut it = filter(FilterRequest::default());
        let hash = it.hash(7);
        let twice =
            it.apply(|planner| [(); 2].map(|()| planner.add(hash, AddMode::OnlyIfAbsent).unwrap()));
        assert_eq!(twice.0, [AddResult::Added, AddResult::Exists]);
        assert_eq!(it.count(7), 1);
    }

    #[test]
    fn deleting_frees_slots_that_adds_use_again_in_any_sub_filter() {
        for mut request in kinds(500) {
            request.expansion = Some(1);
            reuse(request);
        }
    }

    fn reuse(request: FilterRequest) {
        let mut it = filter(request);
        let mut items = 0;
        while it.chain.sub_filters().len() < 3 {
            it.add(items);
            items += 1;
        }
        let grown = it.chain.sub_filters().len();
        for round in 0..20 {
            for n in 0..200 {
                assert!(it.delete(n), "round {round} item {n}");
            }
            for n in 0..200 {
                assert_eq!(it.add(n), AddResult::Added);
            }
        }
        assert_eq!(it.chain.items(), items);
        assert_eq!(it.chain.sub_filters().len(), grown);
        assert_eq!(it.chain.deletions(), 4_000);
        it.occupied();
    }

    #[test]
    fn what_is_planned_does_not_depend_on_what_was_at_hand() {
        for request in kinds(6_000) {
            with_pages_hidden(request);
        }
    }

    fn with_pages_hidden(request: FilterRequest) {
        let mut warm = filter(request.clone());
        let mut cold = filter(request);
        for batch in 0..20u64 {
            // Some items again and again.
            let hashes: Vec<ItemHash> = (batch * 600..(batch + 1) * 600)
                .map(|n| warm.hash(if n % 6 == 0 { n % 7 } else { n }))
                .collect();
            let expected = warm.apply(|planner| {
                hashes
                    .iter()
                    .map(|&hash| planner.add(hash, AddMode::Always))
                    .collect::<Vec<_>>()
            });
            // Every page starts hidden; what was asked for in vain is loaded
            // and the command planned again, as a lane does.
            let pages: Vec<PageAddress> = (cold.chain.sub_filters().iter().enumerate())
                .flat_map(|(position, sub)| {
                    (0..sub.layout.pages()).map(move |page| PageAddress {
                        sub: position as u32,
                        page,
                    })
                })
                .collect();
            cold.pages.hidden.extend(pages);
            let mut rounds = 0;
            let found = loop {
                let found = cold.apply(|planner| {
                    hashes
                        .iter()
                        .map(|&hash| planner.add(hash, AddMode::Always))
                        .collect::<Vec<_>>()
                });
                if found.1.is_some() {
                    break found;
                }
                let missed = std::mem::take(&mut cold.pages.missed);
                assert!(!missed.is_empty());
                for page in missed {
                    cold.pages.hidden.remove(&page);
                }
                rounds += 1;
                assert!(rounds < 40, "a plan must come to know all its pages");
            };
            assert_eq!(found, expected);
            cold.pages.hidden.clear();
            assert_eq!(cold.chain, warm.chain);
            assert_eq!(cold.pages, warm.pages);
        }
    }

    #[test]
    fn planning_over_pending_changes_equals_applying_them_first() {
        for request in kinds(300) {
            over_pending(request);
        }
    }

    fn over_pending(request: FilterRequest) {
        let mut one = filter(request.clone());
        let mut two = filter(request);
        let mut pending = Overlay::new();
        let mut chain = two.chain.clone();
        for n in 0..6_000 {
            let item = if n % 5 == 0 { n % 3 } else { n };
            one.add(item);
            let hash = two.hash(item);
            let basis = Basis {
                chain,
                pending: &pending,
                fresh_from: 1,
            };
            let mut planner = Planner::new(basis, &mut two.pages, &mut two.search);
            planner.add(hash, AddMode::Always).unwrap();
            let plan = planner.finish().unwrap();
            chain = plan.chain;
            pending.merge(plan.overlay);
        }
        two.pages.apply(&pending.changes());
        assert_eq!(chain, one.chain);
        assert_eq!(two.pages, one.pages);
    }

    fn hash_of(chain: &Chain, item: u64) -> ItemHash {
        chain.hash(&item.to_le_bytes())
    }

    /// Two items of one class in a newer sub-filter, and both in one filter:
    /// deleting newest-first must not take the only fingerprint of either.
    #[test]
    fn legitimate_deletes_over_five_sub_filters_never_fail_and_harm_nobody() {
        const SEED: u64 = 0x5eed;
        let requests = [
            FilterRequest {
                capacity: Some(20_000),
                fingerprint_bits: Some(8),
                ..Default::default()
            },
            FilterRequest {
                capacity: Some(20_000),
                bucket_size: Some(4),
                expansion: Some(2),
                ..Default::default()
            },
        ];
        for request in requests {
            let params = FilterParams::resolve(&request, &Defaults::default()).unwrap();
            let chain = Chain::new(params, HashKey([3; 16]), 0).unwrap();
            let mut it = ResidentFilter::new(chain);
            let mut random = SEED;
            let mut next = || {
                random ^= random << 13;
                random ^= random >> 7;
                random ^= random << 17;
                random
            };
            let mut held: Vec<u64> = Vec::new();
            let mut number = 0;
            let mut deletes = 0;
            while deletes < 1_000_000 {
                let grow = it.chain().sub_filters().len() < 5 || held.len() < 500_000;
                // One in eight is another copy of an item that is there.
                let items: Vec<u64> = (0..2_000)
                    .map(|_| match next() % 8 {
                        0 if !held.is_empty() => held[(next() % held.len() as u64) as usize],
                        _ => {
                            number += 1;
                            number
                        }
                    })
                    .collect();
                let hashes: Vec<ItemHash> = items
                    .iter()
                    .map(|&item| hash_of(it.chain(), item))
                    .collect();
                it.add(&hashes, AddMode::Always);
                held.extend(items);
                if grow {
                    continue;
                }
                let gone: Vec<ItemHash> = (0..20_000)
                    .map(|_| held.swap_remove((next() % held.len() as u64) as usize))
                    .map(|item| hash_of(it.chain(), item))
                    .collect();
                deletes += gone.len();
                let results = it.delete(&gone);
                assert!(
                    results.iter().all(|&found| found),
                    "seed {SEED:#x}: {request:?}"
                );
                assert_eq!(it.chain().items(), held.len() as u64);
            }
            assert!(it.chain().sub_filters().len() >= 5);
            let hashes: Vec<ItemHash> =
                held.iter().map(|&item| hash_of(it.chain(), item)).collect();
            let mut found = Vec::new();
            it.exists_all(&hashes, &mut found);
            assert!(
                found.iter().all(|&found| found),
                "seed {SEED:#x}: {request:?}"
            );
        }
    }

    #[test]
    fn adding_at_once_equals_adding_by_plans() {
        for mut request in kinds(2_000) {
            request.expansion = Some(2);
            let params = FilterParams::resolve(&request, &Defaults::default()).unwrap();
            let chain = Chain::new(params, HashKey([4; 16]), 0).unwrap();
            let [mut one, mut other] = [(); 2].map(|()| ResidentFilter::new(chain.clone()));
            let items: Vec<ItemHash> = (0..12_000)
                .map(|n| hash_of(&chain, if n % 5 == 0 { n % 3 } else { n }))
                .collect();
            for items in items.chunks(1_000) {
                let planned = one.add(items, AddMode::Always).results;
                assert_eq!(other.add_at_once(items, AddMode::Always), planned);
            }
            assert_eq!(one.chain(), other.chain());
            let grown = one.chain().clone();
            for (sub, of_chain) in (0..).zip(grown.sub_filters()) {
                for page in 0..of_chain.layout.pages() {
                    let address = PageAddress { sub, page };
                    assert_eq!(one.counters(address), other.counters(address));
                    for word in 0..(of_chain.layout.page_bytes() / 8) as u16 {
                        let at = WordAddress { sub, page, word };
                        assert_eq!(one.word(at), other.word(at), "{request:?}");
                    }
                }
            }
        }
    }

    #[test]
    fn asking_in_groups_equals_asking_one_by_one() {
        for mut request in kinds(2_000) {
            request.expansion = Some(2);
            let params = FilterParams::resolve(&request, &Defaults::default()).unwrap();
            let mut it = ResidentFilter::new(Chain::new(params, HashKey([4; 16]), 0).unwrap());
            let items: Vec<ItemHash> = (0..20_000).map(|n| hash_of(it.chain(), n)).collect();
            it.add(&items[..10_000], AddMode::Always);
            for length in [1, 31, 32, 33, 20_000] {
                let mut found = Vec::new();
                it.exists_all(&items[..length], &mut found);
                let one_by_one: Vec<bool> = items[..length]
                    .iter()
                    .map(|&item| it.exists(item))
                    .collect();
                assert_eq!(found, one_by_one, "{request:?}");
            }
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn a_chain_agrees_with_an_exact_multiset(
            kind in 0usize..8,
            expansion in prop_oneof![Just(1u64), Just(2), Just(4)],
            capacity in 64u64..3_000,
            steps in proptest::collection::vec((0u64..300, 0u8..10), 1..2_500),
        ) {
            let mut request = kinds(capacity).swap_remove(kind);
            request.expansion = Some(expansion);
            request.max_expansions = Some(200);
            let mut it = filter(request);
            let mut model: BTreeMap<u64, u64> = BTreeMap::new();
            for (item, kind) in steps {
                if kind < 6 {
                    prop_assert_eq!(it.add(item), AddResult::Added);
                    *model.entry(item).or_default() += 1;
                } else if let Some(copies) = model.get_mut(&item).filter(|copies| **copies > 0) {
                    prop_assert!(it.delete(item));
                    *copies -= 1;
                }
            }
            for (&item, &copies) in &model {
                prop_assert!(it.count(item) >= copies);
                prop_assert!(copies == 0 || it.exists(item));
            }
            let total: u64 = model.values().sum();
            prop_assert_eq!(it.chain.items(), total);
            it.occupied();
        }
    }
}
