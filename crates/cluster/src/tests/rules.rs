//! What settles a record, what a plan is bound to, and what is applied: each rule
//! by itself.

use super::lane;
use super::simulated_log::{Fault, SimulatedLog};
use super::story::{Story, commits, is_committed, led};
use crate::engine::{Halt, HistoryHash};
use crate::{
    Answer, Effect, Event, Found, Plan, PlanNumber, PlanOutcome, Record, RecordError, Stored,
    Writer,
};
use bytes::Bytes;

#[test]
fn a_record_that_was_refused_and_stored_counts_as_stored_once() {
    let (mut log, mut leader) = led();
    leader.plan(&log, "a");
    leader.send(&mut log, Fault::RefusedAndStored);
    assert!(is_committed(leader.settled.last()));
    assert_eq!(commits(&log), ["a"]);
    assert_eq!(leader.commits(), [b"a"]);
}

#[test]
fn a_record_whose_answer_was_lost_is_not_given_up_and_not_stored_twice() {
    let (mut log, mut leader) = led();
    for (commit, fault) in [("a", Fault::Unanswered), ("b", Fault::Dropped)] {
        leader.plan(&log, commit);
        leader.send(&mut log, fault);
        if leader.settled.len() < leader.plans as usize {
            // What is sent again is the same: it can't be stored twice.
            leader.send(&mut log, Fault::None);
        }
        assert!(is_committed(leader.settled.last()), "{fault:?}");
    }
    assert_eq!(commits(&log), ["a", "b"]);
}

#[test]
fn a_lease_that_is_taken_while_a_record_is_in_flight_lets_the_lane_lead_once_it_is_settled() {
    let (mut log, mut leader) = led();
    leader.commit(&mut log, "a");
    leader.plan(&log, "b");
    let (number, attempt, append) = leader.appends.pop().unwrap();
    log.append(0, &append, Fault::None);
    leader.handle(&log, Event::Lease(None));
    // The own position is to be looked at, and the log to be read: both later.
    let effects = leader.replica.handle(Event::Lease(Some(2)));
    assert_eq!(effects, [Effect::Look(1), Effect::Read]);
    let answer = Answer::Unknown;
    leader.answered(&log, (number, attempt), answer);
    assert_eq!(leader.replica.position().sequence, 2, "b was read");
    let found = log.look(0, 1);
    leader.handle(&log, Event::Looked { sequence: 1, found });
    leader.read(&log);
    assert!(leader.replica.term().is_some());
}

#[test]
fn a_lone_writer_that_is_told_that_another_record_is_in_process_tries_again() {
    let (mut log, mut leader) = led();
    leader.commit(&mut log, "a");
    leader.plan(&log, "b");
    leader.send(&mut log, Fault::Busy);
    assert_eq!(leader.settled.len(), 1, "a refusal settles nothing");
    leader.send(&mut log, Fault::None);
    assert!(is_committed(leader.settled.last()));
    assert_eq!(commits(&log), ["a", "b"]);
}

#[test]
fn a_plan_whose_place_another_record_took_is_dropped_and_what_was_planned_meanwhile_refused() {
    let (mut log, mut first) = led();
    let mut second = Story::leader(2, &log);
    first.plan(&log, "of the first");
    second.commit(&mut log, "of the second");
    let before = second.replica.term().unwrap();
    first.send(&mut log, Fault::None);
    assert_eq!(first.settled, [PlanOutcome::Overtaken]);
    assert_eq!(first.commits(), [b"of the second"]);
    // The first goes on; the second held the lease all the time and saw nothing.
    first.commit(&mut log, "again");
    second.read(&log);
    second.plan_in(&log, before, 9, "planned before");
    assert_eq!(second.settled.last(), Some(&PlanOutcome::NotLeading));
    assert_eq!(commits(&log), ["of the second", "again"]);
}

#[test]
fn a_plan_is_refused_while_a_record_is_in_flight() {
    let (mut log, mut leader) = led();
    let term = leader.replica.term().unwrap();
    leader.plan(&log, "a");
    leader.plan_in(&log, term, 9, "b");
    assert_eq!(leader.settled, [PlanOutcome::NotLeading]);
    leader.send(&mut log, Fault::None);
    assert!(is_committed(leader.settled.last()));
    assert_eq!(commits(&log), ["a"]);
}

