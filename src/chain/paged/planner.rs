//! Adds and deletes, planned item by item.

use super::read::{self, Match, Matches};
use super::table::Table;
use crate::chain::address::WordAddress;
use crate::chain::counters::MAX_COUNTERS;
use crate::chain::meta::{FullReason, MAX_ITEMS};
use crate::chain::pages::Draft;
use crate::chain::params::GrowthBounds;
use crate::chain::plan::{AddResult, PROBE, PlanStats, WRITTEN_WORD};
use crate::cuckoo::bucket;
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
    /// Adds that were refused.
    pub(in crate::chain) futile_searches: &'a mut u32,
    /// What was spent.
    pub(in crate::chain) spent: &'a mut u64,
}

impl<D: Draft> PagePlanner<'_, D> {
    /// Plans an add.
    pub fn add(&mut self, hash: ItemHash) -> Option<AddResult> {
        self.spend(PROBE);
        let splits = self.stats.splits;
        let added = self.try_add(hash);
        match added {
            Some(AddResult::Added) => self.table.items += 1,
            Some(AddResult::Full(_)) => *self.futile_searches += 1,
            Some(AddResult::Exists) | None => {}
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
        if self.count_copy_of(hash)? {
            return Some(AddResult::Added);
        }
        self.split_as_due()?;
        if self.place(hash)? || self.make_room(hash)? {
            return Some(AddResult::Added);
        }
        for _ in 0..MAX_FORCED_SPLITS {
            if let Err(end) = self.split()? {
                return Some(AddResult::Full(end));
            }
            self.stats.forced_splits += 1;
            if self.place(hash)? || self.make_room(hash)? {
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
            if self.place(hash)? {
                return Some(true);
            }
        }
        Some(false)
    }

    fn matches(&mut self, hash: ItemHash) -> Option<Matches> {
        let layout = self.table.layout;
        read::matches(&layout, &layout.candidates(hash), self.draft)
    }

    /// Counts an item with its longest match. Says whether there is one, and
    /// room for a counter.
    fn count_copy_of(&mut self, hash: ItemHash) -> Option<bool> {
        match self.matches(hash)?.longest() {
            Some(longest) => self.count_copy(longest),
            None => Some(false),
        }
    }

    fn count_copy(&mut self, with: &Match) -> Option<bool> {
        let page = with.at.on();
        let key = read::counter_key(&self.table.layout, with);
        let copies = self.draft.counter(page, key)?;
        if copies == 0 && self.draft.counters(page)? >= MAX_COUNTERS
            || self.table.occupied + self.table.counted >= MAX_ITEMS
        {
            return Some(false);
        }
        self.spend(WRITTEN_WORD);
        self.draft
            .set_counter(page, key, copies + 1, i32::from(copies == 0));
        self.table.counted += 1;
        Some(true)
    }

    /// Frees a slot of the item's buckets whose equal lies in the same bucket:
    /// it becomes a copy that is counted. Says whether there was one.
    fn fold(&mut self, hash: ItemHash) -> Option<bool> {
        let layout = self.table.layout;
        let (code, width) = (layout.code(), layout.code().width());
        for candidate in layout.candidates(hash) {
            let level = u32::from(candidate.level);
            let mut slots = [0; read::MAX_CANDIDATE_SLOTS];
            let mut equal = None;
            let lanes = read::words(&layout, &candidate)
                .flat_map(|at| (0..width.slots_per_word()).map(move |lane| (at, lane)));
            for (position, (at, lane)) in lanes.enumerate() {
                let slot = bucket::get(width, self.draft.word(at)?, lane);
                if slot != 0 && slots.iter().take(position).any(|&it| it == slot) {
                    let known = code.known(slot, level);
                    equal = Some(Match {
                        candidate,
                        at,
                        lane,
                        slot,
                        known,
                    });
                    break;
                }
                if let Some(it) = slots.get_mut(position) {
                    *it = slot;
                }
            }
            if let Some(one) = equal
                && self.count_copy(&one)?
            {
                self.clear(&one)?;
                return Some(true);
            }
        }
        Some(false)
    }

    /// Takes the longest match away; of equally long ones a counted copy before
    /// a slot.
    fn try_delete(&mut self, hash: ItemHash) -> Option<bool> {
        let layout = self.table.layout;
        let found = self.matches(hash)?;
        let Some(longest) = found.longest() else {
            return Some(false);
        };
        self.table.items = self.table.items.saturating_sub(1);
        for one in found.iter().filter(|it| it.known == longest.known) {
            let (page, key) = (one.at.on(), read::counter_key(&layout, one));
            let copies = self.draft.counter(page, key)?;
            if copies > 0 {
                self.draft
                    .set_counter(page, key, copies - 1, -i32::from(copies == 1));
                self.table.counted -= 1;
                return Some(true);
            }
        }
        self.clear(longest)?;
        self.merge_as_due()?;
        Some(true)
    }

    /// Clears the slot of a match.
    fn clear(&mut self, one: &Match) -> Option<()> {
        self.write(one.at, one.lane, 0)?;
        self.table.forget_entry(one.known);
        Some(())
    }

    /// Writes a slot; 0 clears it.
    #[inline]
    pub(super) fn write(&mut self, at: WordAddress, lane: u16, slot: u32) -> Option<()> {
        let width = self.table.layout.code().width();
        let word = self.draft.word(at)?;
        self.spend(WRITTEN_WORD);
        let before = bucket::get(width, word, lane);
        let more = i32::from(slot != 0) - i32::from(before != 0);
        self.draft
            .set_slot(at, bucket::set(width, word, lane, slot), lane, more);
        Some(())
    }
}
