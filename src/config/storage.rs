//! What is on disk, when it is forced there, and where backups are written.

use super::errors::ConfigErrors;
use super::size::ByteSize;
use crate::backup::BackupOptions;
use crate::engine::DiskReserve;
use crate::store::WalSync;
use clap::Args;
use std::path::{Path, PathBuf};
use std::time::Duration;

const MIN_LOG_BYTES: u64 = 64 << 10;
/// One page.
const MIN_SLICE_BYTES: u64 = 4 << 10;

/// The data directory and its durability.
#[derive(Debug, Args)]
#[command(next_help_heading = "Storage")]
pub struct StorageConfig {
    /// Directory of the data; created if it is missing.
    #[arg(long, env = "CUCKOOD_DATA_DIR", default_value = "./data")]
    pub data_dir: PathBuf,

    /// When a change is forced to the disk: `always` (before it is answered), `interval:<ms>` (every so many milliseconds, from 1), or `never` (when the system decides).
    #[arg(long, env = "CUCKOOD_WAL_SYNC", default_value = "always", value_parser = wal_sync)]
    pub wal_sync: WalSync,

    /// Bytes of redo log to replay after a crash, at least 64KiB; changes wait at the bound.
    #[arg(long, env = "CUCKOOD_MAX_LOG_BYTES", default_value = "64MiB")]
    pub max_log_bytes: ByteSize,

    /// Bytes of page images written at once in the background, at least 4KiB; a larger slice delays the writes of changes more.
    #[arg(long, env = "CUCKOOD_CHECKPOINT_SLICE_BYTES", default_value = "256KiB")]
    pub checkpoint_slice_bytes: ByteSize,

    /// Free bytes that changes leave on the data's disk, from 0 (no reserve); with less free they are answered 507, and accepted again once there is more [default: 1GiB, or a twentieth of a smaller disk].
    #[arg(long, env = "CUCKOOD_DISK_RESERVE")]
    pub disk_reserve: Option<ByteSize>,

    /// Serve even if changes that were acknowledged are missing because the data's disk has lost or damaged them; without it such a start is refused.
    #[arg(long, env = "CUCKOOD_ACCEPT_LOST_CHANGES")]
    pub accept_lost_changes: bool,

    /// Bytes of stored pages that are read and compared in the background per second; 0 turns it off.
    #[arg(long, env = "CUCKOOD_SCRUB_BYTES_PER_SECOND", default_value = "8MiB")]
    pub scrub_bytes_per_second: ByteSize,
}

impl StorageConfig {
    pub(super) fn check(&self, errors: &mut ConfigErrors) {
        errors.refuse_below("--max-log-bytes", self.max_log_bytes.0, MIN_LOG_BYTES);
        let slice = self.checkpoint_slice_bytes.0;
        errors.refuse_below("--checkpoint-slice-bytes", slice, MIN_SLICE_BYTES);
    }

    pub(super) fn disk_reserve(&self) -> DiskReserve {
        self.disk_reserve
            .map_or(DiskReserve::Usual, |bytes| DiskReserve::Bytes(bytes.0))
    }
}

/// The backup directory.
#[derive(Debug, Args)]
#[command(next_help_heading = "Backups")]
pub struct BackupConfig {
    /// Directory of backups, not within --data-dir; created if it is missing [default: none; no backups can be made].
    #[arg(long, env = "CUCKOOD_BACKUP_DIR")]
    pub backup_dir: Option<PathBuf>,

    /// Complete backups that are kept, from 1; older ones are deleted when a new one is complete.
    #[arg(long, env = "CUCKOOD_BACKUP_KEEP", default_value_t = 7)]
    pub backup_keep: usize,
}

impl BackupConfig {
    pub(super) fn check(&self, data_dir: &Path, errors: &mut ConfigErrors) {
        errors.refuse_zeros(&[("--backup-keep", self.backup_keep)]);
        let backups = self.backup_dir.as_ref();
        if backups.is_some_and(|backups| backups.starts_with(data_dir)) {
            errors.add(
                "--backup-dir lies in --data-dir, which may contain nothing but the server's data: choose another, best on another disk",
            );
        }
    }

    pub(super) fn options(&self, disk_reserve: DiskReserve) -> Option<BackupOptions> {
        self.backup_dir.clone().map(|directory| BackupOptions {
            directory,
            keep: self.backup_keep,
            disk_reserve,
        })
    }
}

fn wal_sync(text: &str) -> Result<WalSync, String> {
    let interval = || {
        let milliseconds = text.strip_prefix("interval:")?.parse().ok()?;
        (milliseconds > 0).then_some(WalSync::Interval(Duration::from_millis(milliseconds)))
    };
    match text {
        "always" => Ok(WalSync::Always),
        "never" => Ok(WalSync::Never),
        _ => interval().ok_or_else(|| {
            "allowed is always, never, or interval:<milliseconds> such as interval:100".to_owned()
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wal_sync_has_three_forms() {
        assert_eq!(wal_sync("always"), Ok(WalSync::Always));
        assert_eq!(wal_sync("never"), Ok(WalSync::Never));
        assert_eq!(
            wal_sync("interval:20"),
            Ok(WalSync::Interval(Duration::from_millis(20)))
        );
        for text in ["", "interval", "interval:0", "interval:-1", "sometimes"] {
            assert!(wal_sync(text).is_err(), "{text}");
        }
    }
}
