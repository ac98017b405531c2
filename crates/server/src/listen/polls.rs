//! Polls of connections' tasks on the async threads: as long as one takes, nobody else
//! is served by its thread.
//!
//! A task that used a thread for long needs a [permit](super::super::admission::threads)
//! for its next poll. How much processor time a poll takes is counted, by what it worked
//! on.
//!
//! To read the clock of a thread's processor time is a call to the system. So it is
//! read a few thousand times a second at most, and what a poll took is known to
//! within `READ_EVERY`.

use crate::admission::threads::{Account, Threads, User};
use axum::extract::MatchedPath;
use prometheus::HistogramVec;
use std::cell::{Cell, RefCell};
use std::mem::swap;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};
use tokio::task::yield_now;

/// Polls that take less are not counted: nobody waits for them.
const SHORTEST: Duration = Duration::from_millis(1);

/// How old the thread's processor time may be that a poll begins with.
const READ_EVERY: Duration = Duration::from_micros(250);

/// How long a poll goes on with what it need not wait for.
const LONG: Duration = Duration::from_micros(500);

/// Bytes that a poll may copy to a larger place. To touch 16 MiB for the first time takes
/// 10 ms and more.
pub const COPIED_AT_ONCE: usize = 1 << 20;

/// What a task works on.
#[derive(Clone)]
pub enum Work {
    /// Nothing that is known yet.
    Unknown,
    /// A request for this route.
    Route(MatchedPath),
    /// A command of the Redis protocol.
    Command(&'static str),
    /// What a pod does for its cluster.
    Pod,
}

impl Work {
    fn name(&self) -> &str {
        match self {
            Work::Unknown => "unmatched",
            Work::Route(path) => path.as_str(),
            Work::Command(name) => name,
            Work::Pod => "pod",
        }
    }
}

thread_local! {
    /// The task whose poll is under way.
    static POLLED: RefCell<Option<Task>> = const { RefCell::new(None) };
    /// The processor time of this thread, and when it was read.
    static READ: Cell<Option<(Instant, Duration)>> = const { Cell::new(None) };
}

/// Sets what the poll under way works on from now on.
pub fn set_work(work: Work) {
    polled(|task| task.work = work);
}

/// Says to whose account polls of this task go, the one under way included. If another
/// poll would have to wait for a permit, this one should [give way](give_way).
pub fn charge_to(account: &Account) {
    polled(|task| task.is_long |= !task.user.charge_to(account));
}

/// Says that polls behind the one under way go to the account of the task itself again.
pub fn charge_to_task() {
    polled(|task| task.user.charge_to_own());
}

/// The poll of a connection's task that is under way, by when it began.
pub fn poll_under_way() -> Option<Instant> {
    polled(|task| task.begun)
}

fn polled<T>(act: impl FnOnce(&mut Task) -> T) -> Option<T> {
    POLLED.with_borrow_mut(|task| task.as_mut().map(act))
}

/// Lets others have the thread if the poll under way has had it for long.
pub async fn give_way() {
    if is_long() {
        yield_now().await;
    }
}

/// The same for a part of a task that may be polled again and again in one poll of it:
/// ready as soon as there is a next poll.
pub fn poll_give_way(context: &Context<'_>) -> Poll<()> {
    if is_long() {
        context.waker().wake_by_ref();
        return Poll::Pending;
    }
    Poll::Ready(())
}

fn is_long() -> bool {
    polled(|task| task.is_long || task.begun.elapsed() >= LONG).unwrap_or(false)
}

/// A task whose polls are timed.
struct Task {
    user: User,
    /// What it worked on last.
    work: Work,
    /// When its poll began.
    begun: Instant,
    /// Whether that has gone on for long enough.
    is_long: bool,
}

/// Has a task be the one that is polled until this is dropped, also by a panic.
struct Polled<'a>(&'a mut Option<Task>);

impl<'a> Polled<'a> {
    fn begin(task: &'a mut Option<Task>) -> Polled<'a> {
        POLLED.with_borrow_mut(|polled| swap(polled, task));
        Polled(task)
    }
}

impl Drop for Polled<'_> {
    fn drop(&mut self) {
        POLLED.with_borrow_mut(|polled| swap(polled, self.0));
    }
}

