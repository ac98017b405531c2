//! The seam between a lane and what orders its commits: the store of this
//! server alone, or a commit log that several pods share.

use super::replicated::{NotOrdered, ReplicatedOrdering};
use crate::store::{Commit, PageStore};
use std::time::Instant;

/// What orders the commits of a lane.
pub(crate) enum LaneOrdering {
    /// The store: a commit is one forced write, and nothing else.
    Local,
    /// The commit log of a cluster.
    Replicated(Box<ReplicatedOrdering>),
}

impl LaneOrdering {
    /// Has a commit ordered and stored. Waits for a commit log until then at the
    /// longest. Blocks.
    pub(in crate::engine) fn commit(
        &self,
        store: &PageStore,
        commit: &Commit,
        until: impl FnOnce() -> Instant,
    ) -> Result<(), NotOrdered> {
        match self {
            LaneOrdering::Local => {
                // What a server alone commits, a cluster would have to apply.
                #[cfg(test)]
                {
                    let bytes = crate::store::commit_bytes::encode(commit);
                    let verified = super::record::verify(&bytes, 0);
                    verified.map_err(NotOrdered::Unfit)?;
                }
                store.commit(commit).map_err(NotOrdered::StoreFailed)
            }
            LaneOrdering::Replicated(replicated) => replicated.commit(store, commit, until()),
        }
    }

    /// What a lane of a cluster has to do with its commit log.
    pub(in crate::engine) fn replicated(&self) -> Option<&ReplicatedOrdering> {
        match self {
            LaneOrdering::Local => None,
            LaneOrdering::Replicated(replicated) => Some(replicated),
        }
    }
}
