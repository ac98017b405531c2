//! A start that has lost what was forced to the disk.

use super::*;
use std::collections::BTreeMap;

/// Twenty commits, forced to the disk.
fn forced_commits() -> OnDisk {
    let subject = OnDisk::with(RocksOptions {
        wal_sync: WalSync::Always,
        ..options()
    });
    for sequence in 1..=20u8 {
        let commit = Commit {
            sequence: Sequence(sequence.into()),
            redo: vec![sequence; 100],
            ..Commit::default()
        };
        subject.store().commit(&commit).unwrap();
    }
    subject
}

#[test]
fn a_log_that_lost_what_was_forced_is_refused_untouched_until_that_is_accepted() {
    let flip = |bytes: &mut Vec<u8>| {
        let middle = bytes.len() / 2;
        bytes[middle] ^= 4;
    };
    let cut = |bytes: &mut Vec<u8>| bytes.truncate(bytes.len() - 150);
    // As a disk does that loses a sector.
    let zeros = |bytes: &mut Vec<u8>| bytes[1024..1536].fill(0);
    for damage in [&flip as &dyn Fn(&mut Vec<u8>), &cut, &zeros] {
        let mut subject = forced_commits();
        subject.open = None;
        let path = subject.directory.path();
        let log = largest_log(path);
        let mut damaged = std::fs::read(&log).unwrap();
        damage(&mut damaged);
        std::fs::write(&log, &damaged).unwrap();

        for _ in 0..2 {
            let error = open_error(path);
            assert!(matches!(error, StoreError::LostChanges { .. }), "{error}");
            assert_eq!(std::fs::read(&log).unwrap(), damaged);
        }
        assert!(RocksStore::open_to_read(path, options()).is_err());
        let accepting = RocksOptions {
            accept_lost_changes: true,
            ..options()
        };
        // Once is enough.
        for options in [accepting, options()] {
            let Opened { store, .. } = Opened::at(path, options);
            let records = records_in(&store);
            assert!((1..20).contains(&records), "{records}");
        }
    }
}

#[test]
fn a_log_that_is_gone_is_refused_and_one_that_is_in_table_files_is_not() {
    let mut subject = forced_commits();
    subject.flush();
    subject.reopen();
    let path = subject.directory.path().to_owned();
    let commit = Commit {
        sequence: Sequence(21),
        redo: vec![21],
        ..Commit::default()
    };
    subject.store().commit(&commit).unwrap();
    subject.rocks().sync().unwrap();
    subject.open = None;
    drop(Opened::at(&path, options()));

    let mut subject = forced_commits();
    subject.open = None;
    let path = subject.directory.path();
    std::fs::remove_file(largest_log(path)).unwrap();
    let error = open_error(path);
    assert!(matches!(error, StoreError::LostChanges { .. }), "{error}");
}

#[test]
fn what_was_not_forced_may_be_torn_off_behind_what_was() {
    let mut subject = forced_commits();
    // The number of the last write is known to the next.
    subject.rocks().sync().unwrap();
    subject.reopen();
    let later = Commit {
        sequence: Sequence(21),
        redo: vec![21; 1000],
        ..Commit::default()
    };
    // Opened again, nothing is forced.
    subject.store().commit(&later).unwrap();
    subject.open = None;
    let path = subject.directory.path();
    let log = largest_log(path);
    let bytes = std::fs::read(&log).unwrap();
    std::fs::write(&log, &bytes[..bytes.len() - 500]).unwrap();
    let Opened { store, .. } = Opened::at(path, options());
    let records = records_in(&store);
    assert_eq!(records, 20);
}

/// Every file of a directory with its length and checksum, but for RocksDB's diary.
fn files_of(directory: &Path) -> BTreeMap<PathBuf, (usize, u32)> {
    let entries = std::fs::read_dir(directory).unwrap();
    let paths = entries.map(|entry| entry.unwrap().path());
    let is_diary = |path: &PathBuf| {
        let name = path.file_name().unwrap().to_string_lossy();
        name == "LOG" || name.starts_with("LOG.old")
    };
    paths
        .filter(|path| !is_diary(path))
        .map(|path| {
            let bytes = std::fs::read(&path).unwrap();
            (path, (bytes.len(), crc32c::crc32c(&bytes)))
        })
        .collect()
}

