//! Filters that split and merge pages: what is there afterwards, after crashes
//! at every step, beside checkpoints and readers, and where pages are not in
//! memory.

use crate::gated::{Failing, GatedStore, Point};
use crate::memory::MemoryStore;
use crate::support::{
    self, Random, add, batch, create, engine, exists, items, kept, name, options,
};
use cuckood::chain::params::{FilterRequest, LayoutKind};
use cuckood::engine::check::check;
use cuckood::engine::{AddOptions, Engine, EngineError, EngineOptions};
use cuckood::metrics::Metrics;
use cuckood::store::PageStore;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// A filter of a page or two, of that many bits a slot.
fn request(fingerprint_bits: u64) -> FilterRequest {
    FilterRequest {
        capacity: Some(1_500),
        layout: Some(LayoutKind::Paged),
        fingerprint_bits: Some(fingerprint_bits),
        ..FilterRequest::default()
    }
}

async fn pages(engine: &Engine, filter: &str) -> u64 {
    let info = engine.filter_info(&name(filter)).await.unwrap();
    info.sub_filters.iter().map(|sub| sub.pages).sum()
}

async fn delete(engine: &Engine, filter: &str, items: impl IntoIterator<Item = u64>) {
    let deleted = engine.delete(&name(filter), &batch(items), None).await;
    assert!(deleted.unwrap().answer.iter().all(|&found| found));
}

/// Whether the engine knows each of these items, and how many there are.
async fn holds(engine: &Engine, filter: &str, held: std::ops::Range<u64>) {
    let found = exists(engine, filter, held.clone()).await;
    let missing: Vec<u64> = held
        .clone()
        .zip(found)
        .filter_map(|(item, found)| (!found).then_some(item))
        .collect();
    assert!(missing.is_empty(), "{missing:?} of {held:?}");
    assert_eq!(items(engine, filter).await, held.end - held.start);
}

/// Opens what a crash at this moment would leave behind, sees that all of it is
/// as it is described, and that it holds these items; and once more after a
/// clean stop, when nothing is left in the log and no page too many is stored.
async fn survives_a_crash(memory: &MemoryStore, held: std::ops::Range<u64>) {
    let left = memory.fork();
    check(&kept(&left)).unwrap();
    let crashed = engine(Arc::new(left.clone()), &options(512));
    holds(&crashed, "f", held.clone()).await;
    tokio::task::block_in_place(|| crashed.shutdown().unwrap());
    assert!(left.log_sequences().is_empty());
    check(&kept(&left)).unwrap();
    let again = engine(Arc::new(left), &options(512));
    holds(&again, "f", held).await;
    again.halt();
}

