//! Which filters are being compacted, and what came of it lately.

use super::error::{EngineError, Overload, Result};
use super::filters::OpenFilter;
use crate::metrics::Metrics;
use crate::page::FilterId;
use crate::share::{Claimant, Kind, Permit, Resource};
use crossbeam_channel::{Receiver, Sender};
use parking_lot::Mutex;
use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

/// Compactions that run at the same time, in turns. Those who created the
/// filters have shares of these places.
const MAX_RUNNING: usize = 64;

/// Ended compactions that are still told of.
const ENDED_KEPT: usize = 1024;

/// The state of a compaction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Compaction {
    /// Its progress.
    pub state: CompactionState,
    /// Whether a caller asked for it.
    pub asked_for: bool,
    /// Number of sub-filters to empty.
    pub closed: u64,
    /// Entries moved into other sub-filters since it began, or was taken up
    /// again after a restart.
    pub moved: u64,
    /// Number of sub-filters that were removed.
    pub dropped: u64,
    /// Milliseconds since 1970 when it began, or was taken up again.
    pub started_at_ms: u64,
    /// Milliseconds since 1970 when it ended.
    pub ended_at_ms: Option<u64>,
}

/// Why a compaction begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Cause {
    /// A caller asked for it.
    AskedFor,
    /// Enough was deleted.
    Due,
    /// A restart interrupted it. No share bounds how many of one owner go on:
    /// those that are passed over would not be found again.
    Interrupted,
}

/// How far a compaction is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CompactionState {
    /// Entries are being moved.
    #[default]
    Running,
    /// What could be emptied is gone.
    Done,
    /// Adds needed the room that was being emptied.
    Overtaken,
    /// An entry found no room in the other sub-filters.
    NoRoom,
    /// The store refused again and again, or the cache is too small.
    Failed,
}

impl CompactionState {
    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            CompactionState::Running => "running",
            CompactionState::Done => "done",
            CompactionState::Overtaken => "overtaken",
            CompactionState::NoRoom => "no_room",
            CompactionState::Failed => "failed",
        }
    }
}

/// The compactions that run, and those that ended lately.
pub(super) struct Compactions {
    known: Mutex<Known>,
    /// To the thread that drives them.
    jobs: Sender<BegunCompaction>,
    places: Resource<Arc<str>>,
    metrics: Arc<Metrics>,
}

#[derive(Default)]
struct Known {
    by_filter: HashMap<FilterId, Compaction>,
    /// Filters whose compaction ended, the earliest first.
    ended: VecDeque<FilterId>,
}

impl Compactions {
    /// None yet. The jobs are for the task that drives them.
    pub(super) fn new(
        metrics: Arc<Metrics>,
        share_percent: u8,
    ) -> (Compactions, Receiver<BegunCompaction>) {
        // As many as may run; each is sent once.
        let (sender, jobs) = crossbeam_channel::bounded(MAX_RUNNING);
        let compactions = Compactions {
            known: Mutex::default(),
            jobs: sender,
            places: Resource::new(
                "compactions",
                Kind::Lent,
                MAX_RUNNING as u64,
                share_percent,
                &metrics,
            ),
            metrics,
        };
        (compactions, jobs)
    }

    /// The compaction of a filter that runs, or that ended last.
    pub(super) fn of(&self, filter: FilterId) -> Option<Compaction> {
        self.known.lock().by_filter.get(&filter).copied()
    }

    /// Notes that a filter's compaction begins.
    pub(super) fn begin(
        self: &Arc<Self>,
        filter: &Arc<OpenFilter>,
        cause: Cause,
        started_at_ms: u64,
    ) -> Result<RunningCompaction> {
        let mut known = self.known.lock();
        let before = known.by_filter.get(&filter.id);
        if before.is_some_and(|it| it.state == CompactionState::Running) {
            return Err(EngineError::CompactionRunning);
        }
        let has_rivals = cause != Cause::Interrupted;
        let owner = filter.owner.as_ref();
        let owner = owner.map(|owner| Claimant::of(Arc::clone(owner), has_rivals));
        let place = self.places.try_take(owner.as_ref(), 1);
        let place = place.map_err(|_| Overload::Compactions)?;
        let before = before.copied();
        self.metrics.compactions_running.inc();
        known.ended.retain(|&id| id != filter.id);
        let compaction = Compaction {
            asked_for: cause == Cause::AskedFor,
            started_at_ms,
            ..Compaction::default()
        };
        known.by_filter.insert(filter.id, compaction);
        Ok(RunningCompaction {
            compactions: Arc::clone(self),
            filter: Arc::clone(filter),
            before,
            _place: place,
        })
    }

