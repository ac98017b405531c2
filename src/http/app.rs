//! What all handlers share: the engine once it is open, backups, and the bounds.

use super::admission::answers::AnswersBound;
use super::admission::body;
use super::admission::limits::Limits;
use super::admission::throttle::Throttle;
use super::middleware::origin::HostPolicy;
use super::problem::{Code, HttpError};
use super::{handlers::imports, stream};
use crate::access::keys::ApiKeys;
use crate::backup::Backups;
use crate::engine::Engine;
use crate::metrics::Metrics;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use tokio::sync::Semaphore;

/// Who may call. Each is a flag of the server.
pub struct Access {
    /// By which names the server answers.
    pub hosts: HostPolicy,
    /// Who has a key; `None`: everybody may do everything.
    pub keys: Option<Arc<ApiKeys>>,
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
    pub(super) engine: OnceLock<Engine>,
    pub(super) backups: OnceLock<Backups>,
    pub(super) draining: AtomicBool,
    pub(super) metrics: Arc<Metrics>,
    pub(super) limits: Limits,
    pub(super) access: Access,
    pub(super) buffered: Arc<Semaphore>,
    /// What large answers may take beside that.
    pub(super) answers: AnswersBound,
    pub(super) working: Arc<Semaphore>,
    /// What imports may take of `buffered`: they last as long as their clients
    /// like, and must leave room for others.
    pub(super) imports: Arc<Semaphore>,
    pub(super) streams: Arc<Semaphore>,
    pub(super) throttle: Throttle,
    /// The same for streams that come, for the same reason.
    pub(super) intakes: Arc<Semaphore>,
}

impl App {
    /// An application without an engine: it answers probes, and 503 to the rest.
    pub fn new(metrics: Arc<Metrics>, limits: Limits, access: impl Into<Access>) -> Arc<App> {
        let permits = body::permits(limits.max_buffered_bytes);
        let buffered = Arc::new(Semaphore::new(permits));
        let imports = Arc::new(Semaphore::new(imports::share_of(permits)));
        let answers = AnswersBound::beside(limits.max_buffered_bytes);
        // Makes the series, so that a rate over them starts from zero and not
        // from the first refusal.
        for code in Code::ALL.iter().filter(|code| code.is_counted()) {
            metrics.http_rejected.with_label_values(&[code.name()]);
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
            throttle: Throttle::new(std::thread::available_parallelism().map_or(1, usize::from)),
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

    pub(super) fn is_draining(&self) -> bool {
        self.draining.load(Ordering::Acquire)
    }

    /// Whether there are callers whom one could crowd out.
    pub(super) fn has_many_keys(&self) -> bool {
        let keys = self.access.keys.as_ref();
        keys.is_some_and(|keys| keys.len() > 1)
    }

    pub(super) fn engine(&self) -> Result<&Engine, HttpError> {
        self.engine.get().ok_or(HttpError::Starting)
    }

    pub(super) fn backups(&self) -> Result<&Backups, HttpError> {
        self.engine()?;
        self.backups.get().ok_or(HttpError::BackupsOff)
    }
}
