//! What the disk has been asked and has not answered yet. A disk that hangs
//! fails nothing, so nothing else tells that it does.

use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// The operations of a store that are under way. Looking at it never waits for
/// the disk.
#[derive(Debug, Default)]
pub struct Pending {
    /// Changes, forced writes, and looks at how the disk is.
    pub writes: PendingOperations,
    /// Reads, but for those of snapshots, which take as long as they like.
    pub reads: PendingOperations,
}

/// Operations of one kind, and since when each is under way.
#[derive(Debug, Default)]
pub struct PendingOperations(Mutex<Started>);

#[derive(Debug, Default)]
struct Started {
    /// By their numbers, so the oldest is the first.
    at: BTreeMap<u64, Instant>,
    next: u64,
}

/// One operation, until this is dropped.
#[must_use]
pub(super) struct Operation<'a> {
    operations: &'a PendingOperations,
    number: u64,
}

impl PendingOperations {
    /// For how long the oldest has been under way; `None`: there is none.
    pub fn oldest(&self) -> Option<Duration> {
        let started = self.0.lock();
        let (_, oldest) = started.at.first_key_value()?;
        Some(oldest.elapsed())
    }

    /// Notes that one begins.
    pub(super) fn begin(&self) -> Operation<'_> {
        let mut started = self.0.lock();
        let number = started.next;
        started.next += 1;
        started.at.insert(number, Instant::now());
        Operation {
            operations: self,
            number,
        }
    }
}

impl Drop for Operation<'_> {
    fn drop(&mut self) {
        self.operations.0.lock().at.remove(&self.number);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_is_told_until_it_ends() {
        let operations = PendingOperations::default();
        assert_eq!(operations.oldest(), None);
        let first = operations.begin();
        std::thread::sleep(Duration::from_millis(20));
        let second = operations.begin();
        assert!(operations.oldest().unwrap() >= Duration::from_millis(20));
        drop(first);
        assert!(operations.oldest().unwrap() < Duration::from_millis(20));
        drop(second);
        assert_eq!(operations.oldest(), None);
    }
}
