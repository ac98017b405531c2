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

use crate::chain::address::{PageAddress, WordAddress};
use crate::chain::counters::CounterKey;
use crate::chain::meta::Chain;
use crate::chain::pages::PageWords;
use crate::chain::pages::{Draft, PlanPages};
use crate::chain::plan::{OverlaidPages, Overlay, PlanInput, PlanStats, Planner};
use crate::chain::read::GROUP;
use crate::cuckoo::hash::ItemHash;
use crate::cuckoo::kick::KickSearch;
use crate::engine::abort::AbortOnPanic;
use crate::engine::answer::EngineError;
use crate::engine::disk::Disk;
use crate::engine::filters::{FilterView, Filters, OpenFilter};
use crate::engine::idempotency::note::Keep;
use crate::engine::idempotency::response::{Origin, RememberedFilter};
use crate::engine::lane::command::{
    Adopt, Command, CompactStep, Create, ItemsCommand, Outcome, Replaced, Sizes, Verb, Wanted,
};
use crate::engine::lane::commit::{Changes, CommitFailure, Committer, InDoubt, PlannedFilter};
use crate::engine::pages::{DrainPins, Frame, PageCache, PageTable, Pins};
use crate::engine::quota::{Quota, Room};
use crate::engine::tasks::expiry::is_over;
use crate::page::FilterId;
use crate::store::{Expiry, FilterChange, Garbage, SideRecordChange};
use crossbeam_channel::{Receiver, RecvTimeoutError};
use prometheus::IntGauge;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use tokio::sync::oneshot;

/// Items after which a drain takes no further command.
const DRAIN_ITEMS: usize = 65_536;

/// How often a lane tries to settle a commit of unknown outcome while nobody
/// asks for anything.
const SETTLE_EVERY: Duration = Duration::from_millis(500);

/// A command on its way through a lane.
pub(crate) struct Request {
    /// What to do.
    pub(crate) command: Command,
    /// The filter that the caller means; none for a creation.
    pub(crate) filter: Option<Arc<OpenFilter>>,
    /// Pages that the command asked for before.
    #[expect(dead_code, reason = "held only to be let go with the request")]
    pub(crate) pins: Option<Pins>,
    /// What its commit notes beside its changes.
    pub(crate) keep: Option<Keep>,
    /// Room that a new filter was promised.
    pub(crate) room: Option<Room>,
    /// Where the outcome goes.
    pub(crate) reply: oneshot::Sender<Result<Outcome, EngineError>>,
}

impl Request {
    pub(crate) fn items(&self) -> usize {
        match &self.command {
            Command::Items(command) => command.items.len(),
            Command::Create(create) => create.items.len(),
            Command::Remove(_)
            | Command::Adopt(_)
            | Command::Expire { .. }
            | Command::SetExpiry { .. }
            | Command::Describe { .. }
            | Command::Compact { .. } => 0,
        }
    }

    /// What has to be noted so that a retry is answered the same.
    fn note(&self, outcome: &Outcome) -> Option<SideRecordChange> {
        let wanted = match &self.command {
            Command::Create(create) => create.wanted,
            _ => Wanted::Results,
        };
        self.keep.as_ref()?.note(outcome, wanted)
    }

    /// Answers what is committed.
    fn answer_committed(self, outcome: Outcome, note: Option<&SideRecordChange>) {
        if let (Some(keep), Some(note)) = (&self.keep, note) {
            keep.kept(note);
        }
        self.answer(Ok(outcome));
    }

    /// Answers what may be committed or not. What is to be kept is to be held
    /// until that is known.
    fn answer_failed(self, failure: &CommitFailure) -> Vec<Keep> {
        let keep = self.keep.clone();
        self.answer(Err(failure.error.clone()));
        keep.into_iter().collect()
    }

    fn answer(self, outcome: Result<Outcome, EngineError>) {
        // Before the answer is known: whoever has it may ask again at once.
        drop(self.keep);
        drop(self.room);
        // The caller may have gone away; the outcome stands all the same.
        let _ = self.reply.send(outcome);
    }
}

