//! Adds and deletes, planned item by item.

use super::bucket::{Bucket, SlotOf};
use super::read::{Match, Probe};
use super::values;
use crate::chain::counters::most_counters;
use crate::chain::futile::FutileSearches;
use crate::chain::meta::FullReason;
use crate::chain::meta::Table;
use crate::chain::outcome::{AddResult, PROBE, PlanStats, WRITTEN_COUNTER, WRITTEN_WORD};
use crate::chain::pages::Draft;
use crate::chain::params::{GrowthBounds, MAX_VALUES_PER_ITEM};
use crate::cuckoo::bucket::{self, SlotWidth};
use crate::cuckoo::hash::ItemHash;
use crate::cuckoo::kick::KickSearch;
use crate::cuckoo::paged::Candidate;

/// Pages that an add may split because there is no other way: each of them is
/// one that the item may have nothing to do with.
pub(super) const MAX_FORCED_SPLITS: u32 = 16;

/// Pages that an add splits because they are due. A table that was filled without
/// growing has a third of its pages due at once: they are split by the next adds, none of
/// which writes more than a commit may.
pub(super) const MAX_DUE_SPLITS: u32 = 16;

/// How often an add does so that finds no room.
const MAX_DUE_ROUNDS: u32 = 16;

/// What a split or a merge costs, in the units of
/// [`Planner::spent`](crate::chain::plan::Planner::spent): each slot of the
/// pages is looked at and written, in the record too.
const PAGES_OF_PAIR: u64 = 600;

