//! A command on its way through a lane.

use super::command::{Command, Outcome, ReplyWith};
use crate::engine::error::EngineError;
use crate::engine::filters::OpenFilter;
use crate::engine::idempotency::recorder::SideRecorder;
use crate::engine::pages::Pins;
use crate::engine::quota::Reservation;
use crate::store::SideRecordChange;
use std::sync::Arc;
use tokio::sync::oneshot;

/// Where a caller waits for what comes of its command.
pub(crate) type Reply = oneshot::Receiver<Result<Outcome, EngineError>>;

/// A command on its way through a lane.
pub(crate) struct Request {
    /// What to do.
    pub(crate) command: Command,
    /// The filter that the caller means; none for one that is not there yet.
    pub(crate) filter: Option<Arc<OpenFilter>>,
    /// Pages that the command asked for before.
    #[expect(dead_code, reason = "held only to be let go with the request")]
    pub(crate) pins: Option<Pins>,
    /// What its commit records beside its changes.
    pub(crate) recorder: Option<SideRecorder>,
    /// Room that a new filter was promised.
    pub(crate) reservation: Option<Reservation>,
    reply: oneshot::Sender<Result<Outcome, EngineError>>,
}

impl Request {
    /// A command for a filter, and where its outcome comes.
    pub(crate) fn new(
        command: Command,
        filter: Option<Arc<OpenFilter>>,
        pins: Option<Pins>,
        recorder: Option<SideRecorder>,
        reservation: Option<Reservation>,
    ) -> (Request, Reply) {
        let (reply, outcome) = oneshot::channel();
        let request = Request {
            command,
            filter,
            pins,
            recorder,
            reservation,
            reply,
        };
        (request, outcome)
    }

    /// What its commit has to record of an outcome; nothing if nothing was done.
    pub(super) fn side_record(&self, outcome: &Outcome) -> Option<SideRecordChange> {
        match (self.recorder.as_ref()?, outcome) {
            (SideRecorder::Response(guard), outcome) => {
                let reply_with = match &self.command {
                    Command::Create(create) => create.reply_with,
                    _ => ReplyWith::Results,
                };
                Some(guard.side_record(&outcome.response(reply_with)?))
            }
            (SideRecorder::Progress(step), Outcome::Added(results)) => {
                Some(step.side_record(results))
            }
            (SideRecorder::Progress(_), _) => None,
        }
    }

    /// Answers.
    pub(super) fn answer(self, outcome: Result<Outcome, EngineError>) {
        // Before the answer is known: the caller may ask again at once.
        drop(self.recorder);
        drop(self.reservation);
        // The caller may have gone away; the outcome stands all the same.
        let _ = self.reply.send(outcome);
    }
}
