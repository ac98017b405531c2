//! Work that blocks, off the async threads.

use super::error::EngineError;

/// Runs blocking work where it may block.
pub(crate) async fn run_blocking<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, EngineError> {
    // The task ends early only if the runtime is being shut down, or by a
    // panic, which is reported where it happened.
    tokio::task::spawn_blocking(work)
        .await
        .map_err(|_| EngineError::Stopping)
}
