//! The open filters: what is known of each in memory, bounded in number.
//!
//! A filter is open from the first request that names it until room is needed.
//! Its lane alone changes it: by publishing a new [`FilterView`] after the
//! commit. All others take the view as it is, without a lock.

use super::clock::EngineClock;
use super::logged::{LoggedPage, by_page};
use super::name::FilterName;
use super::pages::{PageGeometry, PageTable, Version, WordsRead};
use super::ttl;
use crate::chain::address::PageAddress;
use crate::chain::meta::{Chain, FilterVersion, META_VERSION, MetaError};
use crate::chain::plan::FutileSearches;
use crate::page::{FilterId, Sequence};
use crate::store::redo::RedoWrite;
use crate::store::{Expiry, FilterChange, PageStore, StoreError, StoredFilter};
use arc_swap::{ArcSwap, ArcSwapOption};
use foldhash::fast::FixedState;
use parking_lot::RwLock;
use prometheus::IntGauge;
use std::collections::HashMap;
use std::hash::BuildHasher;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering, fence};

const SHARDS: usize = 16;

/// One filter, as of its last commit.
pub(super) struct FilterView {
    /// Its description.
    pub(super) chain: Chain,
    /// The tables of its sub-filters' pages, aligned with the chain.
    pub(super) tables: Vec<Arc<PageTable>>,
    /// Number of the filter's [shape](OpenFilter::shape) that this view is of.
    shape: u64,
}

impl FilterView {
    /// Of its pages that are in memory.
    pub(super) fn memory_bytes(&self) -> u64 {
        let resident = self.tables.iter().map(|table| table.resident_bytes());
        resident.sum()
    }

    /// A view of a chain none of whose pages is resident.
    pub(super) fn new(id: FilterId, chain: Chain) -> Self {
        FilterView {
            tables: Vec::new(),
            chain: chain.clone(),
            shape: 0,
        }
        .advanced(id, chain)
    }

    /// The view after a commit: sub-filters that are still there keep their
    /// tables.
    pub(super) fn advanced(&self, id: FilterId, chain: Chain) -> Self {
        let tables = chain.sub_filters().map(|sub| {
            let position = self.chain.position_of(sub.ordinal);
            let known = position.and_then(|position| self.tables.get(position));
            known.cloned().unwrap_or_else(|| {
                let geometry = PageGeometry::of(&sub.layout);
                Arc::new(PageTable::new(id, sub.ordinal, &geometry))
            })
        });
        FilterView {
            tables: tables.collect(),
            chain,
            shape: self.shape,
        }
    }

    /// The same after a commit that splits or merges pages.
    pub(super) fn reshaped(mut self) -> Self {
        self.shape += 1;
        self
    }

    /// What a record says about its pages, by ascending address. `is_gone` says what comes
    /// of a sub-filter that is not there.
    ///
    /// # Errors
    /// The filter can't ever have had such pages.
    pub(super) fn logged<'w, 'a>(
        &self,
        sequence: Sequence,
        writes: &'w [RedoWrite<'a>],
        is_gone: impl Fn() -> Result<(), StoreError>,
    ) -> Result<Vec<(PageAddress, LoggedPage<'w, 'a>)>, StoreError> {
        // Most pages are written to once.
        let mut pages = Vec::with_capacity(writes.len());
        for (id, writes) in by_page(writes) {
            let position = self.chain.position_of(id.ordinal);
            let table = position.and_then(|it| Some((it, self.tables.get(it)?)));
            let Some((position, table)) = table else {
                is_gone()?;
                continue;
            };
            let address = PageAddress::new(position, id.page.0);
            let page = LoggedPage::of(&table.geometry(), sequence, id, writes)?;
            pages.push((address, page));
        }
        pages.sort_by_key(|(address, _)| *address);
        Ok(pages)
    }

    fn is_clean(&self) -> bool {
        self.tables
            .iter()
            .all(|table| table.dirty.load(Ordering::Acquire) == 0)
    }
}

/// A filter that is open.
pub(super) struct OpenFilter {
    /// Its number.
    pub(super) id: FilterId,
    /// Its name.
    pub(super) name: FilterName,
    /// Its state; stored by its lane only.
    pub(super) view: ArcSwap<FilterView>,
    /// Of all its pages.
    pub(super) version: Version,
    /// Of what its pages mean: changed by commits that split or merge pages.
    /// A view carries the number that it is of.
    pub(super) shape: Version,
    /// The API key that created it, if there was one.
    pub(super) owner: Option<Arc<str>>,
    expiry: ArcSwapOption<Expiry>,
    /// Searches for room in vain, one after the other; its lane alone changes it. It
    /// is not stored: a search more changes little.
    futile_searches: AtomicU32,
    removed: AtomicBool,
    used: AtomicBool,
}

impl OpenFilter {
    /// Which of its states is the last that was published.
    pub(super) fn version(&self) -> FilterVersion {
        *self.view.load().chain.version()
    }

