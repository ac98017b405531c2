//! The attributes of a filter, in JSON.

#[cfg(test)]
pub(super) mod schema;

use super::places::{given, members, pointer};
use crate::chain::params::{
    Attributes, AttributesError, Codes, MAX_ATTRIBUTE_NAME_BYTES, MAX_ATTRIBUTES, MAX_LABELS,
    MAX_VALUE_BITS,
};
use serde_json::value::RawValue;

pub(super) const ALLOWED: &str =
    "an array of 1 to 8 objects, each with the field name and values or hash_bits";

/// Takes a list of attributes apart.
///
/// # Errors
/// The first that can be none.
pub(super) fn attributes(json: &str) -> Result<Attributes, AttributesError> {
    let refuse = |pointer: String, given: String, allowed: String| AttributesError {
        pointer,
        given,
        allowed,
    };
    let listed: Vec<&RawValue> = serde_json::from_str(json).map_err(|_| {
        refuse(
            String::new(),
            crate::problem::excerpt(json),
            ALLOWED.to_owned(),
        )
    })?;
    if listed.len() > MAX_ATTRIBUTES {
        let given = format!("a list of {}", listed.len());
        return Err(refuse(
            String::new(),
            given,
            format!("1 to {MAX_ATTRIBUTES}"),
        ));
    }
    let mut named = Vec::new();
    for (position, one) in listed.into_iter().enumerate() {
        let at = format!("/{position}");
        let object = "an object with the field name and values or hash_bits".to_owned();
        let fields =
            members(one.get()).map_err(|_| refuse(at.clone(), given(one), object.clone()))?;
        let (mut name, mut codes) = (None, None);
        for (field, value) in fields {
            let at = pointer(&at, &field);
            let text = value.get();
            let is_again = match field.as_str() {
                "name" => name.is_some(),
                "values" | "hash_bits" => codes.is_some(),
                _ => {
                    let allowed = "name, values, hash_bits".to_owned();
                    return Err(refuse(at, "not a field here".to_owned(), allowed));
                }
            };
            if is_again {
                let allowed = "name, and one of values and hash_bits".to_owned();
                return Err(refuse(
                    at,
                    "given twice, or beside the other".to_owned(),
                    allowed,
                ));
            }
            let refuse = |allowed: String| refuse(at, given(value), allowed);
            match field.as_str() {
                "name" => {
                    let read: Option<String> = serde_json::from_str(text).ok();
                    let allowed =
                        || format!("1 to {MAX_ATTRIBUTE_NAME_BYTES} letters, digits and . _ -");
                    name = Some(read.ok_or_else(|| refuse(allowed()))?);
                }
                "values" => {
                    let read: Option<Vec<String>> = serde_json::from_str(text).ok();
                    let allowed = || format!("an array of 1 to {MAX_LABELS} strings");
                    codes = Some(Codes::Exact(read.ok_or_else(|| refuse(allowed()))?));
                }
                _ => {
                    let read: Option<u8> = serde_json::from_str(text).ok();
                    let allowed = || format!("an integer from 1 to {MAX_VALUE_BITS}");
                    codes = Some(Codes::Hashed(read.ok_or_else(|| refuse(allowed()))?));
                }
            }
        }
        let left_out = |field: &str| {
            let at = pointer(&at, field);
            refuse(at, "left out".to_owned(), object.clone())
        };
        named.push((
            name.ok_or_else(|| left_out("name"))?,
            codes.ok_or_else(|| left_out("values"))?,
        ));
    }
    Attributes::new(named)
}
