//! Asking many filters about the same items at once.
//!
//! So many filters at a time as one request may keep open: others need open
//! filters, too. Every filter is asked as far as its pages are resident, on the
//! caller's own thread. Questions that rest on other pages are put aside, of
//! all these filters together, and their pages are read in one sorted batch, or in
//! several if one would take too much memory. Each answer is as right as that
//! of a question to the one filter; all of them together are no snapshot.

use crate::answer::{LookupAnswer, LookupFilters, LookupMode};
use crate::batch::ItemBatch;
use crate::caller::Caller;
use crate::chain::read::GROUP;
use crate::cuckoo::hash::{HashId, ItemHash};
use crate::error::{EngineError, Overload, Result};
use crate::filters::OpenFilter;
use crate::lane::submit::hash_items;
use crate::match_bits::MatchBitSet;
use crate::name::FilterName;
use crate::ops::names::Chosen;
use crate::pages::{Images, WordsRead};
use crate::reader::{Exists, Groups, PAGES_PER_LOAD, PublishedWords, Reshapes, all_pages};
use crate::state::{Engine, EngineState};
use std::ops::Range;
use std::slice::Chunks;
use std::sync::Arc;

/// Probes made before the thread is given back to others.
const PROBES_PER_TURN: usize = 4096;

/// Bytes of an item that cost as much to hash as a probe.
const BYTES_A_PROBE: usize = 64;

/// Filters that are asked together, and kept open meanwhile.
const FILTERS_AT_ONCE: usize = 256;

/// Names of filters that are read at once.
const NAMES_AT_ONCE: usize = 256;

/// How often a lookup starts over because a filter it asked was replaced.
const RESTARTS: usize = 8;

impl Engine {
    /// Which of many filters contain each item. "No" is right, "yes" is right
    /// but for the filters' false-positive rates. Each item is hashed once for all
    /// filters of one hash, and pages that are not resident are read for all
    /// filters together.
    ///
    /// With `within_seconds`: which of them saw it within the last so many seconds,
    /// as for [`seen_within`](Engine::seen_within).
    ///
    /// # Errors
    /// [`EngineError::TooManyFilters`] and [`EngineError::TooManyProbes`] if it
    /// asks too much; [`EngineError::NoWindow`] and [`EngineError::BeyondWindow`] if
    /// one of the filters can't be asked that; or a page can't be read. A filter
    /// that is not there is no error.
    pub async fn lookup(
        &self,
        filters: &LookupFilters,
        items: &ItemBatch,
        mode: LookupMode,
        within_seconds: Option<u64>,
        max_filters: usize,
    ) -> Result<LookupAnswer> {
        let names = self.names_to_look_up(filters, max_filters).await?;
        let asked = Asked {
            items,
            mode,
            question: Exists::within(within_seconds),
        };
        let mut answer = self.look_up(names, asked).await?;
        if matches!(filters, LookupFilters::Prefix(_)) {
            // Those that went meanwhile were not named.
            answer.missing.clear();
        }
        let found = (0..items.len())
            .filter(|&item| answer.matches.next(item, 0).is_some())
            .count();
        self.state.count_items("lookup", "found", found);
        self.state
            .count_items("lookup", "absent", items.len() - found);
        Ok(answer)
    }

    /// The filters that a lookup is about.
    async fn names_to_look_up(
        &self,
        filters: &LookupFilters,
        bound: usize,
    ) -> Result<Vec<FilterName>> {
        let mut names = Vec::new();
        match filters {
            LookupFilters::Named(named) => names.clone_from(named),
            LookupFilters::Prefix(prefix) => {
                let (all, mut after): (Chosen, _) = (Arc::new(|_| true), None);
                loop {
                    let found = self.names_after(prefix, after, NAMES_AT_ONCE, Arc::clone(&all));
                    let (found, last) = found.await?;
                    names.extend(found);
                    after = last;
                    if after.is_none() || names.len() > bound {
                        break;
                    }
                }
            }
        }
        match names.len() > bound {
            true => Err(EngineError::TooManyFilters { bound }),
            false => Ok(names),
        }
    }

