//! What is kept once in a data directory.

use super::envelope::{Kind, open, seal};
use super::keys::keys_under;
use crate::page::FilterId;
use crate::store::error::{Result, StoreError};
use crate::store::kv::KeyRange;

/// Version of the data directory as a whole: which columns there are and what
/// their keys look like, and what redo records hold. Other versions are
/// refused.
pub const DATA_VERSION: u32 = 1;

/// Key of the data directory's version in [`Column::Info`].
pub(in crate::store) const DATA_VERSION_KEY: &[u8] = b"data_format";

/// Key of the next serial number of a filter in [`Column::Info`].
pub(in crate::store) const NEXT_SERIAL_KEY: &[u8] = b"next_filter_id";

/// Key of the position of the scrub in [`Column::Info`].
pub(in crate::store) const SCRUB_POSITION_KEY: &[u8] = b"scrub_position";

/// What the keys of lanes' positions begin with in [`Column::Info`].
const LANE_POSITION_PREFIX: &[u8] = b"lane_position/";

/// What the keys of what other stores have of a lane begin with in [`Column::Info`].
const LANE_ELSEWHERE_PREFIX: &[u8] = b"lane_elsewhere/";

/// What the keys of records begin with in [`Column::Info`] that a lane has applied.
const LANE_PAST_PREFIX: &[u8] = b"lane_past/";

/// The first serial number there is; 0 is none.
pub(in crate::store) const FIRST_SERIAL: u64 = 1;

pub(in crate::store) fn seal_data_version(version: u32) -> Vec<u8> {
    seal(Kind::DataVersion, DATA_VERSION_KEY, &version.to_le_bytes())
}

/// Whether it is the version of a data directory that this program reads.
///
/// # Errors
/// Also a version that this program does not know.
pub(in crate::store) fn check_data_version(value: &[u8]) -> Result {
    let what = || "the data directory".to_owned();
    let payload = open(Kind::DataVersion, DATA_VERSION_KEY, value)?;
    let found = <[u8; 4]>::try_from(payload)
        .map(u32::from_le_bytes)
        .map_err(|_| StoreError::corrupt(what(), "its version is no number"))?;
    match found {
        0 => Err(StoreError::corrupt(what(), "its version is 0")),
        DATA_VERSION => Ok(()),
        _ => Err(StoreError::newer(what(), found, DATA_VERSION)),
    }
}

/// The keys of the positions of all lanes.
pub(in crate::store) fn lane_positions() -> KeyRange {
    keys_under(LANE_POSITION_PREFIX, LANE_POSITION_PREFIX.len() + 4)
}

pub(in crate::store) fn lane_position_key(lane: u32) -> Vec<u8> {
    [LANE_POSITION_PREFIX, &lane.to_be_bytes()].concat()
}

/// The key of how far a lane is elsewhere; its value is a position of a lane.
pub(in crate::store) fn lane_elsewhere_key(lane: u32) -> Vec<u8> {
    [LANE_ELSEWHERE_PREFIX, &lane.to_be_bytes()].concat()
}

/// The lane of such a key.
pub(in crate::store) fn lane_of_position(key: &[u8]) -> u32 {
    let lane = key.last_chunk().copied();
    u32::from_be_bytes(lane.unwrap_or_default())
}

/// The key of a record that a lane has applied.
pub(in crate::store) fn lane_past_key(lane: u32, sequence: u64) -> Vec<u8> {
    let (lane, sequence) = (lane.to_be_bytes(), sequence.to_be_bytes());
    [LANE_PAST_PREFIX, &lane, &sequence].concat()
}

/// The keys of those between two numbers; the second one is not among them.
pub(in crate::store) fn lane_past_between(lane: u32, from: u64, to: u64) -> KeyRange {
    KeyRange::new(lane_past_key(lane, from), lane_past_key(lane, to))
}

/// The number after `count` more were handed out from `first` on.
pub(in crate::store) fn serial_after(first: u64, count: u64) -> Result<u64> {
    first
        .checked_add(count)
        .filter(|&next| next <= 1 << FilterId::SERIAL_BITS)
        .ok_or(StoreError::NoFilterNumbers)
}

#[cfg(test)]
pub(in crate::store) fn data_version_of_a_newer_program() -> Vec<u8> {
    seal_data_version(DATA_VERSION + 1)
}
