//! Work that waits for the disk, on threads that may block: on so many at most,
//! so that a disk that hangs keeps none of those that others need; and for
//! nobody longer than their deadline.
//!
//! What a deadline leaves behind ends by itself when the disk answers, and holds
//! its thread and its memory until then.

use super::caller::Caller;
use super::error::{EngineError, Overload, Result};
use super::threads::BlockingThreads;
use crate::metrics::Metrics;
use crate::share::{Kind, Permit, Resource, UsedUp};
use crate::store::{PageStore, StoreError};
use std::sync::Arc;
use std::time::Duration;
use tokio::time::timeout;

/// Threads that wait for the disk at the same time, for all callers together.
const THREADS: u64 = 128;

/// Memory that a page takes while it is read: its image as it is stored, and
/// its words.
const BYTES_PER_PAGE: u64 = 8 << 10;

/// How often one who waits looks whether the disk answers.
const LOOK_EVERY: Duration = Duration::from_millis(250);

/// The threads, and the memory for pages that are read beside the cache.
pub(super) struct StoreWork {
    store: Arc<PageStore>,
    workers: BlockingThreads,
    /// Places on them.
    threads: Resource<Arc<str>>,
    pages: Resource<Arc<str>>,
    /// Nobody waits behind a read that the disk has not answered for so long.
    patience: Duration,
}

/// Memory for pages that are read for a request.
pub(super) type PagesHeld = Permit<Arc<str>>;

impl StoreWork {
    /// Memory for so many bytes of pages, and of that and of the threads so many
    /// percent for one API key.
    ///
    /// # Errors
    /// The system refuses what threads need.
    pub(super) fn new(
        store: Arc<PageStore>,
        cold_read_bytes: u64,
        patience: Duration,
        share_percent: u8,
        metrics: &Metrics,
    ) -> Result<StoreWork, StoreError> {
        let of = |name, bound| Resource::new(name, Kind::Lent, bound, share_percent, metrics);
        Ok(StoreWork {
            store,
            patience,
            workers: BlockingThreads::new(THREADS as usize)?,
            threads: of("disk_threads", THREADS),
            pages: of("cold_reads", (cold_read_bytes / BYTES_PER_PAGE).max(1)),
        })
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
    ) -> Result<T> {
        let thread = self.wait(caller, &self.threads, 1).await?;
        let working = self.workers.run(move || {
            let result = work();
            drop(thread);
            result
        });
        caller.within(working).await?
    }

    /// Takes the memory for so many pages that are to be read.
    ///
    /// # Errors
    /// As [`run`](Self::run).
    pub(super) async fn hold_pages(&self, caller: &Caller, pages: usize) -> Result<PagesHeld> {
        // One that needs more than there is has it alone.
        let pages = (pages as u64).min(self.pages.bound());
        self.wait(caller, &self.pages, pages).await
    }

    /// Waits for a part of something that is held while the disk is waited for.
    ///
    /// # Errors
    /// As [`run`](Self::run).
    pub(super) async fn wait(
        &self,
        caller: &Caller,
        resource: &Resource<Arc<str>>,
        amount: u64,
    ) -> Result<Permit<Arc<str>>> {
        let by = caller.claimant();
        let waiting = async {
            let mut taking = std::pin::pin!(resource.take(by.as_ref(), amount, Duration::MAX));
            loop {
                if let Ok(taken) = timeout(LOOK_EVERY, &mut taking).await {
                    // There always will be so much.
                    return taken.map_err(|_: UsedUp| EngineError::Stopping);
                }
                let oldest = self.store.pending.reads.oldest();
                if oldest.is_some_and(|oldest| oldest > self.patience) {
                    return Err(Overload::Disk.into());
                }
            }
        };
        caller.within(waiting).await?
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::MemoryStore;
    use std::collections::HashSet;
    use tokio::task::JoinSet;

    #[tokio::test]
    async fn a_key_that_reads_all_it_can_leaves_reads_to_others() {
        let store = Arc::new(PageStore::open(Arc::new(MemoryStore::new())).unwrap());
        let metrics = Metrics::new().unwrap();
        let work = StoreWork::new(store, 64 * BYTES_PER_PAGE, Duration::MAX, 50, &metrics).unwrap();
        let [greedy, modest] = ["greedy", "modest"].map(|key| Caller {
            key: Some(key.into()),
            has_rivals: true,
            ..Caller::default()
        });
        let moment = Duration::from_millis(100);
        let mut held = Vec::new();
        while let Ok(pages) = timeout(moment, work.hold_pages(&greedy, 8)).await {
            held.push(pages.unwrap());
        }
        assert_eq!(held.len(), 4);
        // While the one waits for more, the other is served.
        let (more, served) = tokio::join!(
            timeout(moment, work.hold_pages(&greedy, 8)),
            timeout(moment, work.hold_pages(&modest, 8))
        );
        assert!(more.is_err() && served.unwrap().is_ok());
        held.pop();
        assert!(timeout(moment, work.hold_pages(&greedy, 8)).await.is_ok());
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn no_more_threads_are_started_than_may_work() {
        let store = Arc::new(PageStore::open(Arc::new(MemoryStore::new())).unwrap());
        let metrics = Metrics::new().unwrap();
        let work = StoreWork::new(store, 0, Duration::MAX, 50, &metrics).unwrap();
        let (work, mut asking) = (Arc::new(work), JoinSet::new());
        for _ in 0..4 * THREADS {
            let work = Arc::clone(&work);
            asking.spawn(async move {
                let (nobody, mut seen) = (Caller::default(), Vec::new());
                for _ in 0..50 {
                    let id = work.run(&nobody, || std::thread::current().id()).await;
                    seen.push(id.unwrap());
                }
                seen
            });
        }
        let seen = asking.join_all().await.concat();
        let threads: HashSet<_> = seen.iter().collect();
        assert!(threads.len() as u64 <= THREADS, "{}", threads.len());
    }
}
