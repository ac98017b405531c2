//! Commands that have a commit of their own: filters come, go, end at another
//! time, are described, and begin and end a compaction.

use super::changes::{Encoded, PlannedFilter};
use super::command::{Adopt, Command, CompactStep, Create, Outcome, PagesToStage, Replaced};
use super::commit::{Indeterminate, Lane, PlannedCommit};
use super::request::{Answer, Request};
use crate::answer::FilterSizes;
use crate::chain::meta::{Chain, FilterVersion};
use crate::chain::plan::PlanStats;
use crate::error::EngineError;
use crate::filters::OpenFilter;
use crate::idempotency::response::{Origin, StoredFilterInfo};
use crate::page::FilterId;
use crate::pages::PageTable;
use crate::store::{Expiry, FilterChange, Garbage, SideRecordChange, SideRecordKey, StoreError};
use crate::ttl::has_ended;
use std::sync::Arc;

impl Lane {
    /// Works on a command that is not planned together with others.
    pub(super) fn work_alone(&self, request: Request) -> Option<Indeterminate> {
        let filter = match request.command.clone() {
            Command::Adopt(adopt) => return self.adopt(request, adopt),
            Command::Stage(stage) => return self.stage(request, stage),
            Command::GiveUp(id) => return self.give_up(request, id),
            Command::Barrier(_) => return self.barrier(request),
            _ => request.filter.clone(),
        };
        let Some(filter) = filter.filter(|it| self.filters.is_current(it)) else {
            return request.refuse(Ok(Outcome::Stale));
        };
        match request.command {
            Command::Remove => self.remove(request, &filter),
            Command::Expire { now_ms } => match has_ended(filter.expiry(), now_ms) {
                true => self.remove(request, &filter),
                false => request.refuse(Ok(Outcome::NotDue)),
            },
            Command::SetExpiry {
                known,
                expiry,
                sizes,
            } if known == filter.expiry() => {
                let described = describe(&filter, expiry, sizes);
                let mut planned = PlannedCommit::of(request, described, &filter);
                let change = expire(filter.id, filter.expiry(), expiry);
                planned.filter_changes.push(change);
                self.commit(planned, |_, _| filter.set_expiry(expiry))
            }
            Command::Describe { sizes } => {
                let described = describe(&filter, filter.expiry(), sizes);
                self.commit(PlannedCommit::of(request, described, &filter), |_, _| {})
            }
            Command::Compact(CompactStep::Begin { share }) => {
                self.begin_compaction(request, &filter, share)
            }
            Command::Compact(CompactStep::End) => self.end_compaction(request, &filter),
            // The end is another by now; or it is dealt with elsewhere. Were one of those
            // to come here, its caller would still be told that nothing was done.
            _ => request.refuse(Ok(Outcome::Stale)),
        }
    }

    /// Whether there is a place for a new filter: the one of its name that has
    /// ended, or none. The store is asked because the filter may be there but
    /// not open.
    pub(super) fn place_for(&self, create: &Create) -> Result<Option<Arc<OpenFilter>>, Answer> {
        match self.filters.open(&create.name, &self.store) {
            Ok(None) => Ok(None),
            Ok(Some(found)) if has_ended(found.expiry(), create.created_at_ms) => Ok(Some(found)),
            Ok(Some(_)) => Err(Ok(Outcome::NameTaken)),
            Err(error) => Err(Err(error.into())),
        }
    }

    /// Commits a new filter that is planned, and what is to be added to it.
    pub(super) fn commit_creation(
        &self,
        request: Request,
        create: Create,
        made: Encoded,
        outcome: Outcome,
        stats: &[PlanStats],
    ) -> Option<Indeterminate> {
        let ended = match self.place_for(&create) {
            Ok(ended) => ended,
            Err(refusal) => return request.refuse(refusal),
        };
        let (Outcome::Added(results), [filling]) = (outcome, made.changes.as_slice()) else {
            return request.refuse(Ok(Outcome::Stale));
        };
        let (filter, chain) = (Arc::clone(&filling.filter), &filling.view.chain);
        let described = StoredFilterInfo {
            origin: Origin::New,
            chain: chain.clone(),
            expiry: create.expiry,
            sizes: FilterSizes::default(),
        };
        let mut filter_changes: Vec<FilterChange> = ended.iter().flat_map(removal).collect();
        filter_changes.push(FilterChange::Create {
            id: create.id,
            name: create.name.as_str().to_owned(),
            meta: chain.encode(),
        });
        filter_changes.extend(first_expiry(&filter));
        filter_changes.extend(filter.ownership());
        let planned = PlannedCommit {
            answers: vec![(request, Outcome::Created(results, Box::new(described)))],
            encoded: made,
            filter_changes,
            touched: ended.iter().cloned().collect(),
            created: Some((create.id, create.name)),
            ..PlannedCommit::default()
        };
        self.commit(planned, |changes, reservation| {
            self.record(stats, create.items.len(), changes);
            if let Some(ended) = ended {
                self.forget(&ended);
                self.metrics.filters_expired.inc();
            }
            let bytes = filter.view.load().chain.slot_bytes();
            let owner = filter.owner.as_ref();
            self.quota.adjust(owner, 0, bytes, reservation);
            self.filters.insert(filter, None);
        })
    }

