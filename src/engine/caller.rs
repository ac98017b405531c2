//! Whom the engine works for.

use super::error::EngineError;
use std::sync::Arc;
use std::time::Instant;
use tokio::time::timeout_at;

/// The server itself, for what it does unasked.
pub(super) static SERVER: Caller = Caller {
    key: None,
    deadline: None,
};

/// Who asked for something, and until when they wait for it. Bounds that hold
/// for each API key count by it. The default is the server itself, and every
/// caller of a server without keys: they have no key and no deadline.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Caller {
    /// The name of the API key that the request came with; it is no secret.
    pub key: Option<Arc<str>>,
    /// When nobody waits for the answer any more.
    pub deadline: Option<Instant>,
}

impl Caller {
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
