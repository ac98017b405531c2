//! Why a command about filters failed.

use crate::client::remote::RemoteError;
use crate::file::PathError;
use std::io;

/// What comes of a command of the client, or of a part of it.
pub(super) type Result<T = (), E = FilterError> = std::result::Result<T, E>;

/// Why a command about filters failed.
#[derive(Debug, thiserror::Error)]
pub enum FilterError {
    /// There is no answer, or it is no.
    #[error(transparent)]
    Remote(#[from] RemoteError),
    /// Nobody gave items.
    #[error("there are no items: name them behind the key, or pipe them in, one a line")]
    NoItems,
    /// A dump is no text.
    #[error("a dump is not for terminals: name a file behind the key, or send the output into one")]
    DumpOnTerminal,
    /// What a file can't answer.
    #[error(
        "a file answers exists, count, values and describe, without --where, --values and --attributes; restore it into a server for all else"
    )]
    NotOfAFile,
    /// Servers have the key of the hash.
    #[error("--key-file is the key of a file: name that with --file")]
    KeyWithoutFile,
    /// There are none in the file.
    #[error("the filter of the file has no values")]
    NoValues,
    /// The file is none, can't be read or asked so, or is damaged where it was asked.
    #[error(transparent)]
    File(#[from] PathError),
    /// What is to be an item with a value or a row is none.
    #[error("{given:?} is no entry: write {wanted}")]
    NotAnEntry {
        /// What was given.
        given: String,
        /// How to write one.
        wanted: String,
    },
    /// Some items are done, and the next ones failed.
    #[error("{error}; {done} items before are done")]
    Interrupted {
        /// Why no more.
        error: RemoteError,
        /// Items that are done.
        done: usize,
    },
    /// The standard input or output failed, or the system's randomness.
    #[error(transparent)]
    Io(#[from] io::Error),
}
