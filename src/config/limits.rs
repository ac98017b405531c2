//! Bounds of requests and of connections, and how the server stops.

use super::errors::ConfigErrors;
use super::size::ByteSize;
use crate::server::{CONNECTIONS_PART, Limits, MAX_REQUEST_TIMEOUT, ServerOptions};
use clap::Args;
use std::time::Duration;

const MIN_BODY_BYTES: u64 = 1 << 10;
const MIN_COLD_READ_BYTES: u64 = 1 << 20;

/// Bounds of requests.
#[derive(Debug, Args)]
#[command(next_help_heading = "Requests")]
pub struct RequestConfig {
    /// Bytes of a request body, before and after decompression, at least 1KiB; a larger one is answered 413.
    #[arg(long, env = "CUCKOOD_MAX_BODY_BYTES", default_value = "32MiB")]
    pub max_body_bytes: ByteSize,

    /// Bytes of all request bodies in memory at the same time, at least --max-body-bytes; more are answered 503.
    #[arg(long, env = "CUCKOOD_MAX_BUFFERED_BYTES", default_value = "256MiB")]
    pub max_buffered_bytes: ByteSize,

    /// Longest pause within a request body, in seconds, from 1; a longer one is answered 408.
    #[arg(long, env = "CUCKOOD_BODY_IDLE_TIMEOUT_SECONDS", default_value_t = Limits::default().body_idle_timeout.as_secs())]
    pub body_idle_timeout_seconds: u64,

    /// Longest time for a whole request body, in seconds, from 1; a longer one is answered 408.
    #[arg(long, env = "CUCKOOD_BODY_TIMEOUT_SECONDS", default_value_t = Limits::default().body_timeout.as_secs())]
    pub body_timeout_seconds: u64,

    /// Longest time for a request from its head to its answer, in seconds, from 1 to 3600, unless the request asks for less (Prefer: wait=SECONDS); a longer one is answered 503. Streams (imports, dumps, downloads) have no such bound.
    #[arg(long, env = "CUCKOOD_REQUEST_TIMEOUT_SECONDS", default_value_t = Limits::default().request_timeout.as_secs())]
    pub request_timeout_seconds: u64,

    /// Bytes of memory for pages that are read from the disk for questions at the same time, at least 1MiB; further reads wait.
    #[arg(long, env = "CUCKOOD_MAX_COLD_READ_BYTES", default_value = "64MiB")]
    pub max_cold_read_bytes: ByteSize,

    /// Longest time for one request of an import, in seconds, from 1; then what arrived is committed and the answer is 408. The import can be resumed.
    #[arg(long, env = "CUCKOOD_IMPORT_TIMEOUT_SECONDS", default_value_t = Limits::default().import_timeout.as_secs())]
    pub import_timeout_seconds: u64,

    /// Bytes of a dump a second that a client must send on average while the server waits for it, from 0; a slower restore is answered 408.
    #[arg(long, env = "CUCKOOD_MIN_RESTORE_RATE", default_value = "16KiB")]
    pub min_restore_rate: ByteSize,

    /// Items of one batch, from 1; a larger one is answered 413.
    #[arg(long, env = "CUCKOOD_MAX_BATCH_ITEMS", default_value_t = Limits::default().max_batch_items)]
    pub max_batch_items: usize,

    /// Requests in progress at the same time, from 1; more are answered 503. Probes, and requests to --admin-listen without a key, do not count.
    #[arg(long, env = "CUCKOOD_MAX_IN_FLIGHT", default_value_t = Limits::default().max_in_flight)]
    pub max_in_flight: usize,

    /// Percent, 1 to 100, of what requests can hold that one API key gets while the keys file has others: places, memory, streams, imports, queues. It never gets more than such a part of what it leaves free; 50: half of all, a third beside another that takes all it can. More is answered 429.
    #[arg(long, env = "CUCKOOD_KEY_SHARE", default_value_t = Limits::default().key_share_percent, value_parser = clap::value_parser!(u8).range(1..=100))]
    pub key_share: u8,

