//! Schemas of what requests say, as strict as it is held to.

use super::text;
use crate::engine::MAX_NAME_LENGTH;
use utoipa::openapi::RefOr;
use utoipa::openapi::schema::{AdditionalProperties, ArrayBuilder, ObjectBuilder, Schema, Type};

/// A text of a bounded length.
pub(crate) fn text_of(shortest: usize, longest: usize) -> ObjectBuilder {
    text().min_length(Some(shortest)).max_length(Some(longest))
}

/// The key of a filter: visible ASCII, but neither `.` nor `..`, which clients
/// take out of a path.
pub(crate) fn key() -> ObjectBuilder {
    text_of(1, MAX_NAME_LENGTH).pattern(Some(
        "^([!-\\-/-~]|[!-\\-/-~][!-~]|[!-~][!-\\-/-~]|[!-~]{3,})$",
    ))
}

/// Keys of filters, each once.
pub(crate) fn keys() -> ArrayBuilder {
    ArrayBuilder::new()
        .items(RefOr::T(Schema::from(key())))
        .unique_items(true)
}

/// The name of an import.
pub(crate) fn name(longest: usize) -> ObjectBuilder {
    text_of(1, longest).pattern(Some("^[A-Za-z0-9._:~-]+$"))
}

/// The start of a key; the empty one is the start of all.
pub(crate) fn prefix() -> ObjectBuilder {
    text()
        .max_length(Some(MAX_NAME_LENGTH))
        .pattern(Some("^[!-~]*$"))
}

/// A body that is refused when it has further fields.
pub(crate) fn closed_object() -> ObjectBuilder {
    ObjectBuilder::new()
        .schema_type(Type::Object)
        .additional_properties(Some(AdditionalProperties::FreeForm(false)))
}
