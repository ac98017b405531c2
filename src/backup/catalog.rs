//! The directory of archives. An archive that is not complete has another
//! ending, so whatever lies there under its final name is whole.

use super::BackupError;
use crate::store::disk::DiskSpace;
use std::fmt;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

const PREFIX: &str = "cuckood-";
const ENDING: &str = ".tar";
const PARTIAL: &str = ".tar.partial";

/// Name of a backup: the second in which it was begun (UTC), as
/// `20261121T114517Z`. In the order of their times.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BackupId(String);

impl BackupId {
    /// The name of a backup begun in that second; `None` before 1970 and after
    /// 9999.
    pub fn of(time: SystemTime) -> Option<BackupId> {
        let since = time.duration_since(UNIX_EPOCH).ok()?;
        if since.as_secs() > 253_402_300_799 {
            return None;
        }
        let text = humantime::format_rfc3339_seconds(time).to_string();
        Some(BackupId(text.replace(['-', ':'], "")))
    }

    /// Reads a name; `None` if no backup can be called so.
    pub fn parse(text: &str) -> Option<BackupId> {
        let part = |range: std::ops::Range<usize>| text.get(range);
        let time = format!(
            "{}-{}-{}T{}:{}:{}Z",
            part(0..4)?,
            part(4..6)?,
            part(6..8)?,
            part(9..11)?,
            part(11..13)?,
            part(13..15)?
        );
        let id = BackupId::of(humantime::parse_rfc3339(&time).ok()?)?;
        (id.0 == text).then_some(id)
    }

    /// The second in which it was begun.
    pub fn time(&self) -> SystemTime {
        // It was made from a time.
        let text = &self.0;
        let part = |range: std::ops::Range<usize>| text.get(range).unwrap_or_default();
        let time = format!(
            "{}-{}-{}T{}:{}:{}Z",
            part(0..4),
            part(4..6),
            part(6..8),
            part(9..11),
            part(11..13),
            part(13..15)
        );
        humantime::parse_rfc3339(&time).unwrap_or(UNIX_EPOCH)
    }

    /// The name as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// How its archive is called.
    pub fn file_name(&self) -> String {
        format!("{PREFIX}{}{ENDING}", self.0)
    }
}

impl fmt::Display for BackupId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

pub(super) struct Catalog {
    directory: PathBuf,
}

