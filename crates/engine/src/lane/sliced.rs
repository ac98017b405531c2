//! A plan that takes more than one slice.
//!
//! It is planned by itself, a slice at a time, and holds its pages in between.
//! Commits to other filters come in between; changes to its own wait. So all
//! that it was planned over is still true at its end, unless its filter was
//! removed or replaced meanwhile, and then it is dropped.

use super::changes::{Encoded, Encoding, PlannedFilter};
use super::command::{Command, Outcome};
use super::items::ItemWork;
use super::queue::{Flow, Turn};
use super::request::Request;
use super::words::Missing;
use crate::chain::plan::{FutileSearches, PartialPlan, PlanStats};
use crate::filters::OpenFilter;
use crate::pages::PlanPins;
use std::sync::Arc;

/// A plan as far as it came.
pub(super) struct SlicedPlan {
    pub(super) request: Request,
    /// Whom its slices are charged to.
    pub(super) turn: Turn,
    /// The filter as it was, with the plan's chain.
    pub(super) target: PlannedFilter,
    pub(super) pins: PlanPins,
    pub(super) stage: Stage,
}

/// How far a plan came.
pub(super) enum Stage {
    /// Its items are being planned.
    Begun(Box<BegunPlan>),
    /// All of them are planned, and put in order for the record.
    Planned(Box<PlannedChanges>),
    /// It is ready to be written.
    Encoded(Encoded, PlannedAnswer),
}

/// A plan that is not finished.
pub(super) struct BegunPlan {
    pub(super) partial: PartialPlan,
    pub(super) work: ItemWork,
    pub(super) missing: Missing,
}

/// A plan whose changes are being put in order for the record.
pub(super) struct PlannedChanges {
    pub(super) encoding: Encoding,
    /// What the plan has cost.
    pub(super) spent: u64,
    pub(super) came: PlannedAnswer,
}

/// What came of a plan beside changes.
pub(super) struct PlannedAnswer {
    pub(super) outcome: Outcome,
    pub(super) stats: PlanStats,
    pub(super) futile: FutileSearches,
}

impl PlannedChanges {
    /// Encodes so many words more.
    pub(super) fn encode(mut self: Box<Self>, words: usize, command: &Command) -> Stage {
        if !self.encoding.go_on(words) {
            return Stage::Planned(self);
        }
        let (encoded, came) = self.encode_all(command);
        Stage::Encoded(encoded, came)
    }

    /// Encodes what is left.
    pub(super) fn encode_all(mut self: Box<Self>, command: &Command) -> (Encoded, PlannedAnswer) {
        self.encoding.go_on(usize::MAX);
        let is_new = matches!(command, Command::Create(_));
        (self.encoding.finish(is_new), self.came)
    }
}

impl SlicedPlan {
    /// A plan that goes on by itself. The target has its chain.
    pub(super) fn of(
        turn: Turn,
        request: Request,
        target: PlannedFilter,
        begun: BegunPlan,
        pins: PlanPins,
    ) -> Box<SlicedPlan> {
        Box::new(SlicedPlan {
            request,
            turn,
            target,
            pins,
            stage: Stage::Begun(Box::new(begun)),
        })
    }

    /// Pages that it keeps in memory, or will: new ones come when it is committed.
    pub(super) fn pages(&self) -> usize {
        let new = match &self.stage {
            Stage::Begun(begun) => self.target.new_pages(&begun.partial.overlay),
            Stage::Planned(planned) => planned.encoding.new_pages(),
            Stage::Encoded(encoded, _) => encoded.new_pages(),
        };
        self.pins.held() + new
    }

    /// Whether a command has to wait for it.
    pub(super) fn holds_up(&self, request: &Request) -> bool {
        let is_own = |filter: &Arc<OpenFilter>| filter.id == self.target.filter.id;
        request.is_long()
            || request.filter.as_ref().is_some_and(is_own)
                && matches!(Flow::of(request), Flow::Changes(_))
    }

    /// The command, to be planned anew.
    pub(super) fn into_request(self) -> (Turn, Request) {
        (self.turn, self.request)
    }
}
