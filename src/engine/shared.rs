//! What all handles to an engine share, and how a call finds its way: to the
//! published pages for a question, to the filter's lane for a change, to the
//! loader for pages that are not resident.

use super::ID_BLOCK;
use super::answer::{
    AddMode, AddResult, Ends, EngineError, FilterInfo, FilterName, NewFilter, SubFilterInfo,
};
use super::batch::ItemBatch;
use super::clock::{Clock, moment};
use super::disk::{self, Disk};
use super::dump::room::LogRoom;
use super::filters::{self, FilterView, Filters, OpenFilter};
use super::idempotency::guard::Retries;
use super::idempotency::note::Keep;
use super::lane::command::{Command, Create, ItemsCommand, Outcome, Sizes, Verb, Wanted};
use super::lane::commit::Committer;
use super::lane::run::{Lane, Request};
use super::ops::imports::Imports;
use super::pages::{Checkpointer, Loader, PageCache, Pins};
use super::quota::{Quota, Room};
use super::reader::{self, Question, off_thread};
use super::tasks::compaction::{self, Compactions, Job};
use super::tasks::expiry;
use crate::chain::address::PageAddress;
use crate::chain::meta::Chain;
use crate::chain::params::{Defaults, FilterParams, FilterRequest, PAGE_BYTES, ParamsError};
use crate::chain::read::candidate_pages;
use crate::cuckoo::hash::{HashKey, ItemHash};
use crate::metrics::Metrics;
use crate::page::FilterId;
use crate::store::{Expiry, PageStore, StoreError};
use crossbeam_channel::{Receiver, Sender, TrySendError};
use parking_lot::{Mutex, RwLock};
use prometheus::IntCounter;
use std::collections::BTreeSet;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Weak};
use std::thread::JoinHandle;
use std::time::{Duration, SystemTime};
use tokio::sync::oneshot;

/// What all handles to an engine share.
pub(super) struct Shared {
    pub(super) clock: Clock,
    pub(super) defaults: Defaults,
    pub(super) quota: Arc<Quota>,
    pub(super) disk: Arc<Disk>,
    pub(super) max_queued_items: usize,
    /// Pages that one command may touch.
    pub(super) max_pages: usize,
    pub(super) store: Arc<PageStore>,
    pub(super) cache: Arc<PageCache>,
    pub(super) checkpointer: Arc<Checkpointer>,
    pub(super) loader: Arc<Loader>,
    pub(super) filters: Arc<Filters>,
    pub(super) retries: Arc<Retries>,
    pub(super) imports: Arc<Imports>,
    pub(super) metrics: Arc<Metrics>,
    /// Of [`metrics`](Self::metrics), what every question counts: looking a
    /// series up costs more than counting in it.
    pub(super) cached_reads: IntCounter,
    pub(super) items_found: IntCounter,
    pub(super) items_absent: IntCounter,
    /// Empty once the engine stops.
    pub(super) lanes: RwLock<Vec<LaneHandle>>,
    pub(super) lane_count: usize,
    pub(super) threads: Mutex<Vec<JoinHandle<()>>>,
    pub(super) checkpointer_thread: Mutex<Option<JoinHandle<()>>>,
    pub(super) watchers: Mutex<Vec<Watcher>>,
    pub(super) compactions: Arc<Compactions>,
    /// What dumps hold of the redo log.
    pub(super) log_room: Arc<LogRoom>,
    pub(super) ids: Mutex<std::ops::Range<u64>>,
}

/// A thread that looks at something every so often.
pub(super) struct Watcher {
    /// Dropped to end it.
    pub(super) stop: Sender<()>,
    pub(super) thread: JoinHandle<()>,
}

/// What a filter is to be, checked.
pub(super) struct ResolvedFilter {
    pub(super) params: FilterParams,
    pub(super) ttl_seconds: Option<u64>,
}

/// What a filter is created with.
pub(super) struct FirstItems<'a> {
    pub(super) items: &'a ItemBatch,
    pub(super) mode: AddMode,
    pub(super) wanted: Wanted,
}

/// Items worked on before the thread is given back to other requests.
const ITEMS_PER_TURN: usize = 8192;

impl Drop for Shared {
    fn drop(&mut self) {
        // The lanes end with their queues, the checkpointer has none.
        self.checkpointer.stop();
    }
}

