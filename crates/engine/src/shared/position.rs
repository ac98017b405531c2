//! Where a lane stands in what orders the commits of several engines.

use crate::store::LanePosition;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use sha2::{Digest, Sha256};
use std::fmt;

/// The hash of a lane's whole history up to a record: the first half of the
/// record's SHA-256. A record holds the hash of the history before it, so each
/// depends on all before. 128 bits tell accidents apart; nobody who may write to
/// the log is taken for an adversary.
#[derive(Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct HistoryHash([u8; HistoryHash::BYTES]);

impl HistoryHash {
    /// How long one is.
    pub const BYTES: usize = 16;

    /// The history that ends with this record.
    pub fn of(record: &[u8]) -> HistoryHash {
        let whole: [u8; 32] = Sha256::digest(record).into();
        HistoryHash(whole.first_chunk().copied().unwrap_or_default())
    }

    /// One that was stored.
    pub fn from_bytes(bytes: [u8; HistoryHash::BYTES]) -> HistoryHash {
        HistoryHash(bytes)
    }

    /// Its bytes.
    pub fn as_bytes(&self) -> &[u8; HistoryHash::BYTES] {
        &self.0
    }
}

impl fmt::Debug for HistoryHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl fmt::Display for HistoryHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&hex::encode(self.0))
    }
}

impl Serialize for HistoryHash {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for HistoryHash {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<HistoryHash, D::Error> {
        let mut hash = [0; HistoryHash::BYTES];
        let text = String::deserialize(from)?;
        hex::decode_to_slice(text, &mut hash).map_err(D::Error::custom)?;
        Ok(HistoryHash(hash))
    }
}

/// Where a replica of a lane stands: the newest record that it applied. Two
/// replicas at equal positions hold the same.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Position {
    /// The record's number in the log, 0 before the first. Numbers of a lane
    /// ascend, with gaps.
    pub sequence: u64,
    /// The history up to it.
    pub history: HistoryHash,
}

impl Position {
    /// At this record, with this history up to it.
    pub fn new(sequence: u64, history: HistoryHash) -> Position {
        Position { sequence, history }
    }
}

impl From<&LanePosition> for Position {
    fn from(stored: &LanePosition) -> Position {
        Position::new(stored.sequence, HistoryHash::from_bytes(stored.history))
    }
}
