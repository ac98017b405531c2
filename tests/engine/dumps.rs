//! Dumps: the same bytes for the same state, one state for all bytes.

use crate::gated::{Failing, GatedStore, Point};
use crate::memory::MemoryStore;
use crate::metered::MeteredStore;
use crate::support::{
    self, Random, add, all_exist, batch, create, engine, items, name, number, of_capacity, options,
};
use cuckood::chain::params::FilterRequest;
use cuckood::engine::{
    AddMode, AddResult, Adopted, Caller, Engine, EngineError, Entries, FilterVersion, Replace,
    ReplaceResult, Replacements, RestoreError, StagedFilter,
};
use cuckood::file::FileView;
use cuckood::store::Garbage;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

async fn dump(engine: &Engine, filter: &str) -> Vec<u8> {
    let (engine, name) = (engine.clone(), name(filter));
    let taken = tokio::task::spawn_blocking(move || {
        let mut whole = Vec::new();
        engine.dump(&name, &mut whole).unwrap();
        whole
    });
    taken.await.unwrap()
}

/// What is the same of the dumps of equal filters.
fn content(dump: &[u8]) -> [u8; 32] {
    FileView::open(dump).unwrap().verify().unwrap()
}

async fn version(engine: &Engine, filter: &str) -> FilterVersion {
    engine.version(&name(filter)).await.unwrap()
}

async fn take_in(engine: &Engine, bytes: Vec<u8>) -> Result<StagedFilter, RestoreError> {
    let intake = engine.intake(&name("f"), Replace::Nothing).await.unwrap();
    tokio::task::spawn_blocking(move || intake.dump(&bytes[..]))
        .await
        .unwrap()
}

#[tokio::test]
async fn a_dump_is_promised_its_room_before_its_first_page_is_written() {
    let unbounded = engine(Arc::new(MemoryStore::new()), &options(1024));
    create(&unbounded, "f", &of_capacity(20_000)).await;
    add(&unbounded, "f", 0..20_000).await;
    let bytes = dump(&unbounded, "f").await;
    let size = unbounded.filter_info(&name("f")).await.unwrap().slot_bytes;
    let mut options = options(1024);
    options.defaults.max_bytes_per_key = Some(size * 3 / 2);
    let it = engine(Arc::new(MemoryStore::new()), &options);
    let tenant = it.for_caller(Caller {
        key: Some("tenant".into()),
        ..Caller::default()
    });
    let refused = async |engine: &Engine| {
        // Most of it does not come.
        let taken = take_in(engine, bytes[..bytes.len() / 3].to_vec()).await;
        matches!(
            taken.map(|_| ()),
            Err(RestoreError::Refused(EngineError::OverKeyQuota { .. }))
        )
    };
    assert!(!refused(&tenant).await);
    let staged = take_in(&tenant, bytes.clone()).await.unwrap();
    assert!(refused(&tenant).await && !refused(&it).await);
    drop(staged);
    assert!(!refused(&tenant).await);
    let staged = take_in(&tenant, bytes.clone()).await.unwrap();
    let adopted = tenant.adopt(&name("f"), staged, Replace::Nothing).await;
    assert!(matches!(adopted, Ok(Adopted::New(_))));
    assert!(refused(&tenant).await);
    // What replaces a filter takes its bytes over.
    let intake = tenant.intake(&name("f"), Replace::Anything).await.unwrap();
    let staged = intake.dump(&bytes[..]).unwrap();
    let adopted = tenant.adopt(&name("f"), staged, Replace::Something).await;
    assert!(matches!(adopted, Ok(Adopted::Replaced(_))));
    // But only those of the one that it replaces.
    let intake = tenant.intake(&name("f"), Replace::Anything).await.unwrap();
    let staged = intake.dump(&bytes[..]).unwrap();
    let adopted = tenant.adopt(&name("g"), staged, Replace::Nothing).await;
    assert!(matches!(adopted, Err(EngineError::OverKeyQuota { .. })));
}

