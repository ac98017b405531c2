//! Work on a command's items, as far as it came.

use super::command::{Command, ItemChange, ItemOp, ItemResult, Outcome, Replacement};
use crate::chain::pages::{Draft, PlanPages};
use crate::chain::plan::{OverlaidPages, Planner};
use crate::chain::read::GROUP;
use crate::cuckoo::hash::ItemHash;

/// The results so far, and so the item that comes next.
pub(super) struct ItemWork {
    change: ItemChange,
    next: usize,
    /// The step of the next item, and how many of its items are done.
    step: usize,
    done_of_step: usize,
    /// What came of it. It says nothing if the plan is not complete.
    pub(super) results: Outcome,
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
        let change = match command {
            Command::Items(change, ..) => change.clone(),
            Command::Create(create) => ItemChange::Add(create.mode),
            // They are planned at once, or not at all.
            _ => ItemChange::Delete,
        };
        let items = command.items();
        ItemWork {
            next: 0,
            step: 0,
            done_of_step: 0,
            results: match change {
                ItemChange::Add(_) | ItemChange::AddValues(..) => {
                    Outcome::Added(Vec::with_capacity(items))
                }
                ItemChange::Delete | ItemChange::DeleteValues(_) => {
                    Outcome::Deleted(Vec::with_capacity(items))
                }
                ItemChange::ReplaceValues(_) => Outcome::Replaced(Vec::with_capacity(items)),
                ItemChange::Steps(_) => Outcome::Stepped(Vec::with_capacity(items)),
            },
            change,
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
        let done = match (&self.change, &mut self.results) {
            (ItemChange::Add(mode), Outcome::Added(results)) => {
                planner.add_all(left, *mode, until, |added| results.extend(added))
            }
            (ItemChange::Delete, Outcome::Deleted(results)) => {
                all(left, planner, until, results, |planner, hash| {
                    planner.delete(hash)
                })
            }
            (ItemChange::AddValues(mode, values), Outcome::Added(results)) => {
                let mut values = values.iter().copied().skip(self.next);
                all(left, planner, until, results, |planner, hash| {
                    planner.add_value(hash, values.next()?, *mode)
                })
            }
            (ItemChange::DeleteValues(values), Outcome::Deleted(results)) => {
                let mut values = values.iter().copied().skip(self.next);
                all(left, planner, until, results, |planner, hash| {
                    planner.delete_value(hash, values.next()?)
                })
            }
            (ItemChange::ReplaceValues(values), Outcome::Replaced(results)) => {
                let mut values = values.iter().copied().skip(self.next);
                all(left, planner, until, results, |planner, hash| {
                    let Replacement { from, to } = Replacement::unpacked(values.next()?);
                    planner.replace_value(hash, from, to)
                })
            }
            (ItemChange::Steps(steps), Outcome::Stepped(results)) => {
                let mut worked_on = 0;
                while let Some(now) = steps.get(self.step) {
                    let rest = left.get(worked_on..).unwrap_or_default();
                    let part = rest.get(..now.items - self.done_of_step).unwrap_or(rest);
                    let of_part = a_step(now.op, part, planner, until, results);
                    worked_on += of_part;
                    self.done_of_step += of_part;
                    if self.done_of_step < now.items {
                        break;
                    }
                    (self.step, self.done_of_step) = (self.step + 1, 0);
                    if planner.spent >= until {
                        break;
                    }
                }
                worked_on
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
            if planner.spent >= until {
                return done;
            }
        }
    }
    done
}
