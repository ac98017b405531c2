//! An engine in a cluster: what orders the commits of its lanes, what reads the
//! commit log for them, and what they are told from outside.

use super::error::EngineError;
use super::lane::ordering::LaneOrdering;
use super::lane::queue::LaneQueue;
use super::lane::replicated::ReplicatedOrdering;
use super::membership::{LanePlace, LaneState};
use super::state::Engine;
use super::threads::spawn;
use crate::replication::{CommitLog, Event};
use crate::store::StoreError;
use std::sync::Arc;
use std::time::Duration;

/// How long the end of the log is waited for at once.
const READ_WAIT: Duration = Duration::from_millis(100);

/// How long it is before a log that can't be read is read again.
const READ_AGAIN: Duration = Duration::from_millis(200);

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
