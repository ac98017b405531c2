//! Applying what the commit log has settled: commits of other pods, and own ones
//! that were settled after their plan was given up.
//!
//! A record says what its commit wrote; from that the same changes of pages and
//! filters are made that the pod which planned it has published, and they are
//! published in the same way. So what readers see is as of a commit here, too.

use super::changes::Changes;
use super::commit::Lane;
use super::frames::Frames;
use super::ordering::{Settled, SharedOrdering};
use super::record::{self, After, after_each, described, unfit};
use crate::chain::address::PageAddress;
use crate::chain::plan::{FutileSearches, PageChanges};
use crate::filters::{FilterView, OpenFilter, stored_name};
use crate::logged::{LoggedPage, by_filter, by_page, sort_by_page};
use crate::page::{FilterId, Ordinal, Sequence};
use crate::pages::{KeptOut, PageTable, Pins, StoredPage};
use crate::store::redo::{RedoReader, RedoWrite};
use crate::store::{Commit, Expiry, FilterChange, Garbage, PageImage, StoreError, StoredFilter};
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

/// What a slot that was written at random takes in a record.
const USUAL_WRITE_BYTES: usize = 4;

/// A filter of a commit that is ready to be published.
struct Target {
    filter: Arc<OpenFilter>,
    is_made: bool,
    is_removed: bool,
    /// Bytes of its slots before the commit.
    bytes_before: u64,
    /// Sub-filters that are no more, and all tables from before the commit.
    dropped: Vec<Ordinal>,
    tables: Vec<Arc<PageTable>>,
    expiry: Option<Option<Expiry>>,
}

/// All that is to be published of a commit.
#[derive(Default)]
struct Prepared {
    changes: Vec<Changes>,
    targets: Vec<Target>,
    /// Pages that stay resident until then, ...
    pins: Vec<Pins>,
    /// ... or out of the cache: there is no room for them.
    kept_out: Vec<KeptOut>,
}

impl Lane {
    /// Applies a record that is settled. If that fails, it is to be tried again.
    ///
    /// # Errors
    /// The store fails, or the record does not fit what is there.
    pub(super) fn apply(
        &self,
        shared: &SharedOrdering,
        settled: &mut Settled,
    ) -> Result<(), StoreError> {
        let mut commit = record::read(&settled.commit)?;
        let room = self.checkpointer.wait_for_room();
        room.map_err(|reason| StoreError::CheckpointFailed {
            reason: reason.to_string(),
        })?;
        let mut prepared = self.prepare(&commit, settled.position.sequence)?;
        let frames = Frames::take(&self.cache, &self.loader, &prepared.changes)?;
        // Here there may be something else under a key, which has ended and is
        // not removed yet, or is removed already.
        let mut removals = None;
        for change in &mut commit.side_records {
            change.before = self.store.side_record(&change.key)?;
            if change.before.is_some() && removals.is_none() {
                // Whoever is removing it would remove what comes in its place.
                removals = Some(self.store.hold_removals());
                change.before = self.store.side_record(&change.key)?;
            }
        }
        let begin = || self.checkpointer.begin_commit(self.number);
        commit.sequence = *settled.sequence.get_or_insert_with(begin);
        let position = shared.position_with(settled, &commit);
        let kept_out = tables_of(&prepared.changes);
        let images = images_of(&mut prepared.changes);
        // Behind the frames: these may be waited for.
        let slices = (!images.is_empty()).then(|| self.checkpointer.hold_slices());
        let lane = self.number as u32;
        let stored = self.store.commit_at(&commit, lane, &position, &images);
        drop(removals);
        if let Err(error) = stored {
            let touched = prepared.targets.into_iter().map(|it| it.filter);
            shared.keep(Vec::new(), touched.collect());
            return Err(error);
        }
        for (table, page) in &kept_out {
            // Their images have it now, and are newer.
            self.cache.unpark(table, *page);
        }
        let redo_bytes = commit.redo.len() as u64;
        self.publish(&prepared.changes, frames, commit.sequence, redo_bytes);
        drop(slices);
        self.make_known(&prepared.targets);
        let given_up = commit.filters.iter().filter_map(|change| match change {
            FilterChange::GiveUp { id } => Some(Garbage::Filter(*id)),
            _ => None,
        });
        self.checkpointer.reclaim_soon(given_up);
        shared.applied(settled, &commit);
        Ok(())
    }

