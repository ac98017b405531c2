//! One lane as one pod has it: a state machine without I/O, time or chance. It
//! is told what happened and says what is to be done.
//!
//! # Rules
//!
//! 1. **The fence decides.** A record is appended behind the newest one that was
//!    applied. Who leads is only a question of speed: two leaders lose time,
//!    never a record.
//! 2. **One record is in flight.** Until the log has settled it nothing else is
//!    appended.
//! 3. **Only the log settles.** A record was stored if the log says so without
//!    reserve, or if it is read. It was not if another one is read in its place.
//!    A refusal, a silence, a lost lease say nothing: the same bytes with the
//!    same fence are sent again, which can't store them twice.
//! 4. **A duplicate says nothing.** A log may remember a message id whose record
//!    it lost. The record is looked for by reading, and if it does not come, sent
//!    under another id: the fence refuses it if it is there after all.
//! 5. **Nothing is applied but what follows**: of this epoch and lane, of a
//!    level that is understood, behind exactly this position and exactly this
//!    history. Anything else stops the lane; nothing is guessed.
//! 6. **The own position is looked at** when a lease is taken, when a refusal
//!    can't be explained and whenever the log may have become another: one that
//!    was rewound or made anew does not tell by itself.
//! 7. **A plan is bound to a term.** A term ends when the lease changes, and
//!    when a record of somebody else is applied: what was planned before is
//!    refused.
//! 8. **What others have applied is in the log.** Who is told of a record that
//!    another pod has applied leads nothing before it has applied it, too. If the
//!    log ends before it, or passes over it, the lane stops: the log lost what was
//!    acknowledged, and a pod that has less must not go on in its place.

mod acknowledged;
mod events;
mod flight;
mod follow;
mod settle;

pub use events::{Attempt, Effect, Event, Plan, PlanNumber, PlanOutcome};

use super::commit_log::MessageId;
use super::record::{LaneIdentity, Record, Writer};
use crate::engine::{Halt, Position, Term};
use flight::{Flight, Settling};

/// What a program understands, and what it writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Levels {
    /// The newest level of a record that it can apply.
    pub reads: u16,
    /// The level of the records that it writes: what all pods can apply.
    pub writes: u16,
}

/// Whether this pod plans the lane's changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Leadership {
    /// Another does, or nobody.
    None,
    /// It has the lease of this revision, and makes sure of where it stands.
    Taking {
        revision: u64,
        is_verified: bool,
        is_caught_up: bool,
    },
    /// It does.
    Leading { revision: u64 },
}

/// Whether records are applied.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Condition {
    /// They are.
    Following,
    /// Those that come next were trimmed: its pod takes a snapshot.
    Behind,
    /// Never again.
    Halted(Halt),
}

/// A lane's replica.
#[derive(Debug)]
pub struct Replica {
    lane: LaneIdentity,
    writer: Writer,
    levels: Levels,
    position: Position,
    stamp_ms: u64,
    /// What the next record, and the next message, of this writer is called.
    next_number: u64,
    leadership: Leadership,
    term: u64,
    flight: Option<Flight>,
    condition: Condition,
    /// What other pods have applied, and this one has not yet; the furthest last.
    awaited: Vec<Position>,
}

impl Replica {
    /// A replica that has applied everything up to `position`, whose record was
    /// stamped `stamp_ms`. `writer` is this process's alone.
    pub fn new(
        lane: LaneIdentity,
        writer: Writer,
        levels: Levels,
        position: Position,
        stamp_ms: u64,
    ) -> Replica {
        Replica {
            lane,
            writer,
            levels,
            position,
            stamp_ms,
            next_number: 1,
            leadership: Leadership::None,
            term: 0,
            flight: None,
            condition: Condition::Following,
            awaited: Vec::new(),
        }
    }

    /// Where it stands.
    pub fn position(&self) -> Position {
        self.position
    }

    /// What plans are bound to that are made now. `None`: this pod does not
    /// lead, or a record is in flight, or another pod has more.
    pub fn term(&self) -> Option<Term> {
        let leads = matches!(self.leadership, Leadership::Leading { .. });
        let has_all = self.condition == Condition::Following && self.awaited.is_empty();
        let is_free = has_all && self.flight.is_none();
        (leads && is_free).then_some(Term(self.term))
    }

    /// Whether a record is in flight, so that what follows is not settled.
    pub fn is_in_flight(&self) -> bool {
        self.flight.is_some()
    }

    /// The furthest that another pod has applied, and this one has not yet.
    pub fn awaited(&self) -> Option<Position> {
        self.awaited.last().copied()
    }

    /// Whether it has to take another pod's state first.
    pub fn is_behind(&self) -> bool {
        self.condition == Condition::Behind
    }

