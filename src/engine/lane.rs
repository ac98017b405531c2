//! The single writer of its filters.
//!
//! A lane is a thread. It drains the commands that wait, plans them one after
//! another over an overlay, commits everything at once, publishes, and answers
//! every caller: one forced write serves all who waited for it. A command that
//! needs a page which is not resident is handed back to its caller with the
//! pages named, so one cold filter does not hold up the others.
//!
//! A commit that failed changed nothing in memory. Whether it is in the store
//! is unknown until its number has been written again, which the lane does
//! before anything else: no record, and every filter it touched as it is.

use super::answer::EngineError;
use super::cache::{FrameIndex, PageCache, PageTable};
use super::checkpoint::Ledgers;
use super::command::{Command, Create, ItemsCommand, Outcome, Verb};
use super::filters::{FilterView, Filters, OpenFilter};
use super::loader::{Loader, Pins};
use crate::chain::meta::Chain;
use crate::chain::plan::{Basis, ChangedWord, Facts, Overlay, Planner};
use crate::chain::read::{PageAddress, PageWords, WordAddress};
use crate::cuckoo::bucket::SLOTS_PER_WORD;
use crate::cuckoo::hash::ItemHash;
use crate::cuckoo::kick::KickSearch;
use crate::metrics::Metrics;
use crate::page::{FilterId, Ordinal, PageIndex, Sequence};
use crate::store::redo::RedoBuilder;
use crate::store::{Commit, FilterChange, Garbage, PageStore, StoreError};
use crossbeam_channel::{Receiver, RecvTimeoutError};
use prometheus::IntGauge;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};
use tokio::sync::oneshot;

/// Items after which a drain takes no further command.
const DRAIN_ITEMS: usize = 65_536;

/// How often a lane tries to settle a commit of unknown outcome while nobody
/// asks for anything.
const SETTLE_EVERY: Duration = Duration::from_millis(500);

/// A command on its way through a lane.
pub(super) struct Request {
    /// What to do.
    pub(super) command: Command,
    /// The filter that the caller means; none for a creation.
    pub(super) filter: Option<Arc<OpenFilter>>,
    /// Pages that the command asked for before.
    #[expect(dead_code, reason = "held only to be let go with the request")]
    pub(super) pins: Option<Pins>,
    /// Where the outcome goes.
    pub(super) reply: oneshot::Sender<Result<Outcome, EngineError>>,
}

impl Request {
    pub(super) fn items(&self) -> usize {
        match &self.command {
            Command::Items(command) => command.items.len(),
            Command::Create(create) => create.items.len(),
            Command::Remove(_) | Command::DropEmptied(_) => 0,
        }
    }

    fn answer(self, outcome: Result<Outcome, EngineError>) {
        // The caller may have gone away; the outcome stands all the same.
        let _ = self.reply.send(outcome);
    }
}

/// What a lane works with.
pub(super) struct Lane {
    /// Its number.
    pub(super) index: usize,
    /// The commands that wait.
    pub(super) commands: Receiver<Request>,
    /// Items that wait.
    pub(super) queued_items: Arc<AtomicUsize>,
    /// Commands that wait, for the metrics.
    pub(super) queue_depth: IntGauge,
    /// Pages that one command may touch.
    pub(super) max_pages: usize,
    /// The open filters.
    pub(super) filters: Arc<Filters>,
    /// The resident pages.
    pub(super) cache: Arc<PageCache>,
    /// Dirty pages and the log.
    pub(super) ledgers: Arc<Ledgers>,
    /// For frames of pages that are new.
    pub(super) loader: Arc<Loader>,
    /// Where commits go.
    pub(super) store: Arc<dyn PageStore>,
    /// Where facts are counted.
    pub(super) metrics: Arc<Metrics>,
}

/// A commit whose outcome nobody knows.
struct InDoubt {
    sequence: Sequence,
    /// Filters it touched that are there.
    touched: Vec<Arc<OpenFilter>>,
    /// A filter that it would have created.
    created: Option<(FilterId, String)>,
}

/// The commands of one commit.
#[derive(Default)]
struct Drain {
    filters: BTreeMap<FilterId, DrainFilter>,
    answers: Vec<(Request, Outcome)>,
    items: usize,
    facts: Facts,
}

