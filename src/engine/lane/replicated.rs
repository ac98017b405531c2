//! The ordering of a lane that several pods have: its commits go through the
//! commit log that all of them read.
//!
//! What the log has settled arrives here, one record behind the other, and waits
//! until the lane has applied it. The lane plans nothing meanwhile: a plan is
//! made over all that was settled before, or not at all. A commit of its own is
//! applied by publishing what was planned; one of another pod, or one that was
//! settled too late for that, by what the record says (`follow`).

use super::record;
use crate::engine::claims::{Claim, Claims};
use crate::engine::clock::EngineClock;
use crate::engine::error::{EngineError, Overload};
use crate::engine::filters::OpenFilter;
use crate::engine::idempotency::guard::{IdempotentWrites, SideRecorder};
use crate::engine::idempotency::imports::Imports;
use crate::engine::membership::{ClusteredLane, LanePlace, LaneState, Membership};
use crate::page::{FilterId, Sequence};
use crate::replication::record::MAX_COMMIT_BYTES;
use crate::replication::{
    Apply, Driver, Event, Outcome, Plan, PlanNumber, Position, Record, Reign, Replica, Report,
};
use crate::store::{
    Commit, FilterChange, LanePosition, PageStore, SideRecordKey, StoreError, commit_bytes,
};
use parking_lot::Mutex;
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How long a lane is busy with its log before it looks for commands again.
const BUSY: Duration = Duration::from_millis(100);

/// Why a commit is not in the store.
#[derive(Debug)]
pub(in crate::engine) enum NotOrdered {
    /// The store failed: it may have it. Its number is written again.
    StoreFailed(StoreError),
    /// The commit log has it, the store failed. It is applied again under its
    /// number.
    NotApplied(StoreError),
    /// Nobody has it: another pod's record came before it, or this pod does not
    /// lead. It can be planned again.
    Overtaken,
    /// Nobody has it: other pods could not apply it.
    Unfit(StoreError),
    /// Nobody has it: it is larger than a record may be.
    TooLarge {
        /// Its bytes.
        bytes: usize,
    },
    /// The commit log has not said yet whether it has it.
    Unsettled,
}

/// A record that is settled and not applied yet.
pub(super) struct Arrived {
    pub(super) position: Position,
    pub(super) record: Record,
    /// The number under which the store was asked to take it.
    pub(super) sequence: Option<Sequence>,
}

/// The records that are settled and not applied yet, oldest first.
#[derive(Default)]
pub(super) struct ArrivedRecords(VecDeque<Arrived>);

impl Apply for ArrivedRecords {
    fn apply(&mut self, position: Position, record: &Record) {
        self.0.push_back(Arrived {
            position,
            record: record.clone(),
            sequence: None,
        });
    }
}

/// See the module.
pub(crate) struct ReplicatedOrdering {
    lane: u32,
    membership: Arc<Membership>,
    clock: Arc<EngineClock>,
    claims: Arc<Claims>,
    idempotent_writes: Arc<IdempotentWrites>,
    imports: Arc<Imports>,
    /// Where the lane stands, for those outside.
    place: Arc<LanePlace>,
    /// The lane's thread alone comes here.
    work: Mutex<Work>,
}

struct Work {
    driver: Driver<ArrivedRecords>,
    plans: u64,
    /// Where the store stands.
    applied: Position,
    /// The largest number of a filter that was made in the lane.
    last_filter: u64,
    /// The largest number that was given to a filter that is to be made.
    last_given: u64,
    /// Why the next record could not be applied, if it could not.
    failure: Option<String>,
    /// What keeps requests from being sent again whose commit is not settled.
    recorders: Vec<SideRecorder>,
    /// Filters of a commit that the store may have, in part of what is in memory:
    /// none of them is closed until it is applied.
    touched: Vec<Arc<OpenFilter>>,
}

impl ReplicatedOrdering {
    /// That of a lane which has applied everything up to its start.
    pub(crate) fn new(
        lane: u32,
        membership: &Arc<Membership>,
        of_lane: &ClusteredLane,
        (clock, claims): (&Arc<EngineClock>, &Arc<Claims>),
        side_records: (&Arc<IdempotentWrites>, &Arc<Imports>),
    ) -> ReplicatedOrdering {
        let ClusteredLane { start, place, .. } = of_lane;
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
        let (idempotent_writes, imports) = side_records;
        ReplicatedOrdering {
            lane,
            membership: Arc::clone(membership),
            clock: Arc::clone(clock),
            claims: Arc::clone(claims),
            idempotent_writes: Arc::clone(idempotent_writes),
            imports: Arc::clone(imports),
            place: Arc::clone(place),
            work: Mutex::new(Work {
                driver: Driver::new(replica, log, lane, ArrivedRecords::default()),
                plans: 0,
                applied: start.position,
                last_filter: start.last_filter,
                last_given: start.last_filter,
                failure: None,
                recorders: Vec::new(),
                touched: Vec::new(),
            }),
        }
    }