    /// Asks all filters of these names about all items.
    async fn look_up(&self, names: Vec<FilterName>, asked: Asked<'_>) -> Result<LookupAnswer> {
        let state = &self.state;
        // Each of them has one sub-filter at least; before they are opened.
        state.check_probes(asked.items.len(), names.len())?;
        state.metrics.lookup_filters.observe(names.len() as f64);
        let at_once = FILTERS_AT_ONCE.min(state.looked_up.bound() as usize).max(1);
        for _ in 0..RESTARTS {
            // What comes in one part is counted when it is open.
            if names.len() > at_once {
                let mut sub_filters = 0;
                for name in &names {
                    let filter = self.state.open(&self.caller, name).await?;
                    sub_filters += filter.map_or(0, |filter| sub_filters_of(&filter));
                }
                state.check_probes(asked.items.len(), sub_filters)?;
            }
            let parts = names.chunks(at_once);
            if let Some(answer) = self.ask_all(parts, asked).await? {
                return Ok(answer);
            }
        }
        Err(Overload::FiltersReplaced.into())
    }

    /// Asks them in parts. `None`: one was replaced meanwhile.
    async fn ask_all(
        &self,
        parts: Chunks<'_, FilterName>,
        asked: Asked<'_>,
    ) -> Result<Option<LookupAnswer>> {
        let state = &self.state;
        let names = parts.clone().map(<[FilterName]>::len).sum();
        let mut so_far = SoFar {
            asked: 0,
            matches: MatchBitSet::none(asked.items.len(), names),
            unkeyed: None,
        };
        let (mut found, mut missing) = (Vec::new(), Vec::new());
        for names in parts {
            let places = names.len() as u64;
            let _places = state
                .store_work
                .wait(&self.caller, &state.looked_up, places)
                .await?;
            let mut filters = Vec::new();
            for name in names {
                match self.state.open(&self.caller, name).await? {
                    Some(filter) => filters.push(filter),
                    None => missing.push(name.clone()),
                }
            }
            let sub_filters = filters.iter().map(|filter| sub_filters_of(filter)).sum();
            state.check_probes(asked.items.len(), sub_filters)?;
            let mut sweep = Sweep::new(self, &filters, asked, so_far).await?;
            sweep.run().await?;
            // Pages of a filter that is gone read as zeros.
            if filters.iter().any(|filter| filter.is_removed()) {
                return Ok(None);
            }
            so_far = sweep.so_far;
            so_far.asked += filters.len();
            found.extend(filters.iter().map(|filter| filter.name.clone()));
        }
        let mut matches = so_far.matches;
        if asked.mode == LookupMode::First {
            matches.keep_first();
        }
        Ok(Some(LookupAnswer {
            filters: found,
            missing,
            matches,
        }))
    }
}

/// Sub-filters in which an item is looked for.
fn sub_filters_of(filter: &OpenFilter) -> usize {
    filter.view.load().tables.len()
}

/// What is asked of each filter.
#[derive(Clone, Copy)]
struct Asked<'a> {
    items: &'a ItemBatch,
    mode: LookupMode,
    question: Exists,
}

/// One question: whether this item is in this filter.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Pair {
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

/// What goes from one part of the filters to the next.
struct SoFar {
    /// Filters that were asked.
    asked: usize,
    /// The filters that are known to contain each item.
    matches: MatchBitSet,
    /// The hashes of the items for filters without a key.
    unkeyed: Option<(HashId, Arc<[ItemHash]>)>,
}

/// One pass over some filters and all items.
struct Sweep<'a> {
    state: &'a EngineState,
    caller: &'a Caller,
    filters: &'a [Arc<OpenFilter>],
    asked: Asked<'a>,
    /// How each filter hashes the items.
    hashes: Vec<Hashes>,
    so_far: SoFar,
    /// Questions that wait for pages, and at most how many pages these are.
    cold: Vec<Pair>,
    cold_pages: usize,
}

