//! Data directories and dumps of each format that a version has written are
//! kept. They must open and answer as they did.
//!
//! `tests/fixtures/formats` holds, for each, a data directory as a gzipped tar
//! and the dumps of its filters, named by the versions of the formats. When a
//! format changes, keep what is there, and add what the new one writes:
//!
//! ```text
//! cargo test --release --test engine -- --ignored the_formats_of_now_are_written_down
//! ```

use crate::support::{self, add, all_exist, batch, items, name, options};
use cuckood::chain::meta::META_VERSION;
use cuckood::chain::params::{FilterRequest, LayoutKind};
use cuckood::engine::check::check;
use cuckood::engine::{
    ANSWER_KEPT_FOR, AddOptions, AddResult, Engine, IdempotencyKey, ItemBatch, NewFilter, Replace,
};
use cuckood::file::FILE_VERSION;
use cuckood::store::PageStore;
use cuckood::store::format::{DATA_VERSION, VALUE_VERSION};
use cuckood::store::rocks::{RocksOptions, RocksStore};
use flate2::Compression;
use flate2::read::GzDecoder;
use flate2::write::GzEncoder;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// In each filter.
const ITEMS: u64 = 300;
const COPIES: usize = 200;
const FILTERS: [(&str, LayoutKind); 2] = [
    ("paged", LayoutKind::Paged),
    ("classic", LayoutKind::Classic),
];
/// Of both filters; what is in the log of the directory is not in the dumps.
const IN_THE_LOG: std::ops::Range<u64> = 300..320;

/// The request whose answer is kept.
const RETRY: IdempotencyKey = IdempotencyKey {
    key: [7; 32],
    fingerprint: [8; 32],
    kept_for: ANSWER_KEPT_FOR,
};

fn formats() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/formats")
}

fn of_now() -> String {
    format!("data{DATA_VERSION}-value{VALUE_VERSION}-filter{META_VERSION}-file{FILE_VERSION}")
}

fn open(path: &Path) -> Engine {
    let store = RocksStore::open(path, RocksOptions::default()).unwrap();
    support::engine(Arc::new(store), &options(512))
}

fn hot() -> ItemBatch {
    let mut hot = ItemBatch::default();
    (0..COPIES).for_each(|_| hot.push(b"hot"));
    hot
}

async fn holds_what_it_held(engine: &Engine, filter: &str, more: std::ops::Range<u64>) {
    assert!(
        all_exist(engine, filter, (0..ITEMS).chain(more.clone())).await,
        "{filter}"
    );
    let copies = engine
        .count(&name(filter), &ItemBatch::of(b"hot"))
        .await
        .unwrap();
    assert_eq!(copies, [COPIES as u64], "{filter}");
    let expected = ITEMS + COPIES as u64 + more.count() as u64;
    assert_eq!(items(engine, filter).await, expected, "{filter}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn data_of_every_format_that_was_ever_written_answers() {
    let mut seen = Vec::new();
    for entry in fs::read_dir(formats()).unwrap() {
        let kept = entry.unwrap().path();
        let version = kept.file_name().unwrap().to_str().unwrap().to_owned();
        println!("{version}");
        let unpacked = tempfile::tempdir().unwrap();
        let archive = File::open(kept.join("data.tar.gz")).unwrap();
        tar::Archive::new(GzDecoder::new(archive))
            .unpack(unpacked.path())
            .unwrap();
        let path = unpacked.path().join("data");
        let rocks = RocksStore::open_to_read(&path, RocksOptions::default()).unwrap();
        let store = PageStore::open(Arc::new(rocks)).unwrap();
        assert_eq!(check(&store).unwrap().filters, 2);
        drop(store);

        let engine = open(&path);
        for (filter, _) in FILTERS {
            holds_what_it_held(&engine, filter, IN_THE_LOG).await;
            let dump = fs::read(kept.join(format!("{filter}.cuckoo"))).unwrap();
            let staged = engine
                .intake(&name("f"), Replace::Nothing)
                .await
                .unwrap()
                .dump(dump.as_slice())
                .unwrap();
            let copy = format!("{filter}-dumped");
            engine
                .adopt(&name(&copy), staged, Replace::Nothing)
                .await
                .unwrap();
            holds_what_it_held(&engine, &copy, 0..0).await;
            // And it goes on.
            add(&engine, filter, [1_000_000]).await;
        }
        let info = engine.filter_info(&name("classic")).await.unwrap();
        assert_eq!(info.expiry.unwrap().ttl_seconds, 3_162_240_000);
        // Answers are kept for a day, so this one has ended; its note was read.
        tokio::task::block_in_place(|| engine.shutdown().unwrap());
        drop(engine);
        let engine = open(&path);
        assert!(all_exist(&engine, "paged", (0..ITEMS).chain([1_000_000])).await);
        tokio::task::block_in_place(|| engine.shutdown().unwrap());
        seen.push(version);
    }
    assert!(
        seen.contains(&of_now()),
        "{} is not kept: see the head of this file",
        of_now()
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "it writes tests/fixtures/formats"]
async fn the_formats_of_now_are_written_down() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("data");
    let kept = formats().join(of_now());
    fs::create_dir_all(&kept).unwrap();
    let engine = open(&path);
    for (filter, layout) in FILTERS {
        let wanted = NewFilter {
            params: FilterRequest {
                capacity: Some(100),
                layout: Some(layout),
                expansion: Some(2),
                ..FilterRequest::default()
            },
            ttl_seconds: (layout == LayoutKind::Classic).then_some(3_162_240_000),
            ..NewFilter::default()
        };
        engine
            .create_filter(&name(filter), &wanted, None)
            .await
            .unwrap();
        add(&engine, filter, 0..ITEMS).await;
        let added = engine
            .add(&name(filter), &hot(), &AddOptions::default(), None)
            .await
            .unwrap()
            .answer;
        assert!(added.iter().all(|&result| result == AddResult::Added));
        let mut whole = Vec::new();
        engine.dump(&name(filter), &mut whole).unwrap();
        fs::write(kept.join(format!("{filter}.cuckoo")), whole).unwrap();
    }
    tokio::task::block_in_place(|| engine.shutdown().unwrap());
    drop(engine);
    // Pages are written, and some changes are in the log alone.
    let engine = open(&path);
    for (filter, _) in FILTERS {
        let key = (filter == "paged").then_some(RETRY);
        let more = batch(IN_THE_LOG);
        engine
            .add(&name(filter), &more, &AddOptions::default(), key)
            .await
            .unwrap();
    }
    tokio::task::block_in_place(|| engine.halt());
    drop(engine);
    // RocksDB's diary is no part of the format.
    for entry in fs::read_dir(&path).unwrap() {
        let file = entry.unwrap().path();
        if file
            .file_name()
            .unwrap()
            .to_str()
            .unwrap()
            .starts_with("LOG")
        {
            fs::remove_file(file).unwrap();
        }
    }
    let archive = File::create(kept.join("data.tar.gz")).unwrap();
    let mut archive = tar::Builder::new(GzEncoder::new(archive, Compression::best()));
    archive.append_dir_all("data", &path).unwrap();
    archive.into_inner().unwrap().finish().unwrap();
}
