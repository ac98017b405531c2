//! What other pods have applied: rule 8.

use super::events::Effect;
use super::{Leadership, Replica};
use crate::commit_log::Found;
use crate::engine::{Halt, HistoryHash, Position};

/// So much of what others have is kept in mind.
const MOST_AWAITED: usize = 64;

impl Replica {
    /// Another pod has applied everything up to here.
    pub(super) fn acknowledged(&mut self, position: Position, effects: &mut Vec<Effect>) {
        if position.sequence == self.position.sequence && position != self.position {
            return self.lost(position, effects);
        }
        if position.sequence <= self.position.sequence || self.awaited.contains(&position) {
            return;
        }
        // Whoever says so says it again, and is compared with once it is passed.
        if self.awaited.len() == MOST_AWAITED {
            self.awaited.pop();
        }
        self.awaited.push(position);
        self.awaited.sort_by_key(|it| it.sequence);
        // Who leads does not read by itself.
        if self.leadership != Leadership::None {
            effects.push(Effect::Read);
        }
    }

    /// Whether a record that would be applied here passes over what another pod has.
    pub(super) fn passes_over(&self, position: Position) -> Option<Position> {
        let is_passed = |it: &&Position| position.sequence >= it.sequence && position != **it;
        self.awaited.iter().find(is_passed).copied()
    }

    /// The log was read to its end, and looked at for what another pod has.
    pub(super) fn looked_for_awaited(
        &mut self,
        awaited: Position,
        found: Found,
        effects: &mut Vec<Effect>,
    ) {
        let Position { sequence, history } = awaited;
        match found {
            Found::Record(bytes) if HistoryHash::of(&bytes) != history => {
                self.lost(awaited, effects)
            }
            Found::Absent { newest } if newest < sequence => self.lost(awaited, effects),
            // It comes, or was trimmed, or is passed over: what follows the own position
            // says so.
            Found::Record(_) | Found::Absent { .. } => effects.push(Effect::Read),
            Found::Unsure => effects.push(Effect::Look(sequence)),
        }
    }

    /// The log does not have what another pod has.
    pub(super) fn lost(&mut self, acknowledged: Position, effects: &mut Vec<Effect>) {
        let halt = Halt::Lost {
            at: self.position.sequence,
            acknowledged: acknowledged.sequence,
        };
        self.halt(halt, effects);
    }
}
