//! A store of bytes in memory, for tests. Those here and elsewhere include this file.
//!
//! It keeps the same bytes under the same keys as RocksDB, so what is tested on
//! it is the format, too. A clone is another handle on the same store: an
//! engine that is dropped and opened again on a clone has restarted. A
//! [`MemoryStore::fork`] is a copy, as a crash at that moment would leave it.

#![allow(dead_code, reason = "none of those who include it needs all of it")]

use cuckood_pages::page::Sequence;
use cuckood_pages::store::StoreError;
use cuckood_pages::store::format::StoredValue;
use cuckood_pages::store::kv::{
    Caching, Change, Column, Condition, Durability, EachEntry, EachValue, FrozenStore, Gauge,
    KeyRange, KeyValueStore, Reader, WriteBatch,
};
use parking_lot::{Mutex, RwLock};
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// A [`KeyValueStore`] that lives as long as the last of its handles.
#[derive(Clone, Default)]
pub(crate) struct MemoryStore {
    /// Shared with its snapshots; the next write makes a copy of its own.
    entries: Arc<RwLock<Arc<Entries>>>,
    /// Of writes that are not forced.
    failures: Arc<RwLock<Option<Failures>>>,
    /// Whether no page can be read.
    refuses_pages: Arc<AtomicBool>,
    snapshots: Arc<AtomicU64>,
    meanwhile: Arc<Mutex<Option<(Moment, Meanwhile)>>>,
}

/// Says of each write whether it fails, and how.
type Failures = Box<dyn Fn() -> Option<Failing> + Send + Sync>;

/// Something that is done once.
type Meanwhile = Box<dyn FnOnce() + Send>;

/// When it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Moment {
    /// The next page images were looked up, and nobody has them yet.
    Read,
    /// Somebody has put the next write together, and it is not done yet.
    Writing,
    /// The next write is done, and nobody knows yet.
    Written,
}

impl fmt::Debug for MemoryStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("MemoryStore").field(&self.now()).finish()
    }
}

/// How a write fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Failing {
    /// Nothing is written.
    Before,
    /// All is written.
    After,
}

#[derive(Clone, Debug, Default)]
struct Entries {
    columns: BTreeMap<Column, BTreeMap<Vec<u8>, Vec<u8>>>,
}

impl MemoryStore {
    /// An empty store.
    pub(crate) fn new() -> Self {
        Self::default()
    }

    /// A copy that shares nothing with this one: what a crash right now would
    /// leave behind.
    pub(crate) fn fork(&self) -> MemoryStore {
        MemoryStore {
            entries: Arc::new(RwLock::new(self.now())),
            ..MemoryStore::default()
        }
    }

    fn apply(&self, batch: WriteBatch) {
        let mut entries = self.entries.write();
        let entries = Arc::make_mut(&mut entries);
        for change in batch.changes {
            entries.apply(change);
        }
    }

    /// Has writes that are not forced fail as this says of each write.
    pub(crate) fn fail(&self, failures: impl Fn() -> Option<Failing> + Send + Sync + 'static) {
        *self.failures.write() = Some(Box::new(failures));
    }

    /// Has no page be read from now on, other than through snapshots.
    pub(crate) fn refuse_pages(&self) {
        self.refuses_pages.store(true, Ordering::Relaxed);
    }

    /// How many snapshots were taken.
    pub(crate) fn snapshots(&self) -> u64 {
        self.snapshots.load(Ordering::Relaxed)
    }

    /// Has something be done at that moment, in place of what was to be done.
    pub(crate) fn meanwhile(&self, work: Option<(Moment, Meanwhile)>) {
        *self.meanwhile.lock() = work;
    }

    fn has_come(&self, moment: Moment) {
        let work = self.meanwhile.lock().take_if(|it| it.0 == moment);
        if let Some((_, work)) = work {
            work();
        }
    }

    /// Inverts the bits of one byte of a stored value, envelope included, as a
    /// bad disk might. `false` if there is no such value or byte.
    pub(crate) fn damage(&self, value: &StoredValue, byte: usize) -> bool {
        let (column, key) = value.place();
        let mut entries = self.entries.write();
        let value = Arc::make_mut(&mut entries).column(column).get_mut(&key);
        let Some(byte) = value.and_then(|value| value.get_mut(byte)) else {
            return false;
        };
        *byte = !*byte;
        true
    }

    /// The redo records it holds, oldest first.
    pub(crate) fn log_sequences(&self) -> Vec<Sequence> {
        let entries = self.now();
        let log = entries.columns.get(&Column::Log).into_iter().flatten();
        let numbers =
            log.filter_map(|(key, _)| Some(u64::from_be_bytes(key.as_slice().try_into().ok()?)));
        numbers.map(Sequence).collect()
    }

