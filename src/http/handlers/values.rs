//! Values of items: add, delete, ask. Whether an item has a value is asked where
//! items are, see `items`.

use super::items::{AddedBody, FlagsBody, added};
use crate::engine::Entries;
use crate::http::App;
use crate::http::answer::{self, Format, flags, value_lists};
use crate::http::extract::{Key, batch, query_item};
use crate::http::idempotency::marked;
use crate::http::middleware::principal::CallerEngine;
use crate::http::openapi::facts::{
    BATCH, BODY, CHANGE, ENGINE, KEYED, KIND, MISSING, PROBES, QUESTION, RETRIED,
};
use crate::http::openapi::parameters::{FilterKey, OneItem};
use crate::http::parse::{AddValuesBody, Batch, BatchKind, EntriesBody, ListValuesBody};
use crate::http::problem::{Code, HttpError};
use axum::extract::{Request, State};
use axum::http::Uri;
use axum::response::Response;
use serde::Serialize;

use std::sync::Arc;
use utoipa::ToSchema;

/// The values of an item.
#[derive(Serialize, ToSchema)]
pub(crate) struct ValuesBody {
    /// Ascending, each once. None is missing; a value of another item can be among them.
    #[schema(example = json!([3, 17]))]
    values: Vec<u32>,
}

/// The values of each item.
#[derive(ToSchema)]
#[expect(dead_code, reason = "describes an answer that is written in one pass")]
pub(crate) struct ValueListsBody {
    /// One list per item, in their order; null for a blank line.
    #[schema(example = json!([[3, 17], []]))]
    results: Vec<Option<Vec<u32>>>,
    /// With `counts`: copies of each value, in the same places; never too low.
    #[schema(required = false, nullable = false)]
    counts: Option<Vec<Option<Vec<u64>>>>,
}

/// The entries of a batch that has to have some.
fn needed(batch: &Batch) -> Result<Entries<'_>, HttpError> {
    batch.entries().ok_or_else(|| HttpError::Unanswerable {
        cause: "a batch of entries has no values".to_owned(),
    })
}

/// Add values to items
///
/// Adds entries to a filter with values: an item and a value each. Adding an entry
/// twice stores two copies of it, unless `only_if_absent` is set. An item may have
/// up to 1,024 values; a further one is `full` by `max_values_per_item`. With an
/// `Idempotency-Key` a repeated request adds nothing.
#[utoipa::path(
    post,
    path = "/filters/{key}/values",
    operation_id = "add_values",
    tag = "values",
    security(("api_key" = ["write"])),
    extensions(("x-fails" = json!([ENGINE, KEYED, MISSING, BODY, BATCH, KIND, CHANGE, RETRIED, [Code::OverQuota, Code::IdempotencyFilterGone]]))),
    params(FilterKey),
    request_body(
        description = "The entries; as `text/plain` one per line, an item, a TAB and a value, with the other fields in the query string (`only_if_absent=true`).",
        content((AddValuesBody = "application/json", example = json!({"entries": [{"item": "ada", "value": 17}, {"item": "ada", "value": 3}]})), (String = "text/plain", example = "ada\t17\nada\t3\n")),
    ),
    responses((
        status = 200,
        description = "One result per entry.",
        content((AddedBody = "application/json", example = json!({"results": ["added", "added"]})), (String = "text/plain", example = "added\nadded\n")),
    ))
)]
pub(crate) async fn add_values(
    State(app): State<Arc<App>>,
    CallerEngine(engine): CallerEngine,
    Key(name): Key,
    request: Request,
) -> Result<Response, HttpError> {
    let format = Format::wanted(request.headers());
    let mut batch = batch(&app, BatchKind::AddValues, request).await?;
    let key = batch.key.take();
    let answered = engine
        .add_values(&name, needed(&batch)?, batch.options.mode, key)
        .await
        .map_err(|error| batch.about_values(error))?;
    Ok(added(format, &answered, batch))
}

