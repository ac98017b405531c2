//! The loads at which pages are split, the false-positive rate, and the growth up
//! to which one can be promised.
//!
//! An absent item meets an entry whose known bits agree with its own with a
//! probability of `2^-known`, if family, bucket and anchor agree, for either
//! of its buckets. So the rate depends on nothing but how many entries know how
//! many bits: splits don't change it, since they give each page as many bits as
//! they take from the slots.

use super::code::SlotCode;
use super::pages::{Paged, slots_per_page};
use crate::cuckoo::bucket::SlotWidth;

/// When pages are split, by the load that all entries would be if no page of
/// the level had been split yet, in thousandths.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SplitLoads {
    /// The load at which the first page of a level is split.
    pub first: u64,
    /// The load at which the last one is.
    pub last: u64,
}

impl SplitLoads {
    /// Those of slots of that width.
    pub const fn of(width: SlotWidth) -> SplitLoads {
        let (first, last) = match width {
            SlotWidth::Bits8 | SlotWidth::Bits12 => (950, 1000),
            SlotWidth::Bits16 => (945, 980),
            // Buckets of three slots fill less.
            SlotWidth::Bits21 => (915, 960),
            SlotWidth::Bits32 => (945, 965),
        };
        SplitLoads { first, last }
    }
}

/// The load, in thousandths, up to which a filter that is made of a list is filled. A
/// hundredth more takes half as long again.
pub const fn load_of_list(width: SlotWidth) -> u64 {
    match width {
        SlotWidth::Bits8 | SlotWidth::Bits12 => 960,
        SlotWidth::Bits16 | SlotWidth::Bits32 => 952,
        SlotWidth::Bits21 => 925,
    }
}

/// Probability that an item which was never added is found. `known` has how
/// many entries know so many bits of their path.
pub fn false_positive_rate(layout: &Paged, known: impl Iterator<Item = (u32, u64)>) -> f64 {
    let weight: f64 = known
        .map(|(bits, entries)| entries as f64 * 0.5f64.powi(bits as i32))
        .sum();
    let buckets = f64::from(layout.families()) * f64::from(layout.buckets_per_page());
    let places = buckets * 2f64.powi(layout.code().anchor_bits() as i32);
    // Not `-0.0` for an empty filter.
    0.0 - f64::exp_m1(-2.0 * weight / places)
}

/// What each level adds to the false-positive rate, next to nothing less: at
/// the end of level `L` it is `L + 1` times this.
pub fn rate_of_level(code: SlotCode) -> f64 {
    let SplitLoads { first, last } = SplitLoads::of(code.width());
    let load = (first + last) as f64 / 2000.0;
    let slots = 2.0 * f64::from(code.bucket_size());
    slots * load / 2f64.powi(code.fingerprint_bits() as i32)
}

/// The false-positive rate of a filter that is full after so many doublings.
pub fn rate_after(code: SlotCode, doublings: u32) -> f64 {
    -f64::exp_m1(-f64::from(doublings + 1) * rate_of_level(code))
}

/// Doublings during which slots of that code keep a false-positive rate, no
/// more than they record. `None` if they don't keep it at capacity.
pub fn doublings_within(rate: f64, code: SlotCode) -> Option<u32> {
    let levels = (rate / rate_of_level(code)).floor();
    let most = most_promised(code);
    (levels >= 1.0).then(|| most.min((levels - 1.0) as u32))
}

/// Doublings that may be promised for slots of that code: beyond them entries
/// are copied.
pub fn most_promised(code: SlotCode) -> u32 {
    code.suffix_bits()
}

/// Counters beside a page that values are expected to bring, as a filter is
/// made: a quarter of what there may be.
const COUNTERS_OF_PAGE: u64 = 4096;

/// Pages of a filter that holds `capacity` items before the first of them is split. Where
/// items have so many values each, all but the first of these lie beside the pages.
pub fn pages_for_values(capacity: u64, values_per_item: u16, width: SlotWidth) -> u64 {
    let beside = u64::from(values_per_item).saturating_sub(1);
    let for_lists = capacity.saturating_mul(beside).div_ceil(COUNTERS_OF_PAGE);
    let slots_in_1000 = SplitLoads::of(width).first * slots_per_page(width);
    let for_slots = (capacity * 1000).div_ceil(slots_in_1000).max(1);
    for_slots.max(for_lists)
}
