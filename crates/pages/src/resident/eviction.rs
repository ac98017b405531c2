//! Which page leaves when another needs its frame: the clock algorithm
//! (Corbató, 1968).
//!
//! A frame stays while its page is dirty, or pinned by a command that waits or
//! by a plan that is under way. Pages that were read since the hand came by
//! are spared once.

use super::frame::{DirtyState, FrameIndex};
use super::frames::Frames;
use super::leaves::{LeafUse, place_in};
use super::table::PageTable;
use cuckood_metrics::Metrics;
use prometheus::IntCounter;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Frames whose pages have counters that are looked at for some to be evicted, at
/// most, each time that a page comes in or gets more of them.
pub(super) const COUNTERS_SWEEP: usize = 64;

/// Such frames that are looked at for one that can be evicted once it is clean.
const COUNTERS_LOOK: usize = 256;

/// Which page each frame holds, and which plans are under way. Part of the
/// cache, under its lock.
pub(super) struct Eviction {
    /// By frame, as far as frames were used.
    owners: Vec<Option<Owner>>,
    /// Frames that were used and hold no page.
    free: Vec<FrameIndex>,
    pub(super) leaves: LeafUse,
    hand: usize,
    /// Where the sweep of pages with counters goes on, and the look for one that no
    /// command keeps in memory.
    counters_hand: usize,
    look_hand: usize,
    generation: u32,
    /// Plans so far.
    last_plan: u64,
    /// Those under way, two a lane at most.
    plans: Vec<u64>,
    evictions: IntCounter,
}

/// The page that a frame holds.
struct Owner {
    table: Arc<PageTable>,
    page: u32,
}

/// Whether a page that was read lately may be evicted.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Marks {
    Respected,
    Ignored,
}

impl Eviction {
    pub(super) fn new(metrics: &Metrics) -> Eviction {
        Eviction {
            owners: Vec::new(),
            free: Vec::new(),
            leaves: LeafUse::default(),
            hand: 0,
            counters_hand: 0,
            look_hand: 0,
            generation: 0,
            last_plan: 0,
            plans: Vec::new(),
            evictions: metrics.cache_evictions.clone(),
        }
    }

    /// Frames that were used so far.
    #[cfg(test)]
    pub(super) fn used(&self) -> usize {
        self.owners.len()
    }

    /// Leaves that were used so far.
    #[cfg(test)]
    pub(super) fn leaves_used(&self) -> usize {
        self.leaves.used()
    }

    /// Number of a plan that begins.
    pub(super) fn begin_plan(&mut self) -> u64 {
        // 0 is the stamp of no plan.
        self.last_plan += 1;
        self.plans.push(self.last_plan);
        self.last_plan
    }

    /// The pages that it has pinned may be evicted.
    pub(super) fn end_plan(&mut self, plan: u64) {
        self.plans.retain(|&under_way| under_way != plan);
    }

    /// Frames that hold no page.
    pub(super) fn free_frames(&self, frames: &Frames) -> usize {
        self.free.len() + (frames.capacity as usize).saturating_sub(self.owners.len())
    }

    /// A frame that holds no page: a new one, or one whose page the hand finds
    /// unused. `None`: every frame is dirty or pinned just now.
    pub(super) fn take_frame(&mut self, frames: &Frames) -> Option<FrameIndex> {
        if let Some(free) = self.free.pop() {
            return Some(free);
        }
        let used = self.owners.len();
        if used < frames.capacity as usize {
            let index = FrameIndex(used as u32);
            frames.allocate(index)?;
            self.owners.push(None);
            return Some(index);
        }
        // Once round to clear the marks of use, once to find; and once more for
        // readers that mark pages as fast as the hand clears them.
        let rounds = [Marks::Respected, Marks::Respected, Marks::Ignored];
        for marks in rounds {
            for _ in 0..used {
                let at = self.hand;
                self.hand = (self.hand + 1) % used;
                if self.try_evict(frames, at, marks) {
                    return Some(FrameIndex(at as u32));
                }
            }
        }
        None
    }

