//! A backup is complete only if what it contains is right: not every wrong
//! byte is one that a checksum tells.

use crate::gated::{GatedStore, Point};
use crate::memory::MemoryStore;
use crate::support::{add, create, engine_on, number, options};
use cuckood::backup::archive::{Progress, verify};
use cuckood::backup::{
    BackupError, BackupId, BackupInfo, BackupOptions, BackupState, Backups, ContentCheck,
};
use cuckood::chain::params::{FilterRequest, LayoutKind};
use cuckood::engine::DiskReserve;
use cuckood::engine::check::{check, check_while};
use cuckood::metrics::Metrics;
use cuckood::page::{Ordinal, PageId, PageIndex, Sequence};
use cuckood::store::rocks::{RocksOptions, RocksStore};
use cuckood::store::{PageStore, StoreError};
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};
use tempfile::TempDir;

struct Backed {
    store: Arc<PageStore>,
    backups: Arc<Backups>,
    metrics: Arc<Metrics>,
    directory: TempDir,
}

/// Two filters in a store on the disk.
async fn backed(check: ContentCheck) -> Backed {
    let directory = tempfile::tempdir().unwrap();
    let rocks = RocksStore::open(directory.path().join("data"), RocksOptions::default()).unwrap();
    let store = Arc::new(PageStore::open(Arc::new(rocks)).unwrap());
    let engine = engine_on(Arc::clone(&store), &options(1024));
    for filter in ["first", "second"] {
        let request = FilterRequest {
            capacity: Some(20_000),
            layout: Some(LayoutKind::Paged),
            ..FilterRequest::default()
        };
        create(&engine, filter, &request).await;
        add(&engine, filter, 0..10_000).await;
    }
    tokio::task::block_in_place(|| engine.shutdown().unwrap());
    let metrics = Arc::new(Metrics::new().unwrap());
    let options = BackupOptions {
        directory: directory.path().join("backups"),
        keep: 1,
        disk_reserve: DiskReserve::Usual,
    };
    let backups = Backups::open(Arc::clone(&store), &options, Arc::clone(&metrics), check).unwrap();
    Backed {
        store,
        backups,
        metrics,
        directory,
    }
}

impl Backed {
    fn back_up(&self) -> BackupInfo {
        let begun = self.backups.start(SystemTime::now()).unwrap();
        self.ended(&begun.id)
    }

    fn ended(&self, id: &BackupId) -> BackupInfo {
        let began = Instant::now();
        loop {
            let info = self.backups.info(id).unwrap();
            if matches!(info.state, BackupState::Complete | BackupState::Failed) {
                return info;
            }
            assert!(began.elapsed() < Duration::from_secs(60), "{info:?}");
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    fn count(&self, outcome: &str) -> u64 {
        self.metrics.backups.with_label_values(&[outcome]).get()
    }

    /// Names of frozen copies that are still there.
    fn frozen(&self) -> usize {
        let entries = std::fs::read_dir(self.directory.path().join("data")).unwrap();
        let name = |entry: std::io::Result<std::fs::DirEntry>| entry.unwrap().file_name();
        let names = entries.map(name);
        names
            .filter(|name| Path::new(name).to_string_lossy().starts_with("frozen-"))
            .count()
    }
}

fn check_all(
    store: &PageStore,
    read: &mut dyn FnMut(u64) -> ControlFlow<()>,
) -> Result<(), StoreError> {
    check_while(store, read).map(|_| ())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn data_whose_checksums_agree_and_whose_content_is_wrong_make_no_backup() {
    let backed = backed(check_all).await;
    let sound = tokio::task::block_in_place(|| backed.back_up());
    assert_eq!(sound.state, BackupState::Complete, "{sound:?}");
    let page = PageId {
        filter: number("second", 2),
        ordinal: Ordinal(0),
        page: PageIndex(1),
    };
    // An empty page, stored as any other is: every checksum is right.
    let empty = vec![0; 8];
    backed
        .store
        .checkpoint(&[(page, empty)], Sequence(0))
        .unwrap();
    let failed = tokio::task::block_in_place(|| backed.back_up());
    assert_eq!(failed.state, BackupState::Failed, "{failed:?}");
    let said = failed.failure.unwrap();
    let fault = check(&backed.store).unwrap_err().to_string();
    assert!(
        fault.contains(&format!("filter {} sub-filter 0", page.filter)),
        "{fault}"
    );
    assert!(said.contains(&fault), "{said}");
    assert_eq!((backed.count("complete"), backed.count("failed")), (1, 1));
    // The one before is kept, whole, and nothing is left of the other.
    let (archive, _) = backed.backups.archive(&sound.id).unwrap();
    verify(archive, &Progress::default()).unwrap();
    assert!(backed.backups.archive(&failed.id).is_err());
    let backups = std::fs::read_dir(backed.directory.path().join("backups"));
    assert_eq!((backups.unwrap().count(), backed.frozen()), (1, 0));
}

#[test]
fn nobody_who_looks_at_backups_waits_for_the_frozen_copy() {
    let gate = GatedStore::new(Arc::new(MemoryStore::new()));
    gate.freeze_to(1);
    let store = Arc::new(PageStore::open(Arc::new(gate.clone())).unwrap());
    let directory = tempfile::tempdir().unwrap();
    let options = BackupOptions {
        directory: directory.path().to_owned(),
        keep: 1,
        disk_reserve: DiskReserve::Usual,
    };
    let metrics = Arc::new(Metrics::new().unwrap());
    let backups = Backups::open(store, &options, metrics, check_all).unwrap();
    gate.hold_first(Point::Freeze);
    std::thread::scope(|scope| {
        let first = scope.spawn(|| backups.start(SystemTime::now()));
        gate.await_arrival();
        let looking = scope.spawn(|| {
            assert_eq!(backups.list().unwrap(), []);
            let id = BackupId::of(SystemTime::now()).unwrap();
            assert!(backups.info(&id).is_err());
            assert!(backups.archive(&id).is_err());
        });
        let began = Instant::now();
        while !looking.is_finished() {
            if began.elapsed() > Duration::from_secs(20) {
                gate.open();
                panic!("it waits for the frozen copy");
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        // A stop ends what is about to begin, and waits for it.
        let stop = scope.spawn(|| backups.stop());
        std::thread::sleep(Duration::from_millis(100));
        assert!(!stop.is_finished());
        gate.open();
        stop.join().unwrap();
        let refused = first.join().unwrap().unwrap_err();
        assert!(matches!(refused, BackupError::Stopping), "{refused}");
    });
    assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stop_does_not_wait_for_the_comparison() {
    let backed = backed(|_, read| {
        // Content without end.
        while read(1).is_continue() {}
        Ok(())
    })
    .await;
    tokio::task::block_in_place(|| {
        let begun = backed.backups.start(SystemTime::now()).unwrap();
        let is_comparing = || backed.backups.info(&begun.id).unwrap().state;
        let began = Instant::now();
        while is_comparing() == BackupState::Writing {
            assert!(began.elapsed() < Duration::from_secs(60));
            std::thread::sleep(Duration::from_millis(5));
        }
        std::thread::sleep(Duration::from_millis(100));
        assert_eq!(is_comparing(), BackupState::Verifying);
        let stopping = Instant::now();
        backed.backups.stop();
        assert!(stopping.elapsed() < Duration::from_secs(5));
        let info = backed.backups.info(&begun.id).unwrap();
        assert_eq!(info.state, BackupState::Failed);
    });
    assert_eq!((backed.count("complete"), backed.frozen()), (0, 0));
}
