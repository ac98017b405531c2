//! Bringing pages in from the store.
//!
//! A page has one flight at a time: a thread that needs a page which is neither
//! resident nor in flight puts a flight up before it reads, and only the owner
//! of the flight installs the image. So an image that was read long ago can't
//! replace a newer page: while its flight is up no other thread can have
//! installed, changed and checkpointed the page.
//!
//! All pages of a call are read in one sorted batch.

mod kept_out;

pub(crate) use kept_out::{KeptOut, StoredPage};

use super::cache::{AsOf, Hold, NotInstalled, PageCache};
use super::checkpoint::Checkpointer;
use super::frame::FrameIndex;
use super::image::{self, PageImage, little_endian};
use super::pins::Pins;
use super::table::PageTable;
use crate::chain::address::PageAddress;
use crate::chain::counters::{CounterKey, Counters};
use crate::page::PageId;
use crate::share::{Permit, Resource};
use crate::store::{PageStore, StoreError};
use parking_lot::{Condvar, Mutex};
use std::collections::HashMap;
use std::ops::RangeInclusive;
use std::sync::Arc;
use std::time::Duration;

/// How long a checkpoint or the end of a drain is waited for before it is looked
/// again, and how often for room for counters.
const WAIT: Duration = Duration::from_millis(20);
const MAX_WAITS: u32 = 50;

/// Reads pages for readers and for commands.
pub(crate) struct Loader {
    store: Arc<PageStore>,
    cache: Arc<PageCache>,
    checkpointer: Arc<Checkpointer>,
    flights: Mutex<HashMap<PageId, Arc<Flight>>>,
    pinnable: Resource<Arc<str>>,
}

#[derive(Default)]
struct Flight {
    landed: Mutex<bool>,
    changed: Condvar,
}

impl Flight {
    fn land(&self) {
        *self.landed.lock() = true;
        self.changed.notify_all();
    }

    fn wait(&self) {
        let mut landed = self.landed.lock();
        while !*landed {
            self.changed.wait(&mut landed);
        }
    }
}

/// Pages read for one request, beside the cache: they answer it even if the
/// cache has no room for them.
#[derive(Default)]
pub(crate) struct Images {
    pages: HashMap<PageId, Image>,
}

struct Image {
    /// The page's version from before it was read.
    version: Option<u64>,
    words: Box<[u64]>,
    counters: Option<Arc<Counters>>,
}

impl Images {
    /// A word and the version it belongs to.
    pub(crate) fn word(&self, page: PageId, word: u16) -> Option<(u64, Option<u64>)> {
        let image = self.pages.get(&page)?;
        let value = image.words.get(usize::from(word)).copied().unwrap_or(0);
        Some((value, image.version))
    }

    /// Copies of a class and the version they belong to.
    pub(crate) fn counter(&self, page: PageId, key: CounterKey) -> Option<(u64, Option<u64>)> {
        let image = self.pages.get(&page)?;
        let counters = image.counters.as_ref();
        Some((
            counters.map_or(0, |counters| counters.get(key)),
            image.version,
        ))
    }

    /// What is counted under the keys of a range, and the version it belongs to.
    pub(crate) fn counters_within(
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
    pages: Vec<OwnFlight<'a>>,
}

struct OwnFlight<'a> {
    page: Wanted<'a>,
    /// From before the page was read.
    as_of: AsOf,
    flight: Arc<Flight>,
}

impl Drop for Own<'_> {
    fn drop(&mut self) {
        let mut flights = self.loader.flights.lock();
        for own in &self.pages {
            flights.remove(&own.page.id());
        }
        drop(flights);
        for own in &self.pages {
            own.flight.land();
        }
    }
}

impl Loader {
    /// A loader that lets commands pin so many pages.
    pub(crate) fn new(
        store: Arc<PageStore>,
        cache: Arc<PageCache>,
        checkpointer: Arc<Checkpointer>,
        pinnable: Resource<Arc<str>>,
    ) -> Self {
        Loader {
            store,
            cache,
            checkpointer,
            flights: Mutex::new(HashMap::new()),
            pinnable,
        }
    }

    /// Pages that commands may pin, all together. Taken for all pages of a
    /// command at once, so commands can't wait for each other in a circle.
    pub(crate) fn pinnable(&self) -> &Resource<Arc<str>> {
        &self.pinnable
    }

