//! The layout seam: from an item's hash to the two buckets it may lie in.
//!
//! A layout says where fingerprints go. Everything else (the rules of the
//! chain, pages, the kick search, the store) is the same for all layouts.
//! Layouts must nest: if an item's class matches in a newer sub-filter of a
//! chain, it must match in every older one, or deleting newest-first would
//! take other items' only fingerprints.

use super::bucket::{self, Piece, SlotWidth};
use super::candidates::{BucketAddress, BucketIndex, Candidates, Fingerprint};
use super::classic::Classic;
use super::hash::ItemHash;
use super::paged::{self, OfWidth, Paged};

/// What a probe needs of a layout. Loops over many items are generic over it, so
/// that the layout is matched once and not for each item.
pub trait Geometry: Copy {
    /// As [`Layout::candidates`].
    fn candidates(&self, hash: ItemHash) -> Candidates;

    /// As [`Layout::address`].
    fn address(&self, bucket: BucketIndex) -> BucketAddress;

    /// As [`Layout::slot_width`].
    fn slot_width(&self) -> SlotWidth;

    /// The words of the bucket that begins at a slot.
    fn pieces(&self, first_slot: u16) -> impl Iterator<Item = Piece>;
}

impl Geometry for Classic {
    #[inline]
    fn candidates(&self, hash: ItemHash) -> Candidates {
        Classic::candidates(self, hash)
    }

    #[inline]
    fn address(&self, bucket: BucketIndex) -> BucketAddress {
        Classic::address(self, bucket)
    }

    #[inline]
    fn slot_width(&self) -> SlotWidth {
        SlotWidth::Bits8
    }

    #[inline]
    fn pieces(&self, first_slot: u16) -> impl Iterator<Item = Piece> {
        bucket::pieces(SlotWidth::Bits8, first_slot, self.bucket_size())
    }
}

impl<const BITS: u16> Geometry for OfWidth<BITS> {
    #[inline]
    fn candidates(&self, hash: ItemHash) -> Candidates {
        self.paged().candidates(hash)
    }

    #[inline]
    fn address(&self, bucket: BucketIndex) -> BucketAddress {
        self.paged().address(bucket)
    }

    #[inline]
    fn slot_width(&self) -> SlotWidth {
        self.paged().width()
    }

    #[inline]
    fn pieces(&self, first_slot: u16) -> impl Iterator<Item = Piece> {
        bucket::pieces_of_four(self.slot_width(), first_slot)
    }
}

/// The geometry of one sub-filter under one layout. Small and copied freely.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Layout {
    /// See [`Classic`].
    Classic(Classic),
    /// See [`Paged`].
    Paged(Paged),
}

/// Pages that a search for kick-outs may look at, whatever the layout.
pub const MAX_PAGES_PER_SEARCH: usize = 1024;

/// Buckets that a search for kick-outs may look at, whatever the layout; `paged`
/// has the most.
pub const MAX_BUCKETS_PER_SEARCH: usize = PAGED_SEARCH.buckets;

/// Half of the numbers of a level reach a load of 0.959 at 40,000 pages, these
/// 0.966: a page whose items are far more than its share can only give away
/// those that cross, and they are few by then.
const PAGED_SEARCH: SearchBounds = {
    let (levels, expanded, crossings) = (3, 192, 32);
    SearchBounds {
        expanded_per_level: expanded,
        levels,
        crossings_per_level: crossings,
        // Two to begin with, and per level those that crossed and the
        // alternates of those expanded: room for all.
        buckets: 2 + levels as usize * (crossings + paged::BUCKET_SIZE as usize * expanded),
    }
};

/// How far the search for kick-outs goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SearchBounds {
    /// Buckets of a level whose fingerprints are followed. On a level the
    /// search stays on the pages where the level began.
    pub expanded_per_level: usize,
    /// Levels.
    pub levels: u8,
    /// Buckets of other pages that a level hands on to the next.
    pub crossings_per_level: usize,
    /// Buckets looked at in all.
    pub buckets: usize,
}

impl Layout {
    /// Fingerprint and candidate buckets of an item.
    #[inline]
    pub fn candidates(&self, hash: ItemHash) -> Candidates {
        match self {
            Layout::Classic(classic) => classic.candidates(hash),
            Layout::Paged(paged) => paged.candidates(hash),
        }
    }

    /// The other bucket a fingerprint found in `bucket` may lie in; its own
    /// inverse.
    #[inline]
    pub fn alternate(&self, bucket: BucketIndex, fingerprint: Fingerprint) -> BucketIndex {
        match self {
            Layout::Classic(classic) => classic.alternate(bucket, fingerprint),
            Layout::Paged(paged) => paged.alternate(bucket, fingerprint),
        }
    }

