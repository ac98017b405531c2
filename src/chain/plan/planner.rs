//! Adds and deletes, planned item by item.

use super::overlaid::OverlaidPages;
use super::overlay::Overlay;
use super::slots::Slots;
use crate::chain::address::{PageAddress, SlotAddress, WordAddress};
use crate::chain::counters::{self, CounterKey, MAX_COUNTERS};
use crate::chain::meta::{Chain, FullReason, MAX_ITEMS};
use crate::chain::pages::{Draft, PlanPages};
use crate::chain::read;
use crate::cuckoo::candidates::Candidates;
use crate::cuckoo::hash::ItemHash;
use crate::cuckoo::kick::KickSearch;
use crate::cuckoo::layout::Layout;

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

/// What the algorithm did, for the caller's metrics.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PlanStats {
    /// Kick-outs of each path that made room, one entry a path.
    pub kick_paths: Vec<u16>,
    /// Sub-filters appended.
    pub expansions: u32,
    /// Whether the filter grew beyond what its error rate is promised for.
    pub promise_ended: bool,
}

/// What to plan over: how the filter stands before the command.
pub struct PlanInput<'a> {
    /// The filter's description.
    pub chain: Chain,
    /// Changes planned before and not yet on the pages.
    pub pending: &'a Overlay,
    /// Sub-filters from this position on have no pages yet: all words are 0.
    pub fresh_from: u32,
}

/// A finished plan.
pub struct Plan {
    /// The filter's description afterwards.
    pub chain: Chain,
    /// What changes in the pages.
    pub overlay: Overlay,
    /// What the algorithm did.
    pub stats: PlanStats,
}

/// A command's items, planned one after another.
pub struct Planner<'a, D> {
    pub(super) chain: Chain,
    pub(super) slots: Slots<D>,
    search: &'a mut KickSearch,
    /// Searches for kick-outs, whatever they found.
    pub(super) searches: u32,
    stats: PlanStats,
    /// Whether every page was at hand so far.
    pub(super) complete: bool,
}

impl<'a, P: PlanPages> Planner<'a, OverlaidPages<'a, P>> {
    /// Starts a plan over an overlay.
    pub fn new(input: PlanInput<'a>, pages: &'a mut P, search: &'a mut KickSearch) -> Self {
        let draft = OverlaidPages::new(input.pending, input.fresh_from, pages);
        Planner::on(draft, input.chain, search)
    }

    /// Makes room for the changes of so many items.
    pub fn reserve(&mut self, items: usize) {
        self.slots.draft.overlay.reserve(items);
    }

    /// The plan, or `None` if a page was not at hand.
    pub fn finish(self) -> Option<Plan> {
        self.complete.then_some(Plan {
            chain: self.chain,
            overlay: self.slots.draft.overlay,
            stats: self.stats,
        })
    }
}

