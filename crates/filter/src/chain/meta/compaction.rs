//! What a compaction does to the description of a chain: sub-filters are
//! closed to adds, emptied ([`plan::compact`](crate::chain::plan::compact)) and
//! dropped. A filter of the layout `paged` merges pages as items are deleted,
//! and has nothing to compact.

use super::chain::Chain;
use super::links::Links;
use crate::chain::address::Ordinal;

impl Chain {
    /// How many sub-filters take adds, the oldest ones. All, but while the
    /// chain is compacted: then the others are emptied into them.
    #[inline]
    pub fn open(&self) -> usize {
        match self.table() {
            Some(_) => 1,
            None => self.links().open,
        }
    }

    /// Whether some sub-filters are being emptied into the others.
    pub fn is_compacting(&self) -> bool {
        self.open() < self.sub_filter_count()
    }

    /// Deletes that found their item since the chain was last compacted.
    pub fn deletions_since_compaction(&self) -> u64 {
        self.deletions.saturating_sub(self.links().compacted_at)
    }

    /// How many sub-filters would do for what is in slots: the fewest, from the
    /// oldest on, that have room for what the others hold when they are filled
    /// to a `share` of the load that kick-outs reach.
    pub fn would_do(&self, share: f64) -> usize {
        let links = self.links();
        let mut beyond: u64 = links.iter().map(|link| link.occupied).sum();
        let mut room = 0u64;
        for (position, link) in links.iter().enumerate() {
            beyond -= link.occupied;
            let reach = (link.reachable() as f64 * share) as u64;
            room = room.saturating_add(reach.saturating_sub(link.occupied));
            if beyond <= room {
                return position + 1;
            }
        }
        self.sub_filter_count()
    }

    /// Closes the sub-filters beyond those that [`would do`](Self::would_do):
    /// adds leave them alone until [`end_compaction`](Self::end_compaction),
    /// or until there is room nowhere else. Returns how many are closed.
    pub fn begin_compaction(&mut self, share: f64) -> usize {
        let open = self.would_do(share);
        if let Some(links) = self.links_mut() {
            links.open = open;
        }
        self.sub_filter_count() - open
    }

    /// Opens all sub-filters to adds. Says whether there were closed ones.
    pub(in crate::chain) fn reopen(&mut self) -> bool {
        self.links_mut().is_some_and(Links::reopen)
    }

    /// Drops the newest sub-filters that are empty, but never the first, opens
    /// what is left, and returns the ordinals of those that are gone. Should
    /// the chain grow again, the new sub-filters get new ordinals.
    pub fn end_compaction(&mut self) -> Vec<Ordinal> {
        let (deletions, mut dropped) = (self.deletions, Vec::new());
        if let Some(links) = self.links_mut() {
            while let [_, .., newest] = links.links.as_slice() {
                if newest.items() > 0 {
                    break;
                }
                dropped.push(newest.ordinal);
                links.links.pop();
            }
            links.reopen();
            links.compacted_at = deletions;
        }
        dropped
    }
}

impl Links {
    fn reopen(&mut self) -> bool {
        let was_compacting = self.open < self.links.len();
        self.open = self.links.len();
        was_compacting
    }
}
