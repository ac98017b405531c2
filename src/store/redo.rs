//! The redo record: which slots of which pages one commit set to what, and
//! which counters beside them.
//!
//! A record is a list of sections, each of one filter and either of slots or of
//! counters; a section lists pages in ascending order, a page lists slots, or
//! counters, in ascending order. Numbers are written
//! as differences to the one before, so that a slot written at random costs
//! about four bytes. Values are absolute: applying a record twice is applying
//! it once. What a page or a slot means is not known here.
//!
//! The bytes are tabulated in `docs/format.md`. The envelope with version and
//! checksum is put around a record by [`format`](super::format).

use super::error::StoreError;
use super::varint;
use crate::page::{FilterId, Ordinal, PageId, PageIndex, Sequence};

/// Set in a page's head when it has more than one slot; their number follows.
const SEVERAL_SLOTS: u64 = 0b01;
/// Set in a page's head when it lies in another sub-filter than the page
/// before; the difference of the ordinals follows.
const NEXT_ORDINAL: u64 = 0b10;
/// Bits of a page's head below the page number.
const HEAD_BITS: u32 = 2;

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
const COUNTERS: u8 = 0;

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

/// Writes one redo record, section by section, page by page, slot by slot.
///
/// Sections and pages to which nothing was added leave no bytes; a record
/// without any slot is empty.
#[derive(Debug, Default)]
pub struct RedoBuilder {
    record: Vec<u8>,
    section: Option<Section>,
}

#[derive(Debug)]
struct Section {
    id: FilterId,
    slot_bytes: u8,
    pages: u64,
    body: Vec<u8>,
    /// The last page that left bytes.
    written: (Ordinal, PageIndex),
    open: Option<OpenPage>,
    /// The entries of the open page.
    entries: Vec<u8>,
}

/// The page slots are being added to. Its head says how many there are, so
/// their bytes wait until the page is complete.
#[derive(Debug)]
struct OpenPage {
    ordinal: Ordinal,
    page: PageIndex,
    entries: u64,
    /// The last slot, or the last counter's key.
    last: u64,
}

impl RedoBuilder {
    /// A record without anything in it.
    pub fn new() -> Self {
        Self::default()
    }

    /// Starts the section of filter `id`, whose slots are `slot_bytes` wide.
    ///
    /// # Panics
    /// If the width is not 1, 2, 4 or 8.
    pub fn filter(&mut self, id: FilterId, slot_bytes: u8) -> &mut Self {
        assert!(
            is_slot_width(slot_bytes),
            "a slot can't have {slot_bytes} bytes"
        );
        self.open_section(id, slot_bytes)
    }

    /// Starts the section of the counters of filter `id`.
    pub fn counters(&mut self, id: FilterId) -> &mut Self {
        self.open_section(id, COUNTERS)
    }

    fn open_section(&mut self, id: FilterId, slot_bytes: u8) -> &mut Self {
        self.close_section();
        self.section = Some(Section {
            id,
            slot_bytes,
            pages: 0,
            body: Vec::new(),
            written: (Ordinal(0), PageIndex(0)),
            open: None,
            entries: Vec::new(),
        });
        self
    }

    /// Goes on to a page of the section.
    ///
    /// # Panics
    /// Without a section, and if the page does not lie behind the one before:
    /// a record that was written wrong would be replayed wrong.
    pub fn page(&mut self, ordinal: Ordinal, page: PageIndex) -> &mut Self {
        let Some(section) = &mut self.section else {
            panic!("a page needs a section");
        };
        section.open_page(ordinal, page);
        self
    }

    /// Sets a slot of the page.
    ///
    /// # Panics
    /// Without a page, if the slot does not lie behind the one before, and if
    /// the value is wider than the slot.
    pub fn slot(&mut self, slot: u32, value: u64) -> &mut Self {
        let Some(section) = &mut self.section else {
            panic!("a slot needs a section");
        };
        let bytes = value.to_le_bytes();
        let (kept, cut) = bytes.split_at(usize::from(section.slot_bytes));
        assert!(
            cut.iter().all(|&byte| byte == 0),
            "a value is wider than its slot"
        );
        section.push(u64::from(slot), |body| body.extend_from_slice(kept));
        self
    }

