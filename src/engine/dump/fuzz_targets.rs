//! Fuzz targets for dumps and the chunks of RedisBloom.

use super::error::RestoreError;
use super::format::{self, Digest, DumpReader};

use super::write;
use crate::chain::params::Defaults;
use crate::engine::{Engine, EngineOptions, FilterName, Intake, Replace};
use crate::metrics::Metrics;
use crate::store::PageStore;
use crate::store::memory::MemoryStore;
use sha2::{Digest as _, Sha256};
use std::ops::ControlFlow;
use std::sync::{Arc, OnceLock};

/// Bytes of slots that a filter may have: enough for a few pages.
const MAX_FILTER_BYTES: u64 = 1 << 20;

struct Taker {
    runtime: tokio::runtime::Runtime,
    engine: Engine,
}

impl Taker {
    /// An engine that is asked to take filters in, and nothing else.
    fn the() -> &'static Taker {
        static TAKER: OnceLock<Taker> = OnceLock::new();
        TAKER.get_or_init(|| {
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build();
            let (Ok(runtime), Ok(metrics)) = (runtime, Metrics::new()) else {
                panic!("there is no runtime, or no room for metrics");
            };
            let options = EngineOptions {
                defaults: Defaults {
                    max_filter_bytes: MAX_FILTER_BYTES,
                    ..Defaults::default()
                },
                lanes: 1,
                max_log_bytes: 16 << 20,
                checkpoint_slice_bytes: 1 << 20,
                max_queued_items: 100_000,
                ..EngineOptions::with_cache(64 << 20)
            };
            let opened = PageStore::open(Arc::new(MemoryStore::new()))
                .and_then(|store| Engine::open(Arc::new(store), &options, Arc::new(metrics)));
            match opened {
                Ok(engine) => Taker { runtime, engine },
                Err(error) => panic!("{error}"),
            }
        })
    }

    fn intake(&self) -> Intake {
        let Ok(name) = FilterName::parse("f") else {
            panic!("no filter can be called so");
        };
        let intake = self.engine.intake(&name, Replace::Nothing);
        match self.runtime.block_on(intake) {
            Ok(intake) => intake,
            Err(error) => panic!("{error}"),
        }
    }
}

/// See [`crate::engine::fuzz_targets::dump`].
pub(in crate::engine) fn dump(bytes: &[u8]) {
    let start = [&format::MAGIC[..], &[format::DUMP_VERSION]].concat();
    take_in(bytes);
    take_in(&[&start[..], bytes].concat());
    take_in(&wrapped(bytes));
}

/// The bytes as a description, whose length the first two bytes say, and pages
/// behind it, in blocks whose sums are right.
fn wrapped(bytes: &[u8]) -> Vec<u8> {
    let (length, rest) = bytes.split_at(bytes.len().min(2));
    let length = length
        .iter()
        .fold(0, |length, &byte| length << 8 | usize::from(byte));
    let (description, pages) = rest.split_at(rest.len().min(length));
    let mut whole = [&format::MAGIC[..], &[format::DUMP_VERSION]].concat();
    block(&mut whole, 1, description);
    if !pages.is_empty() {
        block(&mut whole, 2, pages);
    }
    let digest = Sha256::digest(&whole);
    block(&mut whole, 3, &digest);
    whole
}

fn block(whole: &mut Vec<u8>, kind: u8, payload: &[u8]) {
    let mut block = vec![kind];
    block.extend((payload.len() as u32).to_le_bytes());
    block.extend(payload);
    let sum = crc32c::crc32c(&block);
    whole.extend(block);
    whole.extend(sum.to_le_bytes());
}

/// A filter that is taken in has the dump that it was taken from.
fn take_in(bytes: &[u8]) {
    let taker = Taker::the();
    let Ok(staged) = taker.intake().dump(bytes) else {
        return;
    };
    assert!(staged.chain.slot_bytes() <= MAX_FILTER_BYTES);
    let Ok(mut reader) = DumpReader::open(bytes) else {
        panic!("a dump was taken in that can't be read");
    };
    while let Ok(Some(_)) = reader.next_page() {}
    assert_eq!(Some(digest_of(taker, &staged)), reader.digest());
}

fn digest_of(taker: &Taker, staged: &super::stage::StagedFilter) -> Digest {
    let store = &taker.engine.state.store;
    let share = taker.engine.state.dump_memory.take();
    let view = store.snapshot();
    let mut pace = || ControlFlow::Continue(());
    match write::measure(&view, staged.pages.id, &staged.chain, &share, &mut pace) {
        Ok(Some((digest, _))) => digest,
        _ => panic!("what was taken in can't be read"),
    }
}

