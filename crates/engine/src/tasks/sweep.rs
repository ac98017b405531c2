//! Clears what has expired on pages that nobody writes to.
//!
//! No answer depends on it: entries that have expired are not found, and their
//! slots are free for others as soon as their page is written to. But a filter that
//! is seldom written to would keep its size. So of the open filters those are
//! swept of which much has expired, or which have become sparse, some pages at a
//! time, each time by a command in the filter's lane that says what time it is.

use crate::caller::SERVER;
use crate::chain::meta::{Chain, Table};
use crate::error::{EngineError, Result};
use crate::filters::OpenFilter;
use crate::lane::command::{Command, Outcome};
use crate::page::FilterId;
use crate::state::EngineState;
use crate::threads::repeat;
use crossbeam_channel::{Receiver, RecvTimeoutError};
use std::collections::HashMap;
use std::ops::ControlFlow;
use std::sync::{Arc, Weak};
use std::time::Duration;

/// How often the open filters are looked at.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// Pages that one command sweeps: each of them is looked at, and none of them is
/// split meanwhile.
const PAGES: u32 = 8;

/// Pause between two commands, so that sweeping leaves the lanes to others.
const PAUSE: Duration = Duration::from_millis(2);

/// Commands for one filter while others wait for their turn.
const TURN: usize = 64;

/// A filter is swept while more than one in so many of its entries has expired.
const EXPIRED_SHARE: u64 = 16;

/// Sweeps until the engine stops.
pub(crate) fn run(state: &Weak<EngineState>, stop: &Receiver<()>) {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .build();
    let runtime = match runtime {
        Ok(runtime) => runtime,
        Err(error) => return tracing::error!(%error, "what has expired can't be cleared"),
    };
    let mut next: HashMap<FilterId, u32> = HashMap::new();
    repeat(state, stop, LOOK_EVERY, |state| {
        let now_ms = state.clock.now_ms();
        let due = state
            .filters
            .those(|filter| is_due(&filter.view.load().chain, now_ms));
        next.retain(|id, _| due.iter().any(|filter| filter.id == *id));
        for filter in due {
            let from = next.entry(filter.id).or_default();
            for _ in 0..TURN {
                match runtime.block_on(sweep(state, &filter, *from)) {
                    Ok(Some(page)) => *from = page,
                    Ok(None) => {
                        *from = 0;
                        break;
                    }
                    Err(EngineError::Stopping) => return ControlFlow::Break(()),
                    Err(error) => {
                        // It is swept again.
                        tracing::debug!(%error, "a filter could not be swept");
                        break;
                    }
                }
                if stop.recv_timeout(PAUSE) != Err(RecvTimeoutError::Timeout) {
                    return ControlFlow::Break(());
                }
            }
        }
        ControlFlow::Continue(LOOK_EVERY)
    });
}

/// Whether much of a filter has expired by then and is still there, or whether it
/// has become sparse.
fn is_due(chain: &Chain, now_ms: u64) -> bool {
    if chain.params().window().is_none() {
        return false;
    }
    let chain = chain.as_of(now_ms);
    let has_expired = |table: &Table| EXPIRED_SHARE * table.expired() > table.occupied;
    let is_due = |table: &Table| has_expired(table) || table.due_merge().is_some();
    chain.table().is_some_and(is_due)
}

/// Sweeps some pages. Returns the one to go on with; `None` at the end, or if the
/// filter is gone.
async fn sweep(state: &EngineState, filter: &Arc<OpenFilter>, from: u32) -> Result<Option<u32>> {
    let command = Command::Sweep {
        from,
        pages: PAGES.min(state.lanes.max_pages() as u32 / 8).max(1),
        now_ms: state.clock.now_ms(),
    };
    let swept = state.lanes.submit(&SERVER, filter, command, None).await?;
    Ok(match swept {
        Outcome::Swept(swept) => {
            state.metrics.expired_entries.inc_by(swept.cleared);
            swept.next
        }
        _ => None,
    })
}
