//! Every key and every value, byte by byte; `docs/format.md` tabulates them.
//!
//! Keys are big-endian, so that their byte order is the order of the numbers.
//! Every value is an envelope: version, kind, checksum, payload. The
//! checksum covers the key too, so a value that turns up under another key is
//! noticed.

use super::error::StoreError;
use super::kv::{Column, KeyRange};
use super::values::{
    Due, Expiry, Garbage, KeyTotals, ScrubPosition, SideRecord, SideRecordKey, SideRecordTotals,
    StoredFilter,
};
use super::varint;
use crate::page::{FilterId, Ordinal, PageId, PageIndex, Sequence};
use std::ops::{Range, RangeInclusive};
use std::sync::Arc;

/// Version of every value this program writes, and the newest it reads.
pub const VALUE_VERSION: u8 = 1;

/// Version of the data directory as a whole: which columns there are and what
/// their keys look like, and what redo records hold. Other versions are
/// refused.
pub const DATA_VERSION: u32 = 3;

/// Largest page image in bytes: a page and the counters beside it.
pub const MAX_IMAGE_BYTES: usize = 1 << 16;

/// Bytes of a value before its payload: version, kind, checksum.
pub const ENVELOPE_BYTES: usize = 6;

/// Key of the data directory's version in [`Column::Info`].
pub(super) const DATA_VERSION_KEY: &[u8] = b"data_format";

/// Key of the next filter number in [`Column::Info`].
pub(super) const NEXT_FILTER_ID_KEY: &[u8] = b"next_filter_id";

/// Key of the position of the scrub in [`Column::Info`].
pub(super) const SCRUB_POSITION_KEY: &[u8] = b"scrub_position";

/// The first filter number there is; 0 is none.
pub(super) const FIRST_FILTER_ID: FilterId = FilterId(1);

/// The page's bytes follow as they are, less the zeros at its end.
const DENSE: u8 = 0;
/// Pairs follow: how many zeros to skip, then a byte that is not zero.
const PACKED: u8 = 1;

/// What a value is, its second byte.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Page = 1,
    Redo = 2,
    FilterNumber = 3,
    FilterName = 4,
    FilterMeta = 5,
    Reclaim = 6,
    DataVersion = 7,
    NextFilterId = 8,
    FilterExpiry = 9,
    Due = 10,
    SideRecord = 11,
    FilterOwner = 12,
    OwnedSideRecord = 13,
    ScrubPosition = 14,
}

/// Names one stored value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StoredValue {
    /// The image of a page.
    Page(PageId),
    /// A redo record.
    Redo(Sequence),
    /// The number a filter name leads to.
    FilterNumber(String),
    /// The name of a filter.
    FilterName(FilterId),
    /// The description of a filter.
    FilterMeta(FilterId),
    /// When a filter ends.
    FilterExpiry(FilterId),
    /// A side record.
    SideRecord(SideRecordKey),
}

impl StoredValue {
    /// Where it is kept.
    pub fn place(&self) -> (Column, Vec<u8>) {
        match self {
            StoredValue::Page(id) => (Column::Pages, page_key(*id).to_vec()),
            StoredValue::Redo(sequence) => (Column::Log, log_key(*sequence).to_vec()),
            StoredValue::FilterNumber(name) => (Column::Names, name.as_bytes().to_vec()),
            StoredValue::FilterName(id) => (Column::Filters, filter_name_key(*id).to_vec()),
            StoredValue::FilterMeta(id) => (Column::Filters, filter_meta_key(*id).to_vec()),
            StoredValue::SideRecord(key) => (Column::SideRecords, side_record_key(key)),
            StoredValue::FilterExpiry(id) => (Column::Filters, filter_expiry_key(*id).to_vec()),
        }
    }
}

/// No key is longer.
const LONGEST_KEY_BYTES: usize = 255;

/// All keys of a column.
pub(super) fn all_keys() -> KeyRange {
    keys_under(&[], LONGEST_KEY_BYTES)
}

/// All keys that start with `prefix` and are up to `longest` bytes long.
fn keys_under(prefix: &[u8], longest: usize) -> KeyRange {
    let mut to = prefix.to_vec();
    // One byte more than any key has sorts behind all of them.
    to.resize(longest.max(prefix.len()) + 1, 0xff);
    KeyRange {
        from: prefix.to_vec(),
        to,
    }
}

