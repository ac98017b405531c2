//! Up to which write the write-ahead log was forced to the disk.
//!
//! RocksDB ends its replay at the first record that is not whole: it takes it for
//! the end that a power cut tears off. But what was forced can't be torn off. So
//! the number of the last write that was forced lies in a file beside the log, a
//! second old at the most: a start that recovers less has lost changes that were
//! acknowledged, however the log looks.
//!
//! The numbers are RocksDB's: each key that is put or deleted has one.

use super::write_health::WriteHealth;
use rocksdb::{DB, Error};
use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// How often the file is written, if there is news.
pub(super) const KEEP_EVERY: Duration = Duration::from_secs(1);

/// RocksDB passes over what it has not named itself.
const FILE: &str = "FORCED";

/// The number, and its CRC-32C. So few bytes lie in one sector, which a disk
/// writes as a whole: they are written in place.
const NUMBER_BYTES: usize = 8;
const FILE_BYTES: usize = NUMBER_BYTES + 4;

/// The last write of which it is known that it was forced.
#[derive(Default)]
pub(super) struct Forced(AtomicU64);

impl Forced {
    /// Makes a forced write, or forces what was written. What other writers had
    /// written before is forced with it.
    pub(super) fn write(
        &self,
        database: &DB,
        health: &WriteHealth,
        write: impl FnOnce() -> Result<(), Error>,
    ) -> Result<(), Error> {
        let before = database.latest_sequence_number();
        health.write(database, write)?;
        self.0.fetch_max(before, Ordering::AcqRel);
        Ok(())
    }

    pub(super) fn get(&self) -> u64 {
        self.0.load(Ordering::Acquire)
    }
}

/// Writes the file anew when there is news.
pub(super) struct Keeper {
    path: PathBuf,
    kept: u64,
    has_failed: bool,
}

impl Keeper {
    pub(super) fn new(data_dir: &Path) -> Keeper {
        Keeper {
            path: data_dir.join(FILE),
            kept: 0,
            has_failed: false,
        }
    }

    pub(super) fn keep(&mut self, forced: u64) {
        if forced <= self.kept {
            return;
        }
        match write(&self.path, forced) {
            Ok(()) => (self.kept, self.has_failed) = (forced, false),
            Err(error) if !self.has_failed => {
                self.has_failed = true;
                let file = self.path.display();
                tracing::warn!(%file, %error, "it can't be stored up to where changes were forced to the disk: a damaged write-ahead log may go unnoticed");
            }
            Err(_) => {}
        }
    }
}

fn write(path: &Path, forced: u64) -> io::Result<()> {
    let is_new = !path.exists();
    let number = forced.to_le_bytes();
    let checksum = crc32c::crc32c(&number).to_le_bytes();
    let mut options = OpenOptions::new();
    let file = options
        .write(true)
        .create(true)
        .truncate(false)
        .open(path)?;
    file.write_all_at(&[&number[..], &checksum].concat(), 0)?;
    file.sync_data()?;
    match path.parent() {
        // Else a power cut may take its name away.
        Some(directory) if is_new => File::open(directory)?.sync_all(),
        _ => Ok(()),
    }
}

/// What the file says. `None`: there is none, or its bytes make no sense, as in a
/// directory that an older version wrote, or a backup restored.
pub(super) fn read(data_dir: &Path) -> Option<u64> {
    let file = File::open(data_dir.join(FILE)).ok()?;
    let mut bytes = [0; FILE_BYTES];
    file.read_exact_at(&mut bytes, 0).ok()?;
    let (number, checksum) = bytes.split_first_chunk::<NUMBER_BYTES>()?;
    let is_whole = crc32c::crc32c(number).to_le_bytes() == *checksum;
    is_whole.then_some(u64::from_le_bytes(*number))
}

/// Takes what was recovered for all that there was.
pub(super) fn accept(data_dir: &Path, recovered: u64) -> io::Result<()> {
    write(&data_dir.join(FILE), recovered)
}
