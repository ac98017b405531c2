//! A file that is there as a whole, or not at all.

use std::collections::hash_map::RandomState;
use std::ffi::OsString;
use std::fs::{self, File, OpenOptions};
use std::hash::BuildHasher;
use std::io::{self, BufWriter, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

/// A file that is written beside its name and gets it when it is complete. It is gone
/// if it never is. Its owner alone may read it, since it may hold a hash key, unless
/// others may read the one that it replaces.
pub struct NewFile {
    out: BufWriter<File>,
    beside: PathBuf,
    path: PathBuf,
}

impl NewFile {
    /// Begins one.
    ///
    /// # Errors
    /// It can't be created there.
    pub fn create(path: impl AsRef<Path>) -> io::Result<NewFile> {
        let path = path.as_ref().to_owned();
        let mut name = OsString::from(".");
        name.push(path.file_name().ok_or(io::ErrorKind::InvalidFilename)?);
        // Of its own, also beside other threads, and other machines that share the folder.
        let own = RandomState::new().hash_one(std::process::id());
        name.push(format!(".{own:016x}.new"));
        let beside = path.with_file_name(name);
        let mut options = OpenOptions::new();
        let out = options.write(true).create_new(true).mode(0o600);
        Ok(NewFile {
            out: BufWriter::with_capacity(1 << 20, out.open(&beside)?),
            beside,
            path,
        })
    }

    /// Gives it its name, in place of a file that has it already, once it is on disk.
    ///
    /// # Errors
    /// It can't be written, or renamed.
    pub fn publish(mut self) -> io::Result<()> {
        self.out.flush()?;
        if let Ok(replaced) = fs::metadata(&self.path) {
            self.out.get_ref().set_permissions(replaced.permissions())?;
        }
        self.out.get_ref().sync_all()?;
        fs::rename(&self.beside, &self.path)?;
        let parent = self.path.parent().filter(|it| !it.as_os_str().is_empty());
        File::open(parent.unwrap_or(Path::new(".")))?.sync_all()
    }
}

impl Write for NewFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.out.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}

impl Drop for NewFile {
    fn drop(&mut self) {
        // After it got its name there is nothing of this one.
        let _ = fs::remove_file(&self.beside);
    }
}
