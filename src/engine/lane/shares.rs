//! What each API key may have in the queues of the lanes, until it is answered.

use crate::engine::caller::Caller;
use crate::engine::error::EngineError;
use crate::metrics::Metrics;
use crate::share::{Kind, Permit, Resource};
use std::sync::Arc;

/// The shares of all lanes. Callers without a key have none: the bounds of the
/// queues hold for all together.
pub(crate) struct QueueShares(Vec<LaneShares>);

struct LaneShares {
    commands: Resource<Arc<str>>,
    items: Resource<Arc<str>>,
}

/// What a command has of the queue of its lane.
pub(super) type QueuePlace = [Permit<Arc<str>>; 2];

impl QueueShares {
    /// For so many lanes, each with a queue for so many commands and items.
    pub(crate) fn new(
        lanes: usize,
        max_commands: usize,
        max_items: usize,
        share_percent: u8,
        metrics: &Metrics,
    ) -> QueueShares {
        let of = |name, bound: usize| {
            Resource::new(name, Kind::Lent, bound as u64, share_percent, metrics)
        };
        let lane = |_| LaneShares {
            commands: of("queued_commands", max_commands),
            items: of("queued_items", max_items),
        };
        QueueShares((0..lanes).map(lane).collect())
    }

    /// Takes a place for a command with so many items.
    ///
    /// # Errors
    /// [`EngineError::OverShare`].
    pub(super) fn take(
        &self,
        lane: usize,
        caller: &Caller,
        items: usize,
    ) -> Result<Option<QueuePlace>, EngineError> {
        let (Some(by), Some(lane)) = (caller.claimant(), self.0.get(lane)) else {
            return Ok(None);
        };
        let refused = |what| move |used_up| EngineError::OverShare { what, used_up };
        let commands = lane.commands.try_take(Some(&by), 1);
        let commands = commands.map_err(refused("changes that wait to be written"))?;
        // One that is larger than all may be is alone.
        let items = (items as u64).min(lane.items.bound());
        let items = lane.items.try_take(Some(&by), items);
        let items = items.map_err(refused("items that wait to be written"))?;
        Ok(Some([commands, items]))
    }
}
