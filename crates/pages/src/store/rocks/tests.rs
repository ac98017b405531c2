use super::*;
use crate::page::{FilterId, Ordinal, PageId, PageIndex, Sequence};
use crate::store::contract::{self, Subject};
use crate::store::format::{self, StoredValue};
use crate::store::{Commit, FilterChange, Garbage, PageStore, Writes};
use rocksdb::ColumnFamily;
use std::fs;
use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, Instant};
use tempfile::TempDir;

mod forced_cost;
mod lost_changes;
mod start_cost;

/// Forced writes are left out: no test here pulls a plug.
fn options() -> RocksOptions {
    RocksOptions {
        wal_sync: WalSync::Never,
        block_cache_bytes: 1 << 20,
        write_buffer_bytes: 4 << 20,
        accept_lost_changes: false,
    }
}

/// RocksDB says at its start what its settings are.
#[test]
fn files_are_written_in_steps_and_deleted_at_a_rate() {
    let disk = OnDisk::new();
    let diary = fs::read_to_string(disk.directory.path().join("LOG")).unwrap();
    let setting = |name: &str| {
        let (_, value) = diary.split_once(&format!("Options.{name}: ")).unwrap();
        value.lines().next().unwrap().trim()
    };
    assert_eq!(setting("strict_bytes_per_sync"), "1");
    let rate = setting("sst_file_manager.rate_bytes_per_sec");
    assert_eq!(rate.parse(), Ok(pacing::BYTES_PER_SECOND));
}

#[test]
fn files_of_the_redo_log_alone_are_left_as_they_were_written() {
    let disk = OnDisk::new();
    let files = fs::read_dir(disk.directory.path()).unwrap();
    let files = files.map(|it| it.unwrap().path());
    let options = files.filter(|it| it.to_str().unwrap().contains("OPTIONS-"));
    let options = fs::read_to_string(options.max().unwrap()).unwrap();
    let columns = options.split("[CFOptions ").filter_map(|of_column| {
        let is_left = of_column.contains("bottommost_file_compaction_delay=3600");
        is_left.then(|| of_column.split('"').nth(1).unwrap())
    });
    assert_eq!(columns.collect::<Vec<_>>(), ["log"]);
}

pub(super) struct OnDisk {
    open: Option<Opened>,
    directory: TempDir,
}

struct Opened {
    rocks: Arc<RocksStore>,
    store: PageStore,
}

impl Opened {
    fn at(path: &Path, options: RocksOptions) -> Opened {
        let rocks = Arc::new(RocksStore::open(path, options).unwrap());
        Opened {
            store: PageStore::open(Arc::clone(&rocks) as Arc<dyn KeyValueStore>).unwrap(),
            rocks,
        }
    }
}

impl OnDisk {
    pub(super) fn new() -> Self {
        OnDisk::with(options())
    }

    fn with(options: RocksOptions) -> Self {
        let directory = tempfile::tempdir().unwrap();
        OnDisk {
            open: Some(Opened::at(directory.path(), options)),
            directory,
        }
    }

    pub(super) fn rocks(&self) -> &RocksStore {
        &self.open.as_ref().unwrap().rocks
    }

    fn column(&self, column: Column) -> &ColumnFamily {
        column_of(&self.rocks().database, column).unwrap()
    }

    fn gauge(&self, name: &str) -> f64 {
        let gauges = self.rocks().gauges();
        let found = gauges.iter().find(|(found, _, _)| *found == name);
        found
            .unwrap_or_else(|| panic!("there is no gauge {name}"))
            .2
    }

    fn flush(&self) {
        for column in Column::ALL {
            self.rocks().database.flush_cf(self.column(column)).unwrap();
        }
    }
}

impl Subject for OnDisk {
    fn store(&self) -> &PageStore {
        &self.open.as_ref().unwrap().store
    }

    fn reopen(&mut self) {
        self.open = None;
        self.open = Some(Opened::at(self.directory.path(), options()));
    }

    fn damage(&mut self, value: &StoredValue, byte: usize) {
        let (column, key) = value.place();
        let column = self.column(column);
        let mut bytes = self.rocks().database.get_cf(column, &key).unwrap().unwrap();
        bytes[byte] = !bytes[byte];
        self.rocks().database.put_cf(column, &key, &bytes).unwrap();
    }
}

