//! Bringing pages in from the store.
//!
//! A page has one flight at a time: a thread that needs a page which is neither
//! resident nor in flight puts a flight up before it reads, and only the owner
//! of the flight installs the image. So an image that was read long ago can't
//! replace a newer page: while its flight is up no other thread can have
//! installed, changed and checkpointed the page. If it changed without a frame
//! meanwhile, its generation tells.
//!
//! All pages of a call are read in one sorted batch.

use super::cache::{AsOf, Hold, NotInstalled, PageCache};
use super::checkpoint::Checkpointer;
use super::flights::Flight;
use super::frame::FrameIndex;
use super::image::{self, PageImage};
use super::pins::Pins;
use super::table::{PageTable, read_pages};
use crate::page::PageId;
use crate::store::{PageStore, StoreError};
use cuckood_filter::chain::address::PageAddress;
use cuckood_filter::chain::counters::{CounterKey, Counters};
use cuckood_share::{Permit, Resource};
use foldhash::fast::RandomState;
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::ops::RangeInclusive;
use std::sync::Arc;
use std::time::Duration;

/// How long a checkpoint or the end of a plan is waited for before it is looked
/// again, and how often for room for counters.
const WAIT: Duration = Duration::from_millis(20);
const MAX_WAITS: u32 = 50;

/// Up to one part in so many of the frames, the pages of a question are still in theirs
/// when it looks, unless many others bring pages in at once.
const STAYING_PART: usize = 8;

/// Reads pages for readers and for commands.
pub struct Loader {
    /// Where it reads them.
    pub store: Arc<PageStore>,
    /// Where it brings them in.
    pub cache: Arc<PageCache>,
    /// What makes room for them.
    pub checkpointer: Arc<Checkpointer>,
    /// Pages that commands may pin, all together. Taken for all pages of a
    /// command at once, so commands can't wait for each other in a circle.
    pub pinnable: Resource<Arc<str>>,
}

/// Pages read for one request, beside the cache: they answer it even if the
/// cache has no room for them.
#[derive(Default)]
pub struct Images {
    pages: HashMap<PageId, Image, RandomState>,
}

/// Which of the pages that are read are kept beside the cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Beside {
    /// Those that get no frame, or might lose it too soon.
    Some,
    /// All of them: who asks has found that pages were gone again.
    All,
}

struct Image {
    /// The page's version from before it was read.
    version: Option<u64>,
    words: Vec<u64>,
    counters: Option<Arc<Counters>>,
}

impl Images {
    /// A word and the version it belongs to.
    pub fn word(&self, page: PageId, word: u16) -> Option<(u64, Option<u64>)> {
        let image = self.pages.get(&page)?;
        let value = image.words.get(usize::from(word)).copied().unwrap_or(0);
        Some((value, image.version))
    }

    /// Copies of a class and the version they belong to.
    pub fn counter(&self, page: PageId, key: CounterKey) -> Option<(u64, Option<u64>)> {
        let image = self.pages.get(&page)?;
        let counters = image.counters.as_ref();
        Some((
            counters.map_or(0, |counters| counters.get(key)),
            image.version,
        ))
    }

    /// What is counted under the keys of a range, and the version it belongs to.
    pub fn counters_within(
        &self,
        page: PageId,
        keys: RangeInclusive<CounterKey>,
    ) -> Option<(Counters, Option<u64>)> {
        let image = self.pages.get(&page)?;
        let counters = image.counters.as_ref();
        let within = counters.map(|it| it.within(keys)).unwrap_or_default();
        Some((within, image.version))
    }
}

/// Flights to be landed however the work ends.
struct Own<'a> {
    loader: &'a Loader,
    flight: Arc<Flight>,
    pages: Vec<OwnPage<'a>>,
}

struct OwnPage<'a> {
    page: Wanted<'a>,
    /// From before the page was read.
    as_of: AsOf,
}

