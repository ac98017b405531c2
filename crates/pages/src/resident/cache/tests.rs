use super::*;
use crate::page::{FilterId, Ordinal};
use crate::resident::frame::DirtyState;
use crate::resident::frames::MIN_FRAMES;
use crate::resident::{PageGeometry, PlanPins};
use cuckood_filter::chain::address::WordAddress;
use cuckood_filter::chain::counters::Counters;
use cuckood_filter::chain::params::PAGE_BYTES;
use cuckood_filter::chain::plan::ChangedWord;
use cuckood_filter::cuckoo::bucket::SlotWidth;
use cuckood_metrics::Metrics;
use prometheus::{IntCounter, IntGauge};
use std::sync::atomic::AtomicBool;

fn cache() -> Arc<PageCache> {
    let (cache, _, _) = measured();
    cache
}

/// A cache, its bytes and its evictions.
fn measured() -> (Arc<PageCache>, IntGauge, IntCounter) {
    let metrics = Metrics::new().unwrap();
    let bytes = MIN_FRAMES as u64 * u64::from(PAGE_BYTES);
    let cache = PageCache::new(bytes, &metrics);
    (
        Arc::new(cache),
        metrics.cache_bytes.clone(),
        metrics.cache_evictions.clone(),
    )
}

fn table(pages: u32) -> Arc<PageTable> {
    let geometry = PageGeometry::fixed(pages, SlotWidth::Bits16);
    Arc::new(PageTable::new(FilterId(7), Ordinal(0), &geometry))
}

fn install(cache: &PageCache, table: &Arc<PageTable>, page: u32) -> Option<FrameIndex> {
    let word = (u64::from(page) + 1).to_le_bytes();
    let image = PageImage {
        slots: &word,
        counters: None,
    };
    let as_of = cache.as_of(table, page);
    cache.install(table, page, &image, Hold::Loose, as_of).ok()
}

fn install_pinned(cache: &PageCache, table: &Arc<PageTable>, page: u32) -> FrameIndex {
    let (nothing, as_of) = (PageImage::default(), cache.as_of(table, page));
    cache
        .install(table, page, &nothing, Hold::Pinned, as_of)
        .unwrap()
}

#[test]
fn an_image_from_before_a_change_without_a_frame_is_not_installed() {
    let (cache, table) = (cache(), table(3));
    let word = |page| ChangedWord {
        at: WordAddress {
            sub: 0,
            page,
            word: 0,
        },
        value: 7,
        slots: 1,
    };
    let change = |page| {
        let version = cache.versions.of(&table, page).unwrap();
        let park = || {
            let changed = || Changed::in_part(false, &[word(page)], &[]);
            assert!(matches!(
                cache.pin_or_park(&table, page, changed),
                Place::Parked(_)
            ));
        };
        Version::change(|| [version].into_iter(), park);
    };
    let install = |page, as_of| {
        let stale = PageImage::default();
        cache.install(&table, page, &stale, Hold::Loose, as_of)
    };
    let (of_first, of_second) = (cache.as_of(&table, 0), cache.as_of(&table, 1));
    change(0);
    assert_eq!(install(0, of_first), Err(NotInstalled::Gone));
    // The other did not change.
    assert!(install(1, of_second).is_ok());
    assert!(install(0, cache.as_of(&table, 0)).is_ok());
    // During a change nobody knows.
    let version = cache.versions.of(&table, 2).unwrap();
    Version::change(
        || [version].into_iter(),
        || {
            let as_of = cache.as_of(&table, 2);
            let changed = || Changed::in_part(false, &[word(2)], &[]);
            cache.pin_or_park(&table, 2, changed);
            assert_eq!(install(2, as_of), Err(NotInstalled::Gone));
        },
    );
}

