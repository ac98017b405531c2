//! The page cache: a bounded arena of frames, and tables that say which page
//! lies in which frame.
//!
//! Readers take no lock and wait for nobody. A page's words are atomics in a
//! frame that is never freed; a table entry names the frame and a generation
//! that is new whenever a frame gets a page. A reader loads the entry, loads
//! words, and loads the entry again: if it did not change, the words were the
//! page's (a seqlock, Boehm, "Can Seqlocks Get Along With Programming Language
//! Memory Models?", MSPC 2012). Whether several pages were read at one moment
//! is what the [versions](PageCache::version) tell.
//!
//! A frame stays while its page is dirty, or pinned by a command that waits or
//! by the drain that a lane is planning. Everything else is evicted by the
//! clock algorithm (Corbató, 1968) when room is needed. Pins are taken and
//! frames are given away under one lock (or a pin is made of an expectation,
//! which is one already), so a page that is resident is never
//! hidden even for a moment: whoever finds no entry may trust that. The pins of
//! a drain are its number on each frame, and all end with the drain: it meets
//! thousands of pages, most of them once.
//!
//! The side counters of a page lie beside its words. They are few, but nothing
//! says how few, so they have a share of the cache's bytes of their own; when
//! it is used up, pages with counters are evicted first.

use super::image::{self, PageImage};
use crate::chain::counters::{CounterKey, Counters};
use crate::chain::params::PAGE_BYTES;
use crate::chain::plan::ChangedCounter;
use crate::cuckoo::bucket::{self, SlotWidth};
use crate::cuckoo::layout::Layout;
use crate::hints::{self, HugeWords};
use crate::page::{FilterId, Ordinal, PageId, PageIndex};
use arc_swap::ArcSwapOption;
use parking_lot::Mutex;
use prometheus::{IntCounter, IntGauge};
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, AtomicU64, Ordering, fence};
use std::sync::{Arc, OnceLock};

/// Words of a frame.
pub(crate) const FRAME_WORDS: usize = PAGE_BYTES as usize / 8;

/// Frames that are allocated together: 32 MiB of words, which take memory only
/// where they were touched. Less would come from memory that was used before.
const CHUNK_FRAMES: usize = 8_192;

/// The smallest cache, 1 MiB.
const MIN_FRAMES: usize = 256;

/// Counters get one part in so many of the cache's bytes.
const COUNTERS_SHARE: u64 = 16;

/// Frames that are looked at for counters to be evicted, at most, each time
/// that a page comes in or gets more of them.
const COUNTERS_SWEEP: usize = 64;

/// Pages whose entries are allocated together.
const LEAF_PAGES: usize = 512;

/// Versions of pages, shared by all filters. Two pages of one stripe cost each
/// other a repeated read now and then, never a wrong one.
const STRIPES: usize = 1 << 15;

/// A version counts finished publications in its low bits and those under way
/// in its high bits.
const PUBLISHING: u64 = 1 << 48;

/// Number of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct FrameIndex(u32);

/// Room for the words of one page.
#[derive(Clone, Copy)]
pub(crate) struct Words<'a>(&'a [AtomicU64; FRAME_WORDS]);

/// Room for one page, and what is known of the page in it.
#[derive(Clone, Copy)]
pub(crate) struct Frame<'a> {
    words: Words<'a>,
    state: &'a State,
}

/// What is known of the page in a frame. Not beside its words: those fill huge
/// pages, and who looks at one seldom looks at the other.
struct State {
    /// Slots in use. Written by the lane, or with the whole page.
    occupied: AtomicU32,
    /// The page's side counters, if it has any.
    counters: ArcSwapOption<Counters>,
    /// Commands that need the page.
    pins: AtomicU32,
    /// How far the page is from its stored image; written under the ledger's
    /// lock only.
    dirty_state: AtomicU8,
    /// First commit that was published since the image was copied; 0 = none.
    /// Under the ledger's lock.
    changed_since_copy: AtomicU64,
}

/// How far a resident page is from its stored image.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DirtyState {
    /// The image is the page.
    Clean,
    /// Changed, and waiting for a checkpoint.
    Dirty,
    /// Its image was copied and is being written.
    Copied,
}

impl State {
    const fn new() -> State {
        State {
            occupied: AtomicU32::new(0),
            counters: ArcSwapOption::const_empty(),
            pins: AtomicU32::new(0),
            dirty_state: AtomicU8::new(0),
            changed_since_copy: AtomicU64::new(0),
        }
    }
}

impl Words<'_> {
    /// A word, as its lane sees it or as whoever checks afterwards finds it.
    #[inline]
    pub(crate) fn load(self, word: u16) -> u64 {
        self.0
            .get(usize::from(word))
            .map_or(0, |cell| cell.load(Ordering::Relaxed))
    }

    /// Asks for the memory of a word that will be read soon.
    #[inline]
    pub(crate) fn prefetch(self, word: u16) {
        if let Some(word) = self.0.get(usize::from(word)) {
            hints::prefetch(word);
        }
    }
}

