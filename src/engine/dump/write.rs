//! Makes a dump of a filter as it was at one moment.
//!
//! The store shows itself as of one moment between two commits: the filter's
//! description, the images that checkpoints wrote, and the redo log that says
//! what happened to the pages since. The log is applied to the images as
//! recovery does it, for as many pages at a time as fit into bounded memory.

use super::budget::MemoryShare;
use super::format::{Digest, DumpWriter, DumpedPage};
use super::page::LoggedPage;
use crate::chain::meta::Chain;
use crate::engine::filters::decode;
use crate::page::{FilterId, PageId, PageIndex};
use crate::store::redo::{self, RedoReader};
use crate::store::{Snapshot, StoreError, StoredFilter};
use std::collections::BTreeMap;
use std::ops::ControlFlow;

/// Bytes handed over at once.
const PIECE_BYTES: usize = 64 << 10;

/// Takes a dump. What takes a part may block, and ends the dump by breaking.
pub trait DumpSink {
    /// Whether it is still wanted. Asked page by page while the digest is
    /// found out, when there is nothing to take yet.
    fn is_wanted(&self) -> bool {
        true
    }

    /// Called again and again while the filter is read, where nothing is held
    /// that others wait for: the place to take a rest.
    fn throttle(&mut self) {}

    /// What is to come: its digest, and how many bytes.
    fn begin(&mut self, digest: Digest, bytes: u64) -> ControlFlow<()>;

    /// The next bytes.
    fn piece(&mut self, bytes: Vec<u8>) -> ControlFlow<()>;
}

/// Dumps a filter: once for its digest and length, once for its bytes.
///
/// # Errors
/// The store can't be read.
pub(in crate::engine) fn write(
    view: &Snapshot<'_>,
    filter: &StoredFilter,
    share: &MemoryShare,
    sink: &mut dyn DumpSink,
) -> Result<(), StoreError> {
    let chain = decode(filter)?;
    let measured = measure(view, filter.id, &chain, share, Some(&mut *sink))?;
    let Some((digest, bytes)) = measured else {
        return Ok(());
    };
    if sink.begin(digest, bytes).is_break() {
        return Ok(());
    }
    let mut writing = Writing {
        writer: DumpWriter::new(&chain.portable().encode()),
        sink,
    };
    let went_on = each_page(view, filter.id, &chain, share.entries(), &mut writing)?;
    if went_on.is_continue() {
        let (rest, ..) = writing.writer.finish();
        // A sink that is gone by now needs no more.
        let _ = writing.sink.piece(rest);
    }
    Ok(())
}

/// Digest and length of a filter's dump; `None` if the sink does not want that
/// any more.
///
/// # Errors
/// The store can't be read.
pub(in crate::engine) fn measure(
    view: &Snapshot<'_>,
    id: FilterId,
    chain: &Chain,
    share: &MemoryShare,
    sink: Option<&mut dyn DumpSink>,
) -> Result<Option<(Digest, u64)>, StoreError> {
    let mut measuring = Measuring {
        writer: DumpWriter::new(&chain.portable().encode()),
        sink,
    };
    let went_on = each_page(view, id, chain, share.entries(), &mut measuring)?;
    let (_, digest, bytes) = measuring.writer.finish();
    Ok(went_on.is_continue().then_some((digest, bytes)))
}

/// Is shown the pages of a filter, until it breaks.
trait Visitor {
    /// Called between any two things that are read.
    fn between(&mut self) -> ControlFlow<()>;

    /// The next page.
    fn page(&mut self, at: DumpedPage, image: &[u8]) -> ControlFlow<()>;
}

struct Measuring<'a> {
    writer: DumpWriter,
    sink: Option<&'a mut dyn DumpSink>,
}

impl Visitor for Measuring<'_> {
    fn between(&mut self) -> ControlFlow<()> {
        let Some(sink) = &mut self.sink else {
            return ControlFlow::Continue(());
        };
        sink.throttle();
        match sink.is_wanted() {
            true => ControlFlow::Continue(()),
            false => ControlFlow::Break(()),
        }
    }

    fn page(&mut self, at: DumpedPage, image: &[u8]) -> ControlFlow<()> {
        self.writer.page(at, image);
        self.writer.take();
        ControlFlow::Continue(())
    }
}

struct Writing<'a> {
    writer: DumpWriter,
    sink: &'a mut dyn DumpSink,
}

impl Visitor for Writing<'_> {
    fn between(&mut self) -> ControlFlow<()> {
        self.sink.throttle();
        ControlFlow::Continue(())
    }

    fn page(&mut self, at: DumpedPage, image: &[u8]) -> ControlFlow<()> {
        self.writer.page(at, image);
        match self.writer.waiting() < PIECE_BYTES {
            true => ControlFlow::Continue(()),
            false => self.sink.piece(self.writer.take()),
        }
    }
}

