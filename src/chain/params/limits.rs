//! What may be asked for.

use crate::cuckoo::paged;

/// Largest page, in bytes; a filter's metadata stores the size it was made with.
pub const PAGE_BYTES: u32 = paged::PAGE_BYTES;

/// Largest capacity that may be asked for, in items.
pub const MAX_CAPACITY: u64 = 1 << 40;

/// Most slots a bucket may have.
pub const MAX_BUCKET_SIZE: u64 = 255;

/// Largest growth factor from one sub-filter to the next.
pub const MAX_EXPANSION: u64 = 32_768;

/// Smallest false-positive rate that may be asked for: what slots of 32 bits keep.
pub const MIN_ERROR_RATE: f64 = 2e-8;

/// Largest false-positive rate that may be asked for.
pub const MAX_ERROR_RATE: f64 = 0.5;

/// Sub-filters up to which a false-positive rate is promised. Where each is twice as
/// large as the one before, that is 255 times the capacity.
pub const PROMISED_SUB_FILTERS: u32 = 8;

/// Most sub-filters that a server may allow a filter.
pub const MAX_CHAIN_LENGTH: u64 = 1 << 16;
