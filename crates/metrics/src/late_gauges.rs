//! Gauges whose values are asked for when they are shown, of what may not
//! answer: reading them can wait for a disk that hangs, and the metrics that
//! say so must not.

use parking_lot::{Condvar, Mutex};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

/// How long fresh values are waited for.
const PATIENCE: Duration = Duration::from_secs(1);

/// A gauge as name without prefix, help, value.
pub(super) type Reading = (&'static str, &'static str, f64);

/// Reads gauges; may block.
pub type ReadGauges = Box<dyn Fn() -> Vec<Reading> + Send + Sync>;

/// See the module.
pub(super) struct LateGauges(Arc<Shared>);

struct Shared {
    read: ReadGauges,
    state: Mutex<State>,
    done: Condvar,
}

struct State {
    values: Vec<Reading>,
    /// When the reading began that is under way.
    reading_since: Option<Instant>,
}

impl LateGauges {
    /// Gauges that were read once.
    pub(super) fn new(read: ReadGauges, values: Vec<Reading>) -> LateGauges {
        LateGauges(Arc::new(Shared {
            read,
            state: Mutex::new(State {
                values,
                reading_since: None,
            }),
            done: Condvar::new(),
        }))
    }

    /// Their values now, or the last ones that are known if reading them takes
    /// longer than a moment.
    pub(super) fn latest(&self) -> Vec<Reading> {
        let mut state = self.0.state.lock();
        let since = match state.reading_since {
            Some(since) => since,
            None => {
                let since = Instant::now();
                let shared = Arc::clone(&self.0);
                let started = thread::Builder::new()
                    .name("gauges".to_owned())
                    .spawn(move || shared.refresh());
                if started.is_err() {
                    return state.values.clone();
                }
                state.reading_since = Some(since);
                since
            }
        };
        let goes_on = |it: &mut State| it.reading_since == Some(since);
        let until = since + PATIENCE;
        self.0.done.wait_while_until(&mut state, goes_on, until);
        state.values.clone()
    }
}

impl Shared {
    fn refresh(&self) {
        let values = (self.read)();
        let mut state = self.state.lock();
        state.values = values;
        state.reading_since = None;
        drop(state);
        self.done.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc::channel;

    #[test]
    fn what_does_not_answer_is_shown_as_it_was_and_holds_up_one_thread() {
        let (answer, answers) = channel::<f64>();
        let answers = Mutex::new(answers);
        let read = move || vec![("gauge", "Help.", answers.lock().recv().unwrap())];
        let gauges = LateGauges::new(Box::new(read), vec![("gauge", "Help.", 0.0)]);
        answer.send(1.0).unwrap();
        assert_eq!(gauges.latest(), [("gauge", "Help.", 1.0)]);
        let started = Instant::now();
        for _ in 0..20 {
            assert_eq!(gauges.latest(), [("gauge", "Help.", 1.0)]);
        }
        // It is waited for once, not by each.
        assert!(started.elapsed() < 5 * PATIENCE, "{:?}", started.elapsed());
        answer.send(2.0).unwrap();
        answer.send(3.0).unwrap();
        while gauges.latest() != [("gauge", "Help.", 3.0)] {
            assert!(started.elapsed() < 60 * PATIENCE);
            let _ = answer.send(3.0);
        }
    }
}
