//! Whom the engine works for.

use super::error::EngineError;
use crate::share::{Claimant, Terms};
use std::sync::Arc;
use std::time::Instant;
use tokio::time::timeout_at;

/// The server itself, for what it does unasked.
pub(super) static SERVER: Caller = Caller {
    key: None,
    has_rivals: false,
    deadline: None,
};

/// Who asked for something, and until when they wait for it. Bounds that hold
/// for each API key count by it. The default is the server itself, and every
/// caller of a server without keys: they have no key and no deadline.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Caller {
    /// The name of the API key that the request came with; it is no secret.
    pub key: Option<Arc<str>>,
    /// Whether there are other keys, so that it has its share of what there is.
    pub has_rivals: bool,
    /// When nobody waits for the answer any more.
    pub deadline: Option<Instant>,
}

impl Caller {
    /// To whose account goes what it holds; `None`: to nobody's.
    pub(super) fn claimant(&self) -> Option<Claimant<Arc<str>>> {
        self.key.as_ref().map(|key| Claimant {
            holder: Arc::clone(key),
            terms: Terms {
                has_rivals: self.has_rivals,
                most: None,
            },
        })
    }

    /// # Errors
    /// [`EngineError::DeadlineExceeded`].
    pub(super) fn check(&self) -> Result<(), EngineError> {
        match self.deadline {
            Some(deadline) if deadline <= Instant::now() => Err(EngineError::DeadlineExceeded),
            _ => Ok(()),
        }
    }

    /// Waits for something until the deadline, and drops it then.
    ///
    /// # Errors
    /// [`EngineError::DeadlineExceeded`].
    pub(super) async fn within<T>(
        &self,
        waiting: impl Future<Output = T>,
    ) -> Result<T, EngineError> {
        match self.deadline {
            None => Ok(waiting.await),
            Some(deadline) => timeout_at(deadline.into(), waiting)
                .await
                .map_err(|_| EngineError::DeadlineExceeded),
        }
    }
}
