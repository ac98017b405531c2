//! Compactions: filters that shrank give up their newest sub-filters.
//!
//! A compaction is a series of commands in the filter's lane: one that closes
//! the sub-filters to be emptied, slices that move their entries into the
//! others, and one that drops what is empty and opens what is left. A slice is
//! as small a command as many others, so nothing waits for more than one of
//! them. What drives a compaction remembers only where it is; that a
//! filter is being compacted is part of its description, so one that a restart
//! interrupted is taken up again.
//!
//! One thread drives all of them: of the filters of each owner one at a time, in
//! turns. So whoever has many filters compacted, or filters whose lane is busy or
//! whose pages come slowly, holds up nobody else's.

use crate::caller::{Caller, SERVER};
use crate::chain::meta::Chain;
use crate::chain::plan::compact::{Slice, SliceEnd};
use crate::compactions::{BegunCompaction, Cause, CompactionState, RunningCompaction};
use crate::cuckoo::candidates::BucketIndex;
use crate::error::{EngineError, Result};
use crate::filters::{OpenFilter, decode, stored_name};
use crate::idempotency::guard::SideRecorder;
use crate::lane::command::{Command, CompactStep, Outcome};
use crate::lane::units::SLICE_UNITS;
use crate::page::Ordinal;
use crate::state::EngineState;
use crate::threads::{is_stopped, run_blocking};
use crossbeam_channel::Receiver;
use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};
use tokio::runtime::Runtime;
use tokio::task::JoinSet;
use tokio::time::timeout;

/// How full the sub-filters that are left may get, as a share of the load that
/// kick-outs reach: when it is asked for, and when it is not. The latter
/// leaves room, so that the filter does not grow again at once.
const ASKED_SHARE: f64 = 0.97;
const UNASKED_SHARE: f64 = 0.85;

/// How often the open filters are looked at.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// How long one compaction is worked on while others of its owner wait for their
/// turn.
const TURN: Duration = Duration::from_millis(50);

/// What one slice is bounded by, beside its cost: that of a slice of a plan. At a microsecond or two an entry it keeps its lane busy for a millisecond, as
/// a batch of adds does.
const SLICE_ENTRIES: u32 = 512;
const SLICE_PAGES: u32 = 16;

/// Failures in a row after which a compaction is given up, not counting those
/// that pass by themselves, and the pause after each.
const MAX_FAILURES: u32 = 20;
const FAILURE_PAUSE: Duration = Duration::from_millis(250);

/// Filters of the store looked at together.
const FILTERS_AT_ONCE: usize = 1000;

/// A compaction that has begun in its lane, and where it is.
struct Job {
    running: RunningCompaction,
    /// Sub-filters that were closed when it began.
    closed: u32,
    /// Nothing once all closed sub-filters are through.
    cursor: Option<Cursor>,
    max_entries: u32,
    /// How it ended, once it only has to be ended.
    ended: Option<CompactionState>,
    /// When it is worked on again.
    not_before: Instant,
    /// Failures in a row that don't pass by themselves.
    failures: u32,
    /// Whether it was said that it waits.
    waits: bool,
}

/// The bucket that comes next, and its sub-filter.
#[derive(Clone, Copy)]
struct Cursor {
    ordinal: Ordinal,
    from: BucketIndex,
}

impl Cursor {
    /// The newest sub-filter before one, or of all, that is to be emptied.
    fn of_newest(chain: &Chain, before: Option<Ordinal>) -> Option<Cursor> {
        let closed = chain.sub_filters().skip(chain.open());
        let is_before = |ordinal| before.is_none_or(|before| ordinal < before);
        let newest = closed.filter(|sub| is_before(sub.ordinal)).last()?;
        Some(Cursor {
            ordinal: newest.ordinal,
            from: BucketIndex(0),
        })
    }
}

/// How the turn of a job ended.
enum Turn {
    /// There is more to do.
    More,
    /// The compaction ended.
    Ended(CompactionState),
    /// The filter is gone.
    Gone,
}

impl Job {
    fn new(BegunCompaction { running, closed }: BegunCompaction) -> Job {
        Job {
            cursor: Cursor::of_newest(&running.filter.view.load().chain, None),
            running,
            closed,
            max_entries: SLICE_ENTRIES,
            ended: None,
            not_before: Instant::now(),
            failures: 0,
            waits: false,
        }
    }

