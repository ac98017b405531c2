//! What all handlers share: the engine once it is open, backups, and admission.

use super::admission::limits::{Admission, Limits};
use super::cluster::commands::CommandWorker;
use super::cluster::pod::Cluster;
use super::refusal::Refusal;
use crate::access::keys::ApiKeys;
use crate::backup::{Backups, Snapshots};
use crate::codes::Code;
use crate::engine::Engine;
use crate::metrics::Metrics;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

/// By which names the server answers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HostPolicy {
    /// `localhost`, `127.0.0.1` and `[::1]`, with any port.
    LocalOnly,
    /// These, too, with any port; written as in a URL.
    LocalAnd(Vec<String>),
    /// Any address, the local names and these, with any port. A page that was
    /// loaded from an address was loaded from us: only names can be rebound.
    AddressesAnd(Vec<String>),
    /// Any.
    Any,
}

/// Which callers are let in. Each is a flag of the server.
pub struct Access {
    /// By which names the server answers.
    pub hosts: HostPolicy,
    /// The API keys; `None`: every caller may do everything.
    pub keys: Option<Arc<ApiKeys>>,
}

impl From<HostPolicy> for Access {
    fn from(hosts: HostPolicy) -> Access {
        Access { hosts, keys: None }
    }
}

/// What all handlers share.
///
/// It exists before the engine does, so that probes are answered while the
/// redo log is replayed.
pub struct App {
    engine: OnceLock<Engine>,
    backups: OnceLock<Arc<Backups>>,
    snapshots: OnceLock<Arc<Snapshots>>,
    cluster: OnceLock<Cluster>,
    command_worker: OnceLock<Arc<dyn CommandWorker>>,
    draining: AtomicBool,
    /// What is counted.
    pub metrics: Arc<Metrics>,
    /// Who is let in.
    pub access: Access,
    /// What requests hold.
    pub admission: Admission,
}

impl App {
    /// An application without an engine: it answers probes, and 503 to the rest.
    pub fn new(metrics: Arc<Metrics>, limits: Limits, access: impl Into<Access>) -> Arc<App> {
        // Makes the series, so that a rate over them starts from zero and not
        // from the first refusal.
        for code in Code::ALL.iter().filter(|code| code.is_counted()) {
            metrics.http_rejected.with_label_values(&[code.name()]);
        }
        Arc::new(App {
            engine: OnceLock::new(),
            backups: OnceLock::new(),
            snapshots: OnceLock::new(),
            cluster: OnceLock::new(),
            command_worker: OnceLock::new(),
            draining: AtomicBool::new(false),
            access: access.into(),
            admission: Admission::new(limits, &metrics),
            metrics,
        })
    }

    /// Starts serving filters from this engine. The first call decides.
    pub fn open(&self, engine: Engine) {
        // A second engine would be a mistake of the caller that no request
        // can see: the first stays.
        let _ = self.engine.set(engine);
    }

    /// Offers backups. To be called before [`open`](Self::open), or not at all.
    pub fn offer_backups(&self, backups: Arc<Backups>) {
        // As for a second engine.
        let _ = self.backups.set(backups);
    }

    /// Offers snapshots to other pods. To be called before [`open`](Self::open), or
    /// not at all.
    pub fn offer_snapshots(&self, snapshots: Arc<Snapshots>) {
        // As for a second engine.
        let _ = self.snapshots.set(snapshots);
    }

    /// Says that the engine is a part of a cluster. To be called before
    /// [`open`](Self::open), or not at all.
    pub fn join(&self, cluster: Cluster) {
        // As for a second engine.
        let _ = self.cluster.set(cluster);
    }

    /// What HTTP does in the cluster, if the server is in one.
    pub fn cluster(&self) -> Option<&Cluster> {
        self.cluster.get()
    }

    /// Takes commands that other pods forward, if the server is in a cluster.
    pub fn take_commands(&self, worker: Arc<dyn CommandWorker>) {
        if self.cluster().is_some() {
            // As for a second engine.
            let _ = self.command_worker.set(worker);
        }
    }

    /// What works on commands that other pods forward.
    pub fn command_worker(&self) -> Option<&Arc<dyn CommandWorker>> {
        self.command_worker.get()
    }

    /// Makes `/readyz` say no from now on; requests are still served.
    pub fn start_draining(&self) {
        self.draining.store(true, Ordering::Release);
    }

    /// Whether `/readyz` says no.
    pub fn is_draining(&self) -> bool {
        self.draining.load(Ordering::Acquire)
    }

    /// The engine.
    ///
    /// # Errors
    /// It is not open yet.
    pub fn engine(&self) -> Result<&Engine, Refusal> {
        self.engine.get().ok_or_else(|| {
            let reason = self.cluster().and_then(Cluster::takes_no_part);
            reason.map_or(Refusal::Plain(Code::Starting), Refusal::TakesNoPart)
        })
    }

    /// What hands data to other pods.
    ///
    /// # Errors
    /// The engine is not open, or the server is in no cluster.
    pub fn snapshots(&self) -> Result<&Arc<Snapshots>, Refusal> {
        self.engine()?;
        self.snapshots
            .get()
            .ok_or(Refusal::Plain(Code::UnknownRoute))
    }

    /// Backups.
    ///
    /// # Errors
    /// The engine is not open, or there are to be no backups.
    pub fn backups(&self) -> Result<&Arc<Backups>, Refusal> {
        self.engine()?;
        self.backups.get().ok_or(Refusal::Plain(Code::BackupsOff))
    }
}
