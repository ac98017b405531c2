//! The pages of one lane that a checkpoint has to write, and the oldest record
//! of the log that each of them needs.

use super::frame::FrameIndex;
use super::table::PageTable;
use crate::page::Sequence;
use std::collections::VecDeque;
use std::sync::Arc;

/// One lane's dirty pages.
#[derive(Default)]
pub(super) struct DirtyPages {
    /// The record that was handed to the store and is not published yet.
    pub(super) in_flight: Option<Sequence>,
    /// Pages by the oldest record they need, ascending.
    pub(super) dirty: VecDeque<DirtyPage>,
    /// Pages that changed while their image was written; ascending as well,
    /// because slices follow each other.
    pub(super) again: VecDeque<DirtyPage>,
    /// Oldest record that the slice being written needs.
    pub(super) in_slice: Option<Sequence>,
}

/// A page that has to be written, or whose image has to be removed.
pub(super) struct DirtyPage {
    /// The oldest record that it needs.
    pub(super) oldest: Sequence,
    /// Where it lies. `None`: it is no more.
    pub(super) frame: Option<FrameIndex>,
    pub(super) table: Arc<PageTable>,
    pub(super) page: u32,
}

impl DirtyPages {
    /// The oldest record that anything here needs.
    pub(super) fn oldest_needed(&self) -> Option<Sequence> {
        [self.in_flight, self.in_slice, self.oldest_waiting()]
            .into_iter()
            .flatten()
            .min()
    }

    /// The oldest record that a page which waits for its turn needs.
    pub(super) fn oldest_waiting(&self) -> Option<Sequence> {
        let fronts = [self.dirty.front(), self.again.front()];
        fronts.into_iter().flatten().map(|page| page.oldest).min()
    }

    /// The next page that a checkpoint writes.
    pub(super) fn pop_oldest(&mut self) -> Option<DirtyPage> {
        let dirty = self.dirty.front().map(|page| page.oldest);
        let again = self.again.front().map(|page| page.oldest);
        match (dirty, again) {
            (Some(dirty), Some(again)) if again < dirty => self.again.pop_front(),
            (Some(_), _) => self.dirty.pop_front(),
            (None, _) => self.again.pop_front(),
        }
    }
}
