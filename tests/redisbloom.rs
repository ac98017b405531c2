//! The layout `classic` against data recorded from RedisBloom 8.8 itself
//! (tests/fixtures/redisbloom): its hashes, its dumps, its answers.

#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "what helps a test may fail as the test does"
)]

#[path = "../crates/engine/tests/checked/mod.rs"]
mod checked;
#[path = "../crates/pages/tests/memory/mod.rs"]
mod memory;

use crate::memory::MemoryStore;
use base64::prelude::{BASE64_STANDARD, Engine as _};
use cuckood::chain::params::FilterRequest;
use cuckood::cuckoo::classic::Classic;
use cuckood::cuckoo::hash::{HashId, ItemHash, murmur64a};
use cuckood::engine::{
    AddOptions, AddResult, Adopted, Engine, EngineOptions, FilterName, ItemBatch, Replace,
    RestoreError, StagedFilter,
};
use cuckood::metrics::Metrics;
use cuckood::store::PageStore;
use serde::Deserialize;
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

#[derive(Deserialize)]
struct Recording {
    adds: Vec<String>,
    deletes: Vec<String>,
    deleted: Vec<bool>,
    info: BTreeMap<String, u64>,
    probe: Vec<String>,
    exists: Vec<bool>,
    count: Vec<u64>,
    scandump: Vec<Chunk>,
}

#[derive(Deserialize)]
struct Chunk {
    iterator: i64,
    data_base64: String,
}

/// Geometry and bytes of a dump.
struct Dump {
    items: u64,
    deletions: u64,
    sub_filters: Vec<(Classic, Vec<u8>)>,
}

fn folder() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/redisbloom")
}

fn recordings() -> Vec<(String, Recording)> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder()).unwrap() {
        let path = entry.unwrap().path();
        if path
            .extension()
            .is_some_and(|extension| extension == "json")
        {
            let text = std::fs::read_to_string(&path).unwrap();
            let name = path.file_stem().unwrap().to_string_lossy().into_owned();
            found.push((name, serde_json::from_str(&text).unwrap()));
        }
    }
    found.sort_by(|(a, _), (b, _)| a.cmp(b));
    assert_eq!(found.len(), 8);
    found
}

impl Recording {
    /// How often each item is in the filter after adds and deletes.
    fn truth(&self) -> BTreeMap<&str, u64> {
        let mut truth = BTreeMap::new();
        for item in &self.adds {
            *truth.entry(item.as_str()).or_default() += 1;
        }
        for (item, &deleted) in self.deletes.iter().zip(&self.deleted) {
            if deleted {
                *truth.get_mut(item.as_str()).unwrap() -= 1;
            }
        }
        truth
    }

    fn bucket_size(&self) -> u8 {
        self.info["Bucket size"] as u8
    }

    /// The header is 38 packed little-endian bytes, the other chunks are the
    /// sub-filters' buckets in order.
    fn dump(&self) -> Option<Dump> {
        let mut chunks = self
            .scandump
            .iter()
            .map(|chunk| BASE64_STANDARD.decode(&chunk.data_base64).unwrap());
        let header = chunks.next()?;
        assert_eq!(header.len(), 38);
        let number = |at: usize| u64::from_le_bytes(header[at..at + 8].try_into().unwrap());
        let short = |at: usize| u16::from_le_bytes(header[at..at + 2].try_into().unwrap());
        let (buckets, filters) = (number(8), number(24));
        let (bucket_size, expansion) = (short(32) as u8, u64::from(short(36)));
        let mut bytes: Vec<u8> = chunks.flatten().collect();
        let mut sub_filters = Vec::new();
        for position in 0..filters as u32 {
            let buckets = buckets * expansion.pow(position);
            let layout = Classic::new(buckets, bucket_size).unwrap();
            let rest = bytes.split_off((buckets * u64::from(bucket_size)) as usize);
            sub_filters.push((layout, std::mem::replace(&mut bytes, rest)));
        }
        assert!(bytes.is_empty());
        Some(Dump {
            items: number(0),
            deletions: number(16),
            sub_filters,
        })
    }
}

impl Dump {
    /// Slots of the candidate buckets that hold the item's fingerprint.
    fn matches(&self, item: &str) -> u64 {
        let hash = HashId::Murmur64A.hash(item.as_bytes());
        let mut matches = 0;
        for (layout, bytes) in &self.sub_filters {
            let candidates = layout.candidates(hash);
            let size = usize::from(layout.bucket_size());
            for bucket in candidates.buckets() {
                let start = bucket.0 as usize * size;
                let slots = &bytes[start..start + size];
                matches += slots
                    .iter()
                    .filter(|&&slot| u32::from(slot) == candidates.fingerprint.0)
                    .count();
            }
        }
        matches as u64
    }
}