    /// Gives a page the frame that was taken. Returns the place for its entry.
    pub(super) fn assign(&mut self, index: FrameIndex, table: &Arc<PageTable>, page: u32) -> u64 {
        if let Some(owner) = self.owners.get_mut(index.0 as usize) {
            *owner = Some(Owner {
                table: Arc::clone(table),
                page,
            });
        }
        self.generation = self.generation.wrapping_add(1);
        place_in(index, self.generation)
    }

    /// Takes back the frame of a page that is no more, and is nowhere named any
    /// more.
    pub(super) fn release(&mut self, frames: &Frames, index: FrameIndex) {
        let (Some(frame), Some(slot)) = (frames.get(index), self.owners.get_mut(index.0 as usize))
        else {
            return;
        };
        if let Some(owner) = slot.take() {
            owner.table.count_evicted();
            frames.set_counters(index, &owner.table, None);
            frames.count_evicted();
            frame.set_dirty_state(DirtyState::Clean);
            frame.set_changed_since_copy(0);
            frame.mark_unchanged();
            self.free.push(index);
        }
    }

    /// Evicts pages with counters while there are more counters than should
    /// be, as far as such pages may be evicted.
    pub(super) fn shed_counters(&mut self, frames: &Frames) {
        let from = self.counters_hand;
        let swept = frames.each_with_counters(from, COUNTERS_SWEEP, |index, _| {
            if !frames.has_many_counters() {
                return ControlFlow::Break(());
            }
            if self.try_evict(frames, index.0 as usize, Marks::Ignored) {
                self.free.push(index);
            }
            ControlFlow::Continue(())
        });
        let (ControlFlow::Break(at) | ControlFlow::Continue(at)) = swept;
        self.counters_hand = at;
    }

    /// Whether a page with counters is there that no command keeps in memory, among
    /// those that are looked at: each time others, as long as there is none.
    pub(super) fn can_shed(&mut self, frames: &Frames) -> bool {
        let plans = &self.plans;
        let look = frames.each_with_counters(self.look_hand, COUNTERS_LOOK, |index, frame| {
            match frame.is_pinned() || is_planned_over(frames, plans, index) {
                true => ControlFlow::Continue(()),
                false => ControlFlow::Break(()),
            }
        });
        let (ControlFlow::Break(at) | ControlFlow::Continue(at)) = look;
        self.look_hand = at;
        look.is_break()
    }

    fn try_evict(&mut self, frames: &Frames, at: usize, marks: Marks) -> bool {
        let index = FrameIndex(at as u32);
        let (Some(frame), Some(slot)) = (frames.get(index), self.owners.get_mut(at)) else {
            return false;
        };
        // A free frame, which is in the list of free frames.
        let Some(owner) = slot else {
            return false;
        };
        // Pins first: a plan marks pages as dirty before it lets go of them.
        if frame.is_pinned()
            || is_planned_over(frames, &self.plans, index)
            || frame.dirty_state() != DirtyState::Clean
            || (frames.take_mark(index) && marks == Marks::Respected)
        {
            return false;
        }
        let Some(leaf) = owner.table.leaf(owner.page) else {
            return false;
        };
        let (all, leaves) = (&frames.leaves, &mut self.leaves);
        if all.clear(leaves, leaf, owner.page, index).is_none() {
            return false;
        }
        owner.table.count_evicted();
        frames.set_counters(index, &owner.table, None);
        // Of one that was not published all counts as changed.
        frame.mark_unchanged();
        *slot = None;
        frames.count_evicted();
        self.evictions.inc();
        true
    }
}

/// Whether one of these plans has pinned the page in a frame.
fn is_planned_over(frames: &Frames, plans: &[u64], index: FrameIndex) -> bool {
    let stamp = frames.stamp(index);
    stamp.is_some_and(|stamp| plans.contains(&plan_of(stamp.load(Ordering::Relaxed))))
}

/// The stamp of a frame whose page a plan expects to come to.
#[inline]
pub(super) fn expected(plan: u64) -> u64 {
    plan << 1
}

/// The stamp of a frame whose page a plan has come to.
#[inline]
pub(super) fn reached(plan: u64) -> u64 {
    plan << 1 | 1
}

#[inline]
fn plan_of(stamp: u64) -> u64 {
    stamp >> 1
}
