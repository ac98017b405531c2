//! The page cache: a bounded number of frames, and for every page the frame
//! that it lies in.
//!
//! Readers take no lock and wait for nothing. A page's words are atomics in a
//! frame that is never freed; its [entry](super::seqlock) says which frame, and
//! whether it still is the page's. Whether several pages were read as of one
//! moment is what their [versions](Versions) tell.
//!
//! Pins are taken and frames are given away under one lock (or a pin is made of
//! an expectation, which is one already). So a page that is resident is never
//! hidden, even for a moment: a page without an entry is not resident.
//!
//! The side counters of a page lie beside its words. They are few, but nothing
//! says how few, so they have a share of the cache's bytes of their own; when
//! it is used up, pages with counters are evicted first.

use super::eviction::{COUNTERS_SWEEP, Eviction};
use super::flights::Flights;
use super::frame::{Frame, FrameIndex, Words};
use super::frames::Frames;
use super::image::PageImage;
use super::leaves::frame_at;
use super::parked::{Changed, Parked, ParkedBytes, ParkedPage};
use super::seqlock::{Entry, Version, WordsRead};
use super::table::{Extent, PageTable};
use super::versions::Versions;
use cuckood_filter::chain::counters::{CounterKey, Counters};
use cuckood_filter::chain::pages::WholePage;
use cuckood_filter::chain::plan::ChangedCounter;
use cuckood_filter::cuckoo::paged::PAGE_WORDS;
use cuckood_metrics::Metrics;
use parking_lot::Mutex;
use std::ops::RangeInclusive;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Words of a page in a frame that may be parked. One that changed in more costs as much
/// there as its frame.
const MAX_WORDS: usize = PAGE_WORDS as usize / 2;

/// Pages in memory.
pub struct PageCache {
    pub(super) frames: Frames,
    pub(super) eviction: Mutex<Eviction>,
    /// Pages that are being brought in.
    pub(super) flights: Flights,
    /// The versions of all pages.
    pub versions: Versions,
    parked: ParkedBytes,
}

/// A page in its frame, as one reader found it.
#[derive(Clone, Copy)]
pub struct ResidentPage<'a> {
    words: Words<'a>,
    entry: &'a Entry,
    place: u64,
}

impl<'a> ResidentPage<'a> {
    /// The words of its frame.
    #[inline]
    pub fn words(self) -> Words<'a> {
        self.words
    }

    /// Whether it is still in its frame, so that the words that were read are
    /// its own.
    #[inline]
    pub fn is_still(self, read: WordsRead) -> bool {
        self.entry.is_still(self.place, read)
    }
}

/// A page as it was when somebody began to read its image.
#[derive(Clone, Copy)]
pub(super) struct AsOf {
    /// Its version; `None` during a change.
    pub(super) version: Option<u64>,
    extent: Extent,
}

impl AsOf {
    /// Whether there was such a page.
    pub(super) fn is_there(&self, page: u32) -> bool {
        page < self.extent.pages()
    }
}

/// Why a page got no frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NotInstalled {
    /// Every frame is dirty or pinned just now.
    NoFrame,
    /// The page may be no more.
    Gone,
}

/// Where a page is changed.
pub(super) enum Place {
    /// In a frame, in which it is pinned.
    Frame(FrameIndex),
    /// It was, without one.
    Parked(Parked),
}

/// What keeps a page resident beyond its installation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Hold {
    /// Nothing but having been read lately.
    Loose,
    /// A pin, to be given back with [`PageCache::unpin`].
    Pinned,
}

/// Reading, without a lock.
impl PageCache {
    /// A page, if it is resident, to be read word by word. What was read is the
    /// page's if it [is still](ResidentPage::is_still) in its frame afterwards.
    #[inline]
    pub fn resident<'a>(&'a self, table: &'a PageTable, page: u32) -> Option<ResidentPage<'a>> {
        let (entry, place) = self.frames.leaves.place(table.leaf(page)?, page)?;
        let (chunk, within) = self.frames.chunk(frame_at(place)?)?;
        chunk.mark_referenced(within);
        Some(ResidentPage {
            words: chunk.words(within)?,
            entry,
            place,
        })
    }

    /// A word of a page, or `None` if the page is not resident.
    #[inline]
    pub fn read(&self, table: &PageTable, page: u32, word: u16) -> Option<u64> {
        let resident = self.resident(table, page)?;
        let value = resident.words.load(word);
        resident.is_still(WordsRead::fence()).then_some(value)
    }

    /// Copies of a class that are counted beside a page, or `None` if the page
    /// is not resident.
    pub fn counter(&self, table: &PageTable, page: u32, key: CounterKey) -> Option<u64> {
        let (entry, place) = self.frames.leaves.place(table.leaf(page)?, page)?;
        let copies = self.frame(frame_at(place)?)?.counter(key);
        entry.is_still(place, WordsRead::fence()).then_some(copies)
    }