/// The names that start with `prefix` and come after `after`.
pub(super) fn names_after(prefix: &str, after: Option<&str>) -> KeyRange {
    let mut keys = keys_under(prefix.as_bytes(), LONGEST_KEY_BYTES);
    if let Some(after) = after.filter(|after| *after >= prefix) {
        keys.from = after.as_bytes().to_vec();
        // The smallest key behind it.
        keys.from.push(0);
    }
    keys
}

const PAGE_KEY_BYTES: usize = 16;
const SUB_FILTER_BYTES: usize = 12;
const FILTER_ID_BYTES: usize = 8;

pub(super) fn page_key(id: PageId) -> [u8; PAGE_KEY_BYTES] {
    let number =
        u128::from(id.filter.0) << 64 | u128::from(id.ordinal.0) << 32 | u128::from(id.page.0);
    number.to_be_bytes()
}

/// The page of a key.
pub(super) fn page_of(key: &[u8]) -> Result<PageId, StoreError> {
    let key = <[u8; PAGE_KEY_BYTES]>::try_from(key)
        .map_err(|_| corrupt("the pages".to_owned(), "a key among them is no page"))?;
    let number = u128::from_be_bytes(key);
    Ok(PageId {
        filter: FilterId((number >> 64) as u64),
        ordinal: Ordinal((number >> 32) as u32),
        page: PageIndex(number as u32),
    })
}

/// The pages from one up to another, excluded.
pub(super) fn pages_between(pages: &Range<PageId>) -> KeyRange {
    KeyRange {
        from: page_key(pages.start).to_vec(),
        to: page_key(pages.end).to_vec(),
    }
}

fn sub_filter_key(filter: FilterId, ordinal: Ordinal) -> [u8; SUB_FILTER_BYTES] {
    let mut key = [0; SUB_FILTER_BYTES];
    let (id, rest) = key.split_at_mut(FILTER_ID_BYTES);
    id.copy_from_slice(&filter.0.to_be_bytes());
    rest.copy_from_slice(&ordinal.0.to_be_bytes());
    key
}

/// The pages that `garbage` names.
pub(super) fn pages_of(garbage: Garbage) -> KeyRange {
    keys_under(&reclaim_key(garbage), PAGE_KEY_BYTES)
}

pub(super) fn log_key(sequence: Sequence) -> [u8; 8] {
    sequence.0.to_be_bytes()
}

pub(super) fn log_sequence(key: &[u8]) -> Result<Sequence, StoreError> {
    let key = <[u8; 8]>::try_from(key)
        .map_err(|_| corrupt("the redo log".to_owned(), "a key in it is no sequence"))?;
    Ok(Sequence(u64::from_be_bytes(key)))
}

/// The records below `before`, from `lowest` on.
pub(super) fn log_below(lowest: Sequence, before: Sequence) -> KeyRange {
    KeyRange {
        from: log_key(lowest).to_vec(),
        to: log_key(before).to_vec(),
    }
}

pub(super) fn filter_name_key(id: FilterId) -> [u8; 9] {
    filter_key(id, 0)
}

pub(super) fn filter_meta_key(id: FilterId) -> [u8; 9] {
    filter_key(id, 1)
}

pub(super) fn filter_expiry_key(id: FilterId) -> [u8; 9] {
    filter_key(id, 2)
}

/// All that is kept of the filters from one on.
pub(super) fn filters_from(id: FilterId) -> KeyRange {
    KeyRange {
        from: id.0.to_be_bytes().to_vec(),
        to: all_keys().to,
    }
}

/// The filter of a key of [`Column::Filters`].
pub(super) fn filter_of(key: &[u8]) -> Result<FilterId, StoreError> {
    let nonsense = || corrupt("the list of filters".to_owned(), "a key is no filter");
    let id = key.first_chunk().ok_or_else(nonsense)?;
    Ok(FilterId(u64::from_be_bytes(*id)))
}

pub(super) fn filter_owner_key(id: FilterId) -> [u8; 9] {
    filter_key(id, 3)
}

fn filter_key(id: FilterId, part: u8) -> [u8; 9] {
    let mut key = [part; 9];
    let (head, _) = key.split_at_mut(FILTER_ID_BYTES);
    head.copy_from_slice(&id.0.to_be_bytes());
    key
}

