//! How much goes on at the same time: in all, and for one API key while there
//! are others.

use crate::access::keys::ConcurrencyShare;
use crate::http::problem::HttpError;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout;

/// How long a request waits for a slot before it is turned away, so that
/// clients that ask again at once are not most of the work.
const LONGEST_WAIT: Duration = Duration::from_millis(100);

/// What is bounded.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Kind {
    Requests,
    Streams,
}

/// So many at the same time, and half of them for one key while there are
/// others.
#[derive(Clone, Debug)]
pub(crate) struct ConcurrencyLimit {
    kind: Kind,
    limit: usize,
    free: Arc<Semaphore>,
}

/// One of what may go on, and of what its key may have; free again when this is
/// dropped.
#[derive(Debug)]
pub(crate) struct Slot {
    _all: OwnedSemaphorePermit,
    _share: Option<OwnedSemaphorePermit>,
}

impl ConcurrencyLimit {
    pub(crate) fn of(kind: Kind, limit: usize) -> ConcurrencyLimit {
        ConcurrencyLimit {
            kind,
            limit,
            free: Arc::new(Semaphore::new(limit)),
        }
    }

    /// How many go on.
    pub(crate) fn taken(&self) -> usize {
        self.limit.saturating_sub(self.free.available_permits())
    }

    /// Takes a slot.
    ///
    /// # Errors
    /// All are taken, or all that the key may have.
    pub(crate) fn try_take(&self, share: Option<&ConcurrencyShare>) -> Result<Slot, HttpError> {
        let of_key = match share {
            None => None,
            Some(share) => Some(free(share.of(self.share())).ok_or_else(|| self.key_refused())?),
        };
        Ok(Slot {
            _all: free(&self.free).ok_or_else(|| self.refused())?,
            _share: of_key,
        })
    }

    /// Takes a slot, and waits for it for a moment: first come, first served.
    ///
    /// # Errors
    /// As [`try_take`](Self::try_take).
    pub(crate) async fn take(&self, share: Option<&ConcurrencyShare>) -> Result<Slot, HttpError> {
        let of_key = match share {
            None => None,
            Some(share) => {
                let slot = free_soon(share.of(self.share())).await;
                Some(slot.ok_or_else(|| self.key_refused())?)
            }
        };
        Ok(Slot {
            _all: free_soon(&self.free).await.ok_or_else(|| self.refused())?,
            _share: of_key,
        })
    }

    fn share(&self) -> usize {
        self.limit.div_ceil(2)
    }

    fn refused(&self) -> HttpError {
        let limit = self.limit;
        match self.kind {
            Kind::Requests => HttpError::TooManyInFlight { limit },
            Kind::Streams => HttpError::TooManyStreams { limit },
        }
    }

    fn key_refused(&self) -> HttpError {
        HttpError::KeyTakesTooMuch {
            limit: self.share(),
            what: match self.kind {
                Kind::Requests => "requests",
                Kind::Streams => "streams of this kind",
            },
        }
    }
}

fn free(slots: &Arc<Semaphore>) -> Option<OwnedSemaphorePermit> {
    Arc::clone(slots).try_acquire_owned().ok()
}

async fn free_soon(slots: &Arc<Semaphore>) -> Option<OwnedSemaphorePermit> {
    if let Some(slot) = free(slots) {
        return Some(slot);
    }
    let waited = timeout(LONGEST_WAIT, Arc::clone(slots).acquire_owned());
    waited.await.ok()?.ok()
}
