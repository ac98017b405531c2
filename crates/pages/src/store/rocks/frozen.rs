//! Frozen copies: a checkpoint of RocksDB's, in a directory within the data
//! directory.
//!
//! Table files are linked, not copied, which takes no time and no room. Only
//! the write-ahead log is copied, up to what was written when its turn came.
//! Write buffers become table files first, at a time when no write has to
//! wait for it: whoever opens the copy to read it holds in memory what is only
//! in its log, which is little then. Whatever was written before is in the copy,
//! and a prefix of what is written meanwhile.

use super::errors::failed;
use super::reading::column_of;
use crate::store::error::{Result, StoreError};
use crate::store::kv::{Column, FrozenFile, FrozenStore, KeyValueStore};
use rocksdb::checkpoint::Checkpoint;
use rocksdb::{DB, FlushOptions};
use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// How the directories of frozen copies are called. RocksDB passes over what
/// it has not named itself.
const PREFIX: &str = "frozen-";

/// A write-ahead log larger than this would be flushed, whoever waits: none is.
const NEVER_FLUSH: u64 = u64::MAX;

/// Opens a copy to read it.
type Open = fn(&Path) -> Result<Arc<dyn KeyValueStore>>;

pub(super) struct Frozen {
    directory: PathBuf,
    files: Vec<FrozenFile>,
    open: Open,
}

/// Makes a copy. `number` differs from that of every other one of this run.
pub(super) fn freeze(database: &DB, number: u64, open: Open) -> Result<Frozen> {
    const DOING: &str = "freezing a copy of the data directory";
    let columns: Vec<_> = Column::ALL
        .iter()
        .map(|column| column_of(database, *column))
        .collect::<Result<_, _>>()?;
    // By default it waits rather than have writes wait.
    database
        .flush_cfs_opt(&columns, &FlushOptions::default())
        .map_err(|error| failed(DOING, &error))?;
    let mut frozen = Frozen {
        directory: database.path().join(format!("{PREFIX}{number}")),
        files: Vec::new(),
        open,
    };
    Checkpoint::new(database)
        .and_then(|checkpoint| {
            checkpoint.create_checkpoint_with_log_size(&frozen.directory, NEVER_FLUSH)
        })
        .map_err(|error| failed(DOING, &error))?;
    frozen.files = list(&frozen.directory).map_err(|error| StoreError::io(DOING, error))?;
    Ok(frozen)
}

fn list(directory: &Path) -> io::Result<Vec<FrozenFile>> {
    let mut files = Vec::new();
    for entry in fs::read_dir(directory)? {
        let entry = entry?;
        let name = entry.file_name();
        let name = name.to_str().filter(|name| name.is_ascii());
        files.push(FrozenFile {
            name: name
                .ok_or_else(|| io::Error::other("a file has an odd name"))?
                .to_owned(),
            bytes: entry.metadata()?.len(),
        });
    }
    files.sort();
    Ok(files)
}

impl FrozenStore for Frozen {
    fn files(&self) -> &[FrozenFile] {
        &self.files
    }

    fn open(&self, file: &FrozenFile) -> io::Result<Box<dyn Read + Send>> {
        Ok(Box::new(File::open(self.directory.join(&file.name))?))
    }

    fn open_store(&self) -> Result<Arc<dyn KeyValueStore>> {
        (self.open)(&self.directory)
    }
}

impl Drop for Frozen {
    fn drop(&mut self) {
        remove(&self.directory);
    }
}

/// Removes copies that an earlier run did not come to remove.
pub(super) fn remove_left_over(data_dir: &Path) {
    // What can't be listed now can't be opened either, which is said there.
    let Ok(entries) = fs::read_dir(data_dir) else {
        return;
    };
    for entry in entries.flatten() {
        if entry.file_name().to_string_lossy().starts_with(PREFIX) {
            remove(&entry.path());
        }
    }
}

fn remove(directory: &Path) {
    if let Err(error) = fs::remove_dir_all(directory)
        && error.kind() != io::ErrorKind::NotFound
    {
        tracing::warn!(directory = %directory.display(), %error, "a frozen copy can't be removed; the next start tries again");
    }
}
