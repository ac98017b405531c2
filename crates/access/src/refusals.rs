//! How many lines of the log are written about what was refused.
//!
//! A refusal costs next to nothing, so one caller could fill the disk of the log with
//! them, and forced writes wait for all that a disk has been given before.

use governor::{DefaultDirectRateLimiter, Quota, RateLimiter};
use std::num::NonZeroU32;
use std::sync::LazyLock;
use std::sync::atomic::{AtomicU64, Ordering};

/// The target of the audit log's lines, by which they can be told from others.
pub const TARGET: &str = "audit";

/// Lines a second, and at once.
const PER_SECOND: NonZeroU32 = NonZeroU32::new(100).unwrap();
const AT_ONCE: NonZeroU32 = NonZeroU32::new(200).unwrap();

/// Those of all callers that have shown no key.
pub static OF_STRANGERS: LazyLock<RefusalLines> = LazyLock::new(RefusalLines::default);

/// The lines about what was refused to a caller: at most 100 a second.
pub struct RefusalLines {
    limiter: DefaultDirectRateLimiter,
    left_out: AtomicU64,
}

impl Default for RefusalLines {
    fn default() -> RefusalLines {
        RefusalLines {
            limiter: RateLimiter::direct(Quota::per_second(PER_SECOND).allow_burst(AT_ONCE)),
            left_out: AtomicU64::new(0),
        }
    }
}

impl RefusalLines {
    /// Whether one more is to be written. Before it comes a line that says how many
    /// were left out since the last one.
    pub fn may_write(&self, caller: Option<&str>) -> bool {
        let may = self.limiter.check().is_ok();
        let left_out = match may {
            true => self.left_out.swap(0, Ordering::Relaxed),
            false => self.left_out.fetch_add(1, Ordering::Relaxed),
        };
        if may && left_out > 0 {
            tracing::info!(target: TARGET, caller, left_out, "lines about refusals");
        }
        may
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_beyond_two_hundred_at_once_are_left_out_and_counted() {
        let lines = RefusalLines::default();
        let written = (0..10_000).filter(|_| lines.may_write(None)).count() as u64;
        // More than two hundred if this takes a while.
        assert!((200..5_000).contains(&written), "{written} lines");
        let left_out = || lines.left_out.load(Ordering::Relaxed);
        assert!(left_out() > 0);
        while !lines.may_write(None) {}
        assert_eq!(left_out(), 0, "they were not told of");
    }
}
