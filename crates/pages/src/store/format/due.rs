//! The list of what ends, by time.

use super::envelope::{Kind, open};
use super::keys::{LONGEST_KEY_BYTES, keys_under};
use super::side_records::{read_side_record_key, side_record_key};
use crate::page::FilterId;
use crate::store::error::{Result, StoreError};
use crate::store::kv::KeyRange;
use crate::store::values::Due;

/// What an entry of the list of ends is about, the byte behind its time.
const DUE_FILTER: u8 = 1;
const DUE_SIDE_RECORD: u8 = 2;

pub(in crate::store) fn due_key(due: &Due) -> Vec<u8> {
    let (at_ms, about, name) = match due {
        Due::Filter { at_ms, id } => (at_ms, DUE_FILTER, id.0.to_be_bytes().to_vec()),
        Due::SideRecord { at_ms, key } => (at_ms, DUE_SIDE_RECORD, side_record_key(key)),
    };
    [&at_ms.to_be_bytes()[..], &[about], &name].concat()
}

/// The entries from one moment to another, both included.
pub(in crate::store) fn due_between(from_ms: u64, until_ms: u64) -> KeyRange {
    let until = keys_under(&until_ms.to_be_bytes(), LONGEST_KEY_BYTES);
    KeyRange::new(from_ms.to_be_bytes(), until.to)
}

pub(in crate::store) fn read_due(key: &[u8], value: &[u8]) -> Result<Due> {
    open(Kind::Due, key, value)?;
    let nonsense = || StoreError::corrupt("the list of what ends", "an entry names nothing");
    let (&at_ms, rest) = key.split_first_chunk().ok_or_else(nonsense)?;
    let at_ms = u64::from_be_bytes(at_ms);
    match rest.split_first() {
        Some((&DUE_FILTER, id)) => {
            let id = id.try_into().map_err(|_| nonsense())?;
            let id = FilterId(u64::from_be_bytes(id));
            Ok(Due::Filter { at_ms, id })
        }
        Some((&DUE_SIDE_RECORD, key)) => {
            let key = read_side_record_key(key).ok_or_else(nonsense)?;
            Ok(Due::SideRecord { at_ms, key })
        }
        _ => Err(nonsense()),
    }
}
