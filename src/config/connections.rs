//! Bounds of connections, and how the server stops.

use super::errors::ConfigErrors;
use crate::http::ServerOptions;
use clap::Args;
use std::time::Duration;

/// Bounds of connections, and how the server stops.
#[derive(Debug, Args)]
#[command(next_help_heading = "Connections and shutdown")]
pub struct ConnectionConfig {
    /// Connections open at the same time, from 1; further ones wait.
    #[arg(long, env = "CUCKOOD_MAX_CONNECTIONS", default_value_t = ServerOptions::default().max_connections)]
    pub max_connections: usize,

    /// Longest time for the head of a request, in seconds, from 1; a longer one is answered 408.
    #[arg(long, env = "CUCKOOD_HEADER_TIMEOUT_SECONDS", default_value_t = ServerOptions::default().header_timeout.as_secs())]
    pub header_timeout_seconds: u64,

    /// Longest silence of a connection between requests, in seconds, from 1; then it is closed.
    #[arg(long, env = "CUCKOOD_IDLE_TIMEOUT_SECONDS", default_value_t = ServerOptions::default().idle_timeout.as_secs())]
    pub idle_timeout_seconds: u64,

    /// Longest time that a client may leave an answer unread, in seconds, from 1; then the connection is closed.
    #[arg(long, env = "CUCKOOD_WRITE_TIMEOUT_SECONDS", default_value_t = ServerOptions::default().write_timeout.as_secs())]
    pub write_timeout_seconds: u64,

    /// Seconds, from 0, in which a server that was told to stop still accepts requests, while /readyz answers 503.
    #[arg(long, env = "CUCKOOD_DRAIN_DELAY_SECONDS", default_value_t = 0)]
    pub drain_delay_seconds: u64,

    /// Seconds, from 0, in which requests in progress may finish after that.
    #[arg(long, env = "CUCKOOD_DRAIN_TIMEOUT_SECONDS", default_value_t = ServerOptions::default().drain_timeout.as_secs())]
    pub drain_timeout_seconds: u64,
}

impl ConnectionConfig {
    pub(super) fn check(&self, errors: &mut ConfigErrors) {
        errors.refuse_zeros(&[("--max-connections", self.max_connections)]);
        errors.refuse_zeros(&[
            ("--header-timeout-seconds", self.header_timeout_seconds),
            ("--idle-timeout-seconds", self.idle_timeout_seconds),
            ("--write-timeout-seconds", self.write_timeout_seconds),
        ]);
    }

    pub(super) fn options(&self) -> ServerOptions {
        ServerOptions {
            max_connections: self.max_connections,
            header_timeout: Duration::from_secs(self.header_timeout_seconds),
            idle_timeout: Duration::from_secs(self.idle_timeout_seconds),
            write_timeout: Duration::from_secs(self.write_timeout_seconds),
            drain_delay: Duration::from_secs(self.drain_delay_seconds),
            drain_timeout: Duration::from_secs(self.drain_timeout_seconds),
        }
    }
}
