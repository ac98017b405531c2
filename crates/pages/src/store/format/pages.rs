//! Pages, and the list of those that are to be removed.

use super::envelope::{Kind, open, seal};
use super::image::{MAX_IMAGE_BYTES, decode_page, encode_page};
use super::keys::{FILTER_ID_BYTES, PAGE_KEY_BYTES, SUB_FILTER_BYTES, keys_under, page_in};
use crate::page::{FilterId, Ordinal, PageId};
use crate::store::error::{Result, StoreError};
use crate::store::kv::KeyRange;
use crate::store::values::Garbage;
use std::ops::{Range, RangeInclusive};

pub(in crate::store) fn page_key(id: PageId) -> [u8; PAGE_KEY_BYTES] {
    let number =
        u128::from(id.filter.0) << 64 | u128::from(id.ordinal.0) << 32 | u128::from(id.page.0);
    number.to_be_bytes()
}

/// The page of a key.
pub(in crate::store) fn page_of(key: &[u8]) -> Result<PageId> {
    let nonsense = || StoreError::corrupt("the pages", "a key among them is no page");
    page_in(key).ok_or_else(nonsense)
}

/// The pages from one up to another, excluded.
pub(in crate::store) fn pages_between(pages: &Range<PageId>) -> KeyRange {
    KeyRange::new(page_key(pages.start), page_key(pages.end))
}

/// The pages that `garbage` names.
pub(in crate::store) fn pages_of(garbage: Garbage) -> KeyRange {
    keys_under(&reclaim_key(garbage), PAGE_KEY_BYTES)
}

pub(in crate::store) fn reclaim_key(garbage: Garbage) -> Vec<u8> {
    match garbage {
        Garbage::Filter(id) => id.0.to_be_bytes().to_vec(),
        Garbage::SubFilter(id, ordinal) => {
            [&id.0.to_be_bytes()[..], &ordinal.0.to_be_bytes()].concat()
        }
    }
}

/// The payload of a filter that a commit has staged.
pub(in crate::store) const STAGED: u8 = 1;

/// An entry of the reclaim list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::store) struct ReclaimEntry {
    pub(in crate::store) pages: Garbage,
    /// Whether a commit has staged them: they are not to be removed as long as the
    /// filter may still get its name.
    pub(in crate::store) is_staged: bool,
}

pub(in crate::store) fn read_reclaim(key: &[u8], value: &[u8]) -> Result<ReclaimEntry> {
    let nonsense = || StoreError::corrupt("the reclaim list", "an entry names no pages");
    let (id, ordinal) = key.split_at_checked(FILTER_ID_BYTES).ok_or_else(nonsense)?;
    let id = FilterId(u64::from_be_bytes(id.try_into().map_err(|_| nonsense())?));
    let pages = match ordinal {
        [] => Garbage::Filter(id),
        _ => {
            let ordinal = ordinal.try_into().map_err(|_| nonsense())?;
            Garbage::SubFilter(id, Ordinal(u32::from_be_bytes(ordinal)))
        }
    };
    let payload = open(Kind::Reclaim, key, value)?;
    let is_staged = payload == [STAGED];
    match is_staged || payload.is_empty() {
        true => Ok(ReclaimEntry { pages, is_staged }),
        false => Err(nonsense()),
    }
}

/// All entries of the reclaim list that concern some filters.
pub(in crate::store) fn reclaim_entries_of(filters: &RangeInclusive<FilterId>) -> KeyRange {
    let last = keys_under(&filters.end().0.to_be_bytes(), SUB_FILTER_BYTES);
    KeyRange::new(filters.start().0.to_be_bytes(), last.to)
}

/// # Errors
/// A page that is larger than any page may be.
pub(in crate::store) fn seal_page(id: PageId, page: &[u8]) -> Result<Vec<u8>> {
    if page.len() > MAX_IMAGE_BYTES {
        return Err(StoreError::ImageTooLarge {
            page: id,
            bytes: page.len(),
            most: MAX_IMAGE_BYTES,
        });
    }
    Ok(seal(Kind::Page, &page_key(id), &encode_page(page)))
}

/// The page's bytes without the zeros at its end, unpacked into `scratch`
/// where they are packed.
pub(in crate::store) fn open_page<'a>(
    id: PageId,
    value: &'a [u8],
    scratch: &'a mut Vec<u8>,
) -> Result<&'a [u8]> {
    let payload = open(Kind::Page, &page_key(id), value)?;
    decode_page(payload, scratch).map_err(|reason| StoreError::corrupt(id.to_string(), reason))
}
