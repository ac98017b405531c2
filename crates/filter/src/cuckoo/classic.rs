//! The layout of RedisBloom and Apache Kvrocks, bit for bit.
//!
//! - hash: MurmurHash64A with seed 0 over the item's bytes
//! - fingerprint: `hash % 255 + 1`, 8 bits
//! - first bucket: `hash % buckets`; second: `(hash ^ fingerprint * 0x5bd1e995) % buckets`
//! - `buckets` is a power of two, so the alternate of a bucket is an XOR and a
//!   mask, and sub-filters of growing size nest
//!
//! A page holds the largest power of two of whole buckets that fits.

use super::bucket::SlotWidth;
use super::candidates::{BucketAddress, BucketIndex, Candidates, Fingerprint};
use super::hash::ItemHash;
use super::kick::{Elsewhere, MAX_PAGES_PER_SEARCH, SearchBounds};
use super::paged::PAGE_BYTES;

const ALTERNATE_MULTIPLIER: u64 = 0x5bd1_e995;

/// Bits of a slot.
pub const WIDTH: SlotWidth = SlotWidth::Bits8;

/// How far a search for kick-outs goes. Pages mean nothing to it: a
/// fingerprint's buckets lie anywhere.
pub const SEARCH: SearchBounds = SearchBounds {
    expanded_per_level: 500,
    levels: 1,
    crossings_per_level: 0,
    buckets: MAX_PAGES_PER_SEARCH,
};

/// Geometry of one sub-filter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Classic {
    bucket_mask: u64,
    bucket_size: u8,
    /// Buckets per page as a power of two.
    page_shift: u8,
}

/// Buckets of a first sub-filter that holds `capacity` items: the capacity
/// over the load that kick-outs reach for this bucket size, rounded up to a
/// power of two. With one slot a bucket that load is not certain: a third item
/// of one class finds no room whatever the size, so such a filter may grow a
/// little before its capacity.
pub fn buckets_for(capacity: u64, bucket_size: u8) -> u64 {
    let slots_per_mille_bucket = target_load_per_mille(bucket_size) * u64::from(bucket_size.max(1));
    (capacity * 1000)
        .div_ceil(slots_per_mille_bucket)
        .next_power_of_two()
}

/// The capacity for which [`buckets_for`] gives this number of buckets, a power of
/// two from 2 on: as many items as they hold at the load that kick-outs reach.
pub fn capacity_of(buckets: u64, bucket_size: u8) -> u64 {
    let slots = u128::from(buckets) * u128::from(bucket_size);
    let items = slots * u128::from(target_load_per_mille(bucket_size)) / 1000;
    u64::try_from(items).unwrap_or(u64::MAX)
}

/// The load that kick-outs reach, in thousandths.
fn target_load_per_mille(bucket_size: u8) -> u64 {
    match bucket_size {
        0 | 1 => 500,
        2 => 850,
        3 => 930,
        _ => 955,
    }
}

impl Classic {
    /// The geometry of `buckets` (a power of two) of `bucket_size` slots on
    /// pages of at most [`PAGE_BYTES`]. `None` if they break that, or if the
    /// pages could not be numbered with 32 bits.
    pub fn new(buckets: u64, bucket_size: u8) -> Option<Classic> {
        if !buckets.is_power_of_two() || bucket_size == 0 {
            return None;
        }
        let per_page = u64::from(PAGE_BYTES / u32::from(bucket_size)).min(buckets);
        let page_shift = u8::try_from(per_page.checked_ilog2()?).ok()?;
        u32::try_from(buckets >> page_shift).ok()?;
        Some(Classic {
            bucket_mask: buckets - 1,
            bucket_size,
            page_shift,
        })
    }

    /// Fingerprint and candidate buckets of an item.
    #[inline]
    pub fn candidates(&self, hash: ItemHash) -> Candidates {
        let fingerprint = Fingerprint((hash.low() % 255 + 1) as u32);
        self.candidates_under(BucketIndex(hash.low()), fingerprint)
    }

