//! Many random schedules, and what must hold at the end of each.
//!
//! `CUCKOOD_SCHEDULES` says how many, `CUCKOOD_SEED` where to begin: a failure
//! names its seed.

use super::pod::Pod;
use super::simulation::{LogFate, Simulation};
use crate::engine::{HistoryHash, Position};
use crate::{PlanNumber, PlanOutcome, Stored};
use std::collections::BTreeMap;

/// Things that happen in a schedule before it comes to rest.
const STEPS: usize = 400;

/// What was seen in all schedules together.
#[derive(Debug, Default)]
struct Seen {
    records: usize,
    committed: usize,
    overtaken: usize,
    not_leading: usize,
    halted: usize,
    lost: usize,
}

fn setting(name: &str, default: u64) -> u64 {
    let set = std::env::var(name).ok();
    set.map_or(default, |it| it.parse().expect("a number"))
}

fn run_all(fate: LogFate, share: u64) -> Seen {
    let schedules = setting("CUCKOOD_SCHEDULES", 100_000) / share;
    let first = setting("CUCKOOD_SEED", 1);
    println!("{fate:?}: seeds {first} to {}", first + schedules - 1);
    let mut seen = Seen::default();
    for seed in first..first + schedules {
        let outcome = std::panic::catch_unwind(|| {
            let mut simulation = Simulation::new(seed, fate);
            simulation.run(STEPS);
            let mut seen = Seen::default();
            for lane in 0..2 {
                match fate {
                    LogFate::Keeps => check_kept(&simulation, lane, &mut seen),
                    LogFate::Loses => check_lost(&simulation, lane, &mut seen),
                }
            }
            seen
        });
        let of_one = outcome.unwrap_or_else(|_| {
            panic!("{fate:?}: CUCKOOD_SEED={seed} CUCKOOD_SCHEDULES={share} shows it")
        });
        seen.add(&of_one);
    }
    println!("{fate:?}: {seen:?}");
    seen
}

impl Seen {
    fn add(&mut self, other: &Seen) {
        self.records += other.records;
        self.committed += other.committed;
        self.overtaken += other.overtaken;
        self.not_leading += other.not_leading;
        self.halted += other.halted;
        self.lost += other.lost;
    }

    fn count(&mut self, outcome: PlanOutcome) {
        match outcome {
            PlanOutcome::Committed(_) => self.committed += 1,
            PlanOutcome::Overtaken => self.overtaken += 1,
            PlanOutcome::NotLeading => self.not_leading += 1,
            PlanOutcome::TooLarge | PlanOutcome::Unknown => {}
        }
    }
}

fn lanes(simulation: &Simulation, lane: u32) -> impl Iterator<Item = &Pod> + Clone {
    simulation.pods.iter().map(move |it| &it[lane as usize])
}

/// What became of each plan of a lane.
fn outcomes(simulation: &Simulation, lane: u32) -> impl Iterator<Item = (PlanNumber, PlanOutcome)> {
    let all = simulation.outcomes.iter();
    all.filter(move |(_, (of, _))| *of == lane)
        .map(|(plan, (_, outcome))| (*plan, *outcome))
}

fn position_of(stored: &Stored) -> Position {
    Position {
        sequence: stored.sequence,
        history: HistoryHash::of(&stored.bytes),
    }
}

/// A log that keeps what it stored loses nothing, whatever the pods do.
fn check_kept(simulation: &Simulation, lane: u32, seen: &mut Seen) {
    let past: Vec<Position> = simulation.log.past_of(lane).map(position_of).collect();
    seen.records += past.len();
    let mut stored: BTreeMap<PlanNumber, Position> = BTreeMap::new();
    for pod in lanes(simulation, lane) {
        assert_eq!(pod.halted(), None);
        assert!(!pod.replica.is_behind() && !pod.replica.is_in_flight());
        let positions: Vec<Position> = pod.applied.iter().map(|it| it.position).collect();
        assert_eq!(positions, past, "lane {lane}: all pods have all records");
        stored.clear();
        for it in &pod.applied {
            let before = stored.insert(it.plan(), it.position);
            assert_eq!(before, None, "a plan was stored twice");
        }
    }
    for (plan, outcome) in outcomes(simulation, lane) {
        seen.count(outcome);
        let position = stored.get(&plan);
        match outcome {
            PlanOutcome::Committed(committed) => assert_eq!(position, Some(&committed), "{plan:?}"),
            PlanOutcome::Overtaken | PlanOutcome::NotLeading | PlanOutcome::TooLarge => {
                assert_eq!(position, None, "{plan:?} {outcome:?}");
            }
            PlanOutcome::Unknown => {}
        }
    }
}

/// What a log lost is noticed: pods that go on have the same history, which is
/// the log's, and nothing that was acknowledged is missing in it unless a pod
/// stopped, or who had it lost it, too.
fn check_lost(simulation: &Simulation, lane: u32, seen: &mut Seen) {
    let past: Vec<Position> = simulation.log.past_of(lane).map(position_of).collect();
    seen.records += past.len();
    // Nor does a pod go on that waits for a state that nobody has.
    let goes_on = |it: &&Pod| it.halted().is_none() && !it.replica.is_behind();
    let mut living = lanes(simulation, lane).filter(goes_on);
    let halted = lanes(simulation, lane).count() - living.clone().count();
    seen.halted += halted;
    let first = living.next();
    for other in living {
        let first = first.unwrap();
        assert_eq!(other.replica.position(), first.replica.position());
        assert_eq!(other.applied, first.applied, "pods that go on have forked");
    }
    for pod in lanes(simulation, lane).filter(goes_on) {
        for other in lanes(simulation, lane) {
            let position = other.replica.position();
            assert!(pod.has(position), "it goes on without {position:?}");
        }
    }
    let applied: &[_] = first.map_or(&[], |it| &it.applied);
    if let Some(newest) = applied.last() {
        assert!(past.contains(&newest.position), "nobody else has it");
    }
    let kept: BTreeMap<PlanNumber, Position> =
        applied.iter().map(|it| (it.plan(), it.position)).collect();
    for (plan, outcome) in outcomes(simulation, lane) {
        seen.count(outcome);
        if let PlanOutcome::Committed(position) = outcome
            && kept.get(&plan) != Some(&position)
        {
            seen.lost += 1;
            // Whoever had it may have forgotten it, and reads what is there.
            let is_forgotten = simulation.forgotten.contains(&plan);
            assert!(
                halted > 0 || is_forgotten,
                "{plan:?} is missing, and nobody noticed"
            );
        }
    }
}

#[test]
fn a_log_that_keeps_what_it_stored_loses_no_acknowledged_change_and_never_forks() {
    let seen = run_all(LogFate::Keeps, 1);
    // Schedules in which nothing happens would prove nothing.
    assert!(seen.committed > 100 && seen.overtaken > 10 && seen.not_leading > 10);
}

#[test]
fn no_loss_of_a_log_goes_unnoticed() {
    let seen = run_all(LogFate::Loses, 2);
    assert!(seen.committed > 100 && seen.halted > 10 && seen.lost > 10);
}
