//! The bounds of requests, as the flags of the server set them.

use crate::engine::LookupBounds;
use std::time::Duration;

/// Bounds of what one request may bring. Each is a flag of the server.
#[derive(Clone, Debug)]
pub struct Limits {
    /// Bytes of a request body, before and after decompression.
    pub max_body_bytes: usize,
    /// Bytes of all request bodies held in memory at the same time. Large answers
    /// may take a quarter of that besides.
    pub max_buffered_bytes: usize,
    /// Items of one batch.
    pub max_batch_items: usize,
    /// Requests that are worked on at the same time.
    pub max_in_flight: usize,
    /// What one lookup may ask.
    pub lookup: LookupBounds,
    /// Longest pause between two pieces of a request body.
    pub body_idle_timeout: Duration,
    /// Longest time for a whole request body.
    pub body_timeout: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Limits {
            max_body_bytes: 32 << 20,
            max_buffered_bytes: 256 << 20,
            max_batch_items: 250_000,
            max_in_flight: 1024,
            lookup: LookupBounds {
                max_filters: 1000,
                max_probes: 1_000_000,
            },
            body_idle_timeout: Duration::from_secs(30),
            body_timeout: Duration::from_secs(300),
        }
    }
}
