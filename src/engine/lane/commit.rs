//! From a plan to a durable, published commit.
//!
//! One write to the store holds everything that a drain changed: the redo
//! record with every slot that was written, and the description of every
//! filter that was touched. After it nothing may fail, so whatever could (the
//! frames of pages that are new) is taken before it. Only then are words
//! stored, dirty pages noted and views replaced.

use super::changes::{Changes, redo_record};
use crate::chain::plan::PlanStats;
use crate::engine::error::EngineError;
use crate::engine::filters::OpenFilter;
use crate::engine::idempotency::recorder::SideRecorder;
use crate::engine::name::FilterName;
use crate::engine::pages::{Checkpointer, FrameIndex, Loader, PageCache, PageImage, Version};
use crate::metrics::Metrics;
use crate::page::{FilterId, Sequence};
use crate::store::{Commit, FilterChange, PageStore, SideRecordChange, StoreError};
use std::sync::Arc;
use std::time::Instant;

/// How many pages before it is published a page is asked for. A commit waits
/// for the disk between planning and publishing, and others work meanwhile.
const FRAMES_AHEAD: usize = 8;

/// Writes and publishes the commits of one lane.
pub(crate) struct Committer {
    /// Number of the lane.
    pub(crate) lane: usize,
    /// The resident pages.
    pub(crate) cache: Arc<PageCache>,
    /// Dirty pages and the log.
    pub(crate) checkpointer: Arc<Checkpointer>,
    /// For frames of pages that are new.
    pub(crate) loader: Arc<Loader>,
    /// Where commits go.
    pub(crate) store: Arc<PageStore>,
    /// What commits are counted in.
    pub(crate) metrics: Arc<Metrics>,
}

impl Committer {
    /// One write, then publication. On an error nothing is published.
    pub(super) fn commit(
        &self,
        changes: &[Changes],
        filter_changes: Vec<FilterChange>,
        side_records: Vec<SideRecordChange>,
    ) -> Result<(), CommitFailure> {
        // Frames for pages that are not published yet are taken before the
        // commit: after it nothing may fail.
        let frames = Frames::take(self, changes)?;
        let started = Instant::now();
        let commit = Commit {
            sequence: self.checkpointer.begin_commit(self.lane),
            redo: redo_record(changes),
            filters: filter_changes,
            side_records,
        };
        let redo_bytes = commit.redo.len() as u64;
        if let Err(error) = self.store.commit(&commit) {
            self.metrics.commit_failures.inc();
            let error = Arc::new(error);
            tracing::error!(%error, sequence = commit.sequence.0, "a commit failed; its outcome is unknown");
            return Err(CommitFailure::Unknown {
                sequence: commit.sequence,
                cause: error,
                undo: Undo::of(&commit),
            });
        }
        self.checkpointer
            .publish(self.lane, commit.sequence, redo_bytes, |publication| {
                let versions = || changes.iter().flat_map(|it| it.versions(&self.cache));
                Version::change(versions, || {
                    for (it, frames) in changes.iter().zip(&frames.by_page) {
                        let mut ahead = it.pages.pages.iter().zip(frames).skip(FRAMES_AHEAD);
                        for (page, &index) in it.pages.pages.iter().zip(frames) {
                            if let Some((page, &index)) = ahead.next()
                                && let Some(frame) = self.cache.frame(index)
                            {
                                let word = it.pages.words_of(page).first();
                                frame.prefetch_to_change(word.map_or(0, |word| word.at.word));
                            }
                            let (Some(table), Some(frame)) =
                                (it.table(page), self.cache.frame(index))
                            else {
                                continue;
                            };
                            for word in it.pages.words_of(page) {
                                frame.store(word.at.word, word.value);
                            }
                            frame.note_occupied(page.occupied);
                            self.cache.set_counters(index, it.pages.counters_of(page));
                            publication.changed(table, page.address.page, index);
                        }
                        it.filter.view.store(Arc::clone(&it.view));
                    }
                });
            });
        self.cache.shed_counters();
        self.metrics
            .commit_seconds
            .observe(started.elapsed().as_secs_f64());
        self.metrics.log_bytes_written.inc_by(redo_bytes);
        Ok(())
    }

    /// Settles a commit of unknown outcome: its number is written again
    /// without a record, and the filters as they are. Returns the doubt if
    /// the store refuses that too.
    pub(super) fn settle(&self, doubt: InDoubt) -> Option<InDoubt> {
        // A filter that is there may have the name of one that is taken back.
        let removed = doubt.created.iter().map(|(id, name)| FilterChange::Remove {
            id: *id,
            name: name.as_str().to_owned(),
        });
        let restored = doubt.touched.iter().map(|filter| FilterChange::Restore {
            id: filter.id,
            name: filter.name.as_str().to_owned(),
            meta: filter.view.load().chain.encode(),
        });
        let undo = doubt.undo.filters.iter().cloned();
        let commit = Commit {
            sequence: doubt.sequence,
            redo: Vec::new(),
            filters: removed.chain(restored).chain(undo).collect(),
            side_records: doubt.undo.side_records.clone(),
        };
        match self.store.commit(&commit) {
            Ok(()) => {
                self.checkpointer
                    .publish(self.lane, doubt.sequence, 0, |_| {});
                None
            }
            Err(error) => {
                tracing::error!(%error, sequence = doubt.sequence.0, "the store still refuses writes");
                Some(doubt)
            }
        }
    }

