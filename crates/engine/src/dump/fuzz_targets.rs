//! Fuzz targets for dumps and the chunks of RedisBloom.

use super::error::RestoreError;
use super::write;
use crate::chain::address::PageAddress;
use crate::chain::counters::CounterKey;
use crate::chain::meta::Chain;
use crate::chain::params::Defaults;
use crate::memory::MemoryStore;
use crate::metrics::Metrics;
use crate::store::PageStore;
use crate::{Engine, EngineOptions, FilterName, Intake, Replace};
use cuckood_filter::file::{FileView, Header, Sums};
use std::iter;
use std::sync::{Arc, OnceLock};

/// Bytes of slots that a filter may have: enough for a few pages.
const MAX_FILTER_BYTES: u64 = 1 << 20;

/// Bytes of a file that is made: some counters beside them.
const MAX_FILE_BYTES: u64 = 4 << 20;

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

/// See [`crate::fuzz_targets::dump`].
pub(crate) fn dump(bytes: &[u8]) {
    take_in(bytes);
    if let Some(file) = behind_a_description(bytes) {
        take_in(&file);
    }
}

/// The bytes as a description, whose length the first two bytes say, and what stands
/// behind the header, over and over again, with sums that are right.
fn behind_a_description(bytes: &[u8]) -> Option<Vec<u8>> {
    let (length, rest) = bytes.split_first_chunk()?;
    let (description, body) = rest.split_at_checked(u16::from_be_bytes(*length).into())?;
    let header = Header::of(&Chain::from_portable(description, MAX_FILTER_BYTES).ok()?)?;
    if header.parts.bytes > MAX_FILE_BYTES {
        return None;
    }
    let mut file = header.encode();
    let mut sums = Sums::new(&file, header.parts.blocks());
    let body = body.iter().copied().cycle().chain(iter::repeat(0));
    let behind = header.parts.sums_at - header.parts.pages_at;
    let body: Vec<u8> = body.take(behind as usize).collect();
    sums.update(&body);
    file.extend(body);
    file.extend(sums.finish().0);
    Some(file)
}

/// A filter that is taken in has the pages of the dump that it was taken from.
fn take_in(bytes: &[u8]) {
    let taker = Taker::the();
    let Ok(staged) = taker.intake().dump(bytes) else {
        return;
    };
    assert!(staged.chain.slot_bytes() <= MAX_FILTER_BYTES);
    let dumped = dump_of(taker, &staged);
    let (Ok(before), Ok(after)) = (FileView::open(bytes), FileView::open(&dumped[..])) else {
        panic!("what was taken in is no file");
    };
    assert!(after.verify().is_ok());
    for (sub, (layout, _)) in (0..).zip(&before.header().parts.subs) {
        for page in 0..layout.pages() {
            let at = PageAddress { sub, page };
            assert_eq!(before.page(at), after.page(at));
            let counters = [&before, &after].map(|it| it.counters(at, CounterKey::ALL));
            let [Ok(before), Ok(after)] = counters else {
                panic!("its counters can't be read");
            };
            assert!(before.iter().eq(after.iter()));
        }
    }
}

fn dump_of(taker: &Taker, staged: &super::stage::StagedFilter) -> Vec<u8> {
    let state = &taker.engine.state;
    let (view, share) = (state.store.snapshot(), state.dump_memory.take());
    let mut whole = Vec::new();
    match write::write(&view, staged.pages.id, &staged.chain, &share, &mut whole) {
        Ok(()) => whole,
        Err(error) => panic!("what was taken in can't be read: {error}"),
    }
}

/// See [`crate::fuzz_targets::scandump`].
pub(crate) fn scandump(bytes: &[u8]) {
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
            dump_of(taker, &staged);
        }
        Err(RestoreError::Store(error)) => panic!("{error}"),
        Err(_) => {}
    }
}

/// What fuzzing begins with: dumps of filters of both layouts, with counters.
#[cfg(test)]
pub(crate) fn seeds() -> Vec<(&'static str, String, Vec<u8>)> {
    use crate::chain::params::FilterRequest;
    use crate::{AddOptions, FilterName, ItemBatch};

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
        let mut items = ItemBatch::default();
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
        let mut whole = Vec::new();
        engine.dump(&filter, &mut whole).unwrap();
        let view = FileView::open(whole.as_slice()).unwrap();
        let (parts, description) = (&view.header().parts, &view.header().description);
        let mut inner = (description.len() as u16).to_be_bytes().to_vec();
        inner.extend(description);
        inner.extend(&whole[parts.pages_at as usize..parts.sums_at as usize]);
        let description = description.clone();
        seeds.push(("description", name.to_owned(), description));
        seeds.push(("dump", name.to_owned(), whole));
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
