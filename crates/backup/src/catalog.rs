//! The directory of archives. An archive that is not complete has another
//! ending, so whatever lies there under its final name is whole.

use super::error::{BackupError, Result};
use super::id::{BackupId, ENDING, PREFIX};
use crate::store::disk::DiskSpace;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

const PARTIAL: &str = ".tar.partial";

pub(super) struct Catalog {
    pub(super) directory: PathBuf,
}

impl Catalog {
    /// Makes the directory if it is missing, and removes what an interrupted
    /// backup left there.
    pub(super) fn open(directory: &Path) -> Result<Catalog> {
        let opening = |source| BackupError::Directory {
            directory: directory.to_owned(),
            source: Arc::new(source),
        };
        fs::create_dir_all(directory).map_err(opening)?;
        for entry in fs::read_dir(directory).map_err(opening)? {
            let entry = entry.map_err(opening)?;
            let name = entry.file_name();
            let name = name.to_string_lossy();
            if name.starts_with(PREFIX) && name.ends_with(PARTIAL) {
                fs::remove_file(entry.path()).map_err(opening)?;
            }
        }
        Ok(Catalog {
            directory: directory.to_owned(),
        })
    }

    /// A name that no backup has.
    pub(super) fn new_id(&self, now: SystemTime) -> Result<BackupId> {
        let newest = self.list()?.pop().map(|(id, _)| id.time());
        // Two in a second, or a clock that was put back: the order stays.
        let time = newest.map_or(now, |newest| now.max(newest + Duration::from_secs(1)));
        BackupId::of(time).ok_or(BackupError::NoClock)
    }

    /// Names and sizes of all whole archives, oldest first.
    pub(super) fn list(&self) -> Result<Vec<(BackupId, u64)>> {
        let listing = |error: io::Error| BackupError::io("listing backups", error);
        let mut found = Vec::new();
        for entry in fs::read_dir(&self.directory).map_err(listing)? {
            let entry = entry.map_err(listing)?;
            let name = entry.file_name();
            let id = name
                .to_str()
                .and_then(|name| name.strip_prefix(PREFIX)?.strip_suffix(ENDING))
                .and_then(BackupId::parse);
            let Some(id) = id else { continue };
            match entry.metadata() {
                Ok(metadata) => found.push((id, metadata.len())),
                // Dropped meanwhile.
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => return Err(listing(error)),
            }
        }
        found.sort();
        Ok(found)
    }

    /// A whole archive and its size; `None` if there is none of that name.
    pub(super) fn archive(&self, id: &BackupId) -> Result<Option<(File, u64)>> {
        let opening = |error: io::Error| BackupError::io("opening a backup", error);
        match File::open(self.path(id)) {
            Ok(file) => {
                let bytes = file.metadata().map_err(opening)?.len();
                Ok(Some((file, bytes)))
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(opening(error)),
        }
    }

    /// Makes the file of an archive that is not complete yet.
    pub(super) fn begin(&self, id: &BackupId) -> Result<Partial> {
        let path = self
            .directory
            .join(format!("{PREFIX}{}{PARTIAL}", id.as_str()));
        let file = OpenOptions::new()
            .write(true)
            .create_new(true)
            .open(&path)
            .map_err(|error| BackupError::io("making the file of a backup", error))?;
        Ok(Partial {
            file,
            path,
            complete: self.path(id),
        })
    }

    /// Drops all but the newest archives.
    pub(super) fn keep_newest(&self, keep: usize) -> Result<()> {
        let all = self.list()?;
        let too_many = all.len().saturating_sub(keep);
        for (id, _) in all.iter().take(too_many) {
            fs::remove_file(self.path(id))
                .map_err(|error| BackupError::io("dropping an old backup", error))?;
            tracing::info!(%id, "dropped an old backup");
        }
        Ok(())
    }

    fn path(&self, id: &BackupId) -> PathBuf {
        self.directory.join(id.file_name())
    }
}

/// The disk that a directory lies on.
pub(super) fn disk_of(directory: &Path) -> Result<DiskSpace> {
    DiskSpace::of(directory).map_err(|error| BackupError::io("asking how full the disk is", error))
}

/// Whether the disk of a directory has room for so many bytes and keeps others
/// free.
///
/// # Errors
/// [`BackupError::NoRoom`].
pub(super) fn check_room(
    directory: &Path,
    disk: &DiskSpace,
    bytes: u64,
    kept_free: u64,
) -> Result<()> {
    let needed = bytes.saturating_add(kept_free);
    match disk.free_bytes < needed {
        true => Err(BackupError::NoRoom {
            directory: directory.to_owned(),
            needed,
            free: disk.free_bytes,
        }),
        false => Ok(()),
    }
}

/// An archive that is being written; removed unless it is finished.
pub(super) struct Partial {
    pub(super) file: File,
    path: PathBuf,
    complete: PathBuf,
}

impl Partial {
    pub(super) fn reopen(&self) -> Result<File> {
        File::open(&self.path).map_err(|error| BackupError::io("reading a backup again", error))
    }

    /// Forces it to the disk and gives it its final name.
    pub(super) fn finish(self) -> Result<()> {
        self.file
            .sync_all()
            .and_then(|()| fs::rename(&self.path, &self.complete))
            .and_then(|()| sync_parent(&self.complete))
            .map_err(|error| BackupError::io("finishing a backup", error))
    }
}

impl Drop for Partial {
    fn drop(&mut self) {
        // Under this name nothing is left once it is finished. What stays is removed by
        // the next start.
        let _ = fs::remove_file(&self.path);
    }
}

/// Makes a new name in a directory survive a power cut.
pub(super) fn sync_parent(path: &Path) -> io::Result<()> {
    let parent = path.parent().filter(|it| !it.as_os_str().is_empty());
    File::open(parent.unwrap_or(Path::new(".")))?.sync_all()
}

#[cfg(test)]
mod tests;
