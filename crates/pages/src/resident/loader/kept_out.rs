//! Changing pages in the store alone: such as there is no room for in the cache.
//!
//! Their flights are up all the while, so nobody brings them in as they were before.

use super::{Loader, wanted};
use crate::page::PageId;
use crate::resident::flights::Flight;
use crate::resident::image::{self, StoredPage};
use crate::resident::pins::Pins;
use crate::resident::table::PageTable;
use crate::store::StoreError;
use cuckood_filter::chain::address::PageAddress;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Pages that stay out of the cache until this is dropped; and the others, which stay
/// in it.
pub struct KeptOut {
    loader: Arc<Loader>,
    flights: BTreeMap<PageId, Arc<Flight>>,
    pins: Option<Pins>,
}

impl Drop for KeptOut {
    fn drop(&mut self) {
        let mut flights = self.loader.cache.flights.lock();
        self.flights.keys().for_each(|id| drop(flights.remove(id)));
        drop(flights);
        self.flights.values().for_each(|flight| flight.land());
    }
}

impl Loader {
    /// Keeps those pages out of the cache that are not resident, and the others in it;
    /// no frame is waited for. Returns the former as they are stored. Blocks. `pages`
    /// ascend and are distinct.
    pub fn keep_out(
        self: &Arc<Self>,
        tables: &[Arc<PageTable>],
        pages: &[PageAddress],
    ) -> Result<(KeptOut, BTreeMap<PageAddress, StoredPage>), StoreError> {
        let mut kept = KeptOut {
            loader: Arc::clone(self),
            flights: BTreeMap::new(),
            pins: None,
        };
        while kept.pins.is_none() {
            // Nothing is pinned while others are waited for: they may wait for a frame.
            kept.put_up_flights(tables, pages);
            kept.pin_others(tables, pages);
        }
        let stored = kept.read(tables, pages)?;
        Ok((kept, stored))
    }
}

impl KeptOut {
    /// Puts up flights for all pages that are not resident.
    fn put_up_flights(&mut self, tables: &[Arc<PageTable>], pages: &[PageAddress]) {
        loop {
            let mut others = Vec::new();
            let mut flights = self.loader.cache.flights.lock();
            for page in wanted(tables, pages) {
                let id = page.id();
                let is_resident = self.loader.cache.is_resident(page.table, page.address.page);
                if is_resident || self.flights.contains_key(&id) {
                    continue;
                }
                match flights.get(&id) {
                    Some(flight) => others.push(Arc::clone(flight)),
                    None => {
                        let flight = Arc::new(Flight::default());
                        flights.insert(id, Arc::clone(&flight));
                        self.flights.insert(id, flight);
                    }
                }
            }
            drop(flights);
            if others.is_empty() {
                return;
            }
            others.iter().for_each(|flight| flight.wait());
        }
    }

    /// Pins all others, unless one of them was evicted meanwhile.
    fn pin_others(&mut self, tables: &[Arc<PageTable>], pages: &[PageAddress]) {
        let cache = &self.loader.cache;
        let mut pins = Pins {
            cache: Arc::clone(cache),
            frames: Vec::new(),
            _permit: None,
        };
        let others = wanted(tables, pages).filter(|it| !self.flights.contains_key(&it.id()));
        for page in others {
            match cache.pin(page.table, page.address.page) {
                Some(frame) => pins.frames.push(frame),
                None => return,
            }
        }
        self.pins = Some(pins);
    }

    fn read(
        &self,
        tables: &[Arc<PageTable>],
        pages: &[PageAddress],
    ) -> Result<BTreeMap<PageAddress, StoredPage>, StoreError> {
        let out = wanted(tables, pages).filter(|it| self.flights.contains_key(&it.id()));
        let out: Vec<_> = out.collect();
        let ids: Vec<PageId> = out.iter().map(|page| page.id()).collect();
        let (mut stored, mut result) = (BTreeMap::new(), Ok(()));
        self.loader.store.read_pages(&ids, &mut |index, bytes| {
            let Some(page) = out.get(index).filter(|_| result.is_ok()) else {
                return;
            };
            let bytes = bytes.unwrap_or_default();
            let mut slots = Vec::new();
            match image::decode(bytes, page.table.geometry().page_bytes(), page.id()) {
                Ok(image) => {
                    let image = page.table.with_parked(page.address.page, image, &mut slots);
                    stored.insert(page.address, StoredPage::of(image));
                }
                Err(error) => result = Err(error),
            }
        })?;
        result.map(|()| stored)
    }
}
