//! The whole engine against an exact multiset, with restarts between.

use crate::memory::MemoryStore;
use crate::support::{self, Random, batch, create, engine, in_parts, name, options};
use cuckood::chain::params::FilterRequest;
use cuckood::engine::{AddMode, AddOptions, AddResult, Engine, EngineError, EngineOptions};
use cuckood::store::KeyValueStore;
use cuckood::store::rocks::{RocksOptions, RocksStore};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Opens the store again after the last handle to it is gone.
trait Medium {
    fn open(&self) -> Arc<dyn KeyValueStore>;
}

impl Medium for MemoryStore {
    fn open(&self) -> Arc<dyn KeyValueStore> {
        Arc::new(self.clone())
    }
}

struct Directory(tempfile::TempDir);

impl Medium for Directory {
    fn open(&self) -> Arc<dyn KeyValueStore> {
        Arc::new(RocksStore::open(self.0.path(), RocksOptions::default()).unwrap())
    }
}

struct Check {
    engine: Engine,
    model: BTreeMap<u64, u64>,
    random: Random,
    operations: u64,
}

impl Check {
    async fn add(&mut self, items: Vec<u64>, mode: AddMode) {
        let options = AddOptions { mode, create: None };
        let results = in_parts(&items, async |some| {
            Ok(self
                .engine
                .add(&name("f"), &some, &options, None)
                .await?
                .answer)
        });
        for (&item, result) in items.iter().zip(results.await) {
            match result {
                AddResult::Added => *self.model.entry(item).or_default() += 1,
                // A filter may be wrong about this, so the model takes its word.
                AddResult::Exists => assert_eq!(mode, AddMode::OnlyIfAbsent),
                result => panic!("{result:?}"),
            }
        }
        self.operations += items.len() as u64;
    }

    async fn delete(&mut self) {
        // Only what is there is deleted, each copy once.
        let mut chosen = Vec::new();
        let most = if self.random.below(4) == 0 {
            4_000
        } else {
            300
        };
        for _ in 0..self.random.below(most) {
            let item = self.random.below(6_000);
            if let Some(copies) = self.model.get_mut(&item).filter(|copies| **copies > 0) {
                *copies -= 1;
                chosen.push(item);
            }
        }
        let deleted = in_parts(&chosen, async |some| {
            Ok(self.engine.delete(&name("f"), &some, None).await?.answer)
        });
        assert!(deleted.await.iter().all(|&found| found));
        self.operations += chosen.len() as u64;
    }

    async fn compact(&mut self) {
        match self.engine.compact(&name("f"), None).await {
            Ok(_) | Err(EngineError::CompactionRunning) => {}
            Err(error) => panic!("{error}"),
        }
    }

    async fn verify(&self) {
        let items: Vec<u64> = self.model.keys().copied().collect();
        let counts = self
            .engine
            .count(&name("f"), &batch(items.clone()))
            .await
            .unwrap();
        let found = self.engine.exists(&name("f"), &batch(items)).await.unwrap();
        for (((item, &copies), count), found) in self.model.iter().zip(counts).zip(found) {
            assert!(
                count >= copies,
                "item {item}: count {count}, truth {copies}"
            );
            assert!(found || copies == 0, "item {item} is a false negative");
        }
        let total: u64 = self.model.values().sum();
        assert_eq!(support::items(&self.engine, "f").await, total);
    }
}