    /// Sets a counter of the page.
    ///
    /// # Panics
    /// Without a page, in a section of slots, and if the key does not lie
    /// behind the one before.
    pub fn counter(&mut self, key: u64, value: u64) -> &mut Self {
        let Some(section) = &mut self.section else {
            panic!("a counter needs a section");
        };
        assert!(
            section.slot_bytes == COUNTERS,
            "a counter needs a section of counters"
        );
        section.push(key, |body| varint::put(body, value));
        self
    }

    /// Bytes of what is complete and of the section being written; the page
    /// being written is not counted.
    pub fn len(&self) -> usize {
        self.record.len()
            + self
                .section
                .as_ref()
                .map_or(0, |section| section.body.len())
    }

    /// Whether nothing is complete yet.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The record; empty if no slot was set.
    pub fn finish(mut self) -> Vec<u8> {
        self.close_section();
        self.record
    }

    fn close_section(&mut self) {
        let Some(mut section) = self.section.take() else {
            return;
        };
        section.close_page();
        if section.pages == 0 {
            return;
        }
        varint::put(&mut self.record, section.id.0);
        self.record.push(section.slot_bytes);
        varint::put(&mut self.record, section.pages);
        self.record.append(&mut section.body);
    }
}

impl Section {
    fn open_page(&mut self, ordinal: Ordinal, page: PageIndex) {
        self.close_page();
        let behind = self.pages == 0 || (ordinal, page) > self.written;
        assert!(
            behind,
            "pages ascend: {ordinal:?} {page:?} after {:?}",
            self.written
        );
        self.open = Some(OpenPage {
            ordinal,
            page,
            entries: 0,
            last: 0,
        });
    }

    /// Adds an entry: how far its number is behind the one before, and what
    /// `put_value` writes.
    fn push(&mut self, number: u64, put_value: impl FnOnce(&mut Vec<u8>)) {
        let Some(page) = &mut self.open else {
            panic!("a slot needs a page");
        };
        let behind = page.entries == 0 || number > page.last;
        assert!(behind, "slots ascend: {number} after {}", page.last);
        let step = match page.entries {
            0 => number,
            _ => number - page.last - 1,
        };
        varint::put(&mut self.entries, step);
        put_value(&mut self.entries);
        page.entries += 1;
        page.last = number;
    }

    fn close_page(&mut self) {
        let Some(page) = self.open.take() else {
            return;
        };
        if page.entries == 0 {
            return;
        }
        let ordinal_step = page.ordinal.0 - self.written.0.0;
        let same_sub_filter = ordinal_step == 0 && self.pages > 0;
        let page_step = match same_sub_filter {
            true => page.page.0 - self.written.1.0 - 1,
            false => page.page.0,
        };

        let mut head = u64::from(page_step) << HEAD_BITS;
        if page.entries > 1 {
            head |= SEVERAL_SLOTS;
        }
        if ordinal_step > 0 {
            head |= NEXT_ORDINAL;
        }
        varint::put(&mut self.body, head);
        if ordinal_step > 0 {
            varint::put(&mut self.body, u64::from(ordinal_step));
        }
        if page.entries > 1 {
            varint::put(&mut self.body, page.entries);
        }
        self.body.append(&mut self.entries);
        self.pages += 1;
        self.written = (page.ordinal, page.page);
    }
}

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

