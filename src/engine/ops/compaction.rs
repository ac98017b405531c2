//! Compacting a filter because it was asked for.

use crate::engine::compactions::Compaction;
use crate::engine::error::EngineError;
use crate::engine::idempotency::guard::{Answered, Begun, IdempotencyKey};
use crate::engine::idempotency::recorder::SideRecorder;
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
        let state = &self.state;
        let most_bytes = StoredResponse::COMPACTION_BYTES;
        let begun = state
            .idempotent_writes
            .begin(key, most_bytes, |it| match it {
                StoredResponse::CompactionBegun(closed) => Some(closed),
                _ => None,
            });
        let recorder = match begun.await? {
            Begun::Replayed(answered) => return Ok(answered),
            Begun::New(guard) => guard.map(SideRecorder::Response),
        };
        loop {
            let filter = state.find(name).await?;
            let begun = state.begin_compaction(filter, true, recorder.as_ref());
            if let Some(closed) = begun.await? {
                return Ok(Answered::now(closed));
            }
        }
    }

    /// The compaction of a filter that runs, or that ended last since the
    /// engine was opened.
    ///
    /// # Errors
    /// [`EngineError::NotFound`]; [`EngineError::CompactionNotFound`] if there
    /// was none.
    pub async fn compaction(&self, name: &FilterName) -> Result<Compaction, EngineError> {
        let filter = self.state.find(name).await?;
        let found = self.state.compactions.of(filter.id);
        found.ok_or(EngineError::CompactionNotFound)
    }
}
