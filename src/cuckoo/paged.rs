//! The layout that keeps both buckets of most items on one page.
//!
//! Four slots a bucket, slots of 8, 16 or 32 bits, any number of pages. Of the
//! fingerprints, which decide that for themselves, 1 in 8 (1 in 17 with slots
//! of 8 bits) has its two candidate buckets on two pages, so that full pages
//! can give to emptier ones; all others stay on their page. So a question
//! about an absent item reads 1.125 pages (1.06), and an add writes one.
//!
//! An item's hash has 128 bits. Each part of its address comes from bits of
//! its own:
//!
//! | bits | what for |
//! |---|---|
//! | 0 to 31 | fingerprint, scaled to 1 ..= 2^width - 1 |
//! | 32 to 41 | bucket within the page: 10, 9 or 8 of these bits for slots of 8, 16 or 32 bits |
//! | 64 to 127 | page: the 64 bits as a fraction of the number of pages |
//!
//! The first sub-filter has any number of pages, `families`; a later one has
//! `families * 2^growth`. The fraction is read the same way in all of them
//! (Lemire, "Fast Random Integer Generation in an Interval", 2019), so an
//! item's page is `family * 2^growth + branch`: the family is the item's page
//! in the first sub-filter, and the branch gains a bit where the growth does.
//!
//! The alternate of a bucket, like a reflection, is its own inverse and needs
//! only the fingerprint:
//!
//! - within the page, `odd(fingerprint) - bucket` modulo the buckets of a
//!   page, a power of two: because the sum of the two is odd, they differ
//! - for the fingerprints that cross, the page becomes
//!   `((R(fingerprint) - family) mod families) * 2^growth + (branch XOR G(fingerprint))`,
//!   where G's bits are taken from the top as the branch's are
//!
//! Dropping the bits that a larger sub-filter has beyond a smaller one thus
//! leads from an item's buckets in the one to its buckets in the other, and
//! that is nesting. (A reflection of the whole page number does not nest.)

use super::bucket::SlotWidth;
use super::candidates::{BucketAddress, BucketIndex, Candidates, Fingerprint};
use super::hash::ItemHash;

/// Slots per bucket.
pub const BUCKET_SIZE: u8 = 4;

/// Bytes of a page.
pub const PAGE_BYTES: u32 = 4096;

/// Geometry of one sub-filter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Paged {
    families: u32,
    /// Pages a family, as a power of two.
    growth: u8,
    width: SlotWidth,
}

/// A geometry of slots of `BITS` bits: in a loop over many items the compiler
/// then knows every shift and mask that depends on the width. To be made of one
/// that has this width.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OfWidth<const BITS: u16>(pub Paged);

impl<const BITS: u16> OfWidth<BITS> {
    const WIDTH: SlotWidth = match BITS {
        8 => SlotWidth::Bits8,
        16 => SlotWidth::Bits16,
        32 => SlotWidth::Bits32,
        _ => panic!("there is no such width"),
    };

    /// The geometry itself.
    #[inline]
    pub fn paged(self) -> Paged {
        debug_assert!(self.0.width == Self::WIDTH);
        Paged {
            width: Self::WIDTH,
            ..self.0
        }
    }
}

/// Share of the slots that are sure to be reached by kick-outs, in thousandths.
fn target_load_per_mille(width: SlotWidth) -> u64 {
    match width {
        SlotWidth::Bits8 => 940,
        SlotWidth::Bits16 | SlotWidth::Bits32 => 950,
    }
}

/// Pages of a first sub-filter that holds `capacity` items: the capacity over
/// the load that kick-outs reach, rounded up to whole pages.
pub fn pages_for(capacity: u64, width: SlotWidth) -> u64 {
    let slots = u64::from(PAGE_BYTES) / u64::from(width.bytes());
    (capacity * 1000)
        .div_ceil(target_load_per_mille(width) * slots)
        .max(1)
}

impl Paged {
    /// The geometry of `families * 2^growth` pages of slots of that width.
    /// `None` without a page, or if the pages could not be numbered with 32
    /// bits.
    pub fn new(families: u64, growth: u32, width: SlotWidth) -> Option<Paged> {
        let families = u32::try_from(families).ok().filter(|&pages| pages > 0)?;
        let pages = u64::from(families).checked_shl(growth)?;
        if growth >= u32::BITS || u32::try_from(pages).is_err() {
            return None;
        }
        Some(Paged {
            families,
            growth: growth as u8,
            width,
        })
    }

    /// Fingerprint and candidate buckets of an item.
    #[inline]
    pub fn candidates(&self, hash: ItemHash) -> Candidates {
        let low = hash.low();
        let fingerprints = u64::from(self.width.fingerprints());
        // At most 2^32 - 1 times 2^32 - 1, so it fits.
        let fingerprint = Fingerprint((((low & 0xffff_ffff) * fingerprints) >> 32) as u32 + 1);
        let page = scale(hash.high(), self.pages());
        let bucket = (low >> 32) & self.bucket_mask();
        let first = self.bucket(page, bucket);
        Candidates {
            fingerprint,
            first,
            second: self.alternate(first, fingerprint),
        }
    }

