//! What a lane works with; and the way from a plan to a durable, published
//! commit, and to the answers.
//!
//! One write to the store holds everything that a group commit changed: the redo
//! record with every slot that was written, and the description of every
//! filter that was touched. After it nothing may fail, so whatever could (the
//! frames of pages that are new) is taken before it. Only then are words
//! stored, dirty pages noted and views replaced.

use super::allowance::Allowances;
use super::changes::{Changes, Encoded};
use super::command::Outcome;
use super::frames::{ChangedFrames, Frames};
use super::ordering::{NotStored, SharedOrdering};
use super::queue::LaneQueue;
use super::request::Request;
use crate::chain::meta::Chain;
use crate::chain::plan::PlanStats;
use crate::clock::EngineClock;
use crate::disk::Disk;
use crate::error::{EngineError, Overload};
use crate::filters::{Filters, OpenFilter};
use crate::idempotency::guard::SideRecorder;
use crate::metrics::Metrics;
use crate::name::FilterName;
use crate::page::{FilterId, Sequence};
use crate::pages::{Checkpointer, Loader, PageCache, Publication, Version};
use crate::quota::{Quota, Reservation};
use crate::store::{Commit, FilterChange, Garbage, PageStore, SideRecordChange, StoreError};
use std::cell::Cell;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How many pages before it is published a page is asked for. A commit waits
/// for the disk between planning and publishing, and others work meanwhile.
const FRAMES_AHEAD: usize = 8;

/// How long a commit log is waited for at the longest before a lane looks at its
/// queue again.
const LOG_PATIENCE: Duration = Duration::from_secs(10);

/// Looks at the store after a commit to some filters, each with the bytes of its slots.
pub type AfterCommit = fn(&PageStore, &[(FilterId, u64)]);

/// What a lane works with.
pub(crate) struct Lane {
    /// Its number.
    pub(crate) number: usize,
    /// The commands that wait.
    pub(crate) queue: Arc<LaneQueue>,
    /// Pages that one command may touch.
    pub(crate) max_pages: usize,
    /// What lanes may hold while they plan.
    pub(crate) allowances: Arc<Allowances>,
    /// The open filters.
    pub(crate) filters: Arc<Filters>,
    /// What all filters together take.
    pub(crate) quota: Arc<Quota>,
    /// Whether there is room for changes.
    pub(crate) disk: Arc<Disk>,
    /// What filters say of when they were changed. It decides nothing here.
    pub(crate) clock: Arc<EngineClock>,
    /// The resident pages.
    pub(crate) cache: Arc<PageCache>,
    /// Dirty pages and the log.
    pub(crate) checkpointer: Arc<Checkpointer>,
    /// For frames of pages that are new.
    pub(crate) loader: Arc<Loader>,
    /// Where commits go.
    pub(crate) store: Arc<PageStore>,
    /// What orders them if several engines have the lane; `None`: the store alone.
    pub(crate) shared: Option<Box<SharedOrdering>>,
    /// Commands that are committed together, at most: fewer after a commit that was too
    /// large for the commit log.
    pub(crate) most_commands: Cell<usize>,
    /// What compares filters with their pages after commits, in tests.
    pub(crate) after_commit: Option<AfterCommit>,
    /// What commits are counted in.
    pub(crate) metrics: Arc<Metrics>,
}

/// What is to be committed at once: what it changes, and the requests that it answers.
#[derive(Default)]
pub(super) struct PlannedCommit {
    pub(super) answers: Vec<(Request, Outcome)>,
    /// What changes in pages, and the views that go with them.
    pub(super) encoded: Encoded,
    /// What changes in the records of filters.
    pub(super) filter_changes: Vec<FilterChange>,
    /// Filters that are restored from what they are in memory, should the
    /// outcome be unknown.
    pub(super) touched: Vec<Arc<OpenFilter>>,
    /// A filter that the commit would create, which is taken back then.
    pub(super) created: Option<(FilterId, FilterName)>,
    /// What it records beside its answers.
    pub(super) side_records: Vec<SideRecordChange>,
}

impl PlannedCommit {
    /// The commit of one request about one filter that is there.
    pub(super) fn of(request: Request, outcome: Outcome, filter: &Arc<OpenFilter>) -> Self {
        PlannedCommit {
            answers: vec![(request, outcome)],
            touched: vec![Arc::clone(filter)],
            ..PlannedCommit::default()
        }
    }
}

