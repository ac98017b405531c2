//! Where an item lies: for people who want to look into a filter.
//!
//! Reads what [`read`] reads, and tells of each candidate bucket
//! which slots are in use. Of other items it tells no more than that.

use super::meta::{Chain, SubFilter};
use super::read::{self, PageWords, WordAddress};
use crate::cuckoo::bucket;
use crate::cuckoo::hash::ItemHash;
use crate::cuckoo::layout::{BucketIndex, Candidates, Fingerprint};

/// Sub-filters that are told of at most, the newest.
pub const MAX_LOCATED: usize = 256;

/// Where an item lies in a chain.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Located {
    /// How often the item's class is in the whole chain, as
    /// [`count`](read::count) says.
    pub count: u64,
    /// Sub-filters of the chain.
    pub sub_filters: usize,
    /// The newest [`MAX_LOCATED`] of them, oldest first.
    pub places: Vec<Location>,
}

/// Where an item lies in one sub-filter, or would.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Location {
    /// Position of the sub-filter, 0 = oldest.
    pub position: u32,
    /// What its slots hold of the item.
    pub fingerprint: Fingerprint,
    /// The item's candidate buckets, one or two, in the order of trying.
    pub buckets: Vec<LocatedBucket>,
    /// Copies of its class that are counted beside the page.
    pub counted: u64,
}

/// A candidate bucket.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LocatedBucket {
    /// Its position in the sub-filter.
    pub bucket: BucketIndex,
    /// The page that it lies on.
    pub page: u32,
    /// Its first slot on the page.
    pub first_slot: u16,
    /// What its slots hold, in order.
    pub slots: Vec<SlotUse>,
}

/// What a slot holds, seen from one item.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SlotUse {
    /// Nothing.
    Empty,
    /// The item's fingerprint, its own or that of another item of its class.
    Match,
    /// Another fingerprint.
    Other,
}

impl Location {
    /// Slots that hold the item's fingerprint.
    pub fn matches(&self) -> usize {
        let slots = self.buckets.iter().flat_map(|it| &it.slots);
        slots.filter(|&&slot| slot == SlotUse::Match).count()
    }
}

/// Where an item lies. Looks at up to two pages a sub-filter; `None` if a word
/// was not at hand.
pub fn locate(chain: &Chain, hash: ItemHash, pages: &mut impl PageWords) -> Option<Located> {
    let sub_filters = chain.sub_filters().len();
    let untold = sub_filters.saturating_sub(MAX_LOCATED);
    let places = chain
        .sub_filters()
        .iter()
        .enumerate()
        .skip(untold)
        .map(|(position, sub)| locate_in(sub, position, hash, pages))
        .collect::<Option<Vec<_>>>()?;
    Some(Located {
        count: read::count(chain, hash, pages)?,
        sub_filters,
        places,
    })
}

fn locate_in(
    sub: &SubFilter,
    position: usize,
    hash: ItemHash,
    pages: &mut impl PageWords,
) -> Option<Location> {
    let candidates = sub.layout.candidates(hash);
    let buckets = candidates
        .buckets()
        .map(|bucket| look_into(sub, position, bucket, &candidates, pages))
        .collect::<Option<Vec<_>>>()?;
    let mut location = Location {
        position: position as u32,
        fingerprint: candidates.fingerprint,
        buckets,
        counted: 0,
    };
    // Without a slot there is no counter.
    if location.matches() > 0 {
        let (page, key) = read::counter_of(sub, position, &candidates);
        location.counted = pages.counter(page, key)?;
    }
    Some(location)
}

fn look_into(
    sub: &SubFilter,
    position: usize,
    bucket: BucketIndex,
    candidates: &Candidates,
    pages: &mut impl PageWords,
) -> Option<LocatedBucket> {
    let (width, size) = (sub.layout.slot_width(), sub.layout.bucket_size());
    let place = sub.layout.place(bucket);
    let mut slots = Vec::with_capacity(usize::from(size));
    for piece in bucket::pieces(width, place.first_slot, size) {
        let word = pages.word(WordAddress {
            sub: position as u32,
            page: place.page,
            word: piece.word,
        })?;
        slots.extend(bucket::lanes_of(width, piece).map(|lane| {
            match bucket::get(width, word, lane) {
                0 => SlotUse::Empty,
                held if held == candidates.fingerprint.0 => SlotUse::Match,
                _ => SlotUse::Other,
            }
        }));
    }
    Some(LocatedBucket {
        bucket,
        page: place.page,
        first_slot: place.first_slot,
        slots,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chain::params::{Defaults, FilterParams, FilterRequest};
    use crate::chain::plan::AddMode;
    use crate::chain::resident::ResidentFilter;
    use crate::cuckoo::hash::HashKey;
    use proptest::prelude::*;

    fn filter(request: &FilterRequest) -> ResidentFilter {
        let params = FilterParams::resolve(request, &Defaults::default()).unwrap();
        ResidentFilter::new(Chain::new(params, HashKey([7; 16]), 0).unwrap())
    }

    fn requests() -> impl Strategy<Value = FilterRequest> {
        let paged = prop_oneof![Just(8), Just(16), Just(32)].prop_map(|bits| FilterRequest {
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
        let [place] = located.places.as_slice() else {
            panic!("{located:?}");
        };
        assert_eq!(place.matches(), 1);
        let slots: Vec<SlotUse> = place
            .buckets
            .iter()
            .flat_map(|it| it.slots.clone())
            .collect();
        assert_eq!(slots.len(), 8);
        let empty = slots.iter().filter(|&&slot| slot == SlotUse::Empty);
        assert_eq!(empty.count(), 7);
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
        let length = filter.chain().sub_filters().len();
        assert!(length > MAX_LOCATED, "{length}");
        let located = filter.locate(items[0]).unwrap();
        assert_eq!(located.sub_filters, length);
        assert_eq!(located.places.len(), MAX_LOCATED);
        assert_eq!(located.places[0].position as usize, length - MAX_LOCATED);
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
            let told: u64 = located.places.iter().map(|it| it.matches() as u64 + it.counted).sum();
            prop_assert_eq!(told, located.count);
            for (place, sub) in located.places.iter().zip(filter.chain().sub_filters()) {
                let candidates = sub.layout.candidates(asked);
                let buckets: Vec<BucketIndex> = place.buckets.iter().map(|it| it.bucket).collect();
                prop_assert_eq!(buckets, candidates.buckets().collect::<Vec<_>>());
                for bucket in &place.buckets {
                    let width = sub.layout.slot_width();
                    prop_assert_eq!(bucket.slots.len(), usize::from(sub.layout.bucket_size()));
                    for (offset, slot) in bucket.slots.iter().enumerate() {
                        let (word, lane) = width.word_and_lane(bucket.first_slot + offset as u16);
                        let at = WordAddress { sub: place.position, page: bucket.page, word };
                        let held = bucket::get(width, filter.word(at), lane);
                        let expected = match held {
                            0 => SlotUse::Empty,
                            it if it == place.fingerprint.0 => SlotUse::Match,
                            _ => SlotUse::Other,
                        };
                        prop_assert_eq!(*slot, expected);
                    }
                }
            }
        }
    }
}
