//! The thread of the checkpointer.

use super::Checkpointer;
use super::slices::CutLog;
use crate::AbortOnPanic;
use crate::store::{Garbage, StoreError};
use std::time::Duration;

/// Slices written before garbage is looked at.
const SLICES_PER_ROUND: usize = 64;

/// Whether a round of the checkpointer found anything to write or to cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Work {
    Some,
    None,
}

impl Checkpointer {
    /// Works when log or dirty pages are near their bounds, or when it is asked
    /// to, until [`stop`](Self::stop).
    pub fn run(&self) {
        let _guard = AbortOnPanic;
        loop {
            let mut signals = self.signals.lock();
            let idle = !signals.flush && signals.garbage.is_empty() && !self.is_due();
            if idle && !signals.stop {
                self.work.wait_for(&mut signals, Duration::from_secs(1));
            }
            if signals.stop {
                return;
            }
            let flush = std::mem::take(&mut signals.flush);
            let mut garbage = std::mem::take(&mut signals.garbage);
            drop(signals);
            let pause = match self.work_off(flush, &mut garbage) {
                Ok(Work::Some) => continue,
                // The log can't be cut before a commit under way is published.
                Ok(Work::None) => Duration::from_millis(10),
                Err(error) => {
                    tracing::error!(%error, "checkpoint failed; it is tried again");
                    let mut signals = self.signals.lock();
                    signals.garbage.append(&mut garbage);
                    signals.flush |= flush;
                    drop(signals);
                    Duration::from_millis(500)
                }
            };
            let mut signals = self.signals.lock();
            if !signals.stop {
                self.work.wait_for(&mut signals, pause);
            }
        }
    }

    /// Ends [`run`](Self::run).
    pub fn stop(&self) {
        self.signals.lock().stop = true;
        self.work.notify_all();
    }

    fn work_off(&self, flush: bool, garbage: &mut Vec<Garbage>) -> Result<Work, StoreError> {
        let mut work = Work::None;
        let asked_for = if flush { 16 } else { 0 };
        for slice in 0..SLICES_PER_ROUND {
            let wanted = slice < asked_for || self.is_due();
            // What is left then is for the next start, which replays the log.
            let wanted = wanted && self.disk.has_background_room();
            if !wanted || !self.checkpoint_slice(CutLog::Yes)? {
                break;
            }
            work = Work::Some;
        }
        // No slice is being written: slices and this share a thread, and pages
        // of what was dropped are not copied any more.
        while let Some(&next) = garbage.last() {
            self.store.reclaim(next)?;
            garbage.pop();
            if self.disk.is_short() {
                self.store.compact_range(next)?;
            }
            work = Work::Some;
        }
        Ok(work)
    }
}
