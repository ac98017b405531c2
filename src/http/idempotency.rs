//! `Idempotency-Key`: which request is the same as one sent before.
//!
//! A key counts for one caller, method and path. What the request says beside
//! it (query, media type, condition, body) makes its fingerprint. Both reach
//! the engine as digests.

use super::bounds::MAX_IDEMPOTENCY_KEY_BYTES;
use super::headers::{IDEMPOTENCY_KEY, IDEMPOTENCY_REPLAYED};
use super::problem::HttpError;
use crate::engine::{Answered, Retry};
use axum::http::header::{CONTENT_TYPE, IF_NONE_MATCH};
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderValue};
use axum::response::Response;
use sha2::{Digest as _, Sha256};

/// Who sends a request, as far as one caller's keys are not another's. Who
/// checks callers puts it into the extensions of the request; without it all
/// callers are the same one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Caller(pub(crate) String);

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
        let caller = parts
            .extensions
            .get::<Caller>()
            .cloned()
            .unwrap_or_default();
        let mut scope = Sha256::new();
        let method = parts.method.as_str();
        for part in [caller.0.as_str(), method, parts.uri.path(), key] {
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
    pub(crate) fn with_body(mut self, body: &[u8]) -> Retry {
        self.fingerprint.update(body);
        Retry {
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
mod tests {
    use super::*;
    use axum::body::Body;
    use axum::http::Request;

    fn retry(uri: &str, headers: &[(&str, &str)], body: &str) -> Option<Retry> {
        let mut request = Request::post(uri);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let (parts, _) = request.body(Body::empty()).unwrap().into_parts();
        let keyed = Keyed::of(&parts).unwrap();
        keyed.map(|keyed| keyed.with_body(body.as_bytes()))
    }

    #[test]
    fn a_key_counts_for_one_path_and_all_else_makes_the_fingerprint() {
        let base = ("/filters/a/items", "k", "text/plain", "x");
        let of = |(uri, key, media_type, body): (&str, &str, &str, &str)| {
            let headers = [("idempotency-key", key), ("content-type", media_type)];
            retry(uri, &headers, body).unwrap()
        };
        assert_eq!(of(base), of(base));
        for other in [
            ("/filters/b/items", "k", "text/plain", "x"),
            ("/filters/a/items", "l", "text/plain", "x"),
        ] {
            assert_ne!(of(other).key, of(base).key, "{other:?}");
        }
        for other in [
            (
                "/filters/a/items?only_if_absent=true",
                "k",
                "text/plain",
                "x",
            ),
            ("/filters/a/items", "k", "application/json", "x"),
            ("/filters/a/items", "k", "text/plain", "y"),
        ] {
            assert_eq!(of(other).key, of(base).key, "{other:?}");
            assert_ne!(of(other).fingerprint, of(base).fingerprint, "{other:?}");
        }
        assert_eq!(retry("/filters/a/items", &[], "x"), None);
    }

    #[test]
    fn one_callers_key_is_not_anothers() {
        let key = |caller: Option<Caller>| {
            let mut request = Request::post("/").header("idempotency-key", "k");
            if let Some(caller) = caller {
                request = request.extension(caller);
            }
            let (parts, _) = request.body(Body::empty()).unwrap().into_parts();
            Keyed::of(&parts).unwrap().unwrap().with_body(b"").key
        };
        let [none, one, two] = [None, Some("one"), Some("two")]
            .map(|caller| key(caller.map(|caller| Caller(caller.to_owned()))));
        assert!(none != one && one != two && none != two);
    }

    #[test]
    fn what_is_no_key_is_refused() {
        let longest = "k".repeat(MAX_IDEMPOTENCY_KEY_BYTES);
        assert!(retry("/", &[("idempotency-key", &longest)], "").is_some());
        let longer = "k".repeat(MAX_IDEMPOTENCY_KEY_BYTES + 1);
        for headers in [
            &[("idempotency-key", "")][..],
            &[("idempotency-key", longer.as_str())],
            &[("idempotency-key", "\u{e9}")],
            &[("idempotency-key", "a"), ("idempotency-key", "a")],
        ] {
            let mut request = Request::post("/");
            for (name, value) in headers {
                request = request.header(*name, value.as_bytes());
            }
            let (parts, _) = request.body(Body::empty()).unwrap().into_parts();
            assert!(Keyed::of(&parts).is_err(), "{headers:?}");
        }
    }
}
