//! Of the tests: schemas that more than one body or parameter has.

pub(crate) mod strict;

use crate::chain::params::LayoutKind;
use serde_json::{Value, json};
use utoipa::openapi::schema::{KnownFormat, ObjectBuilder, Schema, SchemaFormat, SchemaType, Type};
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
