//! Many filters by name: who may change what when, and who sees it.
//!
//! Questions are answered from the pages as they are published, by the caller
//! itself ([`reader`]); changes go through the lane of the filter ([`lane`]),
//! which commits many at once. Pages live in a bounded cache ([`cache`]), come
//! from the store when they are needed ([`loader`]) and go back to it in
//! checkpoints ([`checkpoint`]); after a crash the log is replayed
//! ([`recovery`]).
//!
//! # Bounds
//! The cache has F frames. At most F/4 pages are dirty when a commit begins,
//! commands that wait pin at most F/4, and the drains of all lanes together
//! touch at most F/4. So there always is a frame that is none of these, or
//! becomes so by a checkpoint or the end of a drain, neither of which waits
//! for a frame: nothing can deadlock.

mod answer;
mod batch;
mod cache;
pub mod check;
mod checkpoint;
mod command;
mod filters;
mod lane;
mod loader;
mod reader;
mod recovery;

pub use answer::{
    AddMode, AddOptions, AddResult, Created, EngineError, FilterInfo, FilterName, FilterSummary,
    FullReason, InvalidName, MAX_NAME_LENGTH, SubFilterInfo,
};
pub use batch::ItemBatch;
// Part of `EngineError`, so whoever reads that need not know the store.
pub use crate::store::StoreError;

use crate::chain::meta::Chain;
use crate::chain::params::{Defaults, FilterParams, FilterRequest, ParamsError};
use crate::chain::read::PageAddress;
use crate::cuckoo::hash::ItemHash;
use crate::metrics::Metrics;
use crate::page::FilterId;
use crate::store::PageStore;
use cache::PageCache;
use checkpoint::{Bounds, Ledgers};
use command::{Command, Create, ItemsCommand, Outcome, Verb};
use crossbeam_channel::{Sender, TrySendError};
use filters::{Filters, OpenFilter};
use lane::{Lane, Request};
use loader::{Loader, Pins};
use parking_lot::{Mutex, RwLock};
use reader::{Count, Exists, Question, off_thread};
use recovery::Recovery;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use tokio::sync::oneshot;

/// Filter numbers that are reserved in the store at once.
const ID_BLOCK: u64 = 1024;

/// Most lanes; their number is part of a frame's stamp.
pub const MAX_LANES: usize = 256;

/// How the engine is sized. Every bound is a number of bytes, items or filters.
#[derive(Clone, Debug)]
pub struct EngineOptions {
    /// What new filters get, and may have.
    pub defaults: Defaults,
    /// Writer threads, 1 to 256; a filter always has the same one.
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
    /// Filters open at the same time.
    pub max_open_filters: usize,
    /// Commands that may wait in front of one lane.
    pub max_queued_commands: usize,
    /// Items that may wait in front of one lane; one command may exceed it if
    /// nothing else waits.
    pub max_queued_items: usize,
}

/// The filters of one server. Cheap to clone; all clones are the same engine.
#[derive(Clone)]
pub struct Engine {
    shared: Arc<Shared>,
}

struct Shared {
    defaults: Defaults,
    max_queued_items: usize,
    /// Pages that one command may touch.
    max_pages: usize,
    store: Arc<dyn PageStore>,
    cache: Arc<PageCache>,
    ledgers: Arc<Ledgers>,
    loader: Arc<Loader>,
    filters: Arc<Filters>,
    metrics: Arc<Metrics>,
    /// Empty once the engine stops.
    lanes: RwLock<Vec<LaneHandle>>,
    lane_count: usize,
    threads: Mutex<Vec<JoinHandle<()>>>,
    checkpointer: Mutex<Option<JoinHandle<()>>>,
    ids: Mutex<std::ops::Range<u64>>,
}

struct LaneHandle {
    commands: Sender<Request>,
    queued_items: Arc<AtomicUsize>,
    queue_depth: prometheus::IntGauge,
}

