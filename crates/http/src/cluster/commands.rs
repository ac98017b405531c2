//! Commands of the Redis protocol that another pod has forwarded: what works on them
//! is handed in.

use super::answer::min_positions;
use super::internal::known;
use crate::admission::body;
use crate::admission::deadline::Deadline;
use crate::bearer::{bearer, paying_key};
use crate::codes::Code;
use crate::problem::{HttpError, Result};
use crate::server::App;
use crate::server::admission::limits::Limits;
use crate::server::cluster::commands::{CommandsHead, ForwardedBy, PATH, VERSION};
use crate::server::cluster::headers::{CONSISTENCY, POSITION};
use crate::server::cluster::position::RecordPosition;
use crate::server::principal::Principal;
use axum::Router;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::{HeaderMap, HeaderName, HeaderValue};
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
    let caller = caller(&app, &parts.headers).await?;
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
    if let Ok(positions) = HeaderValue::try_from(RecordPosition::list(&positions)) {
        response.headers_mut().insert(POSITION, positions);
    }
    Ok(response)
}

/// Who has sent the commands, and pays for them.
async fn caller(app: &App, headers: &HeaderMap) -> Result<Principal> {
    let Some(keys) = &app.access.keys else {
        return Ok(Principal::default());
    };
    let key = paying_key(headers, keys).await?;
    match key.has_expired() {
        true => Err(HttpError::Plain(Code::ApiKeyExpired)),
        false => Ok(Principal::of(key, keys)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::access::Scope;
    use crate::access::file::{NewKey, add};
    use crate::access::keys::ApiKeys;
    use crate::metrics::Metrics;
    use crate::server::listen::polls::{Timed, Work};
    use crate::server::{Access, HostPolicy};
    use axum::http::header::AUTHORIZATION;
    use std::sync::atomic::Ordering;
    use std::time::{Duration, Instant, SystemTime};

    #[tokio::test]
    async fn what_forwarded_commands_cost_is_charged_to_the_key_that_they_came_with() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("keys.json");
        let key = NewKey::new("one".parse().unwrap(), Scope::Write);
        let token = add(&path, key, SystemTime::now()).unwrap();
        let access = Access {
            hosts: HostPolicy::Any,
            keys: Some(Arc::new(ApiKeys::open(&path, None).unwrap())),
        };
        let metrics = Arc::new(Metrics::new().unwrap());
        let app = App::new(metrics, Limits::default(), access);
        let bearer = HeaderValue::try_from(format!("Bearer {}", token.as_str())).unwrap();
        let headers = HeaderMap::from_iter([(AUTHORIZATION, bearer)]);
        let working = async {
            let caller = caller(&app, &headers).await.unwrap();
            let until = Instant::now() + Duration::from_millis(20);
            while Instant::now() < until {}
            caller
        };
        let (seconds, threads) = (&app.metrics.http_poll_seconds, &app.admission.threads);
        let caller = Timed::new(working, seconds, Work::Unknown, threads).await;
        let used = caller.key().unwrap().used.load(Ordering::Relaxed);
        assert!(used > 1_000_000, "{used} ns");
    }
}
