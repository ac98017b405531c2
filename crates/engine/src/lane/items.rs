//! Work on a command's items, as far as it came.

use super::command::{
    Command, ItemChange, ItemOp, ItemResult, ItemStep, Outcome, Replacement, ValueOp,
};
use crate::chain::pages::{Draft, PlanPages};
use crate::chain::plan::{OverlaidPages, Planner};
use crate::chain::read::GROUP;
use crate::cuckoo::hash::ItemHash;
use std::sync::Arc;

/// The results so far, and so the item that comes next.
pub(super) struct ItemWork {
    ops: Ops,
    next: usize,
    results: Outcome,
}

/// What to do with the items.
enum Ops {
    /// With all of them the same.
    One(ItemChange),
    /// With the value of each the same.
    Values(ValueOp, Arc<[u32]>),
    /// With each what its step says.
    Steps {
        steps: Arc<[ItemStep]>,
        /// The step of the next item, and how many of its items are done.
        step: usize,
        done: usize,
    },
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
    /// Nothing is done of a command. Of one without items nothing ever is.
    pub(super) fn begin(command: &Command) -> ItemWork {
        let items = command.items();
        let ops = match command {
            Command::Items(change, ..) => Ops::One(*change),
            Command::Values(op, _, values) => Ops::Values(*op, Arc::clone(values)),
            Command::Create(create) => Ops::One(ItemChange::Add(create.mode)),
            Command::Steps(steps, ..) => Ops::Steps {
                steps: Arc::clone(steps),
                step: 0,
                done: 0,
            },
            // They are planned at once, or not at all.
            _ => Ops::One(ItemChange::Delete),
        };
        ItemWork {
            next: 0,
            results: match ops {
                Ops::One(ItemChange::Add(_)) | Ops::Values(ValueOp::Add(_), _) => {
                    Outcome::Added(Vec::with_capacity(items))
                }
                Ops::One(ItemChange::Delete) | Ops::Values(ValueOp::Delete, _) => {
                    Outcome::Deleted(Vec::with_capacity(items))
                }
                Ops::Values(ValueOp::Replace, _) => Outcome::Replaced(Vec::with_capacity(items)),
                Ops::Steps { .. } => Outcome::Stepped(Vec::with_capacity(items)),
            },
            ops,
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
        let done = match (&mut self.results, &mut self.ops) {
            (Outcome::Added(results), Ops::One(ItemChange::Add(mode))) => {
                planner.add_all(left, *mode, until, |added| results.extend(added))
            }
            (results, Ops::Values(op, values)) => {
                let values = values.get(self.next..).unwrap_or_default();
                with_values(*op, values, left, planner, until, results)
            }
            (Outcome::Stepped(results), Ops::Steps { steps, step, done }) => {
                let mut worked_on = 0;
                while let Some(now) = steps.get(*step) {
                    let rest = left.get(worked_on..).unwrap_or_default();
                    let part = rest.get(..now.items - *done).unwrap_or(rest);
                    let of_part = a_step(now.op, part, planner, until, results);
                    worked_on += of_part;
                    *done += of_part;
                    if *done < now.items {
                        break;
                    }
                    (*step, *done) = (*step + 1, 0);
                    if planner.spent() >= until {
                        break;
                    }
                }
                worked_on
            }
            (Outcome::Deleted(results), _) => {
                all(left, planner, until, results, |planner, hash| {
                    planner.delete(hash)
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

/// The same with all items of a step.
fn a_step<P: PlanPages>(
    op: ItemOp,
    items: &[ItemHash],
    planner: &mut Planner<'_, OverlaidPages<'_, P>>,
    until: u64,
    results: &mut Vec<ItemResult>,
) -> usize {
    match op {
        ItemOp::Add(mode) => planner.add_all(items, mode, until, |added| {
            results.extend(added.map(ItemResult::Added));
        }),
        ItemOp::Delete => all(items, planner, until, results, |planner, hash| {
            planner.delete(hash).map(ItemResult::Deleted)
        }),
        ItemOp::Exists(since) => all(items, planner, until, results, |planner, hash| {
            planner.exists(hash, since).map(ItemResult::Found)
        }),
        ItemOp::Count => all(items, planner, until, results, |planner, hash| {
            planner.count(hash).map(ItemResult::Counted)
        }),
    }
}

/// The same with the value of each item.
fn with_values<P: PlanPages>(
    op: ValueOp,
    values: &[u32],
    items: &[ItemHash],
    planner: &mut Planner<'_, OverlaidPages<'_, P>>,
    until: u64,
    results: &mut Outcome,
) -> usize {
    let mut values = values.iter().copied();
    match (op, results) {
        (ValueOp::Add(mode), Outcome::Added(results)) => {
            all(items, planner, until, results, |planner, hash| {
                planner.add_value(hash, values.next()?, mode)
            })
        }
        (ValueOp::Delete, Outcome::Deleted(results)) => {
            all(items, planner, until, results, |planner, hash| {
                planner.delete_value(hash, values.next()?)
            })
        }
        (ValueOp::Replace, Outcome::Replaced(results)) => {
            all(items, planner, until, results, |planner, hash| {
                let Replacement { from, to } = Replacement::unpacked(values.next()?);
                planner.replace_value(hash, from, to)
            })
        }
        _ => items.len(),
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
