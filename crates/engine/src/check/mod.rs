//! Sees whether what a store keeps is as it should be: every filter's
//! description, every side record, every record of the redo log, the lists of
//! what ends when and of what is to be reclaimed, and every page, with the log
//! applied to it, against the description of its filter.
//!
//! | file | owns |
//! |---|---|
//! | `inspector` | what takes the faults, and has a check rest or end |
//! | `pages` | comparing pages with descriptions: also what the scrub of a running server does |

mod inspector;
pub(super) mod pages;

pub use inspector::{Fault, Inspector};

use crate::page::{FilterId, Ordinal, PageId};
use crate::store::kv::Column;
use crate::store::{Due, Garbage, PageStore, Result, StoreError, redo};
use pages::{FIRST_PAGE, SliceBounds, compare};
use std::fmt;
use std::ops::ControlFlow;

/// Names listed at once.
const NAMES_AT_ONCE: usize = 1000;

/// Entries of the list of what ends that are read at once.
const DUE_AT_ONCE: usize = 10_000;

/// What is compared as of one moment: much, because the log is read for each
/// slice.
const SLICE: SliceBounds = SliceBounds {
    bytes: 16 << 30,
    sub_filters: 100_000,
    log_entries: 1 << 19,
};

/// What was found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Findings {
    /// Filters.
    pub filters: u64,
    /// Items in them.
    pub items: u64,
    /// Pages of which an image is stored, or changes are logged.
    pub pages: u64,
    /// Records of the redo log.
    pub records: u64,
}

impl fmt::Display for Findings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} filters with {} items in {} pages, {} redo records to replay: all pages were read and hold what their filters say",
            self.filters, self.items, self.pages, self.records
        )
    }
}

/// Reads everything that `store` keeps, and ends with the first fault.
///
/// # Errors
/// The first thing that is not as it should be.
pub fn check(store: &PageStore) -> Result<Findings> {
    check_while(store, &mut |_| ControlFlow::Continue(()))
}

/// As [`check`], and tells `read` how many more bytes were read, which may rest
/// for a while, or end it: what was found by then is returned.
///
/// # Errors
/// The first thing that is not as it should be.
pub fn check_while(
    store: &PageStore,
    read: &mut dyn FnMut(u64) -> ControlFlow<()>,
) -> Result<Findings> {
    let mut first = First { found: None, read };
    let findings = inspect(store, &mut first);
    first.found.map_or(Ok(findings), Err)
}

/// Takes the first fault.
struct First<'a> {
    found: Option<StoreError>,
    read: &'a mut dyn FnMut(u64) -> ControlFlow<()>,
}

impl Inspector for First<'_> {
    fn read(&mut self, bytes: u64) -> ControlFlow<()> {
        match self.found {
            None => (self.read)(bytes),
            Some(_) => ControlFlow::Break(()),
        }
    }

    fn fault(&mut self, fault: Fault) {
        self.found.get_or_insert(fault.error);
    }
}

/// Removes the pages that nothing can reach; nobody else may change the store
/// meanwhile. Returns of how many sub-filters there were some.
///
/// # Errors
/// Some of them may be removed.
pub fn remove_unreachable(store: &PageStore) -> Result<usize> {
    let mut unreachable = Unreachable(Vec::new());
    inspect(store, &mut unreachable);
    for pages in &unreachable.0 {
        store.reclaim(*pages)?;
    }
    store.sync()?;
    Ok(unreachable.0.len())
}

struct Unreachable(Vec<Garbage>);

impl Inspector for Unreachable {
    fn read(&mut self, _: u64) -> ControlFlow<()> {
        ControlFlow::Continue(())
    }

    fn fault(&mut self, fault: Fault) {
        self.0.extend(fault.unreachable);
    }
}

/// A part of a check.
type Part = fn(&PageStore, &mut dyn Inspector) -> Result;

