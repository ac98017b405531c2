//! Reads of now, or of a snapshot of RocksDB's.

use super::errors::unreadable;
use crate::store::error::{Result, StoreError};
use crate::store::format;
use crate::store::kv::{Caching, Column, EachEntry, EachValue, KeyRange, Reader};
use rocksdb::{ColumnFamily, DB, DBRawIterator, ReadOptions, SnapshotWithThreadMode};
use std::ops::ControlFlow;

/// Bytes that are read at once where all is.
const READ_AHEAD_BYTES: usize = 1 << 20;

pub(super) fn column_of(database: &DB, column: Column) -> Result<&ColumnFamily> {
    database.cf_handle(column.name()).ok_or_else(|| {
        StoreError::corrupt(
            "the data directory",
            format!("column {} is missing", column.name()),
        )
    })
}

/// One batched read; values stay pinned where they are until `each` has seen
/// them.
pub(super) fn get_many(
    database: &DB,
    column: Column,
    keys: &[&[u8]],
    options: &ReadOptions,
    each: EachValue<'_>,
) -> Result {
    let handle = column_of(database, column)?;
    let unreadable = |key, error| {
        let what = || format::entry_name(column, key);
        unreadable(doing(column), what, &error)
    };
    if let [key] = keys {
        let value = database.get_pinned_cf_opt(handle, key, options);
        let value = value.map_err(|error| unreadable(*key, error))?;
        return each(0, value.as_deref());
    }
    let values = database.batched_multi_get_cf_opt(handle, keys, keys.is_sorted(), options);
    for (index, (key, value)) in keys.iter().zip(values).enumerate() {
        let value = value.map_err(|error| unreadable(*key, error))?;
        each(index, value.as_deref())?;
    }
    Ok(())
}

pub(super) fn scan(
    database: &DB,
    column: Column,
    keys: &KeyRange,
    mut options: ReadOptions,
    each: EachEntry<'_>,
) -> Result {
    options.set_iterate_upper_bound(keys.to.as_slice());
    let mut entries = database.raw_iterator_cf_opt(column_of(database, column)?, options);
    entries.seek(&keys.from);
    visit(entries, column, "", each)
}

/// Visits entries from the one on that an iterator stands at.
fn visit(
    mut entries: DBRawIterator<'_>,
    column: Column,
    what: &str,
    each: EachEntry<'_>,
) -> Result {
    while let Some((key, value)) = entries.item() {
        if each(key, value)?.is_break() {
            return Ok(());
        }
        entries.next();
    }
    let what = || format!("{what}column {}", column.name());
    let ended = entries.status();
    ended.map_err(|error| unreadable(doing(column), what, &error))
}

/// A scan passes over blocks in which all is deleted; this one does not. Only of an entry
/// that was overwritten more than eight times the oldest may be passed over.
pub(super) fn read_through(
    database: &DB,
    column: Column,
    read: &mut dyn FnMut(u64) -> ControlFlow<()>,
) -> Result {
    let caching = Caching::Bypass(READ_AHEAD_BYTES);
    let mut options = with_caching(ReadOptions::default(), caching);
    #[expect(
        deprecated,
        reason = "for speed it is of no use any more, for this it is"
    )]
    options.set_ignore_range_deletions(true);
    let mut entries = database.raw_iterator_cf_opt(column_of(database, column)?, options);
    entries.seek_to_first();
    let what = "what is stored, or deleted, in ";
    let mut each = |key: &[u8], value: &[u8]| Ok(read((key.len() + value.len()) as u64));
    visit(entries, column, what, &mut each)
}

pub(super) fn with_caching(mut options: ReadOptions, caching: Caching) -> ReadOptions {
    if let Caching::Bypass(read_ahead_bytes) = caching {
        options.fill_cache(false);
        options.set_readahead_size(read_ahead_bytes);
    }
    options
}

fn doing(column: Column) -> &'static str {
    match column {
        Column::Info => "reading what the data directory is",
        Column::Names | Column::Filters => "reading a filter",
        Column::Pages => "reading pages",
        Column::Log => "reading the redo log",
        Column::Reclaim => "reading the reclaim list",
        Column::Due => "reading the list of what ends",
        Column::SideRecords => "reading a side record",
    }
}

pub(super) struct Snapshot<'a> {
    database: &'a DB,
    snapshot: SnapshotWithThreadMode<'a, DB>,
}

impl<'a> Snapshot<'a> {
    /// Of now.
    pub(super) fn of(database: &'a DB) -> Snapshot<'a> {
        Snapshot {
            database,
            snapshot: database.snapshot(),
        }
    }

    fn options(&self) -> ReadOptions {
        let mut options = ReadOptions::default();
        options.set_snapshot(&self.snapshot);
        options
    }
}

impl Reader for Snapshot<'_> {
    fn get_many(&self, column: Column, keys: &[&[u8]], each: EachValue<'_>) -> Result {
        get_many(self.database, column, keys, &self.options(), each)
    }

    fn scan(
        &self,
        column: Column,
        keys: &KeyRange,
        caching: Caching,
        each: EachEntry<'_>,
    ) -> Result {
        let options = with_caching(self.options(), caching);
        scan(self.database, column, keys, options, each)
    }
}