    fn now(&self) -> Arc<Entries> {
        Arc::clone(&self.entries.read())
    }
}

impl Entries {
    fn column(&mut self, column: Column) -> &mut BTreeMap<Vec<u8>, Vec<u8>> {
        self.columns.entry(column).or_default()
    }

    fn apply(&mut self, change: Change) {
        match change {
            Change::Put(column, key, value) => drop(self.column(column).insert(key, value)),
            Change::Delete(column, key) => drop(self.column(column).remove(&key)),
            Change::DeleteRange(column, keys) => self
                .column(column)
                .retain(|key, _| *key < keys.from || *key >= keys.to),
        }
    }

    fn range(&self, column: Column, keys: &KeyRange) -> impl Iterator<Item = (&[u8], &[u8])> {
        let column = self.columns.get(&column).filter(|_| keys.from < keys.to);
        column
            .into_iter()
            .flat_map(|column| column.range(keys.from.clone()..keys.to.clone()))
            .map(|(key, value)| (key.as_slice(), value.as_slice()))
    }
}

/// All entries as of one moment.
struct View(Arc<Entries>);

impl Reader for View {
    fn get_many(
        &self,
        column: Column,
        keys: &[&[u8]],
        each: EachValue<'_>,
    ) -> Result<(), StoreError> {
        let column = self.0.columns.get(&column);
        keys.iter().enumerate().try_for_each(|(index, key)| {
            let value = column.and_then(|column| column.get(*key));
            each(index, value.map(Vec::as_slice))
        })
    }

    fn scan(
        &self,
        column: Column,
        keys: &KeyRange,
        _: Caching,
        each: EachEntry<'_>,
    ) -> Result<(), StoreError> {
        for (key, value) in self.0.range(column, keys) {
            if each(key, value)?.is_break() {
                break;
            }
        }
        Ok(())
    }
}

impl Reader for MemoryStore {
    fn get_many(
        &self,
        column: Column,
        keys: &[&[u8]],
        each: EachValue<'_>,
    ) -> Result<(), StoreError> {
        if column == Column::Pages && self.refuses_pages.load(Ordering::Relaxed) {
            return Err(StoreError::Io {
                doing: "reading pages",
                source: "the disk refuses".into(),
            });
        }
        // Copied out, so that no write has to copy everything meanwhile.
        let values: Vec<Option<Vec<u8>>> = {
            let entries = self.entries.read();
            let column = entries.columns.get(&column);
            let value = |key: &&[u8]| column.and_then(|column| column.get(*key)).cloned();
            keys.iter().map(value).collect()
        };
        if column == Column::Pages {
            self.has_come(Moment::Read);
        }
        let mut values = values.iter().enumerate();
        values.try_for_each(|(index, value)| each(index, value.as_deref()))
    }

    fn scan(
        &self,
        column: Column,
        keys: &KeyRange,
        caching: Caching,
        each: EachEntry<'_>,
    ) -> Result<(), StoreError> {
        View(self.now()).scan(column, keys, caching, each)
    }
}

impl KeyValueStore for MemoryStore {
    fn write(&self, batch: WriteBatch, durability: Durability) -> Result<(), StoreError> {
        let failing = self.failures.read().as_ref().and_then(|it| it());
        let failing = failing.filter(|_| durability == Durability::Ordered);
        self.has_come(Moment::Writing);
        if failing != Some(Failing::Before) {
            self.apply(batch);
            self.has_come(Moment::Written);
        }
        match failing {
            None => Ok(()),
            Some(_) => Err(StoreError::Io {
                doing: "writing",
                source: "it was told to fail".into(),
            }),
        }
    }

    fn snapshot(&self) -> Box<dyn Reader + '_> {
        self.snapshots.fetch_add(1, Ordering::Relaxed);
        Box::new(View(self.now()))
    }

    fn freeze(&self) -> Result<Box<dyn FrozenStore>, StoreError> {
        Err(StoreError::Unsupported { what: "backed up" })
    }

    fn sync(&self) -> Result<(), StoreError> {
        Ok(())
    }

    fn approximate_bytes(&self, column: Column, keys: &KeyRange) -> Result<u64, StoreError> {
        let entries = self.now();
        let bytes = entries.range(column, keys);
        Ok(bytes
            .map(|(key, value)| (key.len() + value.len()) as u64)
            .sum())
    }

    fn compact_range(&self, _: Column, _: &KeyRange) -> Result<(), StoreError> {
        Ok(())
    }

    fn condition(&self) -> Condition {
        Condition::default()
    }

    fn gauges(&self) -> Vec<Gauge> {
        Vec::new()
    }
}