/// Delete values of items
///
/// Removes one copy of each entry that is found. **Delete only what was added**:
/// deleting an entry that was never added can remove that of another item, which
/// is then no longer found. Send an `Idempotency-Key` if you may repeat the
/// request.
#[utoipa::path(
    post,
    path = "/filters/{key}/values/delete",
    operation_id = "delete_values",
    tag = "values",
    security(("api_key" = ["write"])),
    extensions(("x-fails" = json!([ENGINE, KEYED, MISSING, BODY, BATCH, KIND, CHANGE, RETRIED, [Code::IdempotencyFilterGone]]))),
    params(FilterKey),
    request_body(
        description = "The entries; as `text/plain` one per line, an item, a TAB and a value.",
        content((EntriesBody = "application/json", example = json!({"entries": [{"item": "ada", "value": 17}]})), (String = "text/plain", example = "ada\t17\n")),
    ),
    responses((
        status = 200,
        description = "Whether each entry was found and removed.",
        content((FlagsBody = "application/json", example = json!({"results": [true]})), (String = "text/plain", example = "true\n")),
    ))
)]
pub(crate) async fn delete_values(
    State(app): State<Arc<App>>,
    CallerEngine(engine): CallerEngine,
    Key(name): Key,
    request: Request,
) -> Result<Response, HttpError> {
    let format = Format::wanted(request.headers());
    let mut batch = batch(&app, BatchKind::DeleteValues, request).await?;
    let key = batch.key.take();
    let answered = engine
        .delete_values(&name, needed(&batch)?, key)
        .await
        .map_err(|error| batch.about_values(error))?;
    let response = flags(format, &answered.answer, &batch.blanks, batch.answer);
    Ok(marked(&answered, response))
}

/// List the values of one item
#[utoipa::path(
    get,
    path = "/filters/{key}/values",
    operation_id = "get_item_values",
    tag = "values",
    security(("api_key" = ["read"])),
    extensions(("x-fails" = json!([ENGINE, KEYED, MISSING, QUESTION, PROBES, KIND]))),
    params(FilterKey, OneItem),
    responses((status = 200, description = "No value is missing; values of other items can be among them.", body = ValuesBody, example = json!({"values": [3, 17]})))
)]
pub(crate) async fn get_values(
    CallerEngine(engine): CallerEngine,
    Key(name): Key,
    uri: Uri,
) -> Result<Response, HttpError> {
    let asked = query_item(&uri, "POST /filters/{key}/values/query")?;
    let listed = engine.values(&name, &asked).await?;
    let values = listed.into_iter().flatten().map(|it| it.value).collect();
    answer::json(&ValuesBody { values })
}

/// List the values of many items
///
/// All values together may be up to 1,048,576.
#[utoipa::path(
    post,
    path = "/filters/{key}/values/query",
    operation_id = "query_values",
    tag = "values",
    security(("api_key" = ["read"])),
    extensions(("x-fails" = json!([ENGINE, KEYED, MISSING, BODY, BATCH, KIND]))),
    params(FilterKey),
    request_body(
        description = "The items; as `text/plain` one per line.",
        content((ListValuesBody = "application/json", example = json!({"items": ["ada", "bob"]})), (String = "text/plain", example = "ada\nbob\n")),
    ),
    responses((
        status = 200,
        description = "The values of each item; as lines with spaces between them, a blank line for none.",
        content((ValueListsBody = "application/json", example = json!({"results": [[3, 17], []]})), (String = "text/plain", example = "3 17\n\n")),
    ))
)]
pub(crate) async fn query_values(
    State(app): State<Arc<App>>,
    CallerEngine(engine): CallerEngine,
    Key(name): Key,
    request: Request,
) -> Result<Response, HttpError> {
    let format = Format::wanted(request.headers());
    let mut batch = batch(&app, BatchKind::ListValues, request).await?;
    let listed = engine
        .in_turn(batch.turn.take())
        .values(&name, &batch.items)
        .await?;
    Ok(value_lists(format, &listed, &batch.blanks, batch.listed))
}
