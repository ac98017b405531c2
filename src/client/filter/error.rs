//! Why a command about filters failed.

use crate::client::remote::RemoteError;
use std::io;

/// Why a command about filters failed.
#[derive(Debug, thiserror::Error)]
pub enum FilterError {
    /// There is no answer, or it is no.
    #[error(transparent)]
    Remote(#[from] RemoteError),
    /// Nobody gave items.
    #[error("there are no items: name them behind the key, or pipe them in, one a line")]
    NoItems,
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
