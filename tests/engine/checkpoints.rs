//! Checkpoints: what one slice of them writes at most.

use crate::gated::GatedStore;
use crate::memory::MemoryStore;
use crate::support::{PAGE_BYTES, add, create, engine, name, options};
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
