//! What is read from the log: rules 5 and 7.

use super::events::{Effect, PlanOutcome};
use super::flight::Settling;
use super::{Condition, Leadership, Replica};
use crate::commit_log::Stored;
use crate::engine::{Halt, HistoryHash, Position};
use crate::record::Record;

impl Replica {
    pub(super) fn read(&mut self, records: &[Stored], is_all: bool, effects: &mut Vec<Effect>) {
        for stored in records {
            if self.condition != Condition::Following {
                return;
            }
            self.follow(stored, effects);
        }
        if self.condition != Condition::Following || !is_all {
            return;
        }
        if let Some(awaited) = self.awaited() {
            effects.push(Effect::Look(awaited.sequence));
        }
        if let Leadership::Taking { is_caught_up, .. } = &mut self.leadership {
            *is_caught_up = true;
        }
        self.lead_if_sure();
        match self.flight.as_mut() {
            Some(flight) if flight.settling == Settling::Unanswered => effects.push(flight.again()),
            // What refused it is not to be seen: the log may have been rewound.
            Some(flight) if flight.settling == Settling::Refused => {
                if self.position.sequence == 0 {
                    effects.push(flight.again());
                } else {
                    flight.settling = Settling::LookingBack;
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
                let reason = error.to_string();
                return self.halt(Halt::Unreadable { at, reason }, effects);
            }
        };
        if let Some(halt) = self.refusal(stored.sequence, &record) {
            return self.halt(halt, effects);
        }
        if record.previous.sequence > at.sequence {
            return self.fall_behind(effects);
        }
        if record.previous != at {
            return self.halt(Halt::Forked { at: at.sequence }, effects);
        }
        let position = Position::new(stored.sequence, history);
        if let Some(lost) = self.passes_over(position) {
            return self.lost(lost, effects);
        }
        if let Some(flight) = &self.flight {
            if flight.bytes == stored.bytes {
                return self.settle_own(stored.sequence, effects);
            }
            let plan = flight.plan;
            self.flight = None;
            effects.push(Effect::Settle(plan, PlanOutcome::Overtaken));
        }
        // What this pod has planned was planned without it.
        self.term += 1;
        if let Leadership::Taking { is_verified, .. } = &mut self.leadership {
            *is_verified = true;
        }
        self.apply(position, record, effects);
    }

    /// Why a record can't be applied here whatever its position: it is of another lane,
    /// or of a newer level.
    fn refusal(&self, at: u64, record: &Record) -> Option<Halt> {
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
}
