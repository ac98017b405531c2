//! Schemas that more than one body or parameter has.

use crate::chain::params::LayoutKind;
use crate::engine::MAX_NAME_LENGTH;
use serde_json::{Value, json};
use utoipa::openapi::schema::{
    AdditionalProperties, KnownFormat, ObjectBuilder, Schema, SchemaFormat, SchemaType, Type,
};
use utoipa::openapi::{Object, RefOr};
use utoipa::{PartialSchema, ToSchema};

/// Bytes that are no text: a schema that generators of clients take for bytes.
pub(crate) struct Binary;

impl PartialSchema for Binary {
    fn schema() -> RefOr<Schema> {
        let format = SchemaFormat::KnownFormat(KnownFormat::Binary);
        RefOr::T(text().format(Some(format)).into())
    }
}

impl ToSchema for Binary {}

/// Any text.
pub(crate) fn text() -> ObjectBuilder {
    ObjectBuilder::new().schema_type(Type::String)
}

/// A text of a bounded length.
pub(super) fn text_of(shortest: usize, longest: usize) -> ObjectBuilder {
    text().min_length(Some(shortest)).max_length(Some(longest))
}

/// The key of a filter: visible ASCII, but neither `.` nor `..`, which clients
/// take out of a path.
pub(crate) fn key() -> ObjectBuilder {
    text_of(1, MAX_NAME_LENGTH).pattern(Some(
        "^([!-\\-/-~]|[!-\\-/-~][!-~]|[!-~][!-\\-/-~]|[!-~]{3,})$",
    ))
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

/// One of these words.
pub(crate) fn one_of<'a>(words: impl IntoIterator<Item = &'a str>) -> ObjectBuilder {
    text().enum_values(Some(words.into_iter().map(Value::from)))
}

/// One of the words of an enum, or null.
pub(crate) fn nullable<T: PartialSchema>(description: &str) -> RefOr<Schema> {
    match T::schema() {
        RefOr::T(Schema::Object(words)) => {
            let mut words = or_null(words);
            words.description = Some(description.to_owned());
            words.into()
        }
        other => other,
    }
}

/// The same words, or null.
pub(crate) fn or_null(mut words: Object) -> Object {
    words.schema_type = SchemaType::from_iter([Type::String, Type::Null]);
    if let Some(words) = &mut words.enum_values {
        words.push(Value::Null);
    }
    words
}

/// The name of a layout.
pub(crate) fn layout() -> Schema {
    one_of(LayoutKind::ALL.map(LayoutKind::name))
        .description(Some(
            "How fingerprints are placed. `paged` reads about one page per question and keeps its false-positive rate while it grows; `classic` is bit-compatible with RedisBloom and Apache Kvrocks.",
        ))
        .examples([json!("paged")])
        .into()
}

/// A body that is refused when it has further fields.
pub(crate) fn closed_object() -> ObjectBuilder {
    ObjectBuilder::new()
        .schema_type(Type::Object)
        .additional_properties(Some(AdditionalProperties::FreeForm(false)))
}
