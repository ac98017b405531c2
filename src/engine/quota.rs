//! How many bytes the slots of all filters together may take.
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
    bound: Option<u64>,
    used: AtomicU64,
}

impl Quota {
    /// Adds up what is used. Reads nothing where there is no quota.
    ///
    /// # Errors
    /// The descriptions can't be read.
    pub(super) fn new(bound: Option<u64>, store: &dyn PageStore) -> Result<Quota, StoreError> {
        let mut used = 0u64;
        let mut after: Option<String> = None;
        while bound.is_some() {
            let filters = store.list_filters("", after.as_deref(), FILTERS_AT_ONCE)?;
            for filter in &filters {
                used = used.saturating_add(decode(filter)?.slot_bytes());
            }
            match filters.last() {
                Some(last) => after = Some(last.name.clone()),
                None => break,
            }
        }
        Ok(Quota {
            bound,
            used: AtomicU64::new(used),
        })
    }

    /// Whether a filter of so many bytes may be made.
    ///
    /// # Errors
    /// [`EngineError::OverQuota`].
    pub(super) fn check(&self, needed: u64) -> Result<(), EngineError> {
        let used = self.used.load(Ordering::Relaxed);
        match self.bound {
            Some(bound) if used.saturating_add(needed) > bound => Err(EngineError::OverQuota {
                needed,
                used,
                bound,
            }),
            _ => Ok(()),
        }
    }

    /// Notes that a filter takes so many bytes instead of so many.
    pub(super) fn note(&self, before: u64, after: u64) {
        if self.bound.is_some() {
            self.used.fetch_add(after, Ordering::Relaxed);
            self.used.fetch_sub(before, Ordering::Relaxed);
        }
    }
}
