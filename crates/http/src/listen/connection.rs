//! One connection: TLS, then HTTP, then what is said to a head that is no
//! request.

use super::timed::{Answering, Phase, ReadProbe, TimedStream, Timeouts};
use crate::bearer::key_of;
use crate::bounds::MAX_HEAD_BYTES;
use crate::codes::Code;
use crate::mapped_body::MappedBody;
use crate::middleware::errors::{refuse_connection, refuse_head};
use crate::problem::HttpError;
use crate::server::listen::drain::Draining;
use crate::server::listen::link::{BETWEEN_PODS, Link};
use crate::server::listen::places::Place;
use crate::server::listen::turned::{LONGEST, say_last};
use crate::server::{App, Tls};
use axum::Router;
use axum::body::{Body, Bytes};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use prometheus::IntCounter;
use scopeguard::guard;
use std::convert::Infallible;
use std::future::{Future as _, poll_fn};
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_util::io::InspectReader;
use tower::Service as _;

/// Bytes that the HTTP library reads ahead of a connection's requests, and of an
/// answer that is made while it is sent those that wait for the client.
const CONNECTION_BUFFER_BYTES: usize = 128 << 10;

/// Time for a client to take the answer to a head that never ended or can't be
/// read.
const LATE_ANSWER: Duration = Duration::from_secs(1);

/// What a connection is served with.
#[derive(Clone)]
pub(super) struct Connection {
    pub(super) app: Arc<App>,
    pub(super) router: Router,
    /// For a client without the certificate that is asked for.
    pub(super) scrapers: Router,
    pub(super) timeouts: Timeouts,
    pub(super) draining: Draining,
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

    /// Answers one for which there is no place, whatever it asks.
    pub(super) async fn turn_away(mut self, stream: TcpStream) {
        let _ = stream.set_nodelay(true);
        let Some(tls) = self.tls.take() else {
            return self.refuse(stream).await;
        };
        if let Some(stream) = tls.accept(stream, LONGEST, &self.app.metrics).await {
            self.refuse(stream).await;
        }
    }

    async fn refuse(&self, mut stream: impl AsyncRead + AsyncWrite + Unpin) {
        // Some clients take an answer that comes before they ask for a broken
        // connection.
        if let Ok(1..) = stream.read(&mut [0; 1024]).await {
            say_last(stream, &refuse_connection(&self.app)).await;
        }
    }

    async fn serve(mut self, stream: TcpStream, link: Arc<Link>) {
        let metrics = Arc::clone(&self.app.metrics);
        metrics.http_connections.inc();
        let _open = guard(metrics.http_connections.clone(), |it| it.dec());
        // Answers are small and written at once: waiting to fill a segment
        // would only add to the latency. Without it the answer comes as well.
        let _ = stream.set_nodelay(true);
        let probe = ReadProbe::default();
        let Some(tls) = self.tls.take() else {
            return self.speak_http(stream, probe, link).await;
        };
        // All of it counts as the head: nothing may be asked before it.
        let below_tls = probe.clone();
        let stream = InspectReader::new(stream, move |bytes: &[u8]| below_tls.mark(bytes));
        if let Some(stream) = tls.accept(stream, self.timeouts.head, &metrics).await {
            probe.take();
            if tls.lacks_certificate(&stream) {
                self.router = self.scrapers.clone();
            }
            self.speak_http(stream, probe, link).await;
        }
    }

    async fn speak_http<S>(mut self, stream: S, probe: ReadProbe, link: Arc<Link>)
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let metrics = &self.app.metrics;
        let phase = Phase::default();
        let service = service_fn(|request: hyper::Request<Incoming>| {
            let answering = phase.begin_answer();
            if let Some(keys) = &self.app.access.keys {
                link.keep_place_if(|| {
                    let key = key_of(request.headers(), keys);
                    key.is_ok_and(|key| !key.has_expired())
                });
            }
            let mut request = request.map(Body::new);
            if request.uri().path().starts_with(BETWEEN_PODS) {
                request.extensions_mut().insert(Arc::clone(&link));
            }
            // It is always ready.
            let answer = self.router.clone().call(request);
            let written = metrics.http_response_body_bytes.clone();
            async move {
                Ok::<_, Infallible>(answer.await?.map(|body| counted(body, written, answering)))
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
        let before = tokio::select! {
            // What has arrived is read first.
            biased;
            ended = &mut connection => Some(ended),
            () = self.draining.begun() => {
                // A head that has begun is waited for: its clock bounds that.
                poll_fn(|cx| match Pin::new(&mut connection).poll(cx) {
                    Poll::Ready(ended) => Poll::Ready(Some(ended)),
                    Poll::Pending if phase.in_head() => Poll::Pending,
                    Poll::Pending => Poll::Ready(None),
                })
                .await
            }
        };
        let ended = match before {
            Some(ended) => ended,
            None => {
                // What is asked is answered; a connection that is idle ends.
                Pin::new(&mut connection).graceful_shutdown();
                (&mut connection).await
            }
        };
        let refusal = match phase.refused() {
            // The longest path is refused as a head that is too large.
            Some(414 | 431) => Code::HeadTooLarge,
            Some(_) => Code::BadRequest,
            None if phase.in_head() && is_timeout(&ended) => Code::HeadTimeout,
            None => return,
        };
        let stream = connection.into_parts().io.into_inner().into_inner();
        let answer = refuse_head(&self.app, &HttpError::Plain(refusal));
        // A client that reads nothing must not hold its place by that.
        let _ = timeout(LATE_ANSWER, say_last(stream, &answer)).await;
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

fn is_timeout(ended: &Result<(), hyper::Error>) -> bool {
    let Err(error) = ended else { return false };
    std::error::Error::source(error)
        .and_then(|source| source.downcast_ref::<io::Error>())
        .is_some_and(|error| error.kind() == io::ErrorKind::TimedOut)
}
