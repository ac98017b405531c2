//! Looks at the store's disk several times a second.

use crate::engine::state::EngineState;
use crate::engine::threads::repeat;
use crossbeam_channel::Receiver;
use std::ops::ControlFlow;
use std::sync::Weak;
use std::time::Duration;

/// How often the store is looked at.
const LOOK_EVERY: Duration = Duration::from_millis(250);

/// Looks until the engine stops.
pub(crate) fn run(state: &Weak<EngineState>, stop: &Receiver<()>) {
    repeat(state, stop, LOOK_EVERY, |state| {
        state.disk.look();
        ControlFlow::Continue(LOOK_EVERY)
    });
}
