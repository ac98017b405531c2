//! Items: add, delete, ask, count. One item and many go the same way.

use crate::answer::{self, Word, flags, results};
use crate::engine::{self, AddResult, Answered, Engine, FilterName};
use crate::extract::{Sent, Target, query_exists, query_item};
use crate::idempotency::marked;
use crate::parse::{Batch, BatchKind};
use crate::problem::{HttpError, Result};
use axum::http::Uri;
use axum::response::Response;
use serde::Serialize;

/// How an add creates its filter.
const CREATING: &str = r#", or have this request do it: "create": {"capacity": 100000} beside the items, with lines create=true&capacity=100000 in the query"#;

/// The number of copies of an item.
#[derive(Serialize)]
#[cfg_attr(test, derive(utoipa::ToSchema))]
pub(crate) struct CountBody {
    /// Never too low; too high at the filter's false-positive rate.
    count: u64,
}

/// `POST /filters/{key}/items`.
pub(crate) async fn add_items(Target(engine, name): Target, sent: Sent) -> Result {
    let mut batch = sent.batch(BatchKind::Add).await?;
    let answered = engine
        .add(&name, &batch.items, &batch.options, batch.key.take())
        .await
        .map_err(|error| {
            HttpError::creating(error, |field| batch.options_in.place_of(field)).adding(CREATING)
        })?;
    Ok(in_words(&answered, batch, word).await)
}

/// The answer to a change that may find no room: a word for each result, and why the
/// first of those is full that are.
pub(super) async fn in_words<R>(
    answered: &Answered<Vec<R>>,
    batch: Batch,
    word: fn(&R) -> (&'static str, Option<engine::FullReason>),
) -> Response {
    let each = answered.answer.iter().map(word);
    let full = each.clone().find_map(|(_, full)| full);
    let words = each.map(|(name, _)| Word::Name(name));
    let response = results(batch.format, words, &batch.blanks, full, batch.answer);
    marked(answered, response.await)
}

/// The word of a result, and why it is full if it is.
pub(crate) fn word(result: &AddResult) -> (&'static str, Option<engine::FullReason>) {
    match result {
        AddResult::Added => ("added", None),
        AddResult::Refreshed => ("refreshed", None),
        AddResult::Exists => ("exists", None),
        AddResult::Full(reason) => ("full", Some(*reason)),
    }
}

/// `POST /filters/{key}/items/delete`.
pub(crate) async fn delete_items(Target(engine, name): Target, sent: Sent) -> Result {
    let mut batch = sent.batch(BatchKind::Delete).await?;
    let answered = engine.delete(&name, &batch.items, batch.key.take()).await?;
    let response = flags(batch.format, &answered.answer, &batch.blanks, batch.answer).await;
    Ok(marked(&answered, response))
}

/// `GET /filters/{key}/exists`.
pub(crate) async fn get_item_exists(Target(engine, name): Target, uri: Uri) -> Result {
    let asked = query_exists(&uri, "POST /filters/{key}/exists")?;
    let found = found(&engine, &name, &asked).await?;
    Ok(answer::exists(only(&found)?))
}

/// Whether each item, or entry, is there, or has a row that meets the condition.
async fn found(engine: &Engine, name: &FilterName, batch: &Batch) -> Result<Vec<bool>> {
    if let Some(condition) = &batch.condition {
        let found = engine.has_rows(name, &batch.items, condition).await;
        return found.map_err(|error| batch.about_values(error));
    }
    match batch.entries() {
        None => {
            let within = batch.within_seconds;
            let found = engine.seen_within(name, &batch.items, within).await;
            let place = || batch.options_in.place_of_seconds();
            found.map_err(|error| HttpError::about_window(error, place()))
        }
        Some(entries) => {
            let found = engine.has_values(name, entries).await;
            found.map_err(|error| batch.about_values(error))
        }
    }
}

/// `POST /filters/{key}/exists`.
pub(crate) async fn check_items(Target(engine, name): Target, sent: Sent) -> Result {
    let mut batch = sent.batch(BatchKind::Exists).await?;
    let engine = engine.in_turn(batch.turn.take());
    let found = found(&engine, &name, &batch).await?;
    Ok(flags(batch.format, &found, &batch.blanks, None).await)
}

/// `GET /filters/{key}/count`.
pub(crate) async fn get_item_count(Target(engine, name): Target, uri: Uri) -> Result {
    let asked = query_item(&uri, "POST /filters/{key}/count")?;
    let counts = engine.count(&name, &asked).await?;
    answer::json(&CountBody {
        count: only(&counts)?,
    })
}

/// `POST /filters/{key}/count`.
pub(crate) async fn count_items(Target(engine, name): Target, sent: Sent) -> Result {
    let mut batch = sent.batch(BatchKind::Question).await?;
    let engine = engine.in_turn(batch.turn.take());
    let counts = engine.count(&name, &batch.items).await?;
    let counts = counts.into_iter().map(Word::Number);
    Ok(results(batch.format, counts, &batch.blanks, None, None).await)
}

/// The answer to the one item that was asked for.
fn only<T: Copy>(answers: &[T]) -> Result<T> {
    const NONE: &str = "the engine answered no item where one was asked for";
    let first = answers.first().copied();
    first.ok_or_else(|| HttpError::unanswerable(NONE))
}

#[cfg(test)]
mod tests {
    use super::*;
    use http_body_util::BodyExt as _;
    use serde_json::json;

    #[tokio::test]
    async fn the_written_answers_are_what_would_be_written() {
        for found in [true, false] {
            let said = answer::json(&json!({"exists": found})).unwrap();
            let written = answer::exists(found);
            assert_eq!(written.headers(), said.headers());
            let said = said.into_body().collect().await.unwrap().to_bytes();
            let written = written.into_body().collect().await.unwrap().to_bytes();
            assert_eq!(written, said);
        }
    }
}
