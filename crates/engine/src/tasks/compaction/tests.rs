#[path = "../../../../filter/tests/resident/mod.rs"]
mod resident;

use super::*;
use crate::chain::params::{Defaults, FilterParams, FilterRequest, LayoutKind};
use crate::cuckoo::hash::HashKey;
use crate::memory::MemoryStore;
use crate::metrics::Metrics;
use crate::page::{FilterId, Sequence};
use crate::store::kv::{
    Caching, Column, Durability, EachEntry, EachValue, FrozenStore, Gauge, KeyRange, Reader,
    WriteBatch,
};
use crate::store::{Commit, Condition, FilterChange, KeyValueStore, PageStore, StoreError};
use crate::{Engine, EngineOptions};
use resident::ResidentFilter;
use std::sync::atomic::{AtomicU64, Ordering};

#[test]
fn a_filter_is_due_once_more_than_its_share_was_deleted_and_it_would_get_shorter() {
    let request = FilterRequest {
        capacity: Some(900),
        bucket_size: Some(4),
        expansion: Some(2),
        ..FilterRequest::default()
    };
    let params = FilterParams::resolve(&request, &Defaults::default()).unwrap();
    let chain = Chain::new(params, HashKey([1; 16]), 0).unwrap();
    let mut it = ResidentFilter::new(chain);
    let hash = |it: &ResidentFilter, n: u64| it.chain().hash(&n.to_le_bytes());
    let items: Vec<_> = (0..2_000).map(|n| hash(&it, n)).collect();
    it.add_at_once(&items, Default::default());
    assert_eq!(it.chain().sub_filter_count(), 2);
    it.delete(&items[..199]);
    assert!(!is_due(it.chain(), 10));
    it.delete(&items[199..202]);
    // So many do not fit into the first sub-filter with room to spare.
    assert!(!is_due(it.chain(), 10));
    it.delete(&items[202..1_400]);
    assert!(is_due(it.chain(), 10));
    assert!(!is_due(it.chain(), 0) && !is_due(it.chain(), 71));
    it.compact();
    assert!(!is_due(it.chain(), 10));
}

/// A store whose pages can't be read. Counts its snapshots: each list of filters
/// takes one.
#[derive(Default)]
struct NoPages {
    inner: MemoryStore,
    snapshots: Arc<AtomicU64>,
}

impl Reader for NoPages {
    fn get_many(
        &self,
        column: Column,
        keys: &[&[u8]],
        each: EachValue<'_>,
    ) -> Result<(), StoreError> {
        match column {
            Column::Pages => Err(StoreError::Io {
                doing: "reading pages",
                source: "the disk refuses".into(),
            }),
            _ => self.inner.get_many(column, keys, each),
        }
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

impl KeyValueStore for NoPages {
    fn write(&self, batch: WriteBatch, durability: Durability) -> Result<(), StoreError> {
        self.inner.write(batch, durability)
    }

    fn snapshot(&self) -> Box<dyn Reader + '_> {
        self.snapshots.fetch_add(1, Ordering::Relaxed);
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

#[test]
fn interrupted_compactions_that_find_no_place_wait_without_looking_again_and_again() {
    let request = FilterRequest {
        layout: Some(LayoutKind::Classic),
        ..FilterRequest::default()
    };
    let params = FilterParams::resolve(&request, &Defaults::default()).unwrap();
    let store = NoPages::default();
    let snapshots = Arc::clone(&store.snapshots);
    let store = Arc::new(PageStore::open(Arc::new(store)).unwrap());
    for number in 1..=80 {
        let mut chain = Chain::new(params.clone(), HashKey([1; 16]), 0).unwrap();
        chain.grow().unwrap();
        let mut chain = chain.with_occupied(&[0, 3]).unwrap();
        assert_eq!(chain.begin_compaction(ASKED_SHARE), 1);
        let created = FilterChange::Create {
            id: FilterId(number),
            name: format!("f{number:02}"),
            meta: chain.encode(),
        };
        let commit = Commit {
            sequence: Sequence(number),
            filters: vec![created],
            ..Commit::default()
        };
        store.commit(&commit).unwrap();
    }
    let options = EngineOptions {
        max_log_bytes: 16 << 20,
        checkpoint_slice_bytes: 1 << 20,
        max_open_filters: 1_000,
        max_queued_items: 100_000,
        ..EngineOptions::with_cache(64 << 20)
    };
    let metrics = Arc::new(Metrics::new().unwrap());
    let engine = Engine::open(store, &options, Arc::clone(&metrics)).unwrap();
    let began = Instant::now();
    while metrics.compactions_running.get() < 64 {
        assert!(began.elapsed() < Duration::from_secs(10));
        std::thread::sleep(Duration::from_millis(5));
    }
    let before = snapshots.load(Ordering::Relaxed);
    std::thread::sleep(Duration::from_secs(1));
    let taken = snapshots.load(Ordering::Relaxed) - before;
    assert!(taken < 200, "{taken} looks within a second");
    // Places become free when these are given up, and the others have theirs.
    while metrics.compactions.with_label_values(&["failed"]).get() < 80 {
        assert!(began.elapsed() < Duration::from_secs(60));
        std::thread::sleep(Duration::from_millis(20));
    }
    engine.halt();
}
