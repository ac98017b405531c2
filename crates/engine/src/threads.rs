//! The engine's own threads, and work that blocks.

use super::error::{EngineError, Result};
use crate::store::StoreError;
use crossbeam_channel::{Receiver, RecvTimeoutError, Sender, TryRecvError};
use parking_lot::Mutex;
use std::ops::ControlFlow;
use std::sync::Weak;
use std::thread::JoinHandle;
use std::time::Duration;
use tokio::runtime::{Builder, Runtime};

/// The threads that run, to be joined when the engine stops.
#[derive(Default)]
pub(super) struct Threads {
    pub(super) lanes: Mutex<Vec<JoinHandle<()>>>,
    pub(super) checkpointer: Mutex<Option<JoinHandle<()>>>,
    pub(super) tasks: Mutex<Vec<BackgroundTask>>,
}

/// A thread that works beside everything else until it is ended.
pub(super) struct BackgroundTask {
    stop: Sender<()>,
    thread: JoinHandle<()>,
}

impl BackgroundTask {
    /// Starts one. Its end is that nothing can be sent any more into the channel
    /// that it is given.
    ///
    /// # Errors
    /// The thread can't be started.
    pub(super) fn start(
        name: &str,
        work: impl FnOnce(&Receiver<()>) + Send + 'static,
    ) -> Result<BackgroundTask, StoreError> {
        let (stop, stopped) = crossbeam_channel::bounded(0);
        let thread = spawn(name, move || work(&stopped))?;
        Ok(BackgroundTask { stop, thread })
    }

    /// Ends it, and waits for that.
    pub(super) fn end(self) {
        drop(self.stop);
        // One that panicked has said so.
        let _ = self.thread.join();
    }
}

/// Whether a task is ended: nothing can be sent to it any more.
pub(super) fn is_stopped(stop: &Receiver<()>) -> bool {
    stop.try_recv() == Err(TryRecvError::Disconnected)
}

/// Works on something again and again, after a first pause and those that the
/// work asks for, until it is gone, the work breaks, or the task is ended.
pub(super) fn repeat<T>(
    state: &Weak<T>,
    stop: &Receiver<()>,
    mut pause: Duration,
    mut work: impl FnMut(&T) -> ControlFlow<(), Duration>,
) {
    while stop.recv_timeout(pause) == Err(RecvTimeoutError::Timeout) {
        let Some(state) = state.upgrade() else {
            return;
        };
        match work(&state) {
            ControlFlow::Continue(next) => pause = next,
            ControlFlow::Break(()) => return,
        }
    }
}

/// Starts a thread.
///
/// # Errors
/// The system refuses.
pub(super) fn spawn(
    name: &str,
    work: impl FnOnce() + Send + 'static,
) -> Result<JoinHandle<()>, StoreError> {
    std::thread::Builder::new()
        .name(name.to_owned())
        .spawn(work)
        .map_err(|source| StoreError::Thread { source })
}

/// Threads of their own for work that blocks, so many at most.
///
/// The caller's runtime has more, and starts another one whenever none is idle. One whose
/// work has just let the next begin is not idle yet: where as many work as may, ever more
/// are started, up to all that it has, and each keeps memory that it has freed.
pub(super) struct BlockingThreads(Option<Runtime>);

impl BlockingThreads {
    /// # Errors
    /// The system refuses what a runtime needs.
    pub(super) fn new(most: usize) -> Result<BlockingThreads, StoreError> {
        let runtime = Builder::new_current_thread()
            .max_blocking_threads(most)
            .build();
        let runtime = runtime.map_err(|source| StoreError::Thread { source })?;
        Ok(BlockingThreads(Some(runtime)))
    }

    /// Runs work on one of them. Where all are taken it waits for one.
    ///
    /// # Errors
    /// [`EngineError::Stopping`].
    pub(super) async fn run<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T> {
        let runtime = self.0.as_ref().ok_or(EngineError::Stopping)?;
        let working = runtime.spawn_blocking(work);
        working.await.map_err(|_| EngineError::Stopping)
    }
}

impl Drop for BlockingThreads {
    /// Waits for nothing: a disk may hang.
    fn drop(&mut self) {
        if let Some(runtime) = self.0.take() {
            runtime.shutdown_background();
        }
    }
}

/// Runs blocking work where it may block.
pub(crate) async fn run_blocking<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T> {
    // The task ends early only if the runtime is being shut down, or by a
    // panic, which is reported where it happened.
    tokio::task::spawn_blocking(work)
        .await
        .map_err(|_| EngineError::Stopping)
}
