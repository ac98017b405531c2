//! What the leader of a lane commits, and what others make of it.

use super::cluster::*;
use super::flaky::Failures;
use crate::chain::params::FilterRequest;
use crate::engine::filters::lane_of;
use crate::engine::membership::{JoinError, Membership};
use crate::engine::{
    AddMode, AddOptions, AddResult, Engine, EngineError, Entries, EpochInfo, ItemBatch, LaneState,
    NewFilter,
};
use crate::metrics::Metrics;
use crate::replication::tests::shared_log::SharedLog;
use crate::replication::{CommitLog, Event, Halt, MessageId, Position, Record, Writer};
use crate::store::PageStore;
use crate::store::memory::MemoryStore;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn followers_have_what_the_leader_commits_in_filters_of_every_kind() {
    let mut cluster = quiet_cluster();
    cluster.lead_all(0);
    let leader = cluster.pods[0].engine.clone();
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
    let mut cluster = quiet_cluster();
    cluster.lead_all(0);
    let leader = cluster.pods[0].engine.clone();
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
    let lately = engine.seen_within(&filter, items, 1_800).await.unwrap();
    let info = engine.filter_info(&filter).await.unwrap();
    (found, lately, info.window.unwrap().epochs)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn items_expire_alike_on_every_pod() {
    let mut cluster = quiet_cluster();
    cluster.lead_all(0);
    let filter = name("seen");
    let wanted = FilterRequest {
        capacity: Some(1_000),
        window_seconds: Some(3_600),
        window_resolution_seconds: Some(600),
        ..FilterRequest::default()
    };
    let made = cluster.pods[0]
        .engine
        .create_filter(&filter, &wanted.into(), None)
        .await;
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
    let mut cluster = quiet_cluster();
    cluster.lead_all(0);
    let leader = cluster.pods[0].engine.clone();
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
async fn a_change_that_is_too_large_for_a_record_is_refused_and_nothing_is_done() {
    let mut cluster = quiet_cluster();
    cluster.lead_all(0);
    let leader = cluster.pods[0].engine.clone();
    create(&leader, "f", 5, 400_000).await;
    let before = cluster
        .log
        .newest(0)
        .unwrap()
        .max(cluster.log.newest(1).unwrap());
    let refused = add(&leader, "f", 0..240_000, None).await;
    assert!(
        matches!(
            refused,
            Err(EngineError::TooLargeForLog { .. } | EngineError::TooManyPages { .. })
        ),
        "{refused:?}"
    );
    add(&leader, "f", 0..1_000, None).await.unwrap();
    let after = cluster
        .log
        .newest(0)
        .unwrap()
        .max(cluster.log.newest(1).unwrap());
    assert_eq!(after, before + 1);
    cluster.check_equal().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_pod_that_does_not_lead_answers_questions_and_changes_nothing() {
    let mut cluster = quiet_cluster();
    cluster.lead_all(0);
    create(&cluster.pods[0].engine, "f", 0, 1_000).await;
    add(&cluster.pods[0].engine, "f", 0..100, None)
        .await
        .unwrap();
    cluster.level();
    let (other, f) = (&cluster.pods[1].engine, name("f"));
    assert!(
        other
            .exists(&f, &batch(0..100))
            .await
            .unwrap()
            .iter()
            .all(|&it| it)
    );
    let changes = [
        add(other, "f", [1], None).await.err(),
        other.delete(&f, &batch([1]), None).await.err(),
        other.set_ttl(&f, Some(5), None).await.err(),
        other.delete_filter(&f, None).await.err(),
        other
            .create_filter(&name("g"), &kind(0, 10).into(), None)
            .await
            .err(),
    ];
    for refused in changes {
        assert!(
            matches!(refused, Some(EngineError::NotLeading)),
            "{refused:?}"
        );
    }
    cluster.check_equal().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_pods_that_both_believe_to_lead_plan_again_what_was_overtaken() {
    let mut cluster = quiet_cluster();
    cluster.lead_all(0);
    for number in 0..4 {
        create(&cluster.pods[0].engine, &format!("f{number}"), number, 300).await;
    }
    cluster.level();
    (0..LANES).for_each(|lane| cluster.also_lead(1, lane));
    let second = &cluster.pods[1].engine;
    wait_until("both lead", || {
        second.lane_states().iter().all(|it| it.leads)
    });
    for round in 0..30 {
        for number in 0..4 {
            let filter = format!("f{number}");
            for (pod, first) in [(0, 0), (1, 100_000)] {
                let items = first + round * 20..first + round * 20 + 20;
                add(&cluster.pods[pod].engine, &filter, items, None)
                    .await
                    .unwrap();
            }
        }
    }
    // A leader reads where it is refused; that it leads no more makes it follow.
    cluster.lead_all(2);
    cluster.check_equal().await;
    for number in 0..4 {
        let info = cluster.pods[0]
            .engine
            .filter_info(&name(&format!("f{number}")))
            .await;
        assert_eq!(info.unwrap().items, 30 * 40);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_key_counts_once_whichever_pod_it_is_sent_to() {
    let mut cluster = quiet_cluster();
    cluster.lead_all(0);
    create(&cluster.pods[0].engine, "f", 0, 1_000).await;
    add(&cluster.pods[0].engine, "f", 0..50, Some(key(1)))
        .await
        .unwrap();
    for pod in [1, 2] {
        cluster.lead_all(pod);
        let engine = &cluster.pods[pod].engine;
        let (f, items, options) = (name("f"), batch(0..50), AddOptions::default());
        let again = engine.add(&f, &items, &options, Some(key(1))).await;
        assert!(again.unwrap().replayed);
        assert_eq!(engine.filter_info(&f).await.unwrap().items, 50);
    }
    cluster.check_equal().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_key_that_another_leader_has_answered_does_not_count_again() {
    let mut cluster = quiet_cluster();
    cluster.lead_all(0);
    for filter in ["f", "g"] {
        create(&cluster.pods[0].engine, filter, 0, 1_000).await;
    }
    cluster.level();
    (0..LANES).for_each(|lane| cluster.also_lead(1, lane));
    let second = cluster.pods[1].engine.clone();
    wait_until("both lead", || {
        second.lane_states().iter().all(|it| it.leads)
    });
    let first = &cluster.pods[0].engine;
    for round in 0..20 {
        let items = round * 10..round * 10 + 10;
        add(first, "f", items.clone(), Some(key(round)))
            .await
            .unwrap();
        // As a rule the second has not heard of that when it looks for the key,
        // and hears of it when its own commit is overtaken.
        let again = add(&second, "f", items.clone(), Some(key(round))).await;
        assert!(
            matches!(again, Ok(()) | Err(EngineError::RetryInFlight)),
            "{again:?}"
        );
        add(&second, "f", items, Some(key(round))).await.unwrap();
        // The first hears of the second's.
        add(&second, "g", [round], None).await.unwrap();
        add(first, "g", [round], None).await.unwrap();
    }
    let info = second.filter_info(&name("f")).await.unwrap();
    assert_eq!(info.items, 200);
    cluster.lead_all(2);
    cluster.check_equal().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_nobody_knows_for_want_of_the_log_is_settled_when_it_is_back() {
    let mut cluster = quiet_cluster();
    cluster.lead_all(0);
    let leader = cluster.pods[0].engine.clone();
    create(&leader, "f", 0, 1_000).await;
    cluster.log.cut_off(true);
    let soon = leader.until(Instant::now() + Duration::from_millis(200));
    let unknown = add(&soon, "f", 0..50, Some(key(1))).await;
    assert!(
        matches!(unknown, Err(EngineError::LogSilent)),
        "{unknown:?}"
    );
    wait_until("the lane says that it is in doubt", || {
        leader.lane_states().iter().any(|lane| lane.is_in_flight)
    });
    // Questions go on, changes and the same key are told to come back.
    assert!(leader.has_filter(&name("f")).await.unwrap());
    leader.exists(&name("f"), &batch(0..50)).await.unwrap();
    let again = add(&leader, "f", 0..50, Some(key(1))).await;
    assert!(
        matches!(again, Err(EngineError::RetryInFlight)),
        "{again:?}"
    );
    cluster.log.cut_off(false);
    wait_until("the lane has settled it", || {
        leader.lane_states().iter().all(|lane| !lane.is_in_flight)
    });
    cluster.check_equal().await;
    add(&leader, "f", 0..50, Some(key(1))).await.unwrap();
    assert_eq!(leader.filter_info(&name("f")).await.unwrap().items, 50);
    cluster.check_equal().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_commit_that_the_log_has_and_the_store_refused_is_applied_when_it_can_be() {
    let mut cluster = quiet_cluster();
    cluster.lead_all(0);
    let leader = cluster.pods[0].engine.clone();
    create(&leader, "f", 0, 1_000).await;
    cluster.level();
    cluster.failures.set(100);
    let unknown = add(&leader, "f", 0..50, Some(key(1))).await;
    assert!(
        matches!(unknown, Err(EngineError::OutcomeUnknown(_))),
        "{unknown:?}"
    );
    let refused = add(&leader, "f", 50..60, None).await;
    assert!(
        matches!(refused, Err(EngineError::Overloaded(_))),
        "{refused:?}"
    );
    // A crash in between leaves what the log has, too.
    let left = cluster.pods[0].store.fork();
    cluster.failures.set(0);
    cluster.check_equal().await;
    cluster.crash(0, left);
    cluster.lead_all(0);
    let leader = cluster.pods[0].engine.clone();
    add(&leader, "f", 0..50, Some(key(1))).await.unwrap();
    let info = leader.filter_info(&name("f")).await.unwrap();
    assert_eq!(info.items, 50);
    cluster.check_equal().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_leader_removes_what_has_ended_from_every_pod() {
    let mut cluster = quiet_cluster();
    cluster.lead_all(0);
    let leader = cluster.pods[0].engine.clone();
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
    let mut cluster = quiet_cluster();
    cluster.lead_all(0);
    let leader = cluster.pods[0].engine.clone();
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
    leader.tell_lane(0, Event::Lease(None)).unwrap();
    cluster.now_ms.fetch_add(11_000, Ordering::SeqCst);
    let store = PageStore::open(Arc::new(cluster.pods[0].store.clone())).unwrap();
    let left = || store.list_filters("", None, 400).unwrap().len();
    wait_until("the other lane's is removed", || left() == 300);
    cluster.lead(0, 0);
    wait_until("all are removed", || left() == 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_pod_that_starts_again_reads_what_it_lacks_and_a_new_one_everything() {
    let mut cluster = quiet_cluster();
    cluster.lead_all(0);
    let leader = cluster.pods[0].engine.clone();
    for number in 0..KINDS {
        create(&leader, &format!("f{number}"), number, 500).await;
        add(&leader, &format!("f{number}"), 0..2_000, None)
            .await
            .unwrap();
    }
    cluster.level();
    let early = cluster.pods[1].store.fork();
    for number in 0..KINDS {
        add(&leader, &format!("f{number}"), 2_000..4_000, None)
            .await
            .unwrap();
    }
    cluster.level();
    // As a power cut leaves one, a crash another, and a stop.
    cluster.crash(1, early);
    let now = cluster.pods[2].store.fork();
    cluster.crash(2, now);
    cluster.pods[0].engine.shutdown().unwrap();
    let stopped = cluster.pods[0].store.clone();
    cluster.crash(0, stopped);
    let new = cluster.start(MemoryStore::new()).unwrap();
    cluster.pods.push(new);
    cluster.check_equal().await;
    cluster.lead_all(3);
    let leader = cluster.pods[3].engine.clone();
    create(&leader, "new", 0, 100).await;
    add(&leader, "new", 0..50, None).await.unwrap();
    cluster.check_equal().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_pod_behind_what_was_trimmed_says_so_and_one_before_a_rewound_log_stops() {
    let mut cluster = quiet_cluster();
    cluster.lead_all(0);
    let leader = cluster.pods[0].engine.clone();
    create(&leader, "f", 0, 1_000).await;
    for first in 0..10 {
        add(&leader, "f", first..first + 1, None).await.unwrap();
    }
    cluster.level();
    let lane = (0..LANES)
        .max_by_key(|lane| cluster.log.newest(*lane).unwrap())
        .unwrap();
    let newest = cluster.log.newest(lane).unwrap();
    cluster.log.trim_lane(lane, newest);
    let late = cluster.start(MemoryStore::new()).unwrap();
    wait_until("it is behind", || {
        late.engine.lane_states()[lane as usize].is_behind
    });
    late.engine.halt();

    cluster.log.rewind(1);
    leader.tell_lane(lane, Event::InDoubt).unwrap();
    let state = |engine: &Engine| -> LaneState { engine.lane_states()[lane as usize].clone() };
    wait_until("it stops", || state(&leader).halted.is_some());
    assert!(matches!(state(&leader).halted, Some(Halt::Rewound { at, .. }) if at == newest));
    let refused = add(&leader, "f", [1], None).await;
    assert!(
        matches!(refused, Err(EngineError::LaneHalted(_))),
        "{refused:?}"
    );
    // Questions go on.
    let found = leader.exists(&name("f"), &batch(0..10)).await.unwrap();
    assert!(found.iter().all(|&it| it));
    // It does not start before such a log.
    let again = cluster.start(cluster.pods[0].store.fork());
    let halt = match again.map(drop) {
        Err(JoinError::OtherLog { halt, .. }) => halt,
        other => panic!("{other:?}"),
    };
    assert!(matches!(halt, Halt::Rewound { at, .. } if at == newest));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_pod_goes_on_into_a_new_epoch_only_from_where_that_began() {
    let mut cluster = quiet_cluster();
    cluster.lead_all(0);
    let leader = cluster.pods[0].engine.clone();
    for number in 0..4 {
        create(&leader, &format!("f{number}"), 0, 1_000).await;
    }
    cluster.level();
    let before: Vec<Position> = leader.lane_states().iter().map(|it| it.position).collect();
    assert!(before.iter().all(|it| it.sequence > 0), "{before:?}");
    let equal = cluster.pods[0].store.fork();
    add(&leader, "f0", 0..10, None).await.unwrap();
    cluster.level();
    let more = cluster.pods[1].store.fork();
    // The log of the next epoch: in each lane a barrier that follows what was before,
    // under numbers that are larger than all of the epoch before.
    let next = Cluster::of(0, SharedLog::new(3, 0), Failures::new(3, 0));
    for (lane, &previous) in (0..).zip(&before) {
        let record = Record {
            level: 1,
            epoch: 2,
            lane,
            previous,
            writer: Writer([9; 16]),
            number: 1,
            stamp_ms: 0,
            commit: bytes::Bytes::new(),
        };
        let id = MessageId {
            writer: record.writer,
            lane,
            number: 1,
        };
        next.log.begin_at(id, 1_000, record.encode().unwrap());
    }
    let later = || Membership {
        epoch: 2,
        began: before.clone(),
        ..next.membership()
    };
    let now = &cluster.now_ms;
    let refused = join(more.clone(), later(), now).map(drop);
    assert!(
        matches!(
            refused,
            Err(JoinError::LeftBehind {
                found: 1,
                epoch: 2,
                ..
            })
        ),
        "{refused:?}"
    );
    let engine = join(equal.clone(), later(), now).unwrap();
    let filters = engine.list_filters("", None, 10).await.unwrap();
    assert_eq!(filters.len(), 4);
    for lane in 0..LANES {
        engine.tell_lane(lane, Event::Lease(Some(1))).unwrap();
    }
    wait_until("it leads there", || {
        engine.lane_states().iter().all(|lane| lane.leads)
    });
    add(&engine, "f0", 20..30, None).await.unwrap();
    engine.halt();
    // What has come to the new epoch does not go back; what has nothing, or less,
    // needs the state of another pod.
    let back = join(equal, cluster.membership(), now).map(drop);
    assert!(
        matches!(back, Err(JoinError::OtherEpoch { found: 2, epoch: 1 })),
        "{back:?}"
    );
    let empty = join(MemoryStore::new(), later(), now).unwrap();
    wait_until("it is behind", || {
        empty.lane_states().iter().all(|lane| lane.is_behind)
    });
    empty.halt();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_store_that_is_not_of_the_cluster_is_refused() {
    let mut cluster = quiet_cluster();
    cluster.lead_all(0);
    create(&cluster.pods[0].engine, "f", 0, 1_000).await;
    create(&cluster.pods[0].engine, "g", 0, 1_000).await;
    cluster.level();
    let (ours, now) = (cluster.pods[0].store.fork(), &cluster.now_ms);
    let other = Membership {
        founding: [8; 16],
        ..cluster.membership()
    };
    assert!(matches!(
        join(ours.clone(), other, now),
        Err(JoinError::OtherCluster)
    ));
    let wide = |lanes| Membership {
        lanes,
        ..cluster.membership()
    };
    assert!(matches!(
        join(ours.clone(), wide(200), now),
        Err(JoinError::TooManyLanes { lanes: 200, .. })
    ));
    assert!(matches!(
        join(ours.clone(), wide(1), now),
        Err(JoinError::LanesDiffer { found: 2, lanes: 1 })
    ));
    // And one that was never of a cluster, but has filters.
    let alone = MemoryStore::new();
    let store = Arc::new(PageStore::open(Arc::new(alone.clone())).unwrap());
    let engine = Engine::open(store, &options(), Arc::new(Metrics::new().unwrap())).unwrap();
    create(&engine, "f", 0, 1_000).await;
    engine.halt();
    assert!(matches!(
        join(alone, cluster.membership(), now),
        Err(JoinError::NotOfACluster)
    ));
}