contract::contract_tests!(OnDisk::new());

/// The suite once more, with everything in table files instead of buffers.
mod flushed {
    use super::*;

    struct Flushed(OnDisk);

    impl Subject for Flushed {
        fn store(&self) -> &PageStore {
            self.0.flush();
            self.0.store()
        }

        fn reopen(&mut self) {
            self.0.flush();
            self.0.reopen();
        }

        fn damage(&mut self, value: &StoredValue, byte: usize) {
            self.0.damage(value, byte);
        }
    }

    contract::contract_tests!(Flushed(OnDisk::new()));
}

fn open_error(path: impl AsRef<Path>) -> StoreError {
    match RocksStore::open(path, options()) {
        Ok(_) => panic!("it opened"),
        Err(error) => {
            let message = error.to_string();
            assert!(!message.contains('\n'), "one line: {message}");
            error
        }
    }
}

fn page(number: u32) -> PageId {
    PageId {
        filter: FilterId(1),
        ordinal: Ordinal(0),
        page: PageIndex(number),
    }
}

#[test]
fn a_missing_directory_is_made() {
    let parent = tempfile::tempdir().unwrap();
    let path = parent.path().join("a/b");
    drop(RocksStore::open(&path, options()).unwrap());
    assert!(path.is_dir());
}

#[test]
fn a_directory_that_is_open_is_locked() {
    let subject = OnDisk::new();
    let error = open_error(subject.directory.path());
    assert!(matches!(error, StoreError::Locked { .. }), "{error}");
    assert!(
        error
            .to_string()
            .contains(&subject.directory.path().display().to_string())
    );
}

const HELD_BY_PARENT: &str = "CUCKOOD_TEST_DIRECTORY_HELD_BY_PARENT";

#[test]
fn a_directory_that_another_process_writes_to_is_locked_whenever_it_is_tried() {
    // This test runs itself: the child finds the directory that the parent holds.
    if let Some(path) = std::env::var_os(HELD_BY_PARENT) {
        for _ in 0..300 {
            let error = open_error(PathBuf::from(&path));
            assert!(matches!(error, StoreError::Locked { .. }), "{error}");
            let options = options();
            let error = RocksStore::open_to_read(&path, options).err().unwrap();
            assert!(matches!(error, StoreError::Locked { .. }), "{error}");
        }
        return;
    }
    let subject = OnDisk::with(RocksOptions {
        wal_sync: WalSync::Always,
        ..options()
    });
    let (subject, is_over) = (&subject, AtomicU64::new(0));
    let output = std::thread::scope(|scope| {
        scope.spawn(|| {
            // What is forced goes from log files that are removed to table files.
            for sequence in 1.. {
                if is_over.load(Ordering::Acquire) == 1 {
                    break;
                }
                let commit = Commit {
                    sequence: Sequence(sequence),
                    redo: vec![1; 100],
                    ..Commit::default()
                };
                subject.store().commit(&commit).unwrap();
                let forced = subject.rocks().forced.get();
                Keeper::new(subject.directory.path()).keep(forced);
                if sequence % 16 == 0 {
                    subject.flush();
                }
            }
        });
        let child = Command::new(std::env::current_exe().unwrap())
            .args([
                "--exact",
                "store::rocks::tests::a_directory_that_another_process_writes_to_is_locked_whenever_it_is_tried",
            ])
            .env(HELD_BY_PARENT, subject.directory.path())
            .output()
            .unwrap();
        is_over.store(1, Ordering::Release);
        child
    });
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(
        output.status.success() && said.contains("1 passed"),
        "{said}"
    );
}

#[test]
fn a_file_in_place_of_the_directory_is_unusable() {
    let parent = tempfile::tempdir().unwrap();
    let file = parent.path().join("file");
    std::fs::write(&file, "text").unwrap();
    for path in [file.clone(), file.join("below")] {
        let error = open_error(&path);
        assert!(matches!(error, StoreError::Unusable { .. }), "{error}");
        assert!(error.to_string().contains(&path.display().to_string()));
    }
}

