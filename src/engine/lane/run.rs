//! The single writer of its filters.
//!
//! A lane is a thread. It drains the commands that wait, plans them one after
//! another over an overlay, commits everything at once, publishes, and answers
//! every caller: one forced write serves all that waited for it. A command that
//! needs a page which is not resident is handed back to its caller with the
//! pages named, so one cold filter does not hold up the others.
//!
//! A commit that failed changed nothing in memory. Whether it is in the store
//! is unknown until its number has been written again, which the lane does
//! before anything else: no record, and every filter it touched as it is.

use super::commit::{InDoubt, Lane};
use super::submit::Request;
use crate::cuckoo::kick::KickSearch;
use crate::engine::error::Overload;
use crate::engine::threads::AbortOnPanic;
use crossbeam_channel::RecvTimeoutError;
use std::time::Duration;

/// How often a lane tries to settle a commit of unknown outcome while no
/// command comes.
const SETTLE_EVERY: Duration = Duration::from_millis(500);

impl Lane {
    /// Works until no commands can be sent any more.
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
            if request.progress.is_withdrawn() {
                continue;
            }
            in_doubt = in_doubt.and_then(|doubt| self.settle(doubt));
            if let Some(doubt) = &in_doubt {
                request.answer(Err(self.disk.refusal(&doubt.cause)));
                continue;
            }
            // What makes room does not wait for it.
            if request.command.needs_room()
                && let Err(reason) = self.checkpointer.wait_for_room()
            {
                tracing::warn!(%reason, "a command is refused because checkpoints fail");
                let refusal = self.disk.check().err();
                request.answer(Err(refusal.unwrap_or(Overload::Checkpoints.into())));
                continue;
            }
            match request.command.is_planned() {
                true => (in_doubt, held_back) = self.drain(request, &mut search),
                false => in_doubt = self.work_alone(request, &mut search),
            }
        }
        if let Some(doubt) = in_doubt
            && self.settle(doubt).is_some()
        {
            tracing::error!("stopped with a commit of unknown outcome");
        }
    }
}
