//! The entries of a record, and the bits that its writer and reader share.

use crate::page::{PageId, Sequence};
use crate::store::error::StoreError;

/// Set in a page's head when it has more than one slot; their number follows.
pub(super) const SEVERAL_SLOTS: u64 = 0b01;
/// Set in a page's head when it lies in another sub-filter than the page
/// before; the difference of the ordinals follows.
pub(super) const NEXT_ORDINAL: u64 = 0b10;
/// Bits of a page's head below the page number.
pub(super) const HEAD_BITS: u32 = 2;

/// One slot and the value it has after the commit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SlotWrite {
    /// The page that holds the slot.
    pub page: PageId,
    /// Width of the slot in bytes: 1, 2, 4 or 8.
    pub slot_bytes: u8,
    /// Number of the slot within the page, 0-based.
    pub slot: u32,
    /// Its value; fits the width.
    pub value: u64,
}

/// One counter beside a page and the value it has after the commit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CounterWrite {
    /// The page that it belongs to.
    pub page: PageId,
    /// Names it among the counters of the page.
    pub key: u64,
    /// Its value; 0: there is no such counter.
    pub value: u64,
}

/// An entry of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RedoWrite {
    /// A slot was set.
    Slot(SlotWrite),
    /// A counter was set.
    Counter(CounterWrite),
}

impl RedoWrite {
    /// The page that it changes.
    pub fn page(&self) -> PageId {
        match self {
            RedoWrite::Slot(write) => write.page,
            RedoWrite::Counter(write) => write.page,
        }
    }
}

/// Stands for the slot width in a section of counters.
pub(super) const COUNTERS: u8 = 0;

/// Why bytes are no redo record.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RedoError {
    /// They end where more is announced.
    #[error("it ends early")]
    Truncated,
    /// A number does not fit where it is used.
    #[error("a number in it is out of range")]
    OutOfRange,
    /// A section has slots of a width that there is not.
    #[error("it has slots of {0} bytes")]
    UnknownSlotWidth(u8),
    /// A section without a page, or a page without a slot.
    #[error("it announces a list without entries")]
    EmptyList,
}

impl RedoError {
    /// Says which record it was.
    pub fn in_record(self, sequence: Sequence) -> StoreError {
        StoreError::Corrupt {
            what: format!("redo record {}", sequence.0),
            reason: self.to_string(),
        }
    }
}

pub(super) fn is_slot_width(bytes: u8) -> bool {
    matches!(bytes, 1 | 2 | 4 | 8)
}
