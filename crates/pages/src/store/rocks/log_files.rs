//! Whether RocksDB's write-ahead log and manifest are whole, and up to which write.
//!
//! RocksDB ends its replay at the first record of the write-ahead log that is not
//! whole, as a power cut leaves one: nothing behind it was forced to the disk. Where
//! all records are whole, their end is known without opening the database.

use crate::store::error::{Result, StoreError};
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

/// The last write in the log, if every file of it and the manifest are whole to
/// their last bytes; 0: there is none in it.
///
/// # Errors
/// The files can't be read.
pub(super) fn whole_up_to(path: &Path) -> Result<Option<u64>> {
    let look = || {
        let mut last = 0;
        for file in files(path)? {
            let Some(write) = last_write_of(File::open(&file)?)? else {
                return Ok(None);
            };
            if number_of(&file).is_some() {
                last = last.max(write);
            }
        }
        Ok(Some(last))
    };
    look().map_err(|error: io::Error| StoreError::io("reading the write-ahead log", error))
}

/// The files of the log with their numbers, in their order.
pub(super) fn numbered(path: &Path) -> io::Result<Vec<(PathBuf, u64)>> {
    let files = files(path)?.into_iter();
    Ok(files
        .filter_map(|file| number_of(&file).map(|number| (file, number)))
        .collect())
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

/// The last write in a file whose records are whole.
fn last_write_of(mut file: impl Read) -> io::Result<Option<u64>> {
    let (mut block, mut last) = (Vec::with_capacity(BLOCK_BYTES), 0);
    loop {
        block.clear();
        let part = file.by_ref().take(BLOCK_BYTES as u64);
        let length = { part }.read_to_end(&mut block)?;
        match last_write_in(&block) {
            Some(write) => last = last.max(write),
            None => return Ok(None),
        }
        if length < BLOCK_BYTES {
            return Ok(Some(last));
        }
    }
}

/// The same in a block.
fn last_write_in(mut block: &[u8]) -> Option<u64> {
    let mut last = 0;
    while let Some(&[c0, c1, c2, c3, l0, l1, _]) = block.first_chunk::<HEADER_BYTES>() {
        let behind = HEADER_BYTES + usize::from(u16::from_le_bytes([l0, l1]));
        let (record, rest) = block.split_at_checked(behind)?;
        let summed = record.get(HEADER_BYTES - 1..)?;
        // RocksDB masks checksums that it stores.
        let sum = crc32c::crc32c(summed).rotate_right(15);
        if sum.wrapping_add(0xa282_ead8) != u32::from_le_bytes([c0, c1, c2, c3]) {
            return None;
        }
        last = last.max(last_write(summed));
        block = rest;
    }
    Some(last)
}

/// The number of the last write in the batch that begins with a record, of its type and
/// its content; 0 if none does. A batch says the number of its first write, and how many
/// there are.
fn last_write(record: &[u8]) -> u64 {
    match record.split_first() {
        Some((&(FULL | FIRST), batch)) => {
            let first = batch.first_chunk().map_or(0, |it| u64::from_le_bytes(*it));
            let count = batch.get(8..).and_then(|rest| rest.first_chunk());
            let count = count.map_or(0, |it| u64::from(u32::from_le_bytes(*it)));
            first.saturating_add(count.saturating_sub(1))
        }
        _ => 0,
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
    fn a_log_with_any_flipped_bit_or_cut_within_a_record_is_not_whole() {
        let mut log = record(&[7; 100]);
        log.extend(record(&(0..200).map(|at| at as u8 | 1).collect::<Vec<_>>()));
        assert!(last_write_in(&log).is_some());
        for bit in 0..8 * log.len() {
            let mut flipped = log.clone();
            flipped[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(last_write_in(&flipped), None, "bit {bit}");
        }
        // Less than a header is the end of a block.
        for length in HEADER_BYTES..107 {
            assert_eq!(last_write_in(&log[..length]), None, "{length}");
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
        assert_eq!(last_write_in(&log), Some(12));
        // As RocksDB begins a log, after the end of another was torn off.
        assert_eq!(last_write_in(&record(&batch(12, 0))), Some(12));
        assert_eq!(last_write_in(&[]), Some(0));
    }

    #[test]
    fn a_log_with_sectors_that_were_never_written_is_not_whole() {
        let mut log = record(&[7; 3000]);
        log.extend(record(&[8; 3000]));
        log[3584..4096].fill(0);
        assert_eq!(last_write_in(&log), None);
        let mut log = record(&[7; 3000]);
        log.resize(BLOCK_BYTES, 0);
        assert_eq!(last_write_in(&log), None);
    }
}
