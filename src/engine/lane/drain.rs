//! Planning what waits over an overlay, for one commit.

use super::changes::PlannedFilter;
use super::command::{Command, CompactStep, ItemOp, Outcome};
use super::commit::{InDoubt, Lane};
use super::submit::Request;
use super::words::LaneWords;
use crate::chain::pages::{Draft, PlanPages};
use crate::chain::plan::{OverlaidPages, PlanInput, PlanStats, Planner};
use crate::chain::read::GROUP;
use crate::cuckoo::hash::ItemHash;
use crate::cuckoo::kick::KickSearch;
use crate::engine::error::EngineError;
use crate::engine::pages::DrainPins;
use crate::page::FilterId;
use std::collections::BTreeMap;

/// Items after which a drain takes no further command.
const DRAIN_ITEMS: usize = 65_536;

/// The commands of one commit.
struct Drain {
    /// The pages it plans over.
    pins: DrainPins,
    /// Pages it changes that are not published yet.
    new_pages: usize,
    filters: BTreeMap<FilterId, PlannedFilter>,
    answers: Vec<(Request, Outcome)>,
    items: usize,
    /// Of each plan.
    stats: Vec<PlanStats>,
}

impl Drain {
    /// Pages that it keeps in memory.
    fn pages(&self) -> usize {
        self.pins.held() + self.new_pages
    }
}

impl Lane {
    /// Plans the first command and those that wait behind it, as far as the
    /// bounds of a drain allow, and commits them at once. Returns what has to be
    /// settled, and the request that did not fit.
    pub(super) fn drain(
        &self,
        first: Request,
        search: &mut KickSearch,
    ) -> (Option<InDoubt>, Option<Request>) {
        let mut drain = self.begin_drain();
        self.plan(first, &mut drain, search);
        let mut held_back = None;
        while drain.items < DRAIN_ITEMS && drain.pages() < self.max_pages / 2 {
            let Ok(next) = self.commands.try_recv() else {
                break;
            };
            let next = self.taken(next);
            if next.progress.is_withdrawn() {
                continue;
            }
            if !next.command.is_planned() {
                held_back = Some(next);
                break;
            }
            self.plan(next, &mut drain, search);
        }
        let drain = self.without_withdrawn(drain, search);
        let reads = self.metrics.page_reads.with_label_values(&["cache"]);
        reads.inc_by(drain.pins.len() as u64);
        let (stats, items) = (drain.stats, drain.items);
        let planned = drain.filters.into_values();
        // The pages stay pinned until it is done.
        let in_doubt = self.commit_planned(drain.answers, planned, |changes| {
            self.record(&stats, items, changes);
        });
        drop(drain.pins);
        (in_doubt, held_back)
    }

    fn begin_drain(&self) -> Drain {
        Drain {
            pins: DrainPins::begin(&self.cache),
            new_pages: 0,
            filters: BTreeMap::new(),
            answers: Vec::new(),
            items: 0,
            stats: Vec::new(),
        }
    }

    /// From here on no command of the drain can be withdrawn. If any was, those
    /// behind it were planned on top of it, so the others are planned again.
    fn without_withdrawn(&self, drain: Drain, search: &mut KickSearch) -> Drain {
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
            self.plan(request, &mut again, search);
        }
        again
    }

    /// Plans one command on top of the drain, or answers it at once if that
    /// can't be done now.
    fn plan(&self, request: Request, drain: &mut Drain, search: &mut KickSearch) {
        let filter = request.filter.clone();
        let Some(filter) = filter.filter(|it| self.filters.is_current(it)) else {
            return request.answer(Ok(Outcome::Stale));
        };
        let (pinned_before, held_before) = (drain.pins.len(), drain.pins.held());
        let state = drain
            .filters
            .entry(filter.id)
            .or_insert_with(|| PlannedFilter::of(&filter));
        let allowed = held_before + self.max_pages;
        let mut words = LaneWords::new(&self.cache, &state.view, &mut drain.pins, allowed);
        let input = PlanInput {
            chain: state.chain.clone(),
            pending: &state.overlay,
            fresh_from: state.fresh_from,
        };
        let mut planner = Planner::new(input, &mut words, search);
        planner.reserve(request.command.items());
        let outcome = match &request.command {
            Command::Items(op, items) => apply_items(*op, items, &mut planner),
            Command::Compact(CompactStep::Move(slice)) => {
                planner.compact(slice).map(Outcome::Compacted)
            }
            _ => None,
        };
        let plan = planner.finish();
        let (missing, over) = (words.missing, words.over);
        let (Some(plan), Some(outcome)) = (plan, outcome) else {
            return request.answer(if over {
                Err(self.too_many_pages(self.max_pages + 1))
            } else {
                self.metrics.commands_requeued.inc();
                Ok(Outcome::NeedsPages(missing.into_iter().collect()))
            });
        };
        // Pages of sub-filters that this drain appends need frames, too.
        let new_pages = plan.overlay.pages_from(state.fresh_from);
        let touched = drain.pins.len() - pinned_before + new_pages;
        if touched > self.max_pages {
            return request.answer(Err(self.too_many_pages(touched)));
        }
        drain.new_pages += new_pages;
        state.chain = plan.chain;
        state.overlay.merge(plan.overlay);
        drain.items += request.command.items();
        drain.stats.push(plan.stats);
        drain.answers.push((request, outcome));
    }

    pub(super) fn too_many_pages(&self, needed: usize) -> EngineError {
        EngineError::TooManyPages {
            needed,
            bound: self.max_pages,
        }
    }
}

/// Works through items. `None`: pages are missing.
pub(super) fn apply_items<P: PlanPages>(
    op: ItemOp,
    items: &[ItemHash],
    planner: &mut Planner<'_, OverlaidPages<'_, P>>,
) -> Option<Outcome> {
    match op {
        ItemOp::Add(mode) => {
            all(items, planner, |planner, hash| planner.add(hash, mode)).map(Outcome::Added)
        }
        ItemOp::Delete => {
            all(items, planner, |planner, hash| planner.delete(hash)).map(Outcome::Deleted)
        }
        ItemOp::Exists => {
            all(items, planner, |planner, hash| planner.exists(hash)).map(Outcome::Found)
        }
        ItemOp::Count => {
            all(items, planner, |planner, hash| planner.count(hash)).map(Outcome::Counted)
        }
    }
}

/// One result an item, or `None` if any is not known. Does not stop at the
/// first missing page: the others are found out too.
fn all<T, D: Draft>(
    items: &[ItemHash],
    planner: &mut Planner<'_, D>,
    mut work: impl FnMut(&mut Planner<'_, D>, ItemHash) -> Option<T>,
) -> Option<Vec<T>> {
    let mut results = Some(Vec::with_capacity(items.len()));
    for group in items.chunks(GROUP) {
        // So that the waits for their memory overlap.
        planner.expect(group);
        for &item in group {
            let result = work(planner, item);
            if let (Some(known), Some(result)) = (&mut results, result) {
                known.push(result);
            } else {
                results = None;
            }
        }
    }
    results
}
