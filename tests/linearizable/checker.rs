//! Decides whether the history of one item is linearizable.
//!
//! Items that share no fingerprint and pair of buckets do not touch each other,
//! and a history is linearizable if it is so for each object by itself (Herlihy
//! and Wing, 1990). So each item is a counter of its own, and is checked alone.
//!
//! The search is Wing and Gong's (1993) as Lowe (2017) does it: it goes through
//! the calls and answers in the order of time and keeps every state that the
//! counter may be in, with those operations under way that have taken effect in
//! it. Operations take effect as late as possible, that is when one is answered
//! that has not yet. Two things keep it small and change no verdict:
//!
//! - An operation that changes nothing takes effect as soon as its answer is
//!   right: it is in nobody's way.
//! - Of operations under way that do and say the same, the one that is answered
//!   first takes effect first: if another one did, the two could change places.

use std::collections::{BTreeMap, HashSet};

/// What was done to an item, and what the answer was.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Done {
    /// A copy was added.
    Added,
    /// A copy was added because there was none.
    AddedAsAbsent,
    /// None was added because there was one.
    LeftAsPresent,
    /// A copy was deleted.
    Deleted,
    /// There was none to delete.
    NoneToDelete,
    /// It was found.
    Found,
    /// It was not found.
    Absent,
    /// So many copies were counted.
    Counted(u64),
}

impl Done {
    /// The number of copies afterwards; `None` if this can't be the answer with
    /// so many before.
    fn apply(self, copies: u64) -> Option<u64> {
        let is_right = match self {
            Done::Added => return Some(copies + 1),
            Done::AddedAsAbsent => return (copies == 0).then_some(1),
            Done::Deleted => return copies.checked_sub(1),
            Done::LeftAsPresent | Done::Found => copies > 0,
            Done::NoneToDelete | Done::Absent => copies == 0,
            Done::Counted(counted) => counted == copies,
        };
        is_right.then_some(copies)
    }

    fn changes(self) -> bool {
        matches!(self, Done::Added | Done::AddedAsAbsent | Done::Deleted)
    }
}

/// One operation on an item.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Operation {
    pub(crate) done: Done,
    /// Just before it was sent.
    pub(crate) called: u64,
    /// Just after its answer came.
    pub(crate) answered: u64,
}

/// Operations on one item that may be under way at the same time.
const MOST_UNDER_WAY: usize = 64;

/// A state that the item may be in.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct State {
    copies: u64,
    /// The operations under way that have taken effect, a bit for each place.
    effective: u64,
}

/// Why a history is none that could have happened.
#[derive(Debug, PartialEq)]
pub(crate) struct Impossible {
    /// The first operation whose answer can't be explained.
    pub(crate) operation: Operation,
    /// What was under way when it was answered.
    pub(crate) under_way: Vec<Operation>,
}

/// Checks the history of an item that is not there at first, in any order.
pub(crate) fn check(history: &[Operation]) -> Result<(), Impossible> {
    // Of a call and an answer at the same moment the call may be first.
    let mut events: Vec<(u64, bool, usize)> = Vec::with_capacity(history.len() * 2);
    for (number, operation) in history.iter().enumerate() {
        assert!(operation.called <= operation.answered);
        events.push((operation.called, false, number));
        events.push((operation.answered, true, number));
    }
    events.sort_unstable();

    let mut places: [Option<usize>; MOST_UNDER_WAY] = [None; MOST_UNDER_WAY];
    let mut states = HashSet::from([State {
        copies: 0,
        effective: 0,
    }]);
    for (_, is_answer, number) in events {
        if !is_answer {
            let free = places.iter().position(Option::is_none);
            places[free.expect("so many clients ask for one item at once")] = Some(number);
            continue;
        }
        let place = places.iter().position(|&it| it == Some(number)).unwrap();
        let under_way: Vec<(u64, Operation)> = places
            .iter()
            .enumerate()
            .filter_map(|(place, number)| Some((1 << place, history[(*number)?])))
            .collect();
        states = answered(states, 1 << place, &under_way);
        if states.is_empty() {
            return Err(Impossible {
                operation: history[number],
                under_way: under_way.into_iter().map(|(_, it)| it).collect(),
            });
        }
        places[place] = None;
    }
    Ok(())
}

