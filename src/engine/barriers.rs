//! What makes sure that an answer is not as of a past that only this pod still has:
//! records of the commit log without a commit.

use super::caller::Caller;
use super::error::{EngineError, Overload};
use super::filters::lane_of;
use super::lane::command::Command;
use super::membership::{Clustered, ClusteredLane};
use super::name::FilterName;
use super::state::{Engine, EngineState};
use crate::replication::Reign;
use std::sync::atomic::Ordering;

impl Engine {
    /// Makes sure that this pod has applied everything that was acknowledged for
    /// a lane before it was called: has the log take a record without a commit.
    /// All that wait at once share one.
    ///
    /// # Errors
    /// Another pod leads the lane, or will in a moment, since this one can't store what
    /// the log has; or the log does not answer.
    pub async fn barrier(&self, lane: u32) -> Result<(), EngineError> {
        self.state.barrier(&self.caller, lane).await
    }
}

impl EngineState {
    pub(super) fn clustered_lane(&self, lane: u32) -> Option<(&Clustered, &ClusteredLane)> {
        let clustered = self.clustered.as_ref()?;
        Some((clustered, clustered.lanes.get(lane as usize)?))
    }

    async fn barrier(&self, caller: &Caller, lane: u32) -> Result<(), EngineError> {
        let Some((_, of_lane)) = self.clustered_lane(lane) else {
            return Err(EngineError::NotLeading);
        };
        // One that has begun already may be from before this.
        let needed = of_lane.barriers.begun.load(Ordering::Acquire) + 1;
        let mut ended = caller.within(of_lane.barriers.ended.lock()).await?;
        if *ended >= needed {
            return Ok(());
        }
        let this = of_lane.barriers.begun.fetch_add(1, Ordering::AcqRel) + 1;
        let command = Command::Barrier(lane);
        let passed = self.lanes.submit_new(caller, command, None, None);
        match passed.await {
            Ok(_) => {
                *ended = this;
                Ok(())
            }
            // The lease goes to a pod whose disk has room and answers.
            Err(
                EngineError::DiskShort(_)
                | EngineError::OutcomeUnknown(_)
                | EngineError::Overloaded(
                    Overload::CommitInDoubt | Overload::StorageRefuses | Overload::DiskHangs,
                ),
            ) => Err(EngineError::NotLeading),
            Err(error) => Err(error),
        }
    }

    /// The reign in which this pod plans the changes of a filter; `None`: it does
    /// not, or is in no cluster.
    pub(super) fn reign(&self, name: &FilterName) -> Option<Reign> {
        self.clustered.as_ref()?;
        let (_, lane) = self.clustered_lane(self.lane_of(name))?;
        lane.place.reign()
    }

    /// Makes sure that an answer to a change which is no commit, such as that there
    /// is no filter, was not given as of a past that only this pod still has: it was
    /// looked up in this reign, and nobody else has changed the lane meanwhile.
    ///
    /// # Errors
    /// [`EngineError::NotLeading`]: somebody has, or may have; or the log does not
    /// answer.
    pub(super) async fn confirm(
        &self,
        caller: &Caller,
        name: &FilterName,
        reign: Option<Reign>,
    ) -> Result<(), EngineError> {
        if self.clustered.is_none() {
            return Ok(());
        }
        // Seldom, and larger than all else that its caller's future holds.
        Box::pin(self.barrier(caller, self.lane_of(name))).await?;
        match reign.is_some() && self.reign(name) == reign {
            true => Ok(()),
            false => Err(EngineError::NotLeading),
        }
    }

    /// The outcome of a change, for which the filter was looked up in this reign. A
    /// refusal because of what the filter is, is [confirmed](Self::confirm).
    ///
    /// # Errors
    /// That of the change, or those of the confirmation.
    pub(super) async fn confirmed<T>(
        &self,
        caller: &Caller,
        name: &FilterName,
        reign: Option<Reign>,
        outcome: Result<T, EngineError>,
    ) -> Result<T, EngineError> {
        if outcome.as_ref().is_err_and(EngineError::is_of_the_filter) {
            self.confirm(caller, name, reign).await?;
        }
        outcome
    }

    fn lane_of(&self, name: &FilterName) -> u32 {
        lane_of(name, self.lanes.lanes) as u32
    }
}
