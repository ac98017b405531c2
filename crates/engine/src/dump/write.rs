//! Makes a dump of a filter as it was at one moment, while commits go on.

use super::read::each_page;
use crate::chain::address::PageAddress;
use crate::chain::meta::Chain;
use crate::dump_memory::MemoryShare;
use crate::page::{FilterId, PageId};
use crate::pages::image::PageImage;
use crate::store::{Snapshot, StoreError};
use cuckood_filter::file::{FileError, FileWriter, Header};
use std::cell::RefCell;
use std::ops::{ControlFlow, Range};

/// Bytes handed over at once.
const PIECE_BYTES: usize = 64 << 10;

/// What is wanted of a dump.
pub struct Wanted {
    /// The header of the filter, with its key or without.
    pub header: Header,
    /// Which bytes of the file.
    pub bytes: Range<u64>,
}

impl Wanted {
    /// All of it.
    pub fn all(header: Header) -> Wanted {
        Wanted {
            bytes: 0..header.parts.bytes,
            header,
        }
    }
}

/// Takes a dump. What takes a part may block, and ends the dump by breaking.
pub trait DumpSink {
    /// Called again and again while the filter is read, where nothing is held
    /// that others wait for: the place to take a rest.
    fn throttle(&mut self) {}

    /// What there is; answers what is wanted of it.
    fn begin(&mut self, header: Header) -> ControlFlow<(), Wanted> {
        ControlFlow::Continue(Wanted::all(header))
    }

    /// The next bytes.
    fn piece(&mut self, bytes: Vec<u8>) -> ControlFlow<()>;
}

/// Keeps all of it.
impl DumpSink for Vec<u8> {
    fn piece(&mut self, bytes: Vec<u8>) -> ControlFlow<()> {
        self.extend(bytes);
        ControlFlow::Continue(())
    }
}

/// Dumps a filter.
///
/// # Errors
/// The store can't be read.
pub(crate) fn write(
    view: &Snapshot<'_>,
    id: FilterId,
    chain: &Chain,
    share: &MemoryShare,
    sink: &mut dyn DumpSink,
) -> Result<(), StoreError> {
    let what = format!("filter {}", id.0);
    let header = Header::of(chain)
        .ok_or_else(|| StoreError::corrupt(&what, "it is too large for a file"))?;
    let ControlFlow::Continue(Wanted { header, bytes }) = sink.begin(header) else {
        return Ok(());
    };
    let parts = header.parts.clone();
    let is_part = parts.needs_no_sums(bytes.end);
    let read = match is_part {
        true => bytes.clone(),
        false => 0..parts.bytes,
    };
    let out = RefCell::new(Output {
        sink,
        at: read.start,
        wanted: bytes,
        piece: Vec::new(),
    });
    let put = |bytes: &[u8]| out.borrow_mut().put(bytes);
    let spans: Vec<_> = chain
        .sub_filters()
        .zip(&parts.subs)
        .map(|(sub, &(layout, begin))| {
            let page = |page: u64| {
                let page = u32::try_from(page).unwrap_or(u32::MAX);
                PageId::new(id, sub.ordinal, page.min(layout.pages()))
            };
            let bytes = u64::from(layout.page_bytes());
            let first = read.start.saturating_sub(begin) / bytes;
            page(first)..page(read.end.saturating_sub(begin).div_ceil(bytes))
        })
        .collect();
    let each = |pass: &mut Pass<'_>| {
        let mut throttle = || -> Put {
            out.borrow_mut().sink.throttle();
            Ok(())
        };
        let entries = share.entries();
        each_page(view, (id, chain), &spans, entries, &mut throttle, pass)
    };
    let written = (|| {
        if is_part {
            let mut writer = FileWriter::part(header, read.start, put)?;
            each(&mut |at, page| writer.page(at, page.slots, None))?;
            return writer.end_part();
        }
        let mut writer = FileWriter::new(header, put)?;
        each(&mut |at, page| writer.page(at, page.slots, page.counters.as_deref()))?;
        writer.end_pages()?;
        if parts.counters > 0 {
            each(&mut |at, page| match &page.counters {
                Some(counters) => writer.counters(at, counters),
                None => Ok(()),
            })?;
        }
        writer.finish().map(|_| ())
    })();
    match written {
        Ok(()) | Err(Ended::Enough) => Ok(()),
        Err(Ended::Failed(error)) => Err(error),
        Err(Ended::Contradicts(error)) => Err(StoreError::corrupt(what, error)),
    }
}

/// Why nothing more is written.
#[derive(Debug, thiserror::Error)]
enum Ended {
    #[error("all that was wanted is written, or nobody takes it any more")]
    Enough,
    #[error(transparent)]
    Failed(#[from] StoreError),
    /// The filter is not as it says.
    #[error(transparent)]
    Contradicts(#[from] FileError),
}

type Put = Result<(), Ended>;

/// Takes a page: its slots, and what is counted beside them.
type Pass<'a> = dyn FnMut(PageAddress, &PageImage<'_>) -> Put + 'a;

/// Where the bytes of a file go that are wanted.
struct Output<'a> {
    sink: &'a mut dyn DumpSink,
    at: u64,
    wanted: Range<u64>,
    piece: Vec<u8>,
}

impl Output<'_> {
    fn put(&mut self, bytes: &[u8]) -> Put {
        let within = |at: u64| {
            let at = usize::try_from(at.saturating_sub(self.at));
            at.unwrap_or(usize::MAX).min(bytes.len())
        };
        let wanted = within(self.wanted.start)..within(self.wanted.end);
        self.piece
            .extend_from_slice(bytes.get(wanted).unwrap_or_default());
        self.at += bytes.len() as u64;
        let is_all = self.at >= self.wanted.end;
        if is_all || self.piece.len() >= PIECE_BYTES {
            let piece = std::mem::take(&mut self.piece);
            let taken = piece.is_empty() || self.sink.piece(piece).is_continue();
            if is_all || !taken {
                return Err(Ended::Enough);
            }
        }
        Ok(())
    }
}
