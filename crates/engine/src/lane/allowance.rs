//! How many pages lanes may hold while they plan.
//!
//! A server alone has no more lanes than its cache has room for, and each may always
//! hold as many pages as a lane may. A pod has the lanes of its cluster, few of which
//! are at work at the same time. There each lane has a small part that is its own, and
//! takes what it needs beyond that from what all of them share.
//!
//! Nobody waits for others while it holds some of what is shared: a group commit that gets no
//! more ends, and a command that needs more waits, with nothing, for all that a lane may
//! hold, in the order in which lanes came. Whoever holds something goes on by itself, so
//! it is given back. Nobody takes anything past a lane that waits.
//!
//! Pages that were planned over wait for a checkpoint then. So nothing more is taken
//! while commits wait for that: else one lane after the other could fill the cache.

use parking_lot::Mutex;
use std::collections::VecDeque;
use std::sync::Arc;

/// Pages that are taken beyond those that are needed just now.
const STEP: usize = 64;

/// What all lanes may hold, together.
pub(crate) struct Allowances {
    /// Pages that one command may touch.
    pub(super) max_pages: usize,
    /// Pages that a lane may hold at the most.
    most: usize,
    /// Pages that each lane may always hold.
    own: usize,
    shared: Mutex<Shared>,
    /// Whether there is room for further pages that wait for a checkpoint.
    has_room: Box<dyn Fn() -> bool + Send + Sync>,
}

struct Shared {
    free: usize,
    /// Numbers of the lanes that wait for all that a lane may hold.
    waiting: VecDeque<usize>,
}

impl Allowances {
    /// What lanes may hold of a cache of so many frames, if so many are at work at the
    /// same time.
    pub(crate) fn new(
        frames: usize,
        lanes: usize,
        at_work: usize,
        has_room: impl Fn() -> bool + Send + Sync + 'static,
    ) -> Allowances {
        // A group commit may take half of this and one command more.
        let max_pages = frames / (6 * at_work);
        let most = max_pages + max_pages / 2;
        let own = match lanes <= at_work {
            true => most,
            false => frames / (16 * lanes),
        };
        Allowances {
            max_pages,
            most,
            own,
            shared: Mutex::new(Shared {
                free: at_work * (most - own),
                waiting: VecDeque::new(),
            }),
            has_room: Box::new(has_room),
        }
    }
}

/// What one lane may hold.
pub(super) struct Allowance {
    all: Arc<Allowances>,
    lane: usize,
    /// Pages of those that are shared.
    taken: usize,
    /// Whether it waits for all that it may hold.
    pub(super) is_waiting: bool,
}

impl Allowance {
    pub(super) fn new(all: &Arc<Allowances>, lane: usize) -> Allowance {
        Allowance {
            all: Arc::clone(all),
            lane,
            taken: 0,
            is_waiting: false,
        }
    }

    /// Pages that the lane may hold at the most.
    pub(super) fn most(&self) -> usize {
        self.all.most
    }

    /// Pages that it may hold now.
    pub(super) fn pages(&self) -> usize {
        self.all.own + self.taken
    }

    /// Whether that is all that it ever may.
    pub(super) fn has_all(&self) -> bool {
        self.pages() == self.all.most
    }

    /// Whether it may hold so many pages: now, or with more that it takes.
    #[inline]
    pub(super) fn covers(&mut self, pages: usize) -> bool {
        pages <= self.pages() || self.grow(pages)
    }

    fn grow(&mut self, pages: usize) -> bool {
        if pages > self.all.most || !(self.all.has_room)() {
            return false;
        }
        let needed = pages - self.pages();
        let wanted = (pages + STEP).min(self.all.most) - self.pages();
        let mut shared = self.all.shared.lock();
        if !shared.waiting.is_empty() || shared.free < needed {
            return false;
        }
        let more = wanted.min(shared.free);
        shared.free -= more;
        self.taken += more;
        true
    }

    /// Takes all that a lane may hold, if it is there and nobody waits for it.
    pub(super) fn try_take_all(&mut self) -> bool {
        self.has_all() || self.grow(self.all.most)
    }

    /// Takes all that a lane may hold, or gives everything back and waits for it: it is
    /// to be asked for again.
    pub(super) fn take_all(&mut self) -> bool {
        if self.has_all() {
            return true;
        }
        let enough = self.all.most - self.all.own;
        let mut shared = self.all.shared.lock();
        shared.free += self.taken;
        self.taken = 0;
        if !self.is_waiting {
            shared.waiting.push_back(self.lane);
        }
        let is_first = shared.waiting.front() == Some(&self.lane);
        self.is_waiting = !is_first || shared.free < enough;
        if !self.is_waiting {
            shared.waiting.pop_front();
            shared.free -= enough;
            self.taken = enough;
        }
        !self.is_waiting
    }

    /// Gives back what it has taken, and waits for nothing any more.
    pub(super) fn give_back(&mut self) {
        if self.taken == 0 && !self.is_waiting {
            return;
        }
        let mut shared = self.all.shared.lock();
        shared.free += self.taken;
        self.taken = 0;
        self.is_waiting = false;
        shared.waiting.retain(|&lane| lane != self.lane);
    }
}

impl Drop for Allowance {
    fn drop(&mut self) {
        self.give_back();
    }
}

#[cfg(test)]
mod tests;
