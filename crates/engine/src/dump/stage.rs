//! Takes the pages of a filter in under a number of its own, to which no name
//! leads yet.
//!
//! The number is on the reclaim list before the first page is written, so
//! whatever happens, a page that came to nothing is removed: at once when the
//! taking in fails, at the next start after a crash. The commit that gives the
//! filter its name takes the number off the list. In a cluster the pages are commits,
//! too, and what gives a number up is one (see [`staged`](super::staged)).

use super::error::{DumpError, RestoreError};
use super::scandump::{ChunkReader, Header};
use super::spool;
use super::staged::StagedPages;
use crate::caller::Caller;
use crate::chain::address::PageAddress;
use crate::chain::contents::Contents;
use crate::chain::meta::{Chain, ForeignChain};
use crate::chain::resident::Pages;
use crate::error::EngineError;
use crate::filters::OpenFilter;
use crate::idempotency::guard::SideRecorder;
use crate::name::FilterName;
use crate::page::{FilterId, PageId};
use crate::quota::{Quota, Reservation};
use crate::state::{EngineState, Pace};
use crate::store::PageImage;
use crate::stored::contents;
use std::io::Read;
use std::sync::Arc;

/// Bytes of images written at once: they share the log with commits, and in a
/// cluster they are one. A record of the commit log has room for the largest page
/// more.
const SLICE_BYTES: usize = 256 << 10;

/// A filter to be taken in: a number, and where its pages go. Every method
/// blocks.
pub struct Intake {
    pub(crate) state: Arc<EngineState>,
    /// Who brings it.
    pub(crate) caller: Caller,
    /// Its number, unless a lane gives it another.
    pub(crate) id: FilterId,
    /// The name that it is to get.
    pub(crate) name: FilterName,
    /// The filter whose place it is to take.
    pub(crate) in_place_of: Option<Arc<OpenFilter>>,
    pub(crate) now_ms: u64,
}

impl Intake {
    /// Takes in a dump, reading it to its end before the first page is written.
    ///
    /// # Errors
    /// Anything that is not as it would have been written.
    pub fn dump(self, mut source: impl Read) -> Result<StagedFilter, RestoreError> {
        let (header, begin) = spool::header(&mut source)?;
        let chain = spool::chain(&header, self.max_filter_bytes())?;
        let promise = self.promise(&chain)?;
        let spooled = spool::spool(&self.state, &header, &begin, source)?;
        let mut stager = Stager::begin(&self, promise, chain)?;
        for (sub, it) in (0..).zip(&header.parts.subs) {
            for page in 0..it.0.pages() {
                let at = PageAddress { sub, page };
                if let Some(image) = spool::image(&spooled, at)? {
                    stager.page(at, image)?;
                }
            }
        }
        stager.finish()
    }

    /// Takes in a filter that splits pages, all of which are in memory, at such a pace.
    ///
    /// # Errors
    /// There is no room for it, or no time.
    pub(crate) fn pages(
        self,
        chain: Chain,
        pages: &Pages,
        paces: impl Fn() -> Pace,
    ) -> Result<StagedFilter, RestoreError> {
        let promise = self.ask(chain.slot_bytes())?;
        let count = chain.sub_filter(0).map_or(0, |it| it.layout.pages());
        let mut stager = Stager::begin(&self, promise, chain)?;
        let mut pace = None;
        for page in 0..count {
            if pace.get_or_insert_with(&paces)().is_break() {
                return Err(RestoreError::Refused(EngineError::DeadlineExceeded));
            }
            let at = PageAddress { sub: 0, page };
            let (words, counters) = (pages.words(at).unwrap_or_default(), pages.counters(at));
            if counters.is_some() || words.iter().any(|&it| it != 0) {
                let mut image: Vec<u8> = words.iter().flat_map(|it| it.to_le_bytes()).collect();
                counters.into_iter().for_each(|it| it.encode(&mut image));
                if stager.slice_bytes + image.len() >= SLICE_BYTES {
                    // Others have their turn while it is written.
                    pace = None;
                }
                stager.page(at, image)?;
            }
        }
        drop(pace);
        stager.finish()
    }

    /// Has its room promised.
    fn promise(&self, chain: &Chain) -> Result<Promise, RestoreError> {
        let (bytes, bound) = (chain.slot_bytes(), self.max_filter_bytes());
        if bytes > bound {
            return Err(RestoreError::TooLarge { bytes, bound });
        }
        let (sub_filters, bound) = (
            most_sub_filters(chain),
            self.state.defaults.max_chain_length,
        );
        if sub_filters > bound {
            return Err(RestoreError::TooLong { sub_filters, bound });
        }
        self.ask(bytes)
    }

