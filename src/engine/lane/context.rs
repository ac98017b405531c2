//! What a lane works with, and the one way in which it commits and answers.

use super::changes::Changes;
use super::command::Outcome;
use super::commit::{CommitOutcome, Committer};
use super::request::Request;
use crate::engine::disk::Disk;
use crate::engine::filters::{Filters, OpenFilter};
use crate::engine::name::FilterName;
use crate::engine::quota::{Quota, Reservation};
use crate::page::FilterId;
use crate::store::{FilterChange, SideRecordChange};
use crossbeam_channel::Receiver;
use prometheus::IntGauge;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// What a lane works with.
pub(crate) struct Lane {
    /// The commands that wait.
    pub(crate) commands: Receiver<Request>,
    /// Items that wait.
    pub(crate) queued_items: Arc<AtomicUsize>,
    /// Commands that wait, for the metrics.
    pub(crate) queue_depth: IntGauge,
    /// Pages that one command may touch.
    pub(crate) max_pages: usize,
    /// The open filters.
    pub(crate) filters: Arc<Filters>,
    /// What all filters together take.
    pub(crate) quota: Arc<Quota>,
    /// Whether there is room for changes.
    pub(crate) disk: Arc<Disk>,
    /// Where its plans go.
    pub(crate) committer: Committer,
}

/// One commit: what it changes, and the requests that it answers.
#[derive(Default)]
pub(super) struct Batch {
    pub(super) answers: Vec<(Request, Outcome)>,
    /// What changes in pages, and the views that go with them.
    pub(super) changes: Vec<Changes>,
    /// What changes in the records of filters.
    pub(super) filter_changes: Vec<FilterChange>,
    /// Filters that are restored from what they are in memory, should the
    /// outcome be unknown.
    pub(super) touched: Vec<Arc<OpenFilter>>,
    /// A filter that the commit would create, which is taken back then.
    pub(super) created: Option<(FilterId, FilterName)>,
}

impl Batch {
    /// The commit of one request about one filter that is there.
    pub(super) fn of(request: Request, outcome: Outcome, filter: &Arc<OpenFilter>) -> Batch {
        Batch {
            answers: vec![(request, outcome)],
            touched: vec![Arc::clone(filter)],
            ..Batch::default()
        }
    }
}

impl Lane {
    /// Notes that a request has left the queue.
    pub(super) fn taken(&self, request: Request) -> Request {
        self.queue_depth.dec();
        self.queued_items
            .fetch_sub(request.command.items(), Ordering::Relaxed);
        request
    }

    /// The filter that a request means, if it still is the one of its name.
    pub(super) fn current(&self, request: &Request) -> Option<Arc<OpenFilter>> {
        let filter = request.filter.as_ref()?;
        self.filters.is_current(filter).then(|| Arc::clone(filter))
    }

    /// Commits, publishes and answers. `publish` makes known what pages and
    /// their views do not tell; it is given the room that the first request
    /// was promised.
    pub(super) fn commit(
        &self,
        batch: Batch,
        publish: impl FnOnce(&[Changes], Option<Reservation>),
    ) -> CommitOutcome {
        let mut answers: Vec<(Request, Outcome, Option<SideRecordChange>)> = batch
            .answers
            .into_iter()
            .map(|(request, outcome)| {
                let record = request.side_record(&outcome);
                (request, outcome, record)
            })
            .collect();
        let side_records: Vec<SideRecordChange> =
            answers.iter().filter_map(|it| it.2.clone()).collect();
        // An answer that says that nothing changed is kept all the same.
        let committed = match batch.filter_changes.is_empty() && side_records.is_empty() {
            true => Ok(()),
            false => {
                let committed =
                    self.committer
                        .commit(&batch.changes, batch.filter_changes, side_records);
                committed.map(|()| {
                    let first = answers.first_mut();
                    let reservation = first.and_then(|it| it.0.reservation.take());
                    publish(&batch.changes, reservation);
                })
            }
        };
        match committed {
            Ok(()) => {
                for (request, outcome, record) in answers {
                    if let (Some(recorder), Some(record)) = (&request.recorder, &record) {
                        recorder.committed(record);
                    }
                    request.answer(Ok(outcome));
                }
                CommitOutcome::Committed
            }
            Err(failure) => {
                let error = failure.error();
                let answer = |(mut request, ..): (Request, _, _)| {
                    let recorder = request.recorder.take();
                    request.answer(Err(error.clone()));
                    recorder
                };
                let recorders = answers.into_iter().filter_map(answer).collect();
                failure.outcome(batch.touched, batch.created, recorders)
            }
        }
    }
}
