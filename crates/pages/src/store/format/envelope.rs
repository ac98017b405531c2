//! What is around every value: version, kind, checksum.

use super::keys::{filter_in, page_in, record_name, sequence_in};
use crate::store::error::{Result, StoreError};
use crate::store::kv::{Column, WriteBatch};
use serde::Serialize;
use serde::de::DeserializeOwned;

/// Version of every value this program writes, and the newest it reads.
pub const VALUE_VERSION: u8 = 1;

/// Bytes of a value before its payload: version, kind, checksum.
pub const ENVELOPE_BYTES: usize = 6;

/// What a value is, its second byte.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::store) enum Kind {
    Page = 1,
    Redo = 2,
    FilterNumber = 3,
    FilterName = 4,
    FilterMeta = 5,
    Reclaim = 6,
    DataVersion = 7,
    NextSerial = 8,
    FilterExpiry = 9,
    Due = 10,
    SideRecord = 11,
    FilterOwner = 12,
    ScrubPosition = 13,
    LanePosition = 14,
    LanePast = 15,
}

impl Kind {
    /// Where values of this kind are kept.
    pub(in crate::store) fn column(self) -> Column {
        match self {
            Kind::Page => Column::Pages,
            Kind::Redo => Column::Log,
            Kind::FilterNumber => Column::Names,
            Kind::FilterName | Kind::FilterMeta | Kind::FilterExpiry | Kind::FilterOwner => {
                Column::Filters
            }
            Kind::Reclaim => Column::Reclaim,
            Kind::Due => Column::Due,
            Kind::SideRecord => Column::SideRecords,
            Kind::DataVersion
            | Kind::NextSerial
            | Kind::ScrubPosition
            | Kind::LanePosition
            | Kind::LanePast => Column::Info,
        }
    }

    /// Names the value under a key, as errors do.
    fn name(self, key: &[u8]) -> String {
        let filter = || filter_in(key).map_or("a filter".to_owned(), |id| format!("filter {id}"));
        let name = match self {
            Kind::Page => return page_in(key).map_or("a page".to_owned(), |id| id.to_string()),
            Kind::Redo => return sequence_in(key).map_or("a redo record".to_owned(), record_name),
            Kind::FilterName => return format!("the name of {}", filter()),
            Kind::FilterMeta => return format!("the description of {}", filter()),
            Kind::FilterExpiry => return format!("the end of {}", filter()),
            Kind::FilterOwner => return format!("the owner of {}", filter()),
            Kind::Reclaim => return format!("the entry of {} in the reclaim list", filter()),
            Kind::FilterNumber => "the filter number that a name leads to",
            Kind::DataVersion => "the data directory",
            Kind::NextSerial => "the next serial number of a filter",
            Kind::Due => "the list of what ends",
            Kind::SideRecord => "a side record",
            Kind::ScrubPosition => "the position of the scrub",
            Kind::LanePosition => "the position of a lane",
            Kind::LanePast => "a record in the past of a lane",
        };
        name.to_owned()
    }
}

impl WriteBatch {
    /// Puts a value under its key.
    pub(in crate::store) fn put_value(&mut self, kind: Kind, key: &[u8], value: &impl Serialize) {
        self.put(kind.column(), key, seal_value(kind, key, value));
    }

    /// Puts bytes under their key, as they are.
    pub(in crate::store) fn put_bytes(&mut self, kind: Kind, key: &[u8], payload: &[u8]) {
        self.put(kind.column(), key, seal(kind, key, payload));
    }
}

pub(super) fn text(bytes: &[u8]) -> Option<String> {
    std::str::from_utf8(bytes).ok().map(str::to_owned)
}

/// Puts the envelope around the bytes of what is no bytes by itself.
pub(in crate::store) fn seal_value(kind: Kind, key: &[u8], value: &impl Serialize) -> Vec<u8> {
    // Nothing that is stored can't be written; nothing reads no bytes.
    let payload = postcard::to_allocvec(value).unwrap_or_default();
    seal(kind, key, &payload)
}

/// Takes it off again.
pub(in crate::store) fn open_value<T: DeserializeOwned>(
    kind: Kind,
    key: &[u8],
    value: &[u8],
) -> Result<T> {
    match postcard::take_from_bytes(open(kind, key, value)?) {
        Ok((value, [])) => Ok(value),
        _ => Err(StoreError::corrupt(
            kind.name(key),
            "its bytes make no sense",
        )),
    }
}

/// Puts the envelope around a payload.
pub(in crate::store) fn seal(kind: Kind, key: &[u8], payload: &[u8]) -> Vec<u8> {
    seal_as(VALUE_VERSION, kind, key, payload)
}

pub(super) fn seal_as(version: u8, kind: Kind, key: &[u8], payload: &[u8]) -> Vec<u8> {
    let sum = checksum(version, kind as u8, key, payload).to_le_bytes();
    [&[version, kind as u8][..], &sum, payload].concat()
}

/// Takes the envelope off a value that was read under `key`.
///
/// The checksum comes first: a flipped bit in the version byte is a flipped
/// bit, not a newer program. So every version to come keeps the envelope.
pub(in crate::store) fn open<'a>(kind: Kind, key: &[u8], value: &'a [u8]) -> Result<&'a [u8]> {
    let what = || kind.name(key);
    let Some((&[version, found_kind, c0, c1, c2, c3], payload)) =
        value.split_first_chunk::<ENVELOPE_BYTES>()
    else {
        return Err(StoreError::corrupt(what(), "it is too short"));
    };
    let stored = u32::from_le_bytes([c0, c1, c2, c3]);
    if stored != checksum(version, found_kind, key, payload) {
        return Err(StoreError::corrupt(what(), "its checksum does not match"));
    }
    if version > VALUE_VERSION {
        return Err(StoreError::newer(what(), version, VALUE_VERSION));
    }
    if version == 0 || found_kind != kind as u8 {
        return Err(StoreError::corrupt(what(), "it is a value of another kind"));
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