impl<'a> Sweep<'a> {
    async fn new(
        engine: &'a Engine,
        filters: &'a [Arc<OpenFilter>],
        asked: Asked<'a>,
        mut so_far: SoFar,
    ) -> Result<Sweep<'a>> {
        let mut by_filter = Vec::with_capacity(filters.len());
        for filter in filters {
            asked.question.check(filter)?;
            let view = filter.view.load_full();
            let id = view.chain.hash_id();
            let of_items = match &so_far.unkeyed {
                _ if matches!(id, HashId::SipHash13(_)) => Hashes::Own(id),
                Some((known, hashes)) if *known == id => Hashes::Known(Arc::clone(hashes)),
                _ => {
                    let hashes = hash_items(&engine.caller, &view.chain, asked.items).await?;
                    so_far.unkeyed = Some((id, Arc::clone(&hashes)));
                    Hashes::Known(hashes)
                }
            };
            by_filter.push(of_items);
        }
        Ok(Sweep {
            state: &engine.state,
            caller: &engine.caller,
            filters,
            asked,
            hashes: by_filter,
            so_far,
            cold: Vec::new(),
            cold_pages: 0,
        })
    }

    async fn run(&mut self) -> Result {
        let of_each = self.filters.iter().map(|it| it.view.load().tables.len());
        let sub_filters: Vec<usize> = of_each.collect();
        let per_turn = PROBES_PER_TURN / sub_filters.iter().sum::<usize>().max(1);
        let (mut first, mut spent) = (0, 0);
        while first < self.asked.items.len() {
            let chunk = self.asked.items.chunk(first, per_turn);
            for (filter, sub_filters) in sub_filters.iter().enumerate() {
                let mut next = chunk.start;
                while next < chunk.end {
                    next = self.ask_resident(filter, next..chunk.end);
                    if self.cold_pages >= PAGES_PER_LOAD {
                        self.ask_cold().await?;
                    }
                }
                spent +=
                    chunk.len() * sub_filters + self.hashed_bytes(filter, &chunk) / BYTES_A_PROBE;
                if spent >= PROBES_PER_TURN {
                    spent = 0;
                    tokio::task::yield_now().await;
                    self.caller.check()?;
                }
            }
            first = chunk.end;
        }
        self.ask_cold().await
    }

    /// Bytes of items that are hashed for one filter alone.
    fn hashed_bytes(&self, filter: usize, items: &Range<usize>) -> usize {
        match self.hashes.get(filter) {
            Some(Hashes::Own(_)) => {
                let items = self.asked.items.iter().skip(items.start).take(items.len());
                items.map(<[u8]>::len).sum()
            }
            _ => 0,
        }
    }

    /// Asks one filter about items as far as pages are resident, until enough
    /// questions wait for other pages. Returns the first item not asked about.
    fn ask_resident(&mut self, filter: usize, items: Range<usize>) -> usize {
        let Some(open) = self.filters.get(filter) else {
            return items.end;
        };
        let view = open.view.load_full();
        let images = Images::default();
        let exists = self.asked.question.at(&view, || self.state.clock.now_ms());
        let mut groups = Groups::new(&self.state.cache, open, &view);
        let mut words = PublishedWords::new(&self.state.cache, open, &view, &images);
        let (mut pairs, mut hashes) = (Vec::new(), Vec::new());
        let mut next = items.start;
        while next < items.end && self.cold_pages < PAGES_PER_LOAD {
            let end = (next + GROUP).min(items.end);
            pairs.clear();
            hashes.clear();
            for item in next..end {
                let pair = Pair {
                    filter: filter as u32,
                    item: item as u32,
                };
                if let Some(hash) = self.hash_of(pair).filter(|_| !self.is_settled(pair)) {
                    pairs.push(pair);
                    hashes.push(hash);
                }
            }
            next = end;
            let mut found = [false; GROUP];
            let unanswered = groups.settle(exists, &hashes, &mut found);
            for (&pair, _) in pairs.iter().zip(found).filter(|(_, found)| *found) {
                self.add_match(pair);
            }
            for position in unanswered {
                let (Some(&pair), Some(&hash)) = (pairs.get(position), hashes.get(position)) else {
                    continue;
                };
                match words.settle(exists, hash) {
                    Some(true) => self.add_match(pair),
                    Some(false) => {}
                    None => {
                        self.cold.push(pair);
                        self.cold_pages += 2 * view.tables.len();
                    }
                }
            }
            if !open.is_shaped_as(&view, WordsRead::fence()) {
                // The others are asked of the view as it is now.
                break;
            }
        }
        self.count(groups.pages + words.cached_pages, words.retries);
        next
    }

    /// Answers the questions that wait for pages, reading these for all
    /// filters at once.
    async fn ask_cold(&mut self) -> Result {
        let mut open = std::mem::take(&mut self.cold);
        self.cold_pages = 0;
        open.sort_unstable();
        let mut round = 1;
        loop {
            open.retain(|&pair| !self.is_settled(pair));
            if open.is_empty() {
                return Ok(());
            }
            self.caller.check()?;
            open = self.read_and_ask(open, round).await?;
            round += 1;
        }
    }

    /// One round through the store. Returns the questions that commits have
    /// overtaken.
    async fn read_and_ask(&mut self, open: Vec<Pair>, round: usize) -> Result<Vec<Pair>> {
        let by_filter = || open.chunk_by(|a, b| a.filter == b.filter);
        let mut wanted = Vec::new();
        for pairs in by_filter() {
            let Some(filter) = self.filter_of(pairs) else {
                continue;
            };
            let view = filter.view.load_full();
            let hashes: Vec<ItemHash> = pairs
                .iter()
                .filter_map(|&pair| self.hash_of(pair))
                .collect();
            let pages = all_pages(&view.chain, hashes.iter());
            wanted.push((view, pages));
        }
        let read = self.state.read_cold(self.caller, wanted, round).await?;
        let mut overtaken = Vec::new();
        for pairs in by_filter() {
            let filter = self.filter_of(pairs);
            let Some(filter) = filter.filter(|it| !it.is_removed()) else {
                continue;
            };
            let mut open = pairs.to_vec();
            let _held = self.state.hold_publications(filter, round);
            self.ask_each(&mut open, &read.images);
            overtaken.append(&mut open);
        }
        Ok(overtaken)
    }

    /// Asks one filter about items one by one, and leaves what stays open.
    fn ask_each(&mut self, open: &mut Vec<Pair>, images: &Images) {
        let Some(filter) = self.filter_of(open) else {
            return open.clear();
        };
        let mut reshapes = Reshapes::default();
        loop {
            // As it is now: pages may have been split while others were read.
            let view = filter.view.load();
            let mut words = PublishedWords::new(&self.state.cache, filter, &view, images);
            let exists = self.asked.question.at(&view, || self.state.clock.now_ms());
            open.retain(|&pair| {
                let found = self.hash_of(pair).map(|hash| words.settle(exists, hash));
                if found == Some(Some(true)) {
                    self.add_match(pair);
                }
                found == Some(None)
            });
            self.count(words.cached_pages, words.retries);
            if open.is_empty() || !reshapes.ask_again(&words) {
                return;
            }
        }
    }

    fn filter_of(&self, pairs: &[Pair]) -> Option<&'a Arc<OpenFilter>> {
        self.filters.get(pairs.first()?.filter as usize)
    }

    fn hash_of(&self, pair: Pair) -> Option<ItemHash> {
        let item = pair.item as usize;
        match self.hashes.get(pair.filter as usize)? {
            Hashes::Known(hashes) => hashes.get(item).copied(),
            Hashes::Own(id) => Some(id.hash(self.asked.items.get(item)?)),
        }
    }

    /// Whether the answer is known to make no difference: only the first
    /// match is wanted, and there is an earlier one.
    fn is_settled(&self, pair: Pair) -> bool {
        let first = || self.so_far.matches.next(pair.item as usize, 0);
        self.asked.mode == LookupMode::First
            && first().is_some_and(|first| first < self.position(pair))
    }

    fn add_match(&mut self, pair: Pair) {
        let position = self.position(pair);
        self.so_far.matches.set(pair.item as usize, position);
    }

    /// Position of the filter among all those that are asked.
    fn position(&self, pair: Pair) -> usize {
        self.so_far.asked + pair.filter as usize
    }

    fn count(&self, cached_pages: u64, retries: u64) {
        self.state.cached_reads.inc_by(cached_pages);
        self.state.metrics.read_retries.inc_by(retries);
    }
}

#[cfg(test)]
mod tests;
