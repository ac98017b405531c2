//! What the whole log did to one page, and how many items are in one.
//!
//! [`LoggedPage`](crate::logged::LoggedPage) is what one record says, to be put into a
//! frame. Who reads a snapshot has no frames, and makes each image once, of all records:
//! so what they say of a page is brought together first.

use crate::page::PageId;
use crate::resident::PageGeometry;
use crate::resident::image::{self, PageImage};
use crate::store::StoreError;
use crate::store::redo::{RedoError, RedoWrite};
use cuckood_filter::chain::contents::Contents;
use cuckood_filter::chain::counters::{CounterKey, Counters};
use cuckood_filter::cuckoo::layout::Layout;
use std::collections::BTreeMap;

/// What the log says about one page: the last value of everything it names.
#[derive(Default)]
pub(super) struct PageDelta {
    base: Base,
    slots: BTreeMap<u32, u64>,
    counters: BTreeMap<CounterKey, u64>,
}

/// What the slots and counters of a page are changes of.
#[derive(Default)]
enum Base {
    /// Of its stored image.
    #[default]
    Stored,
    /// Of the page as it was last set as a whole.
    Whole(Vec<u8>),
    /// There is no such page any more.
    Dropped,
}

impl PageDelta {
    /// Applies an entry.
    ///
    /// # Errors
    /// The image of a whole page can't be read.
    pub(super) fn apply(&mut self, write: &RedoWrite<'_>) -> Result<(), RedoError> {
        let base = match write {
            RedoWrite::Slot(write) => {
                self.slots.insert(write.slot, write.value);
                return Ok(());
            }
            RedoWrite::Counter(write) => {
                self.counters.insert(CounterKey(write.key), write.value);
                return Ok(());
            }
            RedoWrite::Whole(write) => Base::Whole(write.image(&mut Vec::new())?.to_vec()),
            RedoWrite::Dropped(_) => Base::Dropped,
        };
        *self = PageDelta {
            base,
            ..PageDelta::default()
        };
        Ok(())
    }

    /// Entries that it has; an image counts as those that take as much memory.
    pub(super) fn entries(&self) -> usize {
        let of_base = match &self.base {
            Base::Stored | Base::Dropped => 0,
            Base::Whole(image) => image.len() / 32,
        };
        of_base + self.slots.len() + self.counters.len()
    }

    /// Whether there is no such page any more.
    pub(super) fn is_dropped(&self) -> bool {
        matches!(self.base, Base::Dropped)
    }

    /// The image afterwards.
    pub(super) fn applied(
        &self,
        stored: &[u8],
        geometry: &PageGeometry,
        id: PageId,
    ) -> Result<Vec<u8>, StoreError> {
        let before = match &self.base {
            Base::Whole(image) => image,
            Base::Stored | Base::Dropped => stored,
        };
        let set = self.slots.iter().map(|(&slot, &value)| (slot, value));
        let counted = self.counters.iter().map(|(&key, &copies)| (key, copies));
        image::changed(before, geometry, id, set, counted)
    }
}

/// Counts what is in a page; `None` if it can't be that page.
pub fn contents(bytes: &[u8], layout: &Layout, page: u32) -> Option<Contents> {
    let geometry = PageGeometry::of(layout);
    let PageImage { slots, counters } = image::parse(bytes, geometry.page_bytes()).ok()?;
    let counters = counters.as_deref();
    let mut keys = counters.into_iter().flat_map(Counters::iter);
    keys.all(|it| geometry.has_class(it.0)).then_some(())?;
    Contents::of_page(layout, page, image::words(slots), counters)
}
