//! Moments until which something may take.

use std::time::Duration;
use tokio::time::Instant;

/// So long from now, or as good as never.
pub(crate) fn after(time: Duration) -> Instant {
    const NEVER: Duration = Duration::from_secs(30 * 365 * 24 * 3600);
    let now = Instant::now();
    now.checked_add(time).unwrap_or(now + NEVER)
}
