//! Which pages of a sub-filter are resident, and where: by the
//! [leaf](super::leaves) of each 64 neighbouring pages.
//!
//! Where pages are split and merged, a table grows while others read it. So
//! nothing in it is ever copied or moved: behind the pages that there were when
//! it was made, it takes segments, each twice as long as the one before.

use super::geometry::PageGeometry;
use super::image::{self, PageImage};
use super::leaves::{LEAF_PAGES, LeafName};
use super::parked::ParkedPages;
use crate::page::{FilterId, Ordinal, PageId, PageIndex};
use crate::store::{PageStore, StoreError};
use cuckood_filter::chain::params::PAGE_BYTES;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};

/// Leaves whose names are allocated together.
const PART_LEAVES: usize = 512;

/// Bits of a page number. Those of leaves have fewer.
const NUMBER_BITS: u32 = 32;

/// Names of the leaves of neighbouring pages, allocated with the first of these
/// that comes in: 8 bytes for each 64 pages.
type Part = OnceLock<Box<[LeafName]>>;

/// The pages of one sub-filter.
pub struct PageTable {
    filter: FilterId,
    ordinal: Ordinal,
    geometry: PageGeometry,
    /// An [`Extent`].
    extent: AtomicU64,
    /// Number of its first page's [version](super::Versions).
    pub(super) first_stripe: usize,
    /// The filter was removed or the sub-filter dropped: its pages need no
    /// checkpoint any more.
    dropped: AtomicBool,
    resident: AtomicU32,
    /// Of the counters of its resident pages.
    pub(super) counter_bytes: AtomicU64,
    /// Pages that wait for a checkpoint, parked ones among them.
    pub dirty: AtomicU32,
    /// What changed in its pages since they were stored.
    pub(super) parked: ParkedPages,
    /// Of the leaves whose numbers, within the table, have no bit from this one
    /// on.
    first_bits: u32,
    first: Box<[Part]>,
    /// Of the others, by the highest bit of their numbers.
    grown: OnceLock<Box<[Segment]>>,
}

type Segment = OnceLock<Box<[Part]>>;

/// How many pages there are, and their generation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extent(u64);

impl Extent {
    fn new(pages: u32, generation: u32) -> Extent {
        Extent(u64::from(generation) << NUMBER_BITS | u64::from(pages))
    }

    #[inline]
    pub(super) fn pages(self) -> u32 {
        self.0 as u32
    }

    /// How often pages were dropped, or changed without a frame: an image that was read
    /// in another generation may not be the page.
    #[inline]
    pub(super) fn generation(self) -> u32 {
        (self.0 >> NUMBER_BITS) as u32
    }
}

