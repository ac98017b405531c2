//! What other pods have applied, held against what this one has. A pod that lacks some of
//! it leads nothing before it has that, too, and stops where the log does not have it.
//!
//! It is remembered: neither a restart, nor that the others are gone, makes a pod go on
//! without what was acknowledged. Only a new epoch does.

use super::past::Unfit;
use super::{JoinError, Membership, PodPosition};
use crate::engine::error::EngineError;
use crate::engine::state::Engine;
use crate::replication::jetstream::is_of_epoch;
use crate::replication::{Event, Halt, Position};
use crate::store::{LanePosition, PageStore, StoreError};

impl Membership {
    /// Whether a store has what another pod has applied.
    fn has(
        &self,
        lane: u32,
        position: Position,
        store: &PageStore,
    ) -> Result<Result<(), Unfit>, StoreError> {
        if !is_of_epoch(&self.began, lane, position.sequence) {
            return Ok(Ok(()));
        }
        let of_epoch = PodPosition {
            founding: self.founding,
            epoch: self.epoch,
            lanes: Vec::new(),
        };
        of_epoch.lane_is_past_of(lane, position, store)
    }

    /// What a lane that starts has to wait for: what others have applied, as far as is
    /// known now or was before.
    ///
    /// # Errors
    /// The store passes over it, so it has followed a log that had lost it.
    pub(super) fn check_acknowledged(
        &self,
        lane: u32,
        store: &PageStore,
    ) -> Result<Option<Position>, JoinError> {
        let before = store.lane_elsewhere(lane)?;
        let before = before.filter(|it| it.epoch == self.epoch);
        let told = self.acknowledged.iter().filter(|(of, _)| *of == lane);
        let known = told.map(|(_, it)| *it);
        let mut awaited: Option<Position> = None;
        for position in known.chain(before.as_ref().map(Position::from)) {
            match self.has(lane, position, store)? {
                Err(Unfit::Behind { .. }) => {
                    let before = awaited.filter(|it| it.sequence > position.sequence);
                    awaited = Some(before.unwrap_or(position));
                }
                Err(Unfit::Forked { .. }) => {
                    let at = store.lane_position(lane)?.map_or(0, |it| it.sequence);
                    let acknowledged = position.sequence;
                    let halt = Halt::Lost { at, acknowledged };
                    return Err(JoinError::OtherLog { lane, halt });
                }
                Ok(()) | Err(Unfit::OfAnother | Unfit::TooLongAgo { .. }) => {}
            }
        }
        Ok(awaited)
    }
}

impl Engine {
    /// Holds what other pods have applied, lane by lane, against what this one has: a
    /// lane that has less waits for it, and one that has passed over it stops. Returns of
    /// which it is not said that the pod lacks it. Blocks.
    ///
    /// # Errors
    /// The store fails, or the engine stops.
    pub fn hear_acknowledged(&self, known: &[(u32, Position)]) -> Result<Vec<bool>, EngineError> {
        let each = known.iter();
        each.map(|&(lane, position)| self.hear_of_one(lane, position))
            .collect()
    }

    fn hear_of_one(&self, lane: u32, position: Position) -> Result<bool, EngineError> {
        let Some((clustered, of_lane)) = self.state.clustered_lane(lane) else {
            return Ok(true);
        };
        let (membership, store) = (&clustered.membership, &self.state.store);
        let state = of_lane.place.state();
        if state.position == position {
            return Ok(true);
        }
        let event = match membership.has(lane, position, store)? {
            Ok(()) | Err(Unfit::OfAnother | Unfit::TooLongAgo { .. }) => return Ok(true),
            Err(Unfit::Behind { .. }) => Event::Acknowledged(position),
            Err(Unfit::Forked { .. }) => Event::Missing(position),
        };
        if state.halted.is_none() {
            self.remember(membership, lane, position, &event)?;
            self.tell_lane(lane, event)?;
        }
        Ok(false)
    }

    /// Remembers what the pod lacks. What it waits for already is remembered as long as
    /// it has not come: most of it does in a moment.
    fn remember(
        &self,
        membership: &Membership,
        lane: u32,
        position: Position,
        event: &Event,
    ) -> Result<(), StoreError> {
        let store = &self.state.store;
        let before = store.lane_elsewhere(lane)?;
        let is_awaited = before.is_some_and(|it| {
            let awaited = Position::from(&it);
            it.epoch == membership.epoch && awaited.sequence >= position.sequence
        });
        if is_awaited && matches!(event, Event::Acknowledged(_)) {
            return Ok(());
        }
        let noted = LanePosition {
            founding: membership.founding,
            epoch: membership.epoch,
            sequence: position.sequence,
            history: *position.history.as_bytes(),
            stamp_ms: 0,
            last_filter: 0,
        };
        store.note_elsewhere(lane, &noted)
    }
}
