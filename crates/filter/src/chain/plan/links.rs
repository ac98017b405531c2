//! The buckets of a sub-filter, as a search for kick-outs looks into them.

use crate::chain::address::PageAddress;
use crate::chain::pages::Draft;
use crate::chain::read;
use crate::cuckoo::bucket;
use crate::cuckoo::candidates::BucketIndex;
use crate::cuckoo::classic::{Classic, WIDTH};
use crate::cuckoo::kick::{Buckets, Elsewhere};

/// Whether a page was not at hand since that was last taken.
#[derive(Default)]
pub(super) struct Missing(pub(super) bool);

impl Missing {
    /// Remembers whether it was not at hand.
    #[inline]
    pub(super) fn check<T>(&mut self, known: Option<T>) -> Option<T> {
        self.0 |= known.is_none();
        known
    }
}

/// Buckets of the sub-filter at a position.
pub(super) struct LinkBuckets<'a, D> {
    pub(super) layout: Classic,
    pub(super) position: usize,
    pub(super) draft: &'a mut D,
    pub(super) missing: &'a mut Missing,
}

impl<D: Draft> LinkBuckets<'_, D> {
    /// Appends what each slot of a bucket holds.
    pub(super) fn slots(&mut self, bucket: BucketIndex, slots: &mut Vec<u32>) -> Option<()> {
        let at = self.layout.address(bucket);
        let page = PageAddress::new(self.position, at.page);
        for piece in bucket::pieces(WIDTH, at.first_slot, self.layout.bucket_size()) {
            let word = self.missing.check(self.draft.word(page.word(piece.word)))?;
            let lanes = bucket::lanes_of(WIDTH, piece);
            slots.extend(lanes.map(|lane| bucket::get(WIDTH, word, lane)));
        }
        Some(())
    }
}

impl<D: Draft> Buckets for LinkBuckets<'_, D> {
    fn empty_slot(&mut self, bucket: BucketIndex) -> Option<Option<u8>> {
        let at = self.layout.address(bucket);
        let page = PageAddress::new(self.position, at.page);
        for piece in bucket::pieces(WIDTH, at.first_slot, self.layout.bucket_size()) {
            let word = self.missing.check(self.draft.word(page.word(piece.word)))?;
            if let Some(lane) = bucket::find(WIDTH, word, piece, 0).first() {
                let slot = piece.word * WIDTH.slots_per_word() + lane - at.first_slot;
                return Some(Some(slot as u8));
            }
        }
        Some(None)
    }

    fn read(&mut self, bucket: BucketIndex, slots: &mut Vec<u32>) {
        // What it was not at hand for is noted.
        let _ = self.slots(bucket, slots);
    }

    fn elsewhere(&mut self, bucket: BucketIndex, held: u32) -> Option<Elsewhere> {
        self.layout.elsewhere(bucket, held)
    }

    fn prefetch(&mut self, bucket: BucketIndex) {
        let word = read::first_word(&self.layout, self.position, bucket);
        self.draft.prefetch(word);
    }
}
