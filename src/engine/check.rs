//! Reads a data directory to its end, without serving it: every filter's
//! description, every note, every record of the redo log, every page image, and
//! the lists of what ends when and of what is to be reclaimed.

use super::filters::decode;
use super::pages::image;
use crate::page::{PageId, PageIndex};
use crate::store::{Due, PageStore, StoreError, StoredFilter, redo};
use std::fmt;

/// Filters listed, and pages read, at once.
const FILTERS_AT_ONCE: usize = 1000;
const PAGES_AT_ONCE: usize = 4096;

/// Entries of the list of what ends that are read at once.
const DUE_AT_ONCE: usize = 10_000;

/// What was found where everything makes sense.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Findings {
    /// Filters.
    pub filters: u64,
    /// Items in them.
    pub items: u64,
    /// Pages of which an image is stored.
    pub pages: u64,
    /// Records of the redo log.
    pub records: u64,
}

impl fmt::Display for Findings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} filters with {} items in {} stored pages, {} redo records to replay: all of it can be read",
            self.filters, self.items, self.pages, self.records
        )
    }
}

/// Reads everything that `store` keeps.
///
/// # Errors
/// The first thing that can't be read or makes no sense.
pub fn check(store: &PageStore) -> Result<Findings, StoreError> {
    let mut findings = Findings::default();
    let mut after: Option<String> = None;
    loop {
        let filters = store.list_filters("", after.as_deref(), FILTERS_AT_ONCE)?;
        for filter in &filters {
            check_filter(store, filter, &mut findings)?;
        }
        match filters.last() {
            Some(last) => after = Some(last.name.clone()),
            None => break,
        }
    }
    store.side_record_totals()?;
    check_due(store)?;
    store.garbage()?;
    store.replay(&mut |sequence, record| {
        findings.records += 1;
        redo::check(record).map_err(|error| error.in_record(sequence))
    })?;
    Ok(findings)
}

/// Reads the list of what ends when.
fn check_due(store: &PageStore) -> Result<(), StoreError> {
    let (mut from_ms, mut at_once) = (0, DUE_AT_ONCE);
    loop {
        let due = store.due(from_ms, u64::MAX, at_once)?;
        let last_ms = due.last().map(|last| match last {
            Due::Filter { at_ms, .. } | Due::SideRecord { at_ms, .. } => *at_ms,
        });
        match last_ms {
            _ if due.len() < at_once => return Ok(()),
            // More end in one moment than were read: they are read together.
            Some(last_ms) if last_ms == from_ms => at_once = at_once.saturating_mul(2),
            Some(last_ms) => (from_ms, at_once) = (last_ms, DUE_AT_ONCE),
            None => return Ok(()),
        }
    }
}

fn check_filter(
    store: &PageStore,
    filter: &StoredFilter,
    findings: &mut Findings,
) -> Result<(), StoreError> {
    let chain = decode(filter)?;
    findings.filters += 1;
    findings.items = findings.items.saturating_add(chain.items());
    for sub_filter in chain.sub_filters() {
        let mut pages = (0..sub_filter.layout.pages()).map(|page| PageId {
            filter: filter.id,
            ordinal: sub_filter.ordinal,
            page: PageIndex(page),
        });
        loop {
            let some: Vec<PageId> = pages.by_ref().take(PAGES_AT_ONCE).collect();
            if some.is_empty() {
                break;
            }
            let mut sound = Ok(());
            store.read_pages(&some, &mut |index, stored| {
                let (Some(&id), Some(bytes)) = (some.get(index), stored) else {
                    return;
                };
                findings.pages += 1;
                if sound.is_ok() {
                    sound = image::decode(bytes, sub_filter.layout.page_bytes(), id).map(|_| ());
                }
            })?;
            sound?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests;
