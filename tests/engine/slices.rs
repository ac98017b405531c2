//! Plans that take more than one slice: who need not wait for them, what they
//! leave when they are dropped, and that slicing changes nothing.

use crate::gated::{Failing, GatedStore, Point};
use crate::memory::MemoryStore;
use crate::support::{
    add, all_exist, batch, create, exists, idempotency_key, items, name, of_capacity, options,
};
use cuckood::chain::params::{Defaults, FilterRequest, LayoutKind};
use cuckood::engine::{
    AddOptions, AddResult, Caller, Clock, DiskReserve, Engine, EngineError, EngineOptions,
    IdempotencyKey, NewFilter, Replace,
};
use cuckood::file::FileView;
use cuckood::metrics::Metrics;
use cuckood::store::disk::DiskSpace;
use cuckood::store::{Condition, PageStore};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};
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
    of_capacity(2 * MANY)
}

impl Bench {
    /// Begins to add many items, and waits until the plan is suspended.
    async fn begin(&self, filter: &str, options: AddOptions) -> JoinHandle<Added> {
        self.begin_for(Caller::default(), filter, options, None)
            .await
    }

    async fn begin_for(
        &self,
        caller: Caller,
        filter: &str,
        options: AddOptions,
        key: Option<IdempotencyKey>,
    ) -> JoinHandle<Added> {
        let (engine, name) = (self.engine.for_caller(caller), name(filter));
        let adding = tokio::spawn(async move {
            let added = engine.add(&name, &batch(0..MANY), &options, key).await;
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
        self.hold();
        adding
    }

    fn hold(&self) {
        self.store.hold_first(Point::CommitDone);
        let engine = self.engine.clone();
        tokio::spawn(async move { add(&engine, "small", [7]).await });
        tokio::task::block_in_place(|| self.store.await_arrival());
        assert_eq!(self.metrics.suspended_plans.get(), 1, "it ended too soon");
    }

    /// Waits until a command waits for the lane.
    async fn until_queued(&self) {
        while self
            .metrics
            .lane_queue_depth
            .with_label_values(&["0"])
            .get()
            == 0
        {
            tokio::task::yield_now().await;
        }
    }

    /// Waits until no plan is suspended: a caller is answered before that counts.
    async fn until_ended(&self) {
        while self.metrics.suspended_plans.get() > 0 {
            tokio::task::yield_now().await;
        }
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
async fn a_change_of_a_neighbour_has_its_turn_after_two_slices_of_a_large_one_at_most() {
    let it = bench(&one_lane()).await;
    let of = |key: &str| Caller {
        key: Some(Arc::from(key)),
        has_rivals: true,
        ..Caller::default()
    };
    let large = AddOptions::default();
    let adding = it.begin_for(of("greedy"), "large", large, None).await;
    it.hold();
    let modest = it.engine.for_caller(of("modest"));
    let mut before: Option<JoinHandle<()>> = None;
    for n in 0..4 {
        let modest = modest.clone();
        let change = tokio::spawn(async move { add(&modest, "small", [100 + n]).await });
        it.until_queued().await;
        // The lane stands still, in a commit of its small filter.
        let slices = it.metrics.plan_slices.get();
        it.store.hold_next();
        if let Some(before) = before.replace(change) {
            before.await.unwrap();
        }
        tokio::task::block_in_place(|| it.store.await_arrival());
        let slices = it.metrics.plan_slices.get() - slices;
        assert!(slices <= 2, "change {n} waited for {slices} slices");
        assert_eq!(items(&it.engine, "large").await, 0);
    }
    it.store.open();
    before.unwrap().await.unwrap();
    adding.await.unwrap().unwrap();
    assert_eq!(items(&it.engine, "small").await, 5);
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
    it.until_queued().await;
    it.store.open();
    removal.await.unwrap().unwrap();
    let dropped = adding.await.unwrap().map(|_| ());
    assert!(
        matches!(dropped, Err(EngineError::NotFound { .. })),
        "{dropped:?}"
    );
    it.until_ended().await;
    // One of the same name is another filter.
    create(&it.engine, "large", &with_room()).await;
    assert_eq!(items(&it.engine, "large").await, 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 3)]
async fn a_plan_whose_filter_is_replaced_is_dropped_and_done_to_the_one_in_its_place() {
    let it = bench(&one_lane()).await;
    create(&it.engine, "other", &with_room()).await;
    add(&it.engine, "other", [MANY, MANY + 1]).await;
    let engine = it.engine.clone();
    let dump = tokio::task::spawn_blocking(move || {
        let mut whole = Vec::new();
        engine.dump(&name("other"), &mut whole).unwrap();
        whole
    });
    let (intake, bytes) = (
        it.engine
            .intake(&name("f"), Replace::Nothing)
            .await
            .unwrap(),
        dump.await.unwrap(),
    );
    let staged = move || intake.dump(std::io::Cursor::new(bytes)).unwrap();
    let staged = tokio::task::spawn_blocking(staged).await.unwrap();
    let adding = it.begin_and_hold("large", AddOptions::default()).await;
    let adopted = tokio::spawn({
        let engine = it.engine.clone();
        async move {
            engine
                .adopt(&name("large"), staged, Replace::Something)
                .await
        }
    });
    it.until_queued().await;
    it.store.open();
    adopted.await.unwrap().unwrap();
    let results = adding.await.unwrap().unwrap();
    assert!(results.iter().all(|&it| it == AddResult::Added));
    assert_eq!(items(&it.engine, "large").await, MANY + 2);
    let stale = it.metrics.commands.with_label_values(&["add", "stale"]);
    assert_eq!(stale.get(), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 3)]
async fn a_plan_whose_filter_ends_is_dropped() {
    let now_ms = Arc::new(AtomicU64::new(1_800_000_000_000));
    let it = bench(&EngineOptions {
        clock: Clock::Set(Arc::clone(&now_ms)),
        ..one_lane()
    })
    .await;
    let wanted = NewFilter {
        ttl_seconds: Some(60),
        ..with_room().into()
    };
    let created = it.engine.create_filter(&name("ends"), &wanted, None).await;
    created.unwrap();
    let adding = it.begin_and_hold("ends", AddOptions::default()).await;
    now_ms.fetch_add(61_000, Ordering::SeqCst);
    // Its removal waits for the lane, as everything does.
    it.until_queued().await;
    it.store.open();
    let dropped = adding.await.unwrap().map(|_| ());
    assert!(
        matches!(dropped, Err(EngineError::NotFound { .. })),
        "{dropped:?}"
    );
    create(&it.engine, "ends", &with_room()).await;
    assert_eq!(items(&it.engine, "ends").await, 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 3)]
async fn a_plan_is_dropped_at_its_deadline_and_its_key_may_be_used_for_the_same_request() {
    let it = bench(&one_lane()).await;
    let key = Some(idempotency_key(7, 1));
    let caller = Caller {
        deadline: Some(Instant::now() + Duration::from_secs(3600)),
        ..Caller::default()
    };
    let patient = it.engine.for_caller(caller);
    // Long enough for the items to be hashed, and for the plan to begin.
    let soon = Caller {
        deadline: Some(Instant::now() + Duration::from_secs(5)),
        ..Caller::default()
    };
    let always = AddOptions::default;
    let adding = it.begin_for(soon, "large", always(), key).await;
    it.hold();
    let dropped = adding.await.unwrap().map(|_| ());
    assert!(
        matches!(dropped, Err(EngineError::DeadlineExceeded)),
        "{dropped:?}"
    );
    it.store.open();
    it.until_ended().await;
    assert_eq!(items(&it.engine, "large").await, 0);

    for is_replayed in [false, true] {
        let all = batch(0..MANY);
        let (large, always) = (name("large"), always());
        let again = patient.add(&large, &all, &always, key).await;
        let again = again.unwrap();
        assert_eq!(again.replayed, is_replayed);
        assert_eq!(again.answer, vec![AddResult::Added; MANY as usize]);
        assert_eq!(items(&it.engine, "large").await, MANY);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 3)]
async fn a_stop_waits_for_a_plan_which_is_done() {
    let it = bench(&one_lane()).await;
    let adding = it.begin_and_hold("large", AddOptions::default()).await;
    let engine = it.engine.clone();
    let stopped = tokio::task::spawn_blocking(move || engine.halt());
    // What comes now is refused, and nothing of it is done.
    let refused = loop {
        let always = AddOptions::default();
        let caller = Caller {
            deadline: Some(Instant::now() + Duration::from_millis(20)),
            ..Caller::default()
        };
        let engine = it.engine.for_caller(caller);
        match engine
            .add(&name("large"), &batch([MANY]), &always, None)
            .await
        {
            Err(EngineError::DeadlineExceeded) => {}
            refused => break refused,
        }
    };
    assert!(matches!(refused, Err(EngineError::Stopping)));
    it.store.open();
    stopped.await.unwrap();
    assert_eq!(adding.await.unwrap().unwrap().len() as u64, MANY);
    let kept = Arc::new(PageStore::open(Arc::new(it.store.clone())).unwrap());
    let engine = Engine::open(kept, &one_lane(), Arc::new(Metrics::new().unwrap())).unwrap();
    assert_eq!(items(&engine, "large").await, MANY);
    assert!(all_exist(&engine, "large", 0..MANY).await);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 3)]
async fn a_plan_is_dropped_when_its_key_has_more_bytes_than_it_may_by_its_end() {
    let bytes = {
        let it = bench(&one_lane()).await;
        let large = it.engine.filter_info(&name("large")).await.unwrap();
        large.slot_bytes
    };
    let it = bench(&EngineOptions {
        defaults: Defaults {
            max_bytes_per_key: Some(bytes + 2_048),
            ..one_lane().defaults
        },
        ..one_lane()
    })
    .await;
    let caller = Caller {
        key: Some(Arc::from("tenant")),
        ..Caller::default()
    };
    let tenant = it.engine.for_caller(caller.clone());
    create(&tenant, "of-tenant", &with_room()).await;
    create(&tenant, "growing", &FilterRequest::default()).await;
    let always = AddOptions::default();
    let adding = it
        .begin_for(caller, "of-tenant", always.clone(), None)
        .await;
    it.hold();
    let growing = tokio::spawn({
        let tenant = tenant.clone();
        async move { add(&tenant, "growing", 0..2_000).await }
    });
    it.until_queued().await;
    it.store.open();
    growing.await.unwrap();
    let dropped = adding.await.unwrap().map(|_| ());
    assert!(
        matches!(dropped, Err(EngineError::OverKeyQuota { .. })),
        "{dropped:?}"
    );
    assert_eq!(items(&it.engine, "of-tenant").await, 0);
    // Others, and what takes nothing, are not refused.
    add(&it.engine, "large", [1]).await;
    let deleted = tenant.delete(&name("growing"), &batch([1]), None).await;
    assert_eq!(deleted.unwrap().answer, [true]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 3)]
async fn a_change_of_more_words_than_one_commit_may_write_is_refused_with_the_number_that_fits() {
    const MOST_WORDS: usize = 1 << 20;
    let it = bench(&EngineOptions {
        max_queued_items: 3 * MOST_WORDS,
        ..EngineOptions {
            lanes: 1,
            ..options(120_000)
        }
    })
    .await;
    let wide = FilterRequest {
        layout: Some(LayoutKind::Paged),
        fingerprint_bits: Some(32),
        capacity: Some(16 * MOST_WORDS as u64),
        ..FilterRequest::default()
    };
    create(&it.engine, "wide", &wide).await;
    let always = AddOptions::default();
    let many = batch(0..3 * MOST_WORDS as u64 / 2);
    let refused = it.engine.add(&name("wide"), &many, &always, None).await;
    let Err(EngineError::TooManyWords {
        items: first,
        bound,
    }) = refused
    else {
        panic!("{refused:?}");
    };
    // Two slots a word, so few of the items share one.
    assert_eq!(bound, MOST_WORDS);
    assert!((MOST_WORDS..MOST_WORDS * 5 / 4).contains(&first), "{first}");
    assert_eq!(items(&it.engine, "wide").await, 0);
    // As many as that, less a slice, are one commit.
    add(&it.engine, "wide", 0..first as u64 * 15 / 16).await;
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
    let dropped = adding.await.unwrap().map(|_| ());
    assert!(
        matches!(dropped, Err(EngineError::DiskShort(_))),
        "{dropped:?}"
    );
    assert_eq!(items(&it.engine, "large").await, 0);
    assert_eq!(exists(&it.engine, "large", [1]).await, [false]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 3)]
async fn a_plan_is_dropped_when_a_commit_before_it_is_indeterminate() {
    let it = bench(&one_lane()).await;
    let adding = it.begin("large", AddOptions::default()).await;
    it.store.fail_commits(Failing::After);
    let failed = it
        .engine
        .add(&name("small"), &batch([1]), &AddOptions::default(), None)
        .await;
    assert!(matches!(failed, Err(EngineError::OutcomeUnknown(_))));
    let dropped = adding.await.unwrap().map(|_| ());
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
    it.until_queued().await;
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
            let mut whole = Vec::new();
            engine.dump(&name("grown"), &mut whole).unwrap();
            whole
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
                let intake = it
                    .engine
                    .intake(&name("f"), Replace::Nothing)
                    .await
                    .unwrap();
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
    assert_eq!(
        FileView::open(sliced.unwrap()).unwrap().verify().unwrap(),
        FileView::open(at_once.unwrap()).unwrap().verify().unwrap()
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 3)]
async fn a_plan_that_splits_more_pages_than_a_change_may_write_leaves_nothing() {
    // As many pages as are split in 22,000 adds, once it is as full as this.
    let (capacity, pages) = (1_100_000, 1_137);
    let it = bench(&one_lane()).await;
    let wide = FilterRequest {
        capacity: Some(capacity),
        fingerprint_bits: Some(32),
        ..Default::default()
    };
    create(&it.engine, "wide", &wide).await;
    for from in (0..capacity).step_by(50_000) {
        add(&it.engine, "wide", from..from + 50_000).await;
    }
    let size = async || {
        let info = it.engine.filter_info(&name("wide")).await.unwrap();
        (info.items, info.slot_bytes / 4096)
    };
    assert_eq!(size().await, (capacity, pages));
    let more = capacity..capacity + 30_000;
    let (wide, always) = (name("wide"), AddOptions::default());
    let many = batch(more.clone());
    let refused = it.engine.add(&wide, &many, &always, None).await;
    let refused = refused.map(|_| ());
    assert!(
        matches!(refused, Err(EngineError::TooManyWords { .. })),
        "{refused:?}"
    );
    assert_eq!(size().await, (capacity, pages));
    assert!(
        !exists(&it.engine, "wide", more.clone())
            .await
            .contains(&true)
    );

    // Fewer at once take many slices, too, and have room in memory and log.
    let (slices, logged) = (
        it.metrics.plan_slices.get(),
        it.metrics.log_bytes_written.get(),
    );
    add(&it.engine, "wide", more.start..more.start + 15_000).await;
    let (items, grown) = size().await;
    assert_eq!(items, capacity + 15_000);
    assert!((pages + 500..2 * pages).contains(&grown), "{grown} pages");
    assert!(it.metrics.plan_slices.get() > slices);
    let record = it.metrics.log_bytes_written.get() - logged;
    assert!(record < 16 << 20, "{record} bytes");
    let all = (0..more.start + 15_000).step_by(7);
    assert!(all_exist(&it.engine, "wide", all).await);
}
