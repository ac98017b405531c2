//! A log in memory that behaves as JetStream does, at its worst: it may drop,
//! repeat and delay what is sent to it, refuse what it stores, remember ids of
//! what it lost, be rewound and be made anew.

use crate::{Answer, Append, Found, MessageId, Stored};
use std::collections::HashMap;

/// What is wrong with the way a record takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fault {
    /// Nothing.
    None,
    /// It does not arrive.
    Dropped,
    /// It is refused, because another one is said to be in process.
    Busy,
    /// It is stored if it may be, and refused.
    RefusedAndStored,
    /// It is stored if it may be, and the answer is lost.
    Unanswered,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Entry {
    pub(super) lane: u32,
    pub(super) stored: Stored,
}

/// The log: one sequence of numbers for all lanes.
#[derive(Default)]
pub(super) struct SimulatedLog {
    /// What it has.
    entries: Vec<Entry>,
    /// What it ever had and did not lose, trimmed or not.
    pub(super) past: Vec<Entry>,
    last: u64,
    seen: HashMap<MessageId, u64>,
}

impl SimulatedLog {
    /// A record arrives.
    pub(super) fn append(&mut self, lane: u32, append: &Append, fault: Fault) -> Answer {
        match fault {
            Fault::None => self.store(lane, append),
            Fault::Dropped => Answer::Unknown,
            Fault::Busy => Answer::Refused,
            Fault::RefusedAndStored => {
                self.store(lane, append);
                Answer::Refused
            }
            Fault::Unanswered => {
                self.store(lane, append);
                Answer::Unknown
            }
        }
    }

    fn store(&mut self, lane: u32, append: &Append) -> Answer {
        // The id is looked for before the fence.
        if let Some(&sequence) = self.seen.get(&append.id) {
            return Answer::Stored {
                sequence,
                is_duplicate: true,
            };
        }
        if self.newest(lane) != append.expected {
            return Answer::Refused;
        }
        self.last += 1;
        let sequence = self.last;
        self.seen.insert(append.id, sequence);
        let bytes = append.bytes.clone();
        let entry = Entry {
            lane,
            stored: Stored { sequence, bytes },
        };
        self.entries.push(entry.clone());
        self.past.push(entry);
        Answer::Stored {
            sequence,
            is_duplicate: false,
        }
    }

    /// The fence of a lane: 0 without a record, whatever there was.
    pub(super) fn newest(&self, lane: u32) -> u64 {
        let mut of_lane = self.entries.iter().rev().filter(|it| it.lane == lane);
        of_lane.next().map_or(0, |it| it.stored.sequence)
    }

    /// Up to `most` records of a lane behind `after`, as a server sees them that
    /// has not heard of the newest `unheard` ones.
    pub(super) fn read(
        &self,
        lane: u32,
        after: u64,
        unheard: usize,
        most: usize,
    ) -> (Vec<Stored>, bool) {
        let heard = self.entries.len().saturating_sub(unheard);
        let of_lane = self.entries[..heard]
            .iter()
            .filter(|it| it.lane == lane && it.stored.sequence > after);
        let mut records: Vec<Stored> = of_lane.map(|it| it.stored.clone()).take(most + 1).collect();
        let is_all = records.len() <= most;
        records.truncate(most);
        (records, is_all)
    }

    pub(super) fn look(&self, lane: u32, sequence: u64) -> Found {
        let found = self
            .entries
            .iter()
            .find(|it| it.lane == lane && it.stored.sequence == sequence);
        match found {
            Some(it) => Found::Record(it.stored.bytes.clone()),
            None => Found::Absent {
                newest: self.newest(lane),
            },
        }
    }

    /// Forgets what a lane has before `before`.
    pub(super) fn trim(&mut self, lane: u32, before: u64) {
        self.entries
            .retain(|it| it.lane != lane || it.stored.sequence >= before);
    }

    /// Loses the newest records, of all lanes.
    pub(super) fn rewind(&mut self, records: usize, keeps_ids: bool) {
        let kept = self.entries.len().saturating_sub(records);
        if let Some(lost) = self.entries.get(kept) {
            self.last = lost.stored.sequence - 1;
        }
        self.entries.truncate(kept);
        let last = self.last;
        self.past.retain(|it| it.stored.sequence <= last);
        if !keeps_ids {
            self.seen.retain(|_, sequence| *sequence <= last);
        }
    }

    /// Numbers go on from here.
    pub(super) fn go_on_from(&mut self, sequence: u64) {
        self.last = self.last.max(sequence - 1);
    }

    /// Loses all records, as a purge by hand has it: numbers go on.
    pub(super) fn purge(&mut self) {
        self.entries.clear();
        self.past.clear();
    }

    /// Loses everything: the numbers begin anew.
    pub(super) fn recreate(&mut self) {
        *self = SimulatedLog::default();
    }

    /// What a lane ever had and did not lose.
    pub(super) fn past_of(&self, lane: u32) -> impl Iterator<Item = &Stored> {
        let of_lane = self.past.iter().filter(move |it| it.lane == lane);
        of_lane.map(|it| &it.stored)
    }

    pub(super) fn len(&self) -> usize {
        self.entries.len()
    }
}
