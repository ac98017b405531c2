//! One frame: the words of a page, and what is known of the page in it.

use super::image;
use super::parked::Changed;
use arc_swap::ArcSwapOption;
use cuckood_filter::chain::counters::{CounterKey, Counters};
use cuckood_filter::chain::pages::WholePage;
use cuckood_filter::chain::params::PAGE_BYTES;
use cuckood_filter::cuckoo::bucket::{self, SlotWidth};
use cuckood_filter::hints;
use std::ops::RangeInclusive;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU16, AtomicU32, AtomicU64, Ordering};

/// Words of a frame.
pub(super) const FRAME_WORDS: usize = PAGE_BYTES as usize / 8;

/// Number of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FrameIndex(pub(super) u32);

/// Room for the words of one page.
#[derive(Clone, Copy)]
pub struct Words<'a>(pub(super) &'a [AtomicU64; FRAME_WORDS]);

/// Room for one page, and what is known of the page in it.
#[derive(Clone, Copy)]
pub struct Frame<'a> {
    pub(super) words: Words<'a>,
    pub(super) state: &'a State,
}

/// Changed words of a page that are known by number. One that changed in more is written
/// as a whole.
const MAX_CHANGED: usize = 16;

/// In place of how many words changed: more than are known by number.
const MANY_CHANGED: u8 = u8::MAX;

/// Counters of a page that may be parked, all of them, when one changed. A page with more
/// is not parked: its image may take many times what its slots do.
const MAX_PARKED_COUNTERS: usize = 8;

/// What is known of the page in a frame. Not beside its words: those fill huge
/// pages, and one is seldom read with the other.
#[derive(Default)]
#[repr(align(64))]
pub(super) struct State {
    /// Slots in use. Written by the lane, or with the whole page.
    occupied: AtomicU32,
    /// The page's side counters, if it has any.
    pub(super) counters: ArcSwapOption<Counters>,
    /// Whether the frame is in the list of those with counters; under its lock.
    pub(super) is_listed: AtomicBool,
    /// Commands that need the page.
    pins: AtomicU32,
    /// A [`DirtyState`]; written under the lock of the lane's dirty pages only.
    dirty: AtomicU8,
    /// First commit that was published since the image was copied; 0 = none.
    /// Under the lock of the lane's dirty pages.
    changed_since_copy: AtomicU64,
    /// Words that changed since the page was stored or parked, and how many these are;
    /// under the lock of the lane's dirty pages.
    changed: [AtomicU16; MAX_CHANGED],
    changed_words: AtomicU8,
    /// Whether a counter did.
    pub(super) changed_counters: AtomicBool,
}

/// One cache line, for what every change writes to.
const _: () = assert!(size_of::<State>() == 64);

/// How far a resident page is from its stored image.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum DirtyState {
    /// The image is the page, with what is parked of it.
    Clean = 0,
    /// Changed, and waiting for a checkpoint.
    Dirty = 1,
    /// Its image was copied and is being written.
    Copied = 2,
}

impl Words<'_> {
    /// A word, as the page's lane sees it. A reader finds out afterwards
    /// whether it was the page's.
    #[inline]
    pub fn load(self, word: u16) -> u64 {
        self.0
            .get(usize::from(word))
            .map_or(0, |cell| cell.load(Ordering::Relaxed))
    }

    /// Asks for the memory of a word that will be read soon.
    #[inline]
    pub fn prefetch(self, word: u16) {
        if let Some(word) = self.0.get(usize::from(word)) {
            hints::prefetch(word);
        }
    }
}

/// For the lane of the page's filter.
impl Frame<'_> {
    /// As [`Words::load`].
    #[inline]
    pub fn load(self, word: u16) -> u64 {
        self.words.load(word)
    }

    /// Overwrites a word, in a [change](super::Version::change) of the versions
    /// that readers look at.
    #[inline]
    pub fn store(self, word: u16, value: u64) {
        if let Some(cell) = self.words.0.get(usize::from(word)) {
            cell.store(value, Ordering::Relaxed);
        }
    }

    /// Asks for the memory of a word that will be written soon, and for what is
    /// kept beside the words.
    #[inline]
    pub fn prefetch_to_change(self, word: u16) {
        self.words.prefetch(word);
        hints::prefetch(self.state);
    }

    /// Slots in use.
    #[inline]
    pub fn occupied(self) -> u32 {
        self.state.occupied.load(Ordering::Relaxed)
    }

    /// Adds to the slots in use, or takes off. The lane alone writes, so
    /// nothing comes between reading and writing.
    #[inline]
    pub fn add_occupied(self, more: i32) {
        // In two's complement that is a subtraction for a negative number.
        let occupied = self.occupied().wrapping_add(more as u32);
        self.state.occupied.store(occupied, Ordering::Relaxed);
    }

    /// Copies of a class that are counted beside the page.
    #[inline]
    pub fn counter(self, key: CounterKey) -> u64 {
        self.state
            .counters
            .load()
            .as_ref()
            .map_or(0, |counters| counters.get(key))
    }

    /// What is counted beside the page under the keys of a range.
    pub fn counters_within(self, keys: RangeInclusive<CounterKey>) -> Counters {
        let counters = self.state.counters.load();
        counters
            .as_ref()
            .map(|it| it.within(keys))
            .unwrap_or_default()
    }

    /// Counters beside the page.
    #[inline]
    pub fn counters(self) -> usize {
        self.state
            .counters
            .load()
            .as_ref()
            .map_or(0, |counters| counters.len())
    }
}

