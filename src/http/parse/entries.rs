//! What an entry is made of, an item with a value: in lines, and in JSON.

use super::batch_fields::MAX_VALUE;
use crate::http::problem::{HttpError, excerpt};
use serde_json::value::RawValue;
use std::ops::Range;

/// Takes a line apart: what is before its last TAB is the item.
///
/// # Errors
/// No TAB, or what follows is no value.
pub(super) fn entry_of_line(
    line: &[u8],
    name: impl FnOnce() -> String,
) -> Result<(Range<usize>, u32), HttpError> {
    let Some(tab) = memchr::memrchr(b'\t', line) else {
        let allowed = "an item, a TAB and a value";
        return Err(HttpError::field(name(), "without a TAB", allowed));
    };
    let text = line.get(tab + 1..).unwrap_or_default();
    let text = std::str::from_utf8(text).unwrap_or("not a number");
    match value(text) {
        Some(value) => Ok((0..tab, value)),
        None => Err(HttpError::field(name(), excerpt(text), allowed_values())),
    }
}

/// A value as it is written; whether it is too large for its filter is found out
/// there.
pub(super) fn value(text: &str) -> Option<u32> {
    let is_plain = text.bytes().all(|byte| byte.is_ascii_digit());
    text.parse().ok().filter(|_| is_plain)
}

pub(super) fn allowed_values() -> String {
    format!("an integer from 0 to {MAX_VALUE}, as far as value_bits of the filter allow")
}

pub(super) const ENTRY: &str = "an object with the fields item and value";

/// What a value of JSON is, in a few words.
pub(super) fn kind_of(json: &RawValue) -> &'static str {
    match json.get().as_bytes().first() {
        Some(b'"') => "a string",
        Some(b'{') => "an object",
        Some(b'[') => "an array",
        Some(b't' | b'f') => "a boolean",
        Some(b'n') => "null",
        _ => "a number",
    }
}

/// Where the item of an entry stands.
pub(super) fn entry_item(index: usize) -> String {
    format!("/entries/{index}/item")
}
