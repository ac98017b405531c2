//! The parameters of a filter as they are stored with it.

use super::attributes::Attributes;
use super::error_rate::{ErrorRate, code_of};
use super::growth::GrowthBounds;
use super::limits::{
    MAX_CAPACITY, MAX_EXPANSION, MAX_PROMISED_GROWTH, MAX_VALUE_BITS, MAX_VALUES_PER_ITEM,
    PAGE_BYTES, PROMISED_SUB_FILTERS,
};
use super::placement::{ClassicPlacement, LayoutKind, PagedPlacement, Placement};
use super::window::Window;
use crate::cuckoo::bucket::SlotWidth;
use crate::cuckoo::classic::{self, Classic};
use crate::cuckoo::paged::code::SlotCode;
use crate::cuckoo::paged::{Paged, rate};

/// The parameters of one filter; valid by construction and stored with it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FilterParams {
    pub(in crate::chain) capacity: u64,
    pub(in crate::chain) placement: Placement,
    pub(in crate::chain) expansion: u32,
    pub(in crate::chain) max_expansions: u16,
    pub(in crate::chain) max_filter_bytes: u64,
    /// What the values of items are made of, if they are rows.
    pub(in crate::chain) attributes: Option<Attributes>,
}

impl FilterParams {
    /// Items that fit before the first expansion.
    pub fn capacity(&self) -> u64 {
        self.capacity
    }

    /// Which layout places the fingerprints.
    pub fn layout(&self) -> LayoutKind {
        match self.placement {
            Placement::Classic(_) => LayoutKind::Classic,
            Placement::Paged(_) => LayoutKind::Paged,
        }
    }

    /// What only the layout `classic` has.
    #[inline]
    pub(in crate::chain) fn classic(&self) -> Option<&ClassicPlacement> {
        match &self.placement {
            Placement::Classic(classic) => Some(classic),
            Placement::Paged(_) => None,
        }
    }

    /// What only the layout `paged` has.
    #[inline]
    pub(in crate::chain) fn paged(&self) -> Option<&PagedPlacement> {
        match &self.placement {
            Placement::Classic(_) => None,
            Placement::Paged(paged) => Some(paged),
        }
    }

    /// Slots per bucket.
    pub fn bucket_size(&self) -> u8 {
        match self.placement {
            Placement::Classic(classic) => classic.bucket_size,
            Placement::Paged(paged) => paged.code.bucket_size(),
        }
    }

    /// Bits per slot.
    pub fn slot_width(&self) -> SlotWidth {
        self.slot_code().map_or(classic::WIDTH, |code| code.width())
    }

    /// `paged`: how a slot is divided.
    pub fn slot_code(&self) -> Option<SlotCode> {
        Some(self.paged()?.code)
    }

    /// Bits of the values that items have, or of their rows; 0 if they have none.
    pub fn value_bits(&self) -> u8 {
        match self.window() {
            Some(_) => 0,
            None => self.slot_code().map_or(0, |code| code.value_bits() as u8),
        }
    }

    /// Bits of the values that items have, if they have some that are no rows.
    pub fn plain_value_bits(&self) -> Option<u8> {
        let are_plain = self.attributes.is_none();
        Some(self.value_bits()).filter(|&bits| bits > 0 && are_plain)
    }

    /// The attributes, if the values of items are rows.
    pub fn attributes(&self) -> Option<&Attributes> {
        self.attributes.as_ref()
    }

    /// The window, if items expire.
    pub fn window(&self) -> Option<Window> {
        self.paged()?.window
    }

    /// Values that an item is expected to have, if it has any.
    pub fn values_per_item(&self) -> Option<u16> {
        Some(self.paged()?.values_per_item).filter(|&values| values > 0)
    }

    /// The promised false-positive rate, where there is a promise.
    pub fn error_rate(&self) -> Option<f64> {
        self.paged()?.error_rate.map(ErrorRate::get)
    }

    /// Longest kick-out path, where one may be asked for.
    pub fn max_iterations(&self) -> Option<u16> {
        Some(self.classic()?.max_iterations)
    }

    /// Growth factor of each further sub-filter, a power of two; 0 = never
    /// grow. `paged`: whether the filter grows.
    pub fn expansion(&self) -> u32 {
        self.expansion
    }

    /// Largest number of sub-filters beyond the first; `paged`: of doublings.
    pub fn max_expansions(&self) -> u16 {
        self.max_expansions
    }

    /// Most bytes that the slots of all pages together may take.
    pub fn max_filter_bytes(&self) -> u64 {
        self.max_filter_bytes
    }

