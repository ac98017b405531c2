//! Records that are well-formed and whose commits can't be applied.

use super::cluster::*;
use crate::engine::EngineError;
use crate::engine::{Halt, Position};
use crate::{Answer, Append, CommitLog, KeptLane, MessageId, Record, Writer};
use bytes::Bytes;

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
    let (cluster, leader) = led_cluster();
    let filters = filters_of_lanes(&cluster).await;
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
