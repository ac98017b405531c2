//! Accepts connections, bounds their number, and drains them.

use super::connection::Connection;
use super::timed::Timeouts;
use crate::server::listen::drain::Drain;
use crate::server::listen::places::{Accepted, Places};
use crate::server::listen::polls::{Timed, Work};
use crate::server::{App, ListenerRole, ServerOptions, Tls, Transport};
use std::io;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::TcpListener;
use tokio::task::JoinSet;
use tokio::time::sleep;

/// Connections to a listener for operations: enough for scrapers and
/// probes, and out of the way of a flood on the other one.
const MAX_OPERATIONS_CONNECTIONS: usize = 64;

/// Pause after a connection could not be accepted for want of descriptors or
/// memory: without it the loop would spin until one is free.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// A listener, and what it is for.
pub struct Endpoint {
    /// Where connections come in.
    pub listener: TcpListener,
    /// What they get.
    pub role: ListenerRole,
    /// How TLS is spoken; `None`: it is not.
    pub tls: Option<Arc<Tls>>,
}

/// Serves on all of them until `stop` resolves and the requests then under way
/// are answered or their time is up. Returns how many connections were cut off.
pub async fn serve(
    endpoints: Vec<Endpoint>,
    app: Arc<App>,
    options: ServerOptions,
    stop: impl Future<Output = ()>,
) -> usize {
    let (drain, draining) = Drain::new();
    let mut accepting = JoinSet::new();
    for endpoint in endpoints {
        let transport = match endpoint.tls {
            Some(_) => Transport::Tls,
            None => Transport::Plain,
        };
        let listener = Listener {
            places: places(endpoint.role, &options, &app),
            connection: Connection {
                router: crate::router(Arc::clone(&app), endpoint.role, transport),
                scrapers: crate::router(Arc::clone(&app), ListenerRole::Scrapers, transport),
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
    drain.begin();
    // Their listeners are closed when they end.
    while accepting.join_next().await.is_some() {}
    drain.finish(&options).await
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
    Places::new(all, per_address, app.access.keys.is_some(), &app.metrics)
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
        let mut stopped = pin!(draining.begun());
        loop {
            tokio::select! {
                accepted = self.places.accept(&listener) => self.serve(accepted).await,
                () = &mut stopped => return,
            }
        }
    }

    async fn serve(&self, accepted: io::Result<Accepted>) {
        let app = &self.connection.app;
        let (seconds, threads) = (&app.metrics.http_poll_seconds, &app.admission.threads);
        match accepted {
            Ok(Accepted::Placed(stream, place)) => {
                let serving = self.connection.clone().run(stream, place);
                tokio::spawn(Timed::new(serving, seconds, Work::Unknown, threads));
            }
            Ok(Accepted::Turned(stream, turned)) => {
                let telling = self.connection.clone().turn_away(stream);
                let telling = turned.within(telling);
                tokio::spawn(Timed::new(telling, seconds, Work::Unknown, threads));
            }
            Err(error) => {
                tracing::warn!(%error, "a connection could not be accepted");
                sleep(ACCEPT_PAUSE).await;
            }
        }
    }
}
