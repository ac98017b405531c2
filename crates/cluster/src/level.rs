//! Which feature level records are written at: one that all pods understand.
//!
//! A pod that is started again with an older program, or is cut off for a while, is
//! not seen for some seconds. So a level is written only after all pods that are seen
//! have understood it for longer than that; and never one that any of them does not.

use std::time::{Duration, Instant};

/// How long all pods must have understood a level.
const SETTLED: Duration = Duration::from_secs(10);

/// What is written before anything is known of others: what every program reads.
const FIRST: u16 = 1;

/// The level that this pod writes.
#[derive(Debug)]
pub struct LevelKeeper {
    /// What this pod understands.
    reads: u16,
    writes: u16,
    /// What all understand that is more, and since when.
    more: Option<(u16, Instant)>,
}

impl LevelKeeper {
    /// Of a pod that has not heard of others.
    pub fn new(reads: u16) -> LevelKeeper {
        LevelKeeper {
            reads,
            writes: FIRST,
            more: None,
        }
    }

    /// These are the levels that all pods understand which are there. Returns the one
    /// that is to be written, if it is another than before.
    pub fn update(&mut self, pods: impl IntoIterator<Item = u16>, now: Instant) -> Option<u16> {
        let pods = pods.into_iter().map(|it| it.max(FIRST));
        let all = pods.fold(self.reads, u16::min);
        let before = self.writes;
        if all <= self.writes {
            (self.writes, self.more) = (all, None);
        } else {
            let (level, since) = match self.more {
                // Less than a moment ago is understood as long as that was.
                Some((level, since)) => (level.min(all), since),
                None => (all, now),
            };
            self.more = Some((level, since));
            if now - since >= SETTLED {
                (self.writes, self.more) = (level, None);
            }
        }
        (self.writes != before).then_some(self.writes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_level_is_written_once_all_pods_have_understood_it_for_a_while_and_none_that_one_does_not()
    {
        let start = Instant::now();
        let after = |seconds| start + Duration::from_secs(seconds);
        let mut keeper = LevelKeeper::new(3);
        assert_eq!(keeper.update([3, 1], start), None);
        assert_eq!(keeper.update([3, 0], after(20)), None);
        // One of them is upgraded, and not seen for a moment.
        assert_eq!(keeper.update([3], after(21)), None);
        assert_eq!(keeper.update([3, 2], after(25)), None);
        assert_eq!(keeper.update([3, 2], after(30)), None);
        assert_eq!(keeper.update([3, 2], after(31)), Some(2));
        // Back at once, forward slowly.
        assert_eq!(keeper.update([3, 1], after(32)), Some(1));
        assert_eq!(keeper.update([3, 3], after(33)), None);
        assert_eq!(keeper.update([3, 1], after(42)), None);
        assert_eq!(keeper.update([4, 3], after(44)), None);
        assert_eq!(keeper.update([4, 4], after(54)), Some(3));
    }
}
