//! Pods behind what was trimmed, and what may take the place of their state.

use super::cluster::{Cluster, KINDS, LANES, Pod, add, kind, name};
use super::flaky::Failures;
use crate::CommitLog as _;
use crate::memory::MemoryStore;
use crate::store::PageStore;
use crate::tests::shared_log::SharedLog;
use crate::{PodPosition, Unfit};
use std::sync::Arc;

async fn create(pod: &Pod, filter: &str, number: u64) {
    let wanted = kind(number, 500).into();
    let made = pod.engine.create_filter(&name(filter), &wanted, None).await;
    made.unwrap();
}

async fn add_all(cluster: &Cluster, pod: usize, items: std::ops::Range<u64>) {
    for number in 0..KINDS {
        let engine = &cluster.pods[pod].engine;
        let filter = format!("f{number}");
        add(engine, &filter, items.clone(), None).await.unwrap();
    }
    cluster.level();
}

/// A cluster with filters of every kind in all of its lanes.
async fn cluster(pods: usize) -> Cluster {
    let mut cluster = Cluster::of(pods, SharedLog::new(1, 0), Failures::new(1, 0));
    cluster.lead_all(0);
    for number in 0..KINDS {
        create(&cluster.pods[0], &format!("f{number}"), number).await;
    }
    add_all(&cluster, 0, 0..100).await;
    cluster
}

fn store(memory: &MemoryStore) -> PageStore {
    PageStore::open(Arc::new(memory.clone())).unwrap()
}

fn position(cluster: &Cluster, memory: &MemoryStore) -> PodPosition {
    PodPosition::of(&cluster.membership(), &store(memory)).unwrap()
}

fn behind(cluster: &Cluster, position: &PodPosition) -> Vec<u32> {
    position.lanes_behind(&cluster.membership()).unwrap()
}

const NOBODY: [u32; 0] = [];

fn trim_all(cluster: &Cluster) {
    for lane in 0..LANES {
        let newest = cluster.log.newest(lane).unwrap();
        cluster.log.trim_lane(lane, newest);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_pod_behind_what_was_trimmed_goes_on_from_the_state_of_another() {
    let mut cluster = cluster(2).await;
    let early = cluster.pods[1].store.fork();
    let (new, away) = (MemoryStore::new(), early.clone());
    assert_eq!(behind(&cluster, &position(&cluster, &new)), NOBODY);
    assert_eq!(behind(&cluster, &position(&cluster, &away)), NOBODY);
    add_all(&cluster, 0, 100..200).await;
    add_all(&cluster, 0, 200..300).await;
    trim_all(&cluster);
    let all: Vec<u32> = (0..LANES).collect();
    for late in [&new, &away] {
        let position = position(&cluster, late);
        assert_eq!(behind(&cluster, &position), all);
        let given = cluster.pods[0].store.fork();
        assert_eq!(position.is_past_of(&store(&given)).unwrap(), Ok(()));
        assert_eq!(
            position.is_past_of(cluster.pods[0].engine.store()).unwrap(),
            Ok(())
        );
        // Those that are further have no use for it.
        let given = self::position(&cluster, &given);
        assert_eq!(behind(&cluster, &given), NOBODY);
        let refused = given.is_past_of(&store(late)).unwrap().unwrap_err();
        assert!(matches!(refused, Unfit::Behind { has, needs, .. } if has < needs));
        assert!(refused.may_pass());
    }
    // What came after the snapshot is read from the log.
    let given = cluster.pods[0].store.fork();
    add_all(&cluster, 0, 300..400).await;
    for _ in 0..2 {
        let pod = cluster.start(given.fork()).unwrap();
        cluster.pods.push(pod);
    }
    cluster.check_equal().await;
    cluster.lead_all(3);
    add_all(&cluster, 3, 400..500).await;
    cluster.check_equal().await;
}

/// The log lost what one pod alone had applied, went on without it and was
/// trimmed: nothing of the log tells that pod any more.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_pod_before_a_rewound_and_trimmed_log_keeps_what_nobody_else_has() {
    let mut cluster = cluster(2).await;
    let before = cluster.pods[1].store.fork();
    cluster.pods[1].engine.halt();
    let left = cluster.pods.pop().unwrap();
    add_all(&cluster, 0, 100..103).await;
    let alone = cluster.pods[0].store.fork();
    let newest: Vec<u64> = (0..LANES)
        .map(|it| cluster.log.newest(it).unwrap())
        .collect();
    cluster.pods[0].engine.halt();
    drop(left);
    cluster.log.rewind(KINDS as usize);
    cluster.pods[0] = cluster.start(before).unwrap();
    cluster.lead_all(0);
    for first in 0..20 {
        add_all(&cluster, 0, 1000 + first..1001 + first).await;
    }
    for lane in 0..LANES {
        assert!(cluster.log.newest(lane).unwrap() > newest[lane as usize]);
    }
    trim_all(&cluster);
    let position = position(&cluster, &alone);
    assert!(!behind(&cluster, &position).is_empty());
    let refused = position.is_past_of(cluster.pods[0].engine.store()).unwrap();
    let Err(Unfit::Forked { lane, at }) = refused else {
        panic!("{refused:?}");
    };
    assert_eq!(at, position.lanes[lane as usize].sequence);
    assert!(!Unfit::Forked { lane, at }.may_pass());
    // The same number with another record in its place.
    let theirs = self::position(&cluster, &cluster.pods[0].store);
    let mut other = theirs.clone();
    other.lanes[0].history = position.lanes[0].history;
    let store = store(&cluster.pods[0].store);
    assert_eq!(theirs.is_past_of(&store).unwrap(), Ok(()));
    let refused = other.is_past_of(&store).unwrap();
    assert!(matches!(refused, Err(Unfit::Forked { lane: 0, .. })));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_of_another_cluster_or_longer_ago_than_anybody_knows_is_refused() {
    let cluster = cluster(1).await;
    let memory = &cluster.pods[0].store;
    let ours = position(&cluster, memory);
    let store = store(memory);
    let another = [
        PodPosition {
            founding: [8; 16],
            ..ours.clone()
        },
        PodPosition {
            epoch: 0,
            ..ours.clone()
        },
    ];
    for position in another {
        assert_eq!(position.is_past_of(&store).unwrap(), Err(Unfit::OfAnother));
    }
    // As if four million records of other lanes had come since: it is known still.
    let mut long_ago = store.lane_position(0).unwrap().unwrap();
    long_ago.sequence += crate::store::LANE_PAST_RECORDS + (1 << 20);
    let commit = crate::store::Commit {
        sequence: crate::page::Sequence(1 << 40),
        ..crate::store::Commit::default()
    };
    store.commit_at(&commit, 0, &long_ago).unwrap();
    assert_eq!(ours.is_past_of(&store).unwrap(), Ok(()));
    // Of others nobody can tell any more whether there were any.
    let is_unknown = |at: &u64| store.lane_past(0, *at).unwrap().is_none();
    let at = (1..ours.lanes[0].sequence).find(is_unknown).unwrap();
    let mut unknown = ours;
    unknown.lanes[0].sequence = at;
    let refused = unknown.is_past_of(&store).unwrap();
    assert_eq!(refused, Err(Unfit::TooLongAgo { lane: 0, at }));
}
