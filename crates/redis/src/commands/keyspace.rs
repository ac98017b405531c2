//! The arguments of `SCAN`, and of the commands that say when a filter ends.

use super::errors::{NOT_AN_INTEGER, SYNTAX, UNSUPPORTED_OPTION, excerpt};
use super::table::Verb;
use crate::engine::MAX_TTL_SECONDS;
use crate::protocol::batch::Words;
use crate::protocol::number::integer;

/// Filters of one answer of `SCAN`, at most and by default.
const MAX_COUNT: i64 = 1000;
const DEFAULT_COUNT: i64 = 10;

/// What redis calls the filters of RedisBloom.
pub(crate) const TYPE: &str = "MBbloomCF";

/// What it calls its Bloom filters: filters here are these, too.
const TYPE_OF_BLOOM: &str = "MBbloom--";

/// What `SCAN` is to list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Scan<'a> {
    /// The number of the last filter that was looked at.
    pub(crate) after: u64,
    /// `None`: all.
    pub(crate) pattern: Option<&'a [u8]>,
    /// How many filters are looked at.
    pub(crate) count: usize,
    /// Whether filters are of the type that is asked for.
    pub(crate) is_of_type: bool,
}

/// Takes the arguments of `SCAN` apart.
///
/// # Errors
/// In the words of redis.
pub(crate) fn scan(words: Words<'_>) -> Result<Scan<'_>, &'static str> {
    let cursor = std::str::from_utf8(words.get(1)).ok();
    let cursor = cursor.filter(|it| it.bytes().all(|byte| byte.is_ascii_digit()));
    let after = cursor.and_then(|it| it.parse().ok());
    let mut scan = Scan {
        after: after.ok_or("ERR invalid cursor")?,
        pattern: None,
        count: DEFAULT_COUNT as usize,
        is_of_type: true,
    };
    for at in (2..words.len()).step_by(2) {
        if at + 1 == words.len() {
            return Err(SYNTAX);
        }
        let value = words.get(at + 1);
        match words.get(at).to_ascii_lowercase().as_slice() {
            b"match" => scan.pattern = Some(value),
            b"type" => {
                let types = [TYPE, TYPE_OF_BLOOM];
                let is = |name: &str| value.eq_ignore_ascii_case(name.as_bytes());
                scan.is_of_type = types.into_iter().any(is);
            }
            b"count" => {
                let count = integer(value).ok_or(NOT_AN_INTEGER)?;
                if count < 1 {
                    return Err(SYNTAX);
                }
                scan.count = count.min(MAX_COUNT) as usize;
            }
            _ => return Err(SYNTAX),
        }
    }
    Ok(scan)
}

/// When a filter is to end, in milliseconds since 1970.
///
/// # Errors
/// In the words of redis.
pub(crate) fn end(verb: Verb, name: &str, words: Words<'_>, now_ms: u64) -> Result<i64, String> {
    let given = integer(words.get(2)).ok_or(NOT_AN_INTEGER)?;
    if words.len() > 3 {
        return Err(format!("{UNSUPPORTED_OPTION} {}", excerpt(words.get(3))));
    }
    let now_ms = i64::try_from(now_ms).unwrap_or(i64::MAX);
    let at_ms = match verb {
        Verb::Expire => given
            .checked_mul(1000)
            .and_then(|it| it.checked_add(now_ms)),
        Verb::PExpire => given.checked_add(now_ms),
        Verb::ExpireAt => given.checked_mul(1000),
        _ => Some(given),
    };
    let last = now_ms.saturating_add(i64::try_from(MAX_TTL_SECONDS * 1000).unwrap_or(i64::MAX));
    at_ms
        .filter(|&at_ms| at_ms <= last)
        .ok_or_else(|| format!("ERR invalid expire time in '{name}' command"))
}

/// What the commands say that tell when a filter ends: of one that never does,
/// and of one that does.
pub(crate) fn tell_end(verb: Verb, end_ms: Option<u64>, now_ms: u64) -> i64 {
    let Some(end_ms) = end_ms else {
        return -1;
    };
    let left = end_ms.saturating_sub(now_ms);
    let told = match verb {
        // To the nearest second, as redis does.
        Verb::Ttl => (left + 500) / 1000,
        Verb::PTtl => left,
        Verb::ExpireTime => end_ms / 1000,
        _ => end_ms,
    };
    i64::try_from(told).unwrap_or(i64::MAX)
}