/// A commit whose outcome is unknown until it is settled.
#[must_use]
pub(super) struct Indeterminate {
    /// What the store said.
    pub(super) cause: Arc<StoreError>,
    /// What settles it.
    undo: Commit,
    /// A filter that it would have created.
    created: Option<(FilterId, FilterName)>,
    /// Filters it touched that are there, as that leaves them: none is closed until
    /// then.
    touched: Vec<(Arc<OpenFilter>, Chain)>,
    /// What keeps requests from being sent again until then.
    _recorders: Vec<SideRecorder>,
}

impl Indeterminate {
    /// What a caller is told whose change waits behind it.
    pub(super) fn refusal(&self, disk: &Disk) -> EngineError {
        match *self.cause {
            StoreError::NoSpace { .. } => disk.as_short().into(),
            _ => Overload::CommitIndeterminate.into(),
        }
    }
}

impl Lane {
    /// Commits what was planned over filters that are there.
    pub(super) fn commit_planned(
        &self,
        answers: Vec<(Request, Outcome)>,
        encoded: Encoded,
        publish: impl FnOnce(&[Changes]),
    ) -> Option<Indeterminate> {
        let changes = &encoded.changes;
        let published = |it: &Changes| it.filter.view.load().chain.slot_bytes();
        let bytes_before: Vec<u64> = changes.iter().map(published).collect();
        let planned = PlannedCommit {
            answers,
            filter_changes: changes.iter().map(Changes::update).collect(),
            touched: changes.iter().map(|it| Arc::clone(&it.filter)).collect(),
            encoded,
            ..PlannedCommit::default()
        };
        self.commit(planned, |changes, _| {
            for (change, before) in changes.iter().zip(bytes_before) {
                let owner = change.filter.owner.as_ref();
                self.quota.adjust(owner, before, published(change), None);
            }
            publish(changes);
        })
    }

    /// Commits, publishes and answers. `publish` makes known what pages and
    /// their views do not tell; it is given the room that the first request
    /// was promised. Returns what has to be settled first of all, if the outcome
    /// is unknown.
    pub(super) fn commit(
        &self,
        planned: PlannedCommit,
        publish: impl FnOnce(&[Changes], Option<Reservation>),
    ) -> Option<Indeterminate> {
        // Of commands that are planned together those that were withdrawn are
        // gone by now.
        if !planned
            .answers
            .iter()
            .all(|(it, _)| it.progress.begin_commit())
        {
            return None;
        }
        let with_record = |(request, outcome): (Request, Outcome)| {
            let record = request.side_record(&outcome);
            (request, outcome, record)
        };
        let mut answers: Vec<_> = planned.answers.into_iter().map(with_record).collect();
        let mut side_records = planned.side_records;
        side_records.extend(answers.iter().filter_map(|it| it.2.clone()));
        let Encoded { changes, redo } = planned.encoded;
        // An answer that says that nothing changed is kept all the same. Where other
        // pods may change filters, too, the log says whether it is still right.
        let is_shared = self.shared.is_some();
        if !planned.filter_changes.is_empty()
            || !side_records.is_empty()
            || is_shared && !answers.is_empty()
        {
            let until = || latest_deadline(answers.iter().map(|it| &it.0));
            let written = self.write(&changes, redo, planned.filter_changes, side_records, until);
            if let Err((why, commit)) = written {
                let Some(error) = why.error(answers.len()) else {
                    if let NotStored::TooLarge { .. } = why {
                        self.most_commands.set(answers.len() / 2);
                    }
                    // In their order.
                    for (request, ..) in answers.into_iter().rev() {
                        self.queue.give_back(request);
                    }
                    return None;
                };
                let answer = |(mut request, ..): (Request, _, _)| {
                    let recorder = request.recorder.take();
                    request.answer(Err(error.clone()));
                    recorder
                };
                let recorders = answers.into_iter().filter_map(answer).collect();
                return match why {
                    NotStored::StoreFailed(cause) => {
                        let touched = planned.touched.into_iter();
                        let touched: Vec<_> = touched.map(|it| taken_back(&commit, it)).collect();
                        Some(Indeterminate {
                            cause,
                            undo: undo(&commit, &touched, planned.created.as_ref()),
                            created: planned.created,
                            touched,
                            _recorders: recorders,
                        })
                    }
                    // The commit log has it, or may have it.
                    NotStored::NotApplied(_) | NotStored::Unsettled => {
                        if let Some(shared) = &self.shared {
                            shared.keep(recorders, planned.touched);
                        }
                        None
                    }
                    NotStored::Unfit(_) | NotStored::Overtaken | NotStored::TooLarge { .. } => None,
                };
            }
            let first = answers.first_mut();
            let reservation = first.and_then(|it| it.0.reservation.take());
            publish(&changes, reservation);
            let most_commands = self.most_commands.get();
            self.most_commands.set(most_commands.saturating_mul(2));
        }
        if let Some(shared) = &self.shared {
            shared.order.published();
        }
        for (request, outcome, record) in answers {
            if let (Some(recorder), Some(record)) = (&request.recorder, &record) {
                recorder.committed(record);
            }
            request.answer(Ok(outcome));
        }
        None
    }

