//! Whether there is room for changes.
//!
//! A thread of its own looks at the store several times a second; before a change
//! becomes a command it is asked what it saw. What
//! is under way is finished, and commands in a queue are worked on: the reserve
//! is there for them, for checkpoints and for the next start. Nothing here is
//! asked while a command is planned, so the same commands give the same bytes
//! however full a disk was.
//!
//! Reads go on, and removing whole filters, which makes room.
//!
//! A disk that hangs is noticed by what it has not answered, by a thread that
//! asks it nothing. Then further changes are refused at once: they would only
//! wait, and take the places of requests that need no disk.

use crate::store::disk::{DiskReserve, DiskShort};
use crate::store::{Condition, PageStore, PendingOperations, Writes};
use arc_swap::ArcSwap;
use cuckood_metrics::Metrics;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// What is written in the background leaves this part of the reserve to the
/// next start.
const LAST_PART: u64 = 4;

/// A disk hangs that has not answered a write for so long.
const WRITES_HANG_AFTER: Duration = Duration::from_secs(5);

/// The same for a read: one of many pages takes its time.
const READS_HANG_AFTER: Duration = Duration::from_secs(30);

/// The disk was looked at lately if it is no longer ago.
const LATELY: Duration = Duration::from_secs(2);

/// How the engine's storage is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Health {
    /// Why changes are refused for want of room, if they are.
    pub disk_short: Option<DiskShort>,
    /// Whether the storage engine takes changes.
    pub writes: Writes,
    /// For how long the disk has not answered a write, if that is so long that
    /// changes are refused.
    pub writes_hang_for: Option<Duration>,
    /// For how long it has not answered a read, if that is unusually long.
    pub reads_hang_for: Option<Duration>,
}

/// Why a change is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// Less of the disk is free than is kept in reserve.
    Short(DiskShort),
    /// The storage engine takes no changes.
    Refused,
    /// The disk does not answer.
    Hangs,
}

/// What is known of the store's room.
pub struct Disk {
    store: Arc<PageStore>,
    reserve: DiskReserve,
    metrics: Arc<Metrics>,
    seen: ArcSwap<Seen>,
    /// Whether it hung when it was last said.
    hung: AtomicBool,
}

/// How it was at the last look.
#[derive(Default)]
struct Seen {
    at: Option<Instant>,
    condition: Condition,
    reserve_bytes: u64,
    short: Option<DiskShort>,
}

impl Disk {
    /// Looks once.
    pub fn new(store: Arc<PageStore>, reserve: DiskReserve, metrics: Arc<Metrics>) -> Disk {
        let disk = Disk {
            store,
            reserve,
            metrics,
            seen: ArcSwap::default(),
            hung: AtomicBool::new(false),
        };
        disk.look();
        disk
    }

    /// Looks at the store, which may block, and says aloud what changed.
    pub fn look(&self) {
        let condition = self.store.condition();
        let disk = condition.disk;
        let reserve_bytes = disk.map_or(0, |disk| self.reserve.of(&disk));
        let before = self.seen.load_full();
        let short = disk.and_then(|disk| self.reserve.check_after(before.short, &disk).err());
        match (before.short, short) {
            (None, Some(short)) => tracing::error!(
                free_bytes = short.free_bytes,
                reserve_bytes = short.reserve_bytes,
                "the disk is almost full: changes are refused"
            ),
            (Some(_), None) => tracing::info!("the disk has room again: changes are taken"),
            _ => {}
        }
        match (&before.condition.writes, &condition.writes) {
            (Writes::Refused { .. }, Writes::Refused { .. }) => {}
            (_, Writes::Refused { reason, .. }) => {
                tracing::error!(reason, "the storage engine refuses changes");
            }
            (Writes::Refused { .. }, _) => {
                tracing::info!("the storage engine takes changes again");
            }
            _ => {}
        }
        let is_refused = matches!(condition.writes, Writes::Refused { .. });
        self.metrics.disk_reserve_bytes.set(reserve_bytes as i64);
        self.metrics.disk_short.set(short.is_some().into());
        self.metrics.writes_refused.set(is_refused.into());
        self.seen.store(Arc::new(Seen {
            at: Some(Instant::now()),
            condition,
            reserve_bytes,
            short,
        }));
    }

