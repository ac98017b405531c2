//! The HTTP surface: takes a request apart, asks the engine, puts the answer
//! together. No rule about filters lives here; no status code is chosen in a
//! handler.
//!
//! - `routes` is the only route table; `handlers` has the handlers by resource; `stream` sends answers while they
//!   are made, and `pace` has that leave room for others.
//! - `body` reads request bodies within their bounds, `memory` holds answers to
//!   theirs, `query` and `parse` turn
//!   bytes into items and fields, `extract` holds the extractors built on them.
//! - `problem` maps every error to a status and a stable code; `boundary` is
//!   the outermost layer, which renders them, logs them once and counts.
//! - `around` makes layers of async functions; `coding` compresses and unpacks.
//! - `idempotency` finds out which request is the same as one sent before.
//! - `auth` asks for API keys and refuses what they do not allow; `guard` keeps
//!   foreign web pages away.
//! - `console` hands out the page for people, whose files are in the program.
//! - `server` accepts connections, watches their timeouts and drains them; `tls`
//!   has the certificates.

mod answer;
mod around;
mod auth;
mod body;
mod boundary;
mod bounds;
mod coding;
mod connection;
mod console;
mod extract;
#[cfg(any(test, fuzzing))]
pub(crate) mod fuzz_targets;
mod guard;
mod handlers;
mod headers;
mod idempotency;
mod media;
mod memory;
mod openapi;
mod pace;
mod parse;
mod problem;
mod query;
mod routes;
mod server;
mod stream;
mod time;
mod tls;

pub use guard::{HostPolicy, Speaks};
#[doc(hidden)]
pub use parse::measured;
pub use routes::{openapi_document, router};
pub use server::{Endpoint, ServerOptions, Serves, serve};
pub use tls::{Strangers, Tls, TlsError, TlsFiles};

use crate::access::ring::KeyRing;
use crate::backup::Backups;
use crate::engine::{Engine, LookupBounds};
use crate::metrics::Metrics;
use memory::AnswersBound;
use pace::Turns;
use problem::{HttpError, REJECTION_REASONS};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;
use tokio::sync::Semaphore;

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

/// Who may call. Each is a flag of the server.
pub struct Access {
    /// By which names the server answers.
    pub hosts: HostPolicy,
    /// Who has a key; `None`: everybody may do everything.
    pub keys: Option<Arc<KeyRing>>,
}

impl From<HostPolicy> for Access {
    fn from(hosts: HostPolicy) -> Access {
        Access { hosts, keys: None }
    }
}

/// What all handlers share: the engine once it is open, and the bounds.
///
/// It exists before the engine does, so that probes are answered while the
/// redo log is replayed.
pub struct App {
    engine: OnceLock<Engine>,
    backups: OnceLock<Backups>,
    draining: AtomicBool,
    metrics: Arc<Metrics>,
    limits: Limits,
    access: Access,
    buffered: Arc<Semaphore>,
    /// What large answers may take beside that.
    answers: AnswersBound,
    working: Arc<Semaphore>,
    /// What imports may take of `buffered`: they last as long as their clients
    /// like, and must leave room for others.
    imports: Arc<Semaphore>,
    streams: Arc<Semaphore>,
    turns: Turns,
    /// The same for streams that come, for the same reason.
    intakes: Arc<Semaphore>,
}

impl App {
    /// An application without an engine: it answers probes, and 503 to the rest.
    pub fn new(metrics: Arc<Metrics>, limits: Limits, access: impl Into<Access>) -> Arc<App> {
        let permits = body::permits(limits.max_buffered_bytes);
        let buffered = Arc::new(Semaphore::new(permits));
        let imports = Arc::new(Semaphore::new(handlers::imports::share_of(permits)));
        let answers = AnswersBound::beside(limits.max_buffered_bytes);
        // Makes the series, so that a rate over them starts from zero and not
        // from the first refusal.
        for reason in REJECTION_REASONS {
            metrics.http_rejected.with_label_values(&[reason]);
        }
        let working = Arc::new(Semaphore::new(limits.max_in_flight));
        Arc::new(App {
            engine: OnceLock::new(),
            backups: OnceLock::new(),
            draining: AtomicBool::new(false),
            metrics,
            limits,
            access: access.into(),
            buffered,
            answers,
            working,
            imports,
            streams: stream::places(),
            turns: Turns::new(std::thread::available_parallelism().map_or(1, usize::from)),
            intakes: stream::places(),
        })
    }

    /// Starts serving filters from this engine. The first call decides.
    pub fn open(&self, engine: Engine) {
        // A second engine would be a mistake of the caller that no request
        // can see: the first stays.
        let _ = self.engine.set(engine);
    }

    /// Offers backups. To be called before [`open`](Self::open), or not at all.
    pub fn offer_backups(&self, backups: Backups) {
        // As for a second engine.
        let _ = self.backups.set(backups);
    }

    /// Makes `/readyz` say no from now on; requests are still served.
    pub fn start_draining(&self) {
        self.draining.store(true, Ordering::Release);
    }

    fn is_draining(&self) -> bool {
        self.draining.load(Ordering::Acquire)
    }

    /// Whether there are callers whom one could crowd out.
    fn has_many_keys(&self) -> bool {
        let keys = self.access.keys.as_ref();
        keys.is_some_and(|keys| keys.len() > 1)
    }

    fn engine(&self) -> Result<&Engine, HttpError> {
        self.engine.get().ok_or(HttpError::Starting)
    }

    fn backups(&self) -> Result<&Backups, HttpError> {
        self.engine()?;
        self.backups.get().ok_or(HttpError::BackupsOff)
    }
}
