//! What is said of the items of filters.

use super::super::common_parameters::{
    ImportCursor, ImportId, ImportInPath, OneItem, WhereRow, WithinSeconds,
};
use super::super::failures::{
    BATCH, BODY, CHANGE, ENGINE, KEYED, KIND, MISSING, PROBES, QUESTION, QUOTA, RETRIED, STREAM,
};
use crate::codes::Code;
use crate::engine::{self, AddResult};
use crate::handlers::imports::{ImportBody, ImportListBody};
use crate::handlers::items::{CountBody, word};
use crate::handlers::locate::LocatedBody;
use crate::parse::{AddBody, CheckBody, ItemsBody, LookupBody};
use crate::schemas;
use crate::words::FullReason;
use serde_json::json;
use utoipa::ToSchema;
use utoipa::openapi::RefOr;
use utoipa::openapi::schema::{ArrayBuilder, Schema};

/// Which filters contain each item.
#[derive(ToSchema)]
#[expect(dead_code, reason = "describes an answer written while it is sent")]
pub(super) struct FoundBody {
    /// For each item the keys of the filters that contain it, in the order in which they were asked.
    results: Vec<Vec<String>>,
    /// Requested keys without a filter.
    missing_filters: Vec<String>,
}

/// Results of adding items.
#[derive(ToSchema)]
#[expect(dead_code, reason = "describes an answer that is written in one pass")]
pub(super) struct AddedBody {
    /// One word per item, in their order; null for a blank line.
    #[schema(schema_with = added_list)]
    results: Vec<String>,
    #[schema(inline, nullable = false, required = false)]
    full_reason: Option<FullReason>,
    /// A remedy.
    #[schema(
        required = false,
        example = "the filter was created with expansion 0 and does not grow; create a larger one and add the items there"
    )]
    full_detail: Option<String>,
}

/// One boolean per item.
#[derive(ToSchema)]
#[expect(dead_code, reason = "describes an answer that is written in one pass")]
pub(super) struct FlagsBody {
    /// In the order of the items; null for a blank line.
    results: Vec<Option<bool>>,
}

/// One number per item.
#[derive(ToSchema)]
#[expect(dead_code, reason = "describes an answer that is written in one pass")]
pub(super) struct CountsBody {
    /// In the order of the items; null for a blank line.
    results: Vec<Option<u64>>,
}

/// Whether an item is in the filter.
#[derive(ToSchema)]
#[expect(dead_code, reason = "describes an answer that is written in one pass")]
pub(super) struct ExistsBody {
    /// False is certain; true can be a false positive.
    exists: bool,
}

/// The schema of the words of an add.
fn added_list() -> Schema {
    let words = [
        AddResult::Added,
        AddResult::Refreshed,
        AddResult::Exists,
        AddResult::Full(engine::FullReason::ExpansionOff),
    ];
    let words = schemas::one_of(words.iter().map(|it| word(it).0)).build();
    ArrayBuilder::new()
        .items(RefOr::T(Schema::from(schemas::or_null(words))))
        .description(Some(
            "`added`; `refreshed`: it was there, and expires later from now on (a filter with a window); `exists`: skipped because it was found (with `only_if_absent`); `full`: no room. Null for a blank line.",
        ))
        .examples([json!(["added", "exists"])])
        .into()
}

/// Add items
///
/// Adding an item twice stores two copies, unless `only_if_absent` is set. In a
/// filter with a window an item that is there is refreshed instead: it expires
/// later from then on. With an `Idempotency-Key` a repeated request adds nothing.
#[utoipa::path(
    post,
    path = "/filters/{key}/items",
    extensions(("x-fails" = json!([ENGINE, KEYED, MISSING, BODY, BATCH, KIND, CHANGE, QUOTA, RETRIED, [Code::IdempotencyFilterGone, Code::NotSiblings]]))),
    request_body(
        description = "The items; as `text/plain` one per line, with the other fields in the query string (`only_if_absent=true`, `create=true`, `capacity=1000`, …).",
        content((AddBody = "application/json", example = json!({"items": ["SPRING-24", "AUTUMN-24", 17]})), (String = "text/plain", example = "SPRING-24\nAUTUMN-24\n17\n")),
    ),
    responses((
        status = 200,
        description = "One result per item.",
        content((AddedBody = "application/json", example = json!({"results": ["added", "added", "added"]})), (String = "text/plain", example = "added\nadded\nadded\n")),
    ))
)]
pub(super) async fn add_items() {}

