//! Asking many filters about the same items at once.
//!
//! First every filter is asked as far as its pages are resident, on the
//! caller's own thread. Questions that rest on other pages are put aside, of
//! all filters together, and their pages are read in one sorted batch, or in
//! several if one would take too much memory. Each answer is as right as that
//! of a question to the one filter; all of them together are no snapshot.

use crate::chain::read::GROUP;
use crate::cuckoo::hash::{HashId, ItemHash};
use crate::engine::answer::{EngineError, FilterName, LookupAnswer, LookupFilters, LookupMode};
use crate::engine::batch::ItemBatch;
use crate::engine::filters::{OpenFilter, stored_name};
use crate::engine::lane::command::{Outcome, Verb};
use crate::engine::matches::Matches;
use crate::engine::pages::Images;
use crate::engine::reader::{
    Exists, Groups, ITEMS_PER_TURN, PAGES_PER_LOAD, PublishedWords, ROUNDS, all_pages, off_thread,
};
use crate::engine::shared::{Shared, hashes};
use crate::engine::tasks::expiry::list_those_not_over;
use std::ops::Range;
use std::sync::Arc;

/// How often a lookup starts over because a filter it asked was replaced.
const RESTARTS: usize = 8;

impl Shared {
    /// The filters that a lookup is about.
    pub(crate) async fn names_to_look_up(
        &self,
        filters: &LookupFilters,
        bound: usize,
    ) -> Result<Vec<FilterName>, EngineError> {
        let names: Vec<FilterName> = match filters {
            LookupFilters::Named(names) => names.clone(),
            LookupFilters::Prefix(prefix) => {
                let (store, prefix) = (Arc::clone(&self.store), prefix.clone());
                let (limit, now_ms) = (bound.saturating_add(1), self.clock.now_ms());
                let listing = move || list_those_not_over(&store, &prefix, None, limit, now_ms);
                let stored = off_thread(listing).await??;
                stored.iter().map(stored_name).collect::<Result<_, _>>()?
            }
        };
        match names.len() > bound {
            true => Err(EngineError::TooManyFilters { bound }),
            false => Ok(names),
        }
    }

    /// Asks all filters of these names about all items.
    pub(crate) async fn lookup(
        &self,
        names: Vec<FilterName>,
        items: &ItemBatch,
        mode: LookupMode,
    ) -> Result<LookupAnswer, EngineError> {
        self.metrics.lookup_filters.observe(names.len() as f64);
        for _ in 0..RESTARTS {
            let (mut filters, mut missing) = (Vec::new(), Vec::new());
            for name in &names {
                match self.open(name).await? {
                    Some(filter) => filters.push(filter),
                    None => missing.push(name.clone()),
                }
            }
            let mut sweep = Sweep::new(self, &filters, items, mode).await;
            sweep.run().await?;
            // Pages of a filter that is gone read as zeros.
            if sweep.is_stale || filters.iter().any(|filter| filter.is_removed()) {
                continue;
            }
            let matches = sweep.matches;
            return Ok(LookupAnswer {
                filters: filters.iter().map(|filter| filter.name.clone()).collect(),
                missing,
                matches,
            });
        }
        Err(EngineError::Overloaded {
            what: "filters are replaced faster than they can be looked up in",
        })
    }
}

/// One question: is this item in this filter?
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Probe {
    filter: u32,
    item: u32,
}

/// The hashes of the items as a filter wants them.
enum Hashes {
    /// Filters without a key share them.
    Known(Arc<[ItemHash]>),
    /// With a key of the filter's own they are of no use to another, and cost
    /// less to make again than to keep for all filters.
    Own(HashId),
}

/// One pass over all filters and items.
struct Sweep<'a> {
    shared: &'a Shared,
    filters: &'a [Arc<OpenFilter>],
    items: &'a ItemBatch,
    mode: LookupMode,
    /// How each filter hashes the items.
    hashes: Vec<Hashes>,
    /// The filters that are known to contain each item.
    matches: Matches,
    /// Questions that wait for pages, and at most how many pages these are.
    cold: Vec<Probe>,
    cold_pages: usize,
    /// A filter was replaced meanwhile.
    is_stale: bool,
}

