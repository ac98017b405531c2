//! What a compaction does to the description of a chain: sub-filters are
//! closed to adds, emptied ([`plan::compact`](crate::chain::plan::compact)) and
//! dropped.

use super::chain::Chain;
use crate::page::Ordinal;

impl Chain {
    /// How many sub-filters take adds, the oldest ones. All, but while the
    /// chain is compacted: then the others are emptied into them.
    #[inline]
    pub fn open(&self) -> usize {
        self.open
    }

    /// Whether some sub-filters are being emptied into the others.
    pub fn is_compacting(&self) -> bool {
        self.open < self.sub_filters.len()
    }

    /// Deletes that found their item since the chain was last compacted.
    pub fn deletions_since_compaction(&self) -> u64 {
        self.deletions.saturating_sub(self.compacted_at)
    }

    /// How many sub-filters would do for what is in slots: the fewest, from the
    /// oldest on, that have room for what the others hold when they are filled
    /// to a `share` of the load that kick-outs reach.
    pub fn would_do(&self, share: f64) -> usize {
        let mut beyond: u64 = self.sub_filters.iter().map(|sub| sub.occupied).sum();
        let mut room = 0u64;
        for (position, sub) in self.sub_filters.iter().enumerate() {
            beyond -= sub.occupied;
            let reach = (sub.reach() as f64 * share) as u64;
            room = room.saturating_add(reach.saturating_sub(sub.occupied));
            if beyond <= room {
                return position + 1;
            }
        }
        self.sub_filters.len()
    }

    /// Closes the sub-filters beyond those that [`would do`](Self::would_do):
    /// adds leave them alone until [`end_compaction`](Self::end_compaction),
    /// or until there is room nowhere else. Returns how many are closed.
    pub fn begin_compaction(&mut self, share: f64) -> usize {
        self.open = self.would_do(share);
        self.sub_filters.len() - self.open
    }

    /// Opens all sub-filters to adds. Says whether there were closed ones.
    pub(in crate::chain) fn reopen(&mut self) -> bool {
        let was_compacting = self.is_compacting();
        self.open = self.sub_filters.len();
        was_compacting
    }

    /// Drops the newest sub-filters that are empty, but never the first, opens
    /// what is left, and returns the ordinals of those that are gone. Should
    /// the chain grow again, the new sub-filters get new ordinals.
    pub fn end_compaction(&mut self) -> Vec<Ordinal> {
        let mut dropped = Vec::new();
        while let [_, .., newest] = self.sub_filters.as_slice() {
            if newest.items() > 0 {
                break;
            }
            dropped.push(newest.ordinal);
            self.sub_filters.pop();
        }
        self.reopen();
        self.compacted_at = self.deletions;
        dropped
    }
}
