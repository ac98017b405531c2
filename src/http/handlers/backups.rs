//! Backups: begin one, follow it, download it.

use crate::backup::{BackupId, BackupInfo, Backups};
use crate::http::App;
use crate::http::answer::{json, json_at};
use crate::http::idempotency::refuse_key;
use crate::http::media::TAR;
use crate::http::middleware::audit::Note;
use crate::http::middleware::principal::Principal;
use crate::http::openapi::facts::BACKUPS;
use crate::http::openapi::schemas::Binary;
use crate::http::problem::{Code, HttpError};
use crate::http::query::Query;
use crate::http::stream;
use crate::http::words::BackupState;
use axum::extract::{Path, State};
use axum::http::header::{CONTENT_DISPOSITION, CONTENT_LENGTH, CONTENT_TYPE};
use axum::http::{HeaderMap, StatusCode, Uri};
use axum::response::{IntoResponse, Response};
use serde::Serialize;
use std::io::Read as _;
use std::sync::Arc;
use std::time::SystemTime;
use utoipa::ToSchema;

/// A backup.
#[derive(Serialize, ToSchema)]
pub(crate) struct BackupBody {
    /// Its id: the second in which it was started (UTC).
    #[schema(example = "20261121T114517Z")]
    id: String,
    #[schema(inline)]
    state: BackupState,
    /// When it was started (RFC 3339). It contains everything acknowledged before.
    #[schema(example = "2026-11-21T11:45:17Z", format = DateTime)]
    begun_at: String,
    /// Bytes of the archive when it is complete.
    #[schema(example = 104_857_600)]
    bytes: u64,
    /// Bytes written, or read again while it is verified; all of them while what it contains is compared.
    #[schema(example = 52_428_800)]
    done_bytes: u64,
    /// Why it failed; null unless it did.
    #[schema(example = json!(null))]
    failure: Option<String>,
}

/// All backups.
#[derive(Serialize, ToSchema)]
pub(crate) struct BackupListBody {
    /// Newest first: the running one, the complete ones, and the last one if it failed.
    backups: Vec<BackupBody>,
    /// Number of complete backups to keep; older ones are deleted when a new one is complete.
    #[schema(example = 7)]
    keep: usize,
}

impl From<BackupInfo> for BackupBody {
    fn from(info: BackupInfo) -> BackupBody {
        BackupBody {
            state: info.state.into(),
            begun_at: humantime::format_rfc3339_seconds(info.id.time()).to_string(),
            id: info.id.to_string(),
            bytes: info.bytes,
            done_bytes: info.done_bytes,
            failure: info.failure,
        }
    }
}

/// A backup of the description's examples.
fn example(state: BackupState, done_bytes: u64) -> BackupBody {
    BackupBody {
        id: "20261121T114517Z".to_owned(),
        state,
        begun_at: "2026-11-21T11:45:17Z".to_owned(),
        bytes: 104_857_600,
        done_bytes,
        failure: None,
    }
}

/// Begin a backup
///
/// Starts a backup of everything acknowledged so far, into the server's
/// `--backup-dir`. Other requests are served meanwhile. The answer arrives when
/// the state is pinned; the archive is written and verified in the background.
/// One backup runs at a time.
#[utoipa::path(
    post,
    path = "/admin/backups",
    operation_id = "create_backup",
    tag = "operations",
    security(("api_key" = ["admin"])),
    extensions(("x-audited" = json!(true)), ("x-fails" = json!([BACKUPS, [Code::BackupRunning, Code::NoRoom, Code::DiskReserve, Code::IdempotencyKeyNotTaken]]))),
    responses((
        status = 202,
        description = "The backup is running.",
        body = BackupBody,
        headers(("Location" = String, description = "Path of its status.")),
        example = json!(example(BackupState::Writing, 0))
    ))
)]
pub(crate) async fn post_backup(
    State(app): State<Arc<App>>,
    uri: Uri,
    headers: HeaderMap,
) -> Result<Response, HttpError> {
    Query::none(&uri)?;
    refuse_key(
        &headers,
        "GET /admin/backups tells whether the backup was begun",
    )?;
    let info = with_backups(&app, |backups| Ok(backups.start(SystemTime::now())?)).await?;
    let location = format!("/admin/backups/{}/status", info.id);
    let note = Note(info.id.to_string().into());
    let mut response = json_at(StatusCode::ACCEPTED, &location, &BackupBody::from(info))?;
    response.extensions_mut().insert(note);
    Ok(response)
}

