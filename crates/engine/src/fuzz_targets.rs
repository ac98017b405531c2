//! Fuzz targets for dumps, descriptions, pages and notes; the fuzzer calls them
//! through the program's list, and a test replays what it found.

use super::dump::fuzz_targets;
use super::idempotency::progress::ImportProgress;
use super::idempotency::response::{Runs, StoredResponse};
use super::name::FilterName;
use super::ops::imports::ImportId;
use super::pages::image as images;
use crate::chain::meta::Chain;

/// A dump, as it is, and as pages under sums that are right, of the filter that its
/// first bytes describe.
fn dump(bytes: &[u8]) {
    fuzz_targets::dump(bytes);
}

/// Frames of RedisBloom.
fn scandump(bytes: &[u8]) {
    fuzz_targets::scandump(bytes);
}

/// The description of a filter.
fn description(bytes: &[u8]) {
    let Ok(chain) = Chain::decode(bytes) else {
        return;
    };
    assert_eq!(Chain::decode(&chain.encode()).as_ref(), Ok(&chain));
    let rate = chain.false_positive_rate();
    assert!((0.0..=1.0).contains(&rate), "{rate}");
    let full = chain.full_false_positive_rate();
    assert!((0.0..=1.0).contains(&full), "{full}");
    assert!(chain.items() <= 1 << 48);
    assert!(chain.slot_bytes() > 0);
    let _ = (chain.adds_before_expansion(), chain.keeps_promise());
    let portable = chain.portable().encode();
    let taken = Chain::from_portable(&portable, u64::MAX).map(|chain| chain.encode());
    assert_eq!(taken, Ok(portable));
}

/// The image of a page: slots, and counters behind them.
fn image(bytes: &[u8]) {
    for page_bytes in [64, 4096] {
        let Ok(page) = images::parse(bytes, page_bytes) else {
            continue;
        };
        let mut slots = page.slots.to_vec();
        slots.resize(page_bytes as usize, 0);
        let words = slots.chunks(8).map(|chunk| {
            let mut word = [0; 8];
            for (to, &from) in word.iter_mut().zip(chunk) {
                *to = from;
            }
            u64::from_le_bytes(word)
        });
        let again = images::encode(words, page_bytes, page.counters.as_deref());
        let Ok(read) = images::parse(&again, page_bytes) else {
            panic!("what was read can't be read again");
        };
        assert_eq!(read.slots, slots);
        assert_eq!(read.counters.as_deref(), page.counters.as_deref());
    }
}

/// What is noted of requests and imports, and their names.
fn notes(bytes: &[u8]) {
    const RESULTS: usize = 1 << 12;
    if let Some(answer) = StoredResponse::decode(bytes, RESULTS) {
        assert_eq!(
            StoredResponse::decode(&answer.encode(), RESULTS),
            Some(answer)
        );
    }
    if let Some(progress) = ImportProgress::decode(bytes) {
        assert_eq!(ImportProgress::decode(&progress.encode()), Some(progress));
    }
    let Ok(text) = std::str::from_utf8(bytes) else {
        return;
    };
    let is_name = (1..=255).contains(&text.len())
        && text.bytes().all(|byte| (b'!'..=b'~').contains(&byte))
        && !matches!(text, "." | "..");
    assert_eq!(FilterName::parse(text).is_ok(), is_name);
    let is_import = (1..=100).contains(&text.len())
        && text
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || b"._:~-".contains(&byte));
    assert_eq!(ImportId::parse(text).is_some(), is_import);
}

/// What fuzzing begins with.
#[cfg(test)]
fn seeds() -> Vec<(&'static str, String, Vec<u8>)> {
    use super::answer::{AddResult, FullReason};
    use crate::chain::counters::{CounterKey, Counters};
    let mut seeds = fuzz_targets::seeds();
    let mut seed = |target, name: &str, bytes| seeds.push((target, name.to_owned(), bytes));
    let full = AddResult::Full(FullReason::MaxFilterBytes);
    let few = StoredResponse::Added(Runs::of(&[AddResult::Exists, full]));
    let many = StoredResponse::Added(Runs::of(&[AddResult::Added; 1000]));
    seed("notes", "few", few.encode());
    seed("notes", "many", many.encode());
    seed(
        "notes",
        "deleted",
        StoredResponse::Deleted(Runs::of(&[true, false])).encode(),
    );
    seed("notes", "removed", StoredResponse::Removed.encode());
    let mut progress = ImportProgress {
        committed_lines: 300,
        ..ImportProgress::default()
    };
    progress.count_bad(17, super::BadLine::NotJson);
    seed("notes", "progress", progress.encode());
    seed("notes", "name", b"shop:coupons-2026_11.~".to_vec());
    let mut counters = Counters::default();
    counters.set(CounterKey(3 << 32 | 5), 1_000);
    counters.set(CounterKey(3 << 32 | 6), 256);
    let words = [0x0807_0605_0403_0201u64; 8].into_iter();
    seed(
        "image",
        "counters",
        images::encode(words.clone(), 64, Some(&counters)),
    );
    seed("image", "slots", images::encode(words, 64, None));
    seeds
}

/// Reads any bytes; panics if an assertion about them does not hold.
pub type Target = fn(&[u8]);

/// All of them, by the names of their directories in `fuzz/seeds`.
pub const TARGETS: &[(&str, Target)] = &[
    ("dump", dump),
    ("scandump", scandump),
    ("description", description),
    ("image", image),
    ("notes", notes),
];

#[cfg(test)]
#[path = "../../../fuzz/replay.rs"]
mod replay;
