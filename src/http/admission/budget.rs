//! Bytes that may be held in memory at the same time.

use std::sync::Arc;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Bytes that one permit stands for.
const PERMIT_BYTES: usize = 1024;

/// So many bytes, of which what is held is reserved.
#[derive(Clone, Debug)]
pub(crate) struct MemoryBudget {
    free: Arc<Semaphore>,
    permits: usize,
}

impl MemoryBudget {
    pub(crate) fn of(bytes: usize) -> MemoryBudget {
        let permits = bytes.div_ceil(PERMIT_BYTES);
        MemoryBudget {
            free: Arc::new(Semaphore::new(permits)),
            permits,
        }
    }

    /// All of it.
    pub(crate) fn bytes(&self) -> usize {
        self.permits * PERMIT_BYTES
    }

    /// Reserves so many bytes; `None`: there are not so many left.
    pub(crate) fn try_reserve(&self, bytes: usize) -> Option<Reservation> {
        let permits = u32::try_from(bytes.div_ceil(PERMIT_BYTES)).ok()?;
        let taken = Arc::clone(&self.free).try_acquire_many_owned(permits);
        taken.ok().map(Reservation)
    }

    /// Reserves so many bytes once there are so many left; `None`: there never
    /// will be.
    pub(crate) async fn reserve(&self, bytes: usize) -> Option<Reservation> {
        let permits = u32::try_from(bytes.div_ceil(PERMIT_BYTES)).ok()?;
        let free = Arc::clone(&self.free);
        // It is never closed.
        free.acquire_many_owned(permits).await.ok().map(Reservation)
    }

    /// Has a reservation hold so many bytes; one that holds more stays. Never
    /// waits, since what waits for others to end still holds what it has.
    /// `None`: there are not so many left.
    pub(crate) fn try_extend(&self, held: &mut Option<Reservation>, bytes: usize) -> Option<()> {
        let missing = bytes.saturating_sub(held.as_ref().map_or(0, Reservation::bytes));
        if missing == 0 {
            return Some(());
        }
        let more = self.try_reserve(missing)?;
        match held {
            Some(held) => held.0.merge(more.0),
            None => *held = Some(more),
        }
        Some(())
    }

    #[cfg(test)]
    pub(crate) fn free_permits(&self) -> usize {
        self.free.available_permits()
    }
}

/// Bytes of a budget that are given back when this is dropped.
#[derive(Debug)]
pub(crate) struct Reservation(OwnedSemaphorePermit);

impl Reservation {
    pub(crate) fn bytes(&self) -> usize {
        self.0.num_permits() * PERMIT_BYTES
    }

    /// Gives back what is more than so many bytes.
    pub(crate) fn shrink_to(&mut self, bytes: usize) {
        let kept = bytes.div_ceil(PERMIT_BYTES);
        drop(self.0.split(self.0.num_permits().saturating_sub(kept)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_reserved_is_given_back() {
        let budget = MemoryBudget::of(10_000);
        assert_eq!(budget.bytes(), 10 << 10);
        let mut held = None;
        for bytes in [1, 1024, 500] {
            budget.try_extend(&mut held, bytes).unwrap();
            assert_eq!(budget.free_permits(), 9);
        }
        budget.try_extend(&mut held, 4097).unwrap();
        assert_eq!(budget.free_permits(), 5);
        assert!(budget.try_extend(&mut held, 11 << 10).is_none());
        assert!(budget.try_reserve(6 << 10).is_none());
        assert_eq!(budget.free_permits(), 5);
        held.as_mut().unwrap().shrink_to(2000);
        assert_eq!(budget.free_permits(), 8);
        drop(held);
        assert_eq!(budget.free_permits(), 10);
    }
}
