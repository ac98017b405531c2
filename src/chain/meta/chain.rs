//! A chain: one filter's parameters and its sub-filters, and how it grows.

use super::sub_filter::SubFilter;
use crate::chain::params::{FilterParams, LayoutKind};
use crate::cuckoo::hash::{HashId, HashKey, ItemHash};
use crate::cuckoo::layout::Layout;
use crate::page::Ordinal;

/// Items that a chain may hold at most, copies included: more than can be added
/// one by one, and sums of them never overflow.
pub(in crate::chain) const MAX_ITEMS: u64 = 1 << 48;

/// Why a filter may not grow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FullReason {
    /// It was created with `expansion` 0.
    ExpansionOff,
    /// It has as many sub-filters as `max_expansions` allows.
    MaxExpansions,
    /// The next sub-filter would exceed the bytes a filter may have.
    MaxFilterBytes,
}

/// A filter: its parameters and its sub-filters, oldest first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Chain {
    pub(super) params: FilterParams,
    pub(super) hash: HashId,
    pub(super) created_at_ms: u64,
    pub(super) deletions: u64,
    pub(super) next_ordinal: u32,
    pub(super) sub_filters: Vec<SubFilter>,
    /// Sub-filters that take adds, the oldest ones; those after them are being
    /// emptied into them.
    pub(super) open: usize,
    /// What `deletions` was when the filter was last compacted.
    pub(super) compacted_at: u64,
}

impl Chain {
    /// An empty chain of one sub-filter; `key` is for layouts with a keyed
    /// hash. `None` if its pages could not be numbered, which parameters that
    /// passed their checks do not ask for.
    pub fn new(params: FilterParams, key: HashKey, created_at_ms: u64) -> Option<Chain> {
        let mut chain = Chain {
            hash: match params.layout() {
                LayoutKind::Classic => HashId::Murmur64A,
                LayoutKind::Paged => HashId::SipHash13(key),
            },
            params,
            created_at_ms,
            deletions: 0,
            next_ordinal: 0,
            sub_filters: Vec::new(),
            open: 0,
            compacted_at: 0,
        };
        let layout = chain.params.layout_at(0)?;
        chain.push(layout);
        Some(chain)
    }

    /// What the filter was asked to be.
    pub fn params(&self) -> &FilterParams {
        &self.params
    }

    /// Milliseconds since 1970 when it was created.
    pub fn created_at_ms(&self) -> u64 {
        self.created_at_ms
    }

    /// Deletes that found their item.
    pub fn deletions(&self) -> u64 {
        self.deletions
    }

    /// Items in the filter: adds less deletes.
    pub fn items(&self) -> u64 {
        self.sub_filters.iter().map(SubFilter::items).sum()
    }

    /// The sub-filters, oldest first; never empty.
    #[inline]
    pub fn sub_filters(&self) -> &[SubFilter] {
        &self.sub_filters
    }

    /// Bytes that all slots take when every page is written.
    pub fn slot_bytes(&self) -> u64 {
        self.sub_filters.iter().map(|sub| sub.layout.bytes()).sum()
    }

    /// Hashes an item with the filter's hash.
    #[inline]
    pub fn hash(&self, item: &[u8]) -> ItemHash {
        self.hash.hash(item)
    }

    /// The filter's hash. Filters of an equal one hash an item alike.
    pub fn hash_id(&self) -> HashId {
        self.hash
    }

    /// Position of the sub-filter that has this ordinal.
    pub fn position_of(&self, ordinal: Ordinal) -> Option<usize> {
        // Ordinals grow along the chain.
        self.sub_filters
            .binary_search_by_key(&ordinal, |sub| sub.ordinal)
            .ok()
    }

    /// Appends a sub-filter, `expansion` times as large as the newest.
    ///
    /// # Errors
    /// Why it may not grow; the chain is as it was.
    pub(in crate::chain) fn grow(&mut self) -> Result<(), FullReason> {
        let layout = self.next_layout()?;
        self.push(layout);
        Ok(())
    }

    /// The geometry of the sub-filter that comes next.
    pub(super) fn next_layout(&self) -> Result<Layout, FullReason> {
        if self.params.expansion() == 0 {
            return Err(FullReason::ExpansionOff);
        }
        if self.sub_filters.len() > usize::from(self.params.max_expansions())
            || self.next_ordinal == u32::MAX
        {
            return Err(FullReason::MaxExpansions);
        }
        let layout = self
            .params
            .layout_at(self.sub_filters.len())
            .ok_or(FullReason::MaxFilterBytes)?;
        let bytes = self.slot_bytes().checked_add(layout.bytes());
        if bytes.is_none_or(|bytes| bytes > self.params.max_filter_bytes()) {
            return Err(FullReason::MaxFilterBytes);
        }
        Ok(layout)
    }

    /// Keeps count of slots in a sub-filter: so many more are in use.
    pub(in crate::chain) fn note_occupied(&mut self, position: u32, more: i32) {
        if let Some(sub) = self.sub_filters.get_mut(position as usize) {
            sub.occupied = sub.occupied.strict_add_signed(i64::from(more));
        }
    }

    /// Keeps count of a side counter in a sub-filter that was `before`.
    pub(in crate::chain) fn note_counted(&mut self, position: u32, before: u64, after: u64) {
        if let Some(sub) = self.sub_filters.get_mut(position as usize) {
            sub.counted = sub.counted - before + after;
        }
    }

    /// Keeps count of a delete that found its item.
    pub(in crate::chain) fn note_deletion(&mut self) {
        self.deletions = self.deletions.saturating_add(1);
    }

    pub(super) fn push(&mut self, layout: Layout) {
        let ordinal = Ordinal(self.next_ordinal);
        self.sub_filters
            .push(SubFilter::new(ordinal, layout, &self.params));
        self.next_ordinal += 1;
        self.open = self.sub_filters.len();
    }

    /// The chain with one more sub-filter.
    #[cfg(test)]
    pub(crate) fn grown_for_tests(mut self) -> Chain {
        assert_eq!(self.grow(), Ok(()));
        self
    }
}