    fn prepare(&self, commit: &Commit, record: u64) -> Result<Prepared, StoreError> {
        let mut writes = Vec::with_capacity(commit.redo.len() / USUAL_WRITE_BYTES);
        for write in RedoReader::new(&commit.redo) {
            writes.push(write.map_err(|error| error.in_record(Sequence(record)))?);
        }
        sort_by_page(&mut writes);
        let mut writes: BTreeMap<_, _> = by_filter(&writes).collect();
        let mut prepared = Prepared::default();
        for (id, after) in after_each(commit) {
            let writes = writes.remove(&id).unwrap_or_default();
            self.prepare_filter(&mut prepared, id, after, writes, record)?;
        }
        match writes.is_empty() {
            true => Ok(prepared),
            false => Err(unfit(
                record,
                "it writes to pages of a filter that it does not name",
            )),
        }
    }

    fn prepare_filter(
        &self,
        prepared: &mut Prepared,
        id: FilterId,
        after: After,
        writes: &[RedoWrite<'_>],
        record: u64,
    ) -> Result<(), StoreError> {
        let is_made = after.made.is_some();
        let filter = match after.made {
            Some(name) => Arc::new(OpenFilter::of(StoredFilter {
                id,
                name,
                meta: after.meta.clone().unwrap_or_default(),
                expiry: after.expiry.flatten(),
                owner: after.owner,
            })?),
            None => self.open_to_apply(id, record)?,
        };
        let view = filter.view.load_full();
        prepared.targets.push(Target {
            bytes_before: match is_made {
                true => 0,
                false => view.chain.slot_bytes(),
            },
            filter: Arc::clone(&filter),
            is_made,
            is_removed: after.is_removed,
            dropped: after.dropped.clone(),
            tables: view.tables.clone(),
            expiry: after.expiry.filter(|_| !is_made),
        });
        let chain = match after.meta {
            None if writes.is_empty() => return Ok(()),
            None => {
                return Err(unfit(
                    record,
                    "it writes to pages of a filter that stays as it is",
                ));
            }
            Some(meta) => described(id, meta)?,
        };
        let fresh_from = match is_made {
            true => 0,
            false => view.tables.len() as u32,
        };
        let mut advanced = view.advanced(id, chain);
        let pages = logged(&advanced, writes, record)?;
        if pages.iter().any(|(_, page)| page.reshapes()) {
            advanced = advanced.reshaped();
        }
        let mut changes = Changes {
            view: Arc::new(advanced),
            filter,
            fresh_from,
            pages: PageChanges::default(),
            dropped: after.dropped,
            images: BTreeMap::new(),
        };
        let there: Vec<PageAddress> = pages
            .iter()
            .filter(|(address, page)| !page.is_dropped && !changes.is_new(*address))
            .map(|(address, _)| *address)
            .collect();
        // New ones need frames, too.
        let held = pages.iter().filter(|(_, page)| !page.is_dropped).count();
        let stored = match self.loader.pinnable().try_take(None, held as u64) {
            Ok(permit) => {
                let pins = self.loader.pin(&view.tables, &there, permit)?;
                prepared.pins.push(pins);
                None
            }
            Err(_) => {
                let (kept_out, stored) = self.loader.keep_out(&view.tables, &there)?;
                prepared.kept_out.push(kept_out);
                Some(stored)
            }
        };
        self.page_changes(&mut changes, pages, stored)?;
        prepared.changes.push(changes);
        Ok(())
    }

    /// A filter that a commit changes; it is open until that is published.
    fn open_to_apply(&self, id: FilterId, record: u64) -> Result<Arc<OpenFilter>, StoreError> {
        let absent = || unfit(record, "it changes a filter that is not there");
        if !self.filters.has_room() {
            // Were there none, it is opened all the same.
            self.filters.close_unused();
        }
        let stored = self.store.filter_by_id(id)?.ok_or_else(absent)?;
        let open = self.filters.open(&stored_name(&stored)?, &self.store)?;
        open.filter(|open| open.id == id).ok_or_else(absent)
    }

    /// Notes what a record changes in the pages of a filter, over what they hold. If
    /// there is no room for all of them, pages that come to be and these, which are
    /// stored, are changed in the store alone.
    fn page_changes(
        &self,
        changes: &mut Changes,
        pages: Vec<(PageAddress, LoggedPage<'_, '_>)>,
        mut stored: Option<BTreeMap<PageAddress, StoredPage>>,
    ) -> Result<(), StoreError> {
        let mut of_pages = PageChanges {
            pages: Vec::with_capacity(pages.len()),
            words: Vec::with_capacity(
                pages
                    .iter()
                    .map(|(_, page)| page.slots_and_counters())
                    .sum(),
            ),
            ..PageChanges::default()
        };
        for (address, page) in pages {
            if page.is_dropped {
                of_pages.dropped.push(address);
                continue;
            }
            let is_new = changes.is_new(address);
            let before = stored.as_mut().and_then(|stored| match is_new {
                true => Some(StoredPage::default()),
                false => stored.remove(&address),
            });
            if let Some(before) = before {
                let table = changes.table(address).ok_or(StoreError::PageNotResident)?;
                let geometry = table.geometry();
                if page.whole.is_none() {
                    page.put(&mut of_pages, address, &geometry, |word| before.word(word));
                }
                let image = page.image(before, &geometry);
                changes.images.insert(address, image);
                if let Some(whole) = page.whole {
                    of_pages.wholes.push((address, whole));
                }
                continue;
            }
            if let Some(whole) = page.whole {
                of_pages.wholes.push((address, whole));
                continue;
            }
            let table = changes.table(address).ok_or(StoreError::PageNotResident)?;
            let frame = match is_new {
                // Nothing was written to it: all words are zero.
                true => None,
                false => {
                    let index = self.cache.resident_frame(table, address.page);
                    let frame = index.and_then(|index| self.cache.frame(index));
                    Some(frame.ok_or(StoreError::PageNotResident)?)
                }
            };
            let before = |word| frame.map_or(0, |frame| frame.load(word));
            page.put(&mut of_pages, address, &table.geometry(), before);
        }
        changes.pages = of_pages;
        Ok(())
    }

    /// Says what pages and their views do not tell.
    fn make_known(&self, targets: &[Target]) {
        let removed = targets.iter().filter(|it| it.is_removed);
        let mut removed: HashMap<_, _> = removed.map(|it| (&it.filter.name, it)).collect();
        for target in targets {
            let filter = &target.filter;
            let bytes = match target.is_removed {
                true => 0,
                false => filter.view.load().chain.slot_bytes(),
            };
            let owner = filter.owner.as_ref();
            self.quota.note(owner, target.bytes_before, bytes, None);
            // What own plans found out is no longer so.
            filter.note_searches(FutileSearches::default());
            if let Some(expiry) = target.expiry {
                filter.set_expiry(expiry);
            }
            let is_gone = |it: &&Arc<PageTable>| target.dropped.contains(&it.id(0).ordinal);
            for table in target.tables.iter().filter(is_gone) {
                table.mark_dropped();
            }
            let dropped = target.dropped.iter();
            let garbage = dropped.map(|&it| Garbage::SubFilter(filter.id, it));
            self.checkpointer.reclaim_soon(garbage);
            if target.is_made {
                let removed = removed.remove(&filter.name);
                let replaced = removed.map(|it| Arc::clone(&it.filter));
                // If the store had it before, it may have been opened already.
                let replaced = replaced.or_else(|| self.filters.get(&filter.name));
                self.filters.insert(Arc::clone(filter), replaced.as_deref());
            }
        }
        for target in removed.into_values() {
            self.filters.remove(&target.filter);
        }
        let removed = targets.iter().filter(|it| it.is_removed);
        let garbage = removed.map(|it| Garbage::Filter(it.filter.id));
        self.checkpointer.reclaim_soon(garbage);
    }
}

/// The pages whose images are written with a commit.
fn tables_of(changes: &[Changes]) -> Vec<(Arc<PageTable>, u32)> {
    let of_filter = |changes: &'_ Changes| -> Vec<(Arc<PageTable>, u32)> {
        let pages = changes.images.keys();
        let pages = pages.filter_map(|it| Some((Arc::clone(changes.table(*it)?), it.page)));
        pages.collect()
    };
    changes.iter().flat_map(of_filter).collect()
}

