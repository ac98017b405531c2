//! How far a command has come, on which its lane and its caller agree: it is
//! withdrawn, or its commit begins, never both.

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

/// In the queue, or planned.
const WAITS: u8 = 0;
/// Its commit is being written, or is done.
const COMMITS: u8 = 1;
/// Its caller has gone: nothing is done.
const WITHDRAWN: u8 = 2;

/// See the module. Clones are the same.
#[derive(Clone, Debug, Default)]
pub(super) struct Progress(Arc<AtomicU8>);

impl Progress {
    /// Says that its commit begins now. `false`: it was withdrawn, and must not
    /// be committed.
    pub(super) fn begin_commit(&self) -> bool {
        let begun = self
            .0
            .compare_exchange(WAITS, COMMITS, Ordering::AcqRel, Ordering::Acquire);
        begun.is_ok() || begun == Err(COMMITS)
    }

    /// Withdraws it. `false`: its commit has begun.
    pub(super) fn withdraw(&self) -> bool {
        let withdrawn =
            self.0
                .compare_exchange(WAITS, WITHDRAWN, Ordering::AcqRel, Ordering::Acquire);
        withdrawn.is_ok()
    }

    /// Whether nobody waits for it any more.
    pub(super) fn is_withdrawn(&self) -> bool {
        self.0.load(Ordering::Acquire) == WITHDRAWN
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_withdrawn_is_not_committed_and_the_other_way_round() {
        let first = Progress::default();
        assert!(first.begin_commit() && first.begin_commit());
        assert!(!first.withdraw() && !first.is_withdrawn());
        let second = Progress::default();
        assert!(second.withdraw() && second.is_withdrawn());
        assert!(!second.begin_commit() && !second.withdraw());
    }

    #[test]
    fn exactly_one_of_both_wins() {
        for _ in 0..1000 {
            let progress = Progress::default();
            let lane = progress.clone();
            let lane = std::thread::spawn(move || lane.begin_commit());
            let withdrawn = progress.withdraw();
            assert_ne!(lane.join().unwrap(), withdrawn);
        }
    }
}