    /// Why the lane stands still for good.
    pub fn halted(&self) -> Option<&Halt> {
        match &self.condition {
            Condition::Halted(halt) => Some(halt),
            Condition::Following | Condition::Behind => None,
        }
    }

    /// Takes what happened, and returns what is to be done, in this order.
    pub fn handle(&mut self, event: Event) -> Vec<Effect> {
        let mut effects = Vec::new();
        let is_halted = self.halted().is_some();
        match event {
            Event::Plan(plan) => self.plan(plan, &mut effects),
            _ if is_halted => {}
            Event::Level(writes) => self.levels.writes = writes.min(self.levels.reads),
            Event::Lease(revision) => self.lease(revision, &mut effects),
            Event::Answered {
                number,
                attempt,
                answer,
            } => self.answered(number, attempt, answer, &mut effects),
            Event::Read { records, is_all } => self.read(&records, is_all, &mut effects),
            Event::Looked { sequence, found } => self.looked(sequence, found, &mut effects),
            Event::Unfit { at, reason } => self.halt(Halt::Unfit { at, reason }, &mut effects),
            Event::Recheck => {
                self.look_at_position(&mut effects);
                effects.push(Effect::Read);
            }
            Event::Acknowledged(position) => self.acknowledged(position, &mut effects),
            Event::Missing(position) => self.lost(position, &mut effects),
        }
        effects
    }

    fn plan(&mut self, plan: Plan, effects: &mut Vec<Effect>) {
        let (plan, asked) = (plan.number, plan);
        let mut not_taken = |outcome| effects.push(Effect::Settle(plan, outcome));
        if self.term() != Some(asked.term) {
            return not_taken(PlanOutcome::NotLeading);
        }
        let record = Record {
            level: self.levels.writes,
            epoch: self.lane.epoch,
            lane: self.lane.lane,
            previous: self.position,
            writer: self.writer,
            number: self.next_number,
            stamp_ms: asked.clock_ms.max(self.stamp_ms),
            commit: asked.commit,
        };
        let Some(bytes) = record.encode() else {
            return not_taken(PlanOutcome::TooLarge);
        };
        let id = self.next_id();
        let flight = Flight {
            plan,
            record,
            bytes,
            id,
            attempt: 1,
            settling: Settling::None,
        };
        effects.push(flight.append());
        self.flight = Some(flight);
    }

    fn lease(&mut self, revision: Option<u64>, effects: &mut Vec<Effect>) {
        let Some(revision) = revision else {
            self.leadership = Leadership::None;
            return;
        };
        match self.leadership {
            Leadership::Taking { revision: held, .. } | Leadership::Leading { revision: held }
                if held == revision => {}
            _ => {
                self.leadership = Leadership::Taking {
                    revision,
                    is_verified: self.position.sequence == 0,
                    is_caught_up: false,
                };
                self.look_at_position(effects);
                effects.push(Effect::Read);
            }
        }
    }

    fn apply(&mut self, position: Position, record: Record, effects: &mut Vec<Effect>) {
        self.position = position;
        self.awaited
            .retain(|awaited| awaited.sequence > position.sequence);
        self.stamp_ms = self.stamp_ms.max(record.stamp_ms);
        effects.push(Effect::Apply { position, record });
    }

    fn next_id(&mut self) -> MessageId {
        let number = self.next_number;
        self.next_number += 1;
        MessageId {
            writer: self.writer,
            lane: self.lane.lane,
            number,
        }
    }

    fn look_at_position(&self, effects: &mut Vec<Effect>) {
        if self.position.sequence > 0 {
            effects.push(Effect::Look(self.position.sequence));
        }
    }

    fn lead_if_sure(&mut self) {
        if self.awaited.is_empty()
            && let Leadership::Taking {
                revision,
                is_verified: true,
                is_caught_up: true,
            } = self.leadership
        {
            self.leadership = Leadership::Leading { revision };
            self.term += 1;
        }
    }

    fn fall_behind(&mut self, effects: &mut Vec<Effect>) {
        self.condition = Condition::Behind;
        // What follows the position is not to be seen any more.
        self.give_up_flight(effects);
        effects.push(Effect::Restore);
    }

    fn halt(&mut self, halt: Halt, effects: &mut Vec<Effect>) {
        self.give_up_flight(effects);
        self.leadership = Leadership::None;
        self.condition = Condition::Halted(halt.clone());
        effects.push(Effect::Halt(halt));
    }

    fn give_up_flight(&mut self, effects: &mut Vec<Effect>) {
        if let Some(flight) = self.flight.take() {
            effects.push(Effect::Settle(flight.plan, PlanOutcome::Unknown));
        }
    }
}
