//! What the stored image of a page holds: its slots, and behind them, if it has
//! any, its side counters. To the store both are bytes.

use super::geometry::PageGeometry;
use crate::page::PageId;
use crate::store::StoreError;
use crate::store::format::MAX_IMAGE_BYTES;
use cuckood_filter::chain::counters::{CounterKey, Counters, CountersError, MAX_VALUE_COUNTERS};
use cuckood_filter::chain::pages::WholePage;
use cuckood_filter::chain::params::PAGE_BYTES;
use cuckood_filter::cuckoo::bucket::{self, SlotWidth};
use std::sync::Arc;

/// The store takes whatever a page may have.
const _: () = assert!(
    PAGE_BYTES as usize + MAX_VALUE_COUNTERS * Counters::MAX_ENTRY_BYTES <= MAX_IMAGE_BYTES
);

/// A page as it comes from the store.
#[derive(Clone, Default)]
pub struct PageImage<'a> {
    /// Its slots; zeros at the end may be left out.
    pub slots: &'a [u8],
    /// Its counters, if it has any.
    pub counters: Option<Arc<Counters>>,
}

/// Takes a stored image apart. `page_bytes` is what the page's slots take.
///
/// # Errors
/// Bytes that [`encode`] would not write; the error names the page.
pub fn decode(bytes: &[u8], page_bytes: u32, id: PageId) -> Result<PageImage<'_>, StoreError> {
    parse(bytes, page_bytes).map_err(|error| StoreError::corrupt(id.to_string(), error))
}

/// The same for bytes that are no stored page yet.
///
/// # Errors
/// Bytes that [`encode`] would not write.
pub fn parse(bytes: &[u8], page_bytes: u32) -> Result<PageImage<'_>, CountersError> {
    let page = bytes.split_at_checked(page_bytes as usize);
    let (slots, behind) = page.unwrap_or((bytes, &[]));
    let counters = match behind {
        [] => None,
        _ => Some(Arc::new(Counters::decode(behind)?)),
    };
    Ok(PageImage { slots, counters })
}

/// Puts an image together.
pub fn encode(
    words: impl Iterator<Item = u64>,
    page_bytes: u32,
    counters: Option<&Counters>,
) -> Vec<u8> {
    let page_bytes = page_bytes as usize;
    // Most counters take fewer bytes.
    let behind = counters.map_or(0, |counters| 8 * counters.len());
    let mut image = Vec::with_capacity(page_bytes.next_multiple_of(8) + behind);
    for word in words.take(page_bytes.div_ceil(8)) {
        image.extend_from_slice(&word.to_le_bytes());
    }
    image.resize(page_bytes, 0);
    if let Some(counters) = counters {
        counters.encode(&mut image);
    }
    image
}

/// Takes an image apart that a split or a merge has written.
///
/// # Errors
/// Bytes that are no page of that geometry; the error names the page.
pub fn whole(bytes: &[u8], geometry: &PageGeometry, id: PageId) -> Result<WholePage, StoreError> {
    let page = decode(bytes, geometry.page_bytes(), id)?;
    let counters = page.counters.as_deref().cloned().unwrap_or_default();
    let occupied = occupied(page.slots, geometry.slot_width());
    let fits = counters.iter().all(|(key, _)| geometry.has_class(key));
    let Some(occupied) = occupied.filter(|_| fits) else {
        return Err(StoreError::corrupt(
            id.to_string(),
            "it does not fit its sub-filter",
        ));
    };
    let mut whole = WholePage {
        occupied: occupied as u32,
        counters,
        ..WholePage::empty()
    };
    for (word, bytes) in whole.words.iter_mut().zip(page.slots.chunks(8)) {
        *word = little_endian(bytes);
    }
    Ok(whole)
}

/// An image once these slots and counters of it are set.
///
/// # Errors
/// Those of [`decode`].
pub fn changed(
    bytes: &[u8],
    geometry: &PageGeometry,
    id: PageId,
    set: impl IntoIterator<Item = (u32, u64)>,
    counted: impl Iterator<Item = (CounterKey, u64)>,
) -> Result<Vec<u8>, StoreError> {
    let page = decode(bytes, geometry.page_bytes(), id)?;
    let mut slots = page.slots.to_vec();
    slots.resize(geometry.page_bytes() as usize, 0);
    for (slot, value) in set {
        set_slot(&mut slots, geometry.slot_width(), slot, value as u32);
    }
    let counters = page.counters.map(Arc::unwrap_or_clone);
    let mut counters = counters.unwrap_or_default();
    counters.set_all(counted);
    if !counters.is_empty() {
        counters.encode(&mut slots);
    }
    Ok(slots)
}

