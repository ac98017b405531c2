//! Times as answers say them (RFC 3339), and moments until which something may
//! take.

use std::time::{Duration, SystemTime, UNIX_EPOCH};
use tokio::time::Instant;

/// A time, to the millisecond.
pub(crate) fn rfc3339(time: SystemTime) -> String {
    humantime::format_rfc3339_millis(time).to_string()
}

/// Milliseconds since 1970 as a time.
pub(crate) fn rfc3339_ms(ms: u64) -> String {
    rfc3339(UNIX_EPOCH + Duration::from_millis(ms))
}

/// So long from now, or as good as never.
pub(crate) fn after(time: Duration) -> Instant {
    const NEVER: Duration = Duration::from_secs(30 * 365 * 24 * 3600);
    let now = Instant::now();
    now.checked_add(time).unwrap_or(now + NEVER)
}
