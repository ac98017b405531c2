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
//! 4. **A duplicate is looked at.** A log may remember a message id whose record
//!    it lost. If the record is not there, it is sent under another id.
//! 5. **Nothing is applied but what follows**: of this epoch and lane, of a
//!    level that is understood, behind exactly this position and exactly this
//!    history. Anything else stops the lane; nothing is guessed.
//! 6. **The own position is looked at** when a lease is taken, when a refusal
//!    can't be explained and whenever the log is in doubt: a log that was
//!    rewound or made anew does not tell by itself.
//! 7. **A plan is bound to a reign.** A reign ends when the lease changes, and
//!    when a record of somebody else is applied: what was planned before is
//!    refused.

mod events;
mod flight;

pub use events::{Effect, Event, Halt, Outcome, Plan, PlanNumber, Reign};

use super::commit_log::{Answer, Found, MessageId, Stored};
use super::record::{HistoryHash, LaneIdentity, Position, Record, Writer};
use flight::{Doubt, Flight};

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
    /// Those that come next were trimmed: it takes a snapshot.
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
    reign: u64,
    flight: Option<Flight>,
    condition: Condition,
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
            reign: 0,
            flight: None,
            condition: Condition::Following,
        }
    }

    /// Where it stands.
    pub fn position(&self) -> Position {
        self.position
    }

    /// The time of the newest record that was applied.
    pub fn stamp_ms(&self) -> u64 {
        self.stamp_ms
    }

    /// What plans are bound to that are made now. `None`: this pod does not
    /// lead, or a record is in flight.
    pub fn reign(&self) -> Option<Reign> {
        let leads = matches!(self.leadership, Leadership::Leading { .. });
        let is_free = self.condition == Condition::Following && self.flight.is_none();
        (leads && is_free).then_some(Reign(self.reign))
    }

    /// Whether a record is in flight, so that what follows is not settled.
    pub fn is_in_flight(&self) -> bool {
        self.flight.is_some()
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
            Event::Lease(revision) => self.lease(revision, &mut effects),
            Event::Answered {
                number,
                attempt,
                answer,
            } => self.answered(number, attempt, answer, &mut effects),
            Event::Read { records, is_all } => self.read(&records, is_all, &mut effects),
            Event::Looked { sequence, found } => self.looked(sequence, found, &mut effects),
            Event::InDoubt => self.look_at_position(&mut effects),
            Event::Restored {
                position,
                stamp_ms,
                holds_mine,
            } => self.restored(position, stamp_ms, holds_mine, &mut effects),
        }
        effects
    }

    fn plan(&mut self, plan: Plan, effects: &mut Vec<Effect>) {
        let Plan {
            number: plan,
            reign,
            clock_ms,
            commit,
        } = plan;
        let mut not_taken = |outcome| effects.push(Effect::Settle { plan, outcome });
        if self.reign() != Some(reign) {
            return not_taken(Outcome::NotLeading);
        }
        let record = Record {
            level: self.levels.writes,
            epoch: self.lane.epoch,
            lane: self.lane.lane,
            previous: self.position,
            writer: self.writer,
            number: self.next_number,
            stamp_ms: clock_ms.max(self.stamp_ms),
            commit,
        };
        let Some(bytes) = record.encode() else {
            return not_taken(Outcome::TooLarge);
        };
        let id = self.next_id();
        let flight = Flight::new(plan, record, bytes, id);
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

    fn answered(&mut self, number: u64, attempt: u32, answer: Answer, effects: &mut Vec<Effect>) {
        let at = self.position.sequence;
        let Some(flight) = self.flight.as_mut() else {
            return;
        };
        if flight.record.number != number {
            return;
        }
        // A record that is there is there, whichever attempt the answer is to.
        // What is no answer counts once for each.
        let is_awaited = flight.attempt == attempt && flight.doubt == Doubt::None;
        match answer {
            Answer::Stored {
                sequence,
                is_duplicate: false,
            } if sequence > at => self.settle_own(sequence, effects),
            Answer::Stored {
                sequence,
                is_duplicate: true,
            } if sequence > at => {
                flight.doubt = Doubt::Claimed(sequence);
                effects.push(Effect::Look(sequence));
            }
            Answer::Stored { .. } => self.send_under_another_id(effects),
            Answer::Refused if is_awaited => {
                flight.doubt = Doubt::Refused;
                effects.push(Effect::Read);
            }
            Answer::Unknown if is_awaited => {
                flight.doubt = Doubt::Unanswered;
                effects.push(Effect::Read);
            }
            Answer::Refused | Answer::Unknown => {}
        }
    }

    fn read(&mut self, records: &[Stored], is_all: bool, effects: &mut Vec<Effect>) {
        for stored in records {
            if self.condition != Condition::Following {
                return;
            }
            self.follow(stored, effects);
        }
        if self.condition != Condition::Following || !is_all {
            return;
        }
        if let Leadership::Taking { is_caught_up, .. } = &mut self.leadership {
            *is_caught_up = true;
        }
        self.lead_if_sure();
        match self.flight.as_mut() {
            Some(flight) if flight.doubt == Doubt::Unanswered => effects.push(flight.again()),
            // What refused it is not to be seen: the log may have been rewound.
            Some(flight) if flight.doubt == Doubt::Refused => {
                if self.position.sequence == 0 {
                    effects.push(flight.again());
                } else {
                    flight.doubt = Doubt::LookingBack;
                    self.look_at_position(effects);
                }
            }
            _ => {}
        }
    }

    /// Applies a record, if it follows.
    fn follow(&mut self, stored: &Stored, effects: &mut Vec<Effect>) {
        let at = self.position;
        if stored.sequence < at.sequence {
            return;
        }
        let history = HistoryHash::of(&stored.bytes);
        if stored.sequence == at.sequence {
            if history != at.history {
                self.halt(Halt::Forked { at: at.sequence }, effects);
            }
            return;
        }
        let record = match Record::decode(&stored.bytes) {
            Ok(record) => record,
            Err(error) => {
                let at = stored.sequence;
                return self.halt(Halt::Unreadable { at, error }, effects);
            }
        };
        if let Some(halt) = self.stranger(stored.sequence, &record) {
            return self.halt(halt, effects);
        }
        if record.previous.sequence > at.sequence {
            return self.fall_behind(effects);
        }
        if record.previous != at {
            return self.halt(Halt::Forked { at: at.sequence }, effects);
        }
        if let Some(flight) = &self.flight {
            if flight.bytes == stored.bytes {
                return self.settle_own(stored.sequence, effects);
            }
            let plan = flight.plan;
            self.flight = None;
            effects.push(Effect::Settle {
                plan,
                outcome: Outcome::Overtaken,
            });
        }
        // What this pod has planned was planned without it.
        self.reign += 1;
        if let Leadership::Taking { is_verified, .. } = &mut self.leadership {
            *is_verified = true;
        }
        let position = Position {
            sequence: stored.sequence,
            history,
        };
        self.apply(position, record, effects);
    }

    /// Why a record is not of this lane, or not for this program.
    fn stranger(&self, at: u64, record: &Record) -> Option<Halt> {
        if (record.epoch, record.lane) != (self.lane.epoch, self.lane.lane) {
            return Some(Halt::Foreign {
                at,
                epoch: record.epoch,
                lane: record.lane,
            });
        }
        (record.level > self.levels.reads).then_some(Halt::NewerLevel {
            at,
            level: record.level,
            reads: self.levels.reads,
        })
    }

    fn looked(&mut self, sequence: u64, found: Found, effects: &mut Vec<Effect>) {
        let claimed = Doubt::Claimed(sequence);
        match &self.flight {
            Some(flight) if flight.doubt == claimed => match found {
                Found::Record(bytes) if bytes == flight.bytes => {
                    self.settle_own(sequence, effects);
                }
                Found::Unsure => effects.push(Effect::Look(sequence)),
                Found::Record(_) | Found::Absent { .. } => self.send_under_another_id(effects),
            },
            _ if sequence == self.position.sequence => self.looked_at_position(found, effects),
            _ => {}
        }
    }

    fn looked_at_position(&mut self, found: Found, effects: &mut Vec<Effect>) {
        let Position { sequence, history } = self.position;
        match found {
            Found::Record(bytes) if HistoryHash::of(&bytes) == history => {}
            Found::Record(_) => return self.halt(Halt::Forked { at: sequence }, effects),
            Found::Absent { newest } if newest < sequence => {
                let at = sequence;
                return self.halt(Halt::Rewound { at, newest }, effects);
            }
            // It was trimmed: then there are others behind it, and what they
            // follow is checked as they are read.
            Found::Absent { .. } => effects.push(Effect::Read),
            Found::Unsure => return effects.push(Effect::Look(sequence)),
        }
        if let Leadership::Taking { is_verified, .. } = &mut self.leadership {
            *is_verified = true;
        }
        self.lead_if_sure();
        if let Some(flight) = &mut self.flight
            && flight.doubt == Doubt::LookingBack
        {
            effects.push(flight.again());
        }
    }

    fn restored(
        &mut self,
        position: Position,
        stamp_ms: u64,
        holds_mine: bool,
        effects: &mut Vec<Effect>,
    ) {
        // A state that is no further leads no further: it waits for another.
        if self.condition != Condition::Behind || position.sequence <= self.position.sequence {
            return;
        }
        if !holds_mine {
            let at = self.position.sequence;
            return self.halt(Halt::Forked { at }, effects);
        }
        self.condition = Condition::Following;
        self.position = position;
        self.stamp_ms = self.stamp_ms.max(stamp_ms);
        self.reign += 1;
        if let Leadership::Taking { .. } = self.leadership {
            self.look_at_position(effects);
        }
        effects.push(Effect::Read);
    }

    /// The record in flight is there: it is applied, and its caller answered.
    fn settle_own(&mut self, sequence: u64, effects: &mut Vec<Effect>) {
        let Some(flight) = self.flight.take() else {
            return;
        };
        let position = Position {
            sequence,
            history: HistoryHash::of(&flight.bytes),
        };
        self.apply(position, flight.record, effects);
        effects.push(Effect::Settle {
            plan: flight.plan,
            outcome: Outcome::Committed(position),
        });
    }

    fn apply(&mut self, position: Position, record: Record, effects: &mut Vec<Effect>) {
        self.position = position;
        self.stamp_ms = self.stamp_ms.max(record.stamp_ms);
        effects.push(Effect::Apply { position, record });
    }

    fn send_under_another_id(&mut self, effects: &mut Vec<Effect>) {
        let id = self.next_id();
        if let Some(flight) = &mut self.flight {
            flight.id = id;
            flight.doubt = Doubt::Refused;
            effects.push(Effect::Read);
        }
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
        if let Leadership::Taking {
            revision,
            is_verified: true,
            is_caught_up: true,
        } = self.leadership
        {
            self.leadership = Leadership::Leading { revision };
            self.reign += 1;
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
            effects.push(Effect::Settle {
                plan: flight.plan,
                outcome: Outcome::Unknown,
            });
        }
    }
}
