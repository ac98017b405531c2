//! What dumps under way hold in memory of the redo log, all of them together.
//!
//! A dump reads the log once for as many pages as its entries fit into what it
//! has: with less it reads the log more often, and is the same. So each takes
//! half of what is left, and of many dumps the last ones take their time.

use parking_lot::Mutex;
use std::sync::Arc;

/// Entries that dumps hold together; each takes a few dozen bytes.
const ALL_ENTRIES: usize = 1 << 19;

/// Entries that each may hold even if there are none left.
const LEAST_ENTRIES: usize = 1 << 14;

/// Entries of the log that no dump holds.
pub(in crate::engine) struct MemoryBudget {
    free: Mutex<usize>,
}

impl MemoryBudget {
    /// None is held.
    pub(in crate::engine) fn new() -> Arc<MemoryBudget> {
        Arc::new(MemoryBudget {
            free: Mutex::new(ALL_ENTRIES),
        })
    }

    /// Half of what is left.
    pub(in crate::engine) fn take(self: &Arc<Self>) -> MemoryShare {
        let mut free = self.free.lock();
        let taken = *free / 2;
        *free -= taken;
        MemoryShare {
            budget: Arc::clone(self),
            taken,
        }
    }
}

/// What one dump may hold. Given back when it is dropped.
pub(in crate::engine) struct MemoryShare {
    budget: Arc<MemoryBudget>,
    taken: usize,
}

impl MemoryShare {
    /// Entries of the log.
    pub(in crate::engine) fn entries(&self) -> usize {
        self.taken.max(LEAST_ENTRIES)
    }
}

impl Drop for MemoryShare {
    fn drop(&mut self) {
        *self.budget.free.lock() += self.taken;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_dumps_hold_little_more_than_one_may() {
        let budget = MemoryBudget::new();
        let shares: Vec<MemoryShare> = (0..16).map(|_| budget.take()).collect();
        assert_eq!(shares[0].entries(), ALL_ENTRIES / 2);
        assert_eq!(shares[15].entries(), LEAST_ENTRIES);
        let all: usize = shares.iter().map(MemoryShare::entries).sum();
        assert!(all <= ALL_ENTRIES + 16 * LEAST_ENTRIES, "{all}");
        drop(shares);
        assert_eq!(budget.take().entries(), ALL_ENTRIES / 2);
    }
}
