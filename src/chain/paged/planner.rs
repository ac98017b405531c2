//! Adds and deletes, planned item by item.

use super::bucket::{Bucket, SlotOf};
use super::read::{Match, Probe};
use super::table::Table;
use crate::chain::counters::MAX_COUNTERS;
use crate::chain::meta::{FullReason, MAX_ITEMS};
use crate::chain::pages::Draft;
use crate::chain::params::GrowthBounds;
use crate::chain::plan::{
    AddResult, FutileSearches, PROBE, PlanStats, WRITTEN_COUNTER, WRITTEN_WORD,
};
use crate::cuckoo::bucket::{self, SlotWidth};
use crate::cuckoo::hash::ItemHash;
use crate::cuckoo::kick::KickSearch;

/// Pages that an add may split because there is no other way: each of them is
/// one that the item may have nothing to do with.
const MAX_FORCED_SPLITS: u32 = 16;

/// What a split or a merge costs, in the units of
/// [`Planner::spent`](crate::chain::plan::Planner::spent): each slot of the
/// pages is looked at and written, in the record too.
const PAGES_OF_PAIR: u64 = 600;

/// The rules of adds and deletes, over a table and the draft of its pages.
///
/// A method that returns `None` found that a page was not at hand: the plan
/// can't be finished, but going on finds out which other pages are needed.
pub struct PagePlanner<'a, D> {
    pub(in crate::chain) table: &'a mut Table,
    pub(in crate::chain) bounds: GrowthBounds,
    pub(in crate::chain) draft: &'a mut D,
    pub(in crate::chain) search: &'a mut KickSearch,
    pub(in crate::chain) stats: &'a mut PlanStats,
    pub(in crate::chain) futile: &'a mut FutileSearches,
    /// What was spent.
    pub(in crate::chain) spent: &'a mut u64,
}

