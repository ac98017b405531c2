//! Planning what waits over an overlay, for one commit.

use super::changes::PlannedFilter;
use super::command::{Command, CompactStep, ItemOp, Outcome};
use super::commit::{InDoubt, Lane};
use super::items::{ItemWork, Pace};
use super::queue::{Next, Turn};
use super::request::Request;
use super::sliced::{BegunPlan, SlicedPlan};
use super::units::{COMMAND_UNITS, DRAIN_UNITS, UNITS_PER_COMMAND};
use super::words::LaneWords;
use crate::chain::plan::{PlanInput, PlanStats, Planner};
use crate::cuckoo::kick::KickSearch;
use crate::engine::error::EngineError;
use crate::engine::pages::DrainPins;
use crate::page::FilterId;
use std::collections::BTreeMap;
use std::time::Duration;

/// The commands of one commit.
struct Drain {
    /// The pages it plans over.
    pins: DrainPins,
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

/// What a drain left behind.
#[derive(Default)]
pub(super) struct Drained {
    /// A plan that has to go on in slices.
    pub(super) sliced: Option<Box<SlicedPlan>>,
    /// What has to be settled.
    pub(super) in_doubt: Option<InDoubt>,
}

/// A command that is too much for a drain.
struct Overflow {
    request: Request,
    /// Its plan as far as it came.
    begun: Option<BegunPlan>,
}

impl Drain {
    /// Pages that it keeps in memory.
    fn pages(&self) -> usize {
        self.pins.held() + self.new_pages
    }
}

impl Lane {
    /// Plans the first command and those that wait behind it, as far as the
    /// bounds of a drain allow, and commits them at once.
    pub(super) fn drain(
        &self,
        turn: Turn,
        first: Request,
        suspended: &mut Option<Box<SlicedPlan>>,
        search: &mut KickSearch,
    ) -> Drained {
        let mut drain = self.begin_drain();
        let room = self.room_beside(suspended.as_deref());
        // Before a change there was waited for room, before a question not.
        let has_room = first.command.needs_room();
        let mut next = Some((turn, first));
        while let Some((turn, request)) = next.take() {
            let spent_before = drain.spent;
            let overflow = self.plan(request, &mut drain, suspended, search);
            let spent = drain.spent - spent_before;
            self.queue.charge(&turn, spent + UNITS_PER_COMMAND);
            if let Some(overflow) = overflow {
                let Overflow { request, begun } = *overflow;
                let is_alone = drain.answers.is_empty() && drain.filters.len() == 1;
                if is_alone
                    && suspended.is_none()
                    && let (Some(begun), Some((_, target))) = (begun, drain.filters.pop_first())
                {
                    return Drained {
                        sliced: Some(SlicedPlan::of(turn, request, target, begun, drain.pins)),
                        in_doubt: None,
                    };
                }
                self.queue.put_back(&turn, request.into_long());
                break;
            }
            if drain.spent >= DRAIN_UNITS || drain.pages() >= room / 2 {
                break;
            }
            next = self.next_of_drain(suspended.as_deref(), has_room);
        }
        let drain = self.without_withdrawn(drain, suspended, search);
        self.count_reads(&drain.pins);
        let (stats, items) = (drain.stats, drain.items);
        let planned = drain.filters.into_values();
        // The pages stay pinned until it is done.
        let in_doubt = self.commit_planned(drain.answers, planned, |changes| {
            self.record(&stats, items, changes);
        });
        drop(drain.pins);
        Drained {
            sliced: None,
            in_doubt,
        }
    }