/// One filter as the drain leaves it.
struct DrainFilter {
    filter: Arc<OpenFilter>,
    view: Arc<FilterView>,
    chain: Chain,
    overlay: Overlay,
    dropped: Vec<Ordinal>,
    /// Sub-filters from this position on have no pages yet.
    fresh_from: u32,
}

impl DrainFilter {
    fn of(filter: &Arc<OpenFilter>) -> DrainFilter {
        let view = filter.view.load_full();
        DrainFilter {
            filter: Arc::clone(filter),
            chain: view.chain.clone(),
            fresh_from: view.tables.len() as u32,
            view,
            overlay: Overlay::new(),
            dropped: Vec::new(),
        }
    }

    fn is_changed(&self) -> bool {
        !self.overlay.is_empty() || !self.dropped.is_empty()
    }
}

impl Lane {
    /// Works until nobody can send commands any more.
    pub(super) fn run(self) {
        let mut search = KickSearch::new();
        let mut in_doubt: Option<InDoubt> = None;
        let mut held_back: Option<Request> = None;
        loop {
            let request = match held_back.take() {
                Some(request) => request,
                None => match self.commands.recv_timeout(SETTLE_EVERY) {
                    Ok(request) => self.taken(request),
                    Err(RecvTimeoutError::Timeout) => {
                        in_doubt = in_doubt.and_then(|doubt| self.settle(doubt));
                        continue;
                    }
                    Err(RecvTimeoutError::Disconnected) => break,
                },
            };
            in_doubt = in_doubt.and_then(|doubt| self.settle(doubt));
            if in_doubt.is_some() {
                request.answer(Err(EngineError::Overloaded {
                    what: "an earlier commit failed and the store does not accept writes yet",
                }));
                continue;
            }
            if let Err(reason) = self.ledgers.wait_for_room() {
                tracing::warn!(%reason, "a command is refused because checkpoints fail");
                request.answer(Err(EngineError::Overloaded {
                    what: "pages can't be written to the store, and memory for more is used up",
                }));
                continue;
            }
            match request.command.clone() {
                Command::Create(create) => in_doubt = self.create(request, create, &mut search),
                Command::Remove(id) => in_doubt = self.remove(request, id),
                Command::DropEmptied(id) => in_doubt = self.drop_emptied(request, id),
                Command::Items(_) => {
                    let (drain, next) = self.drain(request, &mut search);
                    held_back = next;
                    in_doubt = self.finish(drain);
                }
            }
            self.cache.end_drain(self.index);
        }
        if let Some(doubt) = in_doubt
            && self.settle(doubt).is_some()
        {
            tracing::error!("stopped with a commit of unknown outcome");
        }
    }

    fn taken(&self, request: Request) -> Request {
        self.queue_depth.dec();
        self.queued_items
            .fetch_sub(request.items(), Ordering::Relaxed);
        request
    }

    /// The filter that a request means, if it still is the one of its name.
    fn current(&self, request: &Request, id: FilterId) -> Option<Arc<OpenFilter>> {
        request
            .filter
            .clone()
            .filter(|filter| filter.id == id && self.filters.is_current(filter))
    }

    /// Plans the first command and those that wait behind it, as far as the
    /// bounds of a drain allow. Returns the request that did not fit.
    fn drain(&self, first: Request, search: &mut KickSearch) -> (Drain, Option<Request>) {
        let mut drain = Drain::default();
        let mut pages = PageBudget {
            touched: 0,
            limit: self.max_pages,
        };
        self.plan(first, &mut drain, &mut pages, search);
        while drain.items < DRAIN_ITEMS && pages.touched < self.max_pages / 2 {
            let Ok(next) = self.commands.try_recv() else {
                break;
            };
            let next = self.taken(next);
            // Creations and removals have a commit of their own.
            if !matches!(next.command, Command::Items(_)) {
                return (drain, Some(next));
            }
            pages.limit = pages.touched + self.max_pages;
            self.plan(next, &mut drain, &mut pages, search);
        }
        (drain, None)
    }

