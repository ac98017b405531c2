//! Checkpoints: the pages with the oldest needs are parked, or their images are copied
//! and written, a bounded slice at a time, and the log is cut behind them.

mod fold;

use super::{Checkpointer, Purpose};
use crate::page::{PageId, Sequence};
use crate::resident::dirty::{DirtyPage, DirtyPages, Need, Which};
use crate::resident::frame::{DirtyState, Frame};
use crate::resident::table::PageTable;
use crate::store::StoreError;
use fold::Fold;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// Words of a parked page from which on it is stored where there is no room to park
/// more; with fewer it costs less to store the pages that lie in frames.
const FOLDED_WORDS: usize = 4;

/// Parked pages that are passed over, at most, because others are bringing them in.
const MOST_LATER: usize = 1_024;

/// After how long a page that could not be read is tried again.
const TRY_AGAIN: Duration = Duration::from_secs(30);

/// Whether a slice may cut the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CutLog {
    /// Behind what earlier slices wrote.
    Yes,
    /// Not while the log is being replayed: the replay starts from its first
    /// record again if it is interrupted.
    No,
}

/// What is done about the pages of a slice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Work {
    /// What changed in them is parked where it is little.
    Park,
    /// They are stored.
    Store(Which),
}

/// Pages of one lane whose images are being written.
struct ImageSlice<'a> {
    lane: usize,
    pages: Vec<DirtyPage>,
    /// By ascending id.
    images: Vec<(PageId, Vec<u8>)>,
    /// Of the images: the counters beside a page may take many times what its slots do.
    bytes: usize,
    /// Pages that are no more, whose images are removed.
    gone: Vec<PageId>,
    /// Parked pages that are not resident, to be read first.
    fold: Fold<'a>,
    /// Parked pages that somebody is bringing in.
    later: Vec<DirtyPage>,
    /// Pages that something was done about.
    done: usize,
}

impl Checkpointer {
    /// Stores dirty pages and cuts the log, until all is stored or so much time is
    /// over: for a clean stop. What is left is in the log.
    pub fn checkpoint_all(&self, patience: Duration) -> Result<(), StoreError> {
        let started = Instant::now();
        while started.elapsed() < patience && self.write_slice(Purpose::Images, CutLog::Yes)? {}
        Ok(())
    }

    /// Sees to a slice of the pages with the oldest needs, as the bounds demand, and cuts
    /// the log behind what earlier slices wrote. Says whether there was anything to do.
    pub fn checkpoint_slice(&self, cut: CutLog) -> Result<bool, StoreError> {
        self.write_slice(Purpose::Bounds, cut)
    }

    pub(super) fn write_slice(&self, purpose: Purpose, cut: CutLog) -> Result<bool, StoreError> {
        let _one_at_a_time = self.slicing.lock();
        // Before pages leave the queues.
        let cut_before = match cut {
            CutLog::Yes => self.needed_from(),
            CutLog::No => Sequence(0),
        };
        let work = self.work_for(purpose);
        let mut taken = self.take_slice(work);
        if work == Work::Store(Which::Parked) && taken.as_ref().is_none_or(|it| it.done == 0) {
            // Others are bringing in all of these: they may wait for a frame.
            if let Some(slice) = taken {
                self.settle_slice(slice, true);
            }
            taken = self.take_slice(Work::Store(Which::Changed));
        }
        let Some(mut slice) = taken else {
            return self.cut_log(cut);
        };
        if slice.pages.is_empty() {
            // All of it was parked, or needs nothing any more.
            let done = slice.done;
            self.settle_slice(slice, true);
            self.room.notify_all();
            return Ok(done > 0);
        }
        let failures = &self.metrics.checkpoint_failures;
        let folded = slice.fold.read(&self.store, failures);
        self.metrics.folded_pages.inc_by(folded.len() as u64);
        slice.images.extend(folded);
        slice.images.sort_unstable_by_key(|&(id, _)| id);
        let (images, gone) = (&slice.images, &slice.gone);
        let written = self.store.write_back(images, gone, cut_before);
        let images = slice.images.len() as u64;
        self.settle_slice(slice, written.is_ok());
        self.cache.shed_counters();
        self.tell_outcome(&written);
        written?;
        self.metrics.checkpoint_slices.inc();
        self.metrics.checkpoint_pages.inc_by(images);
        self.cut_before(cut_before);
        Ok(true)
    }