    /// Has the commit log take a record that changes nothing, and answers. A server
    /// without one has applied all that was acknowledged anyway.
    pub(super) fn barrier(&self, request: Request) -> Option<Indeterminate> {
        let Some(shared) = &self.shared else {
            request.answer(Ok(Outcome::Passed));
            return None;
        };
        let sequence = self.checkpointer.begin_commit(self.number);
        let commit = Commit {
            sequence,
            ..Commit::default()
        };
        let until = latest_deadline(std::iter::once(&request));
        let answer = match shared.commit(&self.store, &commit, until) {
            Ok(()) => {
                self.checkpointer.publish(self.number, sequence, 0, |_| {});
                shared.order.published();
                Ok(Outcome::Passed)
            }
            Err(why) => {
                self.log_not_stored(&why, sequence);
                match why.error(1) {
                    None => {
                        self.queue.give_back(request);
                        return None;
                    }
                    // It changes nothing, so nobody has to know whether it is there.
                    Some(EngineError::LogSilent) => Err(EngineError::LogUnavailable),
                    Some(error) => Err(error),
                }
            }
        };
        request.answer(answer);
        None
    }

    /// One write, then publication. On an error nothing is published.
    fn write(
        &self,
        changes: &[Changes],
        redo: Vec<u8>,
        filters: Vec<FilterChange>,
        side_records: Vec<SideRecordChange>,
        until: impl FnOnce() -> Instant,
    ) -> Result<(), (NotStored, Commit)> {
        // Frames for pages that are not published yet are taken before the
        // commit: after it nothing may fail.
        let mut frames = Frames::take(&self.cache, &self.loader, changes)
            .map_err(|error| (NotStored::Unfit(Arc::new(error)), Commit::default()))?;
        let started = Instant::now();
        let commit = Commit {
            sequence: self.checkpointer.begin_commit(self.number),
            redo,
            filters,
            side_records,
        };
        let redo_bytes = commit.redo.len() as u64;
        if let Err(why) = self.order(&commit, until) {
            self.log_not_stored(&why, commit.sequence);
            return Err((why, commit));
        }
        let mut of_changes = frames.of_changes.iter();
        self.publish(changes, commit.sequence, redo_bytes, |it, publication| {
            if let Some(frames) = of_changes.next() {
                self.publish_pages(it, frames, publication);
            }
        });
        frames.are_published = true;
        self.metrics
            .commit_seconds
            .observe(started.elapsed().as_secs_f64());
        Ok(())
    }

    /// Has a commit ordered and stored. Waits for others until then at the longest. Blocks.
    fn order(&self, commit: &Commit, until: impl FnOnce() -> Instant) -> Result<(), NotStored> {
        if let Some(shared) = &self.shared {
            return shared.commit(&self.store, commit, until());
        }
        // What a server alone commits, a cluster would have to apply.
        #[cfg(test)]
        {
            let bytes = crate::store::commit_bytes::encode(commit);
            let verified = super::record::verify(&bytes, 0);
            verified.map_err(|it| NotStored::Unfit(Arc::new(it)))?;
        }
        // A commit is one forced write, and nothing else.
        let stored = self.store.commit(commit);
        stored.map_err(|it| NotStored::StoreFailed(Arc::new(it)))
    }

