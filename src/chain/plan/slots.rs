//! How a planner probes, reads and writes the slots and counters of its draft.

use super::planner::{PROBE, Planner, WRITTEN_WORD};
use crate::chain::address::{PageAddress, SlotAddress};
use crate::chain::counters::CounterKey;
use crate::chain::pages::Draft;
use crate::cuckoo::bucket::{self, SlotWidth};
use crate::cuckoo::candidates::{BucketIndex, Candidates};
use crate::cuckoo::layout::{Geometry, Layout};
use crate::cuckoo::paged::OfWidth;

/// What a candidate bucket holds, seen from one item.
#[derive(Clone, Copy, Default)]
pub(super) struct BucketProbe {
    /// Slots that hold the item's fingerprint.
    pub(super) matches: u32,
    /// Empty slots.
    pub(super) empty: u32,
    /// The first empty slot.
    pub(super) free: Option<SlotAddress>,
    /// The first slot that holds the fingerprint.
    pub(super) matching: Option<SlotAddress>,
}

impl<D: Draft> Planner<'_, D> {
    /// Looks into both candidate buckets; into one, if they are the same.
    #[inline]
    pub(super) fn probe(
        &mut self,
        position: usize,
        layout: &Layout,
        candidates: &Candidates,
    ) -> [BucketProbe; 2] {
        self.spend(PROBE);
        match layout {
            Layout::Classic(classic) => self.probe_as(position, classic, candidates),
            Layout::Paged(paged) => match paged.width() {
                SlotWidth::Bits8 => self.probe_as(position, &OfWidth::<8>(*paged), candidates),
                SlotWidth::Bits16 => self.probe_as(position, &OfWidth::<16>(*paged), candidates),
                SlotWidth::Bits32 => self.probe_as(position, &OfWidth::<32>(*paged), candidates),
            },
        }
    }

    /// [`probe`](Self::probe) of a sub-filter whose geometry is known.
    #[inline]
    fn probe_as<G: Geometry>(
        &mut self,
        position: usize,
        layout: &G,
        candidates: &Candidates,
    ) -> [BucketProbe; 2] {
        let (width, fingerprint) = (layout.slot_width(), candidates.fingerprint.0);
        let mut probes = [BucketProbe::default(); 2];
        for (probe, bucket) in probes.iter_mut().zip(candidates.buckets()) {
            let at = layout.address(bucket);
            let page = PageAddress::new(position, at.page);
            let (mut matching, mut free) = (None, None);
            for piece in layout.pieces(at.first_slot) {
                let word = self.draft.word(page.word(piece.word));
                let Some(word) = self.missing.note(word) else {
                    continue;
                };
                let slot = |lane| piece.word * width.slots_per_word() + lane;
                let matching_lanes = bucket::find(width, word, piece, fingerprint);
                let free_lanes = bucket::find(width, word, piece, 0);
                probe.matches += matching_lanes.count();
                probe.empty += free_lanes.count();
                matching = matching.or(matching_lanes.first().map(slot));
                free = free.or(free_lanes.first().map(slot));
            }
            let address = |slot| SlotAddress { page, slot };
            (probe.matching, probe.free) = (matching.map(address), free.map(address));
        }
        probes
    }

    /// Whether to try the second candidate before the first. The layout
    /// `classic` never does, as RedisBloom; `paged` balances: the emptier
    /// bucket of a page, the emptier of two pages.
    pub(super) fn second_is_emptier(
        &mut self,
        position: usize,
        layout: &Layout,
        candidates: &Candidates,
        [first, second]: &[BucketProbe; 2],
    ) -> bool {
        match layout {
            Layout::Classic(_) => false,
            Layout::Paged(_) if layout.is_near(candidates.first, candidates.second) => {
                second.empty > first.empty
            }
            Layout::Paged(_) => {
                let [first, second] = [candidates.first, candidates.second].map(|bucket| {
                    let page = PageAddress::new(position, layout.address(bucket).page);
                    self.missing.note(self.draft.occupied(page))
                });
                first
                    .zip(second)
                    .is_some_and(|(first, second)| second < first)
            }
        }
    }

    /// The slots of a bucket, copied into `slots`.
    pub(super) fn read_bucket<'s>(
        &mut self,
        position: usize,
        layout: &Layout,
        bucket: BucketIndex,
        slots: &'s mut [u32; u8::MAX as usize],
    ) -> Option<&'s [u32]> {
        let (at, width) = (layout.address(bucket), layout.slot_width());
        let page = PageAddress::new(position, at.page);
        let mut filled = 0;
        for piece in bucket::pieces(width, at.first_slot, layout.bucket_size()) {
            let word = self.draft.word(page.word(piece.word));
            let word = self.missing.note(word)?;
            let lanes = bucket::lanes_of(width, piece);
            for (lane, slot) in lanes.zip(slots.iter_mut().skip(filled)) {
                *slot = bucket::get(width, word, lane);
                filled += 1;
            }
        }
        slots.get(..filled)
    }

    /// Writes a slot whose word was read before; 0 clears it. Does nothing once
    /// a page was missing.
    pub(super) fn write(&mut self, layout: &Layout, slot: SlotAddress, fingerprint: u32) {
        let width = layout.slot_width();
        let (word, lane) = width.word_and_lane(slot.slot);
        let at = slot.page.word(word);
        let word = self.missing.note(self.draft.word(at));
        let Some(word) = word.filter(|_| !self.missing.0) else {
            return;
        };
        self.spend(WRITTEN_WORD);
        let before = bucket::get(width, word, lane);
        let more = i32::from(fingerprint != 0) - i32::from(before != 0);
        let word = bucket::set(width, word, lane, fingerprint);
        self.draft.set_slot(at, word, lane, more);
        self.chain.note_occupied(at.sub, more);
    }

    /// Moves a fingerprint from one slot to another.
    pub(super) fn relocate(&mut self, layout: &Layout, from: SlotAddress, to: SlotAddress) {
        let width = layout.slot_width();
        let (word, lane) = width.word_and_lane(from.slot);
        let word = self.missing.note(self.draft.word(from.page.word(word)));
        let fingerprint = word.map(|word| bucket::get(width, word, lane));
        self.write(layout, to, fingerprint.unwrap_or(0));
        self.write(layout, from, 0);
    }

    /// Sets a side counter that was `before`. Does nothing once a page was
    /// missing.
    pub(super) fn set_counter(
        &mut self,
        page: PageAddress,
        key: CounterKey,
        before: u64,
        after: u64,
    ) {
        if self.missing.0 {
            return;
        }
        let more = i32::from(after != 0) - i32::from(before != 0);
        self.draft.set_counter(page, key, after, more);
        self.chain.note_counted(page.sub, before, after);
    }
}
