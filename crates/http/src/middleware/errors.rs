//! The outermost layer: gives each request an id, renders every error in one
//! shape, logs each failure once, counts.

use super::audit::{Act, Answered};
use super::origin;
use crate::admission::unread::{LINGER, Rest, SHORT_LINGER, UnreadBody};
use crate::cluster::forward::IsForwarded;
use crate::codes::Code;
use crate::headers::REQUEST_ID;
use crate::layer::{InnerService, Middleware};
use crate::media::PROBLEM_JSON;
use crate::problem::HttpError;
use crate::requirement::Operations;
use crate::server::App;
use crate::server::listen::polls::{Timed, Work, set_work};
use crate::server::listen::role::Transport;
use crate::server::principal::Principal;
use axum::body::Body;
use axum::extract::{MatchedPath, Request};
use axum::http::header::{
    CACHE_CONTROL, CONNECTION, CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_RANGE, CONTENT_TYPE,
    RETRY_AFTER, WWW_AUTHENTICATE, X_CONTENT_TYPE_OPTIONS,
};
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode};
use axum::response::{IntoResponse, Response};
use futures_util::FutureExt as _;
use futures_util::future::Either;
use scopeguard::guard;
use std::convert::Infallible;
use std::error::Error;
use std::hash::{BuildHasher, RandomState};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};
use tracing::Level;

const LONGEST_REQUEST_ID: usize = 128;

/// Route under which requests are counted that no route matched, and method
/// of those that use none of the usual ones: a client can't add series.
const UNMATCHED: &str = "unmatched";
const OTHER_METHOD: &str = "other";

/// The outermost layer. See the module.
#[derive(Clone)]
pub(crate) struct ErrorLayer {
    pub(crate) app: Arc<App>,
    pub(crate) transport: Transport,
    pub(crate) operations: Arc<Operations>,
}

impl Middleware for ErrorLayer {
    fn answer<S: InnerService>(
        self: Arc<Self>,
        request: Request,
        inner: S,
    ) -> impl Future<Output = Result<Response, Infallible>> + Send {
        let path = request.extensions().get::<MatchedPath>();
        let work = path.cloned().map_or(Work::Unknown, Work::Route);
        let route = path.map_or(UNMATCHED, MatchedPath::as_str);
        set_work(work);
        let operation = self.operations.get(route, request.method());
        match operation.and_then(|it| it.audited_as) {
            None => Either::Left(self.respond(request, inner, None)),
            Some(action) => Either::Right(Box::pin(self.respond_audited(request, inner, action))),
        }
    }
}

impl ErrorLayer {
    /// Answers a request of which the audit log is told. It is finished even if
    /// its client goes away meanwhile, so that what becomes of it is known.
    async fn respond_audited<S: InnerService>(
        self: Arc<Self>,
        request: Request,
        inner: S,
        action: &'static str,
    ) -> Result<Response, Infallible> {
        let (act, request) = Act::of(action, request).await;
        let work = request.extensions().get::<MatchedPath>().cloned();
        let work = work.map_or(Work::Unknown, Work::Route);
        let app = Arc::clone(&self.app);
        let (seconds, threads) = (&app.metrics.http_poll_seconds, &app.admission.threads);
        let responding = self.respond(request, inner, Some(Box::new(act)));
        let responding = tokio::spawn(Timed::new(responding, seconds, work, threads));
        // It ends early only with the whole server.
        let ended = |_| Ok(StatusCode::INTERNAL_SERVER_ERROR.into_response());
        responding.await.unwrap_or_else(ended)
    }

