//! Filters that end.
//!
//! When a filter ends is a fact in its stored record: computed by whoever
//! asked for it, carried in by a command, and looked at by everybody who opens
//! the filter. So it is gone for all at that moment, whatever still has to be
//! removed. The removing is done here, beside everything else: a bounded
//! number of due filters at a time, each as a command in its lane that says
//! what time it is.

use crate::chain::params::ParamsError;
use crate::engine::answer::EngineError;
use crate::engine::filters::stored_name;
use crate::engine::lane::command::{Command, Outcome};
use crate::engine::shared::Shared;
use crate::store::{Due, Expiry, PageStore, SideRecordKey, StoreError, StoredFilter};
use crossbeam_channel::{Receiver, RecvTimeoutError};
use std::sync::Weak;
use std::time::{Duration, Instant};

/// Longest time that a filter can be given, in seconds: a hundred years.
pub const MAX_TTL_SECONDS: u64 = 100 * 366 * 86_400;

/// How often the list of what ends is looked at.
const LOOK_EVERY: Duration = Duration::from_millis(500);

/// The list is read from where the last look ended, because what was removed
/// costs the store time until it is tidied up; but from so much earlier, since
/// a commit may come late, and from its start every now and then, since the
/// clock may have been put back.
const LATE_MS: u64 = 60_000;
const LOOK_AT_ALL_EVERY: Duration = Duration::from_secs(600);

/// What is removed before somebody else gets a turn.
const DUE_AT_ONCE: usize = 256;

/// Pause between two full rounds, so that removing many leaves the lanes to
/// others.
const BREATH: Duration = Duration::from_millis(5);

/// When a filter ends that is given so many seconds now.
pub(crate) fn expiry(ttl_seconds: Option<u64>, now_ms: u64) -> Result<Option<Expiry>, EngineError> {
    let Some(ttl_seconds) = ttl_seconds else {
        return Ok(None);
    };
    if !(1..=MAX_TTL_SECONDS).contains(&ttl_seconds) {
        return Err(EngineError::InvalidParams(vec![ParamsError {
            field: "ttl_seconds",
            given: ttl_seconds.to_string(),
            allowed: format!("an integer from 1 to {MAX_TTL_SECONDS}"),
        }]));
    }
    Ok(Some(Expiry {
        at_ms: now_ms.saturating_add(ttl_seconds * 1000),
        ttl_seconds,
    }))
}

/// Whether what ends then has ended.
pub(crate) fn is_over(expiry: Option<Expiry>, now_ms: u64) -> bool {
    expiry.is_some_and(|expiry| expiry.at_ms <= now_ms)
}

/// Lists filters as the store does, without those that have ended.
pub(crate) fn list_those_not_over(
    store: &PageStore,
    prefix: &str,
    after: Option<&str>,
    limit: usize,
    now_ms: u64,
) -> Result<Vec<StoredFilter>, StoreError> {
    let mut listed = Vec::new();
    let mut after = after.map(str::to_owned);
    while listed.len() < limit {
        let wanted = limit - listed.len();
        let found = store.list_filters(prefix, after.as_deref(), wanted)?;
        let is_last = found.len() < wanted;
        after = found.last().map(|filter| filter.name.clone());
        listed.extend(
            found
                .into_iter()
                .filter(|filter| !is_over(filter.expiry, now_ms)),
        );
        if is_last {
            break;
        }
    }
    Ok(listed)
}

/// Removes what has ended until the engine stops: until nothing can be sent
/// into `stop` any more.
pub(crate) fn run(shared: &Weak<Shared>, stop: &Receiver<()>) {
    let (mut pause, mut from_ms, mut looked_at_all) = (LOOK_EVERY, 0, Instant::now());
    while stop.recv_timeout(pause) == Err(RecvTimeoutError::Timeout) {
        let Some(shared) = shared.upgrade() else {
            return;
        };
        if looked_at_all.elapsed() >= LOOK_AT_ALL_EVERY {
            (from_ms, looked_at_all) = (0, Instant::now());
        }
        if !shared.disk.takes_writes() {
            pause = LOOK_EVERY;
            continue;
        }
        let now_ms = shared.clock.now_ms();
        pause = match remove_due(&shared, from_ms, now_ms) {
            Ok(DUE_AT_ONCE) => BREATH,
            Ok(_) => {
                from_ms = now_ms.saturating_sub(LATE_MS);
                LOOK_EVERY
            }
            Err(EngineError::Stopping) => return,
            Err(error) => {
                tracing::warn!(%error, "what has ended could not be removed; it is tried again");
                LOOK_EVERY
            }
        };
    }
}

/// Removes some of what is due; says how many entries were looked at.
fn remove_due(shared: &Shared, from_ms: u64, now_ms: u64) -> Result<usize, EngineError> {
    let due = shared.store.due(from_ms, now_ms, DUE_AT_ONCE)?;
    let looked_at = due.len();
    for due in due {
        match &due {
            Due::SideRecord { key, .. } => {
                let store = &*shared.store;
                let forgotten = match key {
                    SideRecordKey::Retry(_) => shared.retries.forget_ended(store, key, now_ms)?,
                    SideRecordKey::Import { .. } => {
                        shared.imports.forget_ended(store, key, now_ms)?
                    }
                };
                if !forgotten {
                    shared.store.forget_due(&due)?;
                }
            }
            &Due::Filter { id, .. } => {
                let stored = shared.store.filter_by_id(id)?;
                let Some(stored) = stored.filter(|stored| is_over(stored.expiry, now_ms)) else {
                    // Nobody is meant: its end moved, or it is gone already.
                    shared.store.forget_due(&due)?;
                    continue;
                };
                let name = stored_name(&stored)?;
                let open = shared.filters.open(&name, &shared.store)?;
                // Another filter of that name was made in its place, if not.
                if let Some(filter) = open.filter(|filter| filter.id == id) {
                    let command = Command::Expire { id, now_ms };
                    if shared.submit_blocking(command, filter)? == Outcome::Removed {
                        shared.metrics.filters_expired.inc();
                    }
                }
            }
        }
    }
    Ok(looked_at)
}
