//! Parked pages: what changed in a page since its image was stored, kept beside the
//! cache, so that the page needs neither a frame nor a new image yet.
//!
//! A page is its stored image with its parked words on top, and with what its frame
//! has beyond those. The words are absolute, and each is in a record of the log that
//! is kept for the page's sake: they are a cache of the log and never the only copy.
//! Of a word that changed while its page had no frame, the slots that changed are known.
//!
//! They go when an image that has them all was written, and only while nobody can have
//! read an older one that is still to be brought in: the page is resident then, or no
//! flight of it is up.

use super::geometry::PageGeometry;
use super::image::PageImage;
use cuckood_filter::chain::counters::{CounterKey, Counters};
use cuckood_filter::chain::pages::WholePage;
use cuckood_filter::chain::plan::{ChangedCounter, ChangedWord};
use cuckood_filter::cuckoo::bucket::{self, SlotWidth};
use foldhash::fast::RandomState;
use parking_lot::Mutex;
use prometheus::IntGauge;
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// What a page takes beside its words: its places in the map and in the queue of
/// checkpoints, as these grow, and what the allocation of its words rounds up.
const BESIDE_WORDS_BYTES: usize = 112;

/// All slots of a word.
const ALL_SLOTS: u8 = u8::MAX;

/// The parked pages of a sub-filter, by number.
pub(super) type ParkedPages = Mutex<HashMap<u32, ParkedPage, RandomState>>;

/// What all parked pages take.
pub(super) struct ParkedBytes {
    bytes: AtomicU64,
    gauge: IntGauge,
}

/// A word of which slots changed.
#[derive(Clone, Copy)]
#[repr(C, packed)]
struct ParkedWord {
    number: u16,
    /// A bit for each slot that is known.
    slots: u8,
    value: u64,
}

/// What changed in a page.
#[derive(Default)]
pub(super) struct ParkedPage {
    /// By ascending number.
    words: Box<[ParkedWord]>,
    /// `None`: none changed.
    counters: Option<Box<ParkedCounters>>,
    /// Whether this is all of the page, whatever its stored image says.
    pub(super) is_whole: bool,
}

/// Counters that changed, by ascending key; 0: there is none.
struct ParkedCounters {
    changed: Vec<(CounterKey, u64)>,
    /// Whether the page has no others.
    are_all: bool,
}

/// What is new to a page that is parked.
pub(super) struct Changed {
    /// In any order.
    words: Vec<ParkedWord>,
    counters: Option<ParkedCounters>,
    is_whole: bool,
}

/// A page that was parked.
pub(super) struct Parked {
    /// Whether nothing of it was parked before.
    pub(super) is_first: bool,
    /// Its words and counters that were parked before, and that are now.
    pub(super) entries_before: usize,
    pub(super) entries: usize,
}

impl Changed {
    /// Words as a whole; and all counters of the page, if one of them changed.
    pub(super) fn in_frame(
        words: impl Iterator<Item = (u16, u64)>,
        counters: Option<&Counters>,
    ) -> Changed {
        let words = words.map(|(number, value)| ParkedWord {
            number,
            slots: ALL_SLOTS,
            value,
        });
        Changed {
            words: words.collect(),
            counters: counters.map(|all| ParkedCounters {
                changed: all.iter().collect(),
                are_all: true,
            }),
            is_whole: false,
        }
    }

    /// Slots and counters. If the page is new, it has no others.
    pub(super) fn in_part(
        is_new: bool,
        words: &[ChangedWord],
        counters: &[ChangedCounter],
    ) -> Changed {
        let words = words.iter().map(|word| ParkedWord {
            number: word.at.word,
            slots: word.slots,
            value: word.value,
        });
        let counters = counters.iter().map(|it| (it.key, it.copies));
        let changed: Vec<(CounterKey, u64)> = counters.collect();
        Changed {
            words: words.collect(),
            counters: (!changed.is_empty()).then_some(ParkedCounters {
                changed,
                are_all: false,
            }),
            is_whole: is_new,
        }
    }

    pub(super) fn words(&self) -> usize {
        self.words.len()
    }

    /// All of a page.
    pub(super) fn whole(page: &WholePage) -> Changed {
        let words = (0..).zip(page.words.iter().copied());
        let counters = Some(&page.counters).filter(|it| !it.is_empty());
        Changed {
            is_whole: true,
            ..Changed::in_frame(words.filter(|&(_, word)| word != 0), counters)
        }
    }
}

impl ParkedBytes {
    pub(super) fn new(gauge: IntGauge) -> ParkedBytes {
        ParkedBytes {
            bytes: AtomicU64::new(0),
            gauge,
        }
    }

    pub(super) fn get(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }

    /// Parks what changed in a page, over what is parked of it.
    pub(super) fn park(
        &self,
        pages: &ParkedPages,
        page: u32,
        width: SlotWidth,
        changed: Changed,
    ) -> Parked {
        let mut pages = pages.lock();
        let entry = pages.entry(page);
        let is_first = matches!(entry, Entry::Vacant(_));
        let parked = entry.or_default();
        let bytes = if is_first { 0 } else { parked.bytes() };
        let entries_before = parked.entries();
        parked.put(width, changed);
        self.add(parked.bytes() as i64 - bytes as i64);
        Parked {
            is_first,
            entries_before,
            entries: parked.entries(),
        }
    }

