//! What pods ask of each other: under one path, for those that have shown that they know
//! the key of the cluster, and not part of the API.

use crate::backup::BackupError;
use crate::codes::Code;
use crate::media::TAR;
use crate::problem::{HttpError, Result};
use crate::server::App;
use crate::server::cluster::headers::LINK;
use crate::server::cluster::links;
use crate::server::cluster::pod::Cluster;
use crate::server::listen::link::Link;
use crate::stream::{self, PIECE_BYTES, Pieces};
use axum::body::Bytes;
use axum::extract::{DefaultBodyLimit, State};
use axum::http::header::{CONTENT_LENGTH, CONTENT_TYPE};
use axum::http::{HeaderMap, StatusCode};
use axum::response::IntoResponse as _;
use axum::routing::{any, post};
use axum::{Extension, Router};
use cuckood_cluster::{PodPosition, Unfit};
use std::io::{self, Write};
use std::sync::Arc;
use std::time::SystemTime;

/// Where a pod asks another one for its state; the body is its [`PodPosition`].
pub const SNAPSHOT: &str = "/internal/snapshot";

/// More than the positions of all lanes that there can be.
const MAX_BODY_BYTES: usize = 64 << 10;

/// The routes between pods. What else is under their path is refused to others, too.
pub(crate) fn routes() -> Router<Arc<App>> {
    Router::new()
        .route(links::PATH, post(post_link))
        .route(SNAPSHOT, post(post_snapshot))
        .route("/internal/{*rest}", any(unknown))
        .layer(DefaultBodyLimit::max(MAX_BODY_BYTES))
}

/// The cluster, for a caller who is of it.
pub(super) fn known<'a>(app: &'a App, link: Option<&Arc<Link>>) -> Result<&'a Cluster> {
    let cluster = app.cluster().ok_or(HttpError::Plain(Code::UnknownRoute))?;
    match link.is_some_and(|it| it.is_proven()) {
        true => Ok(cluster),
        false => Err(HttpError::Plain(Code::ClusterKeyInvalid)),
    }
}

/// A connection over which another pod shows that it is of the cluster. From then on it
/// is none of those that anybody may have.
async fn post_link(
    State(app): State<Arc<App>>,
    by: Option<Extension<Arc<Link>>>,
    headers: HeaderMap,
) -> Result {
    let cluster = app.cluster().ok_or(HttpError::Plain(Code::UnknownRoute))?;
    let refused = || HttpError::Plain(Code::ClusterKeyInvalid);
    let Extension(by) = by.ok_or_else(refused)?;
    let said = headers.get(LINK).and_then(|it| it.to_str().ok());
    let said = said.ok_or_else(refused)?;
    if let Some(["hello", from, nonce, shown]) = links::words_of(said) {
        let (greeting, answer) = cluster
            .links
            .greet(from, nonce, shown)
            .ok_or_else(refused)?;
        by.greeted(greeting);
        return Ok((StatusCode::NO_CONTENT, [(LINK, answer)]).into_response());
    }
    let Some(["proof", shown]) = links::words_of(said) else {
        return Err(refused());
    };
    let greeting = by.take_greeting().ok_or_else(refused)?;
    let from = cluster.links.proven(greeting, shown).ok_or_else(refused)?;
    let place = cluster.place_of_a_pod(from);
    by.is_of_a_pod(place.ok_or_else(|| HttpError::PodNotReady {
        reason: "the pod that asks has as many connections to this one as it may".to_owned(),
    })?);
    Ok(StatusCode::NO_CONTENT.into_response())
}

async fn unknown(State(app): State<Arc<App>>, link: Option<Extension<Arc<Link>>>) -> Result {
    known(&app, link.as_deref())?;
    Err(HttpError::Plain(Code::UnknownRoute))
}

/// The archive of all that this pod has, for a pod that lacks some of it.
async fn post_snapshot(
    State(app): State<Arc<App>>,
    link: Option<Extension<Arc<Link>>>,
    body: Bytes,
) -> Result {
    known(&app, link.as_deref())?;
    let pod: PodPosition = serde_json::from_slice(&body).map_err(|_| HttpError::MalformedJson {
        reason: "it is no position of a pod".to_owned(),
    })?;
    let engine = app.engine()?.clone();
    let snapshots = app.snapshots()?.clone();
    // Before all is frozen for it.
    let slot = app.admission.downloads.try_take(None, 1)?;
    let begun = tokio::task::spawn_blocking(move || {
        let not_ready = |reason: String| HttpError::PodNotReady { reason };
        let differs = |unfit: Unfit| HttpError::HistoryDiffers {
            reason: unfit.to_string(),
        };
        let states = engine.lane_states();
        if states.iter().any(|it| it.has_stopped()) {
            return Err(not_ready("this pod lacks something itself".to_owned()));
        }
        if (engine.epoch(), states.len()) != (Some(pod.epoch), pod.lanes.len()) {
            return Err(differs(Unfit::OfAnother));
        }
        match pod.is_past_of(engine.store()).map_err(BackupError::from)? {
            Ok(()) => Ok(snapshots.begin(SystemTime::now())?),
            Err(unfit) if unfit.may_pass() => Err(not_ready(unfit.to_string())),
            Err(unfit) => Err(differs(unfit)),
        }
    });
    let snapshot = begun.await??;
    let length = snapshot.bytes.to_string();
    let body = stream::start(slot, move |pieces| {
        if let Err(error) = snapshot.write(Sending(pieces)) {
            pieces.break_off(&error);
        }
    });
    let headers = [(CONTENT_TYPE, TAR.to_owned()), (CONTENT_LENGTH, length)];
    Ok((headers, body).into_response())
}

/// An archive as it goes out, in pieces.
struct Sending<'a>(&'a Pieces);

impl Write for Sending<'_> {
    fn write(&mut self, buffer: &[u8]) -> io::Result<usize> {
        let (piece, _) = buffer.split_at(buffer.len().min(PIECE_BYTES));
        self.0.send(piece.to_vec())?;
        Ok(piece.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
