//! An item in one sub-filter: its fingerprint, its candidate buckets, and
//! where a bucket lies.

/// Position of a bucket within its sub-filter, 0-based.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BucketIndex(pub u64);

/// What a slot holds of an item: 1 to 2^width - 1, since 0 is the empty slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Fingerprint(pub u32);

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

    /// The candidate that stands for both: two items are of one class, which
    /// nothing can tell apart, if they have this and the fingerprint in common.
    #[inline]
    pub fn canonical(&self) -> BucketIndex {
        self.first.min(self.second)
    }
}

/// Where a bucket lies in its sub-filter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BucketAddress {
    /// Page within the sub-filter, 0-based.
    pub page: u32,
    /// First slot of the bucket within the page, 0-based.
    pub first_slot: u16,
}
