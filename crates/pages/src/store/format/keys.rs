//! Ranges of keys, and what keys name.

use crate::page::{FilterId, Ordinal, PageId, Sequence};
use crate::store::kv::KeyRange;

/// No key is longer.
pub(super) const LONGEST_KEY_BYTES: usize = 255;

/// All keys of a column.
pub(in crate::store) fn all_keys() -> KeyRange {
    keys_under(&[], LONGEST_KEY_BYTES)
}

/// All keys that start with `prefix` and are up to `longest` bytes long.
pub(super) fn keys_under(prefix: &[u8], longest: usize) -> KeyRange {
    let mut to = prefix.to_vec();
    // One byte more than any key has sorts behind all of them.
    to.resize(longest.max(prefix.len()) + 1, 0xff);
    KeyRange::new(prefix, to)
}

pub(super) const PAGE_KEY_BYTES: usize = 16;
pub(super) const SUB_FILTER_BYTES: usize = 12;
pub(super) const FILTER_ID_BYTES: usize = 8;

/// The filter that a key begins with.
pub(super) fn filter_in(key: &[u8]) -> Option<FilterId> {
    let id = key.first_chunk()?;
    Some(FilterId(u64::from_be_bytes(*id)))
}

pub(super) fn page_in(key: &[u8]) -> Option<PageId> {
    let number = u128::from_be_bytes(key.try_into().ok()?);
    let filter = FilterId((number >> 64) as u64);
    let ordinal = Ordinal((number >> 32) as u32);
    Some(PageId::new(filter, ordinal, number as u32))
}

pub(super) fn sequence_in(key: &[u8]) -> Option<Sequence> {
    Some(Sequence(u64::from_be_bytes(key.try_into().ok()?)))
}

/// Names a redo record, as errors do.
pub(super) fn record_name(sequence: Sequence) -> String {
    format!("redo record {}", sequence.0)
}
