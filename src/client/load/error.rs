//! Why not everything was loaded.

use crate::client::filter::FilterError;
use crate::client::remote::RemoteError;
use std::io;

/// Why not everything was loaded.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// The address is none, or the credentials can't be used.
    #[error(transparent)]
    Remote(#[from] RemoteError),
    /// The filter can't be created.
    #[error(transparent)]
    NotCreated(#[from] FilterError),
    /// One name can't be that of so many streams.
    #[error("--import-id names one import, but {0} files are given: load them one by one")]
    OneIdForSeveral(usize),
    /// A file can't be read.
    #[error("{file} can't be read: {reason}")]
    Unreadable {
        /// The file.
        file: String,
        /// What the system said.
        reason: io::Error,
    },
    /// What came before the fault of a file may be committed.
    #[error(
        "{file} can't be read to its end: {reason}; lines before may be committed: once all can be read, load it alone with --import-id {import_id}, which goes on behind them"
    )]
    CutShort {
        /// The file.
        file: String,
        /// What the system said.
        reason: io::Error,
        /// The import's name.
        import_id: String,
    },
    /// What was committed under the name is not of this list.
    #[error(
        "{file} has {lines} lines, and {committed} are committed under the --import-id {import_id}: it belongs to another list, or to one that was longer; load this one with an id of its own"
    )]
    OtherList {
        /// The file.
        file: String,
        /// Its lines.
        lines: u64,
        /// Lines that are in.
        committed: u64,
        /// The import's name.
        import_id: String,
    },
    /// The server refused.
    #[error("{file}: the server refused it ({status}): {detail}")]
    Refused {
        /// The file.
        file: String,
        /// The HTTP status.
        status: u16,
        /// What the server said.
        detail: String,
    },
    /// The server was away for too long.
    #[error(
        "{file}: stopped after {seconds} s without progress ({reason}); {committed} lines are committed, and the same command resumes after them"
    )]
    GaveUp {
        /// The file.
        file: String,
        /// How long nothing went on.
        seconds: u64,
        /// What happened last.
        reason: String,
        /// Lines that are in.
        committed: u64,
    },
    /// So many lines were not added.
    #[error("{0} lines were skipped, as listed above; all others are committed")]
    LeftOut(u64),
}
