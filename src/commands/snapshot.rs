//! Taking the state of another pod: at a start, before the engine is opened, if the
//! commit log does not reach back to where this pod stands.
//!
//! The whole state is taken, of all lanes: a backup's archive is one of a pod at one
//! moment, and a pod that stands still has nothing that others lack for long. What
//! arrives is put beside the own state, and found to be whole and to have all that
//! the own one has, before it takes its place.

use super::failure::{Failure, Result};
use super::pod::Pod;
use crate::backup::restore::{check_room_for, unpack};
use crate::client::remote::sources;
use crate::cluster::jetstream::{ANNOUNCE_EVERY, current_epoch};
use crate::cluster::{PodPosition, Unfit};
use crate::engine::check::check_while;
use crate::http::SNAPSHOT;
use crate::server::App;
use crate::server::arriving::Arriving;
use crate::server::cluster::forward::said;
use crate::store::rocks::{Replacement, RocksOptions, RocksStore};
use crate::store::{PageStore, StoreError};
use axum::body::Bytes;
use axum::http::StatusCode;
use axum::http::header::CONTENT_TYPE;
use std::io;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::mpsc::{Receiver, channel};
use tokio::task::spawn_blocking;
use tokio::time::{sleep, timeout};

/// How long another pod may say nothing, in the middle of a snapshot or before it.
const SILENCE: Duration = Duration::from_secs(60);

/// How long it is until pods are asked again.
const AGAIN: Duration = Duration::from_secs(2);

/// How often is said what is waited for.
const SAY_AGAIN: Duration = Duration::from_secs(60);

/// Pieces that wait for the disk.
const QUEUED_PIECES: usize = 16;

/// Why another pod's state was not taken.
enum NotTaken {
    /// It may be later, or from another pod.
    Yet(String),
    /// That pod and this one have different histories.
    Differs(String),
    /// It will never be: this pod's own disk.
    Never(Failure),
}

impl NotTaken {
    fn yet(error: impl std::fmt::Display) -> NotTaken {
        NotTaken::Yet(error.to_string())
    }
}

impl From<Unfit> for NotTaken {
    fn from(unfit: Unfit) -> NotTaken {
        match unfit.may_pass() {
            true => NotTaken::yet(unfit),
            false => NotTaken::Differs(unfit.to_string()),
        }
    }
}

impl Pod {
    /// Opens the data directory; if the log no longer has what it lacks, with the
    /// state of another pod in its place. `None`: meanwhile a later epoch of the
    /// cluster has begun, and only pods of that one have it.
    ///
    /// # Errors
    /// It can't be opened, or it is not of the cluster, or others have another
    /// history.
    pub(super) async fn open_store<O>(&self, app: &App, open: O) -> Result<Option<Arc<RocksStore>>>
    where
        O: Fn() -> Result<RocksStore, StoreError> + Clone + Send + 'static,
    {
        let begins_anew = tokio::select! {
            waited = self.wait_for_key(app) => waited?,
            () = self.over() => true,
        };
        if begins_anew {
            return Ok(None);
        }
        loop {
            let rocks = Arc::new(spawn_blocking(open.clone()).await??);
            let (membership, store) = (self.membership.clone(), Arc::clone(&rocks));
            let found = spawn_blocking(move || {
                let store = PageStore::open(store).map_err(Failure::from)?;
                let position = PodPosition::of(&membership, &store)?;
                let behind = position.lanes_behind(&membership);
                Ok::<_, Failure>((position, behind))
            });
            let (position, behind) = found.await??;
            match behind {
                Ok(lanes) if lanes.is_empty() => return Ok(Some(rocks)),
                Ok(lanes) => tracing::warn!(
                    ?lanes,
                    "the commit log no longer has what this pod lacks: it takes the state of another one"
                ),
                Err(error) => {
                    tracing::warn!(%error, "whether the commit log has what this pod lacks is seen later");
                    return Ok(Some(rocks));
                }
            }
            tokio::select! {
                taken = self.take_state(&rocks, &position) => match taken {
                    // Those that refuse may be of that epoch already.
                    Err(_) if self.is_over().await => return Ok(None),
                    taken => taken?,
                },
                never = self.announce_waiting(&position) => match never {},
                () = self.over() => return Ok(None),
            }
            // The next opening puts it into its place.
            spawn_blocking(move || drop(rocks)).await?;
        }
    }

