//! The attributes of a filter, in JSON.

use super::places::{given, members, pointer};
use crate::chain::params::{
    Attributes, AttributesError, Codes, MAX_ATTRIBUTE_NAME_BYTES, MAX_ATTRIBUTES, MAX_LABEL_BYTES,
    MAX_LABELS, MAX_VALUE_BITS,
};
use crate::http::openapi::schemas::closed_object;
use serde_json::json;
use serde_json::value::RawValue;
use utoipa::openapi::RefOr;
use utoipa::openapi::schema::{Array, ArrayBuilder, ObjectBuilder, Schema, Type};

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
            crate::http::problem::excerpt(json),
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

/// The schema of the list.
pub(super) fn schema(about: &str) -> Array {
    let label = ObjectBuilder::new()
        .schema_type(Type::String)
        .max_length(Some(MAX_LABEL_BYTES));
    let attribute = closed_object()
        .property(
            "name",
            ObjectBuilder::new()
                .schema_type(Type::String)
                .min_length(Some(1))
                .max_length(Some(MAX_ATTRIBUTE_NAME_BYTES))
                .pattern(Some("^[A-Za-z0-9._-]+$"))
                .description(Some("Its name.")),
        )
        .property(
            "values",
            ArrayBuilder::new()
                .items(RefOr::T(Schema::from(label)))
                .min_items(Some(1))
                .max_items(Some(MAX_LABELS))
                .unique_items(true)
                .description(Some(
                    "All values that it can have. They are kept exactly, in as many bits as number them.",
                )),
        )
        .property(
            "hash_bits",
            ObjectBuilder::new()
                .schema_type(Type::Integer)
                .minimum(Some(1))
                .maximum(Some(MAX_VALUE_BITS))
                .description(Some(
                    "In place of `values`: it can have any value, of which so many bits of a hash are kept.",
                )),
        )
        .required("name");
    ArrayBuilder::new()
        .items(RefOr::T(Schema::from(attribute.build())))
        .min_items(Some(1))
        .max_items(Some(MAX_ATTRIBUTES))
        .description(Some(about))
        .examples([json!([
            {"name": "plan", "values": ["free", "pro"]},
            {"name": "tag", "hash_bits": 5},
        ])])
        .build()
}
