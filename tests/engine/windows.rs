//! Filters whose items expire, against an exact record of when each was seen:
//! through growth, silences, contraction, restarts and crashes, by a clock that the
//! tests set.

use crate::memory::MemoryStore;
use crate::support::{self, Random, engine, kept, name, options};
use cuckood::chain::params::{FilterRequest, LayoutKind};
use cuckood::engine::check::check;
use cuckood::engine::{
    AddMode, AddOptions, AddResult, Clock, Engine, EngineError, EngineOptions, ItemStep,
};
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

const START_MS: u64 = 1_800_000_000_000;

/// A window of so many seconds, in so many steps, in slots of so many bits.
#[derive(Clone, Copy, Debug)]
struct Shape {
    slot_bits: u64,
    seconds: u64,
    resolution: u64,
}

impl Shape {
    fn request(self) -> FilterRequest {
        FilterRequest {
            capacity: Some(800),
            layout: Some(LayoutKind::Paged),
            fingerprint_bits: Some(self.slot_bits),
            window_seconds: Some(self.seconds),
            window_resolution_seconds: Some(self.resolution),
            ..FilterRequest::default()
        }
    }
}

const HOUR: Shape = Shape {
    slot_bits: 32,
    seconds: 3_600,
    resolution: 600,
};

/// A clock that tests set, and a store behind it.
struct World {
    now_ms: Arc<AtomicU64>,
    memory: MemoryStore,
    options: EngineOptions,
}

impl World {
    fn new(pages: u64) -> World {
        let now_ms = Arc::new(AtomicU64::new(START_MS));
        let mut options = options(pages);
        options.clock = Clock::Set(Arc::clone(&now_ms));
        World {
            now_ms,
            memory: MemoryStore::new(),
            options,
        }
    }

    fn engine(&self) -> Engine {
        engine(Arc::new(self.memory.clone()), &self.options)
    }

    fn now_ms(&self) -> u64 {
        self.now_ms.load(Ordering::SeqCst)
    }

    fn pass(&self, seconds: u64) {
        self.now_ms.fetch_add(1000 * seconds, Ordering::SeqCst);
    }
}

async fn see(engine: &Engine, items: &[u64], mode: AddMode) -> Vec<AddResult> {
    let options = AddOptions { mode, create: None };
    let items = support::batch(items.iter().copied());
    let added = engine.add(&name("f"), &items, &options, None).await;
    added.unwrap().answer
}

async fn found(engine: &Engine, items: &[u64]) -> Vec<bool> {
    let items = support::batch(items.iter().copied());
    engine.exists(&name("f"), &items).await.unwrap()
}

/// Nothing that was seen within the window is missed. Returns how many of the
/// others are found, and how many these are.
async fn holds(engine: &Engine, world: &World, shape: Shape, last: &HashMap<u64, u64>) -> [u64; 2] {
    let mut items: Vec<u64> = last.keys().copied().collect();
    items.sort_unstable();
    let mut expired = [0; 2];
    for (item, found) in items.iter().zip(found(engine, &items).await) {
        let ago_ms = world.now_ms() - last[item];
        assert!(found || ago_ms >= 1000 * shape.seconds, "{item} is missed");
        if ago_ms >= 1000 * (shape.seconds + shape.resolution) {
            expired[0] += u64::from(found);
            expired[1] += 1;
        }
    }
    expired
}

async fn pages(engine: &Engine) -> u64 {
    let info = engine.filter_info(&name("f")).await.unwrap();
    info.sub_filters.iter().map(|sub| sub.pages).sum()
}

/// How many times as many items as in continuous integration, which has 30,000 of
/// each shape; by hand as `CUCKOOD_WINDOW_TIMES` says.
fn times() -> u64 {
    let by_hand = std::env::var("CUCKOOD_WINDOW_TIMES").ok();
    by_hand.map_or(1, |times| times.parse().unwrap())
}