pub(super) fn reclaim_key(garbage: Garbage) -> Vec<u8> {
    match garbage {
        Garbage::Filter(id) => id.0.to_be_bytes().to_vec(),
        Garbage::SubFilter(id, ordinal) => sub_filter_key(id, ordinal).to_vec(),
    }
}

pub(super) fn read_reclaim(key: &[u8], value: &[u8]) -> Result<Garbage, StoreError> {
    let nonsense = || corrupt("the reclaim list".to_owned(), "an entry names no pages");
    let (id, ordinal) = key.split_at_checked(FILTER_ID_BYTES).ok_or_else(nonsense)?;
    let id = FilterId(u64::from_be_bytes(id.try_into().map_err(|_| nonsense())?));
    let garbage = match ordinal {
        [] => Garbage::Filter(id),
        _ => {
            let ordinal = ordinal.try_into().map_err(|_| nonsense())?;
            Garbage::SubFilter(id, Ordinal(u32::from_be_bytes(ordinal)))
        }
    };
    open(Kind::Reclaim, key, value, || {
        format!("the entry of filter {id} in the reclaim list")
    })?;
    Ok(garbage)
}

/// All entries of the reclaim list that concern some filters.
pub(super) fn reclaim_entries_of(filters: &RangeInclusive<FilterId>) -> KeyRange {
    KeyRange {
        from: filters.start().0.to_be_bytes().to_vec(),
        to: keys_under(&filters.end().0.to_be_bytes(), SUB_FILTER_BYTES).to,
    }
}

pub(super) fn seal_reclaim(key: &[u8]) -> Vec<u8> {
    seal(Kind::Reclaim, key, &[])
}

/// # Errors
/// A page that is larger than any page may be.
pub(super) fn seal_page(id: PageId, page: &[u8]) -> Result<Vec<u8>, StoreError> {
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
pub(super) fn open_page<'a>(
    id: PageId,
    value: &'a [u8],
    scratch: &'a mut Vec<u8>,
) -> Result<&'a [u8], StoreError> {
    let payload = open(Kind::Page, &page_key(id), value, || id.to_string())?;
    decode_page(payload, scratch).map_err(|reason| corrupt(id.to_string(), reason))
}

pub(super) fn encode_page(page: &[u8]) -> Vec<u8> {
    let used = page
        .iter()
        .rposition(|&byte| byte != 0)
        .map_or(0, |last| last + 1);
    let (used, _) = page.split_at(used);

    // Each takes two bytes at least, so a full page need not be packed in order
    // to see that it is better left alone.
    let not_zero = used.iter().filter(|&&byte| byte != 0).count();
    if 2 * not_zero < used.len()
        && let Some(packed) = pack(used)
    {
        return packed;
    }
    let mut dense = Vec::with_capacity(1 + used.len());
    dense.push(DENSE);
    dense.extend_from_slice(used);
    dense
}

/// The bytes with the zeros before each; `None` if that is no shorter than they
/// are with the byte that says how they are written.
fn pack(used: &[u8]) -> Option<Vec<u8>> {
    let mut packed = vec![PACKED];
    let mut zeros = 0;
    for &byte in used {
        if byte == 0 {
            zeros += 1;
            continue;
        }
        varint::put(&mut packed, zeros);
        packed.push(byte);
        zeros = 0;
        if packed.len() > used.len() {
            return None;
        }
    }
    Some(packed)
}

pub(super) fn decode_page<'a>(
    payload: &'a [u8],
    scratch: &'a mut Vec<u8>,
) -> Result<&'a [u8], &'static str> {
    match payload.split_first() {
        Some((&DENSE, page)) if page.len() <= MAX_IMAGE_BYTES => Ok(page),
        Some((&DENSE, _)) => Err("it is larger than a page may be"),
        Some((&PACKED, pairs)) => {
            scratch.clear();
            unpack(pairs, |at, byte| {
                scratch.resize(at, 0);
                scratch.push(byte);
            })?;
            Ok(scratch)
        }
        _ => Err("its encoding is unknown"),
    }
}

/// Whether [`decode_page`] can read it; allocates nothing.
pub(super) fn check_page(payload: &[u8]) -> Result<(), &'static str> {
    match payload.split_first() {
        Some((&PACKED, pairs)) => unpack(pairs, |_, _| {}),
        _ => decode_page(payload, &mut Vec::new()).map(|_| ()),
    }
}

