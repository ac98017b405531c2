//! How much processor time one poll of a connection's task takes, by what it
//! worked on: as long as it takes nobody else is served by its thread.
//!
//! To read the clock of a thread's processor time is a call to the system. So it is
//! read a few thousand times a second at most, and what a poll took is known to
//! within [`READ_EVERY`].

use axum::extract::MatchedPath;
use prometheus::HistogramVec;
use std::cell::{Cell, RefCell};
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

/// Polls that take less are not counted: nobody waits for them.
const SHORTEST: Duration = Duration::from_millis(1);

/// How old the thread's processor time may be that a poll begins with.
const READ_EVERY: Duration = Duration::from_micros(250);

/// What a task works on.
#[derive(Clone)]
pub(crate) enum Work {
    /// Nothing that is known yet.
    Unknown,
    /// A request for this route.
    Route(MatchedPath),
    /// A command of the Redis protocol.
    Command(&'static str),
}

impl Work {
    fn name(&self) -> &str {
        match self {
            Work::Unknown => "unmatched",
            Work::Route(path) => path.as_str(),
            Work::Command(name) => name,
        }
    }
}

thread_local! {
    /// What the poll under way works on, or worked on last.
    static WORK: RefCell<Work> = const { RefCell::new(Work::Unknown) };
    /// The processor time of this thread, and when it was read.
    static READ: Cell<Option<(Instant, Duration)>> = const { Cell::new(None) };
}

/// Says what the poll under way works on from now on.
pub(crate) fn note_work(work: Work) {
    WORK.set(work);
}

/// A future whose polls are timed.
pub(crate) struct Timed<F> {
    future: Pin<Box<F>>,
    seconds: HistogramVec,
    /// What it worked on last.
    work: Work,
}

impl<F> Timed<F> {
    pub(crate) fn new(future: F, seconds: &HistogramVec, work: Work) -> Timed<F> {
        Timed {
            future: Box::pin(future),
            seconds: seconds.clone(),
            work,
        }
    }
}

impl<F: Future> Future for Timed<F> {
    type Output = F::Output;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<F::Output> {
        note_work(std::mem::replace(&mut self.work, Work::Unknown));
        let (begun, before) = begin();
        let polled = self.future.as_mut().poll(context);
        self.work = WORK.replace(Work::Unknown);
        if begun.elapsed() >= SHORTEST {
            let took = read(Instant::now()).saturating_sub(before);
            if took >= SHORTEST {
                let seconds = self.seconds.with_label_values(&[self.work.name()]);
                seconds.observe(took.as_secs_f64());
            }
        }
        polled
    }
}

/// The time, and how much processor time the thread had by then.
fn begin() -> (Instant, Duration) {
    let now = Instant::now();
    match READ.get() {
        Some((at, processor)) if now.duration_since(at) < READ_EVERY => (now, processor),
        _ => (now, read(now)),
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
    use prometheus::HistogramOpts;
    use std::future::poll_fn;
    use std::thread::sleep;

    fn family() -> HistogramVec {
        HistogramVec::new(HistogramOpts::new("a", "b"), &["c"]).unwrap()
    }

    fn work_for(time: Duration) {
        let end = read(Instant::now()) + time;
        while read(Instant::now()) < end {}
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
                    note_work(Work::Command("long"));
                    work_for(Duration::from_millis(30));
                }
                // What nobody names is what was worked on before.
                2 => work_for(Duration::from_millis(5)),
                // Waiting is no work, and short polls are not counted.
                3 => sleep(Duration::from_millis(30)),
                4..100 => note_work(Work::Command("short")),
                _ => return Poll::Ready(()),
            }
            Poll::Pending
        });
        Timed::new(future, &seconds, Work::Unknown).await;
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
