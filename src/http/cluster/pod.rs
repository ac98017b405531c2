//! This pod among others, as HTTP knows it.

use super::readiness::{self, Staleness};
use crate::engine::Engine;
use crate::http::problem::HttpError;
use crate::replication::Leaders;
use std::sync::Arc;

/// The cluster as a server of HTTP sees it.
pub struct Cluster {
    pub(super) leaders: Arc<Leaders>,
    /// Where other pods reach this one.
    pub(super) address: String,
    pub(super) client: reqwest::Client,
    staleness: Staleness,
}

impl Cluster {
    /// A pod at `address`, which other pods reach with `client`.
    pub fn new(leaders: Arc<Leaders>, address: String, client: reqwest::Client) -> Cluster {
        Cluster {
            staleness: Staleness::new(leaders.lanes()),
            leaders,
            address,
            client,
        }
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
        let readiness = readiness::of(engine, &self.leaders, &self.staleness);
        readiness.map_err(|reason| HttpError::PodNotReady { reason })
    }
}
