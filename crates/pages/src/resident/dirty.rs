//! The pages of one lane that a checkpoint has to write, and the oldest record
//! of the log that each of them needs.

use super::table::PageTable;
use crate::page::{PageId, Sequence};
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Instant;

/// One lane's dirty pages.
#[derive(Default)]
pub(super) struct DirtyPages {
    /// The record that was handed to the store and is not published yet.
    pub(super) in_flight: Option<Sequence>,
    /// Pages by the oldest record they need, ascending.
    pub(super) dirty: VecDeque<DirtyPage>,
    /// Parked pages, ascending as well.
    pub(super) parked: VecDeque<DirtyPage>,
    /// The oldest record that a page needs which is being stored, and is in no queue.
    pub(super) in_slice: Option<Sequence>,
    /// Parked pages whose stored images can't be read, and since when the oldest of
    /// them waits to be tried again.
    pub(super) unreadable: Vec<DirtyPage>,
    pub(super) unreadable_since: Option<Instant>,
    /// Parked pages that are being read to be stored, and the first record that changed
    /// them since, if one did.
    pub(super) folding: BTreeMap<PageId, Option<Sequence>>,
}

/// What a checkpoint has to do about a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Need {
    /// Its frame has what neither its image has, nor what is parked of it.
    Changed,
    /// What is parked of it has to come to its image.
    Parked,
    /// Its image has to be removed: it is no more.
    Gone,
}

/// A page that has to be written, or whose image has to be removed. Where it lies is
/// looked up: it may have been written meanwhile for another need, or be no more.
pub(super) struct DirtyPage {
    /// The oldest record that it needs.
    pub(super) oldest: Sequence,
    pub(super) need: Need,
    pub(super) table: Arc<PageTable>,
    pub(super) page: u32,
}

impl DirtyPages {
    /// The oldest record that anything here needs.
    pub(super) fn oldest_needed(&self) -> Option<Sequence> {
        let unreadable = self.unreadable.iter().map(|page| page.oldest).min();
        let waiting = self.oldest_waiting(Which::All);
        [self.in_flight, self.in_slice, waiting, unreadable]
            .into_iter()
            .flatten()
            .min()
    }

    /// The oldest record that a page which waits for its turn needs.
    pub(super) fn oldest_waiting(&self, which: Which) -> Option<Sequence> {
        self.fronts(which).into_iter().flatten().min()
    }

    /// The next page that a checkpoint sees to.
    pub(super) fn pop_oldest(&mut self, which: Which) -> Option<DirtyPage> {
        let oldest = self.oldest_waiting(which)?;
        let [changed, _] = self.fronts(which);
        match changed == Some(oldest) {
            true => self.dirty.pop_front(),
            false => self.parked.pop_front(),
        }
    }

    fn fronts(&self, which: Which) -> [Option<Sequence>; 2] {
        let oldest = |queue: &VecDeque<DirtyPage>| queue.front().map(|page| page.oldest);
        [
            oldest(&self.dirty).filter(|_| which != Which::Parked),
            oldest(&self.parked).filter(|_| which != Which::Changed),
        ]
    }

    /// Says that a page without a frame changed.
    pub(super) fn mark_parked(&mut self, page: PageId, sequence: Sequence) {
        if let Some(since) = self.folding.get_mut(&page) {
            since.get_or_insert(sequence);
        }
    }

    /// Has pages that could not be read be tried again at once.
    #[cfg(test)]
    pub(super) fn forget_patience(&mut self) {
        let long_ago = Instant::now().checked_sub(std::time::Duration::from_secs(3_600));
        self.unreadable_since = self.unreadable_since.and(long_ago);
    }

    /// Puts a page in its place among those that wait; mostly that is an end.
    pub(super) fn put(&mut self, page: DirtyPage) {
        let queue = match page.need {
            Need::Changed | Need::Gone => &mut self.dirty,
            Need::Parked => &mut self.parked,
        };
        let at = queue.partition_point(|it| it.oldest <= page.oldest);
        queue.insert(at, page);
    }
}

/// Which pages a checkpoint sees to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Which {
    /// Such as lie in a frame, or are no more.
    Changed,
    Parked,
    All,
}
