//! The store on RocksDB. No RocksDB type leaves this room.
//!
//! Commits and checkpoints go through one write-ahead log, so a crash keeps a
//! prefix of them; a checkpoint is never forced to the disk by itself, because
//! only its place in that order matters. Keys and values are those of
//! [`super::format`], the settings are in `rocks/tuning.rs`.

mod frozen;
mod gauges;
mod opening;
mod snapshot;
mod sync_thread;
mod tuning;
mod write_health;

use super::disk::DiskSpace;
use super::format::{self, Column, KeyRange};
use super::writes::{self, WriteSink};
use super::{
    Commit, Condition, Due, EachRecord, FrozenStore, Garbage, PageStore, SideRecord, SideRecordKey,
    SideRecordTotals, StoreError, StoreView, StoredFilter, WalSync,
};
use crate::page::{FilterId, PageId, Sequence};
use parking_lot::Mutex;
use rocksdb::{
    ColumnFamily, DB, DBPinnableSlice, Direction, ErrorKind, IteratorMode, Options, Range,
    ReadOptions, ReadTier, WriteBatch, WriteOptions,
};
use std::fs::File;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use sync_thread::{SyncThread, Synced};
use write_health::WriteHealth;

/// Pages read from RocksDB at once; bounds what one request pins in memory.
const MAX_READ_PAGES: usize = 4096;

/// Up to so many pages are deleted one by one: every later read in the
/// neighbourhood of a range delete pays for it.
const MAX_POINT_DELETES: usize = 64;

/// Pages in write buffers that an estimate looks at.
const MAX_ESTIMATED_PAGES: usize = 16_384;

/// A filter that takes less in table files is not worth a compaction of its own.
const WORTH_COMPACTING_BYTES: u64 = 1 << 20;

/// How the store uses memory and the disk.
#[derive(Clone, Debug)]
pub struct RocksOptions {
    /// When a commit is forced to the disk.
    pub wal_sync: WalSync,
    /// Bytes of blocks of table files kept in memory.
    pub block_cache_bytes: usize,
    /// Bytes of writes kept in memory before they become table files, all
    /// columns together.
    pub write_buffer_bytes: usize,
}

impl Default for RocksOptions {
    fn default() -> Self {
        RocksOptions {
            wal_sync: WalSync::Always,
            block_cache_bytes: 64 << 20,
            write_buffer_bytes: 128 << 20,
        }
    }
}

/// A [`PageStore`] in a directory, open as long as it lives.
pub struct RocksStore {
    /// Stops before the database closes; fields drop in order.
    _sync_thread: Option<SyncThread>,
    database: Arc<DB>,
    /// Holds the statistics.
    options: Options,
    sync_commits: bool,
    next_filter_id: Mutex<FilterId>,
    /// No redo record below this sequence is stored.
    lowest_record: AtomicU64,
    failed_syncs: Arc<AtomicU64>,
    write_health: Arc<WriteHealth>,
    /// Copies frozen so far; numbers their directories.
    frozen: AtomicU64,
    /// Keeps others from writing while this store only reads.
    _lock: Option<File>,
}

impl RocksStore {
    /// Opens the store in the directory at `path`, which is made if missing.
    ///
    /// # Errors
    /// - [`StoreError::Locked`]: another process, or another store of this
    ///   one, has it open.
    /// - [`StoreError::Unusable`]: it is no directory or can't be written.
    /// - [`StoreError::NewerFormat`]: a newer program wrote it.
    /// - [`StoreError::Corrupt`]: it is damaged, or the data of another program.
    pub fn open(path: impl AsRef<Path>, options: RocksOptions) -> Result<RocksStore, StoreError> {
        let (database, database_options) = opening::open_database(path.as_ref(), &options)?;
        let database = Arc::new(database);
        frozen::remove_left_over(path.as_ref());
        let next_filter_id = opening::take_over(&database, path.as_ref())?;
        let lowest_record = lowest_record(&database)?;
        let (failed_syncs, write_health) = (
            Arc::new(AtomicU64::new(0)),
            Arc::new(WriteHealth::default()),
        );
        let sync_thread = match options.wal_sync {
            WalSync::Interval(interval) => {
                let synced = Synced {
                    database: Arc::clone(&database),
                    write_health: Arc::clone(&write_health),
                    failed: Arc::clone(&failed_syncs),
                };
                Some(SyncThread::start(synced, interval)?)
            }
            WalSync::Always | WalSync::Never => None,
        };
        Ok(RocksStore {
            _sync_thread: sync_thread,
            database,
            options: database_options,
            sync_commits: options.wal_sync == WalSync::Always,
            next_filter_id: Mutex::new(next_filter_id),
            lowest_record: AtomicU64::new(lowest_record.0),
            failed_syncs,
            write_health,
            frozen: AtomicU64::new(0),
            _lock: None,
        })
    }

