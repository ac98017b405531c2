//! Opening an engine and stopping it: what it is made of, and its threads.

use super::caller::Caller;
use super::clock::{Clock, ClockState, EngineClock, TimeElsewhere};
use super::compactions::{BegunCompaction, Compactions};
use super::disk::{Disk, Health};
use super::dump_memory::DumpMemory;
use super::filters::Filters;
use super::history::History;
use super::idempotency::guard::IdempotentWrites;
use super::idempotency::imports::Imports;
use super::lane::allowance::Allowances;
use super::lane::commit::{AfterCommit, Lane};
use super::lane::ordering::{LaneHandle, SharedLane, SharedOrdering, Work};
use super::lane::queue::LaneQueue;
use super::lane::shares::QueueShares;
use super::lane::submit::Submitter;
use super::pages::{Bounds, Checkpointer, Loader, PageCache};
use super::quota::Quota;
use super::recovery::Recovery;
use super::sharing::{Begins, Sharing};
use super::state::{Engine, EngineState, SERIAL_BLOCK};
use super::store_work::StoreWork;
use super::tasks::scrub::ScrubOptions;
use super::tasks::{compaction, expiry, scrub, staged, survey, sweep};
use super::threads::{BackgroundTask, Threads, repeat, spawn};
use crate::chain::params::Defaults;
use crate::metrics::Metrics;
use crate::share::{Kind, Resource};
use crate::store::disk::DiskReserve;
use crate::store::{Due, Garbage, PageStore, StoreError};
use crossbeam_channel::Receiver;
use parking_lot::{Mutex, RwLock};
use std::cell::{Cell, RefCell};
use std::ops::ControlFlow;
use std::path::PathBuf;
use std::sync::{Arc, Weak};
use std::time::Duration;

/// Most lanes.
pub const MAX_LANES: usize = 256;

/// Pages that a search for room may look at, and some more for the item's own.
const PAGES_PER_SEARCH: usize = crate::cuckoo::kick::MAX_PAGES_PER_SEARCH + 176;

/// How often the store's disk is looked at.
const LOOK_EVERY: Duration = Duration::from_millis(250);

/// How long a stop stores pages before it leaves the rest to the log.
const STOP_PATIENCE: Duration = Duration::from_secs(5);

/// Entries of the list of what ends that are counted at a start.
const MAX_TOLD: usize = 100_000;

/// How the engine is sized. Every bound is a number of bytes, items or filters.
#[derive(Clone, Debug)]
pub struct EngineOptions {
    /// Where the time comes from.
    pub clock: Clock,
    /// What new filters get, and may have.
    pub defaults: Defaults,
    /// Writer threads, 1 to 256; a filter always has the same one. A small
    /// cache gets fewer: each needs about 28 MiB of it. A pod has the lanes of its
    /// cluster, of which so many plan large changes at the same time.
    pub lanes: usize,
    /// Bytes of resident pages, at least 1 MiB.
    pub cache_bytes: u64,
    /// Bytes of pages that wait for a checkpoint, at most a quarter of the
    /// cache; commits wait at the bound.
    pub max_dirty_bytes: u64,
    /// Bytes of redo records that wait for a checkpoint; commits wait at the
    /// bound.
    pub max_log_bytes: u64,
    /// Bytes of page images written at once by a checkpoint.
    pub checkpoint_slice_bytes: u64,
    /// Percent of a filter's items after whose deletion it is compacted though
    /// it was not asked for, 0 to 100; 0: never.
    pub compaction_threshold_percent: u8,
    /// Probes of one question: its items times the sub-filters that are asked.
    pub max_probes: usize,
    /// Bytes of pages that are read for questions at the same time, beside the
    /// cache; further reads wait.
    pub max_cold_read_bytes: u64,
    /// Nobody waits behind a read that the disk has not answered for so long.
    pub read_patience: Duration,
    /// Percent of what callers can hold that one API key gets while there are
    /// others, 1 to 100.
    pub key_share_percent: u8,
    /// Filters open at the same time.
    pub max_open_filters: usize,
    /// Commands that may wait in front of one lane.
    pub max_queued_commands: usize,
    /// Bytes of answers kept for retries, at most; more requests with a key
    /// are refused.
    pub max_retry_bytes: u64,
    /// Imports whose progress is kept; further ones are refused.
    pub max_imports: u64,
    /// Bytes of the store's disk that changes leave alone.
    pub disk_reserve: DiskReserve,
    /// Where dumps that come are kept until all of them was verified.
    pub spool: PathBuf,
    /// Items that may wait in front of one lane; one command may exceed it if
    /// nothing else waits.
    pub max_queued_items: usize,
    /// For tests: what looks at the store after each commit.
    pub after_commit: Option<AfterCommit>,
}