    /// Forgets what is parked of a page.
    pub(super) fn forget(&self, pages: &ParkedPages, page: u32) {
        let mut pages = pages.lock();
        if let Some(parked) = pages.remove(&page) {
            self.add(-(parked.bytes() as i64));
        }
        if pages.len() < pages.capacity() / 4 {
            pages.shrink_to_fit();
        }
    }

    fn add(&self, bytes: i64) {
        // In two's complement that is a subtraction for a negative number.
        let before = self.bytes.fetch_add(bytes as u64, Ordering::Relaxed);
        self.gauge.set(before as i64 + bytes);
    }
}

impl ParkedPage {
    /// Words that are parked.
    pub(super) fn words(&self) -> usize {
        self.words.len()
    }

    fn entries(&self) -> usize {
        let counters = self.counters.as_deref();
        self.words.len() + counters.map_or(0, |it| it.changed.len())
    }

    fn bytes(&self) -> usize {
        let of_each = |it: &ParkedCounters| {
            size_of_val(it) + it.changed.capacity() * size_of::<(CounterKey, u64)>()
        };
        let counters = self.counters.as_deref().map_or(0, of_each);
        BESIDE_WORDS_BYTES + size_of_val(&*self.words) + counters
    }

    fn put(&mut self, width: SlotWidth, changed: Changed) {
        if changed.is_whole {
            *self = ParkedPage {
                is_whole: true,
                ..ParkedPage::default()
            };
        }
        let mut words = changed.words;
        words.extend(&*self.words);
        // New ones lie ahead of known ones, and stay there.
        words.sort_by_key(|it| it.number);
        words.dedup_by(|known, new| {
            let is_same = known.number == new.number;
            if is_same {
                new.value = overlaid(width, known.value, new.slots, new.value);
                new.slots |= known.slots;
            }
            is_same
        });
        self.words = words.into_boxed_slice();
        match (&mut self.counters, changed.counters) {
            (Some(known), Some(new)) if !new.are_all => known.put(new.changed),
            (known, Some(new)) => *known = Some(Box::new(new)),
            (_, None) => {}
        }
    }

    /// The page of a stored image: with these words on top it lies in `slots`.
    pub(super) fn over<'a>(
        &self,
        mut image: PageImage<'_>,
        geometry: &PageGeometry,
        slots: &'a mut Vec<u8>,
    ) -> PageImage<'a> {
        if self.is_whole {
            image = PageImage::default();
        }
        let page_bytes = geometry.page_bytes() as usize;
        slots.clear();
        slots.extend_from_slice(image.slots);
        slots.resize(page_bytes.next_multiple_of(8), 0);
        let (words, _) = slots.as_chunks_mut();
        for &ParkedWord {
            number,
            slots,
            value,
        } in &self.words
        {
            if let Some(word) = words.get_mut(usize::from(number)) {
                let before = u64::from_le_bytes(*word);
                *word = overlaid(geometry.slot_width(), before, slots, value).to_le_bytes();
            }
        }
        slots.truncate(page_bytes);
        let counters = match &self.counters {
            Some(counters) => counters.over(image.counters),
            None => image.counters,
        };
        PageImage { slots, counters }
    }
}

impl ParkedCounters {
    fn put(&mut self, new: Vec<(CounterKey, u64)>) {
        let known = std::mem::replace(&mut self.changed, new);
        self.changed.extend(known);
        self.changed.sort_by_key(|it| it.0);
        self.changed.dedup_by_key(|it| it.0);
        self.changed.shrink_to_fit();
    }

    fn over(&self, stored: Option<Arc<Counters>>) -> Option<Arc<Counters>> {
        let stored = stored.filter(|_| !self.are_all);
        let mut counters = stored.map(Arc::unwrap_or_clone).unwrap_or_default();
        counters.set_all(self.changed.iter().copied());
        (!counters.is_empty()).then(|| Arc::new(counters))
    }
}

/// A word with some of its slots from another.
pub(super) fn overlaid(width: SlotWidth, word: u64, slots: u8, other: u64) -> u64 {
    if slots == ALL_SLOTS {
        return other;
    }
    let lanes = (0..width.slots_per_word()).filter(|lane| slots >> lane & 1 != 0);
    lanes.fold(word, |word, lane| {
        bucket::set(width, word, lane, bucket::get(width, other, lane))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_a_word_those_slots_are_taken_that_are_known() {
        let widths = [SlotWidth::Bits8].into_iter().chain(SlotWidth::PAGED);
        for width in widths {
            let lanes = width.slots_per_word();
            let filled = |from: u32| {
                let slots = 0..lanes;
                slots.fold(0, |word, lane| {
                    bucket::set(width, word, lane, from - u32::from(lane))
                })
            };
            let (before, new) = (filled(width.fingerprints()), filled(100));
            for slots in 0..=u8::MAX {
                let word = overlaid(width, before, slots, new);
                for lane in 0..lanes {
                    let of = if slots >> lane & 1 == 1 { new } else { before };
                    let expected = bucket::get(width, of, lane);
                    assert_eq!(
                        bucket::get(width, word, lane),
                        expected,
                        "{width:?} {slots}"
                    );
                }
            }
        }
    }
}
