//! The fields of a filter, in JSON or in a query.

use super::{given, json_error, pointer, string};
use crate::chain::params::{LayoutKind, MAX_BUCKET_SIZE, MAX_CAPACITY, MAX_EXPANSION};
use crate::engine::{MAX_TTL_SECONDS, NewFilter};
use crate::http::problem::{FieldError, HttpError, Place};
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
                Some(("given twice".to_owned(), "once".to_owned()))
            } else {
                let text = string(value);
                let text = text
                    .as_deref()
                    .map_or(Scalar::Bare(value.get()), Scalar::Quoted);
                set_field(&mut self.wanted, &field, text)
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
pub(crate) const FIELDS: [&str; 9] = [
    "capacity",
    "error_rate",
    "fingerprint_bits",
    "layout",
    "bucket_size",
    "max_iterations",
    "expansion",
    "max_expansions",
    "ttl_seconds",
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
    wanted: &mut NewFilter,
    field: &str,
    value: Scalar<'_>,
) -> Result<(), String> {
    let request = &mut wanted.params;
    let number = |allowed: String| match value {
        Scalar::Bare(text) if text.bytes().all(|byte| byte.is_ascii_digit()) => {
            text.parse::<u64>().map(Some).map_err(|_| allowed)
        }
        Scalar::Bare(text) => whole(text).map(Some).ok_or(allowed),
        Scalar::Quoted(_) => Err(allowed),
    };
    let up_to = |low: u64, high: u64| format!("an integer from {low} to {high}");
    match field {
        "capacity" => {
            request.capacity = number(format!("an integer from 1 to {MAX_CAPACITY}"))?;
        }
        "error_rate" => {
            request.error_rate = match value {
                // What JSON takes for a number; a query follows the same rule.
                Scalar::Bare(text) => serde_json::from_str(text).ok(),
                Scalar::Quoted(_) => None,
            };
            if request.error_rate.is_none() {
                return Err("a number from 2e-8 to 0.5, such as 0.001".to_owned());
            }
        }
        "fingerprint_bits" => request.fingerprint_bits = number("8, 16 or 32".to_owned())?,
        "layout" => {
            request.layout = match value {
                Scalar::Quoted("paged") => Some(LayoutKind::Paged),
                Scalar::Quoted("classic") => Some(LayoutKind::Classic),
                Scalar::Bare(_) | Scalar::Quoted(_) => {
                    return Err("\"paged\" or \"classic\"".to_owned());
                }
            };
        }
        "bucket_size" => request.bucket_size = number(up_to(1, MAX_BUCKET_SIZE))?,
        "max_iterations" => request.max_iterations = number(up_to(1, u64::from(u16::MAX)))?,
        "expansion" => request.expansion = number(up_to(0, MAX_EXPANSION))?,
        "max_expansions" => request.max_expansions = number(up_to(0, u64::from(u16::MAX)))?,
        "ttl_seconds" => wanted.ttl_seconds = number(up_to(1, MAX_TTL_SECONDS))?,
        _ => return Err(FIELDS.join(", ")),
    }
    Ok(())
}

/// An integer that is written with a fraction of zero or with an exponent, as
/// some languages write large ones: `1e6` is as good as `1000000`.
fn whole(text: &str) -> Option<u64> {
    /// Up to here each integer has a double of its own.
    const LARGEST: f64 = 9_007_199_254_740_992.0;
    let number: f64 = serde_json::from_str(text).ok()?;
    let is_whole = number.fract() == 0.0 && (0.0..=LARGEST).contains(&number);
    is_whole.then_some(number as u64)
}

/// Takes the body of a PATCH apart: `ttl_seconds`, a number or null.
///
/// # Errors
/// Not JSON, a refused or an unknown field, or none at all.
pub(crate) fn changed_ttl(json: &[u8]) -> Result<Option<u64>, HttpError> {
    const ALLOWED: &str = "an object with the field ttl_seconds";
    let fields: BTreeMap<String, &RawValue> =
        serde_json::from_slice(json).map_err(|error| json_error(&error, "", ALLOWED))?;
    if let Some(unknown) = fields.keys().find(|field| *field != "ttl_seconds") {
        return Err(HttpError::field(
            pointer("", unknown),
            "not a field here",
            "ttl_seconds",
        ));
    }
    let Some(value) = fields.get("ttl_seconds") else {
        let allowed = format!("an integer from 1 to {MAX_TTL_SECONDS}, or null for no end");
        return Err(HttpError::field(
            pointer("", "ttl_seconds"),
            "left out",
            allowed,
        ));
    };
    if value.get() == "null" {
        return Ok(None);
    }
    let mut wanted = NewFilter::default();
    set_field(&mut wanted, "ttl_seconds", Scalar::Bare(value.get())).map_err(|allowed| {
        let allowed = format!("{allowed}, or null for no end");
        HttpError::field(pointer("", "ttl_seconds"), given(value), allowed)
    })?;
    Ok(wanted.ttl_seconds)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_of_a_filter_are_refused_all_at_once() {
        let json = br#"{"capacity": 10, "layout": "classic", "ttl_seconds": 60}"#;
        let wanted = new_filter(json, "").unwrap();
        assert_eq!(wanted.params.capacity, Some(10));
        assert_eq!(wanted.params.layout, Some(LayoutKind::Classic));
        assert_eq!(wanted.ttl_seconds, Some(60));
        let wanted = new_filter(br#"{"error_rate": 1e-3, "layout": "paged"}"#, "").unwrap();
        assert_eq!(wanted.params.error_rate, Some(0.001));
        assert_eq!(wanted.params.layout, Some(LayoutKind::Paged));
        assert_eq!(new_filter(b" ", "").unwrap(), NewFilter::default());

        let json =
            br#"{"capacity": -5, "bucket_size": 2.5, "expansion": "x", "max_iterations": 1e30,
            "max_expansions": null, "layout": "pages", "error_rate": "0.1", "fingerprint_bits": 16.1, "colour": [1]}"#;
        let HttpError::InvalidFields(fields) = new_filter(json, "/create").unwrap_err() else {
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
                ("/create/layout", "\"pages\""),
                ("/create/error_rate", "\"0.1\""),
                ("/create/fingerprint_bits", "16.1"),
                ("/create/colour", "not a field here"),
            ]
        );
    }

    #[test]
    fn a_whole_number_is_an_integer_however_it_is_written() {
        let capacity = |text: &str| {
            let json = format!(r#"{{"capacity": {text}}}"#);
            new_filter(json.as_bytes(), "").map(|wanted| wanted.params.capacity)
        };
        for (text, number) in [
            ("306371.0", 306_371),
            ("1e6", 1_000_000),
            ("2.5E1", 25),
            ("-0.0", 0),
            ("9007199254740992.0", 1 << 53),
            ("18446744073709551615", u64::MAX),
        ] {
            assert_eq!(capacity(text).unwrap(), Some(number), "{text}");
        }
        for text in [
            "0.5", "-1.0", "1e-1", "1e17", "1e400", "true", "[1]", "\"1.0\"",
        ] {
            assert!(capacity(text).is_err(), "{text}");
        }
        assert_eq!(changed_ttl(br#"{"ttl_seconds": 6e1}"#).unwrap(), Some(60));
    }

    #[test]
    fn a_changed_end_is_a_number_or_null() {
        assert_eq!(changed_ttl(br#"{"ttl_seconds": 60}"#).unwrap(), Some(60));
        assert_eq!(changed_ttl(br#"{"ttl_seconds": null}"#).unwrap(), None);
        for json in [
            "",
            "{}",
            "[]",
            r#"{"ttl_seconds": "60"}"#,
            r#"{"ttl_seconds": -1}"#,
            r#"{"ttl_seconds": 1, "capacity": 5}"#,
        ] {
            assert!(changed_ttl(json.as_bytes()).is_err(), "{json}");
        }
    }
}