    /// Plans one command on top of the drain, or answers it at once if that
    /// can't be done now.
    fn plan(
        &self,
        request: Request,
        drain: &mut Drain,
        pages: &mut PageBudget,
        search: &mut KickSearch,
    ) {
        let Command::Items(command) = &request.command else {
            return;
        };
        let Some(filter) = self.current(&request, command.filter) else {
            return request.answer(Ok(Outcome::Stale));
        };
        let state = drain
            .filters
            .entry(filter.id)
            .or_insert_with(|| DrainFilter::of(&filter));
        let before = pages.touched;
        let mut words = LaneWords {
            lane: self,
            view: &state.view,
            pages,
            missing: BTreeSet::new(),
        };
        let basis = Basis {
            chain: state.chain.clone(),
            pending: &state.overlay,
            fresh_from: state.fresh_from,
        };
        let mut planner = Planner::new(basis, &mut words, search);
        let outcome = apply(command, &mut planner);
        let plan = planner.finish();
        if pages_over(&words) {
            let needed = words.pages.touched - before + words.missing.len();
            let bound = self.max_pages;
            return request.answer(Err(EngineError::TooManyPages { needed, bound }));
        }
        let (Some(plan), Some(outcome)) = (plan, outcome) else {
            self.metrics.commands_put_back.inc();
            let missing = words.missing.into_iter().collect();
            return request.answer(Ok(Outcome::NeedsPages(missing)));
        };
        state.chain = plan.chain;
        state.overlay.merge(plan.overlay);
        drain.items += command.items.len();
        drain.facts.expansions += plan.facts.expansions;
        drain.facts.kick_paths.extend(plan.facts.kick_paths);
        drain.answers.push((request, outcome));
    }

    /// Commits what was planned, publishes it and answers.
    fn finish(&self, mut drain: Drain) -> Option<InDoubt> {
        drain.filters.retain(|_, state| state.is_changed());
        if drain.filters.is_empty() {
            answer_all(drain.answers);
            return None;
        }
        let changes: Vec<Changes> = drain.filters.into_values().map(Changes::of).collect();
        let committed = self.commit(&changes, |changes| {
            changes
                .iter()
                .map(|it| FilterChange::Update {
                    id: it.filter.id,
                    meta: it.view.chain.encode(),
                    dropped: it.dropped.clone(),
                })
                .collect()
        });
        match committed {
            Ok(()) => {
                self.record(&drain.facts, drain.items, &changes);
                answer_all(drain.answers);
                None
            }
            Err(failure) => {
                for (request, _) in drain.answers {
                    request.answer(Err(failure.error.clone()));
                }
                failure.in_doubt(changes.into_iter().map(|it| it.filter).collect(), None)
            }
        }
    }

    fn create(&self, request: Request, create: Create, search: &mut KickSearch) -> Option<InDoubt> {
        // The store is asked because the filter may be there but not open.
        let taken = match self.store.filter_by_name(create.name.as_str()) {
            Ok(found) => found.is_some(),
            Err(error) => {
                request.answer(Err(error.into()));
                return None;
            }
        };
        if taken {
            request.answer(Ok(Outcome::NameTaken));
            return None;
        }
        let Some(empty) = Chain::new(create.params, create.created_at_ms) else {
            request.answer(Ok(Outcome::Stale));
            return None;
        };
        let filter = Arc::new(OpenFilter::new(
            create.id,
            create.name.clone(),
            empty.clone(),
        ));
        let command = ItemsCommand {
            filter: create.id,
            verb: Verb::Add(create.mode),
            items: create.items,
        };
        // Nobody has written to its pages: all words are zero.
        let pending = Overlay::new();
        let basis = Basis {
            chain: empty,
            pending: &pending,
            fresh_from: 0,
        };
        let mut nothing = NoPages;
        let mut planner = Planner::new(basis, &mut nothing, search);
        let outcome = apply(&command, &mut planner);
        let (Some(plan), Some(Outcome::Added(results))) = (planner.finish(), outcome) else {
            request.answer(Ok(Outcome::Stale));
            return None;
        };
        let facts = plan.facts;
        let changes = Changes::of(DrainFilter {
            chain: plan.chain,
            overlay: plan.overlay,
            fresh_from: 0,
            ..DrainFilter::of(&filter)
        });
        if changes.pages.len() > self.max_pages {
            let (needed, bound) = (changes.pages.len(), self.max_pages);
            request.answer(Err(EngineError::TooManyPages { needed, bound }));
            return None;
        }
        let changes = [changes];
        let name = create.name.as_str().to_owned();
        let committed = self.commit(&changes, |changes| {
            changes
                .iter()
                .map(|it| FilterChange::Create {
                    id: create.id,
                    name: name.clone(),
                    meta: it.view.chain.encode(),
                })
                .collect()
        });
        match committed {
            Ok(()) => {
                self.record(&facts, command.items.len(), &changes);
                self.filters.insert(filter);
                request.answer(Ok(Outcome::Created(results)));
                None
            }
            Err(failure) => {
                request.answer(Err(failure.error.clone()));
                failure.in_doubt(Vec::new(), Some((create.id, name)))
            }
        }
    }

