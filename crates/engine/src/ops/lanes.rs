//! Where the lanes of an engine stand that shares them with others.

use crate::error::{EngineError, Result};
use crate::name::FilterName;
use crate::shared::LaneState;
use crate::slot::lane_of;
use crate::state::Engine;
use crate::store::PageStore;
use std::sync::Arc;

impl Engine {
    /// The store that it was opened over.
    pub fn store(&self) -> &Arc<PageStore> {
        &self.state.store
    }

    /// Whether the disk has room for changes, and takes them.
    pub fn takes_changes(&self) -> bool {
        self.state.disk.check().is_ok()
    }

    /// The lane of a filter of this name, whether there is one or not.
    pub fn lane_of(&self, name: &FilterName) -> u32 {
        lane_of(name, self.state.lanes.lanes) as u32
    }

    /// Which life of its cluster an engine is in; `None`: it shares its lanes with no
    /// other.
    pub fn epoch(&self) -> Option<u64> {
        self.state.sharing.as_ref().map(|it| it.epoch)
    }

    /// Where a lane stands; `None` for one that it does not share.
    pub fn lane_state(&self, lane: u32) -> Option<LaneState> {
        Some(self.state.shared_lane(lane)?.place.state())
    }

    /// Where each lane stands; none for an engine that shares none.
    pub fn lane_states(&self) -> Vec<LaneState> {
        let lanes = self.state.sharing.iter().flat_map(|it| &it.lanes);
        lanes.map(|lane| lane.place.state()).collect()
    }

    /// Waits, no longer than its caller does, until a lane has applied a record of
    /// this number, or a later one.
    ///
    /// # Errors
    /// [`EngineError::Behind`].
    pub async fn reached(&self, lane: u32, sequence: u64) -> Result {
        let Some(shared) = self.state.shared_lane(lane) else {
            return Err(EngineError::Behind);
        };
        // A lane that leads looks at the log now, if it has not applied this record:
        // another engine may have led it, too, without knowing better. It would hear of
        // that only with its next change. One that follows reads anyway.
        shared.place.name(sequence);
        let reached = self.caller.within(shared.place.reached(sequence)).await;
        reached.map_err(|_| EngineError::Behind)
    }
}
