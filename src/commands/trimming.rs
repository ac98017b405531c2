//! Trims the commit log: the pod that leads the first lane does, for all lanes.
//! Every pod forces to its disk what it has applied, and says how far that is.

use super::failure::Result;
use crate::cluster::jetstream::{Announcements, JetStreamLog};
use crate::cluster::trimming::{Bounds, bounds, still_counts};
use crate::cluster::{CommitLog as _, Member};
use crate::engine::StoreError;
use crate::metrics::Metrics;
use crate::store::rocks::RocksStore;
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
    /// Whether the data directory was removed.
    pub(super) is_gone: bool,
    /// What was trimmed last.
    pub(super) trimmed: Bounds,
}

impl Trimming {
    /// Goes on until it is told to stop.
    pub(super) async fn run(mut self, member: Member, mut stop: watch::Receiver<bool>) {
        let mut failed = false;
        while !*stop.borrow() {
            let done = self.once(&member).await;
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

    async fn once(&mut self, member: &Member) -> Result {
        let (forcing, data_dir) = (member.clone(), self.data_dir.clone());
        let held = spawn_blocking(move || on_disk(&data_dir, || forcing.force_lanes()));
        let held = held.await??;
        if held.is_none() && !self.is_gone {
            tracing::error!(
                data_dir = %self.data_dir.display(),
                "the data directory was removed: what this pod has is on no disk. Stop it, and start it with an empty one: it takes the state of another pod"
            );
        }
        self.is_gone = held.is_none();
        let lanes = member.engine().lane_states().len();
        *self.held.lock() = held.unwrap_or_else(|| vec![0; lanes]);
        let pods = self.announcements.all().await?;
        let now = Instant::now();
        self.seen
            .retain(|_, (held, at)| still_counts(held, now - *at));
        for pod in pods {
            self.seen.insert(pod.address, (pod.held, now));
        }
        let states = member.engine().lane_states();
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

/// Forces the newest record of each lane to the disk, and says which they are; `None`:
/// nothing is there any more, whether or not files that have no name can be forced.
fn on_disk(
    data_dir: &Path,
    force: impl FnOnce() -> Result<Vec<u64>, StoreError>,
) -> Result<Option<Vec<u64>>, StoreError> {
    if !RocksStore::is_at(data_dir)? {
        return Ok(None);
    }
    let forced = force()?;
    Ok(RocksStore::is_at(data_dir)?.then_some(forced))
}

/// Bytes of the files of a directory; 0 if it can't be read.
fn bytes_in(directory: &Path) -> u64 {
    let entries = std::fs::read_dir(directory).into_iter().flatten().flatten();
    let bytes = entries.filter_map(|it| it.metadata().ok().filter(|it| it.is_file()));
    bytes.map(|it| it.len()).sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::PageStore;
    use crate::store::rocks::RocksOptions;
    use std::fs;

    #[test]
    fn a_pod_whose_directory_was_removed_has_nothing_on_its_disk() {
        let parent = tempfile::tempdir().unwrap();
        for keeps_folder in [false, true] {
            let path = parent.path().join("data");
            let store = RocksStore::open(&path, RocksOptions::default()).unwrap();
            let store = PageStore::open(Arc::new(store)).unwrap();
            let forced = || Ok(vec![3, 7]);
            assert_eq!(on_disk(&path, forced).unwrap(), Some(vec![3, 7]));
            fs::remove_dir_all(&path).unwrap();
            if keeps_folder {
                fs::create_dir(&path).unwrap();
            }
            // What has no name any more can be forced all the same.
            store.sync().unwrap();
            assert_eq!(on_disk(&path, forced).unwrap(), None);
            // Nor does it matter that nothing can be forced any more.
            let refused = || Err(StoreError::NoFilterNumbers);
            assert_eq!(on_disk(&path, refused).unwrap(), None);
        }
    }

    #[test]
    fn a_disk_that_does_not_say_whether_the_directory_is_there_is_not_taken_for_one_without() {
        let parent = tempfile::tempdir().unwrap();
        // A file where a directory was: looking into it fails.
        let path = parent.path().join("data");
        fs::write(&path, "").unwrap();
        let forced = || Ok(vec![3, 7]);
        assert!(on_disk(&path, forced).is_err());
    }
}