/// What a lane works with.
pub(crate) struct Lane {
    /// The commands that wait.
    pub(crate) commands: Receiver<Request>,
    /// Items that wait.
    pub(crate) queued_items: Arc<AtomicUsize>,
    /// Commands that wait, for the metrics.
    pub(crate) queue_depth: IntGauge,
    /// Pages that one command may touch.
    pub(crate) max_pages: usize,
    /// The open filters.
    pub(crate) filters: Arc<Filters>,
    /// What all filters together take.
    pub(crate) quota: Arc<Quota>,
    /// Whether there is room for changes.
    pub(crate) disk: Arc<Disk>,
    /// Where its plans go.
    pub(crate) committer: Committer,
}

/// The commands of one commit.
struct Drain {
    /// The pages it plans over.
    pins: DrainPins,
    /// Pages it changes that nobody can know yet.
    new_pages: usize,
    filters: BTreeMap<FilterId, PlannedFilter>,
    answers: Vec<(Request, Outcome)>,
    items: usize,
    /// Of each plan.
    facts: Vec<PlanStats>,
}

impl Drain {
    fn new(pins: DrainPins) -> Self {
        Drain {
            pins,
            new_pages: 0,
            filters: BTreeMap::new(),
            answers: Vec::new(),
            items: 0,
            facts: Vec::new(),
        }
    }

    /// Pages that it keeps in memory.
    fn pages(&self) -> usize {
        self.pins.held() + self.new_pages
    }
}

