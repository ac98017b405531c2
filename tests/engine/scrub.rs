//! Everything is read again and again while filters change, and nothing but
//! damage is called damage.

use crate::checked::{LOOKS, wrong_sum};
use crate::memory::MemoryStore;
use crate::support::{add, batch, create, kept, name, number, options};
use cuckood::chain::params::{FilterRequest, LayoutKind};
use cuckood::engine::check::check;
use cuckood::engine::{
    AddOptions, AddResult, Adopted, Engine, EngineOptions, ItemBatch, Replace, ScrubOptions,
};
use cuckood::metrics::Metrics;
use cuckood::page::{Ordinal, PageId, PageIndex, Sequence};
use cuckood::store::PageStore;
use cuckood::store::format::StoredValue;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

const FAST: ScrubOptions = ScrubOptions {
    bytes_per_second: 1 << 30,
    first_after: Duration::ZERO,
    pass_every: Duration::ZERO,
    slice_bytes: 256 << 20,
    keep_every: Duration::ZERO,
};

fn open(memory: &MemoryStore, options: &EngineOptions) -> (Engine, Arc<Metrics>) {
    let store = PageStore::open(Arc::new(memory.clone())).unwrap();
    let metrics = Arc::new(Metrics::new().unwrap());
    let engine = Engine::open(Arc::new(store), options, Arc::clone(&metrics)).unwrap();
    (engine, metrics)
}