    fn ask(&self, bytes: u64) -> Result<Promise, RestoreError> {
        let (replaced, key) = (self.in_place_of.as_ref(), self.caller.key.as_ref());
        let promise = Promise::ask(&self.state.quota, key, replaced, bytes);
        promise.map_err(RestoreError::Refused)
    }

    /// Takes in a filter of RedisBloom, reading the frames to their end.
    ///
    /// # Errors
    /// Anything that contradicts itself, or can't be a filter here.
    pub fn redisbloom(self, source: impl Read) -> Result<StagedFilter, RestoreError> {
        let mut reader = ChunkReader::open(source)?;
        let mut foreign = self.foreign(reader.header)?;
        let mut slots = vec![0; SLICE_BYTES];
        while foreign.missing() > 0 {
            let most = usize::try_from(foreign.missing()).unwrap_or(SLICE_BYTES);
            let slots = slots.get_mut(..most.min(SLICE_BYTES)).unwrap_or_default();
            reader.fill(slots)?;
            foreign.slots(slots)?;
        }
        reader.finish()?;
        foreign.finish()
    }

    /// Begins to take in a filter of RedisBloom.
    ///
    /// # Errors
    /// What it says of itself can't be a filter here.
    pub fn foreign(self, header: Header) -> Result<ForeignIntake, RestoreError> {
        let defaults = &self.state.defaults;
        let chain = Chain::of_foreign(&ForeignChain {
            first_buckets: header.buckets,
            bucket_size: header.bucket_size as u8,
            max_iterations: header.max_iterations,
            expansion: u32::from(header.expansion),
            sub_filters: header.sub_filters as usize,
            deletions: header.deletions,
            created_at_ms: self.now_ms,
            max_filter_bytes: self.max_filter_bytes(),
            max_expansions: defaults.redisbloom_expansions(),
        })
        .ok_or_else(|| DumpError::corrupt("a filter can't have its number of buckets here"))?;
        let promise = self.promise(&chain)?;
        Ok(ForeignIntake {
            missing: chain.slot_bytes(),
            at: PageAddress { sub: 0, page: 0 },
            image: Vec::new(),
            items: header.items,
            stager: Stager::begin(&self, promise, chain)?,
        })
    }

    fn max_filter_bytes(&self) -> u64 {
        self.state.defaults.max_filter_bytes
    }
}

/// A filter of RedisBloom that is taken in, as far as it came. Every method
/// blocks.
pub struct ForeignIntake {
    stager: Stager,
    /// Items that it says it has.
    items: u64,
    /// Bytes of slots that have not come.
    missing: u64,
    /// The page that comes next, and what came of it.
    at: PageAddress,
    image: Vec<u8>,
}

impl ForeignIntake {
    /// Bytes of slots that have not come.
    pub fn missing(&self) -> u64 {
        self.missing
    }

    /// Takes the next slots, of all sub-filters one after another.
    ///
    /// # Errors
    /// There are more than the filter has.
    pub fn slots(&mut self, mut slots: &[u8]) -> Result<(), RestoreError> {
        let left = self.missing.checked_sub(slots.len() as u64);
        self.missing = left.ok_or_else(|| {
            DumpError::corrupt("it has more slots than its first chunk describes")
        })?;
        while !slots.is_empty() {
            let chain = &self.stager.chain;
            let Some(sub) = chain.sub_filter(self.at.sub as usize) else {
                return Err(DumpError::corrupt("a page is of no sub-filter").into());
            };
            let (page_bytes, pages) = (sub.layout.page_bytes() as usize, sub.layout.pages());
            let wanted = page_bytes.saturating_sub(self.image.len()).min(slots.len());
            let (taken, rest) = slots.split_at_checked(wanted).unwrap_or((slots, &[]));
            self.image.extend_from_slice(taken);
            slots = rest;
            if self.image.len() < page_bytes {
                break;
            }
            // What was never written reads as zeros.
            if self.image.iter().any(|&slot| slot != 0) {
                self.stager.page(self.at, std::mem::take(&mut self.image))?;
            }
            self.image.clear();
            self.at.page += 1;
            if self.at.page == pages {
                self.at = PageAddress {
                    sub: self.at.sub + 1,
                    page: 0,
                };
            }
        }
        Ok(())
    }

    /// Sees that all of it came, and that it holds what it says.
    ///
    /// # Errors
    /// It does not.
    pub fn finish(self) -> Result<StagedFilter, RestoreError> {
        // Of an empty one nothing has to come.
        if self.missing > 0 && self.items > 0 {
            return Err(DumpError::corrupt("it ends early").into());
        }
        let mut stager = self.stager;
        let occupied: Vec<u64> = stager.found.iter().map(|found| found.occupied).collect();
        if occupied.iter().sum::<u64>() != self.items {
            return Err(
                DumpError::corrupt("its slots do not hold as many items as it says").into(),
            );
        }
        // The filter says what was found in it.
        let chain = stager.chain.with_occupied(&occupied);
        stager.chain = chain.ok_or_else(|| DumpError::corrupt("it has more items than slots"))?;
        stager.finish()
    }
}