    /// Logs a commit that is not ordered, or not stored, and ends one that the store
    /// was not asked for.
    fn log_not_stored(&self, why: &NotStored, sequence: Sequence) {
        match why {
            NotStored::StoreFailed(error) | NotStored::NotApplied(error) => {
                self.metrics.commit_failures.inc();
                tracing::error!(%error, sequence = sequence.0, "a commit failed; its outcome is unknown");
                return;
            }
            NotStored::Unfit(error) => {
                self.metrics.commit_failures.inc();
                tracing::error!(%error, "a commit was not sent to the commit log: other pods could not apply it");
            }
            NotStored::Overtaken | NotStored::TooLarge { .. } | NotStored::Unsettled => {}
        }
        self.checkpointer.publish(self.number, sequence, 0, |_| {});
    }

    /// Publishes a commit that is in the store; `publish_pages` stores what changes in the
    /// pages of a filter.
    pub(super) fn publish(
        &self,
        changes: &[Changes],
        sequence: Sequence,
        redo_bytes: u64,
        mut publish_pages: impl FnMut(&Changes, &mut Publication<'_>),
    ) {
        self.checkpointer
            .publish(self.number, sequence, redo_bytes, |publication| {
                let versions = || changes.iter().flat_map(|it| it.versions(&self.cache));
                Version::change(versions, || {
                    for it in changes {
                        publish_pages(it, publication);
                        for (table, pages) in it.tables_resized() {
                            publication.set_pages(table, pages);
                        }
                        it.filter.view.store(Arc::clone(&it.view));
                    }
                });
            });
        self.cache.shed_counters();
        self.metrics.log_bytes_written.inc_by(redo_bytes);
        if let Some(look) = self.after_commit {
            let changed = changes.iter();
            let changed = changed.map(|it| (it.filter.id, it.view.chain.slot_bytes()));
            look(&self.store, &changed.collect::<Vec<_>>());
        }
    }

    /// Stores the words and counters that change one by one, and the pages that are
    /// split or merged.
    fn publish_pages(
        &self,
        changes: &Changes,
        frames: &ChangedFrames,
        publication: &mut Publication<'_>,
    ) {
        let pages = &changes.pages;
        let changed = || pages.pages.iter().zip(&frames.changed);
        let mut ahead = changed().skip(FRAMES_AHEAD);
        for (page, &index) in changed() {
            if let Some((page, &index)) = ahead.next()
                && let Some(frame) = self.cache.frame(index)
            {
                let word = pages.words_of(page).first();
                frame.prefetch_to_change(word.map_or(0, |word| word.at.word));
            }
            if let Some(table) = changes.table(page.address) {
                publication.write(table, index, pages, page);
            }
        }
        for ((page, whole), &index) in pages.wholes.iter().zip(&frames.wholes) {
            if let Some(table) = changes.table(*page) {
                publication.set_page(table, index, page.page, whole);
            }
        }
    }

    /// Settles a commit of unknown outcome: its number is written again
    /// without a record, and the filters as they are. Returns the commit if
    /// the store refuses that too.
    pub(super) fn settle(&self, unknown: Indeterminate) -> Option<Indeterminate> {
        let sequence = unknown.undo.sequence;
        if let Err(error) = self.store.commit(&unknown.undo) {
            tracing::error!(%error, sequence = sequence.0, "the store still refuses writes");
            return Some(unknown);
        }
        self.checkpointer.publish(self.number, sequence, 0, |_| {});
        for (filter, chain) in unknown.touched {
            let view = filter.view.load().advanced(filter.id, chain);
            filter.view.store(Arc::new(view));
        }
        if let Some((id, name)) = &unknown.created {
            self.filters.forget(*id, name);
            // What settled it has put its pages on the list.
            self.checkpointer.reclaim_soon([Garbage::Filter(*id)]);
        }
        None
    }

    /// Counts what a commit did.
    pub(super) fn record(&self, stats: &[PlanStats], items: usize, changes: &[Changes]) {
        for stats in stats {
            for &path in &stats.kick_paths {
                self.metrics.kick_outs.inc_by(u64::from(path));
                self.metrics.kick_path_length.observe(f64::from(path));
            }
            self.metrics.expansions.inc_by(u64::from(stats.expansions));
            self.metrics.page_splits.inc_by(stats.splits);
            self.metrics.forced_page_splits.inc_by(stats.forced_splits);
            self.metrics.page_merges.inc_by(stats.merges);
            self.metrics.void_copies.inc_by(stats.void_copies);
            let ended = u64::from(stats.promise_ended);
            self.metrics.promises_ended.inc_by(ended);
        }
        self.metrics.commit_items.observe(items as f64);
        let pages: usize = changes.iter().map(Changes::pages).sum();
        self.metrics.commit_pages_dirtied.observe(pages as f64);
    }
}

impl NotStored {
    /// What the callers of so many commands are told. `None`: nothing, they are planned
    /// again.
    fn error(&self, commands: usize) -> Option<EngineError> {
        Some(match self {
            NotStored::Unfit(error) => EngineError::Store(Arc::clone(error)),
            NotStored::StoreFailed(cause) | NotStored::NotApplied(cause) => {
                EngineError::OutcomeUnknown(Arc::clone(cause))
            }
            NotStored::Overtaken => return None,
            NotStored::TooLarge { .. } if commands > 1 => return None,
            &NotStored::TooLarge { bytes, bound } => EngineError::TooLargeForLog { bytes, bound },
            NotStored::Unsettled => EngineError::LogSilent,
        })
    }
}

/// Until when a commit log is waited for: as long as anybody waits for the
/// commit.
fn latest_deadline<'a>(requests: impl Iterator<Item = &'a Request>) -> Instant {
    let most = Instant::now() + LOG_PATIENCE;
    let deadlines = requests.map(|it| it.caller.deadline);
    let latest = deadlines.map(|it| it.unwrap_or(most)).max();
    latest.map_or(most, |it| it.min(most))
}

