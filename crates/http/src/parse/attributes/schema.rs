//! How the description of the API says it.

use super::{MAX_ATTRIBUTE_NAME_BYTES, MAX_ATTRIBUTES, MAX_LABELS, MAX_VALUE_BITS};
use crate::chain::params::MAX_LABEL_BYTES;
use crate::schemas::strict::closed_object;
use serde_json::json;
use utoipa::openapi::RefOr;
use utoipa::openapi::schema::{Array, ArrayBuilder, ObjectBuilder, Schema, Type};

/// The schema of the list.
pub(in crate::parse) fn schema(about: &str) -> Array {
    let label = ObjectBuilder::new()
        .schema_type(Type::String)
        .max_length(Some(MAX_LABEL_BYTES))
        .pattern(Some(r"^[^\u0000-\u001F\u007F-\u009F]*$"));
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