/// Delete items
///
/// Removes one copy of each item that is found. **Delete only what was added**:
/// deleting an item that was never added can remove another item's fingerprint,
/// and that item is then no longer found. Items of a filter with a window expire
/// by themselves and can't be deleted. Send an `Idempotency-Key` if you may
/// repeat the request.
#[utoipa::path(
    post,
    path = "/filters/{key}/items/delete",
    extensions(("x-fails" = json!([ENGINE, KEYED, MISSING, BODY, BATCH, KIND, CHANGE, RETRIED, [Code::IdempotencyFilterGone]]))),
    request_body(
        description = "The items; as `text/plain` one per line.",
        content((ItemsBody = "application/json", example = json!({"items": ["SPRING-24", "AUTUMN-24"]})), (String = "text/plain", example = "SPRING-24\nAUTUMN-24\n")),
    ),
    responses((
        status = 200,
        description = "Whether each item was found and removed.",
        content((FlagsBody = "application/json", example = json!({"results": [true, false]})), (String = "text/plain", example = "true\nfalse\n")),
    ))
)]
pub(super) async fn delete_items() {}

/// Ask for one item
#[utoipa::path(
    get,
    path = "/filters/{key}/exists",
    extensions(("x-fails" = json!([ENGINE, KEYED, MISSING, QUESTION, PROBES, KIND]))),
    params(OneItem, WithinSeconds, WhereRow),
    responses((status = 200, description = "`false` is certain; `true` can be a false positive.", body = ExistsBody, example = json!({"exists": true})))
)]
pub(super) async fn get_item_exists() {}

/// Ask for many items
///
/// Of a filter with values or attributes also for `entries`: whether an item has a
/// value, or a row. Of a filter with attributes also `where`: whether one row of the
/// item meets a condition. Of a filter with a window also whether each item was seen
/// `within_seconds`.
#[utoipa::path(
    post,
    path = "/filters/{key}/exists",
    extensions(("x-fails" = json!([ENGINE, KEYED, MISSING, BODY, BATCH, KIND]))),
    request_body(
        description = "The items, or entries; as `text/plain` one item per line, with the other fields in the query string (`within_seconds=7200`; `where` as JSON).",
        content((CheckBody = "application/json", example = json!({"items": ["SPRING-24", "AUTUMN-24"]})), (String = "text/plain", example = "SPRING-24\nAUTUMN-24\n")),
    ),
    responses((
        status = 200,
        description = "Whether the filter may contain each item, or entry.",
        content((FlagsBody = "application/json", example = json!({"results": [true, false]})), (String = "text/plain", example = "true\nfalse\n")),
    ))
)]
pub(super) async fn check_items() {}

/// Count one item
#[utoipa::path(
    get,
    path = "/filters/{key}/count",
    extensions(("x-fails" = json!([ENGINE, KEYED, MISSING, QUESTION, PROBES]))),
    params(OneItem),
    responses((status = 200, description = "Copies of the item; never too low.", body = CountBody, example = json!({"count": 2})))
)]
pub(super) async fn get_item_count() {}

/// Count many items
#[utoipa::path(
    post,
    path = "/filters/{key}/count",
    extensions(("x-fails" = json!([ENGINE, KEYED, MISSING, BODY, BATCH]))),
    request_body(
        description = "The items; as `text/plain` one per line.",
        content((ItemsBody = "application/json", example = json!({"items": ["SPRING-24", "AUTUMN-24"]})), (String = "text/plain", example = "SPRING-24\nAUTUMN-24\n")),
    ),
    responses((
        status = 200,
        description = "Copies of each item; never too low.",
        content((CountsBody = "application/json", example = json!({"results": [2, 0]})), (String = "text/plain", example = "2\n0\n")),
    ))
)]
pub(super) async fn count_items() {}