/// See [`crate::engine::fuzz_targets::scandump`].
pub(in crate::engine) fn scandump(bytes: &[u8]) {
    take_chunks(bytes);
    // The bytes as a description and one chunk behind it, both in their places.
    let (description, slots) = bytes.split_at(bytes.len().min(38));
    let mut whole = Vec::new();
    for (iterator, chunk) in [(1, description), (1 + slots.len() as i64, slots)] {
        whole.extend(iterator.to_le_bytes());
        whole.extend((chunk.len() as u32).to_le_bytes());
        whole.extend(chunk);
    }
    take_chunks(&whole);
}

/// All slots of a filter that is taken in were there.
fn take_chunks(bytes: &[u8]) {
    let taker = Taker::the();
    match taker.intake().redisbloom(bytes) {
        Ok(staged) => {
            assert!(staged.chain.slot_bytes() <= MAX_FILTER_BYTES);
            let slots: u64 = staged
                .chain
                .sub_filters()
                .map(|sub| sub.layout.slots())
                .sum();
            assert!(bytes.len() as u64 >= slots);
            // It can be read, and dumped.
            digest_of(taker, &staged);
        }
        Err(RestoreError::Store(error)) => panic!("{error}"),
        Err(_) => {}
    }
}

/// What fuzzing begins with: dumps of filters of both layouts, with counters.
#[cfg(test)]
pub(in crate::engine) fn seeds() -> Vec<(&'static str, String, Vec<u8>)> {
    use super::write::DumpSink;
    use crate::chain::params::FilterRequest;
    use crate::engine::{AddOptions, FilterName, ItemBatch};
    use std::ops::ControlFlow;

    struct Whole(Vec<u8>);
    impl DumpSink for Whole {
        fn begin(&mut self, _: Digest, _: u64) -> ControlFlow<()> {
            ControlFlow::Continue(())
        }
        fn piece(&mut self, bytes: Vec<u8>) -> ControlFlow<()> {
            self.0.extend(bytes);
            ControlFlow::Continue(())
        }
    }

    let taker = Taker::the();
    let mut seeds = Vec::new();
    for (name, bucket_size, error_rate) in [
        ("classic", Some(2), None),
        ("paged", None, Some(0.01)),
        ("fine", None, Some(1e-7)),
    ] {
        let wanted = FilterRequest {
            capacity: Some(8),
            bucket_size,
            error_rate,
            ..FilterRequest::default()
        };
        let filter = FilterName::parse(name).unwrap();
        let (engine, runtime) = (&taker.engine, &taker.runtime);
        runtime
            .block_on(engine.create_filter(&filter, &wanted.into(), None))
            .unwrap();
        let mut items = ItemBatch::new();
        for n in 0..20u64 {
            items.push(&n.to_le_bytes());
        }
        // So many copies of one that they are counted beside the page.
        for _ in 0..300 {
            items.push(b"hot");
        }
        runtime
            .block_on(engine.add(&filter, &items, &AddOptions::default(), None))
            .unwrap();
        let mut whole = Whole(Vec::new());
        engine.dump(&filter, &mut whole).unwrap();
        let mut reader = DumpReader::open(whole.0.as_slice()).unwrap();
        let description = reader.description().to_vec();
        let mut inner = (description.len() as u16).to_be_bytes().to_vec();
        inner.extend(&description);
        while let Some((at, image)) = reader.next_page().unwrap() {
            inner.extend(at.sub.to_le_bytes());
            inner.extend(at.page.to_le_bytes());
            inner.extend((image.len() as u32).to_le_bytes());
            inner.extend(image);
        }
        seeds.push(("description", name.to_owned(), description));
        seeds.push(("dump", name.to_owned(), whole.0));
        seeds.push(("dump", format!("{name}-unwrapped"), inner));
    }
    let mut chunk = Vec::new();
    for number in [3u64, 4, 0, 1] {
        chunk.extend(number.to_le_bytes());
    }
    for number in [2u16, 20, 1] {
        chunk.extend(number.to_le_bytes());
    }
    chunk.extend([1, 0, 2, 0, 0, 3, 0, 0]);
    seeds.push(("scandump", "four-buckets".to_owned(), chunk));
    seeds
}
