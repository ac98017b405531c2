//! Forwards a request to another pod, and its answer back, byte by byte.

use crate::admission::body;
use crate::admission::deadline::Deadline;
use crate::codes::Code;
use crate::headers::REQUEST_ID;
use crate::problem::Result;
use crate::server::App;
use crate::server::cluster::forward::{Forwarded, GRACE, said, unanswered};
use crate::server::cluster::pod::Cluster;
use crate::server::principal::Principal;
use axum::body::Body;
use axum::extract::MatchedPath;
use axum::http::header::{
    CONNECTION, EXPECT, HOST, PROXY_AUTHENTICATE, PROXY_AUTHORIZATION, TE, TRAILER,
    TRANSFER_ENCODING, UPGRADE,
};
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderName, Method, StatusCode};
use axum::response::Response;
use futures_util::TryStreamExt as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};
use tokio::sync::oneshot;
use tokio::time::sleep;

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
const IMPORT: &str = "/filters/{key}/import";
const DUMP: &str = "/filters/{key}/dump";

/// What came as a stream is worked on after its last byte: a dump is verified and comes to
/// all pods in commits of its lane. So slowly it may go, beside the time of any request.
const BYTES_A_SECOND: u64 = 4 << 20;

/// Marks an answer of another pod, which is handed on as it is.
#[derive(Clone, Copy)]
pub(crate) struct IsForwarded;

/// Has another pod answer a request. If that says that it leads no more and did nothing,
/// the body of the request is returned as well, to be sent again, unless it is streamed.
/// The answer is waited for until the request's deadline; where a body may take as long
/// as it likes, for as long as a request may take after its last byte, and a second for
/// each 4 MiB of it. Any other is read before: who sends it slowly holds up nobody there.
///
/// # Errors
/// The body is none, or too large; the pod can't be reached, or has not answered in
/// time.
pub(super) async fn forward(
    cluster: &Cluster,
    app: &App,
    caller: &Principal,
    address: &str,
    parts: &Parts,
    body: Body,
) -> Result<(Response, Option<Body>)> {
    let route = parts.extensions.get::<MatchedPath>();
    let route = route.map_or("", MatchedPath::as_str);
    let is_streamed = [IMPORT, DUMP].contains(&route);
    // What is refused here does not go on to the pod that would refuse it, with all of
    // its body.
    let _places = match (&parts.method, route) {
        (&Method::PUT, DUMP) => vec![app.admission.restores.try_take(caller.holder(), 1)?],
        (&Method::POST, IMPORT) => app.admission.import(caller.holder())?.into(),
        _ => Vec::new(),
    };
    let deadline = Deadline::of_parts(parts);
    let (sent, is_sent) = oneshot::channel::<()>();
    let passed = Arc::new(AtomicU64::new(0));
    let (body, again, _held) = match is_streamed {
        true => (streamed(body, sent, Arc::clone(&passed)), None, None),
        false => {
            let (bytes, held) = body::read(&app.admission, caller.holder(), deadline, body).await?;
            drop(sent);
            (bytes.clone().into(), Some(Body::from(bytes)), held)
        }
    };
    let until = deadline.map(|Deadline(until)| until);
    let longest = app.admission.limits.request_timeout;
    let overdue = async {
        // The sender is never used, only dropped.
        let _ = is_sent.await;
        let wait = match until {
            Some(until) if !is_streamed => until.saturating_duration_since(Instant::now()),
            _ => longest + Duration::from_secs(passed.load(Ordering::Relaxed) / BYTES_A_SECOND),
        };
        sleep(wait + GRACE).await;
    };
    let path = parts.uri.path_and_query();
    let forwarded = Forwarded {
        method: parts.method.clone(),
        path: path.map_or("/", |it| it.as_str()).to_owned(),
        headers: without_those_of_a_connection(&parts.headers),
        body,
        until,
    };
    let answer = cluster.forward(address, forwarded, overdue).await?;
    let mut response = Response::new(Body::empty());
    *response.status_mut() = answer.status();
    *response.headers_mut() = without_those_of_a_connection(answer.headers());
    // It is the request's own, as the outermost layer has it.
    response.headers_mut().remove(REQUEST_ID);
    response.extensions_mut().insert(IsForwarded);
    if answer.status() != StatusCode::SERVICE_UNAVAILABLE {
        *response.body_mut() = Body::from_stream(answer.bytes_stream());
        return Ok((response, None));
    }
    let problem = answer.bytes().await;
    let problem = problem.map_err(|error| unanswered(address, &error))?;
    let is_leading = said(&problem, "code").as_deref() != Some(Code::NotLeading.name());
    *response.body_mut() = problem.into();
    Ok((response, again.filter(|_| !is_leading)))
}

/// A body that goes on as it comes, and how much of it has `passed`. `sent` is dropped
/// with its last byte.
fn streamed(body: Body, sent: oneshot::Sender<()>, passed: Arc<AtomicU64>) -> reqwest::Body {
    let body = body.into_data_stream().inspect_ok(move |bytes| {
        let _held = &sent;
        passed.fetch_add(bytes.len() as u64, Ordering::Relaxed);
    });
    reqwest::Body::wrap_stream(body)
}

fn without_those_of_a_connection(headers: &HeaderMap) -> HeaderMap {
    let kept = headers
        .iter()
        .filter(|(name, _)| !OF_A_CONNECTION.contains(name));
    kept.map(|(name, value)| (name.clone(), value.clone()))
        .collect()
}
