//! Pods whose caches are small: for the lanes of the cluster, or beside those of others.

use super::cluster::*;
use super::dumps::alike;
use super::flaky::Failures;
use crate::engine::{
    AddOptions, Engine, EngineError, EngineOptions, FilterName, Overload, Position, lane_of,
};
use crate::memory::MemoryStore;
use crate::store::PageStore;
use crate::tests::shared_log::SharedLog;
use crate::{Event, Member, Membership};
use std::ops::Range;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::task::JoinSet;
use tokio::time::timeout;

/// A cache that has room for two searches; the lanes of the cluster are many more.
const SMALL: u64 = 16_000 * 4_096;
const MANY_LANES: u32 = 16;

/// The smallest that there is.
const SMALLEST: u64 = 256 * 4_096;

/// Pages that one command may touch there: a twelfth of the frames.
const MOST_PAGES: u64 = 16_000 / 16 * 15 / 12;

/// Where nothing goes on for so long, nothing will, however busy the machine is.
const LONG: Duration = Duration::from_secs(300);

/// A pod of a cluster with so many lanes.
fn pod(cluster: &Cluster, lanes: u32, cache_bytes: u64, store: &MemoryStore) -> Member {
    let store = Arc::new(PageStore::open(Arc::new(store.clone())).unwrap());
    let membership = Membership {
        lanes,
        ..cluster.membership()
    };
    let options = EngineOptions {
        cache_bytes,
        max_dirty_bytes: cache_bytes / 4,
        max_open_filters: 256,
        read_patience: LONG,
        ..options()
    };
    join_with(store, membership, &options).unwrap()
}

/// Has a pod lead all lanes.
fn lead(engine: &Member, lanes: u32) {
    for lane in 0..lanes {
        engine.tell(lane, Event::Lease(Some(1)));
    }
    wait_until("a pod leads", || {
        engine.lane_states().iter().all(|lane| lane.leads())
    });
}

/// Where the lanes of a pod stand.
fn positions(engine: &Engine) -> Vec<Position> {
    let lanes = engine.lane_states().into_iter();
    lanes.map(|lane| lane.position).collect()
}

/// Whether the lanes of a pod go on.
struct Progress<'a> {
    engine: &'a Engine,
    seen: Vec<Position>,
    since: Instant,
}

impl Progress<'_> {
    fn of(engine: &Engine) -> Progress<'_> {
        Progress {
            engine,
            seen: positions(engine),
            since: Instant::now(),
        }
    }

    /// # Panics
    /// None has for long.
    #[track_caller]
    fn check(&mut self) {
        let now = positions(self.engine);
        if now != self.seen {
            (self.seen, self.since) = (now, Instant::now());
        }
        assert!(self.since.elapsed() < LONG, "nothing goes on any more");
    }
}

