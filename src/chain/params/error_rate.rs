//! The promise of a false-positive rate, and the slots that keep it.

use super::limits::{MAX_ERROR_RATE, MIN_ERROR_RATE};
use crate::cuckoo::bucket::SlotWidth;
use crate::cuckoo::paged::rate;

/// A promised false-positive rate, from [`MIN_ERROR_RATE`] to [`MAX_ERROR_RATE`].
#[derive(Clone, Copy, Debug, PartialEq, PartialOrd)]
pub struct ErrorRate(f64);

/// It is a number.
impl Eq for ErrorRate {}

impl ErrorRate {
    /// The rate, if it is within the range.
    pub fn new(rate: f64) -> Option<ErrorRate> {
        (MIN_ERROR_RATE..=MAX_ERROR_RATE)
            .contains(&rate)
            .then_some(ErrorRate(rate))
    }

    /// The rate.
    pub fn get(self) -> f64 {
        self.0
    }

    /// The narrowest slots that keep it while a filter grows to so many times
    /// its capacity. `None` if there are none.
    pub(super) fn width(self, growth: u32) -> Option<SlotWidth> {
        let keeps = |&width: &SlotWidth| self.growth_of(width) >= growth;
        SlotWidth::PAGED.iter().copied().find(|width| keeps(width))
    }

    /// How many times its capacity a filter of slots of that width may have and
    /// keep it; 0 if not even its capacity.
    fn growth_of(self, width: SlotWidth) -> u32 {
        rate::doublings_within(self.0, width).map_or(0, |doublings| 1 << doublings)
    }

    /// The largest growth up to which any slots keep it.
    pub(super) fn largest_growth(self) -> u32 {
        let each = SlotWidth::PAGED.map(|width| self.growth_of(width));
        each.into_iter().max().unwrap_or(0)
    }
}