impl Frame<'_> {
    /// Overwrites a word. Only the filter's lane does, between
    /// [`PageCache::begin_publish`] and [`PageCache::end_publish`].
    pub(crate) fn store(self, word: u16, value: u64) {
        if let Some(cell) = self.words.0.get(usize::from(word)) {
            cell.store(value, Ordering::Relaxed);
        }
    }

    /// As [`Words::load`].
    #[inline]
    pub(crate) fn load(self, word: u16) -> u64 {
        self.words.load(word)
    }

    /// Asks for the memory of a word that will be written soon, and for what is
    /// kept beside the words.
    #[inline]
    pub(crate) fn prefetch_to_change(self, word: u16) {
        self.words.prefetch(word);
        hints::prefetch(self.state);
    }

    /// Slots in use.
    #[inline]
    pub(crate) fn occupied(self) -> u32 {
        self.state.occupied.load(Ordering::Relaxed)
    }

    /// Notes that more, or fewer, slots are in use. Only the filter's lane
    /// does, so nobody comes between reading and writing.
    pub(crate) fn note_occupied(self, more: i32) {
        // In two's complement that is a subtraction for a negative number.
        let occupied = self.occupied().wrapping_add(more as u32);
        self.state.occupied.store(occupied, Ordering::Relaxed);
    }

    /// Copies of a class that are counted beside the page.
    pub(crate) fn counter(self, key: CounterKey) -> u64 {
        self.state
            .counters
            .load()
            .as_ref()
            .map_or(0, |counters| counters.get(key))
    }

    /// Classes that are counted beside the page.
    pub(crate) fn counters(self) -> usize {
        self.state
            .counters
            .load()
            .as_ref()
            .map_or(0, |counters| counters.len())
    }

    /// The page as it is stored; its slots take `page_bytes`.
    pub(crate) fn image(self, page_bytes: u32) -> Vec<u8> {
        let words = self.words.0.iter().map(|word| word.load(Ordering::Relaxed));
        image::encode(words, page_bytes, self.state.counters.load().as_deref())
    }

    fn fill(self, width: SlotWidth, slots: &[u8]) {
        let mut occupied = 0;
        let mut words = self.words.0.iter();
        for (chunk, cell) in slots.chunks(8).zip(&mut words) {
            let word = little_endian(chunk);
            occupied += bucket::occupied(width, word);
            cell.store(word, Ordering::Relaxed);
        }
        for cell in words {
            cell.store(0, Ordering::Relaxed);
        }
        self.state.occupied.store(occupied, Ordering::Relaxed);
    }

    pub(crate) fn dirty_state(self) -> DirtyState {
        match self.state.dirty_state.load(Ordering::Acquire) {
            0 => DirtyState::Clean,
            1 => DirtyState::Dirty,
            _ => DirtyState::Copied,
        }
    }

    pub(crate) fn set_dirty_state(self, state: DirtyState) {
        let byte = match state {
            DirtyState::Clean => 0,
            DirtyState::Dirty => 1,
            DirtyState::Copied => 2,
        };
        self.state.dirty_state.store(byte, Ordering::Release);
    }

    pub(crate) fn changed_since_copy(self) -> u64 {
        self.state.changed_since_copy.load(Ordering::Relaxed)
    }

    pub(crate) fn set_changed_since_copy(self, sequence: u64) {
        self.state
            .changed_since_copy
            .store(sequence, Ordering::Relaxed);
    }
}

/// Up to eight bytes as a word, missing ones as zeros.
pub(crate) fn little_endian(bytes: &[u8]) -> u64 {
    bytes
        .iter()
        .rev()
        .fold(0, |word, &byte| word << 8 | u64::from(byte))
}

/// Which pages of one sub-filter are resident, and where.
pub(crate) struct PageTable {
    filter: FilterId,
    ordinal: Ordinal,
    pages: u32,
    page_bytes: u32,
    width: SlotWidth,
    /// Where the stripes of this table start.
    first_stripe: usize,
    /// The filter was removed or the sub-filter dropped: its pages need no
    /// checkpoint any more.
    dropped: AtomicBool,
    resident: AtomicU32,
    dirty: AtomicU32,
    /// Entries by page: 0, or generation in the high and frame + 1 in the low
    /// half. Leaves come to be with their first page.
    leaves: Box<[OnceLock<Box<[AtomicU64]>>]>,
}

