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

/// The charsets of texts: all are read as UTF-8.
const CHARSETS: [&str; 3] = ["utf-8", "utf8", "us-ascii"];

/// The media type of a body without its parameters, in lower case. A text in another
/// charset keeps them, and so is of none that is taken.
pub(crate) fn media_type(headers: &HeaderMap) -> Option<String> {
    let value = headers.get(CONTENT_TYPE)?.to_str().ok()?;
    let value = value.to_ascii_lowercase();
    let mut parts = value.split(';');
    let essence = parts.next().unwrap_or_default().trim();
    let is_text = [JSON, TEXT, NDJSON].contains(&essence);
    let is_utf_8 = parts.filter_map(charset).all(|it| CHARSETS.contains(&it));
    match is_text && !is_utf_8 {
        true => Some(value),
        false => Some(essence.to_owned()),
    }
}

/// What a parameter says, if it is the charset.
fn charset(parameter: &str) -> Option<&str> {
    let (name, charset) = parameter.split_once('=')?;
    (name.trim() == "charset").then(|| charset.trim().trim_matches('"'))
}
