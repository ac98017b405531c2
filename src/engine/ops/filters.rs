//! Describing, listing and removing filters, and setting when they end.

use crate::engine::answer::{FilterInfo, FilterPage, FilterSizes};
use crate::engine::caller::Caller;
use crate::engine::error::EngineError;
use crate::engine::filters::OpenFilter;
use crate::engine::idempotency::guard::{Answered, IdempotencyKey, SideRecorder};
use crate::engine::idempotency::response::StoredResponse;
use crate::engine::lane::command::{Command, Outcome};
use crate::engine::listing::page_of;
use crate::engine::name::FilterName;
use crate::engine::state::{Engine, EngineState};
use crate::engine::ttl;
use crate::page::FilterId;
use crate::store::Expiry;
use std::sync::Arc;

impl Engine {
    /// The description of a filter.
    ///
    /// # Errors
    /// [`EngineError::NotFound`], or the store can't be read.
    pub async fn filter_info(&self, name: &FilterName) -> Result<FilterInfo, EngineError> {
        let filter = self.state.find(&self.caller, name).await?;
        let sizes = self.state.sizes(&self.caller, &filter).await?;
        Ok(describe(&filter, sizes, self.state.clock.now_ms()))
    }

    /// Whether there is a filter of that name.
    ///
    /// # Errors
    /// The store can't be read.
    pub async fn has_filter(&self, name: &FilterName) -> Result<bool, EngineError> {
        Ok(self.state.open(&self.caller, name).await?.is_some())
    }

    /// Up to `limit` filters whose names start with `prefix` and are greater
    /// than `after`, by name: fewer, where their descriptions are long. They are
    /// read and decoded off the async threads, in the caller's turn.
    ///
    /// # Errors
    /// The store can't be read.
    pub async fn list_filters(
        &self,
        prefix: &str,
        after: Option<&FilterName>,
        limit: usize,
    ) -> Result<FilterPage, EngineError> {
        let (store, now_ms) = (Arc::clone(&self.state.store), self.state.clock.now_ms());
        let (prefix, after) = (prefix.to_owned(), after.cloned());
        let turn = self.caller.turn.clone();
        let listing = move || {
            // As long as it works, also for a caller who is gone.
            let _turn = turn;
            page_of(&store, &prefix, after, limit, now_ms)
        };
        Ok(self.state.store_work.run(&self.caller, listing).await??)
    }

    /// Has a filter end so many seconds from now, or never.
    ///
    /// # Errors
    /// [`EngineError::NotFound`]; [`EngineError::InvalidParams`] for a time
    /// out of range; [`EngineError::OutcomeUnknown`] if the commit failed;
    /// those of a key, see [`Engine::add`].
    pub async fn set_ttl(
        &self,
        name: &FilterName,
        ttl_seconds: Option<u64>,
        key: Option<IdempotencyKey>,
    ) -> Result<Answered<FilterInfo>, EngineError> {
        let (state, caller) = (&self.state, &self.caller);
        let kept = |response| match response {
            StoredResponse::Filter(filter) => Some(filter.info(name)),
            _ => None,
        };
        let set = |recorder: Option<SideRecorder>| async move {
            let expiry = || ttl::expiry(ttl_seconds, state.clock.now_ms());
            state
                .set_expiry(caller, name, expiry, recorder.as_ref())
                .await
        };
        let bytes = StoredResponse::FILTER_BYTES;
        state.once(caller, name, key, bytes, kept, set).await
    }

    /// Has a filter end at that moment, in milliseconds since 1970; one that is
    /// past ends it at once.
    ///
    /// # Errors
    /// As [`set_ttl`](Self::set_ttl).
    pub async fn set_end(&self, name: &FilterName, at_ms: u64) -> Result<FilterInfo, EngineError> {
        let (state, caller, reign) = (&self.state, &self.caller, self.state.reign(name));
        let expiry = || ttl::expiry_at(at_ms, state.clock.now_ms()).map(Some);
        let set = state.set_expiry(caller, name, expiry, None).await;
        state.confirmed(caller, name, reign, set).await
    }