impl PageTable {
    /// A table of a sub-filter's pages, none of them resident.
    pub(crate) fn new(filter: FilterId, ordinal: Ordinal, layout: &Layout) -> Self {
        let pages = layout.pages();
        let leaves = (pages as usize).div_ceil(LEAF_PAGES);
        let mixed =
            (filter.0 ^ u64::from(ordinal.0).rotate_left(40)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        PageTable {
            filter,
            ordinal,
            pages,
            page_bytes: layout.page_bytes(),
            width: layout.slot_width(),
            first_stripe: (mixed >> 40) as usize,
            dropped: AtomicBool::new(false),
            resident: AtomicU32::new(0),
            dirty: AtomicU32::new(0),
            leaves: (0..leaves).map(|_| OnceLock::new()).collect(),
        }
    }

    /// Full name of one of its pages.
    pub(crate) fn id(&self, page: u32) -> PageId {
        PageId {
            filter: self.filter,
            ordinal: self.ordinal,
            page: PageIndex(page),
        }
    }

    /// Bytes of each of its pages.
    pub(crate) fn page_bytes(&self) -> u32 {
        self.page_bytes
    }

    /// Resident pages.
    pub(crate) fn resident(&self) -> u32 {
        self.resident.load(Ordering::Relaxed)
    }

    /// Pages that wait for a checkpoint.
    pub(crate) fn dirty(&self) -> &AtomicU32 {
        &self.dirty
    }

    /// Says that nobody will ask for these pages again.
    pub(crate) fn mark_dropped(&self) {
        self.dropped.store(true, Ordering::Release);
    }

    /// Whether [`mark_dropped`](Self::mark_dropped) was called.
    pub(crate) fn is_dropped(&self) -> bool {
        self.dropped.load(Ordering::Acquire)
    }

    #[inline]
    fn entry(&self, page: u32) -> Option<&AtomicU64> {
        self.leaves
            .get(page as usize / LEAF_PAGES)?
            .get()?
            .get(page as usize % LEAF_PAGES)
    }

    fn entry_to_fill(&self, page: u32) -> Option<&AtomicU64> {
        let leaf = page as usize / LEAF_PAGES;
        let length = (self.pages as usize - leaf * LEAF_PAGES).min(LEAF_PAGES);
        self.leaves
            .get(leaf)?
            .get_or_init(|| (0..length).map(|_| AtomicU64::new(0)).collect())
            .get(page as usize % LEAF_PAGES)
    }
}

/// A page in its frame, as one reader found it.
#[derive(Clone, Copy)]
pub(crate) struct ResidentPage<'a> {
    words: Words<'a>,
    entry: &'a AtomicU64,
    named: u64,
}

impl<'a> ResidentPage<'a> {
    /// The words of its frame.
    #[inline]
    pub(crate) fn words(self) -> Words<'a> {
        self.words
    }

    /// Whether it is still in its frame, so that what was read before is its
    /// own. To be asked after a fence.
    #[inline]
    pub(crate) fn is_still(self) -> bool {
        self.entry.load(Ordering::Relaxed) == self.named
    }
}

/// What keeps a page resident beyond its installation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Hold {
    /// Nothing but having been read lately.
    Loose,
    /// A pin, to be given back with [`PageCache::unpin`].
    Pinned,
}

/// Frames that are allocated together. What is asked of them more often than
/// their words lies close together, beside that of others.
struct Chunk {
    words: HugeWords,
    states: Box<[State]>,
    /// Whether each frame was read since the clock's hand came by.
    referenced: Box<[AtomicBool]>,
    /// The drain that pinned each frame's page last; see [`DrainPins`].
    stamps: Box<[AtomicU64]>,
}

impl Chunk {
    fn new(frames: usize) -> Chunk {
        let each = 0..frames;
        Chunk {
            words: HugeWords::new(frames * FRAME_WORDS),
            states: each.clone().map(|_| State::new()).collect(),
            referenced: each.clone().map(|_| AtomicBool::new(false)).collect(),
            stamps: each.map(|_| AtomicU64::new(0)).collect(),
        }
    }

    #[inline]
    fn words(&self, within: usize) -> Option<Words<'_>> {
        let (frames, _) = self.words.as_chunks();
        frames.get(within).map(Words)
    }

    #[inline]
    fn frame(&self, within: usize) -> Option<Frame<'_>> {
        Some(Frame {
            words: self.words(within)?,
            state: self.states.get(within)?,
        })
    }

    #[inline]
    fn mark_referenced(&self, within: usize) {
        if let Some(referenced) = self.referenced.get(within)
            && !referenced.load(Ordering::Relaxed)
        {
            referenced.store(true, Ordering::Relaxed);
        }
    }
}

/// All frames, bounded in number.
pub(crate) struct PageCache {
    chunks: Box<[OnceLock<Chunk>]>,
    versions: Box<[AtomicU64]>,
    /// Bytes of all resident counters, and how many there should be at most.
    counter_bytes: AtomicU64,
    max_counter_bytes: u64,
    clock: Mutex<Clock>,
    bytes: IntGauge,
    evictions: IntCounter,
}

struct Clock {
    capacity: u32,
    /// Whose page each frame holds, by frame, as far as frames were used.
    owners: Vec<Option<Owner>>,
    /// Frames that were used and hold no page.
    free: Vec<FrameIndex>,
    hand: usize,
    /// Where the search for pages with counters goes on.
    counters_hand: usize,
    generation: u32,
    /// Drains so far.
    last_drain: u64,
    /// Those under way, one a lane at most.
    drains: Vec<u64>,
}

/// Whether a page that was read lately may be evicted.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Marks {
    Respected,
    Ignored,
}

struct Owner {
    table: Arc<PageTable>,
    page: u32,
}