impl Lane {
    /// Works until nobody can send commands any more.
    pub(crate) fn run(self) {
        let mut search = KickSearch::new();
        let mut in_doubt: Option<InDoubt> = None;
        let mut held_back: Option<Request> = None;
        let _guard = AbortOnPanic;
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
            if let Some(doubt) = &in_doubt {
                let what = "an earlier commit failed and the store does not accept writes yet";
                let refusal = self.disk.refusal(&doubt.cause, what);
                request.answer(Err(refusal));
                continue;
            }
            if let Err(reason) = self.committer.checkpointer.wait_for_room() {
                tracing::warn!(%reason, "a command is refused because checkpoints fail");
                let full = EngineError::Overloaded {
                    what: "pages can't be written to the store, and memory for more is used up",
                };
                let refusal = self.disk.check().err().unwrap_or(full);
                request.answer(Err(refusal));
                continue;
            }
            match request.command.clone() {
                Command::Create(create) => in_doubt = self.create(request, create, &mut search),
                Command::Adopt(adopt) => in_doubt = self.adopt(request, adopt),
                Command::Remove(id) => in_doubt = self.remove(request, id),
                Command::Expire { id, now_ms } => in_doubt = self.expire(request, id, now_ms),
                Command::SetExpiry { id, expiry, sizes } => {
                    in_doubt = self.set_expiry(request, id, expiry, sizes);
                }
                Command::Describe { id, sizes } => in_doubt = self.describe(request, id, sizes),
                Command::Compact {
                    id,
                    step: CompactStep::Begin { share },
                } => in_doubt = self.begin_compaction(request, id, share),
                Command::Compact {
                    id,
                    step: CompactStep::End,
                } => in_doubt = self.end_compaction(request, id),
                Command::Items(_)
                | Command::Compact {
                    step: CompactStep::Move(_),
                    ..
                } => {
                    let (drain, next) = self.drain(request, &mut search);
                    held_back = next;
                    in_doubt = self.finish(drain).err().flatten();
                }
            }
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

    /// Settles a commit of unknown outcome, if the store lets it.
    fn settle(&self, doubt: InDoubt) -> Option<InDoubt> {
        let created = doubt.created.clone();
        let doubt = self.committer.settle(doubt);
        if doubt.is_none()
            && let Some((id, name)) = created
        {
            self.filters.forget(id, &name);
        }
        doubt
    }

    /// Plans the first command and those that wait behind it, as far as the
    /// bounds of a drain allow. Returns the request that did not fit.
    fn drain(&self, first: Request, search: &mut KickSearch) -> (Drain, Option<Request>) {
        let mut drain = Drain::new(DrainPins::begin(&self.committer.cache));
        self.plan(first, &mut drain, search);
        let mut held_back = None;
        while drain.items < DRAIN_ITEMS && drain.pages() < self.max_pages / 2 {
            let Ok(next) = self.commands.try_recv() else {
                break;
            };
            let next = self.taken(next);
            // All others have a commit of their own.
            if planned(&next.command).is_none() {
                held_back = Some(next);
                break;
            }
            self.plan(next, &mut drain, search);
        }
        let read = drain.pins.len() as u64;
        let source = self
            .committer
            .metrics
            .page_reads
            .with_label_values(&["cache"]);
        source.inc_by(read);
        (drain, held_back)
    }

    /// Plans one command on top of the drain, or answers it at once if that
    /// can't be done now.
    fn plan(&self, request: Request, drain: &mut Drain, search: &mut KickSearch) {
        let Some(id) = planned(&request.command) else {
            return;
        };
        let Some(filter) = self.current(&request, id) else {
            return request.answer(Ok(Outcome::Stale));
        };
        let (pinned_before, held_before) = (drain.pins.len(), drain.pins.held());
        let state = drain
            .filters
            .entry(filter.id)
            .or_insert_with(|| PlannedFilter::of(&filter));
        let mut words = LaneWords {
            cache: &self.committer.cache,
            view: &state.view,
            pins: &mut drain.pins,
            allowed: held_before + self.max_pages,
            missing: BTreeSet::new(),
            over: false,
            here: None,
        };
        let basis = PlanInput {
            chain: state.chain.clone(),
            pending: &state.overlay,
            fresh_from: state.fresh_from,
        };
        let mut planner = Planner::new(basis, &mut words, search);
        planner.reserve(request.items());
        let outcome = apply(&request.command, &mut planner);
        let plan = planner.finish();
        let (missing, over) = (words.missing, words.over);
        let (Some(plan), Some(outcome)) = (plan, outcome) else {
            return request.answer(if over {
                Err(self.too_many_pages(self.max_pages + 1))
            } else {
                self.committer.metrics.commands_requeued.inc();
                Ok(Outcome::NeedsPages(missing.into_iter().collect()))
            });
        };
        // Pages of sub-filters that this drain appends need frames, too.
        let new_pages = plan.overlay.pages_from(state.fresh_from);
        let touched = drain.pins.len() - pinned_before + new_pages;
        if touched > self.max_pages {
            return request.answer(Err(self.too_many_pages(touched)));
        }
        drain.new_pages += new_pages;
        state.chain = plan.chain;
        state.overlay.merge(plan.overlay);
        drain.items += request.items();
        drain.facts.push(plan.stats);
        drain.answers.push((request, outcome));
    }

    fn too_many_pages(&self, needed: usize) -> EngineError {
        EngineError::TooManyPages {
            needed,
            bound: self.max_pages,
        }
    }

    /// Commits what was planned, publishes it and answers.
    ///
    /// # Errors
    /// The commit failed, and its outcome may be in doubt.
    fn finish(&self, mut drain: Drain) -> Result<(), Option<InDoubt>> {
        drain.filters.retain(|_, state| state.is_changed());
        let answers: Vec<(Request, Outcome, Option<SideRecordChange>)> = drain
            .answers
            .into_iter()
            .map(|(request, outcome)| {
                let note = request.note(&outcome);
                (request, outcome, note)
            })
            .collect();
        let side_records: Vec<SideRecordChange> =
            answers.iter().filter_map(|it| it.2.clone()).collect();
        let answer_all = |answers: Vec<(Request, Outcome, Option<SideRecordChange>)>| {
            for (request, outcome, note) in answers {
                request.answer_committed(outcome, note.as_ref());
            }
        };
        // An answer that says that nothing changed is kept all the same.
        if drain.filters.is_empty() && side_records.is_empty() {
            answer_all(answers);
            return Ok(());
        }
        let changes: Vec<Changes> = drain.filters.into_values().map(Changes::of).collect();
        let published = |it: &Changes| it.filter.view.load().chain.slot_bytes();
        let bytes_before: u64 = changes.iter().map(published).sum();
        let describe = |changes: &[Changes]| {
            let updates = changes.iter().map(|it| FilterChange::Update {
                id: it.filter.id,
                meta: it.view.chain.encode(),
                dropped: it.dropped.clone(),
            });
            updates.collect()
        };
        match self.committer.commit(&changes, describe, side_records) {
            Ok(()) => {
                self.committer.record(&drain.facts, drain.items, &changes);
                self.quota
                    .note(bytes_before, changes.iter().map(published).sum(), None);
                answer_all(answers);
                Ok(())
            }
            Err(failure) => {
                let kept = answers
                    .into_iter()
                    .flat_map(|(request, _, _)| request.answer_failed(&failure))
                    .collect();
                let touched = changes.into_iter().map(|it| it.filter).collect();
                Err(failure.in_doubt(touched, None, kept))
            }
        }
    }

    fn create(
        &self,
        mut request: Request,
        create: Create,
        search: &mut KickSearch,
    ) -> Option<InDoubt> {
        // The store is asked because the filter may be there but not open.
        let ended = match self.filters.open(&create.name, &self.committer.store) {
            Ok(None) => None,
            Ok(Some(found)) if is_over(found.expiry(), create.created_at_ms) => Some(found),
            Ok(Some(_)) => {
                request.answer(Ok(Outcome::NameTaken));
                return None;
            }
            Err(error) => {
                request.answer(Err(error.into()));
                return None;
            }
        };
        let Some(empty) = Chain::new(create.params, create.hash_key, create.created_at_ms) else {
            request.answer(Ok(Outcome::Stale));
            return None;
        };
        let filter = Arc::new(OpenFilter::new(
            create.id,
            create.name.clone(),
            empty.clone(),
            create.expiry,
        ));
        let command = ItemsCommand {
            filter: create.id,
            verb: Verb::Add(create.mode),
            items: create.items,
        };
        // Nobody has written to its pages: all words are zero.
        let pending = Overlay::new();
        let basis = PlanInput {
            chain: empty,
            pending: &pending,
            fresh_from: 0,
        };
        let mut nothing = NoPages;
        let mut planner = Planner::new(basis, &mut nothing, search);
        let outcome = apply_items(&command, &mut planner);
        let (Some(plan), Some(Outcome::Added(results))) = (planner.finish(), outcome) else {
            request.answer(Ok(Outcome::Stale));
            return None;
        };
        let facts = plan.stats;
        let changes = Changes::of(PlannedFilter {
            chain: plan.chain,
            overlay: plan.overlay,
            fresh_from: 0,
            ..PlannedFilter::of(&filter)
        });
        if changes.pages.pages.len() > self.max_pages {
            let (needed, bound) = (changes.pages.pages.len(), self.max_pages);
            request.answer(Err(EngineError::TooManyPages { needed, bound }));
            return None;
        }
        let changes = [changes];
        let [made] = &changes;
        let described = RememberedFilter {
            origin: Origin::New,
            chain: made.view.chain.clone(),
            expiry: create.expiry,
            sizes: Sizes::default(),
        };
        let outcome = Outcome::Created(results, Box::new(described));
        let note = request.note(&outcome);
        let describe = |changes: &[Changes]| {
            let ended = ended.iter().flat_map(|filter| removal(filter));
            let created = changes.iter().map(|it| FilterChange::Create {
                id: create.id,
                name: create.name.as_str().to_owned(),
                meta: it.view.chain.encode(),
            });
            let expiry = create.expiry.map(|expiry| FilterChange::Expire {
                id: create.id,
                before: None,
                after: Some(expiry),
            });
            ended.chain(created).chain(expiry).collect()
        };
        let side_records = note.iter().cloned().collect();
        match self.committer.commit(&changes, describe, side_records) {
            Ok(()) => {
                self.committer
                    .record(&[facts], command.items.len(), &changes);
                if let Some(ended) = ended {
                    self.forget(&ended);
                    self.committer.metrics.filters_expired.inc();
                }
                let bytes = filter.view.load().chain.slot_bytes();
                self.quota.note(0, bytes, request.room.take());
                self.filters.insert(filter);
                request.answer_committed(outcome, note.as_ref());
                None
            }
            Err(failure) => {
                let kept = request.answer_failed(&failure);
                let touched = ended.into_iter().collect();
                failure.in_doubt(touched, Some((create.id, create.name)), kept)
            }
        }
    }

    fn remove(&self, request: Request, id: FilterId) -> Option<InDoubt> {
        let Some(filter) = self.current(&request, id) else {
            request.answer(Ok(Outcome::Stale));
            return None;
        };
        self.remove_current(request, filter)
    }

    /// Removes a filter that has ended by then.
    fn expire(&self, request: Request, id: FilterId, now_ms: u64) -> Option<InDoubt> {
        match self.current(&request, id) {
            Some(filter) if is_over(filter.expiry(), now_ms) => {
                self.remove_current(request, filter)
            }
            Some(_) => {
                request.answer(Ok(Outcome::NotDue));
                None
            }
            None => {
                request.answer(Ok(Outcome::Stale));
                None
            }
        }
    }

    /// Gives a staged filter its name, and with it the place of another.
    fn adopt(&self, mut request: Request, adopt: Adopt) -> Option<InDoubt> {
        let found = match self.filters.open(&adopt.name, &self.committer.store) {
            Ok(found) => found,
            Err(error) => {
                request.answer(Err(error.into()));
                return None;
            }
        };
        let refused = match (&found, &adopt.replaces) {
            (None, None) => None,
            (Some(found), None) if is_over(found.expiry(), adopt.now_ms) => None,
            (Some(_), None) => Some(Outcome::NameTaken),
            (Some(found), Some(replaced)) if is_as_wanted(found, replaced) => None,
            (_, Some(_)) => Some(Outcome::Stale),
        };
        if let Some(refused) = refused {
            request.answer(Ok(refused));
            return None;
        }
        // Whoever takes a place ends when the one before would have.
        let expiry = match (&found, &adopt.replaces) {
            (Some(found), Some(_)) => found.expiry(),
            _ => None,
        };
        let filter = Arc::new(OpenFilter::new(
            adopt.id,
            adopt.name.clone(),
            Chain::clone(&adopt.chain),
            expiry,
        ));
        let restored = FilterChange::Restore {
            id: adopt.id,
            name: adopt.name.as_str().to_owned(),
            meta: adopt.chain.encode(),
        };
        let expiry = expiry.map(|expiry| FilterChange::Expire {
            id: adopt.id,
            before: None,
            after: Some(expiry),
        });
        let removed = found.iter().flat_map(|found| removal(found));
        let changes = removed.chain([restored]).chain(expiry).collect();
        match self.committer.commit(&[], |_| changes, Vec::new()) {
            Ok(()) => {
                let replaced = found.as_ref();
                let before = replaced.map_or(0, |it| it.view.load().chain.slot_bytes());
                let after = adopt.chain.slot_bytes();
                self.quota.note(before, after, request.room.take());
                self.filters.replace(found.as_deref(), filter);
                let garbage = found.map(|found| Garbage::Filter(found.id));
                self.committer.checkpointer.reclaim_soon(garbage);
                request.answer(Ok(Outcome::Adopted));
                None
            }
            Err(failure) => {
                let tickets = request.answer_failed(&failure);
                let created = Some((adopt.id, adopt.name));
                failure.in_doubt(found.into_iter().collect(), created, tickets)
            }
        }
    }

    fn remove_current(&self, request: Request, filter: Arc<OpenFilter>) -> Option<InDoubt> {
        let changes = removal(&filter).into_iter().collect();
        let outcome = Outcome::Removed;
        self.commit_one(request, &filter, changes, outcome, || self.forget(&filter))
    }

    /// Commits changes to the record of one filter, makes them known, and
    /// answers.
    fn commit_one(
        &self,
        request: Request,
        filter: &Arc<OpenFilter>,
        changes: Vec<FilterChange>,
        outcome: Outcome,
        publish: impl FnOnce(),
    ) -> Option<InDoubt> {
        let note = request.note(&outcome);
        if changes.is_empty() && note.is_none() {
            request.answer(Ok(outcome));
            return None;
        }
        let side_records = note.iter().cloned().collect();
        match self.committer.commit(&[], |_| changes, side_records) {
            Ok(()) => {
                publish();
                request.answer_committed(outcome, note.as_ref());
                None
            }
            Err(failure) => {
                let kept = request.answer_failed(&failure);
                failure.in_doubt(vec![Arc::clone(filter)], None, kept)
            }
        }
    }

    /// Forgets a filter whose removal is committed.
    fn forget(&self, filter: &OpenFilter) {
        self.quota
            .note(filter.view.load().chain.slot_bytes(), 0, None);
        self.filters.remove(filter);
        self.committer
            .checkpointer
            .reclaim_soon([Garbage::Filter(filter.id)]);
    }

    fn set_expiry(
        &self,
        request: Request,
        id: FilterId,
        expiry: Option<Expiry>,
        sizes: Sizes,
    ) -> Option<InDoubt> {
        let Some(filter) = self.current(&request, id) else {
            request.answer(Ok(Outcome::Stale));
            return None;
        };
        let changes = vec![FilterChange::Expire {
            id,
            before: filter.expiry(),
            after: expiry,
        }];
        let outcome = Outcome::Described(Box::new(described(&filter, expiry, sizes)));
        self.commit_one(request, &filter, changes, outcome, || {
            filter.set_expiry(expiry);
        })
    }

    fn describe(&self, request: Request, id: FilterId, sizes: Sizes) -> Option<InDoubt> {
        let Some(filter) = self.current(&request, id) else {
            request.answer(Ok(Outcome::Stale));
            return None;
        };
        let described = described(&filter, filter.expiry(), sizes);
        let outcome = Outcome::Described(Box::new(described));
        self.commit_one(request, &filter, Vec::new(), outcome, || {})
    }

    fn begin_compaction(&self, request: Request, id: FilterId, share: f64) -> Option<InDoubt> {
        let Some(filter) = self.current(&request, id) else {
            request.answer(Ok(Outcome::Stale));
            return None;
        };
        let mut state = PlannedFilter::of(&filter);
        let chain = &mut state.chain;
        let closed = match chain.is_compacting() {
            // A restart interrupted it.
            true => chain.sub_filters().len() - chain.open(),
            false => chain.begin_compaction(share),
        };
        self.commit_planned(request, state, Outcome::CompactionBegun(closed as u32))
            .err()
            .flatten()
    }

    fn end_compaction(&self, request: Request, id: FilterId) -> Option<InDoubt> {
        let Some(filter) = self.current(&request, id) else {
            request.answer(Ok(Outcome::Stale));
            return None;
        };
        let mut state = PlannedFilter::of(&filter);
        let dropped = state.chain.end_compaction();
        state.dropped = dropped.clone();
        let left = state.chain.sub_filters().len();
        let gone: Vec<Arc<PageTable>> = state.view.tables.iter().skip(left).cloned().collect();
        let outcome = Outcome::CompactionEnded(dropped.len());
        if let Err(doubt) = self.commit_planned(request, state, outcome) {
            return doubt;
        }
        for table in gone {
            table.mark_dropped();
        }
        let garbage = dropped
            .into_iter()
            .map(|ordinal| Garbage::SubFilter(id, ordinal));
        self.committer.checkpointer.reclaim_soon(garbage);
        None
    }

    /// Commits what was planned for one filter by itself.
    fn commit_planned(
        &self,
        request: Request,
        state: PlannedFilter,
        outcome: Outcome,
    ) -> Result<(), Option<InDoubt>> {
        let mut drain = Drain::new(DrainPins::begin(&self.committer.cache));
        drain.filters.insert(state.filter.id, state);
        drain.answers.push((request, outcome));
        self.finish(drain)
    }
}

/// What takes a filter away.
fn removal(filter: &OpenFilter) -> impl IntoIterator<Item = FilterChange> + use<> {
    let expiry = filter.expiry().map(|expiry| FilterChange::Expire {
        id: filter.id,
        before: Some(expiry),
        after: None,
    });
    let removed = FilterChange::Remove {
        id: filter.id,
        name: filter.name.as_str().to_owned(),
    };
    expiry.into_iter().chain([removed])
}

/// A filter as it is published, but for its end.
fn described(filter: &OpenFilter, expiry: Option<Expiry>, sizes: Sizes) -> RememberedFilter {
    RememberedFilter {
        origin: Origin::Existing,
        chain: filter.view.load().chain.clone(),
        expiry,
        sizes,
    }
}

/// Whether a filter is the one that is to be replaced.
fn is_as_wanted(found: &OpenFilter, replaced: &Replaced) -> bool {
    let is_unchanged = |meta: &Arc<[u8]>| found.view.load().chain.encode() == **meta;
    found.id == replaced.id && replaced.meta.as_ref().is_none_or(is_unchanged)
}

/// The filter of a command that is planned over its pages, together with
/// others.
fn planned(command: &Command) -> Option<FilterId> {
    match command {
        Command::Items(items) => Some(items.filter),
        &Command::Compact {
            id,
            step: CompactStep::Move(_),
        } => Some(id),
        _ => None,
    }
}

/// Plans such a command. `None`: pages are missing.
fn apply<P: PlanPages>(
    command: &Command,
    planner: &mut Planner<'_, OverlaidPages<'_, P>>,
) -> Option<Outcome> {
    match command {
        Command::Items(items) => apply_items(items, planner),
        Command::Compact {
            step: CompactStep::Move(slice),
            ..
        } => planner.compact(slice).map(Outcome::Compacted),
        _ => None,
    }
}

/// Works through a command's items. `None`: pages are missing.
fn apply_items<P: PlanPages>(
    command: &ItemsCommand,
    planner: &mut Planner<'_, OverlaidPages<'_, P>>,
) -> Option<Outcome> {
    let items = &command.items;
    match command.verb {
        Verb::Add(mode) => {
            all(items, planner, |planner, hash| planner.add(hash, mode)).map(Outcome::Added)
        }
        Verb::Delete => {
            all(items, planner, |planner, hash| planner.delete(hash)).map(Outcome::Deleted)
        }
        Verb::Exists => {
            all(items, planner, |planner, hash| planner.exists(hash)).map(Outcome::Found)
        }
        Verb::Count => {
            all(items, planner, |planner, hash| planner.count(hash)).map(Outcome::Counted)
        }
    }
}

/// One result an item, or `None` if any is not known. Does not stop at the
/// first missing page: the others are found out too.
fn all<T, D: Draft>(
    items: &[ItemHash],
    planner: &mut Planner<'_, D>,
    mut work: impl FnMut(&mut Planner<'_, D>, ItemHash) -> Option<T>,
) -> Option<Vec<T>> {
    let mut results = Some(Vec::with_capacity(items.len()));
    for group in items.chunks(GROUP) {
        // So that the waits for their memory overlap.
        planner.expect(group);
        for &item in group {
            let result = work(planner, item);
            if let (Some(known), Some(result)) = (&mut results, result) {
                known.push(result);
            } else {
                results = None;
            }
        }
    }
    results
}

/// Words as the lane sees them: it alone changes them, so they need no check.
struct LaneWords<'a> {
    cache: &'a PageCache,
    view: &'a FilterView,
    pins: &'a mut DrainPins,
    /// Pages that the drain may hold after this command.
    allowed: usize,
    missing: BTreeSet<PageAddress>,
    /// Whether the command touches more than that.
    over: bool,
    /// The page that was asked for last: the next word is likely to lie on it,
    /// too.
    here: Option<(PageAddress, Frame<'a>)>,
}

impl<'a> LaneWords<'a> {
    /// The frame of a page, which stays resident until the drain ends.
    #[inline]
    fn frame(&mut self, page: PageAddress) -> Option<Frame<'a>> {
        match self.here {
            Some((here, frame)) if here == page => Some(frame),
            _ => {
                let frame = self.find(page)?;
                self.here = Some((page, frame));
                Some(frame)
            }
        }
    }

    #[inline]
    fn find(&mut self, page: PageAddress) -> Option<Frame<'a>> {
        let table = self.view.tables.get(page.sub as usize)?;
        if let Some(index) = self.pins.pinned(table, page.page) {
            return self.cache.frame(index);
        }
        if self.over || self.pins.held() + self.missing.len() >= self.allowed {
            self.over = true;
            return None;
        }
        match self.pins.pin(table, page.page) {
            Some(index) => self.cache.frame(index),
            None => {
                self.missing.insert(page);
                None
            }
        }
    }
}

