//! Whether RocksDB's write-ahead log and manifest are whole.
//!
//! RocksDB ends its replay at the first record of the write-ahead log that is not
//! whole, as a power cut leaves one: nothing behind it was forced to the disk.
//! But a bit that a disk has flipped looks the same to it, and then changes that
//! were acknowledged would be lost without a word. The two differ: what a power
//! cut leaves ends early, or has a sector that was never written. A record that
//! is there to its last byte and does not match its checksum is damage, as far as
//! can be known: for a check of a directory, which changes nothing, and not for a
//! start, which must go on after a power cut.

use crate::store::error::StoreError;
use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};

/// Records lie in blocks of so many bytes and never cross their ends.
const BLOCK_BYTES: usize = 32 << 10;

/// Checksum, length and type. (Where files are recycled, which they are not here,
/// the number of the file follows.)
const HEADER_BYTES: usize = 7;

/// Types of records: a batch of writes in one, and the first of several.
const FULL: u8 = 1;
const FIRST: u8 = 2;

/// What a disk writes as a whole.
const SECTOR_BYTES: usize = 512;

/// # Errors
/// [`StoreError::Corrupt`] names file and place; or the files can't be read.
pub(super) fn check(path: &Path) -> Result<(), StoreError> {
    for (file, found) in look(path).map_err(reading)? {
        if let Found::Damage(byte) = found {
            let name = file.file_name().unwrap_or_default().to_string_lossy();
            return Err(StoreError::Corrupt {
                what: format!("data directory {}", path.display()),
                reason: format!(
                    "{name} has a damaged record at byte {byte}, and changes that were acknowledged may be lost with it: restore a backup"
                ),
            });
        }
    }
    Ok(())
}

/// The last write in the log, if every file of it and the manifest are whole to
/// their last bytes; 0: there is none in it.
///
/// # Errors
/// The files can't be read.
pub(super) fn whole_up_to(path: &Path) -> Result<Option<u64>, StoreError> {
    let mut last = 0;
    for (file, found) in look(path).map_err(reading)? {
        match found {
            Found::Whole(write) if number_of(&file).is_some() => last = last.max(write),
            Found::Whole(_) => {}
            Found::End | Found::Damage(_) => return Ok(None),
        }
    }
    Ok(Some(last))
}

/// The files of the log with their numbers, in their order.
pub(super) fn numbered(path: &Path) -> io::Result<Vec<(PathBuf, u64)>> {
    let files = files(path)?.into_iter();
    Ok(files
        .filter_map(|file| number_of(&file).map(|number| (file, number)))
        .collect())
}

fn reading(error: io::Error) -> StoreError {
    StoreError::Io {
        doing: "reading the write-ahead log",
        source: error.into(),
    }
}

/// Reads the files of a directory, in their order.
fn look(path: &Path) -> io::Result<Vec<(PathBuf, Found)>> {
    let look = |file: PathBuf| {
        let found = File::open(&file).and_then(look_through)?;
        Ok((file, found))
    };
    files(path)?.into_iter().map(look).collect()
}

fn files(path: &Path) -> io::Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    for entry in fs::read_dir(path)? {
        let file = entry?.path();
        let name = file.file_name().unwrap_or_default().to_string_lossy();
        if number_of(&file).is_some() || name.starts_with("MANIFEST-") {
            files.push(file);
        }
    }
    files.sort();
    Ok(files)
}

/// The number of a file of the write-ahead log.
fn number_of(file: &Path) -> Option<u64> {
    let name = file.file_name()?.to_str()?;
    let number = name.strip_suffix(".log")?;
    let is_number = number.bytes().all(|byte| byte.is_ascii_digit());
    is_number.then(|| number.parse().ok())?
}

/// What is in a file up to the place at which RocksDB ends.
fn look_through(mut file: impl Read) -> io::Result<Found> {
    let (mut block, mut first) = (Vec::with_capacity(BLOCK_BYTES), 0);
    let mut last = 0;
    loop {
        block.clear();
        let part = file.by_ref().take(BLOCK_BYTES as u64);
        let length = { part }.read_to_end(&mut block)?;
        match look_at(&block) {
            Found::Damage(at) => return Ok(Found::Damage(first + at)),
            Found::End => return Ok(Found::End),
            Found::Whole(write) => last = last.max(write),
        }
        if length < BLOCK_BYTES {
            return Ok(Found::Whole(last));
        }
        first += length;
    }
}

/// What is in a block, or a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Found {
    /// Records that are whole, and the last write in them where they are a log's.
    Whole(u64),
    /// One that was not written to its end: the log ends there.
    End,
    /// One that was, and is not as it was written.
    Damage(usize),
}

fn look_at(block: &[u8]) -> Found {
    let (mut at, mut last) = (0, 0);
    while let Some(record) = block.get(at..).and_then(Record::read) {
        if record.is_whole(record.length) {
            last = last.max(record.last_write());
            at += HEADER_BYTES + record.length;
            continue;
        }
        let end = (at + HEADER_BYTES + record.length).min(block.len());
        let is_short = record.bytes.len() < HEADER_BYTES + record.length;
        let length_has_flipped = (0..16).any(|bit| record.is_whole(record.length ^ 1 << bit));
        return if length_has_flipped {
            Found::Damage(at)
        } else if has_hole(block, at, end) || is_short && block.len() < BLOCK_BYTES {
            Found::End
        } else {
            Found::Damage(at)
        };
    }
    Found::Whole(last)
}