fn is_slot_width(bytes: u8) -> bool {
    matches!(bytes, 1 | 2 | 4 | 8)
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

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::collection::{btree_map, vec};
    use proptest::prelude::*;
    use proptest::sample::select;
    use std::collections::{BTreeMap, BTreeSet};

    type Pages = BTreeMap<(u32, u32), BTreeMap<u32, u64>>;

    fn write(
        filter: u64,
        ordinal: u32,
        page: u32,
        slot_bytes: u8,
        slot: u32,
        value: u64,
    ) -> RedoWrite {
        let page = PageId {
            filter: FilterId(filter),
            ordinal: Ordinal(ordinal),
            page: PageIndex(page),
        };
        match slot_bytes {
            COUNTERS => RedoWrite::Counter(CounterWrite {
                page,
                key: u64::from(slot) << 16,
                value,
            }),
            _ => RedoWrite::Slot(SlotWrite {
                page,
                slot_bytes,
                slot,
                value,
            }),
        }
    }

    fn build(sections: &[(u64, u8, Pages)]) -> (Vec<u8>, Vec<RedoWrite>) {
        let mut builder = RedoBuilder::new();
        let mut writes = Vec::new();
        for (filter, slot_bytes, pages) in sections {
            match *slot_bytes {
                COUNTERS => builder.counters(FilterId(*filter)),
                slot_bytes => builder.filter(FilterId(*filter), slot_bytes),
            };
            for (&(ordinal, page), slots) in pages {
                builder.page(Ordinal(ordinal), PageIndex(page));
                for (&slot, &value) in slots {
                    let value = match *slot_bytes {
                        COUNTERS => {
                            builder.counter(u64::from(slot) << 16, value);
                            value
                        }
                        slot_bytes => {
                            let value = value >> (64 - 8 * u32::from(slot_bytes));
                            builder.slot(slot, value);
                            value
                        }
                    };
                    writes.push(write(*filter, ordinal, page, *slot_bytes, slot, value));
                }
            }
        }
        (builder.finish(), writes)
    }

    fn edgy_u32() -> impl Strategy<Value = u32> {
        prop_oneof![any::<u32>(), 0..200u32, Just(u32::MAX), Just(u32::MAX - 1)]
    }

    fn sections() -> impl Strategy<Value = Vec<(u64, u8, Pages)>> {
        let slots = btree_map(edgy_u32(), any::<u64>(), 0..6);
        let ordinal = prop_oneof![0..3u32, Just(u32::MAX)];
        let pages = btree_map((ordinal, edgy_u32()), slots, 0..8);
        vec(
            (any::<u64>(), select(vec![COUNTERS, 1, 2, 4, 8]), pages),
            0..5,
        )
    }

    proptest! {
        #[test]
        fn every_slot_write_comes_back(sections in sections()) {
            let (record, writes) = build(&sections);
            let read: Result<Vec<_>, _> = RedoReader::new(&record).collect();
            prop_assert_eq!(read, Ok(writes));
        }

        #[test]
        fn hostile_bytes_never_panic(bytes: Vec<u8>) {
            let _ = RedoReader::new(&bytes).count();
        }

        #[test]
        fn a_damaged_record_never_panics_and_never_grows(
            sections in sections(), at: prop::sample::Index, flip in 1u8..,
        ) {
            let (mut record, _) = build(&sections);
            prop_assume!(!record.is_empty());
            let at = at.index(record.len());
            record[at] ^= flip;
            prop_assert!(RedoReader::new(&record).count() <= record.len());
        }

        #[test]
        fn a_record_cut_short_is_an_error_or_a_whole_prefix(
            sections in sections(), at: prop::sample::Index,
        ) {
            let (record, writes) = build(&sections);
            prop_assume!(!record.is_empty());
            let cut = &record[..at.index(record.len())];
            if check(cut).is_ok() {
                let read: Vec<_> = RedoReader::new(cut).map(|write| write.unwrap()).collect();
                prop_assert!(writes.starts_with(&read));
            }
        }
    }

    #[test]
    fn the_bytes_are_pinned() {
        let mut builder = RedoBuilder::new();
        builder.filter(FilterId(300), 2);
        builder
            .page(Ordinal(0), PageIndex(5))
            .slot(7, 0x1234)
            .slot(9, 0);
        builder.page(Ordinal(0), PageIndex(6)).slot(1, 1);
        builder.page(Ordinal(2), PageIndex(3)).slot(0, 0xffff);
        let expected = [
            0xac,
            0x02,
            2,
            3, // filter 300, two bytes a slot, three pages
            5 << 2 | 1,
            2,
            7,
            0x34,
            0x12,
            1,
            0,
            0, // page 5, two slots
            0,
            1,
            1,
            0, // next page, one slot
            3 << 2 | 2,
            2,
            0,
            0xff,
            0xff, // two ordinals on, page 3, one slot
        ];
        assert_eq!(builder.finish(), expected);
    }

    #[test]
    fn the_bytes_of_counters_are_pinned() {
        let mut builder = RedoBuilder::new();
        builder.filter(FilterId(3), 1);
        builder.page(Ordinal(0), PageIndex(1)).slot(2, 9);
        builder.counters(FilterId(3));
        builder
            .page(Ordinal(0), PageIndex(1))
            .counter(0x1_0000_0009, 300)
            .counter(0x1_0000_000b, 0);
        let expected = [
            3,
            1,
            1,
            1 << 2,
            2,
            9, // slot 2 of page 1 = 9
            3,
            0,
            1,
            1 << 2 | 1,
            2, // two counters of page 1
            0x89,
            0x80,
            0x80,
            0x80,
            0x10,
            0xac,
            0x02, // the first = 300
            1,
            0, // the one after the next = 0
        ];
        assert_eq!(builder.finish(), expected);
    }

    #[test]
    fn a_record_without_slots_is_empty() {
        let mut builder = RedoBuilder::new();
        builder
            .filter(FilterId(1), 1)
            .page(Ordinal(0), PageIndex(0));
        builder.filter(FilterId(2), 8);
        assert!(builder.finish().is_empty());
        assert_eq!(RedoReader::new(&[]).next(), None);
    }

    #[test]
    fn a_thousand_random_slots_cost_less_than_five_bytes_each() {
        // xorshift, fixed seed: the sizes are the same on every run.
        let mut state = 0x9e37_79b9_7f4a_7c15u64;
        let mut random = |below: u64| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            state % below
        };
        let slots: BTreeSet<(u32, u32)> = (0..1000)
            .map(|_| (random(5000) as u32, random(4096) as u32))
            .collect();
        let mut builder = RedoBuilder::new();
        builder.filter(FilterId(1), 1);
        let mut open = None;
        for &(page, slot) in &slots {
            if open != Some(page) {
                builder.page(Ordinal(0), PageIndex(page));
                open = Some(page);
            }
            builder.slot(slot, 255);
        }
        let per_slot = builder.finish().len() as f64 / slots.len() as f64;
        assert!(per_slot < 4.2, "{per_slot} bytes a slot");
    }

    #[test]
    fn announced_lengths_are_not_believed() {
        let mut record = Vec::new();
        varint::put(&mut record, 1);
        record.push(1);
        varint::put(&mut record, u64::MAX);
        varint::put(&mut record, SEVERAL_SLOTS);
        varint::put(&mut record, u64::MAX);
        record.extend([0, 1]);
        let read: Vec<_> = RedoReader::new(&record).collect();
        assert_eq!(
            read,
            [Ok(write(1, 0, 0, 1, 0, 1)), Err(RedoError::Truncated)]
        );
    }

    #[test]
    fn numbers_out_of_range_are_refused() {
        let bad_width = [1, 3, 1, 0, 0, 0];
        assert_eq!(check(&bad_width), Err(RedoError::UnknownSlotWidth(3)));
        let no_pages = [1, 1, 0];
        assert_eq!(check(&no_pages), Err(RedoError::EmptyList));
        let no_slots = [1, 1, 1, 1, 0];
        assert_eq!(check(&no_slots), Err(RedoError::EmptyList));

        let mut wide_slot = vec![1, 1, 1, 0];
        varint::put(&mut wide_slot, u64::MAX);
        wide_slot.push(0);
        assert_eq!(check(&wide_slot), Err(RedoError::OutOfRange));

        let mut wide_page = vec![1, 1, 1];
        varint::put(&mut wide_page, !0b11);
        wide_page.extend([0, 0]);
        assert_eq!(check(&wide_page), Err(RedoError::OutOfRange));
    }

    #[test]
    #[should_panic(expected = "slots ascend")]
    fn slots_out_of_order_are_not_written() {
        let mut builder = RedoBuilder::new();
        builder
            .filter(FilterId(1), 1)
            .page(Ordinal(0), PageIndex(0))
            .slot(3, 1)
            .slot(3, 2);
    }

    #[test]
    #[should_panic(expected = "pages ascend")]
    fn pages_out_of_order_are_not_written() {
        let mut builder = RedoBuilder::new();
        builder
            .filter(FilterId(1), 1)
            .page(Ordinal(1), PageIndex(0))
            .slot(3, 1);
        builder.page(Ordinal(0), PageIndex(9));
    }

    #[test]
    #[should_panic(expected = "wider than its slot")]
    fn a_value_wider_than_its_slot_is_not_written() {
        let mut builder = RedoBuilder::new();
        builder
            .filter(FilterId(1), 1)
            .page(Ordinal(0), PageIndex(0))
            .slot(3, 256);
    }

    #[test]
    fn an_error_names_the_record() {
        let error = RedoError::Truncated.in_record(Sequence(7));
        assert_eq!(error.to_string(), "redo record 7 is corrupt: it ends early");
    }
}
