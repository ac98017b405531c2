//! Dirty pages, the redo log behind them, and the checkpoints that let the
//! log be cut.
//!
//! A commit writes a redo record; the pages it changes stay in memory, dirty, or
//! parked where they had no frame, until a checkpoint sees to them, a bounded
//! slice at a time, oldest first. If it is for their frames, it parks what changed
//! in them, which is little where there are more pages than frames; if it is for
//! the log, or for what is parked, it writes images. A record is needed as long as a page that it changed has no
//! image that contains the change. So the log is cut before the oldest record that
//! any dirty or parked page needs, and before the oldest record that was handed to
//! the store but is not published yet.
//!
//! Each lane has its [dirty pages](DirtyPages). The lane holds their lock while
//! it publishes, a checkpoint holds it while it copies images: an image is the
//! page as of some commit, and everything published later is known to be
//! missing in it.

mod slices;
mod thread;

pub use slices::CutLog;

use super::bounds::Bounds;
use super::cache::{PageCache, Place};
use super::dirty::{DirtyPage, DirtyPages, Need};
use super::frame::{DirtyState, FrameIndex};
use super::log::LogSizes;
use super::parked::{Changed, overlaid};
use super::table::PageTable;
use crate::disk::Disk;
use crate::page::Sequence;
use crate::store::{Garbage, PageStore, StoreError};
use cuckood_filter::chain::pages::WholePage;
use cuckood_filter::chain::params::PAGE_BYTES;
use cuckood_filter::chain::plan::{ChangedCounter, ChangedPage, PageChanges};
use cuckood_filter::cuckoo::bucket;
use cuckood_metrics::Metrics;
use parking_lot::{Condvar, Mutex, MutexGuard};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// A log that is cut before all pages of a filter are read. To cut one means to store
/// every page that is parked.
const LONG_LOG_BYTES: u64 = 32 << 20;

/// How long a commit waits for room before its callers are told to come back.
const ROOM_PATIENCE: Duration = Duration::from_secs(10);

/// Words and counters that are parked of a page, of which each further one costs a copy:
/// with each multiple of so many it should be brought in.
const MANY_ENTRIES: usize = 128;

/// Where changes of a page went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Applied {
    /// To its frame.
    Resident,
    /// They are parked.
    Parked,
    /// The same, and there are so many of them now that it should be brought in.
    ParkedMany,
}

/// What is dirty and what is logged, over all lanes.
pub struct Checkpointer {
    lanes: Box<[Mutex<DirtyPages>]>,
    cache: Arc<PageCache>,
    store: Arc<PageStore>,
    disk: Arc<Disk>,
    metrics: Arc<Metrics>,
    bounds: Bounds,
    next_sequence: AtomicU64,
    log: LogSizes,
    dirty_pages: AtomicU64,
    /// One slice at a time.
    slicing: Mutex<()>,
    signals: Mutex<Signals>,
    /// Wakes the checkpointer.
    work: Condvar,
    /// Wakes threads that wait for room.
    room: Condvar,
}

/// What a slice is for, in the order in which slices are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Purpose {
    /// Clean frames.
    Frames,
    /// Stored pages.
    Images,
    /// Whatever is near its bound.
    Bounds,
}

#[derive(Default)]
struct Signals {
    /// What has to be done whatever the bounds say.
    asked: BTreeSet<Purpose>,
    /// Pages of removed filters and dropped sub-filters, to be reclaimed.
    garbage: Vec<Garbage>,
    stop: bool,
    /// What the store said when the last slice failed; cleared by a success.
    failure: Option<String>,
}

/// Why commits find no room in memory or in the log.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NoRoom {
    /// The store refused the last one.
    #[error("{0}")]
    CheckpointsFail(String),
    /// They may not use what is left of the disk.
    #[error("the disk has no room for checkpoints")]
    DiskFull,
    /// All of them are beside pages that commands keep in memory.
    #[error("counters of hot items take all the memory that they may")]
    Counters,
    /// They take longer than a commit waits.
    #[error("checkpoints make no room")]
    Late,
}

/// A lane's right to publish; see [`Checkpointer::publish`].
pub struct Publication<'a> {
    checkpointer: &'a Checkpointer,
    pages: MutexGuard<'a, DirtyPages>,
    sequence: Sequence,
}

