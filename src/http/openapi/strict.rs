//! Makes the description as strict as the server is, as far as a schema can
//! say it: what a key, an item or a cursor looks like, which bodies are bytes,
//! and that unknown fields are refused. Each is said once, by name, for all
//! operations.

use crate::engine::{MAX_IMPORT_ID_LENGTH, MAX_NAME_LENGTH};
use crate::http::bounds::{MAX_IDEMPOTENCY_KEY_BYTES, MAX_QUERY_ITEM_BYTES};
use crate::http::media::{DUMP, SCANDUMP, TAR};
use serde_json::json;
use utoipa::openapi::path::{Operation, Parameter};
use utoipa::openapi::schema::{
    AdditionalProperties, ArrayBuilder, KnownFormat, ObjectBuilder, Schema, SchemaFormat, Type,
};
use utoipa::openapi::{Components, Content, RefOr};

/// Bodies that are read field by field.
const READ_BODIES: [&str; 5] = [
    "AddBody",
    "FilterChanges",
    "FilterFields",
    "ItemsBody",
    "LookupBody",
];

/// Media types that are bytes and no text.
const BYTES: [&str; 3] = [DUMP, SCANDUMP, TAR];

/// Base64url of whole bytes; the bits that are left over in the last character
/// are zero, so that no two texts are the same item.
const BASE64URL: &str =
    "^(?:[A-Za-z0-9_-]{4})*(?:[A-Za-z0-9_-][AQgw](?:==)?|[A-Za-z0-9_-]{2}[AEIMQUYcgkosw048]=?)?$";

/// The characters of that for the longest item of a query.
const MAX_BASE64URL_LENGTH: usize = MAX_QUERY_ITEM_BYTES.div_ceil(3) * 4;

/// Gives the parameters and bodies of an operation their schemas.
pub(super) fn parts(operation: &mut Operation) {
    let id = operation.operation_id.clone().unwrap_or_default();
    for parameter in operation.parameters.iter_mut().flatten() {
        if let RefOr::T(parameter) = parameter
            && let Some(schema) = of_parameter(&id, parameter)
        {
            parameter.schema = Some(schema.into());
        }
    }
    if let Some(RefOr::T(body)) = &mut operation.request_body {
        bytes(body.content.iter_mut());
    }
    for response in operation.responses.responses.values_mut() {
        if let RefOr::T(response) = response {
            bytes(response.content.iter_mut());
        }
    }
}

/// Says of the bodies of requests that they have no further fields.
pub(super) fn bodies(components: &mut Components) {
    for name in READ_BODIES {
        if let Some(RefOr::T(Schema::Object(object))) = components.schemas.get_mut(name) {
            object.additional_properties = Some(Box::new(AdditionalProperties::FreeForm(false)));
        }
    }
}

fn of_parameter(operation: &str, parameter: &Parameter) -> Option<Schema> {
    let schema = match (operation, parameter.name.as_str()) {
        (_, "key" | "cursor") => key(),
        (_, "prefix") => prefix(),
        ("get_import", "id") | (_, "import_id") => {
            named(1, MAX_IMPORT_ID_LENGTH).pattern(Some("^[A-Za-z0-9._:~-]+$"))
        }
        // Any number of digits is a number, however large.
        (_, "limit") => ObjectBuilder::new()
            .schema_type(Type::Integer)
            .minimum(Some(0)),
        (_, "item") => text().max_length(Some(MAX_QUERY_ITEM_BYTES)),
        (_, "item_base64url") => text()
            .max_length(Some(MAX_BASE64URL_LENGTH))
            .pattern(Some(BASE64URL)),
        (_, "Idempotency-Key") => named(1, MAX_IDEMPOTENCY_KEY_BYTES).pattern(Some("^[!-~]+$")),
        _ => return None,
    };
    Some(schema.into())
}

fn text() -> ObjectBuilder {
    ObjectBuilder::new().schema_type(Type::String)
}

fn named(shortest: usize, longest: usize) -> ObjectBuilder {
    text().min_length(Some(shortest)).max_length(Some(longest))
}

/// The schema of the key of a filter.
fn key() -> ObjectBuilder {
    named(1, MAX_NAME_LENGTH).pattern(Some("^[A-Za-z0-9._:~-]+$"))
}

/// The schema of the start of a key; the empty one is the start of all.
fn prefix() -> ObjectBuilder {
    text()
        .max_length(Some(MAX_NAME_LENGTH))
        .pattern(Some("^[A-Za-z0-9._:~-]*$"))
}

/// The schema of the filters that a lookup names.
pub(in crate::http) fn named_filters() -> Schema {
    ArrayBuilder::new()
        .items(RefOr::T(Schema::from(key())))
        .unique_items(true)
        .description(Some(
            "Keys of the filters to ask, in this order; each once. Either this or `prefix`.",
        ))
        .examples([json!(["campaign-3", "campaign-17"])])
        .into()
}

/// The schema of the filters that a lookup names by the start of their keys.
pub(in crate::http) fn key_prefix() -> Schema {
    prefix()
        .description(Some(
            "Ask all filters whose keys start with this, in byte order of their keys. Either this or `filters`.",
        ))
        .examples([json!("campaign-")])
        .into()
}

/// Media types of bytes have a schema that generators take for bytes.
fn bytes<'a>(contents: impl Iterator<Item = (&'a String, &'a mut RefOr<Content>)>) {
    for (media_type, content) in contents {
        if let RefOr::T(content) = content
            && BYTES.contains(&media_type.as_str())
        {
            let schema = text().format(Some(SchemaFormat::KnownFormat(KnownFormat::Binary)));
            content.schema = Some(RefOr::T(schema.into()));
        }
    }
}
