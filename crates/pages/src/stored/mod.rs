//! Pages as the store has them at one moment between two commits: the images
//! that checkpoints wrote, with the redo log applied to them as recovery does
//! it, for as many pages at a time as fit into bounded memory.
//!
//! For those who read all pages of filters while commits go on: dumps, and
//! whoever sees whether everything is as it should be. The cache is left alone.
//!
//! | file | owns |
//! |---|---|
//! | `page` | what the log did to one page, and what is in one |

mod page;

use crate::page::{PageId, PageIndex, Sequence};
use crate::resident::PageGeometry;
use crate::store::redo::{self, RedoError, RedoReader, RedoWrite};
use crate::store::{Snapshot, StoreError};
use page::PageDelta;
pub use page::contents;
use std::collections::BTreeMap;
use std::iter::Peekable;
use std::ops::{ControlFlow, Range};

/// Is shown pages in ascending order, until it breaks.
pub trait PageVisitor {
    /// Called between any two things that are read.
    fn between(&mut self) -> ControlFlow<()>;

    /// The geometry of a page's sub-filter. `None`: no filter that is wanted
    /// has it, and what the log says of it means nothing.
    fn geometry(&self, id: PageId) -> Option<PageGeometry>;

    /// The next page, or what is wrong with its image.
    fn page(
        &mut self,
        id: PageId,
        image: Result<&[u8], StoreError>,
    ) -> Result<ControlFlow<()>, StoreError>;

    /// Some pages of a range can't be read, nobody knows which.
    ///
    /// # Errors
    /// Ends the visit.
    fn unreadable(
        &mut self,
        view: &Snapshot<'_>,
        pages: Range<PageId>,
        error: StoreError,
    ) -> Result<ControlFlow<()>, StoreError> {
        let _ = (view, pages);
        Err(error)
    }
}

/// Shows every page of the spans that was ever written to, as it was at the
/// moment of the view. The spans ascend. Holds about `max_entries` entries of
/// the log at once.
///
/// # Errors
/// The log makes no sense, what the visitor said, or the store can't be read.
pub fn each_page(
    view: &Snapshot<'_>,
    spans: &[Range<PageId>],
    max_entries: usize,
    visitor: &mut dyn PageVisitor,
) -> Result<ControlFlow<()>, StoreError> {
    let Some(mut from) = spans.first().map(|span| span.start) else {
        return Ok(ControlFlow::Continue(()));
    };
    loop {
        let Some(window) = Window::collect(view, spans, from, max_entries, visitor)? else {
            return Ok(ControlFlow::Break(()));
        };
        if window.each_page(view, spans, visitor)?.is_break() {
            return Ok(ControlFlow::Break(()));
        }
        match window.end {
            Some(end) => from = end,
            None => return Ok(ControlFlow::Continue(())),
        }
    }
}

/// What the log says about some pages.
struct Window {
    /// The first page.
    from: PageId,
    /// Up to this one; `None`: to the last page there is.
    end: Option<PageId>,
    logged: BTreeMap<PageId, PageDelta>,
    entries: usize,
}

impl Window {
    /// Reads the log once, and keeps what it says about as many pages from
    /// `from` on as have so many entries. `None` if the visitor broke.
    fn collect(
        view: &Snapshot<'_>,
        spans: &[Range<PageId>],
        from: PageId,
        max_entries: usize,
        visitor: &mut dyn PageVisitor,
    ) -> Result<Option<Window>, StoreError> {
        let mut window = Window {
            from,
            end: None,
            logged: BTreeMap::new(),
            entries: 0,
        };
        let mut flow = ControlFlow::Continue(());
        view.replay(&mut |sequence, record| {
            if flow.is_continue() {
                flow = visitor.between();
            }
            if flow.is_break() {
                return Ok(());
            }
            redo::check(record).map_err(|error| error.in_record(sequence))?;
            for write in RedoReader::new(record) {
                let write = write.map_err(|error| error.in_record(sequence))?;
                // Filters and sub-filters that are gone have none.
                if let Some(geometry) = visitor.geometry(write.page()) {
                    window.add(spans, sequence, &write, &geometry, max_entries)?;
                }
            }
            Ok(())
        })?;
        Ok(flow.is_continue().then_some(window))
    }