/// Sets a slot of an image, whose slots are all there.
fn set_slot(slots: &mut [u8], width: SlotWidth, slot: u32, value: u32) {
    // A page has at most 4,096.
    let (word, lane) = width.word_and_lane(slot as u16);
    if let Some(bytes) = slots.chunks_mut(8).nth(usize::from(word)) {
        let changed = bucket::set(width, little_endian(bytes), lane, value);
        for (byte, changed) in bytes.iter_mut().zip(changed.to_le_bytes()) {
            *byte = changed;
        }
    }
}

/// How many slots of an image are in use; `None` if bits are set that belong to
/// no slot.
pub fn occupied(slots: &[u8], width: SlotWidth) -> Option<u64> {
    bucket::occupied_of_all(width, words(slots))
}

/// The words of an image's slots, but for zeros at its end.
pub fn words(slots: &[u8]) -> impl Iterator<Item = u64> + Clone + '_ {
    let (whole, rest) = slots.as_chunks();
    let cut_short = (!rest.is_empty()).then(|| little_endian(rest));
    whole
        .iter()
        .copied()
        .map(u64::from_le_bytes)
        .chain(cut_short)
}

/// Up to eight bytes as a word, missing ones as zeros.
pub(super) fn little_endian(bytes: &[u8]) -> u64 {
    bytes
        .iter()
        .rev()
        .fold(0, |word, &byte| word << 8 | u64::from(byte))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::page::{FilterId, Ordinal, PageIndex};

    const ID: PageId = PageId {
        filter: FilterId(7),
        ordinal: Ordinal(1),
        page: PageIndex(9),
    };

    #[test]
    fn slots_and_counters_come_back_even_without_the_zeros_at_the_end() {
        let words = [0x0807_0605_0403_0201u64, 0x0a09];
        let mut counters = Counters::default();
        counters.set(CounterKey(3 << 32 | 5), 1_000);
        counters.set(CounterKey(3 << 32 | 6), 256);
        let mut image = encode(words.into_iter(), 12, Some(&counters));
        while image.last() == Some(&0) {
            image.pop();
        }
        let page = decode(&image, 12, ID).unwrap();
        assert_eq!(page.slots, [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 0, 0]);
        assert_eq!(page.counters.as_deref(), Some(&counters));

        let image = encode(words.into_iter(), 12, None);
        assert_eq!(image.len(), 12);
        assert!(decode(&image, 12, ID).unwrap().counters.is_none());
        assert_eq!(decode(&image[..3], 12, ID).unwrap().slots, [1, 2, 3]);
    }

    #[test]
    fn nonsense_behind_the_slots_is_an_error_that_names_the_page() {
        let mut image = vec![1; 12];
        image.extend([0; 13]);
        image.push(1);
        let error = decode(&image, 12, ID).err().unwrap().to_string();
        assert!(error.contains("filter 7 sub-filter 1 page 9"), "{error}");
    }

    #[test]
    fn slots_of_every_width_are_set_and_counted_where_words_have_them() {
        let widths = [SlotWidth::Bits8].into_iter().chain(SlotWidth::PAGED);
        for width in widths {
            let mut slots = [0; 24];
            let all = 3 * u32::from(width.slots_per_word());
            for slot in 0..all {
                set_slot(&mut slots, width, slot, width.fingerprints() - slot);
                assert_eq!(occupied(&slots, width), Some(u64::from(slot) + 1));
            }
            for slot in 0..all {
                let (word, lane) = width.word_and_lane(slot as u16);
                let bytes = slots.chunks(8).nth(usize::from(word)).unwrap();
                let found = bucket::get(width, little_endian(bytes), lane);
                assert_eq!(found, width.fingerprints() - slot, "{width:?} {slot}");
            }
            let is_full = width.bits() * width.slots_per_word() == 64;
            slots[15] |= 0x80;
            assert_eq!(occupied(&slots, width).is_some(), is_full, "{width:?}");
        }
    }

    #[test]
    fn a_page_that_ends_within_a_word_keeps_its_length() {
        let mut slots = [0; 6];
        set_slot(&mut slots, SlotWidth::Bits8, 5, 9);
        assert_eq!(slots, [0, 0, 0, 0, 0, 9]);
        assert_eq!(occupied(&slots, SlotWidth::Bits8), Some(1));
    }
}
