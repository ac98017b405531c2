//! Records that are well-formed and whose commits can't be applied.

use super::cluster::*;
use crate::engine::EngineError;
use crate::engine::lane::replicated::NotOrdered;
use crate::page::{FilterId, Ordinal, PageIndex, Sequence};
use crate::replication::{
    Answer, Append, CommitLog, Event, Halt, KeptLane, MessageId, Position, Record, Writer,
};
use crate::store::redo::RedoBuilder;
use crate::store::{Commit, FilterChange, PageStore};
use bytes::Bytes;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Has a lane's log take a record of this commit, behind a position.
fn append(cluster: &Cluster, lane: u32, previous: Position, commit: &'static [u8]) -> u64 {
    let writer = Writer([0xee; 16]);
    let record = Record {
        level: 1,
        epoch: 1,
        lane,
        previous,
        writer,
        number: 1,
        stamp_ms: 1 << 40,
        commit: Bytes::from_static(commit),
    };
    let append = Append {
        id: MessageId {
            writer,
            lane,
            number: 1,
        },
        expected: previous.sequence,
        bytes: record.encode().unwrap(),
    };
    match cluster.log.append(lane, &append) {
        Answer::Stored { sequence, .. } => sequence,
        other => panic!("{other:?}"),
    }
}

/// A filter of each lane, by lane.
async fn filters_of_lanes(cluster: &Cluster) -> Vec<String> {
    let engine = &cluster.pods[0].engine;
    let mut filters = Vec::new();
    for lane in 0..LANES {
        let names = (0..).map(|number| format!("f{number}"));
        let mut names = names.filter(|it| engine.lane_of(&name(it)) == lane);
        let filter = names.next().unwrap();
        create(engine, &filter, 0, 1_000).await;
        add(engine, &filter, 0..10, None).await.unwrap();
        filters.push(filter);
    }
    cluster.level();
    filters
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_record_that_can_not_be_applied_stops_its_lane_and_no_other() {
    let mut cluster = quiet_cluster();
    cluster.lead_all(0);
    let filters = filters_of_lanes(&cluster).await;
    let leader = cluster.pods[0].engine.clone();
    let position = leader.lane_states()[1].position;
    let at = append(&cluster, 1, position, b"\x01 is no commit");
    // Who leads hears of it with its next change.
    let refused = add(&leader, &filters[1], [10], None).await;
    assert!(refused.is_err(), "it can't be done");
    for pod in &cluster.pods {
        let state = || pod.engine.lane_states()[1].clone();
        wait_until("the lane stops", || state().halted.is_some());
        let state = state();
        assert!(matches!(&state.halted, Some(Halt::Unfit { at: it, .. }) if *it == at));
        // What it says of itself is what it has.
        assert_eq!(state.position, position);
        assert!(!state.leads() && !state.is_in_flight, "{state:?}");
        // So its lease is given back, and never asked for.
        assert!(!(pod.engine.clone(), 1).may_lead());
        assert!((pod.engine.clone(), 0).may_lead());
        let found = pod.engine.exists(&name(&filters[1]), &batch(0..10)).await;
        assert!(found.unwrap().iter().all(|&it| it));
    }
    let refused = add(&leader, &filters[1], [10], None).await;
    assert!(
        matches!(refused, Err(EngineError::LaneHalted(_))),
        "{refused:?}"
    );
    add(&leader, &filters[0], [10], None).await.unwrap();

    // A start changes nothing about it.
    let again = cluster.start(cluster.pods[1].store.fork()).unwrap();
    let state = || again.engine.lane_states()[1].clone();
    wait_until("the lane stops again", || state().halted.is_some());
    assert_eq!(state().position, position);
    again.engine.halt();
}

/// A commit that writes to a slot of a filter, which it describes or not.
fn writes_to(id: FilterId, slot: u32, slot_bits: u8, filters: Vec<FilterChange>) -> Commit {
    let mut redo = RedoBuilder::new();
    redo.filter(id, slot_bits);
    redo.page(Ordinal(0), PageIndex(0)).slot(slot, 0);
    Commit {
        sequence: Sequence(1),
        redo: redo.finish(),
        filters,
        ..Commit::default()
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_other_pods_could_not_apply_is_not_sent() {
    let mut cluster = quiet_cluster();
    cluster.lead_all(0);
    create(&cluster.pods[0].engine, "f", 0, 1_000).await;
    cluster.level();
    let engine = &cluster.pods[1].engine;
    // One in which there is nothing that it would have to apply first.
    let lane = (engine.lane_of(&name("f")) + 1) % LANES;
    let stored = cluster.pods[0].store.clone();
    let stored = PageStore::open(Arc::new(stored)).unwrap();
    let stored = stored.filter_by_name("f").unwrap().unwrap();
    let id = stored.id;
    let update = |meta: &[u8]| {
        let (meta, dropped) = (meta.to_vec(), Vec::new());
        vec![FilterChange::Update { id, meta, dropped }]
    };
    let create = |name: &str| {
        let (name, meta) = (name.to_owned(), stored.meta.clone());
        vec![FilterChange::Create { id, name, meta }]
    };
    let as_it_is = || update(&stored.meta);
    let nonsense = Commit {
        redo: vec![0xff; 9],
        ..writes_to(id, 0, 16, as_it_is())
    };
    let unfit = [
        ("a redo record that is none", nonsense),
        ("a filter that is not named", writes_to(id, 0, 16, vec![])),
        ("no description", writes_to(id, 0, 16, update(&[9, 9]))),
        ("no name", writes_to(id, 0, 16, create("no\nname"))),
        ("slots of another width", writes_to(id, 0, 12, as_it_is())),
        (
            "a slot beyond a page",
            writes_to(id, 60_000, 16, as_it_is()),
        ),
    ];
    // Another pod's ordering of a lane, which may lead it.
    let ordering = engine.ordering(lane as usize);
    let replicated = ordering.replicated().unwrap();
    let store = PageStore::open(Arc::new(cluster.pods[1].store.fork())).unwrap();
    replicated.go_on(Some(Event::Lease(Some(99))));
    let until = || Instant::now() + Duration::from_secs(20);
    wait_until("it leads", || {
        replicated.go_on(None);
        let barrier = ordering.commit(&store, &Commit::default(), until);
        barrier.is_ok()
    });
    let newest = cluster.log.newest(lane).unwrap();
    for (what, commit) in unfit {
        let ordered = ordering.commit(&store, &commit, until);
        assert!(
            matches!(ordered, Err(NotOrdered::Unfit(_))),
            "{what}: {ordered:?}"
        );
        assert_eq!(cluster.log.newest(lane).unwrap(), newest, "{what}");
    }
    // Neither is it a reason to do nothing any more.
    let fits = writes_to(id, 0, 16, as_it_is());
    let ordered = ordering.commit(&store, &fits, until);
    assert!(ordered.is_ok(), "{ordered:?}");
    assert!(cluster.log.newest(lane).unwrap() > newest);
}
