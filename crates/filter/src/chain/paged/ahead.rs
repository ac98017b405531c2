//! Pages that splits and merges will read: those of no item that brings them
//! about, so nobody who only looks at items would have them in memory.

use super::bucket::page;
use crate::chain::address::PageAddress;
use crate::chain::meta::Chain;
use crate::chain::meta::{Table, is_sparse};
use crate::chain::params::GrowthBounds;
use std::iter;

impl Chain {
    /// The pages that are split while so many items are added, as far as that
    /// can be known.
    pub fn pages_to_split(&self, adds: usize) -> impl Iterator<Item = PageAddress> + use<> {
        let bounds = self.params().growth_bounds();
        let pages = |table: &Table| table.pages_to_split(&bounds, adds as u64);
        self.table().map(pages).into_iter().flatten()
    }

    /// The pages that are merged while so many items are deleted.
    pub fn pages_to_merge(&self, deletes: usize) -> impl Iterator<Item = PageAddress> + use<> {
        let pages = |table: &Table| table.pages_to_merge(deletes as u64);
        self.table().map(pages).into_iter().flatten()
    }
}

impl Table {
    /// Those of one level at most: what comes after it is far.
    fn pages_to_split(
        &self,
        bounds: &GrowthBounds,
        adds: u64,
    ) -> impl Iterator<Item = PageAddress> + use<> {
        let splits = match self.next_layout(bounds) {
            Ok(_) => self.splits_after(adds),
            Err(_) => 0,
        };
        let (pointer, pages) = (self.layout.pointer(), self.layout.pages_of_level());
        let splits = u32::try_from(splits).unwrap_or(u32::MAX);
        (pointer..pointer.saturating_add(splits).min(pages)).map(page)
    }

    fn pages_to_merge(&self, deletes: u64) -> impl Iterator<Item = PageAddress> + use<> {
        let occupied = self.occupied.saturating_sub(deletes);
        let waits = self.merge_below.is_some_and(|it| occupied >= it);
        let keys = self.list_keys().saturating_sub(deletes);
        let mut layout = self.layout;
        // A delete merges one pair at most.
        let merges = usize::try_from(deletes).unwrap_or(usize::MAX);
        let pairs = iter::from_fn(move || {
            let is_due = !waits && is_sparse(&layout, occupied, keys);
            let merged = layout.merged().filter(|_| is_due)?;
            layout = merged;
            Some(merged.next_pair())
        });
        let pairs = pairs.take(merges);
        pairs.flat_map(|pair| [page(pair.page), page(pair.sibling)])
    }
}
