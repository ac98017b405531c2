//! The lock of a data directory, held from before anything in it is looked at.
//!
//! RocksDB locks it, too, but only when it opens it for writing: until then what a
//! running server writes would be taken for what a stopped one left. This lock is
//! one of the directory itself (`flock`), so it needs no file, and closing it does
//! not release RocksDB's, which is one of the process (`fcntl`).

use crate::store::error::{Result, StoreError};
use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;
use std::fs::File;
use std::path::Path;

/// Held as long as it lives. No server opens the directory meanwhile.
pub(super) struct DirectoryLock(File);

impl DirectoryLock {
    /// For one who writes.
    ///
    /// # Errors
    /// [`StoreError::Locked`]: somebody else has the directory open.
    pub(super) fn exclusive(path: &Path) -> Result<DirectoryLock> {
        DirectoryLock::take(path, FlockOperation::NonBlockingLockExclusive)
    }

    /// For some who only read.
    ///
    /// # Errors
    /// [`StoreError::Locked`]: somebody has it open to write.
    pub(super) fn shared(path: &Path) -> Result<DirectoryLock> {
        DirectoryLock::take(path, FlockOperation::NonBlockingLockShared)
    }

    fn take(path: &Path, operation: FlockOperation) -> Result<DirectoryLock> {
        let directory = File::open(path).map_err(|error| StoreError::Unusable {
            path: path.to_owned(),
            source: error.into(),
        })?;
        match flock(&directory, operation) {
            Err(Errno::WOULDBLOCK) => Err(StoreError::Locked {
                path: path.to_owned(),
            }),
            // A file system that can't lock directories leaves it to RocksDB.
            Ok(()) | Err(_) => Ok(DirectoryLock(directory)),
        }
    }
}

impl Drop for DirectoryLock {
    fn drop(&mut self) {
        // A child that is being started has a copy of the file, and would hold the lock
        // until it runs.
        let _ = flock(&self.0, FlockOperation::Unlock);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_let_go_is_free_also_while_a_child_has_the_file() {
        let directory = tempfile::tempdir().unwrap();
        let lock = DirectoryLock::exclusive(directory.path()).unwrap();
        let copy = lock.0.try_clone().unwrap();
        assert!(DirectoryLock::exclusive(directory.path()).is_err());
        drop(lock);
        assert!(DirectoryLock::exclusive(directory.path()).is_ok());
        drop(copy);
    }
}
