//! Bounds of requests.

use super::errors::ConfigErrors;
use super::size::ByteSize;
use crate::engine::LookupBounds;
use crate::http::Limits;
use clap::Args;
use std::time::Duration;

const MIN_BODY_BYTES: u64 = 1 << 10;

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

    /// Items of one batch, from 1; a larger one is answered 413.
    #[arg(long, env = "CUCKOOD_MAX_BATCH_ITEMS", default_value_t = Limits::default().max_batch_items)]
    pub max_batch_items: usize,

    /// Requests in progress at the same time, from 1; more are answered 503. Probes, and requests to --admin-listen without a key, do not count.
    #[arg(long, env = "CUCKOOD_MAX_IN_FLIGHT", default_value_t = Limits::default().max_in_flight)]
    pub max_in_flight: usize,

    /// Requests with changes that wait for one writer, from 1; more are answered 503.
    #[arg(long, env = "CUCKOOD_MAX_QUEUED_COMMANDS", default_value_t = 1024)]
    pub max_queued_commands: usize,

    /// Items of the requests that wait for one writer, at least --max-batch-items; more are answered 503.
    #[arg(long, env = "CUCKOOD_MAX_QUEUED_ITEMS", default_value_t = 1_000_000)]
    pub max_queued_items: usize,

    /// Filters of one lookup, from 1; more are answered 422.
    #[arg(long, env = "CUCKOOD_MAX_LOOKUP_FILTERS", default_value_t = Limits::default().lookup.max_filters)]
    pub max_lookup_filters: usize,

    /// Items of one lookup times its filters, from 1; more are answered 422.
    #[arg(long, env = "CUCKOOD_MAX_LOOKUP_PROBES", default_value_t = Limits::default().lookup.max_probes)]
    pub max_lookup_probes: usize,

    /// Bytes on disk of answers kept for requests with an Idempotency-Key, for 24 hours; beyond it such requests are answered 503.
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
            ("--max-lookup-probes", self.max_lookup_probes),
            ("--max-in-flight", self.max_in_flight),
        ]);
        errors.refuse_zeros(&[
            (
                "--body-idle-timeout-seconds",
                self.body_idle_timeout_seconds,
            ),
            ("--body-timeout-seconds", self.body_timeout_seconds),
        ]);
        errors.refuse_below("--max-body-bytes", self.max_body_bytes.0, MIN_BODY_BYTES);
        if self.max_buffered_bytes < self.max_body_bytes {
            errors.add(format!(
                "--max-buffered-bytes is {}, less than --max-body-bytes {}: a body of that size can never be read; increase it",
                self.max_buffered_bytes, self.max_body_bytes
            ));
        }
        if self.max_queued_items < self.max_batch_items {
            errors.add(format!(
                "--max-queued-items is {}, less than --max-batch-items {}: such a batch can never be queued; increase it",
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
            lookup: LookupBounds {
                max_filters: self.max_lookup_filters,
                max_probes: self.max_lookup_probes,
            },
            body_idle_timeout: Duration::from_secs(self.body_idle_timeout_seconds),
            body_timeout: Duration::from_secs(self.body_timeout_seconds),
        }
    }
}
