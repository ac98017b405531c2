//! The fields of a filter, in JSON or in a query.

use super::{given, json_error, pointer, string};
use crate::chain::params::{
    FilterRequest, LayoutKind, MAX_BUCKET_SIZE, MAX_CAPACITY, MAX_EXPANSION,
};
use crate::http::problem::{FieldError, HttpError, Place};
use serde::de::{Deserializer, IgnoredAny, MapAccess, Visitor};
use serde_json::value::RawValue;
use std::fmt;

/// Refused fields that one answer lists.
const MAX_FIELD_ERRORS: usize = 16;

/// Takes the fields of a filter apart. No bytes at all are no fields: the
/// server's defaults. `at` is the pointer to the object in the body.
///
/// # Errors
/// Not JSON, or all refused fields at once. Ranges are not checked here.
pub(crate) fn filter_request(json: &[u8], at: &str) -> Result<FilterRequest, HttpError> {
    let mut fields = Fields {
        at,
        request: FilterRequest::default(),
        seen: Vec::new(),
        refused: Vec::new(),
    };
    if json.iter().all(u8::is_ascii_whitespace) {
        return Ok(fields.request);
    }
    let mut json_reader = serde_json::Deserializer::from_slice(json);
    json_reader
        .deserialize_map(&mut fields)
        .and_then(|()| json_reader.end())
        .map_err(|error| json_error(&error, at, "an object with the fields of a filter"))?;
    match fields.refused.is_empty() {
        true => Ok(fields.request),
        false => Err(HttpError::InvalidFields(fields.refused)),
    }
}

struct Fields<'a> {
    at: &'a str,
    request: FilterRequest,
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
                Some(("given twice".to_owned(), "once".to_owned()))
            } else {
                let text = string(value);
                let text = text
                    .as_deref()
                    .map_or(Scalar::Bare(value.get()), Scalar::Quoted);
                set_field(&mut self.request, &field, text)
                    .err()
                    .map(|allowed| match FIELDS.contains(&field.as_str()) {
                        true => (given(value), allowed),
                        false => ("not a field here".to_owned(), allowed),
                    })
            };
            if let Some((given, allowed)) = refusal {
                self.refused.push(FieldError {
                    place: Place::Body(pointer(self.at, &field)),
                    given,
                    allowed,
                });
            }
            self.seen.push(field);
        }
        Ok(())
    }
}

/// The fields of a filter, as users write them.
pub(crate) const FIELDS: [&str; 6] = [
    "capacity",
    "layout",
    "bucket_size",
    "max_iterations",
    "expansion",
    "max_expansions",
];

/// A value as it was written: in quotes or not.
#[derive(Clone, Copy)]
pub(crate) enum Scalar<'a> {
    Quoted(&'a str),
    Bare(&'a str),
}

/// Sets one field of a request.
///
/// # Errors
/// Says what is allowed.
pub(crate) fn set_field(
    request: &mut FilterRequest,
    field: &str,
    value: Scalar<'_>,
) -> Result<(), String> {
    let number = |allowed: String| match value {
        Scalar::Bare(text) if text.bytes().all(|byte| byte.is_ascii_digit()) => {
            text.parse::<u64>().map(Some).map_err(|_| allowed)
        }
        Scalar::Bare(_) | Scalar::Quoted(_) => Err(allowed),
    };
    let up_to = |low: u64, high: u64| format!("an integer from {low} to {high}");
    match field {
        "capacity" => {
            request.capacity =
                number(format!("an integer from 2 * bucket_size to {MAX_CAPACITY}"))?;
        }
        "layout" => {
            request.layout = match value {
                Scalar::Quoted("classic") => Some(LayoutKind::Classic),
                Scalar::Bare(_) | Scalar::Quoted(_) => return Err("\"classic\"".to_owned()),
            };
        }
        "bucket_size" => request.bucket_size = number(up_to(1, MAX_BUCKET_SIZE))?,
        "max_iterations" => request.max_iterations = number(up_to(1, u64::from(u16::MAX)))?,
        "expansion" => request.expansion = number(up_to(0, MAX_EXPANSION))?,
        "max_expansions" => request.max_expansions = number(up_to(0, u64::from(u16::MAX)))?,
        _ => return Err(FIELDS.join(", ")),
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_of_a_filter_are_refused_all_at_once() {
        let request = filter_request(br#"{"capacity": 10, "layout": "classic"}"#, "").unwrap();
        assert_eq!(request.capacity, Some(10));
        assert_eq!(request.layout, Some(LayoutKind::Classic));
        assert_eq!(filter_request(b" ", "").unwrap(), FilterRequest::default());

        let json =
            br#"{"capacity": -5, "bucket_size": 2.5, "expansion": "x", "max_iterations": 1e30,
            "max_expansions": null, "layout": "paged", "colour": [1]}"#;
        let HttpError::InvalidFields(fields) = filter_request(json, "/create").unwrap_err() else {
            panic!("another error");
        };
        let seen: Vec<_> = fields
            .iter()
            .map(|field| match &field.place {
                Place::Body(pointer) => (pointer.as_str(), field.given.as_str()),
                Place::Query(_) => panic!("not a query"),
            })
            .collect();
        assert_eq!(
            seen,
            [
                ("/create/capacity", "-5"),
                ("/create/bucket_size", "2.5"),
                ("/create/expansion", "\"x\""),
                ("/create/max_iterations", "1e30"),
                ("/create/max_expansions", "null"),
                ("/create/layout", "\"paged\""),
                ("/create/colour", "not a field here"),
            ]
        );
    }
}