/// A future whose polls are timed, and need permits where they take long.
pub struct Timed<F> {
    future: Pin<Box<F>>,
    seconds: HistogramVec,
    /// While it is polled, the one around it.
    task: Option<Task>,
}

impl<F> Timed<F> {
    /// Measures the polls of a future, which is work of this kind.
    pub fn new(future: F, seconds: &HistogramVec, work: Work, threads: &Arc<Threads>) -> Timed<F> {
        Timed {
            future: Box::pin(future),
            seconds: seconds.clone(),
            task: Some(Task {
                user: User::new(threads),
                work,
                begun: Instant::now(),
                is_long: false,
            }),
        }
    }
}

impl<F: Future> Future for Timed<F> {
    type Output = F::Output;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<F::Output> {
        let this = &mut *self;
        let begun = Instant::now();
        if let Some(task) = &mut this.task {
            ready!(task.user.begin(context));
            (task.begun, task.is_long) = (begun, false);
        }
        let before = before(begun);
        let under_way = Polled::begin(&mut this.task);
        let polled = this.future.as_mut().poll(context);
        drop(under_way);
        let mut took = begun.elapsed();
        if took >= READ_EVERY {
            // What others had of the processor meanwhile is not charged to this one.
            took = took.min(read(Instant::now()).saturating_sub(before));
        }
        if let Some(task) = &mut this.task {
            if took >= SHORTEST {
                let seconds = this.seconds.with_label_values(&[task.work.name()]);
                seconds.observe(took.as_secs_f64());
            }
            task.user.end(took);
        }
        polled
    }
}

/// How much processor time the thread had by now.
fn before(now: Instant) -> Duration {
    match READ.get() {
        Some((at, processor)) if now.duration_since(at) < READ_EVERY => processor,
        _ => read(now),
    }
}

