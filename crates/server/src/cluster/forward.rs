//! Forwards what another pod has to do, whatever protocol it came by: as a request
//! over a connection between pods, on which the other pod has proved that it knows
//! the key of the cluster before anything of a caller is sent.

use super::headers::FORWARDED_BY;
use super::pod::Cluster;
use crate::engine::EngineError;
use axum::http::{HeaderMap, HeaderValue, Method};
use std::error::Error;
use std::time::{Duration, Instant};

const PREFER: &str = "prefer";

/// How much longer than its caller another pod is waited for: its own answer says
/// more.
pub const GRACE: Duration = Duration::from_millis(500);

/// What another pod is asked.
pub struct Forwarded {
    /// Its method.
    pub method: Method,
    /// Path and query.
    pub path: String,
    /// Its headers, but for those that are about one connection.
    pub headers: HeaderMap,
    /// Its body.
    pub body: reqwest::Body,
    /// Until when the caller waits, if that is known.
    pub until: Option<Instant>,
}

impl Cluster {
    /// Has another pod do it, and waits for the head of its answer until `overdue`.
    ///
    /// # Errors
    /// [`EngineError::NotLeading`]: nothing was sent, so nothing was done.
    /// [`EngineError::LogSilent`]: it may be done.
    pub async fn forward(
        &self,
        address: &str,
        forwarded: Forwarded,
        overdue: impl Future<Output = ()>,
    ) -> Result<reqwest::Response, EngineError> {
        let mut headers = forwarded.headers;
        if let Ok(own) = HeaderValue::from_str(self.links.own()) {
            headers.append(FORWARDED_BY, own);
        }
        let left = |until: Instant| until.saturating_duration_since(Instant::now());
        let wait = forwarded.until.map(|until| left(until).as_secs_f64());
        let wait =
            wait.map(|seconds| HeaderValue::try_from(format!("wait={:.3}", seconds.max(0.001))));
        if let Some(Ok(wait)) = wait {
            headers.insert(PREFER, wait);
        }
        let failed = |error| unanswered(address, &error);
        let client = self.links.to(address).map_err(failed)?;
        let asked = client
            .request(forwarded.method, format!("{address}{}", forwarded.path))
            .headers(headers)
            .body(forwarded.body);
        tokio::select! {
            answered = asked.send() => answered.map_err(failed),
            () = overdue => Err(EngineError::LogSilent),
        }
    }
}

/// What a problem document says in a field.
pub fn said(problem: &[u8], field: &str) -> Option<String> {
    let problem: serde_json::Value = serde_json::from_slice(problem).ok()?;
    Some(problem.get(field)?.as_str()?.to_owned())
}

/// What it means that the pod that leads did not answer: where nothing was sent to it,
/// nothing was done.
pub fn unanswered(address: &str, error: &reqwest::Error) -> EngineError {
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