async fn agrees_with_the_record(shape: Shape, seed: u64) {
    println!("{shape:?}, seed {seed}");
    let mut random = Random(seed);
    let mut world = World::new(512 * times().div_ceil(10));
    world.options.max_log_bytes = 60_000;
    world.options.checkpoint_slice_bytes = 2 * support::PAGE_BYTES;
    let mut now = world.engine();
    support::create(&now, "f", &shape.request()).await;
    let epochs = shape.seconds.div_ceil(shape.resolution);
    let mut last: HashMap<u64, u64> = HashMap::new();
    let (mut next, mut most_pages, mut risen) = (0u64, 0, [0u64; 2]);
    for epoch in 0..4 * epochs {
        let batches = match epoch / epochs {
            1 => 1,
            _ => times() * (48 / epochs + 1),
        };
        for _ in 0..batches {
            world.now_ms.fetch_add(
                random.below(1000 * shape.resolution / batches),
                Ordering::SeqCst,
            );
            let items: Vec<u64> = (0..150)
                .map(|_| match random.below(3) {
                    0 if next > 0 => next - random.below(next.min(2_000 * times())),
                    _ => {
                        next += 1;
                        next
                    }
                })
                .collect();
            for (item, result) in items.iter().zip(see(&now, &items, AddMode::Always).await) {
                let ago_ms = last.insert(*item, world.now_ms());
                let ago_ms = ago_ms.map(|seen| world.now_ms() - seen);
                match result {
                    AddResult::Refreshed => {}
                    AddResult::Added => assert!(
                        ago_ms.is_none_or(|ago_ms| ago_ms >= 1000 * shape.seconds),
                        "{item} was there"
                    ),
                    other => panic!("{other:?}"),
                }
            }
        }
        let silence = match epoch {
            it if it == epochs => 1,
            it if it == 2 * epochs => 2 * epochs + 3,
            it if it == 3 * epochs => 1000,
            _ => 0,
        };
        world.pass(silence * shape.resolution);
        if silence > 0 || random.below(epochs.max(4)) < 2 {
            // What a crash at this moment would leave.
            let left = world.memory.fork();
            check(&kept(&left)).unwrap();
            let crashed = engine(Arc::new(left), &world.options);
            let some = holds(&crashed, &world, shape, &last).await;
            risen = [risen[0] + some[0], risen[1] + some[1]];
            crashed.halt();
        }
        // What is long gone is of no interest any more.
        let kept_ms = 2_000 * shape.seconds;
        last.retain(|_, seen| world.now_ms() - *seen < kept_ms);
        if random.below(epochs.max(6)) == 0 {
            tokio::task::block_in_place(|| now.shutdown().unwrap());
            now = world.engine();
            holds(&now, &world, shape, &last).await;
        }
        most_pages = most_pages.max(pages(&now).await);
    }
    println!(
        "at most {most_pages} pages; found {} of {} expired",
        risen[0], risen[1]
    );
    assert!(100 * risen[0] <= 4 * risen[1] + 100, "{risen:?}");
    let window = now.filter_info(&name("f")).await.unwrap();
    let by_epoch: u64 = window.epochs.unwrap().iter().map(|it| it.items).sum();
    assert_eq!(by_epoch, window.items);
    tokio::task::block_in_place(|| now.shutdown().unwrap());
    check(&kept(&world.memory)).unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn windows_agree_with_an_exact_record_through_growth_crashes_and_silences() {
    let shapes = [(16, 40, 10), (21, 86_400, 3_600), (32, 510, 6), (32, 7, 7)];
    for ((slot_bits, seconds, resolution), seed) in shapes.into_iter().zip(1..) {
        let shape = Shape {
            slot_bits,
            seconds,
            resolution,
        };
        agrees_with_the_record(shape, seed).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_idle_filter_gives_its_pages_back() {
    let world = World::new(512);
    let engine = world.engine();
    support::create(&engine, "f", &HOUR.request()).await;
    for batch in 0..100 {
        let items: Vec<u64> = (batch * 200..batch * 200 + 200).collect();
        see(&engine, &items, AddMode::Always).await;
    }
    let before = pages(&engine).await;
    assert!(before >= 8, "{before}");
    world.pass(3_600 + 600);
    let info = engine.filter_info(&name("f")).await.unwrap();
    assert_eq!(info.items, 0, "what has expired is counted");
    let until = Instant::now() + Duration::from_secs(60);
    while pages(&engine).await > 1 {
        assert!(Instant::now() < until, "{} pages", pages(&engine).await);
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    tokio::task::block_in_place(|| engine.shutdown().unwrap());
    check(&kept(&world.memory)).unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn what_is_refreshed_in_time_is_never_missed_by_readers_beside() {
    let world = World::new(512);
    let engine = world.engine();
    support::create(&engine, "f", &HOUR.request()).await;
    let known: Vec<u64> = (0..600).collect();
    see(&engine, &known, AddMode::Always).await;
    let ended = Arc::new(AtomicBool::new(false));
    let readers: Vec<_> = (0..2)
        .map(|_| {
            let (engine, known, ended) = (engine.clone(), known.clone(), Arc::clone(&ended));
            tokio::spawn(async move {
                let mut asked = 0u64;
                while !ended.load(Ordering::SeqCst) {
                    let found = found(&engine, &known).await;
                    assert!(found.iter().all(|&it| it), "one is missed");
                    // Nothing of what was never added is seen as young.
                    asked += 1;
                    tokio::task::yield_now().await;
                }
                asked
            })
        })
        .collect();
    let mut next = 1_000_000;
    for _ in 0..120 {
        world.pass(HOUR.resolution / 2);
        see(&engine, &known, AddMode::Always).await;
        // Others come, so that pages are split, and expire.
        let others: Vec<u64> = (next..next + 300).collect();
        next += 300;
        see(&engine, &others, AddMode::Always).await;
    }
    ended.store(true, Ordering::SeqCst);
    let mut asked = 0;
    for reader in readers {
        asked += reader.await.unwrap();
    }
    println!("asked {asked} times, {} pages", pages(&engine).await);
    assert!(asked > 10);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_window_refuses_deletes_and_says_when_an_item_was_seen() {
    let world = World::new(512);
    let engine = world.engine();
    support::create(&engine, "f", &HOUR.request()).await;
    let filter = name("f");
    assert_eq!(
        see(&engine, &[7], AddMode::Always).await,
        [AddResult::Added]
    );
    world.pass(1_800);
    let if_absent = see(&engine, &[7, 8], AddMode::OnlyIfAbsent).await;
    assert_eq!(if_absent, [AddResult::Exists, AddResult::Added]);
    let items = &support::batch([7, 8]);
    let within = |seconds| engine.seen_within(&filter, items, Some(seconds));
    assert_eq!(within(600).await.unwrap(), [false, true]);
    assert_eq!(within(1_801).await.unwrap(), [true, true]);
    assert_eq!(within(3_600).await.unwrap(), [true, true]);
    for seconds in [0, 3_601] {
        let refused = within(seconds).await;
        assert!(matches!(refused, Err(EngineError::BeyondWindow { .. })));
    }
    assert_eq!(engine.count(&filter, items).await.unwrap(), [1, 1]);
    let again = see(&engine, &[7], AddMode::Always).await;
    assert_eq!(again, [AddResult::Refreshed]);
    assert_eq!(within(600).await.unwrap(), [true, true]);
    assert_eq!(engine.count(&filter, items).await.unwrap(), [1, 1]);

    let deleted = engine.delete(&filter, items, None).await;
    assert!(matches!(deleted, Err(EngineError::ItemsExpire)));
    let steps: Arc<[ItemStep]> = Arc::from([ItemStep {
        op: cuckood::engine::ItemOp::Delete,
        items: 2,
    }]);
    let deleted = engine.work_in_steps(&filter, &steps, items).await;
    assert!(matches!(deleted, Err(EngineError::ItemsExpire)));

    support::create(&engine, "plain", &FilterRequest::default()).await;
    let refused = engine.seen_within(&name("plain"), items, Some(60)).await;
    assert!(matches!(refused, Err(EngineError::NoWindow { .. })));

    world.pass(3_600 + 600);
    assert_eq!(within(3_600).await.unwrap(), [false, false]);
    assert_eq!(engine.count(&filter, items).await.unwrap(), [0, 0]);
    // Time that goes back takes nothing back.
    see(&engine, &[9], AddMode::Always).await;
    world.now_ms.fetch_sub(7_200_000, Ordering::SeqCst);
    assert_eq!(found(&engine, &[7, 9]).await, [false, true]);
}
