//! The redo log.

use super::envelope::{Kind, open};
use super::keys::sequence_in;
use crate::page::Sequence;
use crate::store::error::{Result, StoreError};
use crate::store::kv::KeyRange;

pub(in crate::store) fn log_key(sequence: Sequence) -> [u8; 8] {
    sequence.0.to_be_bytes()
}

pub(in crate::store) fn log_sequence(key: &[u8]) -> Result<Sequence> {
    let nonsense = || StoreError::corrupt("the redo log", "a key in it is no sequence");
    sequence_in(key).ok_or_else(nonsense)
}

/// The records below `before`, from `lowest` on.
pub(in crate::store) fn log_below(lowest: Sequence, before: Sequence) -> KeyRange {
    KeyRange::new(log_key(lowest), log_key(before))
}

pub(in crate::store) fn open_redo(sequence: Sequence, value: &[u8]) -> Result<&[u8]> {
    open(Kind::Redo, &log_key(sequence), value)
}
