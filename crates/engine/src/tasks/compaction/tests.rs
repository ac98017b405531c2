#[path = "../../../../filter/tests/resident/mod.rs"]
mod resident;

use super::*;
use crate::chain::params::{Defaults, FilterParams, FilterRequest, LayoutKind};
use crate::cuckoo::hash::HashKey;
use crate::memory::MemoryStore;
use crate::metrics::Metrics;
use crate::page::{FilterId, Sequence};
use crate::store::{Commit, FilterChange, PageStore};
use crate::{Engine, EngineOptions};
use resident::ResidentFilter;

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

#[test]
fn interrupted_compactions_that_find_no_place_wait_without_looking_again_and_again() {
    let request = FilterRequest {
        layout: Some(LayoutKind::Classic),
        ..FilterRequest::default()
    };
    let params = FilterParams::resolve(&request, &Defaults::default()).unwrap();
    let memory = MemoryStore::new();
    memory.refuse_pages();
    let store = Arc::new(PageStore::open(Arc::new(memory.clone())).unwrap());
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
    let before = memory.snapshots();
    std::thread::sleep(Duration::from_secs(1));
    // Each list of filters takes one.
    let taken = memory.snapshots() - before;
    assert!(taken < 200, "{taken} looks within a second");
    // Places become free when these are given up, and the others have theirs.
    while metrics.compactions.with_label_values(&["failed"]).get() < 80 {
        assert!(began.elapsed() < Duration::from_secs(60));
        std::thread::sleep(Duration::from_millis(20));
    }
    engine.halt();
}
