//! One lane of one simulated pod: a replica and what it applied.

use super::{LEVELS, lane};
use crate::engine::{Halt, Position, Term};
use crate::{Effect, Event, LaneIdentity, PlanNumber, PlanOutcome, Record, Replica, Writer};

/// What a pod has applied, the record behind the position.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Applied {
    pub(super) position: Position,
    pub(super) record: Record,
}

impl Applied {
    /// The plan that it was.
    pub(super) fn plan(&self) -> PlanNumber {
        let commit = self.record.commit.as_ref();
        PlanNumber(u64::from_be_bytes(commit.try_into().unwrap()))
    }
}

/// A plan that was begun.
#[derive(Clone, Copy)]
pub(super) struct Begun {
    pub(super) term: Term,
    /// What the pod had applied then.
    pub(super) applied: usize,
    /// When that was.
    pub(super) since: u64,
}

/// A lane of a pod.
pub(super) struct Pod {
    pub(super) identity: LaneIdentity,
    /// Counts its starts.
    pub(super) life: u64,
    pub(super) replica: Replica,
    pub(super) applied: Vec<Applied>,
    /// How much of it a crash leaves.
    pub(super) durable: usize,
    /// A plan that waits for its next slice.
    pub(super) begun: Option<Begun>,
    /// The plan in flight.
    pub(super) sent: Option<(PlanNumber, Begun)>,
    /// Nothing reaches it before this step.
    pub(super) sleeps_until: usize,
    /// What it heard that others have applied, in all of its lives: it is on its disk.
    pub(super) heard: Vec<Position>,
    /// What of that its lane was told.
    pub(super) told: Vec<Position>,
}

impl Pod {
    pub(super) fn new(number: usize, of_lane: u32) -> Pod {
        let identity = lane(of_lane);
        Pod {
            identity,
            life: 0,
            replica: Replica::new(identity, writer(number, 0), LEVELS, identity.origin(), 0),
            applied: Vec::new(),
            durable: 0,
            begun: None,
            sent: None,
            sleeps_until: 0,
            heard: Vec::new(),
            told: Vec::new(),
        }
    }

    /// Hears that another pod has applied everything up to here. Returns what the lane
    /// is told of it: a position that it has passed is looked for in its past.
    pub(super) fn hear(&mut self, position: Position) -> Option<Event> {
        if !self.heard.contains(&position) {
            self.heard.push(position);
        }
        match position.sequence > self.replica.position().sequence {
            true => Some(Event::Acknowledged(position)),
            false if self.has(position) => None,
            false => Some(Event::Missing(position)),
        }
    }

    pub(super) fn has(&self, position: Position) -> bool {
        position.sequence == 0 || self.applied.iter().any(|it| it.position == position)
    }

    /// Starts anew from what is left.
    pub(super) fn crash(&mut self, number: usize, left: usize) {
        self.applied.truncate(left);
        self.life += 1;
        self.begun = None;
        self.sent = None;
        let newest = self.applied.last();
        self.replica = Replica::new(
            self.identity,
            writer(number, self.life),
            LEVELS,
            newest.map_or(self.identity.origin(), |it| it.position),
            newest.map_or(0, |it| it.record.stamp_ms),
        );
        for heard in self.heard.clone() {
            if let Some(event) = self.hear(heard) {
                self.handle(event);
            }
        }
    }

    pub(super) fn handle(&mut self, event: Event) -> Vec<Effect> {
        // What was passed before it was told is compared when it is heard of again.
        if let Event::Acknowledged(position) = event
            && position.sequence > self.replica.position().sequence
        {
            self.told.push(position);
        }
        self.replica.handle(event)
    }

    /// Starts anew with an empty disk.
    pub(super) fn wipe(&mut self, number: usize) {
        self.heard.clear();
        self.told.clear();
        self.durable = 0;
        self.crash(number, 0);
    }

    /// Starts anew with another pod's state, if that has more and the own in its past.
    pub(super) fn restore(&mut self, number: usize, from: Vec<Applied>) {
        let mine = self.replica.position();
        let holds_mine = mine.sequence == 0 || from.iter().any(|it| it.position == mine);
        if self.replica.is_behind() && holds_mine && from.len() > self.applied.len() {
            self.durable = from.len();
            self.applied = from;
            self.crash(number, self.durable);
        }
    }

    /// Applies a record: positions follow each other, and stamps never fall.
    pub(super) fn apply(&mut self, position: Position, record: Record) {
        let before = self.applied.last();
        let origin = self.identity.origin();
        assert_eq!(record.previous, before.map_or(origin, |it| it.position));
        assert!(position.sequence > record.previous.sequence);
        assert!(record.stamp_ms >= before.map_or(0, |it| it.record.stamp_ms));
        self.applied.push(Applied { position, record });
    }

    /// What became of the plan in flight, which is returned. What it began from must have
    /// been changed by this process alone.
    pub(super) fn settled(&mut self, plan: PlanNumber, outcome: PlanOutcome) -> Option<Begun> {
        let (_, begun) = self.sent.take_if(|(sent, _)| *sent == plan)?;
        if let PlanOutcome::Committed(position) = outcome {
            let mine = self.applied.last().unwrap();
            assert_eq!(mine.position, position);
            // What it was told of others, and has not come to yet, was no reason not to
            // send it.
            let mut passed = self.told.iter();
            let lacks = passed.find(|it| it.sequence <= position.sequence && !self.has(**it));
            assert_eq!(lacks, None, "{plan:?} goes on without it");
            for since in &self.applied[begun.applied..] {
                assert_eq!(since.record.writer, mine.record.writer, "{plan:?}");
            }
        }
        Some(begun)
    }

    /// What its plans are bound to. It leads only with all that it was told of others.
    pub(super) fn term(&self) -> Option<Term> {
        let term = self.replica.term();
        let lacks = self.told.iter().find(|it| !self.has(**it));
        assert!(
            term.is_none() || lacks.is_none(),
            "it leads without {lacks:?}"
        );
        term
    }

    pub(super) fn halted(&self) -> Option<&Halt> {
        self.replica.halted()
    }
}

fn writer(number: usize, life: u64) -> Writer {
    let mut writer = [0; 16];
    writer[0] = number as u8;
    writer[8..].copy_from_slice(&life.to_be_bytes());
    Writer(writer)
}
