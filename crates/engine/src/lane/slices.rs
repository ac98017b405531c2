//! What a lane does with a [sliced plan](super::sliced) in each of its turns: it begins
//! it, plans a slice, encodes what is planned, or commits it.

use super::changes::{Encoded, Encoding, PlannedFilter};
use super::command::{Command, Create, Outcome};
use super::commit::{Indeterminate, Lane};
use super::items::{ItemWork, Pace};
use super::queue::Turn;
use super::request::{Answer, Request};
use super::sliced::{BegunPlan, PlannedAnswer, PlannedChanges, SlicedPlan, Stage};
use super::units::{COMMITTED_WORD, ENCODED_AT_ONCE, ENCODED_WORD, SLICE_UNITS};
use super::words::{LaneWords, Missing};
use crate::chain::meta::Chain;
use crate::chain::plan::{PartialPlan, Planner};
use crate::cuckoo::kick::KickSearch;
use crate::error::EngineError;
use crate::filters::OpenFilter;
use crate::pages::PlanPins;
use std::mem;
use std::sync::Arc;

/// Words and counters that one plan may change: its redo record is bounded by them, and the
/// turn in which it is written and published.
pub(super) const MAX_CHANGED_WORDS: usize = 1 << 20;

/// How a slice ended.
pub(super) enum Sliced {
    /// There is more to do.
    More(Box<SlicedPlan>),
    /// It is answered, and this has to be settled.
    Ended(Option<Indeterminate>),
}