/// How commands get into a lane.
pub(super) struct LaneHandle {
    pub(super) commands: Sender<Request>,
    pub(super) queued_items: Arc<AtomicUsize>,
    pub(super) queue_depth: prometheus::IntGauge,
}

impl Shared {
    pub(super) fn start_threads(
        self: &Arc<Self>,
        max_queued_commands: usize,
        jobs: Receiver<Job>,
        compaction_threshold_percent: u8,
    ) -> Result<(), StoreError> {
        for index in 0..self.lane_count {
            let (sender, commands) = crossbeam_channel::bounded(max_queued_commands.max(1));
            let handle = LaneHandle {
                commands: sender,
                queued_items: Arc::new(AtomicUsize::new(0)),
                queue_depth: self
                    .metrics
                    .lane_queue_depth
                    .with_label_values(&[&index.to_string()]),
            };
            let lane = Lane {
                commands,
                queued_items: Arc::clone(&handle.queued_items),
                queue_depth: handle.queue_depth.clone(),
                max_pages: self.max_pages,
                filters: Arc::clone(&self.filters),
                quota: Arc::clone(&self.quota),
                disk: Arc::clone(&self.disk),
                committer: Committer {
                    lane: index,
                    cache: Arc::clone(&self.cache),
                    checkpointer: Arc::clone(&self.checkpointer),
                    loader: Arc::clone(&self.loader),
                    store: Arc::clone(&self.store),
                    metrics: Arc::clone(&self.metrics),
                },
            };
            let thread = std::thread::Builder::new()
                .name(format!("lane-{index}"))
                .spawn(move || lane.run())
                .map_err(|source| StoreError::Thread { source })?;
            self.lanes.write().push(handle);
            self.threads.lock().push(thread);
        }
        let checkpointer = Arc::clone(&self.checkpointer);
        let thread = std::thread::Builder::new()
            .name("checkpoint".to_owned())
            .spawn(move || checkpointer.run())
            .map_err(|source| StoreError::Thread { source })?;
        *self.checkpointer_thread.lock() = Some(thread);
        self.watch("expiry", expiry::run)?;
        self.watch("disk", disk::run)?;
        let threshold = compaction_threshold_percent;
        self.watch("compaction", move |shared, stop| {
            compaction::run(shared, &jobs, stop, threshold);
        })?;
        Ok(())
    }

    /// Starts a thread that looks at something every so often, until the engine
    /// stops.
    pub(super) fn watch(
        self: &Arc<Self>,
        name: &str,
        watch: impl FnOnce(&Weak<Shared>, &Receiver<()>) + Send + 'static,
    ) -> Result<(), StoreError> {
        let (stop, stopped) = crossbeam_channel::bounded(0);
        let shared = Arc::downgrade(self);
        let thread = std::thread::Builder::new()
            .name(name.to_owned())
            .spawn(move || watch(&shared, &stopped))
            .map_err(|source| StoreError::Thread { source })?;
        self.watchers.lock().push(Watcher { stop, thread });
        Ok(())
    }

    /// Checks what a filter is to be, whether it is there or not.
    pub(super) fn resolve_new(&self, wanted: &NewFilter) -> Result<ResolvedFilter, EngineError> {
        let (params, ttl_seconds) = (self.resolve(&wanted.params)?, wanted.ttl_seconds);
        expiry::expiry(ttl_seconds, 0)?;
        Ok(ResolvedFilter {
            params,
            ttl_seconds,
        })
    }

    pub(super) fn resolve(&self, request: &FilterRequest) -> Result<FilterParams, EngineError> {
        let params =
            FilterParams::resolve(request, &self.defaults).map_err(EngineError::InvalidParams)?;
        match params.layout_at(0) {
            Some(_) => Ok(params),
            None => Err(too_many_pages(&params)),
        }
    }

    pub(super) async fn find(&self, name: &FilterName) -> Result<Arc<OpenFilter>, EngineError> {
        self.open(name)
            .await?
            .ok_or_else(|| EngineError::NotFound { name: name.clone() })
    }

    pub(super) async fn open(
        &self,
        name: &FilterName,
    ) -> Result<Option<Arc<OpenFilter>>, EngineError> {
        if let Some(filter) = self.filters.get(name) {
            return Ok(self.not_over(filter));
        }
        // Seldom, and far larger than all else that this future holds.
        Box::pin(self.open_stored(name)).await
    }