impl EngineOptions {
    /// What servers use.
    pub const READ_PATIENCE: Duration = Duration::from_secs(2);

    /// A cache of so many bytes, a quarter of which may wait for a checkpoint, and
    /// everything else as it suits tests, fuzzing and benches. A server says all of
    /// it.
    pub fn with_cache(cache_bytes: u64) -> EngineOptions {
        EngineOptions {
            clock: Clock::System,
            defaults: Defaults::default(),
            lanes: 2,
            cache_bytes,
            max_dirty_bytes: cache_bytes / 4,
            max_log_bytes: 1 << 20,
            checkpoint_slice_bytes: 256 << 10,
            compaction_threshold_percent: 0,
            max_probes: 4_000_000,
            max_cold_read_bytes: 64 << 20,
            read_patience: EngineOptions::READ_PATIENCE,
            key_share_percent: 50,
            max_open_filters: 64,
            max_queued_commands: 256,
            max_retry_bytes: 1 << 20,
            max_imports: 100,
            disk_reserve: DiskReserve::Usual,
            spool: PathBuf::from("/tmp"),
            max_queued_items: 1_000_000,
            after_commit: None,
        }
    }
}

/// What an engine is given that shares its lanes with others.
pub struct SharedLanes {
    /// Which life of what they share.
    pub epoch: u64,
    /// By number.
    pub lanes: Vec<SharedLane>,
    /// What time it is elsewhere.
    pub time: TimeElsewhere,
}

/// Lanes that may be at work at the same time: no more than can plan a search for room
/// each.
fn at_work(options: &EngineOptions, cache: &PageCache) -> usize {
    let frames = cache.capacity() as usize;
    let most = (frames / (6 * PAGES_PER_SEARCH)).clamp(1, MAX_LANES);
    options.lanes.clamp(1, most)
}

/// After a start the wall clock is believed, whatever it was before. How much
/// that ends is said, in case it is wrong.
fn tell_what_ended_meanwhile(
    store: &PageStore,
    clock: &EngineClock,
    metrics: &Metrics,
) -> Result<(), StoreError> {
    let due = store.due_entries(0, clock.now_ms(), MAX_TOLD)?;
    let is_filter = |due: &&Due| matches!(due, Due::Filter { .. });
    let filters = due.iter().flatten().filter(is_filter).count();
    metrics.ended_while_stopped.set(filters as i64);
    if filters > 0 {
        tracing::warn!(
            filters,
            now_ms = clock.now_ms(),
            "filters have ended while the server did not run, by the system's clock"
        );
    }
    Ok(())
}

impl Engine {
    /// Replays the redo log and starts the lanes. Blocks until ready to serve.
    ///
    /// # Errors
    /// The store can't be read, or holds corrupt bytes that are needed now.
    pub fn open(
        store: Arc<PageStore>,
        options: &EngineOptions,
        metrics: Arc<Metrics>,
    ) -> Result<Engine, StoreError> {
        Engine::start(store, options, metrics, None)
    }

