//! Pages that splits and merges will read: those of no item that brings them
//! about, so nobody who only looks at items would have them in memory.

use super::bucket::page;
use super::planner::MAX_DUE_SPLITS;
use crate::chain::address::PageAddress;
use crate::chain::meta::{Chain, is_sparse};
use std::iter;

impl Chain {
    /// The pages that are split while so many items are added, as far as that
    /// can be known.
    pub fn pages_to_split(&self, adds: usize) -> impl Iterator<Item = PageAddress> + use<> {
        let bounds = self.params().growth_bounds();
        let growing = self.table().filter(|it| it.next_layout(&bounds).is_ok());
        // Those of one level at most: what comes after it is far.
        let pages = growing.map(|table| {
            let (pointer, pages) = (table.layout.pointer(), table.layout.pages_of_level());
            let most = (adds as u64).saturating_mul(u64::from(MAX_DUE_SPLITS));
            let splits = table.splits_after(adds as u64).min(most);
            let splits = u32::try_from(splits).unwrap_or(u32::MAX);
            pointer..pointer.saturating_add(splits).min(pages)
        });
        pages.into_iter().flatten().map(page)
    }

    /// The pages that are merged while so many items are deleted.
    pub fn pages_to_merge(&self, deletes: usize) -> impl Iterator<Item = PageAddress> + use<> {
        let pairs = self.table().map(|table| {
            let occupied = table.occupied.saturating_sub(deletes as u64);
            let waits = table.merge_below.is_some_and(|it| occupied >= it);
            let keys = table.list_keys().saturating_sub(deletes as u64);
            let mut layout = table.layout;
            let pairs = iter::from_fn(move || {
                let is_due = !waits && is_sparse(&layout, occupied, keys);
                let merged = layout.merged().filter(|_| is_due)?;
                layout = merged;
                Some(merged.next_pair())
            });
            // A delete merges one pair at most.
            pairs.take(deletes)
        });
        let pairs = pairs.into_iter().flatten();
        pairs.flat_map(|pair| [page(pair.page), page(pair.sibling)])
    }
}
