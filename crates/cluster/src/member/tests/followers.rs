//! What the leader of a lane commits, as every pod has it.

use super::cluster::*;
use super::flaky::Failures;
use crate::chain::params::FilterRequest;
use crate::engine::lane_of;
use crate::engine::{
    AddMode, AddOptions, AddResult, Engine, Entries, EpochInfo, ItemBatch, NewFilter,
};
use crate::memory::MemoryStore;
use crate::store::PageStore;
use crate::tests::shared_log::SharedLog;
use crate::{CommitLog, Event};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn followers_have_what_the_leader_commits_in_filters_of_every_kind() {
    let (mut cluster, leader) = led_cluster();
    for number in 0..KINDS {
        create(&leader, &format!("f{number}"), number, 500).await;
    }
    cluster.check_equal().await;
    for number in 0..KINDS {
        let filter = format!("f{number}");
        // They grow, page by page or by sub-filters.
        for first in (0..6_000).step_by(300) {
            add(&leader, &filter, first..first + 300, None)
                .await
                .unwrap();
        }
        // More copies than may have slots.
        add(&leader, &filter, [7; 2_000], None).await.unwrap();
    }
    cluster.check_equal().await;
    for number in 0..KINDS {
        let filter = name(&format!("f{number}"));
        for first in (1_000..5_000).step_by(400) {
            let items = batch(first..first + 400);
            let deleted = leader.delete(&filter, &items, None).await.unwrap();
            assert!(deleted.answer.iter().all(|&it| it));
        }
        let copies = batch([7; 1_500]);
        leader.delete(&filter, &copies, None).await.unwrap();
        leader.set_ttl(&filter, Some(10_000), None).await.unwrap();
        leader.compact(&filter, None).await.unwrap();
    }
    cluster.check_equal().await;
    // Who follows then goes on from there.
    cluster.lead_all(2);
    let leader = cluster.pods[2].engine.clone();
    for number in 0..KINDS {
        let filter = format!("f{number}");
        let name = name(&filter);
        assert!(
            leader
                .exists(&name, &batch(5_000..6_000))
                .await
                .unwrap()
                .iter()
                .all(|&it| it)
        );
        add(&leader, &filter, 10_000..12_000, None).await.unwrap();
        leader.set_ttl(&name, None, None).await.unwrap();
    }
    cluster.check_equal().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn values_of_items_travel_to_every_pod() {
    let (mut cluster, leader) = led_cluster();
    let filter = name("of-values");
    let wanted = FilterRequest {
        capacity: Some(2_000),
        value_bits: Some(8),
        ..FilterRequest::default()
    };
    let made = leader.create_filter(&filter, &wanted.into(), None).await;
    made.unwrap();
    let values_of = |items: std::ops::Range<u64>| -> Arc<[u32]> {
        items.map(|item| (item % 200) as u32).collect()
    };
    // It grows, page by page.
    for first in (0..6_000).step_by(500) {
        let (items, values) = (batch(first..first + 500), values_of(first..first + 500));
        let entries = Entries {
            items: &items,
            values: (&values).into(),
        };
        let added = leader.add_values(&filter, entries, AddMode::Always, None);
        assert!(
            added
                .await
                .unwrap()
                .answer
                .iter()
                .all(|&it| it == AddResult::Added)
        );
    }
    cluster.check_equal().await;
    let (items, values) = (batch(0..1_000), values_of(0..1_000));
    let entries = Entries {
        items: &items,
        values: (&values).into(),
    };
    let deleted = leader.delete_values(&filter, entries, None).await.unwrap();
    assert!(deleted.answer.iter().all(|&it| it));
    cluster.check_equal().await;
    // Who leads then goes on from there.
    cluster.lead_all(1);
    let (items, values) = (batch(1_000..6_000), values_of(1_000..6_000));
    for pod in &cluster.pods {
        let entries = Entries {
            items: &items,
            values: (&values).into(),
        };
        let found = pod.engine.has_values(&filter, entries).await.unwrap();
        assert_eq!(found.len(), 5_000);
    }
    let leader = &cluster.pods[1].engine;
    let entries = Entries {
        items: &items,
        values: (&values).into(),
    };
    let deleted = leader.delete_values(&filter, entries, None).await.unwrap();
    assert!(deleted.answer.iter().all(|&it| it));
    cluster.check_equal().await;
}

/// What a pod knows of items that expire: whether each was seen, and seen in the last
/// half hour, and how many were seen last in each epoch.
async fn seen_by(engine: &Engine, items: &ItemBatch) -> (Vec<bool>, Vec<bool>, Vec<EpochInfo>) {
    let filter = name("seen");
    let found = engine.exists(&filter, items).await.unwrap();
    let lately = engine
        .seen_within(&filter, items, Some(1_800))
        .await
        .unwrap();
    let info = engine.filter_info(&filter).await.unwrap();
    (found, lately, info.epochs.unwrap())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn items_expire_alike_on_every_pod() {
    let (mut cluster, first) = led_cluster();
    let filter = name("seen");
    let wanted = FilterRequest {
        capacity: Some(1_000),
        window_seconds: Some(3_600),
        window_resolution_seconds: Some(600),
        ..FilterRequest::default()
    };
    let made = first.create_filter(&filter, &wanted.into(), None).await;
    made.unwrap();
    let (mut refreshed, mut next) = (0, 1_000);
    // Three windows, with another leader in each; it grows, and what is not seen
    // again expires.
    for step in 0..36 {
        let leader = step / 12;
        if step % 12 == 0 {
            cluster.lead_all(leader);
        }
        let items = (0..100).chain(next..next + 300);
        next += 300;
        let added = cluster.pods[leader]
            .engine
            .add(&filter, &batch(items), &AddOptions::default(), None)
            .await;
        let is_refreshed = |it: &&AddResult| **it == AddResult::Refreshed;
        refreshed += added.unwrap().answer.iter().filter(is_refreshed).count();
        // All have its stamp before time goes on: they go by the time since it came.
        cluster.level();
        cluster.now_ms.fetch_add(300_000, Ordering::SeqCst);
        if step % 6 == 5 {
            let asked = batch((0..100).chain(1_000..next + 500));
            let expected = seen_by(&cluster.pods[leader].engine, &asked).await;
            assert!(expected.0[..100].iter().all(|&it| it), "one is missed");
            for pod in &cluster.pods {
                assert_eq!(seen_by(&pod.engine, &asked).await, expected);
            }
        }
    }
    // Of the others at most some false positives are.
    assert!((3_500..3_520).contains(&refreshed), "{refreshed}");
    // All of it expires; what is swept meanwhile travels, too.
    cluster.now_ms.fetch_add(8 * 600_000, Ordering::SeqCst);
    let asked = batch(0..next);
    for pod in &cluster.pods {
        let (found, lately, epochs) = seen_by(&pod.engine, &asked).await;
        assert!(!found.contains(&true) && !lately.contains(&true));
        assert!(epochs.iter().all(|it| it.items == 0), "{epochs:?}");
    }
    let until = Instant::now() + Duration::from_secs(60);
    for pod in [2, 1, 0] {
        while pages(&cluster.pods[pod].engine).await > 1 {
            assert!(Instant::now() < until, "pod {pod} keeps its pages");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }
    cluster.check_equal().await;
}

async fn pages(engine: &Engine) -> u64 {
    let info = engine.filter_info(&name("seen")).await.unwrap();
    info.sub_filters.iter().map(|sub| sub.pages).sum()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_filter_that_takes_the_name_of_another_is_another_on_every_pod() {
    let mut cluster = quiet_cluster();
    for round in 0..6 {
        let pod = round as usize % 3;
        cluster.lead_all(pod);
        let leader = cluster.pods[pod].engine.clone();
        for number in 0..4 {
            let filter = format!("f{number}");
            if round > 0 {
                leader.delete_filter(&name(&filter), None).await.unwrap();
            }
            create(&leader, &filter, number + round, 1_000).await;
            add(&leader, &filter, round * 100..round * 100 + 500, None)
                .await
                .unwrap();
        }
        cluster.check_equal().await;
    }
    cluster.lead_all(1);
    for number in 0..4 {
        let leader = &cluster.pods[1].engine;
        leader
            .delete_filter(&name(&format!("f{number}")), None)
            .await
            .unwrap();
    }
    cluster.level();
    for pod in &cluster.pods {
        assert_eq!(pod.engine.count_filters("").await.unwrap(), 0);
        assert!(!pod.engine.has_filter(&name("f0")).await.unwrap());
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn plans_of_several_slices_are_one_commit_on_every_pod() {
    let (cluster, leader) = led_cluster();
    create(&leader, "f", 0, 60_000).await;
    add(&leader, "f", 0..50_000, None).await.unwrap();
    cluster.check_equal().await;
    let refused = add(&leader, "f", [1].repeat(3), None).await;
    refused.unwrap();
    assert_eq!(
        cluster.log.newest(0).unwrap() + cluster.log.newest(1).unwrap(),
        3
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_leader_removes_what_has_ended_from_every_pod() {
    let (cluster, leader) = led_cluster();
    for number in 0..8 {
        let filter = format!("f{number}");
        create(&leader, &filter, number, 1_000).await;
        let ttl_seconds = (number % 2 == 0).then_some(10);
        let set = leader.set_ttl(&name(&filter), ttl_seconds, None).await;
        set.unwrap();
    }
    cluster.now_ms.fetch_add(11_000, Ordering::SeqCst);
    for pod in &cluster.pods {
        let store = PageStore::open(Arc::new(pod.store.clone())).unwrap();
        wait_until("half of the filters are removed", || {
            store.list_filters("", None, 100).unwrap().len() == 4
        });
    }
    cluster.check_equal().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_has_ended_in_a_lane_that_nobody_leads_keeps_nothing_else() {
    let (mut cluster, leader) = led_cluster();
    let of_lane = |lane| {
        let names = (0..).map(|n| name(&format!("f{n}")));
        names.filter(move |name| lane_of(name, LANES as usize) == lane)
    };
    // More than a look removes are due before the one of the other lane.
    let ended: Vec<_> = of_lane(0).take(300).chain(of_lane(1).take(1)).collect();
    for name in &ended {
        let new = NewFilter {
            ttl_seconds: Some(10),
            ..NewFilter::default()
        };
        leader.create_filter(name, &new, None).await.unwrap();
    }
    leader.tell(0, Event::Lease(None));
    cluster.now_ms.fetch_add(11_000, Ordering::SeqCst);
    let store = PageStore::open(Arc::new(cluster.pods[0].store.clone())).unwrap();
    let left = || store.list_filters("", None, 400).unwrap().len();
    wait_until("the other lane's is removed", || left() == 300);
    cluster.lead(0, 0);
    wait_until("all are removed", || left() == 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_follower_whose_disk_fails_keeps_few_records_in_memory() {
    let mut cluster = Cluster::of(1, SharedLog::new(1, 0), Failures::new(1, 0));
    cluster.lead_all(0);
    let leader = cluster.pods[0].engine.clone();
    create(&leader, "f", 0, 1_000).await;
    let failures = Failures::new(1, 0);
    let store = MemoryStore::new();
    failures.befall(&store);
    let engine = join(store.clone(), cluster.membership(), &cluster.now_ms).unwrap();
    cluster.pods.push(Pod { store, engine });
    cluster.level();
    failures.set(100);
    let before = cluster.log.handed_over();
    for item in 0..100 {
        add(&leader, "f", [item], None).await.unwrap();
    }
    // Time enough to read all of them.
    tokio::time::sleep(Duration::from_secs(2)).await;
    let read = cluster.log.handed_over() - before;
    println!("{read} records were read while none could be applied");
    // Two times what is handed over at once, and what waits for the lane.
    assert!((1..=3 * 8).contains(&read), "{read} records");
    failures.set(0);
    cluster.check_equal().await;
}
