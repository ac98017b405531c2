//! What `/readyz` says of the cluster.

use crate::engine::LaneState;
use crate::replication::Leaders;
use parking_lot::Mutex;
use std::time::{Duration, Instant};

/// For how long a pod may be behind what another has announced.
const MAX_STALENESS: Duration = Duration::from_secs(2);

/// Whether this pod is as far as others were a moment ago.
pub struct Staleness(Mutex<Vec<Option<Ahead>>>);

/// How far another pod was in a lane, and since when that is known.
#[derive(Clone, Copy)]
struct Ahead {
    sequence: u64,
    since: Instant,
}

impl Staleness {
    /// Of a pod with so many lanes, as far as it knows the only one.
    pub(super) fn new(lanes: usize) -> Staleness {
        Staleness(Mutex::new(vec![None; lanes]))
    }

    /// Notes how far this pod is, and another one, lane by lane.
    pub fn note(&self, own: &[u64], others: &[u64], now: Instant) {
        let lanes = own.iter().zip(others);
        for (known, (&own, &other)) in self.0.lock().iter_mut().zip(lanes) {
            // What was not reached in time stays the aim, whatever came since.
            if known.is_some_and(|it| own >= it.sequence) {
                *known = None;
            }
            if other > own && known.is_none() {
                *known = Some(Ahead {
                    sequence: other,
                    since: now,
                });
            }
        }
    }

    /// Lanes in which this pod has been behind for too long.
    pub fn lanes_behind(&self, own: &[u64], now: Instant) -> usize {
        let known = self.0.lock();
        let is_behind = |(known, &own): (&Option<Ahead>, &u64)| {
            known.is_some_and(|it| own < it.sequence && now - it.since > MAX_STALENESS)
        };
        known.iter().zip(own).filter(|&it| is_behind(it)).count()
    }
}

/// The lines of a pod that is ready, each for something of which people should
/// know.
///
/// # Errors
/// The pod is not ready: its answers may be old, or will never be new.
pub(super) fn of(
    states: &[LaneState],
    leaders: &Leaders,
    staleness: &Staleness,
) -> Result<String, String> {
    let lanes = states.len();
    let own: Vec<u64> = states.iter().map(|it| it.position.sequence).collect();
    let count = |is: fn(&LaneState) -> bool| states.iter().filter(|it| is(it)).count();
    let halted = count(|it| it.halted.is_some());
    if halted > 0 {
        return Err(format!(
            "{halted} of {lanes} lanes have stopped, because this pod and the commit log differ; the server's log says what to do"
        ));
    }
    let lacking = count(|it| it.is_behind);
    if lacking > 0 {
        return Err(format!(
            "{lacking} of {lanes} lanes lack records that the commit log no longer has: the pod needs the state of another one"
        ));
    }
    let catching_up = count(|it| !it.has_caught_up);
    if catching_up > 0 {
        return Err(format!(
            "{catching_up} of {lanes} lanes have not applied yet what the commit log had when this pod started"
        ));
    }
    let behind = staleness.lanes_behind(&own, Instant::now());
    if behind > 0 {
        return Err(format!(
            "{behind} of {lanes} lanes are behind other pods for more than {} seconds",
            MAX_STALENESS.as_secs()
        ));
    }
    let mut said = String::new();
    let unknown = leaders.unknown();
    if unknown > 0 {
        said += &format!(
            "no_leader: {unknown} of {lanes} lanes have no leader that this pod knows; changes there are answered 503 until they have\n"
        );
    }
    let unsettled = count(|it| it.is_in_flight);
    if unsettled > 0 {
        said += &format!(
            "log_silent: the commit log has not settled the last change of {unsettled} of {lanes} lanes\n"
        );
    }
    Ok(said)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::replication::{HistoryHash, Position};

    #[test]
    fn a_pod_is_not_ready_before_it_has_applied_what_the_log_had() {
        let (leaders, staleness) = (Leaders::of_none(2), Staleness::new(2));
        let lane = |has_caught_up| LaneState {
            position: Position {
                sequence: 0,
                history: HistoryHash::of(b""),
            },
            reign: None,
            is_in_flight: false,
            awaits: None,
            has_caught_up,
            is_behind: false,
            halted: None,
        };
        let said = of(&[lane(true), lane(false)], &leaders, &staleness).unwrap_err();
        assert!(said.starts_with("1 of 2 lanes have not applied"), "{said}");
        let said = of(&[lane(true), lane(true)], &leaders, &staleness).unwrap();
        assert!(said.starts_with("no_leader: 2 of 2"), "{said}");
    }

    #[test]
    fn a_pod_is_behind_if_it_has_not_reached_in_time_what_another_had() {
        let start = Instant::now();
        let after = |seconds| start + Duration::from_secs(seconds);
        let staleness = Staleness::new(2);
        staleness.note(&[10, 5], &[10, 9], start);
        assert_eq!(staleness.lanes_behind(&[10, 5], after(2)), 0);
        assert_eq!(staleness.lanes_behind(&[10, 8], after(3)), 1);
        // It is where the other was, who has gone on.
        staleness.note(&[10, 9], &[10, 20], after(4));
        assert_eq!(staleness.lanes_behind(&[10, 9], after(5)), 0);
        assert_eq!(staleness.lanes_behind(&[10, 9], after(7)), 1);
        assert_eq!(staleness.lanes_behind(&[10, 20], after(7)), 0);
    }
}
