//! Filters whose items have values, against an exact model of items and values:
//! through growth, contraction, restarts and crashes.

use crate::support::{self, Random, engine, items, kept, name, options};
use cuckood::chain::params::{FilterRequest, LayoutKind};
use cuckood::engine::check::check;
use cuckood::engine::{AddMode, AddResult, Engine, EngineError, Entries, ItemBatch};
use cuckood::store::memory::MemoryStore;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Slots of so many bits, so many of them the value, and about so many values an
/// item.
#[derive(Clone, Copy, Debug)]
struct Shape {
    slot_bits: u64,
    value_bits: u64,
    values_per_item: u64,
}

const SHAPES: [Shape; 4] = [
    shape(16, 4, 1),
    shape(16, 4, 5),
    shape(21, 7, 3),
    shape(32, 16, 8),
];

const fn shape(slot_bits: u64, value_bits: u64, values_per_item: u64) -> Shape {
    Shape {
        slot_bits,
        value_bits,
        values_per_item,
    }
}

/// Changes of each shape; by hand as many as `CUCKOOD_VALUE_CHANGES` says.
fn changes() -> u64 {
    let by_hand = std::env::var("CUCKOOD_VALUE_CHANGES").ok();
    by_hand.map_or(30_000, |changes| changes.parse().unwrap())
}

const BATCH: usize = 100;

/// What is in the filter: the values of each item, each as often as it was added.
#[derive(Default)]
struct Model {
    values: BTreeMap<u64, BTreeMap<u32, u64>>,
    entries: u64,
}

impl Model {
    fn add(&mut self, item: u64, value: u32) {
        *self
            .values
            .entry(item)
            .or_default()
            .entry(value)
            .or_default() += 1;
        self.entries += 1;
    }

    /// Takes one away, of an item near another.
    fn take(&mut self, random: &mut Random, items: u64) -> Option<(u64, u32)> {
        let near = random.below(items);
        let next = self.values.range(near..).next();
        let item = next.or_else(|| self.values.iter().next()).map(|it| *it.0)?;
        let values = self.values.get_mut(&item)?;
        let nth = random.below(values.len() as u64) as usize;
        let (&value, copies) = values.iter_mut().nth(nth)?;
        *copies -= 1;
        if *copies == 0 {
            values.remove(&value);
        }
        if values.is_empty() {
            self.values.remove(&item);
        }
        self.entries -= 1;
        Some((item, value))
    }
}

fn batch(entries: &[(u64, u32)]) -> (ItemBatch, Arc<[u32]>) {
    let items = support::batch(entries.iter().map(|it| it.0));
    (items, entries.iter().map(|it| it.1).collect())
}

async fn add(engine: &Engine, entries: &[(u64, u32)]) {
    let (items, values) = &batch(entries);
    let entries = Entries { items, values };
    let filter = name("f");
    let added = engine.add_values(&filter, entries, AddMode::Always, None);
    let added = added.await.unwrap().answer;
    assert!(added.iter().all(|it| *it == AddResult::Added), "{added:?}");
}

async fn delete(engine: &Engine, entries: &[(u64, u32)]) {
    let (items, values) = &batch(entries);
    let filter = name("f");
    let deleted = engine.delete_values(&filter, Entries { items, values }, None);
    assert!(deleted.await.unwrap().answer.iter().all(|&it| it));
}

/// Whether no value is missing, and none of them has fewer copies.
async fn holds(engine: &Engine, model: &Model) {
    assert_eq!(items(engine, "f").await, model.entries);
    let known = support::batch(model.values.keys().copied());
    let listed = engine.values(&name("f"), &known).await.unwrap();
    for ((item, expected), listed) in model.values.iter().zip(listed) {
        assert!(listed.is_sorted_by(|one, next| one.value < next.value));
        for (&value, &copies) in expected {
            let found = listed.iter().find(|it| it.value == value);
            let found = found.map_or(0, |it| it.copies);
            assert!(
                found >= copies,
                "{item} has {value} {copies} times: {found}"
            );
        }
    }
    let entries: Vec<(u64, u32)> = model
        .values
        .iter()
        .flat_map(|(&item, values)| values.keys().map(move |&value| (item, value)))
        .collect();
    let (items, values) = &batch(&entries);
    let filter = name("f");
    let found = engine.has_values(&filter, Entries { items, values });
    assert!(found.await.unwrap().iter().all(|&it| it));
}

