//! A value of an item becomes another.

use super::delete::Held;
use super::planner::PagePlanner;
use super::read::Probe;
use super::values;
use crate::chain::counters::most_counters;
use crate::chain::meta::FullReason;
use crate::chain::outcome::{AddResult, PROBE, ReplaceResult};
use crate::chain::pages::Draft;
use crate::cuckoo::hash::ItemHash;

impl<D: Draft> PagePlanner<'_, D> {
    /// Plans that a value of the item becomes another: what a delete would take
    /// stays where it is and has the new value. So it takes no room, but for one
    /// counter where the old value stays there with other copies.
    pub fn replace(&mut self, hash: ItemHash, from: u32, to: u32) -> Option<ReplaceResult> {
        self.spend(PROBE);
        let probe = self.probe(hash)?;
        let Some((one, held)) = self.longest_with(&probe, from)? else {
            return Some(ReplaceResult::Absent);
        };
        if from == to {
            return Some(ReplaceResult::Replaced);
        }
        if self.would_be_too_many(&probe, from, to)? {
            return Some(ReplaceResult::Full(FullReason::MaxValuesPerItem));
        }
        let layout = self.table.layout;
        let Held::Counted(copies) = held else {
            let with_value = one.held & !layout.code().value_mask() | to;
            self.write(layout.code().width(), &one.slot, with_value, 0);
            return Some(ReplaceResult::Replaced);
        };
        let class = one.class(&layout);
        let needs_counter = copies > 1 && self.draft.counter(class.page(), class.key(to))? == 0;
        if needs_counter && self.draft.counters(class.page())? >= most_counters(&layout) {
            return self.add_and_delete(hash, from, to);
        }
        self.uncount(&one, from, copies);
        self.count_copies(&one, to, 1)?;
        Some(ReplaceResult::Replaced)
    }

    /// Whether the item has as many values as it may, and would have one more.
    fn would_be_too_many(&mut self, probe: &Probe, from: u32, to: u32) -> Option<bool> {
        if !self.has_most_values(probe, to)? {
            return Some(false);
        }
        let values = values::values_of(probe, self.table, self.draft)?;
        let stays = |it: &values::ValueCopies| it.value == from && it.copies > 1;
        Some(values.iter().any(stays))
    }

    /// The new value where an add would put it: there is no counter left for it
    /// beside the old one.
    #[inline(never)]
    fn add_and_delete(&mut self, hash: ItemHash, from: u32, to: u32) -> Option<ReplaceResult> {
        match self.add(hash, to)? {
            AddResult::Full(reason) => Some(ReplaceResult::Full(reason)),
            AddResult::Added | AddResult::Exists | AddResult::Refreshed => {
                // It is there still: nothing was deleted in between.
                self.try_delete(hash, from)?;
                Some(ReplaceResult::Replaced)
            }
        }
    }
}
