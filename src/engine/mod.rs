//! Many filters by name: who may change what when, and who sees it.
//!
//! Questions are answered from the pages as they are published, by the caller
//! itself (`reader`); changes go through the lane of the filter (`lane`),
//! which commits many at once. Pages live in a bounded cache (`cache`), come
//! from the store when they are needed (`loader`) and go back to it in
//! checkpoints (`checkpoint`); after a crash the log is replayed
//! (`recovery`).
//!
//! Beside a change its commit may note what was answered, should it be asked
//! for again (`retries`, `remembered`), and how far a stream of items came
//! (`imports`, `progress`). Filters and notes end by themselves (`expiry`), and
//! filters that shrank get shorter (`compaction`); what time it is, only
//! callers ask (`clock`), and whether the disk has room for a change (`disk`).
//!
//! # Bounds
//! The cache has F frames. At most F/4 pages are dirty when a commit begins,
//! commands that wait pin at most F/4, and the drains of all lanes together
//! touch at most F/4. So there always is a frame that is none of these, or
//! becomes so by a checkpoint or the end of a drain, neither of which waits
//! for a frame: nothing can deadlock.

mod abort;
mod answer;
mod batch;
pub mod check;
mod clock;
mod disk;
mod dump;
mod filters;
#[cfg(any(test, fuzzing))]
pub(crate) mod fuzz_targets;
mod idempotency;
mod lane;
mod matches;
mod ops;
mod pages;
mod quota;
mod reader;
mod recovery;
mod shared;
mod tasks;

pub use answer::{
    AddMode, AddOptions, AddResult, Created, Ends, EngineError, FilterInfo, FilterName,
    FilterPreview, FilterSummary, FullReason, InvalidName, LookupAnswer, LookupBounds,
    LookupFilters, LookupMode, MAX_NAME_LENGTH, NewFilter, SubFilterInfo,
};
pub use batch::ItemBatch;
pub use clock::Clock;
pub use disk::Health;
pub use dump::format as dump_format;
pub use dump::format::{Digest, DumpError};
pub use dump::scandump;
pub use dump::stage::{Intake, RestoreError};
pub use dump::{Adopted, DumpSink, Replace, StagedFilter};
pub use idempotency::guard::{ANSWER_KEPT_FOR, Answered, Once, Retry};
pub use idempotency::progress::{BAD_LINES_KEPT, BadLine, ImportProgress};
pub use matches::Matches;
pub use ops::imports::{
    Import, ImportId, ImportLines, ImportState, MAX_IMPORT_ID_LENGTH, MAX_ITEMS_AT_ONCE,
    PROGRESS_KEPT_FOR,
};
pub use tasks::compaction::{Compaction, CompactionState};
pub use tasks::expiry::MAX_TTL_SECONDS;
pub use tasks::survey::MAX_NAMED_FILTERS;
// Part of `EngineError` and `Health`, so whoever reads those need not know the
// store.
pub use crate::store::disk::{DiskReserve, DiskShort};
pub use crate::store::{StoreError, Writes};

use crate::chain::forecast::forecast;
use crate::chain::locate::Located;
use crate::chain::params::Defaults;
use crate::metrics::Metrics;
use crate::store::PageStore;
use disk::Disk;
use dump::room::LogRoom;
use filters::Filters;
use idempotency::guard::Retries;
use lane::command::{Outcome, Verb};
use ops::imports::Imports;
use pages::{Bounds, Checkpointer, Loader, PageCache};
use parking_lot::{Mutex, RwLock};
use quota::Quota;
use reader::{Count, Exists, off_thread};
use recovery::Recovery;
use shared::{Shared, Watcher, created_at, too_many_pages};
use std::sync::Arc;
use tasks::compaction::Compactions;
use tasks::{expiry, survey};

/// Filter numbers that are reserved in the store at once.
const ID_BLOCK: u64 = 1024;

/// Most lanes.
pub const MAX_LANES: usize = 256;

/// Pages that a search for room may look at, and some more for the item's own.
const PAGES_PER_SEARCH: usize = crate::cuckoo::layout::MAX_PAGES_PER_SEARCH + 176;

/// How the engine is sized. Every bound is a number of bytes, items or filters.
#[derive(Clone, Debug)]
pub struct EngineOptions {
    /// Where the time comes from.
    pub clock: Clock,
    /// What new filters get, and may have.
    pub defaults: Defaults,
    /// Writer threads, 1 to 256; a filter always has the same one. A small
    /// cache gets fewer: each needs about 28 MiB of it.
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
    /// nobody asks for it, 0 to 100; 0: never.
    pub compaction_threshold_percent: u8,
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
    /// Items that may wait in front of one lane; one command may exceed it if
    /// nothing else waits.
    pub max_queued_items: usize,
}

