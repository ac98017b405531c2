//! Checkpoints: what one slice of them writes at most.

use crate::gated::GatedStore;
use crate::memory::MemoryStore;
use crate::metered::MeteredStore;
use crate::support::{PAGE_BYTES, add, all_exist, create, engine, items, name, options};
use cuckood::chain::params::{FilterRequest, LayoutKind};
use std::sync::Arc;

/// Thousands of counters beside a page take many times what its slots do.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_slice_is_bounded_by_its_bytes_whatever_is_counted_beside_its_pages() {
    let store = GatedStore::new(Arc::new(MemoryStore::new()));
    let options = options(1_024);
    let engine = engine(Arc::new(store.clone()), &options);
    let request = FilterRequest {
        capacity: Some(20_000),
        layout: Some(LayoutKind::Paged),
        fingerprint_bits: Some(12),
        ..FilterRequest::default()
    };
    create(&engine, "f", &request).await;
    for _ in 0..4 {
        add(&engine, "f", 0..20_000).await;
    }
    // Most copies have no slot.
    let info = engine.filter_info(&name("f")).await.unwrap();
    assert!(
        info.items == 80_000 && info.slot_bytes < 16 * PAGE_BYTES,
        "{info:?}"
    );
    tokio::task::block_in_place(|| engine.shutdown().unwrap());
    // The last image of a slice may go beyond.
    let (largest, most) = (store.largest_slice() as u64, options.checkpoint_slice_bytes);
    assert!(largest < most + 8 * PAGE_BYTES, "{largest}");
}

/// What changed is parked, over images that checkpoints wrote, and is found.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_start_after_a_crash_reads_no_page_until_one_is_asked_for() {
    for layout in [LayoutKind::Classic, LayoutKind::Paged] {
        let memory = MemoryStore::new();
        let options = options(512);
        let before = engine(Arc::new(memory.clone()), &options);
        let request = FilterRequest {
            capacity: Some(200_000),
            layout: Some(layout),
            ..FilterRequest::default()
        };
        create(&before, "f", &request).await;
        for first in (0..60_000).step_by(60) {
            add(&before, "f", first..first + 60).await;
        }
        tokio::task::block_in_place(|| before.shutdown().unwrap());
        let before = engine(Arc::new(memory.clone()), &options);
        for first in (60_000..66_000).step_by(60) {
            add(&before, "f", first..first + 60).await;
        }
        let store = MeteredStore::new(Arc::new(memory.fork()));
        let crashed = engine(Arc::new(store.clone()), &options);
        assert_eq!(store.counts().pages_read, 0, "{layout:?}");
        assert_eq!(items(&crashed, "f").await, 66_000);
        for first in (0..66_000).step_by(600) {
            assert!(all_exist(&crashed, "f", first..first + 600).await);
        }
        assert!(store.counts().pages_read > 0, "{layout:?}");
        for engine in [before, crashed] {
            tokio::task::block_in_place(|| engine.shutdown().unwrap());
        }
    }
}
