//! What other pods have applied, held against what this one has. A pod that lacks some of
//! it leads nothing before it has that, too, and stops where the log does not have it.
//!
//! It is remembered: neither a restart, nor that the others are gone, makes a pod go on
//! without what was acknowledged. Only a new epoch does.

use super::past::{Unfit, lane_is_past_of};
use super::{JoinError, Membership};
use crate::engine::{Halt, Position};
use crate::jetstream::is_of_epoch;
use crate::store::{PageStore, StoreError};

impl Membership {
    /// Whether a store has what another pod has applied.
    pub(crate) fn has(
        &self,
        lane: u32,
        position: Position,
        store: &PageStore,
    ) -> Result<Result<(), Unfit>, StoreError> {
        if !is_of_epoch(&self.began, lane, position.sequence) {
            return Ok(Ok(()));
        }
        lane_is_past_of((self.founding, self.epoch), lane, position, store)
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
