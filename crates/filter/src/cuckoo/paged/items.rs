//! From an item's hash to its two candidate buckets, and from one to the other.
//!
//! The alternate of a bucket, like a reflection, is its own inverse and needs
//! only the anchor: within the page it is `odd(anchor) - bucket` modulo the
//! buckets of a page, which differs from the bucket because the sum is odd. The
//! anchors that cross, 1 in 8, also turn the family to `R(anchor) - family`
//! modulo P0, and the path by `G(anchor)`. Without that turn the pages of one
//! path could only exchange entries with each other, and they are split one
//! right after the other.

use super::code::Deeper;
use super::pages::Paged;
use crate::cuckoo::candidates::BucketIndex;
use crate::cuckoo::hash::ItemHash;
use crate::cuckoo::kick::{Elsewhere, SearchBounds};

/// How far a search for kick-outs goes.
pub const SEARCH: SearchBounds = SearchBounds {
    expanded_per_level: 192,
    levels: 3,
    crossings_per_level: 32,
    buckets: 4096,
};

/// How far it goes when that found nothing.
pub const WIDE_SEARCH: SearchBounds = SearchBounds {
    expanded_per_level: 2000,
    levels: 4,
    crossings_per_level: 256,
    buckets: 1 << 15,
};

/// Where an item may lie, and what a slot holds there if it is added.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Candidate {
    /// The bucket.
    pub bucket: BucketIndex,
    /// Level of the bucket's page.
    pub level: u8,
    /// The slot.
    pub slot: u32,
}

impl Paged {
    /// Fingerprint and candidate buckets of an item; the buckets differ.
    #[inline(always)]
    pub fn candidates(&self, hash: ItemHash) -> [Candidate; 2] {
        let (low, high, code) = (hash.low(), hash.high(), self.code());
        let family = scale(high, self.families());
        let within = (low & self.bucket_mask()) as u32;
        let anchor = (low >> 9) as u32 & ((1 << code.anchor_bits()) - 1);
        let used = 9 + code.anchor_bits();
        let path = code.path_of(anchor, low >> used | high << (64 - used));
        let first = self.candidate(family, anchor, path, within);
        let within = self.opposite(anchor, within);
        if !crosses(anchor) {
            let bucket = self.bucket(self.address(first.bucket).0, within);
            return [first, Candidate { bucket, ..first }];
        }
        let family = self.reflected(anchor, family);
        let second = self.candidate(family, anchor, path ^ turn_of(anchor), within);
        [first, second]
    }

    #[inline(always)]
    fn candidate(&self, family: u32, anchor: u32, path: u64, within: u32) -> Candidate {
        let (page, level) = self.page_of(family, path);
        Candidate {
            bucket: self.bucket(page, within),
            level: level as u8,
            slot: self.code().fresh(anchor, path, level),
        }
    }

    /// Where else the entry of a bucket's slot may lie, and what it is there.
    /// `None` if it would lose a bit that is known, or does not know the bit
    /// that a deeper page needs.
    #[inline(always)]
    pub fn elsewhere(&self, bucket: BucketIndex, slot: u32) -> Option<Elsewhere> {
        let (page, within) = self.page_and_offset(bucket);
        let anchor = self.code().anchor(slot);
        let within = self.opposite(anchor, within);
        if !crosses(anchor) {
            return Some(Elsewhere {
                bucket: self.bucket(page, within),
                slot,
                is_near: true,
            });
        }
        let (page_there, slot) = self.across(page, anchor, slot)?;
        Some(Elsewhere {
            bucket: self.bucket(page_there, within),
            slot,
            is_near: page_there == page,
        })
    }

    /// The other page of an entry that crosses, and what it is there.
    fn across(&self, page: u32, anchor: u32, slot: u32) -> Option<(u32, u32)> {
        let (level, turn) = (self.level_of(page), turn_of(anchor));
        let slot = self.code().turned(slot, level, turn);
        let family = self.reflected(anchor, page % self.families());
        let turned_path = turn & ((1 << level) - 1);
        // As much of the path as leads to this page, as the other sees it.
        let path = u64::from(page / self.families()) ^ turned_path;
        let least = u32::from(self.level());
        let (there, level_there) = self.page_of(family, path);
        if level_there == level {
            return Some((there, slot));
        }
        if level_there < level {
            let bit = path >> least & 1 == 1;
            let shallower = self.code().shallower(slot, level, bit);
            return (!shallower.loses_a_bit).then_some((there, shallower.slot));
        }
        match self.code().deeper(slot, level) {
            Deeper::Void => None,
            Deeper::Child { bit, slot } => {
                let path = path | u64::from(bit) << least;
                Some((self.page_of(family, path).0, slot))
            }
        }
    }

