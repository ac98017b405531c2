//! The listener of the Redis protocol.

use super::access::AccessConfig;
use super::errors::ConfigErrors;
use super::filters::FilterConfig;
use crate::redis::RedisOptions;
use crate::server::CONNECTIONS_PART;
use clap::Args;
use std::net::SocketAddr;
use std::time::Duration;

/// The listener of the Redis protocol.
#[derive(Debug, Args)]
#[command(next_help_heading = "Redis protocol")]
pub struct RedisConfig {
    /// Address and port for clients of RedisBloom, which speak the Redis protocol. With --tls-cert only TLS is spoken there, too. An address that is not loopback needs --keys-file or --allow-anonymous [default: none].
    #[arg(long, env = "CUCKOOD_REDIS_LISTEN")]
    pub redis_listen: Option<SocketAddr>,

    /// Connections of the Redis protocol at the same time, from 1; further ones are told so and closed.
    #[arg(long, env = "CUCKOOD_REDIS_MAX_CONNECTIONS", default_value_t = RedisOptions::default().max_connections)]
    pub redis_max_connections: usize,

    /// Connections of the Redis protocol at the same time from one address, from 1; an IPv6 address counts with all of its /64. Further ones are told so and closed. Behind a proxy set it to --redis-max-connections [default: half of --redis-max-connections].
    #[arg(long, env = "CUCKOOD_REDIS_MAX_CONNECTIONS_PER_ADDRESS")]
    pub redis_max_connections_per_address: Option<usize>,

    /// Longest silence of such a connection between two commands, in seconds; then it is closed. 0: any, which pools of connections expect.
    #[arg(long, env = "CUCKOOD_REDIS_IDLE_TIMEOUT_SECONDS", default_value_t = 0)]
    pub redis_idle_timeout_seconds: u64,

    /// Let FLUSHALL and FLUSHDB delete all filters, for callers whose key allows it [default: they are refused].
    #[arg(long, env = "CUCKOOD_REDIS_ALLOW_FLUSH")]
    pub redis_allow_flush: bool,
}

impl RedisConfig {
    pub(super) fn check(&self, access: &AccessConfig, errors: &mut ConfigErrors) {
        let per_address = self.connections_per_address();
        errors.refuse_zeros(&[
            ("--redis-max-connections", self.redis_max_connections),
            ("--redis-max-connections-per-address", per_address),
        ]);
        if let Some(address) = self.redis_listen {
            access.check_address("--redis-listen", address, errors);
        }
    }

    fn connections_per_address(&self) -> usize {
        let part = self.redis_max_connections.div_ceil(CONNECTIONS_PART);
        self.redis_max_connections_per_address.unwrap_or(part)
    }

    pub(super) fn options(&self, filters: &FilterConfig) -> RedisOptions {
        RedisOptions {
            port: self.redis_listen.map_or(0, |address| address.port()),
            max_connections: self.redis_max_connections,
            max_connections_per_address: self.connections_per_address(),
            idle_timeout: Duration::from_secs(self.redis_idle_timeout_seconds),
            allow_flush: self.redis_allow_flush,
            defaults: filters.defaults(),
        }
    }
}
