//! Takes the pages of a filter in under a number of its own, to which no name
//! leads yet.
//!
//! The number is on the reclaim list before the first page is written, so
//! whatever happens, a page that came to nothing is removed: at once when the
//! taking in fails, at the next start after a crash. The commit that gives the
//! filter its name takes the number off the list.

use super::format::{DumpError, DumpReader, DumpedPage};
use super::scandump::ChunkReader;
use crate::chain::meta::{Chain, ForeignChain, MetaError};
use crate::engine::disk::Disk;
use crate::engine::error::EngineError;
use crate::engine::pages::Checkpointer;
use crate::engine::pages::PageGeometry;
use crate::engine::stored::page::{Contents, contents};
use crate::page::{FilterId, PageId, PageIndex, Sequence};
use crate::store::disk::DiskShort;
use crate::store::{Garbage, PageStore, StoreError};
use std::io::Read;
use std::sync::Arc;

/// Bytes of images written at once: they share the log with commits.
const SLICE_BYTES: usize = 256 << 10;

/// Why a filter was not taken in. Nothing of it is left.
#[derive(Debug, thiserror::Error)]
pub enum RestoreError {
    /// The bytes are not right.
    #[error(transparent)]
    Dump(#[from] DumpError),
    /// It takes more bytes than a filter may on this server.
    #[error(
        "the filter takes {bytes} bytes, {bound} are allowed; start the server with a larger --max-filter-bytes"
    )]
    TooLarge {
        /// Bytes of its slots.
        bytes: u64,
        /// Bytes it may take.
        bound: u64,
    },
    /// It has, or may grow to, more sub-filters than a filter may on this
    /// server.
    #[error(
        "the filter may have {sub_filters} sub-filters, {bound} are allowed; start the server with a larger --max-chain-length"
    )]
    TooLong {
        /// Sub-filters that it has or may grow to.
        sub_filters: u64,
        /// Sub-filters that it may have.
        bound: u64,
    },
    /// The disk is too full for it.
    #[error(transparent)]
    DiskShort(#[from] DiskShort),
    /// The store refused.
    #[error("the store refused it")]
    Store(#[from] StoreError),
}

/// A filter to be taken in: a number, and where its pages go. Every method
/// blocks.
pub struct Intake {
    pub(in crate::engine) id: FilterId,
    pub(in crate::engine) store: Arc<PageStore>,
    pub(in crate::engine) disk: Arc<Disk>,
    pub(in crate::engine) checkpointer: Arc<Checkpointer>,
    pub(in crate::engine) max_filter_bytes: u64,
    pub(in crate::engine) max_expansions: u64,
    pub(in crate::engine) max_chain_length: u64,
    pub(in crate::engine) now_ms: u64,
}

impl Intake {
    /// Takes in a dump, reading it to its end.
    ///
    /// # Errors
    /// Anything that is not as it would have been written.
    pub fn dump(self, source: impl Read) -> Result<StagedFilter, RestoreError> {
        let mut reader = DumpReader::open(source)?;
        let chain =
            Chain::from_portable(reader.description(), self.max_filter_bytes).map_err(|error| {
                match error {
                    MetaError::Newer { found } => DumpError::Newer { found },
                    MetaError::Older { found } => DumpError::Older { found },
                    MetaError::Corrupt(reason) => DumpError::corrupt(reason),
                }
            })?;
        let mut stager = Stager::begin(self, chain)?;
        while let Some((at, image)) = reader.next_page()? {
            stager.page(at, image)?;
        }
        stager.finish()
    }

    /// Takes in a filter of RedisBloom, reading the frames to their end.
    ///
    /// # Errors
    /// Anything that contradicts itself, or can't be a filter here.
    pub fn redisbloom(self, source: impl Read) -> Result<StagedFilter, RestoreError> {
        let mut reader = ChunkReader::open(source)?;
        let header = reader.header();
        let chain = Chain::of_foreign(&ForeignChain {
            first_buckets: header.buckets,
            bucket_size: header.bucket_size as u8,
            max_iterations: header.max_iterations,
            expansion: u32::from(header.expansion),
            sub_filters: header.sub_filters as usize,
            deletions: header.deletions,
            created_at_ms: self.now_ms,
            max_filter_bytes: self.max_filter_bytes,
            max_expansions: self.max_expansions,
        })
        .ok_or_else(|| DumpError::corrupt("a filter can't have its number of buckets here"))?;
        let layouts: Vec<_> = chain.sub_filters().map(|sub| sub.layout).collect();
        let mut stager = Stager::begin(self, chain)?;
        for (sub, layout) in (0..).zip(layouts) {
            let mut image = vec![0; layout.page_bytes() as usize];
            for page in 0..layout.pages() {
                reader.fill(&mut image)?;
                // What was never written reads as zeros.
                if image.iter().any(|&slot| slot != 0) {
                    stager.page(DumpedPage { sub, page }, &image)?;
                }
            }
        }
        reader.finish()?;
        if stager.occupied() != header.items {
            return Err(
                DumpError::corrupt("its slots do not hold as many items as it says").into(),
            );
        }
        stager.finish_as_found()
    }
}

/// A filter that was taken in and has no name yet. Dropped as it is, its pages
/// are reclaimed.
pub struct StagedFilter {
    pub(in crate::engine) chain: Chain,
    pub(in crate::engine) pages: StagedPages,
}

/// The number of staged pages. Dropped, they are reclaimed.
pub(in crate::engine) struct StagedPages {
    pub(in crate::engine) id: FilterId,
    checkpointer: Arc<Checkpointer>,
    /// The lane, or the next start, sees to the pages from now on.
    pub(in crate::engine) is_handed_over: bool,
}

impl Drop for StagedPages {
    fn drop(&mut self) {
        if !self.is_handed_over {
            self.checkpointer.reclaim_soon([Garbage::Filter(self.id)]);
        }
    }
}

/// Writes pages as they come, in slices.
pub(super) struct Stager {
    intake: Intake,
    pages: StagedPages,
    chain: Chain,
    /// What was found so far, by sub-filter.
    found: Vec<Contents>,
    slice: Vec<(PageId, Vec<u8>)>,
    slice_bytes: usize,
}

impl Stager {
    pub(super) fn begin(intake: Intake, chain: Chain) -> Result<Stager, RestoreError> {
        let (bytes, bound) = (chain.slot_bytes(), intake.max_filter_bytes);
        if bytes > bound {
            return Err(RestoreError::TooLarge { bytes, bound });
        }
        let (sub_filters, bound) = (most_sub_filters(&chain), intake.max_chain_length);
        if sub_filters > bound {
            return Err(RestoreError::TooLong { sub_filters, bound });
        }
        check_room(&intake.disk)?;
        intake.store.stage(intake.id)?;
        Ok(Stager {
            found: vec![Contents::default(); chain.sub_filter_count()],
            pages: StagedPages {
                id: intake.id,
                checkpointer: Arc::clone(&intake.checkpointer),
                is_handed_over: false,
            },
            intake,
            chain,
            slice: Vec::new(),
            slice_bytes: 0,
        })
    }

    /// Takes in a page. Pages ascend.
    pub(super) fn page(&mut self, at: DumpedPage, image: &[u8]) -> Result<(), RestoreError> {
        let sub = self.chain.sub_filter(at.sub as usize);
        let found = self.found.get_mut(at.sub as usize);
        let (Some(sub), Some(found)) = (sub, found) else {
            return Err(DumpError::corrupt("a page is of no sub-filter").into());
        };
        let geometry = PageGeometry::of(&sub.layout);
        let contents = contents(image, &geometry).filter(|_| at.page < geometry.pages());
        let Some(contents) = contents else {
            return Err(DumpError::corrupt("a page does not fit its sub-filter").into());
        };
        found.add(contents);
        let id = PageId {
            filter: self.pages.id,
            ordinal: sub.ordinal,
            page: PageIndex(at.page),
        };
        self.slice.push((id, image.to_vec()));
        self.slice_bytes += image.len();
        if self.slice_bytes >= SLICE_BYTES {
            self.write_slice()?;
        }
        Ok(())
    }

    /// Sees that the filter holds what it says.
    pub(super) fn finish(mut self) -> Result<StagedFilter, RestoreError> {
        self.write_slice()?;
        let says = self.chain.sub_filters().map(|sub| Contents::told_by(&sub));
        if !says.eq(self.found.iter().copied()) {
            return Err(
                DumpError::corrupt("its pages do not hold as many items as it says").into(),
            );
        }
        Ok(StagedFilter {
            chain: self.chain,
            pages: self.pages,
        })
    }

    /// Slots in use that were found so far.
    pub(super) fn occupied(&self) -> u64 {
        self.found.iter().map(|found| found.occupied).sum()
    }

    /// Has the filter say what was found in it.
    pub(super) fn finish_as_found(mut self) -> Result<StagedFilter, RestoreError> {
        let occupied: Vec<u64> = self.found.iter().map(|found| found.occupied).collect();
        self.chain = self
            .chain
            .with_occupied(&occupied)
            .ok_or_else(|| DumpError::corrupt("it has more items than slots"))?;
        self.finish()
    }

    fn write_slice(&mut self) -> Result<(), RestoreError> {
        check_room(&self.intake.disk)?;
        // Nothing is cut off the log by this.
        self.intake.store.checkpoint(&self.slice, Sequence(0))?;
        self.slice.clear();
        self.slice_bytes = 0;
        Ok(())
    }
}

/// Sub-filters that a chain has, or may grow to.
fn most_sub_filters(chain: &Chain) -> u64 {
    let may_have = match chain.params().expansion() {
        0 => 1,
        _ => u64::from(chain.params().max_expansions()) + 1,
    };
    may_have.max(chain.sub_filter_count() as u64)
}

/// # Errors
/// [`RestoreError::DiskShort`]; a store that refuses for another reason says
/// so itself.
fn check_room(disk: &Disk) -> Result<(), DiskShort> {
    match disk.check() {
        Err(EngineError::DiskShort(short)) => Err(short),
        _ => Ok(()),
    }
}
