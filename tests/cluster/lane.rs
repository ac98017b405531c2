//! A lane over a broker that dies, is rewound, or loses its stream.

use crate::founded::founded;
use crate::support::{Model, settled};
use cuckood::cluster::{CommitLog, Event, Halt, PlanOutcome, Report};
use std::time::{Duration, Instant};

const SOON: Duration = Duration::from_secs(10);

#[test]
fn two_pods_that_both_believe_to_lead_lose_time_and_nothing_else() {
    let Some(cluster) = founded() else { return };
    let (mut first, mut second) = (cluster.pod(1), cluster.pod(2));
    first.lead(1);
    second.lead(2);
    let mut expected = Vec::new();
    for round in 0..20 {
        for (pod, name) in [(&mut first, "first"), (&mut second, "second")] {
            let commit = format!("{name} {round}");
            while pod.commit_within(&commit, SOON) == Some(PlanOutcome::Overtaken) {}
            expected.push(commit);
        }
    }
    first.follow_to(expected.len());
    assert_eq!(first.commits(), expected);
    assert_eq!(first.driver.state(), second.driver.state());
    // A pod that comes later reads the same.
    let mut third = cluster.pod(3);
    third.follow_to(expected.len());
    assert_eq!(third.driver.state(), first.driver.state());
}

#[test]
fn a_record_in_flight_when_the_broker_dies_is_settled_when_it_is_back() {
    let Some(mut cluster) = founded() else { return };
    let mut pod = cluster.pod(1);
    pod.lead(1);
    pod.commit("before");
    cluster.brokers.all[0].kill();
    let outcome = pod.commit_within("meanwhile", Duration::from_millis(500));
    assert_eq!(outcome, None, "nothing is said of what is not known");
    assert!(pod.driver.replica().is_in_flight());
    cluster.brokers.all[0].start();
    let started = Instant::now();
    let outcome = loop {
        assert!(started.elapsed() < Duration::from_secs(30));
        if let Some(outcome) = settled(&pod.follow(Duration::from_secs(1))) {
            break outcome;
        }
    };
    assert!(matches!(outcome, PlanOutcome::Committed(_)), "{outcome:?}");
    pod.commit("after");
    assert_eq!(pod.commits(), ["before", "meanwhile", "after"]);
    let mut other = cluster.pod(2);
    other.follow_to(3);
    assert_eq!(other.driver.state(), pod.driver.state());
}

#[test]
fn a_stream_that_was_rewound_stops_who_had_more() {
    let Some(mut cluster) = founded() else { return };
    let mut pod = cluster.pod(1);
    pod.lead(1);
    pod.commit("a");
    cluster.brokers.all[0].kill();
    let copy = cluster.brokers.all[0].copy_of_store();
    cluster.brokers.all[0].start();
    pod.commit("b");
    cluster.brokers.all[0].kill();
    cluster.brokers.all[0].restore(&copy);
    cluster.brokers.all[0].start();
    let position = pod.driver.replica().position();
    let mut other = cluster.pod_at(2, position, pod.driver.state().clone());
    let rewound = Halt::Rewound { at: 2, newest: 1 };
    // One that takes the lease looks before it leads; one that leads already is
    // refused, looks for the reason, and says nothing of its record.
    assert_eq!(other.lead(2), [Report::Halted(rewound.clone())]);
    let outcome = pod.commit_within("c", Duration::from_secs(20));
    assert_eq!(outcome, Some(PlanOutcome::Unknown));
    assert_eq!(pod.driver.replica().halted(), Some(&rewound));
    assert_eq!(cluster.log().newest(0).unwrap(), 1);
}

#[test]
fn a_stream_that_was_made_anew_in_silence_stops_who_had_another() {
    let Some(cluster) = founded() else { return };
    let (mut pod, mut other) = (cluster.pod(1), cluster.pod(2));
    pod.lead(1);
    for commit in ["a", "b"] {
        pod.commit(commit);
    }
    other.follow_to(2);
    let context = cluster.stream_tool();
    let deleted = context.delete_stream(cluster.founding.stream());
    cluster.runtime.block_on(deleted).unwrap();
    // Without a stream.
    let gone = Report::Halted(Halt::Rewound { at: 2, newest: 0 });
    assert_eq!(other.handle(Event::Recheck, SOON), [gone]);
    // With another of the same name, that has more records.
    cluster.found_again();
    let mut new = cluster.pod(3);
    new.lead(2);
    for commit in ["x", "y", "z"] {
        new.commit(commit);
    }
    let forked = Report::Halted(Halt::Forked { at: 2 });
    assert_eq!(pod.handle(Event::Recheck, SOON), [forked]);
    assert_eq!(pod.commits(), ["a", "b"]);
}

#[test]
fn a_pod_whose_records_were_trimmed_asks_for_another_pods_state() {
    let Some(cluster) = founded() else { return };
    let mut pod = cluster.pod(1);
    pod.lead(1);
    for commit in ["a", "b", "c"] {
        pod.commit(commit);
    }
    cluster.log().trim(0, 3).unwrap();
    let mut late = cluster.pod(2);
    assert_eq!(late.follow(SOON), [Report::Restore]);
    assert_eq!(late.commits(), [""; 0]);
    pod.commit("d");
    let position = pod.driver.replica().position();
    let mut late = cluster.pod_at(2, position, Model::default());
    pod.commit("e");
    late.follow_to(1);
    assert_eq!(late.commits(), ["e"]);
}
