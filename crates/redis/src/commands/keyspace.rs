//! The arguments of `SCAN`, and of the commands that say when a filter ends.

use super::errors::{NOT_AN_INTEGER, SYNTAX, UNSUPPORTED_OPTION, excerpt};
use super::table::Verb;
use crate::engine::MAX_TTL_SECONDS;
use crate::protocol::number::integer;
use crate::protocol::pipeline::Words;

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
    check_conditions(words)?;
    let given = integer(words.get(2)).ok_or(NOT_AN_INTEGER)?;
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
    at_ms.filter(|&at_ms| at_ms <= last).ok_or_else(|| {
        format!("ERR invalid expire time in '{name}' command: it is 100 years from now at most")
    })
}

/// On what it depends whether a filter is to end at another time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Condition {
    /// It never ends.
    Never,
    /// It ends some time.
    Ends,
    /// The new end is later.
    Later,
    /// The new end is earlier.
    Earlier,
}

impl Condition {
    fn of(word: &[u8]) -> Option<Condition> {
        let all = [
            ("nx", Condition::Never),
            ("xx", Condition::Ends),
            ("gt", Condition::Later),
            ("lt", Condition::Earlier),
        ];
        let mut all = all.into_iter();
        all.find_map(|(name, it)| word.eq_ignore_ascii_case(name.as_bytes()).then_some(it))
    }
}

fn conditions(words: Words<'_>) -> impl Iterator<Item = Condition> {
    words.from(3).iter().filter_map(Condition::of)
}

/// # Errors
/// A condition is none, or two exclude each other, in the words of redis.
fn check_conditions(words: Words<'_>) -> Result<(), String> {
    let mut given = words.from(3).iter();
    if let Some(word) = given.find(|word| Condition::of(word).is_none()) {
        return Err(format!("{UNSUPPORTED_OPTION} {}", excerpt(word)));
    }
    let has = |wanted| conditions(words).any(|it| it == wanted);
    let excluding = if has(Condition::Never) && conditions(words).any(|it| it != Condition::Never) {
        "NX and XX, GT or LT"
    } else if has(Condition::Later) && has(Condition::Earlier) {
        "GT and LT"
    } else {
        return Ok(());
    };
    Err(format!(
        "ERR {excluding} options at the same time are not compatible"
    ))
}

/// Whether a filter that ends at `now_ms`, or never, may end at `end_ms`, both since
/// 1970.
pub(crate) fn allows(words: Words<'_>, now_ms: Option<u64>, end_ms: i64) -> bool {
    // One before 1970 is past as well.
    let end_ms = u64::try_from(end_ms).unwrap_or(0);
    conditions(words).all(|condition| match condition {
        Condition::Never => now_ms.is_none(),
        Condition::Ends => now_ms.is_some(),
        Condition::Later => now_ms.is_some_and(|now_ms| end_ms > now_ms),
        Condition::Earlier => now_ms.is_none_or(|now_ms| end_ms < now_ms),
    })
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
