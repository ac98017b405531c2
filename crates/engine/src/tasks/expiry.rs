//! Removes what has ended: filters, and what was recorded beside commits.
//!
//! It is gone for all callers before that; see [`ttl`]. A bounded number of due
//! filters at a time is removed, each by a command in its lane that says what
//! time it is.

use crate::caller::SERVER;
use crate::clock::ClockState;
use crate::error::{EngineError, Result};
use crate::filters::stored_name;
use crate::lane::command::{Command, Outcome};
use crate::state::EngineState;
use crate::store::{Due, SideRecordKey};
use crate::threads::repeat;
use crate::ttl;
use crossbeam_channel::Receiver;
use std::ops::ControlFlow;
use std::sync::Weak;
use std::time::{Duration, Instant};

/// How often the list of what ends is looked at.
const LOOK_EVERY: Duration = Duration::from_millis(500);

/// The list is read from where the last look ended, because what was removed
/// costs the store time until it is tidied up; but from so much earlier, since
/// a commit may come late, and from its start every now and then, since the
/// clock may have been put back.
const LATE_MS: u64 = 60_000;
const LOOK_AT_ALL_EVERY: Duration = Duration::from_secs(600);

/// What is removed before a pause. Answers for retries go by one write, and end
/// as fast as changes come.
const DUE_AT_ONCE: usize = 4096;
const FILTERS_AT_ONCE: usize = 256;

/// Pause between two full rounds, so that removing many leaves the lanes to
/// others.
const PAUSE: Duration = Duration::from_millis(5);

/// Removes what has ended until the engine stops.
pub(crate) fn run(state: &Weak<EngineState>, stop: &Receiver<()>) {
    let (mut from_ms, mut looked_at_all) = (0, Instant::now());
    let (mut damaged, mut staying) = (0, 0);
    repeat(state, stop, LOOK_EVERY, |state| {
        if looked_at_all.elapsed() >= LOOK_AT_ALL_EVERY {
            (from_ms, looked_at_all) = (0, Instant::now());
        }
        look_at_clock(state);
        if !state.disk.takes_writes() {
            return ControlFlow::Continue(LOOK_EVERY);
        }
        let now_ms = state.clock.now_ms();
        match remove_due(state, from_ms, now_ms, staying) {
            Ok(looked) => {
                // What was damaged before has been said.
                if let Some(error) = &looked.error
                    && looked.damaged > damaged
                {
                    tracing::error!(%error, damaged = looked.damaged, "some of what has ended can't be removed, because it is damaged; the rest is");
                }
                // All that stays is found by the next look again.
                (damaged, staying) = (looked.damaged, looked.damaged + looked.others);
                if !looked.is_through {
                    return ControlFlow::Continue(PAUSE);
                }
                from_ms = now_ms.saturating_sub(LATE_MS);
            }
            Err(EngineError::Stopping) => return ControlFlow::Break(()),
            Err(error) => {
                tracing::warn!(%error, "what has ended could not be removed; it is tried again");
            }
        }
        ControlFlow::Continue(LOOK_EVERY)
    });
}

/// Looks at the clocks, and says aloud what changed.
pub(crate) fn look_at_clock(state: &EngineState) -> ClockState {
    let clock = state.clock.look();
    let ahead = clock.jump_ms.unwrap_or(0).div_ceil(1000) as i64;
    let gauge = &state.metrics.clock_jump_seconds;
    match (gauge.get(), ahead) {
        (0, 1..) => {
            state.metrics.clock_jumps.inc();
            tracing::error!(
                seconds = ahead,
                "the system's clock has jumped ahead: no filter ends by it until it is put right, or confirmed"
            );
        }
        (1.., 0) => tracing::info!("the system's clock is believed again"),
        _ => {}
    }
    gauge.set(ahead);
    clock
}

/// What came of one look at the list.
#[derive(Default)]
struct Looked {
    /// Whether all that is due was looked at.
    is_through: bool,
    /// Entries, or what they are about, that are damaged and stay.
    damaged: usize,
    /// Filters that stay as this pod has no say in their lanes, and answers that are
    /// just being asked for.
    others: usize,
    /// What is wrong with one of them.
    error: Option<EngineError>,
}

impl Looked {
    fn damaged(&mut self, error: EngineError) {
        self.damaged += 1;
        self.error = Some(error);
    }
}

/// Removes some of what is due, and looks at more by as much as stayed before.
fn remove_due(state: &EngineState, from_ms: u64, now_ms: u64, staying: usize) -> Result<Looked> {
    let most = DUE_AT_ONCE + staying;
    let due = state.store.due_entries(from_ms, now_ms, most)?;
    let sound = due.iter().filter(|due| due.is_ok()).count();
    let mut looked = Looked {
        is_through: sound < most,
        ..Looked::default()
    };
    let (mut filters, mut retries) = (0, Vec::new());
    for due in due {
        let removed = match due {
            Ok(Due::SideRecord {
                at_ms,
                key: key @ SideRecordKey::Retry(_),
            }) => {
                retries.push((at_ms, key));
                continue;
            }
            Ok(Due::Filter { .. }) if filters == FILTERS_AT_ONCE + staying => {
                looked.is_through = false;
                continue;
            }
            Ok(due) => {
                filters += usize::from(matches!(due, Due::Filter { .. }));
                remove(state, &due, now_ms)
            }
            Err(error) => Err(error.into()),
        };
        match removed {
            Ok(()) => {}
            // The pod that leads its lane does.
            Err(EngineError::NotLeading | EngineError::LaneHalted(_)) => looked.others += 1,
            Err(error) if is_damage(&error) => looked.damaged(error),
            Err(error) => return Err(error),
        }
    }
    let (asked_for, damaged) = state.idempotent_writes.forget_all_ended(retries, now_ms)?;
    looked.others += asked_for;
    for error in damaged {
        let error = EngineError::from(error);
        if !is_damage(&error) {
            return Err(error);
        }
        looked.damaged(error);
    }
    Ok(looked)
}

/// Whether it says that stored bytes are damaged, which waiting does not mend.
fn is_damage(error: &EngineError) -> bool {
    matches!(error, EngineError::Store(error) if error.is_of_the_bytes())
}

/// Removes what an entry is about, if it has ended.
fn remove(state: &EngineState, due: &Due, now_ms: u64) -> Result {
    match due {
        Due::SideRecord { key, .. } => {
            if !state.imports.forget_ended(key, now_ms)? {
                state.store.forget_due(due)?;
            }
        }
        &Due::Filter { id, .. } => {
            let stored = state.store.filter_by_id(id)?;
            let Some(stored) = stored.filter(|stored| ttl::has_ended(stored.expiry, now_ms)) else {
                // Its end moved, or it is gone already.
                state.store.forget_due(due)?;
                return Ok(());
            };
            let name = stored_name(id, &stored.name)?;
            let open = state.filters.open(&name, &state.store)?;
            // Another filter of that name was made in its place, if not.
            if let Some(filter) = open.filter(|filter| filter.id == id) {
                let (lanes, expire) = (&state.lanes, Command::Expire { now_ms });
                if lanes.submit_blocking(&SERVER, Some(&filter), expire)? == Outcome::Removed {
                    state.metrics.filters_expired.inc();
                }
            }
        }
    }
    Ok(())
}
