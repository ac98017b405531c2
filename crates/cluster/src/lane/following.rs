//! Reads the commit log beside a lane: what other pods have committed.

use super::inbox::Inbox;
use crate::engine::LanePlace;
use crate::{CommitLog, Event, LogError};
use std::time::{Duration, Instant};

/// How long the end of the log is waited for at once.
const READ_WAIT: Duration = Duration::from_millis(100);

/// How long it is before a log that can't be read is read again.
const READ_AGAIN: Duration = Duration::from_millis(200);

/// The end of the log is asked for again after so long: what a lane has caught up with
/// is not older.
const END_IS_OLD: Duration = Duration::from_secs(1);

/// Whether the lane has applied what it was handed is looked at after so long.
const APPLIED_SOON: Duration = Duration::from_millis(1);

/// The log is looked at after so long, if it does not say what another pod has.
const LOOK_AFTER: Duration = Duration::from_secs(3);

/// Of readings in vain one is logged in so long.
const LOG_EVERY: Duration = Duration::from_secs(60);

/// Reads what other pods have committed, and hands it to the lane, until the lane
/// takes no more.
pub(super) fn follow(log: &dyn CommitLog, lane: u32, inbox: &Inbox, place: &LanePlace) {
    let (mut read_to, mut before_last) = (0, 0);
    // The newest record of the log, and since when that is known.
    let mut end: Option<(u64, Instant)> = None;
    let mut looked = Instant::now();
    let mut unread = Unread::default();
    while !inbox.is_closed() {
        let state = place.state();
        // One that leads reads where it is refused. One with a record in flight reads
        // by itself.
        if state.leads() || state.is_in_flight || state.has_stopped() {
            hear_of_more(log, lane, inbox, place);
            std::thread::sleep(READ_AGAIN);
            continue;
        }
        if !state.has_caught_up {
            if end.is_none_or(|(_, since)| since.elapsed() > END_IS_OLD) {
                let now = Instant::now();
                end = log.newest(lane).ok().map(|newest| (newest, now));
            }
            let is_all = end.is_some_and(|(newest, _)| newest <= state.position.sequence);
            if is_all && state.awaits.is_none() {
                place.set_caught_up();
            }
        }
        // What was handed over and is not applied, for long if the disk fails, is in memory.
        if state.position.sequence < before_last {
            std::thread::sleep(APPLIED_SOON);
            continue;
        }
        read_to = state.position.sequence.max(read_to);
        match log.read(lane, read_to, READ_WAIT) {
            Ok(records) => {
                unread.ends(lane);
                let Some(last) = records.last() else {
                    if state.awaits.is_some() && looked.elapsed() > LOOK_AFTER {
                        looked = Instant::now();
                        inbox.tell(Event::Recheck);
                    }
                    continue;
                };
                (before_last, read_to) = (read_to, last.sequence);
                let is_all = false;
                inbox.tell_of_records(Event::Read { records, is_all });
            }
            Err(error) => {
                unread.goes_on(lane, &error);
                std::thread::sleep(READ_AGAIN);
            }
        }
    }
}

/// Says that a log can't be read, and that it can again.
#[derive(Default)]
struct Unread {
    logged: Option<Instant>,
    /// Whether it was said and has not ended.
    is_known: bool,
}

impl Unread {
    fn goes_on(&mut self, lane: u32, error: &LogError) {
        if self.logged.is_none_or(|it| it.elapsed() >= LOG_EVERY) {
            self.logged = Some(Instant::now());
            self.is_known = true;
            tracing::warn!(%error, lane, "the commit log can't be read; it is tried again");
        }
    }

    fn ends(&mut self, lane: u32) {
        if std::mem::take(&mut self.is_known) {
            tracing::info!(lane, "the commit log is read again");
        }
    }
}

/// Has a lane that leads read the log, if somebody has named a record that it has not
/// applied and the log has more. Numbers that callers make up cost the lane nothing, and
/// the log one question each time that this is called, however many they are.
fn hear_of_more(log: &dyn CommitLog, lane: u32, inbox: &Inbox, place: &LanePlace) {
    let named = place.take_named();
    let is_news = |sequence: u64| {
        let state = place.state();
        state.leads() && state.position.sequence < sequence
    };
    if !is_news(named) {
        return;
    }
    match log.newest(lane) {
        Ok(newest) if is_news(newest) => inbox.tell(Event::Recheck),
        Ok(_) => {}
        Err(_) => place.name(named),
    }
}
