//! What an engine is in a cluster: the commit log that it shares with other
//! pods, and where each of its lanes stands in it.

use super::error::EngineError;
use super::lane::ordering::LaneOrdering;
use super::lane::queue::LaneQueue;
use super::lane::replicated::ReplicatedOrdering;
use super::state::Engine;
use super::threads::spawn;
use crate::replication::{
    CommitLog, Event, Halt, HistoryHash, LaneIdentity, Levels, Position, Writer,
};
use crate::store::{PageStore, StoreError};
use parking_lot::Mutex;
use std::sync::Arc;
use std::time::Duration;

/// How long the end of the log is waited for at once.
const READ_WAIT: Duration = Duration::from_millis(100);

/// How long it is before a log that can't be read is read again.
const READ_AGAIN: Duration = Duration::from_millis(200);

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
pub(crate) struct LanePlace(Mutex<LaneState>);

impl LanePlace {
    /// That of a lane that begins.
    pub(super) fn new(start: &LaneStart) -> LanePlace {
        LanePlace(Mutex::new(LaneState {
            position: start.position,
            leads: false,
            is_in_flight: false,
            is_behind: false,
            halted: None,
        }))
    }

    /// Says where it stands now.
    pub(super) fn set(&self, state: LaneState) {
        *self.0.lock() = state;
    }

    fn state(&self) -> LaneState {
        self.0.lock().clone()
    }
}

/// A lane's part in the cluster.
pub(crate) struct ClusteredLane {
    pub(super) start: LaneStart,
    pub(super) place: Arc<LanePlace>,
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
        };
        Ok(Clustered {
            membership: Arc::new(membership),
            lanes: starts.into_iter().map(lane).collect(),
        })
    }
}

/// Reads what other pods have committed, and hands it to the lane, until the lane
/// takes no more.
fn follow(log: &dyn CommitLog, lane: u32, queue: &LaneQueue, place: &LanePlace) {
    let mut read_to = 0;
    while !queue.is_closed() {
        let state = place.state();
        // One that leads reads where it is refused. One that is in doubt reads by
        // itself.
        let has_stopped = state.halted.is_some() || state.is_behind;
        if state.leads || state.is_in_flight || has_stopped {
            std::thread::sleep(READ_AGAIN);
            continue;
        }
        read_to = state.position.sequence.max(read_to);
        match log.read(lane, read_to, READ_WAIT) {
            Ok(records) => {
                let Some(last) = records.last() else {
                    continue;
                };
                read_to = last.sequence;
                let is_all = false;
                queue.tell_of_records(Event::Read { records, is_all });
            }
            Err(error) => {
                tracing::warn!(%error, lane, "the commit log is read again");
                std::thread::sleep(READ_AGAIN);
            }
        }
    }
}

impl Engine {
    /// What orders the commits of a lane.
    pub(super) fn ordering(&self, number: usize) -> LaneOrdering {
        let state = &self.state;
        let clustered = state.clustered.as_ref();
        match clustered.and_then(|it| Some((it, it.lanes.get(number)?))) {
            None => LaneOrdering::Local,
            Some((it, lane)) => LaneOrdering::Replicated(Box::new(ReplicatedOrdering::new(
                number as u32,
                &it.membership,
                lane,
                &state.clock,
                (&state.idempotent_writes, &state.imports),
            ))),
        }
    }

    /// Starts what reads the commit log of a lane, if it has one.
    ///
    /// # Errors
    /// The thread can't be started.
    pub(super) fn start_following(
        &self,
        number: usize,
        queue: &Arc<LaneQueue>,
    ) -> Result<(), StoreError> {
        let clustered = self.state.clustered.as_ref();
        let Some((it, lane)) = clustered.and_then(|it| Some((it, it.lanes.get(number)?))) else {
            return Ok(());
        };
        let (membership, place) = (Arc::clone(&it.membership), Arc::clone(&lane.place));
        let queue = Arc::clone(queue);
        let following = move || follow(&*membership.log, number as u32, &queue, &place);
        let thread = spawn(&format!("follow-{number}"), following)?;
        self.state.threads.lanes.lock().push(thread);
        Ok(())
    }

    /// Where each lane stands; none for an engine that is in no cluster.
    pub fn lane_states(&self) -> Vec<LaneState> {
        let lanes = self.state.clustered.iter().flat_map(|it| &it.lanes);
        lanes.map(|lane| lane.place.state()).collect()
    }

    /// Tells a lane of its lease, or that the log may have become another.
    ///
    /// # Errors
    /// The engine stops.
    pub fn tell_lane(&self, lane: u32, event: Event) -> Result<(), EngineError> {
        let queue = self.state.lanes.queues.read().get(lane as usize).cloned();
        queue.ok_or(EngineError::Stopping)?.tell(event);
        Ok(())
    }
}

#[cfg(test)]
mod tests;
