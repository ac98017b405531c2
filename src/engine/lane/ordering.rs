//! The seam between a lane and what orders its commits: the store of this
//! server alone, or a commit log that several pods share.

use super::replicated::ReplicatedOrdering;
use crate::store::{Commit, PageStore, StoreError};
use std::time::Instant;

/// What orders the commits of a lane.
pub(crate) enum LaneOrdering {
    /// The store: a commit is one forced write, and nothing else.
    Local,
    /// The commit log of a cluster.
    Replicated(Box<ReplicatedOrdering>),
}

/// Why a commit is not in the store.
pub(super) enum NotOrdered {
    /// The store failed: it may have it. Its number is written again.
    StoreFailed(StoreError),
    /// The commit log has it, the store failed. It is applied again under its
    /// number.
    NotApplied(StoreError),
    /// Nobody has it: another pod's record came before it, or this pod does not
    /// lead. It can be planned again.
    Overtaken,
    /// Nobody has it: it is larger than a record may be.
    TooLarge {
        /// Its bytes.
        bytes: usize,
    },
    /// The commit log has not said yet whether it has it.
    Unsettled,
}

impl LaneOrdering {
    /// Has a commit ordered and stored. Waits for a commit log until then at the
    /// longest. Blocks.
    pub(super) fn commit(
        &self,
        store: &PageStore,
        commit: &Commit,
        until: Instant,
    ) -> Result<(), NotOrdered> {
        match self {
            LaneOrdering::Local => store.commit(commit).map_err(NotOrdered::StoreFailed),
            LaneOrdering::Replicated(replicated) => replicated.commit(store, commit, until),
        }
    }

    /// What a lane of a cluster has to do with its commit log.
    pub(super) fn replicated(&self) -> Option<&ReplicatedOrdering> {
        match self {
            LaneOrdering::Local => None,
            LaneOrdering::Replicated(replicated) => Some(replicated),
        }
    }
}