/// For the cache and its checkpoints.
impl Frame<'_> {
    /// Stores the words of a page that comes in.
    pub(super) fn fill(self, width: SlotWidth, slots: &[u8]) {
        let (whole, rest) = slots.as_chunks();
        let mut cells = self.words.0.iter();
        let mut occupied = 0;
        let mut store = |cell: &AtomicU64, word| {
            occupied += bucket::occupied(width, word);
            cell.store(word, Ordering::Relaxed);
        };
        for (bytes, cell) in whole.iter().zip(&mut cells) {
            store(cell, u64::from_le_bytes(*bytes));
        }
        // Behind them a word that is cut short, and nothing.
        if let Some(cell) = cells.next() {
            store(cell, image::little_endian(rest));
        }
        for cell in cells {
            cell.store(0, Ordering::Relaxed);
        }
        self.state.occupied.store(occupied, Ordering::Relaxed);
    }

    /// Stores the words of a page that is split or merged.
    pub(super) fn set(self, whole: &WholePage) {
        for (cell, &word) in self.words.0.iter().zip(whole.words.iter()) {
            cell.store(word, Ordering::Relaxed);
        }
        self.state.occupied.store(whole.occupied, Ordering::Relaxed);
    }

    /// The page as it is stored; its slots take `page_bytes`.
    pub(super) fn image(self, page_bytes: u32) -> Vec<u8> {
        let words = self.words.0.iter().map(|word| word.load(Ordering::Relaxed));
        image::encode(words, page_bytes, self.state.counters.load().as_deref())
    }

    #[inline]
    pub(super) fn pin(self) {
        self.state.pins.fetch_add(1, Ordering::Relaxed);
    }

    #[inline]
    pub(super) fn unpin(self) {
        self.state.pins.fetch_sub(1, Ordering::Release);
    }

    #[inline]
    pub(super) fn is_pinned(self) -> bool {
        self.state.pins.load(Ordering::Acquire) > 0
    }

    #[inline]
    pub(super) fn dirty_state(self) -> DirtyState {
        match self.state.dirty.load(Ordering::Acquire) {
            0 => DirtyState::Clean,
            1 => DirtyState::Dirty,
            _ => DirtyState::Copied,
        }
    }

    #[inline]
    pub(super) fn set_dirty_state(self, state: DirtyState) {
        self.state.dirty.store(state as u8, Ordering::Release);
    }

    #[inline]
    pub(super) fn changed_since_copy(self) -> u64 {
        self.state.changed_since_copy.load(Ordering::Relaxed)
    }

    #[inline]
    pub(super) fn set_changed_since_copy(self, sequence: u64) {
        self.state
            .changed_since_copy
            .store(sequence, Ordering::Relaxed);
    }

    /// Says that a word changes.
    #[inline]
    pub(super) fn mark_changed(self, word: u16) {
        let state = self.state;
        let known = state.changed_words.load(Ordering::Relaxed);
        let Some(changed) = state.changed.get(..usize::from(known)) else {
            return;
        };
        if changed.iter().any(|it| it.load(Ordering::Relaxed) == word) {
            return;
        }
        let known = match state.changed.get(usize::from(known)) {
            Some(next) => {
                next.store(word, Ordering::Relaxed);
                known + 1
            }
            None => MANY_CHANGED,
        };
        state.changed_words.store(known, Ordering::Relaxed);
    }

    /// Says that all may have changed.
    pub(super) fn mark_all_changed(self) {
        self.state
            .changed_words
            .store(MANY_CHANGED, Ordering::Relaxed);
    }

    /// Says that nothing changed: it is stored, or parked.
    pub(super) fn mark_unchanged(self) {
        self.state.changed_words.store(0, Ordering::Relaxed);
        self.state.changed_counters.store(false, Ordering::Relaxed);
    }

    /// What changed, if it is little.
    pub(super) fn changed(self) -> Option<Changed> {
        let words = usize::from(self.state.changed_words.load(Ordering::Relaxed));
        let words = self.state.changed.get(..words)?;
        let counters = match self.state.changed_counters.load(Ordering::Relaxed) {
            _ if self.counters() > MAX_PARKED_COUNTERS => return None,
            true => Some(self.state.counters.load_full().unwrap_or_default()),
            false => None,
        };
        let words = words.iter().map(|it| it.load(Ordering::Relaxed));
        let words = words.map(|word| (word, self.load(word)));
        Some(Changed::in_frame(words, counters.as_deref()))
    }
}
