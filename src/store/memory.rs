//! A store in memory, for tests and for servers that may forget.
//!
//! It keeps the same encoded bytes under the same keys as RocksDB, so what is
//! tested here is the format too. A clone is another handle on the same store:
//! an engine that is dropped and opened again on a clone has restarted. A
//! [`MemoryStore::fork`] is a copy, as a crash at that moment would leave it.

use super::format::{self, Column, KeyRange, StoredValue};
use super::writes::{self, WriteSink};
use super::{
    Commit, Condition, Due, EachPage, EachRecord, FrozenStore, Garbage, PageStore, SideRecord,
    SideRecordKey, SideRecordTotals, StoreError, StoreView, StoredFilter,
};
use crate::page::{FilterId, PageId, PageIndex, Sequence};
use parking_lot::RwLock;
use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;

type Cells = BTreeMap<(Column, Vec<u8>), Vec<u8>>;

/// A [`PageStore`] that lives as long as the last of its handles.
#[derive(Clone, Debug, Default)]
pub struct MemoryStore {
    cells: Arc<RwLock<Cells>>,
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
            cells: Arc::new(RwLock::new(self.cells.read().clone())),
        }
    }

    /// Inverts the bits of one byte of a stored value, envelope included, as a
    /// bad disk might. `false` if there is no such value or byte.
    pub fn damage(&self, value: &StoredValue, byte: usize) -> bool {
        let mut cells = self.cells.write();
        let Some(byte) = cells
            .get_mut(&value.place())
            .and_then(|value| value.get_mut(byte))
        else {
            return false;
        };
        *byte = !*byte;
        true
    }

    /// The redo records it holds, oldest first.
    pub fn log_sequences(&self) -> Vec<Sequence> {
        let cells = self.cells.read();
        in_column(&cells, Column::Log)
            .filter_map(|(key, _)| format::log_sequence(key).ok())
            .collect()
    }
}

fn in_column(cells: &Cells, column: Column) -> impl Iterator<Item = (&[u8], &[u8])> {
    starting_at(cells, column, Bound::Included(Vec::new()))
}

fn in_range<'a>(
    cells: &'a Cells,
    column: Column,
    keys: &'a KeyRange,
) -> impl Iterator<Item = (&'a [u8], &'a [u8])> {
    starting_at(cells, column, Bound::Included(keys.from.clone()))
        .take_while(|(key, _)| *key < keys.to.as_slice())
}

fn starting_at(
    cells: &Cells,
    column: Column,
    first: Bound<Vec<u8>>,
) -> impl Iterator<Item = (&[u8], &[u8])> {
    cells
        .range((first.map(|key| (column, key)), Bound::Unbounded))
        .take_while(move |((found, _), _)| *found == column)
        .map(|((_, key), value)| (key.as_slice(), value.as_slice()))
}

fn value<'a>(cells: &'a Cells, column: Column, key: &[u8]) -> Option<&'a [u8]> {
    cells.get(&(column, key.to_vec())).map(Vec::as_slice)
}

fn filter(cells: &Cells, id: FilterId) -> Result<Option<StoredFilter>, StoreError> {
    let name = value(cells, Column::Filters, &format::filter_name_key(id));
    let meta = value(cells, Column::Filters, &format::filter_meta_key(id));
    let expiry = value(cells, Column::Filters, &format::filter_expiry_key(id));
    format::stored_filter(id, name, meta, expiry)
}

impl WriteSink for Cells {
    fn put(&mut self, column: Column, key: &[u8], value: Vec<u8>) {
        self.insert((column, key.to_vec()), value);
    }

    fn delete(&mut self, column: Column, key: &[u8]) {
        self.remove(&(column, key.to_vec()));
    }

    fn delete_range(&mut self, column: Column, keys: &KeyRange) {
        let gone: Vec<Vec<u8>> = in_range(self, column, keys)
            .map(|(key, _)| key.to_vec())
            .collect();
        for key in gone {
            self.remove(&(column, key));
        }
    }
}

impl PageStore for MemoryStore {
    fn commit(&self, commit: &Commit) -> Result<(), StoreError> {
        writes::commit(commit, &mut *self.cells.write());
        Ok(())
    }

