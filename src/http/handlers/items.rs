//! Items: add, delete, ask, count. One item and many go the same way.

use crate::engine::{self, AddResult, Answered, Engine, FilterName};
use crate::http::App;
use crate::http::answer::{self, Format, Word, flags, results};
use crate::http::extract::{CallerEngine, Key, batch, query_exists, query_item};
use crate::http::idempotency::marked;
use crate::http::openapi::facts::{
    BATCH, BODY, CHANGE, ENGINE, KEYED, KIND, MISSING, PROBES, QUESTION, QUOTA, RETRIED,
};
use crate::http::openapi::parameters::{FilterKey, OneItem, WhereRow, WithinSeconds};
use crate::http::openapi::schemas;
use crate::http::parse::{AddBody, Batch, BatchKind, CheckBody, ItemsBody};
use crate::http::problem::{Code, HttpError};
use crate::http::words::FullReason;
use axum::extract::{Request, State};
use axum::http::Uri;
use axum::response::Response;
use serde::Serialize;
use serde_json::json;
use std::sync::Arc;
use utoipa::ToSchema;
use utoipa::openapi::RefOr;
use utoipa::openapi::schema::{ArrayBuilder, Schema};

/// Results of adding items.
#[derive(ToSchema)]
#[expect(dead_code, reason = "describes an answer that is written in one pass")]
pub(crate) struct AddedBody {
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
pub(crate) struct FlagsBody {
    /// In the order of the items; null for a blank line.
    #[schema(example = json!([true, false]))]
    results: Vec<Option<bool>>,
}

/// One number per item.
#[derive(ToSchema)]
#[expect(dead_code, reason = "describes an answer that is written in one pass")]
pub(crate) struct CountsBody {
    /// In the order of the items; null for a blank line.
    #[schema(example = json!([2, 0]))]
    results: Vec<Option<u64>>,
}

/// Whether an item is in the filter.
#[derive(Serialize, ToSchema)]
pub(crate) struct ExistsBody {
    /// False is certain; true can be a false positive.
    #[schema(example = true)]
    exists: bool,
}

/// The number of copies of an item.
#[derive(Serialize, ToSchema)]
pub(crate) struct CountBody {
    /// Never too low; too high at the filter's false-positive rate.
    #[schema(example = 2)]
    count: u64,
}

/// Add items
///
/// Adding an item twice stores two copies, unless `only_if_absent` is set. In a
/// filter with a window an item that is there is refreshed instead: it expires
/// later from then on. With an `Idempotency-Key` a repeated request adds nothing.
#[utoipa::path(
    post,
    path = "/filters/{key}/items",
    operation_id = "add_items",
    tag = "items",
    security(("api_key" = ["write"])),
    extensions(("x-fails" = json!([ENGINE, KEYED, MISSING, BODY, BATCH, KIND, CHANGE, QUOTA, RETRIED, [Code::IdempotencyFilterGone]]))),
    params(FilterKey),
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
pub(crate) async fn add_items(
    State(app): State<Arc<App>>,
    CallerEngine(engine): CallerEngine,
    Key(name): Key,
    request: Request,
) -> Result<Response, HttpError> {
    let format = Format::wanted(request.headers());
    let mut batch = batch(&app, BatchKind::Add, request).await?;
    let answered = engine
        .add(&name, &batch.items, &batch.options, batch.key.take())
        .await
        .map_err(|error| HttpError::creating(error, |field| batch.options_in.place_of(field)))?;
    Ok(in_words(format, &answered, batch, word))
}

/// The answer to a change that may find no room: a word for each result, and why the
/// first of those is full that are.
pub(super) fn in_words<R>(
    format: Format,
    answered: &Answered<Vec<R>>,
    batch: Batch,
    word: fn(&R) -> (&'static str, Option<engine::FullReason>),
) -> Response {
    let each = answered.answer.iter().map(word);
    let full_reason = each.clone().find_map(|(_, full)| full);
    let words = each.map(|(name, _)| Word::Name(name));
    let response = results(format, words, &batch.blanks, full_reason, batch.answer);
    marked(answered, response)
}

/// The word of a result, and why it is full if it is.
pub(super) fn word(result: &AddResult) -> (&'static str, Option<engine::FullReason>) {
    match result {
        AddResult::Added => ("added", None),
        AddResult::Refreshed => ("refreshed", None),
        AddResult::Exists => ("exists", None),
        AddResult::Full(reason) => ("full", Some(*reason)),
    }
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
    operation_id = "delete_items",
    tag = "items",
    security(("api_key" = ["write"])),
    extensions(("x-fails" = json!([ENGINE, KEYED, MISSING, BODY, BATCH, KIND, CHANGE, RETRIED, [Code::IdempotencyFilterGone]]))),
    params(FilterKey),
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
pub(crate) async fn delete_items(
    State(app): State<Arc<App>>,
    CallerEngine(engine): CallerEngine,
    Key(name): Key,
    request: Request,
) -> Result<Response, HttpError> {
    let format = Format::wanted(request.headers());
    let mut batch = batch(&app, BatchKind::Delete, request).await?;
    let answered = engine.delete(&name, &batch.items, batch.key.take()).await?;
    let response = flags(format, &answered.answer, &batch.blanks, batch.answer);
    Ok(marked(&answered, response))
}

/// Ask for one item
#[utoipa::path(
    get,
    path = "/filters/{key}/exists",
    operation_id = "get_item_exists",
    tag = "items",
    security(("api_key" = ["read"])),
    extensions(("x-fails" = json!([ENGINE, KEYED, MISSING, QUESTION, PROBES, KIND]))),
    params(FilterKey, OneItem, WithinSeconds, WhereRow),
    responses((status = 200, description = "`false` is certain; `true` can be a false positive.", body = ExistsBody, example = json!({"exists": true})))
)]
pub(crate) async fn get_exists(
    CallerEngine(engine): CallerEngine,
    Key(name): Key,
    uri: Uri,
) -> Result<Response, HttpError> {
    let asked = query_exists(&uri, "POST /filters/{key}/exists")?;
    let found = found(&engine, &name, &asked).await?;
    Ok(answer::exists(only(&found)?))
}

/// Whether each item, or entry, is there, or has a row that meets the condition.
async fn found(engine: &Engine, name: &FilterName, batch: &Batch) -> Result<Vec<bool>, HttpError> {
    if let Some(condition) = &batch.condition {
        let found = engine.has_rows(name, &batch.items, condition).await;
        return found.map_err(|error| batch.about_values(error));
    }
    match (batch.entries(), batch.within_seconds) {
        (None, None) => Ok(engine.exists(name, &batch.items).await?),
        (None, Some(seconds)) => {
            let found = engine.seen_within(name, &batch.items, seconds).await;
            let place = || batch.options_in.place_of_seconds();
            found.map_err(|error| HttpError::about_window(error, place()))
        }
        (Some(entries), _) => {
            let found = engine.has_values(name, entries).await;
            found.map_err(|error| batch.about_values(error))
        }
    }
}

/// Ask for many items
///
/// Of a filter with values or attributes also for `entries`: whether an item has a
/// value, or a row. Of a filter with attributes also `where`: whether one row of the
/// item meets a condition. Of a filter with a window also whether each item was seen
/// `within_seconds`.
#[utoipa::path(
    post,
    path = "/filters/{key}/exists",
    operation_id = "check_items",
    tag = "items",
    security(("api_key" = ["read"])),
    extensions(("x-fails" = json!([ENGINE, KEYED, MISSING, BODY, BATCH, KIND]))),
    params(FilterKey),
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
pub(crate) async fn post_exists(
    State(app): State<Arc<App>>,
    CallerEngine(engine): CallerEngine,
    Key(name): Key,
    request: Request,
) -> Result<Response, HttpError> {
    let format = Format::wanted(request.headers());
    let mut batch = batch(&app, BatchKind::Exists, request).await?;
    let engine = engine.in_turn(batch.turn.take());
    let found = found(&engine, &name, &batch).await?;
    Ok(flags(format, &found, &batch.blanks, None))
}

/// Count one item
#[utoipa::path(
    get,
    path = "/filters/{key}/count",
    operation_id = "get_item_count",
    tag = "items",
    security(("api_key" = ["read"])),
    extensions(("x-fails" = json!([ENGINE, KEYED, MISSING, QUESTION, PROBES]))),
    params(FilterKey, OneItem),
    responses((status = 200, description = "Copies of the item; never too low.", body = CountBody, example = json!({"count": 2})))
)]
pub(crate) async fn get_count(
    CallerEngine(engine): CallerEngine,
    Key(name): Key,
    uri: Uri,
) -> Result<Response, HttpError> {
    let asked = query_item(&uri, "POST /filters/{key}/count")?;
    let counts = engine.count(&name, &asked).await?;
    answer::json(&CountBody {
        count: only(&counts)?,
    })
}

