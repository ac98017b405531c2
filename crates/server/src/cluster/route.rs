//! Where something about a filter is done: by the pod that leads its lane.

use super::commands::ForwardedBy;
use super::pod::Cluster;
use crate::engine::{Engine, EngineError, FilterName};
use cuckood_cluster::Leader;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::time::sleep;

/// How long a change waits for somebody to lead its lane.
pub const LEADER_PATIENCE: Duration = Duration::from_secs(2);

/// How often it looks.
pub const LOOK_EVERY: Duration = Duration::from_millis(25);

/// Where it is done: on the pod with this address; `None`: on this one, which leads the lane.
pub type Route = Option<Arc<str>>;

impl Cluster {
    /// Where a change is done. Waits a little while nobody leads, at most until that
    /// moment.
    ///
    /// # Errors
    /// [`EngineError::NotLeading`].
    pub async fn route(
        &self,
        engine: &Engine,
        filter: &FilterName,
        forwarded_by: &ForwardedBy,
        until: Instant,
    ) -> Result<Route, EngineError> {
        let lane = engine.lane_of(filter);
        loop {
            let state = engine.lane_state(lane);
            // One that leads no more says so itself. So does one that has stopped: whoever
            // leads elsewhere may have less than it.
            if state.is_some_and(|it| it.leads() || it.halted.is_some()) {
                return Ok(None);
            }
            match self.leaders.of(lane) {
                // It hears so in a moment, and does it there.
                Some(Leader::At(address)) if forwarded_by.has_passed(&address) => {
                    return Err(EngineError::NotLeading);
                }
                Some(Leader::At(address)) if forwarded_by.may_go_on() => {
                    return Ok(Some(address));
                }
                _ if Instant::now() >= until => return Err(EngineError::NotLeading),
                _ => sleep(LOOK_EVERY).await,
            }
        }
    }

    /// Where a question is answered that is about all that was acknowledged before
    /// it: here only once this pod has all of that.
    ///
    /// # Errors
    /// [`EngineError::NotLeading`], or the log does not answer.
    pub async fn strong_route(
        &self,
        engine: &Engine,
        filter: &FilterName,
        forwarded_by: &ForwardedBy,
        until: Instant,
    ) -> Result<Route, EngineError> {
        loop {
            let route = self.route(engine, filter, forwarded_by, until).await?;
            if route.is_some() {
                return Ok(route);
            }
            match engine.barrier(engine.lane_of(filter)).await {
                Ok(()) => return Ok(route),
                // Another pod will, in a moment.
                Err(EngineError::NotLeading) if Instant::now() < until => sleep(LOOK_EVERY).await,
                Err(error) => return Err(error),
            }
        }
    }
}