/// A filter that was taken in and has no name yet. Dropped as it is, its pages
/// are reclaimed.
pub struct StagedFilter {
    pub(crate) chain: Chain,
    pub(crate) pages: StagedPages,
    pub(crate) promise: Promise,
    /// Keeps what is answered once it has its name.
    pub(crate) recorder: Option<SideRecorder>,
    /// Whether it is the filter whose place it takes, and more.
    pub(crate) is_union: bool,
}

/// Room that was promised before the first page was written.
pub(crate) struct Promise {
    /// Whose bytes it takes over.
    in_place_of: Option<FilterId>,
    reservation: Option<Reservation>,
}

impl Promise {
    /// # Errors
    /// [`EngineError::OverQuota`], [`EngineError::TooManyFiltersInAll`],
    /// [`EngineError::OverKeyQuota`].
    fn ask(
        quota: &Arc<Quota>,
        key: Option<&Arc<str>>,
        replaced: Option<&Arc<OpenFilter>>,
        bytes: u64,
    ) -> Result<Promise, EngineError> {
        let reservation = match replaced {
            None => quota.take(key, bytes, 1)?,
            Some(replaced) => {
                let freed = replaced.view.load().chain.slot_bytes();
                quota.take(replaced.owner.as_ref(), bytes.saturating_sub(freed), 0)?
            }
        };
        Ok(Promise {
            in_place_of: replaced.map(|it| it.id),
            reservation,
        })
    }

    /// What was promised, for the filter whose place is taken in the end: asked
    /// for again if that is another one.
    ///
    /// # Errors
    /// As for the first time.
    pub(crate) fn redeem(
        &mut self,
        quota: &Arc<Quota>,
        key: Option<&Arc<str>>,
        replaced: Option<&Arc<OpenFilter>>,
        bytes: u64,
    ) -> Result<Option<Reservation>, EngineError> {
        let promised = self.reservation.take();
        if promised.is_some() && self.in_place_of == replaced.map(|it| it.id) {
            return Ok(promised);
        }
        drop(promised);
        Ok(Promise::ask(quota, key, replaced, bytes)?.reservation)
    }
}

/// Writes pages as they come, in slices.
struct Stager {
    pages: StagedPages,
    promise: Promise,
    chain: Chain,
    /// What was found so far, by sub-filter.
    found: Vec<Contents>,
    slice: Vec<PageImage>,
    slice_bytes: usize,
}

impl Stager {
    fn begin(intake: &Intake, promise: Promise, chain: Chain) -> Result<Stager, RestoreError> {
        let (state, caller) = (&intake.state, &intake.caller);
        let pages = StagedPages::begin(state, intake.id, &intake.name, caller)?;
        Ok(Stager {
            promise,
            found: chain
                .sub_filters()
                .map(|sub| Contents::none_of(&sub.layout))
                .collect(),
            pages,
            chain,
            slice: Vec::new(),
            slice_bytes: 0,
        })
    }

    /// Takes in a page. Pages ascend.
    fn page(&mut self, at: PageAddress, image: Vec<u8>) -> Result<(), RestoreError> {
        let sub = self.chain.sub_filter(at.sub as usize);
        let found = self.found.get_mut(at.sub as usize);
        let (Some(sub), Some(found)) = (sub, found) else {
            return Err(DumpError::corrupt("a page is of no sub-filter").into());
        };
        let is_there = at.page < sub.layout.pages();
        let contents = is_there.then(|| contents(&image, &sub.layout, at.page));
        let Some(contents) = contents.flatten() else {
            return Err(DumpError::corrupt("a page does not fit its sub-filter").into());
        };
        found.add(&contents);
        let id = PageId::new(self.pages.id, sub.ordinal, at.page);
        self.slice_bytes += image.len();
        self.slice.push((id, image));
        if self.slice_bytes >= SLICE_BYTES {
            self.write_slice()?;
        }
        Ok(())
    }

    /// Sees that the filter holds what it says.
    fn finish(mut self) -> Result<StagedFilter, RestoreError> {
        self.write_slice()?;
        let subs = self.chain.sub_filters();
        let says: Vec<Contents> = subs
            .map(|sub| Contents::told_by(&self.chain, &sub))
            .collect();
        if says != self.found {
            return Err(
                DumpError::corrupt("its pages do not hold as many items as it says").into(),
            );
        }
        Ok(StagedFilter {
            promise: self.promise,
            chain: self.chain,
            pages: self.pages,
            recorder: None,
            is_union: false,
        })
    }

    fn write_slice(&mut self) -> Result<(), RestoreError> {
        self.slice_bytes = 0;
        self.pages.write(std::mem::take(&mut self.slice))
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
