//! What a record of the commit log says about the pages of a filter, as changes
//! of these pages.

use crate::chain::address::{PageAddress, WordAddress};
use crate::chain::counters::CounterKey;
use crate::chain::plan::{ChangedCounter, ChangedPage, ChangedWord, PageChanges};
use crate::cuckoo::bucket;
use crate::engine::apply::{LoggedPage, by_page};
use crate::engine::filters::FilterView;
use crate::engine::lane::record::unfit;
use crate::engine::pages::{PageTable, StoredPage, image};
use crate::page::Sequence;
use crate::store::StoreError;
use crate::store::redo::RedoWrite;

/// What a record says about the pages of a filter, by ascending address.
pub(super) fn logged<'w, 'a>(
    view: &FilterView,
    writes: &'w [RedoWrite<'a>],
    record: u64,
) -> Result<Vec<(PageAddress, LoggedPage<'w, 'a>)>, StoreError> {
    // Most pages are written to once.
    let mut pages = Vec::with_capacity(writes.len());
    for (id, writes) in by_page(writes) {
        let position = view.chain.position_of(id.ordinal);
        let table = position.and_then(|it| Some((it, view.tables.get(it)?)));
        let Some((position, table)) = table else {
            return Err(unfit(record, "it writes to a sub-filter that is not there"));
        };
        let address = PageAddress {
            sub: position as u32,
            page: id.page.0,
        };
        let page = LoggedPage::of(&table.geometry(), Sequence(record), id, writes)?;
        if page.whole.is_some() && page.is_written {
            return Err(unfit(record, "it sets a page as a whole and in part"));
        }
        pages.push((address, page));
    }
    pages.sort_by_key(|(address, _)| *address);
    Ok(pages)
}

/// Puts the slots and counters of a page behind those of others.
pub(super) fn put_page(
    changes: &mut PageChanges,
    address: PageAddress,
    table: &PageTable,
    writes: &[RedoWrite<'_>],
    before: impl Fn(u16) -> u64,
) {
    let width = table.geometry().slot_width();
    let (first_word, first_counter) = (changes.words.len(), changes.counters.len());
    let mut occupied = 0;
    for write in writes {
        match write {
            RedoWrite::Slot(write) => {
                let (word, lane) = width.word_and_lane(write.slot as u16);
                let at = WordAddress {
                    sub: address.sub,
                    page: address.page,
                    word,
                };
                // Slots of a page ascend.
                let is_new = changes
                    .words
                    .get(first_word..)
                    .is_none_or(|words| words.last().is_none_or(|last| last.at != at));
                if is_new {
                    changes.words.push(ChangedWord {
                        at,
                        value: before(word),
                        slots: 0,
                    });
                }
                if let Some(changed) = changes.words.last_mut() {
                    let count = |word| bucket::occupied(width, word) as i32;
                    let value = bucket::set(width, changed.value, lane, write.value as u32);
                    occupied += count(value) - count(changed.value);
                    changed.value = value;
                    changed.slots |= 1 << lane;
                }
            }
            RedoWrite::Counter(write) => changes.counters.push(ChangedCounter {
                key: CounterKey(write.key),
                copies: write.value,
            }),
            RedoWrite::Whole(_) | RedoWrite::Dropped(_) => {}
        }
    }
    changes.pages.push(ChangedPage {
        address,
        words: first_word..changes.words.len(),
        counters: first_counter..changes.counters.len(),
        occupied,
    });
}

/// The image of a page that was stored like that, with what a record says about it.
pub(super) fn image_after(
    table: &PageTable,
    before: StoredPage,
    page: &LoggedPage<'_, '_>,
) -> Vec<u8> {
    let (page_bytes, width) = (table.geometry().page_bytes(), table.geometry().slot_width());
    if let Some(whole) = &page.whole {
        let counters = Some(&whole.counters).filter(|it| !it.is_empty());
        return image::encode(whole.words.iter().copied(), page_bytes, counters);
    }
    let StoredPage {
        mut slots,
        mut counters,
    } = before;
    slots.resize(page_bytes as usize, 0);
    let mut counted = Vec::new();
    for write in page.writes {
        match write {
            RedoWrite::Slot(write) => {
                image::set_slot(&mut slots, width, write.slot, write.value as u32);
            }
            RedoWrite::Counter(write) => counted.push((CounterKey(write.key), write.value)),
            RedoWrite::Whole(_) | RedoWrite::Dropped(_) => {}
        }
    }
    counters.set_all(counted.into_iter());
    if !counters.is_empty() {
        counters.encode(&mut slots);
    }
    slots
}

/// A word of a page that is stored like that.
pub(super) fn word_of(before: &StoredPage, word: u16) -> u64 {
    image::word(&before.slots, word)
}
