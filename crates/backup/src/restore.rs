//! Makes a data directory of an archive: beside its place first, under its
//! name only when all of it was found whole.

use super::archive::{self, Progress};
use super::backups::RESERVED_BYTES;
use super::catalog::{check_room, disk_of, sync_parent};
use super::error::{BackupError, Result};
use std::ffi::OsString;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read};
use std::path::{Path, PathBuf};

/// Restores the archive `backup` into `data_dir`, which must be missing or
/// empty. `check` is shown the directory before it gets its name; what it
/// refuses is not restored, and what it found is returned. Blocks.
///
/// # Errors
/// Nothing is left then.
pub fn restore<T>(
    backup: &Path,
    data_dir: &Path,
    check: impl FnOnce(&Path) -> Result<T>,
) -> Result<T> {
    let opening = |error: io::Error| BackupError::io("opening the backup", error);
    let archive = File::open(backup).map_err(opening)?;
    let bytes = archive.metadata().map_err(opening)?.len();
    if !is_missing_or_empty(data_dir)? {
        return Err(BackupError::NotEmpty {
            path: data_dir.to_owned(),
        });
    }
    let staging = Staging::beside(data_dir)?;
    check_room_for(&staging.directory, bytes)?;
    unpack(archive, &staging.directory)?;
    let found = check(&staging.directory)?;
    staging.move_to(data_dir)?;
    Ok(found)
}

/// Puts the files of an archive into an empty directory and forces them to the
/// disk. What is there is worth something only if this returns `Ok`. Blocks.
///
/// # Errors
/// [`BackupError::Damaged`], [`BackupError::Newer`], or the disk refused.
pub fn unpack(archive: impl Read, directory: &Path) -> Result<()> {
    archive::read(archive, &Progress::default(), &mut |name, content| {
        let mut file = OpenOptions::new()
            .write(true)
            .create_new(true)
            .open(directory.join(name))?;
        io::copy(content, &mut file)?;
        file.sync_all()
    })
}

/// Whether the disk of a directory has room for an archive of so many bytes.
///
/// # Errors
/// [`BackupError::NoRoom`].
pub fn check_room_for(directory: &Path, bytes: u64) -> Result<()> {
    check_room(directory, &disk_of(directory)?, bytes, RESERVED_BYTES)
}

fn is_missing_or_empty(directory: &Path) -> Result<bool> {
    match fs::read_dir(directory) {
        Ok(mut entries) => Ok(entries.next().is_none()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(true),
        Err(error) => Err(BackupError::io("looking at --data-dir", error)),
    }
}

/// The directory before it has its name; removed unless it gets it.
struct Staging {
    directory: PathBuf,
}

impl Staging {
    fn beside(data_dir: &Path) -> Result<Staging> {
        let making = |error: io::Error| BackupError::io("making a directory", error);
        let name = data_dir.file_name().ok_or_else(|| BackupError::NoName {
            path: data_dir.to_owned(),
        })?;
        let mut staged = OsString::from(name);
        staged.push(format!(".restoring-{}", std::process::id()));
        let directory = data_dir.with_file_name(staged);
        if let Some(parent) = directory.parent() {
            fs::create_dir_all(parent).map_err(making)?;
        }
        // In a container every process has the same number: one that was
        // killed here before has left its own.
        match fs::remove_dir_all(&directory) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(making(error)),
            _ => fs::create_dir(&directory).map_err(making)?,
        }
        Ok(Staging { directory })
    }

    fn move_to(self, data_dir: &Path) -> Result<()> {
        File::open(&self.directory)
            .and_then(|directory| directory.sync_all())
            // On some systems an empty directory is in the way.
            .and_then(|()| match fs::remove_dir(data_dir) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
                _ => fs::rename(&self.directory, data_dir),
            })
            .and_then(|()| sync_parent(data_dir))
            .map_err(|error| BackupError::io("naming what was restored", error))
    }
}

impl Drop for Staging {
    fn drop(&mut self) {
        // Under this name nothing is left once it was moved. If something is, the name
        // says that it is not complete.
        let _ = fs::remove_dir_all(&self.directory);
    }
}
