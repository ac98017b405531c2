//! This pod among others, as HTTP knows it.

use super::link::Links;
use super::readiness::{self, Staleness};
use super::status::ClusterStatus;
use crate::engine::Engine;
use crate::http::problem::HttpError;
use crate::metrics::Metrics;
use crate::replication::jetstream::{Founding, PodState};
use crate::replication::{Leader, Leaders};
use crate::share::{Claimant, Kind, Permit, Resource, Terms};
use parking_lot::Mutex;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

/// Connections of other pods: beside those of callers, which must not take them. One pod
/// has at most so much of them: more than what its own callers can have under way.
const MAX_POD_CONNECTIONS: u64 = 8192;
const POD_SHARE_PERCENT: u8 = 50;

/// The cluster as a server of HTTP sees it.
pub struct Cluster {
    pub(super) leaders: Arc<Leaders>,
    pub(super) links: Arc<Links>,
    /// Those that other pods have.
    connections: Resource<String>,
    staleness: Staleness,
    founding: Founding,
    seen: Mutex<Option<SeenPods>>,
    /// The epoch that has begun since this pod started, 0: none.
    later_epoch: AtomicU64,
}

/// The pods of the cluster, as they were when they were last heard of.
struct SeenPods {
    pods: Vec<PodState>,
    at: Instant,
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
        }
    }

    /// A place for a connection of another pod.
    ///
    /// # Errors
    /// There is none, or that pod has as many as it may.
    pub(super) fn place_of_a_pod(&self, address: String) -> Result<Permit<String>, HttpError> {
        let by = Claimant {
            holder: address,
            terms: Terms {
                has_rivals: true,
                most: None,
            },
        };
        let place = self.connections.try_take(Some(&by), 1);
        place.map_err(|_| HttpError::PodNotReady {
            reason: "the pod that asks has as many connections to this one as it may".to_owned(),
        })
    }

    /// Notes that a later epoch of the cluster has begun. Returns whether that is new.
    pub fn note_later_epoch(&self, epoch: u64) -> bool {
        self.later_epoch.swap(epoch, Ordering::Relaxed) != epoch
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
    pub(in crate::http) fn readiness(&self, engine: &Engine) -> Result<String, HttpError> {
        let later = self.later_epoch.load(Ordering::Relaxed);
        if later > 0 {
            let reason = format!(
                "epoch {later} of the cluster has begun, and this pod is of an earlier one: start it again"
            );
            return Err(HttpError::PodNotReady { reason });
        }
        let readiness = readiness::of(&engine.lane_states(), &self.leaders, &self.staleness);
        readiness.map_err(|reason| HttpError::PodNotReady { reason })
    }

    /// Notes which pods have announced themselves.
    pub fn see(&self, pods: Vec<PodState>) {
        let at = Instant::now();
        *self.seen.lock() = Some(SeenPods { pods, at });
    }

    /// How the cluster is, as far as this pod knows. Asks nobody.
    pub(in crate::http) fn status(&self, engine: &Engine) -> ClusterStatus {
        let seen = self.seen.lock();
        let pods = seen.as_ref().map_or(&[][..], |it| &it.pods);
        let lanes = engine.lane_states().into_iter().enumerate();
        let lanes = lanes.map(|(lane, state)| {
            let announced = pods.iter().filter_map(|it| it.positions.get(lane).copied());
            let newest = announced.fold(state.position.sequence, u64::max);
            (newest, self.leader(lane as u32))
        });
        ClusterStatus {
            answered_by: Some(self.links.own().to_owned()),
            age_seconds: seen.as_ref().map(|it| it.at.elapsed().as_secs_f64()),
            ..ClusterStatus::new(&self.founding, lanes, pods.to_vec())
        }
    }

    fn leader(&self, lane: u32) -> Option<String> {
        Some(match self.leaders.of(lane)? {
            Leader::Own => self.links.own().to_owned(),
            Leader::At(address) => address.to_string(),
        })
    }
}
