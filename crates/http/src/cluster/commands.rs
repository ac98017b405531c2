//! Commands of the Redis protocol that another pod has forwarded: what works on them
//! is handed in.

use super::answer::min_positions;
use super::internal::known;
use crate::admission::body;
use crate::admission::deadline::Deadline;
use crate::bearer::{bearer, key_of};
use crate::codes::Code;
use crate::problem::{HttpError, Result};
use crate::server::App;
use crate::server::admission::limits::Limits;
use crate::server::cluster::commands::{CommandsHead, ForwardedBy, PATH, VERSION};
use crate::server::cluster::headers::{CONSISTENCY, POSITION};
use crate::server::cluster::position::LanePosition;
use crate::server::listen::polls::{charge_to, give_way};
use crate::server::principal::Principal;
use axum::Router;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::{HeaderName, HeaderValue};
use axum::response::IntoResponse as _;
use axum::routing::post;
use std::sync::Arc;

/// What may be around a word: the lines that a command of one key begins with, in the
/// place of a word among many.
const WORD_BYTES: usize = 48;

/// What comes with the largest command, and what words are that are no items.
const OTHER_BYTES: usize = 1 << 20;

/// More bytes than commands can have that came together: a transaction has up to twice
/// as many as a command, and the lines around each word are not counted there.
fn most_bytes(limits: &Limits) -> usize {
    let words = limits.max_batch_items.saturating_mul(WORD_BYTES);
    let commands = limits.max_body_bytes.saturating_mul(2);
    commands.saturating_add(words).saturating_add(OTHER_BYTES)
}

/// What pods ask of each other.
pub(crate) fn routes() -> Router<Arc<App>> {
    Router::new().route(PATH, post(answer))
}

/// Works on commands that another pod has forwarded, for who has the API key that the
/// client sent there.
async fn answer(State(app): State<Arc<App>>, request: Request) -> Result {
    let (parts, body) = request.into_parts();
    known(&app, parts.extensions.get())?;
    let engine = app.engine()?;
    let worker = app
        .command_worker()
        .ok_or(HttpError::Plain(Code::UnknownRoute))?;
    let caller = match &app.access.keys {
        None => Principal::default(),
        Some(keys) => Principal::of(key_of(&parts.headers, keys)?, keys),
    };
    if let Some(key) = caller.key() {
        charge_to(&key.used);
        give_way().await;
        if key.has_expired() {
            return Err(HttpError::Plain(Code::ApiKeyExpired));
        }
    }
    let header = |name: &HeaderName| parts.headers.get(name).map(HeaderValue::as_bytes);
    let deadline = Deadline::of(&parts.headers, app.admission.limits.request_timeout)?;
    let (admission, limit) = (&app.admission, most_bytes(&app.admission.limits));
    let read = body::read_up_to(limit, admission, caller.holder(), Some(deadline), body);
    let (bytes, _held) = read.await?;
    let token = bearer(&parts.headers).filter(|_| caller.key().is_some());
    let head = CommandsHead {
        token: token.map(Arc::from),
        version: match header(&VERSION) {
            Some(b"3") => 3,
            _ => 2,
        },
        is_strong: header(&CONSISTENCY) == Some(b"strong"),
        positions: min_positions(&parts.headers, engine)?,
        forwarded_by: ForwardedBy::of(&parts.headers),
        until: deadline.0,
    };
    let (replies, positions) = worker.work(caller, head, bytes).await;
    let mut response = Body::from(replies).into_response();
    if let Ok(positions) = HeaderValue::try_from(LanePosition::list(&positions)) {
        response.headers_mut().insert(POSITION, positions);
    }
    Ok(response)
}
