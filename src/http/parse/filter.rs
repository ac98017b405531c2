//! The fields of a filter in JSON: all that are refused are said at once.

use super::filter_fields::{FilterField, Scalar, TTL_SECONDS, filter_field_names};
use super::{given, json_error, pointer, string};
use crate::engine::NewFilter;
use crate::http::problem::{FieldError, HttpError, Place, excerpt};
use serde::de::{Deserializer, IgnoredAny, MapAccess, Visitor};
use serde_json::value::RawValue;
use std::collections::BTreeMap;
use std::fmt;

/// Refused fields that one answer lists.
const MAX_FIELD_ERRORS: usize = 16;

/// Takes the fields of a filter apart. No bytes at all are no fields: the
/// server's defaults. `at` is the pointer to the object in the body.
///
/// # Errors
/// Not JSON, or all refused fields at once. Ranges are not checked here.
pub(crate) fn new_filter(json: &[u8], at: &str) -> Result<NewFilter, HttpError> {
    let mut fields = Fields {
        at,
        wanted: NewFilter::default(),
        seen: Vec::new(),
        refused: Vec::new(),
    };
    if json.iter().all(u8::is_ascii_whitespace) {
        return Ok(fields.wanted);
    }
    let mut json_reader = serde_json::Deserializer::from_slice(json);
    json_reader
        .deserialize_map(&mut fields)
        .and_then(|()| json_reader.end())
        .map_err(|error| json_error(&error, at, "an object with the fields of a filter"))?;
    match fields.refused.is_empty() {
        true => Ok(fields.wanted),
        false => Err(HttpError::InvalidFields(fields.refused)),
    }
}

struct Fields<'a> {
    at: &'a str,
    wanted: NewFilter,
    seen: Vec<String>,
    refused: Vec<FieldError>,
}

impl<'de> Visitor<'de> for &mut Fields<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object with the fields of a filter")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        while let Some(field) = map.next_key::<String>()? {
            if self.refused.len() >= MAX_FIELD_ERRORS {
                map.next_value::<IgnoredAny>()?;
                continue;
            }
            let value: &RawValue = map.next_value()?;
            let refusal = if self.seen.contains(&field) {
                Some((String::new(), "given twice".to_owned(), "once".to_owned()))
            } else {
                let text = string(value);
                let text = text
                    .as_deref()
                    .map_or(Scalar::Bare(value.get()), Scalar::Quoted);
                match FilterField::find(&field) {
                    None => Some((
                        String::new(),
                        "not a field here".to_owned(),
                        filter_field_names().join(", "),
                    )),
                    Some(known) => {
                        let set = known.set(&mut self.wanted, text);
                        set.err().map(|it| {
                            let given = match it.given {
                                Some(given) => excerpt(&given),
                                None => given(value),
                            };
                            (it.below, given, it.allowed)
                        })
                    }
                }
            };
            if let Some((below, given, allowed)) = refusal {
                self.refused.push(FieldError {
                    place: Place::Body(pointer(self.at, &field) + &below),
                    given,
                    allowed,
                });
            }
            self.seen.push(field);
        }
        Ok(())
    }
}

/// Takes the body of a PATCH apart: `ttl_seconds`, a number or null.
///
/// # Errors
/// Not JSON, a refused or an unknown field, or none at all.
pub(crate) fn changed_ttl(json: &[u8]) -> Result<Option<u64>, HttpError> {
    const ALLOWED: &str = "an object with the field ttl_seconds";
    let or_null = || format!("{}, or null for no end", TTL_SECONDS.allowed());
    let fields: BTreeMap<String, &RawValue> =
        serde_json::from_slice(json).map_err(|error| json_error(&error, "", ALLOWED))?;
    if let Some(unknown) = fields.keys().find(|field| *field != TTL_SECONDS.name) {
        return Err(HttpError::field(
            pointer("", unknown),
            "not a field here",
            TTL_SECONDS.name,
        ));
    }
    let Some(value) = fields.get(TTL_SECONDS.name) else {
        let place = pointer("", TTL_SECONDS.name);
        return Err(HttpError::field(place, "left out", or_null()));
    };
    if value.get() == "null" {
        return Ok(None);
    }
    let mut wanted = NewFilter::default();
    let set = TTL_SECONDS.set(&mut wanted, Scalar::Bare(value.get()));
    set.map_err(|_| HttpError::field(pointer("", TTL_SECONDS.name), given(value), or_null()))?;
    Ok(wanted.ttl_seconds)
}

#[cfg(test)]
mod tests;
