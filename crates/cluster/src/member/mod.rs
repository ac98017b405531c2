//! An engine in a cluster: how it becomes a part of one, and what its lanes are told
//! from outside.

use super::lane::{Inbox, ReplicatedOrder};
use super::membership::{JoinError, LaneStart, Membership, Unfit};
use super::{Event, KeptLane};
use crate::engine::{
    Engine, EngineError, EngineOptions, LanePlace, LaneState, Position, SharedLane, SharedLanes,
    TimeElsewhere,
};
use crate::metrics::Metrics;
use crate::store::{PageStore, StoreError};
use std::sync::Arc;

/// An engine in a cluster. Cheap to clone; all clones are the same.
#[derive(Clone)]
pub struct Member {
    engine: Engine,
    membership: Arc<Membership>,
    lanes: Arc<[(Arc<LanePlace>, Arc<Inbox>)]>,
}

impl Member {
    /// Opens an engine as a part of a cluster: commits go through its log, and those of
    /// other pods are applied.
    ///
    /// # Errors
    /// Those of a start, and if store and cluster do not go together.
    pub fn join(
        store: Arc<PageStore>,
        options: &EngineOptions,
        metrics: Arc<Metrics>,
        membership: Membership,
    ) -> Result<Member, JoinError> {
        let starts = LaneStart::of_each(&membership, &store)?;
        let time = TimeElsewhere {
            engines: membership.time,
            reckoned: membership.reckoned,
            brokers: membership.brokers_time,
            stamp_ms: starts.iter().map(|it| it.stamp_ms).max(),
        };
        let membership = Arc::new(membership);
        let (mut lanes, mut shared) = (Vec::new(), Vec::new());
        for (number, start) in (0..).zip(&starts) {
            let awaits = start.awaited.map(|it| it.sequence);
            let place = Arc::new(LanePlace::new(start.position, awaits));
            let inbox = Arc::<Inbox>::default();
            let order = ReplicatedOrder::new(number, &membership, start, &inbox, &place);
            shared.push(SharedLane {
                order: Box::new(order),
                place: Arc::clone(&place),
                last_serial: start.last_serial,
            });
            lanes.push((place, inbox));
        }
        let shared = SharedLanes {
            epoch: membership.epoch,
            lanes: shared,
            time,
        };
        Ok(Member {
            engine: Engine::start(store, options, metrics, Some(shared))?,
            membership,
            lanes: lanes.into(),
        })
    }

    /// The engine.
    pub fn engine(&self) -> &Engine {
        &self.engine
    }

    /// Tells a lane of its lease, or that the log may have become another.
    pub fn tell(&self, lane: u32, event: Event) {
        if let Some((_, inbox)) = self.lanes.get(lane as usize) {
            inbox.tell(event);
        }
    }

    /// Has all lanes write records of a feature level which all pods understand.
    pub fn write_level(&self, level: u16) {
        for (_, inbox) in &*self.lanes {
            inbox.tell(Event::Level(level));
        }
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
        let positions = self.engine.lane_states().iter().map(held).collect();
        self.engine.store().sync()?;
        Ok(positions)
    }

    /// Holds what other pods have applied, lane by lane, against what this one has: a
    /// lane that has less waits for it, and one that has passed over it stops. Returns of
    /// which it is not said that the pod lacks it. Blocks.
    ///
    /// # Errors
    /// The store fails.
    pub fn hear_acknowledged(&self, known: &[(u32, Position)]) -> Result<Vec<bool>, EngineError> {
        let each = known.iter();
        each.map(|&(lane, position)| self.hear_of_one(lane, position))
            .collect()
    }

    fn hear_of_one(&self, lane: u32, position: Position) -> Result<bool, EngineError> {
        let Some((place, inbox)) = self.lanes.get(lane as usize) else {
            return Ok(true);
        };
        let state = place.state();
        if state.position == position {
            return Ok(true);
        }
        let store = self.engine.store();
        let event = match self.membership.has(lane, position, store)? {
            Ok(()) | Err(Unfit::OfAnother | Unfit::TooLongAgo { .. }) => return Ok(true),
            Err(Unfit::Behind { .. }) => Event::Acknowledged(position),
            Err(Unfit::Forked { .. }) => Event::Missing(position),
        };
        if state.halted.is_none() {
            self.remember(lane, position, &event)?;
            inbox.tell(event);
        }
        Ok(false)
    }

    /// Remembers what the pod lacks. What it waits for already is remembered as long as
    /// it has not come: most of it does in a moment.
    fn remember(&self, lane: u32, position: Position, event: &Event) -> Result<(), StoreError> {
        let store = self.engine.store();
        let epoch = self.membership.epoch;
        let before = store.lane_elsewhere(lane)?;
        let is_awaited = before.is_some_and(|it| {
            let awaited = Position::from(&it);
            it.epoch == epoch && awaited.sequence >= position.sequence
        });
        if is_awaited && matches!(event, Event::Acknowledged(_)) {
            return Ok(());
        }
        store.put_lane_elsewhere(lane, &self.membership.to_store(position))
    }
}

/// A lane of an engine, as what keeps its lease has it.
impl KeptLane for (Member, u32) {
    fn may_lead(&self) -> bool {
        let (member, lane) = self;
        let state = member.engine.lane_state(*lane);
        // Others may have room where this pod has none.
        let can_store = member.engine.takes_changes();
        can_store && state.is_some_and(|it| !it.has_stopped())
    }

    async fn caught_up(&self) {
        let (member, lane) = self;
        if let Some((place, _)) = member.lanes.get(*lane as usize) {
            let is_done = |it: &LaneState| it.has_caught_up || it.has_stopped();
            place.wait_for(is_done).await;
        }
    }

    fn tell(&self, event: Event) {
        let (member, lane) = self;
        member.tell(*lane, event);
    }
}

#[cfg(test)]
mod tests;
