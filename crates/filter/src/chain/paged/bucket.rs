//! A bucket as it was read: one machine word, or two.

use crate::chain::address::{PageAddress, WordAddress};
use crate::chain::pages::PageWords;
use crate::cuckoo::bucket::{self, SlotWidth};
use crate::cuckoo::candidates::BucketIndex;
use crate::cuckoo::paged::{Candidate, Paged};

/// The page at a position. There is one sub-filter.
#[inline]
pub(super) fn page(page: u32) -> PageAddress {
    PageAddress { sub: 0, page }
}

/// A bucket's words.
#[derive(Clone, Copy)]
pub(in crate::chain) struct Bucket {
    /// Where it begins.
    at: WordAddress,
    words: [u64; 2],
}

/// A slot, and its word.
#[derive(Clone, Copy)]
pub(super) struct SlotOf {
    pub(super) at: WordAddress,
    pub(super) lane: u16,
    pub(super) word: u64,
}

impl Bucket {
    /// Reads a bucket. `None` if a word is not at hand.
    #[inline(always)]
    pub(in crate::chain) fn read(
        layout: &Paged,
        bucket: BucketIndex,
        pages: &mut impl PageWords,
    ) -> Option<Bucket> {
        let (number, first) = layout.address(bucket);
        let at = page(number).word(first);
        let mut words = [pages.word(at)?, 0];
        if layout.code().words_per_bucket() == 2 {
            words[1] = pages.word(page(number).word(first + 1))?;
        }
        Some(Bucket { at, words })
    }

    /// The page that it lies on.
    #[inline(always)]
    pub(super) fn page(&self) -> PageAddress {
        self.at.on()
    }

    /// What is true of the one word, or of both together.
    #[inline(always)]
    fn of_words<T>(
        &self,
        layout: &Paged,
        of: impl Fn(u64) -> T,
        together: impl Fn(T, T) -> T,
    ) -> T {
        let [first, second] = self.words;
        match layout.code().words_per_bucket() {
            1 => of(first),
            _ => together(of(first), of(second)),
        }
    }

    /// Slots in use.
    #[inline(always)]
    pub(super) fn used(&self, layout: &Paged) -> u32 {
        let (width, [first, second]) = (layout.code().width(), self.words);
        // A second word that is not there is empty.
        bucket::occupied(width, first) + bucket::occupied(width, second)
    }

    /// The first empty slot.
    #[inline(always)]
    pub(super) fn empty_slot(&self, layout: &Paged) -> Option<u8> {
        let width = layout.code().width();
        let empty = |word| bucket::empty(width, word).first();
        let behind = |slot| slot + width.slots_per_word();
        let slot = self.of_words(layout, empty, |first, second| first.or(second.map(behind)));
        slot.map(|it| it as u8)
    }

    /// Whether a slot may hold an entry of an item that has this candidate.
    #[inline(always)]
    pub(super) fn matches(&self, layout: &Paged, candidate: &Candidate) -> bool {
        let Candidate { slot, level, .. } = *candidate;
        let matching = |word| layout.code().matching(word, slot, level.into()).bits;
        self.of_words(layout, matching, |first, second| first | second) != 0
    }

    /// The slots that may.
    pub(in crate::chain) fn matching(
        &self,
        layout: &Paged,
        candidate: &Candidate,
    ) -> impl Iterator<Item = u8> + use<> {
        let (code, Candidate { slot, level, .. }) = (layout.code(), *candidate);
        let of_word = move |(at, word)| {
            let first = at * code.width().slots_per_word();
            let lanes = code.matching(word, slot, level.into());
            lanes.map(move |lane| (first + lane) as u8)
        };
        // A second word that is not there is empty, and matches nothing.
        (0..).zip(self.words).flat_map(of_word)
    }

    /// What all slots hold, in order.
    #[inline(always)]
    pub(in crate::chain) fn slots(&self, layout: &Paged) -> impl Iterator<Item = u32> + use<> {
        let (width, bucket) = (layout.code().width(), *self);
        (0..layout.code().bucket_size()).map(move |slot| bucket.slot(width, slot).held(width))
    }

    /// One of its slots.
    #[inline(always)]
    pub(super) fn slot(&self, width: SlotWidth, slot: u8) -> SlotOf {
        let (word, lane) = width.word_and_lane(slot.into());
        let mut at = self.at;
        at.word += word;
        let word = self.words.get(usize::from(word)).copied().unwrap_or(0);
        SlotOf { at, lane, word }
    }
}

impl SlotOf {
    /// What it holds.
    #[inline(always)]
    pub(super) fn held(&self, width: SlotWidth) -> u32 {
        bucket::get(width, self.word, self.lane)
    }
}
