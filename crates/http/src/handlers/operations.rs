//! Probes, metrics and the API's own description.

use crate::answer::json;
use crate::codes::Code;
use crate::engine::{Health, Writes};
use crate::extract::NoQuery;
use crate::problem::{HttpError, Result, excerpt};
use crate::server::{App, Cluster};
use axum::body::Body;
use axum::extract::{MatchedPath, State};
use axum::http::header::CONTENT_TYPE;
use axum::http::{HeaderValue, Method, Uri};
use axum::response::IntoResponse;
use std::sync::Arc;

/// `GET /livez`.
pub(crate) async fn get_liveness() -> &'static str {
    "ok\n"
}

/// `GET /readyz`.
pub(crate) async fn get_readiness(State(app): State<Arc<App>>) -> Result<String> {
    if app.is_draining() {
        return Err(HttpError::Plain(Code::Draining));
    }
    let cluster = app.cluster();
    if let Some(reason) = cluster.and_then(Cluster::takes_no_part) {
        let reason = reason.to_owned();
        return Err(HttpError::PodNotReady { reason });
    }
    let engine = app.engine()?;
    let mut said = said(&engine.health());
    if let Some(cluster) = cluster {
        let readiness = cluster.readiness(engine);
        said += &readiness.map_err(|reason| HttpError::PodNotReady { reason })?;
    }
    Ok(said)
}

/// `GET /cluster`.
pub(crate) async fn get_cluster(State(app): State<Arc<App>>, _: NoQuery) -> Result {
    let engine = app.engine()?;
    let cluster = app.cluster().ok_or(HttpError::Plain(Code::NoCluster))?;
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
        let seconds = reads.as_secs();
        said += &format!("disk_hangs: the disk has not answered a read for {seconds} seconds\n");
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

/// What it says in some states: of each its name, what it means, and the words.
#[cfg(test)]
pub(crate) fn states() -> Vec<(&'static str, &'static str, String)> {
    let almost_full = Health {
        disk_short: Some(crate::engine::DiskShort {
            free_bytes: 800_000_000,
            reserve_bytes: 1 << 30,
        }),
        ..Health::default()
    };
    let hanging = Health {
        writes_hang_for: Some(std::time::Duration::from_secs(12)),
        ..Health::default()
    };
    let (answered, refused) = (
        "Questions about pages in memory are answered",
        "Questions are answered, changes are not",
    );
    vec![
        ("well", "All is well", "ok\n".to_owned()),
        ("disk_hangs", answered, said(&hanging)),
        ("disk_almost_full", refused, said(&almost_full)),
    ]
}

/// Held while the families are put together, one after the other: whoever asks for
/// them again and again keeps one core busy.
static ENCODING: tokio::sync::Mutex<()> = tokio::sync::Mutex::const_new(());

/// `GET /metrics`.
pub(crate) async fn get_metrics(State(app): State<Arc<App>>) -> Result {
    // Gauges of the store are read from it, which may take a while.
    let metrics = Arc::clone(&app.metrics);
    let encoding = ENCODING.lock().await;
    let text = tokio::task::spawn_blocking(move || {
        let _encoding = encoding;
        metrics.encode()
    })
    .await?
    .map_err(HttpError::unanswerable)?;
    let media_type = HeaderValue::from_static(prometheus::TEXT_FORMAT);
    Ok(([(CONTENT_TYPE, media_type)], Body::from(text)).into_response())
}

/// Answers what no route answers.
pub(crate) async fn unknown_route() -> HttpError {
    HttpError::Plain(Code::UnknownRoute)
}

/// Answers a client without the certificate that is asked for.
pub(crate) async fn certificate_missing() -> HttpError {
    HttpError::Plain(Code::CertificateMissing)
}

/// Answers a method that a route does not take; the router adds `Allow`.
pub(crate) async fn method_not_allowed(
    method: Method,
    route: Option<MatchedPath>,
    uri: Uri,
) -> HttpError {
    let route = route.as_ref().map_or("", MatchedPath::as_str);
    let Some((_, meant)) = WHAT_A_PATH_TAKES.iter().find(|(it, _)| *it == route) else {
        return HttpError::Plain(Code::MethodNotAllowed);
    };
    let key = uri.path().split('/').nth(2).unwrap_or_default();
    HttpError::MethodMistaken {
        method: excerpt(method.as_str()),
        meant: meant.replace("{}", &format!("/filters/{}", excerpt(key))),
    }
}

/// What somebody may mean who asks for a path with another method. `{}` is the path of
/// the filter.
#[rustfmt::skip]
const WHAT_A_PATH_TAKES: [(&str, &str); 18] = [
    ("/filters", "PUT /filters/NAME creates a filter, GET /filters lists them"),
    ("/filters/{key}", "PUT {} creates the filter, POST {}/items adds items"),
    ("/filters/{key}/items", "POST {}/items adds items, GET {}/exists?item=ITEM asks for one, POST {}/items/delete deletes them; they can't be listed"),
    ("/filters/{key}/items/delete", "POST {}/items/delete deletes items"),
    ("/filters/{key}/exists", "GET {}/exists?item=ITEM asks for an item, POST {}/exists for many"),
    ("/filters/{key}/count", "GET {}/count?item=ITEM counts an item, POST {}/count many"),
    ("/filters/{key}/values", "POST {}/values adds values, GET {}/values?item=ITEM lists them, POST {}/values/delete deletes, POST {}/values/replace replaces them"),
    ("/filters/{key}/values/delete", "POST {}/values/delete deletes values"),
    ("/filters/{key}/values/query", "POST {}/values/query lists the values of many items, GET {}/values?item=ITEM of one"),
    ("/filters/{key}/import", "POST {}/import imports lines, GET {}/imports/IMPORT_ID queries an import"),
    ("/filters/{key}/dump", "GET {}/dump hands the dump out, PUT {}/dump restores it"),
    ("/filters/{key}/merge", "POST {}/merge makes the filter the union of itself and others"),
    ("/filters/{key}/compact", "POST {}/compact starts a compaction, GET {}/compaction queries it"),
    ("/filters/{key}/compaction", "GET {}/compaction queries a compaction, POST {}/compact starts one"),
    ("/filters/{key}/history", "GET {}/history lists how the filter grew"),
    ("/filters/{key}/locate", "GET {}/locate?item=ITEM says where an item may lie"),
    ("/lookup", "POST /lookup finds the filters that contain items"),
    ("/preview", "POST /preview says what a filter would be"),
];
