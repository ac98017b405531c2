//! What `/readyz` says of the cluster.

use crate::engine::LaneState;
use cuckood_cluster::Leaders;
use parking_lot::Mutex;
use std::time::{Duration, Instant};

/// For how long a pod may be behind what another has announced.
const MAX_STALENESS: Duration = Duration::from_secs(2);

/// Whether this pod is as far as others were a moment ago.
pub struct Staleness(Mutex<Vec<Option<Ahead>>>);

/// How far another pod was in a lane, and since when that is known.
type Ahead = (u64, Instant);

impl Staleness {
    /// Of a pod with so many lanes, as far as it knows the only one.
    pub(crate) fn new(lanes: usize) -> Staleness {
        Staleness(Mutex::new(vec![None; lanes]))
    }

    /// Takes in how far this pod is, and another one, lane by lane.
    pub fn update(&self, own: &[u64], others: &[u64], now: Instant) {
        let lanes = own.iter().zip(others);
        for (known, (&own, &other)) in self.0.lock().iter_mut().zip(lanes) {
            // What was not reached in time stays the aim, whatever came since.
            if known.is_some_and(|(sequence, _)| own >= sequence) {
                *known = None;
            }
            if other > own && known.is_none() {
                *known = Some((other, now));
            }
        }
    }

    /// Lanes in which this pod has been behind for too long.
    pub fn lanes_behind(&self, own: &[u64], now: Instant) -> usize {
        let known = self.0.lock();
        let is_behind = |(known, &own): (&Option<Ahead>, &u64)| {
            known.is_some_and(|(sequence, since)| own < sequence && now - since > MAX_STALENESS)
        };
        known.iter().zip(own).filter(|&it| is_behind(it)).count()
    }
}

/// The lines of a pod that is ready, each for something of which people should
/// know.
///
/// # Errors
/// The pod is not ready: its answers may be old, or will never be new.
pub(crate) fn of(
    states: &[LaneState],
    leaders: &Leaders,
    staleness: &Staleness,
) -> Result<String, String> {
    let lanes = states.len();
    let own: Vec<u64> = states.iter().map(|it| it.position.sequence).collect();
    let count = |is: fn(&LaneState) -> bool| states.iter().filter(|it| is(it)).count();
    let halts: Vec<&str> = states
        .iter()
        .filter_map(|it| Some(it.halted.as_ref()?.in_short()))
        .collect();
    if let Some(first) = halts.first() {
        let also = match halts.iter().all(|it| it == first) {
            true => "",
            false => ", or for other reasons",
        };
        return Err(format!(
            "{} of {lanes} lanes have stopped, because {first}{also}; the server's log says what to do",
            halts.len()
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
    use cuckood_cluster::{Halt, HistoryHash, Position};

    fn lane(has_caught_up: bool) -> LaneState {
        LaneState {
            position: Position {
                sequence: 0,
                history: HistoryHash::of(b""),
            },
            term: None,
            is_in_flight: false,
            awaits: None,
            has_caught_up,
            is_behind: false,
            halted: None,
        }
    }

    #[test]
    fn a_pod_whose_lanes_have_stopped_says_why() {
        let (leaders, staleness) = (Leaders::of_none(3), Staleness::new(3));
        let stopped = |halt| LaneState {
            halted: Some(halt),
            ..lane(true)
        };
        let unfit = || Halt::Unfit {
            at: 7,
            reason: "of its bytes".to_owned(),
        };
        let said = |states: &[LaneState]| of(states, &leaders, &staleness).unwrap_err();
        let one = said(&[lane(true), stopped(unfit()), stopped(unfit())]);
        let words = "2 of 3 lanes have stopped, because the commit log has a record that this pod can't apply; the server's log says what to do";
        assert_eq!(one, words);
        let several = said(&[
            stopped(Halt::Forked { at: 3 }),
            stopped(unfit()),
            lane(true),
        ]);
        let words = "because this pod and the commit log differ, or for other reasons;";
        assert!(several.contains(words), "{several}");
    }

    #[test]
    fn a_pod_is_not_ready_before_it_has_applied_what_the_log_had() {
        let (leaders, staleness) = (Leaders::of_none(2), Staleness::new(2));
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
        staleness.update(&[10, 5], &[10, 9], start);
        assert_eq!(staleness.lanes_behind(&[10, 5], after(2)), 0);
        assert_eq!(staleness.lanes_behind(&[10, 8], after(3)), 1);
        // It is where the other was, who has gone on.
        staleness.update(&[10, 9], &[10, 20], after(4));
        assert_eq!(staleness.lanes_behind(&[10, 9], after(5)), 0);
        assert_eq!(staleness.lanes_behind(&[10, 9], after(7)), 1);
        assert_eq!(staleness.lanes_behind(&[10, 20], after(7)), 0);
    }
}
