//! How a planner probes, reads and writes the slots and counters of its draft.

use super::planner::Planner;
use crate::chain::address::{PageAddress, SlotAddress};
use crate::chain::counters::CounterKey;
use crate::chain::outcome::{WRITTEN_COUNTER, WRITTEN_WORD};
use crate::chain::pages::Draft;
use crate::cuckoo::bucket;
use crate::cuckoo::candidates::Candidates;
use crate::cuckoo::classic::{Classic, WIDTH};

/// What a candidate bucket holds, seen from one item.
#[derive(Clone, Copy, Default)]
pub(super) struct BucketProbe {
    /// Slots that hold the item's fingerprint.
    pub(super) matches: u32,
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
        layout: &Classic,
        candidates: &Candidates,
    ) -> [BucketProbe; 2] {
        self.spend(self.units_of_look());
        let fingerprint = candidates.fingerprint.0;
        let mut probes = [BucketProbe::default(); 2];
        for (probe, bucket) in probes.iter_mut().zip(candidates.buckets()) {
            let at = layout.address(bucket);
            let page = PageAddress::new(position, at.page);
            let (mut matching, mut free) = (None, None);
            for piece in bucket::pieces(WIDTH, at.first_slot, layout.bucket_size()) {
                let word = self.draft.word(page.word(piece.word));
                let Some(word) = self.missing.check(word) else {
                    continue;
                };
                let slot = |lane| piece.word * WIDTH.slots_per_word() + lane;
                let matching_lanes = bucket::find(WIDTH, word, piece, fingerprint);
                let free_lanes = bucket::find(WIDTH, word, piece, 0);
                probe.matches += matching_lanes.count();
                matching = matching.or(matching_lanes.first().map(slot));
                free = free.or(free_lanes.first().map(slot));
            }
            let address = |slot| SlotAddress { page, slot };
            (probe.matching, probe.free) = (matching.map(address), free.map(address));
        }
        probes
    }

    /// Writes a slot whose word was read before; 0 clears it. Does nothing once
    /// a page was missing.
    pub(super) fn write(&mut self, slot: SlotAddress, fingerprint: u32) {
        let (word, lane) = WIDTH.word_and_lane(slot.slot);
        let at = slot.page.word(word);
        let word = self.missing.check(self.draft.word(at));
        let Some(word) = word.filter(|_| !self.missing.0) else {
            return;
        };
        self.spend(WRITTEN_WORD);
        let before = bucket::get(WIDTH, word, lane);
        let more = i32::from(fingerprint != 0) - i32::from(before != 0);
        let word = bucket::set(WIDTH, word, lane, fingerprint);
        self.draft.set_slot(at, word, lane, more);
        if let Some(links) = self.chain.links_mut() {
            links.add_occupied(at.sub, more);
        }
    }

    /// Moves a fingerprint from one slot to another.
    pub(super) fn relocate(&mut self, from: SlotAddress, to: SlotAddress) {
        let (word, lane) = WIDTH.word_and_lane(from.slot);
        let word = self.missing.check(self.draft.word(from.page.word(word)));
        let fingerprint = word.map(|word| bucket::get(WIDTH, word, lane));
        self.write(to, fingerprint.unwrap_or(0));
        self.write(from, 0);
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
        self.spend(WRITTEN_COUNTER);
        let more = i32::from(after != 0) - i32::from(before != 0);
        self.draft.set_counter(page, key, after, more);
        if let Some(links) = self.chain.links_mut() {
            links.adjust_counted(page.sub, before, after);
        }
    }
}