impl PageCache {
    /// A cache of `bytes` bytes. Frames are allocated as they are needed.
    pub(crate) fn new(bytes: u64, gauge: IntGauge, evictions: IntCounter) -> Self {
        let max_counter_bytes = bytes / COUNTERS_SHARE;
        let of_pages = (bytes - max_counter_bytes) / u64::from(PAGE_BYTES);
        let frames = usize::try_from(of_pages).unwrap_or(usize::MAX);
        let frames = frames.clamp(MIN_FRAMES, u32::MAX as usize - CHUNK_FRAMES);
        PageCache {
            chunks: (0..frames.div_ceil(CHUNK_FRAMES))
                .map(|_| OnceLock::new())
                .collect(),
            versions: (0..STRIPES).map(|_| AtomicU64::new(0)).collect(),
            counter_bytes: AtomicU64::new(0),
            max_counter_bytes,
            clock: Mutex::new(Clock {
                capacity: frames as u32,
                owners: Vec::new(),
                free: Vec::new(),
                hand: 0,
                counters_hand: 0,
                generation: 0,
                last_drain: 0,
                drains: Vec::new(),
            }),
            bytes: gauge,
            evictions,
        }
    }

    /// Pages that fit.
    pub(crate) fn capacity(&self) -> u32 {
        self.clock.lock().capacity
    }

