//! Planning what waits over an overlay, for one commit.

use super::changes::{Encoded, PlannedFilter};
use super::command::{Command, CompactStep, Outcome};
use super::commit::{Indeterminate, Lane};
use super::items::{ItemWork, Pace};
use super::memory::PlanMemory;
use super::queue::{Next, Turn};
use super::request::Request;
use super::sliced::{BegunPlan, SlicedPlan};
use super::units::{COMMAND_UNITS, GROUP_UNITS, UNITS_PER_COMMAND};
use super::words::{LaneWords, Missing};
use crate::chain::meta::Chain;
use crate::chain::pages::PlanPages;
use crate::chain::plan::{OverlaidPages, PartialPlan, PlanStats, Planner};
use crate::error::EngineError;
use crate::page::FilterId;
use crate::pages::PlanPins;
use std::collections::BTreeMap;
use std::time::Duration;

/// The commands of one commit.
struct GroupCommit {
    /// The pages it plans over.
    pins: PlanPins,
    /// Pages it changes that are not published yet.
    new_pages: usize,
    filters: BTreeMap<FilterId, PlannedFilter>,
    answers: Vec<(Request, Outcome)>,
    items: usize,
    /// What it has cost so far.
    spent: u64,
    /// Of each plan.
    stats: Vec<PlanStats>,
}

/// What a group commit left behind.
#[derive(Default)]
pub(super) struct GroupOutcome {
    /// A plan that has to go on in slices.
    pub(super) sliced: Option<Box<SlicedPlan>>,
    /// What has to be settled.
    pub(super) indeterminate: Option<Indeterminate>,
}

/// A command that is too much for a group commit.
struct Overflow {
    request: Request,
    /// Its plan as far as it came, and the chain that came of that.
    begun: Option<(BegunPlan, Chain)>,
}

/// What came of planning a command at once.
enum Worked {
    /// It costs more than a command of a group commit may; this is done.
    Long(ItemWork),
    /// `None`: a page was missing.
    Done(Option<Outcome>),
}

impl GroupCommit {
    /// Pages that it keeps in memory.
    fn pages(&self) -> usize {
        self.pins.held() + self.new_pages
    }
}

impl Lane {
    /// Plans the first command and those that wait behind it, as far as the
    /// bounds of a group commit allow, and commits them at once.
    pub(super) fn commit_group(
        &self,
        turn: Turn,
        first: Request,
        suspended: Option<&SlicedPlan>,
        memory: &mut PlanMemory,
    ) -> GroupOutcome {
        let mut group = self.begin_group();
        let mut next = Some((turn, first));
        while let Some((turn, request)) = next.take() {
            let spent_before = group.spent;
            let overflow = self.plan(request, &mut group, suspended, memory);
            let spent = group.spent - spent_before;
            self.queue.charge(&turn, spent + UNITS_PER_COMMAND);
            if let Some(overflow) = overflow {
                let Overflow { request, begun } = *overflow;
                let is_long = begun.is_some() || suspended.is_some();
                let is_first = group.answers.is_empty();
                if is_first
                    && group.filters.len() == 1
                    && suspended.is_none()
                    && memory.allowance.try_take_all()
                    && let Some((begun, chain)) = begun
                    && let Some((_, target)) = group.filters.pop_first()
                {
                    let target = PlannedFilter { chain, ..target };
                    return GroupOutcome {
                        sliced: Some(SlicedPlan::of(turn, request, target, begun, group.pins)),
                        indeterminate: None,
                    };
                }
                // Without those before it, it may get the pages that it needs.
                let request = match is_first || is_long {
                    true => request.into_long(),
                    false => request,
                };
                self.queue.put_back(&turn, request);
                break;
            }
            // Without a plan there is room for any other command, then.
            let many_pages = most_beside(suspended, memory) / 3;
            if group.spent >= GROUP_UNITS
                || group.pages() >= many_pages
                || group.answers.len() >= self.most_commands.get()
            {
                break;
            }
            next = self.next_of_group(suspended, memory);
        }
        let group = self.without_withdrawn(group, suspended, memory);
        self.count_reads(&group.pins);
        let (stats, items) = (group.stats, group.items);
        for planned in group.filters.values() {
            planned.filter.set_futile_searches(planned.futile);
        }
        let planned = Encoded::changed(
            group.filters.into_values(),
            self.clock.now_ms(),
            |overlay| {
                memory.overlays.give_back(overlay);
            },
        );
        // The pages stay pinned until it is done.
        let indeterminate = self.commit_planned(group.answers, planned, |changes| {
            self.record(&stats, items, changes);
        });
        drop(group.pins);
        GroupOutcome {
            sliced: None,
            indeterminate,
        }
    }