    fn respond<S: InnerService>(
        self: Arc<Self>,
        mut request: Request,
        mut inner: S,
        act: Option<Box<Act>>,
    ) -> impl Future<Output = Result<Response, Infallible>> + Send {
        let started = Instant::now();
        let unread = UnreadBody::of(&mut request);
        async move {
            let app = &*self.app;
            let request_id = request_id(request.headers());
            let method = method_label(request.method());
            let route = request.extensions().get::<MatchedPath>().cloned();
            let route = route.as_ref().map_or(UNMATCHED, MatchedPath::as_str);

            app.metrics.http_in_flight.inc();
            // Also when the client goes away in the middle of the request.
            let in_flight = guard(&app.metrics.http_in_flight, |it| it.dec());
            let (hosts, uri, headers) = (&app.access.hosts, request.uri(), request.headers());
            let is_in_cluster = app.cluster().is_some();
            let mut response = match origin::check(hosts, self.transport, uri, headers) {
                Ok(()) => {
                    if is_in_cluster {
                        // It goes on with the request, to whichever pod answers.
                        request.headers_mut().insert(REQUEST_ID, request_id.clone());
                    }
                    // Whatever a panic leaves behind, no request sees it but its
                    // own.
                    let answered = match catch_unwind(AssertUnwindSafe(|| inner.call(request))) {
                        Ok(answering) => AssertUnwindSafe(answering).catch_unwind().await,
                        Err(panic) => Err(panic),
                    };
                    match answered {
                        Ok(answered) => answered?,
                        Err(_) => HttpError::Plain(Code::Internal).into_response(),
                    }
                }
                Err(foreign) => foreign.into_response(),
            };
            let failure = failure(&response);
            let rest = match &failure {
                None => Rest::Nothing,
                Some(error) => unread.discard(linger(error.code())).await,
            };
            drop(in_flight);
            let audited = act.map(|act| (act, Answered::of(&response, failure.as_ref())));

            let seconds = started.elapsed().as_secs_f64();
            if let Some(error) = failure {
                let code = error.code();
                if code.is_counted() {
                    let reason = [code.name()];
                    app.metrics.http_rejected.with_label_values(&reason).inc();
                }
                let caller = response.extensions().get::<Principal>().cloned();
                let caller = caller.unwrap_or_default();
                log(&error, text(&request_id), method, route, &caller, seconds);
                response = render(&error, text(&request_id), response.headers());
                if rest == Rest::Something {
                    let close = HeaderValue::from_static("close");
                    response.headers_mut().insert(CONNECTION, close);
                }
            }
            let status = response.status();
            if let Some((act, answered)) = audited {
                act.log(text(&request_id), status, &answered);
            }
            app.metrics
                .http_requests
                .with_label_values(&[route, method, status.as_str()])
                .inc();
            app.metrics
                .http_request_seconds
                .with_label_values(&[route, method])
                .observe(seconds);

            let headers = response.headers_mut();
            if app.is_draining() {
                // The next request goes to another connection, and another server
                // if there is one.
                headers.insert(CONNECTION, HeaderValue::from_static("close"));
            }
            headers.insert(REQUEST_ID, request_id);
            headers
                .entry(CACHE_CONTROL)
                .or_insert(HeaderValue::from_static("no-store"));
            headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
            Ok(response)
        }
    }
}

/// The whole answer to a head that is no request; logs and counts it.
pub(crate) fn refuse_head(app: &App, error: &HttpError) -> Vec<u8> {
    let request_id = fresh_request_id();
    let request_id = text(&request_id);
    let caller = Principal::default();
    log(error, request_id, OTHER_METHOD, UNMATCHED, &caller, 0.0);
    whole_answer(app, error, request_id)
}

/// The whole answer on a connection for which there is no place. What is logged of
/// these is bounded elsewhere.
pub(crate) fn refuse_connection(app: &App) -> Vec<u8> {
    let error = HttpError::Plain(Code::TooManyConnections);
    whole_answer(app, &error, text(&fresh_request_id()))
}

fn whole_answer(app: &App, error: &HttpError, request_id: &str) -> Vec<u8> {
    let status = error.status();
    app.metrics
        .http_requests
        .with_label_values(&[UNMATCHED, OTHER_METHOD, status.as_str()])
        .inc();
    let body = serde_json::to_string(&error.problem(request_id)).unwrap_or_default();
    let retry = error.retry_after_seconds();
    let retry = retry.map(|seconds| format!("{RETRY_AFTER}: {seconds}\r\n"));
    format!(
        "HTTP/1.1 {status}\r\ncontent-type: {PROBLEM_JSON}\r\ncontent-length: {}\r\n{REQUEST_ID}: {request_id}\r\n{}\
         cache-control: no-store\r\nx-content-type-options: nosniff\r\nconnection: close\r\n\r\n{body}\n",
        body.len() + 1,
        retry.unwrap_or_default(),
    )
    .into_bytes()
}

/// How long the rest of a refused body is read on: not for as long as usual
/// where streams have to end in time.
fn linger(code: Code) -> Duration {
    match code {
        Code::ApiKeyExpired | Code::ApiKeyRevoked => SHORT_LINGER,
        // What is not there yet is waited for no longer.
        Code::BodyTimeout | Code::DeadlineExceeded => Duration::ZERO,
        _ => LINGER,
    }
}

/// The error behind a response: ours, or one of the framework's own.
fn failure(response: &Response) -> Option<Arc<HttpError>> {
    if let Some(error) = response.extensions().get::<Arc<HttpError>>() {
        return Some(Arc::clone(error));
    }
    if response.extensions().get::<IsForwarded>().is_some() {
        // The other pod has said all of it.
        return None;
    }
    HttpError::from_status(response.status()).map(Arc::new)
}

/// The problem details; `headers` are those of the response it replaces, of
/// which `Allow` and the like stay.
fn render(error: &HttpError, request_id: &str, headers: &HeaderMap) -> Response {
    let mut body = serde_json::to_vec(&error.problem(request_id)).unwrap_or_default();
    body.push(b'\n');
    let mut response = Response::new(Body::from(body));
    *response.status_mut() = error.status();
    *response.headers_mut() = headers.clone();
    let headers = response.headers_mut();
    headers.remove(CONTENT_LENGTH);
    headers.remove(CONTENT_ENCODING);
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(PROBLEM_JSON));
    if let Some(seconds) = error.retry_after_seconds() {
        headers.insert(RETRY_AFTER, HeaderValue::from(seconds));
    }
    let challenge = error.challenge().map(HeaderValue::try_from);
    if let Some(Ok(challenge)) = challenge {
        headers.insert(WWW_AUTHENTICATE, challenge);
    }
    if let HttpError::RangeBeyondEnd { bytes } = error
        && let Ok(all) = HeaderValue::try_from(format!("bytes */{bytes}"))
    {
        headers.insert(CONTENT_RANGE, all);
    }
    response
}