    fn remove(&self, request: Request, id: FilterId) -> Option<InDoubt> {
        let Some(filter) = self.current(&request, id) else {
            request.answer(Ok(Outcome::Stale));
            return None;
        };
        let committed = self.commit(&[], |_| {
            vec![FilterChange::Remove {
                id: filter.id,
                name: filter.name.as_str().to_owned(),
            }]
        });
        match committed {
            Ok(()) => {
                self.filters.remove(&filter);
                self.ledgers.reclaim_soon([Garbage::Filter(filter.id)]);
                request.answer(Ok(Outcome::Removed));
                None
            }
            Err(failure) => {
                request.answer(Err(failure.error.clone()));
                failure.in_doubt(vec![filter], None)
            }
        }
    }

    fn drop_emptied(&self, request: Request, id: FilterId) -> Option<InDoubt> {
        let Some(filter) = self.current(&request, id) else {
            request.answer(Ok(Outcome::Stale));
            return None;
        };
        let mut state = DrainFilter::of(&filter);
        state.dropped = state.chain.drop_emptied();
        let dropped = state.dropped.clone();
        let gone: Vec<Arc<PageTable>> = state
            .view
            .tables
            .iter()
            .skip(state.chain.sub_filters().len())
            .cloned()
            .collect();
        let drain = Drain {
            filters: BTreeMap::from([(filter.id, state)]),
            answers: vec![(request, Outcome::Dropped(dropped.len()))],
            ..Drain::default()
        };
        let in_doubt = self.finish(drain);
        if in_doubt.is_none() && !dropped.is_empty() {
            for table in gone {
                table.mark_dropped();
            }
            self.ledgers.reclaim_soon(
                dropped
                    .into_iter()
                    .map(|ordinal| Garbage::SubFilter(filter.id, ordinal)),
            );
        }
        in_doubt
    }

    /// One write, then publication. On an error nothing is published.
    fn commit(
        &self,
        changes: &[Changes],
        describe: impl FnOnce(&[Changes]) -> Vec<FilterChange>,
    ) -> Result<(), CommitFailure> {
        // Frames for pages that nobody can know yet are taken before the
        // commit: after it nothing may fail.
        let new_frames = NewFrames::take(self, changes)?;
        let started = Instant::now();
        let commit = Commit {
            sequence: self.ledgers.begin_commit(self.index),
            redo: redo_record(changes),
            filters: describe(changes),
        };
        let redo_bytes = commit.redo.len() as u64;
        if let Err(error) = self.store.commit(&commit) {
            self.metrics.commit_failures.inc();
            let error = Arc::new(error);
            tracing::error!(%error, sequence = commit.sequence.0, "a commit failed; its outcome is unknown");
            return Err(CommitFailure {
                sequence: Some(commit.sequence),
                error: EngineError::OutcomeUnknown(error),
            });
        }
        self.ledgers
            .publish(self.index, commit.sequence, redo_bytes, |publication| {
                let stripes = || {
                    changes.iter().flat_map(|it| {
                        it.pages.iter().filter_map(|page| {
                            let table = it.view.tables.get(page.address.sub as usize)?;
                            Some(self.cache.stripe(table, page.address.page))
                        })
                    })
                };
                self.cache.begin_publish(stripes());
                for it in changes {
                    for page in &it.pages {
                        let Some(table) = it.view.tables.get(page.address.sub as usize) else {
                            continue;
                        };
                        let frame = new_frames.get(it.filter.id, page.address).or_else(|| {
                            self.cache
                                .stamp(self.index, table, page.address.page, || {})
                        });
                        let Some((index, frame)) =
                            frame.and_then(|index| Some((index, self.cache.frame(index)?)))
                        else {
                            continue;
                        };
                        for word in it.words.get(page.words.clone()).unwrap_or_default() {
                            frame.store(word.at.word, word.value);
                        }
                        publication.changed(table, page.address.page, index);
                    }
                    it.filter.view.store(Arc::clone(&it.view));
                }
                self.cache.end_publish(stripes());
            });
        self.metrics
            .commit_seconds
            .observe(started.elapsed().as_secs_f64());
        self.metrics.log_bytes_written.inc_by(redo_bytes);
        Ok(())
    }

