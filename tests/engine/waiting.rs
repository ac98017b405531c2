//! Who waits for whose I/O, and who must not.

use crate::gated::{GatedStore, Point};
use crate::memory::MemoryStore;
use crate::metered::MeteredStore;
use crate::support::{self, add, all_exist, batch, create, engine, exists, name, options};
use cuckood::chain::params::FilterRequest;
use cuckood::engine::{AddOptions, FilterInfo};
use futures_util::FutureExt as _;
use std::sync::Arc;
use std::time::Duration;

#[tokio::test]
async fn a_filter_that_is_open_is_described_at_once() {
    let engine = engine(Arc::new(MemoryStore::new()), &options(4096));
    create(&engine, "f", &FilterRequest::default()).await;
    add(&engine, "f", 0..100).await;
    let name = name("f");
    let described = engine.filter_in_memory(&name).now_or_never();
    let whole = engine.filter_info(&name).await.unwrap();
    let expected = FilterInfo {
        disk_bytes: 0,
        ..whole
    };
    assert_eq!(described.unwrap().unwrap(), expected);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cold_request_reads_all_its_pages_over_all_sub_filters_in_one_batch() {
    let memory = MemoryStore::new();
    let before = engine(Arc::new(memory.clone()), &options(4096));
    let request = FilterRequest {
        capacity: Some(100_000),
        bucket_size: Some(4),
        expansion: Some(2),
        ..Default::default()
    };
    create(&before, "f", &request).await;
    for first in (0..500_000).step_by(2_000) {
        add(&before, "f", first..first + 2_000).await;
    }
    let sub_filters = before
        .filter_info(&name("f"))
        .await
        .unwrap()
        .sub_filters
        .len() as u64;
    assert_eq!(sub_filters, 3);
    tokio::task::block_in_place(|| before.shutdown().unwrap());

    let store = MeteredStore::new(Arc::new(memory));
    let engine = engine(Arc::new(store.clone()), &options(4096));
    assert_eq!(
        store.counts().pages_read,
        0,
        "a start after a clean stop loads nothing"
    );
    assert!(all_exist(&engine, "f", [7]).await);
    let one = store.counts();
    assert_eq!(one.reads, 1);
    assert!(one.pages_read <= 2 * sub_filters, "{one:?}");

    assert!(all_exist(&engine, "f", 0..300).await);
    assert_eq!(store.counts().reads, 2);
    let warm = store.counts();
    assert!(all_exist(&engine, "f", 0..300).await);
    assert_eq!(store.counts(), warm, "resident pages are not read again");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn readers_do_not_wait_for_a_commit_and_see_it_only_when_it_is_published() {
    let store = GatedStore::new(Arc::new(MemoryStore::new()));
    let engine = engine(Arc::new(store.clone()), &options(512));
    create(&engine, "f", &FilterRequest::default()).await;
    add(&engine, "f", 0..10).await;
    store.hold_first(Point::CommitDone);
    let writer = tokio::spawn({
        let engine = engine.clone();
        async move { add(&engine, "f", [77]).await }
    });
    tokio::task::block_in_place(|| store.await_arrival());
    let asked = async {
        assert!(all_exist(&engine, "f", 0..10).await);
        assert_eq!(exists(&engine, "f", [77]).await, [false]);
        assert_eq!(support::items(&engine, "f").await, 10);
    };
    tokio::time::timeout(Duration::from_secs(5), asked)
        .await
        .expect("readers waited for a commit");
    store.open();
    writer.await.unwrap();
    assert!(all_exist(&engine, "f", [77]).await);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_cold_filter_holds_up_neither_resident_readers_nor_other_filters_of_its_lane() {
    let memory = MemoryStore::new();
    let mut options = options(512);
    options.lanes = 1;
    let before = engine(Arc::new(memory.clone()), &options);
    for filter in ["cold", "warm"] {
        create(&before, filter, &FilterRequest::default()).await;
        add(&before, filter, 0..100).await;
    }
    tokio::task::block_in_place(|| before.shutdown().unwrap());

    let store = GatedStore::new(Arc::new(memory));
    let engine = engine(Arc::new(store.clone()), &options);
    add(&engine, "warm", [100]).await;
    store.hold_first(Point::ReadDone);
    let stuck = [true, false].map(|write| {
        let engine = engine.clone();
        tokio::spawn(async move {
            if write {
                add(&engine, "cold", [100]).await;
            } else {
                assert!(all_exist(&engine, "cold", 0..100).await);
            }
        })
    });
    tokio::task::block_in_place(|| store.await_arrival());
    let others = async {
        for n in 101..140 {
            add(&engine, "warm", [n]).await;
            assert!(all_exist(&engine, "warm", 0..n).await);
        }
    };
    tokio::time::timeout(Duration::from_secs(5), others)
        .await
        .expect("others waited for a cold page");
    assert!(stuck.iter().all(|task| !task.is_finished()));
    store.open();
    for task in stuck {
        task.await.unwrap();
    }
    assert!(all_exist(&engine, "cold", 0..101).await);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn one_forced_write_serves_all_who_waited_for_it() {
    let store = GatedStore::new(Arc::new(MemoryStore::new()));
    let metered = MeteredStore::new(Arc::new(store.clone()));
    let mut options = options(512);
    options.lanes = 1;
    let engine = engine(Arc::new(metered.clone()), &options);
    create(&engine, "f", &FilterRequest::default()).await;
    add(&engine, "f", [0]).await;
    store.hold_first(Point::CommitDone);
    let clients: Vec<_> = (1..=60u64)
        .map(|n| {
            let engine = engine.clone();
            tokio::spawn(async move {
                engine
                    .add(&name("f"), &batch([n]), &AddOptions::default(), None)
                    .await
                    .unwrap()
                    .answer
            })
        })
        .collect();
    tokio::task::block_in_place(|| store.await_arrival());
    tokio::time::sleep(Duration::from_millis(200)).await;
    let before = metered.counts().commits;
    store.open();
    for client in clients {
        client.await.unwrap();
    }
    let commits = metered.counts().commits - before;
    assert!(commits <= 3, "60 adds took {commits} commits");
    assert!(all_exist(&engine, "f", 0..=60).await);
}
