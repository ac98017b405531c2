//! Each rule by itself: what a log was seen to do, and what a replica makes of
//! it.

use super::simulated_log::{Fault, SimulatedLog};
use super::{LEVELS, lane};
use crate::replication::{
    Answer, Append, Effect, Event, Found, Halt, HistoryHash, Outcome, Plan, PlanNumber, Position,
    Record, RecordError, Replica, Stored, Writer,
};
use bytes::Bytes;

/// A replica and what it did, over a log that answers at once, but for appends:
/// those are sent by the test, with the fault that it is about.
struct Story {
    replica: Replica,
    appends: Vec<(u64, u32, Append)>,
    applied: Vec<(Position, Record)>,
    settled: Vec<Outcome>,
    halted: Option<Halt>,
    wants_restore: bool,
    plans: u64,
}

impl Story {
    fn follower(writer: u8) -> Story {
        let origin = lane(0).origin();
        Story {
            replica: Replica::new(lane(0), Writer([writer; 16]), LEVELS, origin, 0),
            appends: Vec::new(),
            applied: Vec::new(),
            settled: Vec::new(),
            halted: None,
            wants_restore: false,
            plans: 0,
        }
    }

    fn leader(writer: u8, log: &SimulatedLog) -> Story {
        let mut story = Story::follower(writer);
        story.handle(log, Event::Lease(Some(1)));
        assert!(story.replica.reign().is_some());
        story
    }

    fn handle(&mut self, log: &SimulatedLog, event: Event) {
        let mut events = vec![event];
        while let Some(event) = events.pop() {
            for effect in self.replica.handle(event) {
                match effect {
                    Effect::Append {
                        number,
                        attempt,
                        append,
                    } => self.appends.push((number, attempt, append)),
                    Effect::Read => events.push(self.all_of(log)),
                    Effect::Look(sequence) => events.push(Event::Looked {
                        sequence,
                        found: log.look(0, sequence),
                    }),
                    Effect::Apply { position, record } => self.applied.push((position, record)),
                    Effect::Settle { outcome, .. } => self.settled.push(outcome),
                    Effect::Restore => self.wants_restore = true,
                    Effect::Halt(halt) => self.halted = Some(halt),
                }
            }
        }
    }

    fn all_of(&self, log: &SimulatedLog) -> Event {
        let after = self.replica.position().sequence;
        let (records, is_all) = log.read(0, after, 0, usize::MAX - 1);
        Event::Read { records, is_all }
    }

    fn read(&mut self, log: &SimulatedLog) {
        let event = self.all_of(log);
        self.handle(log, event);
    }

    fn plan(&mut self, log: &SimulatedLog, commit: &'static str) {
        self.plans += 1;
        let plan = Plan {
            number: PlanNumber(self.plans),
            reign: self.replica.reign().unwrap(),
            clock_ms: 0,
            commit: Bytes::from_static(commit.as_bytes()),
        };
        self.handle(log, Event::Plan(plan));
    }

    /// The newest append arrives at the log, and the answer at the replica.
    fn send(&mut self, log: &mut SimulatedLog, fault: Fault) {
        let (number, attempt, append) = self.appends.pop().expect("something to send");
        let answer = log.append(0, &append, fault);
        let event = Event::Answered {
            number,
            attempt,
            answer,
        };
        self.handle(log, event);
    }

    fn commit(&mut self, log: &mut SimulatedLog, commit: &'static str) {
        self.plan(log, commit);
        self.send(log, Fault::None);
    }

    fn commits(&self) -> Vec<&[u8]> {
        self.applied.iter().map(|it| it.1.commit.as_ref()).collect()
    }
}

fn is_committed(outcome: Option<&Outcome>) -> bool {
    matches!(outcome, Some(Outcome::Committed(_)))
}

/// What the log holds of the lane.
fn commits(log: &SimulatedLog) -> Vec<Bytes> {
    let records = log.past_of(0).map(|it| Record::decode(&it.bytes).unwrap());
    records.map(|it| it.commit).collect()
}

#[test]
fn a_record_that_was_refused_and_stored_counts_as_stored_once() {
    let mut log = SimulatedLog::default();
    let mut leader = Story::leader(1, &log);
    leader.plan(&log, "a");
    leader.send(&mut log, Fault::RefusedAndStored);
    assert!(is_committed(leader.settled.last()));
    assert_eq!(commits(&log), ["a"]);
    assert_eq!(leader.commits(), [b"a"]);
}

