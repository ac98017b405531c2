//! What time it is. Callers ask here, before a command exists; lanes never do.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Where the engine takes the time from.
#[derive(Clone, Debug, Default)]
pub enum Clock {
    /// The system.
    #[default]
    System,
    /// Milliseconds since 1970 that are set from outside: for tests.
    Set(Arc<AtomicU64>),
}

impl Clock {
    /// Milliseconds since 1970.
    pub fn now_ms(&self) -> u64 {
        match self {
            Clock::System => SystemTime::now()
                .duration_since(UNIX_EPOCH)
                .map_or(0, |since| since.as_millis() as u64),
            Clock::Set(now_ms) => now_ms.load(Ordering::SeqCst),
        }
    }
}

/// A moment for people.
pub(super) fn moment(ms: u64) -> SystemTime {
    UNIX_EPOCH + Duration::from_millis(ms)
}