    /// Requests with changes that wait for one writer, from 1; more are answered 503.
    #[arg(long, env = "CUCKOOD_MAX_QUEUED_COMMANDS", default_value_t = 1024)]
    pub max_queued_commands: usize,

    /// Items of the requests that wait for one writer, at least twice --max-batch-items; more are answered 503.
    #[arg(long, env = "CUCKOOD_MAX_QUEUED_ITEMS", default_value_t = 1_000_000)]
    pub max_queued_items: usize,

    /// Filters of one lookup, from 1; more are answered 422.
    #[arg(long, env = "CUCKOOD_MAX_LOOKUP_FILTERS", default_value_t = Limits::default().max_lookup_filters)]
    pub max_lookup_filters: usize,

    /// Items of one question times the sub-filters that are asked, of a lookup those of all its filters, from 1; more are answered 413.
    #[arg(long, env = "CUCKOOD_MAX_PROBES", default_value_t = 4_000_000)]
    pub max_probes: usize,

    /// Bytes on disk of answers kept for requests with an Idempotency-Key, for 24 hours or as they say; beyond it such requests are answered 503.
    #[arg(long, env = "CUCKOOD_MAX_IDEMPOTENCY_BYTES", default_value = "256MiB")]
    pub max_idempotency_bytes: ByteSize,

    /// Imports whose progress is kept, for a week after their last commit; new ones beyond it are answered 503.
    #[arg(long, env = "CUCKOOD_MAX_IMPORTS", default_value_t = 10_000)]
    pub max_imports: u64,
}

impl RequestConfig {
    pub(super) fn check(&self, errors: &mut ConfigErrors) {
        errors.refuse_zeros(&[
            ("--max-queued-commands", self.max_queued_commands),
            ("--max-queued-items", self.max_queued_items),
            ("--max-batch-items", self.max_batch_items),
            ("--max-lookup-filters", self.max_lookup_filters),
            ("--max-probes", self.max_probes),
            ("--max-in-flight", self.max_in_flight),
        ]);
        let idle_seconds = self.body_idle_timeout_seconds;
        errors.refuse_zeros(&[
            ("--body-idle-timeout-seconds", idle_seconds),
            ("--body-timeout-seconds", self.body_timeout_seconds),
            ("--request-timeout-seconds", self.request_timeout_seconds),
            ("--import-timeout-seconds", self.import_timeout_seconds),
        ]);
        if self.request_timeout_seconds > MAX_REQUEST_TIMEOUT.as_secs() {
            errors.add(format!(
                "--request-timeout-seconds is {}, more than {}: decrease it",
                self.request_timeout_seconds,
                MAX_REQUEST_TIMEOUT.as_secs()
            ));
        }
        let cold_bytes = self.max_cold_read_bytes.0;
        errors.refuse_below("--max-cold-read-bytes", cold_bytes, MIN_COLD_READ_BYTES);
        errors.refuse_below("--max-body-bytes", self.max_body_bytes.0, MIN_BODY_BYTES);
        if self.max_buffered_bytes < self.max_body_bytes {
            errors.add(format!(
                "--max-buffered-bytes is {}, less than --max-body-bytes {}: a body of that size can never be read; increase it",
                self.max_buffered_bytes, self.max_body_bytes
            ));
        }
        let two_batches = self.max_batch_items.saturating_mul(2);
        if self.max_queued_items < two_batches {
            errors.add(format!(
                "--max-queued-items is {}, less than twice --max-batch-items {}: while one such batch is planned, no second one could wait; increase it to {two_batches}, or decrease --max-batch-items",
                self.max_queued_items, self.max_batch_items
            ));
        }
    }

    pub(super) fn limits(&self) -> Limits {
        Limits {
            max_body_bytes: self.max_body_bytes.in_memory(),
            max_buffered_bytes: self.max_buffered_bytes.in_memory(),
            max_batch_items: self.max_batch_items,
            max_in_flight: self.max_in_flight,
            key_share_percent: self.key_share,
            max_lookup_filters: self.max_lookup_filters,
            request_timeout: Duration::from_secs(self.request_timeout_seconds),
            body_idle_timeout: Duration::from_secs(self.body_idle_timeout_seconds),
            body_timeout: Duration::from_secs(self.body_timeout_seconds),
            import_timeout: Duration::from_secs(self.import_timeout_seconds),
            min_restore_rate: self.min_restore_rate.0,
        }
    }
}

