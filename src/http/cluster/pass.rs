//! Passes a request on to another pod, and its answer back, byte by byte.

use super::pod::Cluster;
use crate::engine::EngineError;
use crate::http::App;
use crate::http::admission::body;
use crate::http::admission::deadline::Deadline;
use crate::http::headers::{PASSED_ON_BY, REQUEST_ID};
use crate::http::middleware::principal::Principal;
use crate::http::problem::HttpError;
use axum::body::Body;
use axum::extract::{MatchedPath, Request};
use axum::http::header::{
    CONNECTION, EXPECT, HOST, PROXY_AUTHENTICATE, PROXY_AUTHORIZATION, TE, TRAILER,
    TRANSFER_ENCODING, UPGRADE,
};
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderName, HeaderValue};
use axum::response::Response;
use futures_util::StreamExt as _;
use std::error::Error;
use std::time::{Duration, Instant};
use tokio::sync::oneshot;

pub(super) const PREFER: &str = "prefer";

/// What concerns one connection, and not the other.
const OF_A_CONNECTION: [HeaderName; 10] = [
    CONNECTION,
    EXPECT,
    HOST,
    HeaderName::from_static("keep-alive"),
    PROXY_AUTHENTICATE,
    PROXY_AUTHORIZATION,
    TE,
    TRAILER,
    TRANSFER_ENCODING,
    UPGRADE,
];

/// Whose bodies take as long as they need.
const STREAMED: [&str; 2] = ["/filters/{key}/import", "/filters/{key}/dump"];

/// How much longer than its caller another pod is waited for: its own answer says
/// more.
pub(super) const GRACE: Duration = Duration::from_millis(500);

/// Marks an answer of another pod, which is handed on as it is.
#[derive(Clone, Copy)]
pub(in crate::http) struct IsPassedBack;

impl Cluster {
    /// Has another pod answer a request. It is waited for until the request's deadline;
    /// where a body may take as long as it likes, for as long as a request may take after
    /// its last byte. Any other is read before: who sends it slowly holds up nobody there.
    ///
    /// # Errors
    /// The body is none, or too large; the pod can't be reached, or has not answered in
    /// time.
    pub(super) async fn pass_on(
        &self,
        app: &App,
        caller: &Principal,
        address: &str,
        request: Request,
    ) -> Result<Response, HttpError> {
        let (parts, body) = request.into_parts();
        let route = parts.extensions.get::<MatchedPath>();
        let is_streamed = route.is_some_and(|it| STREAMED.contains(&it.as_str()));
        let deadline = Deadline::of_parts(&parts);
        let (sent, mut is_sent) = oneshot::channel::<()>();
        let (body, _held) = match is_streamed {
            true => (streamed(body, sent), None),
            false => {
                let read = body::read(&app.admission, caller.holder(), deadline, body);
                let (bytes, held) = read.await?;
                drop(sent);
                (bytes.into(), held)
            }
        };
        let asked = self.asked(address, &parts, deadline)?.body(body);
        let longest = app.admission.limits.request_timeout;
        let overdue = async {
            // The sender is never used, only dropped.
            let _ = (&mut is_sent).await;
            let wait = match deadline {
                Some(Deadline(until)) if !is_streamed => {
                    until.saturating_duration_since(Instant::now())
                }
                _ => longest,
            };
            tokio::time::sleep(wait + GRACE).await;
        };
        let answered = tokio::select! {
            answered = asked.send() => answered,
            () = overdue => return Err(EngineError::LogSilent.into()),
        };
        let answer = answered.map_err(|error| unanswered(address, &error))?;
        Ok(passed_back(answer))
    }

    /// What another pod is asked, but for the body.
    fn asked(
        &self,
        address: &str,
        parts: &Parts,
        deadline: Option<Deadline>,
    ) -> Result<reqwest::RequestBuilder, HttpError> {
        let path = parts.uri.path_and_query().map_or("/", |it| it.as_str());
        let mut headers = without_those_of_a_connection(&parts.headers);
        if let Ok(own) = HeaderValue::from_str(self.links.own()) {
            headers.append(PASSED_ON_BY, own);
        }
        if let Some(Deadline(until)) = deadline
            && let Ok(wait) = HeaderValue::from_str(&wait_until(until))
        {
            headers.insert(PREFER, wait);
        }
        let client = self.links.to(address);
        let client = client.map_err(|error| unanswered(address, &error))?;
        Ok(client
            .request(parts.method.clone(), format!("{address}{path}"))
            .headers(headers))
    }
}

/// A body that goes on as it comes. `sent` is dropped with its last byte.
fn streamed(body: Body, sent: oneshot::Sender<()>) -> reqwest::Body {
    let body = body.into_data_stream().map(move |bytes| {
        let _held = &sent;
        bytes
    });
    reqwest::Body::wrap_stream(body)
}

/// Until when the caller waits, as the header `Prefer` has it.
pub(super) fn wait_until(until: Instant) -> String {
    let left = until.saturating_duration_since(Instant::now());
    format!("wait={:.3}", left.as_secs_f64().max(0.001))
}

/// What it means that the pod that leads did not answer: where nothing was sent to it,
/// nothing was done.
pub(super) fn unanswered(address: &str, error: &reqwest::Error) -> EngineError {
    let mut words = Vec::new();
    let mut is_unsent = error.is_connect() || error.is_builder();
    let mut cause: Option<&(dyn Error + 'static)> = Some(error);
    while let Some(it) = cause {
        words.push(it.to_string());
        is_unsent |= it.downcast_ref().is_some_and(hyper::Error::is_canceled);
        cause = it.source();
    }
    let error = words.join(": ");
    tracing::warn!(address, error, "the pod that leads did not answer");
    match is_unsent {
        true => EngineError::NotLeading,
        false => EngineError::LogSilent,
    }
}

fn passed_back(answer: reqwest::Response) -> Response {
    let status = answer.status();
    let mut headers = without_those_of_a_connection(answer.headers());
    // It is the request's own, as the outermost layer has it.
    headers.remove(REQUEST_ID);
    let mut response = Response::new(Body::from_stream(answer.bytes_stream()));
    *response.status_mut() = status;
    *response.headers_mut() = headers;
    response.extensions_mut().insert(IsPassedBack);
    response
}

fn without_those_of_a_connection(headers: &HeaderMap) -> HeaderMap {
    let kept = headers
        .iter()
        .filter(|(name, _)| !OF_A_CONNECTION.contains(name));
    kept.map(|(name, value)| (name.clone(), value.clone()))
        .collect()
}
