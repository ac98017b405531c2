//! Records of the log that are as large as may be.

use super::cluster::*;
use super::flaky::Failures;
use crate::chain::params::{Attributes, Codes, FilterRequest};
use crate::engine::filters::lane_of;
use crate::engine::{AddMode, Engine, EngineError, EngineOptions, Entries, EntryValues, Rows};
use crate::replication::tests::shared_log::SharedLog;
use crate::replication::{CommitLog, Event};
use crate::store::PageStore;
use crate::store::memory::MemoryStore;
use std::sync::Arc;
use std::time::Duration;
use tokio::task::JoinSet;

/// Filters whose descriptions are too large for one record together.
const DESCRIBED: usize = 64;

/// What a lane leaves in its queue while the log does not answer comes before this.
const WHILE: Duration = Duration::from_millis(500);

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
    let engine = join_with(store, cluster.membership(), &options).unwrap();
    engine.tell_lane(0, Event::Lease(Some(1))).unwrap();
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
    let before = cluster.log.newest(0).unwrap();
    // The first one waits for the log, all others for the lane.
    let held = cluster.log.hold();
    let mut clients = JoinSet::new();
    for (number, filter) in names.iter().enumerate() {
        if number == 1 {
            std::thread::sleep(WHILE);
        }
        let (engine, filter) = (engine.clone(), filter.clone());
        clients.spawn(async move { add_row(&engine, &filter, 1).await });
    }
    std::thread::sleep(WHILE);
    drop(held);
    while let Some(added) = clients.join_next().await {
        added.unwrap().unwrap();
    }
    let records = cluster.log.newest(0).unwrap() - before;
    println!("{records} records");
    assert!((3..=8).contains(&records), "{records} records");
    tokio::task::block_in_place(|| engine.halt());
}
