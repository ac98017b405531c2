//! What a dump must know of pages: what the log did to one, and how many
//! items are in one.

use crate::chain::meta::SubFilter;
use crate::cuckoo::layout::Layout;
use crate::page::PageId;
use crate::store::StoreError;
use crate::store::redo::SlotWrite;
use std::collections::BTreeMap;

/// What the log says about one page: the last value of everything it names.
#[derive(Default)]
pub(super) struct LoggedPage {
    slots: BTreeMap<u32, u64>,
    /// Entries that were counted by [`grown`](Self::grown).
    counted: usize,
}

impl LoggedPage {
    /// Notes an entry; `false` if there is no such slot.
    pub(super) fn note(&mut self, write: &SlotWrite, layout: &Layout) -> bool {
        self.slots.insert(write.slot, write.value);
        write.slot_bytes == 1 && write.slot < layout.page_bytes()
    }

    /// Entries that it has.
    pub(super) fn entries(&self) -> usize {
        self.slots.len()
    }

    /// Entries that it has more than when this was asked last.
    pub(super) fn grown(&mut self) -> usize {
        let before = self.counted;
        self.counted = self.entries();
        self.counted - before
    }

    /// The image afterwards.
    pub(super) fn applied(
        &self,
        stored: &[u8],
        layout: &Layout,
        id: PageId,
    ) -> Result<Vec<u8>, StoreError> {
        let page_bytes = layout.page_bytes() as usize;
        if stored.len() > page_bytes {
            return Err(StoreError::Corrupt {
                what: id.to_string(),
                reason: format!("it has {} bytes", stored.len()),
            });
        }
        let mut image = stored.to_vec();
        image.resize(page_bytes, 0);
        for (&slot, &value) in &self.slots {
            if let Some(byte) = image.get_mut(slot as usize) {
                *byte = value as u8;
            }
        }
        Ok(image)
    }
}

/// What is in a page.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Contents {
    /// Slots in use.
    pub(super) occupied: u64,
}

/// Counts what is in a page; `None` if it can't be a page of that layout.
pub(super) fn contents(image: &[u8], layout: &Layout) -> Option<Contents> {
    if image.len() > layout.page_bytes() as usize {
        return None;
    }
    let occupied = image.iter().filter(|&&slot| slot != 0).count() as u64;
    Some(Contents { occupied })
}

impl Contents {
    /// What a sub-filter says that its pages hold.
    pub(super) fn told_by(sub: &SubFilter) -> Contents {
        Contents {
            occupied: sub.items,
        }
    }

    pub(super) fn add(&mut self, other: Contents) {
        self.occupied += other.occupied;
    }
}
