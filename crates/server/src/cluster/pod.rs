//! This pod among others, as requests of either protocol need to know it.

use super::links::Links;
use super::readiness::{self, Staleness};
use super::status::ClusterStatus;
use crate::engine::Engine;
use crate::metrics::Metrics;
use crate::share::{Claimant, Kind, Permit, Resource};
use cuckood_cluster::jetstream::{Founding, PodState};
use cuckood_cluster::{Leader, Leaders};
use parking_lot::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Instant;

/// Connections of other pods: beside those of callers, which must not take them. One pod
/// has at most so much of them: more than what its own callers can have under way.
const MAX_POD_CONNECTIONS: u64 = 8192;
const POD_SHARE_PERCENT: u8 = 50;

/// The cluster, as whoever answers requests sees it.
pub struct Cluster {
    pub(crate) leaders: Arc<Leaders>,
    /// Connections to other pods.
    pub links: Arc<Links>,
    /// Those that other pods have.
    connections: Resource<String>,
    staleness: Staleness,
    founding: Founding,
    /// The pods of the cluster when they were last heard of, and when that was.
    seen: Mutex<Option<(Vec<PodState>, Instant)>>,
    /// The epoch that has begun since this pod started, 0: none.
    later_epoch: AtomicU64,
    /// Whether the bucket has what nobody with the cluster's key has written.
    has_unsealed: AtomicBool,
    /// Why this pod takes no part, if its key is not that of the cluster.
    other_key: OnceLock<&'static str>,
    /// A pod of another founding of the cluster.
    other_founding: Mutex<Option<String>>,
}

impl Cluster {
    /// A pod, which reaches others by `links`.
    pub fn new(
        founding: Founding,
        leaders: Arc<Leaders>,
        links: Arc<Links>,
        metrics: &Metrics,
    ) -> Cluster {
        let connections = Resource::new(
            "pod_connections",
            Kind::Lent,
            MAX_POD_CONNECTIONS,
            POD_SHARE_PERCENT,
            metrics,
        );
        Cluster {
            staleness: Staleness::new(leaders.lanes()),
            founding,
            seen: Mutex::default(),
            leaders,
            links,
            connections,
            later_epoch: AtomicU64::new(0),
            has_unsealed: AtomicBool::new(false),
            other_key: OnceLock::new(),
            other_founding: Mutex::default(),
        }
    }

    /// A place for a connection of another pod; `None`: there is none, or that pod has
    /// as many as it may.
    pub fn place_of_a_pod(&self, address: String) -> Option<Permit<String>> {
        let by = Claimant::of(address, true);
        self.connections.try_take(Some(&by), 1).ok()
    }

    /// Sets which later epoch of the cluster has begun. Returns whether that is new.
    pub fn set_later_epoch(&self, epoch: u64) -> bool {
        self.later_epoch.swap(epoch, Ordering::Relaxed) != epoch
    }

    /// Sets whether the brokers' bucket has what nobody with the cluster's key has
    /// written.
    pub fn set_unsealed(&self, has_some: bool) {
        self.has_unsealed.store(has_some, Ordering::Relaxed);
    }

    /// Sets why this pod takes no part: its key is not that of the cluster.
    pub fn set_other_key(&self, reason: &'static str) {
        // The first one stays.
        let _ = self.other_key.set(reason);
    }

    /// Why this pod takes no part, if it does not.
    pub fn takes_no_part(&self) -> Option<&'static str> {
        self.other_key.get().copied()
    }

    /// Sets which pod of another founding is there, or none. Returns whether that is new.
    pub fn set_other_founding(&self, address: Option<String>) -> bool {
        let mut known = self.other_founding.lock();
        let is_new = *known != address;
        *known = address;
        is_new
    }

    /// Whether the pod is ready.
    pub fn is_ready(&self, engine: &Engine) -> bool {
        self.readiness(engine).is_ok()
    }

    /// Whether the pod is as far as others are.
    pub fn staleness(&self) -> &Staleness {
        &self.staleness
    }

    /// The lines that `/readyz` has for the cluster.
    ///
    /// # Errors
    /// The pod is not ready, and why.
    pub fn readiness(&self, engine: &Engine) -> Result<String, String> {
        let later = self.later_epoch.load(Ordering::Relaxed);
        if later > 0 {
            return Err(format!(
                "epoch {later} of the cluster has begun, and this pod is of an earlier one: start it again"
            ));
        }
        let mut said = readiness::of(&engine.lane_states(), &self.leaders, &self.staleness)?;
        if self.has_unsealed.load(Ordering::Relaxed) {
            said += "other_key: the brokers' bucket has leases or announcements that no pod with this cluster key has written; they are not believed\n";
        }
        if let Some(address) = &*self.other_founding.lock() {
            said += &format!(
                "other_founding: a server at {address:?} belongs to another founding of the cluster: stop it, or give it an empty data directory\n"
            );
        }
        Ok(said)
    }

    /// Notes which pods have announced themselves.
    pub fn see(&self, pods: Vec<PodState>) {
        *self.seen.lock() = Some((pods, Instant::now()));
    }

    /// How the cluster is, as far as this pod knows. Asks nobody.
    pub fn status(&self, engine: &Engine) -> ClusterStatus {
        let seen = self.seen.lock();
        let pods = seen.as_ref().map_or(&[][..], |(pods, _)| pods);
        let lanes = engine.lane_states().into_iter().enumerate();
        let lanes = lanes.map(|(lane, state)| {
            let announced = pods.iter().filter_map(|it| it.positions.get(lane).copied());
            let newest = announced.fold(state.position.sequence, u64::max);
            let leader = self.leaders.of(lane as u32).map(|it| match it {
                Leader::Own => self.links.own().to_owned(),
                Leader::At(address) => address.to_string(),
            });
            (newest, leader)
        });
        ClusterStatus {
            answered_by: Some(self.links.own().to_owned()),
            age_seconds: seen.as_ref().map(|(_, at)| at.elapsed().as_secs_f64()),
            ..ClusterStatus::new(&self.founding, lanes, pods.to_vec())
        }
    }
}
