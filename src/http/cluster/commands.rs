//! Commands of the Redis protocol between pods. A pod sends those that concern lanes
//! of another one there, as they came, and gets the replies back as they are to be
//! sent. Here they are only bytes: what works on them is handed in.

use super::answer::Place;
use super::internal::known;
use super::pass::{GRACE, PREFER, unanswered, wait_until};
use super::passed::{NotPassed, PassedCommands, PassedReplies};
use super::pod::Cluster;
use super::position::LanePosition;
use crate::engine::{Engine, EngineError, FilterName};
use crate::http::App;
use crate::http::admission::body;
use crate::http::admission::deadline::Deadline;
use crate::http::headers::{CLUSTER_KEY, CONSISTENCY, PASSED_ON_BY, POSITION};
use crate::http::middleware::auth::key_of;
use crate::http::middleware::principal::Principal;
use crate::http::problem::HttpError;
use axum::Router;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::header::AUTHORIZATION;
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use axum::response::{IntoResponse as _, Response};
use axum::routing::post;
use std::sync::Arc;
use tokio::time::timeout_at;

/// Where pods send them.
const PATH: &str = "/internal/commands";

/// The version of the protocol that the replies are written in.
const VERSION: HeaderName = HeaderName::from_static("cuckood-redis-version");

impl Cluster {
    /// The pod that plans the changes of a filter, if it is another one. Waits a
    /// little while nobody does.
    ///
    /// # Errors
    /// [`EngineError::NotLeading`].
    pub(crate) async fn leader_elsewhere(
        &self,
        engine: &Engine,
        filter: &FilterName,
    ) -> Result<Option<Arc<str>>, EngineError> {
        match self.place(engine, filter, &HeaderMap::new(), None).await? {
            Place::Here { .. } => Ok(None),
            Place::At(address) => Ok(Some(address)),
        }
    }

    /// Has another pod work on commands, for the caller with this key.
    ///
    /// # Errors
    /// It did not, or did not say so in time.
    pub(crate) async fn pass_commands(
        &self,
        address: &str,
        key: Option<&str>,
        commands: PassedCommands,
    ) -> Result<PassedReplies, NotPassed> {
        let until = commands.until;
        let mut request = self
            .client
            .post(format!("{address}{PATH}"))
            .header(PASSED_ON_BY, &self.address)
            .header(CLUSTER_KEY, self.key.as_str())
            .header(VERSION, commands.version.to_string())
            .header(PREFER, wait_until(until))
            .body(commands.bytes);
        if let Some(key) = key {
            request = request.header(AUTHORIZATION, format!("Bearer {key}"));
        }
        if commands.is_strong {
            request = request.header(CONSISTENCY, "strong");
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
        let positions = headers.get_all(POSITION).iter();
        let positions = positions.filter_map(|it| LanePosition::parse(it.to_str().ok()?));
        Ok(PassedReplies {
            bytes,
            positions: positions.collect(),
        })
    }
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
    known(&app, &parts.headers)?;
    let engine = app.engine()?;
    let worker = app.command_worker().ok_or(HttpError::UnknownRoute)?;
    let (key, caller) = match &app.access.keys {
        None => (None, Principal::default()),
        Some(keys) => {
            let key = key_of(&parts.headers, keys)?;
            match key.has_expired() {
                true => return Err(HttpError::ApiKeyExpired),
                false => (Some(Arc::clone(&key)), Principal::of(key, keys)),
            }
        }
    };
    let header = |name: &HeaderName| parts.headers.get(name).map(HeaderValue::as_bytes);
    let deadline = Deadline::of(&parts.headers, app.admission.limits.request_timeout)?;
    let (bytes, _held) = body::read(&app.admission, caller.holder(), Some(deadline), body).await?;
    let commands = PassedCommands {
        bytes,
        version: match header(&VERSION) {
            Some(b"3") => 3,
            _ => 2,
        },
        is_strong: header(&CONSISTENCY) == Some(b"strong"),
        until: deadline.0,
    };
    let (replies, changed) = worker.work(key, commands).await;
    let mut response = Body::from(replies).into_response();
    let positions = changed.into_iter();
    for position in positions.filter_map(|lane| LanePosition::of_lane(engine, lane)) {
        response.headers_mut().append(POSITION, position.header());
    }
    Ok(response)
}
