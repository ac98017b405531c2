//! Slots, read and written through a draft.

use crate::chain::address::{PageAddress, SlotAddress, WordAddress};
use crate::chain::counters::CounterKey;
use crate::chain::pages::Draft;
use crate::cuckoo::bucket::{self, SlotWidth};
use crate::cuckoo::candidates::{BucketIndex, Candidates};
use crate::cuckoo::layout::{Geometry, Layout};
use crate::cuckoo::paged::OfWidth;

/// A draft, and whether a page of it was not at hand since that was last taken.
pub(super) struct Slots<D> {
    pub(super) draft: D,
    pub(super) missing: bool,
}

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

impl<D: Draft> Slots<D> {
    /// Notes what was not at hand.
    #[inline]
    fn noted<T>(&mut self, known: Option<T>) -> Option<T> {
        self.missing |= known.is_none();
        known
    }

    #[inline]
    fn word(&mut self, at: WordAddress) -> Option<u64> {
        let value = self.draft.word(at);
        self.noted(value)
    }

    /// Copies of a class beside its slots.
    pub(super) fn counter(&mut self, page: PageAddress, key: CounterKey) -> Option<u64> {
        let copies = self.draft.counter(page, key);
        self.noted(copies)
    }

    /// How many classes are counted beside a page.
    pub(super) fn counters(&mut self, page: PageAddress) -> Option<usize> {
        let classes = self.draft.counters(page);
        self.noted(classes)
    }

    /// Slots of a page in use.
    #[inline]
    pub(super) fn occupied(&mut self, page: PageAddress) -> Option<u32> {
        let slots = self.draft.occupied(page);
        self.noted(slots)
    }

    /// Looks into both candidate buckets; into one, if they are the same.
    #[inline]
    pub(super) fn probe(
        &mut self,
        position: usize,
        layout: &Layout,
        candidates: &Candidates,
    ) -> [BucketProbe; 2] {
        match layout {
            Layout::Classic(classic) => self.probe_both(position, classic, candidates),
            Layout::Paged(paged) => match paged.width() {
                SlotWidth::Bits8 => self.probe_both(position, &OfWidth::<8>(*paged), candidates),
                SlotWidth::Bits16 => self.probe_both(position, &OfWidth::<16>(*paged), candidates),
                SlotWidth::Bits32 => self.probe_both(position, &OfWidth::<32>(*paged), candidates),
            },
        }
    }

    #[inline]
    fn probe_both<G: Geometry>(
        &mut self,
        position: usize,
        layout: &G,
        candidates: &Candidates,
    ) -> [BucketProbe; 2] {
        let Candidates {
            fingerprint,
            first,
            second,
        } = *candidates;
        let in_first = self.probe_bucket(position, layout, first, fingerprint.0);
        let in_second = match second == first {
            true => BucketProbe::default(),
            false => self.probe_bucket(position, layout, second, fingerprint.0),
        };
        [in_first, in_second]
    }

    #[inline]
    fn probe_bucket<G: Geometry>(
        &mut self,
        position: usize,
        layout: &G,
        bucket: BucketIndex,
        fingerprint: u32,
    ) -> BucketProbe {
        let (at, width) = (layout.address(bucket), layout.slot_width());
        let page = PageAddress::new(position, at.page);
        let (mut matches, mut empty) = (0, 0);
        let (mut free, mut matching) = (None, None);
        for piece in layout.pieces(at.first_slot) {
            let Some(value) = self.word(page.word(piece.word)) else {
                continue;
            };
            let slot = |lane| piece.word * width.slots_per_word() + lane;
            let matching_lanes = bucket::find(width, value, piece, fingerprint);
            let free_lanes = bucket::find(width, value, piece, 0);
            matches += matching_lanes.count();
            empty += free_lanes.count();
            matching = matching.or(matching_lanes.first().map(slot));
            free = free.or(free_lanes.first().map(slot));
        }
        let address = |slot| SlotAddress { page, slot };
        BucketProbe {
            matches,
            empty,
            free: free.map(address),
            matching: matching.map(address),
        }
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
                    self.occupied(PageAddress::new(position, layout.address(bucket).page))
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
            let value = self.word(page.word(piece.word))?;
            let lanes = bucket::lanes_of(width, piece);
            for (lane, slot) in lanes.zip(slots.iter_mut().skip(filled)) {
                *slot = bucket::get(width, value, lane);
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
        let Some(value) = self.word(at).filter(|_| !self.missing) else {
            return;
        };
        let before = bucket::get(width, value, lane);
        let more = i32::from(fingerprint != 0) - i32::from(before != 0);
        let value = bucket::set(width, value, lane, fingerprint);
        self.draft.set_slot(at, value, lane, more);
    }

    /// Moves a fingerprint from one slot to another.
    pub(super) fn relocate(&mut self, layout: &Layout, from: SlotAddress, to: SlotAddress) {
        let width = layout.slot_width();
        let (word, lane) = width.word_and_lane(from.slot);
        let value = self.word(from.page.word(word));
        let fingerprint = value.map(|value| bucket::get(width, value, lane));
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
        if !self.missing {
            let more = i32::from(after != 0) - i32::from(before != 0);
            self.draft.set_counter(page, key, after, more);
        }
    }
}
