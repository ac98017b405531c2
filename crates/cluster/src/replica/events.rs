//! What a replica is told, and what it says is to be done.

use crate::commit_log::{Answer, Append, Found, Stored};
use crate::engine::{Halt, Position, Term};
use crate::record::Record;
use bytes::Bytes;

/// What the engine calls a plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PlanNumber(pub u64);

/// What a lane is to have stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    /// What it is called.
    pub number: PlanNumber,
    /// The term in which it began.
    pub term: Term,
    /// The pod's clock, in milliseconds since 1970.
    pub clock_ms: u64,
    /// What it changes. Empty: nothing, it is a barrier.
    pub commit: Bytes,
}

/// What happened.
#[derive(Clone, Debug)]
pub enum Event {
    /// This pod has the lane's lease since this revision, or has not.
    Lease(Option<u64>),
    /// Records are written at this level from now on: all pods can apply it.
    Level(u16),
    /// Something is to be stored.
    Plan(Plan),
    /// The log answered an attempt to append a record of this number.
    Answered {
        /// The record's number.
        number: u64,
        /// Which attempt it was.
        attempt: u32,
        /// What the log said.
        answer: Answer,
    },
    /// These records came from the log, one behind the other.
    Read {
        /// They.
        records: Vec<Stored>,
        /// Whether the log had no more when it was asked.
        is_all: bool,
    },
    /// The log was asked what it has under a number.
    Looked {
        /// The number.
        sequence: u64,
        /// What it has.
        found: Found,
    },
    /// A record that was read can't be applied to what this pod has, and never will.
    Unfit {
        /// Its number.
        at: u64,
        /// Why.
        reason: String,
    },
    /// The log is to be checked again: it may have become another, since its connection was
    /// lost or its servers have another leader; or have more than a lane that leads knows.
    Recheck,
    /// Another pod has applied everything up to here.
    Acknowledged(Position),
    /// Another pod has applied this, and what was applied here passes over it.
    Missing(Position),
}

/// What is to be done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Effect {
    /// Append a record; tell with [`Event::Answered`]. Later attempts may wait
    /// a while first.
    Append(Attempt),
    /// Read what is behind the position, to the end; tell with [`Event::Read`].
    Read,
    /// Look what is under this number; tell with [`Event::Looked`].
    Look(u64),
    /// Apply a record, and store the position with it.
    Apply {
        /// The position behind it.
        position: Position,
        /// The record.
        record: Record,
    },
    /// Tell a plan what became of it.
    Settle(PlanNumber, PlanOutcome),
    /// Take the state of another pod, because the log does not go back far
    /// enough: with that another replica begins.
    Restore,
    /// Stop the lane and say why.
    Halt(Halt),
}

/// An attempt to have a record appended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Attempt {
    /// The record's number.
    pub number: u64,
    /// Which attempt it is, from 1.
    pub attempt: u32,
    /// The record.
    pub append: Append,
}

/// What became of a plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PlanOutcome {
    /// It is stored, and was applied.
    Committed(Position),
    /// It is not stored, and will not be: another record took its place. It can
    /// be planned again.
    Overtaken,
    /// It was not sent: its term is over, or a record is in flight.
    NotLeading,
    /// It was not sent: it is over
    /// [`MAX_COMMIT_BYTES`](crate::record::MAX_COMMIT_BYTES).
    TooLarge,
    /// It may be stored. A retry with the same idempotency key tells.
    Unknown,
}
