//! `Idempotency-Key`: which request is the same as one sent before.
//!
//! A key counts for one caller, method and path. What the request says beside
//! it (query, media type, condition, body) makes its fingerprint. Both reach
//! the engine as digests.

use super::bounds::MAX_IDEMPOTENCY_KEY_BYTES;
use super::headers::{IDEMPOTENCY_KEY, IDEMPOTENCY_REPLAYED};
use super::middleware::principal::Principal;
use super::problem::HttpError;
use crate::engine::{Answered, IdempotencyKey};
use axum::http::header::{CONTENT_TYPE, IF_NONE_MATCH};
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderValue};
use axum::response::Response;
use sha2::{Digest as _, Sha256};

/// A request with a key, before its body is known.
#[derive(Clone)]
pub(crate) struct Keyed {
    key: [u8; 32],
    fingerprint: Sha256,
}

impl Keyed {
    /// What the head of a request says; `None` without a key.
    ///
    /// # Errors
    /// More than one key, or one that is none.
    pub(crate) fn of(parts: &Parts) -> Result<Option<Keyed>, HttpError> {
        let Some(key) = given_key(&parts.headers)? else {
            return Ok(None);
        };
        let caller = parts.extensions.get::<Principal>();
        let caller = caller.and_then(Principal::name).unwrap_or_default();
        let mut scope = Sha256::new();
        let method = parts.method.as_str();
        for part in [caller, method, parts.uri.path(), key] {
            absorb(&mut scope, part.as_bytes());
        }
        let mut fingerprint = Sha256::new();
        absorb(
            &mut fingerprint,
            parts.uri.query().unwrap_or_default().as_bytes(),
        );
        for header in [CONTENT_TYPE, IF_NONE_MATCH] {
            let value = parts.headers.get(header);
            absorb(&mut fingerprint, value.map_or(&[], HeaderValue::as_bytes));
        }
        Ok(Some(Keyed {
            key: scope.finalize().into(),
            fingerprint,
        }))
    }

    /// The request with its body.
    pub(crate) fn with_body(mut self, body: &[u8]) -> IdempotencyKey {
        self.fingerprint.update(body);
        IdempotencyKey {
            key: self.key,
            fingerprint: self.fingerprint.finalize().into(),
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
pub(crate) fn refuse_key(headers: &HeaderMap, instead: &'static str) -> Result<(), HttpError> {
    match headers.contains_key(IDEMPOTENCY_KEY) {
        true => Err(HttpError::IdempotencyKeyNotTaken { instead }),
        false => Ok(()),
    }
}

fn given_key(headers: &HeaderMap) -> Result<Option<&str>, HttpError> {
    let mut keys = headers.get_all(IDEMPOTENCY_KEY).iter();
    let Some(key) = keys.next() else {
        return Ok(None);
    };
    // No more than one, of visible characters.
    let key = key.to_str().ok().filter(|_| keys.next().is_none());
    let key = key.filter(|key| (1..=MAX_IDEMPOTENCY_KEY_BYTES).contains(&key.len()));
    let key = key.filter(|key| key.bytes().all(|byte| byte.is_ascii_graphic()));
    key.map(Some).ok_or(HttpError::InvalidIdempotencyKey)
}

/// Hashes one part so that no two sequences of parts hash alike.
fn absorb(hash: &mut Sha256, part: &[u8]) {
    hash.update((part.len() as u64).to_le_bytes());
    hash.update(part);
}

#[cfg(test)]
mod tests;