    /// What is to be done now.
    fn work_for(&self, purpose: Purpose) -> Work {
        let (log, parked) = (self.log.bytes(), self.cache.parked_bytes());
        let for_frames = match purpose {
            Purpose::Images => return Work::Store(Which::All),
            _ if log > self.bounds.very_much_log() => return Work::Store(Which::All),
            Purpose::Frames => true,
            Purpose::Bounds => self.has_many_dirty_pages() || self.cache.frames.has_many_counters(),
        };
        if !for_frames {
            return match parked > self.bounds.many_parked_bytes() {
                true => Work::Store(Which::Parked),
                false => Work::Store(Which::All),
            };
        }
        if parked < self.bounds.enough_parked_bytes() {
            return Work::Park;
        }
        let lane = self.oldest_lane(Which::Parked);
        let pays = lane.and_then(|lane| {
            let waiting = self.lanes.get(lane)?.lock();
            let oldest = waiting.parked.front()?;
            let parked = oldest.table.parked.lock();
            let words = parked.get(&oldest.page).map(|it| it.words());
            // One that needs nothing any more costs nothing.
            Some(oldest.table.is_dropped() || words.is_none_or(|it| it >= FOLDED_WORDS))
        });
        match pays {
            Some(true) => Work::Store(Which::Parked),
            _ if parked > self.bounds.many_parked_bytes() => Work::Store(Which::Parked),
            _ => Work::Store(Which::Changed),
        }
    }

    /// The lane with the page that has the oldest need.
    fn oldest_lane(&self, which: Which) -> Option<usize> {
        let lanes = self.lanes.iter().enumerate();
        let oldest = |(lane, waiting): (usize, &parking_lot::Mutex<DirtyPages>)| {
            Some((waiting.lock().oldest_waiting(which)?, lane))
        };
        lanes.filter_map(oldest).min().map(|(_, lane)| lane)
    }

    /// Cuts the log when there is no page to write.
    fn cut_log(&self, cut: CutLog) -> Result<bool, StoreError> {
        let needed = self.needed_from();
        let useless = self.log.first().is_some_and(|first| first < needed);
        if cut == CutLog::No || !useless {
            return Ok(false);
        }
        let written = self.store.checkpoint(&[], needed);
        self.tell_outcome(&written);
        written?;
        self.cut_before(needed);
        Ok(true)
    }

    /// Tells threads that wait whether there may be room.
    fn tell_outcome(&self, written: &Result<(), StoreError>) {
        let mut signals = self.signals.lock();
        signals.failure = written.as_ref().err().map(ToString::to_string);
        if signals.failure.is_some() {
            self.metrics.checkpoint_failures.inc();
        }
        self.room.notify_all();
    }

    /// Has pages that could not be read wait for their turn again.
    fn try_unreadable(&self) {
        for waiting in &self.lanes {
            let mut waiting = waiting.lock();
            let is_due = |it: &Instant| it.elapsed() >= TRY_AGAIN;
            let all = waiting.unreadable_since.as_ref().is_some_and(is_due);
            let some = waiting
                .unreadable
                .extract_if(.., |it| all || it.table.is_dropped());
            let some: Vec<DirtyPage> = some.collect();
            if waiting.unreadable.is_empty() {
                waiting.unreadable_since = None;
            }
            some.into_iter().for_each(|page| waiting.put(page));
        }
    }

