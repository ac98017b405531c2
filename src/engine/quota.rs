//! How many filters there may be, and how many bytes the slots of all of them
//! together may take.
//!
//! Checked before a filter is created or taken in, never while a command is
//! planned: the same commands give the same bytes whatever a server allows. So
//! filters that are there may still grow, and creations that run at the same
//! moment may exceed the quota by what they add.

use super::answer::EngineError;
use super::filters::decode;
use crate::store::{PageStore, StoreError};
use std::sync::atomic::{AtomicU64, Ordering};

/// Filters listed at once.
const FILTERS_AT_ONCE: usize = 1000;

/// What is used of the quota, if there is one.
pub(super) struct Quota {
    max_bytes: Option<u64>,
    max_filters: Option<u64>,
    bytes: AtomicU64,
    filters: AtomicU64,
}

impl Quota {
    /// Adds up what is used. Reads nothing where there is no quota.
    ///
    /// # Errors
    /// The descriptions can't be read.
    pub(super) fn new(
        max_bytes: Option<u64>,
        max_filters: Option<u64>,
        store: &dyn PageStore,
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
            bytes: AtomicU64::new(bytes),
            filters: AtomicU64::new(count),
        })
    }

    /// Whether one more filter may be made, of so many bytes.
    ///
    /// # Errors
    /// [`EngineError::TooManyFiltersInAll`], or as [`check_bytes`](Self::check_bytes).
    pub(super) fn check_new(&self, needed: u64) -> Result<(), EngineError> {
        match self.max_filters {
            Some(bound) if self.filters.load(Ordering::Relaxed) >= bound => {
                Err(EngineError::TooManyFiltersInAll { bound })
            }
            _ => self.check_bytes(needed),
        }
    }

    /// Whether a filter may take so many bytes more than the one whose place it
    /// takes.
    ///
    /// # Errors
    /// [`EngineError::OverQuota`].
    pub(super) fn check_bytes(&self, needed: u64) -> Result<(), EngineError> {
        let used = self.bytes.load(Ordering::Relaxed);
        match self.max_bytes {
            Some(bound) if used.saturating_add(needed) > bound => Err(EngineError::OverQuota {
                needed,
                used,
                bound,
            }),
            _ => Ok(()),
        }
    }

    /// Notes that a filter takes so many bytes instead of so many; 0 is no
    /// filter.
    pub(super) fn note(&self, before: u64, after: u64) {
        if self.max_bytes.is_none() && self.max_filters.is_none() {
            return;
        }
        self.bytes.fetch_add(after, Ordering::Relaxed);
        self.bytes.fetch_sub(before, Ordering::Relaxed);
        match (before, after) {
            (0, 1..) => {
                self.filters.fetch_add(1, Ordering::Relaxed);
            }
            (1.., 0) => {
                self.filters.fetch_sub(1, Ordering::Relaxed);
            }
            _ => {}
        }
    }
}
