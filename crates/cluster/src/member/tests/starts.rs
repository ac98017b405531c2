//! Pods that start: what they go on from, and when they are refused.

use super::cluster::*;
use super::flaky::Failures;
use crate::engine::{Engine, EngineError, LaneState};
use crate::engine::{Halt, Position};
use crate::memory::MemoryStore;
use crate::metrics::Metrics;
use crate::store::PageStore;
use crate::tests::shared_log::SharedLog;
use crate::{CommitLog, Event, KeptLane as _, MessageId, Record, Writer};
use crate::{JoinError, Membership};
use std::sync::Arc;
use std::time::Duration;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_pod_that_starts_again_reads_what_it_lacks_and_a_new_one_everything() {
    let (mut cluster, leader) = led_cluster();
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
async fn a_pod_has_caught_up_once_it_has_applied_what_the_log_had_and_not_before() {
    let (cluster, leader) = led_cluster();
    for number in 0..KINDS {
        create(&leader, &format!("f{number}"), number, 500).await;
    }
    cluster.level();
    let newest = |lane| cluster.log.newest(lane).unwrap();
    let with_records: Vec<u32> = (0..LANES).filter(|&lane| newest(lane) > 0).collect();
    assert!(!with_records.is_empty());
    // It reads all of them, and can't apply them yet.
    cluster.failures.set(100);
    let new = cluster.start(MemoryStore::new()).unwrap();
    let late = || -> Vec<u32> {
        let states = (0..).zip(new.engine.lane_states());
        let late = states.filter(|(_, it)| !it.has_caught_up);
        late.map(|(lane, _)| lane).collect()
    };
    wait_until("the others have caught up", || late() == with_records);
    std::thread::sleep(Duration::from_millis(500));
    assert_eq!(late(), with_records);
    cluster.failures.set(0);
    for lane in 0..LANES {
        (new.engine.clone(), lane).caught_up().await;
        let at = new.engine.lane_states()[lane as usize].position.sequence;
        assert!(at >= newest(lane), "lane {lane}: {at}");
    }
    assert!(late().is_empty());
    new.engine.halt();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_pod_behind_what_was_trimmed_says_so_and_one_before_a_rewound_log_stops() {
    let (cluster, leader) = led_cluster();
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
    leader.tell(lane, Event::Recheck);
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
    let (cluster, leader) = led_cluster();
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
    let filters = engine.list_filters("", "", None, 10).await.unwrap().filters;
    assert_eq!(filters.len(), 4);
    for lane in 0..LANES {
        engine.tell(lane, Event::Lease(Some(1)));
    }
    wait_until("it leads there", || {
        engine.lane_states().iter().all(|lane| lane.leads())
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
    let (cluster, leader) = led_cluster();
    create(&leader, "f", 0, 1_000).await;
    create(&leader, "g", 0, 1_000).await;
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
        Err(JoinError::LanesDiffer {
            found: 2,
            lanes: 200
        })
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
