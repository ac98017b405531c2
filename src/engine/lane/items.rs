//! Work on a command's items, as far as it came.

use super::command::{ItemOp, Outcome};
use crate::chain::pages::{Draft, PlanPages};
use crate::chain::plan::{OverlaidPages, Planner};
use crate::chain::read::GROUP;
use crate::cuckoo::hash::ItemHash;

/// The results so far, and so the item that comes next.
pub(super) struct ItemWork {
    op: ItemOp,
    next: usize,
    results: Outcome,
}

/// How a piece of work ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Pace {
    /// All items are worked on.
    Done,
    /// What it may cost was spent.
    Spent,
}

impl ItemWork {
    /// Nothing is done of so many items.
    pub(super) fn begin(op: ItemOp, items: usize) -> ItemWork {
        ItemWork {
            op,
            next: 0,
            results: match op {
                ItemOp::Add(_) => Outcome::Added(Vec::with_capacity(items)),
                ItemOp::Delete => Outcome::Deleted(Vec::with_capacity(items)),
                ItemOp::Exists => Outcome::Found(Vec::with_capacity(items)),
                ItemOp::Count => Outcome::Counted(Vec::with_capacity(items)),
            },
        }
    }

    /// Goes on until the plan has cost so much, with the item that it does so.
    pub(super) fn go_on<P: PlanPages>(
        &mut self,
        items: &[ItemHash],
        planner: &mut Planner<'_, OverlaidPages<'_, P>>,
        until: u64,
    ) -> Pace {
        let left = items.get(self.next..).unwrap_or_default();
        let done = match (&mut self.results, self.op) {
            (Outcome::Added(results), ItemOp::Add(mode)) => {
                all(left, planner, until, results, |planner, hash| {
                    planner.add(hash, mode)
                })
            }
            (Outcome::Deleted(results), _) => {
                all(left, planner, until, results, |planner, hash| {
                    planner.delete(hash)
                })
            }
            (Outcome::Found(results), _) => all(left, planner, until, results, |planner, hash| {
                planner.exists(hash)
            }),
            (Outcome::Counted(results), _) => {
                all(left, planner, until, results, |planner, hash| {
                    planner.count(hash)
                })
            }
            _ => left.len(),
        };
        self.next += done;
        match done == left.len() {
            true => Pace::Done,
            false => Pace::Spent,
        }
    }

    /// Items that are worked on.
    pub(super) fn done(&self) -> usize {
        self.next
    }

    /// What came of it. It says nothing if the plan is not complete.
    pub(super) fn into_outcome(self) -> Outcome {
        self.results
    }
}

/// Works on items until the plan has cost so much, and says on how many. Does
/// not stop at the first missing page: the others are found out too.
fn all<T, D: Draft>(
    items: &[ItemHash],
    planner: &mut Planner<'_, D>,
    until: u64,
    results: &mut Vec<T>,
    mut work: impl FnMut(&mut Planner<'_, D>, ItemHash) -> Option<T>,
) -> usize {
    let mut done = 0;
    for group in items.chunks(GROUP) {
        // So that the waits for their memory overlap.
        planner.expect(group);
        for &item in group {
            if let Some(result) = work(planner, item) {
                results.push(result);
            }
            done += 1;
            if planner.spent() >= until {
                return done;
            }
        }
    }
    done
}
