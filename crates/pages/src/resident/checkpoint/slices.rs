//! Checkpoints: the images of the pages with the oldest needs are copied and
//! written, a bounded slice at a time, and the log is cut behind them.

use super::Checkpointer;
use crate::page::{PageId, Sequence};
use crate::resident::dirty::DirtyPage;
use crate::resident::frame::DirtyState;
use crate::resident::table::PageTable;
use crate::store::StoreError;
use parking_lot::MutexGuard;
use std::sync::atomic::Ordering;

/// Whether a slice may cut the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CutLog {
    /// Behind what earlier slices wrote.
    Yes,
    /// Not while the log is being replayed: the replay starts from its first
    /// record again if it is interrupted.
    No,
}

/// Pages of one lane whose images are being written.
struct ImageSlice {
    lane: usize,
    pages: Vec<DirtyPage>,
    /// By ascending id.
    images: Vec<(PageId, Vec<u8>)>,
    /// Of the images: the counters beside a page may take many times what its slots do.
    bytes: usize,
    /// Pages that are no more, whose images are removed.
    gone: Vec<PageId>,
}

impl Checkpointer {
    /// Writes every dirty page and cuts the whole log: for a clean stop.
    pub fn checkpoint_all(&self) -> Result<(), StoreError> {
        while self.checkpoint_slice(CutLog::Yes)? {}
        Ok(())
    }