/// Whether a sector that these bytes lie in was never written.
fn has_hole(block: &[u8], from: usize, to: usize) -> bool {
    let sectors = block.chunks(SECTOR_BYTES).enumerate();
    let concerned = sectors.filter(|&(number, _)| {
        let first = number * SECTOR_BYTES;
        first < to && first + SECTOR_BYTES > from
    });
    concerned.into_iter().any(|(number, sector)| {
        // What was there before this record was written with it.
        let written = from.saturating_sub(number * SECTOR_BYTES);
        let rest = sector.get(written..).unwrap_or_default();
        rest.iter().all(|&byte| byte == 0)
    })
}

/// A record, as far as the block has it.
struct Record<'a> {
    bytes: &'a [u8],
    checksum: u32,
    length: usize,
}

impl<'a> Record<'a> {
    /// The one at the beginning; `None` where there is no room for one.
    fn read(bytes: &'a [u8]) -> Option<Record<'a>> {
        let &[c0, c1, c2, c3, l0, l1, _] = bytes.first_chunk::<HEADER_BYTES>()?;
        Some(Record {
            bytes,
            checksum: u32::from_le_bytes([c0, c1, c2, c3]),
            length: usize::from(u16::from_le_bytes([l0, l1])),
        })
    }

    /// The number of the last write in the batch that begins with it, 0 if none
    /// does: a batch says the number of its first write, and how many there are.
    fn last_write(&self) -> u64 {
        let content = self.bytes.get(HEADER_BYTES - 1..HEADER_BYTES + self.length);
        match content.and_then(|it| it.split_first()) {
            Some((&(FULL | FIRST), batch)) => {
                let first = batch.first_chunk().map_or(0, |it| u64::from_le_bytes(*it));
                let count = batch.get(8..).and_then(|rest| rest.first_chunk());
                let count = count.map_or(0, |it| u64::from(u32::from_le_bytes(*it)));
                first.saturating_add(count.saturating_sub(1))
            }
            _ => 0,
        }
    }

    /// Whether it matches its checksum, were it so long.
    fn is_whole(&self, length: usize) -> bool {
        let summed = self.bytes.get(HEADER_BYTES - 1..HEADER_BYTES + length);
        summed.is_some_and(|summed| {
            let sum = crc32c::crc32c(summed);
            // RocksDB masks checksums that it stores.
            let masked = sum.rotate_right(15).wrapping_add(0xa282_ead8);
            masked == self.checksum
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(payload: &[u8]) -> Vec<u8> {
        let mut summed = vec![1];
        summed.extend_from_slice(payload);
        let sum = crc32c::crc32c(&summed);
        let masked = sum.rotate_right(15).wrapping_add(0xa282_ead8);
        let mut bytes = masked.to_le_bytes().to_vec();
        bytes.extend_from_slice(&(payload.len() as u16).to_le_bytes());
        bytes.extend_from_slice(&summed);
        bytes
    }

    #[test]
    fn every_flipped_bit_is_damage_and_every_cut_is_the_end() {
        let mut log = record(&[7; 100]);
        log.extend(record(&(0..200).map(|at| at as u8 | 1).collect::<Vec<_>>()));
        assert!(matches!(look_at(&log), Found::Whole(_)));
        for bit in 0..8 * log.len() {
            let mut flipped = log.clone();
            flipped[bit / 8] ^= 1 << (bit % 8);
            let first = if bit / 8 < 107 { 0 } else { 107 };
            assert_eq!(look_at(&flipped), Found::Damage(first), "bit {bit}");
        }
        for length in 0..log.len() {
            let found = look_at(&log[..length]);
            assert!(!matches!(found, Found::Damage(_)), "{length}: {found:?}");
        }
    }

    #[test]
    fn the_last_write_is_that_of_the_last_batch() {
        let batch = |first: u64, count: u32| {
            let mut batch = first.to_le_bytes().to_vec();
            batch.extend_from_slice(&count.to_le_bytes());
            batch
        };
        let log = [record(&batch(7, 1)), record(&batch(8, 5))].concat();
        assert_eq!(look_at(&log), Found::Whole(12));
        // As RocksDB begins a log, after the end of another was torn off.
        assert_eq!(look_at(&record(&batch(12, 0))), Found::Whole(12));
        assert_eq!(look_at(&[]), Found::Whole(0));
    }

    #[test]
    fn sectors_that_were_never_written_are_the_end() {
        let mut log = record(&[7; 3000]);
        log.extend(record(&[8; 3000]));
        log[3584..4096].fill(0);
        assert_eq!(look_at(&log), Found::End);
        let mut log = record(&[7; 3000]);
        log.resize(BLOCK_BYTES, 0);
        assert_eq!(look_at(&log), Found::End);
    }
}
