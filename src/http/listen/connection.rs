//! One connection: TLS, then HTTP, then what is said to a head that is no
//! request.

use super::link::{BETWEEN_PODS, Link};
use super::observed::{ConnectionObserver, ObservedStream};
use super::places::Place;
use super::timed::{Answering, Phase, ReadProbe, TimedStream, Timeouts};
use super::tls::Tls;
use crate::http::App;
use crate::http::bounds::MAX_HEAD_BYTES;
use crate::http::mapped_body::MappedBody;
use crate::http::middleware::auth::key_of;
use crate::http::middleware::errors::{refuse_head, unasked_answer};
use crate::http::problem::HttpError;
use axum::Router;
use axum::body::{Body, Bytes, HttpBody as _};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use prometheus::{IntCounter, IntGauge};
use std::convert::Infallible;
use std::io;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::sync::watch;
use tokio::time::{sleep, timeout};
use tokio_util::io::InspectReader;
use tower::Service as _;

/// Bytes that the HTTP library reads ahead of a connection's requests, and of an
/// answer that is made while it is sent those that wait for the client.
const CONNECTION_BUFFER_BYTES: usize = 128 << 10;

/// Time for a client to take the answer to a head that never ended or can't be
/// read, and bytes of it that are read on meanwhile: closing on what is unread
/// would take the answer away from it.
const LATE_ANSWER: Duration = Duration::from_secs(1);
const LATE_BYTES: u64 = 1 << 20;

/// Time for another request on a connection that nothing is asked on when the
/// server stops: a client that has just been answered asks again within it.
const LAST_REQUEST: Duration = Duration::from_millis(100);

/// What a connection is served with.
#[derive(Clone)]
pub(super) struct Connection {
    pub(super) app: Arc<App>,
    pub(super) router: Router,
    /// For a client without the certificate that is asked for.
    pub(super) scrapers: Router,
    pub(super) timeouts: Timeouts,
    pub(super) draining: watch::Receiver<bool>,
    pub(super) tls: Option<Arc<Tls>>,
}

impl Connection {
    /// Serves one connection to its end, and holds its place until then.
    pub(super) async fn run(self, stream: TcpStream, place: Place) {
        let given_up = place.given_up();
        let link = Arc::new(Link::of(place));
        tokio::select! {
            biased;
            () = given_up => {}
            () = self.serve(stream, link) => {}
        }
    }

    async fn serve(mut self, stream: TcpStream, link: Arc<Link>) {
        let metrics = Arc::clone(&self.app.metrics);
        metrics.http_connections.inc();
        let _open = OpenConnection(metrics.http_connections.clone());
        // Answers are small and written at once: waiting to fill a segment
        // would only add to the latency. Without it the answer comes as well.
        let _ = stream.set_nodelay(true);
        let stream = ObservedStream::new(stream);
        let observer = stream.observer();
        let probe = ReadProbe::default();
        let Some(tls) = self.tls.take() else {
            return self.speak_http(stream, probe, observer, link).await;
        };
        // All of it counts as the head: nothing may be asked before it.
        let below_tls = probe.clone();
        let stream = InspectReader::new(stream, move |bytes: &[u8]| below_tls.note(bytes));
        let handshake = tls.accept(stream, self.timeouts.head, &metrics);
        if let Some(stream) = handshake.await {
            probe.take();
            if tls.lacks_certificate(&stream) {
                self.router = self.scrapers.clone();
            }
            self.speak_http(stream, probe, observer, link).await;
        }
    }