    /// Settles a commit of unknown outcome: its number is written again
    /// without a record, and the filters as they are. Returns the doubt if
    /// the store refuses that too.
    fn settle(&self, doubt: InDoubt) -> Option<InDoubt> {
        let restored = doubt.touched.iter().map(|filter| FilterChange::Restore {
            id: filter.id,
            name: filter.name.as_str().to_owned(),
            meta: filter.view.load().chain.encode(),
        });
        let removed = doubt.created.iter().map(|(id, name)| FilterChange::Remove {
            id: *id,
            name: name.clone(),
        });
        let commit = Commit {
            sequence: doubt.sequence,
            redo: Vec::new(),
            filters: restored.chain(removed).collect(),
        };
        match self.store.commit(&commit) {
            Ok(()) => {
                self.ledgers.publish(self.index, doubt.sequence, 0, |_| {});
                None
            }
            Err(error) => {
                tracing::error!(%error, sequence = doubt.sequence.0, "the store still refuses writes");
                Some(doubt)
            }
        }
    }

    fn record(&self, facts: &Facts, items: usize, changes: &[Changes]) {
        for &path in &facts.kick_paths {
            self.metrics.kick_outs.inc_by(u64::from(path));
            self.metrics.kick_path_length.observe(f64::from(path));
        }
        self.metrics.expansions.inc_by(u64::from(facts.expansions));
        self.metrics.commit_items.observe(items as f64);
        let pages: usize = changes.iter().map(|it| it.pages.len()).sum();
        self.metrics.commit_pages_dirtied.observe(pages as f64);
    }
}

fn answer_all(answers: Vec<(Request, Outcome)>) {
    for (request, outcome) in answers {
        request.answer(Ok(outcome));
    }
}

/// Works through a command's items. `None`: pages are missing.
fn apply<P: PageWords>(command: &ItemsCommand, planner: &mut Planner<'_, P>) -> Option<Outcome> {
    let items = &command.items;
    match command.verb {
        Verb::Add(mode) => all(items, |hash| planner.add(hash, mode)).map(Outcome::Added),
        Verb::Delete => all(items, |hash| planner.delete(hash)).map(Outcome::Deleted),
        Verb::Exists => all(items, |hash| planner.exists(hash)).map(Outcome::Found),
        Verb::Count => all(items, |hash| planner.count(hash)).map(Outcome::Counted),
    }
}

/// One result an item, or `None` if any is not known. Does not stop at the
/// first missing page: the others are found out too.
fn all<T>(items: &[ItemHash], mut work: impl FnMut(ItemHash) -> Option<T>) -> Option<Vec<T>> {
    let mut results = Some(Vec::with_capacity(items.len()));
    for &item in items {
        let result = work(item);
        if let (Some(known), Some(result)) = (&mut results, result) {
            known.push(result);
        } else {
            results = None;
        }
    }
    results
}

/// How many pages the drain has touched, and may.
struct PageBudget {
    touched: usize,
    limit: usize,
}

fn pages_over(words: &LaneWords<'_>) -> bool {
    words.pages.touched + words.missing.len() > words.pages.limit
}

/// Words as the lane sees them: it alone changes them, so they need no check.
struct LaneWords<'a> {
    lane: &'a Lane,
    view: &'a FilterView,
    pages: &'a mut PageBudget,
    missing: BTreeSet<PageAddress>,
}

impl PageWords for LaneWords<'_> {
    #[inline]
    fn word(&mut self, at: WordAddress) -> Option<u64> {
        let table = self.view.tables.get(at.sub as usize)?;
        let (cache, pages) = (&self.lane.cache, &mut *self.pages);
        let stamped = cache.stamp(self.lane.index, table, at.page, || pages.touched += 1);
        match stamped.and_then(|index| cache.frame(index)) {
            Some(frame) => Some(frame.load(at.word)),
            None => {
                self.missing.insert(PageAddress {
                    sub: at.sub,
                    page: at.page,
                });
                None
            }
        }
    }
}

