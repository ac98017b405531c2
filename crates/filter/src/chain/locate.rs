//! Where an item lies, slot by slot.
//!
//! Reads what [`read`] reads, and tells of each candidate bucket
//! which slots are in use. Of other items it tells no more than that.

use super::address::PageAddress;
use super::counters;
use super::meta::Table;
use super::meta::{Chain, Link};
use super::paged::{self, Bucket};
use super::pages::PageWords;
use super::read;
use crate::cuckoo::bucket;
use crate::cuckoo::candidates::{BucketIndex, Fingerprint};
use crate::cuckoo::classic::WIDTH;
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
    /// What a slot of its first bucket would hold of the item.
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
    /// All that it knows agrees with the item: its own entry, or that of
    /// another item of its class.
    Match,
    /// Another fingerprint.
    Other,
}

impl SlotUse {
    fn of(held: u32, is_match: bool) -> SlotUse {
        match held {
            0 => SlotUse::Empty,
            _ if is_match => SlotUse::Match,
            _ => SlotUse::Other,
        }
    }
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
    let sub_filters = chain.sub_filter_count();
    let untold = sub_filters.saturating_sub(MAX_LOCATED);
    let locations = match chain.table() {
        Some(table) => vec![locate_in_table(table, hash, pages)?],
        None => {
            let links = chain.links().iter().enumerate().skip(untold);
            links
                .map(|(position, link)| locate_in(link, position, hash, pages))
                .collect::<Option<Vec<_>>>()?
        }
    };
    Some(Located {
        count: read::count(chain, hash, pages)?,
        sub_filters,
        locations,
    })
}

fn locate_in(
    link: &Link,
    position: usize,
    hash: ItemHash,
    pages: &mut impl PageWords,
) -> Option<Location> {
    let candidates = link.layout.candidates(hash);
    let size = link.layout.bucket_size();
    let look_into = |bucket: BucketIndex| {
        let at = link.layout.address(bucket);
        let page = PageAddress::new(position, at.page);
        let mut slots = Vec::with_capacity(usize::from(size));
        for piece in bucket::pieces(WIDTH, at.first_slot, size) {
            let word = pages.word(page.word(piece.word))?;
            slots.extend(bucket::lanes_of(WIDTH, piece).map(|lane| {
                let held = bucket::get(WIDTH, word, lane);
                SlotUse::of(held, held == candidates.fingerprint.0)
            }));
        }
        Some(LocatedBucket {
            bucket,
            page: at.page,
            first_slot: at.first_slot,
            slots,
        })
    };
    let buckets = candidates.buckets().map(look_into);
    let buckets = buckets.collect::<Option<Vec<_>>>()?;
    let mut location = Location {
        position: position as u32,
        fingerprint: candidates.fingerprint,
        buckets,
        counted: 0,
    };
    // Without a slot there is no counter.
    if location.matches() > 0 {
        let (page, key) = counters::address(&link.layout, position, &candidates);
        location.counted = pages.counter(page, key)?;
    }
    Some(location)
}

/// The same where pages are split: what a slot would hold of the item depends
/// on the bucket, and a slot that knows less of it matches, too.
fn locate_in_table(table: &Table, hash: ItemHash, pages: &mut impl PageWords) -> Option<Location> {
    let layout = &table.layout;
    let candidates = layout.candidates(hash);
    let mut buckets = Vec::with_capacity(2);
    for candidate in candidates {
        let (page, first_word) = layout.address(candidate.bucket);
        let bucket = Bucket::read(layout, candidate.bucket, pages)?;
        let slots = (0..).zip(bucket.slots(layout)).map(|(slot, held)| {
            let mut matching = bucket.matching(layout, &candidate);
            SlotUse::of(held, matching.any(|it| it == slot))
        });
        buckets.push(LocatedBucket {
            bucket: candidate.bucket,
            page,
            first_slot: first_word * layout.code().width().slots_per_word(),
            slots: slots.collect(),
        });
    }
    let found = buckets.iter().flat_map(|it| &it.slots);
    let in_slots = found.filter(|&&it| it == SlotUse::Match).count();
    let count = paged::read::count(table, hash, pages)?;
    Some(Location {
        position: 0,
        fingerprint: Fingerprint(candidates.first()?.slot),
        buckets,
        counted: count.saturating_sub(in_slots as u64),
    })
}

#[cfg(test)]
mod tests;
