//! `Idempotency-Key`: which request is the same as one sent before.
//!
//! A key counts for one caller, method and path. What the request says beside
//! it (query, media type, condition, body) makes its fingerprint. Both reach
//! the engine as digests. `Idempotency-Key-Lifetime` says how long the answer is
//! kept; of a request that is sent again only the first one's counts.

use super::bounds::MAX_IDEMPOTENCY_KEY_BYTES;
use super::headers::{IDEMPOTENCY_KEY, IDEMPOTENCY_KEY_LIFETIME, IDEMPOTENCY_REPLAYED};
use super::problem::{HttpError, Result, excerpt};
use crate::codes::Code;
use crate::engine::{ANSWER_KEPT_FOR, Answered, IdempotencyKey};
use crate::server::principal::Principal;
use axum::http::header::{CONTENT_TYPE, IF_NONE_MATCH};
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderValue};
use axum::response::Response;
use sha2::{Digest as _, Sha256};
use std::time::Duration;

/// A request with a key, before its body is known.
#[derive(Clone)]
pub(crate) struct Keyed {
    key: [u8; 32],
    fingerprint: Sha256,
    kept_for: Duration,
}

impl Keyed {
    /// What the head of a request says; `None` without a key.
    ///
    /// # Errors
    /// More than one key, or one that is none; the same of its lifetime.
    pub(crate) fn of(parts: &Parts) -> Result<Option<Keyed>> {
        let kept_for = given_lifetime(&parts.headers)?;
        let Some(key) = given_key(&parts.headers)? else {
            return Ok(None);
        };
        let caller = parts.extensions.get::<Principal>();
        let caller = caller.and_then(Principal::name).unwrap_or_default();
        let mut scope = Sha256::new();
        for part in [caller, parts.method.as_str(), parts.uri.path(), key] {
            absorb(&mut scope, part.as_bytes());
        }
        let mut fingerprint = Sha256::new();
        let query = parts.uri.query().unwrap_or_default();
        absorb(&mut fingerprint, query.as_bytes());
        for header in [CONTENT_TYPE, IF_NONE_MATCH] {
            let value = parts.headers.get(header);
            absorb(&mut fingerprint, value.map_or(&[], HeaderValue::as_bytes));
        }
        Ok(Some(Keyed {
            key: scope.finalize().into(),
            fingerprint,
            kept_for,
        }))
    }

    /// The request with its body.
    pub(crate) fn with_body(mut self, body: &[u8]) -> IdempotencyKey {
        self.fingerprint.update(body);
        IdempotencyKey {
            key: self.key,
            fingerprint: self.fingerprint.finalize().into(),
            kept_for: self.kept_for,
        }
    }
}

/// Says of an answer whether it was given before.
pub(crate) fn marked<T>(answered: &Answered<T>, mut response: Response) -> Response {
    if answered.replayed {
        let yes = HeaderValue::from_static("true");
        response.headers_mut().insert(IDEMPOTENCY_REPLAYED, yes);
    }
    response
}

/// Refuses a key where a repeated request is no harm, or is known otherwise.
///
/// # Errors
/// There is one; `instead` says what to do.
pub(crate) fn refuse_key(headers: &HeaderMap, instead: &'static str) -> Result<()> {
    match headers.contains_key(IDEMPOTENCY_KEY) {
        true => Err(HttpError::IdempotencyKeyNotTaken { instead }),
        false => Ok(()),
    }
}

fn given_key(headers: &HeaderMap) -> Result<Option<&str>> {
    let mut keys = headers.get_all(IDEMPOTENCY_KEY).iter();
    let Some(key) = keys.next() else {
        return Ok(None);
    };
    // No more than one, of visible characters.
    let key = key.to_str().ok().filter(|_| keys.next().is_none());
    let key = key.filter(|key| (1..=MAX_IDEMPOTENCY_KEY_BYTES).contains(&key.len()));
    let key = key.filter(|key| key.bytes().all(|byte| byte.is_ascii_graphic()));
    key.map(Some)
        .ok_or(HttpError::Plain(Code::InvalidIdempotencyKey))
}

fn given_lifetime(headers: &HeaderMap) -> Result<Duration> {
    let mut given = headers.get_all(IDEMPOTENCY_KEY_LIFETIME).iter();
    let Some(first) = given.next() else {
        return Ok(ANSWER_KEPT_FOR);
    };
    let text = String::from_utf8_lossy(first.as_bytes());
    let refused = |given| HttpError::InvalidIdempotencyLifetime { given };
    if given.next().is_some() {
        return Err(refused("given more than once".to_owned()));
    }
    // A sign is none of the digits, but parsing would take one.
    let seconds = text.parse().ok().map(Duration::from_secs);
    let seconds = seconds.filter(|_| text.bytes().all(|byte| byte.is_ascii_digit()));
    let seconds = seconds.filter(|it| (Duration::from_secs(1)..=ANSWER_KEPT_FOR).contains(it));
    seconds.ok_or_else(|| refused(excerpt(&text)))
}

/// Hashes one part so that no two sequences of parts hash alike.
fn absorb(hash: &mut Sha256, part: &[u8]) {
    hash.update((part.len() as u64).to_le_bytes());
    hash.update(part);
}

#[cfg(test)]
mod tests;
