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

/// Whether every file is whole to its last byte.
///
/// # Errors
/// The files can't be read.
pub(super) fn are_whole(path: &Path) -> Result<bool, StoreError> {
    let found = look(path).map_err(reading)?;
    Ok(found.iter().all(|(_, found)| *found == Found::Whole))
}

fn reading(error: io::Error) -> StoreError {
    StoreError::Io {
        doing: "reading the write-ahead log",
        source: error.into(),
    }
}

/// Reads the files of a directory, in their order.
fn look(path: &Path) -> io::Result<Vec<(PathBuf, Found)>> {
    let mut files = Vec::new();
    for entry in fs::read_dir(path)? {
        let file = entry?.path();
        let name = file.file_name().unwrap_or_default().to_string_lossy();
        let is_log = name
            .strip_suffix(".log")
            .is_some_and(|number| number.bytes().all(|byte| byte.is_ascii_digit()));
        if is_log || name.starts_with("MANIFEST-") {
            files.push(file);
        }
    }
    files.sort();
    let look = |file: PathBuf| {
        let found = File::open(&file).and_then(look_through)?;
        Ok((file, found))
    };
    files.into_iter().map(look).collect()
}

/// What is in a file up to the place at which RocksDB ends.
fn look_through(mut file: impl Read) -> io::Result<Found> {
    let (mut block, mut first) = (Vec::with_capacity(BLOCK_BYTES), 0);
    loop {
        block.clear();
        let part = file.by_ref().take(BLOCK_BYTES as u64);
        let length = { part }.read_to_end(&mut block)?;
        match look_at(&block) {
            Found::Damage(at) => return Ok(Found::Damage(first + at)),
            Found::End => return Ok(Found::End),
            Found::Whole if length < BLOCK_BYTES => return Ok(Found::Whole),
            Found::Whole => first += length,
        }
    }
}

/// What is in a block, or a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Found {
    /// Records that are whole.
    Whole,
    /// One that was not written to its end: the log ends there.
    End,
    /// One that was, and is not as it was written.
    Damage(usize),
}

fn look_at(block: &[u8]) -> Found {
    let mut at = 0;
    while let Some(record) = block.get(at..).and_then(Record::read) {
        if record.is_whole(record.length) {
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
    Found::Whole
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
        assert_eq!(look_at(&log), Found::Whole);
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
