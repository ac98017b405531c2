use super::*;
use crate::answer::FullReason;
use crate::chain::params::{Defaults, FilterParams, FilterRequest};
use crate::cuckoo::hash::HashKey;
use proptest::prelude::*;

fn filter(origin: Origin, expiry: Option<Expiry>) -> StoredResponse {
    let params = FilterParams::resolve(&FilterRequest::default(), &Defaults::default()).unwrap();
    StoredResponse::Filter(Box::new(StoredFilterInfo {
        origin,
        chain: Chain::new(params, HashKey([9; 16]), 7).unwrap(),
        expiry,
        sizes: FilterSizes {
            memory_bytes: 4096,
            disk_bytes: 99,
        },
    }))
}

fn result() -> impl Strategy<Value = AddResult> {
    let results = [
        AddResult::Added,
        AddResult::Refreshed,
        AddResult::Exists,
        AddResult::Full(FullReason::MaxExpansions),
    ];
    proptest::sample::select(results.to_vec())
}

proptest! {
    #[test]
    fn results_come_back_and_take_no_more_than_announced(
        added in proptest::collection::vec(result(), 0..300), deleted: Vec<bool>,
    ) {
        let most = StoredResponse::most_bytes(added.len());
        let added = StoredResponse::Added(Runs::of(&added));
        prop_assert!(added.encode().len() <= most);
        prop_assert_eq!(StoredResponse::decode(&added.encode(), 300), Some(added));
        let most = deleted.len();
        let deleted = StoredResponse::Deleted(Runs::of(&deleted));
        if most > 0 {
            prop_assert_eq!(StoredResponse::decode(&deleted.encode(), most - 1), None);
        }
        prop_assert_eq!(StoredResponse::decode(&deleted.encode(), most), Some(deleted));
    }

    #[test]
    fn hostile_bytes_never_panic(bytes: Vec<u8>) {
        let _ = StoredResponse::decode(&bytes, 1000);
    }
}

#[test]
fn filters_and_removals_come_back() {
    let expiry = Some(Expiry {
        at_ms: 1_000,
        ttl_seconds: 1,
    });
    for answer in [
        StoredResponse::Removed,
        StoredResponse::CompactionBegun(3),
        filter(Origin::New, None),
        filter(Origin::Existing, expiry),
    ] {
        assert_eq!(StoredResponse::decode(&answer.encode(), 0), Some(answer));
    }
}

/// Seven bytes of a damaged disk once took 256 MiB.
#[test]
fn an_answer_of_more_results_than_items_is_none() {
    let most = [0, 1, 0, 0xff, 0xff, 0xff, 0xff, 0x0f];
    assert_eq!(StoredResponse::decode(&most, 250_000), None);
    let many = StoredResponse::Added(Runs::of(&[AddResult::Added; 70_000]));
    assert_eq!(StoredResponse::decode(&many.encode(), 69_999), None);
    assert_eq!(StoredResponse::decode(&many.encode(), 70_000), Some(many));
}

#[test]
fn the_bytes_are_pinned() {
    let many = StoredResponse::Added(Runs::of(&[AddResult::Added; 70_000]));
    assert_eq!(many.encode(), [0, 1, 0, 0xf0, 0xa2, 4]);
    let full = AddResult::Full(FullReason::MaxFilterBytes);
    let few = Runs::of(&[AddResult::Exists, full]);
    assert_eq!(StoredResponse::Added(few).encode(), [0, 2, 2, 1, 3, 2, 1]);
    let deleted = Runs::of(&[true, false]);
    assert_eq!(
        StoredResponse::Deleted(deleted).encode(),
        [1, 2, 1, 1, 0, 1]
    );
    assert_eq!(StoredResponse::Removed.encode(), [3]);
    let begun = StoredResponse::CompactionBegun(258).encode();
    assert_eq!(begun, [5, 0x82, 2]);
    let most = StoredResponse::CompactionBegun(u32::MAX).encode();
    assert_eq!(most.len(), StoredResponse::COMPACTION_BYTES);
    let made = filter(Origin::New, None).encode();
    assert_eq!(made[..2], [4, 0]);
    assert_eq!(made[made.len() - 4..], [0, 0x80, 0x20, 99]);
    assert!(made.len() < StoredResponse::FILTER_BYTES);
}