    /// Opens the store for reading alone: not one byte in the directory is
    /// changed, not even those that opening it for writing would tidy up, and
    /// every change is refused. Meanwhile nobody can open it for writing.
    ///
    /// # Errors
    /// As [`open`](Self::open), and [`StoreError::Unusable`] for an older
    /// version, which opening it for writing takes over.
    pub fn open_to_read(
        path: impl AsRef<Path>,
        options: RocksOptions,
    ) -> Result<RocksStore, StoreError> {
        let (database, database_options, lock) = opening::open_to_read(path.as_ref(), &options)?;
        let (_, next_filter_id) = opening::check_info(&database, path.as_ref())?;
        let lowest_record = lowest_record(&database)?;
        Ok(RocksStore {
            _sync_thread: None,
            database: Arc::new(database),
            options: database_options,
            sync_commits: false,
            next_filter_id: Mutex::new(next_filter_id),
            lowest_record: AtomicU64::new(lowest_record.0),
            failed_syncs: Arc::default(),
            write_health: Arc::default(),
            frozen: AtomicU64::new(0),
            _lock: Some(lock),
        })
    }

    fn write(
        &self,
        batch: WriteBatch,
        forced: Forced,
        doing: &'static str,
    ) -> Result<(), StoreError> {
        let mut options = WriteOptions::default();
        options.set_sync(forced == Forced::Now);
        self.write_health
            .write(&self.database, || self.database.write_opt(batch, &options))
            .map_err(|error| failed(doing, &error))
    }

    fn column(&self, column: Column) -> Result<&ColumnFamily, StoreError> {
        column_of(&self.database, column)
    }

    fn read_chunk(
        &self,
        ids: &[PageId],
        first_index: usize,
        each: &mut dyn FnMut(usize, Option<&[u8]>),
    ) -> Result<(), StoreError> {
        let keys: Vec<[u8; 16]> = ids.iter().map(|&id| format::page_key(id)).collect();
        let pages = self.column(Column::Pages)?;
        let values = self.database.batched_multi_get_cf(pages, &keys, true);
        let mut scratch = Vec::new();
        for (offset, (&id, value)) in ids.iter().zip(values).enumerate() {
            let value =
                value.map_err(|error| unreadable("reading pages", id.to_string(), &error))?;
            match value {
                Some(value) => {
                    each(
                        first_index + offset,
                        Some(format::open_page(id, &value, &mut scratch)?),
                    );
                }
                None => each(first_index + offset, None),
            }
        }
        Ok(())
    }

    /// Reads filters as they were at one moment.
    fn filters(
        &self,
        ids: &[FilterId],
        at: &ReadOptions,
    ) -> Result<Vec<Option<StoredFilter>>, StoreError> {
        let keys: Vec<[u8; 9]> = ids
            .iter()
            .flat_map(|&id| {
                [
                    format::filter_name_key(id),
                    format::filter_meta_key(id),
                    format::filter_expiry_key(id),
                ]
            })
            .collect();
        let column = self.column(Column::Filters)?;
        let values = self
            .database
            .batched_multi_get_cf_opt(column, &keys, false, at);
        let mut values = values.into_iter();
        ids.iter()
            .map(|&id| {
                let name = filter_value(id, values.next())?;
                let meta = filter_value(id, values.next())?;
                let expiry = filter_value(id, values.next())?;
                format::stored_filter(id, name.as_deref(), meta.as_deref(), expiry.as_deref())
            })
            .collect()
    }

    fn filter(&self, id: FilterId, at: &ReadOptions) -> Result<Option<StoredFilter>, StoreError> {
        Ok(self.filters(&[id], at)?.pop().flatten())
    }