/// Writes the line of a failed request. It names the route, never the path: the path
/// holds the filter's key, the query an item. The caller is the name of an API key,
/// which is no secret. A caller has no more of them than [`Principal::may_log_refusal`]
/// says.
fn log(
    error: &HttpError,
    request_id: &str,
    method: &str,
    route: &str,
    caller: &Principal,
    seconds: f64,
) {
    let status = error.code().status();
    let code = error.code().name();
    macro_rules! line {
        ($level:ident, $($what:tt)*) => {
            // A line that nobody wants is none of the caller's.
            if tracing::enabled!(Level::$level) && caller.may_log_refusal() {
                let caller = caller.name();
                tracing::event!(Level::$level, request_id, method, route, caller, status, code, seconds, $($what)*);
            }
        };
    }
    if status < 500 {
        line!(INFO, "request refused");
    } else if status == StatusCode::SERVICE_UNAVAILABLE.as_u16() {
        line!(WARN, "request turned away");
    } else {
        let cause = causes(error);
        line!(ERROR, cause, "request failed");
    }
}

fn causes(error: &HttpError) -> String {
    let mut text = match error {
        HttpError::Unanswerable { cause } => cause.clone(),
        other => other.to_string(),
    };
    let mut source = error.source();
    while let Some(cause) = source {
        // An error may say its cause itself, for logs that show it alone.
        let said = cause.to_string();
        if !text.ends_with(&said) && !text.contains(&format!(": {said}")) {
            text.push_str(": ");
            text.push_str(&said);
        }
        source = cause.source();
    }
    text
}

/// The client's id if it is sane, otherwise a new one.
fn request_id(headers: &HeaderMap) -> HeaderValue {
    let is_sane = |id: &[u8]| {
        let allowed = |byte: &u8| byte.is_ascii_alphanumeric() || b"-_.:+/=".contains(byte);
        (1..=LONGEST_REQUEST_ID).contains(&id.len()) && id.iter().all(allowed)
    };
    match headers.get(REQUEST_ID) {
        Some(given) if is_sane(given.as_bytes()) => given.clone(),
        _ => fresh_request_id(),
    }
}

/// A request id as text, which all of them are.
fn text(request_id: &HeaderValue) -> &str {
    request_id.to_str().unwrap_or_default()
}

/// Sixteen hexadecimal digits: a counter behind a keyed hash of the process,
/// unlikely to repeat, and nothing can be told from it.
fn fresh_request_id() -> HeaderValue {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    static KEY: std::sync::LazyLock<RandomState> = std::sync::LazyLock::new(RandomState::new);
    let hash = KEY.hash_one(NEXT.fetch_add(1, Ordering::Relaxed));
    let mut digits = *b"0123456789abcdef";
    let _ = hex::encode_to_slice(hash.to_be_bytes(), &mut digits);
    HeaderValue::from_bytes(&digits).unwrap_or(HeaderValue::from_static("-"))
}

fn method_label(method: &Method) -> &'static str {
    let mut usual = ["GET", "HEAD", "POST", "PUT", "DELETE", "PATCH", "OPTIONS"].into_iter();
    let label = usual.find(|label| *label == method.as_str());
    label.unwrap_or(OTHER_METHOD)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::{EngineError, StoreError};
    use std::sync::Arc;

    #[test]
    fn each_cause_of_a_failure_is_logged_once() {
        let failed = StoreError::Io {
            doing: "reading",
            source: "a torn page".into(),
        };
        let error = HttpError::Engine(EngineError::Store(Arc::new(failed)));
        let logged = causes(&error);
        assert_eq!(logged.matches("a torn page").count(), 1, "{logged}");
        assert_eq!(logged.matches("while reading").count(), 1, "{logged}");
    }

    #[test]
    fn a_sane_request_id_is_kept_and_another_replaced() {
        let id = |value: &[u8]| {
            let mut headers = HeaderMap::new();
            headers.insert(REQUEST_ID, HeaderValue::from_bytes(value).unwrap());
            request_id(&headers)
        };
        assert_eq!(id(b"order-17.a"), "order-17.a");
        for odd in [&b""[..], b"a b", b"a\"b", b"\xffx", &[b'a'; 129]] {
            assert_eq!(id(odd).len(), 16, "{odd:?}");
        }
        let (one, other) = (fresh_request_id(), fresh_request_id());
        assert_ne!(one, other);
        for id in [one, other] {
            assert!(text(&id).len() == 16 && u64::from_str_radix(text(&id), 16).is_ok());
        }
    }
}
