//! What a commit notes beside its changes, for one of its requests.

use crate::engine::idempotency::guard::Ticket;
use crate::engine::lane::command::{Outcome, Wanted};
use crate::engine::ops::imports::Step;
use crate::store::SideRecordChange;
use std::sync::Arc;

/// What is to be noted, and whom it keeps out until it is: see [`Ticket`] and
/// [`Step`]. Cheap to clone.
#[derive(Clone)]
pub(crate) enum Keep {
    /// The answer, for a retry.
    Answer(Arc<Ticket>),
    /// How far an import came.
    Progress(Arc<Step>),
}

impl Keep {
    /// What is noted of an outcome; nothing if nothing was done.
    pub(crate) fn note(&self, outcome: &Outcome, wanted: Wanted) -> Option<SideRecordChange> {
        match (self, outcome) {
            (Keep::Answer(ticket), outcome) => Some(ticket.note(&outcome.remembered(wanted)?)),
            (Keep::Progress(step), Outcome::Added(results)) => Some(step.note(results)),
            (Keep::Progress(_), _) => None,
        }
    }

    /// Says that it is committed.
    pub(crate) fn kept(&self, note: &SideRecordChange) {
        match self {
            Keep::Answer(ticket) => ticket.kept(note),
            Keep::Progress(step) => step.kept(),
        }
    }
}
