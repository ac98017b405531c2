//! What the stored image of a page holds: its slots, and behind them, if it has
//! any, its side counters. To the store both are bytes.

use crate::chain::counters::{CounterKey, Counters, CountersError};
use crate::cuckoo::layout::Layout;
use crate::page::PageId;
use crate::store::StoreError;
use crate::store::redo::RedoWrite;
use std::borrow::Cow;
use std::sync::Arc;

/// A page as it comes from the store.
#[derive(Clone, Default)]
pub(crate) struct PageImage<'a> {
    /// Its slots; zeros at the end may be left out.
    pub(crate) slots: &'a [u8],
    /// Its counters, if it has any.
    pub(crate) counters: Option<Arc<Counters>>,
}

/// Takes a stored image apart. `page_bytes` is what the page's slots take.
///
/// # Errors
/// Bytes that [`encode`] would not write; the error names the page.
pub(crate) fn decode(
    bytes: &[u8],
    page_bytes: u32,
    id: PageId,
) -> Result<PageImage<'_>, StoreError> {
    parse(bytes, page_bytes).map_err(|error| StoreError::Corrupt {
        what: id.to_string(),
        reason: error.to_string(),
    })
}

/// The same for bytes that are no stored page yet.
///
/// # Errors
/// Bytes that [`encode`] would not write.
pub(crate) fn parse(bytes: &[u8], page_bytes: u32) -> Result<PageImage<'_>, CountersError> {
    let page = bytes.split_at_checked(page_bytes as usize);
    let (slots, behind) = page.unwrap_or((bytes, &[]));
    let counters = match behind {
        [] => None,
        _ => Some(Arc::new(Counters::decode(&with_zeros(behind))?)),
    };
    Ok(PageImage { slots, counters })
}

/// The store leaves out zeros at the end of an image; those of the last
/// counter are put back.
fn with_zeros(behind: &[u8]) -> Cow<'_, [u8]> {
    let whole = behind.len().next_multiple_of(Counters::ENTRY_BYTES);
    if whole == behind.len() {
        return Cow::Borrowed(behind);
    }
    let mut bytes = behind.to_vec();
    bytes.resize(whole, 0);
    Cow::Owned(bytes)
}

/// Puts an image together.
pub(crate) fn encode(
    words: impl Iterator<Item = u64>,
    page_bytes: u32,
    counters: Option<&Counters>,
) -> Vec<u8> {
    let page_bytes = page_bytes as usize;
    let behind = counters.map_or(0, |counters| counters.len() * Counters::ENTRY_BYTES);
    let mut image = Vec::with_capacity(page_bytes.next_multiple_of(8) + behind);
    for word in words.take(page_bytes.div_ceil(8)) {
        image.extend_from_slice(&word.to_le_bytes());
    }
    image.truncate(page_bytes);
    if let Some(counters) = counters {
        counters.encode(&mut image);
    }
    image
}

/// Whether an entry of the redo log makes sense for a page of that layout.
pub(crate) fn fits(write: &RedoWrite, layout: &Layout) -> bool {
    match write {
        RedoWrite::Slot(write) => {
            write.slot_bytes == layout.slot_width().bytes() && write.slot < slots_of(layout)
        }
        RedoWrite::Counter(write) => has_class(CounterKey(write.key), layout),
    }
}

/// Whether a page of that layout can have a counter of that class.
pub(crate) fn has_class(key: CounterKey, layout: &Layout) -> bool {
    key.0 >> 32 < u64::from(slots_of(layout))
        && (1..=layout.slot_width().fingerprints()).contains(&(key.0 as u32))
}

fn slots_of(layout: &Layout) -> u32 {
    layout.page_bytes() / u32::from(layout.slot_width().bytes())
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
}