/// Count many items
#[utoipa::path(
    post,
    path = "/filters/{key}/count",
    operation_id = "count_items",
    tag = "items",
    security(("api_key" = ["read"])),
    extensions(("x-fails" = json!([ENGINE, KEYED, MISSING, BODY, BATCH]))),
    params(FilterKey),
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
pub(crate) async fn post_count(
    State(app): State<Arc<App>>,
    CallerEngine(engine): CallerEngine,
    Key(name): Key,
    request: Request,
) -> Result<Response, HttpError> {
    let format = Format::wanted(request.headers());
    let mut batch = batch(&app, BatchKind::Question, request).await?;
    let counts = engine
        .in_turn(batch.turn.take())
        .count(&name, &batch.items)
        .await?;
    Ok(results(
        format,
        counts.into_iter().map(Word::Number),
        &batch.blanks,
        None,
        None,
    ))
}

/// The answer to the one item that was asked for.
fn only<T: Copy>(answers: &[T]) -> Result<T, HttpError> {
    answers
        .first()
        .copied()
        .ok_or_else(|| HttpError::Unanswerable {
            cause: "the engine answered no item where one was asked for".to_owned(),
        })
}

#[cfg(test)]
mod tests {
    use super::*;
    use http_body_util::BodyExt as _;

    #[tokio::test]
    async fn the_written_answers_are_what_would_be_written() {
        for found in [true, false] {
            let said = answer::json(&ExistsBody { exists: found }).unwrap();
            let written = answer::exists(found);
            assert_eq!(written.headers(), said.headers());
            let said = said.into_body().collect().await.unwrap().to_bytes();
            let written = written.into_body().collect().await.unwrap().to_bytes();
            assert_eq!(written, said);
        }
    }
}
