//! Plans that take more than one slice: who need not wait for them, what they
//! leave when they are dropped, and that slicing changes nothing.

use crate::gated::{Failing, GatedStore, Point};
use crate::support::{add, all_exist, batch, create, exists, items, name, options};
use cuckood::chain::params::{Defaults, FilterRequest};
use cuckood::engine::{
    AddOptions, AddResult, Digest, DiskReserve, DumpSink, Engine, EngineError, EngineOptions,
    NewFilter, Replace,
};
use cuckood::metrics::Metrics;
use cuckood::store::disk::DiskSpace;
use cuckood::store::memory::MemoryStore;
use cuckood::store::{Condition, PageStore};
use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Duration;
use tokio::task::JoinHandle;

/// As many items as a request may have.
const MANY: u64 = 250_000;

type Added = Result<Vec<AddResult>, EngineError>;

/// An engine of one lane, and a filter that has room for many items.
struct Bench {
    engine: Engine,
    metrics: Arc<Metrics>,
    store: GatedStore,
}

/// All bytes of a dump.
struct Whole(Vec<u8>);

impl DumpSink for Whole {
    fn begin(&mut self, _: Digest, _: u64) -> ControlFlow<()> {
        ControlFlow::Continue(())
    }

    fn piece(&mut self, bytes: Vec<u8>) -> ControlFlow<()> {
        self.0.extend(bytes);
        ControlFlow::Continue(())
    }
}

fn one_lane() -> EngineOptions {
    EngineOptions {
        lanes: 1,
        max_log_bytes: 64 << 20,
        ..options(16_384)
    }
}

async fn bench(options: &EngineOptions) -> Bench {
    let store = GatedStore::new(Arc::new(MemoryStore::new()));
    let metrics = Arc::new(Metrics::new().unwrap());
    let kept = Arc::new(PageStore::open(Arc::new(store.clone())).unwrap());
    let engine = Engine::open(kept, options, Arc::clone(&metrics)).unwrap();
    create(&engine, "large", &with_room()).await;
    create(&engine, "small", &FilterRequest::default()).await;
    Bench {
        engine,
        metrics,
        store,
    }
}

fn with_room() -> FilterRequest {
    FilterRequest {
        capacity: Some(2 * MANY),
        ..Default::default()
    }
}

impl Bench {
    /// Begins to add many items, and waits until the plan is suspended.
    async fn begin(&self, filter: &str, options: AddOptions) -> JoinHandle<Added> {
        let (engine, name) = (self.engine.clone(), name(filter));
        let adding = tokio::spawn(async move {
            let added = engine.add(&name, &batch(0..MANY), &options, None).await;
            added.map(|it| it.answer)
        });
        while self.metrics.suspended_plans.get() == 0 {
            assert!(!adding.is_finished(), "it was planned at once");
            tokio::task::yield_now().await;
        }
        adding
    }

    /// The same, and has the lane wait for a commit of another filter while the
    /// plan is suspended.
    async fn begin_and_hold(&self, filter: &str, options: AddOptions) -> JoinHandle<Added> {
        let adding = self.begin(filter, options).await;
        self.store.hold_first(Point::CommitDone);
        let engine = self.engine.clone();
        tokio::spawn(async move { add(&engine, "small", [7]).await });
        tokio::task::block_in_place(|| self.store.await_arrival());
        assert_eq!(self.metrics.suspended_plans.get(), 1, "it ended too soon");
        adding
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 3)]
async fn others_commit_while_a_large_batch_is_planned_which_is_still_all_or_nothing() {
    let it = bench(&one_lane()).await;
    let adding = it.begin("large", AddOptions::default()).await;
    let mut between = 0;
    while !adding.is_finished() {
        add(&it.engine, "small", [between]).await;
        between += 1;
        // Nothing of the batch is seen before all of it is.
        let seen = items(&it.engine, "large").await;
        assert!(seen == 0 || seen == MANY, "{seen}");
    }
    assert!(between >= 3, "{between} commits came in between");
    let results = adding.await.unwrap().unwrap();
    assert_eq!(results.len() as u64, MANY);
    assert!(results.iter().all(|&it| it == AddResult::Added));
    assert!(all_exist(&it.engine, "large", 0..MANY).await);
    assert!(it.metrics.plan_slices.get() >= 10);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 3)]
async fn changes_of_its_filter_wait_for_a_plan_and_questions_do_not() {
    let it = bench(&one_lane()).await;
    add(&it.engine, "large", [MANY]).await;
    let adding = it.begin_and_hold("large", AddOptions::default()).await;
    let later = tokio::spawn({
        let engine = it.engine.clone();
        async move {
            let name = name("large");
            let deleted = engine.delete(&name, &batch([5, MANY]), None).await;
            deleted.unwrap().answer
        }
    });
    assert_eq!(exists(&it.engine, "large", [5, MANY]).await, [false, true]);
    assert_eq!(items(&it.engine, "large").await, 1);
    it.store.open();
    // It comes behind the batch, or 5 would not be there to be deleted.
    assert_eq!(later.await.unwrap(), [true, true]);
    adding.await.unwrap().unwrap();
    assert_eq!(items(&it.engine, "large").await, MANY - 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 3)]
async fn a_plan_whose_filter_is_removed_is_dropped() {
    let it = bench(&one_lane()).await;
    let adding = it.begin_and_hold("large", AddOptions::default()).await;
    let removal = tokio::spawn({
        let engine = it.engine.clone();
        async move { engine.delete_filter(&name("large"), None).await }
    });
    while it.metrics.lane_queue_depth.with_label_values(&["0"]).get() == 0 {
        tokio::task::yield_now().await;
    }
    it.store.open();
    removal.await.unwrap().unwrap();
    let dropped = adding.await.unwrap();
    assert!(
        matches!(dropped, Err(EngineError::NotFound { .. })),
        "{dropped:?}"
    );
    // It answers first, and counts then.
    while it.metrics.suspended_plans.get() > 0 {
        tokio::task::yield_now().await;
    }
    // One of the same name is another filter.
    create(&it.engine, "large", &with_room()).await;
    assert_eq!(items(&it.engine, "large").await, 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 3)]