async fn restore(engine: &Engine, filter: &str, bytes: &[u8], replace: Replace) -> Adopted {
    let staged = take_in(engine, bytes.to_vec()).await.unwrap();
    engine.adopt(&name(filter), staged, replace).await.unwrap()
}

/// Waits until nothing waits to be reclaimed; pages of no filter are gone then.
async fn all_reclaimed(store: &MemoryStore) {
    let started = Instant::now();
    while !support::kept(store).garbage().unwrap().is_empty() {
        assert!(started.elapsed() < Duration::from_secs(20));
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// Of filters that are called `f`.
fn stored_bytes(store: &MemoryStore, serials: std::ops::Range<u64>) -> u64 {
    let store = support::kept(store);
    let bytes = |serial| store.approximate_page_bytes(number("f", serial)).unwrap();
    serials.map(bytes).sum()
}

#[tokio::test]
async fn a_dump_restored_elsewhere_is_the_same_filter() {
    let seed = 0xd0_5eed;
    println!("seed {seed}");
    let mut random = Random(seed);
    let here = engine(Arc::new(MemoryStore::new()), &options(1024));
    create(&here, "f", &of_capacity(3000)).await;
    for _ in 0..20 {
        let some: Vec<u64> = (0..random.below(1500))
            .map(|_| random.below(20_000))
            .collect();
        add(&here, "f", some.iter().copied()).await;
        let gone = some.iter().step_by(3).copied();
        here.delete(&name("f"), &batch(gone), None).await.unwrap();
    }
    let info = here.filter_info(&name("f")).await.unwrap();
    assert!(info.expansions > 0 && info.deletions > 100);
    let bytes = dump(&here, "f").await;

    let store = MemoryStore::new();
    let there = engine(Arc::new(store.clone()), &options(1024));
    create(&there, "other", &of_capacity(10)).await;
    assert!(matches!(
        restore(&there, "g", &bytes, Replace::Nothing).await,
        Adopted::New(_)
    ));
    assert_eq!(content(&dump(&there, "g").await), content(&bytes));
    // After a restart, with other numbers for everything, too.
    there.halt();
    let again = engine(Arc::new(store), &options(1024));
    assert_eq!(content(&dump(&again, "g").await), content(&bytes));
    let probes = batch(0..50_000);
    assert_eq!(
        here.count(&name("f"), &probes).await.unwrap(),
        again.count(&name("g"), &probes).await.unwrap()
    );
    assert_eq!(
        here.exists(&name("f"), &probes).await.unwrap(),
        again.exists(&name("g"), &probes).await.unwrap()
    );
    // And goes on alike.
    for engine in [(&here, "f"), (&again, "g")] {
        add(engine.0, engine.1, 100_000..104_000).await;
    }
    assert_eq!(
        content(&dump(&here, "f").await),
        content(&dump(&again, "g").await)
    );
}

#[tokio::test]
async fn a_dump_is_the_same_whatever_was_checkpointed_and_resident() {
    let store = MemoryStore::new();
    let first = engine(Arc::new(store.clone()), &options(1024));
    create(&first, "f", &of_capacity(20_000)).await;
    add(&first, "f", 0..5000).await;
    let in_log = dump(&first, "f").await;
    first.shutdown().unwrap();
    let second = engine(Arc::new(store), &options(1024));
    assert_eq!(content(&dump(&second, "f").await), content(&in_log));
    add(&second, "f", [5000]).await;
    assert_ne!(content(&dump(&second, "f").await), content(&in_log));
    second
        .delete(&name("f"), &batch([5000]), None)
        .await
        .unwrap();
    // One more delete was counted.
    assert_ne!(content(&dump(&second, "f").await), content(&in_log));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_dump_made_while_writes_go_on_is_a_state_between_two_of_them() {
    let writing = engine(Arc::new(MemoryStore::new()), &options(2048));
    create(&writing, "f", &of_capacity(40_000)).await;
    let added = Arc::new(AtomicU64::new(0));
    // Items that the writer may add: of a slow dump it must not make a filter of
    // any number of sub-filters, which takes longer to dump each time.
    let allowed = Arc::new(AtomicU64::new(0));
    let stop = Arc::new(AtomicBool::new(false));
    let writer = tokio::spawn({
        let engine = writing.clone();
        let (added, allowed) = (Arc::clone(&added), Arc::clone(&allowed));
        let stop = Arc::clone(&stop);
        async move {
            while !stop.load(Ordering::Relaxed) {
                let next = added.load(Ordering::SeqCst);
                if next >= allowed.load(Ordering::SeqCst) {
                    tokio::time::sleep(Duration::from_millis(1)).await;
                    continue;
                }
                add(&engine, "f", next..next + 10).await;
                added.store(next + 10, Ordering::SeqCst);
            }
        }
    });
    let reading = engine(Arc::new(MemoryStore::new()), &options(2048));
    for _ in 0..10 {
        let before = added.load(Ordering::SeqCst);
        allowed.store(before + 8000, Ordering::SeqCst);
        // It is under way.
        while added.load(Ordering::SeqCst) < before + 100 {
            assert!(!writer.is_finished(), "the writer failed");
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        let before = added.load(Ordering::SeqCst);
        let bytes = dump(&writing, "f").await;
        let after = added.load(Ordering::SeqCst);
        let restored = restore(&reading, "f", &bytes, Replace::Anything).await;
        let (Adopted::New(info) | Adopted::Replaced(info)) = restored else {
            panic!("{restored:?}");
        };
        assert!((before..=after + 10).contains(&info.items) && info.items % 10 == 0);
        assert!(all_exist(&reading, "f", 0..info.items).await);
        assert_eq!(content(&dump(&reading, "f").await), content(&bytes));
    }
    stop.store(true, Ordering::Relaxed);
    writer.await.unwrap();
}

#[tokio::test]
async fn what_is_altered_or_cut_leaves_nothing_behind() {
    let here = engine(Arc::new(MemoryStore::new()), &options(1024));
    create(&here, "f", &of_capacity(3000)).await;
    add(&here, "f", 0..5000).await;
    let bytes = dump(&here, "f").await;
    let store = MemoryStore::new();
    let there = engine(Arc::new(store.clone()), &options(1024));
    let step = bytes.len() / 60;
    for at in (0..bytes.len()).step_by(step) {
        let mut altered = bytes.clone();
        altered[at] ^= 0x40;
        assert!(take_in(&there, altered).await.is_err(), "byte {at}");
        let cut = bytes[..at].to_vec();
        assert!(take_in(&there, cut).await.is_err(), "cut at {at}");
    }
    all_reclaimed(&store).await;
    assert_eq!(stored_bytes(&store, 0..400), 0);
    assert_eq!(
        there.list_filters("", "", None, 10).await.unwrap().filters,
        []
    );
}

#[tokio::test]
async fn a_restore_that_a_crash_cut_off_is_cleaned_up_by_the_next_start() {
    let here = engine(Arc::new(MemoryStore::new()), &options(1024));
    create(&here, "f", &of_capacity(3000)).await;
    add(&here, "f", 0..4000).await;
    let bytes = dump(&here, "f").await;
    let store = MemoryStore::new();
    let there = engine(Arc::new(store.clone()), &options(1024));
    let staged = take_in(&there, bytes).await.unwrap();
    let crashed = store.fork();
    assert!(stored_bytes(&crashed, 0..2000) > 1000);
    assert!(matches!(
        support::kept(&crashed).garbage().unwrap()[..],
        [Garbage::Filter(_)]
    ));
    let _again = engine(Arc::new(crashed.clone()), &options(1024));
    all_reclaimed(&crashed).await;
    assert_eq!(stored_bytes(&crashed, 0..2000), 0);
    // And one that is not adopted, when it is dropped.
    drop(staged);
    all_reclaimed(&store).await;
    assert_eq!(stored_bytes(&store, 0..2000), 0);
}

#[tokio::test]
async fn a_live_filter_is_replaced_only_as_asked_for() {
    let store = MemoryStore::new();
    let it = engine(Arc::new(store.clone()), &options(1024));
    create(&it, "rebuilt", &of_capacity(2000)).await;
    add(&it, "rebuilt", 1000..2000).await;
    let (bytes, rebuilt) = (dump(&it, "rebuilt").await, version(&it, "rebuilt").await);
    assert_eq!(
        restore(&it, "live", &bytes, Replace::Something).await,
        Adopted::Changed
    );
    assert_eq!(
        restore(&it, "live", &bytes, Replace::If(rebuilt)).await,
        Adopted::Changed
    );
    create(&it, "live", &of_capacity(100)).await;
    add(&it, "live", 0..50).await;
    assert_eq!(
        restore(&it, "live", &bytes, Replace::Nothing).await,
        Adopted::Exists
    );
    let before = version(&it, "live").await;
    add(&it, "live", [50]).await;
    assert_eq!(
        restore(&it, "live", &bytes, Replace::If(before)).await,
        Adopted::Changed
    );
    assert_eq!(items(&it, "live").await, 51);
    let now = version(&it, "live").await;
    assert!(matches!(
        restore(&it, "live", &bytes, Replace::If(now)).await,
        Adopted::Replaced(_)
    ));
    assert_eq!(content(&dump(&it, "live").await), content(&bytes));
    assert!(all_exist(&it, "live", 1000..2000).await);
    add(&it, "live", 2000..2100).await;
    it.halt();
    let again = engine(Arc::new(store.clone()), &options(1024));
    assert_eq!(items(&again, "live").await, 1100);
    assert!(all_exist(&again, "live", 1000..2100).await);
    assert!(matches!(
        restore(&again, "live", &bytes, Replace::Anything).await,
        Adopted::Replaced(_)
    ));
    all_reclaimed(&store).await;
    assert_eq!(content(&dump(&again, "live").await), content(&bytes));
}

/// What comes between the look at a restore's condition and its commit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Between {
    Replaced,
    Added,
    Deleted,
    Restored,
    Nothing,
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_changes_a_filter_between_a_restores_condition_and_its_commit_has_it_refused() {
    use Between::{Added, Deleted, Nothing, Replaced, Restored};
    let with_values = FilterRequest {
        value_bits: Some(4),
        ..FilterRequest::default()
    };
    let entries = |items: std::ops::Range<u64>| {
        let values: Arc<[u32]> = items.clone().map(|_| 3).collect();
        (batch(items), values)
    };
    for (between, left) in [
        (Replaced, 50),
        (Added, 51),
        (Deleted, 49),
        (Restored, 10),
        (Nothing, 20),
    ] {
        let gate = GatedStore::new(Arc::new(MemoryStore::new()));
        let it = engine(Arc::new(gate.clone()), &options(1024));
        let live = name("live");
        for (filter, items) in [("live", 0..50), ("new", 100..120), ("third", 200..210)] {
            create(&it, filter, &with_values).await;
            let (filter, (items, values)) = (name(filter), entries(items));
            let entries = Entries {
                items: &items,
                values: (&values).into(),
            };
            let added = it.add_values(&filter, entries, AddMode::Always, None);
            assert!(added.await.is_ok());
        }
        let wanted = version(&it, "live").await;
        let (new, third) = (dump(&it, "new").await, dump(&it, "third").await);
        let (staged, other) = (take_in(&it, new).await, take_in(&it, third).await);

        // What changes the filter is committed, and nobody sees it yet.
        if between != Nothing {
            gate.hold_first(Point::CommitDone);
        }
        let (one, values) = entries(match between {
            Added => 60..61,
            _ => 7..8,
        });
        let changing = tokio::spawn({
            let (it, live) = (it.clone(), live.clone());
            async move {
                let entry = Entries {
                    items: &one,
                    values: (&values).into(),
                };
                match between {
                    Replaced => {
                        let to = Arc::<[u32]>::from([9]);
                        let replacement = Replacements {
                            items: &one,
                            from: (&values).into(),
                            to: (&to).into(),
                        };
                        let replaced = it.replace_values(&live, replacement, None).await;
                        assert_eq!(replaced.unwrap().answer, [ReplaceResult::Replaced]);
                    }
                    Added => {
                        let added = it.add_values(&live, entry, AddMode::Always, None).await;
                        assert_eq!(added.unwrap().answer, [AddResult::Added]);
                    }
                    Deleted => {
                        let deleted = it.delete_values(&live, entry, None).await;
                        assert_eq!(deleted.unwrap().answer, [true]);
                    }
                    Restored => {
                        let adopted = it.adopt(&live, other.unwrap(), Replace::Anything).await;
                        assert!(matches!(adopted, Ok(Adopted::Replaced(_))), "{adopted:?}");
                    }
                    Nothing => {}
                }
            }
        });
        if between != Nothing {
            tokio::task::block_in_place(|| gate.await_arrival());
            assert_eq!(version(&it, "live").await, wanted, "{between:?} is seen");
        }
        let restoring = tokio::spawn({
            let it = it.clone();
            async move {
                let live = name("live");
                let restored = it.adopt(&live, staged.unwrap(), Replace::If(wanted));
                restored.await.unwrap()
            }
        });
        // It has found the version that it wants, and waits for its commit.
        tokio::time::sleep(Duration::from_millis(100)).await;
        gate.open();
        changing.await.unwrap();
        let restored = restoring.await.unwrap();
        match between {
            Nothing => assert!(matches!(restored, Adopted::Replaced(_)), "{restored:?}"),
            _ => assert_eq!(restored, Adopted::Changed, "{between:?}"),
        }
        assert_eq!(items(&it, "live").await, left, "{between:?}");
    }
}

#[tokio::test]
async fn an_adoption_of_unknown_outcome_is_taken_back() {
    for failing in [Failing::Before, Failing::After] {
        let memory = MemoryStore::new();
        let gate = GatedStore::new(Arc::new(memory.clone()));
        let it = engine(Arc::new(gate.clone()), &options(1024));
        create(&it, "live", &of_capacity(100)).await;
        add(&it, "live", 0..50).await;
        create(&it, "new", &of_capacity(100)).await;
        add(&it, "new", 100..120).await;
        let bytes = dump(&it, "new").await;
        let before = version(&it, "live").await;
        let staged = take_in(&it, bytes.clone()).await.unwrap();
        gate.fail_commits(failing);
        let outcome = it.adopt(&name("live"), staged, Replace::Anything).await;
        assert!(matches!(outcome, Err(EngineError::OutcomeUnknown(_))));
        gate.fail_commits(Failing::Nothing);
        add(&it, "live", [50]).await;
        assert_eq!(items(&it, "live").await, 51);
        it.delete(&name("live"), &batch([50]), None).await.unwrap();
        assert_ne!(version(&it, "live").await, before);
        it.halt();
        let again = engine(Arc::new(memory), &options(1024));
        assert_eq!(items(&again, "live").await, 50);
        assert!(all_exist(&again, "live", 0..50).await);
    }
}

/// A server with two filters, whose next commit hangs, and the bytes of one.
async fn before_a_hanging_commit(memory: &MemoryStore) -> (GatedStore, Engine, Vec<u8>) {
    let gate = GatedStore::new(Arc::new(memory.clone()));
    let it = engine(Arc::new(gate.clone()), &options(1024));
    create(&it, "live", &of_capacity(100)).await;
    add(&it, "live", 0..50).await;
    create(&it, "other", &of_capacity(3_000)).await;
    add(&it, "other", 1000..4000).await;
    let bytes = dump(&it, "other").await;
    (gate, it, bytes)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_adoption_that_is_written_after_its_deadline_keeps_all_its_items() {
    for (filter, replace) in [("new", Replace::Nothing), ("live", Replace::Anything)] {
        let memory = MemoryStore::new();
        let (gate, it, bytes) = before_a_hanging_commit(&memory).await;
        let staged = take_in(&it, bytes.clone()).await.unwrap();
        gate.hold_first(Point::CommitDone);
        let late = it.until(Instant::now() + Duration::from_secs(1));
        let late = late.adopt(&name(filter), staged, replace).await;
        assert!(matches!(late, Err(EngineError::OutcomeLate)), "{late:?}");
        gate.open();
        // The lane has the next command behind it.
        add(&it, filter, [5000]).await;
        all_reclaimed(&memory).await;
        assert!(all_exist(&it, filter, (1000..4000).chain([5000])).await);
        tokio::task::block_in_place(|| it.shutdown().unwrap());
        let again = engine(Arc::new(memory.clone()), &options(1024));
        all_reclaimed(&memory).await;
        assert_eq!(items(&again, filter).await, 3001);
        assert!(all_exist(&again, filter, (1000..4000).chain([5000])).await);
        tokio::task::block_in_place(|| again.shutdown().unwrap());
        cuckood::engine::check::check(&support::kept(&memory)).unwrap();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_adoption_that_is_done_says_so_though_its_deadline_passed_meanwhile() {
    let (gate, it, bytes) = before_a_hanging_commit(&MemoryStore::new()).await;
    let expected = it.filter_info(&name("other")).await.unwrap();
    for attempt in 0..20 {
        let staged = take_in(&it, bytes.clone()).await.unwrap();
        gate.hold_first(Point::CommitDone);
        let deadline = Instant::now() + Duration::from_secs(1);
        let (late, named) = (it.until(deadline), name(&format!("new-{attempt}")));
        let adopting = tokio::spawn({
            let named = named.clone();
            async move { late.adopt(&named, staged, Replace::Nothing).await }
        });
        tokio::task::block_in_place(|| gate.await_arrival());
        tokio::time::sleep_until((deadline + Duration::from_millis(30)).into()).await;
        gate.open();
        match adopting.await.unwrap() {
            // On a machine that was too busy to open the gate in time.
            Err(EngineError::OutcomeLate) => {}
            Ok(Adopted::New(info)) => {
                assert_eq!(info.name, named);
                assert_eq!((info.items, info.params), (3000, expected.params));
                assert!(info.disk_bytes > 0);
                return;
            }
            other => panic!("{other:?}"),
        }
    }
    panic!("no attempt was done");
}

/// A filter of every layout with a hot item, over a crash, a clean restart and
/// a dump: no copy is lost, and each can be taken away again.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_million_copies_survive_crash_restart_and_dump() {
    let kinds = [12, 16, 21, 32].map(|bits| FilterRequest {
        fingerprint_bits: Some(bits),
        ..of_capacity(3_000)
    });
    let classic = FilterRequest {
        bucket_size: Some(2),
        ..of_capacity(3_000)
    };
    for request in kinds.into_iter().chain([classic]) {
        let store = MemoryStore::new();
        let open = || engine(Arc::new(store.clone()), &options(1024));
        let mut it = open();
        create(&it, "f", &request).await;
        add(&it, "f", 0..2_000).await;
        for _ in 0..10 {
            add(&it, "f", std::iter::repeat_n(1_000_000, 100_000)).await;
        }
        let counted = |it: Engine| async move {
            let counts = it.count(&name("f"), &batch([1_000_000])).await.unwrap();
            (counts, items(&it, "f").await)
        };
        let before = counted(it.clone()).await;
        assert!(before.0[0] >= 1_000_000);
        assert_eq!(before.1, 1_002_000);
        // From the log, from the images, and from a log over images.
        let of_log = dump(&it, "f").await;
        it.halt();
        it = open();
        assert_eq!(counted(it.clone()).await, before, "{request:?}");
        it.shutdown().unwrap();
        it = open();
        assert_eq!(counted(it.clone()).await, before, "{request:?}");
        assert_eq!(content(&dump(&it, "f").await), content(&of_log));
        add(&it, "f", [1_000_000]).await;
        let hot = batch(std::iter::repeat_n(1_000_000, 1));
        assert_eq!(
            it.delete(&name("f"), &hot, None).await.unwrap().answer,
            [true]
        );
        let info = it.filter_info(&name("f")).await.unwrap();
        assert_eq!(info.sub_filters.len(), 1, "{request:?}");

        let other = engine(Arc::new(MemoryStore::new()), &options(1024));
        restore(&other, "f", &of_log, Replace::Nothing).await;
        assert_eq!(counted(other.clone()).await, before, "{request:?}");
        assert_eq!(content(&dump(&other, "f").await), content(&of_log));
        for _ in 0..10 {
            let copies = batch(std::iter::repeat_n(1_000_000, 100_000));
            let deleted = other
                .delete(&name("f"), &copies, None)
                .await
                .unwrap()
                .answer;
            assert!(deleted.iter().all(|&found| found), "{request:?}");
        }
        assert_eq!(items(&other, "f").await, 2_000);
        assert!(all_exist(&other, "f", 0..2_000).await, "{request:?}");
    }
}

#[tokio::test]
async fn every_state_of_a_filter_has_a_version_of_its_own_whatever_is_changed() {
    let started_ms = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    let memory = MemoryStore::new();
    let mut it = engine(Arc::new(memory.clone()), &options(1024));
    let with_values = FilterRequest {
        value_bits: Some(4),
        ..FilterRequest::default()
    };
    create(&it, "f", &with_values).await;
    let entry = |value: u32| (batch([7]), Arc::<[u32]>::from([value]));
    let mut seen = vec![version(&it, "f").await];
    let (items, values) = entry(3);
    let entries = Entries {
        items: &items,
        values: (&values).into(),
    };
    it.add_values(&name("f"), entries, AddMode::Always, None)
        .await
        .unwrap();
    seen.push(version(&it, "f").await);
    for (from, to) in [(3, 9), (9, 3), (3, 9)] {
        let ((items, from), (_, to)) = (entry(from), entry(to));
        let replacement = Replacements {
            items: &items,
            from: (&from).into(),
            to: (&to).into(),
        };
        it.replace_values(&name("f"), replacement, None)
            .await
            .unwrap();
        seen.push(version(&it, "f").await);
    }
    // Nothing changes, so nothing is another state.
    assert!(all_exist(&it, "f", [7]).await);
    let (gone, values) = (batch([8]), Arc::<[u32]>::from([3]));
    let absent = Entries {
        items: &gone,
        values: (&values).into(),
    };
    it.delete_values(&name("f"), absent, None).await.unwrap();
    it.halt();
    it = engine(Arc::new(memory), &options(1024));
    assert_eq!(version(&it, "f").await, *seen.last().unwrap());
    for (number, version) in seen.iter().enumerate() {
        assert_eq!(version.lineage, seen[0].lineage);
        assert_eq!(version.changes, 1 + number as u64);
        assert!(version.changed_at_ms >= started_ms.as_millis() as u64);
        assert_eq!(FilterVersion::parse(&version.to_string()), Some(*version));
    }
    // The same bytes are another filter wherever they are taken in.
    let bytes = dump(&it, "f").await;
    restore(&it, "f", &bytes, Replace::Something).await;
    let restored = version(&it, "f").await;
    assert_ne!(restored.lineage, seen[0].lineage);
    it.delete_filter(&name("f"), None).await.unwrap();
    create(&it, "f", &with_values).await;
    let created = version(&it, "f").await;
    assert!(![seen[0].lineage, restored.lineage].contains(&created.lineage));
    let missing = it.version(&name("g")).await.unwrap_err();
    assert!(matches!(missing, EngineError::NotFound { .. }), "{missing}");
}

#[tokio::test]
async fn a_version_is_read_without_a_page() {
    let memory = MemoryStore::new();
    let before = engine(Arc::new(memory.clone()), &options(1024));
    create(&before, "f", &of_capacity(20_000)).await;
    add(&before, "f", 0..20_000).await;
    before.shutdown().unwrap();
    let metered = MeteredStore::new(Arc::new(memory));
    let it = engine(Arc::new(metered.clone()), &options(1024));
    let reads = metered.counts().reads;
    for _ in 0..10 {
        version(&it, "f").await;
    }
    assert_eq!(metered.counts().reads, reads);
    assert!(all_exist(&it, "f", [7]).await);
    assert!(metered.counts().reads > reads);
}