    async fn open_stored(&self, name: &FilterName) -> Result<Option<Arc<OpenFilter>>, EngineError> {
        self.make_room().await?;
        let (filters, store, name) = (
            Arc::clone(&self.filters),
            Arc::clone(&self.store),
            name.clone(),
        );
        let found = off_thread(move || filters.open(&name, &store)).await??;
        Ok(found.and_then(|filter| self.not_over(filter)))
    }

    /// The filter, unless it has ended: then it is as good as removed.
    fn not_over(&self, filter: Arc<OpenFilter>) -> Option<Arc<OpenFilter>> {
        (!filter.is_over(&self.clock)).then_some(filter)
    }

    /// Makes sure that one more filter may be open.
    pub(super) async fn make_room(&self) -> Result<(), EngineError> {
        if self.filters.has_room() {
            return Ok(());
        }
        let (filters, checkpointer) = (Arc::clone(&self.filters), Arc::clone(&self.checkpointer));
        let room = off_thread(move || {
            // Filters with dirty pages stay open until a checkpoint wrote them.
            for _ in 0..40 {
                if filters.close_unused() {
                    return true;
                }
                if checkpointer
                    .wait_for_frames(Duration::from_millis(50))
                    .is_err()
                {
                    return false;
                }
            }
            false
        })
        .await?;
        match room {
            true => Ok(()),
            false => Err(EngineError::Overloaded {
                what: "too many filters are in use at the same time",
            }),
        }
    }

    pub(super) async fn create(
        &self,
        name: &FilterName,
        new: &ResolvedFilter,
        first: FirstItems<'_>,
        keep: Option<Keep>,
    ) -> Result<Outcome, EngineError> {
        let created_at_ms = self.clock.now_ms();
        let expiry = expiry::expiry(new.ttl_seconds, created_at_ms)?;
        let room = self.quota.take_new(new.params.first_sub_filter_bytes())?;
        self.make_room().await?;
        let hash_key = random_key()?;
        let items = match Chain::new(new.params.clone(), hash_key, 0) {
            Some(empty) => hashes(&empty, first.items).await,
            None => Arc::from([]),
        };
        let command = Command::Create(Create {
            id: self.next_id().await?,
            name: name.clone(),
            params: new.params.clone(),
            hash_key,
            created_at_ms,
            expiry,
            items,
            mode: first.mode,
            wanted: first.wanted,
        });
        self.submit_new(command, keep, room).await
    }

    pub(super) async fn next_id(&self) -> Result<FilterId, EngineError> {
        loop {
            if let Some(id) = self.ids.lock().next() {
                return Ok(FilterId(id));
            }
            self.disk.check()?;
            let store = Arc::clone(&self.store);
            let first = off_thread(move || store.reserve_filter_ids(ID_BLOCK))
                .await??
                .0;
            let mut ids = self.ids.lock();
            // Another creation may have been quicker; its block serves both,
            // and the numbers of this one are never used.
            if ids.is_empty() {
                *ids = first..first + ID_BLOCK;
            }
        }
    }

    /// Has the lane work on items, bringing in the pages that it needs.
    pub(super) async fn work(
        &self,
        filter: Arc<OpenFilter>,
        verb: Verb,
        items: &ItemBatch,
        keep: Option<&Keep>,
    ) -> Result<Outcome, EngineError> {
        let view = filter.view.load_full();
        let items = hashes(&view.chain, items).await;
        let mut needed: BTreeSet<PageAddress> = BTreeSet::new();
        let mut pins = None;
        if !self.all_resident(&view, &items).await {
            self.note_pages(&view.chain, &items, &mut needed)?;
            pins = Some(Box::pin(self.pin(&filter, &needed)).await?);
        }
        loop {
            let command = Command::Items(ItemsCommand {
                filter: filter.id,
                verb,
                items: Arc::clone(&items),
            });
            let outcome = self
                .submit(
                    command,
                    Some(Arc::clone(&filter)),
                    pins.take(),
                    keep.cloned(),
                )
                .await?;
            let Outcome::NeedsPages(missing) = outcome else {
                return Ok(outcome);
            };
            // What was needed before stays needed: the plan starts over.
            needed.extend(missing);
            self.note_pages(&filter.view.load().chain, &items, &mut needed)?;
            pins = Some(Box::pin(self.pin(&filter, &needed)).await?);
        }
    }

