//! Another filter, taken in page by page.

use super::planner::Planner;
use crate::chain::meta::{Chain, FullReason};
use crate::chain::paged::union::{NotTaken, OtherPage};
use crate::chain::pages::Draft;

/// What of another filter is taken in: first [`new_entries`](Self::new_entries) of all
/// its pages, then [`split_for`](Self::split_for), then [`take_in`](Self::take_in) of all
/// of them. `None` as for [`add`](Self::add).
impl<D: Draft> Planner<'_, D> {
    /// Slots that the entries of a page would take.
    pub fn new_entries(&mut self, other: &OtherPage<'_>) -> Option<u64> {
        let new = self.paged()?.new_entries(other);
        self.known(new)
    }

    /// Splits a page while there are fewer than the other filter has, or so many entries
    /// more make it due. Says whether it did.
    pub fn split_for(&mut self, other: &Chain, entries: u64) -> Option<Result<bool, FullReason>> {
        let pages = other.table()?.layout.pages();
        let split = self.paged()?.split_for(pages, entries);
        self.known(split)
    }

    /// Plans that all entries of a page are taken in.
    pub fn take_in(&mut self, other: &OtherPage<'_>) -> Option<Result<(), NotTaken>> {
        let taken = self.paged()?.take_in(other);
        self.known(taken)
    }
}