    /// The command that a drain takes along, if what comes next is one.
    fn next_of_drain(
        &self,
        suspended: Option<&SlicedPlan>,
        has_room: bool,
    ) -> Option<(Turn, Request)> {
        loop {
            let may_go = |request: &Request| may_go(suspended, request);
            match self.queue.next(may_go, Duration::ZERO) {
                Next::Command(_, request) if request.progress.is_withdrawn() => {}
                Next::Command(turn, request)
                    if request.is_drained() && (has_room || !request.command.needs_room()) =>
                {
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

    fn begin_drain(&self) -> Drain {
        Drain {
            pins: DrainPins::begin(&self.cache),
            new_pages: 0,
            filters: BTreeMap::new(),
            answers: Vec::new(),
            items: 0,
            spent: 0,
            stats: Vec::new(),
        }
    }

    /// From here on no command of the drain can be withdrawn. If any was, those
    /// behind it were planned on top of it, so the others are planned again.
    fn without_withdrawn(
        &self,
        drain: Drain,
        suspended: &mut Option<Box<SlicedPlan>>,
        search: &mut KickSearch,
    ) -> Drain {
        let begin = |(request, _): &(Request, Outcome)| request.progress.begin_commit();
        // All of them, also behind one that was withdrawn.
        let withdrawn = drain.answers.iter().filter(|it| !begin(it)).count();
        if withdrawn == 0 {
            return drain;
        }
        let Drain { pins, answers, .. } = drain;
        drop(pins);
        let mut again = self.begin_drain();
        for (request, _) in answers.into_iter().filter(begin) {
            // What was withdrawn only made it dearer or cheaper by a little.
            if let Some(overflow) = self.plan(request, &mut again, suspended, search) {
                // Its caller sends it again, and it may be withdrawn again.
                let again = Outcome::NeedsPages(Vec::new());
                overflow.request.answer(Ok(again));
            }
        }
        again
    }

    /// Pages that a drain may hold beside a plan that is suspended: as many as
    /// a command, and with it no more than one and a half.
    fn room_beside(&self, suspended: Option<&SlicedPlan>) -> usize {
        let held = suspended.map_or(0, SlicedPlan::pages);
        let left = (self.max_pages + self.max_pages / 2).saturating_sub(held);
        left.min(self.max_pages)
    }

    /// Plans one command on top of the drain, or answers it at once if that
    /// can't be done now. Returns it if it costs more than a command of a drain
    /// may.
    fn plan(
        &self,
        request: Request,
        drain: &mut Drain,
        suspended: &mut Option<Box<SlicedPlan>>,
        search: &mut KickSearch,
    ) -> Option<Box<Overflow>> {
        if request.progress.is_withdrawn() {
            return None;
        }
        let filter = request.filter.clone();
        let Some(filter) = filter.filter(|it| self.filters.is_current(it)) else {
            request.answer(Ok(Outcome::Stale));
            return None;
        };
        let room = self.room_beside(suspended.as_deref());
        let own = suspended.as_mut().filter(|it| it.filter().id == filter.id);
        // A page has one drain's pin. This only asks: the plan's will do.
        let pins = own.map_or(&mut drain.pins, |plan| &mut plan.pins);
        let (pinned_before, held_before) = (pins.len(), pins.held());
        let state = drain
            .filters
            .entry(filter.id)
            .or_insert_with(|| PlannedFilter::of(&filter));
        let mut words = LaneWords::new(&self.cache, &state.view, pins, held_before + room);
        let input = PlanInput {
            chain: state.chain.clone(),
            pending: &state.overlay,
            fresh_from: state.fresh_from,
        };
        let mut planner = Planner::new(input, &mut words, search);
        planner.reserve(request.command.items().min(COMMAND_UNITS as usize / 4));
        let (op, items) = match &request.command {
            Command::Items(op, items) => (*op, &**items),
            _ => (ItemOp::Exists, &[][..]),
        };
        let mut work = ItemWork::begin(op, items.len());
        let (pace, moved) = match &request.command {
            Command::Compact(CompactStep::Move(slice)) => (Pace::Done, planner.compact(slice)),
            _ => (work.go_on(items, &mut planner, COMMAND_UNITS), None),
        };
        drain.spent += planner.spent();
        if pace == Pace::Spent {
            let (chain, partial) = planner.suspend();
            let begun = Some(BegunPlan {
                chain,
                partial,
                work,
                missing: words.missing,
            });
            return Some(Box::new(Overflow { request, begun }));
        }
        let plan = planner.finish();
        let missing = words.missing;
        let pinned = pins.len() - pinned_before;
        let moved = matches!(request.command, Command::Compact(_)).then_some(moved);
        let outcome = match moved {
            Some(moved) => moved.map(Outcome::Compacted),
            None => Some(work.into_outcome()),
        };
        let (Some(plan), Some(outcome)) = (plan, outcome) else {
            if missing.over && room < self.max_pages {
                // It may have what the suspended plan holds, afterwards.
                let begun = None;
                return Some(Box::new(Overflow { request, begun }));
            }
            request.answer(if missing.over {
                Err(self.too_many_pages(self.max_pages + 1))
            } else {
                self.metrics.commands_requeued.inc();
                Ok(Outcome::NeedsPages(missing.pages.into_iter().collect()))
            });
            return None;
        };
        // Pages of sub-filters that this drain appends need frames, too.
        let new_pages = plan.overlay.pages_from(state.fresh_from);
        let touched = pinned + new_pages;
        if touched > self.max_pages {
            request.answer(Err(self.too_many_pages(touched)));
            return None;
        }
        drain.new_pages += new_pages;
        state.chain = plan.chain;
        state.overlay.merge(plan.overlay);
        drain.items += request.command.items();
        drain.stats.push(plan.stats);
        drain.answers.push((request, outcome));
        None
    }

    pub(super) fn too_many_pages(&self, needed: usize) -> EngineError {
        EngineError::TooManyPages {
            needed,
            bound: self.max_pages,
        }
    }

    /// Counts the pages that were planned over.
    pub(super) fn count_reads(&self, pins: &DrainPins) {
        let reads = self.metrics.page_reads.with_label_values(&["cache"]);
        reads.inc_by(pins.len() as u64);
    }
}

/// Whether a command need not wait for the plan that is suspended. Nobody waits
/// for what was withdrawn: it is only taken out, with all that it holds.
pub(super) fn may_go(suspended: Option<&SlicedPlan>, request: &Request) -> bool {
    request.progress.is_withdrawn() || suspended.is_none_or(|plan| !plan.holds_up(request))
}