    /// Waits until a later epoch of the cluster has begun.
    async fn over(&self) {
        while !self.is_over().await {
            sleep(AGAIN).await;
        }
    }

    /// Whether a later epoch of the cluster has begun, as far as the brokers say.
    async fn is_over(&self) -> bool {
        let current = current_epoch(&self.connection, &self.founding.cluster);
        let Ok(Ok(current)) = timeout(SILENCE, current).await else {
            return false;
        };
        let is_over = current.epoch > self.founding.epoch;
        if is_over {
            tracing::warn!(
                epoch = current.epoch,
                own_epoch = self.founding.epoch,
                "a new epoch of the cluster has begun while this pod waited for the state of another one: the server starts again"
            );
        }
        is_over
    }

    /// Lets others know that this pod is there, so that the log is not trimmed
    /// before it has what follows the snapshot; and people, where it stands.
    async fn announce_waiting(&self, position: &PodPosition) -> std::convert::Infallible {
        let mut state = self.state();
        state.positions = position.lanes.iter().map(|it| it.sequence).collect();
        state.histories = position.lanes.iter().map(|it| it.history).collect();
        state.is_waiting = true;
        loop {
            // That it failed is seen by others only, and passes.
            let _ = timeout(ANNOUNCE_EVERY * 3, self.announcements.announce(&state)).await;
            sleep(ANNOUNCE_EVERY).await;
        }
    }

    /// Asks one pod after the other until one has given its state.
    async fn take_state(&self, rocks: &Arc<RocksStore>, position: &PodPosition) -> Result {
        let (mut said, mut said_at) = (String::new(), Instant::now());
        loop {
            let (mut waits, mut differs) = (Vec::new(), Vec::new());
            for address in self.others().await {
                let started = Instant::now();
                let taken = self.take_from(&address, rocks, position).await;
                let bytes = taken.as_ref().ok().copied();
                self.metrics.count_snapshot("taken", bytes);
                match taken {
                    Ok(bytes) => {
                        let seconds = started.elapsed().as_secs_f64();
                        tracing::info!(address, bytes, seconds, "took the state of another pod");
                        return Ok(());
                    }
                    Err(NotTaken::Yet(reason)) => waits.push(format!("{address}: {reason}")),
                    Err(NotTaken::Differs(reason)) => differs.push(format!("{address}: {reason}")),
                    Err(NotTaken::Never(failure)) => return Err(failure),
                }
            }
            if waits.is_empty() && !differs.is_empty() {
                return Err(format!(
                    "this pod lacks changes that the commit log no longer has, and can't take the state of another pod: {}",
                    differs.join("; ")
                )
                .into());
            }
            waits.extend(differs);
            let reasons = match waits.is_empty() {
                true => "there is no other pod".to_owned(),
                false => waits.join("; "),
            };
            if reasons != said || said_at.elapsed() >= SAY_AGAIN {
                tracing::warn!(reasons, "this pod waits for the state of another one");
                (said, said_at) = (reasons, Instant::now());
            }
            sleep(AGAIN).await;
        }
    }

    /// Addresses of the other pods; each pod begins with another one.
    async fn others(&self) -> Vec<String> {
        let Ok(Ok(pods)) = timeout(SILENCE, self.announcements.all()).await else {
            return Vec::new();
        };
        let addresses = pods.into_iter().map(|it| it.address);
        let others = addresses.filter(|it| *it != self.address);
        let (before, mut others): (Vec<_>, Vec<_>) = others.partition(|it| *it < self.address);
        others.extend(before);
        others
    }

