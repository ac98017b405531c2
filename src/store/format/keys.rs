//! Ranges of keys.

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
    KeyRange {
        from: prefix.to_vec(),
        to,
    }
}

pub(super) const PAGE_KEY_BYTES: usize = 16;
pub(super) const SUB_FILTER_BYTES: usize = 12;
pub(super) const FILTER_ID_BYTES: usize = 8;
