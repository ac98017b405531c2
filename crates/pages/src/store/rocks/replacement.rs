//! Another state for a data directory: put beside the present one, and in its
//! place by the next start.
//!
//! It lies within the data directory, which may be a mount. A crash leaves one of
//! three names, and the next start goes on from there:
//!
//! | name | what it is | what a start does |
//! |---|---|---|
//! | `replacement.partial` | not complete | removes it |
//! | `replacement` | complete, forced to the disk | removes the files of the present state, then renames it |
//! | `replacement.moving` | the only state | moves its files to their place |

use super::errors::not_stored;
use crate::store::error::{Result, StoreError};
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

const PARTIAL: &str = "replacement.partial";
const COMPLETE: &str = "replacement";
const MOVING: &str = "replacement.moving";

/// What RocksDB and this program name their files, as a whole or in part. Others
/// are left alone.
const WHOLE_NAMES: [&str; 4] = ["CURRENT", "IDENTITY", "FORCED", "LOG"];
const BEGINNINGS: [&str; 3] = ["MANIFEST-", "OPTIONS-", "LOG.old."];
const ENDINGS: [&str; 4] = ["sst", "log", "blob", "dbtmp"];

/// A state that is to take the place of the one of a data directory. Removed
/// unless it is [completed](Replacement::complete).
pub struct Replacement {
    data_dir: PathBuf,
    directory: PathBuf,
}

impl Replacement {
    /// An empty one for the data directory, which nobody else may have open.
    pub(super) fn begin(data_dir: &Path) -> Result<Replacement> {
        let directory = data_dir.join(PARTIAL);
        remove(&directory)
            .and_then(|()| fs::create_dir(&directory))
            .map_err(failed)?;
        Ok(Replacement {
            data_dir: data_dir.to_owned(),
            directory,
        })
    }

    /// Where its files belong, each forced to the disk.
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// Says that it is complete: the next start takes it.
    ///
    /// # Errors
    /// It comes to nothing, or the next start takes it.
    pub fn complete(self) -> Result {
        let completed = sync(&self.directory)
            .and_then(|()| fs::rename(&self.directory, self.data_dir.join(COMPLETE)))
            .and_then(|()| sync(&self.data_dir));
        completed.map_err(failed)
    }
}

impl Drop for Replacement {
    fn drop(&mut self) {
        // What stays is removed by the next start.
        let _ = remove(&self.directory);
    }
}

/// Goes on with what a run before this one began. Nobody has the database open.
pub(super) fn finish(data_dir: &Path) -> io::Result<()> {
    remove(&data_dir.join(PARTIAL))?;
    let (complete, moving) = (data_dir.join(COMPLETE), data_dir.join(MOVING));
    if complete.exists() {
        for name in files(data_dir)?.iter().filter(|name| is_ours(name)) {
            fs::remove_file(data_dir.join(name))?;
        }
        sync(data_dir)?;
        fs::rename(&complete, &moving)?;
        sync(data_dir)?;
    }
    if moving.exists() {
        for name in files(&moving)? {
            fs::rename(moving.join(&name), data_dir.join(&name))?;
        }
        sync(data_dir)?;
        fs::remove_dir(&moving)?;
        sync(data_dir)?;
    }
    Ok(())
}

/// Whether the next start has something to go on with, so that what lies in the
/// directory is not all of a state.
pub(super) fn is_under_way(data_dir: &Path) -> bool {
    [COMPLETE, MOVING]
        .iter()
        .any(|name| data_dir.join(name).exists())
}

/// The names of the plain files of a directory.
fn files(directory: &Path) -> io::Result<Vec<String>> {
    let mut names = Vec::new();
    for entry in fs::read_dir(directory)? {
        let entry = entry?;
        if entry.file_type()?.is_file()
            && let Ok(name) = entry.file_name().into_string()
        {
            names.push(name);
        }
    }
    Ok(names)
}

