//! What makes sure that an answer is not as of a past that only this pod still has:
//! records of the commit log without a commit.

use super::error::{EngineError, Overload, Result};
use super::lane::command::Command;
use super::name::FilterName;
use super::shared::Term;
use super::sharing::LaneSharing;
use super::slot::lane_of;
use super::state::{Engine, EngineState};
use std::time::Instant;

impl Engine {
    /// Makes sure that this pod has applied everything that was acknowledged for
    /// a lane before it was called: has the log take a record without a commit.
    /// All that wait at once share one, and so does all that one request asks for.
    ///
    /// # Errors
    /// Another pod leads the lane, or will in a moment, since this one can't store what
    /// the log has; or the log does not answer.
    pub async fn barrier(&self, lane: u32) -> Result {
        let (state, caller) = (&self.state, &self.caller);
        let Some(shared) = state.shared_lane(lane) else {
            return Err(EngineError::NotLeading);
        };
        // One that has begun already may be from before this.
        let since = caller.since.unwrap_or_else(Instant::now);
        let mut last = caller.within(shared.last_barrier.lock()).await?;
        if last.is_some_and(|began| since < began) {
            return Ok(());
        }
        let began = Instant::now();
        let command = Command::Barrier(lane);
        let passed = state.lanes.submit_new(caller, command, None, None);
        match passed.await {
            Ok(_) => {
                *last = Some(began);
                Ok(())
            }
            // The lease goes to a pod whose disk has room and answers.
            Err(
                EngineError::DiskShort(_)
                | EngineError::OutcomeUnknown(_)
                | EngineError::Overloaded(
                    Overload::CommitIndeterminate | Overload::StorageRefuses | Overload::DiskHangs,
                ),
            ) => Err(EngineError::NotLeading),
            Err(error) => Err(error),
        }
    }

    /// Makes sure that an answer to a change which is no commit, such as that there
    /// is no filter, was not given as of a past that only this pod still has: it was
    /// looked up in this term, and nobody else has changed the lane meanwhile.
    ///
    /// # Errors
    /// [`EngineError::NotLeading`]: somebody has, or may have; or the log does not
    /// answer.
    pub(super) async fn confirm(&self, name: &FilterName, term: Option<Term>) -> Result {
        if self.state.sharing.is_none() {
            return Ok(());
        }
        // Seldom, and larger than all else that its caller's future holds.
        Box::pin(self.barrier(self.lane_of(name))).await?;
        match term.is_some() && self.state.term(name) == term {
            true => Ok(()),
            false => Err(EngineError::NotLeading),
        }
    }

    /// The outcome of a change, for which the filter was looked up in this term. A
    /// refusal because of what the filter is, is [confirmed](Self::confirm).
    ///
    /// # Errors
    /// That of the change, or those of the confirmation.
    pub(super) async fn confirmed<T>(
        &self,
        name: &FilterName,
        term: Option<Term>,
        outcome: Result<T>,
    ) -> Result<T> {
        if outcome.as_ref().is_err_and(EngineError::is_of_the_filter) {
            self.confirm(name, term).await?;
        }
        outcome
    }
}

impl EngineState {
    pub(super) fn shared_lane(&self, lane: u32) -> Option<&LaneSharing> {
        self.sharing.as_ref()?.lanes.get(lane as usize)
    }

    /// The term in which this engine plans the changes of a filter; `None`: it does
    /// not, or shares its lanes with no other.
    pub(super) fn term(&self, name: &FilterName) -> Option<Term> {
        self.sharing.as_ref()?;
        let lane = self.shared_lane(lane_of(name, self.lanes.lanes) as u32)?;
        lane.place.term()
    }
}
