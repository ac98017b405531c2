//! How many filters there may be, and how many bytes the slots of all of them
//! together may take.
//!
//! A filter that is made, or taken in, is promised its room before its command
//! is queued: of those that come at the same moment no more are let in
//! than fit. Nothing is asked while a command is planned: the same commands give
//! the same bytes whatever a server allows. So filters that are there may still
//! grow.

use super::error::{EngineError, Result};
use super::filters::decode;
use crate::chain::params::Defaults;
use crate::metrics::Metrics;
use crate::share::{Claimant, Kind, Permit, Resource};
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
    of_keys: Option<KeyQuotas>,
}

/// What each API key may have, in filters that it created. Those that were made
/// without a key are nobody's.
struct KeyQuotas {
    filters: KeyQuota,
    bytes: KeyQuota,
}

struct KeyQuota {
    what: &'static str,
    flag: &'static str,
    most: Option<u64>,
    held: Resource<Arc<str>>,
}

impl KeyQuota {
    fn take(&self, key: &Arc<str>, amount: u64) -> Result<Permit<Arc<str>>> {
        let mut by = Claimant::of(Arc::clone(key), false);
        by.terms.most = self.most;
        let taken = self.held.try_take(Some(&by), amount);
        taken.map_err(|_| self.refused(self.held.held_by(key)))
    }

    fn refused(&self, held: u64) -> EngineError {
        EngineError::OverKeyQuota {
            what: self.what,
            flag: self.flag,
            held,
            most: self.most.unwrap_or(u64::MAX),
        }
    }
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
    _of_key: Option<[Permit<Arc<str>>; 2]>,
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
        allowed: &Defaults,
        metrics: &Metrics,
        store: &PageStore,
    ) -> Result<Quota, StoreError> {
        let of_each = |name, what, flag, most| KeyQuota {
            what,
            flag,
            most,
            held: Resource::new(name, Kind::Kept, u64::MAX, 100, metrics),
        };
        let (filters, bytes) = (allowed.max_filters_per_key, allowed.max_bytes_per_key);
        let of_keys = (filters.is_some() || bytes.is_some()).then(|| KeyQuotas {
            filters: of_each("filters", "filters", "--max-filters-per-key", filters),
            bytes: of_each(
                "filter_bytes",
                "bytes of filters",
                "--max-bytes-per-key",
                bytes,
            ),
        });
        let quota = Quota {
            max_bytes: allowed.max_total_bytes,
            max_filters: allowed.max_filters,
            used: Mutex::default(),
            of_keys,
        };
        let mut after: Option<String> = None;
        while quota.is_bounded() {
            let filters = store.list_filters("", after.as_deref(), FILTERS_AT_ONCE)?;
            for filter in &filters {
                let owner = filter.owner.as_deref().map(Arc::from);
                let bytes = decode(filter.id, &filter.meta)?.slot_bytes();
                quota.adjust(owner.as_ref(), 0, bytes, None);
            }
            match filters.last() {
                Some(last) => after = Some(last.name.clone()),
                None => break,
            }
        }
        Ok(quota)
    }

    /// Whether a filter may have more items: not while its key is over its bytes,
    /// by filters that grew.
    ///
    /// # Errors
    /// [`EngineError::OverKeyQuota`].
    pub(super) fn check_growth(&self, owner: Option<&Arc<str>>) -> Result {
        let (Some(keys), Some(owner)) = (&self.of_keys, owner) else {
            return Ok(());
        };
        let held = keys.bytes.held.held_by(owner);
        match keys.bytes.most.is_some_and(|most| held > most) {
            true => Err(keys.bytes.refused(held)),
            false => Ok(()),
        }
    }

    /// Promises room for so many more bytes, and for so many more filters: 0 where one
    /// takes the place of another.
    ///
    /// # Errors
    /// [`EngineError::TooManyFiltersInAll`], [`EngineError::OverQuota`],
    /// [`EngineError::OverKeyQuota`].
    pub(super) fn take(
        self: &Arc<Self>,
        key: Option<&Arc<str>>,
        bytes: u64,
        filters: u64,
    ) -> Result<Option<Reservation>> {
        if !self.is_bounded() {
            return Ok(None);
        }
        let of_key = match (&self.of_keys, key) {
            (Some(keys), Some(key)) => Some([
                keys.filters.take(key, filters)?,
                keys.bytes.take(key, bytes)?,
            ]),
            _ => None,
        };
        let mut used = self.used.lock();
        if let Some(bound) = self.max_filters
            && filters > 0
            && used.filters >= bound
        {
            return Err(EngineError::TooManyFiltersInAll { bound });
        }
        let in_all = used.bytes.saturating_add(bytes);
        if let Some(bound) = self.max_bytes
            && in_all > bound
        {
            return Err(EngineError::OverQuota {
                needed: bytes,
                used: used.bytes,
                bound,
            });
        }
        used.bytes = in_all;
        used.filters += filters;
        Ok(Some(Reservation {
            quota: Arc::clone(self),
            promised: Used { bytes, filters },
            _of_key: of_key,
        }))
    }

    fn is_bounded(&self) -> bool {
        self.max_bytes.is_some() || self.max_filters.is_some() || self.of_keys.is_some()
    }

    /// Has a filter of this key take so many bytes instead of so many; 0
    /// is no filter. `reservation` is what it was promised.
    pub(super) fn adjust(
        &self,
        owner: Option<&Arc<str>>,
        before: u64,
        after: u64,
        mut reservation: Option<Reservation>,
    ) {
        if !self.is_bounded() {
            return;
        }
        if let (Some(keys), owner @ Some(_)) = (&self.of_keys, owner) {
            let one = |bytes: u64| u64::from(bytes > 0);
            keys.bytes.held.adjust(owner, before, after);
            keys.filters.held.adjust(owner, one(before), one(after));
        }
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
    use crate::memory::MemoryStore;

    fn quota(max_bytes: Option<u64>, max_filters: Option<u64>) -> Arc<Quota> {
        let store = PageStore::open(Arc::new(MemoryStore::new())).unwrap();
        let allowed = Defaults {
            max_total_bytes: max_bytes,
            max_filters,
            ..Defaults::default()
        };
        Arc::new(Quota::new(&allowed, &Metrics::new().unwrap(), &store).unwrap())
    }

    #[test]
    fn what_is_promised_counts_until_it_is_given_back_or_used() {
        let quota = quota(Some(1000), Some(2));
        let first = quota.take(None, 600, 1).unwrap();
        assert!(quota.take(None, 500, 1).is_err());
        let second = quota.take(None, 400, 1).unwrap();
        assert!(matches!(
            quota.take(None, 0, 1),
            Err(EngineError::TooManyFiltersInAll { bound: 2 })
        ));
        drop(second);
        quota.adjust(None, 0, 600, first);
        assert_eq!(
            *quota.used.lock(),
            Used {
                bytes: 600,
                filters: 1
            }
        );
        // One that takes another's place is none more.
        let grown = quota.take(None, 400, 0).unwrap();
        assert!(quota.take(None, 1, 1).is_err());
        quota.adjust(None, 600, 1000, grown);
        quota.adjust(None, 1000, 0, None);
        assert_eq!(*quota.used.lock(), Used::default());
    }

    #[test]
    fn without_a_bound_nothing_is_promised() {
        let quota = quota(None, None);
        assert!(quota.take(None, u64::MAX, 1).unwrap().is_none());
        quota.adjust(None, 0, 5, None);
        assert_eq!(*quota.used.lock(), Used::default());
    }
}