    /// Finds a filter by its name, as of one moment.
    fn named(&self, name: &str, at: &ReadOptions) -> Result<Option<StoredFilter>, StoreError> {
        let names = self.column(Column::Names)?;
        let number = self
            .database
            .get_pinned_cf_opt(names, name, at)
            .map_err(|error| unreadable("reading a filter", format!("filter {name:?}"), &error))?;
        let Some(number) = number else {
            return Ok(None);
        };
        let id = format::open_filter_number(name.as_bytes(), &number)?;
        format::named(name, id, self.filter(id, at)?).map(Some)
    }

    /// Calls `each` for key and value of all of `keys`, until it says stop.
    fn visit(
        &self,
        column: Column,
        keys: &KeyRange,
        mut options: ReadOptions,
        doing: &'static str,
        each: EachEntry<'_>,
    ) -> Result<(), StoreError> {
        options.set_iterate_upper_bound(keys.to.as_slice());
        let from = IteratorMode::From(&keys.from, Direction::Forward);
        for entry in self
            .database
            .iterator_cf_opt(self.column(column)?, options, from)
        {
            let (key, value) = entry
                .map_err(|error| unreadable(doing, format!("column {}", column.name()), &error))?;
            if each(&key, &value)? == Visit::Stop {
                break;
            }
        }
        Ok(())
    }
}

/// Is shown key and value of entries one by one.
type EachEntry<'a> = &'a mut dyn FnMut(&[u8], &[u8]) -> Result<Visit, StoreError>;

#[derive(Clone, Copy, PartialEq, Eq)]
enum Visit {
    GoOn,
    Stop,
}

/// When a write is forced to the disk.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Forced {
    Now,
    Later,
}

/// A write batch that knows its columns.
struct Batch<'a> {
    database: &'a DB,
    batch: WriteBatch,
    /// A column that was not there; nothing is written then.
    missing: Option<StoreError>,
}

impl<'a> Batch<'a> {
    fn new(database: &'a DB) -> Self {
        Batch {
            database,
            batch: WriteBatch::default(),
            missing: None,
        }
    }

    fn in_column(&mut self, column: Column, write: impl FnOnce(&mut WriteBatch, &ColumnFamily)) {
        match column_of(self.database, column) {
            Ok(column) => write(&mut self.batch, column),
            Err(error) => self.missing = Some(error),
        }
    }

    fn finish(self) -> Result<WriteBatch, StoreError> {
        match self.missing {
            None => Ok(self.batch),
            Some(error) => Err(error),
        }
    }
}

impl WriteSink for Batch<'_> {
    fn put(&mut self, column: Column, key: &[u8], value: Vec<u8>) {
        self.in_column(column, |batch, column| batch.put_cf(column, key, value));
    }

    fn delete(&mut self, column: Column, key: &[u8]) {
        self.in_column(column, |batch, column| batch.delete_cf(column, key));
    }

    fn delete_range(&mut self, column: Column, keys: &KeyRange) {
        self.in_column(column, |batch, column| {
            batch.delete_range_cf(column, &keys.from, &keys.to);
        });
    }
}

impl PageStore for RocksStore {
    fn commit(&self, commit: &Commit) -> Result<(), StoreError> {
        let mut batch = Batch::new(&self.database);
        writes::commit(commit, &mut batch);
        // Before the write: a checkpoint that comes in between must not
        // believe that there is nothing to truncate.
        self.lowest_record
            .fetch_min(commit.sequence.0, Ordering::SeqCst);
        let forced = if self.sync_commits {
            Forced::Now
        } else {
            Forced::Later
        };
        self.write(batch.finish()?, forced, "committing")
    }

    fn read_pages(
        &self,
        ids: &[PageId],
        each: &mut dyn FnMut(usize, Option<&[u8]>),
    ) -> Result<(), StoreError> {
        for (chunk_index, chunk) in ids.chunks(MAX_READ_PAGES).enumerate() {
            self.read_chunk(chunk, chunk_index * MAX_READ_PAGES, each)?;
        }
        Ok(())
    }

