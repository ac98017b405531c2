//! Media types of bodies.

use axum::http::HeaderMap;
use axum::http::header::CONTENT_TYPE;

/// Most bodies.
pub(crate) const JSON: &str = "application/json";

/// One item a line.
pub(crate) const TEXT: &str = "text/plain";

/// A JSON value a line.
pub(crate) const NDJSON: &str = "application/x-ndjson";

/// Problem details (RFC 9457).
pub(crate) const PROBLEM_JSON: &str = "application/problem+json";

/// Dumps.
pub(crate) const DUMP: &str = "application/octet-stream";

/// What RedisBloom's `CF.SCANDUMP` hands out, framed.
pub(crate) const SCANDUMP: &str = "application/vnd.redisbloom.scandump";

/// Archives of backups.
pub(crate) const TAR: &str = "application/x-tar";

/// The media type of a body without its parameters, in lower case.
pub(crate) fn media_type(headers: &HeaderMap) -> Option<String> {
    let value = headers.get(CONTENT_TYPE)?.to_str().ok()?;
    let essence = value.split(';').next().unwrap_or_default();
    Some(essence.trim().to_ascii_lowercase())
}
