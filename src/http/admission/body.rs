//! Reads request bodies whole, within the bounds of one request and of the
//! server, and within time.

use super::budget::Reservation;
use super::deadline::after;
use super::limits::Admission;
use crate::http::problem::HttpError;
use axum::body::{Body, Bytes, HttpBody};
use http_body_util::BodyExt;
use std::io::{self, Read};
use tokio::sync::mpsc::{Receiver, channel};
use tokio::time::{Instant, timeout_at};

/// Pieces of a streamed body that wait for the thread that works on it.
const QUEUED_PIECES: usize = 4;

/// A request body in memory.
pub(crate) struct Buffered {
    pub(crate) bytes: Bytes,
    pub(crate) memory: Option<Reservation>,
}

/// Reads a body to its end.
///
/// # Errors
/// It is too large, too slow, broken, or the server holds too many bodies.
pub(crate) async fn read(admission: &Admission, mut body: Body) -> Result<Buffered, HttpError> {
    let limit = admission.limits.max_body_bytes;
    let deadline = after(admission.limits.body_timeout);
    let mut pieces = Pieces::default();
    let mut memory = None;
    let declared = usize::try_from(body.size_hint().lower()).unwrap_or(usize::MAX);
    if declared > limit {
        return Err(HttpError::BodyTooLarge { limit });
    }
    while let Some(piece) = next_piece(admission, &mut body, deadline).await? {
        let size = pieces.size().saturating_add(piece.len());
        if size > limit {
            return Err(HttpError::BodyTooLarge { limit });
        }
        let held = admission.bodies.try_extend(&mut memory, size);
        held.ok_or(HttpError::TooManyBodies)?;
        pieces.push(piece, declared);
    }
    Ok(Buffered {
        bytes: pieces.join(),
        memory,
    })
}

/// Reads a body of any length piece by piece; `None` is its end.
///
/// # Errors
/// It stalls, or is broken.
pub(crate) async fn next(
    admission: &Admission,
    body: &mut Body,
) -> Result<Option<Bytes>, HttpError> {
    let deadline = after(admission.limits.body_idle_timeout);
    next_piece(admission, body, deadline).await
}

async fn next_piece(
    admission: &Admission,
    body: &mut Body,
    deadline: Instant,
) -> Result<Option<Bytes>, HttpError> {
    let limits = &admission.limits;
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
        match frame.map_err(|_| HttpError::UnreadableBody)?.into_data() {
            Ok(data) if !data.is_empty() => {
                admission.body_bytes.inc_by(data.len() as u64);
                return Ok(Some(data));
            }
            _ => {}
        }
    }
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
) -> Result<T, HttpError>
where
    T: Send + 'static,
    E: Send + 'static,
    HttpError: From<E>,
{
    let (pieces, receiver) = channel(QUEUED_PIECES);
    let worker = tokio::task::spawn_blocking(move || {
        work(&mut Arriving {
            receiver,
            piece: Bytes::new(),
            is_whole: false,
        })
    });
    let fed = loop {
        let piece = match next(admission, &mut body).await {
            Ok(piece) => piece,
            Err(error) => break Err(error),
        };
        let is_last = piece.is_none();
        // Work that takes no more has made up its mind.
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