/// A filter as it is once a commit is taken back. Whoever reads the store meanwhile may
/// have seen the commit's description, so no commit behind it may have the same.
fn taken_back(commit: &Commit, filter: Arc<OpenFilter>) -> (Arc<OpenFilter>, Chain) {
    let mut chain = filter.view.load().chain.clone();
    let is_of_it =
        |it: &FilterChange| matches!(it, FilterChange::Update { id, .. } if *id == filter.id);
    if commit.filters.iter().any(is_of_it) {
        let changed_at_ms = chain.version().changed_at_ms;
        chain.count_change(changed_at_ms);
        chain.count_change(changed_at_ms);
    }
    (filter, chain)
}

/// What takes back a commit, last first: the filters that it touched are
/// restored, and one that it created is removed.
fn undo(
    commit: &Commit,
    touched: &[(Arc<OpenFilter>, Chain)],
    created: Option<&(FilterId, FilterName)>,
) -> Commit {
    // A filter that is there may have the name of one that is taken back.
    let removed = created.map(|(id, name)| FilterChange::Remove {
        id: *id,
        name: name.as_str().to_owned(),
    });
    let restored = touched.iter().map(|(filter, chain)| FilterChange::Restore {
        id: filter.id,
        name: filter.name.as_str().to_owned(),
        meta: chain.encode(),
        reclaimed: reclaimed(commit, filter.id),
    });
    let owned = touched.iter().filter_map(|it| it.0.ownership());
    let ends = commit.filters.iter().rev().filter_map(|it| match *it {
        FilterChange::Expire { id, before, after } => Some(FilterChange::Expire {
            id,
            before: after,
            after: before,
        }),
        FilterChange::Create { .. }
        | FilterChange::Update { .. }
        | FilterChange::Remove { .. }
        | FilterChange::Restore { .. }
        | FilterChange::Own { .. }
        | FilterChange::Stage { .. }
        | FilterChange::GiveUp { .. } => None,
    });
    let side_records = commit.side_records.iter().rev().map(|it| SideRecordChange {
        key: it.key.clone(),
        before: it.after.clone(),
        after: it.before.clone(),
    });
    Commit {
        sequence: commit.sequence,
        redo: Vec::new(),
        filters: removed
            .into_iter()
            .chain(restored)
            .chain(owned)
            .chain(ends)
            .collect(),
        side_records: side_records.collect(),
    }
}

/// What a commit put on the reclaim list of a filter.
fn reclaimed(commit: &Commit, filter: FilterId) -> Vec<Garbage> {
    let of_change = |change: &FilterChange| match change {
        FilterChange::Update { id, dropped, .. } if *id == filter => {
            let dropped = dropped.iter();
            dropped.map(|&it| Garbage::SubFilter(filter, it)).collect()
        }
        FilterChange::Remove { id, .. } if *id == filter => vec![Garbage::Filter(filter)],
        _ => Vec::new(),
    };
    commit.filters.iter().flat_map(of_change).collect()
}
