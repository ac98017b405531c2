//! One link of a chain.

use crate::chain::params::FilterParams;
use crate::cuckoo::layout::Layout;
use crate::page::Ordinal;

/// One link of the chain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SubFilter {
    /// Names its pages; never reused within the filter.
    pub ordinal: Ordinal,
    /// Slots in use.
    pub occupied: u64,
    /// Copies of hot items that are counted beside its pages.
    pub counted: u64,
    /// Its geometry.
    pub layout: Layout,
    /// Slots that may be in use.
    usable: u64,
}

impl SubFilter {
    /// An empty one, of which as many slots may be used as keep the promise of
    /// the parameters.
    pub(super) fn new(ordinal: Ordinal, layout: Layout, params: &FilterParams) -> SubFilter {
        SubFilter {
            ordinal,
            occupied: 0,
            counted: 0,
            layout,
            usable: (layout.slots() as f64 * params.load_limit()) as u64,
        }
    }

    /// Items in it, in slots and counted.
    pub fn items(&self) -> u64 {
        self.occupied + self.counted
    }

    /// Share of the slots in use, 0 to 1.
    pub fn load(&self) -> f64 {
        self.occupied as f64 / self.layout.slots() as f64
    }

    /// Whether one more slot may be used; with all of them used, the filter's
    /// false-positive rate would exceed what was promised.
    #[inline]
    pub(in crate::chain) fn has_room(&self) -> bool {
        self.occupied < self.usable
    }

    /// Slots that kick-outs are expected to fill.
    pub(in crate::chain) fn reachable(&self) -> f64 {
        self.layout.slots() as f64 * self.layout.target_load()
    }

    /// [`reachable`](Self::reachable) slots, as far as they may be used.
    pub(super) fn reach(&self) -> u64 {
        (self.reachable() as u64).min(self.usable)
    }

    /// Whether kick-outs are expected to find room for one more.
    pub(in crate::chain) fn is_within_reach(&self) -> bool {
        self.occupied < self.reach()
    }

    /// Probability that an item which was never added is found in it.
    pub fn false_positive_rate(&self) -> f64 {
        self.layout.false_positive_rate(self.load())
    }
}
