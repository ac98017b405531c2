//! What happened to a lane's commit log, until the lane's thread hears of it.

use crate::Event;
use crate::engine::LaneHandle;
use parking_lot::{Condvar, Mutex};
use std::collections::VecDeque;
use std::sync::OnceLock;
use std::time::Duration;

/// Whether a lane that is told of records was closed is looked at after so long.
const LOOK_AGAIN: Duration = Duration::from_millis(100);

/// See the module.
#[derive(Default)]
pub(crate) struct Inbox {
    events: Mutex<VecDeque<Event>>,
    /// Wakes those who wait to tell something.
    heard: Condvar,
    lane: OnceLock<LaneHandle>,
}

impl Inbox {
    /// Says whose it is. What was told before is heard from now on.
    pub(super) fn open(&self, lane: LaneHandle) {
        self.lane.get_or_init(|| lane).wake();
    }

    /// Tells the lane what happened. A recheck that waits already is not told twice.
    pub(crate) fn tell(&self, event: Event) {
        let mut events = self.events.lock();
        let is_recheck = |it: &Event| matches!(it, Event::Recheck);
        if is_recheck(&event) && events.iter().any(is_recheck) {
            return;
        }
        events.push_back(event);
        drop(events);
        self.wake();
    }

    /// Hands records to the lane, and waits until it takes them: they come many at once,
    /// and are in memory.
    pub(super) fn tell_of_records(&self, records: Event) {
        self.tell(records);
        let mut events = self.events.lock();
        while !events.is_empty() && !self.is_closed() {
            self.heard.wait_for(&mut events, LOOK_AGAIN);
        }
    }

    /// What happened next. The lane is woken again for what is behind it.
    pub(super) fn next(&self) -> Option<Event> {
        let mut events = self.events.lock();
        let event = events.pop_front();
        let is_all = events.is_empty();
        drop(events);
        self.heard.notify_one();
        if !is_all {
            self.wake();
        }
        event
    }

    /// Whether the lane takes no further command.
    pub(super) fn is_closed(&self) -> bool {
        self.lane.get().is_some_and(LaneHandle::is_closed)
    }

    fn wake(&self) {
        if let Some(lane) = self.lane.get() {
            lane.wake();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_recheck_that_waits_already_is_not_told_twice() {
        let inbox = Inbox::default();
        for _ in 0..3 {
            inbox.tell(Event::Recheck);
            inbox.tell(Event::Level(1));
        }
        let told: Vec<Event> = std::iter::from_fn(|| inbox.next()).collect();
        let rechecks = told.iter().filter(|it| matches!(it, Event::Recheck));
        assert_eq!((told.len(), rechecks.count()), (4, 1));
        // Once it is taken, another one is news.
        inbox.tell(Event::Recheck);
        assert!(matches!(inbox.next(), Some(Event::Recheck)));
    }
}