    /// The command that a group commit takes along, if what comes next is one.
    fn next_of_group(
        &self,
        suspended: Option<&SlicedPlan>,
        memory: &PlanMemory,
    ) -> Option<(Turn, Request)> {
        loop {
            let may_go = |request: &Request| may_go(suspended, memory, request);
            match self.queue.next(may_go, Duration::ZERO) {
                Next::Command(_, request) if request.progress.is_withdrawn() => {}
                Next::Command(_, request) if let Some(refusal) = self.not_leading(&request) => {
                    request.answer(Err(refusal));
                }
                Next::Command(turn, request) if request.is_grouped() => {
                    return Some((turn, *request));
                }
                // It has a turn of its own.
                Next::Command(turn, request) => {
                    self.queue.put_back(&turn, *request);
                    return None;
                }
                Next::Plan(turn) => {
                    self.queue.put_back_plan(&turn);
                    return None;
                }
                Next::Nothing | Next::Stop => return None,
            }
        }
    }

    fn begin_group(&self) -> GroupCommit {
        GroupCommit {
            pins: PlanPins::begin(&self.cache),
            new_pages: 0,
            filters: BTreeMap::new(),
            answers: Vec::new(),
            items: 0,
            spent: 0,
            stats: Vec::new(),
        }
    }

    /// From here on no command of the group commit can be withdrawn. If any was, those
    /// behind it were planned on top of it, so the others are planned again.
    fn without_withdrawn(
        &self,
        group: GroupCommit,
        suspended: Option<&SlicedPlan>,
        memory: &mut PlanMemory,
    ) -> GroupCommit {
        let begin = |(request, _): &(Request, Outcome)| request.progress.begin_commit();
        // All of them, also behind one that was withdrawn.
        let withdrawn = group.answers.iter().filter(|it| !begin(it)).count();
        if withdrawn == 0 {
            return group;
        }
        let GroupCommit { pins, answers, .. } = group;
        drop(pins);
        let mut again = self.begin_group();
        for (request, _) in answers.into_iter().filter(begin) {
            // What was withdrawn only made it dearer or cheaper by a little.
            if let Some(overflow) = self.plan(request, &mut again, suspended, memory) {
                // Its caller sends it again, and it may be withdrawn again.
                let again = Outcome::NeedsPages(Vec::new());
                overflow.request.answer(Ok(again));
            }
        }
        again
    }

    /// Plans one command on top of the group commit, or answers it at once if that
    /// can't be done now. Returns it if it costs more than a command of a group commit
    /// may.
    fn plan(
        &self,
        request: Request,
        group: &mut GroupCommit,
        suspended: Option<&SlicedPlan>,
        memory: &mut PlanMemory,
    ) -> Option<Box<Overflow>> {
        if request.progress.is_withdrawn() {
            return None;
        }
        let filter = request.filter.clone();
        let Some(filter) = filter.filter(|it| self.filters.is_current(it)) else {
            return request.refuse(Ok(Outcome::Stale));
        };
        let most = most_beside(suspended, memory);
        let room = most.saturating_sub(group.pages()).min(self.max_pages);
        // What the lane holds beside the pins.
        let others = suspended.map_or(0, SlicedPlan::pages) + group.new_pages;
        let pins = &mut group.pins;
        let held_before = pins.held();
        let state = group
            .filters
            .entry(filter.id)
            .or_insert_with(|| PlannedFilter::of(&filter));
        let within = Some((&mut memory.allowance, others));
        let mut words = LaneWords::new(&self.cache, &state.view, pins, held_before + room, within);
        let mut begun = PartialPlan::after(state.futile);
        begun.overlay = memory.overlays.take();
        let search = &mut memory.search;
        let mut planner = Planner::resume(begun, state.input(), &mut words, search);
        planner.at(request.command.now_ms());
        let worked = work(&request.command, &mut planner);
        group.spent += planner.spent;
        let (chain, partial) = planner.suspend();
        let missing = words.missing;
        let outcome = match worked {
            Worked::Long(work) => {
                let begun = BegunPlan {
                    partial,
                    work,
                    missing,
                };
                let begun = Some((begun, chain));
                return Some(Box::new(Overflow { request, begun }));
            }
            Worked::Done(outcome) => outcome,
        };
        // Pages that come to be need frames, too.
        let new_pages = state.new_pages(&partial.overlay);
        let touched = pins.held() - held_before + new_pages;
        let all = others + pins.held() + new_pages;
        let fits = touched <= room && memory.allowance.covers(all);
        let plan = partial.finish(chain).zip(outcome);
        let Some((plan, outcome)) = plan.filter(|_| fits) else {
            let is_over = missing.over || !fits;
            // As yet the lane may hold less than it ever may.
            let allowed = memory.allowance.pages();
            let room = room.min(allowed.saturating_sub(others + held_before));
            return self.without_plan(request, missing, is_over.then_some(room));
        };
        group.new_pages += new_pages;
        (state.chain, state.futile) = (plan.chain, plan.futile);
        let done_with = state.overlay.merge(plan.overlay);
        memory.overlays.give_back(done_with);
        group.items += request.command.items();
        group.stats.push(plan.stats);
        group.answers.push((request, outcome));
        None
    }

