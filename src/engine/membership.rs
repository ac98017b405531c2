//! What an engine is in a cluster: the commit log that it shares with other
//! pods, and where each of its lanes stands in it.
//!
//! | file | what it owns |
//! |---|---|
//! | `membership.rs` | [`LaneState`]: where a lane stands while the engine is open |
//! | `part.rs` | [`Membership`]: what an engine is given to be a part of a cluster |
//! | `start.rs` | [`LaneStart`]: from where a lane goes on, and why it may not ([`JoinError`]) |
//! | `elsewhere.rs` | what other pods have applied, held against what this one has |
//! | `past.rs` | [`PodPosition`]: whether one pod's state may take the place of another's |
//!
//! What the lanes do with it is in `engine::following` and `engine::lane::replicated`.

mod elsewhere;
mod part;
mod past;
mod start;

pub use part::Membership;
pub use past::{PodPosition, Unfit};
pub use start::JoinError;
pub(crate) use start::LaneStart;

use super::claims::Claims;
use super::clock::EngineClock;
use crate::page::FilterId;
use crate::replication::{Halt, Position, Reign};
use crate::store::PageStore;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;
use tokio::sync::{Mutex as AsyncMutex, watch};

/// Where a lane of this pod stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LaneState {
    /// The newest record that was applied, and is in the store.
    pub position: Position,
    /// The reign in which this pod plans its changes, and has applied all that came
    /// before; another one once another pod has changed something.
    pub reign: Option<Reign>,
    /// Whether a record is in flight, so that a commit is not settled.
    pub is_in_flight: bool,
    /// The number of a record that another pod has applied, and this one has not yet.
    pub awaits: Option<u64>,
    /// Whether it has applied all that the log had at a moment since its start.
    pub has_caught_up: bool,
    /// Whether it needs the state of another pod.
    pub is_behind: bool,
    /// Why it stands still for good, if it does.
    pub halted: Option<Halt>,
}

impl LaneState {
    /// Whether this pod plans its changes, and has applied all that came before.
    pub fn leads(&self) -> bool {
        self.reign.is_some()
    }

    /// Whether it applies nothing any more: for good, or until it has the state of
    /// another pod.
    pub fn has_stopped(&self) -> bool {
        self.halted.is_some() || self.is_behind
    }
}

/// The same, as the lane's thread tells it.
pub(crate) struct LanePlace {
    state: watch::Sender<LaneState>,
    /// The largest number of a record that somebody has named since it was looked for.
    named: AtomicU64,
}

impl LanePlace {
    /// That of a lane that begins.
    pub(super) fn new(start: &LaneStart) -> LanePlace {
        LanePlace {
            state: watch::Sender::new(LaneState {
                position: start.position,
                reign: None,
                is_in_flight: false,
                awaits: start.awaited.map(|it| it.sequence),
                has_caught_up: false,
                is_behind: false,
                halted: None,
            }),
            named: AtomicU64::new(0),
        }
    }

    /// Notes that somebody says that the log has a record of this number.
    pub(super) fn name(&self, sequence: u64) {
        self.named.fetch_max(sequence, Ordering::Relaxed);
    }

    /// The largest number that was named since this was asked.
    pub(super) fn take_named(&self) -> u64 {
        self.named.swap(0, Ordering::Relaxed)
    }

    /// Says that it has applied all that the log had at a moment since its start: what
    /// comes now was written since.
    pub(super) fn note_caught_up(&self) {
        self.state.send_modify(|state| state.has_caught_up = true);
    }

    pub(super) fn has_caught_up(&self) -> bool {
        self.state.borrow().has_caught_up
    }

    /// Says where it stands now. One that has caught up once, has.
    pub(super) fn set(&self, state: LaneState) {
        self.state.send_modify(|before| {
            let has_caught_up = before.has_caught_up || state.leads();
            *before = LaneState {
                has_caught_up,
                ..state
            };
        });
    }

    pub(super) fn state(&self) -> LaneState {
        self.state.borrow().clone()
    }

    pub(super) fn reign(&self) -> Option<Reign> {
        self.state.borrow().reign
    }

    /// Waits until it has applied a record of this number, or a later one.
    pub(super) async fn reached(&self, sequence: u64) {
        self.wait_for(|state| state.position.sequence >= sequence)
            .await;
    }

    pub(super) async fn wait_for(&self, is_so: impl FnMut(&LaneState) -> bool) {
        // An error would mean that the sender is gone, which is here.
        let _ = self.state.subscribe().wait_for(is_so).await;
    }
}

/// A lane's part in the cluster.
pub(crate) struct ClusteredLane {
    pub(super) start: LaneStart,
    pub(super) place: Arc<LanePlace>,
    pub(super) barriers: Barriers,
}

/// The barriers of a lane, one after the other.
#[derive(Default)]
pub(super) struct Barriers {
    /// How many have begun.
    pub(super) begun: AtomicU64,
    /// The last one that ended well; held while one is under way.
    pub(super) ended: AsyncMutex<u64>,
}

/// An engine's part in the cluster.
pub(super) struct Clustered {
    pub(super) membership: Arc<Membership>,
    pub(super) lanes: Vec<ClusteredLane>,
    pub(super) claims: Arc<Claims>,
}

impl Clustered {
    /// Where the lane stands that gave a filter its number.
    pub(super) fn lane_of(&self, id: FilterId) -> Option<&LanePlace> {
        let lane = lane_of_number(id, self.lanes.len());
        self.lanes.get(lane).map(|it| &*it.place)
    }

    /// # Errors
    /// What is stored is not of this cluster.
    pub(super) fn of(membership: Membership, store: &PageStore) -> Result<Clustered, JoinError> {
        let starts = LaneStart::of_each(&membership, store)?;
        let lane = |start| ClusteredLane {
            place: Arc::new(LanePlace::new(&start)),
            start,
            barriers: Barriers::default(),
        };
        Ok(Clustered {
            membership: Arc::new(membership),
            lanes: starts.into_iter().map(lane).collect(),
            claims: Arc::default(),
        })
    }

    /// From where time goes on: where the other pods are, and never from before what
    /// was stamped. A pod that is alone believes its clock as long as that of the
    /// brokers does not say that it is far ahead.
    pub(super) fn tell_the_time(&self, clock: &EngineClock) {
        let now = |(time_ms, as_of): (u64, Instant)| {
            time_ms + u64::try_from(as_of.elapsed().as_millis()).unwrap_or_default()
        };
        if let Some(time) = self.membership.time {
            clock.hear(now(time), true);
            clock.reckon_from(now(self.membership.reckoned.unwrap_or(time)));
        } else if let Some(time) = self.membership.brokers_time {
            clock.hear(now(time).min(clock.state().wall_ms), true);
            if let Some(ahead_ms) = clock.state().jump_ms {
                tracing::warn!(
                    seconds = ahead_ms / 1000,
                    "no other pod is there to ask for the time, and this machine's clock is ahead of the brokers': time goes on from theirs until one of the clocks is put right, or this one is confirmed (POST /admin/clock/confirm)"
                );
            }
        }
        if let Some(stamp) = self.lanes.iter().map(|it| it.start.stamp_ms).max() {
            clock.hear(stamp, false);
        }
    }
}

/// The lane of a cluster with so many that gave a filter its number.
pub(super) fn lane_of_number(id: FilterId, lanes: usize) -> usize {
    (id.0.wrapping_sub(1) % lanes.max(1) as u64) as usize
}

#[cfg(test)]
mod tests;