    fn checkpoint(
        &self,
        images: &[(PageId, Vec<u8>)],
        truncate_before: Sequence,
    ) -> Result<(), StoreError> {
        let mut batch = Batch::new(&self.database);
        writes::images(images, &mut batch)?;
        let lowest = self.lowest_record.load(Ordering::SeqCst);
        let truncates = lowest < truncate_before.0;
        if truncates {
            let below = format::log_below(Sequence(lowest), truncate_before);
            batch.delete_range(Column::Log, &below);
        }
        self.write(batch.finish()?, Forced::Later, "writing a checkpoint")?;
        if truncates {
            // Not if a lower record came meanwhile: it keeps its own mark.
            let _ = self.lowest_record.compare_exchange(
                lowest,
                truncate_before.0,
                Ordering::SeqCst,
                Ordering::SeqCst,
            );
        }
        Ok(())
    }

    fn replay(&self, each: EachRecord<'_>) -> Result<(), StoreError> {
        let mut options = ReadOptions::default();
        options.fill_cache(false);
        options.set_readahead_size(4 << 20);
        self.visit(
            Column::Log,
            &KeyRange::all(),
            options,
            "reading the redo log",
            &mut |key, value| {
                let sequence = format::log_sequence(key)?;
                each(sequence, format::open_redo(sequence, value)?)?;
                Ok(Visit::GoOn)
            },
        )
    }

    fn filter_by_name(&self, name: &str) -> Result<Option<StoredFilter>, StoreError> {
        let snapshot = self.database.snapshot();
        let mut at = ReadOptions::default();
        at.set_snapshot(&snapshot);
        self.named(name, &at)
    }

    fn filter_by_id(&self, id: FilterId) -> Result<Option<StoredFilter>, StoreError> {
        let snapshot = self.database.snapshot();
        let mut at = ReadOptions::default();
        at.set_snapshot(&snapshot);
        self.filter(id, &at)
    }

    fn list_filters(
        &self,
        prefix: &str,
        after: Option<&str>,
        limit: usize,
    ) -> Result<Vec<StoredFilter>, StoreError> {
        let snapshot = self.database.snapshot();
        let reading = || {
            let mut at = ReadOptions::default();
            at.set_snapshot(&snapshot);
            at
        };
        let mut names = Vec::new();
        let mut ids = Vec::new();
        let mut keys = KeyRange::all();
        keys.from = after.unwrap_or_default().max(prefix).as_bytes().to_vec();
        if limit > 0 {
            let doing = "listing filters";
            self.visit(Column::Names, &keys, reading(), doing, &mut |key, value| {
                if !key.starts_with(prefix.as_bytes()) {
                    return Ok(Visit::Stop);
                }
                if after.is_some_and(|after| key <= after.as_bytes()) {
                    return Ok(Visit::GoOn);
                }
                ids.push(format::open_filter_number(key, value)?);
                names.push(format::read_name(key)?);
                Ok(if ids.len() < limit {
                    Visit::GoOn
                } else {
                    Visit::Stop
                })
            })?;
        }
        let found = self.filters(&ids, &reading())?;
        names
            .iter()
            .zip(ids.iter().zip(found))
            .map(|(name, (&id, filter))| format::named(name, id, filter))
            .collect()
    }

    fn reserve_filter_ids(&self, count: u64) -> Result<FilterId, StoreError> {
        let mut next_filter_id = self.next_filter_id.lock();
        let first = *next_filter_id;
        let next = format::filter_id_after(first, count)?;
        let mut batch = Batch::new(&self.database);
        let value = format::seal_next_filter_id(next);
        batch.put(Column::Info, format::NEXT_FILTER_ID_KEY, value);
        self.write(batch.finish()?, Forced::Now, "reserving filter numbers")?;
        *next_filter_id = next;
        Ok(first)
    }

    fn garbage(&self) -> Result<Vec<Garbage>, StoreError> {
        let mut garbage = Vec::new();
        let options = ReadOptions::default();
        let doing = "reading the reclaim list";
        self.visit(
            Column::Reclaim,
            &KeyRange::all(),
            options,
            doing,
            &mut |key, value| {
                garbage.push(format::read_reclaim(key, value)?);
                Ok(Visit::GoOn)
            },
        )?;
        garbage.sort_unstable();
        Ok(garbage)
    }