/// Bounds of connections, and how the server stops.
#[derive(Debug, Args)]
#[command(next_help_heading = "Connections and shutdown")]
pub struct ConnectionConfig {
    /// Connections open at the same time, from 1; further ones wait.
    #[arg(long, env = "CUCKOOD_MAX_CONNECTIONS", default_value_t = ServerOptions::default().max_connections)]
    pub max_connections: usize,

    /// Connections open at the same time from one address, from 1; an IPv6 address counts with all of its /64. Further ones are answered 503 and closed. Behind a proxy or an ingress all connections come from its addresses: set it to --max-connections there. Not on --admin-listen [default: half of --max-connections].
    #[arg(long, env = "CUCKOOD_MAX_CONNECTIONS_PER_ADDRESS")]
    pub max_connections_per_address: Option<usize>,

    /// Longest time for the head of a request, in seconds, from 1; a longer one is answered 408.
    #[arg(long, env = "CUCKOOD_HEADER_TIMEOUT_SECONDS", default_value_t = ServerOptions::default().header_timeout.as_secs())]
    pub header_timeout_seconds: u64,

    /// Longest silence of a connection between requests, in seconds, from 1; then it is closed.
    #[arg(long, env = "CUCKOOD_IDLE_TIMEOUT_SECONDS", default_value_t = ServerOptions::default().idle_timeout.as_secs())]
    pub idle_timeout_seconds: u64,

    /// Longest time that a client may leave an answer unread, in seconds, from 1; then the connection is closed.
    #[arg(long, env = "CUCKOOD_WRITE_TIMEOUT_SECONDS", default_value_t = ServerOptions::default().write_timeout.as_secs())]
    pub write_timeout_seconds: u64,

    /// Bytes of an answer a second that a client must read on average while the server waits for it, from 0; then the connection is closed.
    #[arg(long, env = "CUCKOOD_MIN_READ_RATE", default_value = "16KiB")]
    pub min_read_rate: ByteSize,

    /// Seconds, from 0, in which a server that was told to stop still accepts requests, while /readyz answers 503.
    #[arg(long, env = "CUCKOOD_DRAIN_DELAY_SECONDS", default_value_t = 0)]
    pub drain_delay_seconds: u64,

    /// Seconds, from 0, in which requests in progress may finish after that.
    #[arg(long, env = "CUCKOOD_DRAIN_TIMEOUT_SECONDS", default_value_t = ServerOptions::default().drain_timeout.as_secs())]
    pub drain_timeout_seconds: u64,
}

impl ConnectionConfig {
    pub(super) fn check(&self, errors: &mut ConfigErrors) {
        let per_address = self.connections_per_address();
        errors.refuse_zeros(&[
            ("--max-connections", self.max_connections),
            ("--max-connections-per-address", per_address),
        ]);
        errors.refuse_zeros(&[
            ("--header-timeout-seconds", self.header_timeout_seconds),
            ("--idle-timeout-seconds", self.idle_timeout_seconds),
            ("--write-timeout-seconds", self.write_timeout_seconds),
        ]);
    }

    fn connections_per_address(&self) -> usize {
        let part = self.max_connections.div_ceil(CONNECTIONS_PART);
        self.max_connections_per_address.unwrap_or(part)
    }

    pub(super) fn options(&self) -> ServerOptions {
        ServerOptions {
            max_connections: self.max_connections,
            max_connections_per_address: self.connections_per_address(),
            header_timeout: Duration::from_secs(self.header_timeout_seconds),
            idle_timeout: Duration::from_secs(self.idle_timeout_seconds),
            write_timeout: Duration::from_secs(self.write_timeout_seconds),
            min_read_rate: self.min_read_rate.0,
            drain_delay: Duration::from_secs(self.drain_delay_seconds),
            drain_timeout: Duration::from_secs(self.drain_timeout_seconds),
        }
    }
}
