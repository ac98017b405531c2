//! What RocksDB's errors mean. It tells some of that in words alone.

use crate::store::error::StoreError;
use rocksdb::{Error, ErrorKind};

/// How RocksDB says that a disk, or a share of it, is full: it tells no code.
const FULL_DISK: [&str; 2] = ["No space left on device", "Disk quota exceeded"];

pub(super) fn failed(doing: &'static str, error: &Error) -> StoreError {
    not_stored(doing, one_line(error))
}

/// The same, of what the system said.
pub(super) fn not_stored(doing: &'static str, said: String) -> StoreError {
    match says_full(&said) {
        true => StoreError::no_space(doing, said),
        false => StoreError::io(doing, said),
    }
}

pub(super) fn says_full(said: &str) -> bool {
    FULL_DISK.iter().any(|words| said.contains(words))
}

/// RocksDB has checksums of its own; what they catch is corrupt, too.
pub(super) fn unreadable(
    doing: &'static str,
    what: impl FnOnce() -> String,
    error: &Error,
) -> StoreError {
    match error.kind() {
        ErrorKind::Corruption => StoreError::corrupt(what(), one_line(error)),
        _ => failed(doing, error),
    }
}

pub(super) fn one_line(error: &Error) -> String {
    let text: &str = error.as_ref();
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}
