//! Answers that are sent while they are made: a thread that may block puts
//! pieces into a short queue, the connection takes them out.

use super::App;
use super::middleware::auth::Principal;
use super::problem::HttpError;
use axum::body::{Body, Bytes, HttpBody};
use hyper::body::{Frame, SizeHint};
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use tokio::sync::mpsc::{Receiver, Sender, channel};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Answers that are streamed at the same time, and as many filters that are
/// taken in; each has a thread.
pub(super) const MAX_STREAMS: usize = 16;

/// How many of these one key may take while there are others.
const SHARE: usize = MAX_STREAMS / 2;

/// Pieces that wait for a slow client.
const QUEUED_PIECES: usize = 4;

/// Bytes of a piece.
pub(super) const PIECE_BYTES: usize = 64 << 10;

/// The right to stream an answer: a place among all, and among those of the
/// caller's key.
pub(super) struct StreamPermit(
    #[expect(dead_code, reason = "held only to be let go with the answer")]
    [Option<OwnedSemaphorePermit>; 2],
);

/// Takes one of the places for streamed answers.
///
/// # Errors
/// All are taken, or all that one key may take.
pub(super) fn permit(app: &App, caller: &Principal) -> Result<StreamPermit, HttpError> {
    let share = caller.places().map(|places| places.streams(SHARE));
    place(app, share, &app.streams)
}

/// Takes one of the places for streams that come.
///
/// # Errors
/// All are taken, or all that one key may take.
pub(super) fn intake_permit(app: &App, caller: &Principal) -> Result<StreamPermit, HttpError> {
    let share = caller.places().map(|places| places.intakes(SHARE));
    place(app, share, &app.intakes)
}

fn place(
    app: &App,
    share: Option<Arc<Semaphore>>,
    all: &Arc<Semaphore>,
) -> Result<StreamPermit, HttpError> {
    let share = match share.filter(|_| app.has_many_keys()) {
        None => None,
        Some(share) => {
            let refused = |_| HttpError::KeyTakesTooMuch {
                limit: SHARE,
                what: "streams of this kind",
            };
            Some(share.try_acquire_owned().map_err(refused)?)
        }
    };
    let all = Arc::clone(all).try_acquire_owned();
    let all = all.map_err(|_| HttpError::TooManyStreams { limit: MAX_STREAMS })?;
    Ok(StreamPermit([Some(all), share]))
}

pub(super) fn places() -> Arc<Semaphore> {
    Arc::new(Semaphore::new(MAX_STREAMS))
}

/// Takes the pieces of an answer; blocks while the client is slow.
pub(super) struct Pieces {
    sender: Sender<io::Result<Bytes>>,
}

impl Pieces {
    /// Sends a piece.
    ///
    /// # Errors
    /// The client is gone.
    pub(super) fn send(&self, piece: impl Into<Bytes>) -> io::Result<()> {
        self.sender
            .blocking_send(Ok(piece.into()))
            .map_err(|_| io::Error::from(io::ErrorKind::BrokenPipe))
    }

    /// Cuts the connection off, which a client notices.
    pub(super) fn break_off(&self, error: &dyn std::error::Error) {
        tracing::error!(%error, "an answer broke off");
        // If the client is gone, too, nobody needs to know.
        let _ = self
            .sender
            .blocking_send(Err(io::Error::other("the answer broke off")));
    }
}

/// An answer that is being made.
pub(super) struct Making {
    receiver: Receiver<io::Result<Bytes>>,
}

/// Has `write` make an answer on a thread that may block.
pub(super) fn start(permit: StreamPermit, write: impl FnOnce(&Pieces) + Send + 'static) -> Making {
    let (sender, receiver) = channel(QUEUED_PIECES);
    tokio::task::spawn_blocking(move || {
        let _permit = permit;
        write(&Pieces { sender });
    });
    Making { receiver }
}

impl Making {
    /// The body, which is of exactly `bytes` bytes.
    pub(super) fn into_body(self, bytes: u64) -> Body {
        Body::new(Streamed {
            receiver: self.receiver,
            left: bytes,
        })
    }
}

struct Streamed {
    receiver: Receiver<io::Result<Bytes>>,
    left: u64,
}

impl HttpBody for Streamed {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        let piece = match ready!(self.receiver.poll_recv(context)) {
            None if self.left == 0 => return Poll::Ready(None),
            None => Err(io::Error::from(io::ErrorKind::UnexpectedEof)),
            Some(piece) => piece,
        };
        Poll::Ready(Some(piece.map(|piece| {
            self.left = self.left.saturating_sub(piece.len() as u64);
            Frame::data(piece)
        })))
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.left)
    }
}