    /// Has a filter never end; `false`: it had no end.
    ///
    /// # Errors
    /// As [`set_ttl`](Self::set_ttl).
    pub async fn persist(&self, name: &FilterName) -> Result<bool, EngineError> {
        let (state, caller, reign) = (&self.state, &self.caller, self.state.reign(name));
        if matches!(self.end_of(name).await, Ok(None)) {
            state.confirm(caller, name, reign).await?;
            return Ok(false);
        }
        let set = state.set_expiry(caller, name, || Ok(None), None).await;
        state.confirmed(caller, name, reign, set).await?;
        Ok(true)
    }

    /// When a filter ends, in milliseconds since 1970; `None`: never.
    ///
    /// # Errors
    /// [`EngineError::NotFound`], or the store can't be read.
    pub async fn end_of(&self, name: &FilterName) -> Result<Option<u64>, EngineError> {
        let filter = self.state.find(&self.caller, name).await?;
        Ok(filter.expiry().map(|expiry| expiry.at_ms))
    }

    /// The engine's time, in milliseconds since 1970.
    pub fn now_ms(&self) -> u64 {
        self.state.clock.now_ms()
    }

    /// The same by where this pod began and the time since the machine's start alone.
    pub fn reckoned_ms(&self) -> u64 {
        self.state.clock.reckoned_ms()
    }

    /// Deletes a filter with everything in it. The cost does not depend on its
    /// size; the pages are reclaimed in the background.
    ///
    /// # Errors
    /// [`EngineError::NotFound`]; those of a key, see [`Engine::add`].
    pub async fn delete_filter(
        &self,
        name: &FilterName,
        key: Option<IdempotencyKey>,
    ) -> Result<Answered<()>, EngineError> {
        let (state, caller) = (&self.state, &self.caller);
        let kept = |response| (response == StoredResponse::Removed).then_some(());
        let remove = |recorder: Option<SideRecorder>| async move {
            loop {
                let filter = state.find(caller, name).await?;
                let removed =
                    state
                        .lanes
                        .submit(caller, &filter, Command::Remove, recorder.as_ref());
                if removed.await? != Outcome::Stale {
                    return Ok(());
                }
            }
        };
        state.once(caller, name, key, 1, kept, remove).await
    }
}

impl EngineState {
    async fn set_expiry(
        &self,
        caller: &Caller,
        name: &FilterName,
        expiry: impl Fn() -> Result<Option<Expiry>, EngineError>,
        recorder: Option<&SideRecorder>,
    ) -> Result<FilterInfo, EngineError> {
        loop {
            let filter = self.find(caller, name).await?;
            let (expiry, sizes) = (expiry()?, self.sizes(caller, &filter).await?);
            let command = Command::SetExpiry { expiry, sizes };
            let changed = self.lanes.submit(caller, &filter, command, recorder);
            if let Outcome::Described(filter) = changed.await? {
                return Ok(filter.info(name));
            }
        }
    }

    /// Bytes of a filter as it is now.
    pub(super) async fn sizes(
        &self,
        caller: &Caller,
        filter: &OpenFilter,
    ) -> Result<FilterSizes, EngineError> {
        let disk_bytes = self.disk_bytes(caller, filter.id).await?;
        let view = filter.view.load_full();
        let resident = view.tables.iter().map(|table| table.resident_bytes());
        Ok(FilterSizes {
            memory_bytes: resident.sum(),
            disk_bytes,
        })
    }

    /// Bytes of the page images of a filter in the store, an estimate.
    pub(super) async fn disk_bytes(
        &self,
        caller: &Caller,
        id: FilterId,
    ) -> Result<u64, EngineError> {
        let store = Arc::clone(&self.store);
        let estimating = move || store.approximate_page_bytes(id);
        Ok(self.store_work.run(caller, estimating).await??)
    }
}

/// Everything there is to know about a filter as of a moment, in milliseconds since
/// 1970.
pub(super) fn describe(filter: &OpenFilter, sizes: FilterSizes, now_ms: u64) -> FilterInfo {
    let view = filter.view.load_full();
    let chain = view.chain.as_of(now_ms);
    FilterInfo::of(&filter.name, &chain, filter.expiry(), sizes)
}
