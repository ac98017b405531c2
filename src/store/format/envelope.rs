//! What is around every value: version, kind, checksum.

use crate::store::error::StoreError;

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
    NextFilterId = 8,
    FilterExpiry = 9,
    Due = 10,
    SideRecord = 11,
    FilterOwner = 12,
    OwnedSideRecord = 13,
    ScrubPosition = 14,
    LanePosition = 15,
    LanePast = 16,
}

pub(super) fn text(bytes: &[u8]) -> Option<String> {
    std::str::from_utf8(bytes).ok().map(str::to_owned)
}

pub(super) fn number(payload: &[u8]) -> Option<u64> {
    <[u8; 8]>::try_from(payload).ok().map(u64::from_le_bytes)
}

/// Puts the envelope around a payload.
pub(in crate::store) fn seal(kind: Kind, key: &[u8], payload: &[u8]) -> Vec<u8> {
    seal_as(VALUE_VERSION, kind, key, payload)
}

pub(super) fn seal_as(version: u8, kind: Kind, key: &[u8], payload: &[u8]) -> Vec<u8> {
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
pub(in crate::store) fn open<'a>(
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

pub(super) fn corrupt(what: String, reason: &str) -> StoreError {
    StoreError::Corrupt {
        what,
        reason: reason.to_owned(),
    }
}