/// Waits until a pod has applied all that another one has.
fn follow(engine: &Engine, leader: &Engine) {
    let mut progress = Progress::of(engine);
    while positions(engine) != positions(leader) {
        progress.check();
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// What comes of a change, which is made again if a busy machine was late with a
/// checkpoint.
async fn insist<T, F>(change: impl Fn() -> F) -> T
where
    F: Future<Output = Result<T, EngineError>>,
{
    loop {
        match change().await {
            Err(EngineError::Overloaded(Overload::Checkpoints)) => {}
            changed => return changed.unwrap(),
        }
    }
}

async fn add_patiently(engine: &Engine, filter: &FilterName, items: Range<u64>) {
    let (items, always) = (batch(items), AddOptions::default());
    insist(|| engine.add(filter, &items, &always, None)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_cache_with_room_for_two_searches_serves_many_lanes_that_plan_at_once() {
    let cluster = Cluster::of(0, SharedLog::new(1, 0), Failures::new(1, 0));
    let [leader, follower] =
        [(); 2].map(|()| pod(&cluster, MANY_LANES, SMALL, &MemoryStore::new()));
    lead(&leader, MANY_LANES);
    // In each lane the filter with the first name.
    let names = (0..MANY_LANES as usize).map(|lane| {
        let names = (0..).map(|number| format!("f{number}"));
        let mut of_lane = names.filter(|it| lane_of(&name(it), MANY_LANES as usize) == lane);
        of_lane.next().unwrap()
    });
    let mut clients = JoinSet::new();
    for (number, filter) in names.clone().enumerate() {
        let leader = leader.clone();
        clients.spawn(async move {
            let filter = name(&filter);
            let wanted = kind(0, 1_000_000).into();
            insist(|| leader.create_filter(&filter, &wanted, None)).await;
            for first in (0..3_000).step_by(500) {
                add_patiently(&leader, &filter, first..first + 500).await;
            }
            let info = leader.filter_info(&filter).await.unwrap();
            let pages: u64 = info.sub_filters.iter().map(|sub| sub.pages).sum();
            assert!((400..MOST_PAGES).contains(&pages), "{pages} pages");
            // All pages of the filter, and in some lanes by plans of several slices.
            let many = if number % 4 == 0 { 26_000 } else { 5_000 };
            add_patiently(&leader, &filter, 3_000..3_000 + many).await;
            let items = batch(0..100);
            let deleted = insist(|| leader.delete(&filter, &items, None)).await;
            assert!(deleted.answer.iter().all(|&it| it));
            let items = batch(0..3_000 + many);
            let found = leader.exists(&filter, &items).await.unwrap();
            assert!(found.iter().skip(100).all(|&it| it));
        });
    }
    let mut progress = Progress::of(&leader);
    while !clients.is_empty() {
        if let Ok(Some(ended)) = timeout(Duration::from_secs(1), clients.join_next()).await {
            ended.unwrap();
        }
        progress.check();
    }
    follow(&follower, &leader);
    for filter in names {
        let filter = name(&filter);
        assert!(alike(&follower, &filter).await == alike(&leader, &filter).await);
    }
    tokio::task::block_in_place(|| {
        leader.halt();
        follower.halt();
    });
}

/// Every filter is the same on both pods, for whoever asks for dumps or for items.
async fn check_equal(leader: &Engine, follower: &Engine, names: &[String]) {
    follow(follower, leader);
    for filter in names {
        let filter = name(filter);
        assert!(alike(follower, &filter).await == alike(leader, &filter).await);
        for range in [0..3_000, 9_000_000..9_003_000] {
            let items = batch(range);
            let counts = follower.count(&filter, &items).await.unwrap();
            assert_eq!(counts, leader.count(&filter, &items).await.unwrap());
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_pod_with_a_smaller_cache_applies_records_with_more_pages_than_it_has_room_for() {
    let cluster = Cluster::of(0, SharedLog::new(1, 0), Failures::new(1, 0));
    let leader = pod(&cluster, LANES, SMALL, &MemoryStore::new());
    lead(&leader, LANES);
    let store = MemoryStore::new();
    let tiny = || pod(&cluster, LANES, SMALLEST, &store);
    let follower = tiny();
    let mut names: Vec<String> = (0..KINDS).map(|number| format!("f{number}")).collect();
    for (number, filter) in (0..).zip(&names) {
        create(&leader, filter, number, 300_000).await;
        for first in [0, 3_000] {
            add(&leader, filter, first..first + 3_000, None)
                .await
                .unwrap();
        }
        // More copies than may have slots.
        add(&leader, filter, [7; 2_000], None).await.unwrap();
    }
    check_equal(&leader, &follower, &names).await;
    // Pages come, go and come again.
    names.push("grows".to_owned());
    let grows = name("grows");
    create(&leader, "grows", 5, 40_000).await;
    add(&leader, "grows", [7; 2_000], None).await.unwrap();
    for round in 0..2 {
        for first in (0..80_000).step_by(20_000) {
            add(&leader, "grows", first..first + 20_000, None)
                .await
                .unwrap();
        }
        check_equal(&leader, &follower, &names).await;
        if round == 0 {
            for first in (0..80_000).step_by(20_000) {
                let items = batch(first..first + 20_000);
                let deleted = leader.delete(&grows, &items, None).await.unwrap();
                assert!(deleted.answer.iter().all(|&it| it));
            }
        }
    }
    // What the store has is as good as what was asked.
    tokio::task::block_in_place(|| follower.halt());
    let follower = tiny();
    check_equal(&leader, &follower, &names).await;
    tokio::task::block_in_place(|| {
        leader.halt();
        follower.halt();
    });
}
