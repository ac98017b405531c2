//! The parameters of a filter as they are stored with it.

use super::error_rate::{ErrorRate, promised_sub_filters};
use super::limits::{MAX_CAPACITY, MAX_EXPANSION, PAGE_BYTES};
use super::placement::{LayoutKind, Placement};
use crate::cuckoo::bucket::SlotWidth;
use crate::cuckoo::classic::{self, Classic};
use crate::cuckoo::layout::Layout;
use crate::cuckoo::paged::{self, Paged};

/// The parameters of one filter; valid by construction and stored with it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FilterParams {
    pub(super) capacity: u64,
    pub(super) placement: Placement,
    pub(super) expansion: u32,
    pub(super) max_expansions: u16,
    pub(super) max_filter_bytes: u64,
    pub(super) page_bytes: u32,
}

impl FilterParams {
    /// Items that fit before the first expansion.
    pub fn capacity(&self) -> u64 {
        self.capacity
    }

    /// Which layout places the fingerprints.
    pub fn layout(&self) -> LayoutKind {
        match self.placement {
            Placement::Classic { .. } => LayoutKind::Classic,
            Placement::Paged { .. } => LayoutKind::Paged,
        }
    }

    /// Slots per bucket.
    pub fn bucket_size(&self) -> u8 {
        match self.placement {
            Placement::Classic { bucket_size, .. } => bucket_size,
            Placement::Paged { .. } => paged::BUCKET_SIZE,
        }
    }

    /// Bits per slot.
    pub fn slot_width(&self) -> SlotWidth {
        match self.placement {
            Placement::Classic { .. } => SlotWidth::Bits8,
            Placement::Paged { width, .. } => width,
        }
    }

    /// The promised false-positive rate, where there is a promise.
    pub fn error_rate(&self) -> Option<f64> {
        match self.placement {
            Placement::Classic { .. } => None,
            Placement::Paged { error_rate, .. } => error_rate.map(ErrorRate::get),
        }
    }

    /// Longest kick-out path, where one may be asked for.
    pub fn max_iterations(&self) -> Option<u16> {
        match self.placement {
            Placement::Classic { max_iterations, .. } => Some(max_iterations),
            Placement::Paged { .. } => None,
        }
    }

    /// Growth factor of each further sub-filter, a power of two; 0 = never grow.
    pub fn expansion(&self) -> u32 {
        self.expansion
    }

    /// Largest number of sub-filters beyond the first.
    pub fn max_expansions(&self) -> u16 {
        self.max_expansions
    }

    /// Most bytes that the slots of all sub-filters together may take.
    pub fn max_filter_bytes(&self) -> u64 {
        self.max_filter_bytes
    }

    /// Upper bound of a page's size, in bytes.
    pub fn page_bytes(&self) -> u32 {
        self.page_bytes
    }

    /// Geometry of the sub-filter at a position: `expansion^position` times
    /// the first one's buckets. `None` if that is beyond what can be addressed.
    pub fn layout_at(&self, position: usize) -> Option<Layout> {
        let growth = match (position, self.expansion) {
            (0, _) | (_, 0 | 1) => 0,
            (_, factor) => factor.ilog2().checked_mul(u32::try_from(position).ok()?)?,
        };
        match self.placement {
            Placement::Classic { bucket_size, .. } => {
                let buckets = classic::buckets_for(self.capacity, bucket_size)
                    .checked_mul(1u64.checked_shl(growth)?)?;
                buckets.checked_mul(u64::from(bucket_size))?;
                Classic::new(buckets, bucket_size, self.page_bytes).map(Layout::Classic)
            }
            Placement::Paged { width, .. } => {
                Paged::new(paged::pages_for(self.capacity, width), growth, width).map(Layout::Paged)
            }
        }
    }

    /// Bytes that the slots of the first sub-filter take.
    pub fn first_sub_filter_bytes(&self) -> u64 {
        // At most 2^41 buckets of 255 bytes, or 2^31 pages: no overflow.
        match self.placement {
            Placement::Classic { bucket_size, .. } => {
                classic::buckets_for(self.capacity, bucket_size) * u64::from(bucket_size)
            }
            Placement::Paged { width, .. } => {
                paged::pages_for(self.capacity, width) * u64::from(self.page_bytes)
            }
        }
    }

    /// Share of a sub-filter's slots that may be used: as many as keep the
    /// promise, 0 to 1.
    pub fn load_limit(&self) -> f64 {
        match self.placement {
            Placement::Paged {
                width,
                error_rate: Some(rate),
            } => rate.load_limit(width, promised_sub_filters(u64::from(self.expansion))),
            _ => 1.0,
        }
    }

    /// Sub-filters up to which a false-positive rate is promised.
    pub fn promised_sub_filters(&self) -> u32 {
        promised_sub_filters(u64::from(self.expansion))
    }

    /// The same with another bound.
    pub(in crate::chain) fn with_max_filter_bytes(self, max_filter_bytes: u64) -> FilterParams {
        FilterParams {
            max_filter_bytes,
            ..self
        }
    }

    /// Puts stored parameters together again; `None` if they break a limit,
    /// which only corrupt bytes do.
    pub(in crate::chain) fn from_stored(stored: StoredParams) -> Option<FilterParams> {
        let smallest = match stored.placement {
            Placement::Classic {
                bucket_size,
                max_iterations,
            } if bucket_size >= 1 && max_iterations >= 1 => 2 * u64::from(bucket_size),
            Placement::Classic { .. } => return None,
            // Another width would not keep the rate, or be wasted on it.
            Placement::Paged {
                width,
                error_rate: Some(rate),
            } if width != rate.width(promised_sub_filters(u64::from(stored.expansion))) => {
                return None;
            }
            Placement::Paged { .. } => 1,
        };
        let valid = (smallest..=MAX_CAPACITY).contains(&stored.capacity)
            && u64::from(stored.expansion) <= MAX_EXPANSION
            && (stored.expansion == 0 || stored.expansion.is_power_of_two())
            && stored.page_bytes == PAGE_BYTES;
        valid.then_some(FilterParams {
            capacity: stored.capacity,
            placement: stored.placement,
            expansion: stored.expansion,
            max_expansions: stored.max_expansions,
            max_filter_bytes: stored.max_filter_bytes,
            page_bytes: stored.page_bytes,
        })
    }
}

/// Parameters as they were read, not checked yet.
pub(in crate::chain) struct StoredParams {
    pub(in crate::chain) capacity: u64,
    pub(in crate::chain) placement: Placement,
    pub(in crate::chain) page_bytes: u32,
    pub(in crate::chain) expansion: u32,
    pub(in crate::chain) max_expansions: u16,
    pub(in crate::chain) max_filter_bytes: u64,
}