#[test]
fn hashes_fingerprints_and_buckets_are_those_of_redisbloom() {
    let text = std::fs::read_to_string(folder().join("hash_vectors.jsonl")).unwrap();
    let layout = Classic::new(1024, 2).unwrap();
    let mut vectors = 0;
    for line in text.lines() {
        let vector: Value = serde_json::from_str(line).unwrap();
        let hex = vector["hex"].as_str().unwrap();
        let item: Vec<u8> = (0..hex.len())
            .step_by(2)
            .map(|at| u8::from_str_radix(&hex[at..at + 2], 16).unwrap())
            .collect();
        let hash = murmur64a(&item, 0);
        assert_eq!(hash, vector["hash"].as_u64().unwrap(), "{hex}");
        let it = layout.candidates(ItemHash::from(hash));
        assert_eq!(
            u64::from(it.fingerprint.0),
            vector["fp"].as_u64().unwrap(),
            "{hex}"
        );
        assert_eq!(it.first.0, vector["i1_mod1024"].as_u64().unwrap(), "{hex}");
        assert_eq!(it.second.0, vector["i2_mod1024"].as_u64().unwrap(), "{hex}");
        vectors += 1;
    }
    assert!(vectors >= 10, "{vectors} vectors");
}

#[test]
fn every_item_of_a_dump_lies_in_a_bucket_that_our_arithmetic_names() {
    let mut dumps = 0;
    for (name, recording) in recordings() {
        let Some(dump) = recording.dump() else {
            // RedisBloom can't dump an empty filter.
            assert!(recording.adds.is_empty(), "{name}");
            continue;
        };
        dumps += 1;
        assert_eq!(
            dump.items, recording.info["Number of items inserted"],
            "{name}"
        );
        assert_eq!(
            dump.deletions, recording.info["Number of items deleted"],
            "{name}"
        );
        assert_eq!(
            dump.sub_filters.len() as u64,
            recording.info["Number of filters"],
            "{name}"
        );
        for (item, copies) in recording.truth() {
            assert!(dump.matches(item) >= copies, "{name}: {item:?}");
        }
        for (item, (&exists, &count)) in recording
            .probe
            .iter()
            .zip(recording.exists.iter().zip(&recording.count))
        {
            assert_eq!(dump.matches(item) > 0, exists, "{name}: {item:?}");
            // RedisBloom counts an item twice whose candidates are one bucket.
            assert!(dump.matches(item) <= count, "{name}: {item:?}");
        }
    }
    assert_eq!(dumps, 7);
}

fn engine() -> Engine {
    let options = EngineOptions {
        lanes: 1,
        max_log_bytes: 4 << 20,
        max_queued_commands: 64,
        max_queued_items: 100_000,
        after_commit: Some(crate::checked::after_commit),
        ..EngineOptions::with_cache(16 << 20)
    };
    let metrics = Arc::new(Metrics::new().unwrap());
    let store = PageStore::open(Arc::new(MemoryStore::new())).unwrap();
    Engine::open(Arc::new(store), &options, metrics).unwrap()
}

fn batch<'a>(items: impl IntoIterator<Item = &'a str>) -> ItemBatch {
    let mut batch = ItemBatch::default();
    for item in items {
        batch.push(item.as_bytes());
    }
    batch
}

#[tokio::test]
async fn a_chain_of_the_same_geometry_finds_what_remains_after_the_same_commands() {
    let engine = engine();
    for (name, recording) in recordings() {
        let filter = FilterName::parse(&name).unwrap();
        let (buckets, size) = (recording.info["Number of buckets"], recording.bucket_size());
        // The capacity that our sizing gives as many buckets for.
        let request = FilterRequest {
            capacity: Some(buckets * u64::from(size) * 85 / 100),
            bucket_size: Some(u64::from(size)),
            max_iterations: Some(recording.info["Max iterations"]),
            expansion: Some(recording.info["Expansion rate"]),
            ..FilterRequest::default()
        };
        engine
            .create_filter(&filter, &request.into(), None)
            .await
            .unwrap();
        let info = engine.filter_info(&filter).await.unwrap();
        assert_eq!(info.sub_filters[0].buckets, buckets, "{name}");

        for item in &recording.adds {
            let added = engine
                .add(
                    &filter,
                    &batch([item.as_str()]),
                    &AddOptions::default(),
                    None,
                )
                .await;
            assert_eq!(
                added.unwrap().answer,
                [AddResult::Added],
                "{name}: {item:?}"
            );
        }
        let deletes = batch(recording.deletes.iter().map(String::as_str));
        assert_eq!(
            engine.delete(&filter, &deletes, None).await.unwrap().answer,
            recording.deleted,
            "{name}"
        );

        let truth = recording.truth();
        let counts = engine
            .count(&filter, &batch(truth.keys().copied()))
            .await
            .unwrap();
        let found = engine
            .exists(&filter, &batch(truth.keys().copied()))
            .await
            .unwrap();
        for (((item, &copies), count), found) in truth.iter().zip(counts).zip(found) {
            assert!(
                count >= copies,
                "{name}: {item:?} counts {count}, truth is {copies}"
            );
            assert!(found || copies == 0, "{name}: {item:?}");
        }
        let items = engine.filter_info(&filter).await.unwrap().items;
        assert_eq!(items, recording.info["Number of items inserted"], "{name}");
        // Better kick-outs never need more sub-filters than RedisBloom's.
        let grown = engine.filter_info(&filter).await.unwrap().sub_filters.len() as u64;
        assert!(
            grown <= recording.info["Number of filters"],
            "{name}: {grown} sub-filters"
        );
    }
}

