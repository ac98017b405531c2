//! Work of seconds beside requests of microseconds: it is done in turns, a
//! little at a time, and while others ask each turn ends with as long a rest.
//!
//! Not by threads of lower priority: one that is put off while it holds a lock
//! of the allocator or of the storage engine puts off whatever waits for that.

use super::budget::Budget;
use crate::engine::Pace;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};
use tokio::runtime::Handle;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// How long a turn is, but for what can't be interrupted.
const TURN: Duration = Duration::from_micros(500);

/// Longest rest at the end of a turn.
const LONGEST_REST: Duration = Duration::from_millis(5);

/// Of so many cores one may be kept busy by such work.
const CORES_PER_TURN: usize = 4;

/// The turns of a server, and what tells whether others ask.
pub struct Throttle {
    turns: Arc<Semaphore>,
    requests: Budget,
    /// Requests on which nothing is done but such work.
    throttled: AtomicUsize,
}

impl Throttle {
    /// For a machine of so many cores.
    pub(crate) fn new(cores: usize, requests: Budget) -> Throttle {
        Throttle {
            turns: Arc::new(Semaphore::new((cores / CORES_PER_TURN).max(1))),
            requests,
            throttled: AtomicUsize::new(0),
        }
    }

    fn others_ask(&self) -> bool {
        self.requests.held() > self.throttled.load(Ordering::Relaxed)
    }
}

/// One piece of work that takes turns with others. Not for async threads.
pub struct ThrottledWork {
    throttle: Arc<Throttle>,
    runtime: Handle,
    turn: Option<OwnedSemaphorePermit>,
    since: Instant,
    /// Whether its request is still worked on, and does not tell of others.
    counts_itself: bool,
}

impl ThrottledWork {
    /// For work on a request that is worked on until [`answered`](Self::answered).
    pub fn new(throttle: &Arc<Throttle>, runtime: Handle) -> ThrottledWork {
        throttle.throttled.fetch_add(1, Ordering::Relaxed);
        ThrottledWork {
            throttle: Arc::clone(throttle),
            runtime,
            turn: None,
            since: Instant::now(),
            counts_itself: true,
        }
    }

    /// Has others take their turns, if this one lasted long enough, after a rest
    /// while others ask. Blocks.
    pub fn throttle(&mut self) {
        let worked = self.since.elapsed();
        if self.turn.is_some() && worked < TURN {
            return;
        }
        if self.turn.is_some() && self.throttle.others_ask() {
            // Nothing else works in its place meanwhile.
            std::thread::sleep(worked.min(LONGEST_REST));
        }
        self.turn = None;
        let turns = Arc::clone(&self.throttle.turns);
        // It is never closed.
        self.turn = self.runtime.block_on(turns.acquire_owned()).ok();
        self.since = Instant::now();
    }

    /// Lets others work while this one waits for its client.
    pub fn pause(&mut self) {
        self.turn = None;
    }

    /// The request is answered: what is worked on from now on are others.
    pub fn answered(&mut self) {
        if std::mem::take(&mut self.counts_itself) {
            self.throttle.throttled.fetch_sub(1, Ordering::Relaxed);
        }
    }
}

impl Drop for ThrottledWork {
    fn drop(&mut self) {
        self.answered();
    }
}

/// Has a filter be read as a whole in turns with other long work, until `is_over`.
pub fn paces(
    throttle: &Arc<Throttle>,
    is_over: impl Fn() -> bool + Clone + Send + Sync + 'static,
) -> impl Fn() -> Pace + Send + Sync + 'static {
    let (throttle, runtime) = (Arc::clone(throttle), Handle::current());
    move || {
        let mut work = ThrottledWork::new(&throttle, runtime.clone());
        let is_over = is_over.clone();
        Box::new(move || {
            work.throttle();
            match is_over() {
                true => ControlFlow::Break(()),
                false => ControlFlow::Continue(()),
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metrics::Metrics;
    use crate::used_up::Scarce;

    #[tokio::test(flavor = "multi_thread")]
    async fn work_takes_turns_and_rests_while_others_ask() {
        let requests = Budget::of(Scarce::Requests, 100, 50, &Metrics::new().unwrap());
        let throttle = Arc::new(Throttle::new(2, requests.clone()));
        let turns = throttle.turns.available_permits();
        let start = |throttle: &Arc<Throttle>| {
            let (throttle, runtime) = (Arc::clone(throttle), Handle::current());
            tokio::task::spawn_blocking(move || {
                let mut work = ThrottledWork::new(&throttle, runtime);
                let started = Instant::now();
                let mut most = 0;
                for _ in 0..20 {
                    work.throttle();
                    most = most.max(turns - throttle.turns.available_permits());
                    let until = Instant::now() + TURN;
                    while Instant::now() < until {
                        std::hint::spin_loop();
                    }
                }
                work.pause();
                (started.elapsed(), most)
            })
        };
        // Each has its slot, as requests have.
        let _slots = [(); 4].map(|()| requests.try_take(None, 1).unwrap());
        let all = [(); 4].map(|()| start(&throttle));
        for one in all {
            assert!(one.await.unwrap().1 <= turns);
        }
        assert_eq!(throttle.turns.available_permits(), turns);
        assert_eq!(throttle.throttled.load(Ordering::Relaxed), 0);
        // Twenty turns, and as long a rest after each but the last.
        let (took, _) = start(&throttle).await.unwrap();
        assert!(took >= 39 * TURN, "{took:?}");
    }
}
