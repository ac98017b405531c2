//! Where a lane stands that several engines have, for those outside of it.

use super::halt::Halt;
use super::position::Position;
use std::sync::atomic::{AtomicU64, Ordering};
use tokio::sync::watch;

/// A time in which this engine plans a lane's changes, and nobody else changes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Term(pub u64);

/// Where a lane of this pod stands.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LaneState {
    /// The newest record that was applied, and is in the store.
    pub position: Position,
    /// The term in which this pod plans its changes, and has applied all that came
    /// before; another one once another pod has changed something.
    pub term: Option<Term>,
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
        self.term.is_some()
    }

    /// Whether it applies nothing any more: for good, or until it has the state of
    /// another pod.
    pub fn has_stopped(&self) -> bool {
        self.halted.is_some() || self.is_behind
    }
}

/// The same, as what orders its commits tells it.
#[derive(Debug)]
pub struct LanePlace {
    state: watch::Sender<LaneState>,
    /// The largest number of a record that somebody has named since it was looked for.
    named: AtomicU64,
}

impl LanePlace {
    /// That of a lane that begins at a position; another engine may have applied a later
    /// record.
    pub fn new(position: Position, awaits: Option<u64>) -> LanePlace {
        LanePlace {
            state: watch::Sender::new(LaneState {
                position,
                awaits,
                ..LaneState::default()
            }),
            named: AtomicU64::new(0),
        }
    }

    /// Notes that somebody says that the log has a record of this number.
    pub fn name(&self, sequence: u64) {
        self.named.fetch_max(sequence, Ordering::Relaxed);
    }

    /// The largest number that was named since this was asked.
    pub fn take_named(&self) -> u64 {
        self.named.swap(0, Ordering::Relaxed)
    }

    /// Says that it has applied all that the log had at a moment since its start: what
    /// comes now was written since.
    pub fn set_caught_up(&self) {
        self.state.send_modify(|state| state.has_caught_up = true);
    }

    pub(crate) fn has_caught_up(&self) -> bool {
        self.state.borrow().has_caught_up
    }

    /// Says where it stands now. One that has caught up once, has.
    pub fn set(&self, state: LaneState) {
        self.state.send_modify(|before| {
            let has_caught_up = before.has_caught_up || state.leads();
            *before = LaneState {
                has_caught_up,
                ..state
            };
        });
    }

    /// Where it stands.
    pub fn state(&self) -> LaneState {
        self.state.borrow().clone()
    }

    pub(crate) fn term(&self) -> Option<Term> {
        self.state.borrow().term
    }

    /// Waits until it has applied a record of this number, or a later one.
    pub(crate) async fn reached(&self, sequence: u64) {
        self.wait_for(|state| state.position.sequence >= sequence)
            .await;
    }

    /// Waits until it stands like that.
    pub async fn wait_for(&self, is_so: impl FnMut(&LaneState) -> bool) {
        // An error would mean that the sender is gone, which is here.
        let _ = self.state.subscribe().wait_for(is_so).await;
    }
}