    /// Works on it for a while.
    async fn turn(&mut self, state: &EngineState, stop: &Receiver<()>) -> Result<Turn> {
        let began = Instant::now();
        while began.elapsed() < TURN && !is_stopped(stop) {
            let Some(cursor) = self.cursor else {
                let is_closed = self.running.filter.view.load().chain.is_compacting();
                return Ok(Turn::Ended(match is_closed || self.closed == 0 {
                    true => CompactionState::Done,
                    false => CompactionState::Overtaken,
                }));
            };
            let slice = Slice {
                ordinal: cursor.ordinal,
                from: cursor.from,
                max_pages: SLICE_PAGES.min(state.lanes.max_pages() as u32 / 4).max(1),
                max_entries: self.max_entries,
                max_units: SLICE_UNITS,
            };
            let command = Command::Compact(CompactStep::Move(slice));
            let moved = state
                .lanes
                .submit(&SERVER, &self.running.filter, command, None);
            let compacted = match moved.await {
                Ok(Outcome::Compacted(compacted)) => compacted,
                Ok(_) => return Ok(Turn::Gone),
                Err(EngineError::TooManyPages { .. }) if self.max_entries > 1 => {
                    self.max_entries /= 2;
                    continue;
                }
                Err(error) => return Err(error),
            };
            (self.failures, self.waits) = (0, false);
            // Only some places need so many pages.
            self.max_entries = (2 * self.max_entries).min(SLICE_ENTRIES);
            let moved = u64::from(compacted.moved);
            self.running.update(|it| it.moved += moved);
            state.metrics.compaction_entries.inc_by(moved);
            match compacted.end {
                SliceEnd::At(from) => self.cursor = Some(Cursor { from, ..cursor }),
                SliceEnd::Through => {
                    let view = self.running.filter.view.load();
                    self.cursor = Cursor::of_newest(&view.chain, Some(cursor.ordinal));
                }
                SliceEnd::NoRoom => return Ok(Turn::Ended(CompactionState::NoRoom)),
                SliceEnd::Reopened => return Ok(Turn::Ended(CompactionState::Overtaken)),
            }
        }
        Ok(Turn::More)
    }

    /// Drops what is empty and lets adds have the rest.
    async fn end(&self, state: &EngineState, end: CompactionState) -> Result {
        let command = Command::Compact(CompactStep::End);
        let ended = state
            .lanes
            .submit(&SERVER, &self.running.filter, command, None);
        let outcome = ended.await?;
        if let Outcome::CompactionEnded(dropped) = outcome {
            self.running.end(end, dropped, state.clock.now_ms());
        }
        Ok(())
    }

    /// A turn, and what follows from it: the job again if there is more to do.
    async fn go_on(mut self, state: Arc<EngineState>, stop: Receiver<()>) -> Option<Job> {
        if self.ended.is_none() {
            match self.turn(&state, &stop).await {
                Ok(Turn::More) => return Some(self),
                Ok(Turn::Gone) | Err(EngineError::Stopping | EngineError::NotLeading) => {
                    return None;
                }
                Ok(Turn::Ended(end)) => self.ended = Some(end),
                Err(error) if is_passing(&error) || self.failures < MAX_FAILURES => {
                    self.failures += u32::from(!is_passing(&error));
                    return Some(self.wait(&error));
                }
                Err(error) => {
                    let filter_id = self.running.filter.id;
                    tracing::error!(%error, %filter_id, "a compaction is given up");
                    self.ended = Some(CompactionState::Failed);
                }
            }
        }
        match self.end(&state, self.ended?).await {
            Ok(()) | Err(EngineError::Stopping | EngineError::NotLeading) => None,
            Err(error) => Some(self.wait(&error)),
        }
    }

    fn wait(mut self, error: &EngineError) -> Job {
        if !self.waits {
            let filter_id = self.running.filter.id;
            tracing::warn!(%error, %filter_id, "a compaction waits");
        }
        self.waits = true;
        self.not_before = Instant::now() + FAILURE_PAUSE;
        self
    }
}

/// Who created a filter, if it is anybody's.
type Owner = Option<Arc<str>>;

/// The compactions that are driven.
#[derive(Default)]
struct Jobs {
    /// Those that wait, by owner: the one that was not worked on for longest is first.
    waiting: HashMap<Owner, VecDeque<Job>>,
    /// Each by itself: what one waits for holds up none of the others.
    at_work: JoinSet<Done>,
    /// Of these one has its turn at most.
    busy: HashSet<Owner>,
    /// After which name it is looked for those that a restart interrupted, or that the
    /// pod which led their lane before has left; `None` if that is under way, or done.
    interrupted: Option<String>,
    /// In a cluster, whether this pod leads each lane.
    leads: Vec<bool>,
}

