//! What a user asks for, and what the server fills in.

use super::attributes::Attributes;
use super::placement::LayoutKind;

/// The fields a user sent; absent means "as the server's defaults say".
#[derive(Clone, Debug, Default, PartialEq)]
pub struct FilterRequest {
    /// Items that must fit before the first expansion.
    pub capacity: Option<u64>,
    /// `classic`: RedisBloom's geometry for the capacity, which it takes for a
    /// number of slots, rounded up to a power of two of buckets. Items that fit
    /// are fewer then.
    pub capacity_in_slots: bool,
    /// Layout, when the user insists.
    pub layout: Option<LayoutKind>,
    /// `paged`: probability that an item which was never added is found,
    /// 2e-8 to 0.5, kept up to `promised_growth`.
    pub error_rate: Option<f64>,
    /// `paged`: how many times its capacity the filter may have and keep its
    /// false-positive rate, 1 to 16,777,216.
    pub promised_growth: Option<u64>,
    /// `paged`: bits of a slot, 12, 16, 21 or 32, instead of a false-positive
    /// rate.
    pub fingerprint_bits: Option<u64>,
    /// `paged`: bits of the values that items have, 1 to 16; without it they
    /// have none.
    pub value_bits: Option<u64>,
    /// `paged`: values that an item is expected to have, 1 to 1,024; 1 if
    /// nothing is said.
    pub values_per_item: Option<u64>,
    /// `paged`: what rows consist of, where the values of items are rows.
    pub attributes: Option<Attributes>,
    /// `paged`: seconds after which an item expires that was not seen again, 1 to
    /// [`MAX_WINDOW_SECONDS`](super::MAX_WINDOW_SECONDS); without it none expires.
    pub window_seconds: Option<u64>,
    /// `paged`: in which steps items expire, from a 255th of the window to all of
    /// it; a 24th if nothing is said.
    pub window_resolution_seconds: Option<u64>,
    /// `classic`: slots per bucket, 1 to 255.
    pub bucket_size: Option<u64>,
    /// `classic`: longest kick-out path, 1 to 65535.
    pub max_iterations: Option<u64>,
    /// Growth factor of each further sub-filter, 0 to 32768; 0 = never grow.
    /// `paged` only tells 0 from the others.
    pub expansion: Option<u64>,
    /// Most sub-filters beyond the first, 0 to 65535; `paged`: most doublings.
    pub max_expansions: Option<u64>,
}

/// What the server fills in, and what it allows.
#[derive(Clone, Debug, PartialEq)]
pub struct Defaults {
    /// Capacity of a filter created without one, in items.
    pub capacity: u64,
    /// Layout of a filter whose fields don't tell.
    pub layout: LayoutKind,
    /// Error rate of a `paged` filter.
    pub error_rate: f64,
    /// Slots per bucket of a `classic` filter.
    pub bucket_size: u64,
    /// Longest kick-out path of a `classic` filter.
    pub max_iterations: u64,
    /// Growth factor; `None`: 2 for `paged`, 1 for `classic`.
    pub expansion: Option<u64>,
    /// Most expansions of a filter that does not say; no more than
    /// `max_chain_length` leaves.
    pub max_expansions: u64,
    /// Most sub-filters of one filter, the first included.
    pub max_chain_length: u64,
    /// Most bytes that the slots of one filter may take, all sub-filters
    /// together; stored with each filter when it is created.
    pub max_filter_bytes: u64,
    /// Most bytes that the slots of all filters together may take when another
    /// is created; `None`: no bound.
    pub max_total_bytes: Option<u64>,
    /// Filters that there may be when another is created; `None`: no bound.
    pub max_filters: Option<u64>,
    /// Filters that one API key may have created; `None`: no bound.
    pub max_filters_per_key: Option<u64>,
    /// Bytes of the slots of all filters that one API key created; `None`: no
    /// bound.
    pub max_bytes_per_key: Option<u64>,
}

impl Default for Defaults {
    fn default() -> Self {
        Defaults {
            capacity: 1024,
            layout: LayoutKind::Paged,
            error_rate: 0.001,
            bucket_size: 2,
            max_iterations: 20,
            expansion: None,
            max_expansions: 32,
            max_chain_length: 64,
            max_filter_bytes: 16 << 30,
            max_total_bytes: None,
            max_filters: None,
            max_filters_per_key: None,
            max_bytes_per_key: None,
        }
    }
}

impl Defaults {
    /// Most sub-filters beyond the first that a filter may be created with.
    pub fn most_expansions(&self) -> u64 {
        let most = self.max_chain_length.saturating_sub(1);
        most.min(u64::from(u16::MAX))
    }

    /// Expansions of a filter that does not say, and is to be as RedisBloom's: there
    /// the first sub-filter counts, too.
    pub fn redisbloom_expansions(&self) -> u64 {
        let beyond_the_first = self.max_expansions.saturating_sub(1);
        beyond_the_first.min(self.most_expansions())
    }
}

/// RedisBloom rounds the growth factor up to a power of two; 0 stays 0.
pub(super) fn round_expansion(expansion: u64) -> u32 {
    match expansion {
        0 => 0,
        factor => u32::try_from(factor.next_power_of_two()).unwrap_or(u32::MAX),
    }
}
