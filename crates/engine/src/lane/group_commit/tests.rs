use super::*;
use crate::caller::SERVER;
use crate::chain::params::{FilterRequest, LayoutKind};
use crate::chain::plan::AddMode;
use crate::cuckoo::hash::murmur64a;
use crate::filters::OpenFilter;
use crate::lane::allowance::Allowance;
use crate::lane::command::ItemChange;
use crate::lane::queue::LaneQueue;
use crate::lane::slices::Sliced;
use crate::memory::MemoryStore;
use crate::metrics::Metrics;
use crate::store::PageStore;
use crate::{AddOptions, Engine, EngineOptions, FilterName, ItemBatch};
use std::sync::Arc;
use std::time::Instant;

const FRAMES: u64 = 3_072;

/// Pages that any command may touch, and those of the lane altogether.
const MOST: usize = FRAMES as usize / 16 * 15 / 6;
const OF_LANE: usize = FRAMES as usize / 16 * 15 / 4;

/// An engine of one lane, with filters of many pages and of few, which grow.
async fn engine() -> (Engine, Vec<Arc<OpenFilter>>) {
    let options = EngineOptions {
        lanes: 1,
        checkpoint_slice_bytes: 8 * 4_096,
        ..EngineOptions::with_cache(FRAMES * 4_096)
    };
    let store = PageStore::open(Arc::new(MemoryStore::new())).unwrap();
    let metrics = Arc::new(Metrics::new().unwrap());
    let engine = Engine::open(Arc::new(store), &options, metrics).unwrap();
    let mut filters = Vec::new();
    for (number, capacity) in [1_200_000, 1_200_000, 1_000, 50_000, 600_000]
        .into_iter()
        .enumerate()
    {
        let name = FilterName::parse(&format!("f{number}")).unwrap();
        let request = FilterRequest {
            capacity: Some(capacity),
            ..FilterRequest::default()
        };
        engine
            .create_filter(&name, &request.into(), None)
            .await
            .unwrap();
        // So that their pages are resident.
        let always = AddOptions::default();
        for first in (0..capacity.min(8_000)).step_by(200) {
            let mut items = ItemBatch::default();
            (first..first + 200).for_each(|n| items.push(&n.to_le_bytes()));
            engine.add(&name, &items, &always, None).await.unwrap();
        }
        filters.push(engine.find(&name).await.unwrap());
    }
    (engine, filters)
}

/// The only lane of an engine, with a queue of its own.
fn lane(engine: &Engine) -> Lane {
    let metrics = Metrics::new().unwrap();
    let depth = metrics.lane_queue_depth.with_label_values(&["0"]);
    let queue = LaneQueue::new(depth, metrics.lane_queue_wait_seconds.clone());
    engine.lane(0, Arc::new(queue), None)
}

fn memory(lane: &Lane) -> PlanMemory {
    PlanMemory::new(Allowance::new(&lane.allowances, lane.number))
}