#[test]
fn a_record_whose_answer_was_lost_is_not_given_up_and_not_stored_twice() {
    let mut log = SimulatedLog::default();
    let mut leader = Story::leader(1, &log);
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
fn a_lone_writer_that_is_told_that_another_record_is_in_process_tries_again() {
    let mut log = SimulatedLog::default();
    let mut leader = Story::leader(1, &log);
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
    let mut log = SimulatedLog::default();
    let mut first = Story::leader(1, &log);
    let mut second = Story::leader(2, &log);
    first.plan(&log, "of the first");
    second.commit(&mut log, "of the second");
    let before = second.replica.reign().unwrap();
    first.send(&mut log, Fault::None);
    assert_eq!(first.settled, [Outcome::Overtaken]);
    assert_eq!(first.commits(), [b"of the second"]);
    // The first goes on; the second held the lease all the time and saw nothing.
    first.commit(&mut log, "again");
    second.read(&log);
    let plan = Plan {
        number: PlanNumber(9),
        reign: before,
        clock_ms: 0,
        commit: Bytes::from_static(b"planned before"),
    };
    second.handle(&log, Event::Plan(plan));
    assert_eq!(second.settled.last(), Some(&Outcome::NotLeading));
    assert_eq!(commits(&log), ["of the second", "again"]);
}

#[test]
fn a_plan_is_refused_while_a_record_is_in_flight() {
    let mut log = SimulatedLog::default();
    let mut leader = Story::leader(1, &log);
    let reign = leader.replica.reign().unwrap();
    leader.plan(&log, "a");
    let plan = Plan {
        number: PlanNumber(9),
        reign,
        clock_ms: 0,
        commit: Bytes::from_static(b"b"),
    };
    leader.handle(&log, Event::Plan(plan));
    assert_eq!(leader.settled, [Outcome::NotLeading]);
    leader.send(&mut log, Fault::None);
    assert!(is_committed(leader.settled.last()));
    assert_eq!(commits(&log), ["a"]);
}

#[test]
fn a_plan_is_refused_if_the_lease_went_away_and_came_back() {
    let log = SimulatedLog::default();
    let mut leader = Story::leader(1, &log);
    let reign = leader.replica.reign().unwrap();
    leader.handle(&log, Event::Lease(None));
    leader.handle(&log, Event::Lease(Some(2)));
    assert!(leader.replica.reign().is_some());
    let plan = Plan {
        number: PlanNumber(1),
        reign,
        clock_ms: 0,
        commit: Bytes::new(),
    };
    leader.handle(&log, Event::Plan(plan));
    assert_eq!(leader.settled, [Outcome::NotLeading]);
    assert_eq!(leader.appends, []);
}

#[test]
fn a_duplicate_of_a_record_that_the_log_lost_is_stored_under_another_id() {
    let mut log = SimulatedLog::default();
    let mut leader = Story::leader(1, &log);
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
    let event = Event::Answered {
        number,
        attempt,
        answer,
    };
    leader.handle(&log, event);
    assert_eq!(leader.settled.len(), 1, "b is not there");
    assert_ne!(leader.appends.last().unwrap().2.id, append.id);
    leader.send(&mut log, Fault::None);
    assert!(is_committed(leader.settled.last()));
    assert_eq!(commits(&log), ["a", "b"]);
}

#[test]
fn a_duplicate_that_is_another_writers_record_is_not_taken_for_the_own() {
    let mut log = SimulatedLog::default();
    let mut leader = Story::leader(1, &log);
    let mut other = Story::leader(2, &log);
    leader.plan(&log, "mine");
    other.commit(&mut log, "theirs");
    let (number, attempt, _) = leader.appends.pop().unwrap();
    let answer = Answer::Stored {
        sequence: 1,
        is_duplicate: true,
    };
    let event = Event::Answered {
        number,
        attempt,
        answer,
    };
    leader.handle(&log, event);
    assert_eq!(leader.settled, [Outcome::Overtaken]);
    assert_eq!(leader.commits(), [b"theirs"]);
}

#[test]
fn a_record_behind_a_rewound_stream_is_refused_by_who_has_the_other_history() {
    let mut log = SimulatedLog::default();
    let mut leader = Story::leader(1, &log);
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
        let mut log = SimulatedLog::default();
        let mut leader = Story::leader(1, &log);
        leader.commit(&mut log, "a");
        leader.commit(&mut log, "b");
        log.rewind(1, true);
        match is_refused {
            true => leader.commit(&mut log, "c"),
            false => leader.handle(&log, Event::Lease(Some(2))),
        }
        assert_eq!(leader.halted, Some(Halt::Rewound { at: 2, newest: 1 }));
        assert_eq!(leader.replica.reign(), None);
        // Nothing is said of c: people decide which history is kept.
        let of_c = leader.settled.get(2);
        assert_eq!(of_c, is_refused.then_some(&Outcome::Unknown));
    }
}

