//! The storage: page ids and bytes, never buckets.
//!
//! A [`PageStore`] keeps the descriptions of filters, the images of their
//! pages, and the redo log that says how the pages changed since their images
//! were written. It does not interpret any of them. Below it is a seam of few
//! primitives, [`kv::KeyValueStore`]: an ordered map of bytes, in RocksDB or in
//! memory.
//!
//! | file | what it owns |
//! |---|---|
//! | `page_store.rs` | [`PageStore`]: what an engine asks of its store |
//! | `snapshot.rs` | [`Snapshot`]: reads as of one moment |
//! | `commit.rs` | [`Commit`]: one atomic unit of change, and its entries |
//! | `commit_bytes.rs` | a commit as bytes, for other stores |
//! | `values.rs` | what is kept beside pages and log: filters, side records, ends, garbage |
//! | `format.rs` and `format/` | every key and value, byte by byte: the envelope, and a file for each kind |
//! | `redo/` | the bytes of a redo record |
//! | `pending.rs` | what the disk has not answered yet |
//! | `repair.rs` | taking out entries that can't be read |
//! | `kv.rs` | the seam |
//! | `rocks.rs` and `rocks/` | a store of bytes; tests have another one, in memory |
//! | `disk.rs` | how full a disk is, and how much of it is left alone |
//! | `error.rs` | what can go wrong |
//! | `contract/` | the tests that a store passes, over either store of bytes |
//!
//! What each key and value looks like on disk is in `docs/format.md`.
//!
//! # Contract
//!
//! - [`PageStore::commit`] is atomic: after a crash either all of it is there
//!   or nothing. When it returns `Ok`, it survives whatever the configured
//!   [`WalSync`] promises. When it returns `Err`, the outcome is unknown until
//!   the same sequence has been committed again.
//! - Commits and checkpoints become durable in the order in which they
//!   returned: a crash keeps a prefix. So a checkpoint that truncates the log
//!   can never survive without the page images that made the truncation right.
//! - A page that was never written reads as absent.
//! - Nothing is reordered across `commit` calls with increasing sequences;
//!   `replay` visits records in ascending sequence.
//! - Corrupt or newer bytes are an error that names what was read; they are
//!   never returned as data.

mod commit;
pub mod commit_bytes;
#[cfg(test)]
mod contract;
pub mod disk;
mod error;
pub mod format;
#[cfg(any(test, fuzzing))]
#[doc(hidden)]
pub mod fuzz_targets;
pub mod kv;
mod page_store;
mod pending;
pub mod redo;
pub mod repair;
pub mod rocks;
mod snapshot;
mod values;

pub use commit::{Commit, FilterChange, PageImage, SideRecordChange};
pub use error::{Cause, Result, StoreError};
pub use kv::{Condition, FrozenFile, FrozenStore, KeyValueStore, WalSync, Writes};
pub use page_store::{LANE_PAST_LEAST, LANE_PAST_RECORDS, NUMBERS_OF_AN_EPOCH, PageStore};
pub use pending::{Pending, PendingOperations};
pub use snapshot::{EachPage, EachRecord, ListedName, NamedEnd, Snapshot};
pub use values::{
    Due, Expiry, Garbage, KeyTotals, LanePosition, RetryEnds, ScrubPosition, SideRecord,
    SideRecordKey, SideRecordTotals, StoredFilter,
};
