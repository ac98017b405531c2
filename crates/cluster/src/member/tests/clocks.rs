//! Pods whose clocks disagree by hours: nothing ends early on any of them.

use super::cluster::*;
use super::flaky::Failures;
use crate::chain::params::FilterRequest;
use crate::engine::{Clock, Engine, EngineOptions, NewFilter};
use crate::memory::MemoryStore;
use crate::store::PageStore;
use crate::tests::shared_log::SharedLog;
use crate::{CommitLog, Event, Member, Membership};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

const START_MS: u64 = 1 << 40;
const MINUTE: u64 = 60_000;
const HOUR: u64 = 60 * MINUTE;

/// A pod with clocks of its own.
struct Pod {
    engine: Member,
    store: MemoryStore,
    wall_ms: Arc<AtomicU64>,
    since_boot_ms: Arc<AtomicU64>,
}

/// Pods over one log.
struct Pods {
    cluster: Cluster,
    pods: Vec<Pod>,
    revision: u64,
}

impl Pods {
    /// Those whose clocks are so many milliseconds ahead, or behind.
    fn of(ahead: &[i64]) -> Pods {
        // It has the log, and no pod of its own.
        let cluster = Cluster::of(0, SharedLog::new(3, 0), Failures::new(3, 0));
        let mut pods = Pods {
            cluster,
            pods: Vec::new(),
            revision: 0,
        };
        for &ahead in ahead {
            let wall_ms = START_MS.checked_add_signed(ahead).unwrap();
            let pod = pods.start(MemoryStore::new(), wall_ms, (None, None));
            pods.pods.push(pod);
        }
        pods
    }

    /// `told` has the time of other pods, if there are some, and that of the brokers.
    fn start(&self, store: MemoryStore, wall_ms: u64, told: (Option<u64>, Option<u64>)) -> Pod {
        let wall_ms = Arc::new(AtomicU64::new(wall_ms));
        let since_boot_ms = Arc::new(AtomicU64::new(HOUR));
        let options = EngineOptions {
            clock: Clock::Both {
                wall_ms: Arc::clone(&wall_ms),
                since_boot_ms: Arc::clone(&since_boot_ms),
            },
            ..options()
        };
        let as_of_now = |time_ms: Option<u64>| time_ms.map(|it| (it, Instant::now()));
        let membership = Membership {
            time: as_of_now(told.0),
            brokers_time: as_of_now(told.1),
            ..self.cluster.membership()
        };
        let pages = Arc::new(PageStore::open(Arc::new(store.clone())).unwrap());
        let engine = join_with(pages, membership, &options).unwrap();
        wait_until("it has read to the end", || {
            engine.lane_states().iter().all(|it| it.has_caught_up)
        });
        Pod {
            engine,
            store,
            wall_ms,
            since_boot_ms,
        }
    }

    fn start_again(&mut self, pod: usize, wall_ms: u64, told: (Option<u64>, Option<u64>)) {
        self.pods[pod].engine.halt();
        let store = self.pods[pod].store.fork();
        self.pods[pod] = self.start(store, wall_ms, told);
    }

    fn pass(&self, ms: u64) {
        for pod in &self.pods {
            pod.wall_ms.fetch_add(ms, Ordering::SeqCst);
            pod.since_boot_ms.fetch_add(ms, Ordering::SeqCst);
        }
    }

    /// Has one of them lead all lanes, and write to each.
    async fn lead(&mut self, pod: usize) -> Engine {
        self.revision += 1;
        for lane in 0..LANES {
            for (other, it) in self.pods.iter().enumerate() {
                let lease = (other == pod).then_some(self.revision);
                it.engine.tell(lane, Event::Lease(lease));
            }
        }
        let engine = self.pods[pod].engine.engine().clone();
        wait_until("a pod leads", || {
            engine.lane_states().iter().all(|lane| lane.leads())
        });
        for lane in 0..LANES {
            let until = Instant::now() + Duration::from_secs(30);
            engine.until(until).barrier(lane).await.unwrap();
        }
        self.level();
        engine
    }

