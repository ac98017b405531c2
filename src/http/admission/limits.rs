//! The limits of requests, as the flags of the server set them, and what is left
//! of them.

use super::budget::{MemoryBudget, Reservation};
use super::concurrency::{ConcurrencyLimit, Kind};
use super::throttle::Throttle;
use crate::engine::LookupBounds;
use crate::http::problem::HttpError;
use prometheus::IntCounter;
use std::sync::Arc;
use std::time::Duration;

/// Answers may take one part in so many of what bodies may, besides.
const ANSWERS_PART: usize = 4;

/// Memory that an import may take: the lines of a commit, as they came and as
/// they are committed, the line that is not complete, and what the connection
/// holds.
const IMPORT_BYTES: usize = 4 << 20;

/// Answers that are streamed at the same time, and as many filters that are
/// restored; each has a thread.
const MAX_STREAMS: usize = 16;

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

/// What is left of the limits.
pub(crate) struct Admission {
    pub(crate) limits: Limits,
    /// For request bodies, and for what is made of them.
    pub(crate) bodies: MemoryBudget,
    /// Bytes of request bodies that came.
    pub(crate) body_bytes: IntCounter,
    /// For large answers.
    pub(crate) answers: MemoryBudget,
    /// What imports may take of `bodies`: they last as long as their clients
    /// like, and must leave room for others.
    imports: MemoryBudget,
    pub(crate) requests: ConcurrencyLimit,
    /// Answers that are made while they are sent.
    pub(crate) dumps: ConcurrencyLimit,
    /// Filters that are restored while they come.
    pub(crate) restores: ConcurrencyLimit,
    pub(crate) throttle: Arc<Throttle>,
}

impl Admission {
    pub(crate) fn new(limits: Limits, body_bytes: IntCounter) -> Admission {
        let bytes = limits.max_buffered_bytes;
        let requests = ConcurrencyLimit::of(Kind::Requests, limits.max_in_flight);
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        Admission {
            bodies: MemoryBudget::of(bytes),
            body_bytes,
            answers: MemoryBudget::of((bytes / ANSWERS_PART).max(1)),
            imports: MemoryBudget::of((bytes / 2).max(IMPORT_BYTES)),
            dumps: ConcurrencyLimit::of(Kind::Streams, MAX_STREAMS),
            restores: ConcurrencyLimit::of(Kind::Streams, MAX_STREAMS),
            throttle: Arc::new(Throttle::new(cores, requests.clone())),
            requests,
            limits,
        }
    }

    /// Memory for an import.
    ///
    /// # Errors
    /// There is none left, or none for imports.
    pub(crate) fn import(&self) -> Result<[Reservation; 2], HttpError> {
        let take = |budget: &MemoryBudget| {
            let taken = budget.try_reserve(IMPORT_BYTES);
            taken.ok_or(HttpError::TooManyBodies)
        };
        Ok([take(&self.imports)?, take(&self.bodies)?])
    }

    /// Has a body hold memory for so many bytes more, but for no more than there
    /// is: one that is larger than all may be is alone.
    ///
    /// # Errors
    /// There is not so much left.
    pub(crate) fn hold_more(
        &self,
        held: &mut Option<Reservation>,
        bytes: usize,
    ) -> Result<(), HttpError> {
        let size = held.as_ref().map_or(0, Reservation::bytes);
        let size = size.saturating_add(bytes).min(self.bodies.bytes());
        let extended = self.bodies.try_extend(held, size);
        extended.ok_or(HttpError::TooManyBodies)
    }
}