fn read(now: Instant) -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    let processor = Duration::try_from(time).unwrap_or_default();
    READ.set(Some((now, processor)));
    processor
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures_util::FutureExt as _;
    use prometheus::HistogramOpts;
    use std::future::poll_fn;
    use std::panic::AssertUnwindSafe;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::thread::sleep;

    fn family() -> HistogramVec {
        HistogramVec::new(HistogramOpts::new("a", "b"), &["c"]).unwrap()
    }

    fn threads() -> Arc<Threads> {
        Threads::new(1)
    }

    /// Beside many that use all of a thread, one that needs little of it, again and
    /// again, has only few of their polls before it each time.
    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn who_asks_little_does_not_wait_for_all_who_ask_much() {
        let (seconds, threads, polls) = (family(), threads(), Arc::new(AtomicUsize::new(0)));
        let spawn = |future| {
            let timed = Timed::new(future, &seconds, Work::Unknown, &threads);
            tokio::spawn(timed)
        };
        for _ in 0..100 {
            let polls = Arc::clone(&polls);
            let asking_much = async move {
                loop {
                    work_for(LONG);
                    polls.fetch_add(1, Ordering::Relaxed);
                    yield_now().await;
                }
            };
            spawn(asking_much.boxed());
        }
        let mut before = Vec::new();
        let mut then = 0;
        let asking_little = poll_fn(move |context| {
            let now = polls.load(Ordering::Relaxed);
            before.push(now - std::mem::replace(&mut then, now));
            if before.len() < 40 {
                context.waker().wake_by_ref();
                return Poll::Pending;
            }
            // At first none of the others has used anything.
            before.sort_unstable();
            assert!(before[20] <= 8, "{before:?}");
            Poll::Ready(())
        });
        spawn(asking_little.boxed()).await.unwrap();
    }

    /// All that a connection asks goes to the account of the key that it showed.
    #[tokio::test]
    async fn polls_are_charged_to_the_key_that_was_shown() {
        let (key, mut polls) = (Account::default(), 0);
        let shown = Arc::clone(&key);
        let future = poll_fn(move |context| {
            if polls == 1 {
                charge_to(&shown);
            }
            work_for(LONG);
            polls += 1;
            context.waker().wake_by_ref();
            match polls < 3 {
                true => Poll::Pending,
                false => Poll::Ready(()),
            }
        });
        Timed::new(future, &family(), Work::Unknown, &threads()).await;
        let used = Duration::from_nanos(key.load(Ordering::Relaxed));
        assert!(used >= 2 * LONG && used < 4 * LONG, "{used:?}");
    }

    /// A key that is busy waits in a poll that has just learned of it.
    #[tokio::test]
    async fn a_poll_gives_way_where_its_key_needs_a_permit() {
        let (threads, key) = (Threads::new(0), Account::new((1 << 30).into()));
        let future = async {
            charge_to(&key);
            give_way().await;
        };
        let mut timed = Timed::new(future, &family(), Work::Unknown, &threads);
        for _ in 0..2 {
            assert!((&mut timed).now_or_never().is_none());
        }
    }

    #[tokio::test]
    async fn a_panic_ends_its_poll() {
        let future = async { panic!("as it should") };
        let timed: Timed<_> = Timed::new(future, &family(), Work::Unknown, &threads());
        assert!(AssertUnwindSafe(timed).catch_unwind().await.is_err());
        assert!(poll_under_way().is_none());
    }

    /// Where others have the processor, polls last long that use little.
    #[tokio::test]
    async fn what_others_had_of_the_processor_is_charged_to_nobody() {
        let (key, mut polls) = (Account::default(), 0);
        let shown = Arc::clone(&key);
        let future = poll_fn(move |context| {
            charge_to(&shown);
            sleep(Duration::from_millis(2));
            polls += 1;
            context.waker().wake_by_ref();
            match polls < 5 {
                true => Poll::Pending,
                false => Poll::Ready(()),
            }
        });
        Timed::new(future, &family(), Work::Unknown, &threads()).await;
        let used = Duration::from_nanos(key.load(Ordering::Relaxed));
        assert!(used < Duration::from_millis(5), "{used:?}");
    }

    fn work_for(time: Duration) {
        let end = read(Instant::now()) + time;
        while read(Instant::now()) < end {}
    }

    #[tokio::test]
    async fn what_need_not_wait_gives_way_to_others() {
        let seconds = family();
        let future = async {
            for _ in 0..100 {
                work_for(Duration::from_millis(1));
                give_way().await;
            }
        };
        Timed::new(future, &seconds, Work::Command("many"), &threads()).await;
        let polls = seconds.with_label_values(&["many"]);
        let usual = polls.get_sample_sum() / polls.get_sample_count() as f64;
        assert!(polls.get_sample_count() > 20 && usual < 0.01, "{usual}");
    }

    /// An HTTP connection asks a body for its next piece up to sixteen times a poll.
    #[tokio::test]
    async fn what_is_asked_again_in_the_same_poll_gives_way_all_the_same() {
        let (seconds, mut pieces) = (family(), 0);
        let future = poll_fn(|context| {
            for _ in 0..16 {
                if poll_give_way(context).is_ready() {
                    work_for(Duration::from_millis(1));
                    pieces += 1;
                }
            }
            match pieces < 100 {
                true => Poll::Pending,
                false => Poll::Ready(()),
            }
        });
        Timed::new(future, &seconds, Work::Unknown, &threads()).await;
        let polls = seconds.with_label_values(&["unmatched"]);
        assert_eq!(polls.get_sample_count(), 100);
    }

    #[tokio::test]
    async fn a_poll_counts_by_its_processor_time_and_what_it_worked_on() {
        let seconds = family();
        let mut turns = 0;
        let future = poll_fn(|context| {
            context.waker().wake_by_ref();
            turns += 1;
            match turns {
                1 => {
                    set_work(Work::Command("long"));
                    work_for(Duration::from_millis(30));
                }
                // What nobody names is what was worked on before.
                2 => work_for(Duration::from_millis(5)),
                // Waiting is no work, and short polls are not counted.
                3 => sleep(Duration::from_millis(30)),
                4..100 => set_work(Work::Command("short")),
                _ => return Poll::Ready(()),
            }
            Poll::Pending
        });
        Timed::new(future, &seconds, Work::Unknown, &threads()).await;
        let long = seconds.with_label_values(&["long"]);
        assert_eq!(long.get_sample_count(), 2);
        // Another machine's work is none of it.
        assert!(
            (0.035..0.2).contains(&long.get_sample_sum()),
            "{}",
            long.get_sample_sum()
        );
        assert_eq!(seconds.with_label_values(&["short"]).get_sample_count(), 0);
        assert_eq!(
            seconds.with_label_values(&["unmatched"]).get_sample_count(),
            0
        );
    }
}
