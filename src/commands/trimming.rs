//! Trims the commit log: the pod that leads the first lane does, for all lanes.
//! Every pod forces to its disk what it has applied, and says how far that is.

use super::failure::Failure;
use crate::engine::Engine;
use crate::metrics::Metrics;
use crate::replication::CommitLog as _;
use crate::replication::jetstream::{Announcements, JetStreamLog};
use crate::replication::trimming::{Bounds, bounds, still_counts};
use parking_lot::Mutex;
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::watch;
use tokio::task::spawn_blocking;
use tokio::time::timeout;

/// How often that is done.
const EVERY: Duration = Duration::from_secs(5);

/// The log keeps as much as the pod's data take, but no less than this, unless
/// told otherwise.
const LEAST_KEPT_BYTES: u64 = 1 << 30;

/// See the module.
pub(super) struct Trimming {
    pub(super) announcements: Announcements,
    pub(super) log: Arc<JetStreamLog>,
    /// Bytes that the log keeps, if that was said.
    pub(super) keep_bytes: Option<u64>,
    pub(super) data_dir: PathBuf,
    /// The newest record of each lane that is on this pod's disk.
    pub(super) held: Arc<Mutex<Vec<u64>>>,
    pub(super) metrics: Arc<Metrics>,
    /// What pods have on their disks, by address, and when they said so.
    pub(super) seen: HashMap<String, (Vec<u64>, Instant)>,
    /// What was trimmed last.
    pub(super) trimmed: Bounds,
}

impl Trimming {
    /// Goes on until it is told to stop.
    pub(super) async fn run(mut self, engine: Engine, mut stop: watch::Receiver<bool>) {
        let mut failed = false;
        while !*stop.borrow() {
            let done = self.once(&engine).await;
            if let Err(error) = &done
                && !failed
            {
                tracing::warn!(%error, "the commit log can't be trimmed now");
            }
            failed = done.is_err();
            // An error means that the server stops.
            if let Ok(Err(_)) = timeout(EVERY, stop.changed()).await {
                break;
            }
        }
    }

    async fn once(&mut self, engine: &Engine) -> Result<(), Failure> {
        let forcing = engine.clone();
        *self.held.lock() = spawn_blocking(move || forcing.force_lanes()).await??;
        let pods = self.announcements.all().await?;
        let now = Instant::now();
        self.seen
            .retain(|_, (held, at)| still_counts(held, now - *at));
        for pod in pods {
            self.seen.insert(pod.address, (pod.held, now));
        }
        let states = engine.lane_states();
        if !states.first().is_some_and(|it| it.leads()) {
            // Whoever does trims further meanwhile.
            self.trimmed = Bounds::default();
            self.metrics.commit_log_bytes.set(0);
            return Ok(());
        }
        let extent = self.log.extent().await?;
        let shown = i64::try_from(extent.bytes).unwrap_or(i64::MAX);
        self.metrics.commit_log_bytes.set(shown);
        let keep_bytes = match self.keep_bytes {
            Some(bytes) => bytes,
            None => {
                let data_dir = self.data_dir.clone();
                let bytes = spawn_blocking(move || bytes_in(&data_dir)).await?;
                bytes.max(LEAST_KEPT_BYTES)
            }
        };
        let held: Vec<&[u64]> = self
            .seen
            .values()
            .map(|(held, _)| held.as_slice())
            .collect();
        let done = self.trimmed.clone();
        let bounds = bounds(extent, keep_bytes, &held, states.len(), done.furthest);
        let (log, due) = (Arc::clone(&self.log), bounds.clone());
        let trimmed = spawn_blocking(move || {
            let lanes = due.lanes.iter().enumerate();
            let is_done = |lane: usize| done.lanes.get(lane).copied().unwrap_or(0);
            let mut lanes = lanes.filter(|&(lane, &before)| before > is_done(lane));
            lanes.try_for_each(|(lane, &before)| log.trim(lane as u32, before))
        });
        trimmed.await??;
        if !bounds.lanes.is_empty() {
            self.trimmed = bounds;
        }
        Ok(())
    }
}

/// Bytes of the files of a directory; 0 if it can't be read.
fn bytes_in(directory: &Path) -> u64 {
    let entries = std::fs::read_dir(directory).into_iter().flatten().flatten();
    let bytes = entries.filter_map(|it| it.metadata().ok().filter(|it| it.is_file()));
    bytes.map(|it| it.len()).sum()
}
