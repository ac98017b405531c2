//! Records of the log that are as large as may be.

use super::cluster::*;
use super::flaky::Failures;
use crate::Member;
use crate::chain::params::{Attributes, Codes, FilterRequest};
use crate::engine::{
    AddMode, Engine, EngineError, EngineOptions, Entries, EntryValues, Rows, lane_of,
};
use crate::memory::MemoryStore;
use crate::metrics::Metrics;
use crate::store::PageStore;
use crate::tests::shared_log::SharedLog;
use crate::{CommitLog, Event};
use std::sync::Arc;
use tokio::task::JoinSet;

/// Filters whose descriptions are too large for one record together.
const DESCRIBED: usize = 64;

/// Gives an item the first value of the attribute of a filter.
async fn add_row(engine: &Engine, filter: &str, item: u64) -> Result<(), EngineError> {
    let mut rows = Rows::default();
    let attribute = rows.name("kind").unwrap();
    assert!(rows.push(attribute, label(0).as_bytes()));
    rows.end_row();
    let items = batch([item]);
    let entries = Entries {
        items: &items,
        values: EntryValues::Rows(&rows),
    };
    let filter = name(filter);
    let added = engine.add_values(&filter, entries, AddMode::Always, None);
    added.await.map(drop)
}

/// Adds rows, of which the first one waits for the log and all others for the lane.
/// Returns how many records that takes.
async fn records_of(
    cluster: &Cluster,
    (engine, metrics): (&Member, &Metrics),
    rows: &[(&String, u64)],
) -> u64 {
    let before = cluster.log.newest(0).unwrap();
    let taken = || metrics.lane_queue_wait_seconds.get_sample_count();
    let (taken_before, mut clients) = (taken(), JoinSet::new());
    let held = cluster.log.hold();
    for (number, (filter, item)) in rows.iter().enumerate() {
        if number == 1 {
            wait_until("the lane is busy", || taken() > taken_before);
        }
        let engine = engine.engine().clone();
        let (filter, item) = (String::clone(filter), *item);
        clients.spawn(async move { add_row(&engine, &filter, item).await });
    }
    let depth = metrics.lane_queue_depth.with_label_values(&["0"]);
    wait_until("all others wait", || depth.get() as usize == rows.len() - 1);
    drop(held);
    while let Some(added) = clients.join_next().await {
        added.unwrap().unwrap();
    }
    cluster.log.newest(0).unwrap() - before
}

/// A value of an attribute, with as many bytes as make a description large.
fn label(number: u64) -> String {
    format!("{number:060}")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn changes_that_are_too_large_for_one_record_together_are_made_in_several() {
    let cluster = Cluster::of(0, SharedLog::new(1, 0), Failures::new(1, 0));
    let store = Arc::new(PageStore::open(Arc::new(MemoryStore::new())).unwrap());
    let options = EngineOptions {
        max_open_filters: 4 * DESCRIBED,
        ..options()
    };
    let (metrics, membership) = (Arc::new(Metrics::new().unwrap()), cluster.membership());
    let engine = join_measured(store, membership, &options, Arc::clone(&metrics)).unwrap();
    let pod = (&engine, &*metrics);
    engine.tell(0, Event::Lease(Some(1)));
    wait_until("the lane is led", || engine.lane_states()[0].leads());
    let names = (0..).map(|number| format!("f{number}"));
    let of_lane = names.filter(|it| lane_of(&name(it), LANES as usize) == 0);
    let names: Vec<String> = of_lane.take(DESCRIBED + 1).collect();
    for filter in &names {
        let labels = (0..256).map(label).collect();
        let named = vec![("kind".to_owned(), Codes::Exact(labels))];
        let wanted = FilterRequest {
            capacity: Some(1_000),
            attributes: Some(Attributes::new(named).unwrap()),
            ..FilterRequest::default()
        };
        let made = engine
            .create_filter(&name(filter), &wanted.into(), None)
            .await;
        made.unwrap();
    }
    let of_each: Vec<(&String, u64)> = names.iter().map(|filter| (filter, 1)).collect();
    assert_eq!(records_of(&cluster, pod, &of_each).await, 3);
    // After that, as many as before are taken together.
    let of_one: Vec<(&String, u64)> = (2..).map(|item| (&names[0], item)).take(60).collect();
    assert_eq!(records_of(&cluster, pod, &of_one).await, 2);
    tokio::task::block_in_place(|| engine.halt());
}