/// Import a stream of items
///
/// One item per line, any number of lines, committed while they are read. To a filter
/// whose items have values or attributes, an entry per line: an item with a value, or
/// with a row.
/// Invalid lines are skipped and reported. The import has a name: when the
/// connection breaks, `GET /filters/{key}/imports/{id}` reports how many lines
/// are committed, and the same request with `from_line` set to the next line
/// resumes. Lines that are already committed are skipped, so sending the whole
/// stream again under the same name adds nothing twice.
#[utoipa::path(
    post,
    path = "/filters/{key}/import",
    extensions(("x-streamed" = json!(true)), ("x-fails" = json!([ENGINE, KEYED, MISSING, KIND, STREAM, [Code::TooManyPages, Code::ImportRunning, Code::ImportsFull, Code::OverKeyQuota], CHANGE]))),
    params(
        ImportId,
        ("from_line" = Option<u64>, Query, description = "Number of the first line of the body within the import, from 1; at most one more than `committed_lines`.", example = 1, minimum = 1),
        ("only_if_absent" = Option<bool>, Query, description = "Skip an item that the filter already contains (or seems to contain, at its false-positive rate).", example = false),
    ),
    request_body(
        description = "The lines. `text/plain`: each is an item, or to a filter with values an item, a TAB and a value, or to one with attributes an item and a TAB before each value of its row, in the order of the filter's attributes. `application/x-ndjson`: each is a JSON string or an integer, or to a filter with values an object with `item` and `value`, or to one with attributes an object with `item` and `attributes`. Also gzipped.",
        content((String = "text/plain", example = "SPRING-24\nAUTUMN-24\n17\n"), (String = "application/x-ndjson", example = "\"SPRING-24\"\n\"AUTUMN-24\"\n17\n")),
    ),
    responses((status = 200, description = "The stream ended, and all of it is committed. Counts are those of the whole import.", body = ImportBody))
)]
pub(super) async fn import_items() {}

/// Query the progress of an import
#[utoipa::path(
    get,
    path = "/filters/{key}/imports/{id}",
    extensions(("x-fails" = json!([ENGINE, KEYED, MISSING, [Code::ImportNotFound]]))),
    params(ImportInPath),
    responses((status = 200, description = "As of its last commit.", body = ImportBody))
)]
pub(super) async fn get_import() {}

/// List the imports into a filter
///
/// Those of which something was committed within the last week, by name, up to 100 on a
/// page. A page may have fewer: the last page is the one without `next_cursor`.
#[utoipa::path(
    get,
    path = "/filters/{key}/imports",
    extensions(("x-fails" = json!([ENGINE, KEYED, MISSING]))),
    params(ImportCursor),
    responses((status = 200, description = "Each as of its last commit.", body = ImportListBody))
)]
pub(super) async fn list_imports() {}

/// Locate an item
///
/// The slots in which the item's fingerprint lies, and those in which it might,
/// for inspecting a filter. Of other items it shows only that a slot is used.
#[utoipa::path(
    get,
    path = "/filters/{key}/locate",
    extensions(("x-fails" = json!([ENGINE, KEYED, MISSING, QUESTION]))),
    params(OneItem),
    responses((status = 200, description = "The item's candidate buckets, by sub-filter.", body = LocatedBody))
)]
pub(super) async fn get_item_location() {}

/// Look items up in many filters
///
/// Answers for each item which filters contain it. A filter in the answer can
/// be a false positive, at the filter's false-positive rate; a filter that is
/// not in the answer is certain. So the rates of all filters that are asked add
/// up: an item that is in none of 1,000 filters with a rate of 0.001 is found in
/// one of them on average. One filter with values has one rate. A filter that does not exist is not an error:
/// `missing_filters` lists it. With `within_seconds` all filters have to have a
/// window, and are asked whether they saw the item so lately. An API key with a prefix asks only the filters
/// of that prefix; others are left out, also of `missing_filters`.
#[utoipa::path(
    post,
    path = "/lookup",
    extensions(("x-fails" = json!([ENGINE, BODY, [Code::BatchTooLarge, Code::LookupTooLarge, Code::TooCostly]]))),
    request_body(
        content = LookupBody,
        description = "The items, and the filters by key or by a prefix of their keys. Up to 1,000 filters, and items times their sub-filters up to 4,000,000, unless the server has other limits.",
        content_type = "application/json",
        example = json!({"items": ["user-42"], "prefix": "campaign-"})
    ),
    responses((
        status = 200,
        description = "One list of keys per item.",
        body = FoundBody,
        example = json!({"results": [["campaign-17", "campaign-3"]], "missing_filters": []})
    ))
)]
pub(super) async fn look_up_items() {}