/// Shows every page that was ever written to, as it was at the moment of the
/// view, in ascending order. Holds about `max_entries` entries of the log at
/// once.
fn each_page(
    view: &Snapshot<'_>,
    id: FilterId,
    chain: &Chain,
    max_entries: usize,
    visitor: &mut dyn Visitor,
) -> Result<ControlFlow<()>, StoreError> {
    let mut from = DumpedPage { sub: 0, page: 0 };
    loop {
        let collected = Window::collect(view, id, chain, from, max_entries, visitor)?;
        let Some(window) = collected else {
            return Ok(ControlFlow::Break(()));
        };
        if window.each_page(view, id, chain, visitor)?.is_break() {
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
    from: DumpedPage,
    /// Up to this one; `None`: to the last page there is.
    end: Option<DumpedPage>,
    logged: BTreeMap<DumpedPage, LoggedPage>,
}

impl Window {
    /// Reads the log once, and keeps what it says about as many pages from
    /// `from` on as have so many entries. `None` if the visitor broke.
    fn collect(
        view: &Snapshot<'_>,
        id: FilterId,
        chain: &Chain,
        from: DumpedPage,
        max_entries: usize,
        visitor: &mut dyn Visitor,
    ) -> Result<Option<Window>, StoreError> {
        let mut window = Window {
            from,
            end: None,
            logged: BTreeMap::new(),
        };
        let mut entries = 0;
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
                let page = write.page();
                if page.filter != id {
                    continue;
                }
                // Sub-filters that were dropped since have no position.
                let Some(position) = chain.position_of(page.ordinal) else {
                    continue;
                };
                let at = DumpedPage {
                    sub: position as u32,
                    page: page.page.0,
                };
                if at < window.from || window.end.is_some_and(|end| at >= end) {
                    continue;
                }
                let layout = chain.sub_filters().get(position).map(|sub| sub.layout);
                let logged = window.logged.entry(at).or_default();
                let before = logged.entries();
                let fits = layout.is_some_and(|layout| logged.note(&write, &layout));
                if !fits {
                    return Err(StoreError::Corrupt {
                        what: format!("redo record {}", sequence.0),
                        reason: format!("{page} has no such slot"),
                    });
                }
                entries += logged.entries() - before;
                while entries > max_entries && window.logged.len() > 1 {
                    // What is behind has its turn in the next window.
                    let Some((last, dropped)) = window.logged.pop_last() else {
                        break;
                    };
                    entries -= dropped.entries();
                    window.end = Some(last);
                }
            }
            Ok(())
        })?;
        Ok(flow.is_continue().then_some(window))
    }

    fn each_page(
        &self,
        view: &Snapshot<'_>,
        id: FilterId,
        chain: &Chain,
        visitor: &mut dyn Visitor,
    ) -> Result<ControlFlow<()>, StoreError> {
        let subs = chain.sub_filters().iter().enumerate();
        for (position, sub) in subs.skip(self.from.sub as usize) {
            let position = position as u32;
            let first = match self.from {
                DumpedPage { sub, page } if sub == position => page,
                _ => 0,
            };
            let end = match self.end {
                Some(DumpedPage { sub, .. }) if sub < position => break,
                Some(DumpedPage { sub, page }) if sub == position => page,
                _ => sub.layout.pages(),
            };
            let at = |page| DumpedPage {
                sub: position,
                page,
            };
            let id_of = |page| PageId {
                filter: id,
                ordinal: sub.ordinal,
                page: PageIndex(page),
            };
            let mut logged = self.logged.range(at(first)..at(end)).peekable();
            let mut flow = ControlFlow::Continue(());
            view.pages(
                id_of(first),
                PageIndex(end),
                &mut |PageIndex(page), stored| {
                    flow = visitor.between();
                    // Pages that have no image yet.
                    while flow.is_continue()
                        && let Some((&before, entries)) = logged.next_if(|(it, _)| it.page < page)
                    {
                        let image = entries.applied(&[], &sub.layout, id_of(before.page))?;
                        flow = visitor.page(before, &image);
                    }
                    if flow.is_continue() {
                        flow = match logged.next_if(|(it, _)| it.page == page) {
                            None => visitor.page(at(page), stored),
                            Some((_, entries)) => visitor.page(
                                at(page),
                                &entries.applied(stored, &sub.layout, id_of(page))?,
                            ),
                        };
                    }
                    Ok(flow)
                },
            )?;
            while flow.is_continue()
                && let Some((&behind, entries)) = logged.next()
            {
                let image = entries.applied(&[], &sub.layout, id_of(behind.page))?;
                flow = visitor.page(behind, &image);
                if flow.is_continue() {
                    flow = visitor.between();
                }
            }
            if flow.is_break() {
                return Ok(flow);
            }
        }
        Ok(ControlFlow::Continue(()))
    }
}

#[cfg(test)]
mod tests;
