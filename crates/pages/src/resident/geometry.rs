//! What the engine has to know of the pages of a sub-filter: how many there are
//! and what fits on one. What their slots mean is none of its business.

use crate::store::redo::RedoWrite;
use cuckood_filter::chain::counters::CounterKey;
use cuckood_filter::cuckoo::bucket::SlotWidth;
use cuckood_filter::cuckoo::layout::Layout;

/// The pages of one sub-filter, all alike.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PageGeometry {
    /// How many there are.
    pages: u32,
    /// How many there may have been, or may come to be.
    most_pages: u32,
    /// Whether pages come and go.
    pub(super) splits: bool,
    page_bytes: u32,
    width: SlotWidth,
    /// Places of a page that counters are named by.
    class_places: u32,
}

impl PageGeometry {
    /// The pages of a sub-filter. Those of the layout `classic` stay as many as
    /// they are.
    pub fn of(layout: &Layout) -> PageGeometry {
        let mut geometry = PageGeometry {
            pages: layout.pages(),
            most_pages: layout.pages(),
            splits: false,
            page_bytes: layout.page_bytes(),
            width: layout.slot_width(),
            class_places: 0,
        };
        geometry.class_places = geometry.slots_per_page();
        if let Layout::Paged(layout) = layout {
            let most = u64::from(layout.families()) << layout.max_level();
            geometry.most_pages = u32::try_from(most).unwrap_or(u32::MAX);
            geometry.splits = true;
            geometry.class_places = u32::from(layout.buckets_per_page());
        }
        geometry
    }

    /// Pages of 4 KiB that stay as many as they are.
    #[cfg(test)]
    pub fn fixed(pages: u32, width: SlotWidth) -> PageGeometry {
        let (page_bytes, class_places) = (cuckood_filter::chain::params::PAGE_BYTES, 512);
        PageGeometry {
            pages,
            most_pages: pages,
            splits: false,
            page_bytes,
            width,
            class_places,
        }
    }

    /// The same if pages come and go.
    #[cfg(test)]
    pub fn splitting(self) -> PageGeometry {
        PageGeometry {
            most_pages: u32::MAX,
            splits: true,
            ..self
        }
    }

    /// How many pages there are.
    #[inline]
    pub fn pages(&self) -> u32 {
        self.pages
    }

    /// The same if there are so many pages.
    pub(super) fn with_pages(self, pages: u32) -> PageGeometry {
        PageGeometry { pages, ..self }
    }

    /// Bytes of the slots of each.
    #[inline]
    pub fn page_bytes(&self) -> u32 {
        self.page_bytes
    }

    /// Width of the slots.
    #[inline]
    pub fn slot_width(&self) -> SlotWidth {
        self.width
    }

    /// Slots of each page.
    #[inline]
    pub fn slots_per_page(&self) -> u32 {
        // A small page may end within a word, but not where words have bits
        // that are in no slot.
        let (words, rest) = (self.page_bytes / 8, self.page_bytes % 8);
        words * u32::from(self.width.slots_per_word()) + 8 * rest / u32::from(self.width.bits())
    }

    /// Whether an entry of the redo log makes sense for such pages, which may
    /// have been more or fewer when it was written.
    pub fn fits(&self, write: &RedoWrite<'_>) -> bool {
        let page = write.page().page.0;
        let may_be = page < self.most_pages;
        may_be
            && match write {
                RedoWrite::Slot(write) => {
                    u16::from(write.slot_bits) == self.width.bits()
                        && write.slot < self.slots_per_page()
                }
                RedoWrite::Counter(write) => self.has_class(CounterKey(write.key)),
                RedoWrite::Whole(_) | RedoWrite::Dropped(_) => self.splits,
            }
    }

    /// Whether such a page can have a counter of that class.
    pub fn has_class(&self, key: CounterKey) -> bool {
        key.0 >> 32 < u64::from(self.class_places)
            && (1..=self.width.fingerprints()).contains(&(key.0 as u32))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::page::{FilterId, Ordinal, PageId, PageIndex};
    use crate::store::redo::{CounterWrite, RedoBuilder, RedoReader, SlotWrite};
    use cuckood_filter::cuckoo::paged::Paged;
    use cuckood_filter::cuckoo::paged::code::SlotCode;

    const WIDTHS: [SlotWidth; 4] = [
        SlotWidth::Bits12,
        SlotWidth::Bits16,
        SlotWidth::Bits21,
        SlotWidth::Bits32,
    ];

    fn page(page: u32) -> PageId {
        PageId {
            filter: FilterId(7),
            ordinal: Ordinal(0),
            page: PageIndex(page),
        }
    }

    fn slot(number: u32, slot_bits: u8, slot: u32) -> RedoWrite<'static> {
        RedoWrite::Slot(SlotWrite {
            page: page(number),
            slot_bits,
            slot,
            value: 1,
        })
    }

    #[test]
    fn a_filter_that_splits_pages_may_have_had_more_of_them_but_not_any() {
        for (width, slots) in WIDTHS.into_iter().zip([2560, 2048, 1536, 1024]) {
            let layout = Paged::grown(3, 1, 2, SlotCode::of(width)).unwrap();
            let geometry = PageGeometry::of(&Layout::Paged(layout));
            assert_eq!((geometry.pages(), geometry.slots_per_page()), (8, slots));
            let most = u64::from(layout.families()) << layout.max_level();
            let last = u32::try_from(most).map_or(u32::MAX, |it| it) - 1;
            let bits = width.bits() as u8;
            for number in [0, 7, 8, last] {
                assert!(geometry.fits(&slot(number, bits, slots - 1)), "{number}");
                assert!(geometry.fits(&RedoWrite::Dropped(page(number))));
            }
            assert!(!geometry.fits(&slot(last + 1, bits, 0)));
            assert!(!geometry.fits(&RedoWrite::Dropped(page(last + 1))));
            assert!(!geometry.fits(&slot(0, bits, slots)));
            assert!(!geometry.fits(&slot(0, 8, 0)));
            let counter = |bucket: u64| {
                geometry.fits(&RedoWrite::Counter(CounterWrite {
                    page: page(7),
                    key: bucket << 32 | 1,
                    value: 1,
                }))
            };
            let buckets = u64::from(layout.buckets_per_page());
            assert!(counter(buckets - 1) && !counter(buckets));
        }
    }

    #[test]
    fn the_pages_of_other_filters_are_neither_set_as_a_whole_nor_dropped() {
        let geometry = PageGeometry::fixed(8, SlotWidth::Bits16);
        let mut record = RedoBuilder::default();
        record.wholes(FilterId(7));
        record.whole(Ordinal(0), PageIndex(3), &[1]);
        record.dropped(FilterId(7));
        record.dropped_page(Ordinal(0), PageIndex(4));
        let record = record.finish();
        for write in RedoReader::new(&record) {
            assert!(!geometry.fits(&write.unwrap()));
        }
        assert!(geometry.fits(&slot(7, 16, 2047)) && !geometry.fits(&slot(8, 16, 0)));
    }
}