/// Where each record of a log of less than one block begins, and its end.
fn records_of(log: &[u8]) -> Vec<usize> {
    let mut starts = vec![0];
    while let Some(&[_, _, _, _, low, high, _]) = log
        .get(starts[starts.len() - 1]..)
        .and_then(|rest| rest.first_chunk())
    {
        let length = usize::from(u16::from_le_bytes([low, high]));
        starts.push(starts[starts.len() - 1] + 7 + length);
    }
    starts
}

/// It is refused as often as it is tried, and nothing in it is changed.
fn assert_refused_untouched(path: &Path) {
    let before = files_of(path);
    for _ in 0..2 {
        let error = open_error(path);
        assert!(matches!(error, StoreError::LostChanges { .. }), "{error}");
        assert!(
            error.to_string().contains("--accept-lost-changes"),
            "{error}"
        );
        assert_eq!(files_of(path), before);
    }
    assert!(RocksStore::open_to_read(path, options()).is_err());
    assert_eq!(files_of(path), before);
}

fn accepting() -> RocksOptions {
    RocksOptions {
        accept_lost_changes: true,
        ..options()
    }
}

#[test]
fn a_log_that_ends_early_at_a_whole_record_is_refused_untouched() {
    for kept in [0, 1, 10] {
        let mut subject = forced_commits();
        subject.open = None;
        let path = subject.directory.path();
        let log = largest_log(path);
        let bytes = std::fs::read(&log).unwrap();
        std::fs::write(&log, &bytes[..records_of(&bytes)[kept]]).unwrap();
        assert_refused_untouched(path);
        for options in [accepting(), options()] {
            drop(Opened::at(path, options));
        }
    }
}

/// Commits forced to three log files, none of which is in table files.
fn in_several_logs() -> OnDisk {
    let subject = OnDisk::with(RocksOptions {
        wal_sync: WalSync::Always,
        ..options()
    });
    // A new directory's version is not among what is lost.
    subject.flush();
    for sequence in 1..=30u8 {
        let commit = Commit {
            sequence: Sequence(sequence.into()),
            redo: vec![sequence; 100],
            ..Commit::default()
        };
        subject.store().commit(&commit).unwrap();
        if sequence % 10 == 0 {
            // What takes one column to a table file begins a log file.
            let image = (page(0), vec![sequence; 100]);
            subject.store().checkpoint(&[image], Sequence(0)).unwrap();
            let pages = subject.column(Column::Pages);
            subject.rocks().database.flush_cf(pages).unwrap();
        }
    }
    let commit = Commit {
        sequence: Sequence(31),
        redo: vec![31; 100],
        ..Commit::default()
    };
    subject.store().commit(&commit).unwrap();
    subject
}

fn logs(path: &Path) -> Vec<PathBuf> {
    let files = files_of(path).into_keys();
    let is_log = |path: &PathBuf| path.extension().is_some_and(|it| it == "log");
    files.filter(is_log).collect()
}

#[test]
fn a_hole_between_log_files_is_refused_untouched() {
    type Damage = fn(&Path);
    let remove: Damage = |log| std::fs::remove_file(log).unwrap();
    let cut: Damage = |log| {
        let bytes = std::fs::read(log).unwrap();
        std::fs::write(log, &bytes[..records_of(&bytes)[5]]).unwrap();
    };
    for hurt in 0..3 {
        for damage in [remove, cut] {
            let mut subject = in_several_logs();
            subject.open = None;
            let path = subject.directory.path();
            let logs = logs(path);
            assert_eq!(logs.len(), 4, "{logs:?}");
            damage(&logs[hurt]);
            assert_refused_untouched(path);
            for options in [accepting(), options()] {
                let Opened { store, .. } = Opened::at(path, options);
                assert!(records_in(&store) < 31);
            }
        }
    }
}

#[test]
fn several_log_files_that_are_whole_are_opened() {
    let mut subject = in_several_logs();
    subject.reopen();
    assert_eq!(records_in(subject.store()), 31);
}
