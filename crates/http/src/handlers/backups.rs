//! Backups: begin one, follow it, download it.

use crate::answer::{json, json_at};
use crate::backup::{BackupId, BackupInfo, Backups};
use crate::codes::Code;
use crate::extract::NoQuery;
use crate::idempotency::refuse_key;
use crate::media::TAR;
use crate::middleware::audit::noted;
use crate::problem::{HttpError, Result};
use crate::server::App;
use crate::server::principal::Principal;
use crate::stream;
use crate::words::BackupState;
use axum::Extension;
use axum::extract::{Path, State};
use axum::http::header::{CONTENT_DISPOSITION, CONTENT_LENGTH, CONTENT_TYPE};
use axum::http::{HeaderMap, StatusCode};
use axum::response::IntoResponse;
use serde::Serialize;
use std::io::Read as _;
use std::sync::Arc;
use std::time::SystemTime;

/// A backup.
#[derive(Serialize)]
#[cfg_attr(test, derive(utoipa::ToSchema))]
pub(crate) struct BackupBody {
    /// Its id: the second in which it was started (UTC).
    id: String,
    #[cfg_attr(test, schema(inline))]
    state: BackupState,
    /// When it was started (RFC 3339). It contains everything acknowledged before.
    #[cfg_attr(test, schema(format = DateTime))]
    begun_at: String,
    /// Bytes of the archive when it is complete.
    bytes: u64,
    /// Bytes written, or read again while it is verified; all of them while what it contains is compared.
    done_bytes: u64,
    /// Why it failed; null unless it did.
    failure: Option<String>,
}

/// All backups.
#[derive(Serialize)]
#[cfg_attr(test, derive(utoipa::ToSchema))]
pub(crate) struct BackupListBody {
    /// Newest first: the running one, the complete ones, and the last one if it failed.
    backups: Vec<BackupBody>,
    /// Number of complete backups to keep; older ones are deleted when a new one is complete.
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
#[cfg(test)]
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

/// What is answered when one begins, where they are listed, and of one.
#[cfg(test)]
pub(crate) fn examples() -> (serde_json::Value, serde_json::Value, serde_json::Value) {
    let complete = example(BackupState::Complete, 104_857_600);
    let listed = BackupListBody {
        backups: vec![complete],
        keep: 7,
    };
    (
        serde_json::json!(example(BackupState::Writing, 0)),
        serde_json::json!(listed),
        serde_json::json!(example(BackupState::Writing, 52_428_800)),
    )
}

/// `POST /admin/backups`.
pub(crate) async fn create_backup(
    State(app): State<Arc<App>>,
    _: NoQuery,
    headers: HeaderMap,
) -> Result {
    let instead = "GET /admin/backups tells whether the backup was begun";
    refuse_key(&headers, instead)?;
    let info = with_backups(&app, |backups| Ok(backups.start(SystemTime::now())?)).await?;
    let location = format!("/admin/backups/{}/status", info.id);
    let id = info.id.to_string();
    let response = json_at(StatusCode::ACCEPTED, &location, &BackupBody::from(info))?;
    Ok(noted(response, id))
}

/// `GET /admin/backups`.
pub(crate) async fn list_backups(State(app): State<Arc<App>>, _: NoQuery) -> Result {
    let (backups, keep) = with_backups(&app, |it| Ok((it.list()?, it.keep))).await?;
    json(&BackupListBody {
        backups: backups.into_iter().map(BackupBody::from).collect(),
        keep,
    })
}

/// `GET /admin/backups/{id}/status`.
pub(crate) async fn get_backup_status(
    State(app): State<Arc<App>>,
    Path(id): Path<String>,
    _: NoQuery,
) -> Result {
    let id = known(id)?;
    let info = with_backups(&app, move |backups| Ok(backups.info(&id)?)).await?;
    json(&BackupBody::from(info))
}

/// `GET /admin/backups/{id}`.
pub(crate) async fn download_backup(
    State(app): State<Arc<App>>,
    Path(id): Path<String>,
    Extension(caller): Extension<Principal>,
    _: NoQuery,
) -> Result {
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
    let disposition = format!("attachment; filename=\"{file_name}\"");
    let headers = [
        (CONTENT_TYPE, TAR.to_owned()),
        (CONTENT_LENGTH, bytes.to_string()),
        (CONTENT_DISPOSITION, disposition),
    ];
    Ok((headers, body).into_response())
}

/// A name that no backup can have leads to none.
fn known(id: String) -> Result<BackupId> {
    BackupId::parse(&id).ok_or(HttpError::Plain(Code::BackupNotFound))
}

/// Works with the backups where it may block.
async fn with_backups<T: Send + 'static>(
    app: &App,
    work: impl FnOnce(&Arc<Backups>) -> Result<T> + Send + 'static,
) -> Result<T> {
    let backups = app.backups()?.clone();
    tokio::task::spawn_blocking(move || work(&backups)).await?
}
