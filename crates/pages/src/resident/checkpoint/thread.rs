//! The thread of the checkpointer.

use super::{Checkpointer, CutLog, Purpose};
use crate::AbortOnPanic;
use crate::store::{Garbage, StoreError};
use std::collections::BTreeSet;
use std::time::Duration;

/// Slices written before garbage is looked at.
const SLICES_PER_ROUND: usize = 64;

/// Slices that are written, as far as there is something to write, when somebody asks.
const SLICES_ASKED_FOR: usize = 16;

impl Checkpointer {
    /// Works when log or dirty pages are near their bounds, or when it is asked
    /// to, until [`stop`](Self::stop).
    pub fn run(&self) {
        let _guard = AbortOnPanic;
        loop {
            let mut signals = self.signals.lock();
            let idle = signals.asked.is_empty() && signals.garbage.is_empty() && !self.is_due();
            if idle && !signals.stop {
                self.work.wait_for(&mut signals, Duration::from_secs(1));
            }
            if signals.stop {
                return;
            }
            let mut asked = std::mem::take(&mut signals.asked);
            let mut garbage = std::mem::take(&mut signals.garbage);
            drop(signals);
            let pause = match self.work_off(&asked, &mut garbage) {
                Ok(true) => continue,
                // The log can't be cut before a commit under way is published.
                Ok(false) => Duration::from_millis(10),
                Err(error) => {
                    tracing::error!(%error, "checkpoint failed; it is tried again");
                    let mut signals = self.signals.lock();
                    signals.garbage.append(&mut garbage);
                    signals.asked.append(&mut asked);
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

    /// Says whether there was anything to write, to cut or to reclaim.
    fn work_off(
        &self,
        asked: &BTreeSet<Purpose>,
        garbage: &mut Vec<Garbage>,
    ) -> Result<bool, StoreError> {
        let mut has_worked = false;
        for slice in 0..SLICES_PER_ROUND {
            let asked = asked.iter().filter(|_| slice < SLICES_ASKED_FOR);
            let due = self.is_due().then_some(Purpose::Bounds);
            let mut worked = false;
            for purpose in asked.copied().chain(due) {
                // What is left then is for the next start, which replays the log.
                let has_room = self.disk.has_background_room();
                worked |= has_room && self.write_slice(purpose, CutLog::Yes)?;
            }
            if !worked {
                break;
            }
            has_worked = true;
        }
        // No slice is being written: slices and this share a thread, and pages
        // of what was dropped are not copied any more.
        while let Some(&next) = garbage.last() {
            self.store.reclaim(next)?;
            garbage.pop();
            if self.disk.is_short() {
                self.store.compact_range(next)?;
            }
            has_worked = true;
        }
        Ok(has_worked)
    }
}
