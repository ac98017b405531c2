//! The archive of a backup: a tar file that any tar reads.
//!
//! `cuckood-backup.json` comes first and says what it is; then the files of
//! the data directory under `data/`; at last `SHA256SUMS`, as `sha256sum -c`
//! takes it, with a line for each of the others. An archive that ends early
//! has no such list, and a file that is altered does not match it.

use super::error::{BackupError, Result};
use super::id::BackupId;
use crate::store::{FrozenFile, FrozenStore};
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};
use std::io::{self, BufReader, BufWriter, Read, Write};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use tar::{Builder, EntryType, Header};

/// Version of the archive.
pub const ARCHIVE_VERSION: u64 = 1;

const ABOUT: &str = "cuckood-backup.json";
const SUMS: &str = "SHA256SUMS";
const DATA: &str = "data/";

const NO_BACKUP: &str =
    "it does not begin as backups do; a dump is restored with PUT /filters/KEY/dump";

/// Bytes that are read and written at once.
const BUFFER_BYTES: usize = 256 << 10;

/// What tar writes around the files.
const BLOCK_BYTES: u64 = 512;
const END_BYTES: u64 = 2 * BLOCK_BYTES;

/// Files an archive may hold, and bytes of its first and last entry: what an
/// archive announces is never believed.
const MAX_FILES: usize = 1_000_000;
const MAX_ABOUT_BYTES: u64 = 64 << 10;
const MAX_SUMS_BYTES: u64 = 512 * MAX_FILES as u64;

/// How far the work on an archive is, and whether it is to be given up.
#[derive(Debug, Default)]
pub struct Progress {
    /// Bytes of files written, or read again.
    pub bytes: AtomicU64,
    /// The archive is written and being read again.
    pub verifying: AtomicBool,
    /// Set to end it.
    pub cancelled: AtomicBool,
}

/// What the archive says about itself.
#[derive(Serialize, Deserialize)]
struct About {
    format: u64,
    id: String,
    written_by: String,
    files: usize,
    bytes: u64,
}

impl About {
    fn of(id: &BackupId, files: &[FrozenFile]) -> String {
        let about = About {
            format: ARCHIVE_VERSION,
            id: id.as_str().to_owned(),
            written_by: concat!("cuckood ", env!("CARGO_PKG_VERSION")).to_owned(),
            files: files.len(),
            bytes: files.iter().map(|file| file.bytes).sum(),
        };
        // Plain words and numbers can always be written.
        let mut text = serde_json::to_string_pretty(&about).unwrap_or_default();
        text.push('\n');
        text
    }
}

/// Bytes of the archive of these files.
pub(super) fn size_of(id: &BackupId, files: &[FrozenFile]) -> u64 {
    let entry = |bytes: u64| BLOCK_BYTES + bytes.div_ceil(BLOCK_BYTES) * BLOCK_BYTES;
    let line = |name: usize| (64 + 2 + name + 1) as u64;
    let sums = line(ABOUT.len())
        + files
            .iter()
            .map(|file| line(DATA.len() + file.name.len()))
            .sum::<u64>();
    entry(About::of(id, files).len() as u64)
        + files.iter().map(|file| entry(file.bytes)).sum::<u64>()
        + entry(sums)
        + END_BYTES
}

