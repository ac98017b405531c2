//! The parts of an add and of a question, one by one, each beside something
//! plain that reads or writes the same bytes.
//!
//! `cargo bench --bench parts`: half a minute, one core. Prints a table for each
//! part. `CUCKOOD_BENCH_SEED` draws other items.

mod support;

#[path = "../crates/filter/tests/resident/mod.rs"]
mod resident;

use axum::body::Bytes;
use cuckood::chain::address::WordAddress;
use cuckood::chain::meta::Chain;
use cuckood::chain::params::{Defaults, FilterParams, FilterRequest};
use cuckood::chain::plan::{AddMode, PageChanges};
use cuckood::cuckoo::bucket;
use cuckood::cuckoo::candidates::BucketIndex;
use cuckood::cuckoo::hash::{HashId, HashKey, ItemHash, murmur64a, siphash13};
use cuckood::cuckoo::kick::{Buckets, Elsewhere, KickSearch};
use cuckood::cuckoo::paged::{PAGE_WORDS, Paged, SEARCH};
use cuckood::engine::ItemBatch;
use cuckood::http::measured;
use cuckood::page::{FilterId, Ordinal, PageIndex};
use cuckood::store::redo::{self, RedoBuilder, RedoReader, RedoWrite};
use foldhash::fast::FixedState;
use resident::ResidentFilter;
use serde::Deserialize;
use std::cell::RefCell;
use std::error::Error;
use std::hash::BuildHasher as _;
use std::hint::black_box;
use support::engines::item;
use support::rounds::{compare, contender};
use support::seed;

/// Items of a batch, as in a request.
const BATCH: u64 = 1_000;

/// How often a round does something that takes microseconds.
const REPEATS: u64 = 200;

/// Slots of 16 bits that fit a processor's own cache, and those that do not
/// fit any.
const FEW_SLOTS: u64 = 1 << 16;
const MANY_SLOTS: u64 = 1 << 26;

fn main() -> Result<(), Box<dyn Error>> {
    let seed = seed()?;
    hash(seed);
    probe(seed)?;
    add(seed)?;
    for load in [50, 80, 90, 94] {
        kick(seed, load)?;
    }
    plan(seed)?;
    parse(seed);
    Ok(())
}

fn hash(seed: u64) {
    for length in [12, 64] {
        let mut items = ItemBatch::default();
        for number in 0..BATCH {
            let long = item(seed, number).repeat(6);
            items.push(long.get(..length).unwrap_or(&long));
        }
        let items = &items;
        let each = |hash: fn(&[u8]) -> u64| {
            move || {
                for _ in 0..REPEATS {
                    for item in items.iter() {
                        black_box(hash(item));
                    }
                }
                REPEATS * BATCH
            }
        };
        let contenders = vec![
            contender("reading it", each(read)),
            contender("SipHash-1-3, layout paged", each(siphash)),
            contender("the same, eight at once", || {
                let hasher = HashId::SipHash13(HashKey([7; 16])).hasher();
                for _ in 0..REPEATS {
                    let mut hashes = Vec::with_capacity(items.len());
                    hasher.hash_all(items.iter(), &mut hashes);
                    black_box(hashes);
                }
                REPEATS * BATCH
            }),
            contender("MurmurHash64A, layout classic", each(murmur)),
            contender("foldhash, of hash maps", each(fold)),
        ];
        compare(&format!("Hash of {length} bytes"), "item", contenders);
    }
}

fn read(item: &[u8]) -> u64 {
    let (words, rest) = item.as_chunks::<8>();
    let words = words.iter().map(|word| u64::from_le_bytes(*word));
    words.fold(rest.len() as u64, |sum, word| sum ^ word)
}

fn siphash(item: &[u8]) -> u64 {
    siphash13(item, HashKey([7; 16])) as u64
}

fn murmur(item: &[u8]) -> u64 {
    murmur64a(item, 0)
}

fn fold(item: &[u8]) -> u64 {
    FixedState::default().hash_one(item)
}