#[test]
fn a_page_reads_as_installed_until_it_is_evicted() {
    let ((cache, _, evictions), table) = (measured(), table(2_000));
    for page in 0..2_000 {
        install(&cache, &table, page).unwrap();
        assert_eq!(cache.read(&table, page, 0), Some(u64::from(page) + 1));
        assert_eq!(cache.read(&table, page, 511), Some(0));
    }
    assert_eq!(table.resident(), MIN_FRAMES as u32);
    for page in 0..2_000 {
        let word = cache.read(&table, page, 0);
        assert!(word.is_none_or(|word| word == u64::from(page) + 1));
    }
    assert_eq!(evictions.get(), 2_000 - MIN_FRAMES as u64);
}

#[test]
fn what_is_pinned_dirty_or_planned_over_stays() {
    let (cache, table) = (cache(), table(4_000));
    let pinned = install_pinned(&cache, &table, 0);
    let dirty = cache.frame(install(&cache, &table, 1).unwrap()).unwrap();
    dirty.set_dirty_state(DirtyState::Dirty);
    install(&cache, &table, 2).unwrap();
    let mut plan = PlanPins::begin(&cache);
    let planned = plan.pin(&table, 2).unwrap();
    assert_eq!(plan.pinned(&table, 2), Some(planned));
    assert_eq!(plan.pinned(&table, 1), None);
    install(&cache, &table, 3).unwrap();
    let words = |pages: [u32; 3]| pages.map(|page| (&*table, page, 0)).into_iter();
    plan.expect(words([2, 9, 3]), 2);
    assert_eq!((plan.reached(), plan.held()), (1, 2));
    // It may hold no more: what it comes to without room is not pinned.
    plan.expect(words([0, 1, 9]), 2);
    assert_eq!((plan.reached(), plan.held()), (1, 2));
    for page in 4..4_000 {
        install(&cache, &table, page).unwrap();
    }
    for page in 0..4 {
        assert!(cache.is_resident(&table, page), "page {page}");
    }
    // Another's end does not let it go.
    drop(PlanPins::begin(&cache));
    for page in 4..4_000 {
        install(&cache, &table, page).unwrap();
    }
    let reached = plan.pinned(&table, 3).unwrap();
    assert_eq!(plan.pinned(&table, 3), Some(reached));
    assert_eq!(plan.pinned(&table, 2), Some(planned));
    assert_eq!((plan.reached(), plan.held()), (2, 2));
    cache.unpin(pinned);
    dirty.set_dirty_state(DirtyState::Clean);
    drop(plan);
    let again = self::table(1_000);
    for page in 0..1_000 {
        install(&cache, &again, page).unwrap();
    }
    for page in 0..4 {
        assert!(!cache.is_resident(&table, page), "page {page}");
    }
    assert_ne!(planned, pinned);
}

#[test]
fn a_cache_of_nothing_but_held_pages_says_that_it_is_full() {
    let (cache, table) = (cache(), table(1_000));
    for page in 0..MIN_FRAMES as u32 {
        install_pinned(&cache, &table, page);
    }
    assert_eq!(install(&cache, &table, 999), None);
}

/// Installs a page that has counters of 400 classes.
fn install_counted(
    cache: &PageCache,
    table: &Arc<PageTable>,
    page: u32,
    hold: Hold,
) -> Option<FrameIndex> {
    let mut counters = Counters::default();
    for class in 0..400 {
        counters.set(CounterKey(class + 1), u64::from(page) + 1);
    }
    let image = PageImage {
        slots: &[1, 0, 0, 2],
        counters: Some(Arc::new(counters)),
    };
    let as_of = cache.as_of(table, page);
    cache.install(table, page, &image, hold, as_of).ok()
}

