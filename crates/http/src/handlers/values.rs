//! Values of items: add, delete, ask. Whether an item has a value is asked where
//! items are, see `items`.

use super::items::{in_words, word};
use crate::admission::deadline::Deadline;
use crate::answer::{flags, value_lists, values_of_one};
use crate::engine::{Entries, Listed, ReplaceResult};
use crate::extract::{Sent, Target, query_item};
use crate::idempotency::marked;
use crate::parse::{Batch, BatchKind};
use crate::problem::{HttpError, Result};
use crate::server::App;
use crate::server::admission::answers;
use crate::server::principal::Principal;
use axum::Extension;
use axum::extract::State;
use axum::http::Uri;
use axum::response::Response;
use std::sync::Arc;

/// Items whose values are listed without a turn among large requests.
const FEW_ITEMS: usize = 16;

/// Items and values whose answer is written on the thread of the connection: rows of
/// them may be half a megabyte.
const WRITTEN_IN_PLACE: usize = 256;

/// The answer about values. One of many MiB is written in turns with other large
/// requests, off the async threads.
async fn written(
    app: &App,
    principal: &Principal,
    deadline: Deadline,
    listed: Listed,
    write: impl FnOnce(&Listed) -> Response + Send + 'static,
) -> Result {
    let values = listed.values.iter().map(Vec::len).sum::<usize>();
    if listed.values.len() + values <= WRITTEN_IN_PLACE {
        return Ok(write(&listed));
    }
    let Deadline(until) = deadline;
    let turn = app
        .admission
        .turn(principal.holder(), until, usize::MAX, false)
        .await?;
    let written = tokio::task::spawn_blocking(move || {
        let _turn = turn;
        write(&listed)
    });
    Ok(written.await?)
}

/// The entries of a batch that has to have some.
fn needed(batch: &Batch) -> Result<Entries<'_>> {
    let none = || HttpError::unanswerable("a batch of entries has no values");
    batch.entries().ok_or_else(none)
}

/// `POST /filters/{key}/values`.
pub(crate) async fn add_values(Target(engine, name): Target, sent: Sent) -> Result {
    let mut batch = sent.batch(BatchKind::AddValues).await?;
    let key = batch.key.take();
    let answered = engine
        .add_values(&name, needed(&batch)?, batch.options.mode, key)
        .await
        .map_err(|error| {
            batch
                .about_values(error)
                .adding(" and value_bits or attributes")
        })?;
    Ok(in_words(&answered, batch, word).await)
}

/// `POST /filters/{key}/values/delete`.
pub(crate) async fn delete_values(Target(engine, name): Target, sent: Sent) -> Result {
    let mut batch = sent.batch(BatchKind::DeleteValues).await?;
    let key = batch.key.take();
    let answered = engine
        .delete_values(&name, needed(&batch)?, key)
        .await
        .map_err(|error| batch.about_values(error))?;
    let response = flags(batch.format, &answered.answer, &batch.blanks, batch.answer).await;
    Ok(marked(&answered, response))
}

/// `POST /filters/{key}/values/replace`.
pub(crate) async fn replace_values(Target(engine, name): Target, sent: Sent) -> Result {
    let mut batch = sent.batch(BatchKind::ReplaceValues).await?;
    let key = batch.key.take();
    let none = || HttpError::unanswerable("a batch of replacements has no values");
    let entries = batch.replacements().ok_or_else(none)?;
    let answered = engine
        .replace_values(&name, entries, key)
        .await
        .map_err(|error| batch.about_values(error))?;
    let word = |result: &ReplaceResult| match result {
        ReplaceResult::Replaced => ("replaced", None),
        ReplaceResult::Absent => ("absent", None),
        ReplaceResult::Full(reason) => ("full", Some(*reason)),
    };
    Ok(in_words(&answered, batch, word).await)
}

/// `GET /filters/{key}/values`.
pub(crate) async fn get_item_values(
    State(app): State<Arc<App>>,
    Target(engine, name): Target,
    Extension(principal): Extension<Principal>,
    Extension(deadline): Extension<Deadline>,
    uri: Uri,
) -> Result {
    let asked = query_item(&uri, "POST /filters/{key}/values/query")?;
    // One item has no more than count with the connection.
    let listed = engine.values(&name, &asked, |_| Ok::<_, HttpError>(()));
    written(&app, &principal, deadline, listed.await?, values_of_one).await
}

/// `POST /filters/{key}/values/query`.
pub(crate) async fn query_values(
    State(app): State<Arc<App>>,
    Target(engine, name): Target,
    Extension(principal): Extension<Principal>,
    Extension(deadline): Extension<Deadline>,
    sent: Sent,
) -> Result {
    let mut batch = sent.batch(BatchKind::ListValues).await?;
    let Deadline(until) = deadline;
    if batch.turn.is_none() && batch.items.len() > FEW_ITEMS {
        // A small body may ask for a lot.
        let turn = app
            .admission
            .turn(principal.holder(), until, usize::MAX, false);
        batch.turn = turn.await?;
    }
    // Until the answer is there, which counts by itself.
    let mut memory = None;
    let gathered = |bytes| answers::grow(&app.admission, principal.holder(), &mut memory, bytes);
    let listed = engine
        .in_turn(batch.turn.take())
        .values(&name, &batch.items, gathered)
        .await?;
    let write =
        move |listed: &Listed| value_lists(batch.format, listed, &batch.blanks, batch.with_copies);
    written(&app, &principal, deadline, listed, write).await
}
