//! Dirty pages, the redo log behind them, and the checkpoints that let the
//! log be cut.
//!
//! A commit writes a redo record; the pages it changes stay in memory, dirty,
//! until a checkpoint writes their images, a bounded slice at a time, oldest
//! first. A record is needed as long as a page that it changed has no image
//! that contains the change. So the log is cut before the oldest record that
//! any dirty page needs, and before the oldest record that was handed to the
//! store but is not published yet.
//!
//! Each lane has a ledger. The lane holds its lock while it publishes, a
//! checkpoint holds it while it copies images: an image is the page as of
//! some commit, and everything published later is known to be missing in it.

use super::cache::PageCache;
use super::frame::{DirtyState, FrameIndex};
use super::table::PageTable;
use crate::engine::abort::AbortOnPanic;
use crate::engine::disk::Disk;
use crate::metrics::Metrics;
use crate::page::{PageId, Sequence};
use crate::store::{Garbage, PageStore, StoreError};
use parking_lot::{Condvar, Mutex, MutexGuard};
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// What a record costs beside its slots: key, envelope, and its place in the
/// books.
const RECORD_OVERHEAD: u64 = 64;

/// Slices written before garbage is looked at.
const SLICES_PER_ROUND: usize = 64;

/// How long a commit waits for room before its callers are told to come back.
const ROOM_PATIENCE: Duration = Duration::from_secs(10);

/// What bounds memory and recovery.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bounds {
    /// Dirty pages at which commits wait.
    pub(crate) max_dirty_pages: u64,
    /// Bytes of redo records at which commits wait.
    pub(crate) max_log_bytes: u64,
    /// Pages whose images are written at once.
    pub(crate) slice_pages: usize,
}

/// Slices that can be written, as a rule, before commits have to wait.
const SPARE_SLICES: u64 = 4;

impl Bounds {
    /// Dirty pages from which on images are written. As many as possible: a
    /// page that waits gathers changes and is written once for all of them,
    /// and one that is written too early is soon dirty again. What is left up
    /// to the bound lets commits go on meanwhile.
    fn many_dirty_pages(&self) -> u64 {
        let spare = SPARE_SLICES * self.slice_pages as u64;
        let spare = spare.max(self.max_dirty_pages / 8);
        self.max_dirty_pages - spare.min(self.max_dirty_pages / 2)
    }

    /// Bytes of redo records from which on images are written. Half of what
    /// may be: it is what a start after a crash replays.
    fn much_log(&self) -> u64 {
        self.max_log_bytes / 2
    }
}

/// What is dirty and what is logged, over all lanes.
pub(crate) struct Checkpointer {
    lanes: Box<[Mutex<DirtyPages>]>,
    cache: Arc<PageCache>,
    store: Arc<PageStore>,
    disk: Arc<Disk>,
    metrics: Arc<Metrics>,
    bounds: Bounds,
    next_sequence: AtomicU64,
    /// Bytes of each record that the log holds.
    log: Mutex<BTreeMap<Sequence, u64>>,
    /// Their sum; changed under the lock of `log` only.
    log_bytes: AtomicU64,
    dirty_pages: AtomicU64,
    /// One slice at a time.
    slicing: Mutex<()>,
    signals: Mutex<Signals>,
    /// Wakes the checkpointer.
    work: Condvar,
    /// Wakes those who wait for room.
    room: Condvar,
}

#[derive(Default)]
struct Signals {
    /// Somebody needs pages to become clean whatever the bounds say.
    flush: bool,
    /// Pages of removed filters and dropped sub-filters, to be reclaimed.
    garbage: Vec<Garbage>,
    stop: bool,
    /// What the store said when the last slice failed; cleared by a success.
    failure: Option<String>,
}

/// One lane's dirty pages.
#[derive(Default)]
pub(crate) struct DirtyPages {
    /// The record that was handed to the store and is not published yet.
    in_flight: Option<Sequence>,
    /// Pages by the oldest record they need, ascending.
    dirty: VecDeque<DirtyPage>,
    /// Pages that changed while their image was written; ascending as well,
    /// because slices follow each other.
    again: VecDeque<DirtyPage>,
    /// Oldest record that the slice being written needs.
    in_slice: Option<Sequence>,
}