/// Says where each byte that is not left out lies.
fn unpack(mut pairs: &[u8], mut each: impl FnMut(usize, u8)) -> Result<(), &'static str> {
    let mut end = 0usize;
    while !pairs.is_empty() {
        let zeros = varint::take(&mut pairs).ok_or("its packed bytes end early")?;
        let (&byte, rest) = pairs.split_first().ok_or("its packed bytes end early")?;
        let at = usize::try_from(zeros)
            .ok()
            .and_then(|zeros| end.checked_add(zeros))
            .filter(|&at| at < MAX_IMAGE_BYTES)
            .ok_or("it is larger than a page may be")?;
        each(at, byte);
        end = at + 1;
        pairs = rest;
    }
    Ok(())
}

/// Names the entry under a key, as errors do.
pub(super) fn entry_name(column: Column, key: &[u8]) -> String {
    let id = |key: &[u8]| {
        key.first_chunk()
            .map(|&id| FilterId(u64::from_be_bytes(id)))
    };
    let named = match column {
        Column::Pages => page_of(key).ok().map(|id| id.to_string()),
        Column::Log => log_sequence(key).ok().map(record_name),
        // The log names filters by their numbers alone.
        Column::Names => Some("the filter number that a name leads to".to_owned()),
        Column::Filters => id(key).map(|id| format!("filter {id}")),
        Column::SideRecords => Some("a side record".to_owned()),
        Column::Info | Column::Reclaim | Column::Due => None,
    };
    named.unwrap_or_else(|| format!("column {}", column.name()))
}

/// Names a redo record, as errors do.
fn record_name(sequence: Sequence) -> String {
    format!("redo record {}", sequence.0)
}

pub(super) fn seal_redo(sequence: Sequence, redo: &[u8]) -> Vec<u8> {
    seal(Kind::Redo, &log_key(sequence), redo)
}

pub(super) fn open_redo(sequence: Sequence, value: &[u8]) -> Result<&[u8], StoreError> {
    open(Kind::Redo, &log_key(sequence), value, || {
        record_name(sequence)
    })
}

pub(super) fn seal_filter_number(name: &str, id: FilterId) -> Vec<u8> {
    seal(Kind::FilterNumber, name.as_bytes(), &id.0.to_le_bytes())
}

pub(super) fn open_filter_number(name: &[u8], value: &[u8]) -> Result<FilterId, StoreError> {
    let what = || "the filter number that a name leads to".to_owned();
    let payload = open(Kind::FilterNumber, name, value, what)?;
    number(payload)
        .map(FilterId)
        .ok_or_else(|| corrupt(what(), "it is no number"))
}

pub(super) fn seal_filter_name(id: FilterId, name: &str) -> Vec<u8> {
    seal(Kind::FilterName, &filter_name_key(id), name.as_bytes())
}

pub(super) fn open_filter_name(id: FilterId, value: &[u8]) -> Result<String, StoreError> {
    let what = || format!("the name of filter {id}");
    let payload = open(Kind::FilterName, &filter_name_key(id), value, what)?;
    text(payload).ok_or_else(|| corrupt(what(), "it is no text"))
}

/// A key of [`Column::Names`].
pub(super) fn read_name(key: &[u8]) -> Result<String, StoreError> {
    text(key).ok_or_else(|| corrupt("the list of filter names".to_owned(), "a name is no text"))
}

