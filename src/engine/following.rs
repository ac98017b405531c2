//! An engine in a cluster: what orders the commits of its lanes, what reads the
//! commit log for them, and what they are told from outside.

use super::error::EngineError;
use super::filters::lane_of;
use super::lane::command::Command;
use super::lane::ordering::LaneOrdering;
use super::lane::queue::LaneQueue;
use super::lane::replicated::ReplicatedOrdering;
use super::membership::{ClusteredLane, LanePlace, LaneState};
use super::name::FilterName;
use super::state::Engine;
use super::threads::spawn;
use crate::replication::{CommitLog, Event};
use crate::store::StoreError;
use std::sync::Arc;
use std::sync::atomic::Ordering;
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

    /// The lane of a filter of this name, whether there is one or not.
    pub fn lane_of(&self, name: &FilterName) -> u32 {
        lane_of(name, self.state.lanes.lanes) as u32
    }

    /// Which life of its cluster an engine is in; `None`: it is in no cluster.
    pub fn epoch(&self) -> Option<u64> {
        let clustered = self.state.clustered.as_ref();
        clustered.map(|it| it.membership.epoch)
    }

    /// Where a lane stands; `None` for a lane that the cluster does not have.
    pub fn lane_state(&self, lane: u32) -> Option<LaneState> {
        Some(self.clustered_lane(lane)?.place.state())
    }

    fn clustered_lane(&self, lane: u32) -> Option<&ClusteredLane> {
        let clustered = self.state.clustered.as_ref()?;
        clustered.lanes.get(lane as usize)
    }

    /// Waits, no longer than its caller does, until a lane has applied a record of
    /// this number, or a later one.
    ///
    /// # Errors
    /// [`EngineError::Behind`].
    pub async fn reached(&self, lane: u32, sequence: u64) -> Result<(), EngineError> {
        let Some(lane) = self.clustered_lane(lane) else {
            return Err(EngineError::Behind);
        };
        let reached = self.caller.within(lane.place.reached(sequence)).await;
        reached.map_err(|_| EngineError::Behind)
    }

    /// Makes sure that this pod has applied everything that was acknowledged for
    /// a lane before it was called: has the log take a record without a commit.
    /// All that wait at once share one.
    ///
    /// # Errors
    /// Another pod leads the lane, or the log does not answer.
    pub async fn barrier(&self, lane: u32) -> Result<(), EngineError> {
        let Some(of_lane) = self.clustered_lane(lane) else {
            return Err(EngineError::NotLeading);
        };
        // One that has begun already may be from before this.
        let needed = of_lane.barriers.begun.load(Ordering::Acquire) + 1;
        let mut ended = self.caller.within(of_lane.barriers.ended.lock()).await?;
        if *ended >= needed {
            return Ok(());
        }
        let this = of_lane.barriers.begun.fetch_add(1, Ordering::AcqRel) + 1;
        let command = Command::Barrier(lane);
        let passed = self
            .state
            .lanes
            .submit_new(&self.caller, command, None, None);
        passed.await?;
        *ended = this;
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
