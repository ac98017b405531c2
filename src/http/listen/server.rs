//! Accepts connections, bounds them in number and time, and drains them.

use super::role::{ListenerRole, Transport};
use super::timed::{AnswerBody, Phase, ProbedStream, ReadProbe, TimedStream, Timeouts};
use super::tls::Tls;
use crate::http::App;
use crate::http::bounds::MAX_HEAD_BYTES;
use crate::http::middleware::errors::refuse_head;
use crate::http::problem::HttpError;
use axum::Router;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use prometheus::IntGauge;
use std::convert::Infallible;
use std::io;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};
use tower::Service as _;

/// Connections to a listener for operations: enough for whoever scrapes and
/// probes, and out of the way of a flood on the other one.
const MAX_OPERATIONS_CONNECTIONS: usize = 64;

/// Bytes that the HTTP library reads ahead of a connection's requests, and of an
/// answer that is made while it is sent those that wait for the client.
const CONNECTION_BUFFER_BYTES: usize = 128 << 10;

/// Pause after a connection could not be accepted for want of descriptors or
/// memory: without it the loop would spin until one is free.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);
/// Time for a client to take the answer to a head that never ended or can't be
/// read, and bytes of it that are read on meanwhile: closing on what is unread
/// would take the answer away from it.
const LATE_ANSWER: Duration = Duration::from_secs(1);
const LATE_BYTES: u64 = 1 << 20;

/// How connections are bounded. Each is a flag of the server.
#[derive(Clone, Debug)]
pub struct ServerOptions {
    /// Connections open at the same time; further ones wait to be accepted.
    pub max_connections: usize,
    /// Longest time for a request's head, from its first byte, and from the
    /// connection to the first byte of all.
    pub header_timeout: Duration,
    /// Longest time a connection may be silent between requests.
    pub idle_timeout: Duration,
    /// Longest time a client may leave an answer unread.
    pub write_timeout: Duration,
    /// How long connections are still accepted after a stop was asked for, so
    /// that whoever sends traffic here notices `/readyz`.
    pub drain_delay: Duration,
    /// How long requests may take to finish after that.
    pub drain_timeout: Duration,
}

impl Default for ServerOptions {
    fn default() -> Self {
        ServerOptions {
            max_connections: 1024,
            header_timeout: Duration::from_secs(5),
            idle_timeout: Duration::from_secs(75),
            write_timeout: Duration::from_secs(30),
            drain_delay: Duration::ZERO,
            drain_timeout: Duration::from_secs(25),
        }
    }
}

/// A listener, and what it is for.
pub struct Endpoint {
    /// Where connections come in.
    pub listener: TcpListener,
    /// What they get.
    pub role: ListenerRole,
    /// How TLS is spoken; `None`: it is not.
    pub tls: Option<Arc<Tls>>,
}

impl From<TcpListener> for Endpoint {
    fn from(listener: TcpListener) -> Endpoint {
        Endpoint {
            listener,
            role: ListenerRole::All,
            tls: None,
        }
    }
}

/// Serves on all of them until `stop` resolves and the requests then under way
/// are answered or their time is up. Returns how many connections were cut off.
pub async fn serve(
    endpoints: Vec<Endpoint>,
    app: Arc<App>,
    options: ServerOptions,
    stop: impl Future<Output = ()>,
) -> usize {
    let (drain, draining) = watch::channel(false);
    let (close, closing) = watch::channel(false);
    let mut accepting = JoinSet::new();
    for endpoint in endpoints {
        let transport = match endpoint.tls {
            Some(_) => Transport::Tls,
            None => Transport::Plain,
        };
        let listener = Listener {
            places: Arc::new(Semaphore::new(match endpoint.role {
                ListenerRole::All | ListenerRole::Filters => options.max_connections,
                ListenerRole::Operations | ListenerRole::Scrapers => MAX_OPERATIONS_CONNECTIONS,
            })),
            router: crate::http::router(Arc::clone(&app), endpoint.role, transport),
            scrapers: crate::http::router(Arc::clone(&app), ListenerRole::Scrapers, transport),
            app: Arc::clone(&app),
            timeouts: Timeouts {
                head: options.header_timeout,
                idle: options.idle_timeout,
                write: options.write_timeout,
            },
            draining: draining.clone(),
            closing: closing.clone(),
            tls: endpoint.tls,
        };
        accepting.spawn(listener.run(endpoint.listener));
    }
    drop((draining, closing));
    stop.await;
    app.start_draining();
    sleep(options.drain_delay).await;
    close.send_replace(true);
    // Their listeners are closed when they end.
    while accepting.join_next().await.is_some() {}
    drain.send_replace(true);
    if timeout(options.drain_timeout, drain.closed())
        .await
        .is_err()
    {
        return drain.receiver_count();
    }
    0
}

/// Takes in the connections of one listener.
struct Listener {
    places: Arc<Semaphore>,
    app: Arc<App>,
    router: Router,
    /// For those without the certificate that is asked for.
    scrapers: Router,
    timeouts: Timeouts,
    draining: watch::Receiver<bool>,
    closing: watch::Receiver<bool>,
    tls: Option<Arc<Tls>>,
}