#[test]
fn a_directory_of_a_newer_program_is_refused() {
    let mut subject = OnDisk::new();
    let newer = format::data_version_of_a_newer_program();
    let info = subject.column(Column::Info);
    subject
        .rocks()
        .database
        .put_cf(info, format::DATA_VERSION_KEY, newer)
        .unwrap();
    subject.open = None;
    let error = open_error(subject.directory.path());
    assert!(
        matches!(
            error,
            StoreError::NewerFormat {
                found: 2,
                supported: 1,
                ..
            }
        ),
        "{error}"
    );

    // Also when it has columns that this program does not know.
    let path = subject.directory.path();
    let names = DB::list_cf(&Options::default(), path).unwrap();
    let mut database = DB::open_cf(&Options::default(), path, names).unwrap();
    database.create_cf("later", &Options::default()).unwrap();
    drop(database);
    let error = open_error(path);
    assert!(
        matches!(
            error,
            StoreError::NewerFormat {
                found: 2,
                supported: 1,
                ..
            }
        ),
        "{error}"
    );
}

#[test]
fn the_data_of_another_program_is_refused_and_left_alone() {
    let directory = tempfile::tempdir().unwrap();
    let other = DB::open_default(directory.path()).unwrap();
    other.put("theirs", "data").unwrap();
    drop(other);
    let error = open_error(directory.path());
    assert!(error.to_string().contains("another program"), "{error}");
}

#[test]
fn a_column_that_does_not_belong_is_refused() {
    let mut subject = OnDisk::new();
    subject.open = None;
    let path = subject.directory.path();
    let names = DB::list_cf(&Options::default(), path).unwrap();
    let mut database = DB::open_cf(&Options::default(), path, names).unwrap();
    database.create_cf("foreign", &Options::default()).unwrap();
    drop(database);
    let error = open_error(path);
    assert!(error.to_string().contains("column foreign"), "{error}");
}

#[test]
fn files_of_others_in_the_directory_are_left_alone() {
    let mut subject = OnDisk::new();
    let garbage = subject.directory.path().join("notes.txt");
    std::fs::write(&garbage, "mine").unwrap();
    subject
        .store()
        .checkpoint(&[(page(0), vec![1])], Sequence(0))
        .unwrap();
    subject.reopen();
    assert_eq!(std::fs::read_to_string(&garbage).unwrap(), "mine");
    subject
        .store()
        .read_pages(&[page(0)], &mut |_, page| {
            assert_eq!(page, Some(&[1u8] as _))
        })
        .unwrap();
}

#[test]
fn damaged_database_files_are_refused_in_one_line() {
    for file in ["CURRENT", "MANIFEST-000001"] {
        let mut subject = OnDisk::new();
        subject.open = None;
        let path = subject.directory.path();
        let damaged: Vec<PathBuf> = std::fs::read_dir(path)
            .unwrap()
            .map(|entry| entry.unwrap().path())
            .filter(|path| {
                let name = path.file_name().unwrap().to_str().unwrap();
                name == file || name.starts_with("MANIFEST") && file.starts_with("MANIFEST")
            })
            .collect();
        assert!(!damaged.is_empty());
        for path in damaged {
            std::fs::write(path, "garbage\nin two lines\n").unwrap();
        }
        let error = open_error(path);
        assert!(
            error.to_string().contains(&path.display().to_string()),
            "{error}"
        );
    }
}

#[test]
fn what_was_not_closed_is_there_when_it_is_opened_again() {
    // A copy of the files of an open store is what a killed process leaves.
    let subject = OnDisk::new();
    let create = FilterChange::Create {
        id: FilterId(1),
        name: "seen".to_owned(),
        meta: vec![1],
    };
    let commit = Commit {
        sequence: Sequence(1),
        redo: vec![7],
        filters: vec![create],
        ..Commit::default()
    };
    subject.store().commit(&commit).unwrap();
    subject
        .store()
        .checkpoint(&[(page(0), vec![1])], Sequence(1))
        .unwrap();

    let copy = tempfile::tempdir().unwrap();
    for entry in std::fs::read_dir(subject.directory.path()).unwrap() {
        let entry = entry.unwrap();
        std::fs::copy(entry.path(), copy.path().join(entry.file_name())).unwrap();
    }
    let Opened {
        store: reopened, ..
    } = Opened::at(copy.path(), options());
    let mut records = Vec::new();
    let visit = &mut |sequence: Sequence, redo: &[u8]| {
        records.push((sequence.0, redo.to_vec()));
        Ok(())
    };
    reopened.replay(visit).unwrap();
    assert_eq!(records, [(1, vec![7])]);
    assert!(reopened.filter_by_name("seen").unwrap().is_some());
    reopened
        .read_pages(&[page(0)], &mut |_, page| {
            assert_eq!(page, Some(&[1u8] as _))
        })
        .unwrap();
}