async fn agrees_with_a_multiset(medium: impl Medium, seed: u64, steps: u64) {
    let request = kind(seed);
    println!("seed {seed}: {request:?}");
    let options = EngineOptions {
        // The others are compacted only when asked for.
        compaction_threshold_percent: if seed.is_multiple_of(2) { 10 } else { 0 },
        ..options(256)
    };
    let mut check = Check {
        engine: engine(medium.open(), &options),
        model: BTreeMap::new(),
        random: Random(seed),
        operations: 0,
    };
    create(&check.engine, "f", &request).await;
    for _ in 0..steps {
        match check.random.below(12) {
            0..=4 => {
                let count = check.random.below(400);
                let items = (0..count).map(|_| check.random.below(6_000)).collect();
                check.add(items, AddMode::Always).await;
            }
            10 => {
                // Hot items: more copies than may have slots.
                let hot = check.random.below(8);
                let items = (0..200).map(|n| if n % 3 == 0 { n } else { hot }).collect();
                check.add(items, AddMode::Always).await;
            }
            5 => {
                let items = (0..50).map(|_| check.random.below(6_000)).collect();
                check.add(items, AddMode::OnlyIfAbsent).await;
            }
            6 | 7 => check.delete().await,
            11 => check.compact().await,
            8 => {
                if check.random.below(2) == 0 {
                    check.engine.halt();
                } else {
                    check.engine.shutdown().unwrap();
                }
                // The last handle closes the store.
                drop(std::mem::replace(
                    &mut check.engine,
                    engine(Arc::new(MemoryStore::new()), &options),
                ));
                check.engine = engine(medium.open(), &options);
            }
            _ => check.verify().await,
        }
    }
    check.verify().await;
    println!("seed {seed}: {} items added and deleted", check.operations);
}

/// Filters of every layout and width, in turn.
fn kind(seed: u64) -> FilterRequest {
    let request = FilterRequest {
        capacity: Some(1_500),
        expansion: Some(2),
        ..Default::default()
    };
    match seed % 6 {
        0 => FilterRequest {
            bucket_size: Some(2),
            ..request
        },
        1 => FilterRequest {
            bucket_size: Some(4),
            ..request
        },
        step => FilterRequest {
            fingerprint_bits: Some(match step {
                2 => 12,
                3 => 16,
                4 => 21,
                _ => 32,
            }),
            ..request
        },
    }
}

/// By hand: `CUCKOOD_MODEL_STEPS=7000 cargo test --release --test engine
/// agrees_with_a_multiset -- --nocapture` makes 10^6 operations of every run.
fn steps() -> u64 {
    std::env::var("CUCKOOD_MODEL_STEPS").map_or(60, |steps| steps.parse().unwrap())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_engine_on_memory_agrees_with_a_multiset() {
    for seed in 0..18 {
        agrees_with_a_multiset(MemoryStore::new(), seed, steps()).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_engine_on_rocksdb_agrees_with_a_multiset() {
    for seed in 100..106 {
        let directory = Directory(tempfile::tempdir().unwrap());
        agrees_with_a_multiset(directory, seed, steps()).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_false_positive_rate_is_what_theory_says_at_the_target_load() {
    for (bucket_size, load) in [(2u64, 0.85), (4, 0.955)] {
        let engine = engine(Arc::new(MemoryStore::new()), &options(4096));
        let slots = 1u64 << 19;
        let capacity = (slots as f64 * load) as u64;
        create(
            &engine,
            "f",
            &FilterRequest {
                capacity: Some(capacity),
                bucket_size: Some(bucket_size),
                expansion: Some(0),
                ..Default::default()
            },
        )
        .await;
        for first in (0..capacity).step_by(1_000) {
            support::add(&engine, "f", first..(first + 1_000).min(capacity)).await;
        }
        let info = engine.filter_info(&name("f")).await.unwrap();
        assert_eq!(info.slot_bytes, slots);
        let probes = 400_000u64;
        let mut found = 0;
        for first in (0..probes).step_by(4_000) {
            let absent = (first..first + 4_000).map(|n| n + (1 << 40));
            found += support::exists(&engine, "f", absent)
                .await
                .into_iter()
                .filter(|&it| it)
                .count();
        }
        let measured = found as f64 / probes as f64;
        let expected = info.expected_false_positive_rate;
        println!("bucket size {bucket_size}: measured {measured:.5}, expected {expected:.5}");
        assert!(
            (measured / expected - 1.0).abs() < 0.10,
            "{measured} against {expected}"
        );
    }
}