/// A filter of about so many slots of 16 bits that never grows.
fn filter(slots: u64) -> Result<ResidentFilter, Box<dyn Error>> {
    let request = FilterRequest {
        capacity: Some(slots * 94 / 100 - 1),
        fingerprint_bits: Some(16),
        expansion: Some(0),
        ..FilterRequest::default()
    };
    let params = FilterParams::resolve(&request, &Defaults::default())
        .map_err(|refused| format!("{refused:?}"))?;
    let chain = Chain::new(params, HashKey([7; 16]), 0).ok_or("too large")?;
    Ok(ResidentFilter::new(chain))
}

fn hashes(filter: &ResidentFilter, seed: u64, numbers: std::ops::Range<u64>) -> Vec<ItemHash> {
    let chain = filter.chain();
    numbers
        .map(|number| chain.hash(&item(seed, number)))
        .collect()
}

fn layout(filter: &ResidentFilter) -> Result<Paged, Box<dyn Error>> {
    let table = filter.chain().table();
    Ok(table.ok_or("it is no filter that splits pages")?.layout)
}

/// A word, and what is looked for in it.
struct Probe {
    word: usize,
    slot: u32,
    level: u32,
}

fn probe(seed: u64) -> Result<(), Box<dyn Error>> {
    for (slots, where_) in [(FEW_SLOTS, "128 KiB"), (MANY_SLOTS, "128 MiB")] {
        let mut filter = filter(slots)?;
        let half = hashes(&filter, seed, 0..slots / 2);
        filter.add_at_once(&half, AddMode::Always);
        let absent = hashes(&filter, seed, 1 << 40..(1 << 40) + 200_000);
        // In an order that nothing foresees.
        let mut mixed: Vec<ItemHash> = half.iter().take(100_000).copied().collect();
        mixed.extend(absent.iter().take(mixed.len()));
        // These bits decide nothing else.
        mixed.sort_by_key(|hash| hash.low() >> 42);
        let layout = layout(&filter)?;
        let code = layout.code();
        // The same words in an array, and where each probe goes.
        let mut words = Vec::new();
        for page in 0..layout.pages() {
            let all = 0..PAGE_WORDS;
            words.extend(all.map(|word| filter.word(WordAddress { sub: 0, page, word })));
        }
        let probes: Vec<Probe> = absent
            .iter()
            .flat_map(|&hash| {
                layout.candidates(hash).map(|candidate| {
                    let (page, word) = layout.address(candidate.bucket);
                    Probe {
                        word: page as usize * usize::from(PAGE_WORDS) + usize::from(word),
                        slot: candidate.slot,
                        level: candidate.level.into(),
                    }
                })
            })
            .collect();
        let (words, probes, absent, filter) = (&words, &probes, &absent, RefCell::new(filter));
        let mixed = &mixed;
        let word = |probe: &Probe| words.get(probe.word).copied().unwrap_or_default();
        let contenders = vec![
            contender("reading its two words", || {
                black_box(probes.iter().fold(0, |sum, probe| sum ^ word(probe)));
                absent.len() as u64
            }),
            contender("finding the fingerprint in them", || {
                let matches = probes
                    .iter()
                    .map(|probe| code.matching(word(probe), probe.slot, probe.level).count());
                black_box(matches.sum::<u32>());
                absent.len() as u64
            }),
            contender("from the hash to the answer, one by one", || {
                let mut filter = filter.borrow_mut();
                black_box(absent.iter().filter(|&&hash| filter.exists(hash)).count());
                absent.len() as u64
            }),
            contender("from the hash to the answer, 32 at once", || {
                let mut found = Vec::with_capacity(absent.len());
                filter.borrow().exists_all(absent, &mut found);
                black_box(found);
                absent.len() as u64
            }),
            contender("the same, half of them there", || {
                let mut found = Vec::with_capacity(mixed.len());
                filter.borrow().exists_all(mixed, &mut found);
                black_box(found);
                mixed.len() as u64
            }),
        ];
        compare(
            &format!("Probe of two buckets, slots of {where_}"),
            "item",
            contenders,
        );
    }
    Ok(())
}

