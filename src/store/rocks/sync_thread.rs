//! Forces the write-ahead log to the disk every so often.

use super::errors::one_line;
use super::write_health::WriteHealth;
use crate::store::error::StoreError;
use rocksdb::DB;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::thread::JoinHandle;
use std::time::Duration;

/// Shortest pause between two forced writes.
const MIN_INTERVAL: Duration = Duration::from_millis(1);

/// What it works on.
pub(super) struct Synced {
    pub(super) database: Arc<DB>,
    pub(super) write_health: Arc<WriteHealth>,
    /// Counts the times that it failed.
    pub(super) failed: Arc<AtomicU64>,
}

/// A thread that ends, after a last forced write, when this is dropped.
pub(super) struct SyncThread {
    stop: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl SyncThread {
    /// # Errors
    /// The system has no thread left.
    pub(super) fn start(synced: Synced, interval: Duration) -> Result<SyncThread, StoreError> {
        let (stop, stopped) = mpsc::channel();
        let thread = std::thread::Builder::new()
            .name("wal-sync".to_owned())
            .spawn(move || run(&synced, interval.max(MIN_INTERVAL), &stopped))
            .map_err(|source| StoreError::Thread { source })?;
        Ok(SyncThread {
            stop: Some(stop),
            thread: Some(thread),
        })
    }
}

fn run(synced: &Synced, interval: Duration, stopped: &Receiver<()>) {
    let database = &synced.database;
    loop {
        let last = stopped.recv_timeout(interval) != Err(RecvTimeoutError::Timeout);
        let forced = synced
            .write_health
            .write(database, || database.flush_wal(true));
        if let Err(error) = forced {
            synced.failed.fetch_add(1, Ordering::Relaxed);
            tracing::error!(
                reason = one_line(&error),
                "forcing the write-ahead log to the disk failed"
            );
        }
        if last {
            return;
        }
    }
}

impl Drop for SyncThread {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            // A thread that panicked has said so already.
            let _ = thread.join();
        }
    }
}
