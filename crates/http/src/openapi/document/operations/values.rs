//! What is said of the values of items.

use super::super::common_parameters::OneItem;
use super::super::failures::{
    BATCH, BODY, CHANGE, ENGINE, KEYED, KIND, MISSING, PROBES, QUESTION, RETRIED,
};
use super::items::{AddedBody, FlagsBody};
use crate::codes::Code;
use crate::parse::{AddValuesBody, EntriesBody, ListValuesBody, ReplaceValuesBody};
use crate::schemas;
use crate::words::FullReason;
use serde_json::json;
use utoipa::ToSchema;
use utoipa::openapi::RefOr;
use utoipa::openapi::schema::{
    AnyOfBuilder, ArrayBuilder, ObjectBuilder, Schema, SchemaType, Type,
};

/// The values of an item.
#[derive(ToSchema)]
#[expect(dead_code, reason = "describes an answer that is written in one pass")]
pub(super) struct ValuesBody {
    #[schema(schema_with = listed_values)]
    values: Vec<u32>,
}

/// A value, or a row.
fn listed_value() -> Schema {
    let of = |kind: Type| ObjectBuilder::new().schema_type(kind);
    let code = AnyOfBuilder::new()
        .item(Schema::from(of(Type::String)))
        .item(Schema::from(of(Type::Integer)));
    let row = of(Type::Object)
        .additional_properties(Some(RefOr::T(Schema::AnyOf(code.build()))))
        .description(Some(
            "Of a filter with attributes, a row: of an attribute with `values` the value, of one with `hash_bits` the bits of the hash.",
        ));
    let value = of(Type::Integer).description(Some("Of a filter with `value_bits`."));
    let either = AnyOfBuilder::new()
        .item(Schema::from(value))
        .item(Schema::from(row));
    Schema::AnyOf(either.build())
}

/// The schema of the values of an item.
fn listed_values() -> Schema {
    ArrayBuilder::new()
        .items(RefOr::T(listed_value()))
        .description(Some(
            "Ascending, each once. None is missing; a value of another item can be among them.",
        ))
        .examples([json!([3, 17])])
        .into()
}

/// The schema of the values of each item.
fn value_lists_schema() -> Schema {
    let list = ArrayBuilder::new()
        .schema_type(SchemaType::from_iter([Type::Array, Type::Null]))
        .items(RefOr::T(listed_value()));
    ArrayBuilder::new()
        .items(RefOr::T(Schema::from(list)))
        .description(Some(
            "One list per item, in their order; null for a blank line.",
        ))
        .examples([json!([[3, 17], []])])
        .into()
}

/// The values of each item.
#[derive(ToSchema)]
#[expect(dead_code, reason = "describes an answer that is written in one pass")]
pub(super) struct ValueListsBody {
    #[schema(schema_with = value_lists_schema)]
    results: Vec<Option<Vec<u32>>>,
    /// With `counts`: copies of each value, in the same places; never too low.
    #[schema(required = false, nullable = false)]
    counts: Option<Vec<Option<Vec<u64>>>>,
}

/// Results of replacing values.
#[derive(ToSchema)]
#[expect(dead_code, reason = "describes an answer that is written in one pass")]
pub(super) struct ReplacedBody {
    /// One word per entry, in their order; null for a blank line.
    #[schema(schema_with = replaced_list)]
    results: Vec<String>,
    #[schema(inline, nullable = false, required = false)]
    full_reason: Option<FullReason>,
    /// A remedy.
    #[schema(
        required = false,
        example = "the item has 1024 values, which is as many as an item may have; delete one of them first"
    )]
    full_detail: Option<String>,
}

/// The schema of the words of a replacement.
fn replaced_list() -> Schema {
    let words = ["replaced", "absent", "full"];
    let words = schemas::one_of(words).build();
    ArrayBuilder::new()
        .items(RefOr::T(Schema::from(schemas::or_null(words))))
        .description(Some(
            "`replaced`; `absent`: the item was not found with the old value; `full`: no room for the new one. With the last two the entry is as it was. Null for a blank line.",
        ))
        .examples([json!(["replaced", "absent"])])
        .into()
}

