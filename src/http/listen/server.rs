//! Accepts connections, bounds their number, and drains them.

use super::connection::{Connection, told};
use super::places::{Place, Places};
use super::polls::{Timed, Work};
use super::role::{ListenerRole, Transport};
use super::timed::Timeouts;
use super::tls::Tls;
use crate::http::App;
use std::io;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

/// Connections to a listener for operations: enough for scrapers and
/// probes, and out of the way of a flood on the other one.
const MAX_OPERATIONS_CONNECTIONS: usize = 64;

/// One address may have one in so many of all connections, if it is not said how
/// many.
pub(crate) const CONNECTIONS_PART: usize = 4;

/// Pause after a connection could not be accepted for want of descriptors or
/// memory: without it the loop would spin until one is free.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Time for connections that have begun when the server stops to be there: more
/// than a round trip within a data centre.
const LAST_HANDSHAKES: Duration = Duration::from_millis(50);

/// How connections are bounded. Each is a flag of the server.
#[derive(Clone, Debug)]
pub struct ServerOptions {
    /// Connections open at the same time; further ones wait to be accepted.
    pub max_connections: usize,
    /// Connections open at the same time from one address, or from one /64 of
    /// IPv6; further ones are closed.
    pub max_connections_per_address: usize,
    /// Longest time for a request's head, from its first byte, and from the
    /// connection to the first byte of all.
    pub header_timeout: Duration,
    /// Longest time a connection may be silent between requests.
    pub idle_timeout: Duration,
    /// Longest time a client may leave an answer unread.
    pub write_timeout: Duration,
    /// Bytes of an answer a second that a client must read on average while it is
    /// waited for; 0: any.
    pub min_read_rate: u64,
    /// How long connections are still accepted after a stop was asked for, so
    /// that load balancers notice `/readyz`.
    pub drain_delay: Duration,
    /// How long requests may take to finish after that.
    pub drain_timeout: Duration,
}

impl Default for ServerOptions {
    fn default() -> Self {
        ServerOptions {
            max_connections: 1024,
            max_connections_per_address: 1024 / CONNECTIONS_PART,
            header_timeout: Duration::from_secs(5),
            idle_timeout: Duration::from_secs(75),
            write_timeout: Duration::from_secs(30),
            min_read_rate: 16 << 10,
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
    let mut accepting = JoinSet::new();
    for endpoint in endpoints {
        let transport = match endpoint.tls {
            Some(_) => Transport::Tls,
            None => Transport::Plain,
        };
        let listener = Listener {
            places: places(endpoint.role, &options, &app),
            connection: Connection {
                router: crate::http::router(Arc::clone(&app), endpoint.role, transport),
                scrapers: crate::http::router(Arc::clone(&app), ListenerRole::Scrapers, transport),
                app: Arc::clone(&app),
                timeouts: Timeouts {
                    head: options.header_timeout,
                    idle: options.idle_timeout,
                    write: options.write_timeout,
                    write_bytes_per_second: options.min_read_rate,
                },
                draining: draining.clone(),
                tls: endpoint.tls,
            },
        };
        accepting.spawn(listener.run(endpoint.listener));
    }
    drop(draining);
    stop.await;
    // From now on each answer says that its connection ends.
    app.start_draining();
    sleep(options.drain_delay).await;
    drain.send_replace(true);
    // Their listeners are closed when they end.
    while accepting.join_next().await.is_some() {}
    match timeout(options.drain_timeout, drain.closed()).await {
        Ok(()) => 0,
        Err(_) => drain.receiver_count(),
    }
}

/// The places of a listener. Of the few for operations one address may have half:
/// who scrapes and probes mostly comes from one, and must not shut out others.
fn places(role: ListenerRole, options: &ServerOptions, app: &App) -> Places {
    let (all, per_address) = match role {
        ListenerRole::All | ListenerRole::Filters => {
            (options.max_connections, options.max_connections_per_address)
        }
        ListenerRole::Operations | ListenerRole::Scrapers => {
            (MAX_OPERATIONS_CONNECTIONS, MAX_OPERATIONS_CONNECTIONS / 2)
        }
    };
    let has_keys = app.access.keys.is_some();
    Places::new(all, per_address, has_keys, &app.metrics)
}

/// Takes in the connections of one listener.
struct Listener {
    places: Places,
    /// What each of its connections is served with.
    connection: Connection,
}

impl Listener {
    async fn run(self, listener: TcpListener) {
        let mut draining = self.connection.draining.clone();
        let mut stopped = pin!(told(&mut draining));
        loop {
            tokio::select! {
                accepted = self.places.accept(&listener) => self.serve(accepted).await,
                () = &mut stopped => break,
            }
        }
        // Who is connected when the listener closes and was not accepted is cut
        // off, perhaps after a request was sent: so nobody begins to connect any
        // more, those who have begun get a moment, and are taken.
        refuse_to_connect(&listener);
        let mut connected = pin!(sleep(LAST_HANDSHAKES));
        loop {
            tokio::select! {
                biased;
                accepted = self.places.accept(&listener) => self.serve(accepted).await,
                () = &mut connected => return,
            }
        }
    }

    async fn serve(&self, accepted: io::Result<(TcpStream, Place)>) {
        match accepted {
            Ok((stream, place)) => {
                let seconds = &self.connection.app.metrics.http_poll_seconds;
                let serving = self.connection.clone().run(stream, place);
                tokio::spawn(Timed::new(serving, seconds, Work::Unknown));
            }
            Err(error) => {
                tracing::warn!(%error, "a connection could not be accepted");
                sleep(ACCEPT_PAUSE).await;
            }
        }
    }
}

/// Has the kernel drop what would open a connection. The client tries again a
/// second later, when nobody listens.
fn refuse_to_connect(listener: &TcpListener) {
    #[cfg(target_os = "linux")]
    {
        /// A filter of the kernel (`man 7 socket`, `SO_ATTACH_FILTER`): drops
        /// segments with the flag SYN.
        const DROP_SYN: [socket2::SockFilter; 4] = [
            // The byte of the TCP header that has the flags.
            socket2::SockFilter::new(0x30, 0, 0, 13),
            // Goes on with the next instruction if SYN is set, else skips one.
            socket2::SockFilter::new(0x45, 0, 1, 0x02),
            // Keeps nothing of the segment; keeps all of it.
            socket2::SockFilter::new(0x06, 0, 0, 0),
            socket2::SockFilter::new(0x06, 0, 0, u32::MAX),
        ];
        if let Err(error) = socket2::SockRef::from(listener).attach_filter(&DROP_SYN) {
            tracing::debug!(%error, "connections are accepted until the listener closes");
        }
    }
}