fn add(seed: u64) -> Result<(), Box<dyn Error>> {
    let slots = 1 << 20;
    let empty = filter(slots)?;
    let items = hashes(&empty, seed, 0..slots * 94 / 100 - 1);
    let layout = layout(&empty)?;
    let (layout, items) = (&layout, &items);
    let page_words = usize::from(PAGE_WORDS);
    let contenders = vec![
        contender("writing a word of its page", || {
            let mut words = vec![0u64; layout.pages() as usize * page_words];
            for &hash in items {
                let [first, _] = layout.candidates(hash);
                let (page, word) = layout.address(first.bucket);
                let word = page as usize * page_words + usize::from(word);
                if let Some(word) = words.get_mut(word) {
                    *word = word.wrapping_add(hash.low());
                }
            }
            black_box(words);
            items.len() as u64
        }),
        contender("adding it, 0 to 94 %", || {
            if let Ok(mut filter) = filter(slots) {
                black_box(filter.add_at_once(items, AddMode::Always));
            }
            items.len() as u64
        }),
        contender("planning, then adding it, 0 to 94 %", || {
            if let Ok(mut filter) = filter(slots) {
                for batch in items.chunks(BATCH as usize) {
                    black_box(filter.add(batch, AddMode::Always));
                }
            }
            items.len() as u64
        }),
    ];
    compare("Add, slots of 2 MiB", "item", contenders);
    Ok(())
}

/// The slots of a bucket.
fn load(filter: &ResidentFilter, layout: &Paged, bucket: BucketIndex) -> [u32; 4] {
    let ((page, word), width) = (layout.address(bucket), layout.code().width());
    let word = filter.word(WordAddress { sub: 0, page, word });
    std::array::from_fn(|lane| bucket::get(width, word, lane as u16))
}

/// The buckets of a filter, as a search looks into them.
struct Loaded<'a>(&'a ResidentFilter, &'a Paged);

impl Buckets for Loaded<'_> {
    fn empty_slot(&mut self, bucket: BucketIndex) -> Option<Option<u8>> {
        let slots = load(self.0, self.1, bucket);
        let empty = slots.iter().position(|&slot| slot == 0);
        Some(empty.map(|slot| slot as u8))
    }

    fn read(&mut self, bucket: BucketIndex, slots: &mut Vec<u32>) {
        slots.extend(load(self.0, self.1, bucket));
    }

    fn elsewhere(&mut self, bucket: BucketIndex, held: u32) -> Option<Elsewhere> {
        self.1.elsewhere(bucket, held)
    }
}

fn kick(seed: u64, percent: u64) -> Result<(), Box<dyn Error>> {
    let slots = 1 << 20;
    let mut filter = filter(slots)?;
    let items = hashes(&filter, seed, 0..slots * percent / 100 - 1);
    filter.add_at_once(&items, AddMode::Always);
    let layout = layout(&filter)?;
    let (filter, layout) = (&filter, &layout);
    let absent = hashes(filter, seed, 1 << 40..(1 << 40) + 500_000);
    let asked = absent.len();
    let homeless: Vec<_> = absent
        .into_iter()
        .map(|hash| layout.candidates(hash).map(|it| it.bucket))
        .filter(|it| {
            let mut buckets = it.iter();
            buckets.all(|&bucket| !load(filter, layout, bucket).contains(&0))
        })
        .collect();
    let share = homeless.len() as f64 / asked as f64;
    if homeless.len() < 1_000 {
        println!("\n**Kick search at {percent} %**: {share:.6} of the items need one");
        return Ok(());
    }
    let mut search = KickSearch::default();
    let (mut looked, mut moved) = (0, 0);
    let homeless = &homeless;
    let contenders = vec![
        contender("reading both buckets", || {
            for candidates in homeless {
                for &bucket in candidates {
                    black_box(load(filter, layout, bucket));
                }
            }
            homeless.len() as u64
        }),
        contender("the search", || {
            (looked, moved) = (0, 0);
            for candidates in homeless {
                let candidates = candidates.iter().copied();
                let mut buckets = Loaded(filter, layout);
                black_box(search.find(candidates, SEARCH, u16::MAX, &mut buckets));
                looked += search.looked_at();
                moved += search.moves.len();
            }
            homeless.len() as u64
        }),
    ];
    compare(
        &format!("Kick search at {percent} %, 16 bits"),
        "search",
        contenders,
    );
    println!(
        "\n{share:.4} of the items need one; it looks at {:.1} buckets and moves {:.2} fingerprints",
        looked as f64 / homeless.len() as f64,
        moved as f64 / homeless.len() as f64
    );
    Ok(())
}

