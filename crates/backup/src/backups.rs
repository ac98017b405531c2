//! The backups of one server: one is made at a time, on a thread of its own.

use super::archive::{self, Progress};
use super::catalog::{Catalog, check_room, disk_of};
use super::error::{BackupError, Result};
use super::id::BackupId;
use crate::metrics::Metrics;
use crate::store::disk::{DiskReserve, DiskSpace};
use crate::store::{FrozenStore, PageStore, StoreError};
use parking_lot::Mutex;
use std::fs::File;
use std::ops::ControlFlow;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant, SystemTime};

/// Room on the disk that a backup leaves alone: the system's and other
/// programs' files must still fit.
pub const RESERVED_BYTES: u64 = 64 << 20;

/// The gauge of the newest whole backup, and its help text.
const NEWEST: &str = "last_backup_timestamp_seconds";
const NEWEST_HELP: &str =
    "When the newest whole backup was begun, in seconds since 1970; 0 if there is none.";

/// Where backups go and how many are kept.
#[derive(Clone, Debug)]
pub struct BackupOptions {
    /// Directory of the archives; made if missing, and for this server alone.
    pub directory: PathBuf,
    /// Whole archives that are kept, at least 1.
    pub keep: usize,
    /// What is left alone of the data's disk, by archives that lie on it, too.
    pub disk_reserve: DiskReserve,
}

/// Compares what a store contains with its descriptions. Says how many more
/// bytes were read, often, and ends if it is told to.
pub type ContentCheck =
    fn(&PageStore, &mut dyn FnMut(u64) -> ControlFlow<()>) -> Result<(), StoreError>;

/// The content is compared for so long at once, and then not for as long:
/// it takes half a processor, and half of what the disk reads.
const CHECK_AT_ONCE: Duration = Duration::from_millis(10);

/// How far a backup is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BackupState {
    /// The archive is being written.
    Writing,
    /// It is being read again, and what it contains is compared.
    Verifying,
    /// It is whole.
    Complete,
    /// It came to nothing.
    Failed,
}

/// A backup as it is now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BackupInfo {
    /// Its name.
    pub id: BackupId,
    /// Its progress.
    pub state: BackupState,
    /// Bytes of the archive, once it is complete.
    pub bytes: u64,
    /// Bytes of it that are written, or verified.
    pub done_bytes: u64,
    /// Why it failed.
    pub failure: Option<String>,
}

/// The backups of one server.
pub struct Backups {
    store: Arc<PageStore>,
    check: ContentCheck,
    catalog: Catalog,
    /// Whole archives that are kept.
    pub keep: usize,
    disk_reserve: DiskReserve,
    metrics: Arc<Metrics>,
    /// When the newest whole backup was begun, in seconds since 1970; 0 = there
    /// is none.
    newest: Arc<AtomicU64>,
    /// Held while a backup is begun, which takes as long as the store needs to
    /// freeze a copy.
    starting: Mutex<()>,
    /// Never held while the disk is waited for.
    current: Mutex<Current>,
}

/// The backup under way, and the last one that failed.
#[derive(Default)]
struct Current {
    running: Option<Running>,
    failed: Option<BackupInfo>,
    thread: Option<JoinHandle<()>>,
    is_stopping: bool,
}

impl Current {
    /// Sees that a backup may begin. Returns the thread of the one before, which
    /// has ended.
    fn make_way(&mut self) -> Result<Option<JoinHandle<()>>> {
        match &self.running {
            _ if self.is_stopping => Err(BackupError::Stopping),
            Some(Running { id, .. }) => Err(BackupError::Running { id: id.clone() }),
            None => Ok(self.thread.take()),
        }
    }
}

#[derive(Clone)]
struct Running {
    id: BackupId,
    bytes: u64,
    progress: Arc<Progress>,
}

impl Running {
    fn info(&self) -> BackupInfo {
        let verifying = self.progress.verifying.load(Ordering::Acquire);
        BackupInfo {
            id: self.id.clone(),
            state: match verifying {
                true => BackupState::Verifying,
                false => BackupState::Writing,
            },
            bytes: self.bytes,
            done_bytes: self.progress.bytes.load(Ordering::Acquire).min(self.bytes),
            failure: None,
        }
    }
}