    /// What says in the store whose it is, if it is anybody's.
    pub(super) fn ownership(&self) -> Option<FilterChange> {
        self.owner.as_ref().map(|owner| FilterChange::Own {
            id: self.id,
            owner: owner.as_ref().to_owned(),
        })
    }

    /// A filter as the store has it.
    ///
    /// # Errors
    /// Its description, or its name, makes no sense.
    pub(super) fn of(stored: StoredFilter) -> Result<Self, StoreError> {
        let name = stored_name(stored.id, &stored.name)?;
        let chain = decode(stored.id, &stored.meta)?;
        let owner = stored.owner.map(Arc::from);
        Ok(Self::new(stored.id, name, chain, stored.expiry, owner))
    }

    /// An open filter in that state.
    pub(super) fn new(
        id: FilterId,
        name: FilterName,
        chain: Chain,
        expiry: Option<Expiry>,
        owner: Option<Arc<str>>,
    ) -> Self {
        OpenFilter {
            owner,
            id,
            name,
            view: ArcSwap::from_pointee(FilterView::new(id, chain)),
            version: Version::new(),
            shape: Version::new(),
            expiry: ArcSwapOption::from_pointee(expiry),
            futile_searches: AtomicU32::new(0),
            removed: AtomicBool::new(false),
            used: AtomicBool::new(true),
        }
    }

    /// Searches for room in vain that its next command comes after.
    pub(super) fn futile_searches(&self) -> FutileSearches {
        FutileSearches::before_next(self.futile_searches.load(Ordering::Relaxed))
    }

    /// Sets how the searches ended of what is committed. A plan that comes to
    /// nothing says nothing: what it added or deleted before is not there.
    pub(super) fn set_futile_searches(&self, futile: FutileSearches) {
        self.futile_searches
            .store(futile.count(), Ordering::Relaxed);
    }

    /// Whether no page was split or merged since that view was published: what
    /// was read of pages is what the view takes it for.
    #[inline]
    pub(super) fn is_shaped_as(&self, view: &FilterView, read: WordsRead) -> bool {
        self.shape.is_still(view.shape, read)
    }

    /// When it ends, if ever.
    pub(super) fn expiry(&self) -> Option<Expiry> {
        self.expiry.load().as_deref().copied()
    }

    /// Has it end then. Called by its lane, after the commit.
    pub(super) fn set_expiry(&self, expiry: Option<Expiry>) {
        self.expiry.store(expiry.map(Arc::new));
    }

    /// Whether it has ended, and waits only to be removed.
    pub(super) fn has_ended(&self, clock: &EngineClock) -> bool {
        // Most filters never end: no need to know the time.
        let expiry = self.expiry();
        expiry.is_some() && ttl::has_ended(expiry, clock.now_ms())
    }

    /// Notes that it is gone, and that its pages will not be asked for again.
    fn mark_removed(&self) {
        self.removed.store(true, Ordering::Release);
        for table in &self.view.load().tables {
            table.mark_dropped();
        }
    }

    /// Whether the filter was deleted since this was opened.
    pub(super) fn is_removed(&self) -> bool {
        self.removed.load(Ordering::Acquire)
    }
}

/// The open filters by name.
pub(super) struct Filters {
    shards: [Shard; SHARDS],
    count: AtomicUsize,
    limit: usize,
    gauge: IntGauge,
}

#[derive(Default)]
struct Shard {
    open: RwLock<HashMap<FilterName, Arc<OpenFilter>, FixedState>>,
    /// Counts creations, removals and closings: it says whether a description
    /// that was read from the store is still true.
    epoch: AtomicU64,
}

impl Filters {
    /// Room for `limit` open filters.
    pub(super) fn new(limit: usize, gauge: IntGauge) -> Self {
        Filters {
            shards: std::array::from_fn(|_| Shard::default()),
            count: AtomicUsize::new(0),
            limit: limit.max(SHARDS),
            gauge,
        }
    }

    /// The filter of that name if it is open.
    pub(super) fn get(&self, name: &FilterName) -> Option<Arc<OpenFilter>> {
        let found = self.shard(name).open.read().get(name).map(Arc::clone)?;
        if !found.used.load(Ordering::Relaxed) {
            found.used.store(true, Ordering::Relaxed);
        }
        Some(found)
    }

    /// The filter of that name, opened from the store if need be. Blocks.
    pub(super) fn open(
        &self,
        name: &FilterName,
        store: &PageStore,
    ) -> Result<Option<Arc<OpenFilter>>, StoreError> {
        let shard = self.shard(name);
        loop {
            if let Some(open) = self.get(name) {
                return Ok(Some(open));
            }
            let epoch = shard.epoch.load(Ordering::Acquire);
            let Some(stored) = store.filter_by_name(name.as_str())? else {
                return Ok(None);
            };
            let stored = OpenFilter::of(stored)?;
            let mut open = shard.open.write();
            if shard.epoch.load(Ordering::Acquire) != epoch {
                // Created or removed meanwhile: what was read may be old.
                continue;
            }
            let filter = open.entry(name.clone()).or_insert_with(|| {
                self.count_one_more();
                Arc::new(stored)
            });
            return Ok(Some(Arc::clone(filter)));
        }
    }

