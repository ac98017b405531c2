//! Names of headers about positions, and between pods.

use axum::http::HeaderName;

/// Says where the lane of a changed filter stands with the change.
pub const POSITION: HeaderName = HeaderName::from_static("cuckood-position");

/// Says which positions an answer must take into account.
pub const MIN_POSITION: HeaderName = HeaderName::from_static("cuckood-min-position");

/// Says whether an answer may be as of a moment ago.
pub const CONSISTENCY: HeaderName = HeaderName::from_static("cuckood-consistency");

/// Says which pods have forwarded a request.
pub(crate) const FORWARDED_BY: HeaderName = HeaderName::from_static("cuckood-forwarded-by");

/// What pods say to show each other that they are of one cluster.
pub const LINK: HeaderName = HeaderName::from_static("cuckood-link");