    /// The same for one that may share its lanes with others: something else orders its
    /// commits then, and those of others are applied.
    ///
    /// # Errors
    /// As for one that is alone.
    pub fn start(
        store: Arc<PageStore>,
        options: &EngineOptions,
        metrics: Arc<Metrics>,
        shared: Option<SharedLanes>,
    ) -> Result<Engine, StoreError> {
        let cache = Arc::new(PageCache::new(options.cache_bytes, &metrics));
        let frames = cache.capacity() as usize;
        let at_work = at_work(options, &cache);
        // Alone it has fewer lanes rather than lanes that can't plan.
        let lane_count = shared.as_ref().map_or(at_work, |it| it.lanes.len());
        let page_bytes = u64::from(crate::chain::params::PAGE_BYTES);
        let bounds = Bounds {
            max_dirty_pages: (options.max_dirty_bytes / page_bytes).clamp(1, frames as u64 / 4),
            max_log_bytes: options.max_log_bytes.max(1),
            slice_pages: usize::try_from(options.checkpoint_slice_bytes / page_bytes)
                .unwrap_or(usize::MAX)
                .clamp(1, frames / 4),
        };
        let disk = Arc::new(Disk::new(
            Arc::clone(&store),
            options.disk_reserve,
            Arc::clone(&metrics),
        ));
        let checkpointer = Arc::new(Checkpointer::new(
            lane_count,
            bounds,
            Arc::clone(&cache),
            Arc::clone(&store),
            Arc::clone(&disk),
            Arc::clone(&metrics),
        ));
        let share = options.key_share_percent;
        let lent = |name, bound| Resource::new(name, Kind::Lent, bound, share, &metrics);
        let loader = Arc::new(Loader {
            store: Arc::clone(&store),
            cache: Arc::clone(&cache),
            checkpointer: Arc::clone(&checkpointer),
            pinnable: lent("pinned_pages", frames as u64 / 4),
        });
        let store_work = Arc::new(StoreWork::new(
            Arc::clone(&store),
            options.max_cold_read_bytes,
            options.read_patience,
            options.key_share_percent,
            &metrics,
        )?);
        let filters = Arc::new(Filters::new(
            options.max_open_filters,
            metrics.open_filters.clone(),
        ));

        // The rest is for those who name one filter.
        let looked_up = lent("open_filters", (options.max_open_filters as u64 / 2).max(1));

        let recovered = Recovery {
            store: &store,
            filters: &filters,
            checkpointer: &checkpointer,
            lanes: lane_count,
        }
        .run()?;
        if recovered.records > 0 {
            tracing::info!(
                records = recovered.records,
                slots = recovered.slots,
                "replayed the redo log"
            );
        }
        checkpointer.reclaim_soon(store.garbage()?);
        if shared.is_none() {
            // Nobody will name them: the directory was that of a pod once.
            let staged = store.staged()?.into_iter().map(Garbage::Filter);
            checkpointer.reclaim_soon(staged);
        }
        let clock = Arc::new(EngineClock::start(options.clock.clone()));
        if let Some(shared) = &shared {
            clock.go_on_from(&shared.time);
        }
        tell_what_ended_meanwhile(&store, &clock, &metrics)?;
        let (idempotent_writes, imports) = kept(options, &store, &store_work, &clock, &metrics)?;
        let first = store.reserve_serials(SERIAL_BLOCK)?;
        let (compactions, begun) =
            Compactions::new(Arc::clone(&metrics), options.key_share_percent);
        let quota = Arc::new(Quota::new(&options.defaults, &metrics, &store)?);
        if lane_count > at_work {
            tracing::info!(
                lanes = lane_count,
                at_work,
                "the cluster has more lanes than may plan large changes at the same time"
            );
        }
        let room = Arc::clone(&checkpointer);
        let allowances = Allowances::new(frames, lane_count, at_work, move || room.has_room());
        let submitter = Submitter {
            queues: RwLock::new(Vec::new()),
            lanes: lane_count,
            is_shared: shared.is_some(),
            shares: QueueShares::new(
                lane_count,
                options.max_queued_commands,
                options.max_queued_items,
                options.key_share_percent,
                &metrics,
            ),
            allowances: Arc::new(allowances),
            disk: Arc::clone(&disk),
            cache: Arc::clone(&cache),
            loader: Arc::clone(&loader),
            store_work: Arc::clone(&store_work),
            metrics: Arc::clone(&metrics),
        };
        let items = |outcome| metrics.items.with_label_values(&["exists", outcome]);
        let shared = shared.map(|it| Sharing::of(it.epoch, it.lanes));
        let (sharing, begin) = shared.unzip();
        let state = Arc::new(EngineState {
            spool: options.spool.clone(),
            clock,
            defaults: options.defaults.clone(),
            max_probes: options.max_probes,
            cached_reads: metrics.page_reads.with_label_values(&["cache"]),
            items_found: items("found"),
            items_absent: items("absent"),
            quota,
            disk,
            store,
            store_work,
            cache,
            checkpointer,
            loader,
            filters,
            history: History::default(),
            looked_up,
            idempotent_writes: Arc::new(idempotent_writes),
            imports: Arc::new(imports),
            compactions: Arc::new(compactions),
            dump_memory: DumpMemory::new(),
            serials: Mutex::new(first..first + SERIAL_BLOCK),
            lanes: submitter,
            sharing,
            threads: Threads::default(),
            metrics,
        });
        let engine = Engine {
            paces: None,
            state,
            caller: Caller::default(),
        };
        engine.start_lanes(begin.unwrap_or_default(), options.after_commit)?;
        let checkpointer = Arc::clone(&engine.state.checkpointer);
        let thread = spawn("checkpoint", move || checkpointer.run())?;
        *engine.state.threads.checkpointer.lock() = Some(thread);
        engine.start_tasks(begun, options.compaction_threshold_percent)?;
        Ok(engine)
    }

