//! How many filters there may be, and how many bytes the slots of all of them
//! together may take.
//!
//! A filter that is made, or taken in, is promised its room before its command
//! is queued: of those that come at the same moment no more are let in
//! than fit. Nothing is asked while a command is planned: the same commands give
//! the same bytes whatever a server allows. So filters that are there may still
//! grow.

use super::error::EngineError;
use super::filters::decode;
use crate::store::{PageStore, StoreError};
use parking_lot::Mutex;
use std::sync::Arc;

/// Filters listed at once.
const FILTERS_AT_ONCE: usize = 1000;

/// What is used of the quota, if there is one.
pub(super) struct Quota {
    max_bytes: Option<u64>,
    max_filters: Option<u64>,
    used: Mutex<Used>,
}

/// Filters, and bytes of all of them; in both those that are promised.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Used {
    bytes: u64,
    filters: u64,
}

/// Room that a filter is promised. Given back when it is dropped.
pub(super) struct Reservation {
    quota: Arc<Quota>,
    promised: Used,
}

impl Drop for Reservation {
    fn drop(&mut self) {
        self.quota.used.lock().give_back(self.promised);
    }
}

impl Used {
    fn give_back(&mut self, promised: Used) {
        self.bytes = self.bytes.saturating_sub(promised.bytes);
        self.filters = self.filters.saturating_sub(promised.filters);
    }
}

impl Quota {
    /// Adds up what is used. Reads nothing where there is no quota.
    ///
    /// # Errors
    /// The descriptions can't be read.
    pub(super) fn new(
        max_bytes: Option<u64>,
        max_filters: Option<u64>,
        store: &PageStore,
    ) -> Result<Quota, StoreError> {
        let (mut bytes, mut count) = (0u64, 0u64);
        let mut after: Option<String> = None;
        while max_bytes.is_some() || max_filters.is_some() {
            let filters = store.list_filters("", after.as_deref(), FILTERS_AT_ONCE)?;
            for filter in &filters {
                bytes = bytes.saturating_add(decode(filter)?.slot_bytes());
                count += 1;
            }
            match filters.last() {
                Some(last) => after = Some(last.name.clone()),
                None => break,
            }
        }
        Ok(Quota {
            max_bytes,
            max_filters,
            used: Mutex::new(Used {
                bytes,
                filters: count,
            }),
        })
    }

    /// Whether one more filter may be made, of so many bytes.
    ///
    /// # Errors
    /// [`EngineError::TooManyFiltersInAll`], [`EngineError::OverQuota`].
    pub(super) fn check_new(&self, bytes: u64) -> Result<(), EngineError> {
        let needed = Used { bytes, filters: 1 };
        self.check(&self.used.lock(), needed)
    }

    /// Promises room for one more filter, of so many bytes.
    ///
    /// # Errors
    /// [`EngineError::TooManyFiltersInAll`], [`EngineError::OverQuota`].
    pub(super) fn take_new(
        self: &Arc<Self>,
        bytes: u64,
    ) -> Result<Option<Reservation>, EngineError> {
        self.take(Used { bytes, filters: 1 })
    }

    /// Promises a filter so many bytes more than the one has whose place it
    /// takes.
    ///
    /// # Errors
    /// [`EngineError::OverQuota`].
    pub(super) fn take_bytes(
        self: &Arc<Self>,
        bytes: u64,
    ) -> Result<Option<Reservation>, EngineError> {
        self.take(Used { bytes, filters: 0 })
    }

    fn take(self: &Arc<Self>, promised: Used) -> Result<Option<Reservation>, EngineError> {
        if !self.is_bounded() {
            return Ok(None);
        }
        let mut used = self.used.lock();
        self.check(&used, promised)?;
        used.bytes = used.bytes.saturating_add(promised.bytes);
        used.filters += promised.filters;
        Ok(Some(Reservation {
            quota: Arc::clone(self),
            promised,
        }))
    }

    fn check(&self, used: &Used, needed: Used) -> Result<(), EngineError> {
        if let Some(bound) = self.max_filters
            && needed.filters > 0
            && used.filters >= bound
        {
            return Err(EngineError::TooManyFiltersInAll { bound });
        }
        match self.max_bytes {
            Some(bound) if used.bytes.saturating_add(needed.bytes) > bound => {
                Err(EngineError::OverQuota {
                    needed: needed.bytes,
                    used: used.bytes,
                    bound,
                })
            }
            _ => Ok(()),
        }
    }

    fn is_bounded(&self) -> bool {
        self.max_bytes.is_some() || self.max_filters.is_some()
    }

    /// Notes that a filter takes so many bytes instead of so many; 0 is no
    /// filter. `reservation` is what it was promised.
    pub(super) fn note(&self, before: u64, after: u64, reservation: Option<Reservation>) {
        if !self.is_bounded() {
            return;
        }
        let mut reservation = reservation;
        let mut used = self.used.lock();
        // At once, so that it is never seen counted twice, or not at all.
        if let Some(reservation) = &mut reservation {
            used.give_back(std::mem::take(&mut reservation.promised));
        }
        used.bytes = used.bytes.saturating_add(after).saturating_sub(before);
        match (before, after) {
            (0, 1..) => used.filters += 1,
            (1.., 0) => used.filters = used.filters.saturating_sub(1),
            _ => {}
        }
        // It locks to give back what it has left: nothing.
        drop(used);
        drop(reservation);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::memory::MemoryStore;

    fn quota(max_bytes: Option<u64>, max_filters: Option<u64>) -> Arc<Quota> {
        let store = PageStore::open(Arc::new(MemoryStore::new())).unwrap();
        Arc::new(Quota::new(max_bytes, max_filters, &store).unwrap())
    }

    #[test]
    fn what_is_promised_counts_until_it_is_given_back_or_used() {
        let quota = quota(Some(1000), Some(2));
        let first = quota.take_new(600).unwrap();
        assert!(quota.take_new(500).is_err());
        let second = quota.take_new(400).unwrap();
        assert!(matches!(
            quota.take_new(0),
            Err(EngineError::TooManyFiltersInAll { bound: 2 })
        ));
        drop(second);
        quota.note(0, 600, first);
        assert_eq!(
            *quota.used.lock(),
            Used {
                bytes: 600,
                filters: 1
            }
        );
        // One that takes another's place is none more.
        let grown = quota.take_bytes(400).unwrap();
        assert!(quota.check_new(1).is_err());
        quota.note(600, 1000, grown);
        quota.note(1000, 0, None);
        assert_eq!(*quota.used.lock(), Used::default());
    }

    #[test]
    fn without_a_bound_nothing_is_promised() {
        let quota = quota(None, None);
        assert!(quota.take_new(u64::MAX).unwrap().is_none());
        quota.note(0, 5, None);
        assert_eq!(*quota.used.lock(), Used::default());
    }
}