    /// Parks the pages with the oldest needs, or copies their images; all of one lane.
    fn take_slice(&self, work: Work) -> Option<ImageSlice<'_>> {
        let which = match work {
            Work::Park => Which::Changed,
            Work::Store(which) => which,
        };
        self.try_unreadable();
        let lane = self.oldest_lane(which)?;
        let mut waiting = self.lanes.get(lane)?.lock();
        let mut slice = ImageSlice {
            lane,
            pages: Vec::new(),
            images: Vec::new(),
            bytes: 0,
            gone: Vec::new(),
            fold: Fold::new(&self.cache),
            later: Vec::new(),
            done: 0,
        };
        let (most_pages, most_bytes) = (self.bounds.slice_pages, self.bounds.slice_bytes());
        for _ in 0..most_pages + MOST_LATER {
            if slice.bytes >= most_bytes || slice.done >= most_pages {
                break;
            }
            let Some(page) = waiting.pop_oldest(which) else {
                break;
            };
            self.take_page(page, work, &mut waiting, &mut slice);
        }
        let all = slice.pages.iter().chain(&slice.later);
        waiting.in_slice = all.map(|page| page.oldest).min();
        drop(waiting);
        Some(slice)
    }

    /// Takes a page into a slice, if there still is something to do about it.
    fn take_page<'a>(
        &'a self,
        mut page: DirtyPage,
        work: Work,
        waiting: &mut DirtyPages,
        slice: &mut ImageSlice<'a>,
    ) {
        slice.done += 1;
        let dirty = self.frame_in(&page, DirtyState::Dirty);
        if page.table.is_dropped() {
            if let Some(frame) = dirty {
                frame.set_dirty_state(DirtyState::Clean);
                frame.mark_unchanged();
            }
            self.cache.unpark(&page.table, page.page);
            return self.count_done(&page);
        }
        match (page.need, dirty) {
            (Need::Changed, Some(frame)) => {
                let changed = match work {
                    Work::Park => frame.changed(),
                    Work::Store(_) => None,
                };
                let parked = changed.and_then(|it| self.cache.park(&page.table, page.page, it));
                let Some(is_first) = parked else {
                    return self.copy_page(page, frame, slice);
                };
                // Its frame may be given away.
                frame.mark_unchanged();
                frame.set_dirty_state(DirtyState::Clean);
                self.metrics.parked_pages.inc();
                if !is_first {
                    // It waits already, for older changes.
                    return self.count_done(&page);
                }
                self.count_dirty_frames(-1);
                page.need = Need::Parked;
                waiting.put(page);
            }
            // It was written for another need.
            (Need::Changed, None) => self.count_done(&page),
            (Need::Parked, _) => self.take_parked(page, waiting, slice),
            // One that has come back since is on its way to the store, if its image is
            // not there already: slices are written one after the other.
            (Need::Gone, _) if page.page < page.table.pages() => self.count_done(&page),
            (Need::Gone, _) => {
                slice.gone.push(page.table.id(page.page));
                slice.pages.push(page);
            }
        }
    }

    /// Takes a parked page into a slice.
    fn take_parked<'a>(
        &'a self,
        page: DirtyPage,
        waiting: &mut DirtyPages,
        slice: &mut ImageSlice<'a>,
    ) {
        if !page.table.parked.lock().contains_key(&page.page) {
            // A newer image has it all.
            return self.count_done(&page);
        }
        match self.cache.pin(&page.table, page.page) {
            Some(index) => {
                if let Some(frame) = self.cache.frame(index) {
                    match frame.dirty_state() {
                        // In this slice already.
                        DirtyState::Copied => self.count_done(&page),
                        DirtyState::Clean | DirtyState::Dirty => {
                            self.copy_page(page, frame, slice);
                        }
                    }
                }
                // Its state keeps it now.
                self.cache.unpin(index);
            }
            None if slice.fold.put_up_flight(&page, waiting) => {
                // Whatever it will be, it counts as a page.
                slice.bytes += page.table.geometry().page_bytes() as usize;
                slice.pages.push(page);
            }
            None => {
                slice.done -= 1;
                slice.later.push(page);
            }
        }
    }

    fn copy_page(&self, page: DirtyPage, frame: Frame<'_>, slice: &mut ImageSlice<'_>) {
        let image = frame.image(page.table.geometry().page_bytes());
        slice.bytes += image.len();
        slice.images.push((page.table.id(page.page), image));
        frame.set_changed_since_copy(0);
        frame.mark_unchanged();
        frame.set_dirty_state(DirtyState::Copied);
        slice.pages.push(page);
    }

    /// After the write: pages that did not change meanwhile are clean, the
    /// others need the first record published since the copy. After a failed
    /// write they need what they needed before.
    fn settle_slice(&self, slice: ImageSlice<'_>, written: bool) {
        let Some(waiting) = self.lanes.get(slice.lane) else {
            return;
        };
        let mut waiting = waiting.lock();
        waiting.in_slice = None;
        for mut page in slice.pages {
            let id = page.table.id(page.page);
            let folded = waiting.folding.remove(&id);
            if slice.fold.unreadable.contains(&id) {
                waiting.unreadable_since.get_or_insert_with(Instant::now);
                waiting.unreadable.push(page);
                continue;
            }
            let copied = self.frame_in(&page, DirtyState::Copied);
            let Some(frame) = copied.filter(|_| page.need != Need::Gone) else {
                match (written, folded) {
                    (false, _) => waiting.put(page),
                    // Somebody may have read its older image, and needs what is parked.
                    (true, Some(None)) if self.cache.flights.lock().contains_key(&id) => {
                        waiting.put(page);
                    }
                    (true, Some(Some(since))) => {
                        page.oldest = since;
                        waiting.put(page);
                    }
                    (true, Some(None)) => {
                        self.cache.unpark(&page.table, page.page);
                        self.count_done(&page);
                    }
                    // It is no more. One that has its number since waits by itself.
                    (true, None) => self.count_done(&page),
                }
                continue;
            };
            if written {
                // Behind the write, and before the frame may be given away.
                self.cache.unpark(&page.table, page.page);
                match frame.changed_since_copy() {
                    0 => {
                        frame.set_dirty_state(DirtyState::Clean);
                        self.count_done(&page);
                        continue;
                    }
                    since => page.oldest = Sequence(since),
                }
            } else {
                frame.mark_all_changed();
            }
            frame.set_dirty_state(DirtyState::Dirty);
            // It waits for its frame's sake from now on.
            if page.need == Need::Parked {
                page.need = Need::Changed;
                self.count_dirty_frames(1);
            }
            waiting.put(page);
        }
        slice.later.into_iter().for_each(|page| waiting.put(page));
    }

    /// The frame of a page, if it is in that state, which is not clean; so it stays the
    /// page's. Under the lock of its lane.
    fn frame_in(&self, page: &DirtyPage, state: DirtyState) -> Option<Frame<'_>> {
        let resident = || self.cache.resident_frame(&page.table, page.page);
        let index = resident()?;
        let frame = self.cache.frame(index)?;
        // A clean page may leave its frame at any time, for one of another lane. If that
        // is the one in that state, this one is seen to have left.
        let is_in_state = frame.dirty_state() == state && resident() == Some(index);
        is_in_state.then_some(frame)
    }

    /// A need of a page is seen to.
    fn count_done(&self, page: &DirtyPage) {
        let table: &PageTable = &page.table;
        table.dirty.fetch_sub(1, Ordering::AcqRel);
        if page.need != Need::Parked {
            self.count_dirty_frames(-1);
        }
    }

    fn count_dirty_frames(&self, more: i64) {
        // In two's complement that is a subtraction for a negative number.
        let before = self.dirty_pages.fetch_add(more as u64, Ordering::Relaxed);
        self.metrics.dirty_pages.set(before as i64 + more);
    }

    /// The oldest record that anything still needs; the next one if nothing
    /// does.
    pub(super) fn needed_from(&self) -> Sequence {
        // Before the lanes are asked: a number handed out later is greater.
        let next = Sequence(self.next_sequence.load(Ordering::SeqCst));
        let lanes = self.lanes.iter();
        let needed = lanes.filter_map(|pages| pages.lock().oldest_needed());
        needed.fold(next, Sequence::min)
    }

    fn cut_before(&self, before: Sequence) {
        self.log.cut(before);
        self.room.notify_all();
    }
}
