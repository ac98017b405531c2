//! The redo log.

use super::envelope::{Kind, corrupt, open, seal};
use crate::page::Sequence;
use crate::store::error::StoreError;
use crate::store::kv::KeyRange;

pub(in crate::store) fn log_key(sequence: Sequence) -> [u8; 8] {
    sequence.0.to_be_bytes()
}

pub(in crate::store) fn log_sequence(key: &[u8]) -> Result<Sequence, StoreError> {
    let key = <[u8; 8]>::try_from(key)
        .map_err(|_| corrupt("the redo log".to_owned(), "a key in it is no sequence"))?;
    Ok(Sequence(u64::from_be_bytes(key)))
}

/// The records below `before`, from `lowest` on.
pub(in crate::store) fn log_below(lowest: Sequence, before: Sequence) -> KeyRange {
    KeyRange {
        from: log_key(lowest).to_vec(),
        to: log_key(before).to_vec(),
    }
}

/// Names a redo record, as errors do.
pub(super) fn record_name(sequence: Sequence) -> String {
    format!("redo record {}", sequence.0)
}

pub(in crate::store) fn seal_redo(sequence: Sequence, redo: &[u8]) -> Vec<u8> {
    seal(Kind::Redo, &log_key(sequence), redo)
}

pub(in crate::store) fn open_redo(sequence: Sequence, value: &[u8]) -> Result<&[u8], StoreError> {
    open(Kind::Redo, &log_key(sequence), value, || {
        record_name(sequence)
    })
}
