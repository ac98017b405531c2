//! Applying what the commit log has settled: commits of other pods, and own ones
//! that were settled after their plan was given up.
//!
//! A record says what its commit wrote; from that the same changes of pages and
//! filters are made that the pod which planned it has published, and they are
//! published in the same way. So what readers see is as of a commit here, too.

use super::changes::Changes;
use super::commit::Lane;
use super::ordering::{Settled, SharedOrdering};
use super::record::{self, After, after_each, unfit};
use crate::chain::address::PageAddress;
use crate::chain::plan::{FutileSearches, PageChanges};
use crate::filters::{OpenFilter, decode, stored_name};
use crate::logged::{LoggedPage, by_filter, sorted_writes};
use crate::page::{FilterId, Ordinal, Sequence};
use crate::pages::{Applied, PageTable};
use crate::store::redo::RedoWrite;
use crate::store::{Commit, Expiry, FilterChange, Garbage, StoreError, StoredFilter};
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Duration;

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
        let prepared = self.prepare(&commit, settled.position.sequence)?;
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
        let lane = self.number as u32;
        let stored = self.store.commit_at(&commit, lane, &position);
        drop(removals);
        if let Err(error) = stored {
            let touched = prepared.targets.into_iter().map(|it| it.filter);
            shared.keep(Vec::new(), touched.collect());
            return Err(error);
        }
        let redo_bytes = commit.redo.len() as u64;
        let wanted = self.publish_applied(&prepared.changes, commit.sequence, redo_bytes);
        self.make_known(&prepared.targets);
        let given_up = commit.filters.iter().filter_map(|change| match change {
            FilterChange::GiveUp { id } => Some(Garbage::Filter(*id)),
            _ => None,
        });
        self.checkpointer.reclaim_soon(given_up);
        shared.applied(settled, &commit);
        for (it, wanted) in prepared.changes.iter().zip(wanted) {
            // Whoever needs one that can't be read says so.
            let _ = self.loader.bring_in(&it.view.tables, &wanted);
        }
        Ok(())
    }

    fn prepare(&self, commit: &Commit, record: u64) -> Result<Prepared, StoreError> {
        let writes = sorted_writes(&commit.redo, Sequence(record))?;
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
            Some(meta) => decode(id, &meta)?,
        };
        let fresh_from = match is_made {
            true => 0,
            false => view.tables.len() as u32,
        };
        let mut advanced = view.advanced(id, chain);
        let is_gone = || Err(unfit(record, "it writes to a sub-filter that is not there"));
        let pages = advanced.logged(Sequence(record), writes, is_gone)?;
        let is_mixed = |page: &LoggedPage<'_, '_>| page.whole.is_some() && page.is_written;
        if pages.iter().any(|(_, page)| is_mixed(page)) {
            return Err(unfit(record, "it sets a page as a whole and in part"));
        }
        if pages.iter().any(|(_, page)| page.reshapes()) {
            advanced = advanced.reshaped();
        }
        let mut changes = Changes {
            view: Arc::new(advanced),
            filter,
            fresh_from,
            pages: PageChanges::default(),
            dropped: after.dropped,
        };
        for (address, page) in pages {
            let of_pages = &mut changes.pages;
            if page.is_dropped {
                of_pages.dropped.push(address);
            } else if let Some(whole) = page.whole {
                of_pages.wholes.push((address, whole));
            } else if let Some(table) = changes.view.tables.get(address.sub as usize) {
                page.put(of_pages, address, &table.geometry());
            }
        }
        prepared.changes.push(changes);
        Ok(())
    }

    /// Publishes a commit that another pod has planned: its pages were not brought in for
    /// it, and are changed where they lie. Returns those of each filter that should be
    /// brought in.
    fn publish_applied(
        &self,
        changes: &[Changes],
        sequence: Sequence,
        redo_bytes: u64,
    ) -> Vec<Vec<PageAddress>> {
        let mut wanted = Vec::with_capacity(changes.len());
        // Whoever takes these takes no frame from another page.
        let mut free_frames = self.cache.free_frames();
        self.publish(changes, sequence, redo_bytes, |it, publication| {
            let mut of_filter = Vec::new();
            let mut want = |page: PageAddress, applied| {
                if applied == Applied::ParkedMany || applied == Applied::Parked && free_frames > 0 {
                    free_frames = free_frames.saturating_sub(1);
                    of_filter.push(page);
                }
            };
            for page in &it.pages.pages {
                if let Some(table) = it.table(page.address) {
                    let is_new = it.is_new(page.address);
                    let applied = publication.apply(table, is_new, &it.pages, page);
                    want(page.address, applied);
                }
            }
            for (page, whole) in &it.pages.wholes {
                if let Some(table) = it.table(*page) {
                    want(*page, publication.apply_whole(table, page.page, whole));
                }
            }
            of_filter.sort_unstable();
            wanted.push(of_filter);
        });
        wanted
    }

    /// A filter that a commit changes; it is open until that is published.
    fn open_to_apply(&self, id: FilterId, record: u64) -> Result<Arc<OpenFilter>, StoreError> {
        let absent = || unfit(record, "it changes a filter that is not there");
        if !self.filters.has_room() && !self.filters.close_unused() {
            // It is opened all the same. Those whose pages are stored can be closed.
            let _ = self.checkpointer.wait_for_images(Duration::ZERO);
        }
        let stored = self.store.filter_by_id(id)?.ok_or_else(absent)?;
        let open = self
            .filters
            .open(&stored_name(id, &stored.name)?, &self.store)?;
        open.filter(|open| open.id == id).ok_or_else(absent)
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
            self.quota.adjust(owner, target.bytes_before, bytes, None);
            // What own plans found out is no longer so.
            filter.set_futile_searches(FutileSearches::default());
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