/// Writes the archive of a frozen store.
///
/// # Errors
/// The disk refused, or it was given up; what is written then is no archive.
pub(super) fn write(
    out: impl Write,
    id: &BackupId,
    frozen: &dyn FrozenStore,
    progress: &Progress,
) -> Result<()> {
    let write = || -> io::Result<()> {
        let seconds = id.seconds();
        let mut archive = Builder::new(BufWriter::with_capacity(BUFFER_BYTES, out));
        let mut sums = String::new();
        let mut append_summed = |name: &str, bytes: u64, content: &mut dyn Read, progress| {
            let mut content = Summed::of(content, progress);
            append(&mut archive, name, bytes, seconds, &mut content)?;
            if content.bytes != bytes {
                let found = content.bytes;
                return Err(io::Error::other(format!(
                    "{name} has {found} bytes and had {bytes}"
                )));
            }
            content.append_sum(&mut sums, name);
            Ok(())
        };
        let about = About::of(id, frozen.files());
        // Progress counts the store's files alone.
        let uncounted = Progress::default();
        append_summed(ABOUT, about.len() as u64, &mut about.as_bytes(), &uncounted)?;
        for file in frozen.files() {
            let name = format!("{DATA}{}", file.name);
            append_summed(&name, file.bytes, &mut frozen.open(file)?, progress)?;
        }
        let bytes = sums.len() as u64;
        append(&mut archive, SUMS, bytes, seconds, sums.as_bytes())?;
        archive.into_inner()?.flush()
    };
    write().map_err(|error| given_up(progress, "writing a backup", error))
}

fn append(
    archive: &mut Builder<impl Write>,
    name: &str,
    bytes: u64,
    seconds: u64,
    content: impl Read,
) -> io::Result<()> {
    let mut header = Header::new_ustar();
    header.set_path(name)?;
    header.set_size(bytes);
    header.set_mode(0o600);
    header.set_mtime(seconds);
    header.set_entry_type(EntryType::Regular);
    header.set_cksum();
    archive.append(&header, content.take(bytes))
}

/// Reads an archive to its end and sees that all of it is there.
///
/// # Errors
/// [`BackupError::Damaged`] says what is not.
pub fn verify(archive: impl Read, progress: &Progress) -> Result<()> {
    read(archive, progress, &mut |_, content| {
        io::copy(content, &mut io::sink()).map(|_| ())
    })
}

/// Reads an archive and hands over each file of the data directory by its
/// name. What was handed over is worth something only if this returns `Ok`.
///
/// # Errors
/// [`BackupError::Damaged`], [`BackupError::Newer`], or what `each` said.
pub(super) fn read(
    archive: impl Read,
    progress: &Progress,
    each: &mut dyn FnMut(&str, &mut dyn Read) -> io::Result<()>,
) -> Result<()> {
    let broken = |error: io::Error| given_up(progress, "reading a backup", error);
    // What the tar reader complains about is damage.
    let damage = |error: io::Error| match progress.cancelled.load(Ordering::Acquire) {
        true => BackupError::Stopping,
        false => damaged(error.to_string()),
    };
    let mut archive = tar::Archive::new(BufReader::with_capacity(BUFFER_BYTES, archive));
    let mut sums = String::new();
    let mut about: Option<About> = None;
    let (mut files, mut bytes) = (0usize, 0u64);
    let mut is_whole = false;
    for entry in archive.entries().map_err(broken)? {
        let mut entry = entry.map_err(|error| match (&about, damage(error)) {
            (None, BackupError::Damaged { what }) => damaged(format!("{NO_BACKUP} ({what})")),
            (_, error) => error,
        })?;
        if is_whole {
            return Err(damaged(format!("something follows {SUMS}")));
        }
        let header = entry.header();
        let size = entry.size();
        let is_plain = header.as_ustar().is_some() && header.entry_type() == EntryType::Regular;
        let name = std::str::from_utf8(&entry.path_bytes())
            .unwrap_or_default()
            .to_owned();
        if !is_plain {
            return Err(damaged(format!("{name:?} is no plain file")));
        }
        let mut content = Summed::of(&mut entry, progress);
        let mut text = Vec::new();
        match &about {
            None => {
                if name != ABOUT || size > MAX_ABOUT_BYTES {
                    return Err(damaged(format!("{ABOUT} does not come first")));
                }
                content.read_to_end(&mut text).map_err(damage)?;
                about = Some(read_about(&text)?);
            }
            Some(told) if name == SUMS => {
                if size > MAX_SUMS_BYTES {
                    return Err(damaged(format!("{SUMS} is too long")));
                }
                content.read_to_end(&mut text).map_err(damage)?;
                check_sums(&text, &sums)?;
                if (files, bytes) != (told.files, told.bytes) {
                    return Err(damaged("there are not as many files as it says"));
                }
                is_whole = true;
            }
            Some(_) => {
                let Some(file) = name.strip_prefix(DATA).filter(|name| is_file_name(name)) else {
                    return Err(damaged(format!("{name:?} does not belong there")));
                };
                files += 1;
                if files > MAX_FILES {
                    return Err(damaged("it has too many files"));
                }
                each(file, &mut content).map_err(broken)?;
                if content.bytes != size {
                    return Err(damaged(format!("{name} ends early")));
                }
                bytes = bytes.saturating_add(size);
            }
        }
        content.append_sum(&mut sums, &name);
    }
    match is_whole {
        true => Ok(()),
        false => Err(damaged(format!("it ends without {SUMS}: it was cut off"))),
    }
}

