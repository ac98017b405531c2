//! Names of headers that no standard library of names has, and what headers list.

use axum::http::{HeaderMap, HeaderName};

/// Leads from an answer to the server's log.
pub(crate) const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");

/// Says which request is the same as one sent before.
pub(crate) const IDEMPOTENCY_KEY: HeaderName = HeaderName::from_static("idempotency-key");

/// Says for how many seconds that may be so.
pub(crate) const IDEMPOTENCY_KEY_LIFETIME: HeaderName =
    HeaderName::from_static("idempotency-key-lifetime");

/// Says that the answer is that to an earlier request.
pub(crate) const IDEMPOTENCY_REPLAYED: HeaderName = HeaderName::from_static("idempotency-replayed");

/// Says whether a web page of another site is behind a request.
pub(crate) const SEC_FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");

/// What a header lists, on one line or on several.
pub(crate) fn listed<'a>(
    headers: &'a HeaderMap,
    name: &HeaderName,
) -> impl Iterator<Item = &'a str> + use<'a> {
    let lines = headers.get_all(name).into_iter();
    let texts = lines.filter_map(|line| line.to_str().ok());
    texts.flat_map(|text| text.split(',')).map(str::trim)
}
