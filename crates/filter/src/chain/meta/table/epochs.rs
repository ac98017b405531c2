//! How many entries are of which epoch, where items expire.

use crate::chain::params::{Epoch, Window};

/// Entries by the epoch in which their items were seen last, of those epochs
/// that the window reaches back to. Exact: what it counts are slots.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Epochs {
    /// The window.
    pub window: Window,
    /// The epoch in which the filter was changed last, or looked at.
    pub current: Epoch,
    /// Entries that have not expired, by epoch, the current one first.
    pub by_age: Vec<u64>,
    /// All of them.
    pub live: u64,
}

impl Epochs {
    /// No entry yet.
    pub(in crate::chain) fn new(window: Window, current: Epoch) -> Epochs {
        Epochs {
            window,
            current,
            by_age: vec![0; window.epochs() as usize + 1],
            live: 0,
        }
    }

    /// Those of which so many are there. `None` if these are too many numbers, or
    /// too few.
    pub(in crate::chain) fn of(window: Window, current: Epoch, by_age: Vec<u64>) -> Option<Epochs> {
        let live = by_age.iter().try_fold(0u64, |sum, &it| sum.checked_add(it));
        let is_right = by_age.len() as u64 == window.epochs() + 1;
        Some(Epochs {
            window,
            current,
            live: live.filter(|_| is_right)?,
            by_age,
        })
    }

    /// So many entries, all of the current epoch.
    pub(in crate::chain) fn with_current(&self, entries: u64) -> Epochs {
        let mut epochs = Epochs::new(self.window, self.current);
        if let Some(now) = epochs.by_age.first_mut() {
            *now = entries;
        }
        epochs.live = entries;
        epochs
    }

    /// The first epoch whose entries have not expired.
    pub fn oldest(&self) -> Epoch {
        self.since(self.window.epochs())
    }

    /// The epoch that was so many before the current one.
    pub fn since(&self, epochs: u64) -> Epoch {
        self.current.saturating_sub(epochs)
    }

    /// Goes on to the epoch of a moment, in milliseconds since 1970; never back.
    pub(in crate::chain) fn advance(&mut self, now_ms: u64) {
        let now = self.window.epoch_at(now_ms);
        let Some(passed) = now.checked_sub(self.current).filter(|&it| it > 0) else {
            return;
        };
        self.current = now;
        let all = self.by_age.len();
        let passed = usize::try_from(passed).map_or(all, |passed| passed.min(all));
        self.by_age.rotate_right(passed);
        self.by_age.iter_mut().take(passed).for_each(|it| *it = 0);
        self.live = self.by_age.iter().sum();
    }

    /// Counts an entry of an epoch.
    pub(in crate::chain) fn add(&mut self, epoch: Epoch) {
        if let Some(entries) = self.of_epoch(epoch) {
            *entries += 1;
            self.live += 1;
        }
    }

    /// Forgets one.
    pub(in crate::chain) fn forget(&mut self, epoch: Epoch) {
        if let Some(entries) = self.of_epoch(epoch).filter(|it| **it > 0) {
            *entries -= 1;
            self.live -= 1;
        }
    }

    fn of_epoch(&mut self, epoch: Epoch) -> Option<&mut u64> {
        let age = self.current.checked_sub(epoch)?;
        self.by_age.get_mut(usize::try_from(age).ok()?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_expire_as_epochs_pass_and_never_come_back() {
        let window = Window::new(30, 10).unwrap();
        let mut epochs = Epochs::new(window, 100);
        for (epoch, entries) in [(100, 3), (99, 2), (97, 1), (96, 5), (101, 7)] {
            (0..entries).for_each(|_| epochs.add(epoch));
        }
        // Expired ones and those that are still to come are not counted.
        assert_eq!((&epochs.by_age[..], epochs.live), (&[3, 2, 0, 1][..], 6));
        epochs.advance(1_010_000);
        assert_eq!((&epochs.by_age[..], epochs.live), (&[0, 3, 2, 0][..], 5));
        epochs.forget(100);
        epochs.advance(1_000_000);
        assert_eq!((epochs.current, epochs.live), (101, 4));
        epochs.advance(1_040_000);
        assert_eq!((&epochs.by_age[..], epochs.live), (&[0; 4][..], 0));
        epochs.advance(u64::MAX);
        assert_eq!(epochs.live, 0);
    }
}