#[test]
fn a_plan_is_refused_if_the_lease_went_away_and_came_back() {
    let (log, mut leader) = led();
    let term = leader.replica.term().unwrap();
    leader.handle(&log, Event::Lease(None));
    leader.handle(&log, Event::Lease(Some(2)));
    assert!(leader.replica.term().is_some());
    leader.plan_in(&log, term, 1, "");
    assert_eq!(leader.settled, [PlanOutcome::NotLeading]);
    assert_eq!(leader.appends, []);
}

#[test]
fn a_duplicate_that_is_another_writers_record_is_not_taken_for_the_own() {
    let (mut log, mut leader) = led();
    let mut other = Story::leader(2, &log);
    leader.plan(&log, "mine");
    other.commit(&mut log, "theirs");
    let (number, attempt, _) = leader.appends.pop().unwrap();
    let answer = Answer::Stored {
        sequence: 1,
        is_duplicate: true,
    };
    leader.answered(&log, (number, attempt), answer);
    assert_eq!(leader.settled, [PlanOutcome::Overtaken]);
    assert_eq!(leader.commits(), [b"theirs"]);
}

#[test]
fn what_does_not_belong_to_the_lane_stops_it_before_it_is_applied() {
    let origin = lane(0).origin();
    let record = Record {
        level: 1,
        epoch: 1,
        lane: 0,
        previous: origin,
        writer: Writer([9; 16]),
        number: 1,
        stamp_ms: 0,
        commit: Bytes::new(),
    };
    let with = |change: fn(&mut Record)| {
        let mut changed = record.clone();
        change(&mut changed);
        changed.encode().unwrap()
    };
    let foreign = |epoch, lane| Halt::Foreign { at: 4, epoch, lane };
    let newer = Halt::NewerLevel {
        at: 4,
        level: 2,
        reads: 1,
    };
    let unreadable = Halt::Unreadable {
        at: 4,
        reason: RecordError::Newer { found: 2 }.to_string(),
    };
    let forked = Halt::Forked { at: 0 };
    for (bytes, halt) in [
        (with(|it| it.epoch = 2), foreign(2, 0)),
        (with(|it| it.lane = 1), foreign(1, 1)),
        (with(|it| it.level = 2), newer),
        (
            with(|it| it.previous.history = HistoryHash::of(b"")),
            forked,
        ),
        (Bytes::from_static(b"\x02"), unreadable),
    ] {
        let mut follower = Story::follower(1);
        let records = vec![Stored { sequence: 4, bytes }];
        let is_all = true;
        follower.handle(&SimulatedLog::default(), Event::Read { records, is_all });
        assert_eq!(follower.halted, Some(halt));
        assert_eq!(follower.commits(), [b""; 0]);
    }
}

#[test]
fn a_look_that_nobody_could_answer_is_repeated_and_settles_nothing() {
    let (mut log, mut leader) = led();
    leader.commit(&mut log, "a");
    let effects = leader.replica.handle(Event::Looked {
        sequence: 1,
        found: Found::Unsure,
    });
    assert_eq!(effects, [Effect::Look(1)]);
    assert_eq!(leader.replica.halted(), None);
}

#[test]
fn a_commit_that_is_too_large_is_refused_before_it_is_sent() {
    let (log, mut leader) = led();
    let commit = vec![0_u8; crate::record::MAX_COMMIT_BYTES + 1];
    let term = leader.replica.term().unwrap();
    leader.plan_in(&log, term, 1, commit);
    assert_eq!(leader.settled, [PlanOutcome::TooLarge]);
    assert!(leader.replica.term().is_some());
    assert_eq!(leader.appends, []);
}

#[test]
fn stamps_never_fall_whatever_a_clock_says() {
    let (mut log, mut leader) = led();
    for clock_ms in [50, 20, 60] {
        let plan = Plan {
            number: PlanNumber(clock_ms),
            term: leader.replica.term().unwrap(),
            clock_ms,
            commit: Bytes::new(),
        };
        leader.handle(&log, Event::Plan(plan));
        leader.send(&mut log, Fault::None);
    }
    let stamps: Vec<u64> = leader.applied.iter().map(|it| it.1.stamp_ms).collect();
    assert_eq!(stamps, [50, 50, 60]);
}