impl Backups {
    /// Backups of `store` in a directory, which is made if it is missing. None is
    /// complete in whose content `check` finds a fault. Removes what an interrupted
    /// backup left there. Blocks.
    ///
    /// # Errors
    /// The directory can't be used.
    pub fn open(
        store: Arc<PageStore>,
        options: &BackupOptions,
        metrics: Arc<Metrics>,
        check: ContentCheck,
    ) -> Result<Arc<Backups>> {
        let catalog = Catalog::open(&options.directory)?;
        let newest = catalog.list()?.last().map_or(0, |(id, _)| id.seconds());
        let newest = Arc::new(AtomicU64::new(newest));
        let shown = Arc::clone(&newest);
        // Only a server that can make backups has it: 0 is a fact then, and
        // something to be alarmed by.
        let gauges = move || vec![(NEWEST, NEWEST_HELP, shown.load(Ordering::Acquire) as f64)];
        if let Err(error) = metrics.register_gauges(Box::new(gauges)) {
            tracing::warn!(%error, "the age of the newest backup can't be shown");
        }
        Ok(Arc::new(Backups {
            store,
            check,
            catalog,
            keep: options.keep.max(1),
            disk_reserve: options.disk_reserve,
            metrics,
            newest,
            starting: Mutex::default(),
            current: Mutex::default(),
        }))
    }

    /// Begins a backup of everything acknowledged so far; the rest happens on
    /// a thread of its own. Blocks while the store is frozen.
    ///
    /// # Errors
    /// [`BackupError::Running`]: one at a time. [`BackupError::DiskShort`] and
    /// [`BackupError::NoRoom`]: a disk is too full for it; nothing was written.
    pub fn start(self: &Arc<Self>, now: SystemTime) -> Result<BackupInfo> {
        // A second request waits for the first to be under way, and is told so
        // then.
        let _starting = self.starting.lock();
        let ended = self.current.lock().make_way()?;
        if let Some(ended) = ended {
            // It has put `running` back as the last thing it did.
            let _ = ended.join();
        }
        let id = self.catalog.new_id(now)?;
        let data_disk = self.store.condition().disk;
        if let Some(disk) = &data_disk {
            // The frozen copy of the log takes room there.
            self.disk_reserve.check(disk)?;
        }
        let frozen = self.store.freeze()?;
        let bytes = archive::size_of(&id, frozen.files());
        self.check_room(bytes, data_disk)?;
        let running = Running {
            id,
            bytes,
            progress: Arc::default(),
        };
        let info = running.info();
        let mut current = self.current.lock();
        current.make_way()?;
        let (worker, written) = (Arc::clone(self), running.clone());
        let thread = std::thread::Builder::new()
            .name("backup".to_owned())
            .spawn(move || worker.run(&written, frozen))
            .map_err(|error| BackupError::io("starting a thread", error))?;
        current.running = Some(running);
        current.failed = None;
        current.thread = Some(thread);
        Ok(info)
    }

    /// All backups, newest first. Blocks.
    ///
    /// # Errors
    /// The directory can't be read.
    pub fn list(&self) -> Result<Vec<BackupInfo>> {
        let current = self.current.lock();
        let running = current.running.as_ref().map(Running::info);
        let failed = current.failed.clone();
        drop(current);
        let complete = self.catalog.list()?;
        let complete = complete.into_iter().map(|(id, bytes)| BackupInfo {
            id,
            state: BackupState::Complete,
            bytes,
            done_bytes: bytes,
            failure: None,
        });
        let mut all: Vec<BackupInfo> = running.into_iter().chain(failed).chain(complete).collect();
        all.sort_by(|a, b| b.id.cmp(&a.id));
        // One whose archive has its name already is under way all the same
        // until older ones are dropped.
        all.dedup_by(|next, first| next.id == first.id);
        Ok(all)
    }

    /// One backup. Blocks.
    ///
    /// # Errors
    /// [`BackupError::NotFound`].
    pub fn info(&self, id: &BackupId) -> Result<BackupInfo> {
        let found = self.list()?.into_iter().find(|info| info.id == *id);
        found.ok_or_else(|| BackupError::NotFound { id: id.clone() })
    }

