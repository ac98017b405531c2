//! What is kept beside filters: answers for retries, and imports.

use super::envelope::{Kind, corrupt, open, seal, text};
use crate::page::FilterId;
use crate::store::error::StoreError;
use crate::store::values::{KeyTotals, SideRecord, SideRecordKey, SideRecordTotals};
use std::sync::Arc;

/// What a side record is about, its key's first byte.
const SIDE_RECORD_RETRY: u8 = 1;
const SIDE_RECORD_IMPORT: u8 = 2;

pub(in crate::store) fn side_record_key(key: &SideRecordKey) -> Vec<u8> {
    match key {
        SideRecordKey::Retry(digest) => {
            let mut key = vec![SIDE_RECORD_RETRY];
            key.extend_from_slice(digest);
            key
        }
        SideRecordKey::Import { filter, import } => {
            let mut key = vec![SIDE_RECORD_IMPORT];
            key.extend_from_slice(&filter.0.to_be_bytes());
            key.extend_from_slice(import.as_bytes());
            key
        }
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

pub(in crate::store) fn seal_side_record(key: &[u8], record: &SideRecord) -> Vec<u8> {
    let mut payload = Vec::with_capacity(8 + record.payload.len());
    payload.extend_from_slice(&record.ends_at_ms.to_le_bytes());
    let owner = record.owner.as_deref();
    let Some((owner, length)) = owner.and_then(|it| Some((it, u8::try_from(it.len()).ok()?)))
    else {
        payload.extend_from_slice(&record.payload);
        return seal(Kind::SideRecord, key, &payload);
    };
    payload.push(length);
    payload.extend_from_slice(owner.as_bytes());
    payload.extend_from_slice(&record.payload);
    seal(Kind::OwnedSideRecord, key, &payload)
}

pub(in crate::store) fn open_side_record(
    key: &[u8],
    value: &[u8],
) -> Result<SideRecord, StoreError> {
    let what = || "a side record".to_owned();
    let is_owned = value.get(1) == Some(&(Kind::OwnedSideRecord as u8));
    let kind = match is_owned {
        true => Kind::OwnedSideRecord,
        false => Kind::SideRecord,
    };
    let short = || corrupt(what(), "it is too short");
    let payload = open(kind, key, value, what)?;
    let (&ends_at_ms, mut payload) = payload.split_first_chunk().ok_or_else(short)?;
    let mut owner = None;
    if is_owned {
        let (&length, rest) = payload.split_first().ok_or_else(short)?;
        let (name, rest) = rest
            .split_at_checked(usize::from(length))
            .ok_or_else(short)?;
        let name = text(name).ok_or_else(|| corrupt(what(), "its owner is no text"))?;
        (owner, payload) = (Some(Arc::from(name)), rest);
    }
    Ok(SideRecord {
        ends_at_ms: u64::from_le_bytes(ends_at_ms),
        owner,
        payload: payload.to_vec(),
    })
}

/// Counts one more side record.
pub(in crate::store) fn count_side_record(
    totals: &mut SideRecordTotals,
    key: &[u8],
    value: &[u8],
) -> Result<(), StoreError> {
    let record = open_side_record(key, value)?;
    let mut nobody = KeyTotals::default();
    let of_key = match &record.owner {
        Some(owner) => totals.of_keys.entry(Arc::clone(owner)).or_default(),
        None => &mut nobody,
    };
    match read_side_record_key(key) {
        Some(SideRecordKey::Retry(_)) => {
            totals.retry_bytes += record.bytes();
            of_key.retry_bytes += record.bytes();
        }
        Some(SideRecordKey::Import { .. }) => {
            totals.imports += 1;
            of_key.imports += 1;
        }
        None => return Err(corrupt("a side record".to_owned(), "its key names nothing")),
    }
    Ok(())
}
