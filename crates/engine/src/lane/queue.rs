//! The queue in front of a lane, fair to API keys and filters. What may be in it is
//! bounded by what its [`shares`](super::shares) give.

use super::command::Command;
use super::fair::FairQueue;
use super::request::Request;
use super::units::SLICE_UNITS;
use crate::error::{EngineError, Result};
use crate::page::FilterId;
use parking_lot::{Condvar, Mutex};
use prometheus::{Histogram, IntGauge};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// What waits for one lane.
pub(crate) struct LaneQueue {
    waiting: Mutex<Waiting>,
    /// Whether a command was withdrawn since they were looked for.
    has_withdrawn: AtomicBool,
    arrived: Condvar,
    /// Commands that wait, for the metrics.
    depth: IntGauge,
    /// How long they waited, each until it was taken first.
    waits: Histogram,
}

struct Waiting {
    turns: FairQueue<Option<Arc<str>>, Flow, Waits>,
    commands: usize,
    /// Commands that need slices of their own.
    long: usize,
    /// Whether there is something else to be done before a command.
    is_woken: bool,
    is_closed: bool,
}

/// What keeps its order among a key's commands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Flow {
    /// Changes to what is in a filter.
    Changes(FilterId),
    /// Whole filters: they do not wait for what is planned over them.
    Filters,
}

enum Waits {
    Command(Box<Request>),
    /// The plan that is suspended, for its next slice.
    Plan,
}

impl Waits {
    /// Whether it is a command that needs slices of its own.
    fn is_long(&self) -> bool {
        matches!(self, Waits::Command(request) if request.is_long())
    }
}

/// Where a command came from, and what it costs is charged to.
#[derive(Clone, Debug)]
pub(super) struct Turn {
    key: Option<Arc<str>>,
    pub(super) flow: Flow,
}

/// What a lane is to do next.
pub(super) enum Next {
    /// Work on a command.
    Command(Turn, Box<Request>),
    /// Go on with the plan that is suspended.
    Plan(Turn),
    /// Nothing came in time.
    Nothing,
    /// Stop: nothing waits, and nothing will come.
    Stop,
}

impl Flow {
    pub(super) fn of(request: &Request) -> Flow {
        let filter = request.filter.as_ref().map(|filter| filter.id);
        match (&request.command, filter) {
            (Command::Items(..) | Command::Sweep { .. } | Command::Compact(_), Some(id)) => {
                Flow::Changes(id)
            }
            (Command::Create(create), _) => Flow::Changes(create.id),
            _ => Flow::Filters,
        }
    }
}

impl LaneQueue {
    /// Nothing waits.
    pub(crate) fn new(depth: IntGauge, waits: Histogram) -> LaneQueue {
        LaneQueue {
            waiting: Mutex::new(Waiting {
                turns: FairQueue::new(SLICE_UNITS as i64),
                commands: 0,
                long: 0,
                is_woken: false,
                is_closed: false,
            }),
            has_withdrawn: AtomicBool::new(false),
            arrived: Condvar::new(),
            depth,
            waits,
        }
    }

    /// Puts a command behind those of its flow.
    ///
    /// # Errors
    /// The lane stops.
    pub(super) fn push(&self, request: Request) -> Result {
        let mut waiting = self.waiting.lock();
        if waiting.is_closed {
            return Err(EngineError::Stopping);
        }
        self.count_waiting(&mut waiting, &request);
        let (key, flow) = (request.caller.key.clone(), Flow::of(&request));
        let request = Waits::Command(Box::new(request));
        waiting.turns.push(&key, &flow, request);
        drop(waiting);
        self.arrived.notify_one();
        Ok(())
    }

    /// Whether a long command waits.
    pub(super) fn has_long(&self) -> bool {
        self.waiting.lock().long > 0
    }

    /// The long command that comes next, if one waits: for when no plan is
    /// suspended.
    pub(super) fn next_long(&self) -> Option<Next> {
        let mut waiting = self.waiting.lock();
        if waiting.long == 0 {
            return None;
        }
        let next = waiting.turns.next_waiting(Waits::is_long)?;
        Some(self.taken(&mut waiting, next))
    }

    /// What comes next of all that may go, waiting for it for a while.
    pub(super) fn next(&self, may_go: impl Fn(&Request) -> bool, patience: Duration) -> Next {
        let mut waiting = self.waiting.lock();
        loop {
            // That comes first.
            if waiting.is_woken {
                return Next::Nothing;
            }
            let next = waiting.turns.next(|it| match it {
                Waits::Command(request) => may_go(request),
                Waits::Plan => true,
            });
            match next {
                Some(next) => return self.taken(&mut waiting, next),
                None if waiting.is_closed && waiting.commands == 0 => return Next::Stop,
                None if patience.is_zero() => return Next::Nothing,
                None => {
                    let until = Instant::now() + patience;
                    if self.arrived.wait_until(&mut waiting, until).timed_out() {
                        return Next::Nothing;
                    }
                }
            }
        }
    }