    /// Notes for how long the disk has not answered, and says aloud when that
    /// becomes long and when it ends. Does not wait for the disk.
    pub fn watch(&self) {
        let pending = &self.store.pending;
        for (operation, operations) in [("write", &pending.writes), ("read", &pending.reads)] {
            let seconds = operations.oldest().unwrap_or_default().as_secs_f64();
            let shown = &self.metrics.storage_pending_seconds;
            shown.with_label_values(&[operation]).set(seconds);
        }
        let hangs = self.writes_hang_for().or(self.reads_hang_for());
        match (self.hung.swap(hangs.is_some(), Ordering::Relaxed), hangs) {
            (false, Some(since)) => tracing::error!(
                seconds = since.as_secs(),
                "the disk does not answer: questions about pages in memory are answered, changes are refused"
            ),
            (true, None) => tracing::info!("the disk answers again"),
            _ => {}
        }
    }

    fn writes_hang_for(&self) -> Option<Duration> {
        let hanging = longer_than(WRITES_HANG_AFTER, &self.store.pending.writes)?;
        let seen = self.seen.load();
        // It answers, but changes wait until the storage engine has caught up.
        let is_stalled = seen.condition.writes == Writes::Stalled
            && seen.at.is_some_and(|at| at.elapsed() < LATELY);
        (!is_stalled).then_some(hanging)
    }

    fn reads_hang_for(&self) -> Option<Duration> {
        longer_than(READS_HANG_AFTER, &self.store.pending.reads)
    }

    /// # Errors
    /// The disk hangs.
    pub fn check_answers(&self) -> Result<(), Refusal> {
        match self.writes_hang_for() {
            Some(_) => Err(Refusal::Hangs),
            None => Ok(()),
        }
    }

    /// # Errors
    /// There is no room for a change, the store takes none, or the disk hangs.
    pub fn check(&self) -> Result<(), Refusal> {
        self.check_for(0)
    }

    /// The same for a change that takes so many bytes beside the store.
    ///
    /// # Errors
    /// As [`check`](Self::check).
    pub fn check_for(&self, bytes: u64) -> Result<(), Refusal> {
        self.check_answers()?;
        let seen = self.seen.load();
        let free = seen.condition.disk.map_or(u64::MAX, |disk| disk.free_bytes);
        if bytes > 0 && free.saturating_sub(bytes) < seen.reserve_bytes {
            return Err(Refusal::Short(seen.as_short()));
        }
        match (seen.short, &seen.condition.writes) {
            (Some(short), _) => Err(Refusal::Short(short)),
            (None, Writes::Refused { is_disk_full, .. }) => Err(match is_disk_full {
                true => Refusal::Short(seen.as_short()),
                false => Refusal::Refused,
            }),
            (None, Writes::Taken | Writes::Stalled) => Ok(()),
        }
    }

    /// What a caller is told whose change met a full disk, or stands behind
    /// one that did.
    pub fn as_short(&self) -> DiskShort {
        self.seen.load().as_short()
    }

    /// Whether room that was given up is wanted at once.
    pub fn is_short(&self) -> bool {
        self.seen.load().short.is_some()
    }

    /// Whether the store takes small writes that no caller waits for.
    pub fn takes_writes(&self) -> bool {
        !matches!(self.seen.load().condition.writes, Writes::Refused { .. })
    }

    /// Whether what goes on in the background may write. It may use most of
    /// the reserve: that is bounded, and lets the log be cut.
    pub fn has_background_room(&self) -> bool {
        let seen = self.seen.load();
        let free = seen.condition.disk.map_or(u64::MAX, |disk| disk.free_bytes);
        free >= seen.reserve_bytes / LAST_PART
    }

    /// How the storage is.
    pub fn health(&self) -> Health {
        let seen = self.seen.load();
        Health {
            disk_short: seen.short,
            writes: seen.condition.writes.clone(),
            writes_hang_for: self.writes_hang_for(),
            reads_hang_for: self.reads_hang_for(),
        }
    }
}

fn longer_than(bound: Duration, operations: &PendingOperations) -> Option<Duration> {
    operations.oldest().filter(|&oldest| oldest >= bound)
}

impl Seen {
    fn as_short(&self) -> DiskShort {
        self.short.unwrap_or(DiskShort {
            free_bytes: self.condition.disk.map_or(0, |disk| disk.free_bytes),
            reserve_bytes: self.reserve_bytes,
        })
    }
}
