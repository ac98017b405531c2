//! Memory that plans take one after another.

use super::allowance::Allowance;
use crate::chain::plan::SpareOverlays;
use crate::cuckoo::kick::KickSearch;

/// What a lane's plans work with, and leave for the next.
pub(super) struct PlanMemory {
    pub(super) search: KickSearch,
    pub(super) overlays: SpareOverlays,
    /// Pages that they may hold.
    pub(super) allowance: Allowance,
}

impl PlanMemory {
    pub(super) fn new(allowance: Allowance) -> PlanMemory {
        PlanMemory {
            search: KickSearch::default(),
            overlays: SpareOverlays::default(),
            allowance,
        }
    }
}
