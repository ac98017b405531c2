//! How long clients waited, for each kind of fault.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// What was counted since it was taken last.
#[derive(Default)]
pub(crate) struct Pauses {
    changes: AtomicU64,
    change_ms: AtomicU64,
    questions: AtomicU64,
    question_ms: AtomicU64,
}

/// Of one round.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Taken {
    pub(crate) changes: u64,
    pub(crate) longest_change: Duration,
    pub(crate) questions: u64,
    pub(crate) longest_question: Duration,
}

impl Pauses {
    /// A change was acknowledged so long after it was sent first.
    pub(crate) fn changed(&self, after: Duration) {
        self.changes.fetch_add(1, Ordering::Relaxed);
        let ms = after.as_millis() as u64;
        self.change_ms.fetch_max(ms, Ordering::Relaxed);
    }

    /// A question was answered so long after it was asked first.
    pub(crate) fn asked(&self, after: Duration) {
        self.questions.fetch_add(1, Ordering::Relaxed);
        let ms = after.as_millis() as u64;
        self.question_ms.fetch_max(ms, Ordering::Relaxed);
    }

    pub(crate) fn take(&self) -> Taken {
        let take = |it: &AtomicU64| it.swap(0, Ordering::Relaxed);
        Taken {
            changes: take(&self.changes),
            longest_change: Duration::from_millis(take(&self.change_ms)),
            questions: take(&self.questions),
            longest_question: Duration::from_millis(take(&self.question_ms)),
        }
    }
}

#[derive(Default)]
struct Row {
    times: u64,
    lasted: Duration,
    longest: Taken,
}

/// The longest pauses of each kind of fault.
#[derive(Default)]
pub(crate) struct Table {
    rows: BTreeMap<String, Row>,
    changes: u64,
    questions: u64,
}

impl Table {
    pub(crate) fn add(&mut self, fault: &str, lasted: Duration, taken: Taken) {
        self.changes += taken.changes;
        self.questions += taken.questions;
        let row = self.rows.entry(fault.to_owned()).or_default();
        row.times += 1;
        row.lasted = row.lasted.max(lasted);
        let longest = &mut row.longest;
        longest.longest_change = longest.longest_change.max(taken.longest_change);
        longest.longest_question = longest.longest_question.max(taken.longest_question);
    }
}

impl fmt::Display for Table {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            out,
            "{} changes acknowledged, {} questions answered by any pod\n",
            self.changes, self.questions
        )?;
        writeln!(
            out,
            "| fault | rounds | lasted | longest change | longest question |"
        )?;
        writeln!(out, "|---|---|---|---|---|")?;
        for (fault, row) in &self.rows {
            writeln!(
                out,
                "| {fault} | {} | {:.1} s | {:.1} s | {:.1} s |",
                row.times,
                row.lasted.as_secs_f64(),
                row.longest.longest_change.as_secs_f64(),
                row.longest.longest_question.as_secs_f64(),
            )?;
        }
        Ok(())
    }
}
