//! An engine in a cluster: what orders the commits of its lanes, what reads the
//! commit log for them, and what they are told from outside.

use super::error::EngineError;
use super::filters::lane_of;
use super::lane::ordering::LaneOrdering;
use super::lane::queue::LaneQueue;
use super::lane::replicated::ReplicatedOrdering;
use super::membership::{LanePlace, LaneState, PodPosition, Unfit};
use super::name::FilterName;
use super::state::Engine;
use super::threads::spawn;
use crate::replication::{CommitLog, Event, KeptLane};
use crate::store::StoreError;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How long the end of the log is waited for at once.
const READ_WAIT: Duration = Duration::from_millis(100);

/// How long it is before a log that can't be read is read again.
const READ_AGAIN: Duration = Duration::from_millis(200);

/// The end of the log is asked for again after so long: what a lane has caught up with
/// is not older.
const END_IS_OLD: Duration = Duration::from_secs(1);

/// Whether the lane has applied what it was handed is looked at after so long.
const APPLIED_SOON: Duration = Duration::from_millis(1);

/// The log is looked at after so long, if it does not say what another pod has.
const LOOK_AFTER: Duration = Duration::from_secs(3);

/// Reads what other pods have committed, and hands it to the lane, until the lane
/// takes no more.
fn follow(log: &dyn CommitLog, lane: u32, queue: &LaneQueue, place: &LanePlace) {
    let (mut read_to, mut before_last) = (0, 0);
    // The newest record of the log, and since when that is known.
    let mut end: Option<(u64, Instant)> = None;
    let mut looked = Instant::now();
    while !queue.is_closed() {
        let state = place.state();
        // One that leads reads where it is refused. One that is in doubt reads by
        // itself.
        if state.leads() || state.is_in_flight || state.has_stopped() {
            hear_of_more(log, lane, queue, place);
            std::thread::sleep(READ_AGAIN);
            continue;
        }
        if !state.has_caught_up {
            if end.is_none_or(|(_, since)| since.elapsed() > END_IS_OLD) {
                let now = Instant::now();
                end = log.newest(lane).ok().map(|newest| (newest, now));
            }
            let is_all = end.is_some_and(|(newest, _)| newest <= state.position.sequence);
            if is_all && state.awaits.is_none() {
                place.note_caught_up();
            }
        }
        // What was handed over and is not applied, for long if the disk fails, is in memory.
        if state.position.sequence < before_last {
            std::thread::sleep(APPLIED_SOON);
            continue;
        }
        read_to = state.position.sequence.max(read_to);
        match log.read(lane, read_to, READ_WAIT) {
            Ok(records) => {
                let Some(last) = records.last() else {
                    if state.awaits.is_some() && looked.elapsed() > LOOK_AFTER {
                        looked = Instant::now();
                        queue.tell(Event::InDoubt);
                    }
                    continue;
                };
                (before_last, read_to) = (read_to, last.sequence);
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

/// Has a lane that leads read the log, if somebody has named a record that it has not
/// applied and the log has more. Numbers that callers make up cost the lane nothing, and
/// the log one question each time that this is called, however many they are.
fn hear_of_more(log: &dyn CommitLog, lane: u32, queue: &LaneQueue, place: &LanePlace) {
    let named = place.take_named();
    let is_news = |sequence: u64| {
        let state = place.state();
        state.leads() && state.position.sequence < sequence
    };
    if !is_news(named) {
        return;
    }
    match log.newest(lane) {
        Ok(newest) if is_news(newest) => queue.tell(Event::InDoubt),
        Ok(_) => {}
        Err(_) => place.name(named),
    }
}

impl Engine {
    /// What orders the commits of a lane.
    pub(super) fn ordering(&self, number: usize) -> LaneOrdering {
        let state = &self.state;
        match state.clustered_lane(number as u32) {
            None => LaneOrdering::Local,
            Some((it, lane)) => LaneOrdering::Replicated(Box::new(ReplicatedOrdering::new(
                number as u32,
                &it.membership,
                lane,
                (&state.clock, &it.claims),
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
        let Some((it, lane)) = self.state.clustered_lane(number as u32) else {
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
        Some(self.state.clustered_lane(lane)?.1.place.state())
    }

    /// Waits, no longer than its caller does, until a lane has applied a record of
    /// this number, or a later one.
    ///
    /// # Errors
    /// [`EngineError::Behind`].
    pub async fn reached(&self, lane: u32, sequence: u64) -> Result<(), EngineError> {
        let Some((_, of_lane)) = self.state.clustered_lane(lane) else {
            return Err(EngineError::Behind);
        };
        self.hear_of(lane, sequence);
        let reached = self.caller.within(of_lane.place.reached(sequence)).await;
        reached.map_err(|_| EngineError::Behind)
    }

    /// Has a lane that leads read the log, if this is the number of a record that it has
    /// not applied: another pod may have led it, too, without knowing better. It would
    /// hear of that only with its next change. One that follows reads anyway.
    pub fn hear_of(&self, lane: u32, sequence: u64) {
        if let Some((_, of_lane)) = self.state.clustered_lane(lane) {
            of_lane.place.name(sequence);
        }
    }

    /// Where each lane stands; none for an engine that is in no cluster.
    pub fn lane_states(&self) -> Vec<LaneState> {
        let lanes = self.state.clustered.iter().flat_map(|it| &it.lanes);
        lanes.map(|lane| lane.place.state()).collect()
    }

    /// Has all lanes write records of a feature level which all pods understand.
    ///
    /// # Errors
    /// The engine stops.
    pub fn write_level(&self, level: u16) -> Result<(), EngineError> {
        let lanes = self.state.clustered.iter().flat_map(|it| &it.lanes);
        (0..)
            .zip(lanes)
            .try_for_each(|(lane, _)| self.tell_lane(lane, Event::Level(level)))
    }

    /// Whether this pod has all that another one has which stands there. Blocks.
    ///
    /// # Errors
    /// The store can't be read.
    pub fn has_all_of(&self, pod: &PodPosition) -> Result<Result<(), Unfit>, StoreError> {
        pod.is_past_of(&self.state.store)
    }

    /// Forces everything to the disk that lanes have applied, and returns their
    /// positions from before; 0 for a lane that has stopped or needs the state of
    /// another pod. Blocks.
    ///
    /// # Errors
    /// The disk refused.
    pub fn force_lanes(&self) -> Result<Vec<u64>, StoreError> {
        let held = |state: &LaneState| match state.has_stopped() {
            true => 0,
            false => state.position.sequence,
        };
        let positions = self.lane_states().iter().map(held).collect();
        self.state.store.sync()?;
        Ok(positions)
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

/// A lane of an engine, as what keeps its lease has it.
impl KeptLane for (Engine, u32) {
    fn may_lead(&self) -> bool {
        let (engine, lane) = self;
        let state = engine.lane_state(*lane);
        // Others may have room where this pod has none.
        let can_store = engine.state.disk.check().is_ok();
        can_store && state.is_some_and(|it| !it.has_stopped())
    }

    async fn caught_up(&self) {
        let (engine, lane) = self;
        if let Some((_, of_lane)) = engine.state.clustered_lane(*lane) {
            let is_done = |it: &LaneState| it.has_caught_up || it.has_stopped();
            of_lane.place.wait_for(is_done).await;
        }
    }

    fn tell(&self, event: Event) {
        let (engine, lane) = self;
        // An error means that the engine stops.
        let _ = engine.tell_lane(*lane, event);
    }
}