/// Grows a filter and shrinks it again, over and over, so that the same pages
/// are split and merged, and crashes after every step.
async fn splits_and_merges_with_crashes(options: EngineOptions, bits: u64, step: u64) {
    let memory = MemoryStore::new();
    let engine = engine(Arc::new(memory.clone()), &options);
    create(&engine, "f", &request(bits)).await;
    let (mut first, mut next, mut seen) = (0, 0, Vec::new());
    let fewest = pages(&engine, "f").await;
    for (items_at_most, pages_at_most) in [(6_000, u64::MAX), (0, fewest), (7_000, u64::MAX)] {
        while (items_at_most > 0 && next - first < items_at_most)
            || (items_at_most == 0 && next - first > 600)
        {
            match items_at_most {
                0 => {
                    delete(&engine, "f", first..first + step).await;
                    first += step;
                }
                _ => {
                    add(&engine, "f", next..next + step).await;
                    next += step;
                }
            }
            let now = pages(&engine, "f").await;
            if seen.last() != Some(&now) {
                seen.push(now);
                survives_a_crash(&memory, first..next).await;
            }
        }
        assert!(seen.last().unwrap() <= &pages_at_most, "{seen:?}");
    }
    holds(&engine, "f", first..next).await;
    println!("{bits} bits: pages {seen:?}");
    let most = seen.iter().max().unwrap();
    assert!(*most >= 3 * fewest && !seen.is_sorted(), "{seen:?}");
    tokio::task::block_in_place(|| engine.shutdown().unwrap());
    check(&kept(&memory)).unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn pages_that_are_split_and_merged_again_and_again_survive_a_crash_at_every_step() {
    for bits in [12, 16, 21, 32] {
        // Nothing but the log, to begin with.
        splits_and_merges_with_crashes(options(512), bits, 60).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn pages_that_are_split_and_merged_beside_checkpoints_survive_a_crash_at_every_step() {
    for bits in [12, 16, 21, 32] {
        let mut often = options(512);
        often.max_log_bytes = 6_000;
        often.checkpoint_slice_bytes = support::PAGE_BYTES;
        splits_and_merges_with_crashes(often, bits, 60).await;
    }
}

/// An engine in one lane that writes pages back once much is logged.
fn gated() -> (MemoryStore, GatedStore, Engine) {
    let memory = MemoryStore::new();
    let store = GatedStore::new(Arc::new(memory.clone()));
    let mut options = options(512);
    options.lanes = 1;
    options.max_log_bytes = 300_000;
    let engine = engine(Arc::new(store.clone()), &options);
    (memory, store, engine)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_late_image_of_a_page_that_was_merged_away_is_neither_kept_nor_in_the_way() {
    for comes_back in [false, true] {
        let (memory, store, engine) = gated();
        create(&engine, "f", &request(16)).await;
        add(&engine, "f", 0..7_000).await;
        let most = pages(&engine, "f").await;
        store.hold_first(Point::CheckpointStart);
        // All pages are changed over and over, until half of the log is used.
        let mut others = 10_000;
        while store.held() == 0 {
            add(&engine, "f", others..others + 200).await;
            delete(&engine, "f", others..others + 200).await;
            others += 200;
            assert!(others < 1_000_000, "nobody came to the gate");
        }
        // The images of all pages are copied and not written yet.
        for first in (0..5_500).step_by(250) {
            delete(&engine, "f", first..first + 250).await;
        }
        let fewest = pages(&engine, "f").await;
        assert!(fewest < most, "{fewest} of {most} pages");
        survives_a_crash(&memory, 5_500..7_000).await;
        let held = match comes_back {
            false => 5_500..7_000,
            true => {
                add(&engine, "f", 7_000..12_500).await;
                assert!(pages(&engine, "f").await > fewest);
                5_500..12_500
            }
        };
        store.open();
        for _ in 0..5 {
            survives_a_crash(&memory, held.clone()).await;
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        tokio::task::block_in_place(|| engine.shutdown().unwrap());
        check(&kept(&memory)).unwrap();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn checkpoints_that_fail_leave_pages_that_are_no_more_to_the_next_ones() {
    let (memory, store, engine) = gated();
    create(&engine, "f", &request(21)).await;
    add(&engine, "f", 0..7_000).await;
    tokio::task::block_in_place(|| engine.shutdown().unwrap());
    drop(engine);
    let engine = support::engine(Arc::new(store.clone()), &options(512));
    delete(&engine, "f", 0..6_000).await;
    store.fail_checkpoints(true);
    let failed = tokio::task::block_in_place(|| engine.shutdown());
    assert!(failed.is_err());
    survives_a_crash(&memory, 6_000..7_000).await;
    store.fail_checkpoints(false);
    tokio::task::block_in_place(|| engine.shutdown().unwrap());
    assert!(memory.log_sequences().is_empty());
    check(&kept(&memory)).unwrap();
    survives_a_crash(&memory, 6_000..7_000).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_commit_that_fails_splits_and_merges_nothing() {
    for failing in [Failing::Before, Failing::After] {
        let (memory, store, engine) = gated();
        create(&engine, "f", &request(16)).await;
        add(&engine, "f", 0..3_000).await;
        let before = pages(&engine, "f").await;
        let unknown = |error| matches!(error, Some(EngineError::OutcomeUnknown(_)));

        store.fail_commits(failing);
        let more = batch(3_000..7_000);
        let added = engine
            .add(&name("f"), &more, &AddOptions::default(), None)
            .await;
        assert!(unknown(added.err()), "{failing:?}");
        assert_eq!(pages(&engine, "f").await, before);
        holds(&engine, "f", 0..3_000).await;
        settle(&store, &engine).await;
        survives_a_crash(&memory, 0..3_000).await;
        // The pages that it would have had come to be now.
        add(&engine, "f", 3_000..7_000).await;
        let grown = pages(&engine, "f").await;
        assert!(grown > before);
        survives_a_crash(&memory, 0..7_000).await;

        store.fail_commits(failing);
        let deleted = engine.delete(&name("f"), &batch(0..6_000), None).await;
        assert!(unknown(deleted.err()), "{failing:?}");
        assert_eq!(pages(&engine, "f").await, grown);
        holds(&engine, "f", 0..7_000).await;
        settle(&store, &engine).await;
        survives_a_crash(&memory, 0..7_000).await;
        delete(&engine, "f", 0..6_000).await;
        assert!(pages(&engine, "f").await < grown);
        survives_a_crash(&memory, 6_000..7_000).await;
    }
}

/// Lets commits through again, and waits until the lane takes changes.
async fn settle(store: &GatedStore, engine: &Engine) {
    store.fail_commits(Failing::Nothing);
    for _ in 0..100 {
        // Nothing that is there: what was never added.
        let deleted = engine.delete(&name("f"), &batch([1 << 50]), None).await;
        match deleted {
            Ok(_) => return,
            Err(EngineError::Overloaded(_)) => tokio::time::sleep(Duration::from_millis(20)).await,
            Err(error) => panic!("{error}"),
        }
    }
    panic!("the lane never recovered");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_page_that_is_split_next_is_there_before_an_add_needs_it() {
    let memory = MemoryStore::new();
    let engine = engine(Arc::new(memory.clone()), &options(512));
    // Some pages, so that most adds don't touch the one that is split next.
    let request = FilterRequest {
        capacity: Some(30_000),
        ..request(16)
    };
    create(&engine, "f", &request).await;
    let mut next = 0;
    loop {
        let info = engine.filter_info(&name("f")).await.unwrap();
        let room = info.adds_before_expansion.saturating_sub(5).min(1_000);
        if room == 0 {
            break;
        }
        add(&engine, "f", next..next + room).await;
        next += room;
    }
    let before = pages(&engine, "f").await;
    tokio::task::block_in_place(|| engine.shutdown().unwrap());
    drop(engine);

    let metrics = Arc::new(Metrics::new().unwrap());
    let store = Arc::new(PageStore::open(Arc::new(memory.clone())).unwrap());
    let engine = Engine::open(store, &options(512), Arc::clone(&metrics)).unwrap();
    let mut there = before;
    while there < before + 3 {
        let requeued = metrics.commands_requeued.get();
        add(&engine, "f", [next]).await;
        next += 1;
        let now = pages(&engine, "f").await;
        // One that splits nothing may send an entry away to a page that nobody asked
        // for yet.
        if now > there {
            let again = metrics.commands_requeued.get() - requeued;
            assert_eq!(again, 0, "after {next} items");
        }
        there = now;
    }
    survives_a_crash(&memory, 0..next).await;
}

/// What a writer tells its readers.
#[derive(Default)]
struct Shared {
    /// These were added and acknowledged, and stay.
    held: AtomicU64,
    checked: AtomicU64,
    stop: AtomicBool,
}

/// Asks for items that are there until it is told to stop.
async fn read_until_stopped(engine: Engine, shared: Arc<Shared>, seed: u64) {
    let mut random = Random(seed);
    while !shared.stop.load(Ordering::Relaxed) {
        let held = shared.held.load(Ordering::Acquire);
        let asked: Vec<u64> = (0..64).map(|_| random.below(held)).collect();
        let found = exists(&engine, "f", asked.clone()).await;
        for (item, found) in asked.iter().zip(found) {
            assert!(found, "item {item} of {held} is a false negative");
        }
        let counted = engine_count(&engine, asked.into_iter().take(4)).await;
        assert!(counted.iter().all(|&count| count >= 1));
        shared.checked.fetch_add(68, Ordering::Relaxed);
    }
}

/// Stops the readers however the writer ends.
struct StopReaders(Arc<Shared>);

impl Drop for StopReaders {
    fn drop(&mut self) {
        self.0.stop.store(true, Ordering::Relaxed);
    }
}

/// Splits and merges pages while two readers ask for what stays. Returns how
/// often they were split and merged.
async fn readers_beside_splits(options: EngineOptions, bits: u64, time: Duration) -> u64 {
    let metrics = Arc::new(Metrics::new().unwrap());
    let store = Arc::new(PageStore::open(Arc::new(MemoryStore::new())).unwrap());
    let engine = Engine::open(store, &options, Arc::clone(&metrics)).unwrap();
    create(&engine, "f", &request(bits)).await;
    add(&engine, "f", 0..1_500).await;
    let shared = Arc::new(Shared::default());
    shared.held.store(1_500, Ordering::Release);
    let stop = StopReaders(Arc::clone(&shared));
    let readers = [1, 2].map(|seed| {
        let (engine, shared) = (engine.clone(), Arc::clone(&shared));
        tokio::spawn(read_until_stopped(engine, shared, seed))
    });
    let (started, mut turns, mut last) = (Instant::now(), 0, pages(&engine, "f").await);
    let mut others = 1 << 40;
    while started.elapsed() < time {
        assert!(
            readers.iter().all(|it| !it.is_finished()),
            "a reader failed"
        );
        for grows in [true, false] {
            for step in 0..12 {
                let some = others + 400 * step..others + 400 * (step + 1);
                match grows {
                    true => add(&engine, "f", some).await,
                    false => delete(&engine, "f", some).await,
                }
                let now = pages(&engine, "f").await;
                turns += u64::from(now != last);
                last = now;
            }
        }
        others += 1 << 20;
    }
    drop(stop);
    for reader in readers {
        reader.await.unwrap();
    }
    let checked = shared.checked.load(Ordering::Relaxed);
    let retries = metrics.read_retries.get();
    println!(
        "{bits} bits: {checked} checks, {turns} commits with splits or merges, {retries} asked again"
    );
    turns
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn readers_see_every_acknowledged_item_while_pages_are_split_and_merged() {
    for bits in [12, 16, 21, 32] {
        let turns = readers_beside_splits(options(4_096), bits, Duration::from_secs(3)).await;
        assert!(turns > 4, "{turns} commits");
    }
}

async fn engine_count(engine: &Engine, items: impl Iterator<Item = u64>) -> Vec<u64> {
    engine.count(&name("f"), &batch(items)).await.unwrap()
}
