//! How many entries know how many bits of their path.

use crate::cuckoo::bucket;
use crate::cuckoo::paged::Paged;

/// Counts of entries, by the bits that are known of them.
///
/// Each number of bits has a counter: that is what makes the false-positive
/// rate exact at any moment, void copies included.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Known {
    /// Fewest bits that may be known of an entry.
    least: u32,
    /// By bits beyond those; none at the end is 0.
    pub(in crate::chain) entries: Vec<u64>,
}

impl Known {
    /// No entry yet, of a filter with these pages.
    pub fn none_of(layout: &Paged) -> Known {
        Known::of(layout.code().suffix_bits(), Vec::new())
    }

    /// The entries of a page, by its words. `None` if one can't be of that page.
    pub fn of_page(layout: &Paged, page: u32, words: impl Iterator<Item = u64>) -> Option<Known> {
        let (code, level) = (layout.code(), layout.level_of(page));
        let mut known = Known::none_of(layout);
        for word in words {
            for (_, slot) in bucket::in_use(code.width(), word) {
                known.add(code.known_if_sound(slot, level)?);
            }
        }
        Some(known)
    }

    /// Adds those of others of the same filter. Never more than there are slots.
    pub fn extend(&mut self, others: &Known) {
        let most = self.entries.len().max(others.entries.len());
        self.entries.resize(most, 0);
        for (entries, more) in self.entries.iter_mut().zip(&others.entries) {
            *entries = entries.saturating_add(*more);
        }
    }

    /// Takes away those of others, which are among them.
    pub(in crate::chain) fn take_away(&mut self, others: &Known) {
        for (entries, less) in self.entries.iter_mut().zip(&others.entries) {
            *entries -= *less;
        }
        self.shorten();
    }

    fn shorten(&mut self) {
        while self.entries.last() == Some(&0) {
            self.entries.pop();
        }
    }

    /// Notes an entry of which so many bits are known.
    #[inline]
    pub(in crate::chain) fn add(&mut self, bits: u32) {
        let beyond = (bits - self.least) as usize;
        if beyond >= self.entries.len() {
            self.entries.resize(beyond + 1, 0);
        }
        if let Some(entries) = self.entries.get_mut(beyond) {
            *entries += 1;
        }
    }

    /// Forgets one.
    #[inline]
    pub(in crate::chain) fn remove(&mut self, bits: u32) {
        if let Some(entries) = self.entries.get_mut((bits - self.least) as usize) {
            *entries -= 1;
        }
        self.shorten();
    }

    /// Bits and entries, the fewest bits first.
    pub fn iter(&self) -> impl Iterator<Item = (u32, u64)> + '_ {
        (self.least..).zip(self.entries.iter().copied())
    }

    /// The counters that were given, by bits beyond the fewest.
    pub(in crate::chain) fn of(least: u32, entries: Vec<u64>) -> Known {
        Known { least, entries }
    }

    /// All entries.
    pub fn total(&self) -> u64 {
        self.entries.iter().sum()
    }
}
