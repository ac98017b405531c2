//! Pages that are being read from the store.

use crate::page::PageId;
use foldhash::fast::RandomState;
use parking_lot::{Condvar, Mutex};
use std::collections::HashMap;
use std::sync::Arc;

/// The flight of each page that is being read. Its lock is taken within all others.
pub(super) type Flights = Mutex<HashMap<PageId, Arc<Flight>, RandomState>>;

/// Pages that one thread reads.
#[derive(Default)]
pub(super) struct Flight {
    landed: Mutex<bool>,
    changed: Condvar,
}

impl Flight {
    /// Lets its pages be read by others again, and wakes who waits for them.
    pub(super) fn land(&self, flights: &Flights, pages: impl Iterator<Item = PageId>) {
        let mut flights = flights.lock();
        for page in pages {
            flights.remove(&page);
        }
        drop(flights);
        *self.landed.lock() = true;
        self.changed.notify_all();
    }

    pub(super) fn wait(&self) {
        let mut landed = self.landed.lock();
        while !*landed {
            self.changed.wait(&mut landed);
        }
    }
}
