//! Counts what passes between an engine and its store, as a decorator: neither
//! side knows.

use super::{
    Commit, Condition, Due, EachRecord, FrozenStore, Garbage, PageStore, SideRecord, SideRecordKey,
    SideRecordTotals, StoreError, StoreView, StoredFilter,
};
use crate::page::{FilterId, PageId, Sequence};
use prometheus::IntCounter;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// A [`PageStore`] around another one that counts pages and bytes. Cheap to
/// clone; all clones count together.
#[derive(Clone)]
pub struct MeteredStore {
    inner: Arc<dyn PageStore>,
    counters: Arc<Counters>,
    pages_read: Option<IntCounter>,
}

#[derive(Debug, Default)]
struct Counters {
    commits: AtomicU64,
    log_bytes: AtomicU64,
    reads: AtomicU64,
    pages_read: AtomicU64,
    page_bytes_read: AtomicU64,
    checkpoints: AtomicU64,
    images_written: AtomicU64,
    image_bytes_written: AtomicU64,
}

/// What was counted so far. Only what the store did not refuse is counted,
/// reads excepted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StoreCounts {
    /// Commits.
    pub commits: u64,
    /// Bytes of redo records committed.
    pub log_bytes: u64,
    /// Batches of pages read.
    pub reads: u64,
    /// Pages asked for in them, whether they were there or not.
    pub pages_read: u64,
    /// Bytes of the pages that were there, without zeros at their ends.
    pub page_bytes_read: u64,
    /// Checkpoint slices.
    pub checkpoints: u64,
    /// Page images in them.
    pub images_written: u64,
    /// Bytes of those images, before they are packed.
    pub image_bytes_written: u64,
}

impl MeteredStore {
    /// Wraps `inner`; every page it is asked for also counts in `pages_read`.
    pub fn new(inner: Arc<dyn PageStore>, pages_read: Option<IntCounter>) -> Self {
        MeteredStore {
            inner,
            counters: Arc::default(),
            pages_read,
        }
    }

    /// What was counted so far.
    pub fn counts(&self) -> StoreCounts {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        StoreCounts {
            commits: read(&self.counters.commits),
            log_bytes: read(&self.counters.log_bytes),
            reads: read(&self.counters.reads),
            pages_read: read(&self.counters.pages_read),
            page_bytes_read: read(&self.counters.page_bytes_read),
            checkpoints: read(&self.counters.checkpoints),
            images_written: read(&self.counters.images_written),
            image_bytes_written: read(&self.counters.image_bytes_written),
        }
    }
}

fn add(counter: &AtomicU64, amount: usize) {
    counter.fetch_add(amount as u64, Ordering::Relaxed);
}

impl PageStore for MeteredStore {
    fn commit(&self, commit: &Commit) -> Result<(), StoreError> {
        self.inner.commit(commit)?;
        add(&self.counters.commits, 1);
        add(&self.counters.log_bytes, commit.redo.len());
        Ok(())
    }

    fn read_pages(
        &self,
        ids: &[PageId],
        each: &mut dyn FnMut(usize, Option<&[u8]>),
    ) -> Result<(), StoreError> {
        add(&self.counters.reads, 1);
        add(&self.counters.pages_read, ids.len());
        if let Some(pages_read) = &self.pages_read {
            pages_read.inc_by(ids.len() as u64);
        }
        let mut bytes = 0;
        let outcome = self.inner.read_pages(ids, &mut |index, page| {
            bytes += page.map_or(0, <[u8]>::len);
            each(index, page);
        });
        add(&self.counters.page_bytes_read, bytes);
        outcome
    }

    fn checkpoint(
        &self,
        images: &[(PageId, Vec<u8>)],
        truncate_before: Sequence,
    ) -> Result<(), StoreError> {
        self.inner.checkpoint(images, truncate_before)?;
        let bytes = images.iter().map(|(_, image)| image.len()).sum();
        add(&self.counters.checkpoints, 1);
        add(&self.counters.images_written, images.len());
        add(&self.counters.image_bytes_written, bytes);
        Ok(())
    }

    fn replay(&self, each: EachRecord<'_>) -> Result<(), StoreError> {
        self.inner.replay(each)
    }

    fn filter_by_name(&self, name: &str) -> Result<Option<StoredFilter>, StoreError> {
        self.inner.filter_by_name(name)
    }

    fn filter_by_id(&self, id: FilterId) -> Result<Option<StoredFilter>, StoreError> {
        self.inner.filter_by_id(id)
    }

