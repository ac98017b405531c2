//! Reads all that filters keep, again and again, and compares it with their
//! descriptions: what a disk loses quietly is noticed before it is needed.
//!
//! Some sub-filters at a time are read as of one moment, at a pace, past all
//! caches. Nothing waits for it, and it holds no lock; what it costs others is
//! its share of the disk, and that the store keeps what is overwritten
//! meanwhile for as long as one slice takes.
//!
//! How far a pass is lies in the store, so that one that takes longer than the
//! server lives comes to its end, too.

use crate::check::pages::{Compared, FIRST_PAGE, SliceBounds, compare};
use crate::check::{Fault, Inspector};
use crate::metrics::Metrics;
use crate::page::PageId;
use crate::state::EngineState;
use crate::store::kv::Column;
use crate::store::{ScrubPosition, StoreError};
use crate::threads::{is_stopped, repeat};
use crossbeam_channel::{Receiver, RecvTimeoutError};
use std::ops::ControlFlow;
use std::sync::Weak;
use std::time::{Duration, Instant};

/// How fast and how often everything is read.
#[derive(Clone, Copy, Debug)]
pub struct ScrubOptions {
    /// Bytes of pages read a second; 0: nothing is read.
    pub bytes_per_second: u64,
    /// Time until the first pass begins.
    pub first_after: Duration,
    /// Time from the beginning of one pass to that of the next, at least.
    pub pass_every: Duration,
    /// Bytes of pages that are read as of one moment, at the most; less at a slow
    /// pace, and at least one sub-filter.
    pub slice_bytes: u64,
    /// How often it is stored how far a pass is, at the most.
    pub keep_every: Duration,
}

impl ScrubOptions {
    /// As a server does it.
    pub fn at(bytes_per_second: u64) -> ScrubOptions {
        ScrubOptions {
            bytes_per_second,
            first_after: Duration::from_secs(5),
            pass_every: Duration::from_secs(3600),
            slice_bytes: 256 << 20,
            keep_every: Duration::from_secs(60),
        }
    }
}

/// What is read as of one moment, beside its bytes.
const SLICE_SUB_FILTERS: usize = 10_000;
const LOG_ENTRIES: usize = 1 << 17;

/// A slice takes no longer than so: a larger sub-filter is read faster.
const SLICE_SECONDS: u64 = 300;

/// A long log is cut before a slice, if that takes no longer than so.
const LOG_PATIENCE: Duration = Duration::from_secs(2);

/// Shortest pause between two slices, and between two passes.
const SLICE_PAUSE: Duration = Duration::from_millis(10);
const PASS_PAUSE: Duration = Duration::from_millis(100);

/// Faults of a pass that are logged one by one.
const FAULTS_LOGGED: i64 = 100;

/// Reads until the engine stops.
pub(crate) fn run(state: &Weak<EngineState>, stop: &Receiver<()>, options: ScrubOptions) {
    if options.bytes_per_second == 0 {
        return;
    }
    give_way();
    let mut pass = None;
    repeat(state, stop, options.first_after, |state| {
        let pass = pass.get_or_insert_with(|| Pass::go_on(state));
        let pause = match slice(state, stop, pass, options) {
            Ok(ControlFlow::Break(())) => return ControlFlow::Break(()),
            Ok(ControlFlow::Continue(Some(next))) => {
                pass.reach(next);
                if pass.kept_at.elapsed() >= options.keep_every {
                    pass.keep(state);
                }
                return ControlFlow::Continue(SLICE_PAUSE);
            }
            Ok(ControlFlow::Continue(None)) => {
                pass.complete(state);
                let pause = options.pass_every.saturating_sub(pass.began.elapsed());
                pass.start_over(state);
                pause
            }
            Err(error) => {
                pass.fail(state, error);
                options.pass_every
            }
        };
        let pause = pause.max(PASS_PAUSE);
        pass.began = Instant::now() + pause;
        ControlFlow::Continue(pause)
    });
    if let (Some(state), Some(mut pass)) = (state.upgrade(), pass) {
        pass.keep(&state);
    }
}

/// Leaves the processor to lanes and whoever asks; nobody waits for this thread. Where it
/// can't be said of one thread alone, it stays as it is.
fn give_way() {
    #[cfg(target_os = "linux")]
    let _ = rustix::process::nice(10);
}

/// Reads one slice. Breaks if the engine stops; returns where to go on, nothing
/// at the end of the pass.
fn slice(
    state: &EngineState,
    stop: &Receiver<()>,
    pass: &mut Pass,
    options: ScrubOptions,
) -> Result<ControlFlow<(), Option<PageId>>, StoreError> {
    let bytes_per_second = options.bytes_per_second;
    let bounds = SliceBounds {
        bytes: bytes_per_second
            .saturating_mul(SLICE_SECONDS)
            .min(options.slice_bytes),
        sub_filters: SLICE_SUB_FILTERS,
        log_entries: LOG_ENTRIES,
    };
    let checkpointer = &state.checkpointer;
    checkpointer.shorten_log(LOG_PATIENCE);
    let from = pass.next;
    let mut pace = Pace {
        stop,
        metrics: &state.metrics,
        pass,
        least_per_second: bytes_per_second,
        per_second: bytes_per_second as f64,
        began: Instant::now(),
        bytes: 0,
    };
    if from == FIRST_PAGE {
        // What is deleted from it, too. Of other columns it is much, and would be kept for as
        // long as it is read: `check` and backups do that.
        let all = state
            .store
            .read_through(Column::Log, &mut |bytes| pace.read(bytes));
        if let Err(error) = all {
            pace.fault(Fault::new(None, error));
        }
    }
    let view = state.store.snapshot();
    let Compared { pages, next, .. } = compare(&view, from, bounds, &mut pace)?;
    state.metrics.scrub_pages.inc_by(pages);
    Ok(match is_stopped(stop) {
        true => ControlFlow::Break(()),
        false => ControlFlow::Continue(next),
    })
}