    /// Has all pods take pages of a filter that has no name yet.
    fn stage(&self, request: Request, stage: PagesToStage) -> Option<Indeterminate> {
        let Some(shared) = &self.shared else {
            return request.refuse(Ok(Outcome::Stale));
        };
        let id = match stage.id {
            None => shared.claim_next(&stage.name, &stage.claim),
            Some(id) => match self.is_staged(id) {
                Ok(()) => id,
                Err(refusal) => return request.refuse(Err(refusal)),
            },
        };
        let planned = PlannedCommit {
            answers: vec![(request, Outcome::Staged(id))],
            filter_changes: vec![FilterChange::Stage {
                id,
                pages: stage.pages,
            }],
            ..PlannedCommit::default()
        };
        self.commit(planned, |_, _| {})
    }

    /// # Errors
    /// [`EngineError::NotLeading`]: another pod has led since, and has given the
    /// filter up.
    fn is_staged(&self, id: FilterId) -> Result<(), EngineError> {
        match self.store.is_staged(id)? {
            true => Ok(()),
            false => Err(EngineError::NotLeading),
        }
    }

    /// Has all pods remove the pages of a filter that gets no name.
    fn give_up(&self, request: Request, id: FilterId) -> Option<Indeterminate> {
        if let Err(refusal) = self.is_staged(id) {
            return request.refuse(Err(refusal));
        }
        let planned = PlannedCommit {
            answers: vec![(request, Outcome::GivenUp)],
            filter_changes: vec![FilterChange::GiveUp { id }],
            ..PlannedCommit::default()
        };
        self.commit(planned, |_, _| {
            self.checkpointer.reclaim_soon([Garbage::Filter(id)]);
        })
    }

    /// Gives a staged filter its name, and with it the place of another.
    fn adopt(&self, request: Request, adopt: Adopt) -> Option<Indeterminate> {
        if self.shared.is_some()
            && let Err(refusal) = self.is_staged(adopt.id)
        {
            return request.refuse(Err(refusal));
        }
        let found = match self.filters.open(&adopt.name, &self.store) {
            Ok(found) => found,
            Err(error) => return request.refuse(Err(error.into())),
        };
        let refused = match (&found, &adopt.replaces) {
            (None, None) => None,
            (Some(found), None) if has_ended(found.expiry(), adopt.now_ms) => None,
            (Some(_), None) => Some(Outcome::NameTaken),
            (Some(found), Some(replaced)) if is_as_wanted(found, replaced) => None,
            (_, Some(_)) => Some(Outcome::Stale),
        };
        if let Some(refused) = refused {
            return request.refuse(Ok(refused));
        }
        // What takes a place ends when the one before would have, and is whose
        // that was.
        let (expiry, owner) = match (&found, &adopt.replaces) {
            (Some(found), Some(_)) => (found.expiry(), found.owner.clone()),
            _ => (None, request.caller.key.clone()),
        };
        let filter = Arc::new(OpenFilter::new(
            adopt.id,
            adopt.name.clone(),
            Chain::clone(&adopt.chain),
            expiry,
            owner,
        ));
        let mut side_records = Vec::new();
        if let (Some(found), Some(succession)) = (&found, adopt.succession) {
            match self.imports_handed_on(found.id, adopt.id, adopt.now_ms) {
                Ok(imports) => side_records = imports,
                Err(error) => return request.refuse(Err(error.into())),
            }
            side_records.push(succession);
        }
        let mut filter_changes: Vec<FilterChange> = found.iter().flat_map(removal).collect();
        filter_changes.push(FilterChange::Restore {
            id: adopt.id,
            name: adopt.name.as_str().to_owned(),
            meta: adopt.chain.encode(),
            reclaimed: vec![Garbage::Filter(adopt.id)],
        });
        filter_changes.extend(first_expiry(&filter));
        filter_changes.extend(filter.ownership());
        let described = StoredFilterInfo {
            origin: Origin::New,
            chain: Chain::clone(&adopt.chain),
            expiry,
            sizes: adopt.sizes,
        };
        let planned = PlannedCommit {
            answers: vec![(request, Outcome::Adopted(Box::new(described)))],
            filter_changes,
            touched: found.iter().cloned().collect(),
            created: Some((adopt.id, adopt.name)),
            side_records,
            ..PlannedCommit::default()
        };
        self.commit(planned, |_, reservation| {
            if let Some(found) = &found {
                let bytes = found.view.load().chain.slot_bytes();
                self.quota.adjust(found.owner.as_ref(), bytes, 0, None);
            }
            let (owner, bytes) = (filter.owner.as_ref(), adopt.chain.slot_bytes());
            self.quota.adjust(owner, 0, bytes, reservation);
            self.filters.insert(filter, found.as_deref());
            let garbage = found.map(|found| Garbage::Filter(found.id));
            self.checkpointer.reclaim_soon(garbage);
        })
    }

