//! Snapshots: the archive of a backup that goes straight to another server, which
//! puts it in the place of its own state. Nothing of it is written here.

use super::archive::{self, Progress};
use super::error::{BackupError, Result};
use super::id::BackupId;
use crate::metrics::Metrics;
use crate::store::disk::DiskReserve;
use crate::store::{FrozenStore, PageStore};
use std::io::{self, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant, SystemTime};

/// The longest time that bytes wait for their turn at once.
const LONGEST_PAUSE: Duration = Duration::from_millis(100);

/// What a server gives snapshots of. Cheap to clone; all clones are the same.
pub struct Snapshots {
    store: Arc<PageStore>,
    /// Bytes that are given in a second.
    bytes_per_second: u64,
    disk_reserve: DiskReserve,
    metrics: Arc<Metrics>,
    is_giving: AtomicBool,
}

/// A snapshot that is to be written. The store goes on meanwhile.
pub struct Snapshot {
    of: Arc<Snapshots>,
    id: BackupId,
    frozen: Box<dyn FrozenStore>,
    /// Bytes of its archive.
    pub bytes: u64,
}

impl Snapshots {
    /// Of `store`, so many bytes a second at most, as long as the data's disk has
    /// its reserve.
    pub fn new(
        store: Arc<PageStore>,
        bytes_per_second: u64,
        disk_reserve: DiskReserve,
        metrics: Arc<Metrics>,
    ) -> Arc<Snapshots> {
        Arc::new(Snapshots {
            store,
            bytes_per_second: bytes_per_second.max(1),
            disk_reserve,
            metrics,
            is_giving: AtomicBool::new(false),
        })
    }

    /// Freezes a copy of everything that was committed before. One at a time.
    /// Blocks.
    ///
    /// # Errors
    /// [`BackupError::Giving`], or a disk is too full.
    pub fn begin(self: &Arc<Self>, now: SystemTime) -> Result<Snapshot> {
        if self.is_giving.swap(true, Ordering::AcqRel) {
            return Err(BackupError::Giving);
        }
        let begun = self.freeze(now);
        if begun.is_err() {
            self.is_giving.store(false, Ordering::Release);
        }
        let (id, frozen) = begun?;
        Ok(Snapshot {
            bytes: archive::size_of(&id, frozen.files()),
            of: Arc::clone(self),
            id,
            frozen,
        })
    }

    fn freeze(&self, now: SystemTime) -> Result<(BackupId, Box<dyn FrozenStore>)> {
        if let Some(disk) = &self.store.condition().disk {
            // Files that are removed meanwhile stay as long as the copy.
            self.disk_reserve.check(disk)?;
        }
        let id = BackupId::of(now).ok_or(BackupError::NoClock)?;
        Ok((id, self.store.freeze()?))
    }
}

impl Snapshot {
    /// Writes its archive. Blocks.
    ///
    /// # Errors
    /// The copy can't be read, or `out` takes no more.
    pub fn write(&self, out: impl Write) -> Result<()> {
        let paced = Paced {
            out,
            bytes_per_second: self.of.bytes_per_second,
            since: Instant::now(),
            bytes: 0,
        };
        let started = Instant::now();
        let written = archive::write(paced, &self.id, &*self.frozen, &Progress::default());
        let seconds = started.elapsed().as_secs_f64();
        let bytes = self.bytes;
        match &written {
            Ok(()) => tracing::info!(bytes, seconds, "gave a snapshot to another pod"),
            Err(error) => tracing::warn!(%error, seconds, "a snapshot for another pod broke off"),
        }
        let given = written.is_ok().then_some(bytes);
        self.of.metrics.count_snapshot("given", given);
        written
    }
}

impl Drop for Snapshot {
    fn drop(&mut self) {
        self.of.is_giving.store(false, Ordering::Release);
    }
}

/// Takes no more than so many bytes a second.
struct Paced<W> {
    out: W,
    bytes_per_second: u64,
    since: Instant,
    bytes: u64,
}

impl<W: Write> Write for Paced<W> {
    fn write(&mut self, buffer: &[u8]) -> io::Result<usize> {
        let due = Duration::from_secs_f64(self.bytes as f64 / self.bytes_per_second as f64);
        loop {
            let ahead = due.saturating_sub(self.since.elapsed());
            if ahead.is_zero() {
                break;
            }
            std::thread::sleep(ahead.min(LONGEST_PAUSE));
        }
        let written = self.out.write(buffer)?;
        self.bytes += written as u64;
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::restore::unpack;
    use crate::store::Commit;
    use crate::store::rocks::{RocksOptions, RocksStore};

    #[test]
    fn one_snapshot_is_given_at_a_time_at_its_rate_and_can_be_unpacked() {
        let directory = tempfile::tempdir().unwrap();
        let rocks = RocksStore::open(directory.path(), RocksOptions::default()).unwrap();
        let store = Arc::new(PageStore::open(Arc::new(rocks)).unwrap());
        // What can't be compressed.
        let noise = (0..300_000u64).map(|it| (it * it % 1_000_003) as u8);
        let commit = Commit {
            redo: noise.collect(),
            ..Commit::default()
        };
        store.commit(&commit).unwrap();
        let metrics = Arc::new(Metrics::new().unwrap());
        let reserve = DiskReserve::Bytes(0);
        let snapshots = Snapshots::new(store, 500_000, reserve, Arc::clone(&metrics));
        let snapshot = snapshots.begin(SystemTime::now()).unwrap();
        let refused = snapshots.begin(SystemTime::now());
        assert!(matches!(refused, Err(BackupError::Giving)));
        let (mut archive, started) = (Vec::new(), Instant::now());
        snapshot.write(&mut archive).unwrap();
        // The last piece of up to 256 KiB is not waited for.
        assert!(
            started.elapsed() >= Duration::from_millis(80),
            "{:?}",
            started.elapsed()
        );
        assert_eq!(archive.len() as u64, snapshot.bytes);
        drop(snapshot);
        assert!(snapshots.begin(SystemTime::now()).is_ok());
        let given = metrics.snapshots.with_label_values(&["given", "complete"]);
        assert_eq!(given.get(), 1);

        // What arrived is the data directory; less of it, or other bytes, are none.
        let into = tempfile::tempdir().unwrap();
        unpack(archive.as_slice(), into.path()).unwrap();
        let rocks = RocksStore::open_to_read(into.path(), RocksOptions::default()).unwrap();
        let mut found = Vec::new();
        let given = PageStore::open(Arc::new(rocks)).unwrap();
        given
            .replay(&mut |_, redo| {
                found.push(redo.len());
                Ok(())
            })
            .unwrap();
        assert_eq!(found, [300_000]);
        let middle = archive.len() / 2;
        let mut altered = archive.clone();
        altered[middle] ^= 1;
        for broken in [&archive[..middle], &altered] {
            let into = tempfile::tempdir().unwrap();
            let refused = unpack(broken, into.path());
            assert!(
                matches!(refused, Err(BackupError::Damaged { .. })),
                "{refused:?}"
            );
        }
    }
}
