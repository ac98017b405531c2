//! When kept answers end, to the second: what a refusal says of them.

use crate::store::{RetryEnds, SideRecord};
use parking_lot::Mutex;
use std::collections::btree_map::Entry;
use std::sync::Arc;

/// How long an answer has to be kept yet to count as one that lasts.
const LASTING_SECONDS: u64 = 600;

/// How late an answer that has ended may be removed, in milliseconds.
const REMOVED_WITHIN_MS: u64 = 500;

/// Bytes of kept answers by their API key and the second in which they end: of each key
/// as many numbers as an answer is kept for seconds at most.
#[derive(Debug, Default)]
pub(super) struct Ends(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    bytes: RetryEnds,
    /// What was last counted, and in which second.
    lasting: Option<(u64, u64)>,
}

impl Ends {
    /// Those that are there at the start.
    pub(super) fn new(bytes: RetryEnds) -> Ends {
        let lasting = None;
        Ends(Mutex::new(State { bytes, lasting }))
    }

    /// Notes an answer that is kept from now on.
    pub(super) fn add(&self, record: &SideRecord) {
        let mut state = self.0.lock();
        let of_key = state.bytes.entry(record.owner.clone()).or_default();
        *of_key.entry(record.end_second()).or_default() += record.bytes();
    }

    /// Notes one that is no more.
    pub(super) fn remove(&self, record: &SideRecord) {
        let mut state = self.0.lock();
        let Some(of_key) = state.bytes.get_mut(&record.owner) else {
            return;
        };
        if let Entry::Occupied(mut there) = of_key.entry(record.end_second()) {
            *there.get_mut() = there.get().saturating_sub(record.bytes());
            if *there.get() == 0 {
                there.remove();
            }
        }
        if of_key.is_empty() {
            state.bytes.remove(&record.owner);
        }
    }

    /// What fills the room at a moment: bytes of answers that are kept for ten more minutes
    /// and longer, and seconds after which the first answer has ended and is removed.
    pub(super) fn filled(&self, now_ms: u64) -> (u64, u64) {
        let mut state = self.0.lock();
        let firsts = state.bytes.values().filter_map(|it| it.first_key_value());
        let first = firsts.map(|(&first, _)| first).min();
        let now = now_ms.div_ceil(1000);
        // Many may be refused in a second.
        let lasting = match state.lasting {
            Some((at, lasting)) if at == now => lasting,
            _ => {
                let of_keys = state.bytes.values();
                let lasting = of_keys.flat_map(|it| it.range(now + LASTING_SECONDS..));
                lasting.map(|(_, bytes)| bytes).sum()
            }
        };
        state.lasting = Some((now, lasting));
        (lasting, ends_in(first, now_ms))
    }

    /// Seconds after which the first answer of an API key has ended and is removed.
    pub(super) fn first_ends_in(&self, owner: Option<&Arc<str>>, now_ms: u64) -> u64 {
        let state = self.0.lock();
        let of_key = state.bytes.get(&owner.cloned());
        let first = of_key.and_then(|it| it.first_key_value());
        ends_in(first.map(|(&first, _)| first), now_ms)
    }
}

/// Seconds until what ends by a second is removed; without one it is in a moment.
fn ends_in(second: Option<u64>, now_ms: u64) -> u64 {
    let removed_at_ms = second.unwrap_or(0) * 1000 + REMOVED_WITHIN_MS;
    removed_at_ms.saturating_sub(now_ms).div_ceil(1000).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(ends_at_ms: u64) -> SideRecord {
        SideRecord {
            ends_at_ms,
            owner: None,
            payload: Vec::new(),
        }
    }

    #[test]
    fn the_first_end_and_what_lasts_are_those_of_the_answers_that_are_kept() {
        let bytes = record(0).bytes();
        let ends = Ends::new(RetryEnds::from([(None, [(1_000, bytes)].into())]));
        let filled = |now_ms| {
            let (lasting, first_ends_in) = ends.filled(now_ms);
            (first_ends_in, lasting / bytes)
        };
        assert_eq!(filled(400_000), (601, 1));
        assert_eq!(filled(400_001), (601, 0));
        ends.add(&record(401_000));
        ends.add(&record(1_001_000));
        // Another key's are its own.
        let owner: Arc<str> = "shop".into();
        let of_shop = SideRecord {
            owner: Some(Arc::clone(&owner)),
            ..record(700_000)
        };
        ends.add(&of_shop);
        assert_eq!(ends.first_ends_in(Some(&owner), 400_000), 301);
        assert_eq!(ends.first_ends_in(None, 400_000), 2);
        ends.remove(&of_shop);
        assert_eq!(ends.first_ends_in(Some(&owner), 400_000), 1);
        // Within the second nothing is counted again.
        assert_eq!(filled(400_500), (1, 0));
        assert_eq!(filled(399_000), (3, 2));
        ends.remove(&record(401_000));
        assert_eq!(filled(990_500), (10, 0));
        // What has ended, and is not removed yet, is in a moment.
        assert_eq!(filled(2_000_000), (1, 0));
        ends.remove(&record(999_001));
        ends.remove(&record(1_001_000));
        assert!(ends.0.lock().bytes.is_empty());
    }
}
