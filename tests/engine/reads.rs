//! How many pages a question reads when none is in memory.

use crate::metered::MeteredStore;
use crate::support::{add, batch, create, engine, name, options};
use cuckood::chain::params::FilterRequest;
use cuckood::store::rocks::{RocksOptions, RocksStore};
use std::sync::Arc;

fn rocks(folder: &tempfile::TempDir) -> MeteredStore {
    let store = RocksStore::open(folder.path(), RocksOptions::default()).unwrap();
    MeteredStore::new(Arc::new(store))
}

fn paged(capacity: u64) -> FilterRequest {
    FilterRequest {
        capacity: Some(capacity),
        fingerprint_bits: Some(16),
        ..Default::default()
    }
}

fn classic(capacity: u64) -> FilterRequest {
    FilterRequest {
        capacity: Some(capacity),
        bucket_size: Some(2),
        expansion: Some(2),
        ..Default::default()
    }
}

/// One sub-filter of so many pages that hardly any is met twice.
#[tokio::test]
async fn an_absent_item_reads_one_page_and_an_eighth_in_one_batch() {
    for (kind, request, low, high) in [
        ("paged", paged(97_000_000), 1.10, 1.13),
        ("classic", classic(170_000_000), 1.97, 2.0),
    ] {
        let folder = tempfile::tempdir().unwrap();
        let store = rocks(&folder);
        let engine = engine(Arc::new(store.clone()), &options(256));
        create(&engine, "f", &request).await;
        for first in 0..100 {
            add(&engine, "f", first * 20..(first + 1) * 20).await;
        }
        // A checkpoint reads the images of pages that were evicted before it.
        engine.shutdown().unwrap();
        let engine = self::engine(Arc::new(store.clone()), &options(256));
        let before = store.counts();
        let questions = 40_000u64;
        for number in 0..questions {
            let absent = batch([number + (1 << 40)]);
            engine.exists(&name("f"), &absent).await.unwrap();
        }
        let counts = store.counts();
        let pages = (counts.pages_read - before.pages_read) as f64 / questions as f64;
        let batches = (counts.reads - before.reads) as f64 / questions as f64;
        println!("{kind}: {pages:.4} pages an absent item, in {batches:.4} reads");
        assert!((low..=high).contains(&pages), "{kind}: {pages} pages");
        assert!(batches <= 1.0, "{kind}: {batches} reads");
    }
}

/// With several sub-filters the first are small, so every question is asked of
/// an engine that has just been opened.
#[tokio::test]
async fn a_longer_chain_reads_as_many_pages_from_each_sub_filter() {
    let kinds = [("classic", 2.0)];
    for (kind, per_sub_filter) in kinds {
        for (sub_filters, capacity) in [(4, 60_000u64), (8, 15_000)] {
            let folder = tempfile::tempdir().unwrap();
            let store = rocks(&folder);
            let large = options(16_384);
            let filling = engine(Arc::new(store.clone()), &large);
            create(&filling, "f", &classic(capacity)).await;
            let mut next = 0;
            while filling
                .filter_info(&name("f"))
                .await
                .unwrap()
                .sub_filters
                .len()
                < sub_filters
            {
                add(&filling, "f", next..next + 400).await;
                next += 400;
            }
            filling.shutdown().unwrap();

            let (mut pages, mut reads) = (0, 0);
            let questions = 2_000u64;
            for number in 0..questions {
                let cold = engine(Arc::new(store.clone()), &options(256));
                let before = store.counts();
                let absent = batch([number + (1 << 40)]);
                cold.exists(&name("f"), &absent).await.unwrap();
                let counts = store.counts();
                pages += counts.pages_read - before.pages_read;
                reads += counts.reads - before.reads;
                cold.halt();
            }
            let mean = pages as f64 / (questions * sub_filters as u64) as f64;
            println!("{kind}, {sub_filters} sub-filters: {mean:.4} pages each an absent item");
            // Which items cross is chance: the mean of two thousand scatters by
            // 0.0074, and the test above is the one that is sharp.
            assert!(mean <= per_sub_filter + 0.025, "{kind}: {mean}");
            assert_eq!(reads, questions, "one batched read a question");
        }
    }
}