impl Engine {
    /// Replays the redo log and starts the lanes. Blocks until ready to serve.
    ///
    /// # Errors
    /// The store can't be read, or holds corrupt bytes that are needed now.
    pub fn open(
        store: Arc<dyn PageStore>,
        options: &EngineOptions,
        metrics: Arc<Metrics>,
    ) -> Result<Engine, StoreError> {
        let lane_count = options.lanes.clamp(1, MAX_LANES);
        let cache = Arc::new(PageCache::new(
            options.cache_bytes,
            lane_count,
            metrics.cache_bytes.clone(),
            metrics.cache_evictions.clone(),
        ));
        let frames = cache.capacity() as usize;
        let page_bytes = u64::from(crate::chain::params::PAGE_BYTES);
        let bounds = Bounds {
            max_dirty_pages: (options.max_dirty_bytes / page_bytes).clamp(1, frames as u64 / 4),
            max_log_bytes: options.max_log_bytes.max(1),
            slice_pages: usize::try_from(options.checkpoint_slice_bytes / page_bytes)
                .unwrap_or(usize::MAX)
                .clamp(1, frames / 4),
        };
        let ledgers = Arc::new(Ledgers::new(
            lane_count,
            bounds,
            Arc::clone(&cache),
            Arc::clone(&store),
            Arc::clone(&metrics),
        ));
        let loader = Arc::new(Loader::new(
            Arc::clone(&store),
            Arc::clone(&cache),
            Arc::clone(&ledgers),
            frames / 4,
        ));
        let filters = Arc::new(Filters::new(
            options.max_open_filters,
            metrics.open_filters.clone(),
        ));

        let recovered = Recovery {
            store: &*store,
            filters: &filters,
            cache: &cache,
            ledgers: &ledgers,
            loader: &loader,
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
        ledgers.reclaim_soon(store.garbage()?);
        let first_id = store.reserve_filter_ids(ID_BLOCK)?.0;

        let shared = Arc::new(Shared {
            defaults: options.defaults.clone(),
            max_queued_items: options.max_queued_items,
            // A drain may take half of this and one command more.
            max_pages: (frames / (6 * lane_count)).max(16),
            store,
            cache,
            ledgers,
            loader,
            filters,
            metrics,
            lanes: RwLock::new(Vec::new()),
            lane_count,
            threads: Mutex::new(Vec::new()),
            checkpointer: Mutex::new(None),
            ids: Mutex::new(first_id..first_id + ID_BLOCK),
        });
        shared.start_threads(options.max_queued_commands)?;
        Ok(Engine { shared })
    }

    /// Creates a filter, or says that it is there already and whether it has
    /// what was asked for.
    ///
    /// # Errors
    /// [`EngineError::InvalidParams`] names every field that is refused.
    pub async fn create_filter(
        &self,
        name: &FilterName,
        request: &FilterRequest,
    ) -> Result<Created, EngineError> {
        let params = self.shared.resolve(request)?;
        loop {
            if let Some(filter) = self.shared.open(name).await? {
                let info = self.shared.info(&filter).await?;
                return Ok(match info.params.differences(request) {
                    differences if differences.is_empty() => Created::Existing(info),
                    differences => Created::Differs(info, differences),
                });
            }
            let outcome = self
                .shared
                .create(name, &params, Arc::from([]), AddMode::Always)
                .await?;
            if let Outcome::Created(_) = outcome {
                return Ok(Created::New(self.filter_info(name).await?));
            }
        }
    }

    /// Everything there is to know about a filter.
    ///
    /// # Errors
    /// [`EngineError::NotFound`], or the store can't be read.
    pub async fn filter_info(&self, name: &FilterName) -> Result<FilterInfo, EngineError> {
        let filter = self.shared.find(name).await?;
        self.shared.info(&filter).await
    }

    /// Up to `limit` filters whose names start with `prefix` and are greater
    /// than `after`, by name.
    ///
    /// # Errors
    /// The store can't be read.
    pub async fn list_filters(
        &self,
        prefix: &str,
        after: Option<&FilterName>,
        limit: usize,
    ) -> Result<Vec<FilterSummary>, EngineError> {
        let store = Arc::clone(&self.shared.store);
        let (prefix, after) = (prefix.to_owned(), after.cloned());
        let stored = off_thread(move || {
            store.list_filters(&prefix, after.as_ref().map(FilterName::as_str), limit)
        })
        .await??;
        stored
            .iter()
            .map(|stored| {
                let chain = filters::decode(stored)?;
                Ok(FilterSummary {
                    name: filters::stored_name(stored)?,
                    items: chain.items(),
                    slot_bytes: chain.slot_bytes(),
                    created_at: created_at(&chain),
                    params: chain.params().clone(),
                })
            })
            .collect()
    }

    /// Deletes a filter with everything in it. The cost does not depend on its
    /// size; the pages are reclaimed in the background.
    ///
    /// # Errors
    /// [`EngineError::NotFound`].
    pub async fn delete_filter(&self, name: &FilterName) -> Result<(), EngineError> {
        loop {
            let filter = self.shared.find(name).await?;
            let command = Command::Remove(filter.id);
            if self.shared.submit(command, Some(filter), None).await? != Outcome::Stale {
                return Ok(());
            }
        }
    }

    /// Drops the newest sub-filters that hold nothing, and says how many. A
    /// filter that grows again gets new ones.
    ///
    /// # Errors
    /// [`EngineError::NotFound`].
    pub async fn drop_emptied_sub_filters(&self, name: &FilterName) -> Result<usize, EngineError> {
        loop {
            let filter = self.shared.find(name).await?;
            let command = Command::DropEmptied(filter.id);
            if let Outcome::Dropped(count) = self.shared.submit(command, Some(filter), None).await?
            {
                return Ok(count);
            }
        }
    }

    /// Adds items; all of them or, if an error is returned, none. One result
    /// an item, in order.
    ///
    /// # Errors
    /// [`EngineError::NotFound`] without [`AddOptions::create`];
    /// [`EngineError::OutcomeUnknown`] if the commit failed.
    pub async fn add(
        &self,
        name: &FilterName,
        items: &ItemBatch,
        options: &AddOptions,
    ) -> Result<Vec<AddResult>, EngineError> {
        let params = options
            .create
            .as_ref()
            .map(|request| self.shared.resolve(request))
            .transpose()?;
        loop {
            let outcome = match (self.shared.open(name).await?, &params) {
                (Some(filter), _) => {
                    self.shared
                        .work(filter, Verb::Add(options.mode), items)
                        .await?
                }
                (None, Some(params)) => {
                    let empty = Chain::new(params.clone(), 0);
                    let hashes = empty.map_or_else(|| Arc::from([]), |chain| hashes(&chain, items));
                    self.shared
                        .create(name, params, hashes, options.mode)
                        .await?
                }
                (None, None) => return Err(EngineError::NotFound { name: name.clone() }),
            };
            if let Outcome::Added(results) | Outcome::Created(results) = outcome {
                self.shared.count_added(&results);
                return Ok(results);
            }
        }
    }

    /// Deletes one copy of each item; all or, if an error is returned, none.
    /// `false`: the item was not found.
    ///
    /// Deleting what was never added may take another item's fingerprint,
    /// which is a false negative from then on.
    ///
    /// # Errors
    /// [`EngineError::NotFound`]; [`EngineError::OutcomeUnknown`] if the
    /// commit failed.
    pub async fn delete(
        &self,
        name: &FilterName,
        items: &ItemBatch,
    ) -> Result<Vec<bool>, EngineError> {
        loop {
            let filter = self.shared.find(name).await?;
            if let Outcome::Deleted(results) = self.shared.work(filter, Verb::Delete, items).await?
            {
                let found = results.iter().filter(|&&found| found).count();
                self.shared.count_items("delete", "deleted", found);
                self.shared
                    .count_items("delete", "absent", results.len() - found);
                return Ok(results);
            }
        }
    }

    /// Whether each item is there. "No" is right, "yes" is right but for the
    /// filter's error rate.
    ///
    /// # Errors
    /// [`EngineError::NotFound`], or a page can't be read.
    pub async fn exists(
        &self,
        name: &FilterName,
        items: &ItemBatch,
    ) -> Result<Vec<bool>, EngineError> {
        let results = self
            .shared
            .ask(name, items, Exists, Verb::Exists, |outcome| match outcome {
                Outcome::Found(found) => Some(found),
                _ => None,
            });
        let results = results.await?;
        let found = results.iter().filter(|&&found| found).count();
        self.shared.count_items("exists", "found", found);
        self.shared
            .count_items("exists", "absent", results.len() - found);
        Ok(results)
    }

    /// How often each item is there: at least its true count.
    ///
    /// # Errors
    /// [`EngineError::NotFound`], or a page can't be read.
    pub async fn count(
        &self,
        name: &FilterName,
        items: &ItemBatch,
    ) -> Result<Vec<u64>, EngineError> {
        let results = self
            .shared
            .ask(name, items, Count, Verb::Count, |outcome| match outcome {
                Outcome::Counted(counts) => Some(counts),
                _ => None,
            });
        let results = results.await?;
        self.shared.count_items("count", "answered", results.len());
        Ok(results)
    }

    /// Bytes of dirty pages and of the redo log: what a crash now would have
    /// to be recovered from.
    pub fn backlog(&self) -> (u64, u64) {
        self.shared.ledgers.backlog()
    }

    /// Filters open.
    pub fn open_filters(&self) -> usize {
        self.shared.filters.len()
    }

    /// Stops taking commands, finishes those taken and checkpoints everything.
    /// Blocks. A second call does nothing.
    ///
    /// # Errors
    /// The store refused; what was acknowledged is in its log.
    pub fn shutdown(&self) -> Result<(), StoreError> {
        self.halt();
        self.shared.ledgers.checkpoint_all()?;
        self.shared.store.sync()
    }

    /// Stops as [`shutdown`](Self::shutdown) does but writes no checkpoint: the
    /// next start has to replay the log.
    pub fn halt(&self) {
        self.shared.lanes.write().clear();
        for thread in std::mem::take(&mut *self.shared.threads.lock()) {
            // A lane that panicked has said so.
            let _ = thread.join();
        }
        self.shared.ledgers.stop();
        if let Some(thread) = self.shared.checkpointer.lock().take() {
            let _ = thread.join();
        }
    }
}

impl Shared {
    fn start_threads(&self, max_queued_commands: usize) -> Result<(), StoreError> {
        let spawn_error = |error: std::io::Error| StoreError::Io {
            doing: "starting a thread",
            reason: error.to_string(),
        };
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
                index,
                commands,
                queued_items: Arc::clone(&handle.queued_items),
                queue_depth: handle.queue_depth.clone(),
                max_pages: self.max_pages,
                filters: Arc::clone(&self.filters),
                cache: Arc::clone(&self.cache),
                ledgers: Arc::clone(&self.ledgers),
                loader: Arc::clone(&self.loader),
                store: Arc::clone(&self.store),
                metrics: Arc::clone(&self.metrics),
            };
            let thread = std::thread::Builder::new()
                .name(format!("lane-{index}"))
                .spawn(move || lane.run())
                .map_err(spawn_error)?;
            self.lanes.write().push(handle);
            self.threads.lock().push(thread);
        }
        let ledgers = Arc::clone(&self.ledgers);
        let thread = std::thread::Builder::new()
            .name("checkpoint".to_owned())
            .spawn(move || ledgers.run())
            .map_err(spawn_error)?;
        *self.checkpointer.lock() = Some(thread);
        Ok(())
    }

    fn resolve(&self, request: &FilterRequest) -> Result<FilterParams, EngineError> {
        let params =
            FilterParams::resolve(request, &self.defaults).map_err(EngineError::InvalidParams)?;
        match Chain::new(params.clone(), 0) {
            Some(_) => Ok(params),
            None => Err(EngineError::InvalidParams(vec![ParamsError {
                field: "capacity",
                given: params.capacity().to_string(),
                allowed: "what fits on 4294967296 pages".to_owned(),
            }])),
        }
    }

    async fn find(&self, name: &FilterName) -> Result<Arc<OpenFilter>, EngineError> {
        self.open(name)
            .await?
            .ok_or_else(|| EngineError::NotFound { name: name.clone() })
    }

    async fn open(&self, name: &FilterName) -> Result<Option<Arc<OpenFilter>>, EngineError> {
        if let Some(filter) = self.filters.get(name) {
            return Ok(Some(filter));
        }
        self.make_room().await?;
        let (filters, store, name) = (
            Arc::clone(&self.filters),
            Arc::clone(&self.store),
            name.clone(),
        );
        Ok(off_thread(move || filters.open(&name, &*store)).await??)
    }

    /// Makes sure that one more filter may be open.
    async fn make_room(&self) -> Result<(), EngineError> {
        if self.filters.has_room() {
            return Ok(());
        }
        let (filters, ledgers) = (Arc::clone(&self.filters), Arc::clone(&self.ledgers));
        let room = off_thread(move || {
            // Filters with dirty pages stay open until a checkpoint wrote them.
            for _ in 0..40 {
                if filters.close_unused() {
                    return true;
                }
                if ledgers.wait_for_frames(Duration::from_millis(50)).is_err() {
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

    async fn create(
        &self,
        name: &FilterName,
        params: &FilterParams,
        items: Arc<[ItemHash]>,
        mode: AddMode,
    ) -> Result<Outcome, EngineError> {
        self.make_room().await?;
        let command = Command::Create(Create {
            id: self.next_id().await?,
            name: name.clone(),
            params: params.clone(),
            created_at_ms: SystemTime::now()
                .duration_since(UNIX_EPOCH)
                .map_or(0, |since| since.as_millis() as u64),
            items,
            mode,
        });
        self.submit(command, None, None).await
    }

    async fn next_id(&self) -> Result<FilterId, EngineError> {
        loop {
            if let Some(id) = self.ids.lock().next() {
                return Ok(FilterId(id));
            }
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
    async fn work(
        &self,
        filter: Arc<OpenFilter>,
        verb: Verb,
        items: &ItemBatch,
    ) -> Result<Outcome, EngineError> {
        let view = filter.view.load_full();
        let items = hashes(&view.chain, items);
        let mut needed: Vec<PageAddress> = Vec::new();
        let mut pins = None;
        if !self.all_resident(&view, &items) {
            needed = reader::all_pages(&view.chain, items.iter());
            pins = Some(self.pin(&filter, &needed).await?);
        }
        loop {
            let command = Command::Items(ItemsCommand {
                filter: filter.id,
                verb,
                items: Arc::clone(&items),
            });
            let outcome = self
                .submit(command, Some(Arc::clone(&filter)), pins.take())
                .await?;
            let Outcome::NeedsPages(missing) = outcome else {
                return Ok(outcome);
            };
            // What was needed before stays needed: the plan starts over.
            needed.extend(missing);
            needed.extend(reader::all_pages(&filter.view.load().chain, items.iter()));
            needed.sort_unstable();
            needed.dedup();
            pins = Some(self.pin(&filter, &needed).await?);
        }
    }

    fn all_resident(&self, view: &filters::FilterView, items: &[ItemHash]) -> bool {
        items.iter().all(|&hash| {
            crate::chain::read::candidate_pages(&view.chain, hash).all(|page| {
                view.tables
                    .get(page.sub as usize)
                    .is_some_and(|table| self.cache.is_resident(table, page.page))
            })
        })
    }

    async fn pin(
        &self,
        filter: &Arc<OpenFilter>,
        pages: &[PageAddress],
    ) -> Result<Pins, EngineError> {
        if pages.len() > self.max_pages {
            return Err(EngineError::TooManyPages {
                needed: pages.len(),
                bound: self.max_pages,
            });
        }
        let permit = self
            .loader
            .permit(pages.len())
            .await
            .ok_or(EngineError::Stopping)?;
        let (loader, view, pages) = (
            Arc::clone(&self.loader),
            filter.view.load_full(),
            pages.to_vec(),
        );
        Ok(off_thread(move || loader.pin(&view, &pages, permit)).await??)
    }

    /// Puts a command into the queue of its lane and waits for the outcome.
    async fn submit(
        &self,
        command: Command,
        filter: Option<Arc<OpenFilter>>,
        pins: Option<Pins>,
    ) -> Result<Outcome, EngineError> {
        let kind = command.kind();
        let (reply, outcome) = oneshot::channel();
        let request = Request {
            command,
            filter,
            pins,
            reply,
        };
        let outcome = match self.enqueue(request) {
            Ok(()) => outcome.await.unwrap_or(Err(EngineError::Stopping)),
            Err(error) => Err(error),
        };
        let label = match &outcome {
            Ok(outcome) => outcome.label(),
            Err(EngineError::OutcomeUnknown(_)) => "failed",
            Err(_) => "refused",
        };
        self.metrics
            .commands
            .with_label_values(&[kind, label])
            .inc();
        outcome
    }

    fn enqueue(&self, request: Request) -> Result<(), EngineError> {
        let name = match (&request.filter, &request.command) {
            (Some(filter), _) => &filter.name,
            (None, Command::Create(create)) => &create.name,
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
    async fn ask<Q: Question>(
        &self,
        name: &FilterName,
        items: &ItemBatch,
        question: Q,
        verb: Verb,
        unpack: impl Fn(Outcome) -> Option<Vec<Q::Answer>>,
    ) -> Result<Vec<Q::Answer>, EngineError> {
        loop {
            let filter = self.find(name).await?;
            let hashes = hashes(&filter.view.load().chain, items);
            let mut asked =
                reader::ask(question, &filter, &hashes, &self.cache, &self.loader).await?;
            self.metrics
                .page_reads
                .with_label_values(&["cache"])
                .inc_by(asked.cached_pages);
            self.metrics.read_retries.inc_by(asked.retries);
            // Pages of a filter that is gone read as zeros.
            if filter.is_removed() {
                continue;
            }
            if asked.open.is_empty() {
                return Ok(asked.answers);
            }
            let mut overtaken = ItemBatch::new();
            for &index in &asked.open {
                if let Some(item) = items.get(index) {
                    overtaken.push(item);
                }
            }
            let outcome = self.work(filter, verb, &overtaken).await?;
            let Some(answers) = unpack(outcome) else {
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

    async fn info(&self, filter: &OpenFilter) -> Result<FilterInfo, EngineError> {
        let (store, id) = (Arc::clone(&self.store), filter.id);
        let disk_bytes = off_thread(move || store.approximate_page_bytes(id)).await??;
        let view = filter.view.load_full();
        let chain = &view.chain;
        let resident: u64 = view
            .tables
            .iter()
            .map(|table| u64::from(table.resident()))
            .sum();
        let (items, slot_bytes) = (chain.items(), chain.slot_bytes());
        Ok(FilterInfo {
            name: filter.name.clone(),
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
                    items: sub.items,
                    load: sub.load(),
                    expected_false_positive_rate: sub.false_positive_rate(),
                })
                .collect(),
            bits_per_item: (items > 0).then(|| slot_bytes as f64 * 8.0 / items as f64),
            slot_bytes,
            memory_bytes: resident * u64::from(crate::chain::params::PAGE_BYTES),
            disk_bytes,
            expected_false_positive_rate: chain.false_positive_rate(),
            adds_before_expansion: chain.adds_before_expansion(),
            created_at: created_at(chain),
        })
    }

    fn count_added(&self, results: &[AddResult]) {
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

    fn count_items(&self, operation: &str, outcome: &str, items: usize) {
        if items > 0 {
            self.metrics
                .items
                .with_label_values(&[operation, outcome])
                .inc_by(items as u64);
        }
    }
}

fn hashes(chain: &Chain, items: &ItemBatch) -> Arc<[ItemHash]> {
    items.iter().map(|item| chain.hash(item)).collect()
}

fn created_at(chain: &Chain) -> SystemTime {
    UNIX_EPOCH + Duration::from_millis(chain.created_at_ms())
}
