//! Compacting a filter because it was asked for.

use crate::compactions::{Cause, Compaction};
use crate::error::{EngineError, Result};
use crate::idempotency::guard::{Answered, IdempotencyKey, SideRecorder};
use crate::idempotency::response::StoredResponse;
use crate::name::FilterName;
use crate::state::Engine;

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
    ) -> Result<Answered<u32>> {
        let state = &self.state;
        let kept = |response| match response {
            StoredResponse::CompactionBegun(closed) => Some(closed),
            _ => None,
        };
        let compact = |recorder: Option<SideRecorder>| async move {
            loop {
                let filter = self.find(name).await?;
                if let Some(closed) = state
                    .begin_compaction(&self.caller, filter, Cause::AskedFor, recorder.as_ref())
                    .await?
                {
                    return Ok(closed);
                }
            }
        };
        let bytes = StoredResponse::COMPACTION_BYTES;
        self.once(name, key, bytes, kept, compact).await
    }

    /// The compaction of a filter that runs, or that ended last since the
    /// engine was opened.
    ///
    /// # Errors
    /// [`EngineError::NotFound`]; [`EngineError::CompactionNotFound`] if there
    /// was none.
    pub async fn compaction(&self, name: &FilterName) -> Result<Compaction> {
        let filter = self.find(name).await?;
        let found = self.state.compactions.of(filter.id);
        found.ok_or(EngineError::CompactionNotFound)
    }
}
