//! A store that counts what it is asked for.

use cuckood::store::kv::{
    Caching, Change, Column, Durability, EachEntry, EachValue, Gauge, KeyRange, Reader, WriteBatch,
};
use cuckood::store::{Condition, FrozenStore, KeyValueStore, StoreError};
use parking_lot::Mutex;
use std::sync::Arc;

/// What was counted so far, of what the store did not refuse, reads excepted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Counts {
    /// Redo records, and their bytes.
    pub(crate) commits: u64,
    pub(crate) log_bytes: u64,
    /// Batches of pages read, and the pages asked for in them, whether they were there
    /// or not.
    pub(crate) reads: u64,
    pub(crate) pages_read: u64,
    /// Bytes of page images, as they are stored.
    pub(crate) image_bytes_written: u64,
}

#[derive(Clone)]
pub(crate) struct MeteredStore {
    inner: Arc<dyn KeyValueStore>,
    counts: Arc<Mutex<Counts>>,
}

impl MeteredStore {
    pub(crate) fn new(inner: Arc<dyn KeyValueStore>) -> MeteredStore {
        MeteredStore {
            inner,
            counts: Arc::default(),
        }
    }

    pub(crate) fn counts(&self) -> Counts {
        *self.counts.lock()
    }
}

impl Reader for MeteredStore {
    fn get_many(
        &self,
        column: Column,
        keys: &[&[u8]],
        each: EachValue<'_>,
    ) -> Result<(), StoreError> {
        if column == Column::Pages {
            let mut counts = self.counts.lock();
            counts.reads += 1;
            counts.pages_read += keys.len() as u64;
        }
        self.inner.get_many(column, keys, each)
    }

    fn scan(
        &self,
        column: Column,
        keys: &KeyRange,
        caching: Caching,
        each: EachEntry<'_>,
    ) -> Result<(), StoreError> {
        self.inner.scan(column, keys, caching, each)
    }
}

impl KeyValueStore for MeteredStore {
    fn write(&self, batch: WriteBatch, durability: Durability) -> Result<(), StoreError> {
        let mut written = Counts::default();
        for change in &batch.changes {
            match change {
                Change::Put(Column::Log, _, record) => {
                    written.commits += 1;
                    written.log_bytes += record.len() as u64;
                }
                Change::Put(Column::Pages, _, image) => {
                    written.image_bytes_written += image.len() as u64;
                }
                _ => {}
            }
        }
        self.inner.write(batch, durability)?;
        let mut counts = self.counts.lock();
        counts.commits += written.commits;
        counts.log_bytes += written.log_bytes;
        counts.image_bytes_written += written.image_bytes_written;
        Ok(())
    }

    fn snapshot(&self) -> Box<dyn Reader + '_> {
        self.inner.snapshot()
    }

    fn freeze(&self) -> Result<Box<dyn FrozenStore>, StoreError> {
        self.inner.freeze()
    }

    fn sync(&self) -> Result<(), StoreError> {
        self.inner.sync()
    }

    fn approximate_bytes(&self, column: Column, keys: &KeyRange) -> Result<u64, StoreError> {
        self.inner.approximate_bytes(column, keys)
    }

    fn compact_range(&self, column: Column, keys: &KeyRange) -> Result<(), StoreError> {
        self.inner.compact_range(column, keys)
    }

    fn condition(&self) -> Condition {
        self.inner.condition()
    }

    fn gauges(&self) -> Vec<Gauge> {
        self.inner.gauges()
    }
}
