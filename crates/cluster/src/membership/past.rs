//! Whether the state of one pod may take the place of another's: only if it has
//! all that the other one has, lane by lane.
//!
//! A number is not enough. A log that was rewound gives numbers a second time, and
//! a pod that was away meanwhile may have the only copy of what was acknowledged
//! before. So every store keeps the hash of the history at each of its newest
//! records, and the other one's must be among them.

use super::{JoinError, Membership};
use crate::engine::{HistoryHash, Position};
use crate::jetstream::NUMBERS_BETWEEN;
use crate::store::{LANE_PAST_RECORDS, NUMBERS_OF_AN_EPOCH, PageStore, StoreError};
use crate::{Event, LogError, Replica};
use serde::{Deserialize, Serialize};
use std::time::Duration;

// What stores keep of an epoch that is over lies as far behind as numbers jump.
const _: () = assert!(NUMBERS_OF_AN_EPOCH <= NUMBERS_BETWEEN);

/// How long the log is waited for.
const READ_WAIT: Duration = Duration::from_secs(2);

/// Where a pod stands in each lane of its cluster, as pods tell each other.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PodPosition {
    /// Which cluster.
    pub founding: [u8; 16],
    /// Which life of it.
    pub epoch: u64,
    /// By lane.
    pub lanes: Vec<Position>,
}

/// Why a state may not take the place of a pod's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unfit {
    /// It is of another cluster, or of another life of it.
    #[error("it is of another cluster, or of another epoch of it")]
    OfAnother,
    /// It lacks some of what the pod has, as yet.
    #[error("it is at record {has} of lane {lane}, and the pod at record {needs}")]
    Behind {
        /// In which lane.
        lane: u32,
        /// Its newest record.
        has: u64,
        /// The pod's.
        needs: u64,
    },
    /// It has another record in the place of the pod's newest one.
    #[error(
        "its history of lane {lane} has another record {at}, or none: the log lost changes that were acknowledged, and this pod may have the only copy. Keep its data directory. To give them up, give the pod an empty one, and it takes the state of the others"
    )]
    Forked {
        /// In which lane.
        lane: u32,
        /// The pod's newest record.
        at: u64,
    },
    /// Nobody can tell any more.
    #[error(
        "record {at} of lane {lane} was too long ago for others to remember it, so whether they have all that this pod has can't be seen. If it was stopped after all of its changes were on other pods, give it an empty data directory, and it takes the state of the others"
    )]
    TooLongAgo {
        /// In which lane.
        lane: u32,
        /// The pod's newest record.
        at: u64,
    },
}

impl Unfit {
    /// Whether it may be fit a little later.
    pub fn may_pass(&self) -> bool {
        matches!(self, Unfit::Behind { .. })
    }
}

impl PodPosition {
    /// That of the pod with this store.
    ///
    /// # Errors
    /// What is stored is not of the cluster, or can't be read.
    pub fn of(membership: &Membership, store: &PageStore) -> Result<PodPosition, JoinError> {
        let stored = membership.stored(store)?;
        Ok(PodPosition {
            founding: membership.founding,
            epoch: membership.epoch,
            lanes: stored.iter().map(|(_, it)| it.into()).collect(),
        })
    }

    /// Whether a store has all that a pod has which stands here.
    ///
    /// # Errors
    /// The store can't be read.
    pub fn is_past_of(&self, store: &PageStore) -> Result<Result<(), Unfit>, StoreError> {
        for (lane, position) in self.lanes.iter().enumerate() {
            let (lane, of) = (lane as u32, (self.founding, self.epoch));
            if let Err(unfit) = lane_is_past_of(of, lane, *position, store)? {
                return Ok(Err(unfit));
            }
        }
        Ok(Ok(()))
    }

    /// Lanes whose next records the log no longer has, so that a pod which stands
    /// here needs the state of another one. Blocks.
    ///
    /// # Errors
    /// The log can't be read.
    pub fn lanes_behind(&self, membership: &Membership) -> Result<Vec<u32>, LogError> {
        let log = &membership.log;
        let mut behind = Vec::new();
        for (lane, position) in self.lanes.iter().enumerate() {
            let lane = lane as u32;
            if log.newest(lane)? <= position.sequence {
                continue;
            }
            let mut records = log.read(lane, position.sequence, READ_WAIT)?;
            records.truncate(1);
            // The very rule by which a lane that runs finds it out.
            let (identity, levels) = (membership.lane(lane), membership.levels());
            let mut replica = Replica::new(identity, membership.writer, levels, *position, 0);
            let is_all = false;
            replica.handle(Event::Read { records, is_all });
            if replica.is_behind() {
                behind.push(lane);
            }
        }
        Ok(behind)
    }
}

/// Whether a store has all that a pod of that epoch of a founding has which stands here in
/// a lane.
pub(super) fn lane_is_past_of(
    (founding, epoch): ([u8; 16], u64),
    lane: u32,
    position: Position,
    store: &PageStore,
) -> Result<Result<(), Unfit>, StoreError> {
    let at = position.sequence;
    let has = match store.lane_position(lane)? {
        None => 0,
        // A lane to which nothing was written since an epoch began is of the one
        // before.
        Some(it) if it.founding != founding || it.epoch > epoch => {
            return Ok(Err(Unfit::OfAnother));
        }
        Some(it) => it.sequence,
    };
    if has < at {
        let needs = at;
        return Ok(Err(Unfit::Behind { lane, has, needs }));
    }
    if at == 0 {
        return Ok(Ok(()));
    }
    let past = store.lane_past(lane, at)?.map(HistoryHash::from_bytes);
    Ok(match past {
        Some(history) if history == position.history => Ok(()),
        None if has - at >= LANE_PAST_RECORDS => Err(Unfit::TooLongAgo { lane, at }),
        _ => Err(Unfit::Forked { lane, at }),
    })
}
