//! Bytes in RocksDB. No RocksDB type leaves this room.
//!
//! | file | what it owns |
//! |---|---|
//! | `rocks/options.rs` | what is set from outside |
//! | `rocks/tuning.rs` | the settings of RocksDB, and why |
//! | `rocks/opening.rs` | opening a data directory, or one line that says why not |
//! | `rocks/directory_lock.rs` | the lock of a data directory |
//! | `rocks/lost_changes.rs` | whether all is there that was forced to the disk |
//! | `rocks/log_files.rs` | whether its write-ahead log and manifest are whole |
//! | `rocks/reading.rs` | batched reads, scans, snapshots |
//! | `rocks/write_health.rs` | whether RocksDB takes writes after one failed |
//! | `rocks/forced.rs` | up to which write the log was forced to the disk |
//! | `rocks/every.rs` | a thread that does something every so often |
//! | `rocks/frozen.rs` | copies for backups |
//! | `rocks/replacement.rs` | another state, which the next start puts in the place of this one |
//! | `rocks/gauges.rs` | what RocksDB tells about itself |
//! | `rocks/errors.rs` | what its errors mean |
//!
//! All writes go through one write-ahead log, so a crash keeps a prefix of
//! them.

mod directory_lock;
mod errors;
mod every;
mod forced;
mod frozen;
mod gauges;
mod log_files;
mod lost_changes;
mod opening;
mod options;
mod pacing;
mod reading;
mod replacement;
mod tuning;
mod write_health;

pub use options::RocksOptions;
pub use replacement::Replacement;

use super::disk::DiskSpace;
use super::error::{Result, StoreError};
use super::kv::{
    Caching, Change, Column, Condition, Durability, EachEntry, EachValue, FrozenStore, Gauge,
    KeyRange, KeyValueStore, Reader, WalSync, WriteBatch,
};
use directory_lock::DirectoryLock;
use errors::{failed, one_line};
use every::Every;
use forced::{Forced, Keeper};
use reading::{Snapshot, column_of, with_caching};
use rocksdb::{DB, Options, Range, ReadOptions, ReadTier, WriteOptions};
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use write_health::WriteHealth;

/// Entries in write buffers that an estimate looks at.
const MAX_ESTIMATED_ENTRIES: usize = 16_384;

/// A range that takes less in table files is not worth a compaction of its own.
const WORTH_COMPACTING_BYTES: u64 = 1 << 20;

/// Block cache of a frozen copy: everything in it is read once.
const FROZEN_CACHE_BYTES: usize = 4 << 20;

/// A [`KeyValueStore`] in a directory, open as long as it lives.
pub struct RocksStore {
    /// Stop before the database closes, in this order: fields drop in order.
    _forcing: Option<Every>,
    keeping: Option<Every>,
    database: Arc<DB>,
    /// Holds the statistics.
    options: Options,
    wal_sync: WalSync,
    failed_syncs: Arc<AtomicU64>,
    write_health: Arc<WriteHealth>,
    forced: Arc<Forced>,
    /// Copies frozen so far; numbers their directories.
    frozen: AtomicU64,
    /// The last to go.
    _lock: DirectoryLock,
}

impl RocksStore {
    /// Opens the store in the directory at `path`, which is made if missing.
    ///
    /// # Errors
    /// - [`StoreError::Locked`]: another process, or another store of this
    ///   one, has it open.
    /// - [`StoreError::Unusable`]: it is no directory or can't be written.
    /// - [`StoreError::NewerFormat`]: a newer
    ///   older program wrote it.
    /// - [`StoreError::Corrupt`]: it is damaged, or the data of another program.
    /// - [`StoreError::LostChanges`]: changes are missing that were forced to the
    ///   disk, and that was not accepted. Nothing in the directory is changed.
    pub fn open(path: impl AsRef<Path>, options: RocksOptions) -> Result<RocksStore> {
        let (database, database_options, lock) = opening::open_database(path.as_ref(), &options)?;
        frozen::remove_left_over(path.as_ref());
        opening::take_over(&database, path.as_ref())?;
        let mut store = RocksStore::of(database, database_options, options.wal_sync, lock);
        if let WalSync::Interval(interval) = options.wal_sync {
            store._forcing = Some(store.force_every(interval)?);
        }
        let (mut keeper, forced) = (Keeper::new(path.as_ref()), Arc::clone(&store.forced));
        let keep = move || keeper.keep(forced.get());
        store.keeping = Some(Every::start("forced", forced::KEEP_EVERY, keep)?);
        Ok(store)
    }

