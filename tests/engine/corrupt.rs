//! Bits flipped in everything that is stored, and in dumps: an error that says
//! where, never a wrong answer.
//!
//! `CUCKOOD_TEST_FLIPS` sets how many bits of each kind of value are flipped
//! (default 3), `CUCKOOD_TEST_SEED` repeats the choices of an earlier run.

use crate::support::{
    self, Random, add, batch, create, filter_count, from_environment, idempotency_key, name,
    options,
};
use cuckood::chain::params::{FilterRequest, LayoutKind};
use cuckood::engine::check::{Findings, check};
use cuckood::engine::{
    AddOptions, AddResult, Engine, EngineError, ImportId, ImportLines, ItemBatch, NewFilter,
    Replace,
};
use cuckood::store::kv::Column;
use cuckood::store::rocks::{RocksOptions, RocksStore};
use cuckood::store::{PageStore, StoreError};
use rocksdb::{DB, IteratorMode, Options};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

/// What the filters hold.
const PAGED: std::ops::Range<u64> = 0..3_000;
const MORE: std::ops::Range<u64> = 3_000..3_100;
const CLASSIC: std::ops::Range<u64> = 0..500;

/// A data directory with everything in it that a server writes, as a crash
/// leaves it.
async fn make(path: &Path) {
    let directory = tempfile::tempdir().unwrap();
    let live = directory.path().join("live");
    fill(&live, path).await;
}

/// Copies the files of a directory that RocksDB has open: one that it writes, other than its
/// log, or removes meanwhile makes the copy begin anew.
fn copy(from: &Path, to: &Path) {
    for _ in 0..1_000 {
        if try_copy(from, to).is_some_and(|copied| Some(copied) == lengths(from)) {
            return;
        }
        std::fs::remove_dir_all(to).unwrap();
    }
    panic!("its files never stay as they are");
}

/// The lengths before the first file was copied, or `None` if one was removed since.
fn try_copy(from: &Path, to: &Path) -> Option<BTreeMap<PathBuf, u64>> {
    std::fs::create_dir_all(to).unwrap();
    let before = lengths(from)?;
    for entry in std::fs::read_dir(from).unwrap() {
        let file = entry.unwrap().path();
        unless_removed(std::fs::copy(&file, to.join(file.file_name().unwrap())))?;
    }
    Some(before)
}

/// How long each file is. A log may grow: a crash cuts it anywhere.
fn lengths(path: &Path) -> Option<BTreeMap<PathBuf, u64>> {
    let mut lengths = BTreeMap::new();
    for entry in std::fs::read_dir(path).unwrap() {
        let file = entry.unwrap().path();
        let length = unless_removed(file.metadata())?.len();
        let is_log = file.extension().is_some_and(|it| it == "log");
        lengths.insert(file, if is_log { 0 } else { length });
    }
    Some(lengths)
}

fn unless_removed<T>(done: std::io::Result<T>) -> Option<T> {
    match done {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => None,
        done => Some(done.unwrap()),
    }
}

async fn fill(path: &Path, crashed: &Path) {
    let store = Arc::new(RocksStore::open(path, RocksOptions::default()).unwrap());
    let engine = support::engine(store, &options(512));
    for (filter, layout, ttl_seconds) in [
        ("paged", LayoutKind::Paged, None),
        ("classic", LayoutKind::Classic, Some(1_000_000)),
        ("gone", LayoutKind::Classic, None),
    ] {
        let wanted = NewFilter {
            params: FilterRequest {
                capacity: Some(500),
                layout: Some(layout),
                expansion: Some(2),
                ..FilterRequest::default()
            },
            ttl_seconds,
            ..NewFilter::default()
        };
        engine
            .create_filter(&name(filter), &wanted, None)
            .await
            .unwrap();
    }
    add(&engine, "paged", PAGED).await;
    let mut hot = ItemBatch::default();
    (0..2_000).for_each(|_| hot.push(b"hot"));
    engine
        .add(&name("paged"), &hot, &AddOptions::default(), None)
        .await
        .unwrap();
    add(&engine, "gone", CLASSIC).await;
    let retry = idempotency_key(7, 8);
    let items = batch(CLASSIC);
    engine
        .add(
            &name("classic"),
            &items,
            &AddOptions::default(),
            Some(retry),
        )
        .await
        .unwrap();
    let id = ImportId::parse("nightly").unwrap();
    let always = AddOptions::default().mode;
    let mut import = engine
        .begin_import(&name("paged"), &id, always)
        .await
        .unwrap();
    let lines = ImportLines {
        first_line: 1,
        count: 1,
        items: ItemBatch::of(b"imported"),
        item_lines: vec![0],
        ..ImportLines::default()
    };
    import.commit(&lines).await.unwrap();
    drop(import);
    let mut whole = Vec::new();
    engine.dump(&name("gone"), &mut whole).unwrap();
    // Writes the pages.
    tokio::task::block_in_place(|| engine.shutdown().unwrap());
    drop(engine);

    // What a crash leaves: changes in the log, and pages that came to nothing.
    let store = Arc::new(RocksStore::open(path, RocksOptions::default()).unwrap());
    let engine = support::engine(store, &options(512));
    add(&engine, "paged", MORE).await;
    let staged = engine
        .intake(&name("f"), Replace::Nothing)
        .await
        .unwrap()
        .dump(whole.as_slice())
        .unwrap();
    // What is on the disk now is what somebody finds who was killed now.
    copy(path, crashed);
    say_that_all_was_forced(crashed);
    drop(staged);
    tokio::task::block_in_place(|| engine.halt());
}