impl Recording {
    /// The chunks as a stream of frames, as the server takes them.
    fn framed(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        for chunk in &self.scandump {
            let data = BASE64_STANDARD.decode(&chunk.data_base64).unwrap();
            bytes.extend_from_slice(&chunk.iterator.to_le_bytes());
            bytes.extend_from_slice(&(data.len() as u32).to_le_bytes());
            bytes.extend_from_slice(&data);
        }
        bytes
    }
}

async fn take_in(engine: &Engine, bytes: &[u8]) -> Result<StagedFilter, RestoreError> {
    let (name, bytes) = (FilterName::parse("f").unwrap(), bytes.to_vec());
    let intake = engine.intake(&name, Replace::Nothing).await.unwrap();
    tokio::task::spawn_blocking(move || intake.redisbloom(&bytes[..]))
        .await
        .unwrap()
}

#[tokio::test]
async fn a_dump_of_redisbloom_is_taken_in_bit_for_bit_and_goes_on() {
    let engine = engine();
    let mut taken = 0;
    for (name, recording) in recordings() {
        let staged = take_in(&engine, &recording.framed()).await;
        if recording.scandump.is_empty() {
            assert!(staged.is_err(), "{name}");
            continue;
        }
        taken += 1;
        let filter = FilterName::parse(&name).unwrap();
        let adopted = engine
            .adopt(&filter, staged.unwrap(), Replace::Nothing)
            .await;
        let Ok(Adopted::New(info)) = adopted else {
            panic!("{name}: {adopted:?}");
        };
        assert_eq!(info.items, recording.info["Number of items inserted"]);
        assert_eq!(info.deletions, recording.info["Number of items deleted"]);
        assert_eq!(
            info.sub_filters[0].buckets,
            recording.info["Number of buckets"]
        );
        assert_eq!(
            info.sub_filters.len() as u64,
            recording.info["Number of filters"]
        );
        let probes = batch(recording.probe.iter().map(String::as_str));
        assert_eq!(
            engine.exists(&filter, &probes).await.unwrap(),
            recording.exists,
            "{name}"
        );
        let dump = recording.dump().unwrap();
        let counts = engine.count(&filter, &probes).await.unwrap();
        for ((item, count), recorded) in recording.probe.iter().zip(counts).zip(&recording.count) {
            assert_eq!(count, dump.matches(item), "{name}: {item:?}");
            // RedisBloom counts an item twice whose candidates are one bucket.
            assert!(count <= *recorded, "{name}: {item:?}");
        }

        // What is added on top is found, also after expansions, and what is
        // deleted is gone.
        let truth = recording.truth();
        let more: Vec<String> = (0..2000).map(|n| format!("more-{n}")).collect();
        let more = batch(more.iter().map(String::as_str));
        let added = engine
            .add(&filter, &more, &AddOptions::default(), None)
            .await;
        assert!(
            added
                .unwrap()
                .answer
                .iter()
                .all(|&it| it == AddResult::Added),
            "{name}"
        );
        let grown = engine.filter_info(&filter).await.unwrap();
        assert!(grown.sub_filters.len() > info.sub_filters.len(), "{name}");
        assert_eq!(
            engine.delete(&filter, &more, None).await.unwrap().answer,
            vec![true; 2000]
        );
        let kept = batch(
            truth
                .iter()
                .filter(|(_, copies)| **copies > 0)
                .map(|(item, _)| *item),
        );
        let found = engine.exists(&filter, &kept).await.unwrap();
        assert!(found.iter().all(|&found| found), "{name}");
        assert_eq!(
            engine.filter_info(&filter).await.unwrap().items,
            info.items,
            "{name}"
        );
    }
    assert_eq!(taken, 7);
}

#[tokio::test]
async fn a_dump_of_redisbloom_that_contradicts_itself_is_refused() {
    let engine = engine();
    for (name, recording) in recordings() {
        let whole = recording.framed();
        for length in (0..whole.len()).step_by(97) {
            let cut = take_in(&engine, &whole[..length]).await;
            assert!(cut.is_err(), "{name} cut at {length}");
        }
        if recording.scandump.is_empty() {
            continue;
        }
        // Every byte of frames and description but those that might as well be
        // others: deletions, the longest path, and the growth of a filter that
        // has not grown.
        let has_grown = recording.info["Number of filters"] > 1;
        let growth = if has_grown { 38..38 } else { 36..38 };
        for at in 0..HEAD_BYTES + 38 + HEAD_BYTES {
            let free = [16..24, 34..36, growth.clone()]
                .iter()
                .any(|free| (free.start + HEAD_BYTES..free.end + HEAD_BYTES).contains(&at));
            let mut altered = whole.clone();
            altered[at] ^= 0x81;
            let outcome = take_in(&engine, &altered).await;
            assert!(free || outcome.is_err(), "{name}: byte {at}");
        }
    }
}

/// Iterator and length of a frame.
const HEAD_BYTES: usize = 12;