    fn add(
        &mut self,
        spans: &[Range<PageId>],
        sequence: Sequence,
        write: &RedoWrite<'_>,
        geometry: &PageGeometry,
        max_entries: usize,
    ) -> Result<(), StoreError> {
        let page = write.page();
        if !geometry.fits(write) {
            return Err(RedoError::NoSuchSlot(page).in_record(sequence));
        }
        let is_behind = self.end.is_some_and(|end| page >= end);
        if page < self.from || is_behind || !is_within(page, spans) {
            return Ok(());
        }
        let logged = self.logged.entry(page).or_default();
        let before = logged.entries();
        logged
            .apply(write)
            .map_err(|error| error.in_record(sequence))?;
        self.entries = self.entries - before + logged.entries();
        while self.entries > max_entries && self.logged.len() > 1 {
            // What is behind has its turn in the next window.
            let Some((last, dropped)) = self.logged.pop_last() else {
                break;
            };
            self.entries -= dropped.entries();
            self.end = Some(last);
        }
        Ok(())
    }

    fn each_page(
        &self,
        view: &Snapshot<'_>,
        spans: &[Range<PageId>],
        visitor: &mut dyn PageVisitor,
    ) -> Result<ControlFlow<()>, StoreError> {
        for span in spans {
            let start = span.start.max(self.from);
            let end = self.end.map_or(span.end, |end| span.end.min(end));
            if start < end && self.each_of(view, start..end, visitor)?.is_break() {
                return Ok(ControlFlow::Break(()));
            }
        }
        Ok(ControlFlow::Continue(()))
    }

    fn each_of(
        &self,
        view: &Snapshot<'_>,
        pages: Range<PageId>,
        visitor: &mut dyn PageVisitor,
    ) -> Result<ControlFlow<()>, StoreError> {
        let mut logged = self.logged.range(pages.clone()).peekable();
        let (mut flow, mut next) = (ControlFlow::Continue(()), pages.start);
        let mut failed = None;
        let read = view.pages(&pages, &mut |id, stored| {
            next = PageId {
                page: PageIndex(id.page.0.saturating_add(1)),
                ..id
            };
            let shown = show_up_to(id, stored, &mut logged, visitor);
            flow = shown.unwrap_or_else(|error| {
                failed = Some(error);
                ControlFlow::Break(())
            });
            Ok(flow)
        });
        if let Some(error) = failed {
            return Err(error);
        }
        if let Err(error) = read {
            return visitor.unreadable(view, next..pages.end, error);
        }
        while flow.is_continue()
            && let Some((&behind, entries)) = logged.next()
        {
            flow = show(behind, entries, &[], visitor)?;
            if flow.is_continue() {
                flow = visitor.between();
            }
        }
        Ok(flow)
    }
}

/// Shows a page with what the log says of it, and before it those that have no
/// image yet.
fn show_up_to<'a>(
    id: PageId,
    stored: Result<&[u8], StoreError>,
    logged: &mut Peekable<impl Iterator<Item = (&'a PageId, &'a PageDelta)>>,
    visitor: &mut dyn PageVisitor,
) -> Result<ControlFlow<()>, StoreError> {
    let mut flow = visitor.between();
    while flow.is_continue()
        && let Some((&before, entries)) = logged.next_if(|&(&it, _)| it < id)
    {
        flow = show(before, entries, &[], visitor)?;
    }
    if flow.is_break() {
        return Ok(flow);
    }
    let entries = logged.next_if(|&(&it, _)| it == id);
    match (entries, stored) {
        (Some((_, entries)), Ok(stored)) => show(id, entries, stored, visitor),
        // Nobody reads an image any more that waits to be removed.
        (Some((_, entries)), Err(_)) if entries.is_dropped() => Ok(flow),
        (_, stored) => visitor.page(id, stored),
    }
}

fn is_within(page: PageId, spans: &[Range<PageId>]) -> bool {
    let next = spans.partition_point(|span| span.end <= page);
    spans.get(next).is_some_and(|span| span.start <= page)
}

/// Shows a page that the log says something about.
fn show(
    id: PageId,
    entries: &PageDelta,
    stored: &[u8],
    visitor: &mut dyn PageVisitor,
) -> Result<ControlFlow<()>, StoreError> {
    let geometry = visitor.geometry(id).filter(|_| !entries.is_dropped());
    let Some(geometry) = geometry else {
        return Ok(ControlFlow::Continue(()));
    };
    match entries.applied(stored, &geometry, id) {
        Ok(image) => visitor.page(id, Ok(&image)),
        Err(error) => visitor.page(id, Err(error)),
    }
}

#[cfg(test)]
mod tests;
