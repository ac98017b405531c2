//! Adds and deletes, planned item by item.

use super::links::{LinkBuckets, Missing};
use super::overlaid::OverlaidPages;
use super::overlay::Overlay;
use crate::chain::address::{SlotAddress, WordAddress};
use crate::chain::counters::{self, MAX_COUNTERS};
use crate::chain::futile::FutileSearches;
use crate::chain::meta::{Chain, FullReason, MAX_ITEMS};
use crate::chain::outcome::{
    AddMode, AddResult, COMPARED_SLOTS, PROBE, PlanStats, ReplaceResult, SEARCHED_BUCKET,
    SLOTS_PER_UNIT, Swept,
};
#[cfg(test)]
use crate::chain::paged::values::ValueCopies;
use crate::chain::paged::{self, PagePlanner};
use crate::chain::pages::GROUP;
use crate::chain::pages::{Draft, PlanPages};
use crate::chain::params::Epoch;
use crate::chain::read;
#[cfg(test)]
use crate::chain::rows::RowTest;
use crate::cuckoo::candidates::Candidates;
use crate::cuckoo::classic::{self, Classic};
use crate::cuckoo::hash::ItemHash;
use crate::cuckoo::kick::KickSearch;

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
    /// Searches in vain up to its end.
    pub futile: FutileSearches,
}

/// A plan that is not finished: as far as it came, and to be resumed with the
/// same input. Where it was cut changes nothing of what is planned.
#[derive(Default)]
pub struct PartialPlan {
    /// What changes so far. Before anything is done, it may be replaced by an overlay
    /// without a change, whose memory is used then.
    pub overlay: Overlay,
    futile: FutileSearches,
    stats: PlanStats,
    incomplete: bool,
    /// What was spent on it so far, see [`Planner::spent`].
    pub spent: u64,
}

impl PartialPlan {
    /// One of which nothing is done, after commands whose last searches were in vain.
    pub fn after(futile: FutileSearches) -> PartialPlan {
        PartialPlan {
            futile: FutileSearches::before_next(futile.count()),
            ..PartialPlan::default()
        }
    }

    /// The plan, or `None` if a page was not at hand; with the chain that came
    /// of it.
    pub fn finish(self, chain: Chain) -> Option<Plan> {
        (!self.incomplete).then_some(Plan {
            chain,
            overlay: self.overlay,
            stats: self.stats,
            futile: self.futile,
        })
    }
}

/// A command's items, planned one after another.
pub struct Planner<'a, D> {
    pub(super) chain: Chain,
    pub(super) draft: D,
    search: &'a mut KickSearch,
    pub(super) futile: FutileSearches,
    stats: PlanStats,
    pub(super) missing: Missing,
    /// Whether every page was at hand so far.
    pub(super) complete: bool,
    /// What planning has cost so far, in units of about 100 nanoseconds: looks
    /// at buckets, searches for room, words to be written. It depends on
    /// nothing but the commands and the pages.
    pub spent: u64,
    /// The moment of the command, in milliseconds since 1970.
    now_ms: u64,
}

impl<'a, P: PlanPages> Planner<'a, OverlaidPages<'a, P>> {
    /// Starts a plan over an overlay.
    pub fn new(input: PlanInput<'a>, pages: &'a mut P, search: &'a mut KickSearch) -> Self {
        Planner::resume(PartialPlan::default(), input, pages, search)
    }

    /// Goes on with a plan that was suspended; the chain of the input is the
    /// one that came of that.
    pub fn resume(
        partial: PartialPlan,
        input: PlanInput<'a>,
        pages: &'a mut P,
        search: &'a mut KickSearch,
    ) -> Self {
        let mut draft = OverlaidPages::new(input.pending, input.fresh_from, pages);
        draft.overlay = partial.overlay;
        Planner {
            futile: partial.futile,
            stats: partial.stats,
            complete: !partial.incomplete,
            spent: partial.spent,
            ..Planner::on(draft, input.chain, search)
        }
    }

    /// Leaves off between two items.
    pub fn suspend(self) -> (Chain, PartialPlan) {
        let partial = PartialPlan {
            overlay: self.draft.overlay,
            futile: self.futile,
            stats: self.stats,
            incomplete: !self.complete,
            spent: self.spent,
        };
        (self.chain, partial)
    }

    /// Makes room for the changes of so many items.
    pub fn reserve(&mut self, items: usize) {
        self.draft.overlay.reserve(items);
    }

    /// The plan, or `None` if a page was not at hand.
    pub fn finish(self) -> Option<Plan> {
        let (chain, partial) = self.suspend();
        partial.finish(chain)
    }
}

