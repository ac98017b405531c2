//! Pins: what keeps pages in memory beyond having been read lately.
//!
//! A command that waits pins the pages that it was brought in for, with a count
//! in each frame. A plan meets thousands of pages, most of them once; its pins
//! are its number on each frame, and all end with the plan.

use super::cache::PageCache;
use super::eviction::{expected, reached};
use super::frame::{FrameIndex, Words};
use super::table::PageTable;
use cuckood_share::Permit;
use std::ptr;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Pages that stay resident until this is dropped.
pub struct Pins {
    pub(super) cache: Arc<PageCache>,
    pub(super) frames: Vec<FrameIndex>,
    pub(super) _permit: Permit<Arc<str>>,
}

impl Drop for Pins {
    fn drop(&mut self) {
        for &frame in &self.frames {
            self.cache.unpin(frame);
        }
    }
}

/// The pages that a lane plans over. They stay resident, each in its
/// frame, until this is dropped.
///
/// A frame that carries the number of a plan which is under way is pinned by
/// it, so the page that names the frame is the page that was pinned. A page
/// belongs to one lane, which has one group commit at a time, and at most one plan that
/// is suspended, with pins of its own. Nothing else is planned over that plan's pages
/// meanwhile, so no number of either is overwritten.
pub struct PlanPins {
    cache: Arc<PageCache>,
    /// Number of the plan.
    plan: u64,
    /// Pages that the plan has come to.
    reached: usize,
    /// These, and those that it expects: all that can't be evicted.
    held: usize,
}

impl PlanPins {
    /// Those of a plan that begins.
    pub fn begin(cache: &Arc<PageCache>) -> PlanPins {
        PlanPins {
            plan: cache.eviction.lock().begin_plan(),
            cache: Arc::clone(cache),
            reached: 0,
            held: 0,
        }
    }

    /// Pages that the plan has come to; those that it only expects do not
    /// count.
    #[inline]
    pub fn reached(&self) -> usize {
        self.reached
    }

    /// Pages that the plan keeps in memory.
    #[inline]
    pub fn held(&self) -> usize {
        self.held
    }

    /// The frame of a page that the plan has come to before, or comes to now
    /// and has expected. No lock.
    #[inline]
    pub fn pinned(&mut self, table: &PageTable, page: u32) -> Option<FrameIndex> {
        let index = self.cache.resident_frame(table, page)?;
        let stamp = self.cache.frames.stamp(index)?;
        let number = stamp.load(Ordering::Relaxed);
        if number == expected(self.plan) {
            // It is a pin already.
            stamp.store(reached(self.plan), Ordering::Relaxed);
            self.reached += 1;
            return Some(index);
        }
        (number == reached(self.plan)).then_some(index)
    }

    /// Pins a page that the plan comes to, and holds not yet. `None` if it is
    /// not resident.
    #[inline]
    pub fn pin(&mut self, table: &PageTable, page: u32) -> Option<FrameIndex> {
        let _lock = self.cache.eviction.lock();
        let index = self.cache.resident_frame(table, page)?;
        let (chunk, within) = self.cache.frames.chunk(index)?;
        chunk
            .stamp(within)?
            .store(reached(self.plan), Ordering::Relaxed);
        chunk.mark_referenced(within);
        self.reached += 1;
        self.held += 1;
        Some(index)
    }

    /// Pins the pages of words that the plan will come to, as far as they are
    /// resident and as long as it does not hold `most` pages, all of them under
    /// the lock once; and asks for the words' memory.
    pub fn expect<'t>(
        &mut self,
        words: impl Iterator<Item = (&'t PageTable, u32, u16)>,
        most: usize,
    ) {
        let cache = &self.cache;
        let _lock = cache.eviction.lock();
        let mut last: Option<(&PageTable, u32, Words<'_>)> = None;
        for (table, page, word) in words {
            // An item's two words mostly lie on one page.
            if let Some((of, number, words)) = last
                && number == page
                && ptr::eq(of, table)
            {
                words.prefetch(word);
                continue;
            }
            let index = cache.resident_frame(table, page);
            let chunk = index.and_then(|it| cache.frames.chunk(it));
            let Some((chunk, within)) = chunk else {
                continue;
            };
            let Some((words, stamp)) = chunk.words(within).zip(chunk.stamp(within)) else {
                continue;
            };
            words.prefetch(word);
            last = Some((table, page, words));
            let is_held = stamp.load(Ordering::Relaxed) | 1 == reached(self.plan);
            if !is_held && self.held < most {
                self.held += 1;
                stamp.store(expected(self.plan), Ordering::Relaxed);
                chunk.mark_referenced(within);
            }
        }
    }
}

impl Drop for PlanPins {
    fn drop(&mut self) {
        self.cache.eviction.lock().end_plan(self.plan);
    }
}