struct DirtyPage {
    oldest: Sequence,
    frame: FrameIndex,
    table: Arc<PageTable>,
    page: u32,
}

/// Pages of one lane whose images are being written.
struct Slice {
    lane: usize,
    pages: Vec<DirtyPage>,
    /// By ascending id.
    images: Vec<(PageId, Vec<u8>)>,
}

impl DirtyPages {
    fn oldest_needed(&self) -> Option<Sequence> {
        let dirty = self.dirty.front().map(|page| page.oldest);
        let again = self.again.front().map(|page| page.oldest);
        [self.in_flight, self.in_slice, dirty, again]
            .into_iter()
            .flatten()
            .min()
    }

    fn pop_oldest(&mut self) -> Option<DirtyPage> {
        let dirty = self.dirty.front().map(|page| page.oldest);
        let again = self.again.front().map(|page| page.oldest);
        match (dirty, again) {
            (Some(dirty), Some(again)) if again < dirty => self.again.pop_front(),
            (Some(_), _) => self.dirty.pop_front(),
            (None, _) => self.again.pop_front(),
        }
    }
}

/// A lane's right to publish; see [`Checkpointer::publish`].
pub(crate) struct Publication<'a> {
    checkpointer: &'a Checkpointer,
    ledger: MutexGuard<'a, DirtyPages>,
    sequence: Sequence,
}

