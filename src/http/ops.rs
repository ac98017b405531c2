//! Probes, metrics and the API's own description.

use super::App;
use super::openapi;
use super::problem::HttpError;
use axum::body::Body;
use axum::extract::State;
use axum::http::header::CONTENT_TYPE;
use axum::http::{HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use std::sync::{Arc, LazyLock};

/// The process is alive
///
/// Says so whatever else is going on; touches no storage.
#[utoipa::path(
    get,
    path = "/livez",
    operation_id = "get_liveness",
    tag = "operations",
    responses((status = 200, description = "Alive.", body = String, content_type = "text/plain", example = "ok\n"))
)]
pub(crate) async fn livez() -> &'static str {
    "ok\n"
}

/// The server takes requests
///
/// Says no while the log is replayed after a start, and while the server stops.
#[utoipa::path(
    get,
    path = "/readyz",
    operation_id = "get_readiness",
    tag = "operations",
    responses((status = 200, description = "Ready.", body = String, content_type = "text/plain", example = "ok\n"))
)]
pub(crate) async fn readyz(State(app): State<Arc<App>>) -> Result<&'static str, HttpError> {
    if app.is_draining() {
        return Err(HttpError::Draining);
    }
    app.engine()?;
    Ok("ok\n")
}

/// Metrics for Prometheus
#[utoipa::path(
    get,
    path = "/metrics",
    operation_id = "get_metrics",
    tag = "operations",
    responses((
        status = 200,
        description = "Every family, in the text format of Prometheus.",
        body = String,
        content_type = "text/plain",
        example = "# HELP cuckood_expansions_total Sub-filters appended to a chain that had no room left.\n# TYPE cuckood_expansions_total counter\ncuckood_expansions_total 0\n"
    ))
)]
pub(crate) async fn metrics(State(app): State<Arc<App>>) -> Result<Response, HttpError> {
    // Gauges of the store are read from it, which may take a while.
    let metrics = Arc::clone(&app.metrics);
    let text = tokio::task::spawn_blocking(move || metrics.encode())
        .await
        .map_err(|_| HttpError::Panicked)?
        .map_err(|error| HttpError::Unanswerable {
            cause: error.to_string(),
        })?;
    let media_type = HeaderValue::from_static(prometheus::TEXT_FORMAT);
    Ok(([(CONTENT_TYPE, media_type)], Body::from(text)).into_response())
}

/// This description
#[utoipa::path(
    get,
    path = "/openapi.json",
    operation_id = "get_openapi",
    tag = "operations",
    responses((status = 200, description = "The OpenAPI document.", body = Object, example = json!({"openapi": "3.1.0"})))
)]
pub(crate) async fn openapi_json() -> Response {
    static DOCUMENT: LazyLock<String> = LazyLock::new(openapi::document);
    let media_type = HeaderValue::from_static("application/json");
    ([(CONTENT_TYPE, media_type)], DOCUMENT.as_str()).into_response()
}

/// Answers what no route answers.
pub(crate) async fn unknown_route() -> HttpError {
    HttpError::UnknownRoute
}

/// Answers a method that a route does not take; the router adds `Allow`.
pub(crate) async fn method_not_allowed() -> StatusCode {
    StatusCode::METHOD_NOT_ALLOWED
}
