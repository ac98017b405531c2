//! What orders the commits of a lane that several engines have; those of others are ordered
//! by the store of this server alone.
//!
//! The engine knows a [`LaneOrder`], and does itself what is about
//! filters: it makes sure that others can apply a commit before it is sent, stores what
//! is settled, tells the clock, and keeps what nobody knows the outcome of.

use super::queue::LaneQueue;
use super::record;
use crate::claims::{Claim, Claims};
use crate::clock::EngineClock;
use crate::error::EngineError;
use crate::filters::OpenFilter;
use crate::idempotency::guard::{IdempotentWrites, SideRecorder};
use crate::idempotency::imports::Imports;
use crate::name::FilterName;
use crate::page::{FilterId, Sequence};
use crate::shared::LanePlace;
use crate::slot::slot_of;
use crate::store::{
    Commit, FilterChange, LanePosition, PageStore, SideRecordKey, StoreError, commit_bytes,
};
use bytes::Bytes;
use std::cell::RefCell;
use std::sync::Arc;
use std::time::Instant;

/// Orders the commits of one lane that several engines have. What was settled before is
/// applied before anything else is planned, each in its turn.
///
/// Everything but [`start`](Self::start) is called by the lane's thread.
pub trait LaneOrder: Send {
    /// Is told the lane that works from now on. Returns what is to run on a thread of its
    /// own until the lane is closed.
    fn start(&self, lane: LaneHandle) -> Box<dyn FnOnce() + Send>;

    /// Largest commit that can be ordered, in bytes.
    fn most_bytes(&self) -> usize;

    /// Has a commit ordered behind all that was applied. Blocks.
    ///
    /// # Errors
    /// It is not, or nobody knows yet.
    fn order(&self, unordered: Unordered) -> Result<Settled, NotOrdered>;

    /// Does what is to be done. Blocks for a short while at the longest.
    fn go_on(&self);

    /// Whether there is more to be done soon.
    fn has_work(&self) -> bool;

    /// The next commit that is settled and not applied.
    fn take_settled(&self) -> Option<Settled>;

    /// Takes one back that could not be applied. It is the next one again, or the lane
    /// stands still from now on.
    fn put_back(&self, settled: Settled, error: &StoreError);

    /// Hears that the store has applied one.
    fn applied(&self, settled: &Settled);

    /// Says to those outside where the lane stands: what was applied is published.
    fn published(&self);

    /// Whether everything that was sent is settled, and everything settled applied.
    fn is_settled(&self) -> bool;

    /// Why no change can be planned now, if so.
    fn refusal(&self) -> Option<EngineError>;
}

/// A lane of an engine that several engines have, as the engine is given it.
pub struct SharedLane {
    /// What orders its commits.
    pub order: Box<dyn LaneOrder>,
    /// Where it stands.
    pub place: Arc<LanePlace>,
    /// The largest serial number of a filter that was made in it.
    pub last_serial: u64,
}

/// A commit that is to be ordered.
#[derive(Clone, Debug)]
pub struct Unordered {
    /// The engine's time, in milliseconds since 1970.
    pub clock_ms: u64,
    /// What it changes. Empty: nothing, it is a barrier.
    pub commit: Bytes,
    /// Until when it may be waited for.
    pub until: Instant,
}

/// A commit in its place, to be applied.
#[derive(Clone, Debug)]
pub struct Settled {
    /// Where the lane stands with it, but for the numbers of filters.
    pub position: LanePosition,
    /// The commit.
    pub commit: Bytes,
    /// The number under which the store was asked to take it.
    pub sequence: Option<Sequence>,
}

/// Why a commit is not ordered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NotOrdered {
    /// Nobody has it: another engine's came before it, or this one does not lead. It can
    /// be planned again.
    Overtaken,
    /// Nobody has it: it is too large.
    TooLarge,
    /// Nobody knows yet whether others have it.
    Unsettled,
}

/// Why a commit is not in the store.
#[derive(Debug)]
pub(super) enum NotStored {
    /// The store failed: it may have it. Its number is written again.
    StoreFailed(Arc<StoreError>),
    /// It is ordered, the store failed. It is applied again under its number.
    NotApplied(Arc<StoreError>),
    /// Nobody has it, and it can be planned again.
    Overtaken,
    /// Nobody has it: others could not apply it.
    Unfit(Arc<StoreError>),
    /// Nobody has it: it is larger than one may be.
    TooLarge {
        /// Its bytes.
        bytes: usize,
        /// Bytes that it may have.
        bound: usize,
    },
    /// Nobody knows yet whether others have it.
    Unsettled,
}

/// A lane that works, as what orders its commits knows it.
#[derive(Clone)]
pub struct LaneHandle(pub(crate) Arc<LaneQueue>);

impl LaneHandle {
    /// Has the lane call [`LaneOrder::go_on`] before anything else.
    pub fn wake(&self) {
        self.0.wake();
    }

    /// Whether it takes no further command.
    pub fn is_closed(&self) -> bool {
        self.0.is_closed()
    }
}

/// The ordering of a lane that several engines have, with what is about filters.
pub(crate) struct SharedOrdering {
    pub(crate) order: Box<dyn LaneOrder>,
    pub(crate) place: Arc<LanePlace>,
    pub(crate) lane: u32,
    pub(crate) clock: Arc<EngineClock>,
    pub(crate) claims: Arc<Claims>,
    pub(crate) idempotent_writes: Arc<IdempotentWrites>,
    pub(crate) imports: Arc<Imports>,
    /// The lane's thread alone comes here.
    pub(crate) work: RefCell<Work>,
}