async fn a_plan_is_dropped_when_the_disk_is_almost_full_by_its_end() {
    let options = EngineOptions {
        disk_reserve: DiskReserve::Bytes(1 << 30),
        ..one_lane()
    };
    let it = bench(&options).await;
    let adding = it.begin_and_hold("large", AddOptions::default()).await;
    it.store.set_condition(Condition {
        disk: Some(DiskSpace {
            free_bytes: 1 << 20,
            size_bytes: 1 << 40,
            device: 1,
        }),
        ..Condition::default()
    });
    while it.engine.health().disk_short.is_none() {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    it.store.open();
    let dropped = adding.await.unwrap();
    assert!(
        matches!(dropped, Err(EngineError::DiskShort(_))),
        "{dropped:?}"
    );
    assert_eq!(items(&it.engine, "large").await, 0);
    assert_eq!(exists(&it.engine, "large", [1]).await, [false]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 3)]
async fn a_plan_is_dropped_when_a_commit_before_it_is_in_doubt() {
    let it = bench(&one_lane()).await;
    let adding = it.begin("large", AddOptions::default()).await;
    it.store.fail_commits(Failing::After);
    let failed = it
        .engine
        .add(&name("small"), &batch([1]), &AddOptions::default(), None)
        .await;
    assert!(matches!(failed, Err(EngineError::OutcomeUnknown(_))));
    let dropped = adding.await.unwrap();
    assert!(
        matches!(dropped, Err(EngineError::Overloaded(_))),
        "{dropped:?}"
    );
    it.store.fail_commits(Failing::Nothing);
    while it
        .engine
        .add(&name("small"), &batch([1]), &AddOptions::default(), None)
        .await
        .is_err()
    {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    assert_eq!(items(&it.engine, "large").await, 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 3)]
async fn a_filter_that_is_made_with_many_items_keeps_its_room_and_gives_it_back_when_dropped() {
    let room = NewFilter::from(with_room());
    let options = |max_total_bytes| EngineOptions {
        defaults: Defaults {
            max_total_bytes,
            max_expansions: 2,
            ..one_lane().defaults
        },
        ..one_lane()
    };
    let it = bench(&options(None)).await;
    let bytes = it.engine.filter_info(&name("large")).await.unwrap();
    let bytes = bytes.slot_bytes;
    drop(it);
    // Room for two of them and a half.
    let it = bench(&options(Some(2 * bytes + bytes / 2))).await;
    let making = AddOptions {
        create: Some(room.clone()),
        ..AddOptions::default()
    };
    let adding = it.begin_and_hold("made", making).await;
    let refused = it.engine.create_filter(&name("third"), &room, None).await;
    assert!(matches!(refused, Err(EngineError::OverQuota { .. })));
    // Somebody else makes one of the name, which is then the filter meant.
    let other = tokio::spawn({
        let (engine, small) = (it.engine.clone(), FilterRequest::default());
        async move {
            engine
                .create_filter(&name("made"), &small.into(), None)
                .await
        }
    });
    while it.metrics.lane_queue_depth.with_label_values(&["0"]).get() == 0 {
        tokio::task::yield_now().await;
    }
    it.store.open();
    other.await.unwrap().unwrap();
    // It was full long before.
    let added = adding.await.unwrap().unwrap();
    let found = items(&it.engine, "made").await;
    let all = added.iter().filter(|&&it| it == AddResult::Added).count() as u64;
    assert_eq!(found, all);
    assert!(
        it.engine
            .create_filter(&name("third"), &room, None)
            .await
            .is_ok()
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 3)]
async fn the_same_commands_give_the_same_filter_however_they_are_sliced() {
    let digest = |it: &Bench| {
        let engine = it.engine.clone();
        tokio::task::spawn_blocking(move || {
            let mut whole = Whole(Vec::new());
            engine.dump(&name("grown"), &mut whole).unwrap();
            whole.0
        })
    };
    let request = FilterRequest {
        capacity: Some(40_000),
        error_rate: Some(0.001),
        ..Default::default()
    };
    let engines = [bench(&one_lane()).await, bench(&one_lane()).await];
    let mut dumps = Vec::new();
    for (it, at_once) in engines.iter().zip([60_000, 1_000]) {
        let wanted = NewFilter::from(request.clone());
        // The key of the hash is drawn at random: the same filter, then.
        match dumps.is_empty() {
            true => {
                it.engine
                    .create_filter(&name("grown"), &wanted, None)
                    .await
                    .unwrap();
                dumps.push(digest(it).await.unwrap());
            }
            false => {
                let intake = it.engine.intake().await.unwrap();
                let bytes = std::io::Cursor::new(dumps.swap_remove(0));
                let staged = tokio::task::spawn_blocking(move || intake.dump(bytes).unwrap());
                let staged = staged.await.unwrap();
                let grown = name("grown");
                let adopted = it.engine.adopt(&grown, staged, Replace::Nothing);
                adopted.await.unwrap();
            }
        }
        let mut first = 0;
        while first < 120_000 {
            add(&it.engine, "grown", first..first + at_once).await;
            first += at_once;
        }
    }
    let [sliced, at_once] = [digest(&engines[0]).await, digest(&engines[1]).await];
    assert!(engines[0].metrics.plan_slices.get() > engines[1].metrics.plan_slices.get() + 4);
    assert!(sliced.unwrap() == at_once.unwrap());
}