/// The file of the write-ahead log that has the most bytes.
fn largest_log(path: &Path) -> PathBuf {
    largest(path, "log")
}

fn largest(path: &Path, kind: &str) -> PathBuf {
    std::fs::read_dir(path)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|extension| extension == kind))
        .max_by_key(|path| path.metadata().unwrap().len())
        .unwrap()
}

#[test]
fn a_torn_tail_of_the_write_ahead_log_keeps_a_prefix() {
    let mut subject = OnDisk::new();
    for sequence in 1..=20u8 {
        let redo = vec![sequence; 100];
        let commit = Commit {
            sequence: Sequence(sequence.into()),
            redo,
            filters: Vec::new(),
            ..Commit::default()
        };
        subject.store().commit(&commit).unwrap();
    }
    subject.open = None;
    let path = subject.directory.path();
    let largest_log = largest_log(path);
    let bytes = std::fs::read(&largest_log).unwrap();
    std::fs::write(&largest_log, &bytes[..bytes.len() - 150]).unwrap();

    let Opened {
        store: reopened, ..
    } = Opened::at(path, options());
    let mut sequences = Vec::new();
    let visit = &mut |sequence: Sequence, _: &[u8]| {
        sequences.push(sequence.0);
        Ok(())
    };
    reopened.replay(visit).unwrap();
    assert!((1..20).contains(&sequences.len()), "{sequences:?}");
    assert!(
        sequences.iter().copied().eq(1..=sequences.len() as u64),
        "{sequences:?}"
    );
}

/// RocksDB reads it when it compacts, and refuses to start where it can't.
#[test]
fn damage_to_what_is_deleted_is_found_though_no_scan_sees_it() {
    let mut subject = OnDisk::new();
    for sequence in 1..=400u64 {
        let commit = Commit {
            sequence: Sequence(sequence),
            redo: (0..1000)
                .map(|it| ((it * sequence * sequence) >> 3) as u8)
                .collect(),
            ..Commit::default()
        };
        subject.store().commit(&commit).unwrap();
    }
    subject.flush();
    subject.store().checkpoint(&[], Sequence(401)).unwrap();
    subject.flush();
    subject.open = None;
    let table = largest(subject.directory.path(), "sst");
    let mut bytes = fs::read(&table).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle..middle + 64]
        .iter_mut()
        .for_each(|it| *it = !*it);
    fs::write(&table, &bytes).unwrap();
    subject.reopen();
    assert_eq!(records_in(subject.store()), 0);
    let damaged: Vec<Column> = Column::ALL
        .into_iter()
        .filter(|&column| {
            let all = &mut |_| ControlFlow::Continue(());
            subject.store().read_through(column, all).is_err()
        })
        .collect();
    assert_eq!(damaged, [Column::Log]);
}

/// Records of the redo log.
fn records_in(store: &PageStore) -> usize {
    let mut records = 0;
    let counted = store.replay(&mut |_, _| {
        records += 1;
        Ok(())
    });
    counted.unwrap();
    records
}

#[test]
fn a_commit_is_forced_to_the_disk_only_if_asked() {
    let commit = Commit {
        sequence: Sequence(1),
        redo: vec![1],
        filters: Vec::new(),
        ..Commit::default()
    };
    let always = OnDisk::with(RocksOptions {
        wal_sync: WalSync::Always,
        ..options()
    });
    let never = OnDisk::new();
    for (subject, forced) in [(&always, 1.0), (&never, 0.0)] {
        let before = subject.gauge("rocksdb_wal_syncs");
        subject.store().commit(&commit).unwrap();
        assert_eq!(subject.gauge("rocksdb_wal_syncs") - before, forced);
    }
    let before = never.gauge("rocksdb_wal_syncs");
    never.store().reserve_serials(1).unwrap();
    assert_eq!(never.gauge("rocksdb_wal_syncs") - before, 1.0);
}