    /// Forgets a filter that was just removed. Called by its lane.
    pub(super) fn remove(&self, filter: &OpenFilter) {
        filter.mark_removed();
        let shard = self.shard(&filter.name);
        let mut open = shard.open.write();
        shard.epoch.fetch_add(1, Ordering::AcqRel);
        if open.remove(&filter.name).is_some() {
            self.count_less(1);
        }
    }

    /// Makes a filter known that was just created, or given its name in the
    /// place of another that is forgotten with it: at any moment one of them is
    /// found. Called by its lane.
    pub(super) fn insert(&self, filter: Arc<OpenFilter>, replaced: Option<&OpenFilter>) {
        let shard = self.shard(&filter.name);
        let mut open = shard.open.write();
        shard.epoch.fetch_add(1, Ordering::AcqRel);
        if let Some(replaced) = replaced {
            replaced.mark_removed();
        }
        if open.insert(filter.name.clone(), filter).is_none() {
            self.count_one_more();
        }
    }

    /// Forgets a filter whose creation was taken back, should it have been
    /// opened meanwhile. Called by its lane.
    pub(super) fn forget(&self, id: FilterId, name: &FilterName) {
        let opened = self.get(name).filter(|open| open.id == id);
        match opened {
            Some(open) => self.remove(&open),
            // It may be about to be opened.
            None => {
                self.shard(name).epoch.fetch_add(1, Ordering::AcqRel);
            }
        }
    }

    /// Whether this is the open filter of its name, and not one that was
    /// closed or replaced.
    pub(super) fn is_current(&self, filter: &Arc<OpenFilter>) -> bool {
        !filter.is_removed()
            && self
                .shard(&filter.name)
                .open
                .read()
                .get(&filter.name)
                .is_some_and(|open| Arc::ptr_eq(open, filter))
    }

    /// The open filters that `wanted` says yes to.
    pub(super) fn those(&self, wanted: impl Fn(&OpenFilter) -> bool) -> Vec<Arc<OpenFilter>> {
        let mut found = Vec::new();
        for shard in &self.shards {
            let open = shard.open.read();
            found.extend(open.values().filter(|filter| wanted(filter)).cloned());
        }
        found
    }

    /// Whether one more may be opened.
    pub(super) fn has_room(&self) -> bool {
        self.count.load(Ordering::Relaxed) < self.limit
    }

    /// Closes filters that are not in use, an eighth of the bound at most, those
    /// not asked for lately first. Says whether there is room then.
    pub(super) fn close_unused(&self) -> bool {
        let mut to_close = (self.limit / 8).max(1);
        for _ in 0..2 {
            for shard in &self.shards {
                let mut open = shard.open.write();
                let before = open.len();
                open.retain(|_, filter| {
                    if to_close == 0 || filter.used.swap(false, Ordering::Relaxed) {
                        return true;
                    }
                    // All work with the filter holds another reference, and
                    // gets none while the shard is locked.
                    let unused = Arc::strong_count(filter) == 1;
                    // What was done under the last reference comes before.
                    fence(Ordering::Acquire);
                    let closable = unused && filter.view.load().is_clean();
                    to_close -= usize::from(closable);
                    !closable
                });
                let closed = before - open.len();
                if closed > 0 {
                    // A description that was read before may be an old one:
                    // the filter may have changed since, while it was open.
                    shard.epoch.fetch_add(1, Ordering::AcqRel);
                }
                self.count_less(closed);
            }
        }
        self.has_room()
    }

    fn shard(&self, name: &FilterName) -> &Shard {
        let index = FixedState::default().hash_one(name.as_str()) as usize % SHARDS;
        let [first, ..] = &self.shards;
        self.shards.get(index).unwrap_or(first)
    }

    fn count_one_more(&self) {
        self.count.fetch_add(1, Ordering::Relaxed);
        self.gauge.inc();
    }

    fn count_less(&self, closed: usize) {
        self.count.fetch_sub(closed, Ordering::Relaxed);
        self.gauge.sub(closed as i64);
    }
}

/// The chain that the description of a filter in the store says.
pub(super) fn decode(id: FilterId, meta: &[u8]) -> Result<Chain, StoreError> {
    let what = || format!("metadata of filter {id}");
    Chain::decode(meta).map_err(|error| match error {
        MetaError::Newer { found } => StoreError::newer(what(), found, META_VERSION),
        MetaError::Corrupt(_) => StoreError::corrupt(what(), error),
    })
}

/// A stored name that is none is corruption.
pub(super) fn stored_name(id: FilterId, name: &str) -> Result<FilterName, StoreError> {
    FilterName::parse(name)
        .map_err(|error| StoreError::corrupt(format!("name of filter {id}"), error))
}
