//! The promise of a false-positive rate, and the slots that keep it.

use super::limits::MIN_VALUE_FINGERPRINT_BITS;
use super::limits::{MAX_ERROR_RATE, MIN_ERROR_RATE};
use crate::cuckoo::bucket::SlotWidth;
use crate::cuckoo::paged::code::SlotCode;
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

    /// The narrowest slots with values of so many bits that keep it while a
    /// filter grows to so many times its capacity. `None` if there are none.
    pub(super) fn code(self, value_bits: u8, growth: u32) -> Option<SlotCode> {
        codes(value_bits).find(|&code| self.growth_of(code) >= growth)
    }

    /// How many times its capacity a filter of slots of that code may have and
    /// keep it; 0 if not even its capacity.
    fn growth_of(self, code: SlotCode) -> u32 {
        rate::doublings_within(self.0, code).map_or(0, |doublings| 1 << doublings)
    }

    /// The largest growth up to which any slots with values of so many bits keep
    /// it; 0 if none keep it at all.
    pub(super) fn largest_growth(self, value_bits: u8) -> u32 {
        let each = codes(value_bits).map(|code| self.growth_of(code));
        each.max().unwrap_or(0)
    }
}

/// How slots may be divided whose values have so many bits, the narrowest first.
pub(super) fn codes(value_bits: u8) -> impl Iterator<Item = SlotCode> {
    let all = SlotWidth::PAGED.into_iter();
    all.filter_map(move |width| code_of(width, value_bits))
}

/// The same of one width.
pub(super) fn code_of(width: SlotWidth, value_bits: u8) -> Option<SlotCode> {
    let code = SlotCode::with_values(width, value_bits)?;
    (code.fingerprint_bits() >= MIN_VALUE_FINGERPRINT_BITS).then_some(code)
}

/// The smallest rate that slots with values of so many bits keep at capacity.
pub(super) fn smallest_rate(value_bits: u8) -> f64 {
    let rates = codes(value_bits).map(rate::rate_of_level);
    rates.fold(MAX_ERROR_RATE, f64::min)
}
