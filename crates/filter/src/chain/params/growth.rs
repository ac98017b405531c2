//! How far a filter may grow page by page.

/// Bounds of the growth of a filter of the layout `paged`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GrowthBounds {
    /// Whether it may at all.
    pub grows: bool,
    /// Most doublings.
    pub max_doublings: u16,
    /// Most bytes of its pages.
    pub max_bytes: u64,
}
