//! Work that waits for the disk, on threads that may block: on so many at most,
//! so that a disk that hangs keeps none of those that others need; and for
//! nobody longer than their deadline.
//!
//! What a deadline leaves behind ends by itself when the disk answers, and holds
//! its thread and its memory until then.

use super::caller::Caller;
use super::error::{EngineError, Overload};
use crate::store::PageStore;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{AcquireError, OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout;

/// Threads that wait for the disk at the same time, for all callers together.
/// The runtime has 512 for everything that may block.
const THREADS: usize = 128;

/// Memory that a page takes while it is read: its image as it is stored, and
/// its words.
const BYTES_PER_PAGE: usize = 8 << 10;

/// How often one who waits looks whether the disk answers.
const LOOK_EVERY: Duration = Duration::from_millis(250);

/// Nobody waits behind a read that the disk has not answered for so long.
const PATIENCE: Duration = Duration::from_secs(2);

/// The threads, and the memory for pages that are read beside the cache.
pub(super) struct StoreWork {
    store: Arc<PageStore>,
    threads: Arc<Semaphore>,
    pages: Arc<Semaphore>,
    all_pages: usize,
}

/// Memory for pages that are read for a request.
#[derive(Debug)]
pub(super) struct PagesHeld(#[expect(dead_code, reason = "held only")] OwnedSemaphorePermit);

impl StoreWork {
    /// Memory for so many bytes of pages.
    pub(super) fn new(store: Arc<PageStore>, cold_read_bytes: u64) -> StoreWork {
        let pages = usize::try_from(cold_read_bytes).unwrap_or(usize::MAX) / BYTES_PER_PAGE;
        let all_pages = pages.clamp(1, u32::MAX as usize >> 4);
        StoreWork {
            store,
            threads: Arc::new(Semaphore::new(THREADS)),
            pages: Arc::new(Semaphore::new(all_pages)),
            all_pages,
        }
    }

    /// Runs work that waits for the disk.
    ///
    /// # Errors
    /// [`EngineError::DeadlineExceeded`]: it may still run. [`Overload::Disk`]:
    /// all threads wait for a disk that does not answer, and it was not begun.
    pub(super) async fn run<T: Send + 'static>(
        &self,
        caller: &Caller,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, EngineError> {
        let thread = self.wait(caller, &self.threads, 1).await?;
        let working = tokio::task::spawn_blocking(move || {
            let result = work();
            drop(thread);
            result
        });
        // It ends early only if the runtime is being shut down, or by a panic,
        // which is reported where it happened.
        let ended = caller.within(working).await?;
        ended.map_err(|_| EngineError::Stopping)
    }

    /// Takes the memory for so many pages that are to be read.
    ///
    /// # Errors
    /// As [`run`](Self::run).
    pub(super) async fn hold_pages(
        &self,
        caller: &Caller,
        pages: usize,
    ) -> Result<PagesHeld, EngineError> {
        // One that needs more than there is has it alone.
        let pages = pages.min(self.all_pages) as u32;
        self.wait(caller, &self.pages, pages).await.map(PagesHeld)
    }

    async fn wait(
        &self,
        caller: &Caller,
        free: &Arc<Semaphore>,
        amount: u32,
    ) -> Result<OwnedSemaphorePermit, EngineError> {
        if let Ok(taken) = Arc::clone(free).try_acquire_many_owned(amount) {
            return Ok(taken);
        }
        let waiting = async {
            let mut taking = std::pin::pin!(Arc::clone(free).acquire_many_owned(amount));
            loop {
                if let Ok(taken) = timeout(LOOK_EVERY, &mut taking).await {
                    // It is never closed.
                    return taken.map_err(|_: AcquireError| EngineError::Stopping);
                }
                let oldest = self.store.pending().reads.oldest();
                if oldest.is_some_and(|oldest| oldest > PATIENCE) {
                    return Err(Overload::Disk.into());
                }
            }
        };
        caller.within(waiting).await?
    }
}
