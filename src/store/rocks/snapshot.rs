//! The store as of one moment: a snapshot of RocksDB's.

use super::{RocksStore, Visit};
use crate::page::{PageId, PageIndex};
use crate::store::format::{self, Column, KeyRange};
use crate::store::{EachPage, EachRecord, StoreError, StoreView, StoredFilter};
use rocksdb::{DB, ReadOptions, SnapshotWithThreadMode};

/// Bytes read ahead where much is read in a row.
const READ_AHEAD_BYTES: usize = 1 << 20;

pub(super) struct Snapshot<'a> {
    store: &'a RocksStore,
    snapshot: SnapshotWithThreadMode<'a, DB>,
}

impl<'a> Snapshot<'a> {
    /// Now.
    pub(super) fn of(store: &'a RocksStore) -> Snapshot<'a> {
        Snapshot {
            store,
            snapshot: store.database.snapshot(),
        }
    }

    /// For reading much once: what others keep in the cache stays there.
    fn once(&self) -> ReadOptions {
        let mut options = ReadOptions::default();
        options.set_snapshot(&self.snapshot);
        options.fill_cache(false);
        options.set_readahead_size(READ_AHEAD_BYTES);
        options
    }
}

impl StoreView for Snapshot<'_> {
    fn filter_by_name(&self, name: &str) -> Result<Option<StoredFilter>, StoreError> {
        let mut at = ReadOptions::default();
        at.set_snapshot(&self.snapshot);
        self.store.named(name, &at)
    }

    fn pages(&self, from: PageId, end: PageIndex, each: EachPage<'_>) -> Result<(), StoreError> {
        let keys = format::pages_between(from, end);
        let mut scratch = Vec::new();
        let doing = "reading the pages of a filter";
        self.store.visit(
            Column::Pages,
            &keys,
            self.once(),
            doing,
            &mut |key, value| {
                let id = format::page_of(key)?;
                let image = format::open_page(id, value, &mut scratch)?;
                Ok(match each(id.page, image)?.is_continue() {
                    true => Visit::GoOn,
                    false => Visit::Stop,
                })
            },
        )
    }

    fn replay(&self, each: EachRecord<'_>) -> Result<(), StoreError> {
        let doing = "reading the redo log";
        let all = KeyRange::all();
        self.store
            .visit(Column::Log, &all, self.once(), doing, &mut |key, value| {
                let sequence = format::log_sequence(key)?;
                each(sequence, format::open_redo(sequence, value)?)?;
                Ok(Visit::GoOn)
            })
    }
}
