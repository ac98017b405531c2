//! The single writer of its filters.
//!
//! A lane is a thread. It takes the commands that wait, plans them one after
//! another over an overlay, commits everything at once, publishes, and answers
//! every caller: one forced write serves all that waited for it. A command that
//! needs a page which is not resident is handed back to its caller with the
//! pages named, so one cold filter does not hold up the others.
//!
//! A commit that failed changed nothing in memory. Whether it is in the store
//! is unknown until its number has been written again, which the lane does
//! before anything else: no record, and every filter it touched as it is.

use super::allowance::Allowance;
use super::command::Command;
use super::commit::{Indeterminate, Lane};
use super::group_commit::{GroupOutcome, may_go, most_beside};
use super::memory::PlanMemory;
use super::ordering::{SharedOrdering, is_answered};
use super::queue::{Next, Turn};
use super::request::Request;
use super::sliced::{SlicedPlan, Stage};
use super::slices::Sliced;
use super::units::{COMMAND_UNITS, UNITS_ALONE};
use crate::error::{EngineError, Overload};
use crate::pages::NoRoom;
use cuckood_pages::AbortOnPanic;
use std::time::Duration;

/// How often a lane tries to settle a commit of unknown outcome while no
/// command comes.
const SETTLE_EVERY: Duration = Duration::from_millis(500);

/// The same if there is something to be done with its commit log, or if a command
/// waits for pages that other lanes hold.
const FOLLOW_EVERY: Duration = Duration::from_millis(10);

/// What a lane has under way from one turn to the next.
struct UnderWay {
    memory: PlanMemory,
    indeterminate: Option<Indeterminate>,
    /// The plan that takes more than one slice, if there is one.
    suspended: Option<Box<SlicedPlan>>,
    /// Whether a long command that has waited for pages may have them now.
    is_granted: bool,
}

impl Lane {
    /// Works until no commands can be sent any more.
    pub(crate) fn run(self) {
        let mut under_way = UnderWay {
            memory: PlanMemory::new(Allowance::new(&self.allowances, self.number)),
            indeterminate: None,
            suspended: None,
            is_granted: false,
        };
        let _guard = AbortOnPanic;
        loop {
            if let Some(shared) = &self.shared {
                self.follow(shared, &mut under_way);
            }
            self.look_after_pages(&mut under_way);
            let had_plan = under_way.suspended.is_some();
            let is_waiting = under_way.memory.allowance.is_waiting;
            let may_go = |request: &Request| {
                may_go(under_way.suspended.as_deref(), &under_way.memory, request)
            };
            let long = match had_plan || is_waiting {
                true => None,
                false => self.queue.next_long(),
            };
            let next = long.unwrap_or_else(|| self.queue.next(may_go, self.patience(is_waiting)));
            under_way.indeterminate = under_way
                .indeterminate
                .take()
                .and_then(|unknown| self.settle(unknown));
            match next {
                Next::Nothing => {}
                Next::Stop => break,
                Next::Command(_, request) if request.progress.is_withdrawn() => {}
                Next::Command(turn, request) => match self.refusal(&under_way, &request) {
                    Some(refusal) => request.answer(Err(refusal)),
                    None => self.work(turn, *request, &mut under_way),
                },
                Next::Plan(_) => {
                    if let Some(plan) = under_way.suspended.take() {
                        self.go_on(plan, &mut under_way);
                    }
                }
            }
            let change = i64::from(under_way.suspended.is_some()) - i64::from(had_plan);
            self.metrics.suspended_plans.add(change);
        }
        if let Some(unknown) = under_way.indeterminate
            && self.settle(unknown).is_some()
        {
            tracing::error!("stopped with a commit of unknown outcome");
        }
    }

    /// Does what is to be done to have commits ordered, and applies what has come of
    /// it.
    fn follow(&self, shared: &SharedOrdering, under_way: &mut UnderWay) {
        self.queue.clear_wake();
        shared.go_on();
        while let Some(mut settled) = shared.order.take_settled() {
            // It was planned without this.
            if let Some(plan) = under_way.suspended.take() {
                let (turn, request) = plan.into_request();
                self.queue.drop_plan();
                self.queue.put_back(&turn, request.into_long());
                self.metrics.suspended_plans.dec();
                // Nothing of what others may wait for is held over what comes now.
                under_way.memory.allowance.give_back();
            }
            if let Err(error) = self.apply(shared, &mut settled) {
                return shared.order.put_back(settled, &error);
            }
        }
    }

    /// Gives back the pages that nothing is planned over any more, and asks again for
    /// those that a long command waits for.
    fn look_after_pages(&self, under_way: &mut UnderWay) {
        if under_way.suspended.is_some() {
            return;
        }
        let allowance = &mut under_way.memory.allowance;
        let is_wanted = allowance.is_waiting || under_way.is_granted;
        if is_wanted && self.queue.has_long() {
            under_way.is_granted = allowance.take_all();
        } else {
            under_way.is_granted = false;
            allowance.give_back();
        }
    }

    /// How long commands are waited for, perhaps beside one that waits for pages.
    fn patience(&self, is_waiting: bool) -> Duration {
        let shared = self.shared.as_ref();
        match is_waiting || shared.is_some_and(|it| it.order.has_work()) {
            true => FOLLOW_EVERY,
            false => SETTLE_EVERY,
        }
    }

