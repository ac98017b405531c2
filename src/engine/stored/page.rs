//! What the log did to one page, and how many items are in one.

use crate::chain::counters::{CounterKey, Counters};
use crate::chain::meta::SubFilter;
use crate::cuckoo::layout::Layout;
pub(super) use crate::engine::pages::image::fits;
use crate::engine::pages::image::{self, PageImage};
use crate::page::PageId;
use crate::store::StoreError;
use crate::store::redo::RedoWrite;
use std::collections::BTreeMap;

/// What the log says about one page: the last value of everything it names.
#[derive(Default)]
pub(super) struct LoggedPage {
    slots: BTreeMap<u32, u64>,
    counters: BTreeMap<CounterKey, u64>,
}

impl LoggedPage {
    /// Notes an entry.
    pub(super) fn note(&mut self, write: &RedoWrite) {
        match write {
            RedoWrite::Slot(write) => {
                self.slots.insert(write.slot, write.value);
            }
            RedoWrite::Counter(write) => {
                self.counters.insert(CounterKey(write.key), write.value);
            }
        }
    }

    /// Entries that it has.
    pub(super) fn entries(&self) -> usize {
        self.slots.len() + self.counters.len()
    }

    /// The image afterwards.
    pub(super) fn applied(
        &self,
        stored: &[u8],
        layout: &Layout,
        id: PageId,
    ) -> Result<Vec<u8>, StoreError> {
        let page = image::decode(stored, layout.page_bytes(), id)?;
        let mut changed = page.slots.to_vec();
        changed.resize(layout.page_bytes() as usize, 0);
        let width = usize::from(layout.slot_width().bytes());
        for (&slot, value) in &self.slots {
            let at = slot as usize * width;
            let bytes = value.to_le_bytes();
            if let Some(cell) = changed.get_mut(at..at + width) {
                for (cell, byte) in cell.iter_mut().zip(bytes) {
                    *cell = byte;
                }
            }
        }
        let mut counters = page.counters.as_deref().cloned().unwrap_or_default();
        for (&key, &copies) in &self.counters {
            counters.set(key, copies);
        }
        counters.encode(&mut changed);
        Ok(changed)
    }
}

/// What is in a page.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(in crate::engine) struct Contents {
    /// Slots in use.
    pub(in crate::engine) occupied: u64,
    /// Copies counted beside the slots.
    pub(in crate::engine) counted: u64,
}

/// Counts what is in a page; `None` if it can't be a page of that layout.
pub(in crate::engine) fn contents(bytes: &[u8], layout: &Layout) -> Option<Contents> {
    let PageImage { slots, counters } = image::parse(bytes, layout.page_bytes()).ok()?;
    let width = usize::from(layout.slot_width().bytes());
    let occupied = slots
        .chunks(width)
        .filter(|slot| slot.iter().any(|&byte| byte != 0))
        .count();
    Some(Contents {
        occupied: occupied as u64,
        counted: counters
            .as_deref()
            .map_or(Some(0), |it| copies(it, layout))?,
    })
}

/// The sum of the counters; `None` if one can't be of such a page.
fn copies(counters: &Counters, layout: &Layout) -> Option<u64> {
    counters.iter().try_fold(0u64, |sum, (key, copies)| {
        image::has_class(key, layout).then_some(())?;
        sum.checked_add(copies)
    })
}

impl Contents {
    /// What a sub-filter says that its pages hold.
    pub(in crate::engine) fn told_by(sub: &SubFilter) -> Contents {
        Contents {
            occupied: sub.occupied,
            counted: sub.counted,
        }
    }

    /// What both hold. Never more than all: such a filter was refused before.
    pub(in crate::engine) fn add(&mut self, other: Contents) {
        self.occupied = self.occupied.saturating_add(other.occupied);
        self.counted = self.counted.saturating_add(other.counted);
    }
}