    /// Hands a compaction that has begun in its lane to the task.
    pub(super) fn hand_over(&self, begun: BegunCompaction) {
        // There is room for as many as may run. Once the engine stops it is
        // left: the next start takes it up again.
        let _ = self.jobs.try_send(begun);
    }

    /// Whether another one may run.
    pub(super) fn have_room(&self) -> bool {
        self.places.held() < self.places.bound()
    }
}

/// A compaction that has begun in its lane, to be driven.
pub(super) struct BegunCompaction {
    pub(super) running: RunningCompaction,
    /// Sub-filters that were closed when it began.
    pub(super) closed: u32,
}

/// A compaction that counts as running as long as this lives, unless it is
/// said to have ended before.
pub(super) struct RunningCompaction {
    compactions: Arc<Compactions>,
    pub(super) filter: Arc<OpenFilter>,
    /// The one before, which is told of if this one does not begin.
    before: Option<Compaction>,
    _place: Permit<Arc<str>>,
}

impl RunningCompaction {
    /// Notes how far it is.
    pub(super) fn update(&self, change: impl FnOnce(&mut Compaction)) {
        let mut known = self.compactions.known.lock();
        if let Some(compaction) = known.by_filter.get_mut(&self.filter.id) {
            change(compaction);
        }
    }

    /// Notes that it ended.
    pub(super) fn end(&self, state: CompactionState, dropped: usize, at_ms: u64) {
        self.update(|it| {
            it.state = state;
            it.dropped = dropped as u64;
            it.ended_at_ms = Some(at_ms);
        });
        let metrics = &self.compactions.metrics;
        metrics.compactions.with_label_values(&[state.name()]).inc();
        metrics.sub_filters_dropped.inc_by(dropped as u64);
    }
}

impl Drop for RunningCompaction {
    fn drop(&mut self) {
        let id = self.filter.id;
        self.compactions.metrics.compactions_running.dec();
        let mut known = self.compactions.known.lock();
        let state = known.by_filter.get(&id).map(|it| it.state);
        if state == Some(CompactionState::Running) {
            // It came to no end, so there is nothing to tell.
            match self.before {
                Some(before) => known.by_filter.insert(id, before),
                None => known.by_filter.remove(&id),
            };
        }
        if !known.by_filter.contains_key(&id) {
            return;
        }
        known.ended.push_back(id);
        if known.ended.len() > ENDED_KEPT
            && let Some(earliest) = known.ended.pop_front()
        {
            known.by_filter.remove(&earliest);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chain::meta::Chain;
    use crate::chain::params::{Defaults, FilterParams, FilterRequest};
    use crate::cuckoo::hash::HashKey;
    use crate::name::FilterName;

    fn filter(number: u64, owner: Option<&str>) -> Arc<OpenFilter> {
        let params = FilterParams::resolve(&FilterRequest::default(), &Defaults::default());
        let chain = Chain::new(params.unwrap(), HashKey([1; 16]), 0).unwrap();
        let name = FilterName::parse(&format!("f{number}")).unwrap();
        let owner = owner.map(Arc::from);
        Arc::new(OpenFilter::new(FilterId(number), name, chain, None, owner))
    }

    #[test]
    fn whose_filters_are_compacted_leaves_places_to_others() {
        let (compactions, _jobs) = Compactions::new(Arc::new(Metrics::new().unwrap()), 50);
        let compactions = Arc::new(compactions);
        let begin = |number, owner, cause| compactions.begin(&filter(number, owner), cause, 0);
        let greedy: Vec<_> = (0..64)
            .map_while(|n| begin(n, Some("greedy"), Cause::Due).ok())
            .collect();
        assert_eq!(greedy.len(), MAX_RUNNING / 2);
        assert!(begin(99, Some("greedy"), Cause::AskedFor).is_err());
        let modest = begin(100, Some("modest"), Cause::AskedFor);
        assert!(modest.is_ok() && begin(101, None, Cause::Due).is_ok());
        // What a restart interrupted goes on as long as there are places.
        let interrupted: Vec<_> = (200..300)
            .map_while(|n| begin(n, Some("greedy"), Cause::Interrupted).ok())
            .collect();
        assert_eq!(interrupted.len(), MAX_RUNNING - greedy.len() - 1);
        assert!(!compactions.have_room());
        drop((greedy, interrupted));
        assert!(begin(102, Some("greedy"), Cause::Due).is_ok());
    }
}
