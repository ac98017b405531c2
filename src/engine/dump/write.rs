//! Makes a dump of a filter as it was at one moment, while commits go on.

use super::budget::MemoryShare;
use super::format::{Digest, DumpWriter, DumpedPage};
use crate::chain::meta::Chain;
use crate::engine::filters::decode;
use crate::engine::pages::PageGeometry;
use crate::engine::stored::{self, PageVisitor};
use crate::page::{FilterId, PageId, PageIndex};
use crate::store::{Snapshot, StoreError, StoredFilter};
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
    let measured = measure(view, filter.id, &chain, share, &mut || {
        sink.throttle();
        match sink.is_wanted() {
            true => ControlFlow::Continue(()),
            false => ControlFlow::Break(()),
        }
    })?;
    let Some((digest, bytes)) = measured else {
        return Ok(());
    };
    if sink.begin(digest, bytes).is_break() {
        return Ok(());
    }
    let mut dumping = Dumping {
        id: filter.id,
        chain: &chain,
        taker: Writing {
            writer: DumpWriter::new(&chain.portable().encode()),
            sink,
        },
    };
    if dumping.each_page(view, share.entries())?.is_continue() {
        let Writing { writer, sink } = dumping.taker;
        let (rest, ..) = writer.finish();
        // A sink that is gone by now needs no more.
        let _ = sink.piece(rest);
    }
    Ok(())
}

/// Digest and length of a filter's dump; `None` if the pace broke.
///
/// # Errors
/// The store can't be read.
pub(in crate::engine) fn measure(
    view: &Snapshot<'_>,
    id: FilterId,
    chain: &Chain,
    share: &MemoryShare,
    pace: &mut dyn FnMut() -> ControlFlow<()>,
) -> Result<Option<(Digest, u64)>, StoreError> {
    let mut dumping = Dumping {
        id,
        chain,
        taker: Measuring {
            writer: DumpWriter::new(&chain.portable().encode()),
            pace,
        },
    };
    let went_on = dumping.each_page(view, share.entries())?;
    let (_, digest, bytes) = dumping.taker.writer.finish();
    Ok(went_on.is_continue().then_some((digest, bytes)))
}

/// The pages of a filter, and where they go.
struct Dumping<'a, T> {
    id: FilterId,
    chain: &'a Chain,
    taker: T,
}

/// Takes the pages of a filter in the order of the dump.
trait Taker {
    fn between(&mut self) -> ControlFlow<()>;

    fn page(&mut self, at: DumpedPage, image: &[u8]) -> ControlFlow<()>;
}

impl<T: Taker> Dumping<'_, T> {
    /// Hands over every page that was ever written to, as it was at the moment
    /// of the view.
    fn each_page(
        &mut self,
        view: &Snapshot<'_>,
        max_entries: usize,
    ) -> Result<ControlFlow<()>, StoreError> {
        let page = |ordinal, page| PageId {
            filter: self.id,
            ordinal,
            page: PageIndex(page),
        };
        let subs = self.chain.sub_filters();
        let spans: Vec<_> = subs
            .map(|sub| page(sub.ordinal, 0)..page(sub.ordinal, sub.layout.pages()))
            .collect();
        stored::each_page(view, &spans, max_entries, self)
    }

    fn position_of(&self, id: PageId) -> Option<usize> {
        let is_ours = id.filter == self.id;
        is_ours.then(|| self.chain.position_of(id.ordinal))?
    }
}

impl<T: Taker> PageVisitor for Dumping<'_, T> {
    fn between(&mut self) -> ControlFlow<()> {
        self.taker.between()
    }

    fn geometry(&self, id: PageId) -> Option<PageGeometry> {
        let sub = self.chain.sub_filter(self.position_of(id)?)?;
        Some(PageGeometry::of(&sub.layout))
    }

    fn page(
        &mut self,
        id: PageId,
        image: Result<&[u8], StoreError>,
    ) -> Result<ControlFlow<()>, StoreError> {
        let image = image?;
        let Some(position) = self.position_of(id) else {
            return Ok(ControlFlow::Continue(()));
        };
        let at = DumpedPage {
            sub: position as u32,
            page: id.page.0,
        };
        Ok(self.taker.page(at, image))
    }
}

struct Measuring<'a> {
    writer: DumpWriter,
    pace: &'a mut dyn FnMut() -> ControlFlow<()>,
}

impl Taker for Measuring<'_> {
    fn between(&mut self) -> ControlFlow<()> {
        (self.pace)()
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

impl Taker for Writing<'_> {
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
