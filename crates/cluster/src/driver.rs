//! Does what a replica says is to be done, over a log: where rules meet I/O.

use super::commit_log::{Answer, CommitLog, Found, LogError};
use super::record::Record;
use super::replica::{Attempt, Effect, Event, PlanNumber, PlanOutcome, Replica};
use crate::engine::Halt;
use crate::engine::Position;
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How long the end of the log is waited for at once.
const READ_WAIT: Duration = Duration::from_millis(200);

/// The first pause before something is tried again, and the longest.
const FIRST_PAUSE: Duration = Duration::from_millis(10);
const LONGEST_PAUSE: Duration = Duration::from_millis(500);

/// What records are applied to.
pub trait Apply {
    /// Applies a record, and stores the position with it. Nothing may fail: what
    /// could is made sure of before a record is sent.
    fn apply(&mut self, position: Position, record: &Record);
}

/// What those must hear who wait for a lane.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Report {
    /// A plan is settled.
    Settled(PlanNumber, PlanOutcome),
    /// The state of another pod is needed.
    Restore,
    /// The lane stands still for good.
    Halted(Halt),
}

/// What the log is to be asked.
#[derive(Clone, Debug)]
enum Question {
    Append(Attempt),
    Read,
    Look(u64),
}

/// A lane of a pod, and the log that it follows. One thread has it.
pub struct Driver<A> {
    replica: Replica,
    log: Arc<dyn CommitLog>,
    lane: u32,
    state: A,
    /// What is to be done still.
    due: VecDeque<Question>,
    /// How often in turn something was tried in vain.
    failures: u32,
}

impl<A: Apply> Driver<A> {
    /// A lane at its replica's position, which is that of `state`.
    pub fn new(replica: Replica, log: Arc<dyn CommitLog>, lane: u32, state: A) -> Driver<A> {
        Driver {
            replica,
            log,
            lane,
            state,
            due: VecDeque::new(),
            failures: 0,
        }
    }

    /// The replica.
    pub fn replica(&self) -> &Replica {
        &self.replica
    }

    /// What records are applied to.
    pub fn state(&self) -> &A {
        &self.state
    }

    /// The same, to be changed.
    pub fn state_mut(&mut self) -> &mut A {
        &mut self.state
    }

    /// Whether something is left to be done.
    pub fn has_work(&self) -> bool {
        !self.due.is_empty()
    }

    /// Takes what happened, and does what follows from it until nothing is to be
    /// done or the deadline is over: the rest is done by the next call. Blocks.
    pub fn handle(&mut self, event: Event, deadline: Instant) -> Vec<Report> {
        let mut reports = Vec::new();
        self.follow_up(event, &mut reports);
        self.work(deadline, &mut reports);
        reports
    }

    /// Does what is left to be done, until the deadline at the longest. Blocks.
    pub fn go_on(&mut self, deadline: Instant) -> Vec<Report> {
        let mut reports = Vec::new();
        self.work(deadline, &mut reports);
        reports
    }

    fn work(&mut self, deadline: Instant, reports: &mut Vec<Report>) {
        while let Some(question) = self.due.pop_front() {
            if Instant::now() >= deadline {
                self.due.push_front(question);
                return;
            }
            match self.ask(&question, deadline) {
                Some(event) => self.follow_up(event, reports),
                None => {
                    self.due.push_front(question);
                    self.pause(deadline);
                }
            }
        }
    }

    /// Of what follows from an event, applies and reports at once; keeps what needs the
    /// log.
    fn follow_up(&mut self, event: Event, reports: &mut Vec<Report>) {
        for effect in self.replica.handle(event) {
            match effect {
                Effect::Apply { position, record } => {
                    self.failures = 0;
                    self.state.apply(position, &record);
                }
                Effect::Settle(plan, outcome) => reports.push(Report::Settled(plan, outcome)),
                Effect::Restore => {
                    tracing::error!(
                        lane = self.lane,
                        "the commit log no longer has what this pod lacks: it needs the state of another pod"
                    );
                    reports.push(Report::Restore);
                }
                Effect::Halt(halt) => {
                    tracing::error!(lane = self.lane, %halt, "the lane stands still");
                    self.due.clear();
                    reports.push(Report::Halted(halt));
                }
                Effect::Append(asked) => self.due.push_back(Question::Append(asked)),
                Effect::Read => self.due.push_back(Question::Read),
                Effect::Look(sequence) => self.due.push_back(Question::Look(sequence)),
            }
        }
    }

    /// Asks the log. `None`: it has to be asked again.
    fn ask(&mut self, question: &Question, deadline: Instant) -> Option<Event> {
        match question {
            Question::Append(asked) => {
                let (number, attempt) = (asked.number, asked.attempt);
                if attempt > 1 {
                    self.pause(deadline);
                }
                let answer = self.log.append(self.lane, &asked.append);
                if !matches!(
                    answer,
                    Answer::Stored {
                        is_duplicate: false,
                        ..
                    }
                ) {
                    let lane = self.lane;
                    tracing::debug!(lane, attempt, ?answer, "a record is not settled");
                }
                Some(Event::Answered {
                    number,
                    attempt,
                    answer,
                })
            }
            Question::Read => self.read_to_the_end(),
            Question::Look(sequence) => match self.log.look(self.lane, *sequence) {
                Found::Unsure => None,
                found => Some(Event::Looked {
                    sequence: *sequence,
                    found,
                }),
            },
        }
    }

    /// One reading; it is all if nothing was behind it when it was asked for.
    fn read_to_the_end(&mut self) -> Option<Event> {
        let after = self.replica.position().sequence;
        let unread = |error: &LogError| {
            tracing::debug!(%error, lane = self.lane, "the commit log is read to its end again");
        };
        let newest = self.log.newest(self.lane).inspect_err(unread).ok()?;
        if newest <= after {
            let records = Vec::new();
            let is_all = true;
            return Some(Event::Read { records, is_all });
        }
        let records = self.log.read(self.lane, after, READ_WAIT);
        let records = records.inspect_err(unread).ok()?;
        let last = records.last()?.sequence;
        let is_all = last >= newest;
        if !is_all {
            self.due.push_front(Question::Read);
        }
        Some(Event::Read { records, is_all })
    }

    /// Waits a little longer each time, but not beyond the deadline.
    fn pause(&mut self, deadline: Instant) {
        let pause = FIRST_PAUSE.saturating_mul(1 << self.failures.min(8));
        self.failures += 1;
        let left = deadline.saturating_duration_since(Instant::now());
        std::thread::sleep(pause.min(LONGEST_PAUSE).min(left));
    }
}
