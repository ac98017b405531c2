//! Parked pages: what changed in a page since its image was stored, kept beside the
//! cache, so that the page needs neither a frame nor a new image yet.
//!
//! A page is its stored image with its parked words on top, and with what its frame
//! has beyond those. The words are absolute, and each is in a record of the log that
//! is kept for the page's sake: they are a cache of the log and never the only copy.
//!
//! They go when an image that has them all was written, and only while nobody can have
//! read an older one that is still to be brought in: the page is resident until then,
//! or its flight is up.

use super::image::PageImage;
use cuckood_filter::chain::counters::Counters;
use cuckood_filter::cuckoo::paged::PAGE_WORDS;
use foldhash::fast::RandomState;
use parking_lot::Mutex;
use prometheus::IntGauge;
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// What a page takes beside its words, at most: its places in the map and in the queue of
/// checkpoints, and what the allocation of its words rounds up.
const BESIDE_WORDS_BYTES: usize = 112;

/// Words of a page that may be parked. One that changed in more costs as much here as
/// its frame.
const MAX_WORDS: usize = PAGE_WORDS as usize / 2;

/// The parked pages of a sub-filter, by number.
pub(super) type ParkedPages = Mutex<HashMap<u32, ParkedPage, RandomState>>;

/// What all parked pages take.
pub(super) struct ParkedBytes {
    bytes: AtomicU64,
    gauge: IntGauge,
}

/// A word that changed, of the page's slots.
#[derive(Clone, Copy)]
#[repr(C, packed(2))]
struct ParkedWord {
    number: u16,
    value: u64,
}

/// What changed in a page.
#[derive(Default)]
pub(super) struct ParkedPage {
    /// By ascending number.
    words: Box<[ParkedWord]>,
    /// All counters of the page, if any of them changed.
    counters: Option<Arc<Counters>>,
}

/// What is new to a page that is parked.
pub(super) struct Changed {
    /// Numbers of words, in any order, and what they are.
    pub(super) words: Vec<(u16, u64)>,
    /// All counters of the page, if any of them changed.
    pub(super) counters: Option<Arc<Counters>>,
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

    /// Parks what changed in a page, over what is parked of it. Says whether nothing
    /// was before; `None`: it is too much, and nothing was done.
    pub(super) fn park(&self, pages: &ParkedPages, page: u32, changed: Changed) -> Option<bool> {
        let mut pages = pages.lock();
        let entry = pages.entry(page);
        let is_first = matches!(entry, Entry::Vacant(_));
        let before = match &entry {
            Entry::Occupied(before) => before.get().words.len(),
            Entry::Vacant(_) => 0,
        };
        if before + changed.words.len() > MAX_WORDS {
            return None;
        }
        let parked = entry.or_default();
        let bytes = if is_first { 0 } else { parked.bytes() };
        parked.put(changed);
        self.add(parked.bytes() as i64 - bytes as i64);
        Some(is_first)
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

    fn bytes(&self) -> usize {
        let counters = self.counters.as_ref().map_or(0, |it| it.bytes());
        BESIDE_WORDS_BYTES + size_of_val(&*self.words) + counters
    }

    fn put(&mut self, changed: Changed) {
        let known = self.words.iter().map(|it| (it.number, it.value));
        let mut words: Vec<(u16, u64)> = changed.words;
        words.extend(known);
        // New ones lie ahead of known ones, and stay there.
        words.sort_by_key(|&(number, _)| number);
        words.dedup_by_key(|&mut (number, _)| number);
        let words = words.into_iter();
        self.words = words
            .map(|(number, value)| ParkedWord { number, value })
            .collect();
        if changed.counters.is_some() {
            self.counters = changed.counters;
        }
    }

    /// The page of a stored image: with these words on top it lies in `slots`.
    pub(super) fn over<'a>(
        &self,
        image: PageImage<'_>,
        page_bytes: u32,
        slots: &'a mut Vec<u8>,
    ) -> PageImage<'a> {
        slots.clear();
        slots.extend_from_slice(image.slots);
        slots.resize((page_bytes as usize).next_multiple_of(8), 0);
        let (words, _) = slots.as_chunks_mut();
        for parked in &self.words {
            if let Some(word) = words.get_mut(usize::from(parked.number)) {
                *word = parked.value.to_le_bytes();
            }
        }
        slots.truncate(page_bytes as usize);
        let counters = match &self.counters {
            Some(counters) => Some(Arc::clone(counters)).filter(|it| !it.is_empty()),
            None => image.counters,
        };
        PageImage { slots, counters }
    }
}