    /// Geometry of the sub-filter at a position of a filter of the layout
    /// `classic`: `expansion^position` times the first one's buckets. `None` if
    /// that is beyond what can be addressed.
    pub(in crate::chain) fn layout_at(&self, position: usize) -> Option<Classic> {
        let bucket_size = self.classic()?.bucket_size;
        let growth = match (position, self.expansion) {
            (0, _) | (_, 0 | 1) => 0,
            (_, factor) => factor.ilog2().checked_mul(u32::try_from(position).ok()?)?,
        };
        let buckets = classic::buckets_for(self.capacity, bucket_size)
            .checked_mul(1u64.checked_shl(growth)?)?;
        buckets.checked_mul(u64::from(bucket_size))?;
        Classic::new(buckets, bucket_size)
    }

    /// Geometry of a filter of the layout `paged` before it grows. `None` if
    /// its pages could not be numbered.
    pub(in crate::chain) fn first_pages(&self) -> Option<Paged> {
        Paged::new(self.first_page_count()?, self.slot_code()?)
    }

    /// How many pages these are, whether they could be numbered or not.
    fn first_page_count(&self) -> Option<u64> {
        let (of_item, width) = (self.paged()?.values_per_item, self.paged()?.code.width());
        Some(rate::pages_for_values(self.capacity, of_item, width))
    }

    /// Whether the pages that it begins with could be numbered.
    pub fn can_be_numbered(&self) -> bool {
        self.layout_at(0).is_some() || self.first_pages().is_some()
    }

    /// How far a filter of the layout `paged` may grow.
    pub(in crate::chain) fn growth_bounds(&self) -> GrowthBounds {
        GrowthBounds {
            grows: self.expansion > 0,
            max_doublings: self.max_expansions,
            max_bytes: self.max_filter_bytes,
        }
    }

    /// Bytes that the slots take before the filter grows.
    pub fn first_bytes(&self) -> u64 {
        // At most 2^41 buckets of 255 bytes, or 2^31 pages: no overflow.
        match self.first_page_count() {
            Some(pages) => pages * u64::from(PAGE_BYTES),
            None => {
                let bucket_size = self.bucket_size();
                classic::buckets_for(self.capacity, bucket_size) * u64::from(bucket_size)
            }
        }
    }

    /// Sub-filters up to which the false-positive rate of the layout `classic`
    /// is told.
    pub fn promised_sub_filters(&self) -> u32 {
        match self.expansion {
            0 => 1,
            _ => PROMISED_SUB_FILTERS,
        }
    }

    /// `paged`: how many times its capacity the filter may have and keep its
    /// promise.
    pub fn promised_growth(&self) -> Option<u32> {
        Some(self.paged()?.promised_growth)
    }

    /// `paged`: how many times its first pages the filter may have, as far as
    /// its slots record it.
    pub fn max_growth(&self) -> Option<u32> {
        Some(self.first_pages()?.max_growth())
    }

    /// `paged`: the expected false-positive rate at that growth.
    pub(in crate::chain) fn promised_rate(&self) -> Option<f64> {
        let doublings = doublings_of(self.promised_growth()?);
        Some(rate::rate_after(self.slot_code()?, doublings))
    }

    /// Stored parameters, unless they break a limit, which only corrupt bytes do.
    pub(in crate::chain) fn checked(self) -> Option<FilterParams> {
        let is_right = match self.placement {
            Placement::Classic(it) => it.bucket_size >= 1 && it.max_iterations >= 1,
            Placement::Paged(it) => it.is_right(),
        };
        let are_rows_right = self.attributes.as_ref().is_none_or(|rows| {
            let code = self.slot_code().filter(|_| self.window().is_none());
            code.is_some_and(|code| code.value_bits() == u32::from(rows.bits()))
        });
        let is_valid = is_right
            && are_rows_right
            // What RedisBloom makes of the smallest capacity is less than here.
            && (1..=MAX_CAPACITY).contains(&self.capacity)
            && u64::from(self.expansion) <= MAX_EXPANSION
            && (self.expansion == 0 || self.expansion.is_power_of_two());
        is_valid.then_some(self)
    }
}

impl PagedPlacement {
    /// Whether it breaks no limit.
    fn is_right(&self) -> bool {
        let (code, growth) = (self.code, self.promised_growth);
        let value_bits = code.value_bits() as u8;
        // Another width would not keep the rate, or be wasted on it.
        let keeps = match self.error_rate {
            Some(rate) => rate.code(value_bits, growth) == Some(code),
            None => {
                doublings_of(growth) <= rate::most_promised(code)
                    && code_of(code.width(), value_bits) == Some(code)
            }
        };
        let values = match (value_bits, self.window) {
            (0, _) | (_, Some(_)) => 0..=0,
            _ => 1..=MAX_VALUES_PER_ITEM,
        };
        keeps
            && self.window.is_none_or(|it| it.epoch_bits() == value_bits)
            && (1..=MAX_PROMISED_GROWTH).contains(&u64::from(growth))
            && values.contains(&u64::from(self.values_per_item))
            && u64::from(value_bits) <= MAX_VALUE_BITS
    }
}

/// Doublings after which a filter has grown so many times.
pub(super) fn doublings_of(growth: u32) -> u32 {
    growth.next_power_of_two().ilog2()
}