    /// Why nothing can be committed now, if so.
    fn refusal(&self, under_way: &UnderWay, request: &Request) -> Option<EngineError> {
        if let Some(refusal) = self.not_leading(request) {
            return Some(refusal);
        }
        match &under_way.indeterminate {
            Some(unknown) => Some(unknown.refusal(&self.disk)),
            // What makes room does not wait for it.
            None if request.command.needs_room() => self.wait_for_room().err(),
            None => None,
        }
    }

    /// Why a lane that several pods have does not plan a request now, if so.
    pub(super) fn not_leading(&self, request: &Request) -> Option<EngineError> {
        let shared = self.shared.as_ref()?;
        if let Some(refusal) = shared.order.refusal() {
            return Some(refusal);
        }
        // Since it was looked for, another pod may have answered it.
        match is_answered(&self.store, request.recorder.as_ref()?) {
            Ok(true) => Some(EngineError::RetryInFlight),
            Ok(false) => None,
            Err(error) => Some(error.into()),
        }
    }

    /// Waits for room in log and memory.
    ///
    /// # Errors
    /// There is none.
    pub(super) fn wait_for_room(&self) -> Result<(), EngineError> {
        self.checkpointer.wait_for_room().map_err(|reason| {
            if reason == NoRoom::Counters {
                return Overload::Counters.into();
            }
            tracing::warn!(%reason, "a command is refused because checkpoints fail");
            let refusal = self.disk.check().err();
            refusal.map_or(Overload::Checkpoints.into(), EngineError::from)
        })
    }

    fn work(&self, turn: Turn, mut request: Request, under_way: &mut UnderWay) {
        // The filter that it makes has the number that the lane gives it.
        if let Some(shared) = &self.shared
            && let Command::Create(create) = &mut request.command
        {
            create.id = shared.next_filter(&create.name);
        }
        if request.is_long() && under_way.suspended.is_none() {
            if !under_way.memory.allowance.take_all() {
                return self.queue.put_back(&turn, request);
            }
            under_way.is_granted = false;
            // Others may have filled the room since it was waited for.
            if request.command.needs_room()
                && let Err(refusal) = self.wait_for_room()
            {
                return request.answer(Err(refusal));
            }
        }
        match &request.command {
            Command::Create(create) => {
                self.queue.charge(&turn, UNITS_ALONE);
                let create = create.clone();
                if let Some(plan) = self.begin_creation(turn, request, &create) {
                    self.go_on(plan, under_way);
                }
            }
            _ if request.is_grouped() => {
                let GroupOutcome {
                    sliced,
                    indeterminate,
                } = self.commit_group(
                    turn,
                    request,
                    under_way.suspended.as_deref(),
                    &mut under_way.memory,
                );
                under_way.indeterminate = indeterminate;
                if let Some(plan) = sliced {
                    self.suspend(plan, under_way);
                }
            }
            Command::Items(..) => {
                if let Some(plan) = self.begin_sliced(turn, request) {
                    self.go_on(plan, under_way);
                }
            }
            _ => {
                self.queue.charge(&turn, UNITS_ALONE);
                under_way.indeterminate = self.work_alone(request);
            }
        }
    }

    /// Has a plan go on, or be dropped.
    fn go_on(&self, plan: Box<SlicedPlan>, under_way: &mut UnderWay) {
        if let Some(refusal) = self.shared.as_ref().and_then(|it| it.order.refusal()) {
            return plan.request.answer(Err(refusal));
        }
        if let Some(unknown) = &under_way.indeterminate {
            return plan.request.answer(Err(unknown.refusal(&self.disk)));
        }
        match self.slice(plan, &mut under_way.memory.search) {
            Sliced::Ended(indeterminate) => under_way.indeterminate = indeterminate,
            Sliced::More(plan) => {
                let suspended = under_way.suspended.as_deref();
                let held = suspended.map_or(0, SlicedPlan::pages);
                let fits = under_way.memory.allowance.covers(held + plan.pages());
                let most_pages = match fits {
                    true => most_beside(suspended, &under_way.memory),
                    false => 0,
                };
                let fits = plan.pages() <= most_pages;
                let plan = *plan;
                match plan.stage {
                    // It had no more to do than a command of a group commit.
                    Stage::Planned(planned) if fits && planned.spent <= COMMAND_UNITS => {
                        let (encoded, came) = planned.encode_all(&plan.request.command);
                        let (owner, pins) = (plan.target.filter.owner.as_ref(), plan.pins);
                        under_way.indeterminate =
                            self.commit_encoded(plan.request, owner, pins, encoded, came);
                    }
                    stage => self.suspend(Box::new(SlicedPlan { stage, ..plan }), under_way),
                }
            }
        }
    }

    /// Puts a plan aside until its next turn.
    fn suspend(&self, plan: Box<SlicedPlan>, under_way: &mut UnderWay) {
        // There is one at a time, which has all that the lane may hold: it begins anew
        // when the other has ended, or when there is as much.
        if under_way.suspended.is_some() || !under_way.memory.allowance.try_take_all() {
            let (turn, request) = plan.into_request();
            return self.queue.put_back(&turn, request.into_long());
        }
        self.queue.put_back_plan(&plan.turn);
        under_way.suspended = Some(plan);
    }
}