    async fn all_resident(&self, view: &FilterView, items: &[ItemHash]) -> bool {
        let is_resident = |page: PageAddress| {
            let table = view.tables.get(page.sub as usize);
            table.is_some_and(|table| self.cache.is_resident(table, page.page))
        };
        for turn in items.chunks(ITEMS_PER_TURN) {
            let resident = |&hash: &ItemHash| candidate_pages(&view.chain, hash).all(is_resident);
            if !turn.iter().all(resident) {
                return false;
            }
            tokio::task::yield_now().await;
        }
        true
    }

    /// Adds the pages that the items may lie on, but not many more than a
    /// command may touch.
    fn note_pages(
        &self,
        chain: &Chain,
        items: &[ItemHash],
        pages: &mut BTreeSet<PageAddress>,
    ) -> Result<(), EngineError> {
        for &hash in items {
            for page in candidate_pages(chain, hash) {
                pages.insert(page);
                if pages.len() > self.max_pages {
                    return Err(EngineError::TooManyPages {
                        needed: pages.len(),
                        bound: self.max_pages,
                    });
                }
            }
        }
        Ok(())
    }

    /// Pins pages that [`note_pages`](Self::note_pages) found few enough.
    pub(super) async fn pin(
        &self,
        filter: &Arc<OpenFilter>,
        pages: &BTreeSet<PageAddress>,
    ) -> Result<Pins, EngineError> {
        let permit = self
            .loader
            .permit(pages.len())
            .await
            .ok_or(EngineError::Stopping)?;
        let (loader, view) = (Arc::clone(&self.loader), filter.view.load_full());
        let pages: Vec<PageAddress> = pages.iter().copied().collect();
        Ok(off_thread(move || loader.pin(&view.tables, &pages, permit)).await??)
    }

    /// Puts a command into the queue of its lane and waits for the outcome.
    pub(super) async fn submit(
        &self,
        command: Command,
        filter: Option<Arc<OpenFilter>>,
        pins: Option<Pins>,
        keep: Option<Keep>,
    ) -> Result<Outcome, EngineError> {
        let (reply, outcome) = oneshot::channel();
        let request = Request {
            command,
            filter,
            pins,
            keep,
            room: None,
            reply,
        };
        self.outcome_of(request, outcome).await
    }

    /// The same for a filter that is not there yet and was promised its room.
    pub(super) async fn submit_new(
        &self,
        command: Command,
        keep: Option<Keep>,
        room: Option<Room>,
    ) -> Result<Outcome, EngineError> {
        let (reply, outcome) = oneshot::channel();
        let request = Request {
            command,
            filter: None,
            pins: None,
            keep,
            room,
            reply,
        };
        self.outcome_of(request, outcome).await
    }

    async fn outcome_of(
        &self,
        request: Request,
        outcome: oneshot::Receiver<Result<Outcome, EngineError>>,
    ) -> Result<Outcome, EngineError> {
        let kind = request.command.kind();
        let outcome = match self.enqueue(request) {
            Ok(()) => outcome.await.unwrap_or(Err(EngineError::Stopping)),
            Err(error) => Err(error),
        };
        self.note_outcome(kind, &outcome);
        outcome
    }

    /// As [`submit`](Self::submit), from a thread that may block.
    pub(super) fn submit_blocking(
        &self,
        command: Command,
        filter: Arc<OpenFilter>,
    ) -> Result<Outcome, EngineError> {
        let kind = command.kind();
        let (reply, outcome) = oneshot::channel();
        let request = Request {
            command,
            filter: Some(filter),
            pins: None,
            keep: None,
            room: None,
            reply,
        };
        let outcome = match self.enqueue(request) {
            Ok(()) => outcome
                .blocking_recv()
                .unwrap_or(Err(EngineError::Stopping)),
            Err(error) => Err(error),
        };
        self.note_outcome(kind, &outcome);
        outcome
    }

    fn note_outcome(&self, kind: &str, outcome: &Result<Outcome, EngineError>) {
        let label = match outcome {
            Ok(outcome) => outcome.label(),
            Err(EngineError::OutcomeUnknown(_)) => "failed",
            Err(_) => "refused",
        };
        self.metrics
            .commands
            .with_label_values(&[kind, label])
            .inc();
    }

