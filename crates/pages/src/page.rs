//! Plain types that `chain` and `store` share: how a page is named.
//!
//! Nothing here knows what a page holds; it only says which page is meant.

use serde::{Deserialize, Serialize};
use std::fmt;

pub use cuckood_filter::chain::address::Ordinal;

/// Number of a filter, never reused: a new filter of an old name gets a new id,
/// so it can never see the old one's pages. The slot of its name is on top, so that what
/// is stored of neighbouring slots is one range of keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct FilterId(pub u64);

impl FilterId {
    /// Bits below the slot, which has 14: programs that take a cursor of `SCAN` for a
    /// double know numbers of 53 bits.
    pub const SERIAL_BITS: u32 = 39;

    /// The one of a slot with this serial number.
    pub const fn new(slot: u16, serial: u64) -> FilterId {
        FilterId(((slot as u64) << FilterId::SERIAL_BITS) | serial)
    }

    /// The slot of its name.
    pub const fn slot(self) -> u16 {
        (self.0 >> FilterId::SERIAL_BITS) as u16
    }

    /// Its serial number, which is unique where it was made: on a lone server, or in a
    /// lane of a cluster.
    pub const fn serial(self) -> u64 {
        self.0 & ((1 << FilterId::SERIAL_BITS) - 1)
    }
}

/// Position of a page within its sub-filter, 0-based.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct PageIndex(pub u32);

/// Names one page of the whole server. Its order is the order of the stored
/// keys, so a sorted batch of ids is a sorted batch of reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct PageId {
    /// The filter.
    pub filter: FilterId,
    /// The sub-filter within the filter.
    pub ordinal: Ordinal,
    /// The page within the sub-filter.
    pub page: PageIndex,
}

impl PageId {
    /// The one at this position of the sub-filter.
    pub const fn new(filter: FilterId, ordinal: Ordinal, page: u32) -> PageId {
        PageId {
            filter,
            ordinal,
            page: PageIndex(page),
        }
    }
}

impl fmt::Display for FilterId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

impl fmt::Display for PageId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "filter {} sub-filter {} page {}",
            self.filter.0, self.ordinal.0, self.page.0
        )
    }
}

/// Number of a commit, one sequence for the whole server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Sequence(pub u64);
