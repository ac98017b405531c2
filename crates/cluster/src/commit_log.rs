//! The seam: a log of records that all pods share, one sequence of records a
//! lane.
//!
//! # Contract
//!
//! - A record is there or not: no reader ever sees part of one. All readers of a
//!   lane see the same records in the same order, by ascending number.
//! - [`CommitLog::append`] adds a record only where the lane's newest one has
//!   the number that is expected. Only [`Answer::Stored`] says whether it did:
//!   after any other answer the record may be there, or come to be there later.
//! - A record that was [`Answer::Stored`] stays, as long as a quorum of the
//!   log's servers keeps its disks.
//! - What is read may be old: that a record was not seen says nothing. Only
//!   [`Found::Absent`] is definite.
//!
//! Nothing here says that a log keeps its promises. What one did that was
//! rewound or made anew is noticed by [`Replica`](super::Replica).

use super::record::Writer;
use bytes::Bytes;
use std::fmt;
use std::time::Duration;

/// Names one attempt to have a record stored: a log that has stored an attempt
/// of the same name says so instead of storing it again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct MessageId {
    /// Who sends it.
    pub writer: Writer,
    /// The lane it goes to.
    pub lane: u32,
    /// The writer's number of it, never used again.
    pub number: u64,
}

impl fmt::Display for MessageId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}-{}", self.writer, self.lane, self.number)
    }
}

/// A record to be appended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Append {
    /// What it is called.
    pub id: MessageId,
    /// The fence: the number of the lane's newest record, 0 if there is none.
    pub expected: u64,
    /// The record.
    pub bytes: Bytes,
}

/// What a log says of an [`Append`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// A record of this message id is there. Unless it is a duplicate, it is
    /// this one.
    Stored {
        /// Its number.
        sequence: u64,
        /// Whether it was there before this attempt. Whose it is must be looked
        /// at: the log may have forgotten the record and not the id.
        is_duplicate: bool,
    },
    /// The log refused, because the lane's newest record is another, or because
    /// it is busy with one. The record may be there all the same: two servers
    /// may each believe to lead.
    Refused,
    /// There was no answer in time, or none that says anything.
    Unknown,
}

/// A record of a lane as the log has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stored {
    /// Its number.
    pub sequence: u64,
    /// The record.
    pub bytes: Bytes,
}

/// What there is under a number.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Found {
    /// This record.
    Record(Bytes),
    /// None of this lane: a server that leads by a quorum has said so.
    Absent {
        /// The lane's newest record, 0 if there is none.
        newest: u64,
    },
    /// Nobody could say.
    Unsure,
}

/// Why a log could not be read or trimmed.
#[derive(Debug, thiserror::Error)]
#[error("the commit log could not be {doing}: {source}")]
pub struct LogError {
    /// What was being done, as a participle.
    pub doing: &'static str,
    /// What the log's client said.
    pub source: Box<dyn std::error::Error + Send + Sync>,
}

impl LogError {
    /// What was being done, as a participle, and what the log's client said.
    pub(crate) fn new(
        doing: &'static str,
        source: impl Into<Box<dyn std::error::Error + Send + Sync>>,
    ) -> LogError {
        let source = source.into();
        LogError { doing, source }
    }
}

/// A log of records. Every method may block, for a bounded time.
pub trait CommitLog: Send + Sync + 'static {
    /// Appends a record to a lane.
    fn append(&self, lane: u32, append: &Append) -> Answer;

    /// The records of a lane behind `after`, the next one first: as many as are
    /// at hand. Waits up to `wait` for the first. None is left out, but for
    /// those that were trimmed.
    ///
    /// # Errors
    /// The log can't be read now.
    fn read(&self, lane: u32, after: u64, wait: Duration) -> Result<Vec<Stored>, LogError>;

    /// The number of a lane's newest record, 0 if there is none. May be old.
    ///
    /// # Errors
    /// The log can't be read now.
    fn newest(&self, lane: u32) -> Result<u64, LogError>;

    /// What a lane has under a number.
    fn look(&self, lane: u32, sequence: u64) -> Found;

    /// Forgets the records of a lane before `before`. A lane's newest record is
    /// never forgotten, because the fence is its number: `before` must not be
    /// larger than the position of a replica.
    ///
    /// # Errors
    /// They are there still, or some of them.
    fn trim(&self, lane: u32, before: u64) -> Result<(), LogError>;
}
