//! What lies in pages: what a filter's description says of them, and what whoever
//! verifies data finds there.
//!
//! Here, beside the rules that write slots and counters, so that their tests hold it
//! against a multiset: a sum that is wrong would call sound data damaged.

use super::counters::Counters;
use super::meta::Known;
use super::meta::{Chain, SubFilter};
use crate::cuckoo::bucket;
use crate::cuckoo::layout::Layout;

/// What is in a page, or in all pages of a sub-filter.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Contents {
    /// Slots in use.
    pub occupied: u64,
    /// Copies counted beside the slots.
    pub counted: u64,
    /// Counters that these are, but for stamps.
    pub keys: u64,
    /// Slots by the bits that are known of their entries, where they differ.
    pub known: Option<Known>,
}

impl Contents {
    /// What is in a page, by its words and its counters; `None` if it can't be that
    /// page.
    pub fn of_page(
        layout: &Layout,
        page: u32,
        words: impl Iterator<Item = u64> + Clone,
        counters: Option<&Counters>,
    ) -> Option<Contents> {
        // Stamps count nothing.
        let counters = counters.into_iter().flat_map(Counters::iter);
        let mut counters = counters.filter(|it| !it.0.is_stamp(layout));
        let (keys, counted) = counters.try_fold((0, 0u64), |(keys, sum), (_, copies)| {
            Some((keys + 1, sum.checked_add(copies)?))
        })?;
        Some(Contents {
            occupied: bucket::occupied_of_all(layout.slot_width(), words.clone())?,
            counted,
            keys,
            known: match layout {
                Layout::Classic(_) => None,
                Layout::Paged(paged) => Some(Known::of_page(paged, page, words)?),
            },
        })
    }

    /// Nothing yet, of a sub-filter.
    pub fn none_of(layout: &Layout) -> Contents {
        Contents {
            known: layout.paged().map(Known::none_of),
            ..Contents::default()
        }
    }

    /// What a filter says that the pages of one of its sub-filters hold.
    pub fn told_by(chain: &Chain, sub: &SubFilter) -> Contents {
        Contents {
            occupied: sub.occupied,
            counted: sub.counted,
            keys: sub.keys,
            known: chain.table().map(|table| table.known.clone()),
        }
    }

    /// What both hold. Never more than all: such a filter was refused before.
    pub fn add(&mut self, other: &Contents) {
        self.occupied = self.occupied.saturating_add(other.occupied);
        self.counted = self.counted.saturating_add(other.counted);
        self.keys = self.keys.saturating_add(other.keys);
        if let (Some(known), Some(others)) = (&mut self.known, &other.known) {
            known.extend(others);
        }
    }
}

#[cfg(test)]
mod tests;
