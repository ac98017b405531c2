//! The single writer of its filters.
//!
//! A lane is a thread. It drains the commands that wait, plans them one after
//! another over an overlay, commits everything at once, publishes, and answers
//! every caller: one forced write serves all that waited for it. A command that
//! needs a page which is not resident is handed back to its caller with the
//! pages named, so one cold filter does not hold up the others.
//!
//! A commit that failed changed nothing in memory. Whether it is in the store
//! is unknown until its number has been written again, which the lane does
//! before anything else: no record, and every filter it touched as it is.

use super::command::Command;
use super::commit::{InDoubt, Lane};
use super::drain::{Drained, may_go};
use super::memory::PlanMemory;
use super::queue::{Next, Turn};
use super::replicated::{ReplicatedOrdering, is_answered};
use super::request::Request;
use super::sliced::SlicedPlan;
use super::slices::Sliced;
use super::units::UNITS_ALONE;
use crate::engine::error::{EngineError, Overload};
use crate::engine::pages::NoRoom;
use crate::engine::threads::AbortOnPanic;
use std::time::Duration;

/// How often a lane tries to settle a commit of unknown outcome while no
/// command comes.
const SETTLE_EVERY: Duration = Duration::from_millis(500);

/// The same if there is something to be done with its commit log.
const FOLLOW_EVERY: Duration = Duration::from_millis(10);

/// What a lane has under way from one turn to the next.
struct UnderWay {
    memory: PlanMemory,
    in_doubt: Option<InDoubt>,
    /// The plan that takes more than one slice, if there is one.
    suspended: Option<Box<SlicedPlan>>,
}

impl Lane {
    /// Works until no commands can be sent any more.
    pub(crate) fn run(self) {
        let mut under_way = UnderWay {
            memory: PlanMemory::default(),
            in_doubt: None,
            suspended: None,
        };
        let _guard = AbortOnPanic;
        loop {
            if let Some(replicated) = self.ordering.replicated() {
                self.follow(replicated, &mut under_way);
            }
            let had_plan = under_way.suspended.is_some();
            let may_go = |request: &Request| may_go(under_way.suspended.as_deref(), request);
            let long = match had_plan {
                true => None,
                false => self.queue.next_long(),
            };
            let next = long.unwrap_or_else(|| self.queue.next(may_go, self.patience()));
            under_way.in_doubt = under_way
                .in_doubt
                .take()
                .and_then(|doubt| self.settle(doubt));
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
        if let Some(doubt) = under_way.in_doubt
            && self.settle(doubt).is_some()
        {
            tracing::error!("stopped with a commit of unknown outcome");
        }
    }

    /// Does what is to be done with the commit log, and applies what has come of
    /// it.
    fn follow(&self, replicated: &ReplicatedOrdering, under_way: &mut UnderWay) {
        replicated.go_on(self.queue.next_event());
        while let Some(mut arrived) = replicated.take_arrived() {
            // It was planned without this.
            if let Some(plan) = under_way.suspended.take() {
                let (turn, request) = plan.into_request();
                self.queue.drop_plan();
                self.queue.put_back(&turn, request.into_long());
                self.metrics.suspended_plans.dec();
            }
            if let Err(error) = self.apply(replicated, &mut arrived) {
                return replicated.put_back(arrived, &error);
            }
        }
    }

    /// How long commands are waited for.
    fn patience(&self) -> Duration {
        match self.ordering.replicated().is_some_and(|it| it.has_work()) {
            true => FOLLOW_EVERY,
            false => SETTLE_EVERY,
        }
    }

    /// Why nothing can be committed now, if so.
    fn refusal(&self, under_way: &UnderWay, request: &Request) -> Option<EngineError> {
        if let Some(refusal) = self.not_leading(request) {
            return Some(refusal);
        }
        match &under_way.in_doubt {
            Some(doubt) => Some(self.disk.refusal(&doubt.cause)),
            // What makes room does not wait for it.
            None if request.command.needs_room() => self.wait_for_room().err(),
            None => None,
        }
    }

    /// Why a lane that several pods have does not plan a request now, if so.
    pub(super) fn not_leading(&self, request: &Request) -> Option<EngineError> {
        let replicated = self.ordering.replicated()?;
        if request.command.is_question() {
            return None;
        }
        if let Some(refusal) = replicated.refusal() {
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
            refusal.unwrap_or(Overload::Checkpoints.into())
        })
    }

    fn work(&self, turn: Turn, mut request: Request, under_way: &mut UnderWay) {
        if let Some(replicated) = self.ordering.replicated() {
            request.number(|| replicated.next_filter());
        }
        match &request.command {
            Command::Create(create) => {
                self.queue.charge(&turn, UNITS_ALONE);
                let create = create.clone();
                if let Some(plan) = self.begin_creation(turn, request, &create) {
                    self.go_on(plan, under_way);
                }
            }
            _ if request.is_drained() => {
                let Drained { sliced, in_doubt } = self.drain(
                    turn,
                    request,
                    under_way.suspended.as_deref(),
                    &mut under_way.memory,
                );
                under_way.in_doubt = in_doubt;
                if let Some(plan) = sliced {
                    self.suspend(plan, under_way);
                }
            }
            Command::Items(..) | Command::Steps(..) | Command::Values(..) | Command::Rows(..) => {
                if let Some(plan) = self.begin_sliced(turn, request) {
                    self.go_on(plan, under_way);
                }
            }
            _ => {
                self.queue.charge(&turn, UNITS_ALONE);
                under_way.in_doubt = self.work_alone(request);
            }
        }
    }

    /// Has a plan go on, or be dropped.
    fn go_on(&self, plan: Box<SlicedPlan>, under_way: &mut UnderWay) {
        if let Some(refusal) = self.ordering.replicated().and_then(|it| it.refusal()) {
            return plan.answer(Err(refusal));
        }
        if let Some(doubt) = &under_way.in_doubt {
            return plan.answer(Err(self.disk.refusal(&doubt.cause)));
        }
        match self.slice(plan, &mut under_way.memory.search) {
            Sliced::Ended(in_doubt) => under_way.in_doubt = in_doubt,
            Sliced::More(plan) => {
                let most_pages = self.allowance(under_way.suspended.as_deref());
                match plan.into_small(most_pages) {
                    Ok(small) => under_way.in_doubt = self.commit_small(small),
                    Err(plan) => self.suspend(plan, under_way),
                }
            }
        }
    }

    /// Puts a plan aside until its next turn.
    fn suspend(&self, plan: Box<SlicedPlan>, under_way: &mut UnderWay) {
        match under_way.suspended {
            // There is one at a time: it begins anew when the other has ended.
            Some(_) => {
                let (turn, request) = plan.into_request();
                self.queue.put_back(&turn, request.into_long());
            }
            None => {
                self.queue.put_back_plan(&plan.turn);
                under_way.suspended = Some(plan);
            }
        }
    }
}