    fn read_pages(
        &self,
        ids: &[PageId],
        each: &mut dyn FnMut(usize, Option<&[u8]>),
    ) -> Result<(), StoreError> {
        // Copied out first: `each` may take its time, or ask the store again.
        let values: Vec<Option<Vec<u8>>> = {
            let cells = self.cells.read();
            ids.iter()
                .map(|&id| value(&cells, Column::Pages, &format::page_key(id)).map(<[u8]>::to_vec))
                .collect()
        };
        let mut scratch = Vec::new();
        for (index, (&id, value)) in ids.iter().zip(&values).enumerate() {
            match value {
                Some(value) => each(index, Some(format::open_page(id, value, &mut scratch)?)),
                None => each(index, None),
            }
        }
        Ok(())
    }

    fn checkpoint(
        &self,
        images: &[(PageId, Vec<u8>)],
        truncate_before: Sequence,
    ) -> Result<(), StoreError> {
        let mut sealed = Cells::new();
        writes::images(images, &mut sealed)?;
        let mut cells = self.cells.write();
        cells.append(&mut sealed);
        let truncated = format::log_below(Sequence(0), truncate_before);
        cells.delete_range(Column::Log, &truncated);
        Ok(())
    }

    fn replay(&self, each: EachRecord<'_>) -> Result<(), StoreError> {
        let records: Vec<(Vec<u8>, Vec<u8>)> = in_column(&self.cells.read(), Column::Log)
            .map(|(key, value)| (key.to_vec(), value.to_vec()))
            .collect();
        for (key, value) in records {
            let sequence = format::log_sequence(&key)?;
            each(sequence, format::open_redo(sequence, &value)?)?;
        }
        Ok(())
    }

    fn filter_by_name(&self, name: &str) -> Result<Option<StoredFilter>, StoreError> {
        let cells = self.cells.read();
        let Some(value) = value(&cells, Column::Names, name.as_bytes()) else {
            return Ok(None);
        };
        let id = format::open_filter_number(name.as_bytes(), value)?;
        format::named(name, id, filter(&cells, id)?).map(Some)
    }

    fn filter_by_id(&self, id: FilterId) -> Result<Option<StoredFilter>, StoreError> {
        filter(&self.cells.read(), id)
    }

    fn list_filters(
        &self,
        prefix: &str,
        after: Option<&str>,
        limit: usize,
    ) -> Result<Vec<StoredFilter>, StoreError> {
        let first = match after {
            Some(after) if after >= prefix => Bound::Excluded(after.as_bytes().to_vec()),
            _ => Bound::Included(prefix.as_bytes().to_vec()),
        };
        let cells = self.cells.read();
        starting_at(&cells, Column::Names, first)
            .take_while(|(name, _)| name.starts_with(prefix.as_bytes()))
            .take(limit)
            .map(|(name, value)| {
                let id = format::open_filter_number(name, value)?;
                format::named(&format::read_name(name)?, id, filter(&cells, id)?)
            })
            .collect()
    }

    fn reserve_filter_ids(&self, count: u64) -> Result<FilterId, StoreError> {
        let mut cells = self.cells.write();
        let first = match value(&cells, Column::Info, format::NEXT_FILTER_ID_KEY) {
            Some(value) => format::open_next_filter_id(value)?,
            None => format::FIRST_FILTER_ID,
        };
        let next = format::filter_id_after(first, count)?;
        cells.put(
            Column::Info,
            format::NEXT_FILTER_ID_KEY,
            format::seal_next_filter_id(next),
        );
        Ok(first)
    }

    fn garbage(&self) -> Result<Vec<Garbage>, StoreError> {
        let cells = self.cells.read();
        let mut garbage = in_column(&cells, Column::Reclaim)
            .map(|(key, value)| format::read_reclaim(key, value))
            .collect::<Result<Vec<Garbage>, StoreError>>()?;
        garbage.sort_unstable();
        Ok(garbage)
    }

    fn reclaim(&self, garbage: Garbage) -> Result<(), StoreError> {
        let mut cells = self.cells.write();
        cells.delete_range(Column::Pages, &format::pages_of(garbage));
        cells.delete(Column::Reclaim, &format::reclaim_key(garbage));
        Ok(())
    }

    fn due(&self, from_ms: u64, until_ms: u64, limit: usize) -> Result<Vec<Due>, StoreError> {
        let cells = self.cells.read();
        in_range(&cells, Column::Due, &format::due_between(from_ms, until_ms))
            .take(limit)
            .map(|(key, value)| format::read_due(key, value))
            .collect()
    }

    fn forget_due(&self, due: &Due) -> Result<(), StoreError> {
        self.cells
            .write()
            .delete(Column::Due, &format::due_key(due));
        Ok(())
    }

