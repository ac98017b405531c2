//! What a log lost, and what a lane makes of it: each rule by itself.

use super::simulated_log::Fault;
use super::story::{Story, commits, is_committed, led};
use crate::engine::Halt;
use crate::{Answer, Effect, Event, PlanOutcome, Stored};
use bytes::Bytes;

#[test]
fn a_duplicate_of_a_record_that_the_log_lost_is_stored_under_another_id() {
    let (mut log, mut leader) = led();
    leader.commit(&mut log, "a");
    leader.plan(&log, "b");
    let (number, attempt, append) = leader.appends.pop().unwrap();
    log.append(0, &append, Fault::None);
    // The log forgets the record, not its id; nobody has seen the record.
    log.rewind(1, true);
    let answer = log.append(0, &append, Fault::None);
    assert!(matches!(
        answer,
        Answer::Stored {
            is_duplicate: true,
            ..
        }
    ));
    leader.answered(&log, (number, attempt), answer);
    assert_eq!(leader.settled.len(), 1, "b is not there");
    assert_ne!(leader.appends.last().unwrap().2.id, append.id);
    leader.send(&mut log, Fault::None);
    assert!(is_committed(leader.settled.last()));
    assert_eq!(commits(&log), ["a", "b"]);
}

#[test]
fn a_record_behind_a_rewound_stream_is_refused_by_who_has_the_other_history() {
    let (mut log, mut leader) = led();
    leader.commit(&mut log, "a");
    leader.commit(&mut log, "b");
    // The stream is rewound, and a pod that has not seen b goes on from a: the
    // numbers are the same again, so the fence lets the first leader through.
    log.rewind(1, true);
    let mut other = Story::leader(2, &log);
    other.commit(&mut log, "c");
    leader.commit(&mut log, "d");
    other.read(&log);
    assert_eq!(other.halted, Some(Halt::Forked { at: 2 }));
    assert_eq!(other.commits(), [b"a", b"c"]);
    // A pod that begins with nothing does not take the fork for a history.
    let mut new = Story::follower(3);
    new.read(&log);
    assert_eq!(new.halted, Some(Halt::Forked { at: 2 }));
}

#[test]
fn a_rewound_stream_is_noticed_by_whoever_takes_a_lease_or_is_refused() {
    for is_refused in [false, true] {
        let (mut log, mut leader) = led();
        leader.commit(&mut log, "a");
        leader.commit(&mut log, "b");
        log.rewind(1, true);
        match is_refused {
            true => leader.commit(&mut log, "c"),
            false => leader.handle(&log, Event::Lease(Some(2))),
        }
        assert_eq!(leader.halted, Some(Halt::Rewound { at: 2, newest: 1 }));
        assert_eq!(leader.replica.term(), None);
        // Nothing is said of c: people decide which history is kept.
        let of_c = leader.settled.get(2);
        assert_eq!(of_c, is_refused.then_some(&PlanOutcome::Unknown));
    }
}

#[test]
fn a_stream_that_was_silently_made_anew_stops_who_had_another() {
    let (mut log, mut leader) = led();
    leader.commit(&mut log, "a");
    leader.commit(&mut log, "b");
    let mut follower = Story::follower(2);
    follower.read(&log);
    log.recreate();
    // Reading behind the end waits and says nothing.
    follower.read(&log);
    assert_eq!(follower.halted, None);
    follower.handle(&log, Event::Recheck);
    assert_eq!(follower.halted, Some(Halt::Rewound { at: 2, newest: 0 }));
    // Nor when the new one is as long as the old one was, with nothing to read behind it.
    let mut other = Story::leader(3, &log);
    for commit in ["x", "y"] {
        other.commit(&mut log, commit);
    }
    leader.handle(&log, Event::Recheck);
    assert_eq!(leader.halted, Some(Halt::Forked { at: 2 }));
}

#[test]
fn a_stream_that_was_made_anew_and_read_on_is_told_by_its_history() {
    let (mut log, mut follower) = led();
    follower.commit(&mut log, "a");
    follower.commit(&mut log, "b");
    log.recreate();
    let mut other = Story::leader(2, &log);
    for commit in ["x", "y", "z"] {
        other.commit(&mut log, commit);
    }
    // z is behind y, and has the number that would come next.
    follower.read(&log);
    assert_eq!(follower.halted, Some(Halt::Forked { at: 2 }));
    assert_eq!(follower.commits(), [b"a", b"b"]);
}

