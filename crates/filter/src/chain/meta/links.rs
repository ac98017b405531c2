//! The sub-filters of a filter of the layout `classic`, and how they become
//! more.

use super::sub_filter::Link;
use crate::chain::address::Ordinal;
use crate::chain::full_reason::FullReason;
use crate::chain::params::FilterParams;
use crate::cuckoo::classic::Classic;

/// Sub-filters, oldest first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::chain) struct Links {
    pub(super) links: Vec<Link>,
    pub(super) next_ordinal: u32,
    /// Sub-filters that take adds, the oldest ones; those after them are being
    /// emptied into them.
    pub(super) open: usize,
    /// Deletes that had found their item when the filter was last compacted.
    pub(super) compacted_at: u64,
}

impl Links {
    /// Those of a filter that has none.
    pub(super) const NONE: &'static Links = &Links {
        links: Vec::new(),
        next_ordinal: 0,
        open: 0,
        compacted_at: 0,
    };

    /// One sub-filter. `None` if its pages could not be numbered.
    pub(super) fn new(params: &FilterParams) -> Option<Links> {
        let mut links = Links::NONE.clone();
        links.push(params.layout_at(0)?);
        Some(links)
    }

    #[inline]
    pub(in crate::chain) fn iter(
        &self,
    ) -> impl ExactSizeIterator<Item = &Link> + DoubleEndedIterator {
        self.links.iter()
    }

    #[inline]
    pub(in crate::chain) fn get(&self, position: usize) -> Option<&Link> {
        self.links.get(position)
    }

    /// Position of the sub-filter that has this ordinal.
    pub(super) fn position_of(&self, ordinal: Ordinal) -> Option<usize> {
        // Ordinals grow along the chain.
        self.links
            .binary_search_by_key(&ordinal, |link| link.ordinal)
            .ok()
    }

    /// The geometry of the sub-filter that comes next.
    pub(super) fn next(&self, params: &FilterParams) -> Result<Classic, FullReason> {
        if params.expansion() == 0 {
            return Err(FullReason::ExpansionOff);
        }
        if self.links.len() > usize::from(params.max_expansions()) || self.next_ordinal == u32::MAX
        {
            return Err(FullReason::MaxExpansions);
        }
        let layout = params
            .layout_at(self.links.len())
            .ok_or(FullReason::MaxFilterBytes)?;
        let taken: u64 = self.iter().map(|link| link.layout.bytes()).sum();
        let bytes = taken.checked_add(layout.bytes());
        if bytes.is_none_or(|bytes| bytes > params.max_filter_bytes()) {
            return Err(FullReason::MaxFilterBytes);
        }
        Ok(layout)
    }

    /// Keeps count of slots in a sub-filter: so many more are in use.
    pub(in crate::chain) fn add_occupied(&mut self, position: u32, more: i32) {
        if let Some(link) = self.links.get_mut(position as usize) {
            link.occupied = link.occupied.strict_add_signed(i64::from(more));
        }
    }

    /// Keeps count of a side counter in a sub-filter that was `before`.
    pub(in crate::chain) fn adjust_counted(&mut self, position: u32, before: u64, after: u64) {
        if let Some(link) = self.links.get_mut(position as usize) {
            link.counted = link.counted - before + after;
            link.keys = link.keys - before.min(1) + after.min(1);
        }
    }

    pub(super) fn push(&mut self, layout: Classic) {
        self.links.push(Link {
            ordinal: Ordinal(self.next_ordinal),
            occupied: 0,
            counted: 0,
            keys: 0,
            layout,
        });
        self.next_ordinal += 1;
        self.open = self.links.len();
    }
}
