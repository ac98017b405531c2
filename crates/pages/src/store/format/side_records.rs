//! What is kept beside filters: answers for retries, and imports.

use super::envelope::{Kind, open_value, text};
use crate::page::FilterId;
use crate::store::error::{Result, StoreError};
use crate::store::kv::KeyRange;
use crate::store::values::{KeyTotals, SideRecord, SideRecordKey, SideRecordTotals};
use std::sync::Arc;

/// What a side record is about, its key's first byte.
const SIDE_RECORD_RETRY: u8 = 1;
const SIDE_RECORD_IMPORT: u8 = 2;

pub(in crate::store) fn side_record_key(key: &SideRecordKey) -> Vec<u8> {
    match key {
        SideRecordKey::Retry(digest) => [&[SIDE_RECORD_RETRY][..], digest].concat(),
        SideRecordKey::Import { filter, import } => {
            let (about, filter) = ([SIDE_RECORD_IMPORT], filter.0.to_be_bytes());
            [&about[..], &filter, import.as_bytes()].concat()
        }
    }
}

/// The keys of imports into a filter whose names are greater than `after`.
pub(in crate::store) fn imports_after(filter: FilterId, after: &str) -> KeyRange {
    let key_of = |filter, import| side_record_key(&SideRecordKey::Import { filter, import });
    let mut from = key_of(filter, after.to_owned());
    // The smallest key behind it.
    from.push(0);
    let to = key_of(FilterId(filter.0 + 1), String::new());
    KeyRange::new(from, to)
}

/// The name of an import, and what is recorded of it.
pub(in crate::store) fn read_import(key: &[u8], value: &[u8]) -> Result<(String, SideRecord)> {
    match read_side_record_key(key) {
        Some(SideRecordKey::Import { import, .. }) => {
            Ok((import, open_value(Kind::SideRecord, key, value)?))
        }
        _ => Err(StoreError::corrupt(
            "a side record",
            "its key names no import",
        )),
    }
}

pub(in crate::store) fn read_side_record_key(key: &[u8]) -> Option<SideRecordKey> {
    match key.split_first()? {
        (&SIDE_RECORD_RETRY, digest) => digest.try_into().ok().map(SideRecordKey::Retry),
        (&SIDE_RECORD_IMPORT, rest) => {
            let (&filter, import) = rest.split_first_chunk()?;
            Some(SideRecordKey::Import {
                filter: FilterId(u64::from_be_bytes(filter)),
                import: text(import)?,
            })
        }
        _ => None,
    }
}

/// Counts one more side record.
pub(in crate::store) fn count_side_record(
    totals: &mut SideRecordTotals,
    key: &[u8],
    value: &[u8],
) -> Result {
    let record: SideRecord = open_value(Kind::SideRecord, key, value)?;
    let mut nobody = KeyTotals::default();
    let of_key = match &record.owner {
        Some(owner) => totals.of_keys.entry(Arc::clone(owner)).or_default(),
        None => &mut nobody,
    };
    match read_side_record_key(key) {
        Some(SideRecordKey::Retry(_)) => {
            totals.retry_bytes += record.bytes();
            let ends = totals.retry_ends.entry(record.owner.clone()).or_default();
            *ends.entry(record.end_second()).or_default() += record.bytes();
            of_key.retry_bytes += record.bytes();
        }
        Some(SideRecordKey::Import { .. }) => {
            totals.imports += 1;
            of_key.imports += 1;
        }
        None => {
            return Err(StoreError::corrupt(
                "a side record",
                "its key names nothing",
            ));
        }
    }
    Ok(())
}