impl Drop for Own<'_> {
    fn drop(&mut self) {
        let pages = self.pages.iter().map(|own| own.page.id());
        self.flight.land(&self.loader.cache.flights, pages);
    }
}

impl Loader {
    /// Reads the pages of several filters that are not resident, all of them
    /// in one batch. Blocks. Each filter occurs once, its pages ascend and are
    /// distinct.
    pub fn read_of_many<'a>(
        &self,
        filters: impl Iterator<Item = (&'a [Arc<PageTable>], &'a [PageAddress])>,
        beside: Beside,
    ) -> Result<Images, StoreError> {
        let wanted = filters.flat_map(|(tables, pages)| wanted(tables, pages));
        let mut pages: Vec<Wanted<'_>> = wanted.collect();
        pages.sort_by_key(Wanted::id);
        let few = self.cache.capacity() as usize / STAYING_PART;
        let keeps_all = beside == Beside::All || pages.len() > few;
        let mut images = Images::default();
        self.fetch(&pages, |own, page| {
            let Wanted { address, table } = own.page;
            let mut keep = || {
                let image = Image {
                    version: own.as_of.version,
                    words: image::words(page.slots).collect(),
                    counters: page.counters.clone(),
                };
                images.pages.insert(own.page.id(), image);
            };
            if keeps_all {
                keep();
            }
            // Without room in the cache the request is answered all the same.
            let installed = self
                .cache
                .install(table, address.page, page, Hold::Loose, own.as_of);
            if !keeps_all && installed.is_err() {
                keep();
            }
            Ok(())
        })?;
        Ok(images)
    }

    /// Makes the pages of a command resident and pins them. Blocks, at worst
    /// until a checkpoint has freed a frame. `pages` ascend and are distinct,
    /// and `permit` was taken for their number. `None` if counters take all the
    /// memory that they may, and go on doing so for a second.
    pub fn pin(
        &self,
        tables: &[Arc<PageTable>],
        pages: &[PageAddress],
        permit: Permit<Arc<str>>,
    ) -> Result<Option<Pins>, StoreError> {
        let mut waits = 0;
        let mut pins = Pins {
            cache: Arc::clone(&self.cache),
            frames: Vec::with_capacity(pages.len()),
            _permit: permit,
        };
        // A filter that has lost sub-filters or pages since the pages were named
        // does not have some; the lane will find that out.
        let mut wanted: Vec<Wanted<'_>> = wanted(tables, pages).collect();
        loop {
            wanted.retain(|page| {
                if page.address.page >= page.table.pages() {
                    return false;
                }
                let pinned = self.cache.pin(page.table, page.address.page);
                pins.frames.extend(pinned);
                pinned.is_none()
            });
            if wanted.is_empty() {
                return Ok(Some(pins));
            }
            let (mut landed, mut left_out) = (Vec::new(), 0);
            self.fetch(&wanted, |own, page| {
                let Wanted { address, table } = own.page;
                if page.counters.is_some() && self.cache.is_full_of_counters() {
                    left_out += 1;
                    return Ok(());
                }
                let frame = self.install_pinned(table, address.page, page, own.as_of)?;
                if let Some(frame) = frame {
                    pins.frames.push(frame);
                    landed.push(address);
                }
                Ok(())
            })?;
            landed.sort_unstable();
            wanted.retain(|page| landed.binary_search(&page.address).is_err());
            if left_out > 0 {
                if waits == MAX_WAITS {
                    return Ok(None);
                }
                waits += 1;
                self.checkpointer.wait_for_frames(WAIT)?;
                self.cache.shed_all_counters();
            }
        }
    }

    /// Brings pages in as far as there are frames for them. Blocks. `pages` ascend and are
    /// distinct.
    pub fn bring_in(
        &self,
        tables: &[Arc<PageTable>],
        pages: &[PageAddress],
    ) -> Result<(), StoreError> {
        let pages: Vec<Wanted<'_>> = wanted(tables, pages).collect();
        self.fetch(&pages, |own, page| {
            let Wanted { address, table } = own.page;
            // One that gets none stays where it is.
            let _ = self
                .cache
                .install(table, address.page, page, Hold::Loose, own.as_of);
            Ok(())
        })
    }

    /// Gives a page that is not published yet a frame without an entry, and
    /// pins it, waiting for a frame. For the lane of its filter.
    pub fn install_new(&self, table: &Arc<PageTable>, page: u32) -> Result<FrameIndex, StoreError> {
        let nothing = PageImage::default();
        let as_of = self.cache.as_of(table, page);
        let installed = self.install_pinned(table, page, &nothing, as_of)?;
        if let Some(frame) = installed.and_then(|index| self.cache.frame(index)) {
            // Another page of its number may have an image that is not removed yet.
            frame.mark_all_changed();
        }
        installed.ok_or(StoreError::PageNotResident)
    }

    /// Installs a page and pins it, waiting for a frame. `None`: it is no more.
    fn install_pinned(
        &self,
        table: &Arc<PageTable>,
        page: u32,
        image: &PageImage<'_>,
        as_of: AsOf,
    ) -> Result<Option<FrameIndex>, StoreError> {
        loop {
            let installed = self.cache.install(table, page, image, Hold::Pinned, as_of);
            match installed {
                Ok(frame) => return Ok(Some(frame)),
                Err(NotInstalled::Gone) => return Ok(None),
                Err(NotInstalled::NoFrame) => {}
            }
            // Dirty and pinned pages are bounded, so a checkpoint or the end
            // of a plan frees frames.
            self.checkpointer.wait_for_frames(WAIT)?;
        }
    }

    /// Reads those pages that are neither resident nor in flight, in one
    /// batch, and calls `each` for them; then waits for the others' flights.
    /// `pages` ascend by their ids.
    fn fetch(
        &self,
        pages: &[Wanted<'_>],
        mut each: impl FnMut(&OwnPage<'_>, &PageImage<'_>) -> Result<(), StoreError>,
    ) -> Result<(), StoreError> {
        let mut own = Own {
            loader: self,
            flight: Arc::default(),
            pages: Vec::new(),
        };
        let mut others = Vec::new();
        {
            let mut flights = self.cache.flights.lock();
            for &page in pages {
                let as_of = self.cache.as_of(page.table, page.address.page);
                let is_gone = !as_of.is_there(page.address.page);
                if is_gone || self.cache.is_resident(page.table, page.address.page) {
                    continue;
                }
                let id = page.id();
                match flights.entry(id) {
                    Entry::Occupied(of_other) => others.push(Arc::clone(of_other.get())),
                    Entry::Vacant(free) => {
                        free.insert(Arc::clone(&own.flight));
                        own.pages.push(OwnPage { page, as_of });
                    }
                }
            }
        }
        if !own.pages.is_empty() {
            let pages = own.pages.iter().map(|own| own.page);
            let pages: Vec<_> = pages.map(|it| (&**it.table, it.address.page)).collect();
            read_pages(
                &self.store,
                &pages,
                &mut |at, page| match own.pages.get(at) {
                    Some(own) => each(own, &page),
                    None => Ok(()),
                },
            )?;
        }
        drop(own);
        for flight in others {
            flight.wait();
        }
        Ok(())
    }
}

/// A page that is needed, and the table that knows where it is.
#[derive(Clone, Copy)]
struct Wanted<'a> {
    address: PageAddress,
    table: &'a Arc<PageTable>,
}

impl Wanted<'_> {
    fn id(&self) -> PageId {
        self.table.id(self.address.page)
    }
}

/// The pages that one of the tables is for.
fn wanted<'a>(
    tables: &'a [Arc<PageTable>],
    pages: &'a [PageAddress],
) -> impl Iterator<Item = Wanted<'a>> + 'a {
    pages.iter().filter_map(|&address| {
        let table = tables.get(address.sub as usize)?;
        Some(Wanted { address, table })
    })
}
