//! Adding and deleting items.

use crate::answer::{AddOptions, AddResult};
use crate::batch::ItemBatch;
use crate::error::{EngineError, Result};
use crate::filters::OpenFilter;
use crate::idempotency::guard::{Answered, IdempotencyKey, SideRecorder};
use crate::idempotency::response::StoredResponse;
use crate::lane::command::{Command, ItemChange, ItemOp, ItemResult, ItemStep, Outcome, ReplyWith};
use crate::lane::submit::hash_items;
use crate::name::FilterName;
use crate::ops::create::NewWithItems;
use crate::ops::values::{check_deletes, check_no_values};
use crate::state::{Engine, EngineState};
use std::sync::Arc;

impl Engine {
    /// Adds items; all of them or, if an error is returned, none. One result
    /// an item, in order.
    ///
    /// With a key it is done once, however often it is asked for: then it is
    /// answered as it was the first time, for as long as the first key says. Answers
    /// to what failed are not kept.
    ///
    /// # Errors
    /// [`EngineError::NotFound`] without [`AddOptions::create`];
    /// [`EngineError::OutcomeUnknown`] if the commit failed. With a key also
    /// [`EngineError::RetryInFlight`] while the first is on its way,
    /// [`EngineError::RetryConflict`] if that was another request,
    /// [`EngineError::RetryFilterGone`] if its filter has been deleted since,
    /// [`EngineError::RetriesFull`] if no more answers can be kept.
    pub async fn add(
        &self,
        name: &FilterName,
        items: &ItemBatch,
        options: &AddOptions,
        key: Option<IdempotencyKey>,
    ) -> Result<Answered<Vec<AddResult>>> {
        let state = &self.state;
        let add = |recorder: Option<SideRecorder>| async move {
            let wanted = options.create.as_ref();
            let checked = wanted.map(|it| self.check_new(it)).transpose()?;
            let wanted = wanted.zip(checked.as_ref());
            loop {
                let filter = self.state.open(&self.caller, name).await?;
                let outcome = match (filter, wanted) {
                    (Some(filter), _) => {
                        check_no_values(filter.view.load().chain.params())?;
                        state.quota.check_growth(filter.owner.as_ref())?;
                        let change = ItemChange::Add(options.mode);
                        self.change_items(&filter, items, change, recorder.as_ref())
                            .await?
                    }
                    (None, Some((wanted, checked))) => {
                        let new = self.resolve_new(wanted, checked).await?;
                        check_no_values(&new.params)?;
                        let new = NewWithItems {
                            filter: &new,
                            items,
                            mode: options.mode,
                            reply_with: ReplyWith::Results,
                        };
                        // Seldom, and larger than all else that this future holds.
                        Box::pin(self.create(name, new, recorder.as_ref())).await?
                    }
                    (None, None) => return Err(EngineError::NotFound { name: name.clone() }),
                };
                if let Outcome::Added(results) | Outcome::Created(results, _) = outcome {
                    state.count_added(&results);
                    return Ok(results);
                }
            }
        };
        let bytes = StoredResponse::most_bytes(items.len());
        self.once(name, key, bytes, StoredResponse::added, add)
            .await
    }

    /// Deletes one copy of each item; all or, if an error is returned, none.
    /// `false`: the item was not found.
    ///
    /// Deleting what was never added may take another item's fingerprint,
    /// which is a false negative from then on.
    ///
    /// # Errors
    /// [`EngineError::NotFound`]; [`EngineError::OutcomeUnknown`] if the
    /// commit failed; those of a key, see [`Engine::add`].
    pub async fn delete(
        &self,
        name: &FilterName,
        items: &ItemBatch,
        key: Option<IdempotencyKey>,
    ) -> Result<Answered<Vec<bool>>> {
        let state = &self.state;
        let delete = |recorder: Option<SideRecorder>| async move {
            loop {
                let filter = self.find(name).await?;
                check_deletes(filter.view.load().chain.params())?;
                let change = ItemChange::Delete;
                let deleted = self.change_items(&filter, items, change, recorder.as_ref());
                if let Outcome::Deleted(results) = deleted.await? {
                    state.count_deleted(&results);
                    return Ok(results);
                }
            }
        };
        let bytes = StoredResponse::most_bytes(items.len());
        self.once(name, key, bytes, StoredResponse::deleted, delete)
            .await
    }