    /// Opens the archive of a backup, and says how many bytes it has. It can
    /// be read to its end even if it is dropped meanwhile. Blocks.
    ///
    /// # Errors
    /// [`BackupError::NotFound`], or [`BackupError::Running`] while it is not
    /// complete.
    pub fn archive(&self, id: &BackupId) -> Result<(File, u64)> {
        if let Some(archive) = self.catalog.archive(id)? {
            return Ok(archive);
        }
        let state = self.info(id)?.state;
        let id = id.clone();
        Err(match state {
            BackupState::Writing | BackupState::Verifying => BackupError::Running { id },
            BackupState::Complete | BackupState::Failed => BackupError::NotFound { id },
        })
    }

    /// Abandons the backup under way and takes no further one. Blocks until
    /// nothing of it is left.
    pub fn stop(&self) {
        {
            let mut current = self.current.lock();
            current.is_stopping = true;
            if let Some(running) = &current.running {
                running.progress.cancelled.store(true, Ordering::Release);
            }
        }
        // One that is being begun comes to nothing.
        let _starting = self.starting.lock();
        let thread = self.current.lock().thread.take();
        if let Some(thread) = thread {
            // A backup that panicked has said so.
            let _ = thread.join();
        }
    }

    /// # Errors
    /// [`BackupError::NoRoom`].
    fn check_room(&self, bytes: u64, data_disk: Option<DiskSpace>) -> Result<()> {
        let directory = &self.catalog.directory;
        let disk = disk_of(directory)?;
        let kept_free = match data_disk.is_some_and(|data| data.device == disk.device) {
            true => self.disk_reserve.of(&disk).max(RESERVED_BYTES),
            false => RESERVED_BYTES,
        };
        check_room(directory, &disk, bytes, kept_free)
    }

    fn run(&self, running: &Running, frozen: Box<dyn FrozenStore>) {
        let outcome = self.write_and_verify(running, frozen);
        let mut current = self.current.lock();
        current.running = None;
        let label = match outcome {
            Ok(()) => {
                self.newest.store(running.id.seconds(), Ordering::Release);
                tracing::info!(id = %running.id, bytes = running.bytes, "backup complete");
                "complete"
            }
            Err(error) => {
                tracing::error!(id = %running.id, %error, "backup failed");
                current.failed = Some(BackupInfo {
                    state: BackupState::Failed,
                    failure: Some(error.to_string()),
                    ..running.info()
                });
                "failed"
            }
        };
        self.metrics.backups.with_label_values(&[label]).inc();
    }

    fn write_and_verify(&self, running: &Running, frozen: Box<dyn FrozenStore>) -> Result<()> {
        let partial = self.catalog.begin(&running.id)?;
        let progress = &running.progress;
        archive::write(&partial.file, &running.id, &*frozen, progress)?;
        progress.bytes.store(0, Ordering::Release);
        progress.verifying.store(true, Ordering::Release);
        archive::verify(partial.reopen()?, progress)?;
        self.check_content(&*frozen, progress)?;
        drop(frozen);
        partial.finish()?;
        self.catalog.keep_newest(self.keep)
    }

    /// The archive has the bytes of the frozen copy; this sees that they make
    /// sense.
    fn check_content(&self, frozen: &dyn FrozenStore, progress: &Progress) -> Result<()> {
        let store = PageStore::open(frozen.open_store()?)?;
        let is_cancelled = || progress.cancelled.load(Ordering::Acquire);
        let mut rested = Instant::now();
        let checked = (self.check)(&store, &mut |_| {
            let worked = rested.elapsed();
            if worked >= CHECK_AT_ONCE {
                // One long read does not make a stop wait.
                std::thread::sleep(worked.min(2 * CHECK_AT_ONCE));
                rested = Instant::now();
            }
            match is_cancelled() {
                true => ControlFlow::Break(()),
                false => ControlFlow::Continue(()),
            }
        });
        match is_cancelled() {
            true => Err(BackupError::Stopping),
            false => checked.map_err(|error| BackupError::Content(Arc::new(error))),
        }
    }
}