impl PageWords for LaneWords<'_> {
    #[inline]
    fn word(&mut self, at: WordAddress) -> Option<u64> {
        Some(self.frame(at.on())?.load(at.word))
    }

    fn counter(&mut self, page: PageAddress, key: CounterKey) -> Option<u64> {
        Some(self.frame(page)?.counter(key))
    }

    #[inline]
    fn prefetch(&self, at: WordAddress) {
        if let Some(table) = self.view.tables.get(at.sub as usize) {
            self.cache.prefetch(table, at.page, at.word);
        }
    }
}

impl PlanPages for LaneWords<'_> {
    #[inline]
    fn occupied(&mut self, page: PageAddress) -> Option<u32> {
        Some(self.frame(page)?.occupied())
    }

    fn counters(&mut self, page: PageAddress) -> Option<usize> {
        Some(self.frame(page)?.counters())
    }

    fn expect(&mut self, words: &[WordAddress]) {
        let tables = &self.view.tables;
        let words = words
            .iter()
            .filter_map(|at| Some((&**tables.get(at.sub as usize)?, at.page, at.word)));
        self.pins.expect(words, self.allowed);
    }
}

/// For a filter that has no pages yet.
struct NoPages;

impl PageWords for NoPages {
    fn word(&mut self, _: WordAddress) -> Option<u64> {
        None
    }

    fn counter(&mut self, _: PageAddress, _: CounterKey) -> Option<u64> {
        None
    }
}

impl PlanPages for NoPages {
    fn occupied(&mut self, _: PageAddress) -> Option<u32> {
        None
    }

    fn counters(&mut self, _: PageAddress) -> Option<usize> {
        None
    }
}
