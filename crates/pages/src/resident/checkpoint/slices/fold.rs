//! Folding: parked pages that are not resident are read and stored with what changed in
//! them. Their flights are up while they are read; while they are stored, whoever needs
//! one brings it in.
//!
//! A page that can't be read is set aside with the records that it needs, and tried
//! again from time to time: it keeps no other from being stored.

use crate::page::PageId;
use crate::resident::cache::PageCache;
use crate::resident::dirty::{DirtyPage, DirtyPages};
use crate::resident::flights::Flight;
use crate::resident::image;
use crate::resident::table::{PageTable, read_pages};
use crate::store::{PageStore, StoreError};
use prometheus::IntCounter;
use std::collections::BTreeSet;
use std::sync::Arc;

/// Parked pages that are read to be stored.
pub(super) struct Fold<'a> {
    cache: &'a PageCache,
    flight: Arc<Flight>,
    pages: Vec<(PageId, Arc<PageTable>)>,
    /// Those that could not be read.
    pub(super) unreadable: BTreeSet<PageId>,
}

impl Drop for Fold<'_> {
    fn drop(&mut self) {
        self.land();
    }
}

impl<'a> Fold<'a> {
    pub(super) fn new(cache: &'a PageCache) -> Self {
        Fold {
            cache,
            flight: Arc::default(),
            pages: Vec::new(),
            unreadable: BTreeSet::new(),
        }
    }

    /// Lets the pages be brought in again.
    fn land(&mut self) {
        let pages = std::mem::take(&mut self.pages);
        let pages = pages.iter().map(|page| page.0);
        self.flight.land(&self.cache.flights, pages);
    }

    /// Keeps a page from being brought in, unless it is, or has just been. Under the lock
    /// of its lane, which notes whether it changes from then on.
    pub(super) fn put_up_flight(&mut self, page: &DirtyPage, waiting: &mut DirtyPages) -> bool {
        let id = page.table.id(page.page);
        let mut flights = self.cache.flights.lock();
        let is_free = !self.cache.is_resident(&page.table, page.page) && !flights.contains_key(&id);
        if is_free {
            flights.insert(id, Arc::clone(&self.flight));
            self.pages.push((id, Arc::clone(&page.table)));
            waiting.folding.insert(id, None);
        }
        is_free
    }

    /// Reads the pages: their images with what is parked of them. Counts those that can't
    /// be read.
    pub(super) fn read(
        &mut self,
        store: &PageStore,
        failures: &IntCounter,
    ) -> Vec<(PageId, Vec<u8>)> {
        self.pages.sort_unstable_by_key(|(id, _)| *id);
        let all = images(store, &self.pages);
        // One by one, to find out which.
        let again = self.pages.iter().filter(|_| all.is_err());
        let mut one_by_one = Vec::new();
        for page in again {
            match images(store, std::slice::from_ref(page)) {
                Ok(image) => one_by_one.extend(image),
                Err(error) => {
                    tracing::error!(
                        %error,
                        "a page with changes can't be read; it is tried again, and the log is kept for it until then"
                    );
                    failures.inc();
                    self.unreadable.insert(page.0);
                }
            }
        }
        self.land();
        all.unwrap_or(one_by_one)
    }
}

fn images(
    store: &PageStore,
    pages: &[(PageId, Arc<PageTable>)],
) -> Result<Vec<(PageId, Vec<u8>)>, StoreError> {
    let wanted = pages.iter().map(|(id, table)| (&**table, id.page.0));
    let wanted: Vec<(&PageTable, u32)> = wanted.collect();
    let mut images = Vec::with_capacity(pages.len());
    read_pages(store, &wanted, &mut |at, page| {
        if let Some((id, table)) = pages.get(at) {
            let (words, page_bytes) = (image::words(page.slots), table.geometry().page_bytes());
            let image = image::encode(words, page_bytes, page.counters.as_deref());
            images.push((*id, image));
        }
        Ok(())
    })?;
    Ok(images)
}