/// List backups
#[utoipa::path(
    get,
    path = "/admin/backups",
    operation_id = "list_backups",
    tag = "operations",
    security(("api_key" = ["admin"])),
    extensions(("x-fails" = json!([BACKUPS]))),
    responses((
        status = 200,
        description = "Newest first.",
        body = BackupListBody,
        example = json!(BackupListBody { backups: vec![example(BackupState::Complete, 104_857_600)], keep: 7 })
    ))
)]
pub(crate) async fn list_backups(
    State(app): State<Arc<App>>,
    uri: Uri,
) -> Result<Response, HttpError> {
    Query::none(&uri)?;
    let (backups, keep) =
        with_backups(&app, |backups| Ok((backups.list()?, backups.kept()))).await?;
    json(&BackupListBody {
        backups: backups.into_iter().map(BackupBody::from).collect(),
        keep,
    })
}

/// Follow a backup
#[utoipa::path(
    get,
    path = "/admin/backups/{id}/status",
    operation_id = "get_backup_status",
    tag = "operations",
    security(("api_key" = ["admin"])),
    extensions(("x-fails" = json!([BACKUPS, [Code::BackupNotFound]]))),
    params(("id" = String, Path, description = "Id of the backup.", example = "20261121T114517Z")),
    responses((
        status = 200,
        description = "Its progress.",
        body = BackupBody,
        example = json!(example(BackupState::Writing, 52_428_800))
    ))
)]
pub(crate) async fn get_backup_status(
    State(app): State<Arc<App>>,
    Path(id): Path<String>,
    uri: Uri,
) -> Result<Response, HttpError> {
    Query::none(&uri)?;
    let id = known(id)?;
    let info = with_backups(&app, move |backups| Ok(backups.info(&id)?)).await?;
    json(&BackupBody::from(info))
}

/// Download a backup
///
/// The archive, a tar file. `cuckood restore` restores it into a data
/// directory. `tar` extracts it, and `sha256sum -c SHA256SUMS` verifies it.
#[utoipa::path(
    get,
    path = "/admin/backups/{id}",
    operation_id = "download_backup",
    tag = "operations",
    security(("api_key" = ["admin"])),
    extensions(("x-audited" = json!(true)), ("x-fails" = json!([BACKUPS, [Code::BackupNotFound, Code::BackupRunning, Code::Overloaded]]))),
    params(("id" = String, Path, description = "Id of the backup.", example = "20261121T114517Z")),
    responses((
        status = 200,
        description = "The archive.",
        body = inline(Binary),
        content_type = TAR,
        example = "(a tar file)"
    ))
)]
pub(crate) async fn get_backup(
    State(app): State<Arc<App>>,
    Path(id): Path<String>,
    caller: Principal,
    uri: Uri,
) -> Result<Response, HttpError> {
    Query::none(&uri)?;
    let id = known(id)?;
    let slot = app.admission.downloads.try_take(caller.holder(), 1)?;
    let file_name = id.file_name();
    let (mut archive, bytes) = with_backups(&app, move |backups| Ok(backups.archive(&id)?)).await?;
    let body = stream::start(slot, move |pieces| {
        let mut left = bytes;
        while left > 0 {
            let mut piece = vec![0; left.min(stream::PIECE_BYTES as u64) as usize];
            if let Err(error) = archive.read_exact(&mut piece) {
                return pieces.break_off(&error);
            }
            left -= piece.len() as u64;
            if pieces.send(piece).is_err() {
                return;
            }
        }
    });
    // A file name consists of digits and letters.
    let headers = [
        (CONTENT_TYPE, TAR.to_owned()),
        (CONTENT_LENGTH, bytes.to_string()),
        (
            CONTENT_DISPOSITION,
            format!("attachment; filename=\"{file_name}\""),
        ),
    ];
    Ok((headers, body).into_response())
}

/// A name that no backup can have leads to none.
fn known(id: String) -> Result<BackupId, HttpError> {
    BackupId::parse(&id).ok_or(HttpError::BackupNotFound)
}

/// Works with the backups where it may block.
async fn with_backups<T: Send + 'static>(
    app: &App,
    work: impl FnOnce(&Backups) -> Result<T, HttpError> + Send + 'static,
) -> Result<T, HttpError> {
    let backups = app.backups()?.clone();
    tokio::task::spawn_blocking(move || work(&backups))
        .await
        .map_err(|_| HttpError::Panicked)?
}
