//! A class: entries of a page that differ in nothing but their value.

use super::bucket::page;
use crate::chain::address::PageAddress;
use crate::chain::counters::{CounterKey, CounterKeys, Counters};
use crate::chain::pages::{PageWords, PlanPages};
use crate::cuckoo::candidates::BucketIndex;
use crate::cuckoo::paged::Paged;

/// Names a class.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct Class {
    page: PageAddress,
    /// The key of its value 0.
    first: CounterKey,
    value_mask: u32,
}

impl Class {
    /// That of an entry, by its bucket and what its slot holds.
    #[inline]
    pub(super) fn of(layout: &Paged, bucket: BucketIndex, held: u32) -> Class {
        let value_mask = layout.code().value_mask();
        let stands = layout.class_bucket(bucket, held);
        Class {
            page: page(layout.address(bucket).0),
            first: key(stands, held & !value_mask),
            value_mask,
        }
    }

    /// The page that all of it lies on.
    #[inline]
    pub(super) fn page(&self) -> PageAddress {
        self.page
    }

    /// What a value of it is counted under.
    #[inline]
    pub(super) fn key(&self, value: u32) -> CounterKey {
        CounterKey(self.first.0 | u64::from(value))
    }

    /// What all its values are counted under.
    #[inline]
    pub(super) fn keys(&self) -> CounterKeys {
        self.first..=self.key(self.value_mask)
    }

    /// What is counted of it. `None` if its page is not at hand.
    pub(super) fn counted(&self, pages: &mut impl PlanPages) -> Option<Counters> {
        match pages.counters(self.page)? {
            0 => Some(Counters::default()),
            _ => pages.counters_within(self.page, self.keys()),
        }
    }

    /// How many copies are counted of it. `None` if its page is not at hand.
    pub(super) fn copies(&self, pages: &mut impl PageWords) -> Option<u64> {
        if self.value_mask == 0 {
            return pages.counter(self.page, self.first);
        }
        let counted = pages.counters_within(self.page, self.keys())?;
        Some(counted.iter().map(|it| it.1).fold(0, u64::saturating_add))
    }

    /// The value that a key of it is of.
    #[inline]
    pub(super) fn value(&self, key: CounterKey) -> u32 {
        key.0 as u32 & self.value_mask
    }
}

/// What an entry is counted under, by the bucket that stands for both of its
/// own and what a slot would hold.
#[inline]
pub(super) fn key(class_bucket: u16, slot: u32) -> CounterKey {
    CounterKey(u64::from(class_bucket) << 32 | u64::from(slot))
}
