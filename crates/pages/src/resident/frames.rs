//! All frames, bounded in number, and what they take of memory.

use super::frame::{FRAME_WORDS, Frame, FrameIndex, State, Words};
use super::huge::HugeWords;
use super::leaves::Leaves;
use super::table::PageTable;
use cuckood_filter::chain::counters::Counters;
use cuckood_filter::chain::params::PAGE_BYTES;
use parking_lot::Mutex;
use prometheus::IntGauge;
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

/// Frames that are allocated together: 32 MiB of words, which take memory only
/// where they were touched. Less would come from memory that was used before.
const CHUNK_FRAMES: usize = 8_192;

/// The smallest cache, 1 MiB.
pub(super) const MIN_FRAMES: usize = 256;

/// Counters get one part in so many of the cache's bytes.
const COUNTERS_SHARE: u64 = 16;

/// Frames that are allocated together. What is asked of them more often than
/// their words lies close together, beside that of others.
pub(super) struct Chunk {
    words: HugeWords,
    states: Box<[State]>,
    /// Whether each frame was read since the clock's hand came by.
    referenced: Box<[AtomicBool]>,
    /// The plan that pinned each frame's page last; see
    /// [`PlanPins`](super::PlanPins).
    stamps: Box<[AtomicU64]>,
}

impl Chunk {
    fn new(frames: usize) -> Chunk {
        let each = 0..frames;
        Chunk {
            words: HugeWords::new(frames * FRAME_WORDS),
            states: each.clone().map(|_| State::default()).collect(),
            referenced: each.clone().map(|_| AtomicBool::new(false)).collect(),
            stamps: each.map(|_| AtomicU64::new(0)).collect(),
        }
    }

    #[inline]
    pub(super) fn words(&self, within: usize) -> Option<Words<'_>> {
        let (frames, _) = self.words.as_chunks();
        frames.get(within).map(Words)
    }

    #[inline]
    pub(super) fn stamp(&self, within: usize) -> Option<&AtomicU64> {
        self.stamps.get(within)
    }

    #[inline]
    pub(super) fn mark_referenced(&self, within: usize) {
        if let Some(referenced) = self.referenced.get(within)
            && !referenced.load(Ordering::Relaxed)
        {
            referenced.store(true, Ordering::Relaxed);
        }
    }
}

/// The frames of a cache.
pub(super) struct Frames {
    chunks: Box<[OnceLock<Chunk>]>,
    /// The entries of the pages that lie in them.
    pub(super) leaves: Leaves,
    /// How many there are.
    pub(super) capacity: u32,
    /// Bytes of all resident counters, and how many there should be at most.
    counter_bytes: AtomicU64,
    max_counter_bytes: u64,
    /// Those whose pages have counters, and some whose pages had: an entry goes when it
    /// is come across.
    with_counters: Mutex<Vec<FrameIndex>>,
    /// Bytes of resident pages and counters.
    bytes: IntGauge,
}

impl Frames {
    /// Frames that take `bytes` bytes with the counters of their pages. They
    /// are allocated as they are needed.
    pub(super) fn new(bytes: u64, gauge: IntGauge) -> Frames {
        let max_counter_bytes = bytes / COUNTERS_SHARE;
        let of_pages = (bytes - max_counter_bytes) / u64::from(PAGE_BYTES);
        let frames = usize::try_from(of_pages).unwrap_or(usize::MAX);
        let frames = frames.clamp(MIN_FRAMES, u32::MAX as usize - CHUNK_FRAMES);
        Frames {
            chunks: (0..frames.div_ceil(CHUNK_FRAMES))
                .map(|_| OnceLock::new())
                .collect(),
            leaves: Leaves::new(frames),
            capacity: frames as u32,
            counter_bytes: AtomicU64::new(0),
            max_counter_bytes,
            with_counters: Mutex::default(),
            bytes: gauge,
        }
    }

    /// Allocates the frame of that number, with others, if it is not there.
    pub(super) fn allocate(&self, index: FrameIndex) -> Option<()> {
        let chunk = index.0 as usize / CHUNK_FRAMES;
        let frames = (self.capacity as usize - chunk * CHUNK_FRAMES).min(CHUNK_FRAMES);
        self.chunks.get(chunk)?.get_or_init(|| Chunk::new(frames));
        Some(())
    }

    /// The chunk of a frame, and its place there.
    #[inline]
    pub(super) fn chunk(&self, index: FrameIndex) -> Option<(&Chunk, usize)> {
        let index = index.0 as usize;
        let chunk = self.chunks.get(index / CHUNK_FRAMES)?.get()?;
        Some((chunk, index % CHUNK_FRAMES))
    }