    fn list_filters(
        &self,
        prefix: &str,
        after: Option<&str>,
        limit: usize,
    ) -> Result<Vec<StoredFilter>, StoreError> {
        self.inner.list_filters(prefix, after, limit)
    }

    fn reserve_filter_ids(&self, count: u64) -> Result<FilterId, StoreError> {
        self.inner.reserve_filter_ids(count)
    }

    fn garbage(&self) -> Result<Vec<Garbage>, StoreError> {
        self.inner.garbage()
    }

    fn reclaim(&self, garbage: Garbage) -> Result<(), StoreError> {
        self.inner.reclaim(garbage)
    }

    fn due(&self, from_ms: u64, until_ms: u64, limit: usize) -> Result<Vec<Due>, StoreError> {
        self.inner.due(from_ms, until_ms, limit)
    }

    fn forget_due(&self, due: &Due) -> Result<(), StoreError> {
        self.inner.forget_due(due)
    }

    fn side_record(&self, key: &SideRecordKey) -> Result<Option<SideRecord>, StoreError> {
        self.inner.side_record(key)
    }

    fn forget_side_record(
        &self,
        key: &SideRecordKey,
        record: &SideRecord,
    ) -> Result<(), StoreError> {
        self.inner.forget_side_record(key, record)
    }

    fn side_record_totals(&self) -> Result<SideRecordTotals, StoreError> {
        self.inner.side_record_totals()
    }

    fn approximate_page_bytes(&self, id: FilterId) -> Result<u64, StoreError> {
        self.inner.approximate_page_bytes(id)
    }

    fn sync(&self) -> Result<(), StoreError> {
        self.inner.sync()
    }

    fn stage(&self, id: FilterId) -> Result<(), StoreError> {
        self.inner.stage(id)
    }

    fn at_one_moment(
        &self,
        work: &mut dyn FnMut(&dyn StoreView) -> Result<(), StoreError>,
    ) -> Result<(), StoreError> {
        self.inner.at_one_moment(work)
    }

    fn freeze(&self) -> Result<Box<dyn FrozenStore>, StoreError> {
        self.inner.freeze()
    }

    fn compact_range(&self, garbage: Garbage) -> Result<(), StoreError> {
        self.inner.compact_range(garbage)
    }

    fn condition(&self) -> Condition {
        self.inner.condition()
    }

    fn gauges(&self) -> Vec<(&'static str, &'static str, f64)> {
        self.inner.gauges()
    }
}

#[cfg(test)]
mod tests {
    use super::super::contract::{self, Subject};
    use super::super::format::StoredValue;
    use super::super::memory::MemoryStore;
    use super::*;
    use crate::page::{Ordinal, PageIndex};

    struct Metered {
        memory: MemoryStore,
        store: MeteredStore,
    }

    impl Metered {
        fn over(memory: MemoryStore) -> Self {
            Metered {
                store: MeteredStore::new(Arc::new(memory.clone()), None),
                memory,
            }
        }
    }

    impl Subject for Metered {
        fn store(&self) -> &dyn PageStore {
            &self.store
        }

        fn reopen(&mut self) {
            *self = Metered::over(self.memory.fork());
        }

        fn damage(&mut self, value: &StoredValue, byte: usize) {
            assert!(self.memory.damage(value, byte));
        }
    }

    contract::contract_tests!(Metered::over(MemoryStore::new()));

    #[test]
    fn it_counts_pages_and_bytes() {
        let counter = IntCounter::new("pages", "Pages.").unwrap();
        let store = MeteredStore::new(Arc::new(MemoryStore::new()), Some(counter.clone()));
        let [there, missing] = [0, 1].map(|page| PageId {
            filter: FilterId(1),
            ordinal: Ordinal(0),
            page: PageIndex(page),
        });
        let commit = Commit {
            sequence: Sequence(1),
            redo: vec![7; 30],
            ..Commit::default()
        };
        store.commit(&commit).unwrap();
        store
            .checkpoint(&[(there, vec![1; 100])], Sequence(2))
            .unwrap();
        store.read_pages(&[there, missing], &mut |_, _| {}).unwrap();

        assert_eq!(counter.get(), 2);
        let expected = StoreCounts {
            commits: 1,
            log_bytes: 30,
            reads: 1,
            pages_read: 2,
            page_bytes_read: 100,
            checkpoints: 1,
            images_written: 1,
            image_bytes_written: 100,
        };
        assert_eq!(store.counts(), expected);
    }
}
