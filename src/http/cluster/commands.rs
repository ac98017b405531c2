//! Commands of the Redis protocol between pods. A pod sends those that concern lanes
//! of another one there, as they came, and gets the replies back as they are to be
//! sent. Here they are only bytes: what works on them is handed in.

use super::answer::{Place, min_positions};
use super::internal::known;
use super::pass::{GRACE, PREFER, unanswered, wait_until};
use super::passed::{NotPassed, PassedHead, PassedOnBy, PassedReplies};
use super::pod::Cluster;
use super::position::LanePosition;
use crate::engine::{Engine, EngineError, FilterName};
use crate::http::App;
use crate::http::admission::body;
use crate::http::admission::deadline::Deadline;
use crate::http::admission::limits::Limits;
use crate::http::headers::{CONSISTENCY, MIN_POSITION, PASSED_ON_BY, POSITION};
use crate::http::middleware::auth::{bearer, key_of};
use crate::http::middleware::principal::Principal;
use crate::http::problem::HttpError;
use axum::Router;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::header::AUTHORIZATION;
use axum::http::{HeaderName, HeaderValue, StatusCode};
use axum::response::{IntoResponse as _, Response};
use axum::routing::post;
use bytes::Bytes;
use futures_util::stream;
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Instant;
use tokio::time::timeout_at;

/// Where pods send them.
const PATH: &str = "/internal/commands";

/// The version of the protocol that the replies are written in.
const VERSION: HeaderName = HeaderName::from_static("cuckood-redis-version");

/// What may be around a word: the lines that a command of one key begins with, in the
/// place of a word among many.
const WORD_BYTES: usize = 48;

/// What comes with the largest command, and what words are that are no items.
const OTHER_BYTES: usize = 1 << 20;

impl Cluster {
    /// The pod that plans the changes of a filter, if it is another one. Waits a
    /// little while nobody does, at most until that moment.
    ///
    /// # Errors
    /// [`EngineError::NotLeading`].
    pub(crate) async fn leader_elsewhere(
        &self,
        engine: &Engine,
        filter: &FilterName,
        passed_on_by: &PassedOnBy,
        until: Instant,
    ) -> Result<Option<Arc<str>>, EngineError> {
        let place = self.place(engine, filter, passed_on_by, Some(until));
        match place.await? {
            Place::Here { .. } => Ok(None),
            Place::At(address) => Ok(Some(address)),
        }
    }

    /// Has another pod work on commands, which come in pieces.
    ///
    /// # Errors
    /// It did not, or did not say so in time.
    pub(crate) async fn pass_commands(
        &self,
        address: &str,
        head: &PassedHead,
        commands: impl Iterator<Item = Bytes> + Send + Sync + 'static,
    ) -> Result<PassedReplies, NotPassed> {
        let until = head.until;
        let client = self.links.to(address);
        let client = client.map_err(|error| NotPassed::Engine(unanswered(address, &error)))?;
        let mut request = client
            .post(format!("{address}{PATH}"))
            .header(VERSION, head.version.to_string())
            .header(PREFER, wait_until(until))
            .body(body_of(commands));
        for pod in head.passed_on_by.each() {
            request = request.header(PASSED_ON_BY, pod);
        }
        request = request.header(PASSED_ON_BY, self.links.own());
        if let Some(token) = &head.token {
            request = request.header(AUTHORIZATION, format!("Bearer {token}"));
        }
        if head.is_strong {
            request = request.header(CONSISTENCY, "strong");
        }
        if !head.positions.is_empty() {
            request = request.header(MIN_POSITION, LanePosition::list(&head.positions));
        }
        let asking = async {
            let answer = request.send().await?;
            let (status, headers) = (answer.status(), answer.headers().clone());
            Ok::<_, reqwest::Error>((status, headers, answer.bytes().await?))
        };
        let answered = timeout_at((until + GRACE).into(), asking).await;
        let Ok(answered) = answered else {
            return Err(NotPassed::Engine(EngineError::LogSilent));
        };
        let (status, headers, bytes) =
            answered.map_err(|error| NotPassed::Engine(unanswered(address, &error)))?;
        if !status.is_success() {
            return Err(NotPassed::Refused {
                may_pass: [
                    StatusCode::SERVICE_UNAVAILABLE,
                    StatusCode::TOO_MANY_REQUESTS,
                ]
                .contains(&status),
                detail: told(&bytes, status.as_u16()),
            });
        }
        let positions = headers.get(POSITION).and_then(|it| it.to_str().ok());
        let positions = positions.unwrap_or_default().split(',');
        Ok(PassedReplies {
            bytes,
            positions: positions.filter_map(LanePosition::parse).collect(),
        })
    }
}