    fn start_lanes(
        &self,
        begin: Vec<Begins>,
        after_commit: Option<AfterCommit>,
    ) -> Result<(), StoreError> {
        let state = &self.state;
        let mut begin = begin.into_iter();
        for index in 0..state.lanes.lanes {
            let depth = &state.metrics.lane_queue_depth;
            let depth = depth.with_label_values(&[&index.to_string()]);
            let waits = state.metrics.lane_queue_wait_seconds.clone();
            let queue = Arc::new(LaneQueue::new(depth, waits));
            let begins = begin.next();
            let handle = || LaneHandle(Arc::clone(&queue));
            let follow = begins.as_ref().map(|it| it.0.start(handle()));
            let shared = begins.and_then(|it| self.shared_ordering(index, it));
            let mut lane = self.lane(index, Arc::clone(&queue), shared);
            lane.after_commit = after_commit;
            let thread = spawn(&format!("lane-{index}"), move || lane.run())?;
            if let Some(follow) = follow {
                let thread = spawn(&format!("follow-{index}"), follow)?;
                state.threads.lanes.lock().push(thread);
            }
            state.lanes.queues.write().push(queue);
            state.threads.lanes.lock().push(thread);
        }
        Ok(())
    }

    /// A lane that works on what is put into this queue.
    pub(super) fn lane(
        &self,
        number: usize,
        queue: Arc<LaneQueue>,
        shared: Option<Box<SharedOrdering>>,
    ) -> Lane {
        let state = &self.state;
        Lane {
            number,
            queue,
            max_pages: state.lanes.max_pages(),
            allowances: Arc::clone(&state.lanes.allowances),
            filters: Arc::clone(&state.filters),
            quota: Arc::clone(&state.quota),
            disk: Arc::clone(&state.disk),
            clock: Arc::clone(&state.clock),
            cache: Arc::clone(&state.cache),
            checkpointer: Arc::clone(&state.checkpointer),
            loader: Arc::clone(&state.loader),
            store: Arc::clone(&state.store),
            shared,
            most_commands: Cell::new(usize::MAX),
            after_commit: None,
            metrics: Arc::clone(&state.metrics),
        }
    }

    fn shared_ordering(
        &self,
        lane: usize,
        (order, last_serial): Begins,
    ) -> Option<Box<SharedOrdering>> {
        let state = &self.state;
        let sharing = state.sharing.as_ref()?;
        Some(Box::new(SharedOrdering {
            order,
            place: Arc::clone(&sharing.lanes.get(lane)?.place),
            lane: lane as u32,
            clock: Arc::clone(&state.clock),
            claims: Arc::clone(&sharing.claims),
            idempotent_writes: Arc::clone(&state.idempotent_writes),
            imports: Arc::clone(&state.imports),
            work: RefCell::new(Work::after(last_serial)),
        }))
    }

    fn start_tasks(
        &self,
        begun: Receiver<BegunCompaction>,
        threshold_percent: u8,
    ) -> Result<(), StoreError> {
        self.start_task("expiry", expiry::run)?;
        self.start_task("sweep", sweep::run)?;
        if self.state.sharing.is_some() {
            self.start_task("staged", staged::run)?;
        }
        // Each on a thread of its own: the one that looks may hang with the disk.
        let looks: [fn(&Disk); 2] = [Disk::look, Disk::watch];
        for (name, look) in ["disk", "disk-watch"].into_iter().zip(looks) {
            self.start_task(name, move |state, stop| {
                repeat(state, stop, LOOK_EVERY, |state| {
                    look(&state.disk);
                    ControlFlow::Continue(LOOK_EVERY)
                });
            })?;
        }
        self.start_task("compaction", move |state, stop| {
            compaction::run(state, &begun, stop, threshold_percent);
        })
    }