    /// What is kept of imports into a filter becomes that of imports into another.
    fn imports_handed_on(
        &self,
        from: FilterId,
        to: FilterId,
        now_ms: u64,
    ) -> Result<Vec<SideRecordChange>, StoreError> {
        let kept = self.store.imports(from, "", usize::MAX)?.into_iter();
        let kept = kept.filter(|(_, record)| record.ends_at_ms > now_ms);
        let change = |filter, import: &str, before, after| SideRecordChange {
            key: SideRecordKey::Import {
                filter,
                import: import.to_owned(),
            },
            before,
            after,
        };
        let moved = kept.flat_map(|(import, record)| {
            let gone = change(from, &import, Some(record.clone()), None);
            [gone, change(to, &import, None, Some(record))]
        });
        Ok(moved.collect())
    }

    fn remove(&self, request: Request, filter: &Arc<OpenFilter>) -> Option<Indeterminate> {
        let mut planned = PlannedCommit::of(request, Outcome::Removed, filter);
        planned.filter_changes.extend(removal(filter));
        self.commit(planned, |_, _| self.forget(filter))
    }

    /// Forgets a filter whose removal is committed.
    fn forget(&self, filter: &OpenFilter) {
        let bytes = filter.view.load().chain.slot_bytes();
        self.quota.adjust(filter.owner.as_ref(), bytes, 0, None);
        self.filters.remove(filter);
        let garbage = [Garbage::Filter(filter.id)];
        self.checkpointer.reclaim_soon(garbage);
    }

    fn begin_compaction(
        &self,
        request: Request,
        filter: &Arc<OpenFilter>,
        share: f64,
    ) -> Option<Indeterminate> {
        let mut planned = PlannedFilter::of(filter);
        let chain = &mut planned.chain;
        let closed = match chain.is_compacting() {
            // A restart interrupted it.
            true => chain.sub_filter_count() - chain.open(),
            false => chain.begin_compaction(share),
        };
        let answers = vec![(request, Outcome::CompactionBegun(closed as u32))];
        let encoded = Encoded::of(planned, self.clock.now_ms());
        self.commit_planned(answers, encoded, |changes| self.record(&[], 0, changes))
    }

    fn end_compaction(&self, request: Request, filter: &Arc<OpenFilter>) -> Option<Indeterminate> {
        let mut planned = PlannedFilter::of(filter);
        let dropped = planned.chain.end_compaction();
        planned.dropped = dropped.clone();
        let left = planned.chain.sub_filter_count();
        let gone: Vec<Arc<PageTable>> = planned.view.tables.iter().skip(left).cloned().collect();
        let answers = vec![(request, Outcome::CompactionEnded(dropped.len()))];
        let encoded = Encoded::of(planned, self.clock.now_ms());
        self.commit_planned(answers, encoded, |changes| {
            self.record(&[], 0, changes);
            for table in gone {
                table.mark_dropped();
            }
            let dropped = dropped.into_iter();
            let garbage = dropped.map(|it| Garbage::SubFilter(filter.id, it));
            self.checkpointer.reclaim_soon(garbage);
        })
    }
}

/// What takes a filter away.
fn removal(filter: &Arc<OpenFilter>) -> impl Iterator<Item = FilterChange> + use<> {
    let expiry = filter.expiry();
    let expiry = expiry.map(|expiry| expire(filter.id, Some(expiry), None));
    let removed = FilterChange::Remove {
        id: filter.id,
        name: filter.name.as_str().to_owned(),
    };
    expiry.into_iter().chain([removed])
}

/// What has a new filter end, if it does.
fn first_expiry(filter: &OpenFilter) -> Option<FilterChange> {
    let expiry = filter.expiry();
    expiry.map(|expiry| expire(filter.id, None, Some(expiry)))
}

/// Has a filter end at another moment, or not by itself any more.
fn expire(id: FilterId, before: Option<Expiry>, after: Option<Expiry>) -> FilterChange {
    FilterChange::Expire { id, before, after }
}

/// A filter as it is published, but for its end.
fn describe(filter: &OpenFilter, expiry: Option<Expiry>, sizes: FilterSizes) -> Outcome {
    Outcome::Described(Box::new(StoredFilterInfo {
        origin: Origin::Existing,
        chain: filter.view.load().chain.clone(),
        expiry,
        sizes,
    }))
}

/// Whether a filter is the one that is to be replaced.
fn is_as_wanted(found: &OpenFilter, replaced: &Replaced) -> bool {
    let is_unchanged = |version: &FilterVersion| found.version() == *version;
    found.id == replaced.id && replaced.version.as_ref().is_none_or(is_unchanged)
}