    /// Has no slice be written until what is returned is dropped: else one could remove
    /// the image of a page that comes back meanwhile.
    pub fn hold_slices(&self) -> MutexGuard<'_, ()> {
        self.slicing.lock()
    }

    /// Writes a slice of the oldest dirty pages and cuts the log behind what
    /// earlier slices wrote. Says whether there was anything to do.
    pub fn checkpoint_slice(&self, cut: CutLog) -> Result<bool, StoreError> {
        let _one_at_a_time = self.slicing.lock();
        let Some(ImageSlice {
            lane,
            pages,
            images,
            gone,
            ..
        }) = self.copy_slice()
        else {
            return self.cut_log(cut);
        };
        let cut_before = match cut {
            CutLog::Yes => self.needed_from(),
            CutLog::No => Sequence(0),
        };
        let written = self.store.write_back(&images, &gone, cut_before);
        self.settle_slice(lane, pages, written.is_ok());
        self.cache.shed_counters();
        self.note_outcome(&written);
        written?;
        self.metrics.checkpoint_slices.inc();
        self.metrics.checkpoint_pages.inc_by(images.len() as u64);
        self.note_cut(cut_before);
        Ok(true)
    }

    /// Cuts the log when there is no page to write.
    fn cut_log(&self, cut: CutLog) -> Result<bool, StoreError> {
        let needed = self.needed_from();
        let useless = self.log.first().is_some_and(|first| first < needed);
        if cut == CutLog::No || !useless {
            return Ok(false);
        }
        let written = self.store.checkpoint(&[], needed);
        self.note_outcome(&written);
        written?;
        self.note_cut(needed);
        Ok(true)
    }

    /// Tells threads that wait whether there may be room.
    fn note_outcome(&self, written: &Result<(), StoreError>) {
        let mut signals = self.signals.lock();
        signals.failure = written.as_ref().err().map(ToString::to_string);
        if signals.failure.is_some() {
            self.metrics.checkpoint_failures.inc();
        }
        self.room.notify_all();
    }

    /// Copies the images of the pages with the oldest needs, all of one lane.
    fn copy_slice(&self) -> Option<ImageSlice> {
        let (lane, waiting) = self
            .lanes
            .iter()
            .enumerate()
            .filter_map(|(lane, waiting)| Some((waiting.lock().oldest_waiting()?, lane, waiting)))
            .min_by_key(|&(oldest, lane, _)| (oldest, lane))
            .map(|(_, lane, waiting)| (lane, waiting))?;
        let mut waiting = waiting.lock();
        let mut slice = ImageSlice {
            lane,
            pages: Vec::new(),
            images: Vec::new(),
            bytes: 0,
            gone: Vec::new(),
        };
        let (most_pages, most_bytes) = (self.bounds.slice_pages, self.bounds.slice_bytes());
        while slice.pages.len() < most_pages && slice.bytes < most_bytes {
            let Some(page) = waiting.pop_oldest() else {
                break;
            };
            self.copy_page(page, &mut slice);
        }
        waiting.in_slice = slice.pages.iter().map(|page| page.oldest).min();
        drop(waiting);
        slice.images.sort_unstable_by_key(|&(id, _)| id);
        Some(slice)
    }

    /// Takes a page into a slice, if there still is something to do about it.
    fn copy_page(&self, mut page: DirtyPage, slice: &mut ImageSlice) {
        let frame = page.frame.and_then(|index| self.cache.frame(index));
        if let Some((index, frame)) = page.frame.zip(frame) {
            if frame.dirty_state() == DirtyState::Dropped {
                self.cache.release(index);
                page.frame = None;
            } else if page.table.is_dropped() {
                frame.set_dirty_state(DirtyState::Clean);
                return self.count_clean(&page.table);
            } else {
                let image = frame.image(page.table.geometry().page_bytes());
                slice.bytes += image.len();
                slice.images.push((page.table.id(page.page), image));
                frame.set_changed_since_copy(0);
                frame.set_dirty_state(DirtyState::Copied);
                slice.pages.push(page);
                return;
            }
        }
        // A page that has come back since is on its way to the store, if its
        // image is not there already: slices are written one after the other.
        if page.table.is_dropped() || page.page < page.table.pages() {
            return self.count_clean(&page.table);
        }
        slice.gone.push(page.table.id(page.page));
        slice.pages.push(page);
    }

    /// After the write: pages that did not change meanwhile are clean, the
    /// others need the first record published since the copy. After a failed
    /// write they need what they needed before.
    fn settle_slice(&self, lane: usize, slice: Vec<DirtyPage>, written: bool) {
        let Some(waiting) = self.lanes.get(lane) else {
            return;
        };
        let mut waiting = waiting.lock();
        waiting.in_slice = None;
        let mut changed = Vec::new();
        for mut page in slice {
            let frame = page.frame.and_then(|index| self.cache.frame(index));
            let Some((index, frame)) = page.frame.zip(frame) else {
                match written {
                    true => self.count_clean(&page.table),
                    false => changed.push(page),
                }
                continue;
            };
            match frame.changed_since_copy() {
                0 if written => {
                    frame.set_dirty_state(DirtyState::Clean);
                    self.count_clean(&page.table);
                    continue;
                }
                since if written => page.oldest = Sequence(since),
                _ => {}
            }
            if frame.dirty_state() == DirtyState::Dropped {
                // Its image was written, so it has to be removed again.
                self.cache.release(index);
                page.frame = None;
            } else {
                frame.set_dirty_state(DirtyState::Dirty);
            }
            changed.push(page);
        }
        if written {
            changed.sort_by_key(|page| page.oldest);
            waiting.again.extend(changed);
        } else {
            // They were the oldest and still are. The slice ascends.
            for page in changed.into_iter().rev() {
                waiting.dirty.push_front(page);
            }
        }
        self.metrics
            .dirty_pages
            .set(self.dirty_pages.load(Ordering::Relaxed) as i64);
    }

    fn count_clean(&self, table: &PageTable) {
        table.dirty().fetch_sub(1, Ordering::AcqRel);
        let before = self.dirty_pages.fetch_sub(1, Ordering::Relaxed);
        self.metrics.dirty_pages.set(before as i64 - 1);
    }

    /// The oldest record that anything still needs; the next one if nothing
    /// does.
    fn needed_from(&self) -> Sequence {
        // Before the lanes are asked: a number handed out later is greater.
        let next = Sequence(self.next_sequence.load(Ordering::SeqCst));
        self.lanes
            .iter()
            .filter_map(|pages| pages.lock().oldest_needed())
            .chain([next])
            .min()
            .unwrap_or(next)
    }

    fn note_cut(&self, before: Sequence) {
        self.log.note_cut(before);
        self.room.notify_all();
    }
}
