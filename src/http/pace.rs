//! Work of seconds beside requests of microseconds: it is done in turns, a
//! little at a time, and while others ask each turn ends with as long a rest.
//!
//! Not by threads of lower priority: one that is put off while it holds a lock
//! of the allocator or of the storage engine puts off whoever waits for that.

use super::App;
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
pub(super) struct Turns {
    free: Arc<Semaphore>,
    /// Requests that are worked on by nobody but who waits for a turn.
    waiting: AtomicUsize,
}

impl Turns {
    /// For a machine of so many cores.
    pub(super) fn new(cores: usize) -> Turns {
        Turns {
            free: Arc::new(Semaphore::new((cores / CORES_PER_TURN).max(1))),
            waiting: AtomicUsize::new(0),
        }
    }
}

/// One piece of work that takes turns with others. Not for async threads.
pub(super) struct Pace {
    app: Arc<App>,
    runtime: Handle,
    turn: Option<OwnedSemaphorePermit>,
    since: Instant,
    /// Whether its request is still worked on, and does not tell of others.
    counts_itself: bool,
}

impl Pace {
    /// For work on a request that is worked on until [`answered`](Self::answered).
    pub(super) fn new(app: Arc<App>, runtime: Handle) -> Pace {
        app.turns.waiting.fetch_add(1, Ordering::Relaxed);
        Pace {
            app,
            runtime,
            turn: None,
            since: Instant::now(),
            counts_itself: true,
        }
    }

    /// Has others take their turns, if this one lasted long enough, after a rest
    /// while others ask. Blocks.
    pub(super) fn breathe(&mut self) {
        let worked = self.since.elapsed();
        if self.turn.is_some() && worked < TURN {
            return;
        }
        if self.turn.is_some() && self.others_ask() {
            // Nobody else works in its place meanwhile.
            std::thread::sleep(worked.min(LONGEST_REST));
        }
        self.turn = None;
        let free = Arc::clone(&self.app.turns.free);
        // Nobody closes it.
        self.turn = self.runtime.block_on(free.acquire_owned()).ok();
        self.since = Instant::now();
    }

    /// Lets others work while this one waits for its client.
    pub(super) fn pause(&mut self) {
        self.turn = None;
    }

    /// The request is answered: what is worked on from now on are others.
    pub(super) fn answered(&mut self) {
        if std::mem::take(&mut self.counts_itself) {
            self.app.turns.waiting.fetch_sub(1, Ordering::Relaxed);
        }
    }

    fn others_ask(&self) -> bool {
        let places = self.app.limits.max_in_flight;
        let taken = places.saturating_sub(self.app.working.available_permits());
        taken > self.app.turns.waiting.load(Ordering::Relaxed)
    }
}

impl Drop for Pace {
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
        let turns = app.turns.free.available_permits();
        let work = |app: &Arc<App>| {
            let (app, runtime) = (Arc::clone(app), Handle::current());
            tokio::task::spawn_blocking(move || {
                let mut pace = Pace::new(Arc::clone(&app), runtime);
                let started = Instant::now();
                let mut most = 0;
                for _ in 0..20 {
                    pace.breathe();
                    most = most.max(turns - app.turns.free.available_permits());
                    let until = Instant::now() + TURN;
                    while Instant::now() < until {
                        std::hint::spin_loop();
                    }
                }
                pace.pause();
                (started.elapsed(), most)
            })
        };
        // Each has its place, as requests have.
        let _places = Arc::clone(&app.working).try_acquire_many_owned(4).unwrap();
        let all = [work(&app), work(&app), work(&app), work(&app)];
        for one in all {
            assert!(one.await.unwrap().1 <= turns);
        }
        assert_eq!(app.turns.free.available_permits(), turns);
        assert_eq!(app.turns.waiting.load(Ordering::Relaxed), 0);
        // Twenty turns, and as long a rest after each but the last.
        let (took, _) = work(&app).await.unwrap();
        assert!(took >= 39 * TURN, "{took:?}");
    }
}
