//! The attributes of a filter, in JSON.

#[cfg(test)]
pub(super) mod schema;

use super::places::{given, members, pointer};
use crate::chain::params::{
    Attributes, AttributesError, Codes, MAX_ATTRIBUTE_NAME_BYTES, MAX_ATTRIBUTES, MAX_LABELS,
    MAX_VALUE_BITS,
};
use crate::problem::excerpt;
use serde::Deserialize;
use serde_json::value::RawValue;

pub(super) const ALLOWED: &str =
    "an array of 1 to 8 objects, each with the field name and values or hash_bits";

/// Takes a list of attributes apart.
///
/// # Errors
/// The first that can be none.
pub(super) fn attributes(json: &str) -> Result<Attributes, AttributesError> {
    let listed: Vec<&RawValue> = serde_json::from_str(json)
        .map_err(|_| AttributesError::new(String::new(), excerpt(json), ALLOWED))?;
    if listed.len() > MAX_ATTRIBUTES {
        let (given, allowed) = (listed.len(), format!("1 to {MAX_ATTRIBUTES}"));
        let given = format!("a list of {given}");
        return Err(AttributesError::new(String::new(), given, allowed));
    }
    let mut named = Vec::new();
    for (position, one) in listed.into_iter().enumerate() {
        let at = format!("/{position}");
        let object = "an object with the field name and values or hash_bits";
        let fields =
            members(one.get()).map_err(|_| AttributesError::new(at.clone(), given(one), object))?;
        let (mut name, mut codes) = (None, None);
        for (field, value) in fields {
            let at = pointer(&at, &field);
            match field.as_str() {
                "name" if name.is_none() => {
                    let allowed =
                        format!("1 to {MAX_ATTRIBUTE_NAME_BYTES} letters, digits and . _ -");
                    name = Some(read(at, value, allowed)?);
                }
                "values" if codes.is_none() => {
                    let allowed = format!("an array of 1 to {MAX_LABELS} strings");
                    codes = Some(Codes::Exact(read(at, value, allowed)?));
                }
                "hash_bits" if codes.is_none() => {
                    let allowed = format!("an integer from 1 to {MAX_VALUE_BITS}");
                    codes = Some(Codes::Hashed(read(at, value, allowed)?));
                }
                "name" | "values" | "hash_bits" => {
                    let given = "given twice, or beside the other";
                    let allowed = "name, and one of values and hash_bits";
                    return Err(AttributesError::new(at, given, allowed));
                }
                _ => {
                    let allowed = "name, values, hash_bits";
                    return Err(AttributesError::new(at, "not a field here", allowed));
                }
            }
        }
        let left_out = |field| AttributesError::new(pointer(&at, field), "left out", object);
        named.push((
            name.ok_or_else(|| left_out("name"))?,
            codes.ok_or_else(|| left_out("values"))?,
        ));
    }
    Attributes::new(named)
}

fn read<'a, T: Deserialize<'a>>(
    at: String,
    value: &'a RawValue,
    allowed: String,
) -> Result<T, AttributesError> {
    serde_json::from_str(value.get()).map_err(|_| AttributesError::new(at, given(value), allowed))
}
