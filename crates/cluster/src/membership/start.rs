//! From where the lanes of a pod go on, and whether its data directory and the log
//! go together.

use super::part::Membership;
use crate::Found;
use crate::engine::{Halt, HistoryHash, Position};
use crate::store::{LanePosition, PageStore, StoreError};

/// Why an engine can't be part of a cluster.
#[derive(Debug, thiserror::Error)]
pub enum JoinError {
    /// The store can't be read.
    #[error(transparent)]
    Store(#[from] StoreError),
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
    /// The data directory has other lanes than the cluster.
    #[error(
        "the data directory has {found} lanes, and the cluster {lanes}: these are the wrong brokers, or their stream was made by hand. Name the brokers of the pod's cluster with --log"
    )]
    LanesDiffer {
        /// Lanes of the directory.
        found: usize,
        /// Lanes of the cluster.
        lanes: u32,
    },
    /// The data directory is that of another cluster.
    #[error(
        "the data directory is of another cluster, or of one of this name that was founded anew: give the pod an empty data directory, or the brokers of its cluster"
    )]
    OtherCluster,
    /// The data directory is that of a later life of the cluster than its log.
    #[error(
        "the data directory is of epoch {found} of the cluster, its log is of epoch {epoch}, which is over: these are the wrong brokers, or they were set back. Begin a new epoch from this pod: `cuckood cluster new-epoch`"
    )]
    OtherEpoch {
        /// The directory's.
        found: u64,
        /// The log's.
        epoch: u64,
    },
    /// The data directory has what the current life of the cluster began without.
    #[error(
        "lane {lane} of the data directory is at record {at} of epoch {found}, and epoch {epoch} began at record {began}: it has changes that are not in the cluster any more. Keep it elsewhere if you need them, and give the pod an empty data directory: it takes the state of another pod"
    )]
    LeftBehind {
        /// The lane.
        lane: u32,
        /// Its position in the directory.
        at: u64,
        /// The directory's epoch.
        found: u64,
        /// The current one.
        epoch: u64,
        /// Where that began.
        began: u64,
    },
    /// The log is not the one that the data directory has followed.
    #[error("lane {lane} can't go on: {halt}")]
    OtherLog {
        /// The lane.
        lane: u32,
        /// Why.
        halt: Halt,
    },
}

/// From where a lane goes on.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LaneStart {
    pub(crate) position: Position,
    /// What another pod has applied, and this one has not.
    pub(crate) awaited: Option<Position>,
    pub(crate) stamp_ms: u64,
    /// The largest serial number of a filter that was made in it.
    pub(crate) last_serial: u64,
}

impl LaneStart {
    /// From where each lane goes on, as the store has it. Notes in the store which
    /// lanes there are.
    ///
    /// # Errors
    /// What is stored is not of this cluster, or not what its log says; nothing was
    /// changed.
    pub(crate) fn of_each(
        membership: &Membership,
        store: &PageStore,
    ) -> Result<Vec<LaneStart>, JoinError> {
        let stored = membership.stored(store)?;
        for (lane, position) in &stored {
            membership.check_record(*lane, position)?;
        }
        let start = |(lane, it): &(u32, LanePosition)| {
            Ok(LaneStart {
                position: it.into(),
                awaited: membership.check_acknowledged(*lane, store)?,
                stamp_ms: it.stamp_ms,
                last_serial: it.last_serial,
            })
        };
        stored.iter().map(start).collect()
    }
}

impl Membership {
    /// Where each lane stands, as the store has it. Notes in the store which lanes
    /// there are. The log is not asked.
    ///
    /// # Errors
    /// What is stored is not of this cluster; nothing was changed.
    pub(super) fn stored(&self, store: &PageStore) -> Result<Vec<(u32, LanePosition)>, JoinError> {
        let mut stored = store.lane_positions()?;
        if stored.is_empty() {
            if !store.list_filters("", None, 1)?.is_empty() {
                return Err(JoinError::NotOfACluster);
            }
            let nothing = |lane| (lane, self.to_store(self.lane(lane).origin()));
            stored = (0..self.lanes).map(nothing).collect();
            store.put_lane_positions(&stored)?;
        }
        if stored.iter().any(|(_, it)| it.founding != self.founding) {
            return Err(JoinError::OtherCluster);
        }
        let (found, lanes) = (stored.len(), self.lanes);
        if found != lanes as usize {
            return Err(JoinError::LanesDiffer { found, lanes });
        }
        for (lane, position) in &stored {
            self.check_epoch(*lane, position)?;
        }
        Ok(stored)
    }

    /// Where a lane stands, for the store. What its record says beside is not known.
    pub(crate) fn to_store(&self, position: Position) -> LanePosition {
        LanePosition {
            founding: self.founding,
            epoch: self.epoch,
            sequence: position.sequence,
            history: *position.history.as_bytes(),
            stamp_ms: 0,
            last_serial: 0,
        }
    }

    /// Whether what is stored of a lane is of the epoch of the log, or of where that
    /// began.
    fn check_epoch(&self, lane: u32, stored: &LanePosition) -> Result<(), JoinError> {
        let (found, epoch) = (stored.epoch, self.epoch);
        if found > epoch {
            return Err(JoinError::OtherEpoch { found, epoch });
        }
        let position = Position::from(stored);
        if position.sequence == 0 || found == epoch {
            return Ok(());
        }
        // What is behind where the epoch began waits for the state of another pod.
        match self.began.get(lane as usize) {
            Some(began) if position.sequence >= began.sequence && position != *began => {
                Err(JoinError::LeftBehind {
                    lane,
                    at: position.sequence,
                    found,
                    epoch,
                    began: began.sequence,
                })
            }
            _ => Ok(()),
        }
    }

    /// Whether the log has the record that was applied last, if it was of its epoch.
    /// Where that can't be said now, it is asked again before the lane is led.
    fn check_record(&self, lane: u32, stored: &LanePosition) -> Result<(), JoinError> {
        let (at, history) = (stored.sequence, Position::from(stored).history);
        if at == 0 || stored.epoch != self.epoch {
            return Ok(());
        }
        let halt = match self.log.look(lane, at) {
            Found::Record(bytes) if HistoryHash::of(&bytes) == history => return Ok(()),
            Found::Record(_) => Halt::Forked { at },
            Found::Absent { newest } if newest < at => Halt::Rewound { at, newest },
            Found::Absent { .. } | Found::Unsure => return Ok(()),
        };
        Err(JoinError::OtherLog { lane, halt })
    }
}
