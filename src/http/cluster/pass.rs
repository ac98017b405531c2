//! Passes a request on to another pod, and its answer back, byte by byte.

use super::pod::Cluster;
use crate::engine::EngineError;
use crate::http::headers::{PASSED_ON_BY, REQUEST_ID};
use crate::http::problem::HttpError;
use axum::body::Body;
use axum::extract::{MatchedPath, Request};
use axum::http::header::{
    CONNECTION, EXPECT, HOST, PROXY_AUTHENTICATE, PROXY_AUTHORIZATION, TE, TRAILER,
    TRANSFER_ENCODING, UPGRADE,
};
use axum::http::{HeaderMap, HeaderName, HeaderValue};
use axum::response::Response;
use futures_util::StreamExt as _;
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
    /// Has another pod answer a request. It is waited for until `until`; where a
    /// body may take as long as it likes, for `limit` after its last byte.
    ///
    /// # Errors
    /// It can't be reached, or has not answered in time.
    pub(super) async fn pass_on(
        &self,
        address: &str,
        request: Request,
        until: Option<Instant>,
        limit: Duration,
    ) -> Result<Response, HttpError> {
        let (parts, body) = request.into_parts();
        let route = parts.extensions.get::<MatchedPath>();
        let is_streamed = route.is_some_and(|it| STREAMED.contains(&it.as_str()));
        let path = parts.uri.path_and_query().map_or("/", |it| it.as_str());
        let mut headers = without_those_of_a_connection(&parts.headers);
        if let Ok(own) = HeaderValue::from_str(&self.address) {
            headers.append(PASSED_ON_BY, own);
        }
        if let Some(until) = until
            && let Ok(wait) = HeaderValue::from_str(&wait_until(until))
        {
            headers.insert(PREFER, wait);
        }
        let (sent, mut is_sent) = oneshot::channel::<()>();
        // Dropped with the last byte.
        let body = body.into_data_stream().map(move |bytes| {
            let _held = &sent;
            bytes
        });
        let request = self
            .client
            .request(parts.method, format!("{address}{path}"))
            .headers(headers)
            .body(reqwest::Body::wrap_stream(body));
        let overdue = async {
            // The sender is never used, only dropped.
            let _ = (&mut is_sent).await;
            let wait = match until {
                Some(until) if !is_streamed => until.saturating_duration_since(Instant::now()),
                _ => limit,
            };
            tokio::time::sleep(wait + GRACE).await;
        };
        let answered = tokio::select! {
            answered = request.send() => answered,
            () = overdue => return Err(EngineError::LogSilent.into()),
        };
        let answer = answered.map_err(|error| unanswered(address, &error))?;
        Ok(passed_back(answer))
    }
}

/// Until when the caller waits, as the header `Prefer` has it.
pub(super) fn wait_until(until: Instant) -> String {
    let left = until.saturating_duration_since(Instant::now());
    format!("wait={:.3}", left.as_secs_f64().max(0.001))
}

/// What it means that the pod that leads did not answer: where it was not even
/// connected to, nothing was done.
pub(super) fn unanswered(address: &str, error: &reqwest::Error) -> EngineError {
    tracing::warn!(address, %error, "the pod that leads did not answer");
    match error.is_connect() {
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
