//! The record in flight.

use super::events::{Attempt, Effect, PlanNumber};
use crate::commit_log::{Append, MessageId};
use crate::record::Record;
use bytes::Bytes;

/// A record that was sent and is not settled.
#[derive(Debug)]
pub(super) struct Flight {
    pub(super) plan: PlanNumber,
    pub(super) record: Record,
    pub(super) bytes: Bytes,
    pub(super) id: MessageId,
    pub(super) attempt: u32,
    pub(super) settling: Settling,
}

/// What is being done to settle it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Settling {
    /// Its answer is awaited.
    None,
    /// There was none: the log is read.
    Unanswered,
    /// It was refused: the log is read for the reason.
    Refused,
    /// It was refused without a reason that could be seen: the own position is
    /// looked at.
    LookingBack,
}

impl Flight {
    pub(super) fn append(&self) -> Effect {
        Effect::Append(Attempt {
            number: self.record.number,
            attempt: self.attempt,
            append: Append {
                id: self.id,
                expected: self.record.previous.sequence,
                bytes: self.bytes.clone(),
            },
        })
    }

    /// Sends it once more: the same bytes behind the same fence.
    pub(super) fn again(&mut self) -> Effect {
        self.attempt += 1;
        self.settling = Settling::None;
        self.append()
    }
}
