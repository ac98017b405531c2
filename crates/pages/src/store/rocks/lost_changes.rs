//! Sees that a data directory has all that was forced to the disk, before opening
//! it for writing makes the end of its log final.
//!
//! The end of the log is known by the file `FORCED`. What is missing between its
//! files RocksDB knows: its manifest has the sizes up to which closed ones were
//! forced.

use super::directory_lock::DirectoryLock;
use super::options::RocksOptions;
use super::{forced, log_files, tuning};
use crate::store::error::{Result, StoreError};
use rocksdb::DB;
use std::fs;
use std::io;
use std::path::Path;

/// What a log file that is set aside is called from then on: not as RocksDB
/// calls its files.
const SET_ASIDE: &str = "lost-";

/// How RocksDB says which log file is missing or too short.
const MISSING: &str = "Missing WAL with log number: ";
const SHORT: &str = "Size mismatch: WAL (log number: ";

/// Sees that an open database has all that was forced.
///
/// # Errors
/// [`StoreError::LostChanges`].
pub(super) fn see_that_none_are(database: &DB, path: &Path) -> Result {
    let (recovered, forced) = (database.latest_sequence_number(), forced::read(path));
    match forced {
        Some(forced) if recovered < forced => Err(StoreError::LostChanges {
            path: path.to_owned(),
            reason: format!(
                "its write-ahead log can be read up to write {recovered}, and was forced to the disk up to write {forced}"
            ),
        }),
        _ => Ok(()),
    }
}

/// The same before it is opened. Nothing is opened where a log that is whole
/// reaches as far as was forced; what is in table files is known to RocksDB alone.
///
/// # Errors
/// [`StoreError::LostChanges`]; or the log can't be read.
pub(super) fn see_that_none_would_be(
    path: &Path,
    options: &RocksOptions,
    _held: &DirectoryLock,
) -> Result {
    let Some(forced) = forced::read(path) else {
        return Ok(());
    };
    if log_files::whole_up_to(path)?.is_some_and(|last| last >= forced) {
        return Ok(());
    }
    let database_options = tuning::read_only_database(options);
    // What else is wrong is said when it is opened.
    let Ok(names) = DB::list_cf(&database_options, path) else {
        return Ok(());
    };
    match DB::open_cf_for_read_only(&database_options, path, names, false) {
        Ok(database) => see_that_none_are(&database, path),
        Err(_) => Ok(()),
    }
}

/// The number of the log file of which RocksDB says that it is missing or too
/// short.
pub(super) fn log_file_in(said: &str) -> Option<u64> {
    let (_, rest) = said
        .split_once(MISSING)
        .or_else(|| said.split_once(SHORT))?;
    let digits = rest.split(|it: char| !it.is_ascii_digit()).next()?;
    digits.parse().ok()
}

/// Sets the log files behind one aside: with what comes before them missing, they
/// are no part of a prefix of all changes.
pub(super) fn set_aside_behind(path: &Path, number: u64) -> io::Result<()> {
    for (file, found) in log_files::numbered(path)? {
        if found > number {
            let name = file.file_name().unwrap_or_default().to_string_lossy();
            tracing::error!(file = %name, "a file of the write-ahead log is set aside: one before it is lost");
            fs::rename(&file, path.join(format!("{SET_ASIDE}{name}")))?;
        }
    }
    fs::File::open(path)?.sync_all()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_log_file_is_read_from_what_rocksdb_says() {
        let missing = "Corruption: Missing WAL with log number: 17.";
        let short = "Corruption: Size mismatch: WAL (log number: 8) in MANIFEST is 9 bytes , but actually is 7 bytes on disk.";
        assert_eq!(log_file_in(missing), Some(17));
        assert_eq!(log_file_in(short), Some(8));
        assert_eq!(log_file_in("Corruption: block checksum mismatch"), None);
    }
}
