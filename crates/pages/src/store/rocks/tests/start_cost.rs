//! What it costs a start that the log is verified: by the files that the manifest
//! knows of, and by the number of the last forced write.

use super::*;
use rocksdb::{ColumnFamilyDescriptor, DB};

const ROUNDS: usize = 7;
const FILTERS: u64 = 1_000;

/// Bytes of the log before the crash, and of one record.
const LOG_BYTES: u64 = 200 << 20;
const RECORD_BYTES: usize = 100 << 10;

/// Opens the database as a start did before anything was verified.
fn open_unverified(path: &Path) -> DB {
    let options = RocksOptions::default();
    let mut database = tuning::database(&options);
    database.set_track_and_verify_wals_in_manifest(false);
    let columns = tuning::columns(&options).into_iter();
    let columns = columns.map(|(it, options)| ColumnFamilyDescriptor::new(it.name(), options));
    DB::open_cf_descriptors(&database, path, columns).unwrap()
}

/// A directory as a kill leaves it, with many files of a log.
fn killed(crashed: &Path) {
    let live = tempfile::tempdir_in(crashed.parent().unwrap()).unwrap();
    let never = RocksOptions {
        wal_sync: WalSync::Never,
        ..RocksOptions::default()
    };
    let Opened { rocks, store } = Opened::at(live.path(), never);
    let mut sequence = 0;
    let mut commit = |filters, redo| {
        sequence += 1;
        let commit = Commit {
            sequence: Sequence(sequence),
            filters,
            redo,
            ..Commit::default()
        };
        store.commit(&commit).unwrap();
    };
    for number in 1..=FILTERS {
        let created = FilterChange::Create {
            id: FilterId(number),
            name: format!("filter-{number}"),
            meta: vec![1; 100],
        };
        commit(vec![created], Vec::new());
    }
    for _ in 0..LOG_BYTES / RECORD_BYTES as u64 {
        commit(Vec::new(), vec![7; RECORD_BYTES]);
    }
    // The number is that of the last write before: now it is that of all.
    rocks.sync().unwrap();
    let last = rocks.database.latest_sequence_number();
    while forced::read(live.path()).is_none_or(|forced| forced < last) {
        std::thread::sleep(Duration::from_millis(10));
    }
    copy(live.path(), crashed);
}

fn copy(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap() {
        let file = entry.unwrap().path();
        std::fs::copy(&file, to.join(file.file_name().unwrap())).unwrap();
    }
}

/// The same directory, opened in both ways in turns.
#[test]
#[ignore = "a minute, and a machine that does nothing else"]
fn what_verifying_the_log_costs_a_start() {
    let parent = std::env::current_dir().unwrap().join("target");
    let place = tempfile::tempdir_in(&parent).unwrap();
    let crashed = place.path().join("crashed");
    killed(&crashed);
    let is_log = |path: &PathBuf| path.extension().is_some_and(|it| it == "log");
    let files = std::fs::read_dir(&crashed).unwrap();
    let logs: Vec<PathBuf> = files.map(|it| it.unwrap().path()).filter(is_log).collect();
    let bytes = logs.iter().map(|log| log.metadata().unwrap().len());
    println!(
        "{} files of a log of {} MiB",
        logs.len(),
        bytes.sum::<u64>() >> 20
    );
    let mut spent = [Vec::new(), Vec::new()];
    for round in 0..ROUNDS {
        for turn in 0..2 {
            let arm = (round + turn) % 2;
            let again = place.path().join(format!("{round}-{arm}"));
            copy(&crashed, &again);
            let began = Instant::now();
            match arm {
                0 => drop(RocksStore::open(&again, RocksOptions::default()).unwrap()),
                _ => drop(open_unverified(&again)),
            }
            spent[arm].push(began.elapsed().as_secs_f64() * 1e3);
            std::fs::remove_dir_all(&again).unwrap();
        }
    }
    let ratios = spent[0]
        .iter()
        .zip(&spent[1])
        .map(|(with, without)| with / without);
    let ratio = forced_cost::median(ratios.collect());
    let [with, without] = spent.map(forced_cost::median);
    println!("verified {with:.0} ms, not verified {without:.0} ms, ratio of a round {ratio:.2}");
}
