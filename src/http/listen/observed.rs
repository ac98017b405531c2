//! A stream that tells others than its reader whether its client has closed it.
//!
//! The HTTP library notices it only where it reads: not while it has the rest of
//! a request's body to read, which nobody asks for yet.

use futures_util::FutureExt as _;
use parking_lot::Mutex;
use std::io;
use std::pin::Pin;
use std::sync::{Arc, Weak};
use std::task::{Context, Poll};
use tokio::io::{AsyncRead, AsyncWrite, Interest, ReadBuf};
use tokio::net::TcpStream;

/// The stream of a connection. Its lock is free but while others look at it.
pub(super) struct ObservedStream(Arc<Mutex<TcpStream>>);

/// Looks at the stream of a connection, and does not keep it open.
#[derive(Clone)]
pub(crate) struct ConnectionObserver(Weak<Mutex<TcpStream>>);

impl ObservedStream {
    pub(super) fn new(stream: TcpStream) -> ObservedStream {
        ObservedStream(Arc::new(Mutex::new(stream)))
    }

    pub(super) fn observer(&self) -> ConnectionObserver {
        ConnectionObserver(Arc::downgrade(&self.0))
    }

    fn with<T>(&self, act: impl FnOnce(Pin<&mut TcpStream>) -> T) -> T {
        act(Pin::new(&mut *self.0.lock()))
    }
}

impl ConnectionObserver {
    /// Whether the client sends no more, whatever it sent before and is not read
    /// yet. Does not wait.
    pub(crate) fn is_closed(&self) -> bool {
        let Some(stream) = self.0.upgrade() else {
            return true;
        };
        let stream = stream.lock();
        match stream.ready(Interest::READABLE).now_or_never() {
            Some(Ok(ready)) => ready.is_read_closed(),
            Some(Err(_)) => true,
            None => false,
        }
    }
}

impl AsyncRead for ObservedStream {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        self.with(|stream| stream.poll_read(cx, buffer))
    }
}

impl AsyncWrite for ObservedStream {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.with(|stream| stream.poll_write(cx, bytes))
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.with(|stream| stream.poll_write_vectored(cx, slices))
    }

    fn is_write_vectored(&self) -> bool {
        self.0.lock().is_write_vectored()
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.with(|stream| stream.poll_flush(cx))
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.with(|stream| stream.poll_shutdown(cx))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::{Duration, Instant};
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tokio::net::TcpListener;
    use tokio::time::sleep;

    async fn pair() -> (ObservedStream, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (client, accepted) = tokio::join!(TcpStream::connect(address), listener.accept());
        (ObservedStream::new(accepted.unwrap().0), client.unwrap())
    }

    async fn closes(observer: &ConnectionObserver) {
        let started = Instant::now();
        while !observer.is_closed() {
            assert!(started.elapsed() < Duration::from_secs(20));
            sleep(Duration::from_millis(5)).await;
        }
    }

    #[tokio::test]
    async fn a_client_that_leaves_is_noticed_behind_what_it_sent() {
        let (mut stream, mut client) = pair().await;
        let observer = stream.observer();
        assert!(!observer.is_closed());
        client.write_all(b"two").await.unwrap();
        let mut one = [0];
        stream.read_exact(&mut one).await.unwrap();
        sleep(Duration::from_millis(50)).await;
        assert!(!observer.is_closed(), "there is more to read, no end");
        drop(client);
        closes(&observer).await;
        let mut rest = String::new();
        stream.read_to_string(&mut rest).await.unwrap();
        assert_eq!(rest, "wo");
    }

    #[tokio::test]
    async fn an_observer_keeps_no_connection_open() {
        let (stream, mut client) = pair().await;
        let observer = stream.observer();
        drop(stream);
        assert!(observer.is_closed());
        assert_eq!(client.read(&mut [0]).await.unwrap(), 0);
    }
}
