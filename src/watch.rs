//! Files that may change while the server runs. Their metadata is compared twice
//! a second, and they are read again when it differs. Polling also notices a
//! link that points elsewhere, which is how Kubernetes replaces Secrets, and
//! needs no support of the file system.
//!
//! A file that can't be used is reported once and tried again. Until it can be
//! used, its last good content stays in use.

use crate::metrics::Metrics;
use std::os::unix::fs::MetadataExt as _;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::{MissedTickBehavior, interval};

/// How often the metadata of the files is compared.
const LOOK_EVERY: Duration = Duration::from_millis(500);

/// The failure that is reported when reading the files panics.
const PANICKED: &str = "reading them ended in a panic, which the log shows";

/// What tells one state of a file from another: its device, its inode and its length;
/// when it was modified, and when it changed, in seconds and nanoseconds.
type Stamp = ([u64; 3], [i64; 4]);

/// Files that belong together.
pub struct FileWatcher {
    what: &'static str,
    files: Vec<PathBuf>,
    stamps: Vec<Option<Stamp>>,
    metrics: Arc<Metrics>,
    failure: Option<String>,
}

impl FileWatcher {
    /// Notes the state of the files. Call it before they are read for the first
    /// time, so that no change is missed. `what` names them in logs and metrics.
    pub fn new(what: &'static str, files: Vec<PathBuf>, metrics: Arc<Metrics>) -> FileWatcher {
        let stamps = stamps(&files);
        FileWatcher {
            what,
            files,
            stamps,
            metrics,
            failure: None,
        }
    }

    /// Compares the files for ever, and calls `read` when they have changed.
    pub async fn follow<E: std::error::Error>(
        mut self,
        read: impl Fn() -> Result<(), E> + Clone + Send + 'static,
    ) {
        let mut ticks = interval(LOOK_EVERY);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            ticks.tick().await;
            let read = read.clone();
            // Files may be on a disk that is slow.
            let looked = tokio::task::spawn_blocking(move || {
                self.look(read);
                self
            });
            match looked.await {
                Ok(watch) => self = watch,
                // The server stops.
                Err(_) => return,
            }
        }
    }

    fn look<E: std::error::Error>(&mut self, read: impl Fn() -> Result<(), E>) {
        let stamps = stamps(&self.files);
        if stamps == self.stamps && self.failure.is_none() {
            return;
        }
        self.stamps = stamps;
        match catch_unwind(AssertUnwindSafe(read)) {
            Ok(Ok(())) => {
                tracing::info!(what = self.what, "files changed and were read again");
                self.count("ok");
                self.set_failing(0);
                self.failure = None;
            }
            Ok(Err(error)) => self.fail(error.to_string()),
            Err(_) => self.fail(PANICKED.to_owned()),
        }
    }

    /// Reports a failure once, however often it is tried again.
    fn fail(&mut self, failure: String) {
        self.set_failing(1);
        if self.failure.as_ref() != Some(&failure) {
            tracing::error!(
                what = self.what,
                failure,
                "files changed and can't be used; what was read before stays in use"
            );
            self.count("failed");
        }
        self.failure = Some(failure);
    }

    fn set_failing(&self, failing: i64) {
        let gauge = self.metrics.reload_failing.with_label_values(&[self.what]);
        gauge.set(failing);
    }

    fn count(&self, outcome: &str) {
        let labels = [self.what, outcome];
        self.metrics.reloads.with_label_values(&labels).inc();
    }
}

fn stamps(files: &[PathBuf]) -> Vec<Option<Stamp>> {
    files
        .iter()
        .map(|file| {
            // Of what a link leads to.
            let it = std::fs::metadata(file).ok()?;
            let times = [it.mtime(), it.mtime_nsec(), it.ctime(), it.ctime_nsec()];
            Some(([it.dev(), it.ino(), it.len()], times))
        })
        .collect()
}

#[cfg(test)]
mod tests;