    /// Counts what a commit did.
    pub(super) fn record(&self, stats: &[PlanStats], items: usize, changes: &[Changes]) {
        for stats in stats {
            for &path in &stats.kick_paths {
                self.metrics.kick_outs.inc_by(u64::from(path));
                self.metrics.kick_path_length.observe(f64::from(path));
            }
            self.metrics.expansions.inc_by(u64::from(stats.expansions));
            let ended = u64::from(stats.promise_ended);
            self.metrics.promises_ended.inc_by(ended);
        }
        self.metrics.commit_items.observe(items as f64);
        let pages: usize = changes.iter().map(|it| it.pages.pages.len()).sum();
        self.metrics.commit_pages_dirtied.observe(pages as f64);
    }
}

/// How a commit ended.
#[must_use]
pub(super) enum CommitOutcome {
    /// It is in the store, or there was nothing to write.
    Committed,
    /// Nothing was written.
    Refused,
    /// Whether it is in the store is unknown until it is settled.
    InDoubt(InDoubt),
}

impl CommitOutcome {
    /// What has to be settled.
    pub(super) fn in_doubt(self) -> Option<InDoubt> {
        match self {
            CommitOutcome::Committed | CommitOutcome::Refused => None,
            CommitOutcome::InDoubt(doubt) => Some(doubt),
        }
    }
}

/// A commit whose outcome is unknown.
pub(super) struct InDoubt {
    sequence: Sequence,
    /// What the store said.
    pub(super) cause: Arc<StoreError>,
    /// Filters it touched that are there.
    touched: Vec<Arc<OpenFilter>>,
    /// A filter that it would have created.
    pub(super) created: Option<(FilterId, FilterName)>,
    /// What else has to be taken back.
    undo: Undo,
    /// What keeps requests from being sent again until it is.
    _recorders: Vec<SideRecorder>,
}

/// What takes back a commit, last first, beside the filters themselves: they
/// are restored from what they are in memory.
pub(super) struct Undo {
    /// The ends that it may have moved.
    filters: Vec<FilterChange>,
    /// What it may have recorded.
    side_records: Vec<SideRecordChange>,
}

impl Undo {
    fn of(commit: &Commit) -> Undo {
        let ends = commit.filters.iter().rev().filter_map(|it| match *it {
            FilterChange::Expire { id, before, after } => Some(FilterChange::Expire {
                id,
                before: after,
                after: before,
            }),
            FilterChange::Create { .. }
            | FilterChange::Update { .. }
            | FilterChange::Remove { .. }
            | FilterChange::Restore { .. } => None,
        });
        let side_records = commit.side_records.iter().rev().map(|it| SideRecordChange {
            key: it.key.clone(),
            before: it.after.clone(),
            after: it.before.clone(),
        });
        Undo {
            filters: ends.collect(),
            side_records: side_records.collect(),
        }
    }
}

/// The frame of every page that a commit changes. Pages that were there are
/// pinned by the drain; pages of sub-filters that are not published yet get
/// their frames here, and are pinned until this is dropped.
struct Frames<'a> {
    cache: &'a PageCache,
    /// Aligned with the changes and their pages.
    by_page: Vec<Vec<FrameIndex>>,
    new: Vec<FrameIndex>,
}

impl<'a> Frames<'a> {
    fn take(committer: &'a Committer, changes: &[Changes]) -> Result<Self, CommitFailure> {
        let mut frames = Frames {
            cache: &committer.cache,
            by_page: Vec::with_capacity(changes.len()),
            new: Vec::new(),
        };
        for it in changes {
            let mut by_page = Vec::with_capacity(it.pages.pages.len());
            for page in &it.pages.pages {
                let table = it.table(page).ok_or_else(CommitFailure::lost_page)?;
                let number = page.address.page;
                let frame = if page.address.sub >= it.fresh_from {
                    let frame =
                        committer
                            .loader
                            .install_pinned(table, number, &PageImage::default())?;
                    frames.new.push(frame);
                    frame
                } else {
                    let pinned = committer.cache.resident_frame(table, number);
                    pinned.ok_or_else(CommitFailure::lost_page)?
                };
                by_page.push(frame);
            }
            frames.by_page.push(by_page);
        }
        Ok(frames)
    }
}

impl Drop for Frames<'_> {
    fn drop(&mut self) {
        for &frame in &self.new {
            self.cache.unpin(frame);
        }
    }
}

/// Why a commit did not happen, or perhaps did.
pub(super) enum CommitFailure {
    /// Nothing was written.
    Refused(EngineError),
    /// The store was asked and failed.
    Unknown {
        /// The number of the commit.
        sequence: Sequence,
        /// What the store said.
        cause: Arc<StoreError>,
        /// What has to be taken back, beside the filters themselves.
        undo: Undo,
    },
}

impl CommitFailure {
    /// A page that was planned over is not there.
    fn lost_page() -> Self {
        StoreError::PageNotResident.into()
    }

    /// What callers are told.
    pub(super) fn error(&self) -> EngineError {
        match self {
            CommitFailure::Refused(error) => error.clone(),
            CommitFailure::Unknown { cause, .. } => EngineError::OutcomeUnknown(Arc::clone(cause)),
        }
    }

    /// What a commit has come to that would touch and create these filters.
    pub(super) fn outcome(
        self,
        touched: Vec<Arc<OpenFilter>>,
        created: Option<(FilterId, FilterName)>,
        recorders: Vec<SideRecorder>,
    ) -> CommitOutcome {
        match self {
            CommitFailure::Refused(_) => CommitOutcome::Refused,
            CommitFailure::Unknown {
                sequence,
                cause,
                undo,
            } => CommitOutcome::InDoubt(InDoubt {
                sequence,
                cause,
                touched,
                created,
                undo,
                _recorders: recorders,
            }),
        }
    }
}

impl From<StoreError> for CommitFailure {
    fn from(error: StoreError) -> Self {
        CommitFailure::Refused(error.into())
    }
}