    /// Has a commit ordered by the log, then stores it.
    pub(super) fn commit(
        &self,
        store: &PageStore,
        commit: &Commit,
        until: Instant,
    ) -> Result<(), NotOrdered> {
        let mut work = self.work.lock();
        let Some(reign) = work.reign() else {
            return Err(NotOrdered::Overtaken);
        };
        let bytes = match commit.is_empty() {
            // A barrier.
            true => Vec::new(),
            false => commit_bytes::encode(commit),
        };
        let bytes_long = bytes.len();
        if bytes_long <= MAX_COMMIT_BYTES {
            let next = work.applied.sequence + 1;
            record::verify(&bytes, next).map_err(NotOrdered::Unfit)?;
        }
        work.plans += 1;
        let number = PlanNumber(work.plans);
        let plan = Plan {
            number,
            reign,
            clock_ms: self.clock.stamp_ms(),
            commit: bytes.into(),
        };
        let reports = work.driver.handle(Event::Plan(plan), until);
        let outcome = reports.iter().find_map(|report| match report {
            Report::Settled(plan, outcome) if *plan == number => Some(*outcome),
            _ => None,
        });
        let not_ordered = match outcome {
            Some(Outcome::Committed(_)) => None,
            Some(Outcome::Overtaken | Outcome::NotLeading) => Some(NotOrdered::Overtaken),
            Some(Outcome::TooLarge) => Some(NotOrdered::TooLarge { bytes: bytes_long }),
            Some(Outcome::Unknown) | None => Some(NotOrdered::Unsettled),
        };
        if let Some(not_ordered) = not_ordered {
            self.place.set(work.state());
            return Err(not_ordered);
        }
        // Nothing was waiting when it was sent, and of what came meanwhile it is
        // the first: else another record would have taken its place.
        let Some(mut own) = work.driver.state_mut().0.pop_front() else {
            return Err(NotOrdered::Unsettled);
        };
        let last_filter = work.last_filter.max(last_filter(commit));
        let position = self.stored_position(&own, last_filter);
        if let Err(error) = store.commit_at(commit, self.lane, &position) {
            own.sequence = Some(commit.sequence);
            work.driver.state_mut().0.push_front(own);
            return Err(NotOrdered::NotApplied(error));
        }
        work.last_filter = last_filter;
        work.applied = own.position;
        self.clock.hear(own.record.stamp_ms, true);
        Ok(())
    }

    /// Says that the own commit is published.
    pub(super) fn published(&self) {
        self.place.set(self.work.lock().state());
    }

    /// Tells the log's side what happened, if anything, and does what is to be
    /// done. Blocks for a short while at the longest.
    pub(in crate::engine) fn go_on(&self, event: Option<Event>) {
        let until = Instant::now() + BUSY;
        let mut work = self.work.lock();
        match event {
            Some(event) => drop(work.driver.handle(event, until)),
            None if work.driver.has_work() => drop(work.driver.go_on(until)),
            None => return,
        }
        work.end_doubt();
        self.place.set(work.state());
    }

    /// Whether the log is to be asked for something.
    pub(super) fn has_work(&self) -> bool {
        self.work.lock().driver.has_work()
    }

    /// The next record to be applied.
    pub(super) fn take_arrived(&self) -> Option<Arrived> {
        self.work.lock().driver.state_mut().0.pop_front()
    }

    /// One that could not be applied is the next one again. If what it says is the
    /// reason, or what this pod has, it is not tried again: the lane stands still.
    pub(super) fn put_back(&self, arrived: Arrived, error: &StoreError) {
        let mut work = self.work.lock();
        let failure = error.to_string();
        // What the store was asked for already has to end there first.
        if error.is_of_the_bytes() && arrived.sequence.is_none() {
            let unfit = Event::Unfit {
                at: arrived.position.sequence,
                reason: failure,
            };
            drop(work.driver.handle(unfit, Instant::now()));
            work.driver.state_mut().0.clear();
            return self.place.set(work.state());
        }
        if work.failure.as_ref() != Some(&failure) {
            let record = arrived.position.sequence;
            tracing::error!(%error, lane = self.lane, record, "a record of the commit log can't be applied; it is tried again");
        }
        work.failure = Some(failure);
        work.driver.state_mut().0.push_front(arrived);
    }

