//! What the log did to one page, and how many items are in one.

use crate::chain::counters::{CounterKey, Counters};
use crate::chain::meta::{Chain, SubFilter};
use crate::chain::paged::{Known, Table};
use crate::cuckoo::layout::Layout;
use crate::engine::pages::PageGeometry;
use crate::engine::pages::image::{self, PageImage};
use crate::page::PageId;
use crate::store::StoreError;
use crate::store::redo::{RedoError, RedoWrite};
use std::collections::BTreeMap;

/// What the log says about one page: the last value of everything it names.
#[derive(Default)]
pub(super) struct LoggedPage {
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

impl LoggedPage {
    /// Notes an entry.
    ///
    /// # Errors
    /// The image of a whole page can't be read.
    pub(super) fn note(&mut self, write: &RedoWrite<'_>) -> Result<(), RedoError> {
        match write {
            RedoWrite::Slot(write) => {
                self.slots.insert(write.slot, write.value);
            }
            RedoWrite::Counter(write) => {
                self.counters.insert(CounterKey(write.key), write.value);
            }
            RedoWrite::Whole(write) => {
                let image = write.image(&mut Vec::new())?.to_vec();
                *self = LoggedPage {
                    base: Base::Whole(image),
                    ..LoggedPage::default()
                };
            }
            RedoWrite::Dropped(_) => {
                *self = LoggedPage {
                    base: Base::Dropped,
                    ..LoggedPage::default()
                };
            }
        }
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
        let page = image::decode(before, geometry.page_bytes(), id)?;
        let mut changed = page.slots.to_vec();
        changed.resize(geometry.page_bytes() as usize, 0);
        for (&slot, &value) in &self.slots {
            image::set_slot(&mut changed, geometry.slot_width(), slot, value as u32);
        }
        let mut counters = page.counters.as_deref().cloned().unwrap_or_default();
        for (&key, &copies) in &self.counters {
            counters.set(key, copies);
        }
        counters.encode(&mut changed);
        Ok(changed)
    }
}

/// What is in a page, or in all pages of a sub-filter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::engine) struct Contents {
    /// Slots in use.
    pub(in crate::engine) occupied: u64,
    /// Copies counted beside the slots.
    pub(in crate::engine) counted: u64,
    /// Counters beside pages, where items have values.
    pub(in crate::engine) keys: Option<u64>,
    /// Slots by the bits that are known of their entries, where they differ.
    pub(in crate::engine) known: Option<Known>,
}

/// Counts what is in a page; `None` if it can't be that page.
pub(in crate::engine) fn contents(bytes: &[u8], layout: &Layout, page: u32) -> Option<Contents> {
    let geometry = PageGeometry::of(layout);
    let PageImage { slots, counters } = image::parse(bytes, geometry.page_bytes()).ok()?;
    let (keys, counted) = counters
        .as_deref()
        .map_or(Some((0, 0)), |it| copies(it, &geometry))?;
    Some(Contents {
        occupied: image::occupied(slots, geometry.slot_width())?,
        counted,
        keys: has_values(layout).then_some(keys),
        known: match layout {
            Layout::Classic(_) => None,
            Layout::Paged(paged) => Some(Known::of_page(paged, page, image::words(slots))?),
        },
    })
}

/// The number of the counters, and their sum; `None` if one can't be of such a page.
/// Stamps count nothing.
fn copies(counters: &Counters, geometry: &PageGeometry) -> Option<(u64, u64)> {
    let mut counters = counters.iter().filter(|it| it.0 != CounterKey::STAMP);
    counters.try_fold((0, 0u64), |(keys, sum), (key, copies)| {
        geometry.has_class(key).then_some(())?;
        Some((keys + 1, sum.checked_add(copies)?))
    })
}

fn has_values(layout: &Layout) -> bool {
    match layout {
        Layout::Classic(_) => false,
        Layout::Paged(paged) => paged.code().value_bits() > 0,
    }
}

impl Contents {
    /// Nothing yet, of a sub-filter.
    pub(in crate::engine) fn none_of(layout: &Layout) -> Contents {
        Contents {
            occupied: 0,
            counted: 0,
            keys: has_values(layout).then_some(0),
            known: match layout {
                Layout::Classic(_) => None,
                Layout::Paged(paged) => Some(Known::none_of(paged)),
            },
        }
    }

    /// What a filter says that the pages of one of its sub-filters hold.
    pub(in crate::engine) fn told_by(chain: &Chain, sub: &SubFilter) -> Contents {
        Contents {
            occupied: sub.occupied,
            counted: sub.counted,
            keys: chain
                .table()
                .filter(|_| has_values(&sub.layout))
                .map(Table::keys),
            known: chain.table().map(|table| table.known().clone()),
        }
    }

    /// What both hold. Never more than all: such a filter was refused before.
    pub(in crate::engine) fn add(&mut self, other: &Contents) {
        self.occupied = self.occupied.saturating_add(other.occupied);
        self.counted = self.counted.saturating_add(other.counted);
        if let (Some(keys), Some(more)) = (&mut self.keys, other.keys) {
            *keys += more;
        }
        if let (Some(known), Some(others)) = (&mut self.known, &other.known) {
            known.extend(others);
        }
    }
}
