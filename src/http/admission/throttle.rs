//! Work of seconds beside requests of microseconds: it is done in turns, a
//! little at a time, and while others ask each turn ends with as long a rest.
//!
//! Not by threads of lower priority: one that is put off while it holds a lock
//! of the allocator or of the storage engine puts off whoever waits for that.

use crate::http::App;
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
pub(crate) struct Throttle {
    free: Arc<Semaphore>,
    /// Requests that are worked on by nobody but who waits for a turn.
    waiting: AtomicUsize,
}

impl Throttle {
    /// For a machine of so many cores.
    pub(crate) fn new(cores: usize) -> Throttle {
        Throttle {
            free: Arc::new(Semaphore::new((cores / CORES_PER_TURN).max(1))),
            waiting: AtomicUsize::new(0),
        }
    }
}

/// One piece of work that takes turns with others. Not for async threads.
pub(crate) struct ThrottledWork {
    app: Arc<App>,
    runtime: Handle,
    turn: Option<OwnedSemaphorePermit>,
    since: Instant,
    /// Whether its request is still worked on, and does not tell of others.
    counts_itself: bool,
}

impl ThrottledWork {
    /// For work on a request that is worked on until [`answered`](Self::answered).
    pub(crate) fn new(app: Arc<App>, runtime: Handle) -> ThrottledWork {
        app.throttle.waiting.fetch_add(1, Ordering::Relaxed);
        ThrottledWork {
            app,
            runtime,
            turn: None,
            since: Instant::now(),
            counts_itself: true,
        }
    }

    /// Has others take their turns, if this one lasted long enough, after a rest
    /// while others ask. Blocks.
    pub(crate) fn throttle(&mut self) {
        let worked = self.since.elapsed();
        if self.turn.is_some() && worked < TURN {
            return;
        }
        if self.turn.is_some() && self.others_ask() {
            // Nobody else works in its place meanwhile.
            std::thread::sleep(worked.min(LONGEST_REST));
        }
        self.turn = None;
        let free = Arc::clone(&self.app.throttle.free);
        // Nobody closes it.
        self.turn = self.runtime.block_on(free.acquire_owned()).ok();
        self.since = Instant::now();
    }

    /// Lets others work while this one waits for its client.
    pub(crate) fn pause(&mut self) {
        self.turn = None;
    }

    /// The request is answered: what is worked on from now on are others.
    pub(crate) fn answered(&mut self) {
        if std::mem::take(&mut self.counts_itself) {
            self.app.throttle.waiting.fetch_sub(1, Ordering::Relaxed);
        }
    }

    fn others_ask(&self) -> bool {
        let places = self.app.limits.max_in_flight;
        let taken = places.saturating_sub(self.app.working.available_permits());
        taken > self.app.throttle.waiting.load(Ordering::Relaxed)
    }
}

impl Drop for ThrottledWork {
    fn drop(&mut self) {
        self.answered();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::http::{HostPolicy, Limits};
    use crate::metrics::Metrics;

    #[tokio::test(flavor = "multi_thread")]
    async fn work_takes_turns_and_rests_while_others_ask() {
        let metrics = Arc::new(Metrics::new().unwrap());
        let app = App::new(metrics, Limits::default(), HostPolicy::LocalOnly);
        let turns = app.throttle.free.available_permits();
        let start = |app: &Arc<App>| {
            let (app, runtime) = (Arc::clone(app), Handle::current());
            tokio::task::spawn_blocking(move || {
                let mut work = ThrottledWork::new(Arc::clone(&app), runtime);
                let started = Instant::now();
                let mut most = 0;
                for _ in 0..20 {
                    work.throttle();
                    most = most.max(turns - app.throttle.free.available_permits());
                    let until = Instant::now() + TURN;
                    while Instant::now() < until {
                        std::hint::spin_loop();
                    }
                }
                work.pause();
                (started.elapsed(), most)
            })
        };
        // Each has its place, as requests have.
        let _places = Arc::clone(&app.working).try_acquire_many_owned(4).unwrap();
        let all = [start(&app), start(&app), start(&app), start(&app)];
        for one in all {
            assert!(one.await.unwrap().1 <= turns);
        }
        assert_eq!(app.throttle.free.available_permits(), turns);
        assert_eq!(app.throttle.waiting.load(Ordering::Relaxed), 0);
        // Twenty turns, and as long a rest after each but the last.
        let (took, _) = start(&app).await.unwrap();
        assert!(took >= 39 * TURN, "{took:?}");
    }
}
