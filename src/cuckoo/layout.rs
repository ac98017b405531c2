//! The layout seam: from an item's hash to the two buckets it may lie in.
//!
//! A layout says where fingerprints go. Everything else (the rules of the
//! chain, pages, the kick search, the store) is the same for all layouts.
//! Layouts must nest: if an item's class matches in a newer sub-filter of a
//! chain, it must match in every older one, or deleting newest-first would
//! take other items' only fingerprints.

use super::classic::Classic;

/// Position of a bucket within its sub-filter, 0-based.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BucketIndex(pub u64);

/// What a slot holds of an item, never 0: 0 is the empty slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Fingerprint(pub u8);

/// Where one item may lie in one sub-filter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Candidates {
    /// Its fingerprint.
    pub fingerprint: Fingerprint,
    /// The bucket tried first.
    pub first: BucketIndex,
    /// The alternate of the first; may be the same bucket.
    pub second: BucketIndex,
}

impl Candidates {
    /// The distinct candidate buckets, one or two, in the order of trying.
    #[inline]
    pub fn buckets(&self) -> impl Iterator<Item = BucketIndex> + use<> {
        let second = (self.second != self.first).then_some(self.second);
        std::iter::once(self.first).chain(second)
    }
}

/// Where a bucket lies: its page and its slots within the page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// Page within the sub-filter.
    pub page: u32,
    /// First slot of the bucket within the page.
    pub first_slot: u16,
}

/// The geometry of one sub-filter under one layout. Small and copied freely.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Layout {
    /// See [`Classic`].
    Classic(Classic),
}

impl Layout {
    /// Fingerprint and candidate buckets of an item.
    #[inline]
    pub fn candidates(&self, hash: super::hash::ItemHash) -> Candidates {
        match self {
            Layout::Classic(classic) => classic.candidates(hash),
        }
    }

    /// The other bucket a fingerprint found in `bucket` may lie in; its own
    /// inverse.
    #[inline]
    pub fn alternate(&self, bucket: BucketIndex, fingerprint: Fingerprint) -> BucketIndex {
        match self {
            Layout::Classic(classic) => classic.alternate(bucket, fingerprint),
        }
    }

    /// Page and slots of a bucket.
    #[inline]
    pub fn place(&self, bucket: BucketIndex) -> Place {
        match self {
            Layout::Classic(classic) => classic.place(bucket),
        }
    }

    /// Slots per bucket.
    #[inline]
    pub fn bucket_size(&self) -> u8 {
        match self {
            Layout::Classic(classic) => classic.bucket_size(),
        }
    }

    /// Buckets of the sub-filter.
    pub fn buckets(&self) -> u64 {
        match self {
            Layout::Classic(classic) => classic.buckets(),
        }
    }

    /// Pages of the sub-filter.
    pub fn pages(&self) -> u32 {
        match self {
            Layout::Classic(classic) => classic.pages(),
        }
    }

    /// Bytes of one page, at most the page size of the filter.
    pub fn page_bytes(&self) -> u32 {
        match self {
            Layout::Classic(classic) => classic.page_bytes(),
        }
    }

    /// Slots of the sub-filter.
    pub fn slots(&self) -> u64 {
        self.buckets() * u64::from(self.bucket_size())
    }

    /// Share of the slots that kick-outs are expected to reach, 0 to 1.
    pub fn target_load(&self) -> f64 {
        match self {
            Layout::Classic(classic) => classic.target_load(),
        }
    }

    /// Probability that an item which was never added is found here, at a
    /// load between 0 and 1.
    pub fn false_positive_rate(&self, load: f64) -> f64 {
        match self {
            Layout::Classic(classic) => classic.false_positive_rate(load),
        }
    }
}
