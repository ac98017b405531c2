//! Dumps of filters that can't be, whose checksums and digest are right.

use crate::support::{self, Whole, add, create, name, options};
use cuckood::chain::params::FilterRequest;
use cuckood::engine::{Engine, Replace, RestoreError};
use cuckood::store::memory::MemoryStore;
use sha2::{Digest, Sha256};
use std::sync::Arc;

/// Magic number and version.
const START: usize = 9;
/// Kind and length of a block, before its payload.
const BLOCK_HEAD: usize = 5;
const CHECKSUM: usize = 4;

/// A dump, and where the description of its pages begins.
struct Dump {
    bytes: Vec<u8>,
    /// The byte behind the description.
    end: usize,
    /// The number of lengths, which eight bytes each follow.
    lengths: usize,
}

impl Dump {
    fn of(engine: &Engine, filter: &str) -> Dump {
        let mut whole = Whole(Vec::new());
        engine.dump(&name(filter), &mut whole).unwrap();
        let length = u32::from_le_bytes(whole.0[START + 1..START + 5].try_into().unwrap());
        let end = START + BLOCK_HEAD + length as usize;
        // Behind the lengths are the changes.
        let place = |n: usize| end - 8 - 8 * n - 1;
        let counts = |&n: &usize| usize::from(whole.0[place(n)]) == n;
        Dump {
            lengths: place((1..20).find(counts).unwrap()),
            bytes: whole.0,
            end,
        }
    }

    /// The same with other bytes at a place, under sums that are right.
    fn with(&self, at: usize, bytes: &[u8]) -> Vec<u8> {
        assert!(at + bytes.len() <= self.end);
        let mut forged = self.bytes.clone();
        forged[at..at + bytes.len()].copy_from_slice(bytes);
        let sum = crc32c::crc32c(&forged[START..self.end]);
        forged[self.end..self.end + CHECKSUM].copy_from_slice(&sum.to_le_bytes());
        let digest_block = forged.len() - CHECKSUM - 32 - BLOCK_HEAD;
        let digest = Sha256::digest(&forged[..digest_block]);
        let digest_at = digest_block + BLOCK_HEAD;
        forged[digest_at..digest_at + 32].copy_from_slice(&digest);
        let sum = crc32c::crc32c(&forged[digest_block..digest_at + 32]);
        forged[digest_at + 32..].copy_from_slice(&sum.to_le_bytes());
        forged
    }

    fn number(&self, at: usize) -> u64 {
        u64::from_le_bytes(self.bytes[at..at + 8].try_into().unwrap())
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
    // Behind each other, the lengths last: see docs/format.md.
    let merge_below = dump.lengths - 8;
    let ghosts = merge_below - 8;
    let copies = ghosts - 8;
    let items = copies - 8;
    let pointer = items - 4;
    let level = pointer - 1;
    let families = level - 4;
    let first_length = dump.lengths + 1;
    assert_eq!((dump.bytes[level], dump.number(items)), (2, 10_000));
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
        ("more ghosts than entries", ghosts, &many.to_le_bytes()),
        (
            "a merge beyond all entries",
            merge_below,
            &many.to_le_bytes(),
        ),
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
    let mut ages = dump.bytes[first_length..second_length + 8].to_vec();
    ages[..8].copy_from_slice(&plus_one(first_length));
    ages[8..].copy_from_slice(&(dump.number(second_length) - 1).to_le_bytes());
    let refused = take(&engine, &dump.with(first_length, &ages)).await;
    println!("ages that are not the entries': {refused:?}");
    assert!(refused.is_err());
    assert_eq!(
        engine
            .list_filters("", None, 10)
            .await
            .unwrap()
            .filters
            .len(),
        1
    );
}