impl<'a, D: Draft> Planner<'a, D> {
    /// Starts to change a draft that has all pages at hand.
    pub fn on(draft: D, chain: Chain, search: &'a mut KickSearch) -> Self {
        Planner {
            chain,
            slots: Slots {
                draft,
                missing: false,
            },
            search,
            searches: 0,
            stats: PlanStats::default(),
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
        self.slots
            .draft
            .expect(words.get(..named).unwrap_or_default());
    }

    /// Plans an add. `None`: a page was not at hand; the plan can't be
    /// finished, but going on finds out which other pages are needed.
    ///
    /// Looks at up to two pages a sub-filter, and where no slot is empty at no
    /// more than
    /// [`MAX_PAGES_PER_SEARCH`](crate::cuckoo::layout::MAX_PAGES_PER_SEARCH).
    pub fn add(&mut self, hash: ItemHash, mode: AddMode) -> Option<AddResult> {
        if mode == AddMode::OnlyIfAbsent && self.exists(hash)? {
            return Some(AddResult::Exists);
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
        let found = read::exists(&self.chain, hash, &mut self.slots.draft);
        self.known(found)
    }

    /// How often the item is found, what was planned before included.
    pub fn count(&mut self, hash: ItemHash) -> Option<u64> {
        let found = read::count(&self.chain, hash, &mut self.slots.draft);
        self.known(found)
    }

    /// Turns "found nothing" into "not known" if a word was missing on the
    /// way: what would have been there decides the order of trying.
    pub(super) fn settled<T>(&mut self, found: Option<T>) -> Option<Option<T>> {
        if std::mem::take(&mut self.slots.missing) {
            self.complete = false;
            return None;
        }
        Some(found)
    }

    /// Notes that the plan can't be finished if something is not known.
    pub(super) fn known<T>(&mut self, answer: Option<T>) -> Option<T> {
        self.slots.missing = false;
        self.complete &= answer.is_some();
        answer
    }

    /// Position of the newest sub-filter that takes adds.
    fn newest(&self) -> Option<usize> {
        self.chain.open().checked_sub(1)
    }

    /// Counts one more copy of a class that has its share of slots, or takes
    /// a free slot among the candidates, newest sub-filter first. Returns the
    /// position of the sub-filter.
    pub(super) fn count_or_place(&mut self, entry: impl Locate) -> Option<usize> {
        let newest = self.newest()?;
        for position in (0..=newest).rev() {
            let sub = *self.chain.sub_filters().get(position)?;
            let candidates = entry.candidates(&sub.layout);
            let probes = self.slots.probe(position, &sub.layout, &candidates);
            let [first, second] = &probes;
            if position == newest
                && first.matches + second.matches >= sub.layout.class_limit(&candidates)
                && self.chain.items() < MAX_ITEMS
                && self.count_copies(position, &candidates, 1).is_some()
            {
                return Some(position);
            }
            if !sub.has_room() {
                continue;
            }
            let second_first =
                self.slots
                    .second_is_emptier(position, &sub.layout, &candidates, &probes);
            let free = match second_first {
                true => second.free.or(first.free),
                false => first.free.or(second.free),
            };
            if let Some(free) = free {
                self.fill(position, &sub.layout, free, &candidates);
                return Some(position);
            }
        }
        None
    }

    /// Counts more copies of a class beside its slots, unless its page has too
    /// many counters.
    pub(super) fn count_copies(
        &mut self,
        position: usize,
        class: &Candidates,
        more: u64,
    ) -> Option<()> {
        let sub = self.chain.sub_filters().get(position)?;
        let (page, key) = counters::address(&sub.layout, position, class);
        let copies = self.slots.counter(page, key)?;
        if copies == 0 && self.slots.counters(page)? >= MAX_COUNTERS {
            return None;
        }
        self.set_counter(page, key, copies, copies + more);
        Some(())
    }

    /// Puts an item's fingerprint into a free slot.
    fn fill(&mut self, position: usize, layout: &Layout, free: SlotAddress, item: &Candidates) {
        self.slots.write(layout, free, item.fingerprint.0);
        self.chain.note_filled(position);
    }

    /// Clears a slot.
    pub(super) fn clear(&mut self, position: usize, layout: &Layout, slot: SlotAddress) {
        self.slots.write(layout, slot, 0);
        self.chain.note_cleared(position);
    }

    /// Sets a side counter that was `before`.
    pub(super) fn set_counter(
        &mut self,
        page: PageAddress,
        key: CounterKey,
        before: u64,
        after: u64,
    ) {
        self.slots.set_counter(page, key, before, after);
        self.chain.note_counted(page.sub as usize, before, after);
    }

    /// Makes room in a sub-filter along a shortest path of kick-outs. Returns
    /// its position.
    pub(super) fn kick_out(&mut self, position: usize, entry: impl Locate) -> Option<usize> {
        let sub = *self.chain.sub_filters().get(position)?;
        if !sub.has_room() {
            return None;
        }
        let (layout, candidates) = (sub.layout, entry.candidates(&sub.layout));
        let probes = self.slots.probe(position, &layout, &candidates);
        let mut roots = [candidates.first, candidates.second];
        if self
            .slots
            .second_is_emptier(position, &layout, &candidates, &probes)
        {
            roots.reverse();
        }
        let longest = self.chain.params().max_iterations().unwrap_or(u16::MAX);
        self.searches += 1;
        self.search
            .start(roots.into_iter(), layout.search_bounds(), longest);
        let mut slots = [0u32; u8::MAX as usize];
        while let Some(bucket) = self.search.next_bucket() {
            match self
                .slots
                .read_bucket(position, &layout, bucket, &mut slots)
            {
                Some(slots) => {
                    self.search.look(&layout, slots);
                    for bucket in self.search.added() {
                        let word = read::first_word(&layout, position, bucket);
                        self.slots.draft.prefetch(word);
                    }
                }
                None => self.search.pass(),
            }
        }
        let mut free = SlotAddress::of(position, &layout, self.search.empty_slot()?);
        if self.slots.missing {
            return None;
        }
        let mut kick_outs = 0u16;
        for step in self.search.moves() {
            let from = SlotAddress::of(position, &layout, step.from);
            self.slots.relocate(&layout, from, free);
            free = from;
            kick_outs += 1;
        }
        self.fill(position, &layout, free, &candidates);
        self.stats.kick_paths.push(kick_outs);
        Some(position)
    }

    /// Appends a sub-filter and puts the item into its first candidate.
    fn expand(&mut self, hash: ItemHash) -> AddResult {
        let kept = self.chain.keeps_promise();
        if let Err(reason) = self.chain.grow() {
            return AddResult::Full(reason);
        }
        self.slots.draft.note_grown(&self.chain);
        self.stats.expansions += 1;
        self.stats.promise_ended |= kept && !self.chain.keeps_promise();
        // All slots of the new sub-filter are free.
        match self.count_or_place(hash) {
            Some(_) => AddResult::Added,
            None => AddResult::Full(FullReason::MaxFilterBytes),
        }
    }

    /// Takes a counted copy away or clears a slot, newest sub-filter first.
    fn clear_match(&mut self, hash: ItemHash) -> Option<()> {
        for position in (0..self.chain.sub_filters().len()).rev() {
            let layout = self.chain.sub_filters().get(position)?.layout;
            let candidates = layout.candidates(hash);
            let [first, second] = self.slots.probe(position, &layout, &candidates);
            let Some(matching) = first.matching.or(second.matching) else {
                continue;
            };
            let (page, key) = counters::address(&layout, position, &candidates);
            match self.slots.counter(page, key) {
                None => continue,
                Some(0) => self.clear(position, &layout, matching),
                Some(copies) => self.set_counter(page, key, copies, copies - 1),
            }
            self.chain.note_deletion();
            return Some(());
        }
        None
    }
}

/// What has candidate buckets in every sub-filter: an item, or an entry of a
/// newer one.
pub(super) trait Locate: Copy {
    /// Its fingerprint and candidate buckets in a sub-filter.
    fn candidates(self, layout: &Layout) -> Candidates;
}

impl Locate for ItemHash {
    #[inline]
    fn candidates(self, layout: &Layout) -> Candidates {
        layout.candidates(self)
    }
}
