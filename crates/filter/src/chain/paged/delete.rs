//! Which entry a delete takes, and what comes in its place.

use super::planner::{COUNTERS_PER_UNIT, PagePlanner};
use super::read::{Match, Probe};
use crate::chain::outcome::WRITTEN_COUNTER;
use crate::chain::pages::Draft;
use crate::cuckoo::hash::ItemHash;

/// What to take away: of these two, a copy that is counted.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Held {
    InSlot,
    /// So many copies are.
    Counted(u64),
}

impl<D: Draft> PagePlanner<'_, D> {
    /// Takes away the longest match that has the value; of equally long ones a
    /// counted copy before a slot.
    pub(super) fn try_delete(&mut self, hash: ItemHash, value: u32) -> Option<bool> {
        let layout = self.table.layout;
        let probe = self.probe(hash)?;
        let Some((one, held)) = self.longest_with(&probe, value)? else {
            return Some(false);
        };
        self.table.items = self.table.items.saturating_sub(1);
        let has_room = match held {
            Held::Counted(copies) => {
                self.uncount(&one, value, copies);
                copies == 1 && self.table.has_lists()
            }
            Held::InSlot => {
                if layout.code().value_bits() == 0 || !self.promote(&probe, &one)? {
                    self.clear(&one);
                }
                true
            }
        };
        // Both slots and lists split pages.
        if has_room {
            self.merge_as_due()?;
        }
        Some(true)
    }

    /// The longest match that has the value, in its slot or counted with it.
    pub(super) fn longest_with(
        &mut self,
        probe: &Probe,
        value: u32,
    ) -> Option<Option<(Match, Held)>> {
        let layout = self.table.layout;
        let mut longest: Option<(Match, Held)> = None;
        for one in probe.matches(&layout) {
            let (known, counted) = match &longest {
                Some((longest, held)) => (longest.known, *held != Held::InSlot),
                None => (0, false),
            };
            if one.known < known || one.known == known && counted {
                continue;
            }
            let class = one.class(&layout);
            let copies = self.draft.counter(class.page(), class.key(value))?;
            if copies > 0 {
                longest = Some((one, Held::Counted(copies)));
            } else if one.value(&layout) == value && one.known > known {
                longest = Some((one, Held::InSlot));
            }
        }
        Some(longest)
    }

    /// Takes one of so many counted copies away.
    pub(super) fn uncount(&mut self, with: &Match, value: u32, copies: u64) {
        let class = with.class(&self.table.layout);
        let more = -i32::from(copies == 1);
        self.spend(WRITTEN_COUNTER);
        self.draft
            .set_counter(class.page(), class.key(value), copies - 1, more);
        self.table.counted -= 1;
        self.table.add_keys(more.into());
    }

    /// Puts the first of what is counted with a match into its slot, if that is
    /// the last slot of the class. Says whether anything came.
    fn promote(&mut self, probe: &Probe, one: &Match) -> Option<bool> {
        let layout = self.table.layout;
        let class = one.class(&layout);
        let slots = probe.matches(&layout);
        if slots.filter(|it| it.class(&layout) == class).count() > 1 {
            return Some(false);
        }
        let counted = self.draft.counters_within(class.page(), class.keys())?;
        self.spend(counted.len() as u64 / COUNTERS_PER_UNIT);
        let Some((key, copies)) = counted.iter().next() else {
            return Some(false);
        };
        let value = class.value(key);
        self.uncount(one, value, copies);
        let with_value = one.held & !layout.code().value_mask() | value;
        self.write(layout.code().width(), &one.slot, with_value, 0);
        Some(true)
    }
}
