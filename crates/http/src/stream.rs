//! Answers that are sent while they are made: a thread that may block puts
//! pieces into a short queue, the connection takes them out.

use crate::server::admission::budget::Held;
use axum::body::{Body, Bytes};
use futures_util::stream::poll_fn;
use std::io;
use tokio::sync::mpsc::{Sender, channel};

/// Pieces that wait for a slow client.
const QUEUED_PIECES: usize = 4;

/// Bytes of a piece.
pub(super) const PIECE_BYTES: usize = 64 << 10;

/// Takes the pieces of an answer; blocks while the client is slow.
pub(super) struct Pieces(Sender<io::Result<Bytes>>);

impl Pieces {
    /// Sends a piece.
    ///
    /// # Errors
    /// The client is gone.
    pub(super) fn send(&self, piece: impl Into<Bytes>) -> io::Result<()> {
        self.0
            .blocking_send(Ok(piece.into()))
            .map_err(|_| io::Error::from(io::ErrorKind::BrokenPipe))
    }

    /// Cuts the connection off, which a client notices.
    pub(super) fn break_off(&self, error: &dyn std::error::Error) {
        tracing::error!(%error, "an answer broke off");
        // The client may be gone, too.
        let _ = self
            .0
            .blocking_send(Err(io::Error::other("the answer broke off")));
    }
}

/// Has `write` make the body of an answer on a thread that may block. How long it
/// is stands in the answer's `Content-Length`: if less comes, the connection is
/// cut off.
pub(super) fn start(slot: Held, write: impl FnOnce(&Pieces) + Send + 'static) -> Body {
    let (sender, mut receiver) = channel(QUEUED_PIECES);
    tokio::task::spawn_blocking(move || {
        let _slot = slot;
        write(&Pieces(sender));
    });
    Body::from_stream(poll_fn(move |context| receiver.poll_recv(context)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metrics::Metrics;
    use crate::server::admission::budget::Budget;
    use crate::server::used_up::Scarce;
    use axum::http::header::CONTENT_LENGTH;
    use axum::response::Response;
    use hyper::server::conn::http1;
    use hyper::service::service_fn;
    use hyper_util::rt::TokioIo;
    use std::cell::Cell;
    use std::convert::Infallible;
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

    #[tokio::test]
    async fn less_than_was_announced_cuts_the_connection_off() {
        let limit = Budget::of(Scarce::Downloads, 2, 50, &Metrics::new().unwrap());
        for (written, is_cut_off) in [("all of it!", false), ("half", true)] {
            let (mut client, server) = tokio::io::duplex(1024);
            let slot = limit.try_take(None, 1).unwrap();
            let body = start(slot, move |pieces| pieces.send(written).unwrap());
            let mut response = Response::new(body);
            response.headers_mut().insert(CONTENT_LENGTH, 10.into());
            let response = Cell::new(Some(response));
            let service = service_fn(move |_| {
                let response = response.take().unwrap();
                async move { Ok::<_, Infallible>(response) }
            });
            let served = http1::Builder::new().serve_connection(TokioIo::new(server), service);
            let served = tokio::spawn(served);
            let head = b"GET / HTTP/1.1\r\nconnection: close\r\n\r\n";
            client.write_all(head).await.unwrap();
            let mut answer = String::new();
            client.read_to_string(&mut answer).await.unwrap();
            assert_eq!(answer.ends_with("all of it!"), !is_cut_off, "{answer}");
            assert_eq!(served.await.unwrap().is_err(), is_cut_off);
        }
    }
}
