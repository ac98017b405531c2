//! The slots of a filter, handed out part by part while it must not change: as
//! RedisBloom's `CF.SCANDUMP` does it.
//!
//! They are read from the pages as they are published. Copies that are counted
//! beside them are put into free ones; the filter itself stays as it is.

use crate::chain::address::PageAddress;
use crate::chain::pages::PageWords;
use crate::chain::params::LayoutKind;
use crate::cold::{ColdImages, ROUNDS};
use crate::cuckoo::layout::Layout;
use crate::dump::placed::{self, NotPlaced, Placed};
use crate::dump::scandump::Header;
use crate::error::{EngineError, Overload, Result};
use crate::filters::{FilterView, OpenFilter};
use crate::name::FilterName;
use crate::pages::WordsRead;
use crate::reader::PublishedWords;
use crate::state::Engine;
use crate::threads::run_blocking;
use std::sync::Arc;

/// Bytes of slots that are read at once.
pub const MAX_SLOT_BYTES: usize = 1 << 20;

/// How often it starts over because the filter changed meanwhile.
const RESTARTS: usize = 4;

/// What can be handed out of a filter.
pub enum Slots<H> {
    /// All of it, and what its memory was held with.
    All(SlotView, Option<H>),
    /// Nothing: its slots mean nothing elsewhere.
    Foreign,
    /// Nothing: so many copies are counted beside its slots, and fit into none, or
    /// into too many to look at.
    Counted(u64),
    /// Nothing: there is no memory to find slots for these.
    NoMemory,
}

/// A filter's slots as they were at one moment.
pub struct SlotView {
    filter: Arc<OpenFilter>,
    view: Arc<FilterView>,
    /// Of the filter at that moment.
    version: u64,
    placed: Placed,
    /// Bytes of slots up to the end of each sub-filter.
    ends: Vec<u64>,
}

impl SlotView {
    /// Bytes of memory that it takes beside the filter.
    pub fn memory(&self) -> usize {
        self.placed.memory()
    }

    /// What the filter is.
    pub fn header(&self) -> Header {
        let (chain, params) = (&self.view.chain, self.view.chain.params());
        let first = chain.sub_filter(0);
        Header {
            items: chain.items(),
            buckets: first.map_or(0, |first| first.layout.buckets()),
            deletions: chain.deletions_since_compaction(),
            sub_filters: self.ends.len() as u64,
            bucket_size: u16::from(params.bucket_size()),
            max_iterations: params.max_iterations().unwrap_or(1),
            expansion: u16::try_from(params.expansion()).unwrap_or(u16::MAX),
        }
    }

    /// Whether it has not changed since.
    fn is_still(&self) -> bool {
        let read = WordsRead::fence();
        !self.filter.is_removed() && self.filter.version.is_still(self.version, read)
    }
}

