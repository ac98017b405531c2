//! A command on its way through a lane, with what its caller holds for it.

use super::command::{Command, CompactStep, ItemChange, Outcome, ReplyWith};
use super::progress::Progress;
use super::shares::QueuePlace;
use super::units::COMMAND_UNITS;
use crate::caller::Caller;
use crate::chain::plan::AddMode;
use crate::error::EngineError;
use crate::filters::OpenFilter;
use crate::idempotency::guard::SideRecorder;
use crate::pages::Pins;
use crate::quota::Reservation;
use crate::store::SideRecordChange;
use std::sync::Arc;
use std::time::Instant;
use tokio::sync::oneshot;

/// Where a caller waits for what comes of its command.
pub(super) type Reply = oneshot::Receiver<Answer>;

/// A command on its way through a lane.
pub(crate) struct Request {
    /// For whom.
    pub(super) caller: Caller,
    /// What to do.
    pub(super) command: Command,
    /// The filter that the caller means; none for one that is not there yet.
    pub(super) filter: Option<Arc<OpenFilter>>,
    /// Pages that it needs, held until it is done.
    pub(super) pins: Option<Pins>,
    /// What its commit records beside its changes.
    pub(super) recorder: Option<SideRecorder>,
    /// Room that a new filter was promised.
    pub(super) reservation: Option<Reservation>,
    /// What it has of the queue until it is answered.
    pub(super) place: Option<QueuePlace>,
    /// How far it has come.
    pub(super) progress: Progress,
    /// When it was put into the queue, until it is taken for the first time.
    pub(super) queued_at: Option<Instant>,
    /// Whether it turned out to need slices of its own.
    is_long: bool,
    reply: oneshot::Sender<Answer>,
}

/// What becomes of a command.
pub(super) type Answer = Result<Outcome, EngineError>;

/// Units that an item costs at least: a look, and what is written of one that is added
/// whatever is there, but where the filter is full.
const LEAST_UNITS: usize = 2;
const LEAST_UNITS_OF_ADD: usize = 4;

impl Request {
    /// A command for a filter, and where its outcome comes.
    pub(super) fn new(
        caller: &Caller,
        command: Command,
        filter: Option<&Arc<OpenFilter>>,
        recorder: Option<&SideRecorder>,
    ) -> (Request, Reply) {
        let (reply, outcome) = oneshot::channel();
        let request = Request {
            caller: caller.clone(),
            command,
            filter: filter.cloned(),
            pins: None,
            recorder: recorder.cloned(),
            reservation: None,
            place: None,
            progress: Progress::default(),
            queued_at: Some(Instant::now()),
            is_long: false,
            reply,
        };
        (request, outcome)
    }

    /// The same, known to need slices of its own.
    pub(super) fn into_long(self) -> Request {
        Request {
            is_long: true,
            ..self
        }
    }

    /// Whether it needs slices of its own, as far as is known.
    pub(super) fn is_long(&self) -> bool {
        let least = match self.command {
            Command::Items(ItemChange::Add(AddMode::Always), ..) => LEAST_UNITS_OF_ADD,
            _ => LEAST_UNITS,
        };
        self.is_long || self.command.items() * least > COMMAND_UNITS as usize
    }

    /// Whether it is planned and committed together with others.
    pub(super) fn is_grouped(&self) -> bool {
        match self.command {
            Command::Items(..) => !self.is_long(),
            // It is bounded by itself. One that is long waits for the pages of
            // a suspended plan, and is planned like any other then.
            Command::Compact(CompactStep::Move(_)) | Command::Sweep { .. } => true,
            _ => false,
        }
    }

    /// What its commit has to record of an outcome; nothing if nothing was done.
    pub(super) fn side_record(&self, outcome: &Outcome) -> Option<SideRecordChange> {
        match (self.recorder.as_ref()?, outcome) {
            (SideRecorder::Response(guard), outcome) => {
                let (filter, reply_with) = match &self.command {
                    Command::Create(create) => (create.id, create.reply_with),
                    Command::Adopt(adopt) => (adopt.id, ReplyWith::Description),
                    _ => (self.filter.as_ref()?.id, ReplyWith::Results),
                };
                Some(guard.side_record(filter, &outcome.response(reply_with)?))
            }
            (SideRecorder::Progress(step), Outcome::Added(results)) => {
                Some(step.side_record(results))
            }
            (SideRecorder::Progress(_), _) => None,
        }
    }

    /// Answers.
    pub(super) fn answer(self, outcome: Answer) {
        // Before the answer is known: the caller may ask again at once.
        drop(self.recorder);
        drop(self.reservation);
        drop(self.place);
        // The caller may have gone away; the outcome stands all the same.
        let _ = self.reply.send(outcome);
    }

    /// Answers, and nothing is to be committed for it.
    pub(super) fn refuse<T>(self, outcome: Answer) -> Option<T> {
        self.answer(outcome);
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::caller::SERVER;
    use crate::chain::plan::compact::Slice;
    use crate::cuckoo::candidates::BucketIndex;
    use crate::page::Ordinal;

    #[test]
    fn a_step_of_a_compaction_is_planned_like_others_however_long_it_turned_out_to_be() {
        let step = Command::Compact(CompactStep::Move(Slice {
            ordinal: Ordinal(1),
            from: BucketIndex(0),
            max_pages: 1,
            max_entries: 1,
            max_units: 1,
        }));
        let (request, _reply) = Request::new(&SERVER, step, None, None);
        let request = request.into_long();
        assert!(request.is_long() && request.is_grouped());
    }
}