    /// What is counted beside a page under the keys of a range, or `None` if the
    /// page is not resident.
    pub fn counters_within(
        &self,
        table: &PageTable,
        page: u32,
        keys: RangeInclusive<CounterKey>,
    ) -> Option<Counters> {
        let (entry, place) = self.frames.leaves.place(table.leaf(page)?, page)?;
        let counters = self.frame(frame_at(place)?)?.counters_within(keys);
        entry
            .is_still(place, WordsRead::fence())
            .then_some(counters)
    }

    /// Asks for the memory of a word.
    #[inline]
    pub fn prefetch(&self, table: &PageTable, page: u32, word: u16) {
        let words = self
            .resident_frame(table, page)
            .and_then(|index| self.frames.chunk(index))
            .and_then(|(chunk, within)| chunk.words(within));
        if let Some(words) = words {
            words.prefetch(word);
        }
    }

    /// Whether a page is resident just now.
    #[inline]
    pub fn is_resident(&self, table: &PageTable, page: u32) -> bool {
        self.resident_frame(table, page).is_some()
    }
}

impl PageCache {
    /// A cache of `bytes` bytes.
    pub fn new(bytes: u64, metrics: &Metrics) -> Self {
        PageCache {
            frames: Frames::new(bytes, metrics.cache_bytes.clone()),
            eviction: Mutex::new(Eviction::new(metrics)),
            flights: Flights::default(),
            versions: Versions::new(),
            parked: ParkedBytes::new(metrics.parked_bytes.clone()),
        }
    }

    /// Pages that fit.
    pub fn capacity(&self) -> u32 {
        self.frames.capacity
    }

