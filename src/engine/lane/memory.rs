//! Memory that plans take one after another.

use crate::chain::plan::SpareOverlays;
use crate::cuckoo::kick::KickSearch;

/// What a lane's plans work with, and leave for the next.
#[derive(Default)]
pub(super) struct PlanMemory {
    pub(super) search: KickSearch,
    pub(super) overlays: SpareOverlays,
}
