//! What a store keeps beside pages and the redo log.

use crate::page::{FilterId, Ordinal};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Names a side record: a small value beside the filters that a commit writes
/// together with what it is about, and that ends by itself.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum SideRecordKey {
    /// What a request was answered, should it be sent again.
    Retry([u8; 32]),
    /// How far an import into a filter came.
    Import {
        /// The filter's number.
        filter: FilterId,
        /// The import's name, up to 100 bytes.
        import: String,
    },
}

/// A side record, as it is kept under its key.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SideRecord {
    /// Milliseconds since 1970 from which on it means nothing.
    pub ends_at_ms: u64,
    /// The name of the API key that it counts for, up to 64 bytes; `None`:
    /// nobody's.
    pub owner: Option<Arc<str>>,
    /// Opaque here.
    #[serde(with = "serde_bytes")]
    pub payload: Vec<u8>,
}

/// How far all pages were read to see whether they are as they should be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ScrubPosition {
    /// The filter that comes next.
    pub filter: FilterId,
    /// Its sub-filter that comes next.
    pub ordinal: Ordinal,
    /// Faults that were found before it.
    pub faults: u64,
}

/// Where a lane stands that several stores have: the newest record of the commit
/// log that this one holds. The numbers are opaque here.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LanePosition {
    /// Which cluster.
    pub founding: [u8; 16],
    /// Which life of it.
    pub epoch: u64,
    /// The record's number.
    pub sequence: u64,
    /// The hash of the lane's history up to it.
    pub history: [u8; 16],
    /// The record's time, in milliseconds since 1970.
    pub stamp_ms: u64,
    /// The largest serial number of a filter that was ever made in the lane, 0 if none
    /// was.
    pub last_serial: u64,
}

/// Bytes of side records about requests, by whom they count for and when they end.
pub type RetryEnds = BTreeMap<Option<Arc<str>>, BTreeMap<u64, u64>>;

/// Side records as a whole.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SideRecordTotals {
    /// Bytes of the side records about requests; see [`SideRecord::stored_bytes`].
    pub retry_bytes: u64,
    /// The same of each API key, or of nobody, by the second, since 1970, by which
    /// these have ended.
    pub retry_ends: RetryEnds,
    /// Side records about imports.
    pub imports: u64,
    /// Both of each API key that they count for.
    pub of_keys: BTreeMap<Arc<str>, KeyTotals>,
}

/// Side records of one API key.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct KeyTotals {
    /// As [`SideRecordTotals::retry_bytes`].
    pub retry_bytes: u64,
    /// As [`SideRecordTotals::imports`].
    pub imports: u64,
}

impl SideRecord {
    /// Bytes that it takes in the store.
    pub fn bytes(&self) -> u64 {
        let owner = self.owner.as_ref().map_or(0, |owner| owner.len());
        SideRecord::stored_bytes(owner + self.payload.len())
    }

    /// The second, since 1970, by which it has ended.
    pub fn end_second(&self) -> u64 {
        self.ends_at_ms.div_ceil(1000)
    }

    /// Bytes that a side record of so many takes in the store, with its key, its
    /// place on the list of what ends, and what surrounds them.
    pub fn stored_bytes(payload_bytes: usize) -> u64 {
        payload_bytes as u64 + SIDE_RECORD_OVERHEAD_BYTES
    }
}

/// Two keys of 33 and 42 bytes, two envelopes, an end, and the storage
/// engine's own share.
const SIDE_RECORD_OVERHEAD_BYTES: u64 = 128;

/// When a filter ends, and how that was asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Expiry {
    /// Milliseconds since 1970 from which on the filter is gone.
    pub at_ms: u64,
    /// Seconds from the request to that moment, as asked for.
    pub ttl_seconds: u64,
}

/// An entry of the list of what ends when.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Due {
    /// A filter.
    Filter {
        /// Milliseconds since 1970.
        at_ms: u64,
        /// Its number.
        id: FilterId,
    },
    /// A side record.
    SideRecord {
        /// Milliseconds since 1970.
        at_ms: u64,
        /// Its key.
        key: SideRecordKey,
    },
}

/// Pages that can't be reached any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Garbage {
    /// All pages of a removed filter.
    Filter(FilterId),
    /// All pages of a dropped sub-filter.
    SubFilter(FilterId, Ordinal),
}

impl Garbage {
    /// Whose pages they are, or were.
    pub fn filter(&self) -> FilterId {
        match self {
            Garbage::Filter(id) | Garbage::SubFilter(id, _) => *id,
        }
    }
}

/// A filter as the store knows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredFilter {
    /// Its number.
    pub id: FilterId,
    /// Its name.
    pub name: String,
    /// Its description, opaque here.
    pub meta: Vec<u8>,
    /// When it ends, if ever. It is there until it is removed.
    pub expiry: Option<Expiry>,
    /// The name of the API key that created it, if there was one.
    pub owner: Option<String>,
}
