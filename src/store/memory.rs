//! A store of bytes in memory, for tests.
//!
//! It keeps the same bytes under the same keys as RocksDB, so what is tested on
//! it is the format, too. A clone is another handle on the same store: an
//! engine that is dropped and opened again on a clone has restarted. A
//! [`MemoryStore::fork`] is a copy, as a crash at that moment would leave it.

use super::error::StoreError;
use super::format::{self, StoredValue};
use super::kv::{
    Batch, Caching, Change, Column, Condition, Durability, EachEntry, EachValue, FrozenStore,
    Gauge, KeyRange, KeyValueStore, Reader,
};
use crate::page::Sequence;
use parking_lot::RwLock;
use std::collections::BTreeMap;
use std::sync::Arc;

/// A [`KeyValueStore`] that lives as long as the last of its handles.
#[derive(Clone, Debug, Default)]
pub struct MemoryStore {
    /// Shared with its snapshots; the next write makes a copy of its own.
    entries: Arc<RwLock<Arc<Entries>>>,
}

#[derive(Clone, Debug, Default)]
struct Entries {
    columns: BTreeMap<Column, BTreeMap<Vec<u8>, Vec<u8>>>,
}

impl MemoryStore {
    /// An empty store.
    pub fn new() -> Self {
        Self::default()
    }

    /// A copy that shares nothing with this one: what a crash right now would
    /// leave behind.
    pub fn fork(&self) -> MemoryStore {
        MemoryStore {
            entries: Arc::new(RwLock::new(self.now())),
        }
    }

    /// Inverts the bits of one byte of a stored value, envelope included, as a
    /// bad disk might. `false` if there is no such value or byte.
    pub fn damage(&self, value: &StoredValue, byte: usize) -> bool {
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
    pub fn log_sequences(&self) -> Vec<Sequence> {
        let entries = self.now();
        let log = entries.columns.get(&Column::Log).into_iter().flatten();
        log.filter_map(|(key, _)| format::log_sequence(key).ok())
            .collect()
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

impl Reader for Arc<Entries> {
    fn get_many(
        &self,
        column: Column,
        keys: &[&[u8]],
        each: EachValue<'_>,
    ) -> Result<(), StoreError> {
        let column = self.columns.get(&column);
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
        for (key, value) in self.range(column, keys) {
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
        // Copied out, so that no write has to copy everything meanwhile.
        let values: Vec<Option<Vec<u8>>> = {
            let entries = self.entries.read();
            let column = entries.columns.get(&column);
            let value = |key: &&[u8]| column.and_then(|column| column.get(*key)).cloned();
            keys.iter().map(value).collect()
        };
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
        self.now().scan(column, keys, caching, each)
    }
}

impl KeyValueStore for MemoryStore {
    fn write(&self, batch: Batch, _: Durability) -> Result<(), StoreError> {
        let mut entries = self.entries.write();
        let entries = Arc::make_mut(&mut entries);
        for change in batch.changes {
            entries.apply(change);
        }
        Ok(())
    }

    fn snapshot(&self) -> Box<dyn Reader + '_> {
        Box::new(self.now())
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::page::{FilterId, Ordinal, PageId, PageIndex};
    use crate::store::contract::{self, Subject};
    use crate::store::{Commit, PageStore};

    struct InMemory {
        memory: MemoryStore,
        store: PageStore,
    }

    impl InMemory {
        fn over(memory: MemoryStore) -> InMemory {
            InMemory {
                store: page_store(&memory),
                memory,
            }
        }
    }

    impl Subject for InMemory {
        fn store(&self) -> &PageStore {
            &self.store
        }

        fn reopen(&mut self) {
            *self = InMemory::over(self.memory.fork());
        }

        fn damage(&mut self, value: &StoredValue, byte: usize) {
            assert!(
                self.memory.damage(value, byte),
                "there is no byte {byte} of {value:?}"
            );
        }
    }

    contract::contract_tests!(InMemory::over(MemoryStore::new()));

    fn page_store(memory: &MemoryStore) -> PageStore {
        PageStore::open(Arc::new(memory.clone())).unwrap()
    }

    fn store_with_a_page() -> (MemoryStore, PageId) {
        let id = PageId {
            filter: FilterId(1),
            ordinal: Ordinal(0),
            page: PageIndex(0),
        };
        let store = MemoryStore::new();
        let first = [(id, vec![1])];
        page_store(&store).checkpoint(&first, Sequence(0)).unwrap();
        (store, id)
    }

    fn first_byte(store: &MemoryStore, id: PageId) -> u8 {
        let mut first = None;
        page_store(store)
            .read_pages(&[id], &mut |_, page| first = Some(page.unwrap()[0]))
            .unwrap();
        first.unwrap()
    }

    #[test]
    fn a_clone_is_the_same_store_and_a_fork_is_not() {
        let (store, id) = store_with_a_page();
        let (clone, fork) = (store.clone(), store.fork());
        let second = [(id, vec![2])];
        page_store(&store).checkpoint(&second, Sequence(0)).unwrap();
        assert_eq!(first_byte(&clone, id), 2);
        assert_eq!(first_byte(&fork, id), 1);
    }

    #[test]
    fn a_refused_checkpoint_keeps_nothing_of_it() {
        let (store, id) = store_with_a_page();
        let too_large = PageId {
            page: PageIndex(1),
            ..id
        };
        let images = [
            (id, vec![3]),
            (too_large, vec![1; format::MAX_IMAGE_BYTES + 1]),
        ];
        assert!(page_store(&store).checkpoint(&images, Sequence(9)).is_err());
        assert_eq!(first_byte(&store, id), 1);
    }

    #[test]
    fn damaging_what_is_not_there_says_so() {
        let (store, id) = store_with_a_page();
        assert!(!store.damage(&StoredValue::Page(id), 100));
        assert!(!store.damage(&StoredValue::Redo(Sequence(1)), 0));
    }

    #[test]
    fn the_log_shows_its_sequences() {
        let store = MemoryStore::new();
        for sequence in [2, 1] {
            let commit = Commit {
                sequence: Sequence(sequence),
                redo: vec![1],
                filters: vec![],
                ..Commit::default()
            };
            page_store(&store).commit(&commit).unwrap();
        }
        assert_eq!(store.log_sequences(), [Sequence(1), Sequence(2)]);
    }
}