    /// The frame of that number.
    #[inline]
    pub(super) fn get(&self, index: FrameIndex) -> Option<Frame<'_>> {
        let (chunk, within) = self.chunk(index)?;
        Some(Frame {
            words: chunk.words(within)?,
            state: chunk.states.get(within)?,
        })
    }

    /// See [`PlanPins`](super::PlanPins).
    #[inline]
    pub(super) fn stamp(&self, index: FrameIndex) -> Option<&AtomicU64> {
        let (chunk, within) = self.chunk(index)?;
        chunk.stamp(within)
    }

    /// Says that the page in a frame was used.
    pub(super) fn mark_referenced(&self, index: FrameIndex) {
        if let Some((chunk, within)) = self.chunk(index) {
            chunk.mark_referenced(within);
        }
    }

    /// Whether the page in a frame was used since this was asked last.
    pub(super) fn take_mark(&self, index: FrameIndex) -> bool {
        let chunk = self.chunk(index);
        let mark = chunk.and_then(|(chunk, within)| chunk.referenced.get(within));
        mark.is_some_and(|mark| mark.swap(false, Ordering::Relaxed))
    }

    /// Counts a page that came in.
    pub(super) fn count_page(&self) {
        self.bytes.add(i64::from(PAGE_BYTES));
    }

    /// Counts a page that was evicted.
    pub(super) fn count_evicted(&self) {
        self.bytes.sub(i64::from(PAGE_BYTES));
    }

    /// Gives the page in a frame, one of that table, other counters.
    pub(super) fn set_counters(
        &self,
        index: FrameIndex,
        table: &PageTable,
        counters: Option<Arc<Counters>>,
    ) {
        let has_counters = |it: &Frame<'_>| it.state.counters.load().is_some();
        let frame = self.get(index);
        // Few pages have any, and to look is cheaper than to swap.
        let Some(frame) = frame.filter(|it| counters.is_some() || has_counters(it)) else {
            return;
        };
        let bytes = |counters: Option<&Counters>| counters.map_or(0, |it| it.bytes() as u64);
        let after = bytes(counters.as_deref());
        let before = bytes(frame.state.counters.swap(counters).as_deref());
        if before == 0 && after > 0 {
            let mut listed = self.with_counters.lock();
            if !frame.state.is_listed.swap(true, Ordering::Relaxed) {
                listed.push(index);
            }
        }
        if after == before {
            return;
        }
        for bytes in [&self.counter_bytes, &table.counter_bytes] {
            bytes.fetch_add(after, Ordering::Relaxed);
            bytes.fetch_sub(before, Ordering::Relaxed);
        }
        self.bytes.add(after as i64 - before as i64);
    }

    /// Bytes of all resident counters.
    pub(super) fn counter_bytes(&self) -> u64 {
        self.counter_bytes.load(Ordering::Relaxed)
    }

    /// Whether counters take more than their share: their pages should be
    /// checkpointed, so that they may be evicted.
    pub(super) fn has_many_counters(&self) -> bool {
        self.counter_bytes.load(Ordering::Relaxed) > self.max_counter_bytes
    }

    /// Whether counters take so much more than their share that commits should
    /// wait.
    pub(super) fn has_too_many_counters(&self) -> bool {
        self.counter_bytes.load(Ordering::Relaxed) > 4 * self.max_counter_bytes
    }

    /// Whether they take all that they may, half of the cache's bytes.
    pub(super) fn is_full_of_counters(&self) -> bool {
        self.counter_bytes.load(Ordering::Relaxed) > 8 * self.max_counter_bytes
    }

    /// Looks at up to so many frames whose pages have counters, from the one of that
    /// place in their list on. Returns the place at which `each` breaks, or where to go
    /// on.
    pub(super) fn each_with_counters(
        &self,
        from: usize,
        most: usize,
        mut each: impl FnMut(FrameIndex, Frame<'_>) -> ControlFlow<()>,
    ) -> ControlFlow<usize, usize> {
        let mut listed = self.with_counters.lock();
        let mut at = from;
        for _ in 0..most.min(listed.len()) {
            at = if at < listed.len() { at } else { 0 };
            let Some((&index, frame)) = listed.get(at).and_then(|it| Some((it, self.get(*it)?)))
            else {
                break;
            };
            if frame.counters() > 0 {
                if each(index, frame).is_break() {
                    return ControlFlow::Break(at);
                }
                at += 1;
            } else {
                frame.state.is_listed.store(false, Ordering::Relaxed);
                listed.swap_remove(at);
            }
        }
        ControlFlow::Continue(at)
    }

    /// Frames that a full round of [`each_with_counters`](Self::each_with_counters)
    /// looks at.
    pub(super) fn listed_with_counters(&self) -> usize {
        self.with_counters.lock().len()
    }
}