fn plan(seed: u64) -> Result<(), Box<dyn Error>> {
    let slots = 1 << 23;
    let mut filter = filter(slots)?;
    let half = hashes(&filter, seed, 0..slots * 60 / 100);
    filter.add_at_once(&half, AddMode::Always);
    let layout = layout(&filter)?;
    let batches: Vec<Vec<ItemHash>> = (0..REPEATS)
        .map(|n| (1 << 40) + n * BATCH)
        .map(|first| hashes(&filter, seed, first..first + BATCH))
        .collect();
    let plans: Vec<_> = batches
        .iter()
        .filter_map(|batch| filter.plan(batch, AddMode::Always))
        .collect();
    let changes: Vec<PageChanges> = plans.iter().map(|plan| plan.overlay.changes()).collect();
    let records: Vec<Vec<u8>> = changes.iter().map(|it| record(&layout, it)).collect();
    let plain: Vec<Vec<u8>> = changes.iter().map(|it| plain_record(&layout, it)).collect();
    let bytes = |records: &[Vec<u8>]| {
        records.iter().map(Vec::len).sum::<usize>() as f64 / (REPEATS * BATCH) as f64
    };
    println!(
        "\nBatches of {BATCH} at load 0.60: {:.1} pages a batch, a record of {:.2} bytes an item, {:.2} with fields of fixed width",
        changes.iter().map(|it| it.pages.len()).sum::<usize>() as f64 / REPEATS as f64,
        bytes(&records),
        bytes(&plain),
    );
    let all = REPEATS * BATCH;
    let words = RefCell::new(vec![0u64; slots as usize / 4 + 1024]);
    let filter = RefCell::new(filter);
    compare(
        "Plan of a batch, slots of 16 MiB",
        "item",
        vec![
            contender("asking whether it is there", || {
                let mut found = Vec::with_capacity(BATCH as usize);
                for batch in &batches {
                    found.clear();
                    filter.borrow().exists_all(batch, &mut found);
                    black_box(&found);
                }
                all
            }),
            contender("the plan", || {
                for batch in &batches {
                    black_box(filter.borrow_mut().plan(batch, AddMode::Always));
                }
                all
            }),
            contender("the changes in order", || {
                for plan in &plans {
                    black_box(plan.overlay.changes());
                }
                all
            }),
        ],
    );
    compare(
        "Redo record of a batch",
        "item",
        vec![
            contender("fields of fixed width, writing", || {
                for it in &changes {
                    black_box(plain_record(&layout, it));
                }
                all
            }),
            contender("the record, writing", || {
                for it in &changes {
                    black_box(record(&layout, it));
                }
                all
            }),
            contender("fields of fixed width, replaying", || {
                for record in &plain {
                    replay_plain(&layout, record, &mut words.borrow_mut());
                }
                all
            }),
            contender("the record, checking", || {
                for record in &records {
                    black_box(redo::check(record).is_ok());
                }
                all
            }),
            contender("the record, replaying", || {
                for record in &records {
                    replay(&layout, record, &mut words.borrow_mut());
                }
                all
            }),
        ],
    );
    Ok(())
}

/// Every slot that was written, and its value.
fn written<'a>(
    layout: &'a Paged,
    changes: &'a PageChanges,
) -> impl Iterator<Item = (u32, u32, u32)> + 'a {
    let width = layout.code().width();
    changes.words.iter().flat_map(move |word| {
        let lanes = (0..width.slots_per_word()).filter(|lane| word.slots & 1 << lane != 0);
        lanes.map(move |lane| {
            let slot = u32::from(word.at.word * width.slots_per_word() + lane);
            (word.at.page, slot, bucket::get(width, word.value, lane))
        })
    })
}

