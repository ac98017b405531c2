//! What can go wrong with a store.

use crate::page::PageId;
use std::path::PathBuf;

/// What the system or the storage engine said.
pub type Cause = Box<dyn std::error::Error + Send + Sync>;

/// What comes of asking a store.
pub type Result<T = (), E = StoreError> = std::result::Result<T, E>;

/// What can go wrong with a store, and in the engine with what it keeps there.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// Another process has the data directory open.
    #[error(
        "data directory {path} is in use by another process: stop it, or choose another --data-dir"
    )]
    Locked {
        /// The directory.
        path: PathBuf,
    },
    /// The write-ahead log has not all that was forced to the disk.
    #[error(
        "data directory {path} has lost changes that were acknowledged: {reason}. See what is damaged with cuckood check, then restore a backup; or accept the loss: start once with --accept-lost-changes"
    )]
    LostChanges {
        /// The directory.
        path: PathBuf,
        /// What is missing.
        reason: String,
    },
    /// The data directory can't be created or written.
    #[error(
        "data directory {path} can't be used: {source}; check that it exists and that this user may write to it"
    )]
    Unusable {
        /// The directory.
        path: PathBuf,
        /// What the system said.
        source: Cause,
    },
    /// The bytes were written by a newer program.
    #[error(
        "{what} has format version {found}, this program reads up to {supported}: start a newer cuckood"
    )]
    NewerFormat {
        /// What was read.
        what: String,
        /// Version found.
        found: u32,
        /// Newest version understood.
        supported: u32,
    },
    /// The bytes do not match their checksum or make no sense.
    #[error("{what} is corrupt: {reason}")]
    Corrupt {
        /// What was read: names filter and page where there is one.
        what: String,
        /// What is wrong with it.
        reason: String,
    },
    /// This kind of store can't do it.
    #[error("this store is in memory only and cannot be {what}")]
    Unsupported {
        /// What was wanted, as a participle.
        what: &'static str,
    },
    /// The disk is full.
    #[error(
        "the disk is full, or this user's share of it: {source} (while {doing}); free space on it, or enlarge it, and remove nothing in the data directory"
    )]
    NoSpace {
        /// What was being done.
        doing: &'static str,
        /// What the storage engine said.
        source: Cause,
    },
    /// The storage engine or the disk refused.
    #[error("storage failed while {doing}: {source}")]
    Io {
        /// What was being done.
        doing: &'static str,
        /// What it said.
        source: Cause,
    },
    /// A page image has more bytes than are allowed.
    #[error("the image of {page} has {bytes} bytes, at most {most} are allowed")]
    ImageTooLarge {
        /// The page.
        page: PageId,
        /// Bytes of its image.
        bytes: usize,
        /// Bytes that are allowed.
        most: usize,
    },
    /// Every filter number was handed out.
    #[error("there are no filter numbers left")]
    NoFilterNumbers,
    /// The system gave no thread.
    #[error("a thread can't be started: {source}")]
    Thread {
        /// What it said.
        source: std::io::Error,
    },
    /// The system gave no random bytes.
    #[error("a random key can't be drawn: {source}")]
    Random {
        /// What it said.
        source: Cause,
    },
    /// A page that a commit was planned over is not in memory.
    #[error("a page that a commit was planned over is not in memory")]
    PageNotResident,
    /// Checkpoints fail, so no page becomes free.
    #[error("writing a checkpoint failed: {reason}")]
    CheckpointFailed {
        /// Why the last one did.
        reason: String,
    },
}

impl StoreError {
    /// What was read, which names filter and page where there is one, makes no sense.
    pub fn corrupt(what: impl Into<String>, reason: impl ToString) -> StoreError {
        StoreError::Corrupt {
            what: what.into(),
            reason: reason.to_string(),
        }
    }

    /// What was read is of a newer format than the newest that is understood.
    pub fn newer(
        what: impl Into<String>,
        found: impl Into<u32>,
        supported: impl Into<u32>,
    ) -> StoreError {
        StoreError::NewerFormat {
            what: what.into(),
            found: found.into(),
            supported: supported.into(),
        }
    }

    /// What was being done, and what the storage engine or the disk said.
    pub fn io(doing: &'static str, source: impl Into<Cause>) -> StoreError {
        let source = source.into();
        StoreError::Io { doing, source }
    }

    /// What was being done when the disk was full, and what was said of it.
    pub fn no_space(doing: &'static str, source: impl Into<Cause>) -> StoreError {
        let source = source.into();
        StoreError::NoSpace { doing, source }
    }

    /// Whether the disk is full.
    pub fn is_disk_full(&self) -> bool {
        matches!(self, StoreError::NoSpace { .. })
    }

    /// Whether what was read is the reason: it says the same whenever it is read.
    pub fn is_of_the_bytes(&self) -> bool {
        matches!(
            self,
            StoreError::Corrupt { .. } | StoreError::NewerFormat { .. }
        )
    }
}
