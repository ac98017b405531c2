//! Times as answers say them (RFC 3339).

use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// A time, to the millisecond.
pub(crate) fn rfc3339(time: SystemTime) -> String {
    humantime::format_rfc3339_millis(time).to_string()
}

/// Milliseconds since 1970 as a time.
pub(crate) fn rfc3339_ms(ms: u64) -> String {
    rfc3339(UNIX_EPOCH + Duration::from_millis(ms))
}
