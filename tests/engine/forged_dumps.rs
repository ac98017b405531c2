//! Dumps of filters that can't be, whose checksums and digest are right.

use crate::memory::MemoryStore;
use crate::support::{self, add, create, filter_count, name, options};
use cuckood::chain::meta::Chain;
use cuckood::chain::params::FilterRequest;

use cuckood::engine::{Engine, Replace, RestoreError};
use cuckood::file::{Header, Sums};
use std::sync::Arc;

/// Lineage, changes and changed, at the end of a description.
const VERSION: usize = 32;

/// A dump, and where the description of its pages begins.
struct Dump {
    header: Header,
    /// What stands behind the header, up to the checksums.
    body: Vec<u8>,
    /// Where the number of lengths stands, which eight bytes each follow.
    lengths: usize,
}

impl Dump {
    fn of(engine: &Engine, filter: &str) -> Dump {
        let mut whole = Vec::new();
        engine.dump(&name(filter), &mut whole).unwrap();
        let header = Header::decode(&whole).unwrap();
        let (parts, description) = (&header.parts, &header.description);
        // Behind the lengths are the keys and the version.
        let place = |n: usize| description.len() - VERSION - 8 - 8 * n - 1;
        let counts = |&n: &usize| usize::from(description[place(n)]) == n;
        Dump {
            lengths: place((1..20).find(counts).unwrap()),
            body: whole[parts.pages_at as usize..parts.sums_at as usize].to_vec(),
            header,
        }
    }

    /// The same with other bytes at a place of its description, and what follows from
    /// them, under sums that are right.
    fn with(&self, at: usize, bytes: &[u8]) -> Vec<u8> {
        let mut description = self.header.description.clone();
        description[at..at + bytes.len()].copy_from_slice(bytes);
        self.under(match Chain::from_portable(&description, u64::MAX) {
            Ok(chain) => Header::of(&chain).unwrap(),
            Err(_) => Header {
                description,
                ..self.header.clone()
            },
        })
    }

    fn under(&self, header: Header) -> Vec<u8> {
        let mut forged = header.encode();
        let mut sums = Sums::new(&forged, header.parts.blocks());
        let mut body = self.body.clone();
        body.resize((header.parts.sums_at - header.parts.pages_at) as usize, 0);
        sums.update(&body);
        forged.extend(body);
        forged.extend(sums.finish().0);
        forged
    }

    fn number(&self, at: usize) -> u64 {
        u64::from_le_bytes(self.header.description[at..at + 8].try_into().unwrap())
    }
}

async fn take(engine: &Engine, dump: &[u8]) -> Result<(), String> {
    let taken = engine
        .intake(&name("f"), Replace::Nothing)
        .await
        .unwrap()
        .dump(dump);
    taken.map(drop).map_err(|error| match error {
        RestoreError::Dump(error) => error.to_string(),
        other => format!("{other:?}"),
    })
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_cannot_be_of_a_filter_that_splits_pages_is_refused_whatever_its_sums_say() {
    let engine = support::engine(Arc::new(MemoryStore::new()), &options(512));
    let request = FilterRequest {
        capacity: Some(1_000),
        fingerprint_bits: Some(12),
        ..FilterRequest::default()
    };
    create(&engine, "grown", &request).await;
    add(&engine, "grown", 0..10_000).await;
    let dump = Dump::of(&engine, "grown");
    let end = dump.header.description.len();
    // Behind each other, the lengths last: see docs/format.md.
    let merge_below = dump.lengths - 8;
    let void_copies = merge_below - 8;
    let copies = void_copies - 8;
    let items = copies - 8;
    let pointer = items - 4;
    let level = pointer - 1;
    let families = level - 4;
    let first_length = dump.lengths + 1;
    let keys = end - VERSION - 8;
    assert_eq!(
        (dump.header.description[level], dump.number(items)),
        (2, 10_000)
    );
    assert_eq!(take(&engine, &dump.with(level, &[2])).await, Ok(()));

    let many = 1u64 << 40;
    let plus_one = |at| (dump.number(at) + 1).to_le_bytes();
    for (what, at, bytes) in [
        // Pages of terabytes: whoever made room for them first would not come back.
        ("a level that slots don't record", level, &[30][..]),
        ("a level beyond all numbers", level, &[255]),
        ("more pages than the level has", pointer, &[255; 4]),
        ("fewer pages than there are", pointer, &[0; 4]),
        ("other families than of the capacity", families, &[255; 4]),
        ("no family", families, &[0; 4]),
        ("more items than entries", items, &many.to_le_bytes()),
        ("copies that are not counted", copies, &plus_one(copies)),
        ("copies without number", copies, &[255; 8]),
        (
            "more void copies than entries",
            void_copies,
            &many.to_le_bytes(),
        ),
        (
            "a merge beyond all entries",
            merge_below,
            &many.to_le_bytes(),
        ),
        ("counters that are not there", keys, &plus_one(keys)),
        ("counters without number", keys, &[255; 8]),
        ("a version", end - 1, &[1]),
        ("lengths that end too early", dump.lengths, &[40]),
        ("lengths behind the last", dump.lengths, &[1]),
        ("more entries than slots", first_length, &many.to_le_bytes()),
        ("entries without number", first_length, &[255; 8]),
        (
            "other ages than the entries'",
            first_length,
            &plus_one(first_length),
        ),
    ] {
        let refused = take(&engine, &dump.with(at, bytes)).await;
        println!("{what}: {refused:?}");
        assert!(refused.is_err(), "{what}");
    }
    // As many entries, but of other ages.
    let second_length = first_length + 8;
    let mut ages = dump.header.description[first_length..second_length + 8].to_vec();
    ages[..8].copy_from_slice(&plus_one(first_length));
    ages[8..].copy_from_slice(&(dump.number(second_length) - 1).to_le_bytes());
    let ages = dump.with(first_length, &ages);
    // What readers are told is not what a server is.
    let items = Header {
        items: dump.header.items - 1,
        ..dump.header.clone()
    };
    let without_key = dump.header.clone().without_key();
    for (what, forged) in [
        ("ages that are not the entries'", ages),
        ("other items in the header", dump.under(items)),
        ("no key", dump.under(without_key)),
    ] {
        let refused = take(&engine, &forged).await;
        println!("{what}: {refused:?}");
        assert!(refused.is_err(), "{what}");
    }
    assert_eq!(filter_count(&engine).await, 1);
}
