//! Changes that a pod can't do, does again, or has no answer to: where it does not lead,
//! where another pod was faster, and where the log or the store fails.

use super::cluster::*;
use crate::CommitLog;
use crate::engine::{AddOptions, EngineError, IdempotencyKey};
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_change_that_is_too_large_for_a_record_is_refused_and_nothing_is_done() {
    let (cluster, leader) = led_cluster();
    create(&leader, "f", 5, 400_000).await;
    let before = cluster
        .log
        .newest(0)
        .unwrap()
        .max(cluster.log.newest(1).unwrap());
    let refused = add(&leader, "f", 0..240_000, None).await;
    assert!(
        matches!(
            refused,
            Err(EngineError::TooLargeForLog { .. } | EngineError::TooManyPages { .. })
        ),
        "{refused:?}"
    );
    add(&leader, "f", 0..1_000, None).await.unwrap();
    let after = cluster
        .log
        .newest(0)
        .unwrap()
        .max(cluster.log.newest(1).unwrap());
    assert_eq!(after, before + 1);
    cluster.check_equal().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_pod_that_does_not_lead_answers_questions_and_changes_nothing() {
    let (cluster, leader) = led_cluster();
    create(&leader, "f", 0, 1_000).await;
    add(&leader, "f", 0..100, None).await.unwrap();
    cluster.level();
    let (other, f) = (&cluster.pods[1].engine, name("f"));
    assert!(
        other
            .exists(&f, &batch(0..100))
            .await
            .unwrap()
            .iter()
            .all(|&it| it)
    );
    let changes = [
        add(other, "f", [1], None).await.err(),
        other.delete(&f, &batch([1]), None).await.err(),
        other.set_ttl(&f, Some(5), None).await.err(),
        other.delete_filter(&f, None).await.err(),
        other
            .create_filter(&name("g"), &kind(0, 10).into(), None)
            .await
            .err(),
    ];
    for refused in changes {
        assert!(
            matches!(refused, Some(EngineError::NotLeading)),
            "{refused:?}"
        );
    }
    cluster.check_equal().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_pods_that_both_believe_to_lead_plan_again_what_was_overtaken() {
    let (mut cluster, leader) = led_cluster();
    for number in 0..4 {
        create(&leader, &format!("f{number}"), number, 300).await;
    }
    cluster.level();
    (0..LANES).for_each(|lane| cluster.also_lead(1, lane));
    let second = &cluster.pods[1].engine;
    wait_until("both lead", || {
        second.lane_states().iter().all(|it| it.leads())
    });
    for round in 0..30 {
        for number in 0..4 {
            let filter = format!("f{number}");
            for (pod, first) in [(0, 0), (1, 100_000)] {
                let items = first + round * 20..first + round * 20 + 20;
                add(&cluster.pods[pod].engine, &filter, items, None)
                    .await
                    .unwrap();
            }
        }
    }
    // A leader reads where it is refused; that it leads no more makes it follow.
    cluster.lead_all(2);
    cluster.check_equal().await;
    for number in 0..4 {
        let info = cluster.pods[0]
            .engine
            .filter_info(&name(&format!("f{number}")))
            .await;
        assert_eq!(info.unwrap().items, 30 * 40);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_key_counts_once_whichever_pod_it_is_sent_to() {
    let (mut cluster, leader) = led_cluster();
    create(&leader, "f", 0, 1_000).await;
    add(&leader, "f", 0..50, Some(key(1))).await.unwrap();
    for pod in [1, 2] {
        cluster.lead_all(pod);
        let engine = &cluster.pods[pod].engine;
        let (f, items, options) = (name("f"), batch(0..50), AddOptions::default());
        let again = engine.add(&f, &items, &options, Some(key(1))).await;
        assert!(again.unwrap().replayed);
        assert_eq!(engine.filter_info(&f).await.unwrap().items, 50);
    }
    cluster.check_equal().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_key_lives_on_every_pod_as_long_as_its_request_said() {
    let (mut cluster, leader) = led_cluster();
    create(&leader, "f", 0, 1_000).await;
    let short = IdempotencyKey {
        kept_for: Duration::from_secs(50),
        ..key(1)
    };
    let (f, items, options) = (name("f"), batch(0..50), AddOptions::default());
    for (rounds, (pod, next)) in [(0, 1), (1, 2), (2, 0)].into_iter().enumerate() {
        let engine = &cluster.pods[pod].engine;
        let first = engine.add(&f, &items, &options, Some(short)).await;
        assert!(!first.unwrap().replayed, "round {rounds}");
        // A pod that hears of a record only later goes on from its stamp, in the past.
        cluster.level();
        cluster.now_ms.fetch_add(45_000, Ordering::SeqCst);
        cluster.lead_all(next);
        let engine = &cluster.pods[next].engine;
        let again = engine.add(&f, &items, &options, Some(short)).await;
        assert!(again.unwrap().replayed, "round {rounds}");
        let counted = engine.filter_info(&f).await.unwrap().items;
        assert_eq!(counted, 50 * (rounds as u64 + 1));
        cluster.now_ms.fetch_add(10_000, Ordering::SeqCst);
    }
    cluster.check_equal().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_key_that_another_leader_has_answered_does_not_count_again() {
    let (mut cluster, first) = led_cluster();
    for filter in ["f", "g"] {
        create(&first, filter, 0, 1_000).await;
    }
    cluster.level();
    (0..LANES).for_each(|lane| cluster.also_lead(1, lane));
    let second = cluster.pods[1].engine.clone();
    wait_until("both lead", || {
        second.lane_states().iter().all(|it| it.leads())
    });
    for round in 0..20 {
        let items = round * 10..round * 10 + 10;
        add(&first, "f", items.clone(), Some(key(round)))
            .await
            .unwrap();
        // As a rule the second has not heard of that when it looks for the key,
        // and hears of it when its own commit is overtaken.
        let again = add(&second, "f", items.clone(), Some(key(round))).await;
        assert!(
            matches!(again, Ok(()) | Err(EngineError::RetryInFlight)),
            "{again:?}"
        );
        add(&second, "f", items, Some(key(round))).await.unwrap();
        // The first hears of the second's.
        add(&second, "g", [round], None).await.unwrap();
        add(&first, "g", [round], None).await.unwrap();
    }
    let info = second.filter_info(&name("f")).await.unwrap();
    assert_eq!(info.items, 200);
    cluster.lead_all(2);
    cluster.check_equal().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_nobody_knows_for_want_of_the_log_is_settled_when_it_is_back() {
    let (cluster, leader) = led_cluster();
    create(&leader, "f", 0, 1_000).await;
    cluster.log.cut_off(true);
    let soon = leader.until(Instant::now() + Duration::from_millis(200));
    let unknown = add(&soon, "f", 0..50, Some(key(1))).await;
    assert!(
        matches!(unknown, Err(EngineError::LogSilent)),
        "{unknown:?}"
    );
    wait_until("the lane has a record in flight", || {
        leader.lane_states().iter().any(|lane| lane.is_in_flight)
    });
    // Questions go on, changes and the same key are told to come back.
    assert!(leader.has_filter(&name("f")).await.unwrap());
    leader.exists(&name("f"), &batch(0..50)).await.unwrap();
    let again = add(&leader, "f", 0..50, Some(key(1))).await;
    assert!(
        matches!(again, Err(EngineError::RetryInFlight)),
        "{again:?}"
    );
    cluster.log.cut_off(false);
    wait_until("the lane has settled it", || {
        leader.lane_states().iter().all(|lane| !lane.is_in_flight)
    });
    cluster.check_equal().await;
    add(&leader, "f", 0..50, Some(key(1))).await.unwrap();
    assert_eq!(leader.filter_info(&name("f")).await.unwrap().items, 50);
    cluster.check_equal().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_commit_that_the_log_has_and_the_store_refused_is_applied_when_it_can_be() {
    let (mut cluster, leader) = led_cluster();
    create(&leader, "f", 0, 1_000).await;
    cluster.level();
    cluster.failures.set(100);
    let unknown = add(&leader, "f", 0..50, Some(key(1))).await;
    assert!(
        matches!(unknown, Err(EngineError::OutcomeUnknown(_))),
        "{unknown:?}"
    );
    let refused = add(&leader, "f", 50..60, None).await;
    assert!(
        matches!(refused, Err(EngineError::Overloaded(_))),
        "{refused:?}"
    );
    // A crash in between leaves what the log has, too.
    let left = cluster.pods[0].store.fork();
    cluster.failures.set(0);
    cluster.check_equal().await;
    cluster.crash(0, left);
    cluster.lead_all(0);
    let leader = cluster.pods[0].engine.clone();
    add(&leader, "f", 0..50, Some(key(1))).await.unwrap();
    let info = leader.filter_info(&name("f")).await.unwrap();
    assert_eq!(info.items, 50);
    cluster.check_equal().await;
}