/// Counters of a class that are gone over for what one unit stands for.
pub(in crate::chain) const COUNTERS_PER_UNIT: u64 = 16;

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
    /// Plans an add of a value of the item, 0 where slots have none, whatever it
    /// takes. The look at its buckets that showed that it takes more was charged by
    /// the caller; it looks again.
    #[inline(never)]
    pub(in crate::chain) fn add(&mut self, hash: ItemHash, value: u32) -> Option<AddResult> {
        let splits = self.stats.splits;
        let added = self.try_add(hash, value);
        if added == Some(AddResult::Added) {
            self.table.items += 1;
        }
        self.stats.max_splits = self.stats.max_splits.max(self.stats.splits - splits);
        added
    }

    /// Plans a delete of a value of the item, and says whether there was a match
    /// to take away.
    pub fn delete(&mut self, hash: ItemHash, value: u32) -> Option<bool> {
        self.spend(PROBE);
        self.try_delete(hash, value)
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

    fn try_add(&mut self, hash: ItemHash, value: u32) -> Option<AddResult> {
        let mut probe = self.probe(hash)?;
        let layout = self.table.layout;
        if let Some(longest) = probe.longest(&layout) {
            if layout.code().value_bits() > 0 && self.has_most_values(&probe, value)? {
                return Some(AddResult::Full(FullReason::MaxValuesPerItem));
            }
            if self.count_copies(&longest, value, 1)? {
                if self.table.has_long_lists() {
                    self.split_as_due(MAX_DUE_SPLITS)?;
                }
                return Some(AddResult::Added);
            }
        }
        if self.table.is_split_due() {
            self.split_as_due(MAX_DUE_SPLITS)?;
            probe = self.probe(hash)?;
        }
        if !self.table.has_room_for(1) {
            return Some(AddResult::Full(FullReason::GrowthLimit));
        }
        let layout = self.table.layout;
        match self.put(&layout, &probe, value)? {
            true => Some(AddResult::Added),
            false => self.add_to_full(hash, value),
        }
    }

    /// Adds an item to whose candidate buckets are full.
    #[inline(never)]
    pub(super) fn add_to_full(&mut self, hash: ItemHash, value: u32) -> Option<AddResult> {
        // Its buckets were looked into twice by now, and their slots are compared.
        self.spend(2 * PROBE);
        let (mut rounds, mut forced) = (0, 0);
        loop {
            let candidates = self.table.layout.candidates(hash);
            if self.kick_out(&candidates, value)? || self.make_room(&candidates, value)? {
                return Some(AddResult::Added);
            }
            // As long as pages are due, none is forced.
            rounds += 1;
            if rounds > MAX_DUE_ROUNDS || self.split_as_due(MAX_DUE_SPLITS)? == 0 {
                if forced == MAX_FORCED_SPLITS {
                    break;
                }
                if let Err(end) = self.split()? {
                    self.futile.count_refusal();
                    return Some(AddResult::Full(end));
                }
                forced += 1;
                self.stats.forced_splits += 1;
            }
            let (layout, probe) = (self.table.layout, self.probe(hash)?);
            if self.put(&layout, &probe, value)? {
                return Some(AddResult::Added);
            }
        }
        Some(AddResult::Full(FullReason::GrowthLimit))
    }

    /// Splits the pages that are due once there is one entry more, so many at most, and
    /// says how many. The entry is not there yet; a page more or less is nothing to the
    /// thresholds.
    pub(super) fn split_as_due(&mut self, most: u32) -> Option<u32> {
        let mut splits = 0;
        while splits < most && self.table.is_split_due() && self.split()?.is_ok() {
            splits += 1;
        }
        Some(splits)
    }

    /// Takes in an item for which kick-outs found no room: where two slots in
    /// the way are of one class, one of them is counted with the other from then
    /// on.
    pub(super) fn make_room(&mut self, candidates: &[Candidate; 2], value: u32) -> Option<bool> {
        while self.dedupe(candidates)? {
            let layout = self.table.layout;
            let probe = Probe::of(&layout, *candidates, self.draft)?;
            if self.put(&layout, &probe, value)? || self.kick_out(candidates, value)? {
                return Some(true);
            }
        }
        Some(false)
    }

    pub(super) fn probe(&mut self, hash: ItemHash) -> Option<Probe> {
        Probe::read(&self.table.layout, hash, self.draft)
    }

    /// Whether so many entries match an item that it may have no further value,
    /// and the value is none of them.
    #[inline(never)]
    pub(super) fn has_most_values(&mut self, probe: &Probe, value: u32) -> Option<bool> {
        let layout = self.table.layout;
        let mut entries = 0;
        for one in probe.matches(&layout) {
            let counted = one.class(&layout).counted(self.draft)?.len();
            self.spend(counted as u64 / COUNTERS_PER_UNIT);
            entries += 1 + counted;
        }
        if (entries as u64) < MAX_VALUES_PER_ITEM {
            return Some(false);
        }
        let values = values::values_of(probe, self.table, self.draft)?;
        let is_there = values.iter().any(|it| it.value == value);
        Some(values.len() as u64 >= MAX_VALUES_PER_ITEM && !is_there)
    }

    /// Counts copies of an item with a match of it, if there is room for a counter. Says
    /// whether there was.
    pub(super) fn count_copies(&mut self, with: &Match, value: u32, more: u64) -> Option<bool> {
        let layout = self.table.layout;
        let class = with.class(&layout);
        let (page, key) = (class.page(), class.key(value));
        let copies = self.draft.counter(page, key)?;
        if copies == 0 && self.draft.counters(page)? >= most_counters(&layout)
            || !self.table.has_room_for(more)
        {
            return Some(false);
        }
        self.spend(WRITTEN_COUNTER);
        self.draft
            .set_counter(page, key, copies + more, i32::from(copies == 0));
        self.table.counted += more;
        self.table.add_keys(i64::from(copies == 0));
        Some(true)
    }

    /// Frees a slot of the item's buckets if another of its class lies in the
    /// same bucket: it becomes a copy that is counted. Says whether there was one.
    fn dedupe(&mut self, candidates: &[Candidate; 2]) -> Option<bool> {
        if self.table.epochs.is_some() {
            return self.dedupe_epochs(candidates);
        }
        let layout = self.table.layout;
        let code = layout.code();
        for candidate in candidates {
            let bucket = Bucket::read(&layout, candidate.bucket, self.draft)?;
            let slots = || bucket.slots(&layout);
            let is_of = |one: u32, other: u32| (one ^ other) & !code.value_mask() == 0;
            let has_equal = |&(at, slot): &(usize, u32)| {
                slot != 0 && slots().take(at).any(|it| is_of(it, slot))
            };
            let Some((at, _)) = slots().enumerate().find(has_equal) else {
                continue;
            };
            let equal = Match::of(code, candidate, bucket.slot(code.width(), at as u8));
            if self.count_copies(&equal, equal.value(&layout), 1)? {
                self.clear(&equal);
                return Some(true);
            }
        }
        Some(false)
    }

    /// Clears the slot of a match.
    pub(super) fn clear(&mut self, one: &Match) {
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
