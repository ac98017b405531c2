use super::*;
use crate::chain::params::FilterRequest;
use crate::chain::plan::AddMode;
use crate::cuckoo::hash::murmur64a;
use crate::engine::caller::SERVER;
use crate::engine::filters::OpenFilter;
use crate::engine::lane::command::ItemOp;
use crate::engine::lane::queue::{LaneQueue, QueueBounds};
use crate::engine::lane::sliced::Sliced;
use crate::engine::{AddOptions, Engine, EngineOptions, FilterName, ItemBatch};
use crate::metrics::Metrics;
use crate::store::PageStore;
use crate::store::memory::MemoryStore;
use std::sync::Arc;

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
            let mut items = ItemBatch::new();
            (first..first + 200).for_each(|n| items.push(&n.to_le_bytes()));
            engine.add(&name, &items, &always, None).await.unwrap();
        }
        filters.push(engine.state.find(&SERVER, &name).await.unwrap());
    }
    (engine, filters)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lane_holds_no_more_than_its_part_of_the_frames_whatever_is_planned() {
    let (engine, filters) = engine().await;
    let bounds = QueueBounds {
        commands: 1_000,
        items: 1_000_000,
    };
    let metrics = Metrics::new().unwrap();
    let depth = metrics.lane_queue_depth.with_label_values(&["0"]);
    let queue = LaneQueue::new(bounds, depth, metrics.lane_queue_wait_seconds.clone());
    let lane = engine.lane(0, Arc::new(queue));
    assert_eq!(lane.max_pages, MOST);
    let mut search = KickSearch::new();
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
            let op = match random(4) {
                0 => ItemOp::Add(AddMode::OnlyIfAbsent),
                1 => ItemOp::Exists,
                _ => ItemOp::Add(AddMode::Always),
            };
            let command = Command::Items(op, hashes.collect());
            Request::new(&SERVER, command, Some(filter), None).0
        };
        let mut suspended = None;
        if seed % 2 == 0 {
            let items = 20_000 + 40 * seed as usize;
            let request = request(&filters[4], items);
            lane.queue.push(request).unwrap();
            if let Next::Command(turn, request) = lane.queue.next(|_| true, Duration::ZERO)
                && let Some(plan) = lane.begin_sliced(turn, *request)
                && let Sliced::More(plan) = lane.slice(plan, &mut search)
            {
                beside += 1;
                suspended = Some(plan);
            }
        }
        let mut drain = lane.begin_drain();
        for n in 0..12 {
            let items = 1 + (n * 37 + seed as usize) % 400;
            let filter = &filters[(n + seed as usize) % 4];
            let overflow = lane.plan(
                request(filter, items),
                &mut drain,
                &mut suspended,
                &mut search,
            );
            refused += usize::from(overflow.is_some());
            let held = drain.pages() + suspended.as_ref().map_or(0, |it| it.pages());
            assert!(held <= OF_LANE, "seed {seed}: {held} pages of {OF_LANE}");
            most = most.max(held);
        }
        planned += drain.answers.len();
    }
    println!("planned {planned}, refused {refused}, beside a plan {beside}, {most} pages at most");
    assert!(planned > 300 && refused > 300 && beside > 100 && most > OF_LANE * 9 / 10);
    tokio::task::block_in_place(|| engine.halt());
}
