//! The layout seam: how the pages of a filter look, whichever the layout.
//!
//! A layout says where entries go, and the rules of its chain follow from it;
//! here is what those have to know who hold pages, store them and count their
//! slots.

use super::bucket::SlotWidth;
use super::candidates::BucketIndex;
use super::classic::{self, Classic};
use super::paged::{PAGE_BYTES, Paged};

/// The geometry of one sub-filter under one layout. Small and copied freely.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Layout {
    /// See [`Classic`].
    Classic(Classic),
    /// See [`Paged`].
    Paged(Paged),
}

impl Layout {
    /// The geometry of a filter that splits pages.
    #[inline]
    pub fn paged(&self) -> Option<&Paged> {
        match self {
            Layout::Classic(_) => None,
            Layout::Paged(paged) => Some(paged),
        }
    }

    /// Bits per slot.
    #[inline]
    pub fn slot_width(&self) -> SlotWidth {
        self.paged().map_or(classic::WIDTH, |it| it.code().width())
    }

    /// Bits of the value that a slot carries below its fingerprint; 0: none.
    pub fn value_bits(&self) -> u32 {
        self.paged().map_or(0, |it| it.code().value_bits())
    }

    /// Slots per bucket.
    #[inline]
    pub fn bucket_size(&self) -> u8 {
        match self {
            Layout::Classic(classic) => classic.bucket_size(),
            Layout::Paged(paged) => paged.code().bucket_size(),
        }
    }

    /// Buckets of the sub-filter.
    pub fn buckets(&self) -> u64 {
        match self {
            Layout::Classic(classic) => classic.buckets(),
            Layout::Paged(paged) => u64::from(paged.pages()) * u64::from(paged.buckets_per_page()),
        }
    }

    /// Page of a bucket.
    pub fn page_of(&self, bucket: BucketIndex) -> u32 {
        match self {
            Layout::Classic(classic) => classic.address(bucket).page,
            Layout::Paged(paged) => paged.address(bucket).0,
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
            Layout::Paged(_) => PAGE_BYTES,
        }
    }

    /// Slots of a page.
    pub fn slots_per_page(&self) -> u32 {
        match self {
            Layout::Classic(classic) => classic.page_bytes(),
            Layout::Paged(paged) => paged.slots_per_page() as u32,
        }
    }

    /// Bytes of all pages of the sub-filter.
    pub fn bytes(&self) -> u64 {
        u64::from(self.pages()) * u64::from(self.page_bytes())
    }

    /// Slots of the sub-filter.
    pub fn slots(&self) -> u64 {
        u64::from(self.pages()) * u64::from(self.slots_per_page())
    }
}
