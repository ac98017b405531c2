//! Reads request bodies whole, within the bounds of one request and of the
//! server, and within time.

use crate::http::App;
use crate::http::listen::timed::after;
use crate::http::problem::HttpError;
use axum::body::{Body, Bytes, HttpBody};
use http_body_util::BodyExt;
use std::io::{self, Read};
use std::sync::Arc;
use tokio::sync::OwnedSemaphorePermit;
use tokio::sync::mpsc::{Receiver, channel};
use tokio::time::{timeout, timeout_at};

/// Bytes that one permit of the server's bound stands for.
const PERMIT_BYTES: usize = 1024;

/// Pieces of a streamed body that wait for whoever works on it.
const QUEUED_PIECES: usize = 4;

/// Permits for so many bytes, rounded up.
pub(crate) fn permits(bytes: usize) -> usize {
    bytes.div_ceil(PERMIT_BYTES)
}

/// A request body in memory. While the permit lives it counts against the
/// bytes that all bodies together may take.
pub(crate) struct Buffered {
    pub(crate) bytes: Bytes,
    pub(crate) permit: Option<OwnedSemaphorePermit>,
}

/// Reads a body to its end.
///
/// # Errors
/// It is too large, too slow, broken, or the server holds too many bodies.
pub(crate) async fn read(app: &App, mut body: Body) -> Result<Buffered, HttpError> {
    let limits = &app.limits;
    let too_slow = || HttpError::BodyTimeout {
        idle_seconds: limits.body_idle_timeout.as_secs(),
        total_seconds: limits.body_timeout.as_secs(),
    };
    let deadline = after(limits.body_timeout);
    let mut pieces = Pieces::default();
    let mut permit: Option<OwnedSemaphorePermit> = None;
    let declared = usize::try_from(body.size_hint().lower()).unwrap_or(usize::MAX);
    if declared > limits.max_body_bytes {
        return Err(HttpError::BodyTooLarge {
            limit: limits.max_body_bytes,
        });
    }
    loop {
        // One clock for both: whichever runs out first.
        let idle = after(limits.body_idle_timeout);
        let frame = match timeout_at(deadline.min(idle), body.frame()).await {
            Ok(None) => break,
            Ok(Some(frame)) => frame.map_err(|_| HttpError::UnreadableBody)?,
            Err(_) => return Err(too_slow()),
        };
        // Trailers say nothing that we need.
        let Ok(data) = frame.into_data() else {
            continue;
        };
        app.metrics
            .http_request_body_bytes
            .inc_by(data.len() as u64);
        let size = pieces.size().saturating_add(data.len());
        if size > limits.max_body_bytes {
            return Err(HttpError::BodyTooLarge {
                limit: limits.max_body_bytes,
            });
        }
        hold(app, &mut permit, size)?;
        pieces.push(data, declared);
    }
    Ok(Buffered {
        bytes: pieces.join(),
        permit,
    })
}

/// Hands a body of any length to `work`, on a thread that may block, piece by
/// piece: what `work` has not taken yet is not read from the client.
///
/// # Errors
/// The body is too slow or broken, or those of `work`.
pub(crate) async fn read_streamed<T, E>(
    app: &App,
    mut body: Body,
    work: impl FnOnce(&mut dyn Read) -> Result<T, E> + Send + 'static,
) -> Result<T, HttpError>
where
    T: Send + 'static,
    E: Send + 'static,
    HttpError: From<E>,
{
    let idle = app.limits.body_idle_timeout;
    let (pieces, receiver) = channel(QUEUED_PIECES);
    let worker = tokio::task::spawn_blocking(move || {
        work(&mut Arriving {
            receiver,
            piece: Bytes::new(),
            is_whole: false,
        })
    });
    let fed = loop {
        let piece = match timeout(idle, body.frame()).await {
            Ok(None) => None,
            Ok(Some(Ok(frame))) => match frame.into_data() {
                Ok(data) if !data.is_empty() => Some(data),
                _ => continue,
            },
            Ok(Some(Err(_))) => break Err(HttpError::UnreadableBody),
            Err(_) => {
                break Err(HttpError::BodyTimeout {
                    idle_seconds: idle.as_secs(),
                    total_seconds: app.limits.body_timeout.as_secs(),
                });
            }
        };
        let length = piece.as_ref().map_or(0, Bytes::len);
        app.metrics.http_request_body_bytes.inc_by(length as u64);
        let is_last = piece.is_none();
        // Who takes no more has made up its mind.
        if pieces.send(piece).await.is_err() || is_last {
            break Ok(());
        }
    };
    drop(pieces);
    let outcome = worker.await.map_err(|_| HttpError::Panicked)?;
    fed?;
    Ok(outcome?)
}

