//! How pages, words and slots of one chain are named.

use crate::cuckoo::classic::Classic;
use crate::cuckoo::kick::Slot;

/// Number of a sub-filter within its filter's whole life, never reused.
///
/// It differs from the sub-filter's position in the chain as soon as an emptied
/// sub-filter was dropped and the chain grew again.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize,
)]
pub struct Ordinal(pub u32);

/// A page of the chain.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PageAddress {
    /// Position of the sub-filter, 0 = oldest.
    pub sub: u32,
    /// Page within the sub-filter, 0-based.
    pub page: u32,
}

/// A word of 64 bits on a page of the chain.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WordAddress {
    /// Position of the sub-filter, 0 = oldest.
    pub sub: u32,
    /// Page within the sub-filter, 0-based.
    pub page: u32,
    /// Word within the page, 0-based.
    pub word: u16,
}

/// A slot on a page of the chain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct SlotAddress {
    pub(super) page: PageAddress,
    /// Slot within the page, 0-based.
    pub(super) slot: u16,
}

impl PageAddress {
    /// A page of the sub-filter at a position, of which there are at most
    /// 2^16 + 1.
    #[inline]
    pub fn new(position: usize, page: u32) -> PageAddress {
        let sub = position as u32;
        PageAddress { sub, page }
    }

    /// A word of this page.
    #[inline]
    pub fn word(self, word: u16) -> WordAddress {
        let PageAddress { sub, page } = self;
        WordAddress { sub, page, word }
    }
}

impl WordAddress {
    /// The page it lies on.
    #[inline]
    pub fn on(self) -> PageAddress {
        PageAddress {
            sub: self.sub,
            page: self.page,
        }
    }
}

impl SlotAddress {
    /// A slot of a bucket in the sub-filter at a position.
    #[inline]
    pub(super) fn of(position: usize, layout: &Classic, slot: Slot) -> SlotAddress {
        let bucket = layout.address(slot.bucket);
        SlotAddress {
            page: PageAddress::new(position, bucket.page),
            slot: bucket.first_slot + u16::from(slot.slot),
        }
    }
}
