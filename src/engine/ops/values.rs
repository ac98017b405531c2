//! Values of items: added, deleted, and asked for.

use crate::chain::paged::values::ValueCopies;
use crate::chain::params::FilterParams;
use crate::engine::answer::{AddMode, AddResult};
use crate::engine::batch::ItemBatch;
use crate::engine::caller::Caller;
use crate::engine::error::EngineError;
use crate::engine::filters::OpenFilter;
use crate::engine::idempotency::guard::{Answered, IdempotencyKey, SideRecorder};
use crate::engine::idempotency::response::StoredResponse;
use crate::engine::lane::command::{Command, Outcome, ValueOp};
use crate::engine::lane::submit::hash_items;
use crate::engine::name::FilterName;
use crate::engine::reader::{HasValue, Values};
use crate::engine::state::{Engine, EngineState};
use std::sync::Arc;

/// Most values that one answer may list.
pub const MAX_LISTED_VALUES: usize = 1 << 20;

/// Items whose values are listed before it is counted how many these are.
const ITEMS_AT_ONCE: usize = 256;

/// Items with a value each, at the same position.
#[derive(Clone, Copy)]
pub struct Entries<'a> {
    /// The items.
    pub items: &'a ItemBatch,
    /// A value of each.
    pub values: &'a Arc<[u32]>,
}

impl Engine {
    /// Adds a value to each item; all of them or, if an error is returned, none.
    /// One result an entry, in order. With a key as [`Engine::add`].
    ///
    /// # Errors
    /// [`EngineError::NotForThisFilter`], [`EngineError::ValueTooLarge`], and those
    /// of [`Engine::add`].
    pub async fn add_values(
        &self,
        name: &FilterName,
        entries: Entries<'_>,
        mode: AddMode,
        key: Option<IdempotencyKey>,
    ) -> Result<Answered<Vec<AddResult>>, EngineError> {
        let (state, caller) = (&self.state, &self.caller);
        let add = |recorder: Option<SideRecorder>| async move {
            loop {
                let filter = state.find(caller, name).await?;
                state.quota.check_growth(filter.owner.as_ref())?;
                let op = ValueOp::Add(mode);
                let added = state.change_values(caller, &filter, op, entries, recorder.as_ref());
                if let Outcome::Added(results) = added.await? {
                    state.count_added(&results);
                    return Ok(results);
                }
            }
        };
        let most_bytes = StoredResponse::most_bytes(entries.items.len());
        state
            .once(caller, name, key, most_bytes, StoredResponse::added, add)
            .await
    }

    /// Deletes one copy of the value of each item; all or, if an error is
    /// returned, none. `false`: the item was not found with the value.
    ///
    /// Deleting what was never added may take another item's value, which is a
    /// false negative from then on.
    ///
    /// # Errors
    /// [`EngineError::NotForThisFilter`], [`EngineError::ValueTooLarge`], and those
    /// of [`Engine::delete`].
    pub async fn delete_values(
        &self,
        name: &FilterName,
        entries: Entries<'_>,
        key: Option<IdempotencyKey>,
    ) -> Result<Answered<Vec<bool>>, EngineError> {
        let (state, caller) = (&self.state, &self.caller);
        let delete = |recorder: Option<SideRecorder>| async move {
            loop {
                let filter = state.find(caller, name).await?;
                let op = ValueOp::Delete;
                let deleted = state.change_values(caller, &filter, op, entries, recorder.as_ref());
                if let Outcome::Deleted(results) = deleted.await? {
                    state.count_deleted(&results);
                    return Ok(results);
                }
            }
        };
        let most_bytes = StoredResponse::most_bytes(entries.items.len());
        state
            .once(
                caller,
                name,
                key,
                most_bytes,
                StoredResponse::deleted,
                delete,
            )
            .await
    }

    /// Whether each item has its value. "No" is right.
    ///
    /// # Errors
    /// [`EngineError::NotForThisFilter`], [`EngineError::ValueTooLarge`], and those
    /// of [`Engine::exists`].
    pub async fn has_values(
        &self,
        name: &FilterName,
        entries: Entries<'_>,
    ) -> Result<Vec<bool>, EngineError> {
        let question = HasValue::of(entries.values);
        let (state, items) = (&self.state, entries.items);
        let results = state.ask(&self.caller, name, items, question).await?;
        state.count_found(&results);
        Ok(results)
    }

    /// The values of each item, ascending, each once. None is missing; some of
    /// other items may be there.
    ///
    /// # Errors
    /// [`EngineError::NotForThisFilter`]; [`EngineError::TooManyValues`] if they
    /// are more than [`MAX_LISTED_VALUES`]; those of [`Engine::exists`].
    pub async fn values(
        &self,
        name: &FilterName,
        items: &ItemBatch,
    ) -> Result<Vec<Vec<ValueCopies>>, EngineError> {
        let mut listed = Vec::with_capacity(items.len());
        let mut values = 0;
        loop {
            // As all questions of many items, see `reader::ask`.
            if !listed.is_empty() {
                tokio::task::yield_now().await;
                self.caller.check()?;
            }
            let mut some = ItemBatch::new();
            let rest = listed.len()..items.len();
            for item in rest.take(ITEMS_AT_ONCE).filter_map(|at| items.get(at)) {
                some.push(item);
            }
            let answers = self.state.ask(&self.caller, name, &some, Values).await?;
            values += answers.iter().map(Vec::len).sum::<usize>();
            if values > MAX_LISTED_VALUES {
                let bound = MAX_LISTED_VALUES;
                return Err(EngineError::TooManyValues { bound });
            }
            listed.extend(answers);
            if listed.len() == items.len() {
                self.state.count_items("values", "answered", listed.len());
                return Ok(listed);
            }
        }
    }
}

impl EngineState {
    /// Has the lane of a filter change values.
    pub(super) async fn change_values(
        &self,
        caller: &Caller,
        filter: &Arc<OpenFilter>,
        op: ValueOp,
        entries: Entries<'_>,
        recorder: Option<&SideRecorder>,
    ) -> Result<Outcome, EngineError> {
        check_values(filter, entries.values)?;
        let chain = &filter.view.load_full().chain;
        let items = hash_items(caller, chain, entries.items).await?;
        let command = Command::Values(op, items, Arc::clone(entries.values));
        self.lanes.submit(caller, filter, command, recorder).await
    }
}

/// # Errors
/// The filter has no values, or one of these does not fit.
pub(super) fn check_values(filter: &OpenFilter, values: &[u32]) -> Result<(), EngineError> {
    let value_bits = filter.view.load().chain.params().value_bits();
    if value_bits == 0 {
        return Err(EngineError::NotForThisFilter { value_bits });
    }
    let too_large = |&(_, &value): &(usize, &u32)| value >> value_bits != 0;
    match values.iter().enumerate().find(too_large) {
        None => Ok(()),
        Some((position, &value)) => Err(EngineError::ValueTooLarge {
            position,
            value,
            value_bits,
        }),
    }
}

/// # Errors
/// The filter has values, so that an item alone can't be added or deleted.
pub(super) fn check_no_values(params: &FilterParams) -> Result<(), EngineError> {
    match params.value_bits() {
        0 => Ok(()),
        value_bits => Err(EngineError::NotForThisFilter { value_bits }),
    }
}

/// # Errors
/// The filter has values; or its items expire, so that an entry may be that of
/// several items.
pub(super) fn check_deletes(params: &FilterParams) -> Result<(), EngineError> {
    check_no_values(params)?;
    match params.window() {
        Some(_) => Err(EngineError::ItemsExpire),
        None => Ok(()),
    }
}