/// The images that are written with a commit.
fn images_of(changes: &mut [Changes]) -> Vec<PageImage> {
    let of_filter = |changes: &mut Changes| -> Vec<PageImage> {
        let images = std::mem::take(&mut changes.images).into_iter();
        let images = images.filter_map(|(page, image)| Some((changes.id(page)?, image)));
        images.collect()
    };
    changes.iter_mut().flat_map(of_filter).collect()
}

/// What a record says about the pages of a filter, by ascending address.
fn logged<'w, 'a>(
    view: &FilterView,
    writes: &'w [RedoWrite<'a>],
    record: u64,
) -> Result<Vec<(PageAddress, LoggedPage<'w, 'a>)>, StoreError> {
    // Most pages are written to once.
    let mut pages = Vec::with_capacity(writes.len());
    for (id, writes) in by_page(writes) {
        let position = view.chain.position_of(id.ordinal);
        let table = position.and_then(|it| Some((it, view.tables.get(it)?)));
        let Some((position, table)) = table else {
            return Err(unfit(record, "it writes to a sub-filter that is not there"));
        };
        let address = PageAddress {
            sub: position as u32,
            page: id.page.0,
        };
        let page = LoggedPage::of(&table.geometry(), Sequence(record), id, writes)?;
        if page.whole.is_some() && page.is_written {
            return Err(unfit(record, "it sets a page as a whole and in part"));
        }
        pages.push((address, page));
    }
    pages.sort_by_key(|(address, _)| *address);
    Ok(pages)
}
