//! A fuzz target for files; the fuzzer calls it through the program's list, and a test
//! replays what it found.

use super::{FileError, FileView, Header, Parts, Sums};
use crate::chain::address::PageAddress;
use crate::chain::counters::CounterKey;
use crate::chain::meta::Chain;
use crate::chain::params::{Defaults, FilterParams, FilterRequest, LayoutKind};
use crate::cuckoo::hash::HashKey;
use std::iter;

/// Blocks that a file may have to be made of.
const MOST_BLOCKS: u64 = 64;

/// A file: as it is; as a header whose checksum is right; and as what stands behind the
/// header of the filter that the first byte chooses, with checksums that are right.
fn file(bytes: &[u8]) {
    ask(bytes);
    let mut sealed = bytes.to_vec();
    super::header::seal(&mut sealed);
    if let Ok(header) = Header::decode(&sealed) {
        assert!(sealed.starts_with(&header.encode()));
        if (header.parts.sums_at - header.parts.pages_at) / 4096 <= MOST_BLOCKS {
            ask(&behind(&header, &[]));
        }
    }
    let Some((&[shape, counters], body)) = bytes.split_first_chunk() else {
        return;
    };
    let (counters, mut request) = (u64::from(counters) * 16, FilterRequest::default());
    request.capacity = Some(1_000);
    match shape % 4 {
        0 => {}
        1 => request.layout = Some(LayoutKind::Classic),
        2 => request.value_bits = Some(4),
        _ => request.window_seconds = Some(100),
    }
    let params = FilterParams::resolve(&request, &Defaults::default());
    let chain = params.map(|params| Chain::new(params, HashKey([7; 16]), 0));
    let Ok(Some(chain)) = chain else {
        panic!("there is no such filter");
    };
    ask(&behind(&with_counters(&chain, counters), body));
}

/// The header of a filter, as if there were so many counters beside its pages.
pub(super) fn with_counters(chain: &Chain, counters: u64) -> Header {
    let header = Header::of(chain);
    let parts = header.as_ref().and_then(|it| {
        let layouts = it.parts.subs.iter().map(|it| it.0);
        let beside = it.window.is_none().then_some(counters);
        Parts::of(layouts, it.description.len() as u64, beside)
    });
    match header.zip(parts) {
        Some((header, parts)) => Header { parts, ..header },
        None => panic!("it is too large"),
    }
}

/// A file with that header, whose pages, and what is beside them, are the body over and
/// over again.
fn behind(header: &Header, body: &[u8]) -> Vec<u8> {
    let mut file = header.encode();
    let mut sums = Sums::new(&file, header.parts.blocks());
    let bytes = (header.parts.sums_at - header.parts.pages_at) as usize;
    let body = body.iter().copied().cycle().chain(iter::repeat(0));
    let body: Vec<u8> = body.take(bytes).collect();
    sums.update(&body);
    file.extend_from_slice(&body);
    file.extend_from_slice(&sums.finish().0);
    file
}

fn ask(file: &[u8]) {
    let Ok(view) = FileView::open(file) else {
        return;
    };
    for item in 0..64u8 {
        let item = [item; 3];
        let since = view.since(u64::from(item[0]) << 30, Some(50));
        let exists = view.exists(&item, since);
        let mut all = Vec::new();
        let group = view.exists_all([&item[..]; 3], since, &mut all);
        assert_eq!(group.map(|()| all), exists.map(|it| vec![it; 3]));
        let _ = (view.count(&item, since), view.values(&item));
    }
    for page in 0..4 {
        let page = PageAddress { sub: 0, page };
        let _ = (view.page(page), view.counters(page, CounterKey::ALL));
    }
    let damage = view.verify().err();
    let is_of_blocks = |it| matches!(it, FileError::Block(_) | FileError::Digest);
    assert!(damage.is_none_or(is_of_blocks));
}

/// What fuzzing begins with.
#[cfg(test)]
fn seeds() -> Vec<(&'static str, String, Vec<u8>)> {
    let seed = |(name, request): (String, _)| {
        let mut filter = super::tests::filter(request);
        super::tests::add(&mut filter, 0..20);
        (
            "file",
            name.replace(' ', "-"),
            super::tests::file_of(&filter),
        )
    };
    super::tests::shapes().into_iter().map(seed).collect()
}

/// Reads any bytes; panics if an assertion about them does not hold.
pub type Target = fn(&[u8]);

/// All of them, by the names of their directories in `fuzz/seeds`.
pub const TARGETS: &[(&str, Target)] = &[("file", file)];

#[cfg(test)]
#[path = "../../../../fuzz/replay.rs"]
mod replay;
