//! Writes the bytes of a record.

use super::entry::{self, HEAD_BITS, NEXT_ORDINAL, SEVERAL_SLOTS};
use crate::page::{FilterId, Ordinal, PageIndex};
use crate::store::format;
use cuckood_filter::varint;

/// Writes one redo record, section by section, page by page, slot by slot.
///
/// Sections and pages to which nothing was added leave no bytes; a record
/// without any entry is empty.
#[derive(Debug, Default)]
pub struct RedoBuilder {
    record: Vec<u8>,
    section: Option<Section>,
}

#[derive(Debug)]
struct Section {
    id: FilterId,
    kind: entry::Section,
    pages: u64,
    body: Vec<u8>,
    /// The last page that left bytes.
    written: (Ordinal, PageIndex),
    open: Option<OpenPage>,
}

/// The page slots are being added to. Its head is written for one of them: how
/// many there are is put in when the page is complete.
#[derive(Debug)]
struct OpenPage {
    ordinal: Ordinal,
    page: PageIndex,
    /// Where in the body its head begins, and its entries.
    head: usize,
    first: usize,
    entries: u64,
    /// The last slot, or the last counter's key.
    last: u64,
}

impl RedoBuilder {
    /// Starts the section of the slots of filter `id`, which have so many bits.
    ///
    /// # Panics
    /// If these are not 8, 12, 16, 21 or 32.
    pub fn filter(&mut self, id: FilterId, slot_bits: u8) -> &mut Self {
        let kind = entry::Section::Slots(slot_bits);
        assert!(
            entry::Section::of(slot_bits) == Ok(kind),
            "a slot can't have {slot_bits} bits"
        );
        self.open_section(id, kind)
    }

    /// Starts the section of the counters of filter `id`.
    pub fn counters(&mut self, id: FilterId) -> &mut Self {
        self.open_section(id, entry::Section::Counters)
    }

    /// Starts the section of the pages of filter `id` that are set as a whole.
    pub fn wholes(&mut self, id: FilterId) -> &mut Self {
        self.open_section(id, entry::Section::Wholes)
    }

    /// Starts the section of the pages of filter `id` that are no more.
    pub fn dropped(&mut self, id: FilterId) -> &mut Self {
        self.open_section(id, entry::Section::Dropped)
    }

    fn open_section(&mut self, id: FilterId, kind: entry::Section) -> &mut Self {
        self.close_section();
        self.section = Some(Section {
            id,
            kind,
            pages: 0,
            body: Vec::new(),
            written: (Ordinal(0), PageIndex(0)),
            open: None,
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
    /// Without a page, in another section than one of slots, if the slot does not
    /// lie behind the one before, and if the value is wider than the slot.
    pub fn slot(&mut self, slot: u32, value: u64) -> &mut Self {
        let section = self.section_of(|kind| matches!(kind, entry::Section::Slots(_)));
        let bits = section.kind.code();
        assert!(value >> bits == 0, "a value is wider than its slot");
        section.push(u64::from(slot), |body| {
            // As many bytes each time as are copied without a loop.
            let kept = body.len() + usize::from(bits.div_ceil(8));
            body.extend_from_slice(&value.to_le_bytes());
            body.truncate(kept);
        });
        self
    }

    /// Sets a counter of the page.
    ///
    /// # Panics
    /// Without a page, in another section than one of counters, and if the key
    /// does not lie behind the one before.
    pub fn counter(&mut self, key: u64, value: u64) -> &mut Self {
        let section = self.section_of(|kind| kind == entry::Section::Counters);
        section.push(key, |body| varint::put(body, value));
        self
    }

    /// Sets a page as a whole; zeros at the end of the image may be left out.
    ///
    /// # Panics
    /// As [`page`](Self::page), and in another section than one of whole pages.
    pub fn whole(&mut self, ordinal: Ordinal, page: PageIndex, image: &[u8]) -> &mut Self {
        let section = self.section_of(|kind| kind == entry::Section::Wholes);
        section.open_page(ordinal, page);
        let packed = format::encode_page(image);
        section.put_only(|body| {
            varint::put(body, packed.len() as u64);
            body.extend_from_slice(&packed);
        });
        self
    }

    /// Says that there is no such page any more.
    ///
    /// # Panics
    /// As [`page`](Self::page), and in another section than one of such pages.
    pub fn dropped_page(&mut self, ordinal: Ordinal, page: PageIndex) -> &mut Self {
        let section = self.section_of(|kind| kind == entry::Section::Dropped);
        section.open_page(ordinal, page);
        section.put_only(|_| {});
        self
    }

    fn section_of(&mut self, is_kind: impl Fn(entry::Section) -> bool) -> &mut Section {
        match &mut self.section {
            Some(section) if is_kind(section.kind) => section,
            _ => panic!("an entry needs a section of its kind"),
        }
    }

    /// Bytes of what is complete and of the section being written.
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

    /// The record; empty if nothing was added.
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
        self.record.push(section.kind.code());
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
            head: 0,
            first: 0,
            entries: 0,
            last: 0,
        });
    }

    /// Adds the only entry of the page.
    fn put_only(&mut self, put: impl FnOnce(&mut Vec<u8>)) {
        self.begin_page();
        put(&mut self.body);
        if let Some(page) = &mut self.open {
            page.entries = 1;
        }
    }

    /// Writes the head of the open page, as it is with one entry.
    fn begin_page(&mut self) {
        let Some(page) = &mut self.open else {
            return;
        };
        page.head = self.body.len();
        let ordinal_step = page.ordinal.0 - self.written.0.0;
        let same_sub_filter = ordinal_step == 0 && self.pages > 0;
        let page_step = match same_sub_filter {
            true => page.page.0 - self.written.1.0 - 1,
            false => page.page.0,
        };
        let head = u64::from(page_step) << HEAD_BITS;
        match ordinal_step {
            0 => varint::put(&mut self.body, head),
            _ => {
                varint::put(&mut self.body, head | NEXT_ORDINAL);
                varint::put(&mut self.body, u64::from(ordinal_step));
            }
        }
        page.first = self.body.len();
        self.pages += 1;
        self.written = (page.ordinal, page.page);
    }

    /// Adds an entry: how far its number is behind the one before, and what
    /// `put_value` writes.
    fn push(&mut self, number: u64, put_value: impl FnOnce(&mut Vec<u8>)) {
        if self.open.as_ref().is_some_and(|page| page.entries == 0) {
            self.begin_page();
        }
        let Some(page) = &mut self.open else {
            panic!("a slot needs a page");
        };
        let behind = page.entries == 0 || number > page.last;
        assert!(behind, "slots ascend: {number} after {}", page.last);
        let step = match page.entries {
            0 => number,
            _ => number - page.last - 1,
        };
        varint::put(&mut self.body, step);
        put_value(&mut self.body);
        page.entries += 1;
        page.last = number;
    }

    /// Says in the head of the open page how many entries it has.
    fn close_page(&mut self) {
        let Some(page) = self.open.take().filter(|page| page.entries > 1) else {
            return;
        };
        // The number of the page lies above these bits.
        if let Some(head) = self.body.get_mut(page.head) {
            *head |= SEVERAL_SLOTS as u8;
        }
        let behind = self.body.len();
        varint::put(&mut self.body, page.entries);
        let count = self.body.len() - behind;
        if let Some(entries) = self.body.get_mut(page.first..) {
            entries.rotate_right(count);
        }
    }
}
