//! How far a log may be trimmed: a pure rule.
//!
//! # Rules
//!
//! 1. **Only what two pods have on their disks.** The log is what a pod reads after
//!    a power cut, and what pods have that the log has not is on as many disks as
//!    there are such pods.
//! 2. **Only what every pod has that is there**, or was a while ago: so one that
//!    starts again, or takes a snapshot, finds its records. One whose disk is empty
//!    needs none when it comes back, but another pod's state. A pod that stays
//!    behind can't keep the log for ever: beyond [`MOST_KEPT`] times of what is
//!    kept, the first rule alone holds.
//! 3. **A little at a time**, because brokers may not answer meanwhile.

use std::time::Duration;

/// Pods that lag are waited for until the log has so many times the bytes that it
/// keeps.
pub const MOST_KEPT: u64 = 4;

/// Records that are trimmed at once, at most.
const MOST_AT_ONCE: u64 = 50_000;

/// The log is trimmed when it has more than it keeps by one part in so many.
const SLACK_PARTS: u64 = 16;

/// A pod that was there so long ago still counts: it may only start again.
const AWAY: Duration = Duration::from_secs(15 * 60);

/// The same of one that had nothing on its disk, as one has that lost it.
const AWAY_WITH_NOTHING: Duration = Duration::from_secs(60);

/// How much a log has, of all lanes together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogExtent {
    /// Bytes of its records.
    pub bytes: u64,
    /// How many there are.
    pub records: u64,
    /// The number of the newest one.
    pub newest: u64,
}

/// Up to where to trim a log.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Bounds {
    /// Before which record each lane may be trimmed now; 0: not at all. Empty: the log
    /// is to stay as it is.
    pub lanes: Vec<u64>,
    /// The furthest of these, now and before.
    pub furthest: u64,
}

/// Whether a pod still counts that has said this of its disk, so long ago.
pub fn still_counts(held: &[u64], away: Duration) -> bool {
    away < match held.iter().all(|&it| it == 0) {
        true => AWAY_WITH_NOTHING,
        false => AWAY,
    }
}