/// The filters of one server. Cheap to clone; all clones are the same engine.
#[derive(Clone)]
pub struct Engine {
    shared: Arc<Shared>,
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
        let cache = Arc::new(PageCache::new(
            options.cache_bytes,
            metrics.cache_bytes.clone(),
            metrics.cache_evictions.clone(),
        ));
        let frames = cache.capacity() as usize;
        // Fewer lanes rather than lanes that can't plan one search for room.
        let lane_count = options
            .lanes
            .clamp(1, MAX_LANES)
            .min(frames / (6 * PAGES_PER_SEARCH))
            .max(1);
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
        let loader = Arc::new(Loader::new(
            Arc::clone(&store),
            Arc::clone(&cache),
            Arc::clone(&checkpointer),
            frames / 4,
        ));
        let filters = Arc::new(Filters::new(
            options.max_open_filters,
            metrics.open_filters.clone(),
        ));

        let recovered = Recovery {
            store: &store,
            filters: &filters,
            cache: &cache,
            checkpointer: &checkpointer,
            loader: &loader,
            lanes: lane_count,
            pages_at_once: usize::min(frames / 4, 128),
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
        let noted = store.side_record_totals()?;
        let imports = Arc::new(Imports::new(
            options.max_imports,
            noted.imports,
            metrics.imports_running.clone(),
        ));
        let retries = Arc::new(Retries::new(
            options.max_retry_bytes,
            noted.retry_bytes,
            metrics.retry_bytes.clone(),
            metrics.retries.clone(),
        ));
        let first_id = store.reserve_filter_ids(ID_BLOCK)?.0;

        let (compactions, jobs) = Compactions::new(Arc::clone(&metrics));
        let quota = Quota::new(
            options.defaults.max_total_bytes,
            options.defaults.max_filters,
            &store,
        )?;
        let items = |outcome| metrics.items.with_label_values(&["exists", outcome]);
        let shared = Arc::new(Shared {
            cached_reads: metrics.page_reads.with_label_values(&["cache"]),
            items_found: items("found"),
            items_absent: items("absent"),
            quota: Arc::new(quota),
            disk,
            clock: options.clock.clone(),
            defaults: options.defaults.clone(),
            max_queued_items: options.max_queued_items,
            // A drain may take half of this and one command more.
            max_pages: frames / (6 * lane_count),
            store,
            cache,
            checkpointer,
            loader,
            filters,
            retries,
            imports,
            metrics,
            lanes: RwLock::new(Vec::new()),
            lane_count,
            threads: Mutex::new(Vec::new()),
            checkpointer_thread: Mutex::new(None),
            watchers: Mutex::new(Vec::new()),
            compactions: Arc::new(compactions),
            log_room: LogRoom::new(),
            ids: Mutex::new(first_id..first_id + ID_BLOCK),
        });
        let threshold = options.compaction_threshold_percent;
        shared.start_threads(options.max_queued_commands, jobs, threshold)?;
        Ok(Engine { shared })
    }

    /// Creates a filter, or says that it is there already and whether it has
    /// what was asked for. One that has ended is not there.
    ///
    /// # Errors
    /// [`EngineError::InvalidParams`] names every field that is refused.
    pub async fn create_filter(
        &self,
        name: &FilterName,
        wanted: &NewFilter,
    ) -> Result<Created, EngineError> {
        self.make_filter(name, wanted, None).await
    }

    /// What a filter would be if it were created now; creates nothing.
    ///
    /// # Errors
    /// Those of a creation: [`EngineError::InvalidParams`],
    /// [`EngineError::OverQuota`].
    pub fn preview_filter(&self, wanted: &NewFilter) -> Result<FilterPreview, EngineError> {
        let new = self.shared.resolve_new(wanted)?;
        self.shared
            .quota
            .check_new(new.params.first_sub_filter_bytes())?;
        match forecast(&new.params) {
            Some(forecast) => Ok(FilterPreview {
                params: new.params,
                ttl_seconds: new.ttl_seconds,
                forecast,
            }),
            None => Err(too_many_pages(&new.params)),
        }
    }

    /// In which slots an item lies, or would: of each sub-filter its candidate
    /// buckets and what their slots hold. Reads up to two pages a sub-filter.
    ///
    /// # Errors
    /// [`EngineError::NotFound`], a page can't be read, or
    /// [`EngineError::Overloaded`] if the filter changes all the time.
    pub async fn locate(&self, name: &FilterName, item: &[u8]) -> Result<Located, EngineError> {
        self.shared.locate(name, item).await
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
        let (store, now_ms) = (Arc::clone(&self.shared.store), self.shared.clock.now_ms());
        let (prefix, after) = (prefix.to_owned(), after.cloned());
        let listed = off_thread(move || {
            let after = after.as_ref().map(FilterName::as_str);
            expiry::list_those_not_over(&store, &prefix, after, limit, now_ms)
        })
        .await??;
        listed
            .iter()
            .map(|stored| {
                let chain = filters::decode(stored)?;
                Ok(FilterSummary {
                    name: filters::stored_name(stored)?,
                    items: chain.items(),
                    slot_bytes: chain.slot_bytes(),
                    sub_filters: chain.sub_filters().len(),
                    load: chain.load(),
                    expected_false_positive_rate: chain.false_positive_rate(),
                    keeps_promise: chain.keeps_promise(),
                    created_at: created_at(&chain),
                    expiry: stored.expiry.map(Ends::from),
                    params: chain.params().clone(),
                })
            })
            .collect()
    }

