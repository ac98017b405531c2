//! The window of a filter whose items expire by themselves.

use super::limits::{MAX_EPOCHS, MAX_WINDOW_SECONDS};

/// Number of an epoch: of so many seconds each, counted from 1970 on.
pub type Epoch = u64;

/// For how long items are found after they were seen last, and in which steps
/// that is told.
///
/// Time is cut into epochs of `resolution_seconds`. An item that was seen less
/// than `seconds` ago is found for certain. One that was not seen for that time,
/// rounded up to whole epochs, and an epoch more is not, but for the filter's error
/// rate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Window {
    seconds: u32,
    resolution_seconds: u32,
}

impl Window {
    /// A window, if it is no longer than [`MAX_WINDOW_SECONDS`] and has from 1 to
    /// [`MAX_EPOCHS`] epochs.
    pub fn new(seconds: u64, resolution_seconds: u64) -> Option<Window> {
        let is_right = (1..=MAX_WINDOW_SECONDS).contains(&seconds)
            && (Window::finest_resolution(seconds)..=seconds).contains(&resolution_seconds);
        is_right.then_some(Window {
            seconds: u32::try_from(seconds).ok()?,
            resolution_seconds: u32::try_from(resolution_seconds).ok()?,
        })
    }

    /// The shortest epochs that a window may have.
    pub fn finest_resolution(seconds: u64) -> u64 {
        seconds.div_ceil(MAX_EPOCHS).max(1)
    }

    /// Seconds since it was seen last during which an item is found.
    pub fn seconds(self) -> u32 {
        self.seconds
    }

    /// Seconds of an epoch.
    pub fn resolution_seconds(self) -> u32 {
        self.resolution_seconds
    }

    /// Epochs before the current one in which an item may have been seen last
    /// that is found: from 1 to [`MAX_EPOCHS`].
    pub fn epochs(self) -> u64 {
        u64::from(self.seconds.div_ceil(self.resolution_seconds))
    }

    /// Epochs before the current one that a question about the last so many
    /// seconds is about. No more than those of the window.
    pub fn epochs_within(self, seconds: u64) -> u64 {
        let epochs = seconds.div_ceil(u64::from(self.resolution_seconds));
        epochs.min(self.epochs())
    }

    /// Bits of a slot that say the epoch: enough to tell those from each other that
    /// a page may have, the current one included.
    pub fn epoch_bits(self) -> u8 {
        // 256 at most.
        (self.epochs() + 1).next_power_of_two().ilog2() as u8
    }

    /// The epoch of a moment, in milliseconds since 1970.
    pub fn epoch_at(self, ms: u64) -> Epoch {
        ms / 1000 / u64::from(self.resolution_seconds)
    }

    /// When an epoch begins, in milliseconds since 1970.
    pub fn begin_of(self, epoch: Epoch) -> u64 {
        let length_ms = 1000 * u64::from(self.resolution_seconds);
        epoch.saturating_mul(length_ms)
    }
}
