//! What a replica is told, and what it says is to be done.

use crate::replication::commit_log::{Answer, Append, Found, Stored};
use crate::replication::record::{Position, Record, RecordError};
use bytes::Bytes;

/// What the engine calls a plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PlanNumber(pub u64);

/// A time in which this pod leads a lane, and nobody else changes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reign(pub(super) u64);

/// What a lane is to have stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    /// What it is called.
    pub number: PlanNumber,
    /// The reign in which it began.
    pub reign: Reign,
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
    /// The log may have become another, since its connection was lost or its servers
    /// have another leader; or it may have more than a lane that leads has heard of.
    InDoubt,
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
    Append {
        /// The record's number.
        number: u64,
        /// Which attempt it is, from 1.
        attempt: u32,
        /// The record.
        append: Append,
    },
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
    Settle {
        /// The plan.
        plan: PlanNumber,
        /// What became of it.
        outcome: Outcome,
    },
    /// Take the state of another pod, because the log does not go back far
    /// enough: with that another replica begins.
    Restore,
    /// Stop the lane and say why.
    Halt(Halt),
}

/// What became of a plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It is stored, and was applied.
    Committed(Position),
    /// It is not stored, and will not be: another record took its place. It can
    /// be planned again.
    Overtaken,
    /// It was not sent: its reign is over, or a record is in flight.
    NotLeading,
    /// It was not sent: it is over
    /// [`MAX_COMMIT_BYTES`](crate::replication::record::MAX_COMMIT_BYTES).
    TooLarge,
    /// It may be stored. A retry with the same idempotency key tells.
    Unknown,
}

/// Why a lane stands still for good. The texts say what to do.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Halt {
    /// The log has another history than this pod.
    #[error(
        "the log and this pod have different histories from record {at} on: changes that were acknowledged are missing in one of them. Compare the pods with `cuckood cluster status`, then begin a new epoch from the one to keep: `cuckood cluster new-epoch`"
    )]
    Forked {
        /// This pod's position.
        at: u64,
    },
    /// The log has lost its end.
    #[error(
        "this pod has applied record {at}, the log ends with record {newest}: it was rewound or made anew, and changes that were acknowledged are missing in it. Begin a new epoch from this pod or another that has them: `cuckood cluster new-epoch`"
    )]
    Rewound {
        /// This pod's position.
        at: u64,
        /// The log's newest record, 0 if there is none.
        newest: u64,
    },
    /// The log has less than other pods had.
    #[error(
        "record {acknowledged} was acknowledged, and the log does not have it: this pod has followed the log up to record {at}, and it was rewound, purged or made anew. Other pods have more, even if their newest records have smaller numbers. Begin a new epoch from one that has that record: `cuckood cluster new-epoch`"
    )]
    Lost {
        /// This pod's position.
        at: u64,
        /// What others have applied.
        acknowledged: u64,
    },
    /// Somebody else writes to this log.
    #[error(
        "record {at} of the log is of epoch {epoch}, lane {lane}, and does not belong there: another cluster writes to the same stream. Find out who does, and give each cluster a name of its own; then begin a new epoch from a pod that lacks nothing that was acknowledged: `cuckood cluster new-epoch`"
    )]
    Foreign {
        /// Its number.
        at: u64,
        /// Its epoch.
        epoch: u64,
        /// Its lane.
        lane: u32,
    },
    /// A newer program wrote what this one can't apply.
    #[error(
        "record {at} of the log has feature level {level}, this program understands up to {reads}: start a newer cuckood"
    )]
    NewerLevel {
        /// Its number.
        at: u64,
        /// Its level.
        level: u16,
        /// The newest level that is understood.
        reads: u16,
    },
    /// It is a record, and this pod can't apply it.
    #[error(
        "record {at} of the log can't be applied by this pod: {reason}. If other pods have applied it (`cuckood cluster status`), this one's data are damaged: give it an empty data directory. If none has, the record is: keep the data of all, and begin a new epoch from a pod that stands before it: `cuckood cluster new-epoch`"
    )]
    Unfit {
        /// Its number.
        at: u64,
        /// Why.
        reason: String,
    },
    /// It is no record.
    #[error(
        "record {at} of the log can't be read: {error}. Somebody else wrote it, or the brokers have damaged it: find out which, then begin a new epoch from a pod that lacks nothing that was acknowledged: `cuckood cluster new-epoch`"
    )]
    Unreadable {
        /// Its number.
        at: u64,
        /// Why.
        error: RecordError,
    },
}