    /// Reads the pages of several filters that are not resident, all of them
    /// in one batch. Blocks. Each filter occurs once, its pages ascend and are
    /// distinct.
    pub(crate) fn read_of_many<'a>(
        &self,
        filters: impl Iterator<Item = (&'a [Arc<PageTable>], &'a [PageAddress])>,
    ) -> Result<Images, StoreError> {
        let wanted = filters.flat_map(|(tables, pages)| wanted(tables, pages));
        let mut pages: Vec<Wanted<'_>> = wanted.collect();
        pages.sort_by_key(Wanted::id);
        let mut images = Images::default();
        self.fetch(&pages, |own, page| {
            let image = Image {
                version: own.as_of.version,
                words: page.slots.chunks(8).map(little_endian).collect(),
                counters: page.counters.clone(),
            };
            let Wanted { address, table } = own.page;
            images.pages.insert(own.page.id(), image);
            // Without room in the cache the request is answered all the same.
            let _ = self
                .cache
                .install(table, address.page, page, Hold::Loose, own.as_of);
            Ok(())
        })?;
        Ok(images)
    }

    /// Makes the pages of a command resident and pins them. Blocks, at worst
    /// until a checkpoint has freed a frame. `pages` ascend and are distinct,
    /// and `permit` was taken for their number.
    pub(crate) fn pin(
        &self,
        tables: &[Arc<PageTable>],
        pages: &[PageAddress],
        permit: Permit<Arc<str>>,
    ) -> Result<Pins, StoreError> {
        let pins = self.pin_as_far_as(tables, pages, permit, |_| true)?;
        pins.ok_or(StoreError::PageNotResident)
    }

    /// The same for a command that can be refused: `None` if counters take all the
    /// memory that they may, and go on doing so for a second.
    pub(crate) fn pin_for_command(
        &self,
        tables: &[Arc<PageTable>],
        pages: &[PageAddress],
        permit: Permit<Arc<str>>,
    ) -> Result<Option<Pins>, StoreError> {
        self.pin_as_far_as(tables, pages, permit, |page| {
            page.counters.is_none() || !self.cache.is_full_of_counters()
        })
    }

    /// Pins pages, of those that have to be read such as `may` come in.
    fn pin_as_far_as(
        &self,
        tables: &[Arc<PageTable>],
        pages: &[PageAddress],
        permit: Permit<Arc<str>>,
        may_come: impl Fn(&PageImage<'_>) -> bool,
    ) -> Result<Option<Pins>, StoreError> {
        let mut waits = 0;
        let mut pins = Pins {
            cache: Arc::clone(&self.cache),
            frames: Vec::with_capacity(pages.len()),
            _permit: Some(permit),
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
                if !may_come(page) {
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
            // Both ascend.
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

    /// Gives a page that is not published yet a frame without an entry, and
    /// pins it, waiting for a frame. For the lane of its filter.
    pub(crate) fn install_new(
        &self,
        table: &Arc<PageTable>,
        page: u32,
    ) -> Result<FrameIndex, StoreError> {
        let nothing = PageImage::default();
        let as_of = self.cache.as_of(table, page);
        let installed = self.install_pinned(table, page, &nothing, as_of)?;
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
            // of a drain frees frames.
            self.checkpointer.wait_for_frames(WAIT)?;
        }
    }

    /// Reads those pages that are neither resident nor in flight, in one
    /// batch, and calls `each` for them; then waits for the others' flights.
    /// `pages` ascend by their ids.
    fn fetch(
        &self,
        pages: &[Wanted<'_>],
        mut each: impl FnMut(&OwnFlight<'_>, &PageImage<'_>) -> Result<(), StoreError>,
    ) -> Result<(), StoreError> {
        let mut own = Own {
            loader: self,
            pages: Vec::new(),
        };
        let mut others = Vec::new();
        {
            let mut flights = self.flights.lock();
            for &page in pages {
                let as_of = self.cache.as_of(page.table, page.address.page);
                let is_gone = !as_of.is_there(page.address.page);
                if is_gone || self.cache.is_resident(page.table, page.address.page) {
                    continue;
                }
                let id = page.id();
                if let Some(flight) = flights.get(&id) {
                    others.push(Arc::clone(flight));
                } else {
                    let flight = Arc::new(Flight::default());
                    flights.insert(id, Arc::clone(&flight));
                    own.pages.push(OwnFlight {
                        page,
                        as_of,
                        flight,
                    });
                }
            }
        }
        if !own.pages.is_empty() {
            self.read_own(&own, &mut each)?;
        }
        drop(own);
        for flight in others {
            flight.wait();
        }
        Ok(())
    }

    fn read_own(
        &self,
        own: &Own<'_>,
        each: &mut impl FnMut(&OwnFlight<'_>, &PageImage<'_>) -> Result<(), StoreError>,
    ) -> Result<(), StoreError> {
        let ids: Vec<PageId> = own.pages.iter().map(|own| own.page.id()).collect();
        let mut result = Ok(());
        self.store.read_pages(&ids, &mut |index, bytes| {
            let Some(own) = own.pages.get(index) else {
                return;
            };
            let bytes = bytes.unwrap_or_default();
            if result.is_err() {
                return;
            }
            let page_bytes = own.page.table.geometry().page_bytes();
            result =
                image::decode(bytes, page_bytes, own.page.id()).and_then(|image| each(own, &image));
        })?;
        result
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
