//! What is kept of a filter: its name, its description, when it ends, whose it is.

use super::envelope::{Kind, corrupt, number, open, seal, text};
use super::keys::{FILTER_ID_BYTES, LONGEST_KEY_BYTES, all_keys, keys_under};
use crate::page::FilterId;
use crate::store::error::StoreError;
use crate::store::kv::KeyRange;
use crate::store::values::{Expiry, StoredFilter};

/// The names that start with `prefix` and come after `after`.
pub(in crate::store) fn names_after(prefix: &str, after: Option<&str>) -> KeyRange {
    let mut keys = keys_under(prefix.as_bytes(), LONGEST_KEY_BYTES);
    if let Some(after) = after.filter(|after| *after >= prefix) {
        keys.from = after.as_bytes().to_vec();
        // The smallest key behind it.
        keys.from.push(0);
    }
    keys
}

pub(in crate::store) fn filter_name_key(id: FilterId) -> [u8; 9] {
    filter_key(id, 0)
}

pub(in crate::store) fn filter_meta_key(id: FilterId) -> [u8; 9] {
    filter_key(id, 1)
}

pub(in crate::store) fn filter_expiry_key(id: FilterId) -> [u8; 9] {
    filter_key(id, 2)
}

/// All that is kept of the filters from one on.
pub(in crate::store) fn filters_from(id: FilterId) -> KeyRange {
    KeyRange {
        from: id.0.to_be_bytes().to_vec(),
        to: all_keys().to,
    }
}

/// The filter of a key of [`Column::Filters`].
pub(in crate::store) fn filter_of(key: &[u8]) -> Result<FilterId, StoreError> {
    let nonsense = || corrupt("the list of filters".to_owned(), "a key is no filter");
    let id = key.first_chunk().ok_or_else(nonsense)?;
    Ok(FilterId(u64::from_be_bytes(*id)))
}

pub(in crate::store) fn filter_owner_key(id: FilterId) -> [u8; 9] {
    filter_key(id, 3)
}

fn filter_key(id: FilterId, part: u8) -> [u8; 9] {
    let mut key = [part; 9];
    let (head, _) = key.split_at_mut(FILTER_ID_BYTES);
    head.copy_from_slice(&id.0.to_be_bytes());
    key
}

pub(in crate::store) fn seal_filter_number(name: &str, id: FilterId) -> Vec<u8> {
    seal(Kind::FilterNumber, name.as_bytes(), &id.0.to_le_bytes())
}

pub(in crate::store) fn open_filter_number(
    name: &[u8],
    value: &[u8],
) -> Result<FilterId, StoreError> {
    let what = || "the filter number that a name leads to".to_owned();
    let payload = open(Kind::FilterNumber, name, value, what)?;
    number(payload)
        .map(FilterId)
        .ok_or_else(|| corrupt(what(), "it is no number"))
}

pub(in crate::store) fn seal_filter_name(id: FilterId, name: &str) -> Vec<u8> {
    seal(Kind::FilterName, &filter_name_key(id), name.as_bytes())
}

pub(in crate::store) fn open_filter_name(id: FilterId, value: &[u8]) -> Result<String, StoreError> {
    let what = || format!("the name of filter {id}");
    let payload = open(Kind::FilterName, &filter_name_key(id), value, what)?;
    text(payload).ok_or_else(|| corrupt(what(), "it is no text"))
}

/// A key of [`Column::Names`].
pub(in crate::store) fn read_name(key: &[u8]) -> Result<String, StoreError> {
    text(key).ok_or_else(|| corrupt("the list of filter names".to_owned(), "a name is no text"))
}

/// Puts a filter together from what is stored under its number: all of it or
/// nothing.
pub(in crate::store) fn stored_filter(
    id: FilterId,
    name: Option<&[u8]>,
    meta: Option<&[u8]>,
    expiry: Option<&[u8]>,
    owner: Option<&[u8]>,
) -> Result<Option<StoredFilter>, StoreError> {
    match (name, meta) {
        (Some(name), Some(meta)) => Ok(Some(StoredFilter {
            id,
            name: open_filter_name(id, name)?,
            meta: open_filter_meta(id, meta)?.to_vec(),
            expiry: expiry
                .map(|value| open_filter_expiry(id, value))
                .transpose()?,
            owner: owner
                .map(|value| open_filter_owner(id, value))
                .transpose()?,
        })),
        (None, None) if expiry.is_none() && owner.is_none() => Ok(None),
        _ => Err(corrupt(
            format!("filter {id}"),
            "a part of its name, description, end and owner is missing",
        )),
    }
}

pub(in crate::store) fn seal_filter_owner(id: FilterId, owner: &str) -> Vec<u8> {
    seal(Kind::FilterOwner, &filter_owner_key(id), owner.as_bytes())
}

pub(in crate::store) fn open_filter_owner(
    id: FilterId,
    value: &[u8],
) -> Result<String, StoreError> {
    let what = || format!("the owner of filter {id}");
    let payload = open(Kind::FilterOwner, &filter_owner_key(id), value, what)?;
    text(payload).ok_or_else(|| corrupt(what(), "it is no text"))
}

pub(in crate::store) fn seal_filter_expiry(id: FilterId, expiry: Expiry) -> Vec<u8> {
    let mut payload = expiry.at_ms.to_le_bytes().to_vec();
    payload.extend_from_slice(&expiry.ttl_seconds.to_le_bytes());
    seal(Kind::FilterExpiry, &filter_expiry_key(id), &payload)
}

pub(in crate::store) fn open_filter_expiry(
    id: FilterId,
    value: &[u8],
) -> Result<Expiry, StoreError> {
    let what = || format!("the end of filter {id}");
    let payload = open(Kind::FilterExpiry, &filter_expiry_key(id), value, what)?;
    payload
        .split_at_checked(8)
        .and_then(|(at_ms, ttl_seconds)| {
            Some(Expiry {
                at_ms: number(at_ms)?,
                ttl_seconds: number(ttl_seconds)?,
            })
        })
        .ok_or_else(|| corrupt(what(), "it is no two numbers"))
}

/// Checks that a name leads to a filter that has it.
pub(in crate::store) fn named(
    name: &str,
    id: FilterId,
    found: Option<StoredFilter>,
) -> Result<StoredFilter, StoreError> {
    found.filter(|filter| filter.name == name).ok_or_else(|| {
        corrupt(
            format!("filter {id}"),
            "a name leads to it that is not its own",
        )
    })
}

pub(in crate::store) fn seal_filter_meta(id: FilterId, meta: &[u8]) -> Vec<u8> {
    seal(Kind::FilterMeta, &filter_meta_key(id), meta)
}

pub(in crate::store) fn open_filter_meta(id: FilterId, value: &[u8]) -> Result<&[u8], StoreError> {
    let what = || format!("the description of filter {id}");
    open(Kind::FilterMeta, &filter_meta_key(id), value, what)
}
