//! How connections are bounded, and how a stop goes.

use std::time::Duration;

/// One address may have one in so many of all connections, if it is not said how
/// many: the pools of one busy host, and as many are left to others.
pub const CONNECTIONS_PART: usize = 2;

/// How connections are bounded. Each is a flag of the server.
#[derive(Clone, Debug)]
pub struct ServerOptions {
    /// Connections open at the same time; further ones wait to be accepted.
    pub max_connections: usize,
    /// Connections open at the same time from one address, or from one /64 of
    /// IPv6; further ones are told so and closed.
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