#[test]
fn commits_wait_for_pages_with_counters_that_go_and_not_for_those_that_commands_hold() {
    let (cache, table) = (cache(), table(100));
    for page in 0..90 {
        install_counted(&cache, &table, page, Hold::Pinned).unwrap();
    }
    assert!(cache.frames.has_many_counters() && !cache.must_shed_counters());
    let dirty = install_counted(&cache, &table, 90, Hold::Pinned).unwrap();
    let frame = cache.frame(dirty).unwrap();
    frame.set_dirty_state(DirtyState::Dirty);
    cache.unpin(dirty);
    assert!(cache.must_shed_counters());
    frame.set_dirty_state(DirtyState::Clean);
    cache.shed_counters();
    assert!(!cache.is_resident(&table, 90) && !cache.must_shed_counters());
}

#[test]
fn counters_stay_with_their_page_and_within_their_share() {
    let ((cache, bytes, _), table) = (measured(), table(200));
    for page in 0..200 {
        let index = install_counted(&cache, &table, page, Hold::Loose).unwrap();
        let frame = cache.frame(index).unwrap();
        assert_eq!(frame.occupied(), 2);
        assert_eq!(
            cache.counter(&table, page, CounterKey(7)),
            Some(u64::from(page) + 1)
        );
    }
    let held = cache.frames.counter_bytes();
    assert!(
        !cache.frames.has_many_counters(),
        "{held} bytes of counters"
    );
    assert!(table.resident() < 20, "{} pages", table.resident());
    assert_eq!(
        bytes.get() as u64,
        held + u64::from(table.resident()) * u64::from(PAGE_BYTES)
    );
    // Frames that were given up are used again before others.
    let before = cache.eviction.lock().used();
    for page in 0..100 {
        install(&cache, &table, page).unwrap();
        let copies = cache.counter(&table, page, CounterKey(7)).unwrap();
        assert!(copies == 0 || copies == u64::from(page) + 1);
    }
    assert!(cache.eviction.lock().used() <= before.max(120));
}

#[test]
fn readers_never_see_the_words_of_another_page_while_frames_are_reused() {
    let cache = cache();
    let pages = MIN_FRAMES as u32 * 3;
    let table = table(pages);
    let stop = Arc::new(AtomicBool::new(false));
    let readers: Vec<_> = (0..2u32)
        .map(|start| {
            let (cache, table, stop) = (Arc::clone(&cache), Arc::clone(&table), Arc::clone(&stop));
            std::thread::spawn(move || {
                let (mut page, mut seen) = (start, 0u64);
                // On a busy machine the writer may end before this begins.
                while !stop.load(Ordering::Relaxed) || seen == 0 {
                    page = (page * 5 + 7) % pages;
                    if let Some(word) = cache.read(&table, page, 0) {
                        assert_eq!(word, u64::from(page) + 1);
                        seen += 1;
                    }
                }
                seen
            })
        })
        .collect();
    for round in 0..100 {
        for page in 0..pages {
            install(&cache, &table, (page * 7 + round) % pages).unwrap();
        }
    }
    stop.store(true, Ordering::Relaxed);
    for reader in readers {
        assert!(reader.join().unwrap() > 0);
    }
}

#[test]
fn an_image_of_a_page_that_was_dropped_since_is_not_installed_as_the_one_that_came_back() {
    let cache = cache();
    let geometry = PageGeometry::fixed(4, SlotWidth::Bits16).splitting();
    let table = Arc::new(PageTable::new(FilterId(7), Ordinal(0), &geometry));
    let nothing = PageImage::default();
    let publish = |pages: u32, changed: u32| {
        let version = cache.versions.of(&table, changed).unwrap();
        Version::change(|| [version].into_iter(), || table.set_pages(pages));
    };
    let [last, other] = [3, 2].map(|page| cache.as_of(&table, page));
    assert!(last.is_there(3));
    publish(3, 3);
    assert!(!cache.as_of(&table, 3).is_there(3));
    let install = |page, as_of| cache.install(&table, page, &nothing, Hold::Loose, as_of);
    assert_eq!(install(3, last), Err(NotInstalled::Gone));
    publish(4, 3);
    assert_eq!(install(3, last), Err(NotInstalled::Gone));
    assert!(install(3, cache.as_of(&table, 3)).is_ok());
    // Another page's number says nothing about this one.
    assert!(install(2, other).is_ok());
}

