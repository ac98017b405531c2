//! Filters whose items have values, against an exact model of items and values:
//! through growth, contraction, restarts and crashes.

use crate::memory::MemoryStore;
use crate::support::{self, Random, engine, items, kept, name, options};
use cuckood::chain::params::{Attributes, Codes, FilterRequest, LayoutKind};
use cuckood::engine::check::check;
use cuckood::engine::{
    AddMode, AddResult, Engine, EngineError, Entries, EntryValues, ItemBatch, Listed,
    ReplaceResult, Replacements, Rows, Where,
};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Slots of so many bits, so many of them the value, and about so many values an
/// item.
#[derive(Clone, Copy, Debug)]
struct Shape {
    slot_bits: u64,
    value_bits: u64,
    values_per_item: u64,
    /// What the filter is told of them.
    told: u64,
    /// Changes, by those of other shapes, and for each item that there is.
    times: u64,
    changes_an_item: u64,
    /// Whether values are rows, of two attributes.
    has_rows: bool,
}

const SHAPES: [Shape; 7] = [
    shape(16, 4, 1),
    shape(16, 4, 5),
    shape(21, 7, 3),
    shape(32, 16, 8),
    // Few items with long lists, which nobody foretold.
    Shape {
        told: 1,
        times: 2,
        changes_an_item: 2_000,
        ..shape(32, 10, 1_000)
    },
    with_rows(21, 1),
    with_rows(32, 5),
];

const fn shape(slot_bits: u64, value_bits: u64, values_per_item: u64) -> Shape {
    Shape {
        slot_bits,
        value_bits,
        values_per_item,
        told: values_per_item,
        times: 1,
        changes_an_item: 10,
        has_rows: false,
    }
}

const fn with_rows(slot_bits: u64, values_per_item: u64) -> Shape {
    Shape {
        has_rows: true,
        ..shape(slot_bits, 7, values_per_item)
    }
}

/// Changes of each shape; by hand as many as `CUCKOOD_VALUE_CHANGES` says.
fn changes() -> u64 {
    let by_hand = std::env::var("CUCKOOD_VALUE_CHANGES").ok();
    by_hand.map_or(30_000, |changes| changes.parse().unwrap())
}

/// How rare what happens now and then is, so that it does so as often by hand.
fn rare(once_in: u64) -> u64 {
    once_in * changes().div_ceil(30_000)
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

/// The plan and the tag of a value, where values are rows: of four plans one, and of
/// any number of tags, of which 5 bits of a hash are kept.
fn labels(value: u32) -> [String; 2] {
    [format!("plan {}", value & 3), format!("tag {}", value >> 2)]
}

fn attributes() -> Attributes {
    let plans = (0..4).map(|plan| labels(plan)[0].clone()).collect();
    let plan = ("plan".to_owned(), Codes::Exact(plans));
    Attributes::new(vec![plan, ("tag".to_owned(), Codes::Hashed(5))]).unwrap()
}

/// Items, and what stands beside each: values, or rows.
struct Given {
    items: ItemBatch,
    values: Arc<[u32]>,
    rows: Option<Rows>,
}

impl Given {
    fn of(shape: Shape, entries: &[(u64, u32)]) -> Given {
        let (items, values) = batch(entries);
        let mut rows = shape.has_rows.then(Rows::default);
        for &value in values.iter() {
            if let Some(rows) = &mut rows {
                let [plan, tag] = labels(value);
                // In one order or the other.
                let mut named = [("plan", plan), ("tag", tag)];
                named.rotate_left((value % 2) as usize);
                for (name, label) in named {
                    let name = rows.name(name).unwrap();
                    assert!(rows.push(name, label.as_bytes()));
                }
                rows.end_row();
            }
        }
        Given {
            items,
            values,
            rows,
        }
    }

    fn values(&self) -> EntryValues<'_> {
        match &self.rows {
            Some(rows) => EntryValues::Rows(rows),
            None => EntryValues::Values(&self.values),
        }
    }

    fn entries(&self) -> Entries<'_> {
        Entries {
            items: &self.items,
            values: self.values(),
        }
    }
}

