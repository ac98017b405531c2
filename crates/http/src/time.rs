//! Times as answers say them (RFC 3339).

use std::time::{Duration, UNIX_EPOCH};

/// Beyond the year 9999 there is no date to write, and the library panics.
const LAST_MS: u64 = 253_402_300_799_999;

/// Milliseconds since 1970 as a time.
pub(crate) fn rfc3339_ms(ms: u64) -> String {
    let time = UNIX_EPOCH + Duration::from_millis(ms.min(LAST_MS));
    humantime::format_rfc3339_millis(time).to_string()
}
