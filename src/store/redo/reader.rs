//! Reads the bytes of a record.

use super::entry::{
    COUNTERS, CounterWrite, HEAD_BITS, NEXT_ORDINAL, RedoError, RedoWrite, SEVERAL_SLOTS,
    SlotWrite, is_slot_width,
};
use crate::page::{FilterId, Ordinal, PageId, PageIndex};
use crate::store::varint;

/// Reads a redo record: every [`RedoWrite`] in the order of the record, all
/// of a page in a row. Allocates nothing, whatever the bytes announce.
///
/// After an error it ends. What came before the error may be nonsense too, so
/// a caller that must not apply half a record calls [`check`] first.
#[derive(Clone, Debug)]
pub struct RedoReader<'a> {
    rest: &'a [u8],
    slot_bytes: u8,
    pages_left: u64,
    entries_left: u64,
    first_page: bool,
    page: PageId,
    /// The smallest number that the next slot or counter may have. `None`
    /// behind the largest there is.
    next_number: Option<u64>,
}

/// Whether `record` can be read to its end.
///
/// # Errors
/// What is wrong with it.
pub fn check(record: &[u8]) -> Result<(), RedoError> {
    RedoReader::new(record).try_for_each(|write| write.map(|_| ()))
}

impl<'a> RedoReader<'a> {
    /// Reads from the first byte of a record.
    pub fn new(record: &'a [u8]) -> Self {
        RedoReader {
            rest: record,
            slot_bytes: 1,
            pages_left: 0,
            entries_left: 0,
            first_page: true,
            page: PageId {
                filter: FilterId(0),
                ordinal: Ordinal(0),
                page: PageIndex(0),
            },
            next_number: Some(0),
        }
    }

    fn read_write(&mut self) -> Result<RedoWrite, RedoError> {
        if self.entries_left == 0 {
            if self.pages_left == 0 {
                self.read_section_head()?;
            }
            self.read_page_head()?;
        }
        let smallest = self.next_number.ok_or(RedoError::OutOfRange)?;
        let number = self
            .read_number()?
            .checked_add(smallest)
            .ok_or(RedoError::OutOfRange)?;
        let page = self.page;
        let write = match self.slot_bytes {
            COUNTERS => RedoWrite::Counter(CounterWrite {
                page,
                key: number,
                value: self.read_number()?,
            }),
            slot_bytes => RedoWrite::Slot(SlotWrite {
                page,
                slot_bytes,
                slot: narrow(number)?,
                value: self.read_value()?,
            }),
        };
        self.next_number = number.checked_add(1);
        self.entries_left -= 1;
        Ok(write)
    }

    fn read_section_head(&mut self) -> Result<(), RedoError> {
        self.page = PageId {
            filter: FilterId(self.read_number()?),
            ordinal: Ordinal(0),
            page: PageIndex(0),
        };
        let (&slot_bytes, rest) = self.rest.split_first().ok_or(RedoError::Truncated)?;
        if slot_bytes != COUNTERS && !is_slot_width(slot_bytes) {
            return Err(RedoError::UnknownSlotWidth(slot_bytes));
        }
        self.rest = rest;
        self.slot_bytes = slot_bytes;
        self.pages_left = not_zero(self.read_number()?)?;
        self.first_page = true;
        Ok(())
    }

    fn read_page_head(&mut self) -> Result<(), RedoError> {
        let head = self.read_number()?;
        let ordinal_step = match head & NEXT_ORDINAL {
            0 => 0,
            _ => not_zero(self.read_number()?)?,
        };
        self.entries_left = match head & SEVERAL_SLOTS {
            0 => 1,
            _ => not_zero(self.read_number()?)?,
        };
        let same_sub_filter = ordinal_step == 0 && !self.first_page;
        let page_step = head >> HEAD_BITS;
        let page = match same_sub_filter {
            true => page_step + u64::from(self.page.page.0) + 1,
            false => page_step,
        };
        let ordinal = ordinal_step
            .checked_add(u64::from(self.page.ordinal.0))
            .ok_or(RedoError::OutOfRange)?;
        self.page.page = PageIndex(narrow(page)?);
        self.page.ordinal = Ordinal(narrow(ordinal)?);
        self.pages_left -= 1;
        self.first_page = false;
        self.next_number = Some(0);
        Ok(())
    }

    fn read_number(&mut self) -> Result<u64, RedoError> {
        varint::take(&mut self.rest).ok_or(match self.rest.len() {
            0..10 => RedoError::Truncated,
            _ => RedoError::OutOfRange,
        })
    }

    fn read_value(&mut self) -> Result<u64, RedoError> {
        let (bytes, rest) = self
            .rest
            .split_at_checked(usize::from(self.slot_bytes))
            .ok_or(RedoError::Truncated)?;
        self.rest = rest;
        Ok(bytes
            .iter()
            .rev()
            .fold(0, |value, &byte| value << 8 | u64::from(byte)))
    }

    fn is_at_end(&self) -> bool {
        self.rest.is_empty() && self.pages_left == 0 && self.entries_left == 0
    }

    fn stop(&mut self) {
        self.rest = &[];
        self.pages_left = 0;
        self.entries_left = 0;
    }
}

impl Iterator for RedoReader<'_> {
    type Item = Result<RedoWrite, RedoError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.is_at_end() {
            return None;
        }
        let read = self.read_write();
        if read.is_err() {
            self.stop();
        }
        Some(read)
    }
}

fn not_zero(entries: u64) -> Result<u64, RedoError> {
    match entries {
        0 => Err(RedoError::EmptyList),
        some => Ok(some),
    }
}

fn narrow(number: u64) -> Result<u32, RedoError> {
    u32::try_from(number).map_err(|_| RedoError::OutOfRange)
}
