//! Which pages of a sub-filter are resident, and where.

use super::frame::FrameIndex;
use super::seqlock::Entry;
use crate::cuckoo::bucket::SlotWidth;
use crate::cuckoo::layout::Layout;
use crate::page::{FilterId, Ordinal, PageId, PageIndex};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

/// Pages whose entries are allocated together.
const LEAF_PAGES: usize = 512;

/// The pages of one sub-filter.
pub(crate) struct PageTable {
    filter: FilterId,
    ordinal: Ordinal,
    pages: u32,
    page_bytes: u32,
    width: SlotWidth,
    /// Number of its first page's [version](super::Versions).
    first_stripe: usize,
    /// The filter was removed or the sub-filter dropped: its pages need no
    /// checkpoint any more.
    dropped: AtomicBool,
    resident: AtomicU32,
    dirty: AtomicU32,
    /// Entries by page. Leaves are allocated with their first page.
    leaves: Box<[OnceLock<Box<[Entry]>>]>,
}

impl PageTable {
    /// A table of a sub-filter's pages, none of them resident.
    pub(crate) fn new(filter: FilterId, ordinal: Ordinal, layout: &Layout) -> Self {
        let pages = layout.pages();
        let leaves = (pages as usize).div_ceil(LEAF_PAGES);
        let mixed =
            (filter.0 ^ u64::from(ordinal.0).rotate_left(40)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        PageTable {
            filter,
            ordinal,
            pages,
            page_bytes: layout.page_bytes(),
            width: layout.slot_width(),
            first_stripe: (mixed >> 40) as usize,
            dropped: AtomicBool::new(false),
            resident: AtomicU32::new(0),
            dirty: AtomicU32::new(0),
            leaves: (0..leaves).map(|_| OnceLock::new()).collect(),
        }
    }

    /// Full name of one of its pages.
    pub(crate) fn id(&self, page: u32) -> PageId {
        PageId {
            filter: self.filter,
            ordinal: self.ordinal,
            page: PageIndex(page),
        }
    }

    /// Bytes of each of its pages.
    pub(crate) fn page_bytes(&self) -> u32 {
        self.page_bytes
    }

    /// Width of its slots.
    pub(super) fn slot_width(&self) -> SlotWidth {
        self.width
    }

    #[inline]
    pub(super) fn first_stripe(&self) -> usize {
        self.first_stripe
    }

    /// Resident pages.
    pub(crate) fn resident(&self) -> u32 {
        self.resident.load(Ordering::Relaxed)
    }

    pub(super) fn count_resident(&self) {
        self.resident.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn count_evicted(&self) {
        self.resident.fetch_sub(1, Ordering::Relaxed);
    }

    /// Pages that wait for a checkpoint.
    pub(crate) fn dirty(&self) -> &AtomicU32 {
        &self.dirty
    }

    /// Says that these pages will not be asked for again.
    pub(crate) fn mark_dropped(&self) {
        self.dropped.store(true, Ordering::Release);
    }

    /// Whether [`mark_dropped`](Self::mark_dropped) was called.
    pub(super) fn is_dropped(&self) -> bool {
        self.dropped.load(Ordering::Acquire)
    }

    /// The entry of a page, if one of its leaf was ever resident.
    #[inline]
    pub(super) fn entry(&self, page: u32) -> Option<&Entry> {
        self.leaves
            .get(page as usize / LEAF_PAGES)?
            .get()?
            .get(page as usize % LEAF_PAGES)
    }

    /// The same for a page that is to be resident.
    pub(super) fn entry_to_fill(&self, page: u32) -> Option<&Entry> {
        let leaf = page as usize / LEAF_PAGES;
        let length = (self.pages as usize - leaf * LEAF_PAGES).min(LEAF_PAGES);
        self.leaves
            .get(leaf)?
            .get_or_init(|| (0..length).map(|_| Entry::new()).collect())
            .get(page as usize % LEAF_PAGES)
    }
}

/// What the entry of a page in that frame says: the generation in the high and
/// the frame + 1 in the low half.
pub(super) fn place_in(frame: FrameIndex, generation: u32) -> u64 {
    u64::from(generation) << 32 | (u64::from(frame.0) + 1)
}

/// The frame that an entry names, if any.
#[inline]
pub(super) fn frame_at(place: u64) -> Option<FrameIndex> {
    (place as u32).checked_sub(1).map(FrameIndex)
}
