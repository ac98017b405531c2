//! What can go wrong with backups. The words are for operators.

use super::id::BackupId;
use crate::codes::Code;
use crate::store::StoreError;
use crate::store::disk::DiskShort;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;

/// What comes of work on a backup.
pub(crate) type Result<T, E = BackupError> = std::result::Result<T, E>;

/// Why there is no backup, or nothing was restored.
#[derive(Clone, Debug, thiserror::Error)]
pub enum BackupError {
    /// One is under way; there is one at a time.
    #[error("the backup {id} is running: query its status, and try again when it is complete")]
    Running {
        /// Its name.
        id: BackupId,
    },
    /// A snapshot is on its way to another pod; there is one at a time.
    #[error("a snapshot is being given to another pod: ask again later, or ask another pod")]
    Giving,
    /// There is no such backup.
    #[error("the backup {id} does not exist; GET /admin/backups lists all backups")]
    NotFound {
        /// Its name.
        id: BackupId,
    },
    /// The disk is too full.
    #[error(
        "{needed} bytes are needed in {directory}, {free} are free: free space there, or choose another directory"
    )]
    NoRoom {
        /// Where.
        directory: PathBuf,
        /// Bytes that are needed, with a reserve.
        needed: u64,
        /// Bytes that are free.
        free: u64,
    },
    /// The disk of the data is too full to freeze a copy on it.
    #[error(transparent)]
    DiskShort(#[from] DiskShort),
    /// The server stops, and the backup with it.
    #[error("the server is stopping")]
    Stopping,
    /// The archive is no whole backup.
    #[error("the backup is damaged: {what}")]
    Damaged {
        /// What is wrong with it.
        what: String,
    },
    /// All bytes are there, and what they say is wrong: it is stored so.
    #[error(
        "the stored data are damaged, so no backup of them is kept, and no older one is dropped: {0}; keep a copy of the data directory before anything is deleted; cuckood check --repair removes what belongs to no filter, and \"Damaged data\" in docs/runbook.md has the rest"
    )]
    Content(Arc<StoreError>),
    /// A newer program wrote the archive.
    #[error(
        "the backup has format version {found}, this program reads up to {supported}: use a newer cuckood"
    )]
    Newer {
        /// Version found.
        found: u64,
        /// Newest version understood.
        supported: u64,
    },
    /// Restoring never overwrites.
    #[error("{path} is not empty: choose another --data-dir, or move its content away")]
    NotEmpty {
        /// The directory.
        path: PathBuf,
    },
    /// The store refused, or what was restored can't be read.
    #[error(transparent)]
    Store(#[from] Arc<StoreError>),
    /// The directory of backups can't be used.
    #[error("the directory of backups {directory} can't be used: {source}")]
    Directory {
        /// Where.
        directory: PathBuf,
        /// What the system said.
        source: Arc<io::Error>,
    },
    /// A backup is named after its time, and there is none.
    #[error("a backup can't be named: the clock is not set")]
    NoClock,
    /// What was given as --data-dir has no name to restore under.
    #[error("{path} has no name: choose another --data-dir")]
    NoName {
        /// The given value.
        path: PathBuf,
    },
    /// The disk refused.
    #[error("backup failed while {doing}: {source}")]
    Io {
        /// What was being done.
        doing: &'static str,
        /// What the system said.
        source: Arc<io::Error>,
    },
}

impl BackupError {
    /// The kind of error that it is.
    pub fn code(&self) -> Code {
        match self {
            BackupError::Running { .. } => Code::BackupRunning,
            BackupError::Giving => Code::PodNotReady,
            BackupError::NotFound { .. } => Code::BackupNotFound,
            BackupError::NoRoom { .. } => Code::NoRoom,
            BackupError::DiskShort(_) => Code::DiskReserve,
            BackupError::Stopping => Code::Draining,
            BackupError::Store(error) if error.is_disk_full() => Code::NoRoom,
            BackupError::Store(error) if matches!(**error, StoreError::Unsupported { .. }) => {
                Code::BackupsOff
            }
            BackupError::Damaged { .. }
            | BackupError::Content(_)
            | BackupError::Newer { .. }
            | BackupError::NotEmpty { .. }
            | BackupError::Store(_)
            | BackupError::Directory { .. }
            | BackupError::NoClock
            | BackupError::NoName { .. }
            | BackupError::Io { .. } => Code::StorageFailed,
        }
    }

    /// Whether the system or the storage engine refused.
    pub fn is_of_the_disk(&self) -> bool {
        match self {
            BackupError::Store(error) => !matches!(**error, StoreError::Unsupported { .. }),
            BackupError::Directory { .. }
            | BackupError::NoClock
            | BackupError::NoName { .. }
            | BackupError::Io { .. } => true,
            _ => false,
        }
    }

    pub(super) fn io(doing: &'static str, error: io::Error) -> BackupError {
        BackupError::Io {
            doing,
            source: Arc::new(error),
        }
    }
}

impl From<StoreError> for BackupError {
    fn from(error: StoreError) -> Self {
        BackupError::Store(Arc::new(error))
    }
}
