//! How filters have developed within the last day, as the survey found them.
//!
//! In memory alone: after a restart it begins anew, and each pod of a cluster has
//! its own. The memory is bounded whatever the number of filters: the more there
//! are, the longer are the pauses between two rounds, and beyond an hour the oldest
//! rounds go.

use crate::chain::meta::Chain;
use crate::page::FilterId;
use parking_lot::Mutex;
use std::collections::VecDeque;

/// How long a sample is kept.
const KEPT_MS: u64 = 24 * 3600 * 1000;

/// Shortest and longest pause between two rounds.
const SHORTEST_PAUSE_MS: u64 = 5 * 60 * 1000;
const LONGEST_PAUSE_MS: u64 = 3600 * 1000;

/// Most samples of all filters together: 8 MiB, and as much while a round is made.
pub(crate) const MAX_SAMPLES: usize = (8 << 20) / size_of::<Noted>();

/// A filter as it was at some moment.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Sample {
    /// When, in milliseconds since 1970.
    pub at_ms: u64,
    /// Items that were in it.
    pub items: u64,
    /// Bytes that its slots took when every page was written.
    pub slot_bytes: u64,
    /// Expected false-positive rate.
    pub expected_false_positive_rate: f64,
}

/// A filter in a round.
#[derive(Clone, Copy)]
pub(crate) struct Noted {
    filter: FilterId,
    items: u64,
    slot_bytes: u64,
    rate: f64,
}

impl Noted {
    pub(crate) fn of(filter: FilterId, chain: &Chain) -> Noted {
        Noted {
            filter,
            items: chain.items(),
            slot_bytes: chain.slot_bytes(),
            rate: chain.false_positive_rate(),
        }
    }
}

/// All filters at one moment, by their numbers.
struct Round {
    at_ms: u64,
    filters: Box<[Noted]>,
}

/// The rounds of a day, the oldest first.
#[derive(Default)]
pub(crate) struct History(Mutex<VecDeque<Round>>);

impl History {
    /// Whether it is time for another round.
    pub(crate) fn is_due(&self, now_ms: u64) -> bool {
        let rounds = self.0.lock();
        rounds
            .back()
            .is_none_or(|last| now_ms >= last.at_ms + pause_ms(last.filters.len()))
    }

    /// Keeps a round; the oldest go while there are too many samples.
    pub(crate) fn keep(&self, at_ms: u64, mut filters: Vec<Noted>) {
        // Without filters, the first one is not kept waiting.
        if filters.is_empty() {
            return;
        }
        filters.sort_unstable_by_key(|it| it.filter);
        let filters = filters.into_boxed_slice();
        let mut rounds = self.0.lock();
        rounds.push_back(Round { at_ms, filters });
        let mut samples: usize = rounds.iter().map(|it| it.filters.len()).sum();
        while let Some(oldest) = rounds.front()
            && (samples > MAX_SAMPLES || oldest.at_ms + KEPT_MS < at_ms)
        {
            samples -= oldest.filters.len();
            rounds.pop_front();
        }
    }

    /// The samples of a filter, the oldest first.
    pub(crate) fn of(&self, filter: FilterId) -> Vec<Sample> {
        let rounds = self.0.lock();
        let in_round = |round: &Round| {
            let at = round.filters.binary_search_by_key(&filter, |it| it.filter);
            let found = round.filters.get(at.ok()?)?;
            Some(Sample {
                at_ms: round.at_ms,
                items: found.items,
                slot_bytes: found.slot_bytes,
                expected_false_positive_rate: found.rate,
            })
        };
        rounds.iter().filter_map(in_round).collect()
    }
}

/// So long that a day of rounds with so many filters is kept, within bounds.
fn pause_ms(filters: usize) -> u64 {
    let fitting = KEPT_MS.saturating_mul(filters as u64) / MAX_SAMPLES as u64;
    fitting.clamp(SHORTEST_PAUSE_MS, LONGEST_PAUSE_MS)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn noted(filter: u64, items: u64) -> Noted {
        Noted {
            filter: FilterId(filter),
            items,
            slot_bytes: 100,
            rate: 0.5,
        }
    }

    fn items(history: &History, filter: u64) -> Vec<u64> {
        let samples = history.of(FilterId(filter));
        samples.iter().map(|it| it.items).collect()
    }

    #[test]
    fn rounds_of_a_day_are_kept_at_pauses_that_let_a_day_fit() {
        let history = History::default();
        let mut rounds = 0;
        for now_ms in (0..2 * KEPT_MS).step_by(1000) {
            if history.is_due(now_ms) {
                history.keep(now_ms, vec![noted(9, 1), noted(3, rounds)]);
                rounds += 1;
            }
        }
        assert_eq!(rounds, 2 * 288);
        let kept = items(&history, 3);
        assert_eq!((kept.len(), kept[0]), (289, rounds - 289));
        let at = history.of(FilterId(9)).last().map(|it| it.at_ms);
        assert_eq!(at, Some(2 * KEPT_MS - SHORTEST_PAUSE_MS));
        assert!(items(&history, 4).is_empty());
    }

    #[test]
    fn the_samples_of_all_filters_together_are_bounded() {
        assert_eq!(size_of::<Noted>(), 32);
        let history = History::default();
        for filters in [1, 10_000, MAX_SAMPLES / 2, MAX_SAMPLES, 5] {
            let at_ms = filters as u64;
            history.keep(at_ms, (0..filters as u64).map(|it| noted(it, it)).collect());
            let kept = history
                .0
                .lock()
                .iter()
                .map(|it| it.filters.len())
                .sum::<usize>();
            assert!((1..=MAX_SAMPLES).contains(&kept), "{kept}");
            assert_eq!(items(&history, 0).last(), Some(&0));
        }
        assert_eq!(pause_ms(1), SHORTEST_PAUSE_MS);
        assert_eq!(pause_ms(10_000), 3_295_898);
        assert_eq!(pause_ms(usize::MAX), LONGEST_PAUSE_MS);
    }

    #[test]
    fn while_there_is_no_filter_the_first_is_waited_for() {
        let history = History::default();
        history.keep(0, Vec::new());
        assert!(history.is_due(1));
        history.keep(1, vec![noted(1, 1)]);
        assert!(!history.is_due(2));
    }
}
