//! When a filter counts as full, so that no room is searched for.

/// Searches in vain, one after the other, after which adds only look at their own
/// buckets: the filter is full, and a search costs as much as a thousand looks.
const MOST: u32 = 32;

/// Of these, how many a command makes however full the filter was before. It goes on
/// only if one of them finds room.
const OF_EACH_COMMAND: u32 = 4;

/// Searches for room in vain, one after the other, in a filter that may not grow.
/// Where it may, an add that finds no room makes some, so none counts there.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FutileSearches(u32);

impl FutileSearches {
    /// What a command begins with that comes after these. Any number will do.
    pub fn before_next(count: u32) -> FutileSearches {
        FutileSearches(count.min(MOST - OF_EACH_COMMAND))
    }

    /// How many.
    pub fn count(self) -> u32 {
        self.0
    }

    /// Whether another search is worth its cost.
    #[inline]
    pub(in crate::chain) fn may_search(self) -> bool {
        self.0 < MOST
    }

    /// An add found no room, and the filter may not grow.
    pub(in crate::chain) fn count_refusal(&mut self) {
        self.0 += 1;
    }

    /// There is room, or may be: a search found some, the filter grew, or something
    /// was deleted.
    pub(in crate::chain) fn reset(&mut self) {
        self.0 = 0;
    }
}
