//! Starting again: the redo log is applied to the pages it names.
//!
//! Values in the log are absolute, so it does not matter how much of it the
//! stored images contain already, nor whether a replay was interrupted and
//! starts over. Records of filters and sub-filters that are no more are passed
//! over. No page is read for it: what changed in one is parked.

use super::filters::{Filters, OpenFilter};
use super::logged::{by_filter, sorted_writes};
use super::pages::{Checkpointer, CutLog};
use super::slot::lane_of;
use crate::chain::plan::PageChanges;
use crate::page::{FilterId, Sequence};
use crate::store::redo::{self, RedoWrite};
use crate::store::{PageStore, StoreError};
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::Arc;

/// What a replay found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Recovered {
    /// Redo records read.
    pub(super) records: u64,
    /// Slots set.
    pub(super) slots: u64,
}

/// What a replay works with.
pub(super) struct Recovery<'a> {
    pub(super) store: &'a PageStore,
    pub(super) filters: &'a Filters,
    pub(super) checkpointer: &'a Checkpointer,
    pub(super) lanes: usize,
}

impl Recovery<'_> {
    /// Applies every record of the log, oldest first. Blocks.
    ///
    /// # Errors
    /// Corrupt records or descriptions.
    pub(super) fn run(&self) -> Result<Recovered, StoreError> {
        let mut recovered = Recovered::default();
        let mut known: HashMap<FilterId, Option<Arc<OpenFilter>>> = HashMap::new();
        self.store.replay(&mut |sequence, record| {
            redo::check(record).map_err(|error| error.in_record(sequence))?;
            recovered.records += 1;
            self.checkpointer.add_logged(sequence, record.len() as u64);
            self.checkpointer.continue_after(sequence);
            for (id, writes) in by_filter(&sorted_writes(record, sequence)?) {
                let filter = match known.entry(id) {
                    Entry::Occupied(found) => found.get().clone(),
                    Entry::Vacant(free) => free.insert(self.open(id)?).clone(),
                };
                if let Some(filter) = filter {
                    recovered.slots += self.apply_to_filter(sequence, &filter, writes)?;
                }
            }
            Ok(())
        })?;
        self.store_while(Checkpointer::has_many_pages)?;
        Ok(recovered)
    }

    fn apply_to_filter(
        &self,
        sequence: Sequence,
        filter: &OpenFilter,
        writes: &[RedoWrite<'_>],
    ) -> Result<u64, StoreError> {
        let view = filter.view.load_full();
        let lane = lane_of(&filter.name, self.lanes);
        // Sub-filters that are gone have no pages.
        let logged = view.logged(sequence, writes, || Ok(()))?;
        let mut applied = 0;
        self.checkpointer.publish(lane, sequence, 0, |publication| {
            let mut changes = PageChanges::default();
            for (address, page) in &logged {
                let Some(table) = view.tables.get(address.sub as usize) else {
                    continue;
                };
                let geometry = table.geometry();
                // Pages that were merged away since: whatever the record says of them, the
                // merge made void. Their images may still have to be removed.
                if address.page >= geometry.pages() {
                    if page.is_dropped {
                        publication.drop_page(table, address.page);
                    }
                    continue;
                }
                // One that was dropped, and is there, has come back since: a later record
                // sets it as a whole.
                if let Some(whole) = &page.whole {
                    publication.apply_whole(table, address.page, whole);
                    applied += u64::from(geometry.slots_per_page());
                }
                if page.is_written {
                    page.put(&mut changes, *address, &geometry);
                }
                if let Some(page) = changes.pages.pop() {
                    publication.apply(table, false, &changes, &page);
                }
                applied += page.slots_and_counters() as u64;
            }
        });
        self.store_while(Checkpointer::recovers_too_much)?;
        Ok(applied)
    }

    /// Stores pages. The log stays whole until it was replayed to its end: should this be
    /// interrupted, it is replayed from its start onto the images written here, which ends
    /// in the same bytes.
    fn store_while(&self, is_so: impl Fn(&Checkpointer) -> bool) -> Result<(), StoreError> {
        while is_so(self.checkpointer) && self.checkpointer.checkpoint_slice(CutLog::No)? {}
        Ok(())
    }

    fn open(&self, id: FilterId) -> Result<Option<Arc<OpenFilter>>, StoreError> {
        let Some(stored) = self.store.filter_by_id(id)? else {
            return Ok(None);
        };
        let filter = Arc::new(OpenFilter::of(stored)?);
        self.filters.insert(Arc::clone(&filter), None);
        Ok(Some(filter))
    }
}
