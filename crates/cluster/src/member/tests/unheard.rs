//! Positions that no record has: what callers name who made them up.

use super::cluster::*;
use std::time::{Duration, Instant};

/// How long they ask.
const ASKED_FOR: Duration = Duration::from_secs(2);

/// A lane is made to look no more often than this, however many ask.
const LOOKS_A_SECOND: u64 = 5;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn positions_beyond_the_end_have_the_log_asked_at_a_bounded_rate() {
    let (cluster, leader) = led_cluster();
    create(&leader, "f", 0, 1_000).await;
    cluster.level();
    let lane = leader.lane_of(&name("f"));
    let before = cluster.log.questions();
    let until = Instant::now() + ASKED_FOR;
    let attackers = (0..8).map(|attacker| {
        let engine = leader.clone();
        tokio::spawn(async move {
            let mut asked = 0_u64;
            while Instant::now() < until {
                // Numbers that differ, so that none is like another.
                let beyond = u64::MAX - 8 * asked - attacker;
                let reached = engine.reached(lane, beyond);
                let reached = tokio::time::timeout(Duration::from_millis(1), reached).await;
                assert!(reached.is_err(), "there is no such record: {reached:?}");
                asked += 1;
            }
            asked
        })
    });
    let attackers: Vec<_> = attackers.collect();
    let mut longest = Duration::ZERO;
    let mut changes = 0;
    while Instant::now() < until {
        let started = Instant::now();
        add(&leader, "f", [changes], None).await.unwrap();
        longest = longest.max(started.elapsed());
        changes += 1;
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let mut asked = 0;
    for attacker in attackers {
        asked += attacker.await.unwrap();
    }
    let questions = cluster.log.questions() - before;
    println!("{asked} asked, {questions} questions to the log, a change took {longest:?}");
    assert!(asked > 500, "{asked} asked");
    // One for the end each time; where a change has come between, up to three for what
    // it hears of then.
    let most = 4 * LOOKS_A_SECOND * (ASKED_FOR.as_secs() + 1);
    assert!(questions <= most, "{questions} questions for {asked}");
    cluster.level();
}
