//! The ordering of a lane that several pods have: its commits go through the
//! commit log that all of them read.
//!
//! What the log has settled arrives here, one record behind the other, and waits
//! until the lane has applied it. The lane plans nothing meanwhile: a plan is
//! made over all that was settled before, or not at all. A commit of its own is
//! applied by publishing what was planned; one of another pod, or one that was
//! settled too late for that, by what the record says.

use super::following::follow;
use super::inbox::Inbox;
use crate::engine::{
    EngineError, LaneHandle, LaneOrder, LanePlace, LaneState, NotOrdered, Overload, Position,
    Settled, StoreError, Term, Unordered,
};
use crate::membership::{LaneStart, Membership};
use crate::record::MAX_COMMIT_BYTES;
use crate::store::LanePosition;
use crate::{Apply, Driver, Event, Plan, PlanNumber, PlanOutcome, Record, Replica, Report};
use parking_lot::Mutex;
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How long a lane is busy with its log before it looks for commands again.
const BUSY: Duration = Duration::from_millis(100);

/// The records that are settled and not applied yet, oldest first.
struct SettledRecords {
    membership: Arc<Membership>,
    records: VecDeque<Settled>,
}

impl Apply for SettledRecords {
    fn apply(&mut self, position: Position, record: &Record) {
        self.records.push_back(Settled {
            position: LanePosition {
                epoch: record.epoch,
                stamp_ms: record.stamp_ms,
                ..self.membership.to_store(position)
            },
            commit: record.commit.clone(),
            sequence: None,
        });
    }
}

/// See the module.
pub(crate) struct ReplicatedOrder {
    lane: u32,
    membership: Arc<Membership>,
    inbox: Arc<Inbox>,
    /// Where the lane stands, for those outside.
    place: Arc<LanePlace>,
    /// The lane's thread alone comes here.
    work: Mutex<Work>,
}

struct Work {
    driver: Driver<SettledRecords>,
    plans: u64,
    /// Where the store stands.
    applied: Position,
    /// Why the next record could not be applied, if it could not.
    failure: Option<String>,
}

impl ReplicatedOrder {
    /// That of a lane which has applied everything up to its start.
    pub(crate) fn new(
        lane: u32,
        membership: &Arc<Membership>,
        start: &LaneStart,
        inbox: &Arc<Inbox>,
        place: &Arc<LanePlace>,
    ) -> ReplicatedOrder {
        let mut replica = Replica::new(
            membership.lane(lane),
            membership.writer,
            membership.levels(),
            start.position,
            start.stamp_ms,
        );
        if let Some(awaited) = start.awaited {
            // As long as it has no lease, nothing is to be done.
            replica.handle(Event::Acknowledged(awaited));
        }
        let log = Arc::clone(&membership.log);
        let settled = SettledRecords {
            membership: Arc::clone(membership),
            records: VecDeque::new(),
        };
        ReplicatedOrder {
            lane,
            membership: Arc::clone(membership),
            inbox: Arc::clone(inbox),
            place: Arc::clone(place),
            work: Mutex::new(Work {
                driver: Driver::new(replica, log, lane, settled),
                plans: 0,
                applied: start.position,
                failure: None,
            }),
        }
    }
}

impl LaneOrder for ReplicatedOrder {
    fn start(&self, lane: LaneHandle) -> Box<dyn FnOnce() + Send> {
        self.inbox.open(lane);
        let (membership, number) = (Arc::clone(&self.membership), self.lane);
        let (inbox, place) = (Arc::clone(&self.inbox), Arc::clone(&self.place));
        Box::new(move || follow(&*membership.log, number, &inbox, &place))
    }

    fn most_bytes(&self) -> usize {
        MAX_COMMIT_BYTES
    }

