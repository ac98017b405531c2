//! The fields of a filter in JSON: all that are refused are said at once.

use super::filter_fields::{FilterField, Scalar, TTL_SECONDS, filter_field_names};
use super::{given, json_error, pointer, string};
use crate::chain::params::{Defaults, FilterParams};
use crate::engine::NewFilter;
use crate::problem::{FieldError, FieldPlace, HttpError, Result, excerpt};
use serde::de::{Deserializer, IgnoredAny, MapAccess, Visitor};
use serde_json::value::RawValue;
use std::collections::BTreeMap;
use std::fmt;

/// What is said of a field that nobody knows.
const NOT_A_FIELD: &str = "not a field here";

/// Refused fields that one answer lists.
pub(super) const MAX_FIELD_ERRORS: usize = 16;

/// Takes the fields of a filter apart. No bytes at all are no fields: the
/// server's defaults. `at` is the pointer to the object in the body.
///
/// # Errors
/// Not JSON, or all refused fields at once. Ranges are not checked here.
pub(crate) fn new_filter(json: &[u8], at: &str) -> Result<NewFilter> {
    let mut fields = Fields {
        at,
        ..Fields::default()
    };
    if json.iter().all(u8::is_ascii_whitespace) {
        return Ok(fields.wanted);
    }
    let mut json_reader = serde_json::Deserializer::from_slice(json);
    json_reader
        .deserialize_map(&mut fields)
        .and_then(|()| json_reader.end())
        .map_err(|error| json_error(&error, json, at, "an object with the fields of a filter"))?;
    if fields.refused.is_empty() {
        return Ok(fields.wanted);
    }
    // Beside unknown fields also what no server would take of the others. Beside one
    // that makes no sense, what the others mean together is not known.
    let beyond = if fields.refused.iter().all(|it| it.given == NOT_A_FIELD) {
        let beyond = FilterParams::resolve(&fields.wanted.params, &Defaults::default()).err();
        let place = |field| FieldPlace::Body(pointer(at, field));
        let refused = beyond.into_iter().flatten();
        let refused = refused.map(|it| FieldError::new(place(it.field), it.given, it.allowed));
        refused.collect()
    } else {
        fields.beyond
    };
    fields.refused.extend(beyond);
    fields.refused.truncate(MAX_FIELD_ERRORS);
    Err(HttpError::InvalidFields(fields.refused))
}

#[derive(Default)]
struct Fields<'a> {
    at: &'a str,
    wanted: NewFilter,
    seen: Vec<String>,
    refused: Vec<FieldError>,
    /// Those beyond their own range.
    beyond: Vec<FieldError>,
}

impl Fields<'_> {
    fn read(&mut self, field: &str, value: &RawValue) -> Result<(), FieldError> {
        let at = pointer(self.at, field);
        let place = |below: &str| FieldPlace::Body(at.clone() + below);
        if self.seen.iter().any(|it| it == field) {
            return Err(FieldError::new(place(""), "given twice", "once"));
        }
        let Some(known) = FilterField::find(field) else {
            let allowed = filter_field_names().join(", ");
            return Err(FieldError::new(place(""), NOT_A_FIELD, allowed));
        };
        let text = string(value);
        let text = text.as_deref();
        let text = text.map_or(Scalar::Bare(value.get()), Scalar::Quoted);
        known.set(&mut self.wanted, text).map_err(|it| {
            let given = it.given.map_or_else(|| given(value), |it| excerpt(&it));
            FieldError::new(place(&it.below), given, it.allowed)
        })?;
        if !known.is_in_range(&mut self.wanted) {
            let refusal = FieldError::new(place(""), given(value), known.allowed());
            self.beyond.push(refusal);
        }
        Ok(())
    }
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
            if let Err(refusal) = self.read(&field, value) {
                self.refused.push(refusal);
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
pub(crate) fn changed_ttl(json: &[u8]) -> Result<Option<u64>> {
    const ALLOWED: &str = "an object with the field ttl_seconds";
    let or_null = || format!("{}, or null for no end", TTL_SECONDS.allowed());
    let fields: BTreeMap<String, &RawValue> =
        serde_json::from_slice(json).map_err(|error| json_error(&error, json, "", ALLOWED))?;
    let place = |name: &str| FieldPlace::Body(pointer("", name));
    let unknown = fields.keys().filter(|field| *field != TTL_SECONDS.name);
    let mut refused: Vec<FieldError> = unknown
        .map(|it| FieldError::new(place(it), NOT_A_FIELD, TTL_SECONDS.name))
        .take(MAX_FIELD_ERRORS - 1)
        .collect();
    let mut wanted = NewFilter::default();
    let set = match fields.get(TTL_SECONDS.name).map(|it| it.get()) {
        Some("null") => Ok(()),
        Some(seconds) => TTL_SECONDS
            .set(&mut wanted, Scalar::Bare(seconds))
            .map_err(|_| excerpt(seconds)),
        None => Err("left out".to_owned()),
    };
    if let Err(given) = set {
        refused.push(FieldError::new(place(TTL_SECONDS.name), given, or_null()));
    }
    match refused.is_empty() {
        true => Ok(wanted.ttl_seconds),
        false => Err(HttpError::InvalidFields(refused)),
    }
}

#[cfg(test)]
mod tests;
