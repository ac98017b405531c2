//! Bringing pages in from the store.
//!
//! A page has one flight at a time: a thread that needs a page which is neither
//! resident nor in flight puts a flight up before it reads, and only the owner
//! of the flight installs the image. So an image that was read long ago can't
//! replace a newer page: while its flight is up no other thread can have
//! installed, changed and checkpointed the page.
//!
//! All pages of a call are read in one sorted batch.

use super::cache::{Hold, PageCache};
use super::checkpoint::Checkpointer;
use super::frame::FrameIndex;
use super::image::{self, PageImage, little_endian};
use super::pins::Pins;
use super::seqlock::Version;
use super::table::PageTable;
use crate::chain::address::PageAddress;
use crate::chain::counters::{CounterKey, Counters};
use crate::page::PageId;
use crate::share::{Permit, Resource};
use crate::store::{PageStore, StoreError};
use parking_lot::{Condvar, Mutex};
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

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
}

/// Flights to be landed however the work ends.
struct Own<'a> {
    loader: &'a Loader,
    pages: Vec<(Wanted<'a>, Arc<Flight>)>,
}

impl Drop for Own<'_> {
    fn drop(&mut self) {
        let mut flights = self.loader.flights.lock();
        for (page, _) in &self.pages {
            flights.remove(&page.id());
        }
        drop(flights);
        for (_, flight) in &self.pages {
            flight.land();
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
        self.fetch(&pages, |owned, page, version| {
            let image = Image {
                version,
                words: page.slots.chunks(8).map(little_endian).collect(),
                counters: page.counters.clone(),
            };
            images.pages.insert(owned.id(), image);
            // Without room in the cache the request is answered all the same.
            self.cache
                .install(owned.table, owned.address.page, page, Hold::Loose);
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
        let mut pins = Pins {
            cache: Arc::clone(&self.cache),
            frames: Vec::with_capacity(pages.len()),
            _permit: permit,
        };
        // A filter that has lost sub-filters since the pages were named has no
        // table for some; the lane will find that out.
        let mut wanted: Vec<Wanted<'_>> = wanted(tables, pages).collect();
        while !wanted.is_empty() {
            wanted.retain(|page| {
                let pinned = self.cache.pin(page.table, page.address.page);
                pins.frames.extend(pinned);
                pinned.is_none()
            });
            let mut landed = Vec::new();
            self.fetch(&wanted, |owned, page, _| {
                let frame = self.install_pinned(owned.table, owned.address.page, page)?;
                pins.frames.push(frame);
                landed.push(owned.address);
                Ok(())
            })?;
            // Both ascend.
            wanted.retain(|page| landed.binary_search(&page.address).is_err());
        }
        Ok(pins)
    }

    /// Installs a page and pins it, waiting for a frame.
    pub(crate) fn install_pinned(
        &self,
        table: &Arc<PageTable>,
        page: u32,
        image: &PageImage<'_>,
    ) -> Result<FrameIndex, StoreError> {
        loop {
            if let Some(frame) = self.cache.install(table, page, image, Hold::Pinned) {
                return Ok(frame);
            }
            // Dirty and pinned pages are bounded, so a checkpoint or the end
            // of a drain frees frames.
            self.checkpointer
                .wait_for_frames(Duration::from_millis(20))?;
        }
    }

    /// Reads those pages that are neither resident nor in flight, in one
    /// batch, and calls `each` for them; then waits for the others' flights.
    /// `pages` ascend by their ids.
    fn fetch(
        &self,
        pages: &[Wanted<'_>],
        mut each: impl FnMut(Wanted<'_>, &PageImage<'_>, Option<u64>) -> Result<(), StoreError>,
    ) -> Result<(), StoreError> {
        let mut own = Own {
            loader: self,
            pages: Vec::new(),
        };
        let mut others = Vec::new();
        {
            let mut flights = self.flights.lock();
            for &page in pages {
                if self.cache.is_resident(page.table, page.address.page) {
                    continue;
                }
                let id = page.id();
                if let Some(flight) = flights.get(&id) {
                    others.push(Arc::clone(flight));
                } else {
                    let flight = Arc::new(Flight::default());
                    flights.insert(id, Arc::clone(&flight));
                    own.pages.push((page, flight));
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
        each: &mut impl FnMut(Wanted<'_>, &PageImage<'_>, Option<u64>) -> Result<(), StoreError>,
    ) -> Result<(), StoreError> {
        let ids: Vec<PageId> = own.pages.iter().map(|(page, _)| page.id()).collect();
        // The versions are taken before the first read.
        let versions: Vec<Option<u64>> = own
            .pages
            .iter()
            .map(|(page, _)| {
                let version = self.cache.versions().of(page.table, page.address.page);
                version.and_then(Version::read)
            })
            .collect();
        let mut result = Ok(());
        self.store.read_pages(&ids, &mut |index, bytes| {
            let Some(&(page, _)) = own.pages.get(index) else {
                return;
            };
            let bytes = bytes.unwrap_or_default();
            if result.is_err() {
                return;
            }
            let version = versions.get(index).copied().flatten();
            result = image::decode(bytes, page.table.page_bytes(), page.id())
                .and_then(|image| each(page, &image, version));
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