impl<'a> Sweep<'a> {
    async fn new(
        shared: &'a Shared,
        filters: &'a [Arc<OpenFilter>],
        items: &'a ItemBatch,
        mode: LookupMode,
    ) -> Sweep<'a> {
        let mut unkeyed: Option<(HashId, Arc<[ItemHash]>)> = None;
        let mut by_filter = Vec::with_capacity(filters.len());
        for filter in filters {
            let view = filter.view.load_full();
            let id = view.chain.hash_id();
            let of_items = match &unkeyed {
                _ if id.is_keyed() => Hashes::Own(id),
                Some((known, hashes)) if *known == id => Hashes::Known(Arc::clone(hashes)),
                _ => {
                    let hashes = hashes(&view.chain, items).await;
                    unkeyed = Some((id, Arc::clone(&hashes)));
                    Hashes::Known(hashes)
                }
            };
            by_filter.push(of_items);
        }
        Sweep {
            shared,
            filters,
            items,
            mode,
            hashes: by_filter,
            matches: Matches::none(items.len(), filters.len()),
            cold: Vec::new(),
            cold_pages: 0,
            is_stale: false,
        }
    }

    async fn run(&mut self) -> Result<(), EngineError> {
        let per_turn = (ITEMS_PER_TURN / self.filters.len().max(1)).max(1);
        let mut first = 0;
        while first < self.items.len() {
            let end = (first + per_turn).min(self.items.len());
            for filter in 0..self.filters.len() {
                let mut next = first;
                while next < end {
                    next = self.ask_resident(filter, next..end);
                    if self.cold_pages >= PAGES_PER_LOAD {
                        self.ask_cold().await?;
                    }
                }
            }
            first = end;
            tokio::task::yield_now().await;
        }
        self.ask_cold().await?;
        if self.mode == LookupMode::First {
            self.matches.keep_first();
        }
        Ok(())
    }

    /// Asks one filter about items as far as pages are resident, until enough
    /// questions wait for other pages. Returns the first item not asked about.
    fn ask_resident(&mut self, filter: usize, items: Range<usize>) -> usize {
        let Some(open) = self.filters.get(filter) else {
            return items.end;
        };
        let view = open.view.load_full();
        let images = Images::default();
        let mut groups = Groups::new(&self.shared.cache, open, &view);
        let mut words = PublishedWords::new(&self.shared.cache, &view, &images);
        let (mut probes, mut hashes) = (Vec::new(), Vec::new());
        let mut next = items.start;
        while next < items.end && self.cold_pages < PAGES_PER_LOAD {
            let end = (next + GROUP).min(items.end);
            probes.clear();
            hashes.clear();
            for item in next..end {
                let probe = Probe {
                    filter: filter as u32,
                    item: item as u32,
                };
                if let Some(hash) = self.hash_of(probe).filter(|_| !self.is_settled(probe)) {
                    probes.push(probe);
                    hashes.push(hash);
                }
            }
            next = end;
            let mut found = [false; GROUP];
            let unanswered = groups.settle(Exists, &hashes, &mut found);
            for (&probe, _) in probes.iter().zip(found).filter(|(_, found)| *found) {
                self.note(probe);
            }
            for position in unanswered {
                let (Some(&probe), Some(&hash)) = (probes.get(position), hashes.get(position))
                else {
                    continue;
                };
                match words.settle(Exists, hash) {
                    Some(true) => self.note(probe),
                    Some(false) => {}
                    None => {
                        self.cold.push(probe);
                        self.cold_pages += 2 * view.tables.len();
                    }
                }
            }
        }
        self.count(groups.pages + words.cached_pages, words.retries);
        next
    }

    /// Answers the questions that wait for pages, reading these for all
    /// filters at once.
    async fn ask_cold(&mut self) -> Result<(), EngineError> {
        let mut open = std::mem::take(&mut self.cold);
        self.cold_pages = 0;
        open.sort_unstable();
        for _ in 1..ROUNDS {
            open.retain(|&probe| !self.is_settled(probe));
            if open.is_empty() {
                return Ok(());
            }
            open = self.read_and_ask(open).await?;
        }
        self.ask_lanes(&open).await
    }

    /// One round through the store. Returns the questions that commits have
    /// overtaken.
    async fn read_and_ask(&mut self, open: Vec<Probe>) -> Result<Vec<Probe>, EngineError> {
        let by_filter = || open.chunk_by(|a, b| a.filter == b.filter);
        let mut wanted = Vec::new();
        for probes in by_filter() {
            let Some(filter) = self.filter_of(probes) else {
                continue;
            };
            // The view comes first, as for a question to one filter.
            let view = filter.view.load_full();
            let hashes: Vec<ItemHash> = probes
                .iter()
                .filter_map(|&probe| self.hash_of(probe))
                .collect();
            let pages = all_pages(&view.chain, hashes.iter());
            wanted.push((view, pages));
        }
        let loader = Arc::clone(&self.shared.loader);
        let (wanted, images) = off_thread(move || {
            let of_each = wanted.iter().map(|(view, pages)| (&*view.tables, &**pages));
            let images = loader.read_of_many(of_each);
            (wanted, images)
        })
        .await?;
        let images = images?;
        let mut overtaken = Vec::new();
        for (probes, (view, _)) in by_filter().zip(&wanted) {
            let mut words = PublishedWords::new(&self.shared.cache, view, &images);
            for &probe in probes {
                let Some(hash) = self.hash_of(probe) else {
                    continue;
                };
                match words.settle(Exists, hash) {
                    Some(true) => self.note(probe),
                    Some(false) => {}
                    None => overtaken.push(probe),
                }
            }
            self.count(words.cached_pages, words.retries);
        }
        Ok(overtaken)
    }

    /// Has the lanes answer what commits keep overtaking.
    async fn ask_lanes(&mut self, open: &[Probe]) -> Result<(), EngineError> {
        for probes in open.chunk_by(|a, b| a.filter == b.filter) {
            let Some(filter) = self.filter_of(probes).map(Arc::clone) else {
                continue;
            };
            let mut batch = ItemBatch::new();
            for probe in probes {
                batch.push(self.items.get(probe.item as usize).unwrap_or_default());
            }
            let outcome = self.shared.work(filter, Verb::Exists, &batch, None).await?;
            let Outcome::Found(found) = outcome else {
                self.is_stale = true;
                return Ok(());
            };
            for (&probe, _) in probes.iter().zip(found).filter(|(_, found)| *found) {
                self.note(probe);
            }
        }
        Ok(())
    }

    fn filter_of(&self, probes: &[Probe]) -> Option<&'a Arc<OpenFilter>> {
        self.filters.get(probes.first()?.filter as usize)
    }

    fn hash_of(&self, probe: Probe) -> Option<ItemHash> {
        let item = probe.item as usize;
        match self.hashes.get(probe.filter as usize)? {
            Hashes::Known(hashes) => hashes.get(item).copied(),
            Hashes::Own(id) => Some(id.hash(self.items.get(item)?)),
        }
    }

    /// Whether the answer is known to make no difference: only the first
    /// match is wanted, and there is an earlier one.
    fn is_settled(&self, probe: Probe) -> bool {
        let first = || self.matches.next(probe.item as usize, 0);
        self.mode == LookupMode::First && first().is_some_and(|first| first < probe.filter as usize)
    }

    fn note(&mut self, probe: Probe) {
        self.matches
            .note(probe.item as usize, probe.filter as usize);
    }

    fn count(&self, cached_pages: u64, retries: u64) {
        let metrics = &self.shared.metrics;
        let reads = metrics.page_reads.with_label_values(&["cache"]);
        reads.inc_by(cached_pages);
        metrics.read_retries.inc_by(retries);
    }
}