    /// Where an entry lies that stands in a bucket of `from`, which has the same families
    /// and was split less far: in one bucket, or in several if it does not know the bits
    /// that would tell. With what it is there, and whether the splits of the level that
    /// this is in copied it.
    pub fn descendants(
        &self,
        from: &Paged,
        bucket: BucketIndex,
        slot: u32,
    ) -> Vec<(BucketIndex, u32, bool)> {
        let (page, within) = from.page_and_offset(bucket);
        let (family, path) = (page % self.families(), u64::from(page / self.families()));
        let mut open = vec![(path, from.level_of(page), slot, false)];
        let mut found = Vec::with_capacity(1);
        while let Some((path, level, slot, is_copy)) = open.pop() {
            let (page, level_there) = self.page_of(family, path);
            if level_there <= level {
                found.push((self.bucket(page, within), slot, is_copy));
                continue;
            }
            let longer = |bit: bool| path | u64::from(bit) << level;
            match self.code().deeper(slot, level) {
                Deeper::Child { bit, slot } => open.push((longer(bit), level + 1, slot, is_copy)),
                Deeper::Void => {
                    let is_copy = level == u32::from(self.level());
                    open.push((longer(true), level + 1, slot, is_copy));
                    open.push((path, level + 1, slot, false));
                }
            }
        }
        found
    }

    /// The bucket that has this place on a page.
    pub fn bucket_within(&self, page: u32, place: u32) -> BucketIndex {
        self.bucket(page, place & self.bucket_mask() as u32)
    }

    /// The bucket of the page, 0-based, that stands for both which an entry may
    /// lie in; of one that crosses, its own.
    #[inline]
    pub fn class_bucket(&self, bucket: BucketIndex, slot: u32) -> u16 {
        let (_, within) = self.page_and_offset(bucket);
        let anchor = self.code().anchor(slot);
        let stands = match crosses(anchor) {
            true => within,
            false => within.min(self.opposite(anchor, within)),
        };
        stands as u16
    }

    /// Whether the two buckets of an entry may lie on two pages.
    #[inline]
    pub fn crosses(&self, slot: u32) -> bool {
        crosses(self.code().anchor(slot))
    }

    #[inline(always)]
    fn opposite(&self, anchor: u32, within: u32) -> u32 {
        let sum = match SUMS.get(anchor as usize) {
            Some(&sum) => u32::from(sum),
            None => sum_of(anchor),
        };
        sum.wrapping_sub(within) & self.bucket_mask() as u32
    }

    #[inline]
    fn reflected(&self, anchor: u32, family: u32) -> u32 {
        let sum = scale(mix(anchor, 0x1234), self.families());
        match sum.checked_sub(family) {
            Some(difference) => difference,
            None => sum + (self.families() - family),
        }
    }
}

/// [`sum_of`] each anchor of 8 bits: every question needs one.
#[expect(
    clippy::indexing_slicing,
    reason = "it is computed when the program is built"
)]
static SUMS: [u16; 256] = {
    let (mut sums, mut anchor) = ([0; 256], 0);
    while anchor < sums.len() {
        sums[anchor] = sum_of(anchor as u32) as u16;
        anchor += 1;
    }
    sums
};

/// The sum of the two buckets of an anchor, odd; of the bits that count.
const fn sum_of(anchor: u32) -> u32 {
    (mix(anchor, 0x77) >> 40) as u32 & 0x1ff | 1
}

/// Whether an anchor has its two buckets on two pages. That of slots that look
/// empty, but for their suffix, has not.
#[inline]
fn crosses(anchor: u32) -> bool {
    anchor % 8 == 1
}

/// What the path of an item that crosses is turned by, seen from its other
/// bucket.
#[inline]
fn turn_of(anchor: u32) -> u64 {
    mix(anchor, 0xbeef)
}

/// The finalizer of SplitMix64 (Steele, Lea and Flood, "Fast Splittable
/// Pseudorandom Number Generators", OOPSLA 2014): each bit depends on all.
/// There are few anchors, so none of them may be unlucky.
#[inline]
const fn mix(anchor: u32, salt: u64) -> u64 {
    let sum = (anchor as u64 ^ salt).wrapping_add(0x9e37_79b9_7f4a_7c15);
    let product = (sum ^ (sum >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let product = (product ^ (product >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    product ^ (product >> 31)
}

/// A 64-bit fraction of `range`, rounded down.
#[inline]
fn scale(fraction: u64, range: u32) -> u32 {
    ((u128::from(fraction) * u128::from(range)) >> 64) as u32
}
