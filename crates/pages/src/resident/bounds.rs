//! When images are written, and when commits wait for that.

use cuckood_filter::chain::params::PAGE_BYTES;

/// Slices that can be written, as a rule, before commits have to wait.
const SPARE_SLICES: u64 = 4;

/// What bounds memory and recovery.
#[derive(Clone, Copy, Debug)]
pub struct Bounds {
    /// Dirty pages at which commits wait.
    pub max_dirty_pages: u64,
    /// Bytes of redo records at which commits wait.
    pub max_log_bytes: u64,
    /// Pages whose images are written at once, if nothing is counted beside them.
    pub slice_pages: usize,
}

impl Bounds {
    /// Dirty pages from which on images are written. As many as possible: a
    /// page that waits gathers changes and is written once for all of them,
    /// and one that is written too early is soon dirty again. What is left up
    /// to the bound lets commits go on meanwhile.
    pub(super) fn many_dirty_pages(&self) -> u64 {
        let spare = SPARE_SLICES * self.slice_pages as u64;
        let spare = spare.max(self.max_dirty_pages / 8);
        self.max_dirty_pages - spare.min(self.max_dirty_pages / 2)
    }

    /// Bytes of parked pages at which commits wait. A record of another pod, or of a log
    /// that is replayed, is parked without a look at this.
    pub(super) fn max_parked_bytes(&self) -> u64 {
        self.max_dirty_pages * u64::from(PAGE_BYTES) / 2
    }

    /// From which on parked pages are stored though nothing else demands it.
    pub(super) fn many_parked_bytes(&self) -> u64 {
        self.max_parked_bytes() / 32 * 31
    }

    /// From which on no further page leaves its frame to be parked.
    pub(super) fn enough_parked_bytes(&self) -> u64 {
        self.max_parked_bytes() / 32 * 30
    }

    /// Bytes of images after which no further one is written at once.
    pub(super) fn slice_bytes(&self) -> usize {
        self.slice_pages.saturating_mul(PAGE_BYTES as usize)
    }

    /// Bytes of redo records from which on nothing comes before the log.
    pub(super) fn very_much_log(&self) -> u64 {
        self.max_log_bytes / 4 * 3
    }

    /// Bytes of redo records from which on images are written. Half of what
    /// may be: it is what a start after a crash replays.
    pub(super) fn much_log(&self) -> u64 {
        self.max_log_bytes / 2
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn images_are_written_late_but_before_commits_have_to_wait() {
        for (max_dirty_pages, slice_pages, many) in [
            (1 << 20, 64, 917_504),
            (4_096, 64, 3_584),
            // Four slices are more than an eighth here, ...
            (1_024, 64, 768),
            // ... and half of it is left for pages to gather changes.
            (256, 64, 128),
            (1, 1, 1),
        ] {
            let bounds = Bounds {
                max_dirty_pages,
                max_log_bytes: 1 << 20,
                slice_pages,
            };
            assert_eq!(bounds.many_dirty_pages(), many, "{bounds:?}");
        }
    }
}