impl Lane {
    /// Begins a plan about a filter that is there. `Err`: it is answered.
    pub(super) fn begin_sliced(&self, turn: Turn, request: Request) -> Option<Box<SlicedPlan>> {
        let filter = request.filter.clone();
        let Some(filter) = filter.filter(|it| self.filters.is_current(it)) else {
            return request.refuse(Ok(Outcome::Stale));
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
            return request.refuse(refusal);
        }
        let Some(empty) = Chain::new(create.params.clone(), create.hash_key, create.created_at_ms)
        else {
            return request.refuse(Ok(Outcome::Stale));
        };
        let filter = Arc::new(OpenFilter::new(
            create.id,
            create.name.clone(),
            empty.with_lineage(create.lineage, create.created_at_ms),
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
        let begun = BegunPlan {
            partial: PartialPlan::after(target.futile),
            work: ItemWork::begin(&request.command),
            missing: Missing::default(),
        };
        SlicedPlan::of(turn, request, target, begun, PlanPins::begin(&self.cache))
    }

    /// Plans a slice, encodes what is planned, or commits it: each has a turn of
    /// its own, so that others have theirs in between.
    pub(super) fn slice(&self, plan: Box<SlicedPlan>, search: &mut KickSearch) -> Sliced {
        self.metrics.plan_slices.inc();
        if plan.request.progress.is_withdrawn() {
            return Sliced::Ended(None);
        }
        if !self.is_still_wanted(&plan) {
            plan.request.answer(Ok(Outcome::Stale));
            return Sliced::Ended(None);
        }
        let mut plan = *plan;
        let (stage, spent) = match plan.stage {
            Stage::Begun(mut begun) => {
                let spent_before = begun.partial.spent;
                let (command, pins) = (&plan.request.command, &mut plan.pins);
                let pace = self.plan_items(command, &mut plan.target, pins, &mut begun, search);
                let spent = begun.partial.spent - spent_before;
                (self.bounded(begun, pace, &plan.target, pins), spent)
            }
            Stage::Planned(planned) => {
                let words = planned.encoding.words().min(ENCODED_AT_ONCE);
                let stage = planned.encode(ENCODED_AT_ONCE, &plan.request.command);
                (Ok(stage), words as u64 * ENCODED_WORD)
            }
            Stage::Encoded(encoded, came) => {
                let words = encoded.words() as u64;
                self.queue.charge(&plan.turn, words * COMMITTED_WORD);
                let (owner, pins) = (plan.target.filter.owner.as_ref(), plan.pins);
                let ended = self.commit_encoded(plan.request, owner, pins, encoded, came);
                return Sliced::Ended(ended);
            }
        };
        self.queue.charge(&plan.turn, spent);
        match stage {
            Ok(stage) => Sliced::More(Box::new(SlicedPlan { stage, ..plan })),
            Err(refusal) => {
                plan.request.answer(refusal);
                Sliced::Ended(None)
            }
        }
    }

    /// Plans items until a slice is spent.
    fn plan_items(
        &self,
        command: &Command,
        target: &mut PlannedFilter,
        pins: &mut PlanPins,
        begun: &mut BegunPlan,
        search: &mut KickSearch,
    ) -> Pace {
        let view = Arc::clone(&target.view);
        let mut words = LaneWords::new(&self.cache, &view, pins, self.max_pages, None);
        words.missing = mem::take(&mut begun.missing);
        let until = begun.partial.spent + SLICE_UNITS;
        let partial = mem::take(&mut begun.partial);
        let mut planner = Planner::resume(partial, target.input(), &mut words, search);
        planner.at(command.now_ms());
        let pace = begun.work.go_on(command.hashes(), &mut planner, until);
        (target.chain, begun.partial) = planner.suspend();
        begun.missing = words.missing;
        pace
    }

    /// How far a plan came. `Err`: it takes more than it may, or needs pages that
    /// are not there.
    fn bounded(
        &self,
        begun: Box<BegunPlan>,
        pace: Pace,
        target: &PlannedFilter,
        pins: &PlanPins,
    ) -> Result<Stage, Answer> {
        let pages = pins.held() + target.new_pages(&begun.partial.overlay);
        if begun.missing.over || pages > self.max_pages {
            return Err(Err(self.too_many_pages(pages.max(self.max_pages + 1))));
        }
        if begun.partial.overlay.changed_words() > MAX_CHANGED_WORDS {
            return Err(Err(EngineError::TooManyWords {
                items: begun.work.done(),
                bound: MAX_CHANGED_WORDS,
            }));
        }
        if pace == Pace::Spent {
            return Ok(Stage::Begun(begun));
        }
        let begun = *begun;
        let spent = begun.partial.spent;
        match begun.partial.finish(target.chain.clone()) {
            Some(plan) => Ok(Stage::Planned(Box::new(PlannedChanges {
                encoding: Encoding::of(
                    PlannedFilter {
                        filter: Arc::clone(&target.filter),
                        view: Arc::clone(&target.view),
                        chain: plan.chain,
                        overlay: plan.overlay,
                        dropped: Vec::new(),
                        fresh_from: target.fresh_from,
                        futile: target.futile,
                    },
                    self.clock.now_ms(),
                ),
                spent,
                came: PlannedAnswer {
                    outcome: begun.work.results,
                    stats: plan.stats,
                    futile: plan.futile,
                },
            }))),
            None => {
                self.metrics.commands_requeued.inc();
                let missing = begun.missing.pages.into_iter().collect();
                Err(Ok(Outcome::NeedsPages(missing)))
            }
        }
    }

    /// Whether what a plan was made over is still there: its filter was neither
    /// removed nor replaced.
    fn is_still_wanted(&self, plan: &SlicedPlan) -> bool {
        let (filter, view) = (&plan.target.filter, &plan.target.view);
        match &plan.request.command {
            // Whether its name is still free is asked when it is committed.
            Command::Create(_) => true,
            _ => self.filters.is_current(filter) && Arc::ptr_eq(&filter.view.load_full(), view),
        }
    }

    /// Commits what is planned, if there still is room for it and somebody waits
    /// for it.
    pub(super) fn commit_encoded(
        &self,
        request: Request,
        owner: Option<&Arc<str>>,
        pins: PlanPins,
        encoded: Encoded,
        came: PlannedAnswer,
    ) -> Option<Indeterminate> {
        if let Err(refusal) = self.check_again(&request.command, owner) {
            return request.refuse(Err(refusal));
        }
        if let Some(filter) = &request.filter {
            filter.set_futile_searches(came.futile);
        }
        self.count_reads(&pins);
        // The pages stay pinned until it is done.
        let _pins = pins;
        let stats = [came.stats];
        if let Command::Create(create) = &request.command {
            let create = create.clone();
            return self.commit_creation(request, create, encoded, came.outcome, &stats);
        }
        let items = request.command.items();
        self.commit_planned(vec![(request, came.outcome)], encoded, |changes| {
            self.record(&stats, items, changes);
        })
    }

    /// Asks again what was asked before a plan was begun: much may have happened
    /// since.
    fn check_again(&self, command: &Command, owner: Option<&Arc<str>>) -> Result<(), EngineError> {
        if command.needs_room() {
            self.wait_for_room()?;
            self.disk.check()?;
        }
        match command.adds() {
            true => self.quota.check_growth(owner),
            false => Ok(()),
        }
    }
}
