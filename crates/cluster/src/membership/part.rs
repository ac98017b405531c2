//! What makes an engine a part of a cluster.

use crate::engine::Position;
use crate::{CommitLog, LaneIdentity, Levels, Writer};
use std::sync::Arc;
use std::time::Instant;

/// A pod's part in a cluster.
#[derive(Clone)]
pub struct Membership {
    /// The log that all pods share.
    pub log: Arc<dyn CommitLog>,
    /// Chosen at random when the cluster was founded.
    pub founding: [u8; 16],
    /// Which life of the cluster.
    pub epoch: u64,
    /// Where each lane stood in the epoch before when this one began; none for the
    /// first.
    pub began: Vec<Position>,
    /// What other pods have applied, as they say, and as is kept outside of the log.
    pub acknowledged: Vec<(u32, Position)>,
    /// The time of the other pods that are there, in milliseconds since 1970, as of a
    /// moment; `None`: there are none.
    pub time: Option<(u64, Instant)>,
    /// The same by what they reckon, whatever they have stamped.
    pub reckoned: Option<(u64, Instant)>,
    /// The same of the brokers, against which the pod's own clock is held where there
    /// are no others; `None`: it is believed as it is.
    pub brokers_time: Option<(u64, Instant)>,
    /// The newest feature level that this pod understands.
    pub level: u16,
    /// Lanes of the cluster, the same for ever.
    pub lanes: u32,
    /// This life of this pod, chosen at random at its start.
    pub writer: Writer,
}

impl Membership {
    /// The newest feature level of records, and of what is in them, that this program
    /// understands.
    pub const NEWEST_LEVEL: u16 = 1;

    /// What this pod understands, and what it writes before it has heard what others
    /// do.
    pub(crate) fn levels(&self) -> Levels {
        Levels {
            reads: self.level,
            writes: 1,
        }
    }

    /// A lane of the cluster.
    pub fn lane(&self, lane: u32) -> LaneIdentity {
        LaneIdentity {
            founding: self.founding,
            epoch: self.epoch,
            lane,
        }
    }
}