impl Publication<'_> {
    /// Says how many pages a table has from now on, and drops those that are
    /// gone: nobody comes to them any more, and a checkpoint removes their
    /// images.
    pub fn set_pages(&mut self, table: &Arc<PageTable>, pages: u32) {
        let before = table.pages();
        if pages != before {
            table.set_pages(pages);
        }
        for page in pages..before {
            self.drop_page(table, page);
        }
    }

    /// Says that a page is no more. A checkpoint removes its image, as it writes
    /// those of others: not before this commit is published, and so known to
    /// have happened, and before the log is cut that says so.
    pub fn drop_page(&mut self, table: &Arc<PageTable>, page: u32) {
        let cache = &self.checkpointer.cache;
        cache.take_back(table, page);
        cache.unpark(table, page);
        // Whatever else it waits for finds that it is no more.
        self.wait_for_checkpoint(table, page, Need::Gone);
    }

    fn wait_for_checkpoint(&mut self, table: &Arc<PageTable>, page: u32, need: Need) {
        table.dirty.fetch_add(1, Ordering::AcqRel);
        let queue = match need {
            Need::Changed | Need::Gone => {
                let dirty_pages = &self.checkpointer.dirty_pages;
                dirty_pages.fetch_add(1, Ordering::Relaxed);
                &mut self.pages.dirty
            }
            Need::Parked => &mut self.pages.parked,
        };
        queue.push_back(DirtyPage {
            oldest: self.sequence,
            need,
            table: Arc::clone(table),
            page,
        });
    }

    /// Stores the words and counters that change in a page, which is pinned.
    #[inline]
    pub fn write(
        &mut self,
        table: &Arc<PageTable>,
        index: FrameIndex,
        changes: &PageChanges,
        page: &ChangedPage,
    ) {
        if let Some(frame) = self.checkpointer.cache.frame(index) {
            for word in changes.words_of(page) {
                frame.store(word.at.word, word.value);
                frame.mark_changed(word.at.word);
            }
            frame.add_occupied(page.occupied);
        }
        self.set_counters(table, index, changes.counters_of(page));
        self.changed(table, page.address.page, index);
    }

    fn set_counters(&self, table: &PageTable, index: FrameIndex, counters: &[ChangedCounter]) {
        let cache = &self.checkpointer.cache;
        if let Some(frame) = cache.frame(index).filter(|_| !counters.is_empty()) {
            cache.set_counters(index, table, counters);
            frame.state.changed_counters.store(true, Ordering::Relaxed);
        }
    }

    /// Stores the slots and counters of a page that a record sets, wherever the page lies:
    /// what changes in one without a frame is parked, and its image is not read. Of the
    /// words those slots count that the record names. If the page is new, it has nothing
    /// else.
    pub fn apply(
        &mut self,
        table: &Arc<PageTable>,
        is_new: bool,
        changes: &PageChanges,
        page: &ChangedPage,
    ) -> Applied {
        let (words, counters) = (changes.words_of(page), changes.counters_of(page));
        let changed = || Changed::in_part(is_new, words, counters);
        self.apply_to(table, page.address.page, changed, |publication, index| {
            if let Some(frame) = publication.checkpointer.cache.frame(index) {
                let width = table.geometry().slot_width();
                for word in words {
                    let before = frame.load(word.at.word);
                    let after = overlaid(width, before, word.slots, word.value);
                    let count = |word| bucket::occupied(width, word) as i32;
                    frame.store(word.at.word, after);
                    frame.mark_changed(word.at.word);
                    frame.add_occupied(count(after) - count(before));
                }
            }
            publication.set_counters(table, index, counters);
            publication.changed(table, page.address.page, index);
        })
    }

    /// The same for a page that a record sets as a whole.
    pub fn apply_whole(&mut self, table: &Arc<PageTable>, page: u32, whole: &WholePage) -> Applied {
        let changed = || Changed::whole(whole);
        self.apply_to(table, page, changed, |publication, index| {
            publication.set_page(table, index, page, whole);
        })
    }

    fn apply_to(
        &mut self,
        table: &Arc<PageTable>,
        page: u32,
        changed: impl Fn() -> Changed,
        change_frame: impl FnOnce(&mut Self, FrameIndex),
    ) -> Applied {
        let cache = &self.checkpointer.cache;
        match cache.pin_or_park(table, page, changed) {
            Place::Frame(index) => {
                change_frame(self, index);
                // It is dirty, and stays.
                self.checkpointer.cache.unpin(index);
                Applied::Resident
            }
            Place::Parked(parked) => {
                self.checkpointer.metrics.parked_pages.inc();
                if parked.is_first {
                    self.wait_for_checkpoint(table, page, Need::Parked);
                }
                self.pages.mark_parked(table.id(page), self.sequence);
                match parked.entries / MANY_ENTRIES > parked.entries_before / MANY_ENTRIES {
                    true => Applied::ParkedMany,
                    false => Applied::Parked,
                }
            }
        }
    }

    /// Sets a page as a whole, which is pinned.
    pub fn set_page(
        &mut self,
        table: &Arc<PageTable>,
        index: FrameIndex,
        page: u32,
        whole: &WholePage,
    ) {
        self.checkpointer.cache.set_page(index, table, whole);
        if let Some(frame) = self.checkpointer.cache.frame(index) {
            frame.mark_all_changed();
        }
        self.changed(table, page, index);
    }

    /// Notes that a resident page was changed by this commit.
    fn changed(&mut self, table: &Arc<PageTable>, page: u32, frame: FrameIndex) {
        let Some(resident) = self.checkpointer.cache.frame(frame) else {
            return;
        };
        match resident.dirty_state() {
            DirtyState::Clean => {
                resident.set_dirty_state(DirtyState::Dirty);
                self.wait_for_checkpoint(table, page, Need::Changed);
            }
            DirtyState::Dirty => {}
            DirtyState::Copied => {
                if resident.changed_since_copy() == 0 {
                    resident.set_changed_since_copy(self.sequence.0);
                }
            }
        }
    }
}