    fn level(&self) {
        for lane in 0..LANES {
            let newest = self.cluster.log.newest(lane).unwrap();
            for pod in &self.pods {
                wait_until("a pod has all records", || {
                    let state = &pod.engine.lane_states()[lane as usize];
                    assert_eq!(state.halted, None);
                    state.position.sequence >= newest && !state.is_in_flight
                });
            }
        }
    }

    /// Whether the filter is there, for every pod the same.
    async fn has(&self, filter: &str) -> bool {
        let mut found = Vec::new();
        for pod in &self.pods {
            found.push(pod.engine.filter_info(&name(filter)).await.is_ok());
        }
        assert!(
            found.iter().all(|it| *it == found[0]),
            "{filter}: {found:?}"
        );
        found[0]
    }

    /// Items that a window has, for every pod the same.
    async fn windowed(&self, filter: &str, items: std::ops::Range<u64>) -> usize {
        let mut found = Vec::new();
        let (filter, items) = (name(filter), batch(items));
        for pod in &self.pods {
            let exists = pod.engine.exists(&filter, &items).await.unwrap();
            found.push(exists.iter().filter(|it| **it).count());
        }
        assert!(found.iter().all(|it| *it == found[0]), "{found:?}");
        found[0]
    }
}

impl Drop for Pods {
    fn drop(&mut self) {
        for pod in &self.pods {
            pod.engine.halt();
        }
    }
}

