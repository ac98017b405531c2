//! Where an item lies, slot by slot.
//!
//! Reads what [`read`] reads, and tells of each candidate bucket
//! which slots are in use. Of other items it tells no more than that.

use super::address::PageAddress;
use super::counters;
use super::meta::{Chain, SubFilter};
use super::pages::PageWords;
use super::read;
use crate::cuckoo::bucket;
use crate::cuckoo::candidates::{BucketIndex, Candidates, Fingerprint};
use crate::cuckoo::hash::ItemHash;

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
    pub locations: Vec<Location>,
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
    let locations = chain
        .sub_filters()
        .iter()
        .enumerate()
        .skip(untold)
        .map(|(position, sub)| locate_in(sub, position, hash, pages))
        .collect::<Option<Vec<_>>>()?;
    Some(Located {
        count: read::count(chain, hash, pages)?,
        sub_filters,
        locations,
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
        let (page, key) = counters::address(&sub.layout, position, &candidates);
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
    let at = sub.layout.address(bucket);
    let page = PageAddress::new(position, at.page);
    let mut slots = Vec::with_capacity(usize::from(size));
    for piece in bucket::pieces(width, at.first_slot, size) {
        let word = pages.word(page.word(piece.word))?;
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
        page: at.page,
        first_slot: at.first_slot,
        slots,
    })
}

#[cfg(test)]
mod tests;