    /// Says that a record was applied of which the commit is this.
    pub(super) fn applied(&self, position: Position, stamp_ms: u64, commit: &Commit) {
        self.clock.hear(stamp_ms, self.place.has_caught_up());
        for change in &commit.side_records {
            match change.key {
                SideRecordKey::Retry(_) => self.idempotent_writes.noted(change),
                SideRecordKey::Import { .. } => self.imports.noted(change),
            }
        }
        let mut work = self.work.lock();
        work.last_filter = work.last_filter.max(last_filter(commit));
        work.applied = position;
        work.failure = None;
        work.end_doubt();
        self.place.set(work.state());
    }

    /// Where the lane stands in the store with this record and its commit.
    pub(super) fn position_with(&self, arrived: &Arrived, commit: &Commit) -> LanePosition {
        let last = self.work.lock().last_filter.max(last_filter(commit));
        self.stored_position(arrived, last)
    }

    fn stored_position(&self, arrived: &Arrived, last_filter: u64) -> LanePosition {
        LanePosition {
            founding: self.membership.founding,
            epoch: self.membership.epoch,
            sequence: arrived.position.sequence,
            history: *arrived.position.history.as_bytes(),
            stamp_ms: arrived.record.stamp_ms,
            last_filter,
        }
    }

    /// Keeps what is to be kept until a commit is settled and applied.
    pub(super) fn keep(&self, recorders: Vec<SideRecorder>, touched: Vec<Arc<OpenFilter>>) {
        let mut work = self.work.lock();
        work.recorders.extend(recorders);
        work.touched = touched;
    }

    /// Why no change can be planned now, if so.
    pub(super) fn refusal(&self) -> Option<EngineError> {
        let work = self.work.lock();
        let replica = work.driver.replica();
        if let Some(halt) = replica.halted() {
            return Some(EngineError::LaneHalted(Arc::new(halt.clone())));
        }
        if replica.is_in_flight() || !work.driver.state().0.is_empty() {
            return Some(Overload::CommitInDoubt.into());
        }
        work.reign().is_none().then_some(EngineError::NotLeading)
    }

    /// A number for a filter that is to be made in this lane. Each lane has the
    /// numbers that are its own modulo the number of lanes.
    pub(super) fn next_filter(&self) -> FilterId {
        let mut work = self.work.lock();
        let lanes = u64::from(self.membership.lanes);
        work.last_given = match work.last_given.max(work.last_filter) {
            0 => u64::from(self.lane) + 1,
            last => last + lanes,
        };
        FilterId(work.last_given)
    }

    /// A number for a filter that is to be taken in, by whoever holds the claim.
    pub(super) fn claim_next(&self, claim: &Claim) -> FilterId {
        let id = self.next_filter();
        self.claims.note(id, claim);
        id
    }
}

impl Work {
    /// Where the lane stands.
    fn state(&self) -> LaneState {
        let replica = self.driver.replica();
        LaneState {
            position: self.applied,
            reign: self.reign(),
            is_in_flight: replica.is_in_flight(),
            awaits: replica.awaited().map(|it| it.sequence),
            has_caught_up: false,
            is_behind: replica.is_behind(),
            halted: replica.halted().cloned(),
        }
    }

    /// Lets requests be sent again that were told that nobody knows, once
    /// somebody does.
    fn end_doubt(&mut self) {
        if !self.driver.replica().is_in_flight() && self.driver.state().0.is_empty() {
            self.recorders.clear();
            self.touched.clear();
        }
    }

    /// What may be planned now is bound to this.
    fn reign(&self) -> Option<Reign> {
        let reign = self.driver.replica().reign();
        reign.filter(|_| self.driver.state().0.is_empty())
    }
}

/// The largest number of a filter that a commit makes, 0 if it makes none.
fn last_filter(commit: &Commit) -> u64 {
    let made = commit.filters.iter().filter_map(|change| match change {
        FilterChange::Create { id, .. }
        | FilterChange::Restore { id, .. }
        | FilterChange::Stage { id, .. } => Some(id.0),
        _ => None,
    });
    made.max().unwrap_or(0)
}

/// Whether the store has something else under the key of a side record than what
/// a request saw there: another pod has answered it.
pub(super) fn is_answered(store: &PageStore, recorder: &SideRecorder) -> Result<bool, StoreError> {
    let (key, expected) = recorder.expected();
    Ok(store.side_record(&key)?.as_ref() != expected)
}