/// Up to where to trim now, so that some `keep_bytes` are left. `pods` are those that
/// count: for each, the newest record of every lane that is on its disk. `before` is
/// how [far](Bounds::furthest) it was trimmed: what a lane that could not be trimmed has
/// left must not keep the others from going on.
pub fn bounds(
    extent: LogExtent,
    keep_bytes: u64,
    pods: &[&[u64]],
    lanes: usize,
    before: u64,
) -> Bounds {
    let LogExtent {
        bytes,
        records,
        newest,
    } = extent;
    if pods.len() < 2 || bytes <= keep_bytes.saturating_add(keep_bytes / SLACK_PARTS) {
        return Bounds {
            lanes: Vec::new(),
            furthest: before,
        };
    }
    // Records are about as large as each other, and all numbers since the last
    // trimming are there; what was left of each lane before that does not count.
    let kept = u128::from(records) * u128::from(keep_bytes) / u128::from(bytes);
    let kept = u64::try_from(kept).unwrap_or(records);
    let oldest = newest.saturating_sub(records).max(before);
    let aim = newest
        .saturating_sub(kept)
        .min(oldest.saturating_add(MOST_AT_ONCE));
    let waits = bytes <= keep_bytes.saturating_mul(MOST_KEPT);
    let bound = |lane: usize| {
        let held = pods.iter().map(|pod| pod.get(lane).copied().unwrap_or(0));
        let mut held: Vec<u64> = held.collect();
        held.sort_unstable();
        let at = match waits {
            true => 0,
            // All but one have less, or as much.
            false => held.len() - 2,
        };
        held.get(at).copied().unwrap_or(0).min(aim)
    };
    let lanes: Vec<u64> = (0..lanes).map(bound).collect();
    let furthest = lanes.iter().copied().max().unwrap_or(0);
    Bounds {
        lanes,
        furthest: furthest.max(before),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NONE: Vec<u64> = Vec::new();

    fn extent(bytes: u64) -> LogExtent {
        LogExtent {
            bytes,
            records: 10_000,
            newest: 50_000,
        }
    }

    #[test]
    fn a_log_is_trimmed_to_what_it_keeps_and_all_pods_have() {
        let (ahead, here): (&[u64], &[u64]) = (&[50_000, 49_990], &[49_000, 44_000]);
        let trimmed = |bytes, pods: &[&[u64]]| bounds(extent(bytes), 1000, pods, 2, 0).lanes;
        assert_eq!(trimmed(1000, &[ahead, here]), NONE);
        assert_eq!(trimmed(1062, &[ahead, here]), NONE);
        // Half of it goes, as far as both have it.
        assert_eq!(trimmed(2000, &[ahead, here]), [45_000, 44_000]);
        // One alone is no reason to forget anything.
        assert_eq!(trimmed(2000, &[ahead]), NONE);
        assert_eq!(trimmed(1 << 40, &[ahead]), NONE);
        assert_eq!(trimmed(2000, &[]), NONE);
    }

    #[test]
    fn a_pod_that_stays_behind_is_waited_for_until_the_log_has_four_times_as_much() {
        let (a, b, new): (&[u64], &[u64], &[u64]) = (&[50_000], &[47_000], &[0]);
        let trimmed = |bytes| bounds(extent(bytes), 1000, &[a, new, b], 1, 0).lanes;
        assert_eq!(trimmed(4000), [0]);
        // Then what two of them have may go: a tenth of a fifth is 1,999 records.
        assert_eq!(trimmed(5001), [47_000]);
        // Not what one has alone.
        assert_eq!(bounds(extent(5001), 1000, &[a, new], 1, 0).lanes, [0]);
    }

    #[test]
    fn a_lane_of_which_a_pod_says_nothing_is_left_alone() {
        let (a, b): (&[u64], &[u64]) = (&[50_000, 50_000], &[50_000]);
        assert_eq!(bounds(extent(2000), 1000, &[a, b], 2, 0).lanes, [45_000, 0]);
    }

    #[test]
    fn much_is_trimmed_a_little_at_a_time() {
        let all: &[u64] = &[9_000_000];
        let extent = LogExtent {
            bytes: 9_000_000_000,
            records: 8_000_000,
            newest: 9_000_000,
        };
        assert_eq!(bounds(extent, 1000, &[all, all], 1, 0).lanes, [1_050_000]);
        // Nothing of this can overflow.
        let huge = LogExtent {
            bytes: u64::MAX,
            records: u64::MAX,
            newest: u64::MAX,
        };
        assert_eq!(
            bounds(huge, u64::MAX / 2, &[all, all], 1, 0).lanes,
            [50_000]
        );
    }

    #[test]
    fn a_lane_that_stays_as_it_is_keeps_no_other_from_being_trimmed() {
        let (a, b): (&[u64], &[u64]) = (&[900_000, 900_000], &[0, 900_000]);
        // Of the first lane 100,000 old records are left, of the other the newest.
        let extent = LogExtent {
            bytes: 500_000,
            records: 500_000,
            newest: 900_000,
        };
        let mut before = 500_000;
        for step in 1..=6 {
            let bounds = bounds(extent, 200_000, &[a, b], 2, before);
            before = bounds.furthest;
            assert_eq!(bounds.lanes, [0, (500_000 + step * 50_000).min(700_000)]);
        }
    }

    #[test]
    fn a_pod_that_has_gone_with_an_empty_disk_is_not_waited_for_long() {
        let minutes = |minutes: u64| Duration::from_secs(60 * minutes);
        let (some, lost): (&[u64], &[u64]) = (&[0, 7], &[0, 0]);
        for (held, counts_for) in [(some, 15), (lost, 1), (&[][..], 1)] {
            let before = minutes(counts_for) - Duration::from_millis(1);
            assert!(still_counts(held, before), "{held:?}");
            assert!(!still_counts(held, minutes(counts_for)), "{held:?}");
        }
    }

    #[test]
    fn what_is_kept_may_be_nothing() {
        let all: &[u64] = &[50_000];
        assert_eq!(bounds(extent(100), 0, &[all, all], 1, 0).lanes, [50_000]);
    }
}
