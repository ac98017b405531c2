//! Leaders that are leaders no more and do not know it: what they answer without a
//! change of their own.

use super::cluster::*;
use super::dumps::{dump, stage};
use crate::engine::{
    AddMode, AddOptions, AddResult, Created, Engine, EngineError, ImportId, ItemOp, ItemResult,
    ItemStep, Replace,
};
use std::fmt::Debug;
use std::sync::Arc;
use std::time::Duration;

/// Three pods, of which the first and the second believe to lead all lanes. Only the
/// second has what was changed last.
async fn with_a_leader_of_the_past() -> Cluster {
    let (mut cluster, leader) = led_cluster();
    create(&leader, "f", 0, 1_000).await;
    cluster.level();
    (0..LANES).for_each(|lane| cluster.also_lead(1, lane));
    let second = cluster.pods[1].engine.clone();
    wait_until("both lead", || {
        second.lane_states().iter().all(|it| it.leads())
    });
    // What the first began to read before it led ends.
    tokio::time::sleep(Duration::from_millis(500)).await;
    add(&second, "f", [1], None).await.unwrap();
    cluster
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_leader_hears_of_what_another_leader_has_committed() {
    let cluster = with_a_leader_of_the_past().await;
    let (first, second) = (&cluster.pods[0].engine, &cluster.pods[1].engine);
    let lane = first.lane_of(&name("f"));
    let position = |of: &Engine| of.lane_state(lane).unwrap().position.sequence;
    let newest = position(second);
    assert!(position(first) < newest, "it does not read while it leads");
    let reached = first.reached(lane, newest);
    let reached = tokio::time::timeout(Duration::from_secs(20), reached).await;
    assert!(matches!(reached, Ok(Ok(()))), "{reached:?}");
    let found = first.exists(&name("f"), &batch([1])).await.unwrap();
    assert!(found.iter().all(|&it| it));
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

/// What is said by who leads no more and did not know it.
fn not_leading<T: Debug>(answered: Result<T, EngineError>) {
    let is_refused = matches!(answered, Err(EngineError::NotLeading));
    assert!(is_refused, "{answered:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_leader_of_the_past_does_not_know_is_not_refused_for_good() {
    let cluster = with_a_leader_of_the_past().await;
    let (first, second) = (&cluster.pods[0].engine, &cluster.pods[1].engine);
    create(second, "g", 0, 1_000).await;
    not_leading(add(first, "g", [1], None).await);
    // It knows by now.
    add(first, "g", [1], None).await.unwrap();
    // What is so is said.
    let missing = add(first, "none", [1], None).await;
    assert!(matches!(missing, Err(EngineError::NotFound { .. })));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_leader_of_the_past_misses_no_filter_that_another_one_has_made() {
    let cluster = with_a_leader_of_the_past().await;
    let (first, second) = (&cluster.pods[0].engine, &cluster.pods[1].engine);
    let add = ItemOp::Add(AddMode::Always);
    let steps: Arc<[ItemStep]> = [ItemOp::Count, add]
        .map(|op| ItemStep { op, items: 1 })
        .into();
    create(second, "stepped", 0, 1_000).await;
    let (stepped, items) = (name("stepped"), batch([1, 1]));
    let work = || first.work_in_steps(&stepped, &steps, &items);
    not_leading(work().await);
    let worked = [ItemResult::Counted(0), ItemResult::Added(AddResult::Added)];
    assert_eq!(work().await.unwrap(), worked);

    let end = first.now_ms() + 1_000_000;
    create(second, "ended", 0, 1_000).await;
    let ended = name("ended");
    let set = |is_allowed: bool| first.set_end(&ended, end, move |_| is_allowed);
    not_leading(set(true).await);
    assert!(set(true).await.unwrap());
    assert!(!set(false).await.unwrap());

    create(second, "persists", 0, 1_000).await;
    not_leading(first.persist(&name("persists")).await);
    assert!(!first.persist(&name("persists")).await.unwrap());

    create(second, "imports", 0, 1_000).await;
    let (imports, id) = (name("imports"), ImportId::parse("a").unwrap());
    let import = async || {
        let begun = first.begin_import(&imports, &id, AddMode::Always).await;
        begun.map(drop)
    };
    not_leading(import().await);
    import().await.unwrap();

    create(second, "compacted", 0, 1_000).await;
    not_leading(first.compact(&name("compacted"), None).await);
    first.compact(&name("compacted"), None).await.unwrap();

    create(second, "deleted", 0, 1_000).await;
    not_leading(first.delete_filter(&name("deleted"), None).await);
    let deleted = first.delete_filter(&name("deleted"), None).await;
    deleted.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_leader_of_the_past_sees_no_filter_as_it_was() {
    let cluster = with_a_leader_of_the_past().await;
    let (first, second) = (&cluster.pods[0].engine, &cluster.pods[1].engine);
    for filter in ["made", "differs", "taken", "adopted", "kept"] {
        create(second, filter, 0, 1_000).await;
        // From then on the first knows of it.
        not_leading(add(first, filter, [1], None).await);
        add(first, filter, [1], None).await.unwrap();
    }
    let delete = async |filter| second.delete_filter(&name(filter), None).await.unwrap();
    delete("made").await;
    let make = async |filter, capacity| {
        let wanted = kind(0, capacity).into();
        let created = first.create_filter(&name(filter), &wanted, None).await;
        created.map(|created| created.answer)
    };
    not_leading(make("made", 1_000).await);
    assert!(matches!(make("made", 1_000).await, Ok(Created::New(_))));
    let again = make("made", 1_000).await;
    assert!(matches!(again, Ok(Created::Existing(_))));

    delete("differs").await;
    not_leading(make("differs", 2_000).await);
    let made = make("differs", 2_000).await;
    assert!(matches!(made, Ok(Created::New(_))));

    delete("taken").await;
    let taken = name("taken");
    let take = || first.refuses_intake(&taken, Replace::Nothing);
    not_leading(take().await);
    assert!(matches!(take().await, Ok(None)));

    let staged = stage(first, "adopted", &dump(first, "f").await).await;
    let (adopted, staged) = (name("adopted"), staged.unwrap());
    delete("adopted").await;
    not_leading(first.adopt(&adopted, staged, Replace::Nothing).await);

    let set = second.set_ttl(&name("kept"), Some(1_000), None).await;
    set.unwrap();
    not_leading(first.persist(&name("kept")).await);
    assert!(first.persist(&name("kept")).await.unwrap());
    assert!(!first.persist(&name("kept")).await.unwrap());
}