impl Checkpointer {
    /// A checkpointer of `lanes` lanes, none of whose pages is dirty.
    pub fn new(
        lanes: usize,
        bounds: Bounds,
        cache: Arc<PageCache>,
        store: Arc<PageStore>,
        disk: Arc<Disk>,
        metrics: Arc<Metrics>,
    ) -> Self {
        Checkpointer {
            lanes: (0..lanes).map(|_| Mutex::default()).collect(),
            cache,
            store,
            disk,
            bounds,
            // 0 stands for "none" in frames.
            next_sequence: AtomicU64::new(1),
            log: LogSizes::new(metrics.log_bytes.clone()),
            dirty_pages: AtomicU64::new(0),
            slicing: Mutex::new(()),
            signals: Mutex::default(),
            work: Condvar::new(),
            room: Condvar::new(),
            metrics,
        }
    }

    /// The number of a lane's next commit. The record counts as needed from
    /// here on until it is published.
    pub fn begin_commit(&self, lane: usize) -> Sequence {
        let Some(pages) = self.lanes.get(lane) else {
            return Sequence(0);
        };
        let mut pages = pages.lock();
        // Under the lock, so that a computation of how far the log may be cut
        // either has not seen this number or sees that it is in flight.
        let sequence = Sequence(self.next_sequence.fetch_add(1, Ordering::SeqCst));
        pages.in_flight = Some(sequence);
        sequence
    }

    /// Publishes a commit that is durable: `work` stores the words and names
    /// the pages. `redo_bytes` is what the commit added to the log.
    pub fn publish(
        &self,
        lane: usize,
        sequence: Sequence,
        redo_bytes: u64,
        work: impl FnOnce(&mut Publication<'_>),
    ) {
        let Some(pages) = self.lanes.get(lane) else {
            return;
        };
        let mut publication = Publication {
            checkpointer: self,
            pages: pages.lock(),
            sequence,
        };
        work(&mut publication);
        publication.pages.in_flight = None;
        drop(publication);
        if redo_bytes > 0 {
            self.add_logged(sequence, redo_bytes);
        }
        self.metrics
            .dirty_pages
            .set(self.dirty_pages.load(Ordering::Relaxed) as i64);
        if self.is_due() {
            self.work.notify_one();
        }
    }

    /// Keeps a lane from publishing until what is returned is dropped.
    pub fn hold_publications(&self, lane: usize) -> Option<impl Sized + '_> {
        self.lanes.get(lane).map(|pages| pages.lock())
    }

    /// Counts a record that the log holds.
    pub fn add_logged(&self, sequence: Sequence, redo_bytes: u64) {
        self.log.add(sequence, redo_bytes);
    }

    /// Makes the next commit's number greater than any in the log.
    pub fn continue_after(&self, last: Sequence) {
        self.next_sequence.fetch_max(last.0 + 1, Ordering::SeqCst);
    }

    /// Waits until log, dirty pages and parked ones are below their bounds.
    ///
    /// # Errors
    /// Says why there is none.
    pub fn wait_for_room(&self) -> Result<(), NoRoom> {
        if self.has_room() {
            return self.check_counters();
        }
        self.metrics.checkpoint_waits.inc();
        let started = Instant::now();
        let mut signals = self.signals.lock();
        while !self.has_room() {
            if let Some(failure) = &signals.failure {
                return Err(NoRoom::CheckpointsFail(failure.clone()));
            }
            if !self.disk.has_background_room() {
                return Err(NoRoom::DiskFull);
            }
            if let Some(reason) = self.unreadable() {
                return Err(NoRoom::CheckpointsFail(reason));
            }
            if started.elapsed() > ROOM_PATIENCE {
                return Err(NoRoom::Late);
            }
            self.work.notify_one();
            self.cache.shed_all_counters();
            self.room.wait_for(&mut signals, Duration::from_millis(100));
        }
        drop(signals);
        self.check_counters()
    }