impl<D: Draft> PagePlanner<'_, D> {
    /// Plans an add, whatever it takes. The look at its buckets that showed that it
    /// takes more was charged by the caller; it looks again.
    #[inline(never)]
    pub(super) fn add(&mut self, hash: ItemHash) -> Option<AddResult> {
        let splits = self.stats.splits;
        let added = self.try_add(hash);
        if added == Some(AddResult::Added) {
            self.table.items += 1;
        }
        self.stats.max_splits = self.stats.max_splits.max(self.stats.splits - splits);
        added
    }

    /// Plans a delete and says whether there was a match to take away.
    pub fn delete(&mut self, hash: ItemHash) -> Option<bool> {
        self.spend(PROBE);
        self.try_delete(hash)
    }

    /// Counts what was done.
    #[inline]
    pub(super) fn spend(&mut self, units: u64) {
        *self.spent += units;
    }

    /// Counts a pair of pages that were split or merged.
    pub(super) fn spend_pair(&mut self) {
        self.spend(PAGES_OF_PAIR);
    }

    fn try_add(&mut self, hash: ItemHash) -> Option<AddResult> {
        let mut probe = self.probe(hash)?;
        let layout = self.table.layout;
        if let Some(longest) = probe.longest(&layout)
            && self.count_copy(&longest)?
        {
            return Some(AddResult::Added);
        }
        if self.table.is_split_due() {
            self.split_as_due()?;
            probe = self.probe(hash)?;
        }
        let layout = self.table.layout;
        match self.put(&layout, &probe)? {
            true => Some(AddResult::Added),
            false => self.add_to_full(hash),
        }
    }

    /// Adds an item to whose candidate buckets are full.
    #[inline(never)]
    fn add_to_full(&mut self, hash: ItemHash) -> Option<AddResult> {
        for splits in 0.. {
            if self.kick_out(hash)? || self.make_room(hash)? {
                return Some(AddResult::Added);
            }
            if splits == MAX_FORCED_SPLITS {
                break;
            }
            if let Err(end) = self.split()? {
                self.futile.note_refusal();
                return Some(AddResult::Full(end));
            }
            self.stats.forced_splits += 1;
            let (layout, probe) = (self.table.layout, self.probe(hash)?);
            if self.put(&layout, &probe)? {
                return Some(AddResult::Added);
            }
        }
        Some(AddResult::Full(FullReason::GrowthLimit))
    }

    /// Splits the pages that are due once there is one entry more. The entry is
    /// not there yet; a page more or less is nothing to the thresholds.
    fn split_as_due(&mut self) -> Option<()> {
        while self.table.is_split_due() {
            if self.split()?.is_err() {
                break;
            }
        }
        Some(())
    }

    /// Takes in an item for which kick-outs found no room: where two slots in
    /// the way are equal, one of them is counted with the other from then on.
    fn make_room(&mut self, hash: ItemHash) -> Option<bool> {
        while self.fold(hash)? {
            let (layout, probe) = (self.table.layout, self.probe(hash)?);
            if self.put(&layout, &probe)? || self.kick_out(hash)? {
                return Some(true);
            }
        }
        Some(false)
    }

    fn probe(&mut self, hash: ItemHash) -> Option<Probe> {
        Probe::read(&self.table.layout, hash, self.draft)
    }

    /// Counts an item with a match of it, if there is room for a counter. Says
    /// whether there was.
    fn count_copy(&mut self, with: &Match) -> Option<bool> {
        let (page, key) = with.class(&self.table.layout);
        let copies = self.draft.counter(page, key)?;
        if copies == 0 && self.draft.counters(page)? >= MAX_COUNTERS
            || self.table.occupied + self.table.counted >= MAX_ITEMS
        {
            return Some(false);
        }
        self.spend(WRITTEN_COUNTER);
        self.draft
            .set_counter(page, key, copies + 1, i32::from(copies == 0));
        self.table.counted += 1;
        Some(true)
    }

    /// Frees a slot of the item's buckets whose equal lies in the same bucket:
    /// it becomes a copy that is counted. Says whether there was one.
    fn fold(&mut self, hash: ItemHash) -> Option<bool> {
        let layout = self.table.layout;
        let code = layout.code();
        for candidate in layout.candidates(hash) {
            let bucket = Bucket::read(&layout, candidate.bucket, self.draft)?;
            let slots = || bucket.slots(&layout);
            let has_equal =
                |(at, slot): &(usize, u32)| *slot != 0 && slots().take(*at).any(|it| it == *slot);
            let Some((at, held)) = slots().enumerate().find(has_equal) else {
                continue;
            };
            let equal = Match {
                bucket: candidate.bucket,
                slot: bucket.slot(code.width(), at as u8),
                held,
                known: code.known(held, candidate.level.into()),
            };
            if self.count_copy(&equal)? {
                self.clear(&equal);
                return Some(true);
            }
        }
        Some(false)
    }

    /// Takes the longest match away; of equally long ones a counted copy before
    /// a slot.
    fn try_delete(&mut self, hash: ItemHash) -> Option<bool> {
        let layout = self.table.layout;
        let probe = self.probe(hash)?;
        let Some(longest) = probe.longest(&layout) else {
            return Some(false);
        };
        self.table.items = self.table.items.saturating_sub(1);
        let equally_long = probe
            .matches(&layout)
            .filter(|it| it.known == longest.known);
        for one in equally_long {
            let (page, key) = one.class(&layout);
            let copies = self.draft.counter(page, key)?;
            if copies > 0 {
                self.spend(WRITTEN_COUNTER);
                self.draft
                    .set_counter(page, key, copies - 1, -i32::from(copies == 1));
                self.table.counted -= 1;
                return Some(true);
            }
        }
        self.clear(&longest);
        self.merge_as_due()?;
        Some(true)
    }

    /// Clears the slot of a match.
    fn clear(&mut self, one: &Match) {
        let width = self.table.layout.code().width();
        self.write(width, &one.slot, 0, -1);
        self.table.forget_entry(one.known);
    }

    /// Writes a slot as it was read, of which there are `more` in use then; 0
    /// clears it.
    #[inline(always)]
    pub(super) fn write(&mut self, width: SlotWidth, to: &SlotOf, slot: u32, more: i32) {
        self.spend(WRITTEN_WORD);
        let word = bucket::set(width, to.word, to.lane, slot);
        self.draft.set_slot(to.at, word, to.lane, more);
    }
}