    #[inline]
    fn frame_at(&self, index: usize) -> Option<Frame<'_>> {
        let (chunk, within) = self.chunk(index)?;
        chunk.frame(within)
    }

    /// The chunk of a frame, and its place there.
    #[inline]
    fn chunk(&self, index: usize) -> Option<(&Chunk, usize)> {
        let chunk = self.chunks.get(index / CHUNK_FRAMES)?.get()?;
        Some((chunk, index % CHUNK_FRAMES))
    }

    /// The frame of that number.
    #[inline]
    pub(crate) fn frame(&self, index: FrameIndex) -> Option<Frame<'_>> {
        self.frame_at(index.0 as usize)
    }

    /// A page, if it is resident, to be read word by word. No lock: what was
    /// read is the page's if it [is still](ResidentPage::is_still) in its frame
    /// afterwards.
    #[inline]
    pub(crate) fn resident<'a>(
        &'a self,
        table: &'a PageTable,
        page: u32,
    ) -> Option<ResidentPage<'a>> {
        let entry = table.entry(page)?;
        let named = entry.load(Ordering::Acquire);
        let (chunk, within) = self.chunk(frame_of(named)?.0 as usize)?;
        chunk.mark_referenced(within);
        Some(ResidentPage {
            words: chunk.words(within)?,
            entry,
            named,
        })
    }

    /// A word of a page, or `None` if the page is not resident. No lock.
    #[inline]
    pub(crate) fn read(&self, table: &PageTable, page: u32, word: u16) -> Option<u64> {
        let resident = self.resident(table, page)?;
        let value = resident.words.load(word);
        fence(Ordering::Acquire);
        resident.is_still().then_some(value)
    }

    #[inline]
    fn stamp(&self, index: FrameIndex) -> Option<&AtomicU64> {
        let (chunk, within) = self.chunk(index.0 as usize)?;
        chunk.stamps.get(within)
    }

    fn mark_referenced(&self, index: FrameIndex) {
        if let Some((chunk, within)) = self.chunk(index.0 as usize) {
            chunk.mark_referenced(within);
        }
    }

    /// Copies of a class that are counted beside a page, or `None` if the page
    /// is not resident. No lock.
    pub(crate) fn counter(&self, table: &PageTable, page: u32, key: CounterKey) -> Option<u64> {
        let entry = table.entry(page)?;
        let named = entry.load(Ordering::Acquire);
        let copies = self.frame(frame_of(named)?)?.counter(key);
        fence(Ordering::Acquire);
        (entry.load(Ordering::Relaxed) == named).then_some(copies)
    }

    /// Asks for the memory of a word.
    #[inline]
    pub(crate) fn prefetch(&self, table: &PageTable, page: u32, word: u16) {
        let words = table
            .entry(page)
            .and_then(|entry| frame_of(entry.load(Ordering::Relaxed)))
            .and_then(|index| self.chunk(index.0 as usize))
            .and_then(|(chunk, within)| chunk.words(within));
        if let Some(words) = words {
            words.prefetch(word);
        }
    }

    /// Sets counters of a page that is pinned. Only the filter's lane does,
    /// between [`begin_publish`](Self::begin_publish) and
    /// [`end_publish`](Self::end_publish).
    pub(crate) fn set_counters(&self, index: FrameIndex, changed: &[ChangedCounter]) {
        let Some(frame) = self.frame(index).filter(|_| !changed.is_empty()) else {
            return;
        };
        let mut counters = frame
            .state
            .counters
            .load()
            .as_deref()
            .cloned()
            .unwrap_or_default();
        for counter in changed {
            counters.set(counter.key, counter.copies);
        }
        counters.shrink();
        self.replace_counters(frame, (!counters.is_empty()).then(|| Arc::new(counters)));
    }

    fn replace_counters(&self, frame: Frame<'_>, counters: Option<Arc<Counters>>) {
        let bytes = |counters: Option<&Counters>| counters.map_or(0, |it| it.bytes() as u64);
        let after = bytes(counters.as_deref());
        let before = bytes(frame.state.counters.swap(counters).as_deref());
        if after == before {
            return;
        }
        self.counter_bytes.fetch_add(after, Ordering::Relaxed);
        self.counter_bytes.fetch_sub(before, Ordering::Relaxed);
        self.bytes.add(after as i64 - before as i64);
    }

    /// Whether counters take more than their share: their pages should be
    /// checkpointed, so that they may be evicted.
    pub(crate) fn has_many_counters(&self) -> bool {
        self.counter_bytes.load(Ordering::Relaxed) > self.max_counter_bytes
    }

    /// Whether counters take so much more than their share that commits should
    /// wait.
    pub(crate) fn has_too_many_counters(&self) -> bool {
        self.counter_bytes.load(Ordering::Relaxed) > 4 * self.max_counter_bytes
    }

    /// Evicts pages with counters while there are more counters than should
    /// be, as far as such pages may be evicted.
    pub(crate) fn shed_counters(&self) {
        if self.counter_bytes.load(Ordering::Relaxed) > self.max_counter_bytes {
            self.shed_counters_of(&mut self.clock.lock());
        }
    }

    fn shed_counters_of(&self, clock: &mut Clock) {
        for _ in 0..clock.owners.len().min(COUNTERS_SWEEP) {
            if self.counter_bytes.load(Ordering::Relaxed) <= self.max_counter_bytes {
                return;
            }
            let at = clock.counters_hand % clock.owners.len();
            clock.counters_hand = at + 1;
            let has_counters = self.frame_at(at).is_some_and(|frame| frame.counters() > 0);
            if has_counters && self.try_evict(clock, at, Marks::Ignored) {
                clock.free.push(FrameIndex(at as u32));
            }
        }
    }

    /// Whether a page is resident just now.
    #[inline]
    pub(crate) fn is_resident(&self, table: &PageTable, page: u32) -> bool {
        table
            .entry(page)
            .is_some_and(|entry| entry.load(Ordering::Relaxed) != 0)
    }

    /// The frame of a page that is pinned, so that it can't go away.
    pub(crate) fn resident_frame(&self, table: &PageTable, page: u32) -> Option<FrameIndex> {
        frame_of(table.entry(page)?.load(Ordering::Acquire))
    }

    /// The stripe of a page's version.
    #[inline]
    pub(crate) fn stripe(&self, table: &PageTable, page: u32) -> usize {
        table.first_stripe.wrapping_add(page as usize) % STRIPES
    }

    /// The version of a stripe, or `None` while a commit is being published
    /// to it. Two equal versions: nothing was published between.
    #[inline]
    pub(crate) fn version(&self, stripe: usize) -> Option<u64> {
        let version = self.versions.get(stripe)?.load(Ordering::Acquire);
        (version < PUBLISHING).then_some(version)
    }

    /// Whether each stripe still has the version it was read with. Called
    /// after the last word was read.
    #[inline]
    pub(crate) fn still(&self, seen: &[(usize, u64)]) -> bool {
        fence(Ordering::Acquire);
        seen.iter().all(|&(stripe, version)| {
            self.versions
                .get(stripe)
                .is_some_and(|now| now.load(Ordering::Relaxed) == version)
        })
    }

    /// Says that words of these stripes are about to change.
    pub(crate) fn begin_publish(&self, stripes: impl Iterator<Item = usize>) {
        for stripe in stripes {
            if let Some(version) = self.versions.get(stripe) {
                version.fetch_add(PUBLISHING, Ordering::Relaxed);
            }
        }
        fence(Ordering::Release);
    }

    /// Says that they have changed. To be called with the same stripes.
    pub(crate) fn end_publish(&self, stripes: impl Iterator<Item = usize>) {
        for stripe in stripes {
            if let Some(version) = self.versions.get(stripe) {
                version.fetch_sub(PUBLISHING - 1, Ordering::Release);
            }
        }
    }

    /// Starts a drain that has pinned nothing yet.
    pub(crate) fn begin_drain(self: &Arc<Self>) -> DrainPins {
        let mut clock = self.clock.lock();
        // 0 is nobody's.
        clock.last_drain += 1;
        let drain = clock.last_drain;
        clock.drains.push(drain);
        DrainPins {
            drain,
            cache: Arc::clone(self),
            reached: 0,
            held: 0,
        }
    }

    /// Gives a page a frame, unless it has one already. `None`: every frame
    /// is dirty or pinned just now.
    ///
    /// Only the owner of the page's flight (see `loader`) calls this, or the
    /// lane for a page that nobody can know yet; so an image can't be late.
    pub(crate) fn install(
        &self,
        table: &Arc<PageTable>,
        page: u32,
        image: &PageImage<'_>,
        hold: Hold,
    ) -> Option<FrameIndex> {
        let entry = table.entry_to_fill(page)?;
        let mut clock = self.clock.lock();
        let index = match frame_of(entry.load(Ordering::Acquire)) {
            Some(index) => index,
            None => {
                let index = self.take_frame(&mut clock)?;
                let frame = self.frame(index)?;
                self.stamp(index)?.store(0, Ordering::Relaxed);
                self.mark_referenced(index);
                // Readers of the frame's last page must see that its entry is
                // gone before they see these words.
                fence(Ordering::Release);
                frame.fill(table.width, image.slots);
                self.replace_counters(frame, image.counters.clone());
                clock.generation = clock.generation.wrapping_add(1);
                let named = u64::from(clock.generation) << 32 | (u64::from(index.0) + 1);
                entry.store(named, Ordering::SeqCst);
                if let Some(owner) = clock.owners.get_mut(index.0 as usize) {
                    *owner = Some(Owner {
                        table: Arc::clone(table),
                        page,
                    });
                }
                table.resident.fetch_add(1, Ordering::Relaxed);
                self.bytes.add(i64::from(PAGE_BYTES));
                index
            }
        };
        self.hold(index, hold);
        self.shed_counters_of(&mut clock);
        Some(index)
    }

    /// Pins a page if it is resident.
    pub(crate) fn pin(&self, table: &PageTable, page: u32) -> Option<FrameIndex> {
        let _clock = self.clock.lock();
        let index = frame_of(table.entry(page)?.load(Ordering::Acquire))?;
        self.hold(index, Hold::Pinned);
        Some(index)
    }

    /// Gives a pin back.
    pub(crate) fn unpin(&self, index: FrameIndex) {
        if let Some(frame) = self.frame(index) {
            frame.state.pins.fetch_sub(1, Ordering::Release);
        }
    }

    fn hold(&self, index: FrameIndex, hold: Hold) {
        if hold == Hold::Pinned
            && let Some(frame) = self.frame(index)
        {
            frame.state.pins.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// A frame that holds no page: a new one, or one whose page the clock's
    /// hand finds unused.
    fn take_frame(&self, clock: &mut Clock) -> Option<FrameIndex> {
        if let Some(free) = clock.free.pop() {
            return Some(free);
        }
        let used = clock.owners.len();
        if used < clock.capacity as usize {
            let before = used / CHUNK_FRAMES * CHUNK_FRAMES;
            let frames = (clock.capacity as usize - before).min(CHUNK_FRAMES);
            self.chunks
                .get(used / CHUNK_FRAMES)?
                .get_or_init(|| Chunk::new(frames));
            clock.owners.push(None);
            return Some(FrameIndex(used as u32));
        }
        // Once round to clear the marks of use, once to find; and once more for
        // readers that mark pages as fast as the hand clears them.
        let rounds = [Marks::Respected, Marks::Respected, Marks::Ignored];
        for marks in rounds {
            for _ in 0..used {
                let at = clock.hand;
                clock.hand = (clock.hand + 1) % used;
                if self.try_evict(clock, at, marks) {
                    return Some(FrameIndex(at as u32));
                }
            }
        }
        None
    }

    /// Whether a frame was read since this was asked last.
    fn take_mark(&self, at: usize) -> bool {
        let chunk = self.chunk(at);
        let mark = chunk.and_then(|(chunk, within)| chunk.referenced.get(within));
        mark.is_some_and(|mark| mark.swap(false, Ordering::Relaxed))
    }

    /// Whether a drain that is under way has pinned the page in a frame.
    fn is_planned_over(&self, drains: &[u64], at: usize) -> bool {
        let stamp = self.chunk(at).and_then(|(chunk, at)| chunk.stamps.get(at));
        stamp.is_some_and(|stamp| drains.contains(&drain_of(stamp.load(Ordering::Relaxed))))
    }

    fn try_evict(&self, clock: &mut Clock, at: usize, marks: Marks) -> bool {
        let (Some(frame), Some(slot)) = (self.frame_at(at), clock.owners.get_mut(at)) else {
            return false;
        };
        // A free frame, which is in the list of free frames.
        let Some(owner) = slot else {
            return false;
        };
        let Some(entry) = owner.table.entry(owner.page) else {
            return false;
        };
        // Pins before dirt: a drain marks what it changed before it lets go.
        if frame.state.pins.load(Ordering::Acquire) > 0
            || self.is_planned_over(&clock.drains, at)
            || frame.dirty_state() != DirtyState::Clean
            || (self.take_mark(at) && marks == Marks::Respected)
        {
            return false;
        }
        entry.store(0, Ordering::Release);
        owner.table.resident.fetch_sub(1, Ordering::Relaxed);
        *slot = None;
        self.replace_counters(frame, None);
        self.bytes.sub(i64::from(PAGE_BYTES));
        self.evictions.inc();
        true
    }
}

/// The pages that a lane's drain plans over. They stay resident, each in its
/// frame, until this is dropped.
///
/// A frame that carries the number of a drain which is under way is pinned by
/// it, so the page that names the frame is the page that was pinned. A page
/// belongs to one lane, which has one drain at a time: nobody else's number is
/// overwritten.
pub(crate) struct DrainPins {
    cache: Arc<PageCache>,
    /// Number of the drain.
    drain: u64,
    /// Pages that the drain has come to.
    reached: usize,
    /// These, and those that it expects: all that can't be evicted.
    held: usize,
}

impl DrainPins {
    /// Pages that the drain has come to; those that it only expects do not
    /// count.
    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.reached
    }

    /// Pages that the drain keeps in memory.
    #[inline]
    pub(crate) fn held(&self) -> usize {
        self.held
    }

    /// The frame of a page that the drain has come to before, or comes to now
    /// and has expected. No lock.
    #[inline]
    pub(crate) fn pinned(&mut self, table: &PageTable, page: u32) -> Option<FrameIndex> {
        let index = frame_of(table.entry(page)?.load(Ordering::Acquire))?;
        let stamp = self.cache.stamp(index)?;
        let number = stamp.load(Ordering::Relaxed);
        if number == expected(self.drain) {
            // It is a pin already.
            stamp.store(reached(self.drain), Ordering::Relaxed);
            self.reached += 1;
            return Some(index);
        }
        (number == reached(self.drain)).then_some(index)
    }

    /// Pins a page that the drain comes to, and holds not yet. `None` if it is
    /// not resident.
    pub(crate) fn pin(&mut self, table: &PageTable, page: u32) -> Option<FrameIndex> {
        let entry = table.entry(page)?;
        let _clock = self.cache.clock.lock();
        let index = frame_of(entry.load(Ordering::Acquire))?;
        self.cache
            .stamp(index)?
            .store(reached(self.drain), Ordering::Relaxed);
        self.cache.mark_referenced(index);
        self.reached += 1;
        self.held += 1;
        Some(index)
    }

    /// Pins the pages of words that the drain will come to, as far as they are
    /// resident and as long as it does not hold `most` pages, all of them under
    /// the lock once; and asks for the words' memory.
    pub(crate) fn expect<'t>(
        &mut self,
        words: impl Iterator<Item = (&'t PageTable, u32, u16)>,
        most: usize,
    ) {
        let _clock = self.cache.clock.lock();
        for (table, page, word) in words {
            let entry = table.entry(page);
            let index = entry.and_then(|entry| frame_of(entry.load(Ordering::Acquire)));
            let Some((chunk, within)) = index.and_then(|it| self.cache.chunk(it.0 as usize)) else {
                continue;
            };
            if let Some(words) = chunk.words(within) {
                words.prefetch(word);
            }
            let Some(stamp) = chunk.stamps.get(within) else {
                continue;
            };
            let is_held = stamp.load(Ordering::Relaxed) | 1 == reached(self.drain);
            if !is_held && self.held < most {
                self.held += 1;
                stamp.store(expected(self.drain), Ordering::Relaxed);
                chunk.mark_referenced(within);
            }
        }
    }
}