impl Engine {
    /// The slots of a filter as they are now. Reads all of it, twice, if copies
    /// are counted beside them, at the engine's pace. `hold` is asked before for
    /// the bytes of memory that this may take; `None`: there are none.
    ///
    /// # Errors
    /// [`EngineError::NotFound`], [`EngineError::DeadlineExceeded`], also if the
    /// pace broke, or the store can't be read; [`Overload::FilterChanges`] if the
    /// filter changes all the time.
    pub async fn slots<H: Send + 'static>(
        &self,
        name: &FilterName,
        mut hold: impl FnMut(usize) -> Option<H> + Send,
    ) -> Result<Slots<H>> {
        for _ in 0..RESTARTS {
            let filter = self.find(name).await?;
            let Some(version) = filter.version.read() else {
                tokio::task::yield_now().await;
                continue;
            };
            let view = filter.view.load_full();
            if view.chain.params().layout() != LayoutKind::Classic {
                return Ok(Slots::Foreign);
            }
            let counted: u64 = view.chain.sub_filters().map(|sub| sub.counted).sum();
            let (placed, held) = match counted {
                0 => (Placed::default(), None),
                _ => {
                    let Some(held) = hold(placed::memory(&view.chain, counted)) else {
                        return Ok(Slots::NoMemory);
                    };
                    match self.placed(&filter, &view, held).await? {
                        Ok((placed, held)) => (placed, Some(held)),
                        Err(NotPlaced::NoRoom) => return Ok(Slots::Counted(counted)),
                        Err(NotPlaced::Interrupted) => return Err(EngineError::DeadlineExceeded),
                        Err(NotPlaced::Unread(error)) => return Err(error.into()),
                    }
                }
            };
            let mut bytes = 0;
            let subs = view.chain.sub_filters().map(|sub| sub.layout.bytes());
            let more = placed.has_one_more.then(|| {
                let behind = view.chain.classic_at(view.chain.sub_filter_count());
                behind.map(|layout| Layout::Classic(layout).bytes())
            });
            let ends = subs.chain(more.flatten()).map(|of_one| {
                bytes += of_one;
                bytes
            });
            let slots = SlotView {
                ends: ends.collect(),
                filter,
                view,
                version,
                placed,
            };
            if slots.is_still() {
                return Ok(Slots::All(slots, held));
            }
        }
        Err(Overload::FilterChanges.into())
    }

    /// What is held is held until the work ends, also if nobody waits for it any
    /// more.
    async fn placed<H: Send + 'static>(
        &self,
        filter: &Arc<OpenFilter>,
        view: &Arc<FilterView>,
        held: H,
    ) -> Result<Result<(Placed, H), NotPlaced>> {
        let (store, share) = (Arc::clone(&self.state.store), self.state.dump_memory.take());
        let (id, view) = (filter.id, Arc::clone(view));
        let mut pace = self.pace();
        let placing = move || {
            let (view, chain) = (store.snapshot(), &view.chain);
            let placed = placed::place(&view, id, chain, share.entries(), &mut pace);
            placed.map(|placed| (placed, held))
        };
        self.caller.within(run_blocking(placing)).await?
    }

    /// Reads slots from one on, up to [`MAX_SLOT_BYTES`] and to the end of its
    /// sub-filter; none behind the last. `None`: the filter changed.
    ///
    /// # Errors
    /// A page can't be read.
    pub async fn read_slots(&self, slots: &SlotView, from: u64) -> Result<Option<Vec<u8>>> {
        // The sub-filter in which it lies, and the bytes before that.
        let position = slots.ends.partition_point(|&end| end <= from);
        let Some(&end) = slots.ends.get(position) else {
            return Ok(slots.is_still().then(Vec::new));
        };
        let before = position.checked_sub(1).and_then(|it| slots.ends.get(it));
        let length = (end - from).min(MAX_SLOT_BYTES as u64) as usize;
        let first = from - before.copied().unwrap_or(0);
        let mut bytes = match slots.view.chain.sub_filter(position) {
            Some(_) => {
                let read = Box::pin(self.read_published(slots, position, first, length)).await?;
                match read {
                    Some(bytes) => bytes,
                    None => return Ok(None),
                }
            }
            // One more, in which is nothing but what is put there.
            None => vec![0; length],
        };
        let range = (position, first)..(position, first + length as u64);
        for (&(_, slot), &fingerprint) in slots.placed.slots.range(range) {
            if let Some(byte) = bytes.get_mut((slot - first) as usize) {
                *byte = fingerprint;
            }
        }
        Ok(slots.is_still().then_some(bytes))
    }

    /// Reads slots of a sub-filter from the pages as they are published.
    async fn read_published(
        &self,
        slots: &SlotView,
        position: usize,
        first: u64,
        length: usize,
    ) -> Result<Option<Vec<u8>>> {
        let (state, view) = (&self.state, &slots.view);
        let Some(sub) = view.chain.sub_filter(position) else {
            return Ok(None);
        };
        let page_bytes = u64::from(sub.layout.page_bytes()).max(1);
        let pages = first / page_bytes..(first + length as u64).div_ceil(page_bytes);
        let skipped = (first - pages.start * page_bytes) as usize;
        let pages: Vec<PageAddress> = pages
            .map(|page| PageAddress::new(position, page as u32))
            .collect();
        let mut read = ColdImages::default();
        for round in 1..=ROUNDS {
            let bytes = {
                let mut words =
                    PublishedWords::new(&state.cache, &slots.filter, view, &read.images);
                let bytes = read_pages(&mut words, &pages, page_bytes as usize);
                state.cached_reads.inc_by(words.cached_pages);
                bytes
            };
            if !slots.is_still() {
                return Ok(None);
            }
            if let Some(mut bytes) = bytes {
                bytes.drain(..skipped.min(bytes.len()));
                bytes.truncate(length);
                return Ok(Some(bytes));
            }
            // What was read before counts no longer.
            drop(read);
            let wanted = vec![(Arc::clone(view), pages.clone())];
            read = state.read_cold(&self.caller, wanted, round).await?;
        }
        Err(Overload::FilterChanges.into())
    }
}

/// The slots of some pages; `None` if one is not at hand.
fn read_pages(
    words: &mut PublishedWords<'_>,
    pages: &[PageAddress],
    page_bytes: usize,
) -> Option<Vec<u8>> {
    let words_of_page = page_bytes.div_ceil(8) as u16;
    let mut bytes = Vec::with_capacity(pages.len() * page_bytes);
    for &page in pages {
        let of_page = words.settle_with(
            |_, words| {
                let word = |number| words.word(page.word(number));
                (0..words_of_page).map(word).collect::<Option<Vec<u64>>>()
            },
            |_| false,
        )?;
        let end = bytes.len() + page_bytes;
        for word in of_page {
            bytes.extend_from_slice(&word.to_le_bytes());
        }
        bytes.truncate(end);
    }
    Some(bytes)
}
