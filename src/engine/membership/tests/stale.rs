//! Leaders that are leaders no more and do not know it: what they answer without a
//! change of their own.

use super::cluster::*;
use crate::engine::{AddMode, AddOptions, AddResult, Engine, EngineError};
use std::time::Duration;

/// Three pods, of which the first and the second believe to lead all lanes. Only the
/// second has what was changed last.
async fn with_a_leader_of_the_past() -> Cluster {
    let mut cluster = quiet_cluster();
    cluster.lead_all(0);
    create(&cluster.pods[0].engine, "f", 0, 1_000).await;
    cluster.level();
    (0..LANES).for_each(|lane| cluster.also_lead(1, lane));
    let second = cluster.pods[1].engine.clone();
    wait_until("both lead", || {
        second.lane_states().iter().all(|it| it.leads)
    });
    // What the first began to read before it led ends.
    tokio::time::sleep(Duration::from_millis(500)).await;
    add(&second, "f", [1], None).await.unwrap();
    cluster
}

async fn add_if_absent(engine: &Engine, item: u64) -> Vec<AddResult> {
    let options = AddOptions {
        mode: AddMode::OnlyIfAbsent,
        ..AddOptions::default()
    };
    let added = engine.add(&name("f"), &batch([item]), &options, None).await;
    added.unwrap().answer
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_delete_finds_what_another_leader_has_added() {
    let cluster = with_a_leader_of_the_past().await;
    let first = &cluster.pods[0].engine;
    let deleted = first.delete(&name("f"), &batch([1]), None).await.unwrap();
    assert_eq!(deleted.answer, [true]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_item_that_another_leader_has_deleted_is_added() {
    let cluster = with_a_leader_of_the_past().await;
    let (first, second) = (&cluster.pods[0].engine, &cluster.pods[1].engine);
    assert_eq!(add_if_absent(first, 1).await, [AddResult::Exists]);
    let deleted = second.delete(&name("f"), &batch([1]), None).await.unwrap();
    assert_eq!(deleted.answer, [true]);
    assert_eq!(add_if_absent(first, 1).await, [AddResult::Added]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_leader_of_the_past_does_not_know_is_not_refused_for_good() {
    let cluster = with_a_leader_of_the_past().await;
    let (first, second) = (&cluster.pods[0].engine, &cluster.pods[1].engine);
    let lane = first.lane_of(&name("g"));
    let reign = first.lane_state(lane).unwrap().reign;
    create(second, "g", 0, 1_000).await;
    let refused = add(first, "g", [1], None).await.unwrap_err();
    assert!(
        matches!(refused, EngineError::NotFound { .. }),
        "{refused:?}"
    );
    let confirmed = first.confirm(lane, reign).await;
    assert!(
        matches!(confirmed, Err(EngineError::NotLeading)),
        "{confirmed:?}"
    );
    // It knows by now.
    add(first, "g", [1], None).await.unwrap();
    let reign = first.lane_state(lane).unwrap().reign;
    first.confirm(lane, reign).await.unwrap();
}
