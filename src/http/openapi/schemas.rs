//! Schemas that more than one body or parameter has.

use crate::chain::params::LayoutKind;
use crate::engine::MAX_NAME_LENGTH;
use serde_json::{Value, json};
use utoipa::openapi::schema::{
    AnyOfBuilder, ArrayBuilder, KnownFormat, ObjectBuilder, Schema, SchemaFormat, SchemaType, Type,
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
pub(super) fn text() -> ObjectBuilder {
    ObjectBuilder::new().schema_type(Type::String)
}

/// A text of a bounded length.
pub(super) fn text_of(shortest: usize, longest: usize) -> ObjectBuilder {
    text().min_length(Some(shortest)).max_length(Some(longest))
}

/// The key of a filter, or another name of the same characters.
pub(super) fn name(longest: usize) -> ObjectBuilder {
    text_of(1, longest).pattern(Some("^[A-Za-z0-9._:~-]+$"))
}

/// The start of a key; the empty one is the start of all.
pub(super) fn prefix() -> ObjectBuilder {
    text()
        .max_length(Some(MAX_NAME_LENGTH))
        .pattern(Some("^[A-Za-z0-9._:~-]*$"))
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
            "How fingerprints are placed. `paged` reads about one page a question and keeps its error rate while it grows; `classic` is bit-compatible with RedisBloom and Apache Kvrocks.",
        ))
        .examples([json!("paged")])
        .into()
}

/// The width of a slot.
pub(crate) fn fingerprint_bits() -> Schema {
    ObjectBuilder::new()
        .schema_type(Type::Integer)
        .enum_values(Some([8, 16, 32].map(Value::from)))
        .description(Some("`paged`: bits of a slot, instead of an error rate."))
        .examples([json!(16)])
        .into()
}

/// The items of a body.
pub(crate) fn item_list() -> Schema {
    // The bounds are said in words: some generators can't hold them as numbers.
    let integer = ObjectBuilder::new()
        .schema_type(Type::Integer)
        .description(Some(
            "From -2^63 to 2^64-1; its decimal digits are the item.",
        ));
    let string = ObjectBuilder::new()
        .schema_type(Type::String)
        .description(Some("Up to 64 KiB; its UTF-8 bytes are the item."));
    ArrayBuilder::new()
        .items(RefOr::T(Schema::AnyOf(
            AnyOfBuilder::new().item(string).item(integer).build(),
        )))
        .description(Some(
            "Up to 250,000 items, unless the server was started with another limit.",
        ))
        .max_items(None)
        .examples([json!(["SPRING-24", 17])])
        .into()
}

/// The encoding of the items.
pub(crate) fn encoding() -> Schema {
    one_of(["utf-8", "base64"])
        .description(Some(
            "How strings are to be read; with `base64` integers are refused.",
        ))
        .default(Some(json!("utf-8")))
        .examples([json!("utf-8")])
        .into()
}

/// The schema of the filters that a lookup names.
pub(crate) fn named_filters() -> Schema {
    ArrayBuilder::new()
        .items(RefOr::T(Schema::from(name(MAX_NAME_LENGTH))))
        .unique_items(true)
        .description(Some(
            "Keys of the filters to ask, in this order; each once. Either this or `prefix`.",
        ))
        .examples([json!(["campaign-3", "campaign-17"])])
        .into()
}

/// The schema of the filters that a lookup names by the start of their keys.
pub(crate) fn key_prefix() -> Schema {
    prefix()
        .description(Some(
            "Ask all filters whose keys start with this, in byte order of their keys. Either this or `filters`.",
        ))
        .examples([json!("campaign-")])
        .into()
}
