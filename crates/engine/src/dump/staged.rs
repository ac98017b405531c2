//! The pages of a filter that has no name yet, and the way on which they come into
//! the store: written straight into it, or as commits of the filter's lane, where
//! several pods have that.

use super::error::RestoreError;
use crate::caller::Caller;
use crate::claims::Claim;
use crate::disk::{Disk, Refusal};
use crate::error::EngineError;
use crate::lane::command::{Command, Outcome, PagesToStage};
use crate::name::FilterName;
use crate::page::FilterId;
use crate::state::EngineState;
use crate::store::disk::DiskShort;
use crate::store::{Garbage, PageImage};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How long a lane is asked again that has no room for a command, or does not know
/// yet what became of its last commit.
const BUSY_PATIENCE: Duration = Duration::from_secs(10);

/// How long it is before it is asked again.
const ASK_AGAIN: Duration = Duration::from_millis(50);

/// See the module. Dropped, the pages are reclaimed.
pub(crate) struct StagedPages {
    pub(crate) id: FilterId,
    state: Arc<EngineState>,
    /// Through which they come into the stores of all pods; `None`: into this store alone.
    lane: Option<OfLane>,
    /// The lane, or the next start, sees to the pages from now on.
    pub(crate) is_handed_over: bool,
}

/// Without the claim the pod that leads the lane gives them up.
struct OfLane {
    name: FilterName,
    caller: Caller,
    claim: Claim,
}

impl StagedPages {
    /// Those of a filter of this number; in a cluster its lane gives it another.
    /// Blocks, as everything here.
    ///
    /// # Errors
    /// There is no room on the disk, or the lane refuses.
    pub(super) fn begin(
        state: &Arc<EngineState>,
        id: FilterId,
        name: &FilterName,
        caller: &Caller,
    ) -> Result<StagedPages, RestoreError> {
        check_room(&state.disk, 0)?;
        let (id, lane) = match state.sharing {
            None => {
                state.store.stage(id)?;
                (id, None)
            }
            Some(_) => {
                let lane = OfLane {
                    name: name.clone(),
                    caller: Caller {
                        deadline: None,
                        ..caller.clone()
                    },
                    claim: Claim::default(),
                };
                (lane.stage(state, None, [].into())?, Some(lane))
            }
        };
        Ok(StagedPages {
            id,
            state: Arc::clone(state),
            lane,
            is_handed_over: false,
        })
    }

    /// Writes some of them.
    ///
    /// # Errors
    /// As for the first.
    pub(super) fn write(&self, pages: Vec<PageImage>) -> Result<(), RestoreError> {
        check_room(&self.state.disk, 0)?;
        match &self.lane {
            None => self.state.store.stage_pages(&pages)?,
            Some(_) if pages.is_empty() => {}
            Some(lane) => {
                lane.stage(&self.state, Some(self.id), pages.into())?;
            }
        }
        Ok(())
    }
}

impl Drop for StagedPages {
    fn drop(&mut self) {
        if self.lane.is_none() && !self.is_handed_over {
            let garbage = [Garbage::Filter(self.id)];
            self.state.checkpointer.reclaim_soon(garbage);
        }
    }
}

impl OfLane {
    /// Has all pods take these pages. If that fails, it does not matter which have them:
    /// what has no name is given up.
    fn stage(
        &self,
        state: &EngineState,
        id: Option<FilterId>,
        pages: Arc<[PageImage]>,
    ) -> Result<FilterId, RestoreError> {
        let until = Instant::now() + BUSY_PATIENCE;
        loop {
            let command = Command::Stage(PagesToStage {
                name: self.name.clone(),
                id,
                pages: Arc::clone(&pages),
                claim: self.claim.clone(),
            });
            let staged = state.lanes.submit_blocking(&self.caller, None, command);
            return Err(RestoreError::Refused(match staged {
                Ok(Outcome::Staged(id)) => return Ok(id),
                Ok(_) => EngineError::NotLeading,
                Err(EngineError::Overloaded(_) | EngineError::OverShare { .. })
                    if Instant::now() < until =>
                {
                    std::thread::sleep(ASK_AGAIN);
                    continue;
                }
                Err(error) if error.may_be_done() => EngineError::LogUnavailable,
                Err(error) => error,
            }));
        }
    }
}

/// Whether there is room for so many bytes that the store does not write.
///
/// # Errors
/// [`RestoreError::DiskShort`]; a store that refuses for another reason says
/// so itself.
pub(super) fn check_room(disk: &Disk, bytes: u64) -> Result<(), DiskShort> {
    match disk.check_for(bytes) {
        Err(Refusal::Short(short)) => Err(short),
        _ => Ok(()),
    }
}