    /// The frame of that number.
    #[inline]
    pub fn frame(&self, index: FrameIndex) -> Option<Frame<'_>> {
        self.frames.get(index)
    }

    /// The frame of a page, which stays its own only if the page is pinned.
    #[inline]
    pub fn resident_frame(&self, table: &PageTable, page: u32) -> Option<FrameIndex> {
        let (_, place) = self.frames.leaves.place(table.leaf(page)?, page)?;
        frame_at(place)
    }

    /// What tells later whether a page was dropped since, or changed without a frame. To
    /// be asked for before its image is read.
    pub(super) fn as_of(&self, table: &PageTable, page: u32) -> AsOf {
        // In this order: what the version does not tell about, the extent tells about.
        let version = self.versions.of(table, page).and_then(Version::read);
        AsOf {
            version,
            extent: table.extent(),
        }
    }

    /// Gives a page a frame, unless it has one already. `as_of` is from before
    /// the image was read.
    ///
    /// Only the owner of the page's flight (see `loader`) calls this, or the
    /// lane for a page that is not published; so an image can't be late, unless
    /// its page was dropped since, and whatever has its number now is another
    /// page; or unless it changed without a frame.
    pub(super) fn install(
        &self,
        table: &Arc<PageTable>,
        page: u32,
        image: &PageImage<'_>,
        hold: Hold,
        as_of: AsOf,
    ) -> Result<FrameIndex, NotInstalled> {
        let leaf = table.leaf_to_fill(page).ok_or(NotInstalled::Gone)?;
        let mut eviction = self.eviction.lock();
        // Pages are detached and changed without a frame under the lock, after their
        // versions changed, and with the extent.
        if table.extent().generation() != as_of.extent.generation() {
            let version = self.versions.of(table, page).and_then(Version::read);
            if version.is_none() || version != as_of.version {
                return Err(NotInstalled::Gone);
            }
        }
        let index = match self.resident_frame(table, page) {
            Some(index) => index,
            None => {
                let index = eviction.take_frame(&self.frames);
                let index = index.ok_or(NotInstalled::NoFrame)?;
                let frame = self.frame(index).ok_or(NotInstalled::NoFrame)?;
                let stamp = self.frames.stamp(index).ok_or(NotInstalled::NoFrame)?;
                stamp.store(0, Ordering::Relaxed);
                self.frames.mark_referenced(index);
                let entry = self.frames.leaves.fill(&mut eviction.leaves, leaf, page);
                let entry = entry.ok_or(NotInstalled::NoFrame)?;
                entry.set(eviction.assign(index, table, page), || {
                    frame.fill(table.geometry().slot_width(), image.slots);
                    self.frames
                        .set_counters(index, table, image.counters.clone());
                });
                table.count_resident();
                self.frames.count_page();
                index
            }
        };
        self.hold(index, hold);
        eviction.shed_counters(&self.frames);
        Ok(index)
    }

    /// Takes a page out of its frame that is no more, and returns the frame,
    /// which is to be [released](Self::release) once no checkpoint has to do
    /// with it. Pins of the page are pins of the frame from then on.
    pub(super) fn detach(&self, table: &PageTable, page: u32) -> Option<FrameIndex> {
        let mut eviction = self.eviction.lock();
        let index = self.resident_frame(table, page)?;
        let (leaf, leaves) = (table.leaf(page)?, &mut eviction.leaves);
        self.frames.leaves.clear(leaves, leaf, page, index)?;
        Some(index)
    }

    /// Takes a frame back whose page was detached.
    pub(super) fn release(&self, index: FrameIndex) {
        self.eviction.lock().release(&self.frames, index);
    }

    /// Takes back the frame that was given to a page which did not come to be.
    pub fn take_back(&self, table: &PageTable, page: u32) {
        if let Some(index) = self.detach(table, page) {
            self.release(index);
        }
    }

    /// Pins a page if it is resident.
    pub(super) fn pin(&self, table: &PageTable, page: u32) -> Option<FrameIndex> {
        let _lock = self.eviction.lock();
        let index = self.resident_frame(table, page)?;
        self.hold(index, Hold::Pinned);
        Some(index)
    }

    /// Bytes of all parked pages.
    pub fn parked_bytes(&self) -> u64 {
        self.parked.get()
    }

    /// Pins a page that is resident, or parks what changes in it: nobody brings it in any
    /// more as it was before. The filter's lane alone does, in a change of the page's
    /// version.
    pub(super) fn pin_or_park(
        &self,
        table: &PageTable,
        page: u32,
        changed: impl Fn() -> Changed,
    ) -> Place {
        // Mostly it is still so under the lock.
        let ready = (!self.is_resident(table, page)).then(&changed);
        let _lock = self.eviction.lock();
        if let Some(index) = self.resident_frame(table, page) {
            self.hold(index, Hold::Pinned);
            return Place::Frame(index);
        }
        let changed = ready.unwrap_or_else(changed);
        let width = table.geometry().slot_width();
        let parked = self.parked.park(&table.parked, page, width, changed);
        // In this order: whoever knows of this generation finds what is parked.
        table.begin_generation();
        Place::Parked(parked)
    }

    /// Parks what changed in a page. Says whether nothing was before; `None`: it is too
    /// much, and nothing was done.
    pub(super) fn park(&self, table: &PageTable, page: u32, changed: Changed) -> Option<bool> {
        let parked = &table.parked;
        if parked.lock().get(&page).map_or(0, ParkedPage::words) + changed.words() > MAX_WORDS {
            return None;
        }
        let width = table.geometry().slot_width();
        Some(self.parked.park(parked, page, width, changed).is_first)
    }

    /// Frames that hold no page.
    pub fn free_frames(&self) -> usize {
        self.eviction.lock().free_frames(&self.frames)
    }

    /// Forgets what is parked of a page: its stored image has it all, or the page is no
    /// more.
    pub(super) fn unpark(&self, table: &PageTable, page: u32) {
        self.parked.forget(&table.parked, page);
    }

    /// Gives a pin back.
    pub fn unpin(&self, index: FrameIndex) {
        if let Some(frame) = self.frame(index) {
            frame.unpin();
        }
    }

    fn hold(&self, index: FrameIndex, hold: Hold) {
        if hold == Hold::Pinned
            && let Some(frame) = self.frame(index)
        {
            frame.pin();
        }
    }

    /// Sets counters of a page that is pinned. Only the filter's lane does, in
    /// a [change](super::Version::change) of the page's version.
    pub fn set_counters(&self, index: FrameIndex, table: &PageTable, changed: &[ChangedCounter]) {
        let Some(frame) = self.frame(index).filter(|_| !changed.is_empty()) else {
            return;
        };
        let mut counters = frame.counters_within(CounterKey::ALL);
        counters.set_all(changed.iter().map(|it| (it.key, it.copies)));
        self.frames.set_counters(index, table, to_be_kept(counters));
    }

    /// Sets a page as a whole that is pinned, under the same conditions.
    pub fn set_page(&self, index: FrameIndex, table: &PageTable, whole: &WholePage) {
        let Some(frame) = self.frame(index) else {
            return;
        };
        frame.set(whole);
        let counters = to_be_kept(whole.counters.clone());
        self.frames.set_counters(index, table, counters);
    }

    /// Whether counters take so much more than their share that commits should
    /// wait for pages to be evicted: as long as there are such that may be once
    /// they are clean. What commands keep in memory that wait themselves would be
    /// waited for in vain.
    pub(super) fn must_shed_counters(&self) -> bool {
        self.frames.has_too_many_counters() && self.eviction.lock().can_shed(&self.frames)
    }

    /// Bytes of all resident counters.
    pub fn counter_bytes(&self) -> u64 {
        self.frames.counter_bytes()
    }

    /// Whether counters take all that they may: nothing is done then that brings in
    /// more of them.
    pub fn is_full_of_counters(&self) -> bool {
        self.frames.is_full_of_counters()
    }

    /// Evicts some pages with counters while there are more counters than should
    /// be, as far as such pages may be evicted.
    pub fn shed_counters(&self) {
        if self.frames.has_many_counters() {
            self.eviction.lock().shed_counters(&self.frames);
        }
    }

    /// The same with all such pages, some at a time under the lock.
    pub(super) fn shed_all_counters(&self) {
        let mut left = self.frames.listed_with_counters();
        while left > 0 && self.frames.has_many_counters() {
            self.eviction.lock().shed_counters(&self.frames);
            left = left.saturating_sub(COUNTERS_SWEEP);
        }
    }
}

/// Counters as a frame has them, if there are any.
fn to_be_kept(mut counters: Counters) -> Option<Arc<Counters>> {
    counters.shrink();
    (!counters.is_empty()).then(|| Arc::new(counters))
}

#[cfg(test)]
mod tests;
