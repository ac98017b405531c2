//! Gives up filters that were taken in through a commit log and with which nobody
//! goes on: their client went away, or the pod that took them in did. See
//! [`claims`](crate::claims).

use crate::caller::SERVER;
use crate::error::{EngineError, Result};
use crate::lane::command::Command;
use crate::page::FilterId;
use crate::sharing::Sharing;
use crate::state::EngineState;
use crate::threads::repeat;
use crossbeam_channel::Receiver;
use std::ops::ControlFlow;
use std::sync::Weak;
use std::time::Duration;

/// How often the numbers that are staged are looked at.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// Gives up until the engine stops.
pub(crate) fn run(state: &Weak<EngineState>, stop: &Receiver<()>) {
    repeat(state, stop, LOOK_EVERY, |state| {
        let Some(sharing) = &state.sharing else {
            return ControlFlow::Break(());
        };
        match give_up(state, sharing) {
            Err(EngineError::Stopping) => return ControlFlow::Break(()),
            Err(error) => tracing::debug!(%error, "staged filters can't be listed"),
            Ok(()) => {}
        }
        ControlFlow::Continue(LOOK_EVERY)
    });
}

fn give_up(state: &EngineState, sharing: &Sharing) -> Result {
    let leads = |id: &FilterId| sharing.lane_of(*id).is_some_and(|it| it.state().leads());
    for id in state.store.staged()? {
        if leads(&id) && !sharing.claims.has(id) {
            tracing::info!(
                filter = id.0,
                "gives up a filter that was not taken in to its end"
            );
            let given_up = state
                .lanes
                .submit_blocking(&SERVER, None, Command::GiveUp(id));
            match given_up {
                Err(EngineError::Stopping) => return Err(EngineError::Stopping),
                // Those of other lanes don't wait for it; it is looked at again.
                Err(error) => tracing::debug!(%error, "a staged filter could not be given up"),
                Ok(_) => {}
            }
        }
    }
    Ok(())
}