fn read_about(text: &[u8]) -> Result<About> {
    #[derive(Deserialize)]
    struct Version {
        format: u64,
    }
    let nonsense = |_| damaged(format!("{ABOUT} makes no sense"));
    let version: Version = serde_json::from_slice(text).map_err(nonsense)?;
    match version.format {
        ARCHIVE_VERSION => serde_json::from_slice(text).map_err(nonsense),
        0 => Err(damaged(format!("{ABOUT} makes no sense"))),
        found => Err(BackupError::Newer {
            found,
            supported: ARCHIVE_VERSION,
        }),
    }
}

/// Compares the sums that are listed with those that were found.
fn check_sums(listed: &[u8], found: &str) -> Result<()> {
    if listed == found.as_bytes() {
        return Ok(());
    }
    let listed = String::from_utf8_lossy(listed);
    let other = found
        .lines()
        .zip(listed.lines().chain(std::iter::repeat("")))
        .find(|(found, listed)| found != listed);
    let what = other.and_then(|(found, _)| found.get(66..)).unwrap_or(SUMS);
    Err(damaged(format!(
        "the SHA-256 of {what} is not the one in {SUMS}"
    )))
}

/// A name that leads nowhere but into the directory it is put into.
fn is_file_name(name: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'-' | b'_');
    !name.is_empty() && name.len() <= 80 && name.bytes().all(plain) && !name.starts_with('.')
}

/// A file that is summed up while it is read.
struct Summed<'a, R> {
    inner: R,
    sum: Sha256,
    bytes: u64,
    progress: &'a Progress,
}

impl<R: Read> Summed<'_, R> {
    fn of(inner: R, progress: &Progress) -> Summed<'_, R> {
        Summed {
            inner,
            sum: Sha256::new(),
            bytes: 0,
            progress,
        }
    }

    /// Adds the line of this file to the list of sums.
    fn append_sum(self, sums: &mut String, name: &str) {
        sums.push_str(&format!("{}  {name}\n", hex::encode(self.sum.finalize())));
    }
}

impl<R: Read> Read for Summed<'_, R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.progress.cancelled.load(Ordering::Acquire) {
            return Err(io::Error::other("given up"));
        }
        let length = self.inner.read(buffer)?;
        self.sum.update(buffer.get(..length).unwrap_or_default());
        self.bytes += length as u64;
        self.progress
            .bytes
            .fetch_add(length as u64, Ordering::AcqRel);
        Ok(length)
    }
}

fn damaged(what: impl Into<String>) -> BackupError {
    BackupError::Damaged { what: what.into() }
}

fn given_up(progress: &Progress, doing: &'static str, error: io::Error) -> BackupError {
    match (progress.cancelled.load(Ordering::Acquire), error.kind()) {
        (true, _) => BackupError::Stopping,
        (false, io::ErrorKind::UnexpectedEof) => damaged("it ends early"),
        (false, _) => BackupError::io(doing, error),
    }
}

#[cfg(test)]
mod tests;
