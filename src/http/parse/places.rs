//! What is said of refused JSON: where it stands and what was given.

use crate::http::problem::excerpt;
use serde_json::value::RawValue;

/// The text of a string.
pub(super) fn string(value: &RawValue) -> Option<String> {
    serde_json::from_str(value.get()).ok()
}

/// The start of what was given.
pub(super) fn given(value: &RawValue) -> String {
    excerpt(value.get())
}

/// JSON pointer (RFC 6901) to a field of the object at `at`.
pub(super) fn pointer(at: &str, field: &str) -> String {
    let escaped = field.replace('~', "~0").replace('/', "~1");
    format!("{at}/{}", excerpt(&escaped))
}
