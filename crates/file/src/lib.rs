//! Files of cuckoo filters, asked without a server.
//!
//! A file is what `cuckood build` makes of a list, and a dump of a server. [`FilterFile`]
//! maps one: opening takes as long for a gigabyte as for a kilobyte, but for the check of
//! its checksums, and what is never asked for is never read. Each block is checked when it
//! is first looked into.
//!
//! Put a new file into the place of an old one by renaming it, never by writing into it:
//! whoever has mapped a file that is cut off is ended by the system. Then open it anew;
//! [`NewFile`] writes one so.
//!
//! A file holds the secret key of its filter's hash, unless it was left out: whoever has
//! the file can test any guess, and craft items that are found though they were never
//! added. Checksums find accidents, not forgers.
//!
//! # Example
//!
//! ```no_run
//! use cuckood_file::FilterFile;
//!
//! # fn main() -> Result<(), cuckood_file::PathError> {
//! let codes = FilterFile::open("codes.cuckoo")?;
//! // False is certain, true can be a false positive.
//! if codes.exists(b"SUMMER-000042").is_ok_and(|it| !it) {
//!     println!("there is no such code");
//! }
//! # Ok(())
//! # }
//! ```

mod map;
mod new_file;
mod write;

pub use cuckood_filter::chain::paged::values::ValueCopies;
pub use cuckood_filter::cuckoo::hash::HashKey;
pub use cuckood_filter::file::{FILE_VERSION, FileError, FileKey, FileView, Header, Sums};
pub use map::Map;
pub use new_file::NewFile;
pub use write::write;

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

/// Why a file was not opened, or not written.
#[derive(Debug, thiserror::Error)]
#[error("{}: {reason}", path.display())]
pub struct PathError {
    /// Which file.
    pub path: PathBuf,
    /// Why.
    #[source]
    pub reason: PathReason,
}

/// What was wrong with it.
#[derive(Debug, thiserror::Error)]
pub enum PathReason {
    /// It could not be read, or written.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// It is no file of a filter, or not one that can be used.
    #[error("{}", advised(.0))]
    File(#[from] FileError),
}

/// What to do about a file that is not as it was written.
const FETCH: &str = "the copy is damaged or incomplete: fetch it again";

fn advised(error: &FileError) -> String {
    match error {
        FileError::Length { .. }
        | FileError::Header(_)
        | FileError::Checksums
        | FileError::Block(_)
        | FileError::Digest => format!("{error}; {FETCH}"),
        other => other.to_string(),
    }
}

/// A filter in a file. Many threads may ask it at once.
pub struct FilterFile {
    view: FileView<Map>,
}

impl FilterFile {
    /// Maps a file, and checks its length, its header and its checksums.
    ///
    /// # Errors
    /// It can't be read, is no file of a filter, was cut off, or is of a newer version.
    pub fn open(path: impl AsRef<Path>) -> Result<FilterFile, PathError> {
        let file = FilterFile::open_in_order(path)?;
        // What lies beside an answer is not the next one.
        map::read_ahead(file.view.bytes(), false);
        Ok(file)
    }

    /// The same for those who read all of it in order.
    ///
    /// # Errors
    /// As of [`open`](Self::open).
    pub fn open_in_order(path: impl AsRef<Path>) -> Result<FilterFile, PathError> {
        let path = path.as_ref();
        let map = File::open(path).and_then(|file| Map::of(&file));
        let view = map.map_err(PathReason::from).and_then(|map| {
            match AsRef::<[u8]>::as_ref(&map).is_empty() {
                true => Err(io::Error::other(format!("it is empty; {FETCH}")).into()),
                false => Ok(FileView::open(map)?),
            }
        });
        view.map(|view| FilterFile { view })
            .map_err(|reason| PathError {
                path: path.to_owned(),
                reason,
            })
    }

    /// Gives it the key that was left out of it.
    ///
    /// # Errors
    /// It is another's.
    pub fn with_key(self, key: HashKey) -> Result<FilterFile, FileError> {
        let view = self.view.with_key(key)?;
        Ok(FilterFile { view })
    }

    /// What the file says of its filter.
    pub fn header(&self) -> &Header {
        self.view.header()
    }

    /// Its bytes, and questions as of any moment.
    pub fn view(&self) -> &FileView<Map> {
        &self.view
    }

    /// Whether the filter contains an item: a no is certain, a yes can be a false
    /// positive. Where items expire: whether it was seen within the window before now.
    ///
    /// # Errors
    /// A block that it takes is damaged, or the key is missing.
    #[inline]
    pub fn exists(&self, item: &[u8]) -> Result<bool, FileError> {
        self.view.exists(item, self.since(None))
    }

    /// Whether an item was seen within the last so many seconds, of a filter whose
    /// items expire; `None`: within the window.
    ///
    /// # Errors
    /// As of [`exists`](Self::exists); or its items do not expire, or it is not from 1 to
    /// its window.
    pub fn exists_within(&self, item: &[u8], seconds: Option<u64>) -> Result<bool, FileError> {
        let Some(seconds) = seconds else {
            return self.exists(item);
        };
        let window = self.header().window.ok_or(FileError::NoWindow)?.window;
        match (1..=u64::from(window.seconds())).contains(&seconds) {
            true => self.view.exists(item, self.since(Some(seconds))),
            false => Err(FileError::BeyondWindow {
                within_seconds: seconds,
                window_seconds: window.seconds(),
            }),
        }
    }

    /// [`exists`](Self::exists) of many items, with their waits for memory at once:
    /// several times as fast where a file is larger than the processor's caches.
    ///
    /// # Errors
    /// As of [`exists`](Self::exists).
    pub fn exists_all<'a>(
        &self,
        items: impl IntoIterator<Item = &'a [u8]>,
    ) -> Result<Vec<bool>, FileError> {
        let mut found = Vec::new();
        self.view.exists_all(items, self.since(None), &mut found)?;
        Ok(found)
    }

    /// How often an item is found: at least as often as it was added.
    ///
    /// # Errors
    /// As of [`exists`](Self::exists).
    pub fn count(&self, item: &[u8]) -> Result<u64, FileError> {
        self.view.count(item, self.since(None))
    }

    /// The values of an item, ascending; those of others can be among them.
    ///
    /// # Errors
    /// As of [`exists`](Self::exists).
    pub fn values(&self, item: &[u8]) -> Result<Vec<ValueCopies>, FileError> {
        self.view.values(item)
    }

    /// Reads all of the file, and compares its digest, which it returns. After a
    /// download, before the file gets its name.
    ///
    /// # Errors
    /// The first block that is damaged.
    pub fn verify(&self) -> Result<[u8; 32], FileError> {
        map::read_ahead(self.view.bytes(), true);
        let digest = self.view.verify();
        map::read_ahead(self.view.bytes(), false);
        digest
    }

    /// A look at the clock takes as long as many a question.
    #[inline]
    fn since(&self, within_seconds: Option<u64>) -> Option<u64> {
        self.header().window?;
        let now = SystemTime::now().duration_since(UNIX_EPOCH);
        let now_ms = now.map_or(0, |it| u64::try_from(it.as_millis()).unwrap_or(u64::MAX));
        self.view.since(now_ms, within_seconds)
    }
}

#[cfg(test)]
mod tests;