    /// Opens the store for reading alone: not one byte in the directory is
    /// changed, not even those that opening it for writing would tidy up, and
    /// every change is refused. Meanwhile it can't be opened for writing.
    ///
    /// # Errors
    /// As [`open`](Self::open).
    pub fn open_to_read(path: impl AsRef<Path>, options: RocksOptions) -> Result<RocksStore> {
        let (database, database_options, lock) = opening::open_to_read(path.as_ref(), &options)?;
        opening::check_version(&database, path.as_ref())?;
        let wal_sync = WalSync::Never;
        Ok(RocksStore::of(database, database_options, wal_sync, lock))
    }

    /// Whether a directory has the data of a store, as every one has that is open, unless
    /// somebody has removed them under it.
    ///
    /// # Errors
    /// The disk did not say.
    pub fn is_at(path: &Path) -> Result<bool> {
        let doing = "looking for the data directory";
        opening::looks_like_data(path).map_err(|error| StoreError::io(doing, error))
    }

    /// Begins another state for this directory, which the next start puts in the
    /// place of this one once it is complete.
    ///
    /// # Errors
    /// The disk refused.
    pub fn begin_replacement(&self) -> Result<Replacement> {
        Replacement::begin(self.database.path())
    }

    fn of(database: DB, options: Options, wal_sync: WalSync, lock: DirectoryLock) -> RocksStore {
        RocksStore {
            _forcing: None,
            keeping: None,
            database: Arc::new(database),
            options,
            wal_sync,
            failed_syncs: Arc::default(),
            write_health: Arc::default(),
            forced: Arc::default(),
            frozen: AtomicU64::new(0),
            _lock: lock,
        }
    }

    /// Forces the write-ahead log to the disk every so often.
    fn force_every(&self, interval: Duration) -> Result<Every> {
        let (database, forced) = (Arc::clone(&self.database), Arc::clone(&self.forced));
        let (health, failed) = (
            Arc::clone(&self.write_health),
            Arc::clone(&self.failed_syncs),
        );
        Every::start("wal-sync", interval, move || {
            if let Err(error) = forced.write(&database, &health, || database.flush_wal(true)) {
                failed.fetch_add(1, Ordering::Relaxed);
                let reason = one_line(&error);
                tracing::error!(reason, "forcing the write-ahead log to the disk failed");
            }
        })
    }

    fn bytes_in_files(&self, column: Column, keys: &KeyRange) -> Result<u64> {
        let range = Range::new(&keys.from, &keys.to);
        let column = column_of(&self.database, column)?;
        let sizes = self.database.get_approximate_sizes_cf(column, &[range]);
        Ok(sizes.iter().sum())
    }
}

fn open_frozen(directory: &Path) -> Result<Arc<dyn KeyValueStore>> {
    let options = RocksOptions {
        block_cache_bytes: FROZEN_CACHE_BYTES,
        ..RocksOptions::default()
    };
    let store = RocksStore::open_to_read(directory, options)?;
    Ok(Arc::new(store))
}

impl Drop for RocksStore {
    /// What is known to be forced is one write behind: at the end it is all.
    fn drop(&mut self) {
        if self.keeping.is_some() && self.wal_sync != WalSync::Never {
            // What fails has been said, or is told by the next start.
            let _ = self.sync();
        }
    }
}

