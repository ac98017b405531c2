//! Adds in groups: most need nothing but a free slot in one of two buckets.
//!
//! The candidates of all items are computed first and their memory is asked for,
//! so that the waits for it overlap. Then each item is put into a free slot, with
//! everything that depends on the width of slots known when the program is built.
//! What needs more (there is a match already, a page is to be split, both buckets
//! are full) goes the long way of [`PagePlanner::add`].

use super::planner::PagePlanner;
use super::read::{Probe, first_words};
use crate::chain::address::WordAddress;
use crate::chain::outcome::{AddMode, AddResult, PROBE};
use crate::chain::pages::Draft;
use crate::chain::pages::GROUP;
use crate::cuckoo::bucket::SlotWidth;
use crate::cuckoo::hash::ItemHash;
use crate::cuckoo::paged::code::SlotCode;
use crate::cuckoo::paged::{ANY_LEVEL, Candidate, OfWidth, Paged};

/// What becomes of an item whose buckets were looked into.
enum Look {
    /// It is put into a free slot.
    Put,
    /// A slot matches.
    IsThere,
    /// It takes more than that.
    NotYet,
}

impl<D: Draft> PagePlanner<'_, D> {
    /// Plans adds of up to [`GROUP`] items, one after another, until so much is
    /// spent or a page is split or merged: the others are a group of their own
    /// then. Returns how many it worked on; `results` gets one for each of these,
    /// `None` if a page was not at hand.
    pub fn add_group(
        &mut self,
        items: &[ItemHash],
        mode: AddMode,
        until: u64,
        results: &mut [Option<AddResult>; GROUP],
    ) -> usize {
        let layout = self.table.layout;
        let code = layout.code();
        macro_rules! of_width {
            ($bits:literal) => {{
                let layout = OfWidth::<$bits, ANY_LEVEL>(layout).paged();
                self.add_each(layout, items, mode, until, results)
            }};
        }
        match code.width() {
            // No table has slots of 8 bits, and only tests have other codes.
            width if width == SlotWidth::Bits8 || code != SlotCode::of(width) => {
                self.add_each(layout, items, mode, until, results)
            }
            SlotWidth::Bits12 => of_width!(12),
            SlotWidth::Bits21 => of_width!(21),
            SlotWidth::Bits32 => of_width!(32),
            SlotWidth::Bits8 | SlotWidth::Bits16 => of_width!(16),
        }
    }

    /// Plans that up to [`GROUP`] items are seen, as
    /// [`add_group`](Self::add_group) plans adds: where items expire.
    pub(in crate::chain) fn see_group(
        &mut self,
        items: &[ItemHash],
        mode: AddMode,
        until: u64,
        results: &mut [Option<AddResult>; GROUP],
    ) -> usize {
        for (done, (&hash, result)) in items.iter().zip(results).enumerate() {
            *result = self.see(hash, mode);
            if *self.spent >= until {
                return done + 1;
            }
        }
        items.len().min(GROUP)
    }

    #[inline(always)]
    fn add_each(
        &mut self,
        layout: Paged,
        items: &[ItemHash],
        mode: AddMode,
        until: u64,
        results: &mut [Option<AddResult>; GROUP],
    ) -> usize {
        let mut candidates = [[Candidate::default(); 2]; GROUP];
        let mut words = [[WordAddress::default(); 2]; GROUP];
        let mut asked = 0;
        for ((&hash, candidates), words) in items.iter().zip(&mut candidates).zip(&mut words) {
            *candidates = layout.candidates(hash);
            *words = first_words(&layout, candidates);
            asked += 1;
        }
        self.draft
            .expect(words.get(..asked).unwrap_or_default().as_flattened());
        let each = items.iter().zip(&candidates).zip(results);
        for (done, ((&hash, candidates), result)) in each.enumerate() {
            self.spend(PROBE);
            *result = match self.look(&layout, candidates) {
                None => None,
                Some(Look::Put) => {
                    self.table.items += 1;
                    Some(AddResult::Added)
                }
                Some(Look::IsThere) if mode == AddMode::OnlyIfAbsent => Some(AddResult::Exists),
                Some(Look::IsThere | Look::NotYet) => self.add(hash, 0),
            };
            if *self.spent >= until || self.table.layout != layout {
                return done + 1;
            }
        }
        asked
    }

    /// Looks into the buckets of an item, and puts it into a free slot if that
    /// is all that there is to do.
    #[inline(always)]
    fn look(&mut self, layout: &Paged, candidates: &[Candidate; 2]) -> Option<Look> {
        let probe = Probe::of(layout, *candidates, self.draft)?;
        if probe.has_match(layout) {
            return Some(Look::IsThere);
        }
        let is_due = self.table.is_split_due() || !self.table.has_room_for(1);
        match !is_due && self.put(layout, &probe, 0)? {
            true => Some(Look::Put),
            false => Some(Look::NotYet),
        }
    }
}
