//! A plan that takes more than one slice.
//!
//! It is planned by itself, a slice at a time, and holds its pages in between.
//! Commits to other filters come in between; changes to its own wait. So all
//! that it was planned over is still true at its end, unless its filter was
//! removed or replaced meanwhile, and then it is dropped.

use super::changes::PlannedFilter;
use super::command::{Command, Create, ItemOp, Outcome};
use super::commit::{InDoubt, Lane};
use super::items::{ItemWork, Pace};
use super::queue::{Flow, Turn};
use super::request::Request;
use super::units::{COMMAND_UNITS, COMMITTED_WORD, SLICE_UNITS};
use super::words::{LaneWords, Missing};
use crate::chain::meta::Chain;
use crate::chain::plan::{PartialPlan, Plan, PlanInput, Planner};
use crate::cuckoo::hash::ItemHash;
use crate::cuckoo::kick::KickSearch;
use crate::engine::error::EngineError;
use crate::engine::filters::OpenFilter;
use crate::engine::pages::DrainPins;
use std::sync::Arc;

/// Words that one plan may change: what its redo record, and the moment in
/// which it is published, are bounded by.
pub(super) const MAX_CHANGED_WORDS: usize = 1 << 20;

/// A plan as far as it came.
pub(super) struct SlicedPlan {
    request: Request,
    /// Whom its slices are charged to.
    pub(super) turn: Turn,
    /// The filter as it was, with the plan's chain.
    target: PlannedFilter,
    partial: PartialPlan,
    work: ItemWork,
    missing: Missing,
    pub(super) pins: DrainPins,
    /// What it has cost so far.
    spent: u64,
    /// Once all of it is planned.
    planned: Option<Plan>,
}

/// A plan that is not finished.
pub(super) struct BegunPlan {
    pub(super) chain: Chain,
    pub(super) partial: PartialPlan,
    pub(super) work: ItemWork,
    pub(super) missing: Missing,
}

/// How a slice ended.
pub(super) enum Sliced {
    /// There is more to do.
    More(Box<SlicedPlan>),
    /// It is answered, and this has to be settled.
    Ended(Option<InDoubt>),
}

impl SlicedPlan {
    /// A plan that goes on by itself.
    pub(super) fn of(
        turn: Turn,
        request: Request,
        target: PlannedFilter,
        begun: BegunPlan,
        pins: DrainPins,
    ) -> Box<SlicedPlan> {
        Box::new(SlicedPlan {
            request,
            turn,
            target: PlannedFilter {
                chain: begun.chain,
                ..target
            },
            spent: begun.partial.spent(),
            partial: begun.partial,
            work: begun.work,
            missing: begun.missing,
            pins,
            planned: None,
        })
    }

    /// The filter that it changes.
    pub(super) fn filter(&self) -> &Arc<OpenFilter> {
        &self.target.filter
    }

    /// Pages that it keeps in memory.
    pub(super) fn pages(&self) -> usize {
        let overlay_pages = match &self.planned {
            Some(plan) => plan.overlay.pages_from(self.target.fresh_from),
            None => self.partial.pages_from(self.target.fresh_from),
        };
        self.pins.held() + overlay_pages
    }

    /// Whether a command has to wait for it.
    pub(super) fn holds_up(&self, request: &Request) -> bool {
        let is_own = |filter: &Arc<OpenFilter>| filter.id == self.filter().id;
        request.is_long()
            || request.filter.as_ref().is_some_and(is_own)
                && matches!(Flow::of(request), Flow::Changes(_))
    }

    /// Its answer, should it be dropped: nothing was done.
    pub(super) fn answer(self, answer: Result<Outcome, EngineError>) {
        self.request.answer(answer);
    }

    /// Whether it is planned, and cost no more than a command of a drain may.
    pub(super) fn is_small(&self) -> bool {
        let changed = self.planned.as_ref().map(|_| self.spent);
        changed.is_some_and(|spent| spent <= COMMAND_UNITS)
    }

    /// The command, to be planned anew.
    pub(super) fn into_request(self) -> (Turn, Request) {
        (self.turn, self.request)
    }

    /// The items, and what to do with them.
    fn items(command: &Command) -> (ItemOp, &[ItemHash]) {
        match command {
            Command::Items(op, items) => (*op, items),
            Command::Create(create) => (ItemOp::Add(create.mode), &create.items),
            // They are planned at once, or not at all.
            _ => (ItemOp::Exists, &[]),
        }
    }
}

impl Lane {
    /// Begins a plan about a filter that is there. `Err`: it is answered.
    pub(super) fn begin_sliced(&self, turn: Turn, request: Request) -> Option<Box<SlicedPlan>> {
        let filter = request.filter.clone();
        let Some(filter) = filter.filter(|it| self.filters.is_current(it)) else {
            request.answer(Ok(Outcome::Stale));
            return None;
        };
        let target = PlannedFilter::of(&filter);
        Some(self.sliced(turn, request, target))
    }

    /// Begins the plan of a filter that is to be made. `None`: it is answered.
    pub(super) fn begin_creation(
        &self,
        turn: Turn,
        request: Request,
        create: &Create,
    ) -> Option<Box<SlicedPlan>> {
        if let Err(refusal) = self.place_for(create) {
            request.answer(refusal);
            return None;
        }
        let Some(empty) = Chain::new(create.params.clone(), create.hash_key, create.created_at_ms)
        else {
            request.answer(Ok(Outcome::Stale));
            return None;
        };
        let filter = Arc::new(OpenFilter::new(
            create.id,
            create.name.clone(),
            empty,
            create.expiry,
            request.caller.key.clone(),
        ));
        // Nothing was written to its pages: all words are zero.
        let target = PlannedFilter {
            fresh_from: 0,
            ..PlannedFilter::of(&filter)
        };
        Some(self.sliced(turn, request, target))
    }

