//! The promise of a false-positive rate: which slots keep it, and how full they may be.

use super::limits::{MAX_ERROR_RATE, MIN_ERROR_RATE, PROMISED_SUB_FILTERS};
use crate::cuckoo::bucket::SlotWidth;
use crate::cuckoo::paged;

/// The load of full sub-filters that a promise reckons with.
pub(super) const PROMISED_LOAD: f64 = 0.95;

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

    /// The narrowest slots that keep it over so many sub-filters. The widest
    /// keep the smallest rate there is.
    pub(super) fn width(self, sub_filters: u32) -> SlotWidth {
        let met = f64::from(sub_filters) * f64::from(2 * paged::BUCKET_SIZE) * PROMISED_LOAD;
        SlotWidth::ALL
            .into_iter()
            .find(|width| met / 2f64.powi(i32::from(width.bits())) <= self.0)
            .unwrap_or(SlotWidth::Bits32)
    }

    /// The load up to which so many sub-filters of that width keep it, at most
    /// 1: the compound of `n` rates `r` is `1 - (1 - r)^n`.
    pub(super) fn load_limit(self, width: SlotWidth, sub_filters: u32) -> f64 {
        let rate_of_one = -f64::exp_m1(f64::ln_1p(-self.0) / f64::from(sub_filters));
        let slot_missed = f64::ln_1p(-1.0 / f64::from(width.fingerprints()));
        let slots_met = f64::ln_1p(-rate_of_one) / slot_missed;
        (slots_met / f64::from(2 * paged::BUCKET_SIZE)).min(1.0)
    }
}

/// Sub-filters that a promise must hold for.
pub(super) fn promised_sub_filters(expansion: u64) -> u32 {
    match expansion {
        0 => 1,
        _ => PROMISED_SUB_FILTERS,
    }
}
