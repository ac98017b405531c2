//! Fuzz target for the reader of records.

use super::record::{Record, Writer};
use crate::engine::{HistoryHash, Position};
use bytes::Bytes;

/// A record of the commit log.
fn record(bytes: &[u8]) {
    let bytes = Bytes::copy_from_slice(bytes);
    if let Ok(record) = Record::decode(&bytes) {
        assert_eq!(record.encode(), Some(bytes));
    }
}

/// What the program itself would write: target, name, bytes.
#[cfg(test)]
fn seeds() -> Vec<(&'static str, String, Vec<u8>)> {
    let record = |commit: &'static [u8]| {
        let record = Record {
            level: 1,
            epoch: 2,
            lane: 3,
            previous: Position {
                sequence: 4,
                history: HistoryHash::of(b"before"),
            },
            writer: Writer([5; 16]),
            number: 6,
            stamp_ms: 1_700_000_000_000,
            commit: Bytes::from_static(commit),
        };
        record.encode().map(Vec::from).unwrap_or_default()
    };
    vec![
        ("record", "barrier".to_owned(), record(b"")),
        ("record", "commit".to_owned(), record(b"a commit")),
    ]
}

/// Reads any bytes; panics if an assertion about them does not hold.
pub type Target = fn(&[u8]);

/// All of them, by the names of their directories in `fuzz/seeds`.
pub const TARGETS: &[(&str, Target)] = &[("record", record)];

#[cfg(test)]
#[path = "../../../fuzz/replay.rs"]
mod replay;
