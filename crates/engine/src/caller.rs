//! Whom the engine works for.

use super::error::{EngineError, Result};
use crate::share::{Claimant, Permit};
use parking_lot::Mutex;
use std::sync::Arc;
use std::time::Instant;
use tokio::time::timeout_at;

/// The server itself, for what it does unasked.
pub(super) static SERVER: Caller = Caller {
    key: None,
    has_rivals: false,
    deadline: None,
    since: None,
    turn: Turn(None),
};

/// Who asked for something, and until when they wait for it. Bounds that hold
/// for each API key count by it. The default is the server itself, and every
/// caller of a server without keys: they have no key and no deadline.
#[derive(Clone, Debug, Default)]
pub struct Caller {
    /// The name of the API key that the request came with; it is no secret.
    pub key: Option<Arc<str>>,
    /// Whether there are other keys, so that it has its share of what there is.
    pub has_rivals: bool,
    /// When nobody waits for the answer any more.
    pub deadline: Option<Instant>,
    /// When the request had come, if it asks for many things one after another: the log is
    /// asked once for all of them.
    pub since: Option<Instant>,
    /// Its turn among large requests.
    pub turn: Turn,
}

/// The turn of a large request among others that keep a core busy. It ends when
/// the request has to wait for something else, or is answered.
#[derive(Clone, Debug, Default)]
pub struct Turn(Option<Arc<HeldUntilItWaits>>);

type HeldUntilItWaits = Mutex<Option<Permit<Arc<str>>>>;

impl From<Option<Permit<Arc<str>>>> for Turn {
    fn from(held: Option<Permit<Arc<str>>>) -> Turn {
        Turn(held.map(|held| Arc::new(Mutex::new(Some(held)))))
    }
}

impl Caller {
    /// To whose account goes what it holds; `None`: to nobody's.
    pub(super) fn claimant(&self) -> Option<Claimant<Arc<str>>> {
        let key = self.key.as_ref();
        key.map(|key| Claimant::of(Arc::clone(key), self.has_rivals))
    }

    /// Lets others have its turn: it is going to wait. What is left to do then is
    /// little, and needs none.
    pub(super) fn end_turn(&self) {
        if let Some(turn) = &self.turn.0 {
            turn.lock().take();
        }
    }

    /// # Errors
    /// [`EngineError::DeadlineExceeded`].
    pub(super) fn check(&self) -> Result {
        match self.deadline {
            Some(deadline) if deadline <= Instant::now() => Err(EngineError::DeadlineExceeded),
            _ => Ok(()),
        }
    }

    /// Waits for something until the deadline, and drops it then.
    ///
    /// # Errors
    /// [`EngineError::DeadlineExceeded`].
    pub(super) async fn within<T>(&self, waiting: impl Future<Output = T>) -> Result<T> {
        match self.deadline {
            None => Ok(waiting.await),
            Some(deadline) => timeout_at(deadline.into(), waiting)
                .await
                .map_err(|_| EngineError::DeadlineExceeded),
        }
    }
}