/// Begins a plan that takes more than a slice.
fn suspended(lane: &Lane, request: Request, memory: &mut PlanMemory) -> Option<Box<SlicedPlan>> {
    lane.queue.push(request).unwrap();
    if let Next::Command(turn, request) = lane.queue.next(|_| true, Duration::ZERO)
        && let Some(plan) = lane.begin_sliced(turn, *request)
        && let Sliced::More(plan) = lane.slice(plan, &mut memory.search)
    {
        return Some(plan);
    }
    None
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lane_holds_no_more_than_its_part_of_the_frames_whatever_is_planned() {
    let (engine, filters) = engine().await;
    let lane = lane(&engine);
    assert_eq!(lane.max_pages, MOST);
    let mut memory = memory(&lane);
    let (mut planned, mut refused, mut beside, mut most) = (0, 0, 0, 0);
    for seed in 0..300 {
        println!("seed {seed}");
        let mut drawn = 0u64;
        let mut random = |below: usize| {
            drawn += 1;
            (murmur64a(&drawn.to_le_bytes(), seed) % below as u64) as usize
        };
        let mut request = |filter: &Arc<OpenFilter>, items: usize| {
            let chain = &filter.view.load().chain;
            let from = random(1_000_000);
            let hashes = (from..from + items).map(|n| chain.hash(&n.to_le_bytes()));
            let change = match random(4) {
                0 => ItemChange::Add(AddMode::OnlyIfAbsent),
                1 => ItemChange::Delete,
                _ => ItemChange::Add(AddMode::Always),
            };
            let command = Command::Items(change, hashes.collect(), 0);
            Request::new(&SERVER, command, Some(filter), None).0
        };
        let mut plan = None;
        if seed % 2 == 0 {
            let items = 20_000 + 40 * seed as usize;
            plan = suspended(&lane, request(&filters[4], items), &mut memory);
            beside += usize::from(plan.is_some());
        }
        let mut group = lane.begin_group();
        for n in 0..12 {
            let items = 1 + (n * 37 + seed as usize) % 400;
            // Changes to the filter of a plan wait for it.
            let among = filters.len() - usize::from(plan.is_some());
            let about = (n + seed as usize) % among;
            let overflow = lane.plan(
                request(&filters[about], items),
                &mut group,
                plan.as_deref(),
                &mut memory,
            );
            refused += usize::from(overflow.is_some());
            let held = group.pages() + plan.as_ref().map_or(0, |it| it.pages());
            assert!(held <= OF_LANE, "seed {seed}: {held} pages of {OF_LANE}");
            most = most.max(held);
        }
        planned += group.answers.len();
    }
    println!("planned {planned}, refused {refused}, beside a plan {beside}, {most} pages at most");
    assert!(planned > 300 && refused > 300 && beside > 100 && most > OF_LANE * 9 / 10);
    tokio::task::block_in_place(|| engine.halt());
}

#[tokio::test(flavor = "multi_thread")]
async fn only_what_is_committed_tells_that_a_filter_is_full() {
    let (engine, _) = engine().await;
    let lane = lane(&engine);
    // It has 64 slots in so few buckets that searches are short.
    let small = FilterRequest {
        capacity: Some(60),
        layout: Some(LayoutKind::Classic),
        bucket_size: Some(4),
        expansion: Some(0),
        ..FilterRequest::default()
    };
    let (begun, rest) = (40u64, 140);
    let mut memory = memory(&lane);
    // More than there are slots for.
    let adds = |filter: &Arc<OpenFilter>| {
        let chain = filter.view.load().chain.clone();
        let hashes = (begun..rest).map(|n| chain.hash(&n.to_le_bytes()));
        let add = Command::Items(ItemChange::Add(AddMode::Always), hashes.collect(), 0);
        Request::new(&SERVER, add, Some(filter), None)
    };
    let name = FilterName::parse("full").unwrap();
    let made = engine.create_filter(&name, &small.into(), None).await;
    made.unwrap();
    // So that its page is resident.
    let filter = engine.find(&name).await.unwrap();
    let mut items = ItemBatch::default();
    (0..begun).for_each(|n| items.push(&n.to_le_bytes()));
    let always = AddOptions::default();
    engine.add(&name, &items, &always, None).await.unwrap();
    let mut group = lane.begin_group();
    let planned = lane.plan(adds(&filter).0, &mut group, None, &mut memory);
    assert!(planned.is_none() && group.answers.len() == 1);
    assert_eq!(filter.futile_searches().count(), 0);

    let (request, reply) = adds(&filter);
    lane.queue.push(request).unwrap();
    tokio::task::block_in_place(|| {
        if let Next::Command(turn, request) = lane.queue.next(|_| true, Duration::ZERO) {
            lane.commit_group(turn, *request, None, &mut memory);
        }
    });
    // The lane's own thread may have been quicker, and answers before it notes that.
    assert!(matches!(reply.await, Ok(Ok(Outcome::Added(_)))));
    let began = Instant::now();
    while filter.futile_searches().count() == 0 {
        assert!(began.elapsed() < Duration::from_secs(10));
        tokio::task::yield_now().await;
    }
    tokio::task::block_in_place(|| engine.halt());
}