impl Drop for DrainPins {
    fn drop(&mut self) {
        let mut clock = self.cache.clock.lock();
        clock.drains.retain(|&drain| drain != self.drain);
    }
}

/// What a frame carries whose page a drain expects to come to.
#[inline]
fn expected(drain: u64) -> u64 {
    drain << 1
}

/// And of one that it came to.
#[inline]
fn reached(drain: u64) -> u64 {
    drain << 1 | 1
}

#[inline]
fn drain_of(stamp: u64) -> u64 {
    stamp >> 1
}

#[inline]
fn frame_of(named: u64) -> Option<FrameIndex> {
    (named as u32).checked_sub(1).map(FrameIndex)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cuckoo::paged::Paged;

    fn cache() -> Arc<PageCache> {
        Arc::new(PageCache::new(
            MIN_FRAMES as u64 * u64::from(PAGE_BYTES),
            IntGauge::new("bytes", "bytes").unwrap(),
            IntCounter::new("evictions", "evictions").unwrap(),
        ))
    }

    fn table(pages: u32) -> Arc<PageTable> {
        let layout = Paged::new(u64::from(pages), 0, SlotWidth::Bits16).unwrap();
        Arc::new(PageTable::new(
            FilterId(7),
            Ordinal(0),
            &Layout::Paged(layout),
        ))
    }

    fn install(cache: &PageCache, table: &Arc<PageTable>, page: u32) -> Option<FrameIndex> {
        let word = (u64::from(page) + 1).to_le_bytes();
        let image = PageImage {
            slots: &word,
            counters: None,
        };
        cache.install(table, page, &image, Hold::Loose)
    }

    fn empty() -> PageImage<'static> {
        PageImage::default()
    }

    #[test]
    fn a_page_reads_as_installed_until_it_is_evicted() {
        let (cache, table) = (cache(), table(2_000));
        for page in 0..2_000 {
            install(&cache, &table, page).unwrap();
            assert_eq!(cache.read(&table, page, 0), Some(u64::from(page) + 1));
            assert_eq!(cache.read(&table, page, 511), Some(0));
        }
        assert_eq!(table.resident(), MIN_FRAMES as u32);
        for page in 0..2_000 {
            let word = cache.read(&table, page, 0);
            assert!(word.is_none_or(|word| word == u64::from(page) + 1));
        }
        assert_eq!(cache.evictions.get(), 2_000 - MIN_FRAMES as u64);
    }

    #[test]
    fn what_is_pinned_dirty_or_planned_over_stays() {
        let (cache, table) = (cache(), table(4_000));
        let pinned = cache.install(&table, 0, &empty(), Hold::Pinned).unwrap();
        let dirty = install(&cache, &table, 1).unwrap();
        cache
            .frame(dirty)
            .unwrap()
            .set_dirty_state(DirtyState::Dirty);
        install(&cache, &table, 2).unwrap();
        let mut drain = cache.begin_drain();
        let planned = drain.pin(&table, 2).unwrap();
        assert_eq!(drain.pinned(&table, 2), Some(planned));
        assert_eq!(drain.pinned(&table, 1), None);
        install(&cache, &table, 3).unwrap();
        let words = |pages: [u32; 3]| pages.map(|page| (&*table, page, 0)).into_iter();
        drain.expect(words([2, 9, 3]), 2);
        assert_eq!((drain.len(), drain.held()), (1, 2));
        // It may hold no more: what it comes to without room is not pinned.
        drain.expect(words([0, 1, 9]), 2);
        assert_eq!((drain.len(), drain.held()), (1, 2));
        for page in 4..4_000 {
            install(&cache, &table, page).unwrap();
        }
        for page in 0..4 {
            assert!(cache.is_resident(&table, page), "page {page}");
        }
        // Another's end does not let it go.
        drop(cache.begin_drain());
        for page in 4..4_000 {
            install(&cache, &table, page).unwrap();
        }
        let reached = drain.pinned(&table, 3).unwrap();
        assert_eq!(drain.pinned(&table, 3), Some(reached));
        assert_eq!(drain.pinned(&table, 2), Some(planned));
        assert_eq!((drain.len(), drain.held()), (2, 2));
        cache.unpin(pinned);
        cache
            .frame(dirty)
            .unwrap()
            .set_dirty_state(DirtyState::Clean);
        drop(drain);
        let again = self::table(1_000);
        for page in 0..1_000 {
            install(&cache, &again, page).unwrap();
        }
        for page in 0..4 {
            assert!(!cache.is_resident(&table, page), "page {page}");
        }
        assert_ne!(planned, pinned);
    }

    #[test]
    fn a_cache_of_nothing_but_held_pages_says_that_it_is_full() {
        let (cache, table) = (cache(), table(1_000));
        for page in 0..MIN_FRAMES as u32 {
            cache.install(&table, page, &empty(), Hold::Pinned).unwrap();
        }
        assert_eq!(install(&cache, &table, 999), None);
    }

    #[test]
    fn counters_stay_with_their_page_and_within_their_share() {
        let (cache, table) = (cache(), table(200));
        let counters = |page: u32| {
            let mut counters = Counters::default();
            for class in 0..400 {
                counters.set(CounterKey(class + 1), u64::from(page) + 1);
            }
            Arc::new(counters)
        };
        for page in 0..200 {
            let image = PageImage {
                slots: &[1, 0, 0, 2],
                counters: Some(counters(page)),
            };
            let index = cache.install(&table, page, &image, Hold::Loose).unwrap();
            let frame = cache.frame(index).unwrap();
            assert_eq!(frame.occupied(), 2);
            assert_eq!(
                cache.counter(&table, page, CounterKey(7)),
                Some(u64::from(page) + 1)
            );
        }
        let held = cache.counter_bytes.load(Ordering::Relaxed);
        assert!(held <= cache.max_counter_bytes, "{held} bytes of counters");
        assert!(table.resident() < 20, "{} pages", table.resident());
        assert_eq!(
            cache.bytes.get() as u64,
            held + u64::from(table.resident()) * u64::from(PAGE_BYTES)
        );
        // Frames that were given up are used again before others.
        let before = cache.clock.lock().owners.len();
        for page in 0..100 {
            install(&cache, &table, page).unwrap();
            let copies = cache.counter(&table, page, CounterKey(7)).unwrap();
            assert!(copies == 0 || copies == u64::from(page) + 1);
        }
        assert!(cache.clock.lock().owners.len() <= before.max(120));
    }

    #[test]
    fn a_version_is_unknown_while_two_lanes_publish_and_new_afterwards() {
        let (cache, table) = (cache(), table(1));
        let stripe = cache.stripe(&table, 0);
        let before = cache.version(stripe).unwrap();
        cache.begin_publish([stripe].into_iter());
        cache.begin_publish([stripe].into_iter());
        assert_eq!(cache.version(stripe), None);
        cache.end_publish([stripe].into_iter());
        assert_eq!(cache.version(stripe), None);
        cache.end_publish([stripe].into_iter());
        assert_ne!(cache.version(stripe), Some(before));
        assert!(!cache.still(&[(stripe, before)]));
    }

    #[test]
    fn readers_never_see_the_words_of_another_page_while_frames_are_reused() {
        let cache = cache();
        let table = table(MIN_FRAMES as u32 * 3);
        let stop = Arc::new(AtomicBool::new(false));
        let readers: Vec<_> = (0..2u32)
            .map(|start| {
                let (cache, table, stop) =
                    (Arc::clone(&cache), Arc::clone(&table), Arc::clone(&stop));
                std::thread::spawn(move || {
                    let (mut page, mut seen) = (start, 0u64);
                    // On a busy machine the writer may end before this begins.
                    while !stop.load(Ordering::Relaxed) || seen == 0 {
                        page = (page * 5 + 7) % table.pages;
                        if let Some(word) = cache.read(&table, page, 0) {
                            assert_eq!(word, u64::from(page) + 1);
                            seen += 1;
                        }
                    }
                    seen
                })
            })
            .collect();
        for round in 0..100 {
            for page in 0..table.pages {
                install(&cache, &table, (page * 7 + round) % table.pages).unwrap();
            }
        }
        stop.store(true, Ordering::Relaxed);
        for reader in readers {
            assert!(reader.join().unwrap() > 0);
        }
    }
}
