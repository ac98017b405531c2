//! The API key of a request.

use super::problem::{HttpError, Result};
use crate::access::keys::{ApiKey, ApiKeys};
use crate::codes::Code;
use crate::server::admission::budget::Holder;
use crate::server::listen::polls::{charge_to, give_way};
use crate::server::principal::Principal;
use axum::http::HeaderMap;
use axum::http::header::AUTHORIZATION;
use axum::http::request::Parts;
use std::sync::Arc;

/// The key of a request among those that are known; it may have expired.
///
/// # Errors
/// It has none, or one that is not known.
pub(crate) fn key_of(headers: &HeaderMap, keys: &ApiKeys) -> Result<Arc<ApiKey>> {
    let token = bearer(headers).ok_or(HttpError::Plain(Code::ApiKeyMissing))?;
    keys.find(token)
        .ok_or(HttpError::Plain(Code::ApiKeyUnknown))
}

/// The same; who has it pays for the poll under way and for those behind it.
///
/// # Errors
/// As there.
pub(crate) async fn paying_key(headers: &HeaderMap, keys: &ApiKeys) -> Result<Arc<ApiKey>> {
    let key = key_of(headers, keys)?;
    charge_to(&key.used);
    give_way().await;
    Ok(key)
}

/// To whose account goes what a request holds; `None` where no keys are asked for.
pub(super) fn holder_of(parts: &Parts) -> Option<Holder> {
    parts.extensions.get::<Principal>()?.holder().cloned()
}

/// What a request shows as its key: one header, and the one scheme.
pub(crate) fn bearer(headers: &HeaderMap) -> Option<&str> {
    let mut values = headers.get_all(AUTHORIZATION).iter();
    let value = values.next()?.to_str().ok()?;
    if values.next().is_some() {
        return None;
    }
    let (scheme, token) = value.split_once(' ')?;
    let token = token.trim_matches(' ');
    (scheme.eq_ignore_ascii_case("bearer") && !token.is_empty()).then_some(token)
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::http::HeaderValue;

    #[test]
    fn a_key_comes_in_one_header_of_one_form() {
        let of = |values: &[&'static str]| {
            let mut headers = HeaderMap::new();
            for value in values {
                headers.append(AUTHORIZATION, HeaderValue::from_static(value));
            }
            bearer(&headers).map(str::to_owned)
        };
        for value in ["Bearer k", "bearer k", "BEARER  k "] {
            assert_eq!(of(&[value]).as_deref(), Some("k"), "{value}");
        }
        for values in [
            &[][..],
            &["k"],
            &["Bearer"],
            &["Bearer "],
            &["Basic k"],
            &["Bearer k", "Bearer k"],
        ] {
            assert_eq!(of(values), None, "{values:?}");
        }
    }
}