fn is_ours(name: &str) -> bool {
    let (stem, ending) = name.split_once('.').unwrap_or_default();
    let is_numbered = !stem.is_empty() && stem.bytes().all(|it| it.is_ascii_digit());
    WHOLE_NAMES.contains(&name)
        || BEGINNINGS.iter().any(|it| name.starts_with(it))
        || is_numbered && ENDINGS.contains(&ending)
}

fn remove(directory: &Path) -> io::Result<()> {
    match fs::remove_dir_all(directory) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

fn sync(directory: &Path) -> io::Result<()> {
    File::open(directory)?.sync_all()
}

fn failed(error: io::Error) -> StoreError {
    let doing = "putting another state into the data directory";
    not_stored(doing, error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    const OLD: [&str; 5] = ["CURRENT", "MANIFEST-000005", "000007.sst", "FORCED", "LOG"];
    const NEW: [&str; 4] = ["CURRENT", "MANIFEST-000009", "000007.sst", "000011.log"];

    fn content(directory: &Path) -> BTreeMap<String, String> {
        let names = files(directory).unwrap().into_iter();
        names
            .map(|name| {
                (
                    name.clone(),
                    fs::read_to_string(directory.join(name)).unwrap(),
                )
            })
            .collect()
    }

    /// What there is to be: all of one state, and what is nobody's of both.
    fn state(names: &[&str], of: &str) -> BTreeMap<String, String> {
        let theirs = names.iter().map(|it| ((*it).to_owned(), of.to_owned()));
        theirs
            .chain(
                ["notes.txt", "notes.log", "lost-000012.log"]
                    .map(|it| (it.to_owned(), "mine".to_owned())),
            )
            .collect()
    }

    fn directory() -> tempfile::TempDir {
        let directory = tempfile::tempdir().unwrap();
        for (name, content) in state(&OLD, "old") {
            fs::write(directory.path().join(name), content).unwrap();
        }
        fs::create_dir(directory.path().join("backups")).unwrap();
        directory
    }

    fn begin(data_dir: &Path) -> Replacement {
        let replacement = Replacement::begin(data_dir).unwrap();
        for name in NEW {
            fs::write(replacement.directory().join(name), "new").unwrap();
        }
        replacement
    }

    #[test]
    fn what_is_not_complete_changes_nothing() {
        let directory = directory();
        let path = directory.path();
        drop(begin(path));
        assert!(!path.join(PARTIAL).exists());
        // As a crash leaves it.
        std::mem::forget(begin(path));
        assert!(!is_under_way(path));
        finish(path).unwrap();
        assert!(!path.join(PARTIAL).exists());
        assert_eq!(content(path), state(&OLD, "old"));
    }

    /// Whatever was done before a crash, the next start ends with all of the new
    /// state and nothing of the old one.
    #[test]
    fn a_crash_at_any_step_leaves_what_the_next_start_ends() {
        // Old files that are removed already, then new ones that are moved.
        for removed in 0..=OLD.len() {
            let directory = directory();
            let path = directory.path();
            begin(path).complete().unwrap();
            for name in &OLD[..removed] {
                fs::remove_file(path.join(name)).unwrap();
            }
            assert!(is_under_way(path));
            finish(path).unwrap();
            assert_eq!(content(path), state(&NEW, "new"), "{removed} removed");
        }
        for moved in 0..=NEW.len() {
            let directory = directory();
            let path = directory.path();
            begin(path).complete().unwrap();
            for name in OLD {
                fs::remove_file(path.join(name)).unwrap();
            }
            fs::rename(path.join(COMPLETE), path.join(MOVING)).unwrap();
            for name in &NEW[..moved] {
                fs::rename(path.join(MOVING).join(name), path.join(name)).unwrap();
            }
            assert!(is_under_way(path));
            finish(path).unwrap();
            assert!(!is_under_way(path));
            assert_eq!(content(path), state(&NEW, "new"), "{moved} moved");
            assert!(path.join("backups").is_dir());
        }
    }
}