    fn order(&self, unordered: Unordered) -> Result<Settled, NotOrdered> {
        let mut work = self.work.lock();
        let Some(term) = work.term() else {
            return Err(NotOrdered::Overtaken);
        };
        work.plans += 1;
        let number = PlanNumber(work.plans);
        let event = Event::Plan(Plan {
            number,
            term,
            clock_ms: unordered.clock_ms,
            commit: unordered.commit,
        });
        let reports = work.driver.handle(event, unordered.until);
        let outcome = reports.iter().find_map(|report| match report {
            Report::Settled(plan, outcome) if *plan == number => Some(*outcome),
            _ => None,
        });
        match outcome {
            // Nothing was waiting when it was sent, and of what came meanwhile it is
            // the first: else another record would have taken its place.
            Some(PlanOutcome::Committed(_)) => {
                let own = work.driver.state_mut().records.pop_front();
                own.ok_or(NotOrdered::Unsettled)
            }
            Some(PlanOutcome::Overtaken | PlanOutcome::NotLeading) => Err(NotOrdered::Overtaken),
            Some(PlanOutcome::TooLarge) => Err(NotOrdered::TooLarge),
            Some(PlanOutcome::Unknown) | None => Err(NotOrdered::Unsettled),
        }
    }

    fn go_on(&self) {
        let event = self.inbox.next();
        let until = Instant::now() + BUSY;
        let mut work = self.work.lock();
        match event {
            Some(event) => drop(work.driver.handle(event, until)),
            None if work.driver.has_work() => drop(work.driver.go_on(until)),
            None => return,
        }
        self.place.set(work.state());
    }

    fn has_work(&self) -> bool {
        self.work.lock().driver.has_work()
    }

    fn take_settled(&self) -> Option<Settled> {
        self.work.lock().driver.state_mut().records.pop_front()
    }

    /// If what a record says is the reason, or what this pod has, it is not tried again:
    /// the lane stands still.
    fn put_back(&self, settled: Settled, error: &StoreError) {
        let mut work = self.work.lock();
        let failure = error.to_string();
        let record = settled.position.sequence;
        // What the store was asked for already has to end there first.
        if error.is_of_the_bytes() && settled.sequence.is_none() {
            let unfit = Event::Unfit {
                at: record,
                reason: failure,
            };
            drop(work.driver.handle(unfit, Instant::now()));
            work.driver.state_mut().records.clear();
            return self.place.set(work.state());
        }
        if work.failure.as_ref() != Some(&failure) {
            tracing::error!(%error, lane = self.lane, record, "a record of the commit log can't be applied; it is tried again");
        }
        work.failure = Some(failure);
        work.driver.state_mut().records.push_front(settled);
    }

    fn applied(&self, settled: &Settled) {
        let mut work = self.work.lock();
        work.applied = (&settled.position).into();
        work.failure = None;
    }

    fn published(&self) {
        self.place.set(self.work.lock().state());
    }

    fn is_settled(&self) -> bool {
        self.work.lock().is_settled()
    }

    fn refusal(&self) -> Option<EngineError> {
        let work = self.work.lock();
        if let Some(halt) = work.driver.replica().halted() {
            return Some(EngineError::LaneHalted(Arc::new(halt.clone())));
        }
        if !work.is_settled() {
            return Some(Overload::CommitIndeterminate.into());
        }
        work.term().is_none().then_some(EngineError::NotLeading)
    }
}

impl Work {
    /// Where the lane stands.
    fn state(&self) -> LaneState {
        let replica = self.driver.replica();
        LaneState {
            position: self.applied,
            term: self.term(),
            is_in_flight: replica.is_in_flight(),
            awaits: replica.awaited().map(|it| it.sequence),
            has_caught_up: false,
            is_behind: replica.is_behind(),
            halted: replica.halted().cloned(),
        }
    }

    /// Whether nothing is in flight, and nothing is left to be applied.
    fn is_settled(&self) -> bool {
        !self.driver.replica().is_in_flight() && self.driver.state().records.is_empty()
    }

    /// What may be planned now is bound to this.
    fn term(&self) -> Option<Term> {
        let term = self.driver.replica().term();
        term.filter(|_| self.driver.state().records.is_empty())
    }
}
