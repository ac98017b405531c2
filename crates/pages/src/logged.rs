//! What a redo record says about pages, as recovery and the followers of a lane take it
//! to the pages.

use crate::page::{FilterId, PageId, Sequence};
use crate::resident::{PageGeometry, image};
use crate::store::Result;
use crate::store::redo::{RedoError, RedoReader, RedoWrite};
use cuckood_filter::chain::address::PageAddress;
use cuckood_filter::chain::counters::CounterKey;
use cuckood_filter::chain::pages::WholePage;
use cuckood_filter::chain::plan::{ChangedCounter, ChangedPage, ChangedWord, PageChanges};
use cuckood_filter::cuckoo::bucket;
use std::sync::Arc;

/// What a slot that was written at random takes in a record.
const USUAL_WRITE_BYTES: usize = 4;

/// What a record writes. The writes of a page are together, which it has in several
/// sections. Most records have one, and stay as they are.
///
/// # Errors
/// It makes no sense.
pub fn sorted_writes(record: &[u8], sequence: Sequence) -> Result<Vec<RedoWrite<'_>>> {
    let mut writes = Vec::with_capacity(record.len() / USUAL_WRITE_BYTES);
    for write in RedoReader::new(record) {
        writes.push(write.map_err(|error| error.in_record(sequence))?);
    }
    writes.sort_by_key(RedoWrite::page);
    Ok(writes)
}

/// The sorted writes of each filter.
pub fn by_filter<'w, 'a>(
    writes: &'w [RedoWrite<'a>],
) -> impl Iterator<Item = (FilterId, &'w [RedoWrite<'a>])> {
    let of_filter = |write: &RedoWrite<'_>| write.page().filter;
    let all = writes.chunk_by(move |one, next| of_filter(one) == of_filter(next));
    all.filter_map(move |writes| Some((of_filter(writes.first()?), writes)))
}

/// The sorted writes of each page.
pub fn by_page<'w, 'a>(
    writes: &'w [RedoWrite<'a>],
) -> impl Iterator<Item = (PageId, &'w [RedoWrite<'a>])> {
    let all = writes.chunk_by(|one, next| one.page() == next.page());
    all.filter_map(|writes| Some((writes.first()?.page(), writes)))
}

/// What a record says about one page.
pub struct LoggedPage<'w, 'a> {
    /// The page as it is set.
    pub whole: Option<Arc<WholePage>>,
    /// Whether it is no more.
    pub is_dropped: bool,
    /// Whether slots or counters are set.
    pub is_written: bool,
    /// All that is said.
    writes: &'w [RedoWrite<'a>],
}

impl<'w, 'a> LoggedPage<'w, 'a> {
    /// Whether it is split or merged.
    pub fn reshapes(&self) -> bool {
        self.whole.is_some() || self.is_dropped
    }

    /// # Errors
    /// A page of that geometry can't ever have had such entries.
    pub fn of(
        geometry: &PageGeometry,
        sequence: Sequence,
        id: PageId,
        writes: &'w [RedoWrite<'a>],
    ) -> Result<LoggedPage<'w, 'a>> {
        if !writes.iter().all(|write| geometry.fits(write)) {
            return Err(RedoError::NoSuchSlot(id).in_record(sequence));
        }
        let mut page = LoggedPage {
            whole: None,
            is_dropped: false,
            is_written: false,
            writes,
        };
        for write in writes {
            match write {
                RedoWrite::Slot(_) | RedoWrite::Counter(_) => page.is_written = true,
                RedoWrite::Whole(whole) => {
                    let mut scratch = Vec::new();
                    let bytes = whole.image(&mut scratch);
                    let bytes = bytes.map_err(|error| error.in_record(sequence))?;
                    page.whole = Some(Arc::new(image::whole(bytes, geometry, id)?));
                }
                RedoWrite::Dropped(_) => page.is_dropped = true,
            }
        }
        Ok(page)
    }

    /// The slots that are set.
    fn slots(&self) -> impl Iterator<Item = (u32, u64)> {
        self.writes.iter().filter_map(|write| match write {
            RedoWrite::Slot(write) => Some((write.slot, write.value)),
            _ => None,
        })
    }

    /// The counters that are set.
    fn counters(&self) -> impl Iterator<Item = (CounterKey, u64)> {
        self.writes.iter().filter_map(|write| match write {
            RedoWrite::Counter(write) => Some((CounterKey(write.key), write.value)),
            _ => None,
        })
    }

    /// How many of both.
    pub fn slots_and_counters(&self) -> usize {
        self.slots().count() + self.counters().count()
    }

    /// Puts slots and counters behind the changes of other pages. Words have these slots
    /// alone, and nobody knows how many more are in use.
    pub fn put(&self, changes: &mut PageChanges, address: PageAddress, geometry: &PageGeometry) {
        let width = geometry.slot_width();
        let (first_word, first_counter) = (changes.words.len(), changes.counters.len());
        for (slot, value) in self.slots() {
            let (word, lane) = width.word_and_lane(slot as u16);
            let at = address.word(word);
            // Slots of a page ascend.
            let of_page = changes.words.get(first_word..).unwrap_or_default();
            if of_page.last().is_none_or(|last| last.at != at) {
                changes.words.push(ChangedWord {
                    at,
                    value: 0,
                    slots: 0,
                });
            }
            if let Some(changed) = changes.words.last_mut() {
                changed.value = bucket::set(width, changed.value, lane, value as u32);
                changed.slots |= 1 << lane;
            }
        }
        let counters = self.counters();
        let counters = counters.map(|(key, copies)| ChangedCounter { key, copies });
        changes.counters.extend(counters);
        changes.pages.push(ChangedPage {
            address,
            words: first_word..changes.words.len(),
            counters: first_counter..changes.counters.len(),
            occupied: 0,
        });
    }
}