/// For a filter that has no pages yet.
struct NoPages;

impl PageWords for NoPages {
    fn word(&mut self, _: WordAddress) -> Option<u64> {
        None
    }
}

/// What a commit changes in one filter.
struct Changes {
    filter: Arc<OpenFilter>,
    /// The filter afterwards.
    view: Arc<FilterView>,
    /// Sub-filters from this position on are new.
    fresh_from: u32,
    words: Vec<ChangedWord>,
    /// The words by page.
    pages: Vec<ChangedPage>,
    dropped: Vec<Ordinal>,
}

struct ChangedPage {
    address: PageAddress,
    words: std::ops::Range<usize>,
}

impl Changes {
    fn of(state: DrainFilter) -> Changes {
        let words = state.overlay.sorted();
        let mut pages: Vec<ChangedPage> = Vec::new();
        for (index, word) in words.iter().enumerate() {
            let address = PageAddress {
                sub: word.at.sub,
                page: word.at.page,
            };
            match pages.last_mut() {
                Some(last) if last.address == address => last.words.end = index + 1,
                _ => pages.push(ChangedPage {
                    address,
                    words: index..index + 1,
                }),
            }
        }
        Changes {
            view: Arc::new(state.view.advanced(state.filter.id, state.chain)),
            filter: state.filter,
            fresh_from: state.fresh_from,
            words,
            pages,
            dropped: state.dropped,
        }
    }
}

/// The redo record of a commit: every written slot, absolute.
fn redo_record(changes: &[Changes]) -> Vec<u8> {
    let mut record = RedoBuilder::new();
    for it in changes {
        record.filter(it.filter.id, 1);
        for page in &it.pages {
            let Some(sub) = it.view.chain.sub_filters().get(page.address.sub as usize) else {
                continue;
            };
            record.page(sub.ordinal, PageIndex(page.address.page));
            for word in it.words.get(page.words.clone()).unwrap_or_default() {
                for (lane, value) in word.value.to_le_bytes().into_iter().enumerate() {
                    if word.slots & 1 << lane != 0 {
                        let slot = u32::from(word.at.word * SLOTS_PER_WORD) + lane as u32;
                        record.slot(slot, u64::from(value));
                    }
                }
            }
        }
    }
    record.finish()
}

/// Frames of pages in sub-filters that are not published yet.
struct NewFrames<'a> {
    cache: &'a PageCache,
    frames: BTreeMap<(FilterId, PageAddress), FrameIndex>,
}

impl<'a> NewFrames<'a> {
    fn take(lane: &'a Lane, changes: &[Changes]) -> Result<Self, CommitFailure> {
        let mut new = NewFrames {
            cache: &lane.cache,
            frames: BTreeMap::new(),
        };
        for it in changes {
            for page in it
                .pages
                .iter()
                .filter(|page| page.address.sub >= it.fresh_from)
            {
                let Some(table) = it.view.tables.get(page.address.sub as usize) else {
                    continue;
                };
                let frame = lane
                    .loader
                    .install_pinned(table, page.address.page, &[])
                    .map_err(|error| CommitFailure {
                        sequence: None,
                        error: error.into(),
                    })?;
                new.frames.insert((it.filter.id, page.address), frame);
            }
        }
        Ok(new)
    }

    fn get(&self, filter: FilterId, page: PageAddress) -> Option<FrameIndex> {
        self.frames.get(&(filter, page)).copied()
    }
}

impl Drop for NewFrames<'_> {
    fn drop(&mut self) {
        for &frame in self.frames.values() {
            self.cache.unpin(frame);
        }
    }
}

/// Why a commit did not happen, or perhaps did.
struct CommitFailure {
    /// Its number, if it was handed to the store.
    sequence: Option<Sequence>,
    error: EngineError,
}

impl CommitFailure {
    fn in_doubt(
        self,
        touched: Vec<Arc<OpenFilter>>,
        created: Option<(FilterId, String)>,
    ) -> Option<InDoubt> {
        Some(InDoubt {
            sequence: self.sequence?,
            touched,
            created,
        })
    }
}

impl From<StoreError> for CommitFailure {
    fn from(error: StoreError) -> Self {
        CommitFailure {
            sequence: None,
            error: error.into(),
        }
    }
}
