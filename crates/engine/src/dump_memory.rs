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
pub(super) struct DumpMemory(Mutex<usize>);

impl DumpMemory {
    /// None is held.
    pub(super) fn new() -> Arc<DumpMemory> {
        Arc::new(DumpMemory(Mutex::new(ALL_ENTRIES)))
    }

    /// Half of what is left.
    pub(super) fn take(self: &Arc<Self>) -> MemoryShare {
        let mut free = self.0.lock();
        let taken = *free / 2;
        *free -= taken;
        MemoryShare {
            budget: Arc::clone(self),
            taken,
        }
    }
}

/// What one dump may hold. Given back when it is dropped.
pub(super) struct MemoryShare {
    budget: Arc<DumpMemory>,
    taken: usize,
}

impl MemoryShare {
    /// Entries of the log.
    pub(super) fn entries(&self) -> usize {
        self.taken.max(LEAST_ENTRIES)
    }
}

impl Drop for MemoryShare {
    fn drop(&mut self) {
        *self.budget.0.lock() += self.taken;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn as_many_as_there_can_be_hold_no_more_than_the_page_on_limits_says() {
        let budget = DumpMemory::new();
        let shares: Vec<MemoryShare> = (0..16).map(|_| budget.take()).collect();
        assert_eq!(shares[0].entries(), ALL_ENTRIES / 2);
        assert_eq!(shares[15].entries(), LEAST_ENTRIES);
        let all: usize = shares.iter().map(MemoryShare::entries).sum();
        let page = include_str!("../../../docs/limits.md");
        let row = page.lines().find_map(|line| {
            let row = line.strip_prefix("| changed slots of the redo log ")?;
            row.split(" | ").nth(2)
        });
        let said = row.unwrap().split(", ").next().unwrap();
        let said: usize = said.replace(',', "").parse().unwrap();
        assert!(all <= said, "{all}, the page says {said}");
        drop(shares);
        assert_eq!(budget.take().entries(), ALL_ENTRIES / 2);
    }
}
