//! Names of headers that no standard library of names has.

use axum::http::HeaderName;

/// Leads from an answer to the server's log.
pub(crate) const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");

/// Says which request is the same as one sent before.
pub(crate) const IDEMPOTENCY_KEY: HeaderName = HeaderName::from_static("idempotency-key");

/// Says that the answer is that to an earlier request.
pub(crate) const IDEMPOTENCY_REPLAYED: HeaderName = HeaderName::from_static("idempotency-replayed");

/// Says where the lane of a changed filter stands with the change.
pub(crate) const POSITION: HeaderName = HeaderName::from_static("cuckood-position");

/// Says which positions an answer must take into account.
pub(crate) const MIN_POSITION: HeaderName = HeaderName::from_static("cuckood-min-position");

/// Says whether an answer may be as of a moment ago.
pub(crate) const CONSISTENCY: HeaderName = HeaderName::from_static("cuckood-consistency");

/// Says which pod has passed a request on.
pub(crate) const PASSED_ON_BY: HeaderName = HeaderName::from_static("cuckood-passed-on-by");

/// What pods say to show each other that they are of one cluster.
pub(crate) const LINK: HeaderName = HeaderName::from_static("cuckood-link");

/// Says whether a web page of another site is behind a request.
pub(crate) const SEC_FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");