    fn enqueue(&self, request: Request) -> Result<(), EngineError> {
        if request.command.needs_room() {
            self.disk.check()?;
        }
        let name = match (&request.filter, &request.command) {
            (Some(filter), _) => &filter.name,
            (None, Command::Create(create)) => &create.name,
            (None, Command::Adopt(adopt)) => &adopt.name,
            (None, _) => return Err(EngineError::Stopping),
        };
        let lanes = self.lanes.read();
        let lane = lanes
            .get(filters::lane_of(name, self.lane_count))
            .ok_or(EngineError::Stopping)?;
        let items = request.items();
        let waiting = lane.queued_items.fetch_add(items, Ordering::Relaxed);
        let refused = match waiting > 0 && waiting + items > self.max_queued_items {
            true => Some(EngineError::Overloaded {
                what: "too many items wait to be written",
            }),
            false => {
                lane.queue_depth.inc();
                lane.commands.try_send(request).err().map(|error| {
                    lane.queue_depth.dec();
                    match error {
                        TrySendError::Full(_) => EngineError::Overloaded {
                            what: "too many commands wait to be written",
                        },
                        TrySendError::Disconnected(_) => EngineError::Stopping,
                    }
                })
            }
        };
        match refused {
            None => Ok(()),
            Some(error) => {
                lane.queued_items.fetch_sub(items, Ordering::Relaxed);
                Err(error)
            }
        }
    }

    /// Answers questions beside the lane, and through it only for items that
    /// commits keep overtaking.
    pub(super) async fn ask<Q: Question>(
        &self,
        name: &FilterName,
        items: &ItemBatch,
        question: Q,
        verb: Verb,
        unpack: impl Fn(Outcome) -> Option<Vec<Q::Answer>>,
    ) -> Result<Vec<Q::Answer>, EngineError> {
        loop {
            let filter = self.find(name).await?;
            let at_once = reader::ask_at_once(question, &filter, items, &self.cache);
            let mut asked = match at_once {
                Some(asked) => asked,
                // Seldom, and far larger than all else that this future holds.
                None => {
                    let asking = reader::ask(question, &filter, items, &self.cache, &self.loader);
                    Box::pin(asking).await?
                }
            };
            self.cached_reads.inc_by(asked.cached_pages);
            self.metrics.read_retries.inc_by(asked.retries);
            // Pages of a filter that is gone read as zeros.
            if filter.is_removed() {
                continue;
            }
            if asked.open.is_empty() {
                return Ok(asked.answers);
            }
            let answers = Box::pin(self.ask_lane(filter, items, &asked.open, verb, &unpack));
            let Some(answers) = answers.await? else {
                continue;
            };
            for (&index, answer) in asked.open.iter().zip(answers) {
                if let Some(slot) = asked.answers.get_mut(index) {
                    *slot = answer;
                }
            }
            return Ok(asked.answers);
        }
    }

    /// Has the lane answer a question about the items at some positions, as
    /// many at once as may be: a question may ask for more pages than a command
    /// may touch. `None` if the filter was replaced.
    async fn ask_lane<T>(
        &self,
        filter: Arc<OpenFilter>,
        items: &ItemBatch,
        positions: &[usize],
        verb: Verb,
        unpack: &impl Fn(Outcome) -> Option<Vec<T>>,
    ) -> Result<Option<Vec<T>>, EngineError> {
        let mut answers = Vec::with_capacity(positions.len());
        let mut at_once = positions.len();
        let mut left = positions;
        while !left.is_empty() {
            let (some, rest) = left.split_at(at_once.min(left.len()));
            let mut batch = ItemBatch::new();
            for item in some.iter().filter_map(|&index| items.get(index)) {
                batch.push(item);
            }
            let asked = self.work(Arc::clone(&filter), verb, &batch, None).await;
            let outcome = match asked {
                Err(EngineError::TooManyPages { .. }) if at_once > 1 => {
                    at_once /= 2;
                    continue;
                }
                asked => asked?,
            };
            match unpack(outcome) {
                Some(some) => answers.extend(some),
                None => return Ok(None),
            }
            left = rest;
        }
        Ok(Some(answers))
    }