async fn add(engine: &Engine, shape: Shape, entries: &[(u64, u32)]) {
    let given = Given::of(shape, entries);
    let filter = name("f");
    let added = engine.add_values(&filter, given.entries(), AddMode::Always, None);
    let added = added.await.unwrap().answer;
    assert!(added.iter().all(|it| *it == AddResult::Added), "{added:?}");
}

async fn delete(engine: &Engine, shape: Shape, entries: &[(u64, u32)]) {
    let given = Given::of(shape, entries);
    let filter = name("f");
    let deleted = engine.delete_values(&filter, given.entries(), None);
    assert!(deleted.await.unwrap().answer.iter().all(|&it| it));
}

async fn list(engine: &Engine, items: &ItemBatch) -> Result<Listed, EngineError> {
    engine.values(&name("f"), items, |_| Ok(())).await
}

/// Items with the value that each has, and the one that comes in its place.
async fn replace(engine: &Engine, shape: Shape, both: &[(u64, u32, u32)]) {
    let of = |value: fn(&(u64, u32, u32)) -> u32| {
        let entries: Vec<(u64, u32)> = both.iter().map(|it| (it.0, value(it))).collect();
        Given::of(shape, &entries)
    };
    let (from, to) = (of(|it| it.1), of(|it| it.2));
    let entries = Replacements {
        items: &from.items,
        from: from.values(),
        to: to.values(),
    };
    let replaced = engine.replace_values(&name("f"), entries, None).await;
    let replaced = replaced.unwrap().answer;
    let is_replaced = |it: &ReplaceResult| *it == ReplaceResult::Replaced;
    assert!(replaced.iter().all(is_replaced), "{replaced:?}");
}

/// Whether no value is missing, and none of them has fewer copies.
async fn holds(engine: &Engine, shape: Shape, model: &Model) {
    assert_eq!(items(engine, "f").await, model.entries);
    let known = support::batch(model.values.keys().copied());
    let listed = list(engine, &known).await.unwrap();
    assert_eq!(listed.attributes, shape.has_rows.then(attributes));
    for ((item, expected), listed) in model.values.iter().zip(listed.values) {
        assert!(listed.is_sorted_by(|one, next| one.value < next.value));
        // Of rows the code of the plan is known here, and not the key of the hash.
        let mask = if shape.has_rows { 3 } else { u32::MAX };
        let mut by_part: BTreeMap<u32, u64> = BTreeMap::new();
        for (&value, &copies) in expected {
            *by_part.entry(value & mask).or_default() += copies;
        }
        for (part, copies) in by_part {
            let found = listed.iter().filter(|it| it.value & mask == part);
            let found: u64 = found.map(|it| it.copies).sum();
            assert!(found >= copies, "{item} has {part} {copies} times: {found}");
        }
    }
    let entries: Vec<(u64, u32)> = model
        .values
        .iter()
        .flat_map(|(&item, values)| values.keys().map(move |&value| (item, value)))
        .collect();
    let given = Given::of(shape, &entries);
    let filter = name("f");
    let found = engine.has_values(&filter, given.entries());
    assert!(found.await.unwrap().iter().all(|&it| it));
    if shape.has_rows {
        meet_what_they_meet(engine, model).await;
    }
}