#[test]
fn an_empty_pod_does_not_go_on_where_a_purged_log_begins_anew() {
    let (mut log, mut leader) = led();
    leader.commit(&mut log, "a");
    leader.commit(&mut log, "b");
    let newest = leader.replica.position();
    log.purge();
    // It hears what others have before it has the lease, or after it.
    for is_heard_first in [true, false] {
        let mut new = Story::follower(2);
        let heard = Event::Acknowledged(newest);
        let lease = Event::Lease(Some(1));
        let events = match is_heard_first {
            true => [heard, lease],
            false => [lease, heard],
        };
        for event in events {
            new.handle(&log, event);
        }
        let (at, acknowledged) = (0, 2);
        assert_eq!(new.halted, Some(Halt::Lost { at, acknowledged }));
        assert_eq!(new.replica.term(), None);
    }
    // Once it is stopped nothing begins it again.
    leader.handle(&log, Event::Recheck);
    assert_eq!(leader.halted, Some(Halt::Rewound { at: 2, newest: 0 }));
}

#[test]
fn a_pod_that_has_gone_on_in_an_empty_log_stops_when_it_hears_of_what_others_have() {
    let (mut log, mut leader) = led();
    leader.commit(&mut log, "a");
    leader.commit(&mut log, "b");
    let newest = leader.replica.position();
    log.purge();
    let mut new = Story::leader(2, &log);
    new.commit(&mut log, "x");
    assert_eq!(new.replica.position().sequence, 3);
    // Its number is larger; what others have is not in its past.
    new.handle(&log, Event::Missing(newest));
    let (at, acknowledged) = (3, 2);
    assert_eq!(new.halted, Some(Halt::Lost { at, acknowledged }));
    // One that reads that log passes over the same record.
    let mut late = Story::follower(3);
    late.handle(&log, Event::Acknowledged(newest));
    late.read(&log);
    let (at, acknowledged) = (0, 2);
    assert_eq!(late.halted, Some(Halt::Lost { at, acknowledged }));
    assert_eq!(late.commits(), [b""; 0]);
}

#[test]
fn what_others_have_and_the_log_has_is_waited_for_and_stops_nobody() {
    let (mut log, mut leader) = led();
    leader.commit(&mut log, "a");
    let mut late = Story::leader(2, &log);
    leader.commit(&mut log, "b");
    leader.commit(&mut log, "c");
    let newest = leader.replica.position();
    // It leads, and has not read b and c: they were heard of before they were read.
    let effects = late.replica.handle(Event::Acknowledged(newest));
    assert_eq!(effects, [Effect::Read]);
    assert_eq!(late.replica.term(), None);
    let found = log.look(0, newest.sequence);
    let looked = Event::Looked {
        sequence: newest.sequence,
        found,
    };
    assert_eq!(late.replica.handle(looked), [Effect::Read]);
    late.read(&log);
    assert_eq!(late.commits(), [b"a", b"b", b"c"]);
    assert_eq!((late.halted.as_ref(), late.replica.awaited()), (None, None));
    assert!(late.replica.term().is_some());
    // What is in flight is heard of from who has read it first.
    late.plan(&log, "d");
    let (number, attempt, append) = late.appends.pop().unwrap();
    let answer = log.append(0, &append, Fault::None);
    leader.read(&log);
    late.replica
        .handle(Event::Acknowledged(leader.replica.position()));
    late.answered(&log, (number, attempt), answer);
    assert!(is_committed(late.settled.last()));
    assert!(late.replica.term().is_some());
}

#[test]
fn a_pod_whose_records_were_trimmed_wants_the_state_of_another() {
    let (mut log, mut leader) = led();
    leader.commit(&mut log, "a");
    let mut late = Story::follower(2);
    late.read(&log);
    leader.commit(&mut log, "b");
    leader.commit(&mut log, "c");
    log.trim(0, 3);
    assert_eq!(log.newest(0), 3);
    late.read(&log);
    assert!(late.wants_restore && late.replica.is_behind());
    assert_eq!(late.halted, None);
    assert_eq!(late.commits(), [b"a"]);
}

#[test]
fn another_record_under_the_own_number_stops_the_lane() {
    let (mut log, mut leader) = led();
    leader.commit(&mut log, "a");
    let bytes = Bytes::from_static(b"another");
    let records = vec![Stored { sequence: 1, bytes }];
    let is_all = false;
    leader.handle(&log, Event::Read { records, is_all });
    assert_eq!(leader.halted, Some(Halt::Forked { at: 1 }));
}