impl PageTable {
    /// A table of a sub-filter's pages, none of them resident.
    pub fn new(filter: FilterId, ordinal: Ordinal, geometry: &PageGeometry) -> Self {
        let pages = geometry.pages();
        // Sized to be full, unless more may come.
        let leaves = (pages as usize).div_ceil(LEAF_PAGES);
        let first_leaves = match geometry.splits {
            true => leaves.next_power_of_two(),
            false => leaves,
        };
        let mixed =
            (filter.0 ^ u64::from(ordinal.0).rotate_left(40)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        PageTable {
            filter,
            ordinal,
            geometry: *geometry,
            extent: AtomicU64::new(Extent::new(pages, 0).0),
            first_stripe: (mixed >> 40) as usize,
            dropped: AtomicBool::new(false),
            resident: AtomicU32::new(0),
            counter_bytes: AtomicU64::new(0),
            dirty: AtomicU32::new(0),
            parked: ParkedPages::default(),
            first_bits: first_leaves.next_power_of_two().ilog2(),
            first: parts(first_leaves),
            grown: OnceLock::new(),
        }
    }

    /// Full name of one of its pages.
    #[inline]
    pub fn id(&self, page: u32) -> PageId {
        PageId {
            filter: self.filter,
            ordinal: self.ordinal,
            page: PageIndex(page),
        }
    }

    /// What its pages are like, and how many there are.
    #[inline]
    pub fn geometry(&self) -> PageGeometry {
        self.geometry.with_pages(self.extent().pages())
    }

    /// How many pages there are.
    #[inline]
    pub fn pages(&self) -> u32 {
        self.extent().pages()
    }

    /// How many pages there are, and their generation.
    #[inline]
    pub fn extent(&self) -> Extent {
        Extent(self.extent.load(Ordering::Acquire))
    }

    /// Says how many pages there are from now on. The filter's lane alone does,
    /// when it publishes, and before it [drops](super::PageCache::detach) those
    /// that are gone.
    pub(super) fn set_pages(&self, pages: u32) {
        let before = self.extent();
        let is_fewer = pages < before.pages();
        let generation = before.generation().wrapping_add(u32::from(is_fewer));
        let extent = Extent::new(pages, generation);
        self.extent.store(extent.0, Ordering::Release);
    }

    /// Says that a page changed without a frame. The filter's lane alone does.
    pub(super) fn begin_generation(&self) {
        let before = self.extent();
        let extent = Extent::new(before.pages(), before.generation().wrapping_add(1));
        self.extent.store(extent.0, Ordering::Release);
    }

    /// Resident pages.
    #[inline]
    pub fn resident(&self) -> u32 {
        self.resident.load(Ordering::Relaxed)
    }

    /// Bytes that these take, with what is counted beside them.
    pub fn resident_bytes(&self) -> u64 {
        let pages = u64::from(self.resident()) * u64::from(PAGE_BYTES);
        pages + self.counter_bytes.load(Ordering::Relaxed)
    }

    pub(super) fn count_resident(&self) {
        self.resident.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn count_evicted(&self) {
        self.resident.fetch_sub(1, Ordering::Relaxed);
    }

    /// Says that these pages will not be asked for again.
    pub fn mark_dropped(&self) {
        self.dropped.store(true, Ordering::Release);
    }

    /// Whether [`mark_dropped`](Self::mark_dropped) was called.
    #[inline]
    pub(super) fn is_dropped(&self) -> bool {
        self.dropped.load(Ordering::Acquire)
    }

    /// The name of a page's leaf, if a page of its part was ever resident.
    #[inline]
    pub(super) fn leaf(&self, page: u32) -> Option<&LeafName> {
        let number = page / LEAF_PAGES as u32;
        let above = number >> self.first_bits;
        let (parts, within) = match above {
            0 => (&self.first, number as usize),
            _ => {
                let segment = self.grown.get()?.get(above.ilog2() as usize)?;
                (segment.get()?, within_segment(number))
            }
        };
        let part = parts.get(within / PART_LEAVES)?.get()?;
        part.get(within % PART_LEAVES)
    }

    /// The same for a page that is to be resident.
    pub(super) fn leaf_to_fill(&self, page: u32) -> Option<&LeafName> {
        let number = page / LEAF_PAGES as u32;
        let (part, within) = self.place_to_fill(number)?;
        let leaves = self.segment_leaves(number).min(PART_LEAVES);
        part.get_or_init(|| (0..leaves).map(|_| LeafName::default()).collect())
            .get(within)
    }

    /// The part that the name of a leaf lies in, and its place there.
    fn place_to_fill(&self, number: u32) -> Option<(&Part, usize)> {
        let above = number >> self.first_bits;
        let (parts_of, within) = match above {
            0 => (&self.first, number as usize),
            _ if !self.geometry.splits => return None,
            _ => {
                let count = NUMBER_BITS - self.first_bits;
                let segments = || (0..count).map(|_| Segment::new()).collect();
                let segments = self.grown.get_or_init(segments);
                let segment = segments.get(above.ilog2() as usize)?;
                let leaves = self.segment_leaves(number);
                (
                    segment.get_or_init(|| parts(leaves)),
                    within_segment(number),
                )
            }
        };
        Some((parts_of.get(within / PART_LEAVES)?, within % PART_LEAVES))
    }

    /// Leaves that the segment of a leaf has names for.
    fn segment_leaves(&self, number: u32) -> usize {
        match number >> self.first_bits {
            0 => 1 << self.first_bits,
            _ => 1 << number.ilog2(),
        }
    }
}

/// Reads pages as they are: their stored images, which nobody replaces meanwhile, with what
/// is parked of them. Those of which no image counts come first. Calls `each` with their
/// places among `pages`, which ascend by their ids, until it fails.
pub(super) fn read_pages(
    store: &PageStore,
    pages: &[(&PageTable, u32)],
    each: &mut dyn FnMut(usize, PageImage<'_>) -> Result<(), StoreError>,
) -> Result<(), StoreError> {
    let (mut slots, mut stored) = (Vec::new(), Vec::with_capacity(pages.len()));
    for (at, &(table, page)) in pages.iter().enumerate() {
        // In one look: once it is stored, nothing is parked any more.
        let parked = table.parked.lock();
        let whole = parked.get(&page).filter(|it| it.is_whole);
        let nothing = PageImage::default();
        let whole = whole.map(|it| it.over(nothing, &table.geometry, &mut slots));
        drop(parked);
        match whole {
            Some(whole) => each(at, whole)?,
            None => stored.push((at, table, page)),
        }
    }
    let ids: Vec<PageId> = stored.iter().map(|it| it.1.id(it.2)).collect();
    let mut result = Ok(());
    store.read_pages(&ids, &mut |index, bytes| {
        let Some(&(at, table, page)) = stored.get(index).filter(|_| result.is_ok()) else {
            return;
        };
        let bytes = bytes.unwrap_or_default();
        let image = image::decode(bytes, table.geometry.page_bytes(), table.id(page));
        result = image.and_then(|image| {
            let parked = table.parked.lock();
            let page = match parked.get(&page) {
                Some(parked) => parked.over(image, &table.geometry, &mut slots),
                None => image,
            };
            drop(parked);
            each(at, page)
        });
    })?;
    result
}

/// Where a leaf lies in its segment, which begins with the leaf whose number
/// has the same highest bit and no other.
#[inline]
fn within_segment(number: u32) -> usize {
    (number - (1 << number.ilog2())) as usize
}

fn parts(leaves: usize) -> Box<[Part]> {
    let parts = 0..leaves.div_ceil(PART_LEAVES);
    parts.map(|_| Part::new()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use cuckood_filter::cuckoo::bucket::SlotWidth;
    use std::collections::BTreeSet;

    fn table(pages: u32, splits: bool) -> PageTable {
        let geometry = PageGeometry::fixed(pages, SlotWidth::Bits16);
        let geometry = match splits {
            true => geometry.splitting(),
            false => geometry,
        };
        PageTable::new(FilterId(7), Ordinal(0), &geometry)
    }

    #[test]
    fn names_of_leaves_stay_where_they_are_while_a_table_grows() {
        const LEAF: u32 = LEAF_PAGES as u32;
        for leaves in [1, 2, 3, 5, 511, 512, 513, 1025] {
            let table = table(leaves * LEAF - 1, true);
            let of_pages = |page| {
                let first = table.leaf_to_fill(page * LEAF).unwrap() as *const LeafName;
                let last = table.leaf_to_fill(page * LEAF + LEAF - 1).unwrap();
                assert!(std::ptr::eq(first, last));
                first
            };
            let before: Vec<*const LeafName> = (0..leaves).map(of_pages).collect();
            let mut all: BTreeSet<*const LeafName> = before.iter().copied().collect();
            for leaf in leaves..40 * leaves {
                assert!(all.insert(of_pages(leaf)), "{leaf}");
            }
            assert_eq!(all.len(), 40 * leaves as usize);
            for (leaf, &name) in (0..).zip(&before) {
                assert!(std::ptr::eq(table.leaf(leaf * LEAF).unwrap(), name));
            }
            table.leaf_to_fill(u32::MAX).unwrap();
            assert!(table.leaf(u32::MAX).is_some() && table.leaf(u32::MAX / 2).is_none());
        }
    }

    #[test]
    fn a_table_takes_no_more_names_than_there_are_leaves() {
        let names = |table: &PageTable, leaf| {
            let (part, _) = table.place_to_fill(leaf).unwrap();
            part.get().map_or(0, |part| part.len())
        };
        const LEAF: u32 = LEAF_PAGES as u32;
        let small = table(1, true);
        for (leaf, expected) in [(0, 1), (1, 1), (2, 2), (7, 4), (600, 512), (5000, 512)] {
            small.leaf_to_fill(leaf * LEAF).unwrap();
            assert_eq!(names(&small, leaf), expected, "{leaf}");
        }
        let fixed = table(5 * LEAF, false);
        fixed.leaf_to_fill(4 * LEAF).unwrap();
        assert!(fixed.leaf(4 * LEAF).is_some() && fixed.leaf_to_fill(8 * LEAF).is_none());
    }

    #[test]
    fn an_extent_tells_a_page_that_was_dropped_from_one_that_came_back() {
        let table = table(3, true);
        let before = table.extent();
        assert_eq!(before.pages(), 3);
        table.set_pages(4);
        assert_eq!(table.extent().generation(), before.generation());
        table.set_pages(3);
        table.set_pages(4);
        let after = table.extent();
        assert_eq!(after.pages(), 4);
        assert_ne!(after.generation(), before.generation());
        assert_eq!(table.geometry().pages(), 4);
    }
}
