//! Planning what waits over an overlay, for one commit.

use super::apply::apply;
use super::changes::{Changes, PlannedFilter};
use super::command::Outcome;
use super::commit::CommitOutcome;
use super::context::{Batch, Lane};
use super::request::Request;
use super::words::LaneWords;
use crate::chain::plan::{PlanInput, PlanStats, Planner};
use crate::cuckoo::kick::KickSearch;
use crate::engine::error::EngineError;
use crate::engine::pages::DrainPins;
use crate::page::FilterId;
use crate::store::FilterChange;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Items after which a drain takes no further command.
const DRAIN_ITEMS: usize = 65_536;

/// The commands of one commit.
pub(super) struct Drain {
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
    /// bounds of a drain allow. Returns the request that did not fit.
    pub(super) fn drain(
        &self,
        first: Request,
        search: &mut KickSearch,
    ) -> (Drain, Option<Request>) {
        let mut drain = Drain {
            pins: DrainPins::begin(&self.committer.cache),
            new_pages: 0,
            filters: BTreeMap::new(),
            answers: Vec::new(),
            items: 0,
            stats: Vec::new(),
        };
        self.plan(first, &mut drain, search);
        let mut held_back = None;
        while drain.items < DRAIN_ITEMS && drain.pages() < self.max_pages / 2 {
            let Ok(next) = self.commands.try_recv() else {
                break;
            };
            let next = self.taken(next);
            if !next.command.is_planned() {
                held_back = Some(next);
                break;
            }
            self.plan(next, &mut drain, search);
        }
        let read = drain.pins.len() as u64;
        let source = self
            .committer
            .metrics
            .page_reads
            .with_label_values(&["cache"]);
        source.inc_by(read);
        (drain, held_back)
    }

    /// Plans one command on top of the drain, or answers it at once if that
    /// can't be done now.
    fn plan(&self, request: Request, drain: &mut Drain, search: &mut KickSearch) {
        let Some(filter) = self.current(&request) else {
            return request.answer(Ok(Outcome::Stale));
        };
        let (pinned_before, held_before) = (drain.pins.len(), drain.pins.held());
        let state = drain
            .filters
            .entry(filter.id)
            .or_insert_with(|| PlannedFilter::of(&filter));
        let allowed = held_before + self.max_pages;
        let mut words =
            LaneWords::new(&self.committer.cache, &state.view, &mut drain.pins, allowed);
        let input = PlanInput {
            chain: state.chain.clone(),
            pending: &state.overlay,
            fresh_from: state.fresh_from,
        };
        let mut planner = Planner::new(input, &mut words, search);
        planner.reserve(request.command.items());
        let outcome = apply(&request.command, &mut planner);
        let plan = planner.finish();
        let (missing, over) = (words.missing, words.over);
        let (Some(plan), Some(outcome)) = (plan, outcome) else {
            return request.answer(if over {
                Err(self.too_many_pages(self.max_pages + 1))
            } else {
                self.committer.metrics.commands_requeued.inc();
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

    /// Commits what was planned, publishes it and answers. The pages stay
    /// pinned until then.
    pub(super) fn finish(&self, drain: Drain) -> CommitOutcome {
        let (stats, items) = (drain.stats, drain.items);
        let planned = drain.filters.into_values();
        self.commit_planned(drain.answers, planned, |changes| {
            self.committer.record(&stats, items, changes);
        })
    }

    /// Commits what was planned over filters that are there.
    pub(super) fn commit_planned(
        &self,
        answers: Vec<(Request, Outcome)>,
        planned: impl Iterator<Item = PlannedFilter>,
        publish: impl FnOnce(&[Changes]),
    ) -> CommitOutcome {
        let changed = planned.filter(PlannedFilter::is_changed);
        let changes: Vec<Changes> = changed.map(Changes::of).collect();
        let published = |it: &Changes| it.filter.view.load().chain.slot_bytes();
        let bytes_before: u64 = changes.iter().map(published).sum();
        let update = |it: &Changes| FilterChange::Update {
            id: it.filter.id,
            meta: it.view.chain.encode(),
            dropped: it.dropped.clone(),
        };
        let batch = Batch {
            answers,
            filter_changes: changes.iter().map(update).collect(),
            touched: changes.iter().map(|it| Arc::clone(&it.filter)).collect(),
            changes,
            created: None,
        };
        self.commit(batch, |changes, _| {
            let bytes = changes.iter().map(published).sum();
            self.quota.note(bytes_before, bytes, None);
            publish(changes);
        })
    }

    pub(super) fn too_many_pages(&self, needed: usize) -> EngineError {
        EngineError::TooManyPages {
            needed,
            bound: self.max_pages,
        }
    }
}
