//! Reads all that filters keep, again and again, and compares it with their
//! descriptions: what a disk loses quietly is noticed before it is needed.
//!
//! Some sub-filters at a time are read as of one moment, at a pace, past all
//! caches. Nothing waits for it, and it holds no lock; what it costs others is
//! its share of the disk, and that the store keeps what is overwritten
//! meanwhile for as long as one slice takes.

use crate::engine::check::pages::{Compared, FIRST_PAGE, SliceBounds, compare};
use crate::engine::check::{Fault, Inspector};
use crate::engine::state::EngineState;
use crate::engine::threads::repeat;
use crate::metrics::Metrics;
use crate::page::PageId;
use crate::store::StoreError;
use crossbeam_channel::{Receiver, RecvTimeoutError, TryRecvError};
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
}

impl ScrubOptions {
    /// As a server does it.
    pub fn at(bytes_per_second: u64) -> ScrubOptions {
        ScrubOptions {
            bytes_per_second,
            first_after: Duration::from_secs(5),
            pass_every: Duration::from_secs(3600),
        }
    }
}

/// What is read as of one moment, at the most; less at a slow pace.
const SLICE_BYTES: u64 = 256 << 20;
const SLICE_SUB_FILTERS: usize = 10_000;
const LOG_ENTRIES: usize = 1 << 16;

/// A slice takes no longer than so: a larger sub-filter is read faster.
const SLICE_SECONDS: u64 = 300;

/// A longer log is cut before a slice, if that takes no longer than so.
const LONG_LOG_BYTES: u64 = 4 << 20;
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
    let mut pass = Pass::begin();
    repeat(state, stop, options.first_after, |state| {
        let compared = slice(state, stop, &mut pass, options.bytes_per_second);
        let pause = match compared {
            Ok(ControlFlow::Break(())) => return ControlFlow::Break(()),
            Ok(ControlFlow::Continue(Some(next))) => {
                pass.next = next;
                return ControlFlow::Continue(SLICE_PAUSE);
            }
            Ok(ControlFlow::Continue(None)) => {
                pass.complete(state);
                options.pass_every.saturating_sub(pass.began.elapsed())
            }
            Err(error) => {
                let filter = None;
                pass.fault(&state.metrics, &Fault { filter, error });
                tracing::error!("the stored data can't be read to its end; it is tried again");
                options.pass_every
            }
        };
        let pause = pause.max(PASS_PAUSE);
        pass = Pass::begin();
        pass.began += pause;
        ControlFlow::Continue(pause)
    });
}

/// Reads one slice. Breaks if the engine stops; returns where to go on, nothing
/// at the end of the pass.
fn slice(
    state: &EngineState,
    stop: &Receiver<()>,
    pass: &mut Pass,
    bytes_per_second: u64,
) -> Result<ControlFlow<(), Option<PageId>>, StoreError> {
    let bounds = SliceBounds {
        bytes: bytes_per_second
            .saturating_mul(SLICE_SECONDS)
            .min(SLICE_BYTES),
        sub_filters: SLICE_SUB_FILTERS,
        log_entries: LOG_ENTRIES,
    };
    let checkpointer = &state.checkpointer;
    checkpointer.shorten_log(LONG_LOG_BYTES, LOG_PATIENCE);
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
    next: PageId,
    faults: i64,
}

impl Pass {
    fn begin() -> Pass {
        Pass {
            began: Instant::now(),
            next: FIRST_PAGE,
            faults: 0,
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

/// Whether nothing can be sent any more.
fn is_stopped(stop: &Receiver<()>) -> bool {
    stop.try_recv() == Err(TryRecvError::Disconnected)
}
