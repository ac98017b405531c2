//! A commit log whose appends are counted and timed.

use crate::metrics::Metrics;
use crate::{Answer, Append, CommitLog, Found, LogError, Stored};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// See the module.
pub struct MeasuredLog {
    log: Arc<dyn CommitLog>,
    metrics: Arc<Metrics>,
}

impl MeasuredLog {
    /// The same log, measured.
    pub fn new(log: Arc<dyn CommitLog>, metrics: Arc<Metrics>) -> MeasuredLog {
        for answer in ["stored", "refused", "unknown"] {
            metrics.commit_log_appends.with_label_values(&[answer]);
        }
        MeasuredLog { log, metrics }
    }
}

impl CommitLog for MeasuredLog {
    fn append(&self, lane: u32, append: &Append) -> Answer {
        let started = Instant::now();
        let answer = self.log.append(lane, append);
        let seconds = started.elapsed().as_secs_f64();
        self.metrics.commit_log_seconds.observe(seconds);
        let label = match answer {
            Answer::Stored { .. } => "stored",
            Answer::Refused => "refused",
            Answer::Unknown => "unknown",
        };
        let appends = &self.metrics.commit_log_appends;
        appends.with_label_values(&[label]).inc();
        answer
    }

    fn read(&self, lane: u32, after: u64, wait: Duration) -> Result<Vec<Stored>, LogError> {
        self.log.read(lane, after, wait)
    }

    fn newest(&self, lane: u32) -> Result<u64, LogError> {
        self.log.newest(lane)
    }

    fn look(&self, lane: u32, sequence: u64) -> Found {
        self.log.look(lane, sequence)
    }

    fn trim(&self, lane: u32, before: u64) -> Result<(), LogError> {
        self.log.trim(lane, before)
    }
}