/// All filters once.
struct Pass {
    began: Instant,
    /// What was read is before this page.
    next: PageId,
    faults: i64,
    /// Those before `next`: what lies behind is read again after a restart.
    settled_faults: i64,
    /// Where it could not go on.
    failed_at: Option<PageId>,
    kept_at: Instant,
    /// What the store has of it.
    kept: Option<ScrubPosition>,
}

impl Pass {
    /// Goes on where the last run of the server ended.
    fn go_on(state: &EngineState) -> Pass {
        let kept = state.store.scrub_position().unwrap_or_else(|error| {
            tracing::warn!(%error, "it can't be read how far the stored data was read: that begins anew");
            None
        });
        let faults = kept.map_or(0, |it| it.faults.min(i64::MAX as u64) as i64);
        state.metrics.scrub_faults.set(faults);
        Pass {
            began: Instant::now(),
            next: kept.map_or(FIRST_PAGE, |it| PageId::new(it.filter, it.ordinal, 0)),
            faults,
            settled_faults: faults,
            failed_at: None,
            kept_at: Instant::now(),
            kept,
        }
    }

    fn reach(&mut self, next: PageId) {
        self.next = next;
        self.settled_faults = self.faults;
    }

    fn start_over(&mut self, state: &EngineState) {
        (self.faults, self.failed_at) = (0, None);
        self.reach(FIRST_PAGE);
        self.keep(state);
    }

    /// Stores how far it is, without forcing it to the disk.
    fn keep(&mut self, state: &EngineState) {
        let PageId {
            filter, ordinal, ..
        } = self.next;
        let position = (self.next > FIRST_PAGE).then_some(ScrubPosition {
            filter,
            ordinal,
            faults: self.settled_faults as u64,
        });
        self.kept_at = Instant::now();
        if position == self.kept {
            return;
        }
        match state.store.keep_scrub_position(position) {
            Ok(()) => self.kept = position,
            Err(error) => {
                tracing::warn!(%error, "it can't be stored how far the stored data was read: a restart may read some of it again");
            }
        }
    }

    /// Nobody knows which page it is, or whether it passes. It is tried again, the
    /// second time from the beginning: what comes before must not go unread.
    fn fail(&mut self, state: &EngineState, error: StoreError) {
        self.fault(&state.metrics, &Fault::new(None, error));
        tracing::error!("the stored data can't be read to its end; it is tried again");
        self.faults = self.settled_faults;
        match self.failed_at.replace(self.next) == Some(self.next) {
            true => self.start_over(state),
            false => self.keep(state),
        }
    }

    fn fault(&mut self, metrics: &Metrics, fault: &Fault) {
        self.faults += 1;
        // Until this pass is through, what the last one found counts, too.
        let known = metrics.scrub_faults.get().max(self.faults);
        metrics.scrub_faults.set(known);
        // The log names filters by their numbers.
        let error = &fault.error;
        match self.faults {
            ..=FAULTS_LOGGED => tracing::error!(%error, "stored data is damaged"),
            _ => tracing::debug!(%error, "stored data is damaged"),
        }
    }

    fn complete(&self, state: &EngineState) {
        let metrics = &state.metrics;
        metrics.scrub_faults.set(self.faults);
        metrics.scrub_passes.inc();
        let now = state.clock.now_ms() / 1000;
        metrics.scrub_last_pass.set(now as i64);
        let seconds = self.began.elapsed().as_secs();
        match self.faults {
            0 => tracing::info!(seconds, "all stored pages were read: no fault"),
            faults => tracing::error!(seconds, faults, "all stored pages were read"),
        }
    }
}

/// Keeps a slice at its pace, and counts.
struct Pace<'a> {
    stop: &'a Receiver<()>,
    metrics: &'a Metrics,
    pass: &'a mut Pass,
    least_per_second: u64,
    per_second: f64,
    began: Instant,
    bytes: u64,
}

impl Inspector for Pace<'_> {
    fn begin(&mut self, bytes: u64) {
        let least = bytes.div_ceil(SLICE_SECONDS).max(self.least_per_second);
        self.per_second = least as f64;
        (self.began, self.bytes) = (Instant::now(), 0);
    }

    fn read(&mut self, bytes: u64) -> ControlFlow<()> {
        self.bytes += bytes;
        self.metrics.scrub_bytes.inc_by(bytes);
        let due = Duration::try_from_secs_f64(self.bytes as f64 / self.per_second);
        let early = due.unwrap_or_default().saturating_sub(self.began.elapsed());
        let is_stopped = match early < SLICE_PAUSE {
            true => is_stopped(self.stop),
            false => self.stop.recv_timeout(early) != Err(RecvTimeoutError::Timeout),
        };
        match is_stopped {
            true => ControlFlow::Break(()),
            false => ControlFlow::Continue(()),
        }
    }

    fn fault(&mut self, fault: Fault) {
        self.pass.fault(self.metrics, &fault);
    }
}