    /// The other bucket of a fingerprint; its own inverse.
    #[inline]
    pub fn alternate(&self, bucket: BucketIndex, fingerprint: Fingerprint) -> BucketIndex {
        let offset = u64::from(fingerprint.0) * ALTERNATE_MULTIPLIER;
        BucketIndex((bucket.0 ^ offset) & self.bucket_mask)
    }

    /// The same as a search for kick-outs has to know it.
    #[inline]
    pub fn elsewhere(&self, bucket: BucketIndex, slot: u32) -> Option<Elsewhere> {
        Some(Elsewhere {
            bucket: self.alternate(bucket, Fingerprint(slot)),
            slot,
            is_near: true,
        })
    }

    /// Where a fingerprint may lie that was found in a bucket of a sub-filter
    /// of the same chain that is at least as large. That is exact: sub-filters
    /// nest.
    #[inline]
    pub fn candidates_under(&self, bucket: BucketIndex, fingerprint: Fingerprint) -> Candidates {
        let first = BucketIndex(bucket.0 & self.bucket_mask);
        Candidates {
            fingerprint,
            first,
            second: self.alternate(first, fingerprint),
        }
    }

    /// The first bucket of the page after that of a bucket.
    pub fn next_page(&self, bucket: BucketIndex) -> BucketIndex {
        BucketIndex(((bucket.0 >> self.page_shift) + 1) << self.page_shift)
    }

    /// Slots of one class in a sub-filter from which on further copies are
    /// counted beside the page, at least 1 and less than the candidate slots.
    /// So one hot item can't fill its buckets. Large buckets of 8-bit
    /// fingerprints hold some matches by chance, hence the allowance.
    #[inline]
    pub fn class_limit(&self, candidates: &Candidates) -> u32 {
        let bucket_size = u32::from(self.bucket_size);
        let slots = match candidates.first == candidates.second {
            true => bucket_size,
            false => 2 * bucket_size,
        };
        (3 + (8 * bucket_size).div_ceil(255)).min(slots - 1).max(1)
    }

    /// Page and slots of a bucket.
    #[inline]
    pub fn address(&self, bucket: BucketIndex) -> BucketAddress {
        let within = bucket.0 & ((1 << self.page_shift) - 1);
        BucketAddress {
            // `new` saw to it that pages are numbered with 32 bits, and a page
            // of at most 4 KiB has fewer than 2^16 slots.
            page: (bucket.0 >> self.page_shift) as u32,
            first_slot: within as u16 * u16::from(self.bucket_size),
        }
    }

    /// Slots per bucket.
    #[inline]
    pub fn bucket_size(&self) -> u8 {
        self.bucket_size
    }

    /// Buckets, a power of two.
    pub fn buckets(&self) -> u64 {
        self.bucket_mask + 1
    }

    /// Pages, at least one.
    pub fn pages(&self) -> u32 {
        (self.bucket_mask >> self.page_shift) as u32 + 1
    }

    /// Slots of all buckets.
    pub fn slots(&self) -> u64 {
        self.buckets() * u64::from(self.bucket_size)
    }

    /// Bytes of one page, and its slots.
    pub fn page_bytes(&self) -> u32 {
        u32::from(self.bucket_size) << self.page_shift
    }

    /// Bytes of all pages.
    pub fn bytes(&self) -> u64 {
        u64::from(self.pages()) * u64::from(self.page_bytes())
    }

    /// Share of the slots that kick-outs are expected to reach.
    pub fn target_load(&self) -> f64 {
        target_load_per_mille(self.bucket_size) as f64 / 1000.0
    }

    /// An absent item meets two buckets; each occupied slot holds its
    /// fingerprint with probability 1/255.
    pub fn false_positive_rate(&self, load: f64) -> f64 {
        let occupied = 2.0 * f64::from(self.bucket_size) * load.clamp(0.0, 1.0);
        1.0 - (1.0f64 - 1.0 / 255.0).powf(occupied)
    }
}

#[cfg(test)]
mod tests;