/// What has been done by itself.
enum Done {
    /// A turn, with what is left of the job.
    Turn(Owner, Option<Job>),
    /// Some of what a restart interrupted was taken up; after which name to go on.
    Resumed(Option<String>),
    /// A compaction that nobody asked for has begun, or has not.
    Begun,
}

impl Jobs {
    fn add(&mut self, job: Job) {
        let owner = job.running.filter.owner.clone();
        self.waiting.entry(owner).or_default().push_back(job);
    }

    /// Has one of each owner worked on, if one may be.
    fn begin(&mut self, state: &Arc<EngineState>, stop: &Receiver<()>, runtime: &Runtime) {
        let now = Instant::now();
        for (owner, jobs) in &mut self.waiting {
            let ready = jobs.iter().position(|job| job.not_before <= now);
            if !self.busy.contains(owner)
                && let Some(job) = ready.and_then(|ready| jobs.remove(ready))
            {
                self.busy.insert(owner.clone());
                let (owner, state, stop) = (owner.clone(), Arc::clone(state), stop.clone());
                let work = async move { Done::Turn(owner, job.go_on(state, stop).await) };
                self.at_work.spawn_on(work, runtime.handle());
            }
        }
        self.waiting.retain(|_, jobs| !jobs.is_empty());
    }

    /// Takes up what a restart interrupted, if there are places. Those that find none
    /// wait until one of the others has ended.
    fn resume(&mut self, state: &Arc<EngineState>, runtime: &Runtime) {
        if state.compactions.have_room()
            && let Some(after) = self.interrupted.take()
        {
            let state = Arc::clone(state);
            let work = async move { Done::Resumed(state.resume_compactions(after).await) };
            self.at_work.spawn_on(work, runtime.handle());
        }
    }

    /// Has it looked for compactions that another pod has left, if this one has come
    /// to lead a lane.
    fn look_at_lanes(&mut self, state: &EngineState) {
        let lanes = state.sharing.iter().flat_map(|it| &it.lanes);
        let leads: Vec<bool> = lanes.map(|lane| lane.place.state().leads()).collect();
        let led = |lane| self.leads.get(lane).copied().unwrap_or_default();
        if (leads.iter().enumerate()).any(|(lane, &leads)| leads && !led(lane)) {
            self.interrupted = Some(String::new());
        }
        self.leads = leads;
    }

    /// Begins to compact the open filters that are due. No more of them are under way
    /// than may run: whatever finds no place ends at once.
    fn look(&mut self, state: &Arc<EngineState>, threshold_percent: u8, runtime: &Runtime) {
        let due = |filter: &OpenFilter| is_due(&filter.view.load().chain, threshold_percent);
        for filter in state.filters.those(due) {
            let state = Arc::clone(state);
            let work = async move {
                state.compact_unasked(filter, Cause::Due).await;
                Done::Begun
            };
            self.at_work.spawn_on(work, runtime.handle());
        }
    }

    /// Waits until something is done, or for as long as a turn lasts.
    async fn end_one(&mut self) {
        match timeout(TURN, self.at_work.join_next()).await {
            Ok(Some(Ok(Done::Turn(owner, job)))) => {
                self.busy.remove(&owner);
                job.into_iter().for_each(|job| self.add(job));
            }
            Ok(Some(Ok(Done::Resumed(next)))) => self.interrupted = next,
            Ok(Some(Ok(Done::Begun))) => {}
            Ok(Some(Err(failed))) if failed.is_panic() => {
                std::panic::resume_unwind(failed.into_panic())
            }
            Ok(Some(Err(_)) | None) | Err(_) => {}
        }
    }
}

/// Whether an error says nothing about the filter, and all that helps is to
/// wait: for room on the disk, or in a queue, or for the store to take writes.
fn is_passing(error: &EngineError) -> bool {
    let waits = matches!(
        error,
        EngineError::DiskShort(_) | EngineError::Overloaded(_)
    );
    waits || error.may_be_done()
}

