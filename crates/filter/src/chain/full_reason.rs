//! What ends the growth of a filter.

/// Why a filter may not grow.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub enum FullReason {
    /// It was created with `expansion` 0.
    ExpansionOff,
    /// It has grown as often as `max_expansions` allows.
    MaxExpansions,
    /// More pages would exceed the bytes a filter may have.
    MaxFilterBytes,
    /// `paged`: its slots record no more doublings, splits made no room, or it has as
    /// many items as can be counted.
    GrowthLimit,
    /// The item has as many values as an item may have. Not the filter is full.
    MaxValuesPerItem,
}