    /// The other bucket of a fingerprint; its own inverse, and another one.
    #[inline]
    pub fn alternate(&self, bucket: BucketIndex, fingerprint: Fingerprint) -> BucketIndex {
        let (page, within) = (bucket.0 >> self.page_shift(), bucket.0 & self.bucket_mask());
        let fingerprint = fingerprint.0;
        let sum = mix(fingerprint, 0x9e37_79b9_7f4a_7c15) >> 40 | 1;
        let within = sum.wrapping_sub(within) & self.bucket_mask();
        if !crosses(self.width, fingerprint) {
            return self.bucket(page as u32, within);
        }
        let (family, branch) = (page >> self.growth, page & ((1 << self.growth) - 1));
        let sum = u64::from(scale(
            mix(fingerprint, 0xa24b_aed4_963e_e407),
            self.families,
        ));
        let family = match sum.checked_sub(family) {
            Some(difference) => difference,
            None => sum + u64::from(self.families) - family,
        };
        // The top bits; no bit at all without growth.
        let turned = mix(fingerprint, 0xd6e8_feb8_6659_fd93) >> 1 >> (63 - self.growth);
        let page = family << self.growth | (branch ^ turned);
        self.bucket(page as u32, within)
    }

    /// The bucket here of an item whose bucket is known in `larger`, a sub-filter
    /// at least as large: without the branch's bits that this one has not.
    #[inline]
    pub fn under(&self, bucket: BucketIndex, larger: &Paged) -> BucketIndex {
        let page = (bucket.0 >> self.page_shift()) >> larger.growth.saturating_sub(self.growth);
        self.bucket(page as u32, bucket.0 & self.bucket_mask())
    }

    /// Page and slots of a bucket.
    #[inline]
    pub fn address(&self, bucket: BucketIndex) -> BucketAddress {
        BucketAddress {
            page: (bucket.0 >> self.page_shift()) as u32,
            first_slot: (bucket.0 & self.bucket_mask()) as u16 * u16::from(BUCKET_SIZE),
        }
    }

    /// Bits per slot.
    #[inline]
    pub fn width(&self) -> SlotWidth {
        self.width
    }

    /// Pages, at least one.
    #[inline]
    pub fn pages(&self) -> u32 {
        self.families << self.growth
    }

    /// Buckets of all pages.
    pub fn buckets(&self) -> u64 {
        u64::from(self.pages()) << self.page_shift()
    }

    /// Share of the slots that kick-outs are expected to reach.
    pub fn target_load(&self) -> f64 {
        target_load_per_mille(self.width) as f64 / 1000.0
    }

    /// Probability that an item which was never added is found here.
    pub fn false_positive_rate(&self, load: f64) -> f64 {
        false_positive_rate(self.width, load)
    }

    #[inline]
    fn bucket(&self, page: u32, within: u64) -> BucketIndex {
        BucketIndex(u64::from(page) << self.page_shift() | within)
    }

    /// Buckets per page as a power of two.
    #[inline]
    fn page_shift(&self) -> u32 {
        match self.width {
            SlotWidth::Bits8 => 10,
            SlotWidth::Bits16 => 9,
            SlotWidth::Bits32 => 8,
        }
    }

    #[inline]
    fn bucket_mask(&self) -> u64 {
        (1 << self.page_shift()) - 1
    }
}

/// Probability that an item which was never added is found in one sub-filter:
/// it meets two buckets, and each occupied slot holds its fingerprint with
/// probability 1/(2^width - 1).
pub fn false_positive_rate(width: SlotWidth, load: f64) -> f64 {
    let met = 2.0 * f64::from(BUCKET_SIZE) * load.clamp(0.0, 1.0);
    // 1 - (1 - p)^met, exact for a tiny p as well.
    -f64::exp_m1(met * f64::ln_1p(-1.0 / f64::from(width.fingerprints())))
}

/// Whether a fingerprint has its two buckets on two pages.
#[inline]
fn crosses(width: SlotWidth, fingerprint: u32) -> bool {
    let one_in = match width {
        SlotWidth::Bits8 => 16,
        SlotWidth::Bits16 | SlotWidth::Bits32 => 8,
    };
    fingerprint.is_multiple_of(one_in)
}

/// Multiplicative hashing (Knuth, TAOCP volume 3, section 6.4): the top bits
/// are the good ones.
#[inline]
fn mix(fingerprint: u32, multiplier: u64) -> u64 {
    u64::from(fingerprint).wrapping_mul(multiplier)
}

/// A 64-bit fraction of `range`, rounded down.
#[inline]
fn scale(fraction: u64, range: u32) -> u32 {
    ((u128::from(fraction) * u128::from(range)) >> 64) as u32
}

#[cfg(test)]
mod tests;