    fn start_task(
        &self,
        name: &str,
        run: impl FnOnce(&Weak<EngineState>, &Receiver<()>) + Send + 'static,
    ) -> Result<(), StoreError> {
        // The task does not keep the engine open.
        let state = Arc::downgrade(&self.state);
        let task = BackgroundTask::start(name, move |stop| run(&state, stop))?;
        self.state.threads.tasks.lock().push(task);
        Ok(())
    }

    /// From now on keeps the metrics about filters: how many there are, how
    /// many exceed their rate or are nearly full, and series of their own of so
    /// many of the largest, at most [`MAX_NAMED_FILTERS`](super::MAX_NAMED_FILTERS).
    /// From time to time it notes how all of them are
    /// ([`filter_history`](Self::filter_history)).
    /// To be called once.
    ///
    /// # Errors
    /// The thread can't be started.
    pub fn survey_filters(&self, named: usize) -> Result<(), StoreError> {
        self.start_task("survey", move |state, stop| survey::run(state, stop, named))
    }

    /// From now on reads all that is stored, again and again, and says in the
    /// metrics and the log what is not as it should be. To be called once.
    ///
    /// # Errors
    /// The thread can't be started.
    pub fn scrub(&self, options: ScrubOptions) -> Result<(), StoreError> {
        self.start_task("scrub", move |state, stop| scrub::run(state, stop, options))
    }

    /// What time it is for the engine, and what the system says.
    pub fn clock(&self) -> ClockState {
        self.state.clock.state()
    }

    /// Believes the system's clock, which has jumped ahead: what has ended by it
    /// is gone from now on.
    pub fn confirm_clock(&self) -> ClockState {
        self.state.clock.confirm();
        expiry::look_at_clock(&self.state)
    }

    /// Whether there is room for changes, and whether the store takes them, as
    /// of a moment ago.
    pub fn health(&self) -> Health {
        self.state.disk.health()
    }

    /// Stops taking commands, finishes those taken and checkpoints for some seconds, so
    /// that the next start replays little; or, on a disk that is too full for that, all
    /// of the log.
    /// Blocks. A second call does nothing.
    ///
    /// # Errors
    /// The store refused; what was acknowledged is in its log.
    pub fn shutdown(&self) -> Result<(), StoreError> {
        self.halt();
        self.state.disk.look();
        if self.state.disk.has_background_room() {
            self.state.checkpointer.checkpoint_all(STOP_PATIENCE)?;
        }
        self.state.store.sync()
    }

    /// Stops as [`shutdown`](Self::shutdown) does but writes no checkpoint: the
    /// next start has to replay the log.
    pub fn halt(&self) {
        let threads = &self.state.threads;
        for task in std::mem::take(&mut *threads.tasks.lock()) {
            task.end();
        }
        for queue in self.state.lanes.queues.write().drain(..) {
            queue.close();
        }
        for thread in std::mem::take(&mut *threads.lanes.lock()) {
            // A lane that panicked has said so.
            let _ = thread.join();
        }
        self.state.checkpointer.stop();
        if let Some(thread) = threads.checkpointer.lock().take() {
            let _ = thread.join();
        }
    }
}

/// What callers may have kept; what the store holds of it is accounted for.
fn kept(
    options: &EngineOptions,
    store: &Arc<PageStore>,
    work: &Arc<StoreWork>,
    clock: &Arc<EngineClock>,
    metrics: &Arc<Metrics>,
) -> Result<(IdempotentWrites, Imports), StoreError> {
    let share = options.key_share_percent;
    let of = |name, bound| Resource::new(name, Kind::Kept, bound, share, metrics);
    let answers = of("idempotency_bytes", options.max_retry_bytes);
    let imports = of("imports_kept", options.max_imports);
    let totals = store.side_record_totals()?;
    for (owner, of_key) in &totals.of_keys {
        answers.adjust(Some(owner), 0, of_key.retry_bytes);
        imports.adjust(Some(owner), 0, of_key.imports);
    }
    // The rest is nobody's.
    answers.adjust(None, answers.held(), totals.retry_bytes);
    imports.adjust(None, imports.held(), totals.imports);
    let writes = IdempotentWrites::new(
        Arc::clone(store),
        Arc::clone(work),
        Arc::clone(clock),
        Arc::clone(metrics),
        answers,
        totals.retry_ends,
    );
    let imports = Imports::new(Arc::clone(store), Arc::clone(metrics), imports);
    Ok((writes, imports))
}
