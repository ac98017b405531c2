//! The members of JSON objects, and what is said of refused ones: where they stand and
//! what was given.

use crate::problem::{FieldError, FieldPlace, HttpError, Result, excerpt};
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

/// Refused items of one request: the first are named, the others counted.
#[derive(Default)]
pub(super) struct Refusals {
    named: Vec<FieldError>,
    others: usize,
}

impl Refusals {
    /// So many are named.
    const NAMED: usize = 8;

    /// Adds what is wrong with an item.
    pub(super) fn add(&mut self, refusal: HttpError) {
        match refusal {
            HttpError::InvalidFields(fields) if self.named.len() < Refusals::NAMED => {
                self.named.extend(fields);
            }
            _ => self.others += 1,
        }
    }

    /// What there is to say of the list at that place.
    pub(super) fn fields(mut self, at: &str) -> Vec<FieldError> {
        if self.others > 0 {
            let more = format!("refused in {} more places", self.others);
            let place = FieldPlace::Body(at.to_owned());
            let allowed = "what is said of those before";
            self.named.push(FieldError::new(place, more, allowed));
        }
        self.named
    }

    /// # Errors
    /// An item was refused.
    pub(super) fn none(self, at: &str) -> Result<()> {
        match self.named.is_empty() {
            true => Ok(()),
            false => Err(HttpError::InvalidFields(self.fields(at))),
        }
    }
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