/// Drives compactions until the engine stops: until nothing can be sent into
/// `stop` any more. Every now and then it looks for filters to compact that no
/// caller named: those of which more than `threshold_percent` was
/// deleted, if that is not 0, and those that are closed halfway.
pub(crate) fn run(
    state: &Weak<EngineState>,
    begun: &Receiver<BegunCompaction>,
    stop: &Receiver<()>,
    threshold_percent: u8,
) {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .build();
    let runtime = match runtime {
        Ok(runtime) => runtime,
        Err(error) => return tracing::error!(%error, "filters can't be compacted"),
    };
    let mut jobs = Jobs {
        interrupted: Some(String::new()),
        ..Jobs::default()
    };
    let mut looked_at = Instant::now();
    while !is_stopped(stop) {
        begun.try_iter().for_each(|it| jobs.add(Job::new(it)));
        if let Some(state) = state.upgrade() {
            jobs.begin(&state, stop, &runtime);
            jobs.resume(&state, &runtime);
            if looked_at.elapsed() >= LOOK_EVERY {
                looked_at = Instant::now();
                jobs.look_at_lanes(&state);
                jobs.look(&state, threshold_percent, &runtime);
            }
        }
        if jobs.at_work.is_empty() {
            let pause = match jobs.waiting.is_empty() {
                true => LOOK_EVERY,
                false => FAILURE_PAUSE,
            };
            crossbeam_channel::select! {
                recv(stop) -> _ => return,
                recv(begun) -> begun => begun.into_iter().for_each(|it| jobs.add(Job::new(it))),
                default(pause) => {}
            }
        }
        if state.upgrade().is_none() {
            return;
        }
        runtime.block_on(jobs.end_one());
    }
}

/// Whether a filter is to be compacted though no caller asked for it.
fn is_due(chain: &Chain, threshold_percent: u8) -> bool {
    let (deleted, items) = (chain.deletions_since_compaction(), chain.items());
    let was_there = items.saturating_add(deleted);
    chain.is_compacting()
        || threshold_percent > 0
            && chain.sub_filter_count() > 1
            && deleted.saturating_mul(100) > was_there.saturating_mul(threshold_percent.into())
            && chain.would_do(UNASKED_SHARE) < chain.sub_filter_count()
}

impl EngineState {
    /// Begins a compaction, and has it driven. `None`: the filter is not there
    /// any more.
    ///
    /// # Errors
    /// [`EngineError::CompactionRunning`]; what the commit failed with.
    pub(crate) async fn begin_compaction(
        &self,
        caller: &Caller,
        filter: Arc<OpenFilter>,
        cause: Cause,
        recorder: Option<&SideRecorder>,
    ) -> Result<Option<u32>> {
        let now_ms = self.clock.now_ms();
        let running = self.compactions.begin(&filter, cause, now_ms)?;
        let share = match cause {
            Cause::AskedFor => ASKED_SHARE,
            Cause::Due | Cause::Interrupted => UNASKED_SHARE,
        };
        let command = Command::Compact(CompactStep::Begin { share });
        let outcome = self
            .lanes
            .submit(caller, &filter, command, recorder)
            .await?;
        let Outcome::CompactionBegun(closed) = outcome else {
            return Ok(None);
        };
        running.update(|it| it.closed = closed.into());
        let begun = BegunCompaction { running, closed };
        self.compactions.hand_over(begun);
        Ok(Some(closed))
    }

    /// Takes up what a restart interrupted, looking at some filters of greater
    /// names. Returns after which name to go on; nothing at the end.
    async fn resume_compactions(&self, after: String) -> Option<String> {
        let (store, from) = (Arc::clone(&self.store), after.clone());
        let list = move || {
            let from = Some(from.as_str()).filter(|from| !from.is_empty());
            store.list_filters("", from, FILTERS_AT_ONCE)
        };
        let Ok(Ok(filters)) = run_blocking(list).await else {
            // The store says why to the next caller that needs a filter.
            tracing::warn!("compactions that were interrupted wait for their filters to be used");
            return None;
        };
        let mut last = None;
        for stored in filters {
            let chain = decode(stored.id, &stored.meta);
            let is_compacting = chain.is_ok_and(|chain| chain.is_compacting());
            if is_compacting && !self.compactions.have_room() {
                return Some(last.unwrap_or(after));
            }
            if is_compacting
                && let Ok(name) = stored_name(stored.id, &stored.name)
                && let Ok(Some(filter)) = self.open(&SERVER, &name).await
            {
                self.compact_unasked(filter, Cause::Interrupted).await;
            }
            last = Some(stored.name);
        }
        last
    }

    async fn compact_unasked(&self, filter: Arc<OpenFilter>, cause: Cause) {
        match self.begin_compaction(&SERVER, filter, cause, None).await {
            Ok(_) | Err(EngineError::CompactionRunning | EngineError::Stopping) => {}
            // It is looked at again.
            Err(error) => tracing::debug!(%error, "a compaction could not begin"),
        }
    }
}

#[cfg(test)]
mod tests;
