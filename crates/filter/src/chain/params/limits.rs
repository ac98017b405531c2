//! What may be asked for.

use crate::cuckoo::paged;

/// Largest page, in bytes; a filter's metadata stores the size it was made with.
pub const PAGE_BYTES: u32 = paged::PAGE_BYTES;

/// Largest capacity that may be asked for, in items.
pub const MAX_CAPACITY: u64 = 1 << 40;

/// Most slots a bucket may have.
pub const MAX_BUCKET_SIZE: u64 = 255;

/// Largest growth factor from one sub-filter of the layout `classic` to the
/// next.
pub const MAX_EXPANSION: u64 = 32_768;

/// Smallest false-positive rate that may be asked for: what slots of 32 bits keep.
pub const MIN_ERROR_RATE: f64 = 2e-8;

/// Largest false-positive rate that may be asked for.
pub const MAX_ERROR_RATE: f64 = 0.5;

/// Sub-filters up to which the false-positive rate of the layout `classic` is
/// told.
pub const PROMISED_SUB_FILTERS: u32 = 8;

/// How many times its capacity a filter of the layout `paged` may have and keep
/// its false-positive rate, unless it was asked for another number.
pub const DEFAULT_PROMISED_GROWTH: u32 = 64;

/// The same for filters that were created without a capacity: nobody knows how
/// far they will grow.
pub const PROMISED_GROWTH_WITHOUT_CAPACITY: u32 = 8192;

/// Largest growth that a promise may be asked for.
pub const MAX_PROMISED_GROWTH: u64 = 1 << 24;

/// Most bits of a value.
pub const MAX_VALUE_BITS: u64 = 16;

/// Most values of an item.
pub const MAX_VALUES_PER_ITEM: u64 = 1024;

/// Most attributes of a filter.
pub const MAX_ATTRIBUTES: usize = 8;

/// Most labels of an exact attribute.
pub const MAX_LABELS: usize = 256;

/// Longest name of an attribute.
pub const MAX_ATTRIBUTE_NAME_BYTES: usize = 64;

/// Longest label of an attribute, known or hashed.
pub const MAX_LABEL_BYTES: usize = 256;

/// Most bytes of names and labels together: they are part of the description, which
/// every commit writes.
pub(super) const MAX_NAMED_BYTES: usize = 16_384;

/// Longest window, in seconds: 10 years.
pub const MAX_WINDOW_SECONDS: u64 = 10 * 366 * 86_400;

/// Most epochs of a window.
pub const MAX_EPOCHS: u64 = 255;

/// Fewest bits of the fingerprint beside a value, or an epoch.
pub(super) const MIN_VALUE_FINGERPRINT_BITS: u32 = 12;

/// Most sub-filters that a server may allow a filter.
pub const MAX_CHAIN_LENGTH: u64 = 1 << 16;
