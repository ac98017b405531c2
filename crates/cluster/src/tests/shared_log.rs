//! The simulated log as several threads share it, with chance in it.

use super::random::Random;
use super::simulated_log::{Fault, SimulatedLog};
use crate::{Answer, Append, CommitLog, Found, LogError, MessageId, Stored};
use bytes::Bytes;
use parking_lot::{Condvar, Mutex};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// A log for engines of one process.
pub(crate) struct SharedLog {
    inner: Mutex<Inner>,
    appended: Condvar,
    /// How often it was asked for its end, or for a record.
    questions: AtomicU64,
    /// How many records it has handed over.
    handed_over: AtomicU64,
}

struct Inner {
    log: SimulatedLog,
    random: Random,
    /// Of a hundred appends and questions so many go wrong.
    faults: u64,
    /// What was sent and comes late, perhaps.
    late: Vec<(u32, Append)>,
}

impl SharedLog {
    /// One in which so many of a hundred calls go wrong.
    pub(crate) fn new(seed: u64, faults: u64) -> SharedLog {
        SharedLog {
            inner: Mutex::new(Inner {
                log: SimulatedLog::default(),
                random: Random::new(seed),
                faults,
                late: Vec::new(),
            }),
            appended: Condvar::new(),
            questions: AtomicU64::new(0),
            handed_over: AtomicU64::new(0),
        }
    }

    /// How often it was asked for its end, or for a record, by all pods together.
    pub(crate) fn questions(&self) -> u64 {
        self.questions.load(Ordering::Relaxed)
    }

    /// How many records it has handed over to all pods together.
    pub(crate) fn handed_over(&self) -> u64 {
        self.handed_over.load(Ordering::Relaxed)
    }

    /// Nothing goes wrong any more.
    pub(crate) fn calm_down(&self) {
        self.inner.lock().faults = 0;
    }

    /// From now on nothing arrives, or everything does.
    pub(crate) fn cut_off(&self, is_cut_off: bool) {
        self.inner.lock().faults = if is_cut_off { 100 } else { 0 };
    }

    /// Nobody hears of the log until what is returned is dropped.
    pub(crate) fn hold(&self) -> impl Drop + '_ {
        self.inner.lock()
    }

    /// Forgets what a lane has before a record.
    pub(crate) fn trim_lane(&self, lane: u32, before: u64) {
        self.inner.lock().log.trim(lane, before);
    }

    /// Has a record as the first one of a lane, under a number that is not smaller.
    pub(crate) fn begin_at(&self, id: MessageId, number: u64, bytes: Bytes) {
        let append = Append {
            id,
            expected: 0,
            bytes,
        };
        let mut inner = self.inner.lock();
        inner.log.go_on_from(number);
        inner.log.append(id.lane, &append, Fault::None);
    }

    /// Loses the newest records, of all lanes.
    pub(crate) fn rewind(&self, records: usize) {
        self.inner.lock().log.rewind(records, false);
    }
}

impl Inner {
    fn goes_wrong(&mut self) -> bool {
        self.random.percent(self.faults)
    }

    fn fault(&mut self) -> Fault {
        if !self.goes_wrong() {
            return Fault::None;
        }
        match self.faults {
            100 => Fault::Dropped,
            _ => match self.random.below(4) {
                0 => Fault::Dropped,
                1 => Fault::Busy,
                2 => Fault::RefusedAndStored,
                _ => Fault::Unanswered,
            },
        }
    }
}

fn unreadable() -> LogError {
    LogError {
        doing: "read",
        source: "nobody answers".into(),
    }
}

impl CommitLog for SharedLog {
    fn append(&self, lane: u32, append: &Append) -> Answer {
        let mut inner = self.inner.lock();
        if !inner.late.is_empty() && inner.random.percent(50) {
            let (lane, append) = inner.late.remove(0);
            inner.log.append(lane, &append, Fault::None);
        }
        let fault = inner.fault();
        if fault == Fault::Dropped && inner.faults < 100 {
            inner.late.push((lane, append.clone()));
        }
        let answer = inner.log.append(lane, append, fault);
        drop(inner);
        self.appended.notify_all();
        answer
    }

    fn read(&self, lane: u32, after: u64, wait: Duration) -> Result<Vec<Stored>, LogError> {
        let until = Instant::now() + wait;
        let mut inner = self.inner.lock();
        if inner.goes_wrong() {
            return Err(unreadable());
        }
        loop {
            let most = 1 + inner.random.below(8);
            let (records, _) = inner.log.read(lane, after, 0, most);
            let handed_over = records.len() as u64;
            self.handed_over.fetch_add(handed_over, Ordering::Relaxed);
            if !records.is_empty() || self.appended.wait_until(&mut inner, until).timed_out() {
                return Ok(records);
            }
        }
    }

    fn newest(&self, lane: u32) -> Result<u64, LogError> {
        self.questions.fetch_add(1, Ordering::Relaxed);
        let mut inner = self.inner.lock();
        match inner.goes_wrong() {
            true => Err(unreadable()),
            false => Ok(inner.log.newest(lane)),
        }
    }

    fn look(&self, lane: u32, sequence: u64) -> Found {
        self.questions.fetch_add(1, Ordering::Relaxed);
        let mut inner = self.inner.lock();
        match inner.goes_wrong() {
            true => Found::Unsure,
            false => inner.log.look(lane, sequence),
        }
    }

    fn trim(&self, lane: u32, before: u64) -> Result<(), LogError> {
        self.trim_lane(lane, before);
        Ok(())
    }
}