    fn reclaim(&self, garbage: Garbage) -> Result<(), StoreError> {
        let pages = format::pages_of(garbage);
        let mut few = Vec::new();
        let mut options = ReadOptions::default();
        options.fill_cache(false);
        self.visit(
            Column::Pages,
            &pages,
            options,
            "reclaiming pages",
            &mut |key, _| {
                few.push(key.to_vec());
                Ok(if few.len() <= MAX_POINT_DELETES {
                    Visit::GoOn
                } else {
                    Visit::Stop
                })
            },
        )?;
        let mut batch = Batch::new(&self.database);
        if few.len() <= MAX_POINT_DELETES {
            few.iter().for_each(|key| batch.delete(Column::Pages, key));
        } else {
            batch.delete_range(Column::Pages, &pages);
        }
        batch.delete(Column::Reclaim, &format::reclaim_key(garbage));
        self.write(batch.finish()?, Forced::Later, "reclaiming pages")
    }

    fn due(&self, from_ms: u64, until_ms: u64, limit: usize) -> Result<Vec<Due>, StoreError> {
        let mut due = Vec::new();
        if limit == 0 {
            return Ok(due);
        }
        self.visit(
            Column::Due,
            &format::due_between(from_ms, until_ms),
            ReadOptions::default(),
            "reading the list of what ends",
            &mut |key, value| {
                due.push(format::read_due(key, value)?);
                Ok(if due.len() < limit {
                    Visit::GoOn
                } else {
                    Visit::Stop
                })
            },
        )?;
        Ok(due)
    }

    fn forget_due(&self, due: &Due) -> Result<(), StoreError> {
        let mut batch = Batch::new(&self.database);
        batch.delete(Column::Due, &format::due_key(due));
        self.write(batch.finish()?, Forced::Later, "forgetting what has ended")
    }

    fn side_record(&self, key: &SideRecordKey) -> Result<Option<SideRecord>, StoreError> {
        let (side_records, key) = (
            self.column(Column::SideRecords)?,
            format::side_record_key(key),
        );
        self.database
            .get_pinned_cf(side_records, &key)
            .map_err(|error| {
                unreadable("reading a side record", "a side record".to_owned(), &error)
            })?
            .map(|value| format::open_side_record(&key, &value))
            .transpose()
    }

    fn forget_side_record(
        &self,
        key: &SideRecordKey,
        record: &SideRecord,
    ) -> Result<(), StoreError> {
        let mut batch = Batch::new(&self.database);
        writes::forget_side_record(key, record, &mut batch);
        self.write(batch.finish()?, Forced::Later, "forgetting what has ended")
    }

    fn side_record_totals(&self) -> Result<SideRecordTotals, StoreError> {
        let mut totals = SideRecordTotals::default();
        let mut options = ReadOptions::default();
        options.fill_cache(false);
        options.set_readahead_size(4 << 20);
        let doing = "counting side records";
        self.visit(
            Column::SideRecords,
            &KeyRange::all(),
            options,
            doing,
            &mut |key, value| {
                format::count_side_record(&mut totals, key, value)?;
                Ok(Visit::GoOn)
            },
        )?;
        Ok(totals)
    }

    /// Table files by their index, write buffers by looking at what is in
    /// them; at most `MAX_ESTIMATED_PAGES` pages there are looked at.
    fn approximate_page_bytes(&self, id: FilterId) -> Result<u64, StoreError> {
        let pages = format::pages_of(Garbage::Filter(id));
        let range = Range::new(&pages.from, &pages.to);
        let column = self.column(Column::Pages)?;
        let in_files: u64 = self
            .database
            .get_approximate_sizes_cf(column, &[range])
            .iter()
            .sum();

        let (mut seen, mut in_buffers) = (0, 0);
        let mut options = ReadOptions::default();
        options.set_read_tier(ReadTier::Memtable);
        let doing = "estimating the size of a filter";
        self.visit(Column::Pages, &pages, options, doing, &mut |key, value| {
            seen += 1;
            in_buffers += (key.len() + value.len()) as u64;
            Ok(if seen < MAX_ESTIMATED_PAGES {
                Visit::GoOn
            } else {
                Visit::Stop
            })
        })?;
        Ok(in_files + in_buffers)
    }

