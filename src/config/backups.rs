//! Where backups are written, and how many are kept.

use super::errors::ConfigErrors;
use crate::backup::BackupOptions;
use crate::engine::DiskReserve;
use clap::Args;
use std::path::{Path, PathBuf};

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