/// What a lane remembers from one commit to the next.
#[derive(Default)]
pub(crate) struct Work {
    /// The largest serial number of a filter that was made in the lane.
    last_serial: u64,
    /// The largest that was given to a filter that is to be made.
    last_given: u64,
    /// What keeps requests from being sent again whose commit is not settled.
    recorders: Vec<SideRecorder>,
    /// Filters of a commit that the store may have, in part of what is in memory:
    /// none of them is closed until it is applied.
    touched: Vec<Arc<OpenFilter>>,
}

impl Work {
    /// That of a lane in which so many filters were made.
    pub(crate) fn after(last_serial: u64) -> Work {
        Work {
            last_serial,
            last_given: last_serial,
            ..Work::default()
        }
    }
}

impl SharedOrdering {
    /// Has a commit ordered, then stores it.
    pub(super) fn commit(
        &self,
        store: &PageStore,
        commit: &Commit,
        until: Instant,
    ) -> Result<(), NotStored> {
        let bytes = match commit.is_empty() {
            // A barrier.
            true => Vec::new(),
            false => commit_bytes::encode(commit),
        };
        let (bytes_long, bound) = (bytes.len(), self.order.most_bytes());
        let too_large = || NotStored::TooLarge {
            bytes: bytes_long,
            bound,
        };
        if bytes_long > bound {
            return Err(too_large());
        }
        let next = self.place.state().position.sequence + 1;
        record::verify(&bytes, next).map_err(|it| NotStored::Unfit(Arc::new(it)))?;
        let unordered = Unordered {
            clock_ms: self.clock.stamp_ms(),
            commit: bytes.into(),
            until,
        };
        let mut settled = self.order.order(unordered).map_err(|why| {
            self.order.published();
            match why {
                NotOrdered::Overtaken => NotStored::Overtaken,
                NotOrdered::TooLarge => too_large(),
                NotOrdered::Unsettled => NotStored::Unsettled,
            }
        })?;
        let position = self.position_with(&settled, commit);
        if let Err(error) = store.commit_at(commit, self.lane, &position) {
            settled.sequence = Some(commit.sequence);
            self.order.put_back(settled, &error);
            return Err(NotStored::NotApplied(Arc::new(error)));
        }
        self.work.borrow_mut().last_serial = position.last_serial;
        self.order.applied(&settled);
        self.clock.hear(settled.position.stamp_ms, true);
        Ok(())
    }

    /// Does what is to be done to have commits ordered.
    pub(crate) fn go_on(&self) {
        self.order.go_on();
        self.forget_settled();
    }

    /// Says that one that was settled is applied and published.
    pub(super) fn applied(&self, settled: &Settled, commit: &Commit) {
        let stamp_ms = settled.position.stamp_ms;
        self.clock.hear(stamp_ms, self.place.has_caught_up());
        for change in &commit.side_records {
            match change.key {
                SideRecordKey::Retry(_) => self.idempotent_writes.adjust(change),
                SideRecordKey::Import { .. } => self.imports.adjust(change),
            }
        }
        let last_serial = self.last_serial_with(commit);
        self.work.borrow_mut().last_serial = last_serial;
        self.order.applied(settled);
        self.forget_settled();
        self.order.published();
    }

    /// Where the lane stands in the store with this commit.
    pub(super) fn position_with(&self, settled: &Settled, commit: &Commit) -> LanePosition {
        LanePosition {
            last_serial: self.last_serial_with(commit),
            ..settled.position
        }
    }

    fn last_serial_with(&self, commit: &Commit) -> u64 {
        self.work.borrow().last_serial.max(last_serial(commit))
    }

    /// Keeps what is to be kept until a commit is settled and applied.
    pub(super) fn keep(&self, recorders: Vec<SideRecorder>, touched: Vec<Arc<OpenFilter>>) {
        let mut work = self.work.borrow_mut();
        work.recorders.extend(recorders);
        work.touched = touched;
    }

    /// Lets requests be sent again that were told that nobody knows, once somebody does.
    fn forget_settled(&self) {
        if self.order.is_settled() {
            let mut work = self.work.borrow_mut();
            work.recorders.clear();
            work.touched.clear();
        }
    }

    /// A number for a filter of this name that is to be made in this lane.
    pub(super) fn next_filter(&self, name: &FilterName) -> FilterId {
        let mut work = self.work.borrow_mut();
        work.last_given = work.last_given.max(work.last_serial) + 1;
        FilterId::new(slot_of(name), work.last_given)
    }

    /// A number for a filter that is to be taken in, by whoever holds the claim.
    pub(super) fn claim_next(&self, name: &FilterName, claim: &Claim) -> FilterId {
        let id = self.next_filter(name);
        self.claims.insert(id, claim);
        id
    }
}

/// The largest serial number of a filter that a commit makes, 0 if it makes none.
fn last_serial(commit: &Commit) -> u64 {
    let made = commit.filters.iter().filter_map(|change| match change {
        FilterChange::Create { id, .. }
        | FilterChange::Restore { id, .. }
        | FilterChange::Stage { id, .. } => Some(id.serial()),
        _ => None,
    });
    made.max().unwrap_or(0)
}

/// Whether the store has something else under the key of a side record than what
/// a request saw there: another engine has answered it.
pub(super) fn is_answered(store: &PageStore, recorder: &SideRecorder) -> Result<bool, StoreError> {
    let (key, expected) = recorder.expected();
    Ok(store.side_record(&key)?.as_ref() != expected)
}

#[cfg(test)]
mod tests;
