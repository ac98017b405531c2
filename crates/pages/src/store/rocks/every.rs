//! A thread that does something every so often.

use crate::store::error::{Result, StoreError};
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::thread::JoinHandle;
use std::time::Duration;

/// Shortest pause between two times.
const MIN_INTERVAL: Duration = Duration::from_millis(1);

/// It ends when this is dropped, after it has done it once more.
pub(super) struct Every(Option<(Sender<()>, JoinHandle<()>)>);

impl Every {
    /// # Errors
    /// The system has no thread left.
    pub(super) fn start(
        name: &str,
        interval: Duration,
        mut work: impl FnMut() + Send + 'static,
    ) -> Result<Every> {
        let (stop, stopped) = mpsc::channel::<()>();
        let interval = interval.max(MIN_INTERVAL);
        let thread = std::thread::Builder::new()
            .name(name.to_owned())
            .spawn(move || {
                while stopped.recv_timeout(interval) == Err(RecvTimeoutError::Timeout) {
                    work();
                }
                work();
            })
            .map_err(|source| StoreError::Thread { source })?;
        Ok(Every(Some((stop, thread))))
    }
}

impl Drop for Every {
    fn drop(&mut self) {
        if let Some((stop, thread)) = self.0.take() {
            drop(stop);
            // A thread that panicked has said so already.
            let _ = thread.join();
        }
    }
}
