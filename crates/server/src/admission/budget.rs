//! What requests may hold at the same time of one resource, and what they are
//! told when it is used up.

use crate::engine::EngineError;
use crate::metrics::Metrics;
use crate::refusal::Refusal;
use crate::share::{Claimant, Kind, Permit, Resource, UsedUp};
use crate::used_up::{Exhausted, Scarce};
use std::sync::Arc;
use std::time::Duration;

/// How long a request waits for its place before it is turned away, so that
/// clients that ask again at once are not most of the work.
const LONGEST_WAIT: Duration = Duration::from_millis(100);

/// The API key of a request, which holds what the request holds; `None` where
/// no keys are asked for.
pub type Holder = Claimant<Arc<str>>;

/// What a request holds; given back when this is dropped.
pub type Held = Permit<Arc<str>>;

/// So much of one resource.
#[derive(Clone)]
pub struct Budget {
    what: Scarce,
    resource: Resource<Arc<str>>,
}

impl Budget {
    /// So much in all, and so many percent of it for one key.
    pub fn of(what: Scarce, bound: usize, share_percent: u8, metrics: &Metrics) -> Budget {
        let (name, bound) = (what.name(), bound as u64);
        Budget {
            what,
            resource: Resource::new(name, Kind::Lent, bound, share_percent, metrics),
        }
    }

    /// All of it.
    pub fn bound(&self) -> usize {
        self.resource.bound() as usize
    }

    /// What is held of it.
    pub fn held(&self) -> usize {
        self.resource.held() as usize
    }

    /// Takes so much.
    ///
    /// # Errors
    /// There is not so much left, or not for this key.
    pub fn try_take(&self, by: Option<&Holder>, amount: usize) -> Result<Held, Refusal> {
        let taken = self.resource.try_take(by, amount as u64);
        taken.map_err(|used_up| self.refused(used_up))
    }

    /// The same for what the engine does.
    ///
    /// # Errors
    /// [`EngineError::OverShare`].
    pub(crate) fn lend(&self, by: Option<&Holder>, amount: u64) -> Result<Held, EngineError> {
        let what = self.what.held();
        let taken = self.resource.try_take(by, amount);
        taken.map_err(|used_up| EngineError::OverShare { what, used_up })
    }

    /// Takes one, and waits for it for a moment.
    ///
    /// # Errors
    /// As [`try_take`](Self::try_take).
    pub(crate) async fn take_one(&self, by: Option<&Holder>) -> Result<Held, Refusal> {
        self.take_one_within(by, LONGEST_WAIT).await
    }

    /// Takes one, and waits for it no longer than that.
    ///
    /// # Errors
    /// As [`try_take`](Self::try_take).
    pub(crate) async fn take_one_within(
        &self,
        by: Option<&Holder>,
        longest: Duration,
    ) -> Result<Held, Refusal> {
        let taken = self.resource.take(by, 1, longest).await;
        taken.map_err(|used_up| self.refused(used_up))
    }

    /// Takes so much once there is so much; `None`: there never will be.
    pub async fn wait_for(&self, by: Option<&Holder>, amount: usize) -> Option<Held> {
        let amount = amount as u64;
        self.resource.take(by, amount, Duration::MAX).await.ok()
    }

    /// Has what is held be so much; what is more stays. Never waits, since what
    /// waits for others to end still holds what it has.
    ///
    /// # Errors
    /// There is not so much more, or not for this key.
    pub fn grow(
        &self,
        by: Option<&Holder>,
        held: &mut Option<Held>,
        amount: usize,
    ) -> Result<(), Refusal> {
        match held {
            None if amount > 0 => *held = Some(self.try_take(by, amount)?),
            None => {}
            Some(held) => held
                .try_grow_to(amount as u64)
                .map_err(|used_up| self.refused(used_up))?,
        }
        Ok(())
    }

    fn refused(&self, used_up: UsedUp) -> Refusal {
        let what = self.what;
        Refusal::UsedUp(Exhausted { what, used_up })
    }
}