    /// Has a command wait for pages that are not resident, or for those of the
    /// suspended plan, or refuses it: it touches more pages than this.
    fn without_plan(
        &self,
        request: Request,
        missing: Missing,
        more_than: Option<usize>,
    ) -> Option<Box<Overflow>> {
        let refusal = match more_than {
            // It may have what the suspended plan holds, or other lanes, afterwards.
            Some(room) if room < self.max_pages => {
                let begun = None;
                return Some(Box::new(Overflow { request, begun }));
            }
            Some(room) => Err(self.too_many_pages(room + 1)),
            None => {
                self.metrics.commands_requeued.inc();
                Ok(Outcome::NeedsPages(missing.pages.into_iter().collect()))
            }
        };
        request.refuse(refusal)
    }

    pub(super) fn too_many_pages(&self, needed: usize) -> EngineError {
        EngineError::TooManyPages {
            needed,
            bound: self.max_pages,
        }
    }

    /// Counts the pages that were planned over.
    pub(super) fn count_reads(&self, pins: &PlanPins) {
        let reads = self.metrics.page_reads.with_label_values(&["cache"]);
        reads.inc_by(pins.reached() as u64);
    }
}

/// Pages that a group commit may hold beside a plan that is suspended: with that, half more
/// than any command may touch.
pub(super) fn most_beside(suspended: Option<&SlicedPlan>, memory: &PlanMemory) -> usize {
    let held = suspended.map_or(0, SlicedPlan::pages);
    memory.allowance.most().saturating_sub(held)
}

/// Plans one command as far as a group commit may.
fn work<'a, P: PlanPages>(
    command: &Command,
    planner: &mut Planner<'a, OverlaidPages<'a, P>>,
) -> Worked {
    match command {
        Command::Items(_, items, _) => {
            planner.reserve(items.len().min(COMMAND_UNITS as usize / 4));
            let mut work = ItemWork::begin(command);
            match work.go_on(items, planner, COMMAND_UNITS) {
                Pace::Spent => Worked::Long(work),
                Pace::Done => Worked::Done(Some(work.results)),
            }
        }
        Command::Sweep { from, pages, .. } => {
            Worked::Done(planner.sweep(*from, *pages).map(Outcome::Swept))
        }
        Command::Compact(CompactStep::Move(slice)) => {
            Worked::Done(planner.compact(slice).map(Outcome::Compacted))
        }
        // It has a commit of its own, and does not come here.
        _ => Worked::Done(Some(Outcome::Stale)),
    }
}

/// Whether a command need not wait for the plan that is suspended, nor for pages that
/// other lanes hold. Nobody waits for what was withdrawn: it is only taken out, with all that it holds.
pub(super) fn may_go(
    suspended: Option<&SlicedPlan>,
    memory: &PlanMemory,
    request: &Request,
) -> bool {
    let waits_for_pages = request.is_long() && memory.allowance.is_waiting;
    let waits_for_plan = suspended.is_some_and(|plan| plan.holds_up(request));
    request.progress.is_withdrawn() || !(waits_for_pages || waits_for_plan)
}

#[cfg(test)]
mod tests;
