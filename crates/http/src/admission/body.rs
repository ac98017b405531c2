//! Reads request bodies whole, within the bounds of one request and of the
//! server, and within time.

use super::deadline::Deadline;
use crate::access::keys::KeyEnd;
use crate::codes::Code;
use crate::engine::EngineError;
use crate::problem::{HttpError, Result};
use crate::server::admission::budget::{Held, Holder};
use crate::server::admission::limits::Admission;
use crate::server::arriving::Arriving;
use crate::server::listen::patience::{Patience, after};
use crate::server::listen::polls::{COPIED_AT_ONCE, give_way};
use axum::body::{Body, Bytes, HttpBody};
use http_body_util::BodyExt;
use std::error::Error;
use std::io::Read;
use tokio::sync::mpsc::channel;
use tokio::time::{Instant, timeout_at};

/// Pieces of a streamed body that wait for the thread that works on it.
const QUEUED_PIECES: usize = 4;

/// Reads a body to its end, and reserves memory for it.
///
/// # Errors
/// It is too large, too slow, broken, or the server holds too many bodies.
pub(crate) async fn read(
    admission: &Admission,
    by: Option<&Holder>,
    request_deadline: Option<Deadline>,
    body: Body,
) -> Result<(Bytes, Option<Held>)> {
    let limit = admission.limits.max_body_bytes;
    read_up_to(limit, admission, by, request_deadline, body).await
}

/// The same of a body that has up to `limit` bytes.
///
/// # Errors
/// As [`read`].
pub(crate) async fn read_up_to(
    limit: usize,
    admission: &Admission,
    by: Option<&Holder>,
    request_deadline: Option<Deadline>,
    mut body: Body,
) -> Result<(Bytes, Option<Held>)> {
    let body_deadline = after(admission.limits.body_timeout);
    // Whichever is earlier, with its own answer.
    let request_deadline = request_deadline.map(|it| Instant::from(it.0));
    let request_deadline = request_deadline.filter(|it| *it < body_deadline);
    let deadline = request_deadline.unwrap_or(body_deadline);
    let declared = usize::try_from(body.size_hint().lower()).unwrap_or(usize::MAX);
    if declared > limit {
        return Err(HttpError::BodyTooLarge { limit });
    }
    let mut memory = None;
    let mut size = 0_usize;
    // Most bodies are one piece and are never copied.
    let mut first = Bytes::new();
    let mut joined = Vec::new();
    let overdue = || request_deadline.is_some_and(|it| it <= Instant::now());
    loop {
        let piece = match next(admission, &mut body, deadline).await {
            Ok(Some(piece)) => piece,
            Ok(None) => break,
            Err(HttpError::BodyTimeout { .. }) if overdue() => {
                return Err(HttpError::Engine(EngineError::DeadlineExceeded));
            }
            Err(error) => return Err(error),
        };
        let is_first = size == 0;
        size = size.saturating_add(piece.len());
        if size > limit {
            return Err(HttpError::BodyTooLarge { limit });
        }
        admission.bodies.grow(by, &mut memory, size)?;
        if is_first {
            first = piece;
            continue;
        }
        if joined.is_empty() {
            // What is announced need not come: room for twice what came, which
            // is no more than the vector would take by itself.
            joined.reserve(declared.clamp(size, 2 * size));
            joined.extend_from_slice(&std::mem::take(&mut first));
        }
        if joined.capacity() < size && joined.len() > COPIED_AT_ONCE {
            (joined, memory) = tokio::task::spawn_blocking(move || {
                joined.reserve(joined.len());
                (joined, memory)
            })
            .await?;
        }
        joined.extend_from_slice(&piece);
    }
    if joined.is_empty() {
        return Ok((first, memory));
    }
    // Its items may lie in it until they are answered.
    joined.shrink_to_fit();
    Ok((Bytes::from(joined), memory))
}

/// Reads a body of any length piece by piece, until some moment; `None` is its
/// end.
///
/// # Errors
/// It stalls, takes too long, or is broken.
pub(crate) async fn next(
    admission: &Admission,
    body: &mut Body,
    deadline: Instant,
) -> Result<Option<Bytes>> {
    let limits = &admission.limits;
    // A client may send as fast as it is read.
    give_way().await;
    loop {
        // One clock for both: whichever runs out first.
        let idle = after(limits.body_idle_timeout);
        let frame = timeout_at(deadline.min(idle), body.frame()).await;
        let frame = frame.map_err(|_| HttpError::BodyTimeout {
            idle_seconds: limits.body_idle_timeout.as_secs(),
            total_seconds: limits.body_timeout.as_secs(),
        })?;
        let Some(frame) = frame else {
            return Ok(None);
        };
        // Trailers say nothing that we need.
        let frame = frame.map_err(|error| match key_end(&error) {
            Some(end) => end.into(),
            None => HttpError::Plain(Code::UnreadableBody),
        })?;
        match frame.into_data() {
            Ok(data) if !data.is_empty() => {
                admission.body_bytes.inc_by(data.len() as u64);
                return Ok(Some(data));
            }
            _ => {}
        }
    }
}

/// Why a body ended early, if its key did.
fn key_end(error: &(dyn Error + 'static)) -> Option<KeyEnd> {
    let mut causes = std::iter::successors(Some(error), |&error| error.source());
    causes.find_map(|error| error.downcast_ref().copied())
}

/// Hands a body of any length to `work`, on a thread that may block, piece by
/// piece: what `work` has not taken yet is not read from the client.
///
/// # Errors
/// The body stalls or is broken, or those of `work`.
pub(crate) async fn read_streamed<T, E>(
    admission: &Admission,
    mut body: Body,
    work: impl FnOnce(&mut dyn Read) -> Result<T, E> + Send + 'static,
) -> Result<T>
where
    T: Send + 'static,
    E: Send + 'static,
    HttpError: From<E>,
{
    let (pieces, receiver) = channel(QUEUED_PIECES);
    let worker = tokio::task::spawn_blocking(move || work(&mut Arriving::new(receiver)));
    let limits = &admission.limits;
    let mut patience = Patience::new(limits.body_idle_timeout, limits.min_restore_rate);
    let fed = loop {
        let since = Instant::now();
        let piece = match next(admission, &mut body, after(patience.left())).await {
            Ok(piece) => piece,
            Err(error) => break Err(error),
        };
        patience.spend(since.elapsed(), piece.as_ref().map_or(0, Bytes::len));
        let is_last = piece.is_none();
        // Work that takes no more has made up its mind.
        if pieces.send(Ok(piece.unwrap_or_default())).await.is_err() || is_last {
            break Ok(());
        }
    };
    drop(pieces);
    let outcome = worker.await?;
    fed?;
    Ok(outcome?)
}