async fn pages(engine: &Engine) -> u64 {
    let info = engine.filter_info(&name("f")).await.unwrap();
    info.sub_filters.iter().map(|sub| sub.pages).sum()
}

async fn agrees_with_the_model(shape: Shape, seed: u64) {
    println!("{shape:?}, seed {seed}");
    let mut random = Random(seed);
    let memory = MemoryStore::new();
    let mut often = options(512);
    often.max_log_bytes = 60_000;
    often.checkpoint_slice_bytes = 2 * support::PAGE_BYTES;
    let mut now = engine(Arc::new(memory.clone()), &often);
    let request = FilterRequest {
        capacity: Some(800),
        layout: Some(LayoutKind::Paged),
        fingerprint_bits: Some(shape.slot_bits),
        value_bits: Some(shape.value_bits),
        values_per_item: Some(shape.values_per_item),
        ..FilterRequest::default()
    };
    support::create(&now, "f", &request).await;
    let mut model = Model::default();
    let (mut done, mut most_pages) = (0, 0);
    let all_items = changes() / 10;
    while done < changes() || model.entries > 0 {
        // Up, down again, up, and down to nothing.
        let quarter = done * 4 / changes();
        let adds = match quarter {
            0 | 2 => random.below(10) < 9,
            1 | 3 => random.below(10) < 1,
            _ => false,
        };
        let mut entries = Vec::with_capacity(BATCH);
        for _ in 0..BATCH {
            if !adds {
                entries.extend(model.take(&mut random, all_items));
                continue;
            }
            let item = random.below(all_items);
            let value = item * 31 + random.below(shape.values_per_item);
            let value = value as u32 & ((1 << shape.value_bits) - 1);
            model.add(item, value);
            entries.push((item, value));
        }
        match adds {
            true => add(&now, &entries).await,
            false => delete(&now, &entries).await,
        }
        done += BATCH as u64;
        if random.below(12) == 0 {
            // What a crash at this moment would leave.
            let left = memory.fork();
            check(&kept(&left)).unwrap();
            let crashed = engine(Arc::new(left), &often);
            holds(&crashed, &model).await;
            crashed.halt();
        }
        if random.below(40) == 0 {
            tokio::task::block_in_place(|| now.shutdown().unwrap());
            now = engine(Arc::new(memory.clone()), &often);
            holds(&now, &model).await;
        }
        most_pages = most_pages.max(pages(&now).await);
    }
    let left = pages(&now).await;
    println!("at most {most_pages} pages, {left} in the end");
    assert!(most_pages > left, "it never grew");
    assert_eq!(items(&now, "f").await, 0);
    tokio::task::block_in_place(|| now.shutdown().unwrap());
    check(&kept(&memory)).unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn values_agree_with_an_exact_model_through_growth_crashes_and_restarts() {
    for (shape, seed) in SHAPES.into_iter().zip(1..) {
        agrees_with_the_model(shape, seed).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_answer_lists_no_more_values_than_it_may() {
    let memory = MemoryStore::new();
    let engine = engine(Arc::new(memory), &options(2048));
    let request = FilterRequest {
        capacity: Some(10_000),
        value_bits: Some(16),
        values_per_item: Some(1_024),
        ..FilterRequest::default()
    };
    support::create(&engine, "f", &request).await;
    let entries: Vec<(u64, u32)> = (0..1_024).map(|value| (1, value)).collect();
    add(&engine, &entries).await;
    let most = support::batch(std::iter::repeat_n(1, 1_024));
    let listed = engine.values(&name("f"), &most).await.unwrap();
    assert!(listed.iter().all(|values| values.len() == 1_024));
    let more = support::batch(std::iter::repeat_n(1, 1_025));
    let refused = engine.values(&name("f"), &more).await;
    assert!(matches!(refused, Err(EngineError::TooManyValues { .. })));
}