impl Listener {
    async fn run(self, listener: TcpListener) {
        let mut closing = self.closing.clone();
        let mut closed = pin!(told(&mut closing));
        loop {
            let accepted = tokio::select! {
                accepted = accept(&listener, &self.places) => accepted,
                () = &mut closed => return,
            };
            match accepted {
                Ok((stream, permit)) => {
                    let connection = Connection {
                        app: Arc::clone(&self.app),
                        router: self.router.clone(),
                        scrapers: self.scrapers.clone(),
                        timeouts: self.timeouts,
                        draining: self.draining.clone(),
                        _permit: permit,
                    };
                    tokio::spawn(connection.run(stream, self.tls.clone()));
                }
                Err(error) => {
                    tracing::warn!(%error, "a connection could not be accepted");
                    sleep(ACCEPT_PAUSE).await;
                }
            }
        }
    }
}

/// Waits for a free place, then for a connection: a flood waits in the
/// kernel's queue instead of in our memory.
async fn accept(
    listener: &TcpListener,
    free: &Arc<Semaphore>,
) -> io::Result<(TcpStream, OwnedSemaphorePermit)> {
    let permit = Arc::clone(free)
        .acquire_owned()
        .await
        .map_err(io::Error::other)?;
    loop {
        match listener.accept().await {
            Ok((stream, _)) => return Ok((stream, permit)),
            // The client was gone before we came: no fault of ours.
            Err(error) if is_client_fault(&error) => {}
            Err(error) => return Err(error),
        }
    }
}

fn is_client_fault(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::ConnectionAborted
            | io::ErrorKind::ConnectionReset
            | io::ErrorKind::ConnectionRefused
            | io::ErrorKind::Interrupted
    )
}

struct Connection {
    app: Arc<App>,
    router: Router,
    scrapers: Router,
    timeouts: Timeouts,
    draining: watch::Receiver<bool>,
    _permit: OwnedSemaphorePermit,
}

impl Connection {
    /// Serves one connection to its end.
    async fn run(mut self, stream: TcpStream, tls: Option<Arc<Tls>>) {
        let metrics = Arc::clone(&self.app.metrics);
        metrics.http_connections.inc();
        let _open = OpenConnection(metrics.http_connections.clone());
        // Answers are small and written at once: waiting to fill a segment
        // would only add to the latency. Without it the answer comes as well.
        let _ = stream.set_nodelay(true);
        let probe = ReadProbe::default();
        let Some(tls) = tls else {
            return self.speak_http(stream, probe).await;
        };
        // All of it counts as the head: nothing may be asked before it.
        let handshake = tls.accept(ProbedStream::new(stream, probe.clone()));
        match timeout(self.timeouts.head, handshake).await {
            Ok(Ok(stream)) => {
                probe.take();
                if tls.lacks_certificate(&stream) {
                    self.router = self.scrapers.clone();
                }
                self.speak_http(stream, probe).await;
            }
            failed => {
                metrics.tls_handshake_failures.inc();
                let reason = match failed {
                    Ok(Err(error)) => error.to_string(),
                    _ => "it took too long".to_owned(),
                };
                tracing::debug!(reason, "a TLS handshake failed");
            }
        }
    }

    async fn speak_http<S>(mut self, stream: S, probe: ReadProbe)
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let metrics = &self.app.metrics;
        let phase = Phase::default();
        let service = service_fn(|request: hyper::Request<Incoming>| {
            let answering = phase.begin_answer();
            // It is always ready.
            let answer = self.router.clone().call(request.map(axum::body::Body::new));
            let written = metrics.http_response_body_bytes.clone();
            async move {
                let answer = answer.await?;
                Ok::<_, Infallible>(answer.map(|body| AnswerBody::new(body, written, answering)))
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
            ended = &mut connection => ended,
            () = told(&mut self.draining) => {
                std::pin::Pin::new(&mut connection).graceful_shutdown();
                (&mut connection).await
            }
        };
        let refusal = match phase.refused() {
            // The longest path is refused as a head that is too large.
            Some(414 | 431) => Some(HttpError::HeadTooLarge),
            Some(_) => Some(HttpError::UnreadableHead),
            None if phase.in_head() && is_timeout(&ended) => Some(HttpError::HeadTimeout),
            None => None,
        };
        if let Some(refusal) = refusal {
            let stream = connection.into_parts().io.into_inner().into_inner();
            let answer = refuse_head(&self.app, &refusal);
            // A client that reads nothing must not hold its place by that.
            let _ = timeout(LATE_ANSWER, answer_late(stream, &answer)).await;
        }
    }
}

/// Counts a connection as open while it lives.
struct OpenConnection(IntGauge);

impl Drop for OpenConnection {
    fn drop(&mut self) {
        self.0.dec();
    }
}

async fn told(word: &mut watch::Receiver<bool>) {
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
    // The client may be gone: then nobody misses the answer.
    let _ = stream.write_all(answer).await;
    let _ = stream.shutdown().await;
    let _ = tokio::io::copy(&mut stream.take(LATE_BYTES), &mut tokio::io::sink()).await;
}
