//! What becomes of the record in flight: rules 3, 4 and 6.

use super::events::{Effect, PlanOutcome};
use super::flight::Settling;
use super::{Leadership, Replica};
use crate::commit_log::{Answer, Found};
use crate::engine::{Halt, HistoryHash, Position};

impl Replica {
    pub(super) fn answered(
        &mut self,
        number: u64,
        attempt: u32,
        answer: Answer,
        effects: &mut Vec<Effect>,
    ) {
        let at = self.position.sequence;
        let Some(flight) = self.flight.as_mut() else {
            return;
        };
        if flight.record.number != number {
            return;
        }
        // A record that is there is there, whichever attempt the answer is to.
        // What is no answer counts once for each.
        let is_awaited = flight.attempt == attempt && flight.settling == Settling::None;
        match answer {
            Answer::Stored {
                sequence,
                is_duplicate: false,
            } if sequence > at => self.settle_own(sequence, effects),
            Answer::Stored { .. } => self.send_under_another_id(effects),
            Answer::Refused if is_awaited => {
                flight.settling = Settling::Refused;
                effects.push(Effect::Read);
            }
            Answer::Unknown if is_awaited => {
                flight.settling = Settling::Unanswered;
                effects.push(Effect::Read);
            }
            Answer::Refused | Answer::Unknown => {}
        }
    }

    pub(super) fn looked(&mut self, sequence: u64, found: Found, effects: &mut Vec<Effect>) {
        if sequence == self.position.sequence {
            self.looked_at_position(found, effects);
        } else if let Some(awaited) = self.awaited().filter(|it| it.sequence == sequence) {
            self.looked_for_awaited(awaited, found, effects);
        } else if let Leadership::Taking {
            is_verified: false, ..
        } = self.leadership
        {
            // The record that was in flight has been found meanwhile.
            self.look_at_position(effects);
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
            && flight.settling == Settling::LookingBack
        {
            effects.push(flight.again());
        }
    }

    /// The record in flight is there: it is applied, and its caller answered.
    pub(super) fn settle_own(&mut self, sequence: u64, effects: &mut Vec<Effect>) {
        let Some(flight) = &self.flight else {
            return;
        };
        let position = Position::new(sequence, HistoryHash::of(&flight.bytes));
        if let Some(lost) = self.passes_over(position) {
            return self.lost(lost, effects);
        }
        let Some(flight) = self.flight.take() else {
            return;
        };
        self.apply(position, flight.record, effects);
        let outcome = PlanOutcome::Committed(position);
        effects.push(Effect::Settle(flight.plan, outcome));
    }

    /// Reads the log, where the record may be; if it is not, sends it under an id that
    /// the log does not know. If it is there after all, the fence refuses that.
    fn send_under_another_id(&mut self, effects: &mut Vec<Effect>) {
        let id = self.next_id();
        if let Some(flight) = &mut self.flight {
            flight.id = id;
            flight.settling = Settling::Refused;
            effects.push(Effect::Read);
        }
    }
}