    fn sync(&self) -> Result<(), StoreError> {
        self.write_health
            .write(&self.database, || self.database.flush_wal(true))
            .map_err(|error| failed("forcing writes to the disk", &error))
    }

    fn stage(&self, id: FilterId) -> Result<(), StoreError> {
        let mut batch = Batch::new(&self.database);
        writes::stage(id, &mut batch);
        // In the log before the pages, so it is there if one of them is.
        self.write(batch.finish()?, Forced::Later, "staging a filter")
    }

    fn at_one_moment(
        &self,
        work: &mut dyn FnMut(&dyn StoreView) -> Result<(), StoreError>,
    ) -> Result<(), StoreError> {
        work(&snapshot::Snapshot::of(self))
    }

    fn freeze(&self) -> Result<Box<dyn FrozenStore>, StoreError> {
        let number = self.frozen.fetch_add(1, Ordering::Relaxed);
        Ok(Box::new(frozen::freeze(&self.database, number)?))
    }

    /// Compacts the range of the pages, which drops what a range delete covers;
    /// where that is little, it comes back with other compactions.
    fn compact_range(&self, garbage: Garbage) -> Result<(), StoreError> {
        let pages = format::pages_of(garbage);
        let column = self.column(Column::Pages)?;
        let range = Range::new(&pages.from, &pages.to);
        let sizes = self.database.get_approximate_sizes_cf(column, &[range]);
        if sizes.iter().sum::<u64>() >= WORTH_COMPACTING_BYTES {
            let (from, to) = (Some(&pages.from), Some(&pages.to));
            self.database.compact_range_cf(column, from, to);
        }
        Ok(())
    }

    fn condition(&self) -> Condition {
        Condition {
            disk: DiskSpace::of(self.database.path()).ok(),
            writes: self.write_health.state(&self.database),
        }
    }

    fn gauges(&self) -> Vec<(&'static str, &'static str, f64)> {
        gauges::read(
            &self.database,
            &self.options,
            self.failed_syncs.load(Ordering::Relaxed),
        )
    }
}

fn column_of(database: &DB, column: Column) -> Result<&ColumnFamily, StoreError> {
    database
        .cf_handle(column.name())
        .ok_or_else(|| StoreError::Corrupt {
            what: "the data directory".to_owned(),
            reason: format!("column {} is missing", column.name()),
        })
}

fn lowest_record(database: &DB) -> Result<Sequence, StoreError> {
    let column = column_of(database, Column::Log)?;
    match database.iterator_cf(column, IteratorMode::Start).next() {
        None => Ok(Sequence(u64::MAX)),
        Some(Ok((key, _))) => format::log_sequence(&key),
        Some(Err(error)) => Err(unreadable(
            "reading the redo log",
            "the redo log".to_owned(),
            &error,
        )),
    }
}

type Value<'a> = Option<DBPinnableSlice<'a>>;

fn filter_value(
    id: FilterId,
    value: Option<Result<Value<'_>, rocksdb::Error>>,
) -> Result<Value<'_>, StoreError> {
    value
        .transpose()
        .map(Option::flatten)
        .map_err(|error| unreadable("reading a filter", format!("filter {id}"), &error))
}

fn failed(doing: &'static str, error: &rocksdb::Error) -> StoreError {
    let reason = one_line(error);
    match says_full(&reason) {
        true => StoreError::NoSpace { doing, reason },
        false => StoreError::Io { doing, reason },
    }
}

fn says_full(reason: &str) -> bool {
    FULL_DISK.iter().any(|words| reason.contains(words))
}

/// How RocksDB says that a disk, or a share of it, is full: it tells no code.
const FULL_DISK: [&str; 2] = ["No space left on device", "Disk quota exceeded"];

/// RocksDB has checksums of its own; what they catch is corrupt, too.
fn unreadable(doing: &'static str, what: String, error: &rocksdb::Error) -> StoreError {
    match error.kind() {
        ErrorKind::Corruption => StoreError::Corrupt {
            what,
            reason: one_line(error),
        },
        _ => failed(doing, error),
    }
}

fn one_line(error: &rocksdb::Error) -> String {
    let text: &str = error.as_ref();
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests;
