//! Probes, metrics and the API's own description.

use crate::engine::{DiskShort, Health, Writes};
use crate::http::App;
use crate::http::answer::json;
use crate::http::cluster::status::ClusterStatus;
use crate::http::problem::{Code, HttpError};
use crate::http::query::Query;
use axum::body::Body;
use axum::extract::State;
use axum::http::header::CONTENT_TYPE;
use axum::http::{HeaderValue, StatusCode, Uri};
use axum::response::{IntoResponse, Response};
use std::sync::Arc;
use std::time::Duration;

/// The process is alive
///
/// Answers whatever the state of the server; does not touch the storage.
#[utoipa::path(
    get,
    path = "/livez",
    operation_id = "get_liveness",
    tag = "operations",
    security(()),
    responses((status = 200, description = "Alive.", body = String, content_type = "text/plain", example = "ok\n"))
)]
pub(crate) async fn livez() -> &'static str {
    "ok\n"
}

/// The server is ready
///
/// 503 while the log is replayed after a start, and while the server stops.
/// While the server answers questions and refuses changes, it answers 200, and
/// a line for each reason follows the first line. Each begins with a name:
/// `disk_reserve`: the disk is almost full, and changes are answered 507;
/// `storage_refuses`: the storage engine refuses changes after an error;
/// `storage_stalled`: changes wait until the storage engine has caught up;
/// `disk_hangs`: the disk does not answer, changes are answered 503, and so are
/// questions that need pages from the disk.
/// In a cluster also `no_leader`: lanes that no pod leads; `log_silent`: the commit
/// log has not settled a change. There a pod is not ready while it is behind other
/// pods for more than two seconds, or has stopped following them.
/// Never waits for the disk.
#[utoipa::path(
    get,
    path = "/readyz",
    operation_id = "get_readiness",
    tag = "operations",
    security(()),
    extensions(("x-fails" = json!([[Code::Starting, Code::Draining, Code::PodNotReady]]))),
    responses((
        status = 200,
        description = "Ready: `ok`, and a line for each reason for which changes are refused.",
        body = String,
        content_type = "text/plain",
        examples(
            ("well" = (summary = "All is well", value = json!("ok\n"))),
            ("disk_hangs" = (summary = "Questions about pages in memory are answered", value = json!(said(&hanging())))),
            ("disk_almost_full" = (summary = "Questions are answered, changes are not", value = json!(said(&almost_full()))))
        )
    ))
)]
pub(crate) async fn readyz(State(app): State<Arc<App>>) -> Result<String, HttpError> {
    if app.is_draining() {
        return Err(HttpError::Draining);
    }
    let engine = app.engine()?;
    let mut said = said(&engine.health());
    if let Some(cluster) = app.cluster() {
        said += &cluster.readiness(engine)?;
    }
    Ok(said)
}

/// How the cluster is
///
/// Who leads which lane, and how far each pod is, as far as this pod knows: pods
/// hear of each other once a second. `cuckood cluster status` asks the brokers.
#[utoipa::path(
    get,
    path = "/cluster",
    operation_id = "get_cluster",
    tag = "operations",
    security(("api_key" = ["read"])),
    extensions(("x-fails" = json!([[Code::MalformedQuery, Code::InvalidFields, Code::Starting, Code::NoCluster]]))),
    responses((status = 200, description = "Its lanes and pods.", body = ClusterStatus, example = json!(ClusterStatus::example())))
)]
pub(crate) async fn cluster(State(app): State<Arc<App>>, uri: Uri) -> Result<Response, HttpError> {
    Query::none(&uri)?;
    let engine = app.engine()?;
    let cluster = app.cluster().ok_or(HttpError::NoCluster)?;
    json(&cluster.status(engine))
}

fn said(health: &Health) -> String {
    let mut said = "ok\n".to_owned();
    if let Some(short) = health.disk_short {
        said.push_str(&format!("disk_reserve: {short}\n"));
    }
    if let Some(writes) = health.writes_hang_for {
        said.push_str(&format!(
            "disk_hangs: the disk has not answered a write for {} seconds; changes are refused until it does\n",
            writes.as_secs()
        ));
    } else if let Some(reads) = health.reads_hang_for {
        said.push_str(&format!(
            "disk_hangs: the disk has not answered a read for {} seconds\n",
            reads.as_secs()
        ));
    }
    // What the engine says names files, which belong into the log alone.
    said.push_str(match health.writes {
        Writes::Taken => "",
        Writes::Stalled => "storage_stalled: changes wait until the storage engine has caught up\n",
        Writes::Refused { is_disk_full: true, .. } => {
            "storage_refuses: the storage engine takes no changes since the disk was full; it tries again by itself once there is room\n"
        }
        Writes::Refused { .. } => {
            "storage_refuses: the storage engine takes no changes after an error, which is in the server's log\n"
        }
    });
    said
}

/// A state of the description's examples.
fn almost_full() -> Health {
    Health {
        disk_short: Some(DiskShort {
            free_bytes: 800_000_000,
            reserve_bytes: 1 << 30,
        }),
        ..Health::default()
    }
}

/// The same.
fn hanging() -> Health {
    Health {
        writes_hang_for: Some(Duration::from_secs(12)),
        ..Health::default()
    }
}

/// Metrics for Prometheus
#[utoipa::path(
    get,
    path = "/metrics",
    operation_id = "get_metrics",
    tag = "operations",
    security(("api_key" = ["read"])),
    responses((
        status = 200,
        description = "Every family, in the text format of Prometheus.",
        body = String,
        content_type = "text/plain",
        example = "# HELP cuckood_expansions_total Sub-filters added to a chain because it had no room.\n# TYPE cuckood_expansions_total counter\ncuckood_expansions_total 0\n"
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

/// Answers what no route answers.
pub(crate) async fn unknown_route() -> HttpError {
    HttpError::UnknownRoute
}

/// Answers a client without the certificate that is asked for.
pub(crate) async fn certificate_missing() -> HttpError {
    HttpError::CertificateMissing
}

/// Answers a method that a route does not take; the router adds `Allow`.
pub(crate) async fn method_not_allowed() -> StatusCode {
    StatusCode::METHOD_NOT_ALLOWED
}