    /// Bytes of a filter as it is now.
    pub(super) async fn sizes(&self, filter: &OpenFilter) -> Result<Sizes, EngineError> {
        let (store, id) = (Arc::clone(&self.store), filter.id);
        let disk_bytes = off_thread(move || store.approximate_page_bytes(id)).await??;
        let view = filter.view.load_full();
        let resident: u64 = view
            .tables
            .iter()
            .map(|table| u64::from(table.resident()))
            .sum();
        Ok(Sizes {
            memory_bytes: resident * u64::from(PAGE_BYTES),
            disk_bytes,
        })
    }

    pub(super) async fn info(&self, filter: &OpenFilter) -> Result<FilterInfo, EngineError> {
        let sizes = self.sizes(filter).await?;
        let chain = &filter.view.load_full().chain;
        Ok(describe(&filter.name, chain, filter.expiry(), sizes))
    }

    pub(super) fn count_added(&self, results: &[AddResult]) {
        let (mut added, mut exists, mut full) = (0, 0, 0);
        for result in results {
            match result {
                AddResult::Added => added += 1,
                AddResult::Exists => exists += 1,
                AddResult::Full(_) => full += 1,
            }
        }
        self.count_items("add", "added", added);
        self.count_items("add", "exists", exists);
        self.count_items("add", "full", full);
    }

    pub(super) fn count_items(&self, operation: &str, outcome: &str, items: usize) {
        if items > 0 {
            self.metrics
                .items
                .with_label_values(&[operation, outcome])
                .inc_by(items as u64);
        }
    }
}

/// Refuses a filter whose pages could not be numbered.
pub(super) fn too_many_pages(params: &FilterParams) -> EngineError {
    EngineError::InvalidParams(vec![ParamsError {
        field: "capacity",
        given: params.capacity().to_string(),
        allowed: "what fits on 4294967296 pages".to_owned(),
    }])
}

/// A new filter's key, from the operating system.
fn random_key() -> Result<HashKey, EngineError> {
    let mut key = [0; 16];
    getrandom::fill(&mut key).map_err(|error| StoreError::Random {
        source: error.into(),
    })?;
    Ok(HashKey(key))
}

/// Hashes the items of a request, giving the thread back between turns.
pub(super) async fn hashes(chain: &Chain, items: &ItemBatch) -> Arc<[ItemHash]> {
    let mut hashes = Vec::with_capacity(items.len());
    let (hasher, mut items) = (chain.hash_id().hasher(), items.iter());
    while items.len() > 0 {
        if !hashes.is_empty() {
            tokio::task::yield_now().await;
        }
        hasher.hash_all(items.by_ref().take(ITEMS_PER_TURN), &mut hashes);
    }
    hashes.into()
}

pub(super) fn created_at(chain: &Chain) -> SystemTime {
    moment(chain.created_at_ms())
}

/// Everything there is to know about a filter.
pub(super) fn describe(
    name: &FilterName,
    chain: &Chain,
    expiry: Option<Expiry>,
    sizes: Sizes,
) -> FilterInfo {
    let (items, slot_bytes) = (chain.items(), chain.slot_bytes());
    FilterInfo {
        name: name.clone(),
        params: chain.params().clone(),
        items,
        deletions: chain.deletions(),
        sub_filters: chain
            .sub_filters()
            .iter()
            .map(|sub| SubFilterInfo {
                buckets: sub.layout.buckets(),
                pages: u64::from(sub.layout.pages()),
                bytes: u64::from(sub.layout.pages()) * u64::from(sub.layout.page_bytes()),
                items: sub.items(),
                counted: sub.counted,
                load: sub.load(),
                expected_false_positive_rate: sub.false_positive_rate(),
            })
            .collect(),
        bits_per_item: (items > 0).then(|| slot_bytes as f64 * 8.0 / items as f64),
        slot_bytes,
        memory_bytes: sizes.memory_bytes,
        disk_bytes: sizes.disk_bytes,
        expected_false_positive_rate: chain.false_positive_rate(),
        full_false_positive_rate: chain.full_false_positive_rate(),
        keeps_promise: chain.keeps_promise(),
        adds_before_expansion: chain.adds_before_expansion(),
        created_at: created_at(chain),
        expiry: expiry.map(Ends::from),
    }
}