    /// Takes the state of one pod; returns its bytes.
    async fn take_from(
        &self,
        address: &str,
        rocks: &Arc<RocksStore>,
        position: &PodPosition,
    ) -> Result<u64, NotTaken> {
        let client = self.links.to(address);
        let client = client.map_err(|error| NotTaken::Yet(causes(&error)))?;
        let request = client
            .post(format!("{address}{SNAPSHOT}"))
            .header(CONTENT_TYPE, "application/json")
            .body(serde_json::to_vec(&position).unwrap_or_default());
        let silent = |_| NotTaken::Yet("it does not answer".to_owned());
        let answer = timeout(SILENCE, request.send()).await.map_err(silent)?;
        let mut answer = answer.map_err(|error| NotTaken::Yet(causes(&error)))?;
        if !answer.status().is_success() {
            return Err(refusal(answer).await);
        }
        let bytes = answer.content_length().unwrap_or(0);
        tracing::info!(address, bytes, "the state of another pod arrives");
        let (pieces, arriving) = channel(QUEUED_PIECES);
        let (rocks, position) = (Arc::clone(rocks), position.clone());
        let stored = spawn_blocking(move || store(&rocks, &position, bytes, arriving));
        loop {
            // A snapshot that comes to its end too early is found to be damaged.
            let piece = match timeout(SILENCE, answer.chunk()).await {
                Ok(Ok(Some(piece))) if piece.is_empty() => continue,
                Ok(Ok(piece)) => Ok(piece.unwrap_or_default()),
                Ok(Err(error)) => Err(io::Error::other(error)),
                Err(silent) => Err(silent.into()),
            };
            let is_last = piece.as_ref().map_or(true, Bytes::is_empty);
            // Whoever stores it has given up, and says why.
            if pieces.send(piece).await.is_err() || is_last {
                break;
            }
        }
        drop(pieces);
        stored.await.map_err(NotTaken::yet)??;
        Ok(bytes)
    }
}

/// What a pod said that gives no snapshot.
async fn refusal(answer: reqwest::Response) -> NotTaken {
    let status = answer.status();
    let body = timeout(SILENCE, answer.bytes()).await;
    let body = body.ok().and_then(Result::ok).unwrap_or_default();
    let detail = said(&body, "detail").unwrap_or_else(|| status.to_string());
    match status {
        StatusCode::CONFLICT => NotTaken::Differs(detail),
        _ => NotTaken::Yet(detail),
    }
}

/// Puts an archive beside the state of a store; it takes its place if it is whole
/// and has all that the store has. Blocks.
fn store(
    rocks: &RocksStore,
    position: &PodPosition,
    bytes: u64,
    arriving: Receiver<io::Result<Bytes>>,
) -> Result<(), NotTaken> {
    let own = |error: StoreError| NotTaken::Never(error.into());
    let replacement = rocks.begin_replacement().map_err(own)?;
    let directory = replacement.directory();
    check_room_for(directory, bytes).map_err(|error| NotTaken::Never(error.into()))?;
    unpack(Arriving::new(arriving), directory).map_err(NotTaken::yet)?;
    check(&replacement, position)?;
    replacement.complete().map_err(own)
}

/// Whether what arrived makes sense, and has all that this pod has.
fn check(replacement: &Replacement, position: &PodPosition) -> Result<(), NotTaken> {
    let rocks = RocksStore::open_to_read(replacement.directory(), RocksOptions::default());
    let store = PageStore::open(Arc::new(rocks.map_err(NotTaken::yet)?));
    let store = store.map_err(NotTaken::yet)?;
    position.is_past_of(&store).map_err(NotTaken::yet)??;
    check_while(&store, &mut |_| ControlFlow::Continue(())).map_err(NotTaken::yet)?;
    Ok(())
}

/// An error with what is behind it, in words.
fn causes(error: &reqwest::Error) -> String {
    let causes: Vec<String> = sources(error).map(ToString::to_string).collect();
    causes.join(": ")
}