/// A body as it comes; `None` is its end.
struct Arriving {
    receiver: Receiver<Option<Bytes>>,
    piece: Bytes,
    is_whole: bool,
}

impl Read for Arriving {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.piece.is_empty() && !self.is_whole {
            match self.receiver.blocking_recv() {
                Some(Some(piece)) => self.piece = piece,
                Some(None) => self.is_whole = true,
                None => return Err(io::Error::from(io::ErrorKind::ConnectionAborted)),
            }
        }
        let length = buffer.len().min(self.piece.len());
        let front = self.piece.split_to(length);
        if let Some(buffer) = buffer.get_mut(..length) {
            buffer.copy_from_slice(&front);
        }
        Ok(length)
    }
}

/// Takes what is missing to hold `size` bytes; never waits, since a body that
/// waits for another to end still holds what it has.
fn hold(
    app: &App,
    permit: &mut Option<OwnedSemaphorePermit>,
    size: usize,
) -> Result<(), HttpError> {
    let held = permit.as_ref().map_or(0, OwnedSemaphorePermit::num_permits);
    let missing = permits(size).saturating_sub(held);
    if missing == 0 {
        return Ok(());
    }
    let missing = u32::try_from(missing).map_err(|_| HttpError::TooManyBodies)?;
    let more = Arc::clone(&app.buffered)
        .try_acquire_many_owned(missing)
        .map_err(|_| HttpError::TooManyBodies)?;
    match permit {
        Some(permit) => permit.merge(more),
        None => *permit = Some(more),
    }
    Ok(())
}

/// Takes so many bytes more, but no more than there are: what is larger than all
/// may be is alone.
///
/// # Errors
/// The server holds too many bodies.
pub(crate) fn hold_more(
    app: &App,
    permit: &mut Option<OwnedSemaphorePermit>,
    bytes: usize,
) -> Result<(), HttpError> {
    let held = permit.as_ref().map_or(0, OwnedSemaphorePermit::num_permits);
    let size = (held * PERMIT_BYTES).saturating_add(bytes);
    hold(app, permit, size.min(app.limits.max_buffered_bytes))
}

/// The pieces of a body; most bodies are one piece and are never copied.
#[derive(Default)]
struct Pieces {
    first: Option<Bytes>,
    joined: Vec<u8>,
}

impl Pieces {
    fn size(&self) -> usize {
        self.first.as_ref().map_or(0, Bytes::len) + self.joined.len()
    }

    fn push(&mut self, data: Bytes, declared: usize) {
        if self.size() == 0 {
            self.first = Some(data);
            return;
        }
        if let Some(first) = self.first.take() {
            // What is announced need not come: room for twice what came, which
            // is no more than the vector would take by itself.
            let came = first.len() + data.len();
            self.joined.reserve(declared.clamp(came, 2 * came));
            self.joined.extend_from_slice(&first);
        }
        self.joined.extend_from_slice(&data);
    }

    fn join(self) -> Bytes {
        match self.first {
            Some(first) => first,
            None => {
                // Its items may lie in it until they are answered.
                let mut joined = self.joined;
                joined.shrink_to_fit();
                Bytes::from(joined)
            }
        }
    }
}