    /// Does one thing after another with items of a filter, in one commit with
    /// nobody in between: a question among them sees what was done before it.
    /// Each step is for the next so many items. One result an item, in order;
    /// all of it or, if an error is returned, nothing.
    ///
    /// # Errors
    /// [`EngineError::NotFound`]; [`EngineError::OutcomeUnknown`] if the commit
    /// failed.
    pub async fn work_in_steps(
        &self,
        name: &FilterName,
        steps: &Arc<[ItemStep]>,
        items: &ItemBatch,
    ) -> Result<Vec<ItemResult>> {
        let (state, term) = (&self.state, self.state.term(name));
        let has = |wanted: fn(ItemOp) -> bool| steps.iter().any(|step| wanted(step.op));
        let adds = has(|op| matches!(op, ItemOp::Add(_)));
        let deletes = has(|op| op == ItemOp::Delete);
        let worked = async {
            loop {
                let filter = self.find(name).await?;
                if deletes {
                    check_deletes(filter.view.load().chain.params())?;
                }
                if adds {
                    check_no_values(filter.view.load().chain.params())?;
                    state.quota.check_growth(filter.owner.as_ref())?;
                }
                let change = ItemChange::Steps(Arc::clone(steps));
                let worked = self.change_items(&filter, items, change, None);
                if let Outcome::Stepped(results) = worked.await? {
                    state.count_stepped(&results);
                    return Ok(results);
                }
            }
        };
        self.confirmed(name, term, worked.await).await
    }

    /// Has the lane of a filter change items, as of now.
    pub(super) async fn change_items(
        &self,
        filter: &Arc<OpenFilter>,
        items: &ItemBatch,
        change: ItemChange,
        recorder: Option<&SideRecorder>,
    ) -> Result<Outcome> {
        let (Engine { state, caller, .. }, now_ms) = (self, self.state.clock.now_ms());
        let hashes = hash_items(caller, &filter.view.load_full().chain, items).await?;
        let command = Command::Items(change, hashes, now_ms);
        state.lanes.submit(caller, filter, command, recorder).await
    }
}

impl EngineState {
    /// Counts what became of the items of steps.
    fn count_stepped(&self, results: &[ItemResult]) {
        let (mut added, mut deleted, mut found) = (Vec::new(), Vec::new(), Vec::new());
        for result in results {
            match result {
                ItemResult::Added(it) => added.push(*it),
                ItemResult::Deleted(it) => deleted.push(*it),
                ItemResult::Found(it) => found.push(*it),
                ItemResult::Counted(_) => {}
            }
        }
        let counted = results.len() - added.len() - deleted.len() - found.len();
        self.count_items("count", "answered", counted);
        self.count_added(&added);
        self.count_deleted(&deleted);
        self.count_found(&found);
    }

    /// Counts what became of added items.
    pub(super) fn count_added(&self, results: &[AddResult]) {
        let (mut added, mut refreshed, mut exists, mut full) = (0, 0, 0, 0);
        for result in results {
            match result {
                AddResult::Added => added += 1,
                AddResult::Refreshed => refreshed += 1,
                AddResult::Exists => exists += 1,
                AddResult::Full(_) => full += 1,
            }
        }
        self.count_items("add", "added", added);
        self.count_items("add", "refreshed", refreshed);
        self.count_items("add", "exists", exists);
        self.count_items("add", "full", full);
    }

    /// Counts what became of deletes.
    pub(super) fn count_deleted(&self, results: &[bool]) {
        let deleted = results.iter().filter(|&&deleted| deleted).count();
        self.count_items("delete", "deleted", deleted);
        self.count_items("delete", "absent", results.len() - deleted);
    }
}