impl Publication<'_> {
    /// Notes that a resident page was changed by this commit.
    pub(crate) fn changed(&mut self, table: &Arc<PageTable>, page: u32, frame: FrameIndex) {
        let Some(resident) = self.checkpointer.cache.frame(frame) else {
            return;
        };
        match resident.dirty_state() {
            DirtyState::Clean => {
                resident.set_dirty_state(DirtyState::Dirty);
                table.dirty().fetch_add(1, Ordering::AcqRel);
                self.checkpointer
                    .dirty_pages
                    .fetch_add(1, Ordering::Relaxed);
                self.ledger.dirty.push_back(DirtyPage {
                    oldest: self.sequence,
                    frame,
                    table: Arc::clone(table),
                    page,
                });
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
    /// Checkpointer for `lanes` lanes; the first commit gets `first_sequence`.
    pub(crate) fn new(
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
            metrics,
            bounds,
            // 0 stands for "none" in frames.
            next_sequence: AtomicU64::new(1),
            log: Mutex::default(),
            log_bytes: AtomicU64::new(0),
            dirty_pages: AtomicU64::new(0),
            slicing: Mutex::new(()),
            signals: Mutex::default(),
            work: Condvar::new(),
            room: Condvar::new(),
        }
    }

    /// The number of a lane's next commit. The record counts as needed from
    /// here on until it is published.
    pub(crate) fn begin_commit(&self, lane: usize) -> Sequence {
        let Some(ledger) = self.lanes.get(lane) else {
            return Sequence(0);
        };
        let mut ledger = ledger.lock();
        // Under the lock, so that whoever computes how far the log may be cut
        // either has not seen this number or sees that it is in flight.
        let sequence = Sequence(self.next_sequence.fetch_add(1, Ordering::SeqCst));
        ledger.in_flight = Some(sequence);
        sequence
    }

    /// Publishes a commit that is durable: `work` stores the words and names
    /// the pages. `redo_bytes` is what the commit added to the log.
    pub(crate) fn publish(
        &self,
        lane: usize,
        sequence: Sequence,
        redo_bytes: u64,
        work: impl FnOnce(&mut Publication<'_>),
    ) {
        let Some(ledger) = self.lanes.get(lane) else {
            return;
        };
        let mut publication = Publication {
            checkpointer: self,
            ledger: ledger.lock(),
            sequence,
        };
        work(&mut publication);
        publication.ledger.in_flight = None;
        drop(publication);
        if redo_bytes > 0 {
            self.note_logged(sequence, redo_bytes);
        }
        self.metrics
            .dirty_pages
            .set(self.dirty_pages.load(Ordering::Relaxed) as i64);
        if self.is_due() {
            self.work.notify_one();
        }
    }

    /// Counts a record that the log holds.
    pub(crate) fn note_logged(&self, sequence: Sequence, redo_bytes: u64) {
        let mut log = self.log.lock();
        let replaced = log.insert(sequence, redo_bytes + RECORD_OVERHEAD);
        let added = redo_bytes + RECORD_OVERHEAD;
        let total = self.log_bytes.load(Ordering::Relaxed) + added - replaced.unwrap_or(0);
        self.set_log_bytes(total);
    }

    /// To be called under the lock of `log`.
    fn set_log_bytes(&self, total: u64) {
        self.log_bytes.store(total, Ordering::Relaxed);
        self.metrics.log_bytes.set(total as i64);
    }

    /// Makes the next commit's number greater than any in the log.
    pub(crate) fn continue_after(&self, last: Sequence) {
        self.next_sequence.fetch_max(last.0 + 1, Ordering::SeqCst);
    }

    /// Waits until log and dirty pages are below their bounds.
    ///
    /// # Errors
    /// Checkpoints fail, so there will be no room until the store recovers.
    pub(crate) fn wait_for_room(&self) -> Result<(), String> {
        if !self.is_at_bound() {
            return Ok(());
        }
        self.metrics.checkpoint_waits.inc();
        let started = Instant::now();
        let mut signals = self.signals.lock();
        while self.is_at_bound() {
            if let Some(failure) = &signals.failure {
                return Err(failure.clone());
            }
            if !self.disk.has_background_room() {
                return Err("the disk has no room for checkpoints".to_owned());
            }
            if started.elapsed() > ROOM_PATIENCE {
                return Err("checkpoints make no room".to_owned());
            }
            self.work.notify_one();
            self.cache.shed_counters();
            self.room.wait_for(&mut signals, Duration::from_millis(100));
        }
        Ok(())
    }

    /// Asks for clean pages and waits for some, `patience` at the longest.
    ///
    /// # Errors
    /// Checkpoints fail.
    pub(crate) fn wait_for_frames(&self, patience: Duration) -> Result<(), StoreError> {
        let mut signals = self.signals.lock();
        signals.flush = true;
        self.work.notify_one();
        if let Some(reason) = signals.failure.clone() {
            return Err(StoreError::CheckpointFailed { reason });
        }
        self.room.wait_for(&mut signals, patience);
        Ok(())
    }

    /// Has the log cut if it is longer than that, and waits for it, `patience` at
    /// the longest: whoever reads the log would read it more than once. Where
    /// checkpoints fail, or have no room, it stays as it is.
    pub(crate) fn shorten_log(&self, to_bytes: u64, patience: Duration) {
        let started = Instant::now();
        let mut signals = self.signals.lock();
        while self.log_bytes.load(Ordering::Relaxed) > to_bytes
            && signals.failure.is_none()
            && self.disk.has_background_room()
        {
            let Some(left) = patience.checked_sub(started.elapsed()) else {
                return;
            };
            signals.flush = true;
            self.work.notify_one();
            self.room
                .wait_for(&mut signals, left.min(Duration::from_millis(100)));
        }
    }

    /// Has the pages of removed filters and dropped sub-filters deleted, whose
    /// tables are marked as dropped already.
    pub(crate) fn reclaim_soon(&self, garbage: impl IntoIterator<Item = Garbage>) {
        self.signals.lock().garbage.extend(garbage);
        self.work.notify_one();
    }

    fn is_at_bound(&self) -> bool {
        self.dirty_pages.load(Ordering::Relaxed) >= self.bounds.max_dirty_pages
            || self.log_bytes.load(Ordering::Relaxed) >= self.bounds.max_log_bytes
            || self.cache.has_too_many_counters()
    }

    fn is_due(&self) -> bool {
        self.dirty_pages.load(Ordering::Relaxed) > self.bounds.many_dirty_pages()
            || self.log_bytes.load(Ordering::Relaxed) > self.bounds.much_log()
            || self.cache.has_many_counters()
    }

    /// The checkpointer's life: works when log or dirty pages are near
    /// their bounds, or somebody asked, until [`stop`](Self::stop).
    pub(crate) fn run(&self) {
        let _guard = AbortOnPanic;
        loop {
            let mut signals = self.signals.lock();
            let idle = !signals.flush && signals.garbage.is_empty() && !self.is_due();
            if idle && !signals.stop {
                self.work.wait_for(&mut signals, Duration::from_secs(1));
            }
            if signals.stop {
                return;
            }
            let flush = std::mem::take(&mut signals.flush);
            let mut garbage = std::mem::take(&mut signals.garbage);
            drop(signals);
            let pause = match self.work_off(flush, &mut garbage) {
                Ok(Progress::Some) => continue,
                // The log can't be cut before a commit under way is published.
                Ok(Progress::None) => Duration::from_millis(10),
                Err(error) => {
                    tracing::error!(%error, "checkpoint failed; it is tried again");
                    let mut signals = self.signals.lock();
                    signals.garbage.append(&mut garbage);
                    signals.flush |= flush;
                    drop(signals);
                    Duration::from_millis(500)
                }
            };
            let mut signals = self.signals.lock();
            if !signals.stop {
                self.work.wait_for(&mut signals, pause);
            }
        }
    }

    /// Ends [`run`](Self::run).
    pub(crate) fn stop(&self) {
        self.signals.lock().stop = true;
        self.work.notify_all();
    }

    fn work_off(&self, flush: bool, garbage: &mut Vec<Garbage>) -> Result<Progress, StoreError> {
        let mut progress = Progress::None;
        let asked_for = if flush { 16 } else { 0 };
        for slice in 0..SLICES_PER_ROUND {
            let wanted = slice < asked_for || self.is_due();
            // What is left then is for the next start, which replays the log.
            let wanted = wanted && self.disk.has_background_room();
            if !wanted || !self.checkpoint_slice(CutLog::Yes)? {
                break;
            }
            progress = Progress::Some;
        }
        // No slice is being written: slices and this share a thread, and pages
        // of what was dropped are not copied any more.
        while let Some(&next) = garbage.last() {
            self.store.reclaim(next)?;
            garbage.pop();
            if self.disk.is_short() {
                self.store.compact_range(next)?;
            }
            progress = Progress::Some;
        }
        Ok(progress)
    }

    /// Writes every dirty page and cuts the whole log: for a clean stop.
    pub(crate) fn checkpoint_all(&self) -> Result<(), StoreError> {
        while self.checkpoint_slice(CutLog::Yes)? {}
        Ok(())
    }

    /// Writes a slice of the oldest dirty pages and cuts the log behind what
    /// earlier slices wrote. Says whether there was anything to do.
    pub(crate) fn checkpoint_slice(&self, cut: CutLog) -> Result<bool, StoreError> {
        let _one_at_a_time = self.slicing.lock();
        let Some(Slice {
            lane,
            pages,
            images,
        }) = self.copy_slice()
        else {
            return self.cut_log(cut);
        };
        let cut_before = match cut {
            CutLog::Yes => self.needed_from(),
            CutLog::No => Sequence(0),
        };
        let written = self.store.checkpoint(&images, cut_before);
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
        let first_logged = self.log.lock().keys().next().copied();
        let useless = first_logged.is_some_and(|first| first < needed);
        if cut == CutLog::No || !useless {
            return Ok(false);
        }
        let written = self.store.checkpoint(&[], needed);
        self.note_outcome(&written);
        written?;
        self.note_cut(needed);
        Ok(true)
    }

    fn note_outcome(&self, written: &Result<(), StoreError>) {
        let mut signals = self.signals.lock();
        signals.failure = written.as_ref().err().map(ToString::to_string);
        if signals.failure.is_some() {
            self.metrics.checkpoint_failures.inc();
        }
        self.room.notify_all();
    }

    /// Copies the images of the pages with the oldest needs, all of one lane.
    fn copy_slice(&self) -> Option<Slice> {
        let (lane, ledger) = self
            .lanes
            .iter()
            .enumerate()
            .filter_map(|(lane, ledger)| {
                let held = ledger.lock();
                let fronts = [held.dirty.front(), held.again.front()];
                let oldest = fronts.into_iter().flatten().map(|page| page.oldest).min()?;
                Some((oldest, lane, ledger))
            })
            .min_by_key(|&(oldest, lane, _)| (oldest, lane))
            .map(|(_, lane, ledger)| (lane, ledger))?;
        let mut ledger = ledger.lock();
        let mut slice = Vec::new();
        let mut images = Vec::new();
        while slice.len() < self.bounds.slice_pages {
            let Some(page) = ledger.pop_oldest() else {
                break;
            };
            let Some(frame) = self.cache.frame(page.frame) else {
                continue;
            };
            if page.table.is_dropped() {
                frame.set_dirty_state(DirtyState::Clean);
                self.count_clean(&page.table);
                continue;
            }
            images.push((
                page.table.id(page.page),
                frame.image(page.table.page_bytes()),
            ));
            frame.set_changed_since_copy(0);
            frame.set_dirty_state(DirtyState::Copied);
            slice.push(page);
        }
        ledger.in_slice = slice.iter().map(|page| page.oldest).min();
        drop(ledger);
        images.sort_unstable_by_key(|&(id, _)| id);
        Some(Slice {
            lane,
            pages: slice,
            images,
        })
    }

    /// After the write: pages that did not change meanwhile are clean, the
    /// others need the first record published since the copy. After a failed
    /// write they need what they needed before.
    fn settle_slice(&self, lane: usize, slice: Vec<DirtyPage>, written: bool) {
        let Some(ledger) = self.lanes.get(lane) else {
            return;
        };
        let mut ledger = ledger.lock();
        ledger.in_slice = None;
        let mut changed = Vec::new();
        for mut page in slice {
            let Some(frame) = self.cache.frame(page.frame) else {
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
            frame.set_dirty_state(DirtyState::Dirty);
            changed.push(page);
        }
        if written {
            changed.sort_by_key(|page| page.oldest);
            ledger.again.extend(changed);
        } else {
            // They were the oldest and still are. The slice ascends.
            for page in changed.into_iter().rev() {
                ledger.dirty.push_front(page);
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
        // Before the checkpointer: a number handed out later is greater.
        let next = Sequence(self.next_sequence.load(Ordering::SeqCst));
        self.lanes
            .iter()
            .filter_map(|ledger| ledger.lock().oldest_needed())
            .chain([next])
            .min()
            .unwrap_or(next)
    }

    fn note_cut(&self, before: Sequence) {
        let mut log = self.log.lock();
        let kept = log.split_off(&before);
        let cut: u64 = std::mem::replace(&mut *log, kept).values().sum();
        self.set_log_bytes(self.log_bytes.load(Ordering::Relaxed).saturating_sub(cut));
        drop(log);
        self.room.notify_all();
    }

    /// Whether recovery should write pages before it goes on.
    pub(crate) fn has_many_dirty_pages(&self) -> bool {
        self.dirty_pages.load(Ordering::Relaxed) > self.bounds.many_dirty_pages()
    }
}

/// Whether a round of the checkpointer found anything to write or to cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Progress {
    Some,
    None,
}

/// Whether a slice may cut the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CutLog {
    /// Behind what earlier slices wrote.
    Yes,
    /// Not while the log is being replayed: the replay starts from its first
    /// record again if it is interrupted.
    No,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn images_are_written_late_but_before_commits_have_to_wait() {
        for (max_dirty_pages, slice_pages, many) in [
            (1 << 20, 64, 917_504),
            (4_096, 64, 3_584),
            // Four slices are more than an eighth here, ...
            (1_024, 64, 768),
            // ... and half of it is left for pages to gather changes.
            (256, 64, 128),
            (1, 1, 1),
        ] {
            let bounds = Bounds {
                max_dirty_pages,
                max_log_bytes: 1 << 20,
                slice_pages,
            };
            assert_eq!(bounds.many_dirty_pages(), many, "{bounds:?}");
        }
    }
}