    async fn speak_http<S>(
        mut self,
        stream: S,
        probe: ReadProbe,
        observer: ConnectionObserver,
        link: Arc<Link>,
    ) where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let metrics = &self.app.metrics;
        let phase = Phase::default();
        let service = service_fn(|request: hyper::Request<Incoming>| {
            let answering = phase.begin_answer();
            if let Some(keys) = &self.app.access.keys {
                link.note_key_if(|| {
                    let key = key_of(request.headers(), keys);
                    key.is_ok_and(|key| !key.has_expired())
                });
            }
            let mut request = request.map(Body::new);
            // Of others the library notices that the client leaves.
            if !request.body().is_end_stream() {
                request.extensions_mut().insert(observer.clone());
            }
            if request.uri().path().starts_with(BETWEEN_PODS) {
                request.extensions_mut().insert(Arc::clone(&link));
            }
            // It is always ready.
            let answer = self.router.clone().call(request);
            let written = metrics.http_response_body_bytes.clone();
            async move {
                let answer = answer.await?;
                Ok::<_, Infallible>(answer.map(|body| counted(body, written, answering)))
            }
        });
        let timed = TimedStream::new(stream, self.timeouts, phase.clone(), probe);
        let mut connection = http1::Builder::new()
            // The clocks of the stream can tell a slow head from an idle
            // connection.
            .header_read_timeout(None)
            .max_header_size(MAX_HEAD_BYTES)
            .max_buf_size(CONNECTION_BUFFER_BYTES)
            .serve_connection(TokioIo::new(timed), service);
        let ended = tokio::select! {
            ended = &mut connection => Some(ended),
            () = told(&mut self.draining) => until_silent(&mut connection, &phase).await,
        };
        let refusal = match (phase.refused(), ended) {
            // The longest path is refused as a head that is too large.
            (Some(414 | 431), _) => Some(HttpError::HeadTooLarge),
            (Some(_), _) => Some(HttpError::UnreadableHead),
            (None, Some(ended)) if phase.in_head() && is_timeout(&ended) => {
                Some(HttpError::HeadTimeout)
            }
            (None, Some(_)) => None,
            // A request may be on its way, and its client is told that it is not
            // done. Others take it as the end of an idle connection.
            (None, None) => Some(HttpError::Draining),
        };
        if let Some(refusal) = refusal {
            let stream = connection.into_parts().io.into_inner().into_inner();
            let answer = match refusal {
                HttpError::Draining => unasked_answer(&refusal),
                _ => refuse_head(&self.app, &refusal),
            };
            // A client that reads nothing must not hold its place by that.
            let _ = timeout(LATE_ANSWER, answer_late(stream, &answer)).await;
        }
    }
}

/// Serves on while the server stops: what is asked is answered, and the answer
/// says that the connection ends. Returns how it ended; `None`: it did not, and
/// its client has been silent for a while.
async fn until_silent<C>(connection: &mut C, phase: &Phase) -> Option<C::Output>
where
    C: Future + Unpin,
{
    loop {
        tokio::select! {
            ended = &mut *connection => return Some(ended),
            () = sleep(LAST_REQUEST) => {
                if phase.is_silent() {
                    return None;
                }
            }
        }
    }
}

/// The body of an answer: counts its bytes and keeps the connection in the
/// phase of answering until the HTTP library has taken it or given it up. What
/// is not written by then is under the clock of writes.
fn counted(
    body: Body,
    written: IntCounter,
    answering: Answering,
) -> MappedBody<impl FnMut(Bytes) -> Bytes + Unpin> {
    MappedBody::new(body, move |bytes: Bytes| {
        // The body holds it, and drops it at its end.
        let _ = &answering;
        written.inc_by(bytes.len() as u64);
        bytes
    })
}

/// Counts a connection as open while it lives.
struct OpenConnection(IntGauge);

impl Drop for OpenConnection {
    fn drop(&mut self) {
        self.0.dec();
    }
}

/// Waits until the word is said.
pub(crate) async fn told(word: &mut watch::Receiver<bool>) {
    // An error means that the sender is gone, and with it the server.
    let _ = word.wait_for(|&said| said).await;
}

fn is_timeout(ended: &Result<(), hyper::Error>) -> bool {
    let Err(error) = ended else { return false };
    std::error::Error::source(error)
        .and_then(|source| source.downcast_ref::<io::Error>())
        .is_some_and(|error| error.kind() == io::ErrorKind::TimedOut)
}

/// Answers a request whose head never ended or can't be read, as far as the
/// client still listens.
async fn answer_late(mut stream: impl AsyncRead + AsyncWrite + Unpin, answer: &[u8]) {
    // The client may be gone: then the answer is of no use.
    let _ = stream.write_all(answer).await;
    let _ = stream.shutdown().await;
    let _ = tokio::io::copy(&mut stream.take(LATE_BYTES), &mut tokio::io::sink()).await;
}