/// What a second later is known of the log. A last record of which nobody knows yet that it
/// was forced, and of which the head is damaged, looks as if a power cut had torn it off.
fn say_that_all_was_forced(path: &Path) {
    let columns = Column::ALL.map(Column::name);
    let database = DB::open_cf_for_read_only(&Options::default(), path, columns, false).unwrap();
    let number = database.latest_sequence_number().to_le_bytes();
    let checksum = crc32c::crc32c(&number).to_le_bytes();
    std::fs::write(path.join("FORCED"), [&number[..], &checksum].concat()).unwrap();
}

/// Every value, by column and key.
type Values = BTreeMap<(&'static str, Vec<u8>), Vec<u8>>;

fn raw(path: &Path) -> DB {
    let columns = Column::ALL.map(Column::name);
    DB::open_cf(&Options::default(), path, columns).unwrap()
}

fn values(path: &Path) -> Values {
    let database = raw(path);
    let mut values = Values::new();
    for column in Column::ALL.map(Column::name) {
        let handle = database.cf_handle(column).unwrap();
        for entry in database.iterator_cf(handle, IteratorMode::Start) {
            let (key, value) = entry.unwrap();
            values.insert((column, key.into_vec()), value.into_vec());
        }
    }
    values
}

fn put(path: &Path, column: &str, key: &[u8], value: &[u8]) {
    let database = raw(path);
    let handle = database.cf_handle(column).unwrap();
    database.put_cf(handle, key, value).unwrap();
}

fn remove(path: &Path, column: &str, key: &[u8]) {
    let database = raw(path);
    let handle = database.cf_handle(column).unwrap();
    database.delete_cf(handle, key).unwrap();
}

/// What the complaint about a value of a column has to name.
fn named_by(column: &str, error: &str) -> bool {
    let words: &[&str] = match column {
        "default" => &["data directory", "next filter number"],
        "names" | "filters" => &["filter"],
        "pages" => &["page"],
        "log" => &["redo record"],
        "reclaim" => &["reclaim list"],
        "due" => &["list of what ends"],
        "notes" => &["side record"],
        _ => &[],
    };
    words.iter().any(|word| error.contains(word))
}

fn check_at(path: &Path) -> Result<Findings, StoreError> {
    let rocks = RocksStore::open_to_read(path, RocksOptions::default())?;
    check(&PageStore::open(Arc::new(rocks))?)
}

/// Nothing that was added is said to be absent; an error is no answer. Says whether
/// everything was answered.
async fn never_answers_wrong(path: &Path, what: &str) -> bool {
    // A start replays the log, and changes the directory by that.
    let copied = tempfile::tempdir().unwrap();
    copy(path, copied.path());
    let store = RocksStore::open(copied.path(), RocksOptions::default())
        .and_then(|rocks| PageStore::open(Arc::new(rocks)));
    let store = match store {
        Ok(store) => Arc::new(store),
        Err(StoreError::Corrupt { .. } | StoreError::Unusable { .. }) => return false,
        Err(error) => panic!("{what}: {error}"),
    };
    let metrics = Arc::new(cuckood::metrics::Metrics::new().unwrap());
    let Ok(engine) = Engine::open(store, &options(512), metrics) else {
        return false;
    };
    let mut is_answered = true;
    for (filter, items) in [("paged", PAGED), ("paged", MORE), ("classic", CLASSIC)] {
        match engine.exists(&name(filter), &batch(items)).await {
            Ok(found) => assert!(found.into_iter().all(|found| found), "{what}: {filter}"),
            Err(EngineError::Store(error)) => {
                assert!(
                    matches!(*error, StoreError::Corrupt { .. }),
                    "{what}: {error}"
                );
                is_answered = false;
            }
            Err(error) => panic!("{what}: {error}"),
        }
    }
    tokio::task::block_in_place(|| engine.halt());
    is_answered
}

/// The files of RocksDB that hold data or lead to them.
fn data_files(path: &Path) -> Vec<(&'static str, PathBuf)> {
    let mut files = Vec::new();
    for entry in std::fs::read_dir(path).unwrap() {
        let file = entry.unwrap().path();
        let name = file.file_name().unwrap().to_string_lossy().into_owned();
        let kind = match () {
            () if name.ends_with(".sst") => "table",
            () if name.ends_with(".log") => "log",
            () if name.starts_with("MANIFEST") => "manifest",
            () if name == "CURRENT" => "current",
            () => continue,
        };
        if file.metadata().unwrap().len() > 0 {
            files.push((kind, file));
        }
    }
    files.sort();
    files
}

/// What looks at filters after the commits of other tests ends their program where a
/// page was lost.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_page_that_is_gone_is_seen_after_the_next_commit() {
    const DIRECTORY: &str = "CUCKOOD_TEST_LOST_PAGE";
    if let Some(path) = std::env::var_os(DIRECTORY) {
        let store = RocksStore::open(Path::new(&path), RocksOptions::default()).unwrap();
        let engine = support::engine(Arc::new(store), &options(512));
        add(&engine, "f", MORE).await;
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path();
    let store = RocksStore::open(path, RocksOptions::default()).unwrap();
    let engine = support::engine(Arc::new(store), &options(512));
    create(&engine, "f", &FilterRequest::default()).await;
    add(&engine, "f", PAGED).await;
    // Writes the pages.
    tokio::task::block_in_place(|| engine.shutdown().unwrap());
    drop(engine);
    let look = || {
        let mut again = Command::new(std::env::current_exe().unwrap());
        again.args(["--nocapture", "--exact"]);
        again.arg("corrupt::a_page_that_is_gone_is_seen_after_the_next_commit");
        again.env(DIRECTORY, path).output().unwrap()
    };
    assert!(look().status.success());
    let stored = values(path);
    let (page, _) = stored.iter().find(|(key, _)| key.0 == "pages").unwrap();
    remove(path, page.0, &page.1);
    let ended = look();
    let said = String::from_utf8_lossy(&ended.stderr).into_owned();
    let is_seen = !ended.status.success() && said.contains("after a commit: ");
    assert!(is_seen, "{said}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_flipped_bit_in_a_file_of_rocksdb_is_found_by_a_check_or_changes_no_answer() {
    let flips = from_environment("CUCKOOD_TEST_FLIPS", 3) * 4;
    let seed = from_environment("CUCKOOD_TEST_SEED", 20_261_122);
    println!("CUCKOOD_TEST_FLIPS={} CUCKOOD_TEST_SEED={seed}", flips / 4);
    let mut random = Random(seed);
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("data");
    make(&path).await;
    let files = data_files(&path);
    let mut counts: BTreeMap<&str, (u64, u64)> = BTreeMap::new();
    for kind in ["table", "log", "manifest", "current"] {
        let of_kind: Vec<_> = files.iter().filter(|(it, _)| *it == kind).collect();
        assert!(!of_kind.is_empty(), "there is no {kind}");
        // Of the first record of a log: the length, and the type that says that a log file of
        // before is written over here. RocksDB takes both for the end of the log.
        let chosen: &[usize] = match kind {
            "log" => &[5 * 8 + 6, 6 * 8 + 2],
            _ => &[],
        };
        let random_bits = (0..flips).map(|_| None);
        for bit in chosen.iter().copied().map(Some).chain(random_bits) {
            let (_, file) = of_kind[random.below(of_kind.len() as u64) as usize];
            let written = std::fs::read(file).unwrap();
            let bit = bit.unwrap_or_else(|| random.below(8 * written.len() as u64) as usize);
            let what = format!("{} bit {bit}", file.file_name().unwrap().to_string_lossy());
            let mut damaged = written.clone();
            damaged[bit / 8] ^= 1 << (bit % 8);
            std::fs::write(file, &damaged).unwrap();
            let checked = check_at(&path);
            // RocksDB takes a damaged record of its log for the end of the log, as a
            // power cut leaves one: only a check finds it.
            let is_answered = kind != "log" && never_answers_wrong(&path, &what).await;
            assert!(
                checked.is_err() || is_answered,
                "{what}: a check finds nothing"
            );
            let (found, harmless) = counts.entry(kind).or_default();
            match checked {
                Err(_) => *found += 1,
                Ok(_) => *harmless += 1,
            }
            std::fs::write(file, &written).unwrap();
        }
    }
    println!("flips found, and those that change nothing: {counts:?}");
    assert_eq!(counts["log"].1, 0, "each bit of the log counts");
    assert!(check_at(&path).is_ok());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_flipped_bit_anywhere_in_the_store_is_found_and_never_answered_from() {
    let flips = from_environment("CUCKOOD_TEST_FLIPS", 3);
    let seed = from_environment("CUCKOOD_TEST_SEED", 20_261_121);
    println!("CUCKOOD_TEST_FLIPS={flips} CUCKOOD_TEST_SEED={seed}");
    let mut random = Random(seed);
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("data");
    make(&path).await;
    let written = values(&path);
    for column in Column::ALL.map(Column::name) {
        let has_one = written.keys().any(|(it, _)| *it == column);
        assert!(has_one, "there is nothing in {column}");
    }
    let sound = check_at(&path);
    println!("{}", sound.unwrap());
    let mut found: BTreeMap<&str, u64> = BTreeMap::new();
    for column in Column::ALL.map(Column::name) {
        let of_column: Vec<_> = written
            .iter()
            .filter(|((it, _), _)| *it == column)
            .collect();
        for _ in 0..flips {
            let ((_, key), value) = of_column[random.below(of_column.len() as u64) as usize];
            let bit = random.below(8 * value.len() as u64) as usize;
            let what = format!("{column} {key:?} bit {bit}");
            let mut damaged = value.clone();
            damaged[bit / 8] ^= 1 << (bit % 8);
            put(&path, column, key, &damaged);
            let checked = check_at(&path);
            match checked {
                Ok(_) => panic!("{what}: nothing was found"),
                Err(error) => {
                    let said = error.to_string();
                    assert!(
                        matches!(error, StoreError::Corrupt { .. }),
                        "{what}: {said}"
                    );
                    assert!(named_by(column, &said), "{what}: {said}");
                }
            }
            never_answers_wrong(&path, &what).await;
            put(&path, column, key, value);
            *found.entry(column).or_default() += 1;
        }
    }
    println!("flips found: {found:?}");
    assert!(check_at(&path).is_ok());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn checking_a_data_directory_changes_nothing_in_it() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("data");
    make(&path).await;
    let files = || -> BTreeMap<_, _> {
        let entries = std::fs::read_dir(&path)
            .unwrap()
            .map(|entry| entry.unwrap().path());
        entries
            .map(|file| (file.clone(), std::fs::read(file).unwrap()))
            .collect()
    };
    let before = files();
    assert_eq!(check_at(&path).unwrap().filters, 3);
    assert!(files() == before);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_flipped_bit_anywhere_in_a_dump_is_refused_and_nothing_is_kept() {
    let store = crate::memory::MemoryStore::new();
    let engine = support::engine(Arc::new(store), &options(512));
    for layout in LayoutKind::ALL {
        let request = FilterRequest {
            capacity: Some(16),
            layout: Some(layout),
            ..FilterRequest::default()
        };
        let filter = layout.name();
        create(&engine, filter, &request).await;
        add(&engine, filter, 0..10).await;
        let mut hot = ItemBatch::default();
        (0..100).for_each(|_| hot.push(b"hot"));
        let results = engine
            .add(&name(filter), &hot, &AddOptions::default(), None)
            .await
            .unwrap()
            .answer;
        assert!(results.iter().all(|&result| result == AddResult::Added));
        let mut whole = Vec::new();
        engine.dump(&name(filter), &mut whole).unwrap();
        for byte in 0..whole.len() {
            let mut damaged = whole.clone();
            damaged[byte] ^= 1 << (byte % 8);
            let taken = engine
                .intake(&name("f"), Replace::Nothing)
                .await
                .unwrap()
                .dump(damaged.as_slice());
            assert!(taken.is_err(), "{filter} byte {byte}");
        }
        for length in 0..whole.len() {
            let cut = &whole[..length];
            assert!(
                engine
                    .intake(&name("f"), Replace::Nothing)
                    .await
                    .unwrap()
                    .dump(cut)
                    .is_err(),
                "{filter} {length}"
            );
        }
        println!("{filter}: {} bits flipped, all refused", whole.len());
        let staged = engine
            .intake(&name("f"), Replace::Nothing)
            .await
            .unwrap()
            .dump(whole.as_slice())
            .unwrap();
        let copy = name(&format!("{filter}-copy"));
        engine.adopt(&copy, staged, Replace::Nothing).await.unwrap();
    }
    assert_eq!(filter_count(&engine).await, 4);
}