    /// What keeps the log from being cut, if it is a page that can't be read.
    fn unreadable(&self) -> Option<String> {
        if self.log.bytes() < self.bounds.max_log_bytes {
            return None;
        }
        let needed = self.needed_from();
        let page = self.lanes.iter().find_map(|it| {
            let waiting = it.lock();
            let mut pages = waiting.unreadable.iter();
            let page = pages.find(|page| page.oldest <= needed)?;
            Some(page.table.id(page.page))
        })?;
        Some(format!(
            "{page} can't be read, and the log is kept for its changes: restore a backup"
        ))
    }

    /// Refuses what would wait for commands that wait themselves: these keep the pages
    /// in memory whose counters take too much. A refused command gives back its own.
    fn check_counters(&self) -> Result<(), NoRoom> {
        match self.cache.is_full_of_counters() {
            true => Err(NoRoom::Counters),
            false => Ok(()),
        }
    }

    /// Asks for clean frames and waits for some, `patience` at the longest.
    ///
    /// # Errors
    /// Checkpoints fail.
    pub fn wait_for_frames(&self, patience: Duration) -> Result<(), StoreError> {
        self.ask(Purpose::Frames, patience)
    }

    /// Asks for pages to be stored and waits for some, `patience` at the longest.
    ///
    /// # Errors
    /// Checkpoints fail.
    pub fn wait_for_images(&self, patience: Duration) -> Result<(), StoreError> {
        self.ask(Purpose::Images, patience)
    }

    fn ask(&self, purpose: Purpose, patience: Duration) -> Result<(), StoreError> {
        let mut signals = self.signals.lock();
        signals.asked.insert(purpose);
        self.work.notify_one();
        if let Some(reason) = signals.failure.clone() {
            return Err(StoreError::CheckpointFailed { reason });
        }
        self.room.wait_for(&mut signals, patience);
        Ok(())
    }

    /// Has a long log cut, and waits for it, `patience` at the longest: for a dump,
    /// which would read it more than once. Where checkpoints fail, or have no room, it
    /// stays as it is.
    pub fn shorten_log(&self, patience: Duration) {
        let started = Instant::now();
        let mut signals = self.signals.lock();
        while self.log.bytes() > LONG_LOG_BYTES
            && signals.failure.is_none()
            && self.disk.has_background_room()
        {
            let Some(left) = patience.checked_sub(started.elapsed()) else {
                return;
            };
            signals.asked.insert(Purpose::Images);
            self.work.notify_one();
            self.room
                .wait_for(&mut signals, left.min(Duration::from_millis(100)));
        }
    }

    /// Has the pages of removed filters and dropped sub-filters deleted, whose
    /// tables are marked as dropped already.
    pub fn reclaim_soon(&self, garbage: impl IntoIterator<Item = Garbage>) {
        self.signals.lock().garbage.extend(garbage);
        self.work.notify_one();
    }

    /// Whether log, dirty pages and parked ones are below their bounds.
    pub fn has_room(&self) -> bool {
        self.dirty_pages.load(Ordering::Relaxed) < self.bounds.max_dirty_pages
            && self.cache.parked_bytes() < self.bounds.max_parked_bytes()
            && self.log.bytes() < self.bounds.max_log_bytes
            && !self.cache.must_shed_counters()
    }

    fn is_due(&self) -> bool {
        self.has_many_pages()
            || self.log.bytes() > self.bounds.much_log()
            || self.cache.frames.has_many_counters()
    }

    /// Whether recovery should see to pages before it goes on. Hardly a frame is in use
    /// then: half of the cache may be parked, so that a page is stored for many changes.
    pub fn recovers_too_much(&self) -> bool {
        let half = u64::from(self.cache.capacity()) * u64::from(PAGE_BYTES) / 2;
        self.has_many_dirty_pages() || self.cache.parked_bytes() > half
    }

    /// Whether pages should be seen to for what they take in memory.
    pub fn has_many_pages(&self) -> bool {
        self.has_many_dirty_pages() || self.cache.parked_bytes() > self.bounds.many_parked_bytes()
    }

    fn has_many_dirty_pages(&self) -> bool {
        self.dirty_pages.load(Ordering::Relaxed) > self.bounds.many_dirty_pages()
    }
}

#[cfg(test)]
mod tests;
