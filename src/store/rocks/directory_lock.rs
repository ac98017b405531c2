//! The lock of a data directory, held from before anything in it is looked at.
//!
//! RocksDB locks it, too, but only when it opens it for writing: until then what a
//! running server writes would be taken for what a stopped one left. This lock is
//! one of the directory itself (`flock`), so it needs no file, and closing it does
//! not release RocksDB's, which is one of the process (`fcntl`).

use crate::store::error::StoreError;
use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;
use std::fs::File;
use std::path::Path;

/// Held as long as it lives. No server opens the directory meanwhile.
pub(super) struct DirectoryLock {
    _directory: File,
}

impl DirectoryLock {
    /// For one who writes.
    ///
    /// # Errors
    /// [`StoreError::Locked`]: somebody else has the directory open.
    pub(super) fn exclusive(path: &Path) -> Result<DirectoryLock, StoreError> {
        DirectoryLock::take(path, FlockOperation::NonBlockingLockExclusive)
    }

    /// For some who only read.
    ///
    /// # Errors
    /// [`StoreError::Locked`]: somebody has it open to write.
    pub(super) fn shared(path: &Path) -> Result<DirectoryLock, StoreError> {
        DirectoryLock::take(path, FlockOperation::NonBlockingLockShared)
    }

    fn take(path: &Path, operation: FlockOperation) -> Result<DirectoryLock, StoreError> {
        let directory = File::open(path).map_err(|error| StoreError::Unusable {
            path: path.to_owned(),
            source: error.into(),
        })?;
        match flock(&directory, operation) {
            Err(Errno::WOULDBLOCK) => Err(StoreError::Locked {
                path: path.to_owned(),
            }),
            // A file system that can't lock directories leaves it to RocksDB.
            Ok(()) | Err(_) => Ok(DirectoryLock {
                _directory: directory,
            }),
        }
    }
}
