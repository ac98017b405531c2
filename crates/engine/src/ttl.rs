//! When filters end.
//!
//! When a filter ends is a fact in its stored record: computed before a command
//! exists, carried in by the command, and looked at whenever the filter is
//! opened. So it is gone for all at that moment, whatever still has to be
//! removed.

use super::error::{EngineError, Result};
use crate::chain::params::ParamsError;
use crate::store::Expiry;

/// Longest time that a filter can be given, in seconds: a hundred years.
pub const MAX_TTL_SECONDS: u64 = 100 * 366 * 86_400;

/// When a filter ends that is given so many seconds now.
pub(super) fn expiry(ttl_seconds: Option<u64>, now_ms: u64) -> Result<Option<Expiry>> {
    let Some(ttl_seconds) = ttl_seconds else {
        return Ok(None);
    };
    if !(1..=MAX_TTL_SECONDS).contains(&ttl_seconds) {
        return Err(EngineError::InvalidParams(vec![ParamsError {
            field: "ttl_seconds",
            given: ttl_seconds.to_string(),
            allowed: format!("an integer from 1 to {MAX_TTL_SECONDS}"),
        }]));
    }
    Ok(Some(Expiry {
        at_ms: now_ms.saturating_add(ttl_seconds * 1000),
        ttl_seconds,
    }))
}

/// The end of a filter that ends then, in milliseconds since 1970, which is no
/// more than a hundred years away.
pub(super) fn expiry_at(at_ms: u64, now_ms: u64) -> Result<Expiry> {
    let ttl_seconds = at_ms.saturating_sub(now_ms).div_ceil(1000).max(1);
    expiry(Some(ttl_seconds), now_ms)?;
    Ok(Expiry { at_ms, ttl_seconds })
}

/// Whether what ends then has ended.
pub(super) fn has_ended(expiry: Option<Expiry>, now_ms: u64) -> bool {
    expiry.is_some_and(|expiry| expiry.at_ms <= now_ms)
}