impl<'a, D: Draft> Planner<'a, D> {
    /// Starts to change a draft that has all pages at hand.
    pub fn on(draft: D, chain: Chain, search: &'a mut KickSearch) -> Self {
        Planner {
            chain,
            draft,
            search,
            futile: FutileSearches::default(),
            stats: PlanStats::default(),
            missing: Missing::default(),
            complete: true,
            spent: 0,
            now_ms: 0,
        }
    }

    /// Works as of a moment, in milliseconds since 1970: items that expire have
    /// done so by then.
    pub fn at(&mut self, now_ms: u64) {
        self.now_ms = now_ms;
    }

    /// Counts what was done.
    #[inline]
    pub(super) fn spend(&mut self, units: u64) {
        self.spent += units;
    }

    /// What a look at an item's buckets in one sub-filter costs.
    #[inline]
    pub(super) fn units_of_look(&self) -> u64 {
        PROBE + u64::from(self.chain.params().bucket_size()) / COMPARED_SLOTS
    }

    /// The chain and the draft as they are by now, and what was done.
    pub fn into_parts(self) -> (Chain, D, PlanStats) {
        (self.chain, self.draft, self.stats)
    }

    /// The rules of a filter that splits pages, if it is one.
    #[inline]
    pub(super) fn paged(&mut self) -> Option<PagePlanner<'_, D>> {
        let bounds = self.chain.params().growth_bounds();
        Some(PagePlanner {
            bounds,
            table: self.chain.table_mut()?,
            draft: &mut self.draft,
            search: self.search,
            stats: &mut self.stats,
            futile: &mut self.futile,
            spent: &mut self.spent,
        })
    }

    /// Says that a group of items, up to [`GROUP`], comes next:
    /// their candidates in the newest sub-filter, where most adds end, are
    /// asked for together.
    #[inline]
    pub fn expect(&mut self, items: &[ItemHash]) {
        let mut words = [[WordAddress::default(); 2]; GROUP];
        let newest = self.chain.open() - 1;
        if let Some(table) = self.chain.table() {
            let layout = &table.layout;
            for (&hash, words) in items.iter().zip(&mut words) {
                *words = paged::read::first_words(layout, &layout.candidates(hash));
            }
        } else if let Some(link) = self.chain.links().get(newest) {
            for (&hash, words) in items.iter().zip(&mut words) {
                let candidates = link.layout.candidates(hash);
                *words = [candidates.first, candidates.second]
                    .map(|bucket| read::first_word(&link.layout, newest, bucket));
            }
        }
        let named = words.get(..items.len()).unwrap_or(&words);
        self.draft.expect(named.as_flattened());
    }

    /// Plans adds of items one after another, until so much is spent. Returns
    /// how many it worked on; `each` gets what [`add`](Self::add) returns.
    pub fn add_all(
        &mut self,
        items: &[ItemHash],
        mode: AddMode,
        until: u64,
        mut each: impl FnMut(Option<AddResult>),
    ) -> usize {
        let (mut left, mut results) = (items, [None; GROUP]);
        while !left.is_empty() {
            let group = left.get(..GROUP).unwrap_or(left);
            let worked_on = self.add_group(group, mode, until, &mut results);
            results.iter().take(worked_on).for_each(|&it| each(it));
            left = left.get(worked_on..).unwrap_or_default();
            if self.spent >= until {
                break;
            }
        }
        items.len() - left.len()
    }

    /// Plans an add. `None`: a page was not at hand; the plan can't be
    /// finished, but going on finds out which other pages are needed.
    ///
    /// Looks at up to two pages a sub-filter, and where no slot is empty at no
    /// more than
    /// [`MAX_PAGES_PER_SEARCH`](crate::cuckoo::kick::MAX_PAGES_PER_SEARCH).
    /// A command whose searches were in vain a few times in a row, in a filter that
    /// may not grow, searches no more.
    pub fn add(&mut self, hash: ItemHash, mode: AddMode) -> Option<AddResult> {
        let mut results = [None; GROUP];
        self.add_group(&[hash], mode, u64::MAX, &mut results);
        let [result, ..] = results;
        result
    }

    /// Plans adds of up to [`GROUP`] items, or of the first of them. Returns of
    /// how many.
    fn add_group(
        &mut self,
        items: &[ItemHash],
        mode: AddMode,
        until: u64,
        results: &mut [Option<AddResult>; GROUP],
    ) -> usize {
        let kept = self.chain.is_within_promise();
        self.chain.advance(self.now_ms);
        let Some(mut paged) = self.paged() else {
            self.expect(items);
            for (done, (&hash, result)) in items.iter().zip(results).enumerate() {
                *result = match mode {
                    AddMode::OnlyIfAbsent => self.add_if_absent(hash),
                    AddMode::Always => self.add_to_links(hash),
                };
                if self.spent >= until {
                    return done + 1;
                }
            }
            return items.len().min(GROUP);
        };
        let worked_on = match paged.table.epochs.is_some() {
            true => paged.see_group(items, mode, until, results),
            false => paged.add_group(items, mode, until, results),
        };
        self.complete &= results.iter().take(worked_on).all(Option::is_some);
        self.stats.promise_ended |= kept && !self.chain.is_within_promise();
        worked_on
    }

    fn add_if_absent(&mut self, hash: ItemHash) -> Option<AddResult> {
        match self.exists(hash, None)? {
            true => Some(AddResult::Exists),
            false => self.add_to_links(hash),
        }
    }

    /// Plans an add of a value of the item, to a filter with values. `None` as
    /// for [`add`](Self::add).
    pub fn add_value(&mut self, hash: ItemHash, value: u32, mode: AddMode) -> Option<AddResult> {
        if mode == AddMode::OnlyIfAbsent && self.has_value(hash, value)? {
            return Some(AddResult::Exists);
        }
        let kept = self.chain.is_within_promise();
        self.spend(PROBE);
        let added = self.paged()?.add(hash, value);
        self.stats.promise_ended |= kept && !self.chain.is_within_promise();
        self.known(added)
    }

    fn add_to_links(&mut self, hash: ItemHash) -> Option<AddResult> {
        let candidates = |layout: &Classic| layout.candidates(hash);
        let placed = self.count_or_place(candidates);
        if self.settled(placed)?.is_some() {
            return Some(AddResult::Added);
        }
        if self.futile.may_search() {
            let newest = self.chain.open().checked_sub(1)?;
            let kicked = self.kick_out(newest, candidates);
            if self.settled(kicked)?.is_some() {
                self.futile.reset();
                return Some(AddResult::Added);
            }
        }
        if self.chain.reopen() {
            self.futile.reset();
            return self.add_to_links(hash);
        }
        let added = self.expand(hash);
        match added {
            AddResult::Added => self.futile.reset(),
            _ => self.futile.count_refusal(),
        }
        Some(added)
    }

    /// Plans a delete and says whether there was a match to clear. `None` as
    /// for [`add`](Self::add).
    pub fn delete(&mut self, hash: ItemHash) -> Option<bool> {
        self.delete_value(hash, 0)
    }

    /// The same of a value of the item; of a filter without values 0.
    pub fn delete_value(&mut self, hash: ItemHash, value: u32) -> Option<bool> {
        let deleted = match self.paged() {
            Some(mut paged) => {
                let deleted = paged.delete(hash, value);
                self.known(deleted)
            }
            None => {
                let cleared = self.clear_match(hash);
                self.settled(cleared).map(|cleared| cleared.is_some())
            }
        };
        if deleted == Some(true) {
            self.futile.reset();
            self.chain.count_deletion();
        }
        deleted
    }

    /// Plans that a value of the item becomes another. `None` as for
    /// [`add`](Self::add).
    pub fn replace_value(&mut self, hash: ItemHash, from: u32, to: u32) -> Option<ReplaceResult> {
        let kept = self.chain.is_within_promise();
        let replaced = self.paged()?.replace(hash, from, to);
        self.stats.promise_ended |= kept && !self.chain.is_within_promise();
        self.known(replaced)
    }

    /// Whether the item is found, what was planned before included. Where items
    /// expire: whether it was seen in that epoch or later; `None`: within the window.
    pub fn exists(&mut self, hash: ItemHash, since: Option<Epoch>) -> Option<bool> {
        self.spend(self.units_of_look() * self.chain.sub_filter_count() as u64);
        let found = match since.or_else(|| self.chain.oldest_epoch(self.now_ms, None)) {
            Some(oldest) => read::seen(&self.chain, hash, oldest, &mut self.draft),
            None => read::exists(&self.chain, hash, &mut self.draft),
        };
        self.known(found)
    }

    /// Plans that up to so many pages from one on are rid of what has expired
    /// there, and that as many are merged if the filter has become sparse. `None`
    /// as for [`add`](Self::add).
    pub fn sweep(&mut self, from: u32, pages: u32) -> Option<Swept> {
        self.chain.advance(self.now_ms);
        let swept = self.paged()?.sweep(from, pages);
        self.known(swept)
    }

    /// Whether the item has a value, what was planned before included.
    pub fn has_value(&mut self, hash: ItemHash, value: u32) -> Option<bool> {
        self.spend(PROBE);
        let found = read::has_value(&self.chain, hash, value, &mut self.draft);
        self.known(found)
    }

    /// Whether one row of the item meets a condition, what was planned before
    /// included.
    #[cfg(test)]
    pub fn has_row(&mut self, hash: ItemHash, test: &RowTest) -> Option<bool> {
        self.spend(PROBE);
        let found = read::has_row(&self.chain, hash, test, &mut self.draft);
        self.known(found)
    }

    /// The values of the item, what was planned before included.
    #[cfg(test)]
    pub fn values(&mut self, hash: ItemHash) -> Option<Vec<ValueCopies>> {
        self.spend(PROBE);
        let found = read::values(&self.chain, hash, &mut self.draft);
        let listed = found.as_ref().map_or(0, Vec::len);
        self.spend(listed as u64 / paged::COUNTERS_PER_UNIT);
        self.known(found)
    }

    /// How often the item is found, what was planned before included.
    pub fn count(&mut self, hash: ItemHash) -> Option<u64> {
        self.spend(self.units_of_look() * self.chain.sub_filter_count() as u64);
        if self.chain.params().window().is_some() {
            return self.exists(hash, None).map(u64::from);
        }
        let found = read::count(&self.chain, hash, &mut self.draft);
        self.known(found)
    }

    /// Notes whether a page was not at hand.
    #[inline]
    pub(super) fn known<T>(&mut self, found: Option<T>) -> Option<T> {
        self.complete &= found.is_some();
        found
    }

    /// Turns "found nothing" into "not known" if a word was missing on the
    /// way: what would have been there decides the order of trying.
    pub(super) fn settled<T>(&mut self, found: Option<T>) -> Option<Option<T>> {
        let known = !std::mem::take(&mut self.missing.0);
        self.complete &= known;
        known.then_some(found)
    }

    /// Counts one more copy of a class that has its share of slots, or takes
    /// a free slot among the candidates that it has in each sub-filter, newest
    /// first. Returns the position of the sub-filter.
    pub(super) fn count_or_place(
        &mut self,
        candidates: impl Fn(&Classic) -> Candidates,
    ) -> Option<usize> {
        let newest = self.chain.open().checked_sub(1)?;
        for position in (0..=newest).rev() {
            let link = *self.chain.links().get(position)?;
            let candidates = candidates(&link.layout);
            let probes = self.probe(position, &link.layout, &candidates);
            let [first, second] = &probes;
            if position == newest
                && first.matches + second.matches >= link.layout.class_limit(&candidates)
                && self.chain.items() < MAX_ITEMS
                && self.count_copies(position, &candidates, 1).is_some()
            {
                return Some(position);
            }
            if let Some(free) = first.free.or(second.free) {
                self.write(free, candidates.fingerprint.0);
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
        let link = self.chain.links().get(position)?;
        let (page, key) = counters::address(&link.layout, position, class);
        let copies = self.missing.check(self.draft.counter(page, key))?;
        if copies == 0 && self.missing.check(self.draft.counters(page))? >= MAX_COUNTERS {
            return None;
        }
        self.set_counter(page, key, copies, copies + more);
        Some(())
    }

    /// Makes room in a sub-filter along a shortest path of kick-outs. Returns
    /// its position.
    pub(super) fn kick_out(
        &mut self,
        position: usize,
        candidates: impl Fn(&Classic) -> Candidates,
    ) -> Option<usize> {
        let link = *self.chain.links().get(position)?;
        let (layout, candidates) = (link.layout, candidates(&link.layout));
        let roots = [candidates.first, candidates.second];
        let longest = self.chain.params().max_iterations().unwrap_or(u16::MAX);
        let mut buckets = LinkBuckets {
            layout,
            position,
            draft: &mut self.draft,
            missing: &mut self.missing,
        };
        let roots = roots.into_iter();
        let free = self
            .search
            .find(roots, classic::SEARCH, longest, &mut buckets);
        let per_bucket = SEARCHED_BUCKET + u64::from(layout.bucket_size()) / SLOTS_PER_UNIT;
        self.spend(per_bucket * self.search.looked_at());
        let free = free.filter(|_| !self.missing.0)?;
        let mut moves = 0;
        while let Some(&step) = self.search.moves.get(moves) {
            let [from, to] = [step.from, step.to].map(|it| SlotAddress::of(position, &layout, it));
            self.relocate(from, to);
            moves += 1;
        }
        let free = SlotAddress::of(position, &layout, free);
        self.write(free, candidates.fingerprint.0);
        self.stats.kick_paths.push(moves as u16);
        Some(position)
    }

    /// Appends a sub-filter and puts the item into its first candidate.
    fn expand(&mut self, hash: ItemHash) -> AddResult {
        if let Err(reason) = self.chain.grow() {
            return AddResult::Full(reason);
        }
        self.draft.add_sub_filters(&self.chain);
        self.stats.expansions += 1;
        // All slots of the new sub-filter are free.
        match self.count_or_place(|layout| layout.candidates(hash)) {
            Some(_) => AddResult::Added,
            None => AddResult::Full(FullReason::MaxFilterBytes),
        }
    }

    /// Takes a counted copy away or clears a slot, newest sub-filter first.
    fn clear_match(&mut self, hash: ItemHash) -> Option<()> {
        let links = self.chain.links().iter().len();
        for position in (0..links).rev() {
            let layout = self.chain.links().get(position)?.layout;
            let candidates = layout.candidates(hash);
            let [first, second] = self.probe(position, &layout, &candidates);
            let Some(matching) = first.matching.or(second.matching) else {
                continue;
            };
            let (page, key) = counters::address(&layout, position, &candidates);
            match self.missing.check(self.draft.counter(page, key)) {
                None => continue,
                Some(0) => self.write(matching, 0),
                Some(copies) => self.set_counter(page, key, copies, copies - 1),
            }
            return Some(());
        }
        None
    }
}