    /// Puts a command back to where it was taken from.
    pub(super) fn put_back(&self, turn: &Turn, request: Request) {
        let mut waiting = self.waiting.lock();
        self.count_waiting(&mut waiting, &request);
        let request = Waits::Command(Box::new(request));
        waiting.turns.put_back(&turn.key, &turn.flow, request);
    }

    /// Puts a command back that was worked on in vain, before all of its flow.
    pub(super) fn give_back(&self, request: Request) {
        let turn = Turn {
            key: request.caller.key.clone(),
            flow: Flow::of(&request),
        };
        self.put_back(&turn, request);
    }

    /// Lets the plan that is suspended have a further turn.
    pub(super) fn put_back_plan(&self, turn: &Turn) {
        let mut waiting = self.waiting.lock();
        let (key, flow) = (&turn.key, &turn.flow);
        waiting.turns.put_back_under_way(key, flow, Waits::Plan);
        if waiting.long > 0 {
            let turns = &mut waiting.turns;
            turns.bring_forward_for_others(key, flow, Waits::is_long);
        }
    }

    /// Takes the turn of the plan that was suspended, which is dropped.
    pub(super) fn drop_plan(&self) {
        let mut waiting = self.waiting.lock();
        waiting.turns.take_out(|it| matches!(it, Waits::Plan));
    }

    /// Takes what was done off the balance of whoever asked for it.
    pub(super) fn charge(&self, turn: &Turn, units: u64) {
        let units = i64::try_from(units).unwrap_or(i64::MAX);
        let mut waiting = self.waiting.lock();
        waiting.turns.charge(&turn.key, &turn.flow, units);
    }

    /// Has the lane do something else before its next command.
    pub(super) fn wake(&self) {
        self.waiting.lock().is_woken = true;
        self.arrived.notify_one();
    }

    /// The lane does that now: what it is woken for from here on is something further.
    pub(super) fn clear_wake(&self) {
        self.waiting.lock().is_woken = false;
    }

    /// Takes no further command; those that wait are still worked on.
    pub(crate) fn close(&self) {
        self.waiting.lock().is_closed = true;
        self.arrived.notify_one();
    }

    /// Whether it takes no further command.
    pub(crate) fn is_closed(&self) -> bool {
        self.waiting.lock().is_closed
    }

    fn taken(&self, waiting: &mut Waiting, it: (Option<Arc<str>>, Flow, Waits)) -> Next {
        let (key, flow, it) = it;
        let turn = Turn { key, flow };
        match it {
            Waits::Command(mut request) => {
                self.count_taken(waiting, &request);
                // One that was put back has waited already.
                if let Some(queued_at) = request.queued_at.take() {
                    self.waits.observe(queued_at.elapsed().as_secs_f64());
                }
                Next::Command(turn, request)
            }
            Waits::Plan => Next::Plan(turn),
        }
    }

    fn count_waiting(&self, waiting: &mut Waiting, request: &Request) {
        waiting.commands += 1;
        waiting.long += usize::from(request.is_long());
        self.depth.inc();
    }

    fn count_taken(&self, waiting: &mut Waiting, request: &Request) {
        waiting.commands -= 1;
        waiting.long -= usize::from(request.is_long());
        self.depth.dec();
    }

    /// Says that a command was withdrawn, which may still wait.
    pub(super) fn mark_withdrawn(&self) {
        self.has_withdrawn.store(true, Ordering::Release);
    }

    /// Makes room: nobody waits for what these come to. Says whether there were any.
    /// Looks at all that waits, but no more often than commands are withdrawn.
    pub(super) fn drop_withdrawn(&self) -> bool {
        if !self.has_withdrawn.swap(false, Ordering::AcqRel) {
            return false;
        }
        let is_withdrawn =
            |it: &Waits| matches!(it, Waits::Command(request) if request.progress.is_withdrawn());
        let mut waiting = self.waiting.lock();
        let withdrawn = waiting.turns.take_out(is_withdrawn);
        for it in &withdrawn {
            if let Waits::Command(request) = it {
                self.count_taken(&mut waiting, request);
            }
        }
        !withdrawn.is_empty()
    }
}

#[cfg(test)]
mod tests;