    fn side_record(&self, key: &SideRecordKey) -> Result<Option<SideRecord>, StoreError> {
        let (cells, key) = (self.cells.read(), format::side_record_key(key));
        value(&cells, Column::SideRecords, &key)
            .map(|value| format::open_side_record(&key, value))
            .transpose()
    }

    fn forget_side_record(
        &self,
        key: &SideRecordKey,
        record: &SideRecord,
    ) -> Result<(), StoreError> {
        writes::forget_side_record(key, record, &mut *self.cells.write());
        Ok(())
    }

    fn side_record_totals(&self) -> Result<SideRecordTotals, StoreError> {
        let mut totals = SideRecordTotals::default();
        for (key, value) in in_column(&self.cells.read(), Column::SideRecords) {
            format::count_side_record(&mut totals, key, value)?;
        }
        Ok(totals)
    }

    fn approximate_page_bytes(&self, id: FilterId) -> Result<u64, StoreError> {
        let cells = self.cells.read();
        let pages = format::pages_of(Garbage::Filter(id));
        Ok(in_range(&cells, Column::Pages, &pages)
            .map(|(key, value)| (key.len() + value.len()) as u64)
            .sum())
    }

    fn sync(&self) -> Result<(), StoreError> {
        Ok(())
    }

    fn stage(&self, id: FilterId) -> Result<(), StoreError> {
        writes::stage(id, &mut *self.cells.write());
        Ok(())
    }

    fn at_one_moment(
        &self,
        work: &mut dyn FnMut(&dyn StoreView) -> Result<(), StoreError>,
    ) -> Result<(), StoreError> {
        work(&self.fork())
    }

    fn freeze(&self) -> Result<Box<dyn FrozenStore>, StoreError> {
        Err(StoreError::Unsupported { what: "backed up" })
    }

    fn compact_range(&self, _: Garbage) -> Result<(), StoreError> {
        Ok(())
    }

    fn condition(&self) -> Condition {
        Condition::default()
    }

    fn gauges(&self) -> Vec<(&'static str, &'static str, f64)> {
        Vec::new()
    }
}

/// A fork that nobody writes to.
impl StoreView for MemoryStore {
    fn filter_by_name(&self, name: &str) -> Result<Option<StoredFilter>, StoreError> {
        PageStore::filter_by_name(self, name)
    }

    fn pages(&self, from: PageId, end: PageIndex, each: EachPage<'_>) -> Result<(), StoreError> {
        let cells = self.cells.read();
        let mut scratch = Vec::new();
        for (key, value) in in_range(&cells, Column::Pages, &format::pages_between(from, end)) {
            let id = format::page_of(key)?;
            let image = format::open_page(id, value, &mut scratch)?;
            if each(id.page, image)?.is_break() {
                break;
            }
        }
        Ok(())
    }

    fn replay(&self, each: EachRecord<'_>) -> Result<(), StoreError> {
        PageStore::replay(self, each)
    }
}

#[cfg(test)]
mod tests {
    use super::super::contract::{self, Subject};
    use super::*;
    use crate::page::{Ordinal, PageIndex};

    impl Subject for MemoryStore {
        fn store(&self) -> &dyn PageStore {
            self
        }

        fn reopen(&mut self) {
            *self = self.fork();
        }

        fn damage(&mut self, value: &StoredValue, byte: usize) {
            assert!(
                MemoryStore::damage(self, value, byte),
                "there is no byte {byte} of {value:?}"
            );
        }
    }

    contract::contract_tests!(MemoryStore::new());

    fn store_with_a_page() -> (MemoryStore, PageId) {
        let id = PageId {
            filter: FilterId(1),
            ordinal: Ordinal(0),
            page: PageIndex(0),
        };
        let store = MemoryStore::new();
        store.checkpoint(&[(id, vec![1])], Sequence(0)).unwrap();
        (store, id)
    }

    fn first_byte(store: &MemoryStore, id: PageId) -> u8 {
        let mut first = None;
        store
            .read_pages(&[id], &mut |_, page| first = Some(page.unwrap()[0]))
            .unwrap();
        first.unwrap()
    }

    #[test]
    fn a_clone_is_the_same_store_and_a_fork_is_not() {
        let (store, id) = store_with_a_page();
        let (clone, fork) = (store.clone(), store.fork());
        store.checkpoint(&[(id, vec![2])], Sequence(0)).unwrap();
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
        assert!(store.checkpoint(&images, Sequence(9)).is_err());
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
            store.commit(&commit).unwrap();
        }
        assert_eq!(store.log_sequences(), [Sequence(1), Sequence(2)]);
    }
}