/// Whether each row is found by conditions that it meets, of one attribute and of
/// both, alone and among others.
async fn meet_what_they_meet(engine: &Engine, model: &Model) {
    let filter = name("f");
    let mut by_row: BTreeMap<u32, Vec<u64>> = BTreeMap::new();
    for (&item, values) in &model.values {
        for &value in values.keys() {
            by_row.entry(value).or_default().push(item);
        }
    }
    let (mut no, mut asked) = (0, 0);
    for (value, having) in by_row.into_iter().take(60) {
        let [plan, tag] = labels(value);
        let [other_plan, other_tag] = labels(value + 5);
        let plans = ("plan".to_owned(), vec![plan.clone(), other_plan]);
        let tags = ("tag".to_owned(), vec![other_tag, tag.clone()]);
        for condition in [
            vec![
                ("plan".to_owned(), vec![plan]),
                ("tag".to_owned(), vec![tag]),
            ],
            vec![tags.clone()],
            vec![tags, plans],
        ] {
            let having = support::batch(having.iter().copied());
            let condition = Where(condition);
            let found = engine.has_rows(&filter, &having, &condition);
            assert!(found.await.unwrap().iter().all(|&it| it), "{condition:?}");
            let absent = support::batch((1 << 40..).take(20));
            let found = engine.has_rows(&filter, &absent, &condition);
            no += found.await.unwrap().iter().filter(|&&it| !it).count();
            asked += 20;
        }
    }
    assert!(no * 10 >= asked * 9, "{no} of {asked}");
}

async fn pages(engine: &Engine) -> u64 {
    let info = engine.filter_info(&name("f")).await.unwrap();
    info.sub_filters.iter().map(|sub| sub.pages).sum()
}

async fn agrees_with_the_model(shape: Shape, seed: u64) {
    println!("{shape:?}, seed {seed}");
    let mut random = Random(seed);
    let memory = MemoryStore::new();
    // A batch may touch two pages an item, of a filter that has more of them by hand.
    let mut often = options(512 * changes().div_ceil(300_000));
    often.max_log_bytes = 60_000;
    often.checkpoint_slice_bytes = 2 * support::PAGE_BYTES;
    let mut now = engine(Arc::new(memory.clone()), &often);
    let request = FilterRequest {
        capacity: Some(800),
        layout: Some(LayoutKind::Paged),
        fingerprint_bits: Some(shape.slot_bits),
        value_bits: (!shape.has_rows).then_some(shape.value_bits),
        attributes: shape.has_rows.then(attributes),
        values_per_item: Some(shape.told),
        ..FilterRequest::default()
    };
    support::create(&now, "f", &request).await;
    let mut model = Model::default();
    let (mut done, mut most_pages) = (0, 0);
    let all = shape.times * changes();
    let all_items = all / shape.changes_an_item;
    while done < all || model.entries > 0 {
        // Up, down again, up, and down to nothing.
        let quarter = done * 4 / all;
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
            true => add(&now, shape, &entries).await,
            false => delete(&now, shape, &entries).await,
        }
        if random.below(4) == 0 {
            let mut both = Vec::new();
            for _ in 0..BATCH / 2 {
                if let Some((item, from)) = model.take(&mut random, all_items) {
                    let to = random.below(1 << shape.value_bits) as u32;
                    model.add(item, to);
                    both.push((item, from, to));
                }
            }
            replace(&now, shape, &both).await;
        }
        done += BATCH as u64;
        if random.below(rare(12)) == 0 {
            // What a crash at this moment would leave.
            let left = memory.fork();
            check(&kept(&left)).unwrap();
            let crashed = engine(Arc::new(left), &often);
            holds(&crashed, shape, &model).await;
            crashed.halt();
        }
        if random.below(rare(40)) == 0 {
            tokio::task::block_in_place(|| now.shutdown().unwrap());
            now = engine(Arc::new(memory.clone()), &often);
            holds(&now, shape, &model).await;
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
    add(&engine, shape(32, 16, 1_024), &entries).await;
    let most = support::batch(std::iter::repeat_n(1, 1_024));
    let listed = list(&engine, &most).await.unwrap();
    assert!(listed.values.iter().all(|values| values.len() == 1_024));
    let more = support::batch(std::iter::repeat_n(1, 1_025));
    let refused = list(&engine, &more).await;
    assert!(matches!(refused, Err(EngineError::TooManyValues { .. })));
}