impl Catalog {
    /// Makes the directory if it is missing, and removes what an interrupted
    /// backup left there.
    pub(super) fn open(directory: &Path) -> Result<Catalog, BackupError> {
        const DOING: &str = "opening the directory of backups";
        let opening = |error: io::Error| BackupError::Io {
            doing: DOING,
            reason: format!("{}: {error}", directory.display()),
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
    pub(super) fn new_id(&self, now: SystemTime) -> Result<BackupId, BackupError> {
        let newest = self.list()?.pop().map(|(id, _)| id.time());
        // Two in a second, or a clock that was put back: the order stays.
        let time = match newest {
            Some(newest) if newest + Duration::from_secs(1) > now => {
                newest + Duration::from_secs(1)
            }
            _ => now,
        };
        BackupId::of(time).ok_or(BackupError::Io {
            doing: "naming a backup",
            reason: "the clock is not set".to_owned(),
        })
    }

    /// Names and sizes of all whole archives, oldest first.
    pub(super) fn list(&self) -> Result<Vec<(BackupId, u64)>, BackupError> {
        let listing = |error: io::Error| BackupError::io("listing backups", &error);
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
    pub(super) fn archive(&self, id: &BackupId) -> Result<Option<(File, u64)>, BackupError> {
        let opening = |error: io::Error| BackupError::io("opening a backup", &error);
        match File::open(self.path(id)) {
            Ok(file) => {
                let bytes = file.metadata().map_err(opening)?.len();
                Ok(Some((file, bytes)))
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(opening(error)),
        }
    }

    /// The disk that archives lie on.
    pub(super) fn disk(&self) -> Result<DiskSpace, BackupError> {
        DiskSpace::of(&self.directory)
            .map_err(|error| BackupError::io("asking how full the disk is", &error))
    }

    /// Whether the disk has room for so many bytes and keeps others free.
    ///
    /// # Errors
    /// [`BackupError::NoRoom`].
    pub(super) fn check_room(
        &self,
        disk: &DiskSpace,
        bytes: u64,
        kept_free: u64,
    ) -> Result<(), BackupError> {
        let needed = bytes.saturating_add(kept_free);
        match disk.free_bytes < needed {
            true => Err(BackupError::NoRoom {
                directory: self.directory.clone(),
                needed,
                free: disk.free_bytes,
            }),
            false => Ok(()),
        }
    }

    /// Makes the file of an archive that is not complete yet.
    pub(super) fn begin(&self, id: &BackupId) -> Result<Partial, BackupError> {
        let path = self
            .directory
            .join(format!("{PREFIX}{}{PARTIAL}", id.as_str()));
        let file = OpenOptions::new()
            .write(true)
            .create_new(true)
            .open(&path)
            .map_err(|error| BackupError::io("making the file of a backup", &error))?;
        Ok(Partial {
            file,
            path,
            complete: self.path(id),
            is_complete: false,
        })
    }

    /// Drops all but the newest archives.
    pub(super) fn keep_newest(&self, keep: usize) -> Result<(), BackupError> {
        let all = self.list()?;
        let too_many = all.len().saturating_sub(keep);
        for (id, _) in all.iter().take(too_many) {
            fs::remove_file(self.path(id))
                .map_err(|error| BackupError::io("dropping an old backup", &error))?;
            tracing::info!(%id, "dropped an old backup");
        }
        Ok(())
    }

    fn path(&self, id: &BackupId) -> PathBuf {
        self.directory.join(id.file_name())
    }
}

/// An archive that is being written; removed unless it is finished.
pub(super) struct Partial {
    file: File,
    path: PathBuf,
    complete: PathBuf,
    is_complete: bool,
}

impl Partial {
    pub(super) fn file(&self) -> &File {
        &self.file
    }

    pub(super) fn reopen(&self) -> Result<File, BackupError> {
        File::open(&self.path).map_err(|error| BackupError::io("reading a backup again", &error))
    }

    /// Forces it to the disk and gives it its final name.
    pub(super) fn finish(mut self) -> Result<(), BackupError> {
        self.file
            .sync_all()
            .and_then(|()| fs::rename(&self.path, &self.complete))
            .and_then(|()| sync_parent(&self.complete))
            .map_err(|error| BackupError::io("finishing a backup", &error))?;
        self.is_complete = true;
        Ok(())
    }
}

impl Drop for Partial {
    fn drop(&mut self) {
        if !self.is_complete {
            // What stays is removed by the next start.
            let _ = fs::remove_file(&self.path);
        }
    }
}

/// Makes a new name in a directory survive a power cut.
pub(super) fn sync_parent(path: &Path) -> io::Result<()> {
    match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => File::open(parent)?.sync_all(),
        _ => File::open(".")?.sync_all(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> SystemTime {
        UNIX_EPOCH + Duration::from_secs(seconds)
    }

    #[test]
    fn a_name_is_a_time_and_back() {
        let id = BackupId::of(at(1_795_261_517)).unwrap();
        assert_eq!(id.as_str(), "20261121T114517Z");
        assert_eq!(id.time(), at(1_795_261_517));
        assert_eq!(BackupId::parse(id.as_str()), Some(id));
        for text in [
            "",
            "20261121T114517",
            "20261121T114517Z-2",
            "20261121T114560Z",
            "20261321T114517Z",
            "20261121t114517Z",
            "../../etc/passwd",
            "2026112１T114517Z",
        ] {
            assert_eq!(BackupId::parse(text), None, "{text}");
        }
        assert_eq!(BackupId::of(UNIX_EPOCH - Duration::from_secs(1)), None);
    }

    #[test]
    fn names_ascend_even_if_the_clock_does_not() {
        let directory = tempfile::tempdir().unwrap();
        let catalog = Catalog::open(directory.path()).unwrap();
        let mut last = None;
        for now in [100, 100, 50, 200] {
            let id = catalog.new_id(at(now)).unwrap();
            assert!(Some(&id) > last.as_ref());
            catalog.begin(&id).unwrap().finish().unwrap();
            last = Some(id);
        }
        assert_eq!(catalog.list().unwrap().len(), 4);
    }

    #[test]
    fn only_the_newest_are_kept_and_nothing_else_is_touched() {
        let directory = tempfile::tempdir().unwrap();
        let other = directory.path().join("cuckood-notes.tar");
        std::fs::write(&other, "mine").unwrap();
        let catalog = Catalog::open(directory.path()).unwrap();
        for now in [100, 200, 300] {
            let id = catalog.new_id(at(now)).unwrap();
            catalog.begin(&id).unwrap().finish().unwrap();
        }
        catalog.keep_newest(2).unwrap();
        let times: Vec<SystemTime> = catalog
            .list()
            .unwrap()
            .iter()
            .map(|(id, _)| id.time())
            .collect();
        assert_eq!(times, [at(200), at(300)]);
        assert!(other.exists());
    }

    #[test]
    fn what_was_not_finished_is_removed() {
        let directory = tempfile::tempdir().unwrap();
        let catalog = Catalog::open(directory.path()).unwrap();
        let id = catalog.new_id(at(100)).unwrap();
        drop(catalog.begin(&id).unwrap());
        assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 0);
        std::mem::forget(catalog.begin(&id).unwrap());
        assert_eq!(catalog.list().unwrap(), []);
        Catalog::open(directory.path()).unwrap();
        assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 0);
    }

    #[test]
    fn a_disk_that_is_too_full_is_named() {
        let directory = tempfile::tempdir().unwrap();
        let catalog = Catalog::open(directory.path()).unwrap();
        let disk = DiskSpace {
            free_bytes: 100,
            ..catalog.disk().unwrap()
        };
        assert!(catalog.check_room(&disk, 60, 40).is_ok());
        for (bytes, kept_free) in [(61, 40), (60, 41), (u64::MAX, u64::MAX)] {
            let error = catalog.check_room(&disk, bytes, kept_free).unwrap_err();
            assert!(matches!(error, BackupError::NoRoom { .. }), "{error}");
        }
    }
}
