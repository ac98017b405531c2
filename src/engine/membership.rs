//! What an engine is in a cluster: the commit log that it shares with other
//! pods, and where each of its lanes stands in it.

use crate::replication::{CommitLog, Halt, HistoryHash, LaneIdentity, Levels, Position, Writer};
use crate::store::{PageStore, StoreError};
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use tokio::sync::{Mutex as AsyncMutex, watch};

/// A pod's part in a cluster.
pub struct Membership {
    /// The log that all pods share.
    pub log: Arc<dyn CommitLog>,
    /// Chosen at random when the cluster was founded.
    pub founding: [u8; 16],
    /// Which life of the cluster.
    pub epoch: u64,
    /// Lanes of the cluster, the same for ever.
    pub lanes: u32,
    /// This life of this pod, chosen at random at its start.
    pub writer: Writer,
}

impl Membership {
    /// What this program understands, and what it writes.
    pub(super) const LEVELS: Levels = Levels {
        reads: 1,
        writes: 1,
    };

    /// A lane of the cluster.
    pub fn lane(&self, lane: u32) -> LaneIdentity {
        LaneIdentity {
            founding: self.founding,
            epoch: self.epoch,
            lane,
        }
    }
}

/// Why an engine can't be part of a cluster.
#[derive(Debug, thiserror::Error)]
pub enum JoinError {
    /// The store can't be read.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The cache has no room for so many lanes.
    #[error(
        "the cluster has {lanes} lanes, the cache has room for {most}: start with a larger --cache-bytes"
    )]
    TooManyLanes {
        /// Lanes of the cluster.
        lanes: u32,
        /// Lanes that there is room for.
        most: usize,
    },
    /// The data directory has filters that no cluster knows.
    #[error(
        "the data directory has filters that are not of the cluster: give the pod an empty data directory, and restore the filters through the cluster"
    )]
    NotOfACluster,
    /// The data directory is that of a pod, and the server is to be none.
    #[error(
        "the data directory is of a pod of a cluster: start the server with --log, --cluster and --advertise, or give it another data directory"
    )]
    OfACluster,
    /// The command line asks for other lanes than the cluster has.
    #[error(
        "--lanes is {given}, and the cluster was founded with {lanes} lanes: leave --lanes out"
    )]
    OtherLanes {
        /// What was given.
        given: usize,
        /// What the cluster has.
        lanes: u32,
    },
    /// The data directory is that of another cluster.
    #[error(
        "the data directory is of another cluster, or of one of this name that was founded anew: give the pod an empty data directory, or the brokers of its cluster"
    )]
    OtherCluster,
    /// The data directory is that of another life of the cluster.
    #[error(
        "the data directory is of epoch {found} of the cluster, its log is of epoch {epoch}: give the pod an empty data directory, and it takes the filters from the others"
    )]
    OtherEpoch {
        /// The directory's.
        found: u64,
        /// The log's.
        epoch: u64,
    },
}

/// From where a lane goes on.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LaneStart {
    pub(crate) position: Position,
    pub(crate) stamp_ms: u64,
    /// The largest number of a filter that was made in it.
    pub(crate) last_filter: u64,
}

impl LaneStart {
    /// From where each lane goes on, as the store has it.
    ///
    /// # Errors
    /// What is stored is not of this cluster.
    pub(super) fn of_each(
        membership: &Membership,
        store: &PageStore,
    ) -> Result<Vec<LaneStart>, JoinError> {
        let mut is_known = false;
        let mut starts = Vec::new();
        for lane in 0..membership.lanes {
            let stored = store.lane_position(lane)?;
            is_known |= stored.is_some();
            starts.push(match stored {
                None => LaneStart {
                    position: membership.lane(lane).origin(),
                    stamp_ms: 0,
                    last_filter: 0,
                },
                Some(it) if it.founding != membership.founding => {
                    return Err(JoinError::OtherCluster);
                }
                Some(it) if it.epoch != membership.epoch => {
                    return Err(JoinError::OtherEpoch {
                        found: it.epoch,
                        epoch: membership.epoch,
                    });
                }
                Some(it) => LaneStart {
                    position: Position {
                        sequence: it.sequence,
                        history: HistoryHash::from_bytes(it.history),
                    },
                    stamp_ms: it.stamp_ms,
                    last_filter: it.last_filter,
                },
            });
        }
        match is_known || store.list_filters("", None, 1)?.is_empty() {
            true => Ok(starts),
            false => Err(JoinError::NotOfACluster),
        }
    }
}

/// Where a lane of this pod stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LaneState {
    /// The newest record that was applied, and is in the store.
    pub position: Position,
    /// Whether this pod plans its changes, and has applied all that came before.
    pub leads: bool,
    /// Whether a record is in flight, so that a commit is not settled.
    pub is_in_flight: bool,
    /// Whether it needs the state of another pod.
    pub is_behind: bool,
    /// Why it stands still for good, if it does.
    pub halted: Option<Halt>,
}

/// The same, as the lane's thread tells it.
pub(crate) struct LanePlace(watch::Sender<LaneState>);

impl LanePlace {
    /// That of a lane that begins.
    pub(super) fn new(start: &LaneStart) -> LanePlace {
        LanePlace(watch::Sender::new(LaneState {
            position: start.position,
            leads: false,
            is_in_flight: false,
            is_behind: false,
            halted: None,
        }))
    }

    /// Says where it stands now.
    pub(super) fn set(&self, state: LaneState) {
        self.0.send_replace(state);
    }

    pub(super) fn state(&self) -> LaneState {
        self.0.borrow().clone()
    }

    /// Waits until it has applied a record of this number, or a later one.
    pub(super) async fn reached(&self, sequence: u64) {
        let reached = |state: &LaneState| state.position.sequence >= sequence;
        // An error would mean that the sender is gone, which is here.
        let _ = self.0.subscribe().wait_for(reached).await;
    }
}

/// A lane's part in the cluster.
pub(crate) struct ClusteredLane {
    pub(super) start: LaneStart,
    pub(super) place: Arc<LanePlace>,
    pub(super) barriers: Barriers,
}

/// The barriers of a lane, one after the other.
#[derive(Default)]
pub(super) struct Barriers {
    /// How many have begun.
    pub(super) begun: AtomicU64,
    /// The last one that ended well; held while one is under way.
    pub(super) ended: AsyncMutex<u64>,
}

/// An engine's part in the cluster.
pub(super) struct Clustered {
    pub(super) membership: Arc<Membership>,
    pub(super) lanes: Vec<ClusteredLane>,
}

impl Clustered {
    /// # Errors
    /// What is stored is not of this cluster.
    pub(super) fn of(membership: Membership, store: &PageStore) -> Result<Clustered, JoinError> {
        let starts = LaneStart::of_each(&membership, store)?;
        let lane = |start| ClusteredLane {
            place: Arc::new(LanePlace::new(&start)),
            start,
            barriers: Barriers::default(),
        };
        Ok(Clustered {
            membership: Arc::new(membership),
            lanes: starts.into_iter().map(lane).collect(),
        })
    }
}

#[cfg(test)]
mod tests;
