//! The entries of a record, and the bits that its writer and reader share.

use crate::page::{PageId, Sequence};
use crate::store::error::StoreError;
use crate::store::format;

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
    /// Width of the slot in bits: 8, 12, 16, 21 or 32.
    pub slot_bits: u8,
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

/// A page as a whole, as it is after the commit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WholeWrite<'a> {
    /// The page, which may be a new one.
    pub page: PageId,
    /// Its image, packed as stored images are.
    pub(super) packed: &'a [u8],
}

impl<'a> WholeWrite<'a> {
    /// The image, without the zeros at its end; unpacked into `scratch` where it
    /// is packed.
    ///
    /// # Errors
    /// Not of a write that a reader has returned: it has looked.
    pub fn image<'s>(&self, scratch: &'s mut Vec<u8>) -> Result<&'s [u8], RedoError>
    where
        'a: 's,
    {
        format::decode_page(self.packed, scratch).map_err(RedoError::Image)
    }
}

/// An entry of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RedoWrite<'a> {
    /// A slot was set.
    Slot(SlotWrite),
    /// A counter was set.
    Counter(CounterWrite),
    /// A page was set as a whole, whatever it held before.
    Whole(WholeWrite<'a>),
    /// There is no such page any more. A later record may bring it back.
    Dropped(PageId),
}

impl RedoWrite<'_> {
    /// The page that it changes.
    pub fn page(&self) -> PageId {
        match self {
            RedoWrite::Slot(write) => write.page,
            RedoWrite::Counter(write) => write.page,
            RedoWrite::Whole(write) => write.page,
            RedoWrite::Dropped(page) => *page,
        }
    }
}

/// What the entries of a section are: its second field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Section {
    Counters,
    Wholes,
    Dropped,
    /// Slots of so many bits.
    Slots(u8),
}

impl Section {
    /// The byte that says so.
    pub(super) fn code(self) -> u8 {
        match self {
            Section::Counters => 0,
            Section::Wholes => 1,
            Section::Dropped => 2,
            Section::Slots(bits) => bits,
        }
    }

    pub(super) fn of(code: u8) -> Result<Section, RedoError> {
        match code {
            0 => Ok(Section::Counters),
            1 => Ok(Section::Wholes),
            2 => Ok(Section::Dropped),
            8 | 12 | 16 | 21 | 32 => Ok(Section::Slots(code)),
            _ => Err(RedoError::UnknownSlotWidth(code)),
        }
    }
}

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
    #[error("it has slots of {0} bits")]
    UnknownSlotWidth(u8),
    /// A section without a page, or a page without a slot.
    #[error("it announces a list without entries")]
    EmptyList,
    /// The image of a whole page can't be unpacked.
    #[error("a page in it can't be read: {0}")]
    Image(&'static str),
    /// It sets what a page of that sub-filter can't have.
    #[error("{0} has no such slot")]
    NoSuchSlot(PageId),
}

impl RedoError {
    /// Says which record it was.
    pub fn in_record(self, sequence: Sequence) -> StoreError {
        StoreError::corrupt(format!("redo record {}", sequence.0), self)
    }
}