/// Puts a filter together from what is stored under its number: all of it or
/// nothing.
pub(super) fn stored_filter(
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

pub(super) fn seal_filter_owner(id: FilterId, owner: &str) -> Vec<u8> {
    seal(Kind::FilterOwner, &filter_owner_key(id), owner.as_bytes())
}

pub(super) fn open_filter_owner(id: FilterId, value: &[u8]) -> Result<String, StoreError> {
    let what = || format!("the owner of filter {id}");
    let payload = open(Kind::FilterOwner, &filter_owner_key(id), value, what)?;
    text(payload).ok_or_else(|| corrupt(what(), "it is no text"))
}

pub(super) fn seal_filter_expiry(id: FilterId, expiry: Expiry) -> Vec<u8> {
    let mut payload = expiry.at_ms.to_le_bytes().to_vec();
    payload.extend_from_slice(&expiry.ttl_seconds.to_le_bytes());
    seal(Kind::FilterExpiry, &filter_expiry_key(id), &payload)
}

pub(super) fn open_filter_expiry(id: FilterId, value: &[u8]) -> Result<Expiry, StoreError> {
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

/// What an entry of the list of ends is about, the byte behind its time.
const DUE_FILTER: u8 = 1;
const DUE_SIDE_RECORD: u8 = 2;

/// What a side record is about, its key's first byte.
const SIDE_RECORD_RETRY: u8 = 1;
const SIDE_RECORD_IMPORT: u8 = 2;

pub(super) fn due_key(due: &Due) -> Vec<u8> {
    match due {
        Due::Filter { at_ms, id } => {
            let mut key = at_ms.to_be_bytes().to_vec();
            key.push(DUE_FILTER);
            key.extend_from_slice(&id.0.to_be_bytes());
            key
        }
        Due::SideRecord { at_ms, key: record } => {
            let mut key = at_ms.to_be_bytes().to_vec();
            key.push(DUE_SIDE_RECORD);
            key.extend_from_slice(&side_record_key(record));
            key
        }
    }
}

pub(super) fn side_record_key(key: &SideRecordKey) -> Vec<u8> {
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

pub(super) fn read_side_record_key(key: &[u8]) -> Option<SideRecordKey> {
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

pub(super) fn seal_side_record(key: &[u8], record: &SideRecord) -> Vec<u8> {
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

pub(super) fn open_side_record(key: &[u8], value: &[u8]) -> Result<SideRecord, StoreError> {
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
pub(super) fn count_side_record(
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

/// The entries from one moment to another, both included.
pub(super) fn due_between(from_ms: u64, until_ms: u64) -> KeyRange {
    KeyRange {
        from: from_ms.to_be_bytes().to_vec(),
        to: keys_under(&until_ms.to_be_bytes(), LONGEST_KEY_BYTES).to,
    }
}

pub(super) fn seal_due(key: &[u8]) -> Vec<u8> {
    seal(Kind::Due, key, &[])
}

pub(super) fn read_due(key: &[u8], value: &[u8]) -> Result<Due, StoreError> {
    let what = || "the list of what ends".to_owned();
    open(Kind::Due, key, value, what)?;
    let nonsense = || corrupt(what(), "an entry names nothing");
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

/// Checks that a name leads to a filter that has it.
pub(super) fn named(
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

pub(super) fn seal_filter_meta(id: FilterId, meta: &[u8]) -> Vec<u8> {
    seal(Kind::FilterMeta, &filter_meta_key(id), meta)
}

pub(super) fn open_filter_meta(id: FilterId, value: &[u8]) -> Result<&[u8], StoreError> {
    let what = || format!("the description of filter {id}");
    open(Kind::FilterMeta, &filter_meta_key(id), value, what)
}

pub(super) fn seal_data_version(version: u32) -> Vec<u8> {
    seal(Kind::DataVersion, DATA_VERSION_KEY, &version.to_le_bytes())
}

/// The version of a data directory, which is one that this program reads.
///
/// # Errors
/// Also a version that this program does not know.
pub(super) fn read_data_version(value: &[u8]) -> Result<u32, StoreError> {
    let what = || "the data directory".to_owned();
    let payload = open(Kind::DataVersion, DATA_VERSION_KEY, value, what)?;
    let found = <[u8; 4]>::try_from(payload)
        .map(u32::from_le_bytes)
        .map_err(|_| corrupt(what(), "its version is no number"))?;
    match found {
        0 => Err(corrupt(what(), "its version is 0")),
        DATA_VERSION => Ok(found),
        1..DATA_VERSION => Err(StoreError::OlderFormat {
            what: what(),
            found,
            supported: DATA_VERSION,
        }),
        _ => Err(StoreError::NewerFormat {
            what: what(),
            found,
            supported: DATA_VERSION,
        }),
    }
}

pub(super) fn seal_next_filter_id(next: FilterId) -> Vec<u8> {
    seal(
        Kind::NextFilterId,
        NEXT_FILTER_ID_KEY,
        &next.0.to_le_bytes(),
    )
}

pub(super) fn open_next_filter_id(value: &[u8]) -> Result<FilterId, StoreError> {
    let what = || "the next filter number".to_owned();
    let payload = open(Kind::NextFilterId, NEXT_FILTER_ID_KEY, value, what)?;
    number(payload)
        .map(FilterId)
        .ok_or_else(|| corrupt(what(), "it is no number"))
}

pub(super) fn seal_scrub_position(position: &ScrubPosition) -> Vec<u8> {
    let mut payload = position.filter.0.to_le_bytes().to_vec();
    payload.extend(position.ordinal.0.to_le_bytes());
    payload.extend(position.faults.to_le_bytes());
    seal(Kind::ScrubPosition, SCRUB_POSITION_KEY, &payload)
}

pub(super) fn open_scrub_position(value: &[u8]) -> Result<ScrubPosition, StoreError> {
    let what = || "the position of the scrub".to_owned();
    let payload = open(Kind::ScrubPosition, SCRUB_POSITION_KEY, value, what)?;
    let read = |payload: &[u8]| {
        let (filter, rest) = payload.split_first_chunk()?;
        let (ordinal, faults) = rest.split_first_chunk()?;
        Some(ScrubPosition {
            filter: FilterId(u64::from_le_bytes(*filter)),
            ordinal: Ordinal(u32::from_le_bytes(*ordinal)),
            faults: number(faults)?,
        })
    };
    read(payload).ok_or_else(|| corrupt(what(), "it has another length"))
}

/// The number after `count` more were handed out from `first` on.
pub(super) fn filter_id_after(first: FilterId, count: u64) -> Result<FilterId, StoreError> {
    first
        .0
        .checked_add(count)
        .map(FilterId)
        .ok_or(StoreError::NoFilterNumbers)
}

fn text(bytes: &[u8]) -> Option<String> {
    std::str::from_utf8(bytes).ok().map(str::to_owned)
}

fn number(payload: &[u8]) -> Option<u64> {
    <[u8; 8]>::try_from(payload).ok().map(u64::from_le_bytes)
}

/// Puts the envelope around a payload.
pub(super) fn seal(kind: Kind, key: &[u8], payload: &[u8]) -> Vec<u8> {
    seal_as(VALUE_VERSION, kind, key, payload)
}

fn seal_as(version: u8, kind: Kind, key: &[u8], payload: &[u8]) -> Vec<u8> {
    let mut value = Vec::with_capacity(ENVELOPE_BYTES + payload.len());
    value.push(version);
    value.push(kind as u8);
    value.extend_from_slice(&checksum(version, kind as u8, key, payload).to_le_bytes());
    value.extend_from_slice(payload);
    value
}

/// Takes the envelope off a value that was read under `key`.
///
/// The checksum comes first: a flipped bit in the version byte is a flipped
/// bit, not a newer program. So every version to come keeps the envelope.
pub(super) fn open<'a>(
    kind: Kind,
    key: &[u8],
    value: &'a [u8],
    what: impl Fn() -> String,
) -> Result<&'a [u8], StoreError> {
    let Some((&[version, found_kind, c0, c1, c2, c3], payload)) =
        value.split_first_chunk::<ENVELOPE_BYTES>()
    else {
        return Err(corrupt(what(), "it is too short"));
    };
    let stored = u32::from_le_bytes([c0, c1, c2, c3]);
    if stored != checksum(version, found_kind, key, payload) {
        return Err(corrupt(what(), "its checksum does not match"));
    }
    if version > VALUE_VERSION {
        return Err(StoreError::NewerFormat {
            what: what(),
            found: u32::from(version),
            supported: u32::from(VALUE_VERSION),
        });
    }
    if version == 0 || found_kind != kind as u8 {
        return Err(corrupt(what(), "it is a value of another kind"));
    }
    Ok(payload)
}

fn checksum(version: u8, kind: u8, key: &[u8], payload: &[u8]) -> u32 {
    // The key's length keeps its end apart from the payload's start.
    let head = [version, kind];
    let length = (key.len() as u64).to_le_bytes();
    let parts: [&[u8]; 4] = [&head, &length, key, payload];
    parts
        .iter()
        .fold(0, |crc, part| crc32c::crc32c_append(crc, part))
}

fn corrupt(what: String, reason: &str) -> StoreError {
    StoreError::Corrupt {
        what,
        reason: reason.to_owned(),
    }
}

#[cfg(test)]
pub(super) fn data_version_of_a_newer_program() -> Vec<u8> {
    seal_data_version(DATA_VERSION + 1)
}

#[cfg(test)]
mod tests;