#[test]
fn a_commit_waits_for_no_more_than_a_part_of_what_is_staged() {
    // Full write buffers are forced, too.
    let subject = OnDisk::with(RocksOptions {
        write_buffer_bytes: 256 << 20,
        ..options()
    });
    let before = subject.gauge("rocksdb_wal_syncs");
    for number in 0..9 {
        let images = [(page(number), vec![1; 256 << 10])];
        subject.store().stage_pages(&images).unwrap();
    }
    let forced = subject.gauge("rocksdb_wal_syncs") - before;
    assert!((2.0..=4.0).contains(&forced), "{forced}");
}

#[test]
fn an_interval_forces_writes_in_the_background() {
    let wal_sync = WalSync::Interval(Duration::from_millis(5));
    let subject = OnDisk::with(RocksOptions {
        wal_sync,
        ..options()
    });
    let before = subject.gauge("rocksdb_wal_syncs");
    let commit = Commit {
        sequence: Sequence(1),
        redo: vec![1],
        filters: Vec::new(),
        ..Commit::default()
    };
    subject.store().commit(&commit).unwrap();
    let deadline = Instant::now() + Duration::from_secs(20);
    while subject.gauge("rocksdb_wal_syncs") <= before {
        assert!(Instant::now() < deadline, "nothing was forced to the disk");
        std::thread::sleep(Duration::from_millis(5));
    }
    assert_eq!(subject.gauge("rocksdb_wal_sync_failures"), 0.0);
}

#[test]
fn a_long_interval_does_not_hold_up_the_close() {
    let wal_sync = WalSync::Interval(Duration::from_secs(3600));
    let mut subject = OnDisk::with(RocksOptions {
        wal_sync,
        ..options()
    });
    let begin = Instant::now();
    subject.open = None;
    assert!(begin.elapsed() < Duration::from_secs(60));
}

#[test]
fn every_gauge_has_a_name_of_its_own_and_a_help_text() {
    let subject = OnDisk::new();
    subject
        .store()
        .checkpoint(&[(page(0), vec![1; 4096])], Sequence(0))
        .unwrap();
    let gauges = subject.rocks().gauges();
    assert!(gauges.len() >= 20, "{gauges:?}");
    let mut names: Vec<_> = gauges.iter().map(|(name, _, _)| *name).collect();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), gauges.len());
    for (name, help, value) in gauges {
        assert!(
            help.ends_with('.') && value >= 0.0 && value.is_finite(),
            "{name} {help} {value}"
        );
        assert!(
            !name.ends_with("_total")
                && (name.starts_with("rocksdb_") || name.starts_with("disk_")),
            "{name}"
        );
    }
    let (free, size) = (
        subject.gauge("disk_free_bytes"),
        subject.gauge("disk_size_bytes"),
    );
    assert!(
        size >= 65_536.0 && (0.0..=size).contains(&free),
        "{free} of {size}"
    );
    assert!(subject.gauge("rocksdb_memtable_bytes") > 4096.0);
    subject.flush();
    assert!(subject.gauge("rocksdb_sst_bytes") > 4096.0);
    assert!(subject.gauge("rocksdb_level0_files") >= 1.0);
}

#[test]
fn the_estimate_counts_pages_in_files_and_in_buffers() {
    let subject = OnDisk::new();
    let dense = |number| (page(number), vec![number as u8 + 1; 4096]);
    let images: Vec<_> = (0..100).map(dense).collect();
    subject.store().checkpoint(&images, Sequence(0)).unwrap();
    subject.flush();
    let in_files = subject.store().approximate_page_bytes(FilterId(1)).unwrap();
    assert!((400_000..600_000).contains(&in_files), "{in_files}");
    let images: Vec<_> = (100..200).map(dense).collect();
    subject.store().checkpoint(&images, Sequence(0)).unwrap();
    let in_both = subject.store().approximate_page_bytes(FilterId(1)).unwrap();
    assert!((800_000..1_200_000).contains(&in_both), "{in_both}");
}

