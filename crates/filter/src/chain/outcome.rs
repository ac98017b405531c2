//! What becomes of items, what an algorithm did, and what that costs.

use crate::chain::full_reason::FullReason;

/// What to do with an item that is found already.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum AddMode {
    /// Add another copy of it.
    #[default]
    Always,
    /// Leave it.
    OnlyIfAbsent,
}

impl AddMode {
    /// What who asks for it, or does not, wants.
    pub fn of(only_if_absent: bool) -> AddMode {
        match only_if_absent {
            true => AddMode::OnlyIfAbsent,
            false => AddMode::Always,
        }
    }
}

/// What became of one added item.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub enum AddResult {
    /// It is in.
    Added,
    /// It was there, and expires later from now on: a filter whose items expire.
    Refreshed,
    /// It was found already and left ([`AddMode::OnlyIfAbsent`]).
    Exists,
    /// There was no room and the filter may not grow.
    Full(FullReason),
}

/// What became of a value that was to become another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub enum ReplaceResult {
    /// The item has the other one now.
    Replaced,
    /// It was not found with the value; nothing was changed.
    Absent,
    /// There was no room for the other; nothing was changed.
    Full(FullReason),
}

/// What came of sweeping some pages of a filter whose items expire.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Swept {
    /// Slots that were cleared.
    pub cleared: u64,
    /// The page to go on with; `None` behind the last.
    pub next: Option<u32>,
}

/// What the algorithm did, for the caller's metrics.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PlanStats {
    /// Kick-outs of each path that made room, one entry a path.
    pub kick_paths: Vec<u16>,
    /// Sub-filters appended; doublings completed.
    pub expansions: u32,
    /// Whether the filter grew beyond what its false-positive rate is promised for.
    pub promise_ended: bool,
    /// Pages split, those included that were forced.
    pub splits: u64,
    /// Pages split because an item found no room.
    pub forced_splits: u64,
    /// Most pages that one add split.
    pub max_splits: u64,
    /// Pairs of pages merged.
    pub merges: u64,
    /// Pairs that did not fit on one page.
    pub failed_merges: u64,
    /// Entries, those counted beside pages included, that splits copied because nothing told which page is theirs.
    pub void_copies: u64,
}

/// What a bucket costs in which a search looks for room, in the layout `classic` beside
/// a sixth of its slots: each is followed to its other bucket.
pub(in crate::chain) const SEARCHED_BUCKET: u64 = 1;
pub(in crate::chain) const SLOTS_PER_UNIT: u64 = 6;

/// The same in the layout `paged`: a bucket's words are looked for on its page first,
/// among those that the plan changes.
pub(in crate::chain) const SEARCHED_ON_PAGE: u64 = 2;

/// What a look at an item's two buckets in one sub-filter costs, beside their
/// words.
pub(in crate::chain) const PROBE: u64 = 2;

/// Slots of a bucket for which such a look costs one unit more.
pub(in crate::chain) const COMPARED_SLOTS: u64 = 48;

/// What a word costs that is written: in the redo record, and in its page.
pub(in crate::chain) const WRITTEN_WORD: u64 = 2;

/// What a counter costs that is written: it is found among those of its page and of
/// the plan, by its key, and those near it are copied. Where thousands of pages have
/// thousands of counters each, nearly all of that is read from memory, not from the
/// processor's caches.
pub(in crate::chain) const WRITTEN_COUNTER: u64 = 36;