/// Reads everything that `store` keeps; nobody else may change it meanwhile.
pub fn inspect(store: &PageStore, inspector: &mut dyn Inspector) -> Findings {
    let mut findings = Findings::default();
    let parts: [Part; 4] = [
        |store, _| store.side_record_totals().map(|_| ()),
        check_due,
        |store, _| store.garbage().map(|_| ()),
        check_names,
    ];
    for part in parts {
        let outcome = part(store, inspector);
        fault(inspector, outcome);
        if inspector.read(0).is_break() {
            return findings;
        }
    }
    let read = store.replay(&mut |sequence, record| {
        findings.records += 1;
        redo::check(record).map_err(|error| error.in_record(sequence))
    });
    // Without all of the log nobody knows what is in the pages.
    let outcome = read.and_then(|()| {
        let (view, mut from) = (store.snapshot(), Some(FIRST_PAGE));
        while let Some(first) = from {
            let compared = compare(&view, first, SLICE, inspector)?;
            findings.filters += compared.filters;
            findings.items = findings.items.saturating_add(compared.items);
            findings.pages += compared.pages;
            from = compared.next;
        }
        Ok(())
    });
    fault(inspector, outcome);
    findings
}

/// Reads every block that `store` keeps, also what is deleted and whose room was not given
/// back: where that can't be read, the store ends once it is given back. `read` is as
/// that of [`check_while`].
///
/// # Errors
/// The first block that can't be read.
pub fn read_all(store: &PageStore, read: &mut dyn FnMut(u64) -> ControlFlow<()>) -> Result {
    let mut columns = Column::ALL.into_iter();
    columns.try_for_each(|column| store.read_through(column, read))
}

/// Sees whether the pages of one filter, whose slots have so many bytes, hold what it says.
///
/// # Errors
/// Unreadable bytes.
pub fn inspect_filter(
    store: &PageStore,
    id: FilterId,
    bytes: u64,
    inspector: &mut dyn Inspector,
) -> Result {
    let bounds = SliceBounds { bytes, ..SLICE };
    let first = PageId::new(id, Ordinal(0), 0);
    compare(&store.snapshot(), first, bounds, inspector).map(|_| ())
}

fn fault(inspector: &mut dyn Inspector, outcome: Result) {
    if let Err(error) = outcome {
        inspector.fault(Fault::new(None, error));
    }
}

/// Sees that each name leads to a filter that has it.
fn check_names(store: &PageStore, inspector: &mut dyn Inspector) -> Result {
    let view = store.snapshot();
    let mut after: Option<String> = None;
    loop {
        let names = view.names("", after.as_deref(), NAMES_AT_ONCE)?;
        let Some((last, _)) = names.last() else {
            return Ok(());
        };
        after = Some(last.clone());
        for (name, id) in names {
            let found = id.and_then(|id| view.named(&name, id));
            if inspector.read(0).is_break() {
                return Ok(());
            }
            if let Err(error) = found {
                inspector.fault(Fault::new(Some(name), error));
            }
        }
    }
}

/// Reads the list of what ends when.
fn check_due(store: &PageStore, inspector: &mut dyn Inspector) -> Result {
    let (mut from_ms, mut at_once) = (0, DUE_AT_ONCE);
    loop {
        let due = store.due_entries(from_ms, u64::MAX, at_once)?;
        let sound = due.iter().flatten();
        let last_ms = sound.clone().last().map(|last| match last {
            Due::Filter { at_ms, .. } | Due::SideRecord { at_ms, .. } => *at_ms,
        });
        let is_last = sound.count() < at_once;
        match last_ms {
            // More end in one moment than were read: they are read together.
            Some(last_ms) if !is_last && last_ms == from_ms => {
                at_once = at_once.saturating_mul(2);
                continue;
            }
            Some(last_ms) if !is_last => (from_ms, at_once) = (last_ms, DUE_AT_ONCE),
            _ => {}
        }
        for damaged in due {
            fault(inspector, damaged.map(|_| ()));
        }
        if is_last {
            return Ok(());
        }
    }
}

#[cfg(test)]
mod tests;
