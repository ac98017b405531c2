//! How much may be in the queues of the lanes until it is answered, in all and of each
//! API key.

use crate::caller::Caller;
use crate::error::{EngineError, Overload, Result};
use crate::metrics::Metrics;
use crate::share::{Kind, Permit, Resource, UsedUp};
use std::sync::Arc;

/// The bounds of all lanes. Callers without a key have no shares.
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
            let bound = bound.max(1) as u64;
            Resource::new(name, Kind::Lent, bound, share_percent, metrics)
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
    /// [`EngineError::Overloaded`], [`EngineError::OverShare`].
    pub(super) fn take(&self, lane: usize, caller: &Caller, items: usize) -> Result<QueuePlace> {
        let lane = self.0.get(lane).ok_or(EngineError::Stopping)?;
        let by = caller.claimant();
        let refused = |overload: Overload, what| {
            move |used_up| match used_up {
                UsedUp::All { .. } => overload.into(),
                _ => EngineError::OverShare { what, used_up },
            }
        };
        let commands = lane.commands.try_take(by.as_ref(), 1);
        let commands = commands.map_err(refused(
            Overload::QueuedCommands,
            "changes that wait to be written",
        ))?;
        // One that is larger than all may be is alone.
        let items = (items as u64).min(lane.items.bound());
        let items = lane.items.try_take(by.as_ref(), items);
        let items = items.map_err(refused(
            Overload::QueuedItems,
            "items that wait to be written",
        ))?;
        Ok([commands, items])
    }
}