    /// From now on keeps the metrics about filters: how many there are, how
    /// many are wrong too often or nearly full, and series of their own of so
    /// many of the largest, at most [`MAX_NAMED_FILTERS`]. To be called once.
    ///
    /// # Errors
    /// The thread can't be started.
    pub fn survey_filters(&self, named: usize) -> Result<(), StoreError> {
        let survey = move |shared: &_, stop: &_| survey::run(shared, stop, named);
        self.shared.watch("survey", survey)
    }

    /// Has a filter end so many seconds from now, or never.
    ///
    /// # Errors
    /// [`EngineError::NotFound`]; [`EngineError::InvalidParams`] for a time
    /// out of range; [`EngineError::OutcomeUnknown`] if the commit failed.
    pub async fn set_ttl(
        &self,
        name: &FilterName,
        ttl_seconds: Option<u64>,
    ) -> Result<FilterInfo, EngineError> {
        self.change_ttl(name, ttl_seconds, None).await
    }

    /// Deletes a filter with everything in it. The cost does not depend on its
    /// size; the pages are reclaimed in the background.
    ///
    /// # Errors
    /// [`EngineError::NotFound`].
    pub async fn delete_filter(&self, name: &FilterName) -> Result<(), EngineError> {
        self.remove_filter(name, None).await
    }

    /// Has a filter compacted; see [`Once::compact`].
    ///
    /// # Errors
    /// As there.
    pub async fn compact(&self, name: &FilterName) -> Result<u32, EngineError> {
        self.compact_filter(name, None).await
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
        self.add_items(name, items, options, None).await
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
        self.delete_items(name, items, None).await
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
        self.shared.items_found.inc_by(found as u64);
        self.shared
            .items_absent
            .inc_by((results.len() - found) as u64);
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

    /// Which of many filters contain each item. "No" is right, "yes" is right
    /// but for the filters' error rates. Each item is hashed once for all
    /// filters of one hash, and pages that are not resident are read for all
    /// filters together.
    ///
    /// # Errors
    /// [`EngineError::TooManyFilters`] and [`EngineError::TooManyProbes`] if it
    /// asks too much, or a page can't be read. A filter that is not there is
    /// no error.
    pub async fn lookup(
        &self,
        filters: &LookupFilters,
        items: &ItemBatch,
        mode: LookupMode,
        bounds: LookupBounds,
    ) -> Result<LookupAnswer, EngineError> {
        let names = self
            .shared
            .names_to_look_up(filters, bounds.max_filters)
            .await?;
        if names.len().saturating_mul(items.len()) > bounds.max_probes {
            return Err(EngineError::TooManyProbes {
                items: items.len(),
                filters: names.len(),
                bound: bounds.max_probes,
            });
        }
        let mut answer = self.shared.lookup(names, items, mode).await?;
        if matches!(filters, LookupFilters::Prefix(_)) {
            // Nobody named those that went meanwhile.
            answer.missing.clear();
        }
        let found = (0..items.len())
            .filter(|&item| answer.matches.next(item, 0).is_some())
            .count();
        self.shared.count_items("lookup", "found", found);
        self.shared
            .count_items("lookup", "absent", items.len() - found);
        Ok(answer)
    }

    /// Whether there is room for changes, and whether the store takes them, as
    /// of a moment ago.
    pub fn health(&self) -> Health {
        self.shared.disk.health()
    }

    /// Filters open.
    pub fn open_filters(&self) -> usize {
        self.shared.filters.len()
    }

    /// Stops taking commands, finishes those taken and checkpoints everything;
    /// on a disk that is too full for that the next start replays the log.
    /// Blocks. A second call does nothing.
    ///
    /// # Errors
    /// The store refused; what was acknowledged is in its log.
    pub fn shutdown(&self) -> Result<(), StoreError> {
        self.halt();
        self.shared.disk.look();
        if self.shared.disk.has_background_room() {
            self.shared.checkpointer.checkpoint_all()?;
        }
        self.shared.store.sync()
    }

    /// Stops as [`shutdown`](Self::shutdown) does but writes no checkpoint: the
    /// next start has to replay the log.
    pub fn halt(&self) {
        for Watcher { stop, thread } in std::mem::take(&mut *self.shared.watchers.lock()) {
            drop(stop);
            // One that panicked has said so.
            let _ = thread.join();
        }
        self.shared.lanes.write().clear();
        for thread in std::mem::take(&mut *self.shared.threads.lock()) {
            // A lane that panicked has said so.
            let _ = thread.join();
        }
        self.shared.checkpointer.stop();
        if let Some(thread) = self.shared.checkpointer_thread.lock().take() {
            let _ = thread.join();
        }
    }
}