#[test]
fn a_stream_that_was_silently_made_anew_stops_who_had_another() {
    let mut log = SimulatedLog::default();
    let mut leader = Story::leader(1, &log);
    leader.commit(&mut log, "a");
    leader.commit(&mut log, "b");
    let mut follower = Story::follower(2);
    follower.read(&log);
    log.recreate();
    // Reading behind the end waits and says nothing.
    follower.read(&log);
    assert_eq!(follower.halted, None);
    follower.handle(&log, Event::InDoubt);
    assert_eq!(follower.halted, Some(Halt::Rewound { at: 2, newest: 0 }));
    // Nor when the new one has grown longer than the old one was.
    let mut other = Story::leader(3, &log);
    for commit in ["x", "y", "z"] {
        other.commit(&mut log, commit);
    }
    leader.handle(&log, Event::InDoubt);
    assert_eq!(leader.halted, Some(Halt::Forked { at: 2 }));
}

#[test]
fn a_stream_that_was_made_anew_and_read_on_is_told_by_its_history() {
    let mut log = SimulatedLog::default();
    let mut follower = Story::leader(1, &log);
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
fn a_pod_whose_records_were_trimmed_takes_the_state_of_one_that_has_its_past() {
    let mut log = SimulatedLog::default();
    let mut leader = Story::leader(1, &log);
    leader.commit(&mut log, "a");
    let mut late = Story::follower(2);
    late.read(&log);
    leader.commit(&mut log, "b");
    leader.commit(&mut log, "c");
    log.trim(0, 3);
    assert_eq!(log.newest(0), 3);
    for (holds_mine, halted) in [(true, None), (false, Some(Halt::Forked { at: 1 }))] {
        let mut late = Story {
            replica: Replica::new(lane(0), Writer([2; 16]), LEVELS, late.replica.position(), 0),
            ..Story::follower(2)
        };
        late.read(&log);
        assert!(late.wants_restore);
        // A state that is no further is no help.
        let own = Event::Restored {
            position: late.replica.position(),
            stamp_ms: 0,
            holds_mine: true,
        };
        late.handle(&log, own);
        assert!(late.replica.is_behind());
        let event = Event::Restored {
            position: leader.replica.position(),
            stamp_ms: 0,
            holds_mine,
        };
        late.handle(&log, event);
        assert_eq!(late.halted, halted);
    }
}

#[test]
fn another_record_under_the_own_number_stops_the_lane() {
    let mut log = SimulatedLog::default();
    let mut leader = Story::leader(1, &log);
    leader.commit(&mut log, "a");
    let bytes = Bytes::from_static(b"another");
    let records = vec![Stored { sequence: 1, bytes }];
    let is_all = false;
    leader.handle(&log, Event::Read { records, is_all });
    assert_eq!(leader.halted, Some(Halt::Forked { at: 1 }));
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
        error: RecordError::Newer { found: 2 },
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
    let mut log = SimulatedLog::default();
    let mut leader = Story::leader(1, &log);
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
    let log = SimulatedLog::default();
    let mut leader = Story::leader(1, &log);
    let plan = Plan {
        number: PlanNumber(1),
        reign: leader.replica.reign().unwrap(),
        clock_ms: 0,
        commit: vec![0; crate::replication::record::MAX_COMMIT_BYTES + 1].into(),
    };
    leader.handle(&log, Event::Plan(plan));
    assert_eq!(leader.settled, [Outcome::TooLarge]);
    assert!(leader.replica.reign().is_some());
    assert_eq!(leader.appends, []);
}

#[test]
fn stamps_never_fall_whatever_a_clock_says() {
    let mut log = SimulatedLog::default();
    let mut leader = Story::leader(1, &log);
    for clock_ms in [50, 20, 60] {
        let plan = Plan {
            number: PlanNumber(clock_ms),
            reign: leader.replica.reign().unwrap(),
            clock_ms,
            commit: Bytes::new(),
        };
        leader.handle(&log, Event::Plan(plan));
        leader.send(&mut log, Fault::None);
    }
    let stamps: Vec<u64> = leader.applied.iter().map(|it| it.1.stamp_ms).collect();
    assert_eq!(stamps, [50, 50, 60]);
}
