//! The members of JSON objects, and what is said of refused ones: where they stand and
//! what was given.

use crate::http::problem::excerpt;
use serde::de::{Deserializer as _, MapAccess, Visitor};
use serde_json::value::RawValue;
use std::fmt;

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

/// The members of an object, in their order; a name that is there twice is listed
/// twice.
///
/// # Errors
/// It is no object, or something is behind it.
pub(super) fn members(json: &str) -> serde_json::Result<Vec<(String, &RawValue)>> {
    let mut reader = serde_json::Deserializer::from_str(json);
    let members = reader.deserialize_map(Members)?;
    reader.end().map(|()| members)
}

struct Members;

impl<'de> Visitor<'de> for Members {
    type Value = Vec<(String, &'de RawValue)>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut members = Vec::new();
        while let Some(member) = map.next_entry()? {
            members.push(member);
        }
        Ok(members)
    }
}