/// The states in which the operation at a place has taken effect, reached from
/// these; the place is free then.
fn answered(states: HashSet<State>, place: u64, under_way: &[(u64, Operation)]) -> HashSet<State> {
    let mut after = HashSet::new();
    let mut seen = HashSet::new();
    let mut open: Vec<State> = states.into_iter().collect();
    while let Some(mut state) = open.pop() {
        let waits = |state: &State, bit: u64| state.effective & bit == 0;
        for &(bit, operation) in under_way {
            let is_right = operation.done.apply(state.copies).is_some();
            if waits(&state, bit) && !operation.done.changes() && is_right {
                state.effective |= bit;
            }
        }
        if !waits(&state, place) {
            after.insert(State {
                effective: state.effective & !place,
                ..state
            });
            continue;
        }
        if !seen.insert(state) {
            continue;
        }
        let mut next: BTreeMap<Done, (u64, u64)> = BTreeMap::new();
        for &(bit, operation) in under_way {
            if waits(&state, bit) && operation.done.changes() {
                let first = next
                    .entry(operation.done)
                    .or_insert((operation.answered, bit));
                *first = (*first).min((operation.answered, bit));
            }
        }
        for (done, (_, bit)) in next {
            if let Some(copies) = done.apply(state.copies) {
                open.push(State {
                    copies,
                    effective: state.effective | bit,
                });
            }
        }
    }
    after
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Random;

    fn at(done: Done, called: u64, answered: u64) -> Operation {
        Operation {
            done,
            called,
            answered,
        }
    }

    fn verdict(history: &[(Done, u64, u64)]) -> bool {
        let history: Vec<Operation> = history
            .iter()
            .map(|&(done, called, answered)| at(done, called, answered))
            .collect();
        check(&history).is_ok()
    }

    #[test]
    fn what_happened_one_after_the_other_must_add_up() {
        use Done::{
            Absent, Added, AddedAsAbsent, Counted, Deleted, Found, LeftAsPresent, NoneToDelete,
        };
        for (history, is_possible) in [
            (
                &[Added, Counted(1), Added, Counted(2), Deleted, Found][..],
                true,
            ),
            (
                &[Absent, NoneToDelete, AddedAsAbsent, LeftAsPresent][..],
                true,
            ),
            // A read that misses what was acknowledged.
            (&[Added, Absent][..], false),
            (&[Added, Added, Counted(1)][..], false),
            (&[Added, NoneToDelete][..], false),
            (&[Added, AddedAsAbsent][..], false),
            // Something out of nothing.
            (&[Found][..], false),
            (&[LeftAsPresent][..], false),
            (&[Counted(1)][..], false),
            (&[Added, Deleted, Deleted][..], false),
            // Something left of what was deleted.
            (&[Added, Deleted, Found][..], false),
        ] {
            let in_turn: Vec<_> = (0..)
                .zip(history)
                .map(|(n, &done)| (done, n * 10, n * 10 + 5))
                .collect();
            assert_eq!(verdict(&in_turn), is_possible, "{history:?}");
        }
    }

    #[test]
    fn what_happened_at_the_same_time_may_have_any_order_but_one() {
        use Done::{Absent, Added, AddedAsAbsent, Counted, Deleted, Found, NoneToDelete};
        // While an add is under way it is there or not.
        assert!(verdict(&[
            (Added, 0, 100),
            (Absent, 10, 20),
            (Found, 30, 40)
        ]));
        assert!(verdict(&[
            (Added, 0, 100),
            (Found, 10, 20),
            (Counted(1), 30, 40)
        ]));
        // But not there and then gone again.
        assert!(!verdict(&[
            (Added, 0, 100),
            (Found, 10, 20),
            (Absent, 30, 40)
        ]));
        // Nor to one client and then not to another.
        assert!(!verdict(&[
            (Added, 0, 100),
            (Counted(1), 10, 20),
            (Counted(0), 30, 40)
        ]));
        // Of two deletes of one copy one is told so.
        assert!(verdict(&[
            (Added, 0, 5),
            (Deleted, 10, 50),
            (NoneToDelete, 20, 60)
        ]));
        assert!(!verdict(&[
            (Added, 0, 5),
            (Deleted, 10, 50),
            (Deleted, 20, 60)
        ]));
        assert!(!verdict(&[
            (Added, 0, 5),
            (NoneToDelete, 10, 50),
            (NoneToDelete, 20, 60)
        ]));
        // Of two who add what is not there, too.
        assert!(!verdict(&[(AddedAsAbsent, 0, 10), (AddedAsAbsent, 5, 15)]));
        assert!(verdict(&[
            (AddedAsAbsent, 0, 10),
            (Deleted, 5, 30),
            (AddedAsAbsent, 5, 15)
        ]));
        // An add can't take effect before it is called, although another of its
        // kind, called before, is still under way.
        assert!(!verdict(&[
            (Added, 0, 100),
            (Counted(1), 10, 20),
            (Added, 30, 40),
            (Counted(1), 50, 60),
        ]));
        assert!(verdict(&[
            (Added, 0, 100),
            (Counted(0), 10, 20),
            (Added, 30, 40),
            (Counted(1), 50, 60),
        ]));
    }

    /// Tries every order.
    fn by_force(left: &mut Vec<Operation>, copies: u64) -> bool {
        if left.is_empty() {
            return true;
        }
        let first_answer = left.iter().map(|it| it.answered).min().unwrap();
        for index in 0..left.len() {
            let operation = left[index];
            if operation.called > first_answer {
                continue;
            }
            let Some(copies) = operation.done.apply(copies) else {
                continue;
            };
            left.remove(index);
            let is_possible = by_force(left, copies);
            left.insert(index, operation);
            if is_possible {
                return true;
            }
        }
        false
    }

    #[test]
    fn its_verdict_on_short_histories_is_that_of_trying_every_order() {
        let (mut possible, mut impossible) = (0, 0);
        for seed in 0..30_000 {
            let mut random = Random(seed);
            let mut history: Vec<Operation> = (0..2 + random.below(5))
                .map(|_| {
                    let done = match random.below(9) {
                        0 | 1 => Done::Added,
                        2 => Done::AddedAsAbsent,
                        3 => Done::LeftAsPresent,
                        4 => Done::Deleted,
                        5 => Done::NoneToDelete,
                        6 => Done::Found,
                        7 => Done::Absent,
                        _ => Done::Counted(random.below(3)),
                    };
                    let called = random.below(20);
                    at(done, called, called + random.below(12))
                })
                .collect();
            let expected = by_force(&mut history, 0);
            assert_eq!(
                check(&history).is_ok(),
                expected,
                "seed {seed}: {history:?}"
            );
            match expected {
                true => possible += 1,
                false => impossible += 1,
            }
        }
        assert!(
            possible > 2_000 && impossible > 2_000,
            "{possible} {impossible}"
        );
    }

    /// What clients of a right counter see, each operation taking effect at
    /// some moment while it is under way.
    fn of_a_right_counter(random: &mut Random, operations: u64) -> Vec<Operation> {
        let mut moments: Vec<(u64, u64)> = (0..operations)
            .map(|_| (random.below(operations * 10), 1 + random.below(120)))
            .collect();
        moments.sort_unstable();
        let mut copies = 0;
        moments
            .into_iter()
            .map(|(effect, about)| {
                let done = match random.below(5) {
                    0 => Done::Added,
                    1 if copies == 0 => Done::AddedAsAbsent,
                    1 => Done::LeftAsPresent,
                    2 if copies == 0 => Done::NoneToDelete,
                    2 => Done::Deleted,
                    3 if copies == 0 => Done::Absent,
                    3 => Done::Found,
                    _ => Done::Counted(copies),
                };
                copies = done.apply(copies).unwrap();
                let before = random.below(about);
                at(done, (effect + 200) - before, effect + 200 + about - before)
            })
            .collect()
    }

    #[test]
    fn long_histories_of_a_right_counter_pass_and_changed_ones_are_refused() {
        let mut refused = 0;
        for seed in 0..40 {
            let mut random = Random(seed);
            let history = of_a_right_counter(&mut random, 1_500);
            assert_eq!(check(&history), Ok(()), "seed {seed}");

            // A count that never was.
            let mut changed = history.clone();
            let counts = |it: &Operation| matches!(it.done, Done::Counted(_));
            let position = changed.iter().position(counts).unwrap();
            changed[position].done = Done::Counted(1_000_000);
            let impossible = check(&changed).unwrap_err();
            assert_eq!(impossible.operation, changed[position]);

            // An add that was lost: everything behind it is one too many.
            let mut changed = history.clone();
            let adds = |it: &Operation| it.done == Done::Added;
            let position = changed.iter().position(adds).unwrap();
            changed.remove(position);
            refused += usize::from(check(&changed).is_err());

            // One answer turned round.
            let mut changed = history;
            let position = random.below(changed.len() as u64) as usize;
            let turned = &mut changed[position].done;
            *turned = match *turned {
                Done::Added | Done::AddedAsAbsent => Done::LeftAsPresent,
                Done::LeftAsPresent => Done::AddedAsAbsent,
                Done::Deleted => Done::NoneToDelete,
                Done::NoneToDelete => Done::Deleted,
                Done::Found => Done::Absent,
                Done::Absent => Done::Found,
                Done::Counted(counted) => Done::Counted(counted + 1),
            };
            refused += usize::from(check(&changed).is_err());
        }
        // Now and then a change can be explained.
        assert!(refused > 65, "{refused} of 80 were refused");
    }
}