#[test]
fn the_frame_of_a_page_that_is_no_more_is_given_to_the_next_one() {
    let ((cache, bytes, _), table) = (measured(), table(8));
    let index = install_pinned(&cache, &table, 5);
    assert_eq!(cache.detach(&table, 5), Some(index));
    assert!(!cache.is_resident(&table, 5));
    assert_eq!(cache.detach(&table, 5), None);
    // Until then the frame is not anybody else's.
    assert_ne!(install(&cache, &table, 6), Some(index));
    cache.release(index);
    cache.release(index);
    assert_eq!((table.resident(), bytes.get()), (1, i64::from(PAGE_BYTES)));
    assert_eq!(install(&cache, &table, 7), Some(index));
    assert_eq!(cache.read(&table, 7, 0), Some(8));
    // What pinned it still does, until it lets go.
    assert!(cache.frame(index).unwrap().is_pinned());
    cache.unpin(index);
    cache.take_back(&table, 7);
    assert_eq!(table.resident(), 1);
}

/// Bytes that this process has in memory.
#[cfg(target_os = "linux")]
fn memory_in_use() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let resident = status.lines().find_map(|it| it.strip_prefix("VmRSS:"));
    let kib = resident.unwrap().trim_end_matches("kB").trim();
    kib.parse::<u64>().unwrap() << 10
}

#[cfg(target_os = "linux")]
#[test]
fn tables_take_memory_for_the_pages_that_are_resident_and_not_for_those_that_were() {
    // 16 GiB each, and a page of each 2 MiB: as questions about many items do.
    let (cache, before) = (cache(), memory_in_use());
    let tables: Vec<_> = (0..16).map(|_| table(4 << 20)).collect();
    for table in &tables {
        for page in (0..4 << 20).step_by(512) {
            install(&cache, table, page).unwrap();
        }
    }
    // Other tests allocate at the same time.
    let more = memory_in_use().saturating_sub(before);
    assert!(more < 200 << 20, "{} MiB", more >> 20);
    let resident = tables.iter().map(|table| table.resident()).sum::<u32>();
    assert_eq!(resident, MIN_FRAMES as u32);
    assert!(cache.eviction.lock().leaves_used() <= MIN_FRAMES);
}

#[test]
fn readers_see_their_own_pages_while_tables_take_each_others_leaves() {
    let (cache, ends) = (cache(), AtomicBool::new(false));
    let tables: Vec<_> = (0..5).map(|_| table(9 << 9)).collect();
    let word = |number: usize, page: u32| ((number as u64) << 32) | (u64::from(page) + 1);
    // Pages that occur on each leaf in the same place, and some that do not.
    let pages = || (0..9 << 9).step_by(64).chain((5..9 << 9).step_by(37));
    let read = || {
        let mut found = 0_u64;
        while !ends.load(Ordering::Relaxed) || found == 0 {
            for (number, table) in tables.iter().enumerate() {
                for page in pages() {
                    if let Some(read) = cache.read(table, page, 0) {
                        assert_eq!(read, word(number, page), "page {page} of {number}");
                        found += 1;
                    }
                }
            }
        }
    };
    std::thread::scope(|threads| {
        threads.spawn(read);
        threads.spawn(read);
        for _ in 0..200 {
            for page in pages() {
                for (number, table) in tables.iter().enumerate() {
                    let slots = &word(number, page).to_le_bytes();
                    let (counters, as_of) = (None, cache.as_of(table, page));
                    let image = PageImage { slots, counters };
                    let installed = cache.install(table, page, &image, Hold::Loose, as_of);
                    assert!(installed.is_ok());
                }
            }
        }
        ends.store(true, Ordering::Relaxed);
    });
    assert!(cache.eviction.lock().leaves_used() <= MIN_FRAMES);
}
