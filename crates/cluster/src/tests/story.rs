//! A replica over the simulated log, told step by step.

use super::simulated_log::{Fault, SimulatedLog};
use super::{LEVELS, lane};
use crate::engine::{Halt, Position};
use crate::{
    Answer, Append, Effect, Event, Plan, PlanNumber, PlanOutcome, Record, Replica, Term, Writer,
};
use bytes::Bytes;

/// A replica and what it did, over a log that answers at once, but for appends:
/// those are sent by the test, with the fault that it is about.
pub(super) struct Story {
    pub(super) replica: Replica,
    pub(super) appends: Vec<(u64, u32, Append)>,
    pub(super) applied: Vec<(Position, Record)>,
    pub(super) settled: Vec<PlanOutcome>,
    pub(super) halted: Option<Halt>,
    pub(super) wants_restore: bool,
    pub(super) plans: u64,
}

impl Story {
    pub(super) fn follower(writer: u8) -> Story {
        let origin = lane(0).origin();
        Story {
            replica: Replica::new(lane(0), Writer([writer; 16]), LEVELS, origin, 0),
            appends: Vec::new(),
            applied: Vec::new(),
            settled: Vec::new(),
            halted: None,
            wants_restore: false,
            plans: 0,
        }
    }

    pub(super) fn leader(writer: u8, log: &SimulatedLog) -> Story {
        let mut story = Story::follower(writer);
        story.handle(log, Event::Lease(Some(1)));
        assert!(story.replica.term().is_some());
        story
    }

    pub(super) fn handle(&mut self, log: &SimulatedLog, event: Event) {
        let mut events = vec![event];
        while let Some(event) = events.pop() {
            for effect in self.replica.handle(event) {
                match effect {
                    Effect::Append(it) => self.appends.push((it.number, it.attempt, it.append)),
                    Effect::Read => events.push(self.all_of(log)),
                    Effect::Look(sequence) => events.push(Event::Looked {
                        sequence,
                        found: log.look(0, sequence),
                    }),
                    Effect::Apply { position, record } => self.applied.push((position, record)),
                    Effect::Settle(_, outcome) => self.settled.push(outcome),
                    Effect::Restore => self.wants_restore = true,
                    Effect::Halt(halt) => self.halted = Some(halt),
                }
            }
        }
    }

    pub(super) fn all_of(&self, log: &SimulatedLog) -> Event {
        let after = self.replica.position().sequence;
        let (records, is_all) = log.read(0, after, 0, usize::MAX - 1);
        Event::Read { records, is_all }
    }

    pub(super) fn read(&mut self, log: &SimulatedLog) {
        let event = self.all_of(log);
        self.handle(log, event);
    }

    pub(super) fn plan(&mut self, log: &SimulatedLog, commit: &'static str) {
        self.plans += 1;
        let term = self.replica.term().unwrap();
        self.plan_in(log, term, self.plans, commit);
    }

    /// A plan with a number of its own, which began in a term that may be over.
    pub(super) fn plan_in(
        &mut self,
        log: &SimulatedLog,
        term: Term,
        number: u64,
        commit: impl Into<Bytes>,
    ) {
        let plan = Plan {
            number: PlanNumber(number),
            term,
            clock_ms: 0,
            commit: commit.into(),
        };
        self.handle(log, Event::Plan(plan));
    }

    /// The newest append arrives at the log, and the answer at the replica.
    pub(super) fn send(&mut self, log: &mut SimulatedLog, fault: Fault) {
        let (number, attempt, append) = self.appends.pop().expect("something to send");
        let answer = log.append(0, &append, fault);
        self.answered(log, (number, attempt), answer);
    }

    /// The log's answer to an attempt to append a record arrives.
    pub(super) fn answered(
        &mut self,
        log: &SimulatedLog,
        (number, attempt): (u64, u32),
        answer: Answer,
    ) {
        let event = Event::Answered {
            number,
            attempt,
            answer,
        };
        self.handle(log, event);
    }

    pub(super) fn commit(&mut self, log: &mut SimulatedLog, commit: &'static str) {
        self.plan(log, commit);
        self.send(log, Fault::None);
    }

    pub(super) fn commits(&self) -> Vec<&[u8]> {
        self.applied.iter().map(|it| it.1.commit.as_ref()).collect()
    }
}

pub(super) fn is_committed(outcome: Option<&PlanOutcome>) -> bool {
    matches!(outcome, Some(PlanOutcome::Committed(_)))
}

/// An empty log, and who leads the lane over it.
pub(super) fn led() -> (SimulatedLog, Story) {
    let log = SimulatedLog::default();
    let leader = Story::leader(1, &log);
    (log, leader)
}

/// What the log holds of the lane.
pub(super) fn commits(log: &SimulatedLog) -> Vec<Bytes> {
    let records = log.past_of(0).map(|it| Record::decode(&it.bytes).unwrap());
    records.map(|it| it.commit).collect()
}
