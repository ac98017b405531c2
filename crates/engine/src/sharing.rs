//! What an engine that shares its lanes with others knows of them.

use super::claims::Claims;
use super::lane::ordering::{LaneOrder, SharedLane};
use super::shared::LanePlace;
use super::slot::lane_of_slot;
use crate::page::FilterId;
use std::sync::Arc;
use std::time::Instant;
use tokio::sync::Mutex as AsyncMutex;

/// All of them.
pub(super) struct Sharing {
    pub(super) epoch: u64,
    pub(super) lanes: Vec<LaneSharing>,
    pub(super) claims: Arc<Claims>,
}

/// One lane.
pub(super) struct LaneSharing {
    pub(super) place: Arc<LanePlace>,
    /// When the last barrier began that ended well; held while one is under way.
    pub(super) last_barrier: AsyncMutex<Option<Instant>>,
}

/// What orders the commits of a lane that begins, and the largest serial number of a filter
/// that was made in it.
pub(super) type Begins = (Box<dyn LaneOrder>, u64);

impl Sharing {
    /// Of an engine with these lanes; what orders their commits is theirs.
    pub(super) fn of(epoch: u64, lanes: Vec<SharedLane>) -> (Sharing, Vec<Begins>) {
        let apart = lanes.into_iter().map(|lane| {
            let known = LaneSharing {
                place: lane.place,
                last_barrier: AsyncMutex::default(),
            };
            (known, (lane.order, lane.last_serial))
        });
        let (lanes, begin) = apart.unzip();
        let sharing = Sharing {
            epoch,
            lanes,
            claims: Arc::default(),
        };
        (sharing, begin)
    }

    /// Where the lane of a filter stands.
    pub(super) fn lane_of(&self, id: FilterId) -> Option<&LanePlace> {
        let lane = lane_of_slot(id.slot(), self.lanes.len());
        self.lanes.get(lane).map(|it| &*it.place)
    }
}