/// Add values to items
///
/// Adds entries to a filter with values or attributes: an item and a value, or a row,
/// each. Adding an entry
/// twice stores two copies of it, unless `only_if_absent` is set. An item may have
/// up to 1,024 values; a further one is `full` by `max_values_per_item`. With an
/// `Idempotency-Key` a repeated request adds nothing.
#[utoipa::path(
    post,
    path = "/filters/{key}/values",
    extensions(("x-fails" = json!([ENGINE, KEYED, MISSING, BODY, BATCH, KIND, CHANGE, RETRIED, [Code::OverQuota, Code::OverKeyQuota, Code::IdempotencyFilterGone]]))),
    request_body(
        description = "The entries; as `text/plain` one per line, an item, a TAB and a value, with the other fields in the query string (`only_if_absent=true`). To a filter with attributes a row, with a TAB before each value and `attributes=plan,tag` in the query string, which names these.",
        content((AddValuesBody = "application/json", example = json!({"entries": [{"item": "ada", "value": 17}, {"item": "ada", "value": 3}]})), (String = "text/plain", example = "ada\t17\nada\t3\n")),
    ),
    responses((
        status = 200,
        description = "One result per entry.",
        content((AddedBody = "application/json", example = json!({"results": ["added", "added"]})), (String = "text/plain", example = "added\nadded\n")),
    ))
)]
pub(super) async fn add_values() {}

/// Delete values of items
///
/// Removes one copy of each entry that is found. **Delete only what was added**:
/// deleting an entry that was never added can remove that of another item, which
/// is then no longer found. Send an `Idempotency-Key` if you may repeat the
/// request.
#[utoipa::path(
    post,
    path = "/filters/{key}/values/delete",
    extensions(("x-fails" = json!([ENGINE, KEYED, MISSING, BODY, BATCH, KIND, CHANGE, RETRIED, [Code::IdempotencyFilterGone]]))),
    request_body(
        description = "The entries; as `text/plain` one per line, an item, a TAB and a value. To a filter with attributes a row, as when it is added.",
        content((EntriesBody = "application/json", example = json!({"entries": [{"item": "ada", "value": 17}]})), (String = "text/plain", example = "ada\t17\n")),
    ),
    responses((
        status = 200,
        description = "Whether each entry was found and removed.",
        content((FlagsBody = "application/json", example = json!({"results": [true]})), (String = "text/plain", example = "true\n")),
    ))
)]
pub(super) async fn delete_values() {}

/// Replace values of items
///
/// Each entry has one value in place of another then, one copy of it: both changes or
/// neither, and all entries in one commit. **Replace only what was added**, as with
/// deletes. Send an `Idempotency-Key` if you may repeat the request.
#[utoipa::path(
    post,
    path = "/filters/{key}/values/replace",
    extensions(("x-fails" = json!([ENGINE, KEYED, MISSING, BODY, BATCH, KIND, CHANGE, RETRIED, [Code::OverQuota, Code::OverKeyQuota, Code::IdempotencyFilterGone]]))),
    request_body(
        description = "The entries, each with what it has and what comes in its place: values, or to a filter with attributes rows. As `text/plain` one per line, an item, a TAB, the old value, a TAB and the new one; to a filter with attributes all values of the old row and then all of the new one, with `attributes=plan,tag` in the query string, which names these.",
        content((ReplaceValuesBody = "application/json", example = json!({"entries": [{"item": "ada", "from": 17, "to": 18}]})), (String = "text/plain", example = "ada\t17\t18\n")),
    ),
    responses((
        status = 200,
        description = "One result per entry.",
        content((ReplacedBody = "application/json", example = json!({"results": ["replaced"]})), (String = "text/plain", example = "replaced\n")),
    ))
)]
pub(super) async fn replace_values() {}

/// List the values of one item
#[utoipa::path(
    get,
    path = "/filters/{key}/values",
    extensions(("x-fails" = json!([ENGINE, KEYED, MISSING, QUESTION, PROBES, KIND]))),
    params(OneItem),
    responses((status = 200, description = "No value is missing; values of other items can be among them.", body = ValuesBody, example = json!({"values": [3, 17]})))
)]
pub(super) async fn get_item_values() {}

/// List the values of many items
///
/// All values together may be up to 1,048,576; rows up to 64 MiB.
#[utoipa::path(
    post,
    path = "/filters/{key}/values/query",
    extensions(("x-fails" = json!([ENGINE, KEYED, MISSING, BODY, BATCH, KIND]))),
    request_body(
        description = "The items; as `text/plain` one per line.",
        content((ListValuesBody = "application/json", example = json!({"items": ["ada", "bob"]})), (String = "text/plain", example = "ada\nbob\n")),
    ),
    responses((
        status = 200,
        description = "The values of each item; as lines with spaces between them, rows as JSON, a blank line for none.",
        content((ValueListsBody = "application/json", example = json!({"results": [[3, 17], []]})), (String = "text/plain", example = "3 17\n\n")),
    ))
)]
pub(super) async fn query_values() {}