/// Few are sent as they are, so that they need not be put together again.
fn body_of(mut commands: impl Iterator<Item = Bytes> + Send + Sync + 'static) -> reqwest::Body {
    let (first, second) = (commands.next().unwrap_or_default(), commands.next());
    let Some(second) = second else {
        return first.into();
    };
    let all = [first, second].into_iter().chain(commands);
    reqwest::Body::wrap_stream(stream::iter(all.map(Ok::<_, Infallible>)))
}

/// More bytes than commands can have that came together: a transaction has up to twice
/// as many as a command, and the lines around each word are not counted there.
fn most_bytes(limits: &Limits) -> usize {
    let words = limits.max_batch_items.saturating_mul(WORD_BYTES);
    let commands = limits.max_body_bytes.saturating_mul(2);
    commands.saturating_add(words).saturating_add(OTHER_BYTES)
}

/// What a problem document says.
fn told(bytes: &[u8], status: u16) -> String {
    let problem: Option<serde_json::Value> = serde_json::from_slice(bytes).ok();
    let detail = problem.as_ref().and_then(|it| it.get("detail")?.as_str());
    detail.map_or_else(|| format!("it answered {status}"), str::to_owned)
}

/// What pods ask of each other.
pub(in crate::http) fn routes() -> Router<Arc<App>> {
    Router::new().route(PATH, post(answer))
}

/// Works on commands that another pod has passed on, for who has the API key that the
/// client sent there.
async fn answer(State(app): State<Arc<App>>, request: Request) -> Result<Response, HttpError> {
    let (parts, body) = request.into_parts();
    known(&app, parts.extensions.get())?;
    let engine = app.engine()?;
    let worker = app.command_worker().ok_or(HttpError::UnknownRoute)?;
    let caller = match &app.access.keys {
        None => Principal::default(),
        Some(keys) => Principal::of(key_of(&parts.headers, keys)?, keys),
    };
    if caller.key().is_some_and(|key| key.has_expired()) {
        return Err(HttpError::ApiKeyExpired);
    }
    let header = |name: &HeaderName| parts.headers.get(name).map(HeaderValue::as_bytes);
    let deadline = Deadline::of(&parts.headers, app.admission.limits.request_timeout)?;
    let (admission, limit) = (&app.admission, most_bytes(&app.admission.limits));
    let read = body::read_up_to(limit, admission, caller.holder(), Some(deadline), body);
    let (bytes, _held) = read.await?;
    let token = bearer(&parts.headers).filter(|_| caller.key().is_some());
    let head = PassedHead {
        token: token.map(Arc::from),
        version: match header(&VERSION) {
            Some(b"3") => 3,
            _ => 2,
        },
        is_strong: header(&CONSISTENCY) == Some(b"strong"),
        positions: min_positions(&parts.headers, engine)?,
        passed_on_by: PassedOnBy::of(&parts.headers),
        until: deadline.0,
    };
    let (replies, positions) = worker.work(caller, head, bytes).await;
    let mut response = Body::from(replies).into_response();
    if let Ok(positions) = HeaderValue::try_from(LanePosition::list(&positions)) {
        response.headers_mut().insert(POSITION, positions);
    }
    Ok(response)
}