    /// Where a fingerprint may lie that was found in a bucket of `larger`, a
    /// sub-filter of the same chain that is at least as large. That is exact:
    /// sub-filters nest.
    pub fn candidates_under(
        &self,
        larger: &Layout,
        bucket: BucketIndex,
        fingerprint: Fingerprint,
    ) -> Candidates {
        let first = match (self, larger) {
            (Layout::Paged(paged), Layout::Paged(larger)) => paged.under(bucket, larger),
            (Layout::Classic(classic), _) => classic.under(bucket),
            // A chain has one layout.
            (Layout::Paged(_), Layout::Classic(_)) => bucket,
        };
        Candidates {
            fingerprint,
            first,
            second: self.alternate(first, fingerprint),
        }
    }

    /// The first bucket of the page after that of a bucket.
    pub fn next_page(&self, bucket: BucketIndex) -> BucketIndex {
        let per_page = self.buckets() / u64::from(self.pages());
        BucketIndex((bucket.0 / per_page + 1) * per_page)
    }

    /// Page and slots of a bucket.
    #[inline]
    pub fn address(&self, bucket: BucketIndex) -> BucketAddress {
        match self {
            Layout::Classic(classic) => classic.address(bucket),
            Layout::Paged(paged) => paged.address(bucket),
        }
    }

    /// Bits per slot.
    #[inline]
    pub fn slot_width(&self) -> SlotWidth {
        match self {
            Layout::Classic(_) => SlotWidth::Bits8,
            Layout::Paged(paged) => paged.width(),
        }
    }

    /// How far the search for kick-outs goes.
    #[inline]
    pub fn search_bounds(&self) -> SearchBounds {
        match self {
            // Pages mean nothing to it: a fingerprint's buckets lie anywhere.
            Layout::Classic(_) => SearchBounds {
                expanded_per_level: 500,
                levels: 1,
                crossings_per_level: 0,
                buckets: MAX_PAGES_PER_SEARCH,
            },
            Layout::Paged(_) => PAGED_SEARCH,
        }
    }

    /// Whether the search for kick-outs follows a fingerprint from one bucket
    /// to the other on the same level.
    #[inline]
    pub fn is_near(&self, bucket: BucketIndex, other: BucketIndex) -> bool {
        match self {
            Layout::Classic(_) => true,
            Layout::Paged(paged) => paged.address(bucket).page == paged.address(other).page,
        }
    }

    /// Slots of one class in a sub-filter from which on further copies are
    /// counted beside the page, at least 1 and less than the candidate slots.
    /// So one hot item can't fill its buckets. Large buckets of 8-bit
    /// fingerprints hold some matches by chance, hence the allowance.
    #[inline]
    pub fn class_limit(&self, candidates: &Candidates) -> u32 {
        match self {
            Layout::Classic(_) => {
                let bucket_size = u32::from(self.bucket_size());
                let slots = bucket_size
                    * if candidates.first == candidates.second {
                        1
                    } else {
                        2
                    };
                (3 + (8 * bucket_size).div_ceil(255)).min(slots - 1).max(1)
            }
            Layout::Paged(_) => 3,
        }
    }

    /// Slots per bucket.
    #[inline]
    pub fn bucket_size(&self) -> u8 {
        match self {
            Layout::Classic(classic) => classic.bucket_size(),
            Layout::Paged(_) => paged::BUCKET_SIZE,
        }
    }

    /// Buckets of the sub-filter.
    pub fn buckets(&self) -> u64 {
        match self {
            Layout::Classic(classic) => classic.buckets(),
            Layout::Paged(paged) => paged.buckets(),
        }
    }

    /// Pages of the sub-filter.
    pub fn pages(&self) -> u32 {
        match self {
            Layout::Classic(classic) => classic.pages(),
            Layout::Paged(paged) => paged.pages(),
        }
    }

    /// Bytes of one page, at most the page size of the filter.
    pub fn page_bytes(&self) -> u32 {
        match self {
            Layout::Classic(classic) => classic.page_bytes(),
            Layout::Paged(_) => paged::PAGE_BYTES,
        }
    }

    /// Bytes of all pages of the sub-filter.
    pub fn bytes(&self) -> u64 {
        u64::from(self.pages()) * u64::from(self.page_bytes())
    }

    /// Slots of the sub-filter.
    pub fn slots(&self) -> u64 {
        self.buckets() * u64::from(self.bucket_size())
    }

    /// Share of the slots that kick-outs are expected to reach, 0 to 1.
    pub fn target_load(&self) -> f64 {
        match self {
            Layout::Classic(classic) => classic.target_load(),
            Layout::Paged(paged) => paged.target_load(),
        }
    }

    /// Probability that an item which was never added is found here, at a
    /// load between 0 and 1.
    pub fn false_positive_rate(&self, load: f64) -> f64 {
        match self {
            Layout::Classic(classic) => classic.false_positive_rate(load),
            Layout::Paged(paged) => paged.false_positive_rate(load),
        }
    }
}
