//! Compacting a filter because it was asked for.

use crate::engine::compactions::{Cause, Compaction};
use crate::engine::error::EngineError;
use crate::engine::idempotency::guard::{Answered, IdempotencyKey, SideRecorder};
use crate::engine::idempotency::response::StoredResponse;
use crate::engine::name::FilterName;
use crate::engine::state::Engine;

impl Engine {
    /// Has a filter compacted, and says how many of its sub-filters are to be
    /// emptied: as many of the newest as the others have room for, which may
    /// be none. It is done in the background; [`Engine::compaction`] tells how
    /// far it is.
    ///
    /// # Errors
    /// [`EngineError::NotFound`]; [`EngineError::CompactionRunning`]; those of
    /// a key, see [`Engine::add`].
    pub async fn compact(
        &self,
        name: &FilterName,
        key: Option<IdempotencyKey>,
    ) -> Result<Answered<u32>, EngineError> {
        let (state, caller) = (&self.state, &self.caller);
        let kept = |response| match response {
            StoredResponse::CompactionBegun(closed) => Some(closed),
            _ => None,
        };
        let compact = |recorder: Option<SideRecorder>| async move {
            loop {
                let filter = state.find(caller, name).await?;
                if let Some(closed) = state
                    .begin_compaction(caller, filter, Cause::AskedFor, recorder.as_ref())
                    .await?
                {
                    return Ok(closed);
                }
            }
        };
        let bytes = StoredResponse::COMPACTION_BYTES;
        state.once(caller, name, key, bytes, kept, compact).await
    }

    /// The compaction of a filter that runs, or that ended last since the
    /// engine was opened.
    ///
    /// # Errors
    /// [`EngineError::NotFound`]; [`EngineError::CompactionNotFound`] if there
    /// was none.
    pub async fn compaction(&self, name: &FilterName) -> Result<Compaction, EngineError> {
        let filter = self.state.find(&self.caller, name).await?;
        let found = self.state.compactions.of(filter.id);
        found.ok_or(EngineError::CompactionNotFound)
    }
}
