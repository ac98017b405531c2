//! Reads the bytes of a record.

use super::entry::{
    CounterWrite, HEAD_BITS, NEXT_ORDINAL, RedoError, RedoWrite, SEVERAL_SLOTS, Section, SlotWrite,
    WholeWrite,
};
use crate::page::{FilterId, Ordinal, PageId, PageIndex};
use crate::store::format;
use cuckood_filter::varint;

/// Reads a redo record: every [`RedoWrite`] in the order of the record, all
/// of a page of a section in a row. Allocates nothing, whatever the bytes
/// announce.
///
/// After an error it ends. What came before the error may be nonsense too, so
/// a caller that must not apply half a record calls [`check`] first.
#[derive(Clone, Debug)]
pub struct RedoReader<'a> {
    rest: &'a [u8],
    section: Section,
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
            section: Section::Counters,
            pages_left: 0,
            entries_left: 0,
            first_page: true,
            page: PageId::new(FilterId(0), Ordinal(0), 0),
            next_number: Some(0),
        }
    }

    fn read_write(&mut self) -> Result<RedoWrite<'a>, RedoError> {
        if self.entries_left == 0 {
            if self.pages_left == 0 {
                self.read_section_head()?;
            }
            self.read_page_head()?;
        }
        self.entries_left -= 1;
        let page = self.page;
        let slot_bits = match self.section {
            Section::Wholes => return self.read_whole(),
            Section::Dropped => return Ok(RedoWrite::Dropped(page)),
            Section::Counters => {
                let key = self.read_step()?;
                let value = self.read_number()?;
                return Ok(RedoWrite::Counter(CounterWrite { page, key, value }));
            }
            Section::Slots(bits) => bits,
        };
        Ok(RedoWrite::Slot(SlotWrite {
            page,
            slot_bits,
            slot: narrow(self.read_step()?)?,
            value: self.read_value(slot_bits)?,
        }))
    }

    /// The number of a slot or counter.
    fn read_step(&mut self) -> Result<u64, RedoError> {
        let smallest = self.next_number.ok_or(RedoError::OutOfRange)?;
        let number = self
            .read_number()?
            .checked_add(smallest)
            .ok_or(RedoError::OutOfRange)?;
        self.next_number = number.checked_add(1);
        Ok(number)
    }

    fn read_whole(&mut self) -> Result<RedoWrite<'a>, RedoError> {
        let length = self.read_number()?;
        let length = usize::try_from(length).map_err(|_| RedoError::OutOfRange)?;
        let packed = self.read_bytes(length)?;
        format::check_page(packed).map_err(RedoError::Image)?;
        let page = self.page;
        Ok(RedoWrite::Whole(WholeWrite { page, packed }))
    }

    fn read_section_head(&mut self) -> Result<(), RedoError> {
        self.page = PageId::new(FilterId(self.read_number()?), Ordinal(0), 0);
        let (&code, rest) = self.rest.split_first().ok_or(RedoError::Truncated)?;
        self.section = Section::of(code)?;
        self.rest = rest;
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
            _ => self.several()?,
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

    /// How many entries a page has that says so.
    fn several(&mut self) -> Result<u64, RedoError> {
        match self.section {
            // A page is whole, or gone, once.
            Section::Wholes | Section::Dropped => Err(RedoError::OutOfRange),
            Section::Counters | Section::Slots(_) => not_zero(self.read_number()?),
        }
    }

    fn read_value(&mut self, bits: u8) -> Result<u64, RedoError> {
        let bytes = self.read_bytes(usize::from(bits.div_ceil(8)))?;
        let little_endian = bytes.iter().rev();
        let value = little_endian.fold(0, |value, &byte| value << 8 | u64::from(byte));
        match value >> bits {
            0 => Ok(value),
            _ => Err(RedoError::OutOfRange),
        }
    }

    fn read_bytes(&mut self, length: usize) -> Result<&'a [u8], RedoError> {
        let split = self.rest.split_at_checked(length);
        let (bytes, rest) = split.ok_or(RedoError::Truncated)?;
        self.rest = rest;
        Ok(bytes)
    }
}

impl<'a> Iterator for RedoReader<'a> {
    type Item = Result<RedoWrite<'a>, RedoError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.rest.is_empty() && self.pages_left == 0 && self.entries_left == 0 {
            return None;
        }
        let read = self.read_write();
        if read.is_err() {
            *self = RedoReader::new(&[]);
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