fn record(layout: &Paged, changes: &PageChanges) -> Vec<u8> {
    let mut record = RedoBuilder::default();
    record.filter(FilterId(7), layout.code().width().bits() as u8);
    let mut last = None;
    for (page, slot, value) in written(layout, changes) {
        if last != Some(page) {
            record.page(Ordinal(0), PageIndex(page));
            last = Some(page);
        }
        record.slot(slot, u64::from(value));
    }
    record.finish()
}

/// Eight bytes a slot: page, slot, value.
fn plain_record(layout: &Paged, changes: &PageChanges) -> Vec<u8> {
    let mut record = Vec::new();
    for (page, slot, value) in written(layout, changes) {
        record.extend_from_slice(&page.to_le_bytes());
        record.extend_from_slice(&(slot as u16).to_le_bytes());
        record.extend_from_slice(&(value as u16).to_le_bytes());
    }
    record
}

fn set(layout: &Paged, words: &mut [u64], page: u32, slot: u16, value: u32) {
    let width = layout.code().width();
    let (word, lane) = width.word_and_lane(slot);
    let at = page as usize * usize::from(PAGE_WORDS) + usize::from(word);
    if let Some(word) = words.get_mut(at) {
        *word = bucket::set(width, *word, lane, value);
    }
}

fn replay_plain(layout: &Paged, record: &[u8], words: &mut [u64]) {
    let (entries, _) = record.as_chunks::<8>();
    for entry in entries {
        let entry = u64::from_le_bytes(*entry);
        let (slot, value) = ((entry >> 32) as u16, (entry >> 48) as u32);
        set(layout, words, entry as u32, slot, value);
    }
}

fn replay(layout: &Paged, record: &[u8], words: &mut [u64]) {
    for write in RedoReader::new(record) {
        if let Ok(RedoWrite::Slot(write)) = write {
            let (slot, value) = (write.slot as u16, write.value as u32);
            set(layout, words, write.page.page.0, slot, value);
        }
    }
}

#[derive(Deserialize)]
struct Body<'a> {
    #[serde(borrow)]
    items: Vec<&'a str>,
}

fn parse(seed: u64) {
    let items: Vec<String> = (0..BATCH)
        .map(|number| {
            let bytes = item(seed, number);
            hex::encode(&bytes[..6])
        })
        .collect();
    let json = format!(r#"{{"items":["{}"]}}"#, items.join(r#"",""#));
    let text = items.join("\n");
    let (json, text) = (&Bytes::from(json), &Bytes::from(text));
    let each = |parse: fn(&Bytes) -> usize, body| {
        move || {
            for _ in 0..REPEATS {
                black_box(parse(body));
            }
            REPEATS * BATCH
        }
    };
    let json_contenders = vec![
        contender("serde_json into Vec<&str>", each(plain_json, json)),
        contender("the body of a request", each(whole_json, json)),
    ];
    compare("JSON, items of 12 bytes", "item", json_contenders);
    let text_contenders = vec![
        contender("memchr into Vec<&[u8]>", each(plain_lines, text)),
        contender("the body of a request", each(whole_lines, text)),
    ];
    compare("Lines, items of 12 bytes", "item", text_contenders);
}

fn plain_json(body: &Bytes) -> usize {
    serde_json::from_slice::<Body<'_>>(body).map_or(0, |body| black_box(body).items.len())
}

fn whole_json(body: &Bytes) -> usize {
    measured::json_items(body).map_or(0, |items| black_box(items).len())
}

fn plain_lines(body: &Bytes) -> usize {
    let (mut lines, mut start) = (Vec::new(), 0);
    for end in memchr::memchr_iter(b'\n', body).chain([body.len()]) {
        lines.extend(body.get(start..end));
        start = end + 1;
    }
    black_box(lines).len()
}

fn whole_lines(body: &Bytes) -> usize {
    measured::text_items(body).map_or(0, |items| black_box(items).len())
}
