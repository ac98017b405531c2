//! A planned command, worked through by a planner.

use super::command::{Command, CompactStep, ItemOp, Outcome};
use crate::chain::pages::{Draft, PlanPages};
use crate::chain::plan::{OverlaidPages, Planner};
use crate::chain::read::GROUP;
use crate::cuckoo::hash::ItemHash;

/// Plans a command that is planned over a filter's pages. `None`: pages are
/// missing.
pub(super) fn apply<P: PlanPages>(
    command: &Command,
    planner: &mut Planner<'_, OverlaidPages<'_, P>>,
) -> Option<Outcome> {
    match command {
        Command::Items(op, items) => apply_items(*op, items, planner),
        Command::Compact(CompactStep::Move(slice)) => {
            planner.compact(slice).map(Outcome::Compacted)
        }
        _ => None,
    }
}

/// Works through items. `None`: pages are missing.
pub(super) fn apply_items<P: PlanPages>(
    op: ItemOp,
    items: &[ItemHash],
    planner: &mut Planner<'_, OverlaidPages<'_, P>>,
) -> Option<Outcome> {
    match op {
        ItemOp::Add(mode) => {
            all(items, planner, |planner, hash| planner.add(hash, mode)).map(Outcome::Added)
        }
        ItemOp::Delete => {
            all(items, planner, |planner, hash| planner.delete(hash)).map(Outcome::Deleted)
        }
        ItemOp::Exists => {
            all(items, planner, |planner, hash| planner.exists(hash)).map(Outcome::Found)
        }
        ItemOp::Count => {
            all(items, planner, |planner, hash| planner.count(hash)).map(Outcome::Counted)
        }
    }
}

/// One result an item, or `None` if any is not known. Does not stop at the
/// first missing page: the others are found out too.
fn all<T, D: Draft>(
    items: &[ItemHash],
    planner: &mut Planner<'_, D>,
    mut work: impl FnMut(&mut Planner<'_, D>, ItemHash) -> Option<T>,
) -> Option<Vec<T>> {
    let mut results = Some(Vec::with_capacity(items.len()));
    for group in items.chunks(GROUP) {
        // So that the waits for their memory overlap.
        planner.expect(group);
        for &item in group {
            let result = work(planner, item);
            if let (Some(known), Some(result)) = (&mut results, result) {
                known.push(result);
            } else {
                results = None;
            }
        }
    }
    results
}
