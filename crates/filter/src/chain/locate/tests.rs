use super::*;
use crate::chain::address::WordAddress;
use crate::chain::params::{Defaults, FilterParams, FilterRequest};
use crate::chain::plan::AddMode;
use crate::cuckoo::hash::HashKey;
use crate::cuckoo::layout::Layout;
use crate::resident::ResidentFilter;
use proptest::prelude::*;

fn filter(request: &FilterRequest) -> ResidentFilter {
    let defaults = Defaults {
        max_chain_length: 1001,
        ..Defaults::default()
    };
    let params = FilterParams::resolve(request, &defaults).unwrap();
    ResidentFilter::new(Chain::new(params, HashKey([7; 16]), 0).unwrap())
}

fn requests() -> impl Strategy<Value = FilterRequest> {
    let paged =
        prop_oneof![Just(12), Just(16), Just(21), Just(32)].prop_map(|bits| FilterRequest {
            capacity: Some(100),
            fingerprint_bits: Some(bits),
            ..Default::default()
        });
    let classic = (1u64..=12).prop_map(|slots| FilterRequest {
        capacity: Some(100),
        bucket_size: Some(slots),
        ..Default::default()
    });
    prop_oneof![paged, classic]
}

#[test]
fn the_only_item_of_a_filter_lies_in_one_slot_and_all_others_are_empty() {
    let mut filter = filter(&FilterRequest::default());
    let item = filter.chain().hash(b"cuckoo");
    filter.add(&[item], AddMode::Always);
    let located = filter.locate(item).unwrap();
    assert_eq!((located.count, located.sub_filters), (1, 1));
    let [location] = located.locations.as_slice() else {
        panic!("{located:?}");
    };
    assert_eq!(location.matches(), 1);
    let slots: Vec<SlotUse> = location
        .buckets
        .iter()
        .flat_map(|it| it.slots.clone())
        .collect();
    assert_eq!(slots.len(), 6);
    let empty = slots.iter().filter(|&&slot| slot == SlotUse::Empty);
    assert_eq!(empty.count(), 5);
}

#[test]
fn a_long_chain_is_told_of_from_its_newest_end() {
    let request = FilterRequest {
        capacity: Some(4),
        bucket_size: Some(2),
        expansion: Some(1),
        max_expansions: Some(1000),
        ..Default::default()
    };
    let mut filter = filter(&request);
    let items: Vec<ItemHash> = (0..3000u32)
        .map(|it| filter.chain().hash(&it.to_le_bytes()))
        .collect();
    filter.add(&items, AddMode::Always);
    let length = filter.chain().sub_filter_count();
    assert!(length > MAX_LOCATED, "{length}");
    let located = filter.locate(items[0]).unwrap();
    assert_eq!(located.sub_filters, length);
    assert_eq!(located.locations.len(), MAX_LOCATED);
    assert_eq!(located.locations[0].position as usize, length - MAX_LOCATED);
    // What is not told of is counted all the same.
    assert_eq!(located.count, filter.count(items[0]));
}

proptest! {
    /// The oracle looks at each slot of each page by itself.
    #[test]
    fn what_is_told_agrees_with_every_slot(
        request in requests(),
        added in proptest::collection::vec(0u16..60, 1..600),
        asked in 0u16..80,
    ) {
        let mut filter = filter(&request);
        let hash = |it: u16| filter.chain().hash(&it.to_le_bytes());
        let (items, asked) = (added.iter().map(|&it| hash(it)).collect::<Vec<_>>(), hash(asked));
        filter.add(&items, AddMode::Always);
        let located = filter.locate(asked).unwrap();
        prop_assert_eq!(located.count, filter.count(asked));
        let told: u64 = located.locations.iter().map(|it| it.matches() as u64 + it.counted).sum();
        prop_assert_eq!(told, located.count);
        for (location, sub) in located.locations.iter().zip(filter.chain().sub_filters()) {
            let buckets: Vec<BucketIndex> = location.buckets.iter().map(|it| it.bucket).collect();
            let expected: Vec<BucketIndex> = match sub.layout {
                Layout::Classic(layout) => layout.candidates(asked).buckets().collect(),
                Layout::Paged(layout) => layout.candidates(asked).map(|it| it.bucket).into(),
            };
            prop_assert_eq!(buckets, expected);
            for bucket in &location.buckets {
                let width = sub.layout.slot_width();
                prop_assert_eq!(bucket.slots.len(), usize::from(sub.layout.bucket_size()));
                for (offset, slot) in bucket.slots.iter().enumerate() {
                    let (word, lane) = width.word_and_lane(bucket.first_slot + offset as u16);
                    let at = WordAddress { sub: location.position, page: bucket.page, word };
                    let held = bucket::get(width, filter.word(at), lane);
                    let expected = match held {
                        0 => SlotUse::Empty,
                        // Pages were not split: all bits are known.
                        it if it == location.fingerprint.0 => SlotUse::Match,
                        _ => SlotUse::Other,
                    };
                    prop_assert_eq!(*slot, expected);
                }
            }
        }
    }
}