#[test]
fn pages_that_are_read_leave_the_block_cache_alone_and_their_index_stays_in_it() {
    let subject = OnDisk::new();
    let images: Vec<_> = (0..100).map(|it| (page(it), vec![1; 4096])).collect();
    subject.store().checkpoint(&images, Sequence(0)).unwrap();
    subject.flush();
    let cached = |of: &str| {
        let gauges = subject.rocks().gauges();
        gauges.iter().find(|(name, ..)| *name == of).unwrap().2
    };
    assert!(cached("rocksdb_block_cache_pinned_bytes") > 0.0);
    let ids: Vec<_> = images.iter().map(|it| it.0).collect();
    let before = cached("rocksdb_block_cache_bytes");
    subject.store().read_pages(&ids, &mut |_, _| {}).unwrap();
    let pages = (cached("rocksdb_block_cache_bytes") - before) / 4096.0;
    assert!(pages < 10.0, "{pages} of 100 pages");
}

#[test]
fn a_frozen_copy_stays_as_it_was_and_goes_with_its_last_use() {
    let mut subject = OnDisk::new();
    let image = |byte| [(page(0), vec![byte; 100])];
    subject.store().checkpoint(&image(1), Sequence(0)).unwrap();
    subject.flush();
    subject.store().checkpoint(&image(2), Sequence(0)).unwrap();
    let frozen = subject.store().freeze().unwrap();
    subject.store().checkpoint(&image(3), Sequence(0)).unwrap();
    subject.flush();

    let elsewhere = tempfile::tempdir().unwrap();
    for file in frozen.files() {
        let mut bytes = Vec::new();
        let mut source = frozen.open(file).unwrap();
        std::io::Read::read_to_end(&mut source, &mut bytes).unwrap();
        assert_eq!(bytes.len() as u64, file.bytes, "{}", file.name);
        std::fs::write(elsewhere.path().join(&file.name), bytes).unwrap();
    }
    let Opened { store: copy, .. } = Opened::at(elsewhere.path(), options());
    let mut seen = Vec::new();
    copy.read_pages(&[page(0)], &mut |_, bytes| seen = bytes.unwrap().to_vec())
        .unwrap();
    assert_eq!(seen, vec![2; 100]);

    let left = |subject: &OnDisk| {
        let entries = std::fs::read_dir(subject.directory.path()).unwrap();
        entries
            .filter(|entry| {
                let name = entry.as_ref().unwrap().file_name();
                name.to_string_lossy().starts_with("frozen-")
            })
            .count()
    };
    assert_eq!(left(&subject), 1);
    drop(frozen);
    assert_eq!(left(&subject), 0);
    // A crash drops nothing: the next start does.
    std::mem::forget(subject.store().freeze().unwrap());
    assert_eq!(left(&subject), 1);
    subject.open = None;
    subject.open = Some(Opened::at(subject.directory.path(), options()));
    assert_eq!(left(&subject), 0);
}

#[test]
fn it_tells_how_full_its_disk_is_and_that_it_takes_writes() {
    let subject = OnDisk::new();
    let condition = subject.rocks().condition();
    let disk = condition.disk.unwrap();
    assert_eq!(disk.size_bytes as f64, subject.gauge("disk_size_bytes"));
    assert_eq!(condition.writes, Writes::Taken);
}

#[test]
fn the_room_of_reclaimed_pages_is_given_back_at_once_where_that_is_wanted() {
    let subject = OnDisk::new();
    let dense = |number| (page(number), vec![number as u8 | 1; 4096]);
    let images: Vec<_> = (0..1000).map(dense).collect();
    subject.store().checkpoint(&images, Sequence(0)).unwrap();
    subject.flush();
    let garbage = Garbage::Filter(FilterId(1));
    subject.store().reclaim(garbage).unwrap();
    assert!(subject.gauge("rocksdb_sst_bytes") > 4e6);
    subject.store().compact_range(garbage).unwrap();
    assert!(subject.gauge("rocksdb_sst_bytes") < 1e6);
    assert_eq!(subject.rocks().condition().writes, Writes::Taken);
}