async fn wait_for(what: &str, mut is_so: impl FnMut() -> bool) {
    let began = Instant::now();
    while !is_so() {
        assert!(began.elapsed() < Duration::from_secs(60), "{what}");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

/// With this fingerprint and these buckets, copies are counted under the smallest key
/// that there is, and under the one behind it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn copies_under_the_smallest_keys_are_no_fault() {
    for item in ["hot452", "hot1884"] {
        let memory = MemoryStore::new();
        let (engine, _) = open(&memory, &options(512));
        let request = FilterRequest {
            capacity: Some(100),
            layout: Some(LayoutKind::Classic),
            bucket_size: Some(2),
            expansion: Some(0),
            ..FilterRequest::default()
        };
        create(&engine, "f", &request).await;
        let mut copies = ItemBatch::default();
        (0..10).for_each(|_| copies.push(item.as_bytes()));
        let (filter, always) = (name("f"), AddOptions::default());
        let added = engine.add(&filter, &copies, &always, None).await;
        assert_eq!(added.unwrap().answer, [AddResult::Added; 10]);
        check(&kept(&memory)).unwrap();
        let mut dump = Vec::new();
        engine.dump(&name("f"), &mut dump).unwrap();
        let intake = engine.intake(&name("g"), Replace::Nothing).await.unwrap();
        let staged = intake.dump(dump.as_slice()).unwrap();
        let adopted = engine.adopt(&name("g"), staged, Replace::Nothing).await;
        assert!(matches!(adopted, Ok(Adopted::New(_))));
        let one = ItemBatch::of(item.as_bytes());
        assert_eq!(engine.count(&name("g"), &one).await.unwrap(), [10]);
        check(&kept(&memory)).unwrap();
    }
}

async fn two_filters(engine: &Engine) {
    for (filter, layout) in [
        ("paged", LayoutKind::Paged),
        ("classic", LayoutKind::Classic),
    ] {
        let request = FilterRequest {
            capacity: Some(2_000),
            layout: Some(layout),
            expansion: Some(2),
            ..FilterRequest::default()
        };
        create(engine, filter, &request).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn filters_that_grow_shrink_go_and_come_again_meanwhile_are_no_fault() {
    let memory = MemoryStore::new();
    let compacting = EngineOptions {
        compaction_threshold_percent: 10,
        ..options(1024)
    };
    let (engine, metrics) = open(&memory, &compacting);
    two_filters(&engine).await;
    engine.scrub(FAST).unwrap();
    let passes = || metrics.scrub_passes.get();
    let compacted = || metrics.compactions.with_label_values(&["done"]).get();
    let (mut rounds, started) = (0, Instant::now());
    while rounds < 10 || passes() < 20 || compacted() == 0 {
        // The filters are looked at for compaction each second.
        let lasts = started.elapsed();
        assert!(lasts < Duration::from_secs(60), "{} passes", passes());
        for filter in ["paged", "classic"] {
            add(&engine, filter, 0..6_000).await;
            // So many of one that they are counted beside the page.
            add(&engine, filter, (0..100).map(|_| 17)).await;
            let items = batch((0..5_000).chain((0..100).map(|_| 17)));
            engine.delete(&name(filter), &items, None).await.unwrap();
        }
        if rounds % 3 == 0 {
            engine.delete_filter(&name("paged"), None).await.unwrap();
            engine.delete_filter(&name("classic"), None).await.unwrap();
            two_filters(&engine).await;
        }
        rounds += 1;
    }
    assert_eq!(metrics.scrub_faults.get(), 0);
    assert!(metrics.scrub_pages.get() > 0 && metrics.scrub_bytes.get() > 0);
    assert!(metrics.scrub_last_pass.get() > 0);
    tokio::task::block_in_place(|| engine.shutdown().unwrap());
    let kept = PageStore::open(Arc::new(memory)).unwrap();
    cuckood::engine::check::check(&kept).unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn damage_shows_until_it_is_gone_and_hides_no_other_damage() {
    let memory = MemoryStore::new();
    let (engine, _) = open(&memory, &options(1024));
    two_filters(&engine).await;
    add(&engine, "paged", 0..6_000).await;
    add(&engine, "classic", 0..6_000).await;
    tokio::task::block_in_place(|| engine.shutdown().unwrap());
    drop(engine);
    let page = |page| {
        StoredValue::Page(PageId {
            filter: number("classic", 2),
            ordinal: Ordinal(0),
            page: PageIndex(page),
        })
    };
    assert!(
        memory.damage(&page(0), 20)
            && memory.damage(&StoredValue::FilterMeta(number("paged", 1)), 9)
    );

    let (engine, metrics) = open(&memory, &options(1024));
    engine.scrub(FAST).unwrap();
    wait_for("a pass", || metrics.scrub_passes.get() > 1).await;
    assert_eq!(metrics.scrub_faults.get(), 2);
    // It was the bits of a byte; turned back they are right.
    assert!(
        memory.damage(&page(0), 20)
            && memory.damage(&StoredValue::FilterMeta(number("paged", 1)), 9)
    );
    wait_for("the end of the faults", || metrics.scrub_faults.get() == 0).await;
    tokio::task::block_in_place(|| engine.halt());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_pass_comes_to_its_end_though_the_server_never_lives_so_long() {
    const FILTERS: u64 = 8;
    let mut memory = MemoryStore::new();
    let (engine, _) = open(&memory, &options(1024));
    for number in 0..FILTERS {
        let filter = format!("f{number}");
        let request = FilterRequest {
            capacity: Some(2_000),
            layout: Some(LayoutKind::Paged),
            ..FilterRequest::default()
        };
        create(&engine, &filter, &request).await;
        add(&engine, &filter, 0..1_000).await;
    }
    tokio::task::block_in_place(|| engine.shutdown().unwrap());
    let filters = (0..FILTERS).map(|it| number(&format!("f{it}"), it + 1));
    let first = StoredValue::Page(PageId {
        filter: filters.min().unwrap(),
        ordinal: Ordinal(0),
        page: PageIndex(0),
    });
    assert!(memory.damage(&first, 20));

    // Each life reads two or three filters.
    let slowly = ScrubOptions {
        bytes_per_second: 64 << 10,
        slice_bytes: 1,
        ..FAST
    };
    let (mut lives, mut pages) = (0, 0);
    loop {
        let (engine, metrics) = open(&memory, &options(1024));
        engine.scrub(slowly).unwrap();
        let passes = || metrics.scrub_passes.get();
        wait_for("two slices", || {
            metrics.scrub_pages.get() >= 2 || passes() > 0
        })
        .await;
        lives += 1;
        memory = match lives % 2 {
            0 => memory.fork(),
            _ => {
                tokio::task::block_in_place(|| engine.halt());
                memory
            }
        };
        pages += metrics.scrub_pages.get();
        if passes() > 0 {
            // That of the first life.
            assert_eq!(metrics.scrub_faults.get(), 1);
            break;
        }
        assert!(lives < 2 * FILTERS, "{lives} lives, {pages} pages");
        tokio::task::block_in_place(|| engine.halt());
    }
    assert!(lives > 2, "{lives} lives: that was no test of restarts");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_slow_scrub_keeps_its_pace_and_a_stop_does_not_wait_for_it() {
    let memory = MemoryStore::new();
    let (engine, metrics) = open(&memory, &options(1024));
    two_filters(&engine).await;
    add(&engine, "classic", 0..20_000).await;
    let slow = ScrubOptions {
        bytes_per_second: 1 << 10,
        ..FAST
    };
    engine.scrub(slow).unwrap();
    let began = Instant::now();
    wait_for("the first page", || metrics.scrub_bytes.get() > 0).await;
    tokio::time::sleep(Duration::from_millis(300)).await;
    let (read, most) = (
        metrics.scrub_bytes.get(),
        began.elapsed().as_secs() * 1024 + 8192,
    );
    assert!(read <= most, "{read} bytes");
    let stopping = Instant::now();
    tokio::task::block_in_place(|| engine.halt());
    assert!(
        stopping.elapsed() < Duration::from_secs(5),
        "{:?}",
        stopping.elapsed()
    );
    assert_eq!(metrics.scrub_passes.get(), 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_scrub_that_is_off_reads_nothing() {
    let (engine, metrics) = open(&MemoryStore::new(), &options(1024));
    two_filters(&engine).await;
    engine
        .scrub(ScrubOptions {
            bytes_per_second: 0,
            ..FAST
        })
        .unwrap();
    tokio::time::sleep(Duration::from_millis(200)).await;
    assert_eq!(metrics.scrub_passes.get(), 0);
    tokio::task::block_in_place(|| engine.halt());
}

/// Most tests believe that commits are looked at.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_tests_look_at_commits_and_notice_a_wrong_sum() {
    let memory = MemoryStore::new();
    let (engine, _) = open(&memory, &options(1024));
    let request = FilterRequest {
        capacity: Some(2_000),
        layout: Some(LayoutKind::Classic),
        ..FilterRequest::default()
    };
    let looks = || LOOKS.load(Ordering::Relaxed);
    let (before, began) = (looks(), Instant::now());
    create(&engine, "f", &request).await;
    add(&engine, "f", 0..1_000).await;
    // The next look comes a while after the one before.
    for item in 1_000.. {
        if looks() > before {
            break;
        }
        assert!(began.elapsed() < Duration::from_secs(60), "no look");
        add(&engine, "f", [item]).await;
    }
    tokio::task::block_in_place(|| engine.shutdown().unwrap());
    let (store, filter) = (kept(&memory), number("f", 1));
    let wrong = || wrong_sum(&store, filter, 1 << 20);
    assert_eq!(wrong(), None);
    let page = PageId {
        filter,
        ordinal: Ordinal(0),
        page: PageIndex(0),
    };
    store
        .checkpoint(&[(page, vec![0; 64])], Sequence(0))
        .unwrap();
    assert!(wrong().is_some_and(|it| it.contains("slots in use")));
}
