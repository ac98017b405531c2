//! Accepts connections, bounds their number, and drains them.

use super::clocks::Clocks;
use super::connection::Connection;
use super::forwarded::Forwarded;
use super::service::{RedisOptions, Refused, Service};
use crate::metrics::Metrics;
use crate::server::listen::drain::{Drain, Draining};
use crate::server::listen::places::{Place, Places};
use crate::server::listen::polls::{Timed, Work};
use crate::server::listen::turned::{LONGEST, say_last};
use crate::server::{App, ServerOptions, Tls};
use socket2::{SockRef, TcpKeepalive};
use std::io;
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream};
use tokio::time::sleep;

/// Silence after which the kernel asks whether a client is still there.
const KEEPALIVE: Duration = Duration::from_secs(300);

/// Pause after a connection could not be accepted for want of descriptors or
/// memory.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// How often transfers are looked at that nobody goes on with, or may.
const SWEEP_EVERY: Duration = Duration::from_secs(1);

const TOO_MANY: &[u8] = b"-ERR max number of clients reached\r\n";

/// A listener of the Redis protocol.
pub struct RedisEndpoint {
    /// Where connections come in.
    pub listener: TcpListener,
    /// How TLS is spoken; `None`: it is not.
    pub tls: Option<Arc<Tls>>,
}

/// Serves until `stop` resolves and the commands then under way are answered or
/// their time is up. Returns how many connections were cut off. The application,
/// its keys and its budgets are shared with the other listeners; of `server` the
/// timeouts hold.
pub async fn serve(
    endpoint: RedisEndpoint,
    app: Arc<App>,
    options: RedisOptions,
    server: ServerOptions,
    stop: impl Future<Output = ()>,
) -> usize {
    let (drain, draining) = Drain::new();
    let clocks = Clocks::of(&server, &options, &app.admission.limits);
    let listener = Listener {
        places: Places::new(
            options.max_connections,
            options.max_connections_per_address,
            app.access.keys.is_some(),
            &app.metrics,
        ),
        service: Service::new(app, options),
        clocks,
        draining,
        tls: endpoint.tls,
    };
    let service = Arc::clone(&listener.service);
    let forwarded = Forwarded(Arc::downgrade(&service));
    service.app.take_commands(Arc::new(forwarded));
    let accepting = tokio::spawn(listener.run(endpoint.listener));
    tokio::select! {
        () = stop => {}
        () = sweep(&service) => {}
    }
    sleep(server.drain_delay).await;
    drain.begin();
    // It ends with the word.
    let _ = accepting.await;
    drain.finish(&server).await
}

/// Forgets transfers that nobody goes on with, for ever.
async fn sweep(service: &Service) {
    loop {
        sleep(SWEEP_EVERY).await;
        service.transfers.sweep();
    }
}

struct Listener {
    places: Places,
    service: Arc<Service>,
    clocks: Clocks,
    draining: Draining,
    tls: Option<Arc<Tls>>,
}

impl Listener {
    async fn run(self, listener: TcpListener) {
        let mut draining = self.draining.clone();
        let mut stopped = pin!(draining.begun());
        loop {
            let accepted = tokio::select! {
                accepted = listener.accept() => accepted,
                () = &mut stopped => return,
            };
            match accepted {
                Ok((stream, peer)) => self.take(stream, peer),
                // The client was gone before we came.
                Err(error) if error.kind() == io::ErrorKind::ConnectionAborted => {}
                Err(error) => {
                    tracing::warn!(%error, "a connection could not be accepted");
                    sleep(ACCEPT_PAUSE).await;
                }
            }
        }
    }

    /// Serves a connection, if there is a place for it.
    fn take(&self, stream: TcpStream, peer: SocketAddr) {
        let metrics = &self.service.app.metrics;
        let Some(place) = self.places.try_take(peer.ip()) else {
            self.service.count_refused(Refused::Connections);
            if let Some(turned) = self.places.turn_away() {
                let (tls, metrics) = (self.tls.clone(), Arc::clone(metrics));
                tokio::spawn(turned.within(turn_away(stream, tls, metrics)));
            }
            return;
        };
        // Replies are written at once, and what is lost is noticed some day.
        let _ = stream.set_nodelay(true);
        let _ = SockRef::from(&stream).set_tcp_keepalive(&TcpKeepalive::new().with_time(KEEPALIVE));
        let local = stream.local_addr().unwrap_or(peer);
        let connection = Connection {
            connected: self.service.connect(peer, local),
            service: Arc::clone(&self.service),
            clocks: self.clocks,
            draining: self.draining.clone(),
        };
        let seconds = &metrics.redis_poll_seconds;
        let threads = &self.service.app.admission.threads;
        let speaking = speak(connection, stream, self.tls.clone(), place);
        tokio::spawn(Timed::new(speaking, seconds, Work::Unknown, threads));
    }
}

/// Tells a connection that there is no place for it.
async fn turn_away(stream: TcpStream, tls: Option<Arc<Tls>>, metrics: Arc<Metrics>) {
    let Some(tls) = tls else {
        return say_last(stream, TOO_MANY).await;
    };
    if let Some(stream) = tls.accept(stream, LONGEST, &metrics).await {
        say_last(stream, TOO_MANY).await;
    }
}

/// Serves a connection to its end, and holds its place until then.
async fn speak(connection: Connection, stream: TcpStream, tls: Option<Arc<Tls>>, place: Place) {
    let serving = async {
        let Some(tls) = tls else {
            return connection.serve(stream, &place).await;
        };
        let metrics = &connection.service.app.metrics;
        let handshake = tls.accept(stream, connection.clocks.first, metrics);
        if let Some(stream) = handshake.await {
            connection.serve(stream, &place).await;
        }
    };
    tokio::select! {
        biased;
        () = place.given_up() => {}
        () = serving => {}
    }
}
