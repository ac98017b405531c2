//! What is kept of a filter: its name, its description, when it ends, whose it is.

use super::envelope::{Kind, open, open_value, text};
use super::keys::{LONGEST_KEY_BYTES, all_keys, filter_in, keys_under};
use crate::page::FilterId;
use crate::store::error::{Result, StoreError};
use crate::store::kv::KeyRange;
use crate::store::values::StoredFilter;

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
    KeyRange::new(id.0.to_be_bytes(), all_keys().to)
}

/// The keys of all that is kept of a filter, as [`stored_filter`] takes what is there.
pub(in crate::store) fn filter_keys(id: FilterId) -> [[u8; 9]; 4] {
    [0, 1, 2, 3].map(|part| filter_key(id, part))
}

/// The filter of a key of [`Column::Filters`].
pub(in crate::store) fn filter_of(key: &[u8]) -> Result<FilterId> {
    let nonsense = || StoreError::corrupt("the list of filters", "a key is no filter");
    filter_in(key).ok_or_else(nonsense)
}

pub(in crate::store) fn filter_owner_key(id: FilterId) -> [u8; 9] {
    filter_key(id, 3)
}

fn filter_key(id: FilterId, part: u8) -> [u8; 9] {
    let [a, b, c, d, e, f, g, h] = id.0.to_be_bytes();
    [a, b, c, d, e, f, g, h, part]
}

/// A key of [`Column::Names`].
pub(in crate::store) fn read_name(key: &[u8]) -> Result<String> {
    text(key).ok_or_else(|| StoreError::corrupt("the list of filter names", "a name is no text"))
}

/// Puts a filter together from what is stored under its number: all of it or
/// nothing.
pub(in crate::store) fn stored_filter(
    id: FilterId,
    parts: &[Option<Vec<u8>>; 4],
) -> Result<Option<StoredFilter>> {
    let [name, meta, expiry, owner] = parts.each_ref().map(Option::as_deref);
    match (name, meta) {
        (Some(name), Some(meta)) => Ok(Some(StoredFilter {
            id,
            name: open_value(Kind::FilterName, &filter_name_key(id), name)?,
            meta: open(Kind::FilterMeta, &filter_meta_key(id), meta)?.to_vec(),
            expiry: expiry
                .map(|it| open_value(Kind::FilterExpiry, &filter_expiry_key(id), it))
                .transpose()?,
            owner: owner
                .map(|it| open_value(Kind::FilterOwner, &filter_owner_key(id), it))
                .transpose()?,
        })),
        (None, None) if expiry.is_none() && owner.is_none() => Ok(None),
        _ => Err(StoreError::corrupt(
            format!("filter {id}"),
            "a part of its name, description, end and owner is missing",
        )),
    }
}

/// Checks that a name leads to a filter that has it.
pub(in crate::store) fn named(
    name: &str,
    id: FilterId,
    found: Option<StoredFilter>,
) -> Result<StoredFilter> {
    found.filter(|filter| filter.name == name).ok_or_else(|| {
        StoreError::corrupt(
            format!("filter {id}"),
            "a name leads to it that is not its own",
        )
    })
}
