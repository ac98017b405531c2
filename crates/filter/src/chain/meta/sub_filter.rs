//! One sub-filter.

use super::table::Table;
use crate::chain::address::Ordinal;
use crate::cuckoo::classic::Classic;
use crate::cuckoo::layout::Layout;

/// Pages of a filter that are numbered together, whatever its layout.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SubFilter {
    /// Names its pages; never reused within the filter.
    pub ordinal: Ordinal,
    /// Items in it: adds less deletes.
    pub items: u64,
    /// Slots in use.
    pub occupied: u64,
    /// Copies of hot items that are counted beside its pages.
    pub counted: u64,
    /// Counters beside its pages.
    pub keys: u64,
    /// Its geometry.
    pub layout: Layout,
}

impl SubFilter {
    pub(super) fn of_link(link: &Link) -> SubFilter {
        SubFilter {
            ordinal: link.ordinal,
            items: link.items(),
            occupied: link.occupied,
            counted: link.counted,
            keys: link.keys,
            layout: Layout::Classic(link.layout),
        }
    }

    pub(super) fn of_table(table: &Table) -> SubFilter {
        SubFilter {
            ordinal: Table::ORDINAL,
            items: table.items(),
            occupied: table.occupied,
            counted: table.counted,
            keys: table.keys,
            layout: Layout::Paged(table.layout),
        }
    }

    /// Share of the slots in use, 0 to 1.
    pub fn load(&self) -> f64 {
        self.occupied as f64 / self.layout.slots() as f64
    }
}

/// One link of a chain of the layout `classic`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::chain) struct Link {
    pub(in crate::chain) ordinal: Ordinal,
    pub(in crate::chain) occupied: u64,
    pub(in crate::chain) counted: u64,
    pub(in crate::chain) keys: u64,
    pub(in crate::chain) layout: Classic,
}

impl Link {
    /// Items in it, in slots and counted.
    pub(super) fn items(&self) -> u64 {
        self.occupied + self.counted
    }

    /// Slots that kick-outs are expected to fill.
    pub(in crate::chain) fn reachable(&self) -> u64 {
        (self.layout.slots() as f64 * self.layout.target_load()) as u64
    }
}