async fn end_after(engine: &Engine, filter: &str, ttl_seconds: u64) {
    let new = NewFilter {
        ttl_seconds: Some(ttl_seconds),
        ..NewFilter::default()
    };
    engine
        .create_filter(&name(filter), &new, None)
        .await
        .unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn clocks_that_disagree_by_hours_end_no_filter_and_no_window_early() {
    let hours = HOUR as i64;
    let mut pods = Pods::of(&[0, 5 * hours, -3 * hours]);
    let leader = pods.lead(0).await;
    for pod in &pods.pods {
        assert_eq!(pod.engine.now_ms(), START_MS);
    }
    end_after(&leader, "an-hour", 3_600).await;
    end_after(&leader, "two-hours", 7_200).await;
    let window = FilterRequest {
        capacity: Some(1_000),
        window_seconds: Some(7_200),
        ..FilterRequest::default()
    };
    leader
        .create_filter(&name("window"), &window.into(), None)
        .await
        .unwrap();
    add(&leader, "window", 0..50, None).await.unwrap();

    // Each of them leads for a quarter of an hour, and writes.
    for (pod, quarter) in [1, 2, 1].into_iter().zip(1u64..) {
        let leader = pods.lead(pod).await;
        pods.pass(15 * MINUTE);
        add(&leader, "window", quarter * 50..(quarter + 1) * 50, None)
            .await
            .unwrap();
        pods.level();
        assert!(pods.has("an-hour").await && pods.has("two-hours").await);
        assert_eq!(
            pods.windowed("window", 0..200).await as u64,
            (quarter + 1) * 50
        );
        let now = START_MS + quarter * 15 * MINUTE;
        for pod in &pods.pods {
            // What is made good of clocks that may run too fast is a thousandth.
            assert!(pod.engine.now_ms() <= now && pod.engine.now_ms() > now - MINUTE);
        }
    }
    let ahead = pods.pods[1].engine.clock();
    assert!(ahead.jump_ms.is_some_and(|it| it > 4 * HOUR), "{ahead:?}");
    assert_eq!(pods.pods[0].engine.clock().jump_ms, None);
    // In time they end, whoever leads.
    pods.lead(2).await;
    pods.pass(17 * MINUTE);
    assert!(!pods.has("an-hour").await && pods.has("two-hours").await);
    assert_eq!(pods.windowed("window", 0..200).await, 200);
    pods.lead(1).await;
    pods.pass(60 * MINUTE);
    assert!(!pods.has("two-hours").await);
    // Of the window the first hour is over.
    let left = pods.windowed("window", 0..200).await;
    assert!(left < 200, "{left}");

    // Somebody confirms the clock that is ahead: it is that of all from then on.
    let leader = pods.pods[1].engine.clone();
    end_after(&leader, "four-hours", 4 * 3_600).await;
    pods.level();
    assert!(pods.has("four-hours").await);
    assert_eq!(leader.confirm_clock().jump_ms, None);
    pods.lead(1).await;
    assert!(!pods.has("four-hours").await);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn neither_a_restart_of_all_pods_nor_a_silence_is_a_jump_and_one_that_starts_alone_asks_the_others()
 {
    let mut pods = Pods::of(&[0, 0]);
    let leader = pods.lead(0).await;
    end_after(&leader, "a-day", 24 * 3_600).await;
    pods.level();
    // Nobody writes for ten hours.
    pods.pass(10 * HOUR);
    pods.lead(1).await;
    for pod in &pods.pods {
        assert_eq!(pod.engine.clock().jump_ms, None);
    }
    assert!(pods.has("a-day").await);
    // All stop for ten hours: by the clocks of two pods it is so late.
    let now = START_MS + 20 * HOUR;
    for number in 0..2 {
        pods.start_again(number, now, (None, Some(now)));
    }
    pods.lead(0).await;
    for pod in &pods.pods {
        let clock = pod.engine.clock();
        assert_eq!((clock.jump_ms, clock.now_ms), (None, now));
    }
    assert!(pods.has("a-day").await);
    // One starts again whose clock is a week ahead, while the other is there. It leads
    // before it has heard anything.
    let other = pods.pods[0].engine.now_ms();
    let week_ahead = now + 7 * 24 * HOUR;
    pods.start_again(1, week_ahead, (Some(other), Some(week_ahead)));
    pods.lead(1).await;
    assert!(pods.pods[1].engine.clock().jump_ms.is_some());
    assert!(pods.has("a-day").await);
    pods.pass(4 * HOUR + MINUTE);
    assert!(!pods.has("a-day").await);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_pod_that_starts_alone_holds_its_clock_against_that_of_the_brokers() {
    let mut pods = Pods::of(&[0, 0]);
    let leader = pods.lead(0).await;
    end_after(&leader, "an-hour", 3_600).await;
    end_after(&leader, "a-week", 7 * 24 * 3_600).await;
    pods.level();
    // All stop for ten minutes. The first one that starts, and leads, is a day ahead.
    let now = START_MS + 10 * MINUTE;
    for (pod, ahead) in [(0, 24 * HOUR), (1, 0)] {
        pods.start_again(pod, now + ahead, (None, Some(now)));
    }
    pods.lead(0).await;
    let clocks = || pods.pods.iter().map(|it| it.engine.clock());
    let jumps: Vec<_> = clocks().map(|it| it.jump_ms).collect();
    assert!(jumps[0].is_some_and(|it| it > 23 * HOUR) && jumps[1].is_none());
    assert!(clocks().all(|it| (now..now + MINUTE).contains(&it.now_ms)));
    assert!(pods.has("an-hour").await);
    pods.pass(50 * MINUTE);
    assert!(!pods.has("an-hour").await && pods.has("a-week").await);
    // Brokers that are a month ahead end nothing either.
    let now = now + 50 * MINUTE;
    for pod in 0..2 {
        pods.start_again(pod, now, (None, Some(now + 30 * 24 * HOUR)));
    }
    pods.lead(1).await;
    assert_eq!(pods.pods[1].engine.clock().jump_ms, None);
    assert!(pods.has("a-week").await);
    // Of brokers that are a day behind nothing is believed but that this pod is ahead:
    // time goes on from the newest stamp until somebody confirms the clock.
    pods.start_again(0, now + HOUR, (None, Some(now - 24 * HOUR)));
    let clock = pods.pods[0].engine.clock();
    assert!(
        clock.jump_ms.is_some_and(|it| it <= HOUR) && clock.now_ms >= now,
        "{clock:?}"
    );
    assert_eq!(pods.pods[0].engine.confirm_clock().jump_ms, None);
}
