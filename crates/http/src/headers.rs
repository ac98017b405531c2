//! Names of headers that no standard library of names has.

use axum::http::HeaderName;

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