impl Reader for RocksStore {
    fn get_many(&self, column: Column, keys: &[&[u8]], each: EachValue<'_>) -> Result {
        let mut options = ReadOptions::default();
        options.fill_cache(column != Column::Pages);
        reading::get_many(&self.database, column, keys, &options, each)
    }

    fn scan(
        &self,
        column: Column,
        keys: &KeyRange,
        caching: Caching,
        each: EachEntry<'_>,
    ) -> Result {
        let options = with_caching(ReadOptions::default(), caching);
        reading::scan(&self.database, column, keys, options, each)
    }
}

impl KeyValueStore for RocksStore {
    fn write(&self, batch: WriteBatch, durability: Durability) -> Result {
        let mut changes = rocksdb::WriteBatch::default();
        let column = |column| column_of(&self.database, column);
        for change in batch.changes {
            match change {
                Change::Put(at, key, value) => changes.put_cf(column(at)?, key, value),
                Change::Delete(at, key) => changes.delete_cf(column(at)?, key),
                Change::DeleteRange(at, keys) => {
                    changes.delete_range_cf(column(at)?, &keys.from, &keys.to);
                }
            }
        }
        let is_forced = match durability {
            Durability::Forced => true,
            Durability::Configured => self.wal_sync == WalSync::Always,
            Durability::Ordered => false,
        };
        let (database, health) = (&self.database, &self.write_health);
        let mut options = WriteOptions::default();
        options.set_sync(is_forced);
        let write = || database.write_opt(changes, &options);
        match is_forced {
            true => self.forced.write(database, health, write),
            false => health.write(database, write),
        }
        .map_err(|error| failed("writing", &error))
    }

    fn read_through(&self, column: Column, read: &mut dyn FnMut(u64) -> ControlFlow<()>) -> Result {
        reading::read_through(&self.database, column, read)
    }

    fn snapshot(&self) -> Box<dyn Reader + '_> {
        Box::new(Snapshot::of(&self.database))
    }

    fn freeze(&self) -> Result<Box<dyn FrozenStore>> {
        let number = self.frozen.fetch_add(1, Ordering::Relaxed);
        Ok(Box::new(frozen::freeze(
            &self.database,
            number,
            open_frozen,
        )?))
    }

    fn sync(&self) -> Result {
        let database = &self.database;
        self.forced
            .write(database, &self.write_health, || database.flush_wal(true))
            .map_err(|error| failed("forcing writes to the disk", &error))
    }

    /// Table files by their index, write buffers by looking at what is in
    /// them; at most `MAX_ESTIMATED_ENTRIES` there are looked at.
    fn approximate_bytes(&self, column: Column, keys: &KeyRange) -> Result<u64> {
        let (mut seen, mut in_buffers) = (0, 0);
        let mut options = ReadOptions::default();
        options.set_read_tier(ReadTier::Memtable);
        reading::scan(&self.database, column, keys, options, &mut |key, value| {
            seen += 1;
            in_buffers += (key.len() + value.len()) as u64;
            Ok(match seen < MAX_ESTIMATED_ENTRIES {
                true => ControlFlow::Continue(()),
                false => ControlFlow::Break(()),
            })
        })?;
        Ok(self.bytes_in_files(column, keys)? + in_buffers)
    }

    /// Drops what a range delete covers; where that is little, it goes with
    /// other compactions.
    fn compact_range(&self, column: Column, keys: &KeyRange) -> Result {
        if self.bytes_in_files(column, keys)? >= WORTH_COMPACTING_BYTES {
            let column = column_of(&self.database, column)?;
            let (from, to) = (Some(&keys.from), Some(&keys.to));
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

    fn gauges(&self) -> Vec<Gauge> {
        gauges::read(
            &self.database,
            &self.options,
            self.failed_syncs.load(Ordering::Relaxed),
        )
    }
}

#[cfg(test)]
mod tests;