    fn sliced(&self, turn: Turn, request: Request, target: PlannedFilter) -> Box<SlicedPlan> {
        let (op, items) = SlicedPlan::items(&request.command);
        let begun = BegunPlan {
            chain: target.chain.clone(),
            partial: PartialPlan::default(),
            work: ItemWork::begin(op, items.len()),
            missing: Missing::default(),
        };
        SlicedPlan::of(turn, request, target, begun, DrainPins::begin(&self.cache))
    }

    /// Plans a slice, or commits what is planned: each has a turn of its own, so
    /// that others have theirs in between.
    pub(super) fn slice(&self, mut plan: Box<SlicedPlan>, search: &mut KickSearch) -> Sliced {
        self.metrics.plan_slices.inc();
        if plan.request.progress.is_withdrawn() {
            return Sliced::Ended(None);
        }
        if let Err(refusal) = self.is_still_wanted(&plan) {
            plan.answer(refusal);
            return Sliced::Ended(None);
        }
        if let Some(planned) = &plan.planned {
            let words = planned.overlay.changed_words() as u64;
            self.queue.charge(&plan.turn, words * COMMITTED_WORD);
            return Sliced::Ended(self.commit_sliced(*plan));
        }
        let pace = self.plan_slice(&mut plan, search);
        let spent = plan.partial.spent();
        self.queue.charge(&plan.turn, spent - plan.spent);
        plan.spent = spent;
        let refusal = match pace {
            _ if plan.missing.over || plan.pages() > self.max_pages => Some(Err(
                self.too_many_pages(plan.pages().max(self.max_pages + 1))
            )),
            _ if plan.partial.changed_words() > MAX_CHANGED_WORDS => {
                Some(Err(EngineError::TooManyWords {
                    bound: MAX_CHANGED_WORDS,
                }))
            }
            Pace::Spent => None,
            Pace::Done => match std::mem::take(&mut plan.partial).finish(plan.target.chain.clone())
            {
                Some(planned) => {
                    plan.planned = Some(planned);
                    None
                }
                None => {
                    self.metrics.commands_requeued.inc();
                    let missing = std::mem::take(&mut plan.missing.pages);
                    Some(Ok(Outcome::NeedsPages(missing.into_iter().collect())))
                }
            },
        };
        match refusal {
            None => Sliced::More(plan),
            Some(refusal) => {
                plan.answer(refusal);
                Sliced::Ended(None)
            }
        }
    }

    fn plan_slice(&self, plan: &mut SlicedPlan, search: &mut KickSearch) -> Pace {
        let view = Arc::clone(&plan.target.view);
        let allowed = self.max_pages;
        let mut words = LaneWords::new(&self.cache, &view, &mut plan.pins, allowed);
        words.missing = std::mem::take(&mut plan.missing);
        let input = PlanInput {
            chain: plan.target.chain.clone(),
            pending: &plan.target.overlay,
            fresh_from: plan.target.fresh_from,
        };
        let partial = std::mem::take(&mut plan.partial);
        let until = partial.spent() + SLICE_UNITS;
        let mut planner = Planner::resume(partial, input, &mut words, search);
        let (_, items) = SlicedPlan::items(&plan.request.command);
        let pace = plan.work.go_on(items, &mut planner, until);
        (plan.target.chain, plan.partial) = planner.suspend();
        plan.missing = words.missing;
        pace
    }
}

impl Lane {
    /// Whether what a plan was made over is still there: its filter was neither
    /// removed nor replaced.
    fn is_still_wanted(&self, plan: &SlicedPlan) -> Result<(), Result<Outcome, EngineError>> {
        let (filter, target) = (plan.filter(), &plan.target);
        match &plan.request.command {
            Command::Create(_) => Ok(()),
            _ if self.filters.is_current(filter)
                && Arc::ptr_eq(&filter.view.load_full(), &target.view) =>
            {
                Ok(())
            }
            _ => Err(Ok(Outcome::Stale)),
        }
    }

    /// Commits what is planned, if there still is room for it and somebody
    /// waits for it.
    pub(super) fn commit_sliced(&self, plan: SlicedPlan) -> Option<InDoubt> {
        let (request, mut target, pins) = (plan.request, plan.target, plan.pins);
        let Some(planned) = plan.planned else {
            request.answer(Ok(Outcome::Stale));
            return None;
        };
        let room = match request.command.needs_room() {
            true => self.wait_for_room().and_then(|()| self.disk.check()),
            false => Ok(()),
        };
        if let Err(refusal) = room {
            request.answer(Err(refusal));
            return None;
        }
        (target.chain, target.overlay) = (planned.chain, planned.overlay);
        let (outcome, stats) = (plan.work.into_outcome(), [planned.stats]);
        let items = request.command.items();
        self.count_reads(&pins);
        // The pages stay pinned until it is done.
        let _pins = pins;
        if let Command::Create(create) = &request.command {
            let create = create.clone();
            return self.commit_creation(request, create, target, outcome, stats);
        }
        let answers = vec![(request, outcome)];
        self.commit_planned(answers, std::iter::once(target), |changes| {
            self.record(&stats, items, changes);
        })
    }
}
