//! Where commands about filters are worked on in a cluster: changes by the pods that
//! lead, questions here, unless they are to be about all that was acknowledged.

use super::dispatch::keys_of;
use super::failure::Failure;
use super::state::{Session, known_name};
use crate::access::Scope;
use crate::engine::{Engine, FilterName};
use crate::http::{Cluster, LEADER_PATIENCE};
use crate::redis::commands::errors::excerpt;
use crate::redis::commands::table::{Spec, find};
use crate::redis::protocol::batch::{Batch, Words};
use std::sync::Arc;
use std::time::Instant;

/// Where a command is worked on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Place {
    /// Here, whoever leads: it asks for what this pod has.
    Local,
    /// Here, by the pod that leads.
    Here,
    At(Arc<str>),
    Nowhere(Failure),
}

impl Session {
    /// Where a command about a filter is worked on, after whatever it waits for.
    /// `is_for_leader`: it is a change, or stands behind one.
    pub(super) async fn place(
        &mut self,
        cluster: &Cluster,
        engine: &Engine,
        name: &FilterName,
        is_for_leader: bool,
    ) -> Place {
        let lane = engine.lane_of(name);
        if !is_for_leader && !self.is_strong {
            let noted = self.positions.get(&lane).copied().unwrap_or_default();
            let reached = engine.reached(lane, noted).await;
            return reached.map_or_else(|error| Place::Nowhere(error.into()), |()| Place::Local);
        }
        // For all of them together: a client that sends many does not wait many times.
        let patience = &mut self.together.patience;
        let until = *patience.get_or_insert_with(|| Instant::now() + LEADER_PATIENCE);
        let leads = cluster.leader_elsewhere(engine, name, &self.passed_on_by, until);
        match leads.await {
            Ok(Some(address)) => Place::At(address),
            Ok(None) => Place::Here,
            Err(error) => Place::Nowhere(error.into()),
        }
    }

    /// Makes sure that this pod, which leads a lane, has all that was acknowledged
    /// before the commands came.
    ///
    /// # Errors
    /// It leads no more, or the log does not answer.
    pub(super) async fn barrier(&mut self, engine: &Engine, lane: u32) -> Result<(), Failure> {
        let passed = match self.together.barriers.get(&lane) {
            Some(passed) => passed.clone(),
            None => {
                let passed = engine.barrier(lane).await.err().map(Failure::from);
                self.together.barriers.insert(lane, passed.clone());
                passed
            }
        };
        passed.map_or(Ok(()), Err)
    }

    /// The pod that a transaction is done on, if it is another one.
    ///
    /// # Errors
    /// Several pods would have to do it, or none can.
    pub(super) async fn transaction_elsewhere(
        &mut self,
        batch: &Batch,
    ) -> Result<Option<Arc<str>>, Failure> {
        let app = Arc::clone(&self.service.app);
        let Some(cluster) = app.cluster() else {
            return Ok(None);
        };
        let engine = self.engine()?;
        let mut first: Option<(Place, FilterName)> = None;
        for at in 0..batch.len() {
            let words = batch.command(at);
            for (name, is_change) in about_filters(words) {
                let place = match self.place(cluster, &engine, &name, is_change).await {
                    Place::Nowhere(failure) => return Err(failure),
                    Place::Local => continue,
                    place => place,
                };
                let lane = engine.lane_of(&name);
                if is_change {
                    self.note_change(lane);
                } else if place == Place::Here {
                    self.barrier(&engine, lane).await?;
                }
                let (known, other) = first.get_or_insert_with(|| (place.clone(), name.clone()));
                if *known != place {
                    return Err(format!(
                        "EXECABORT Transaction discarded because of: ERR different pods of the cluster lead {} and {}: send the commands without MULTI",
                        excerpt(other.as_str().as_bytes()),
                        excerpt(name.as_str().as_bytes())
                    )
                    .into());
                }
            }
        }
        Ok(match first {
            Some((Place::At(address), _)) => Some(address),
            _ => None,
        })
    }
}

/// The filters that a command is about, and whether it changes them. What can't be
/// a command is about none: it is refused wherever it is worked on.
fn about_filters(words: Words<'_>) -> impl Iterator<Item = (FilterName, bool)> {
    let spec = find(words.get(0)).filter(|spec| spec.takes(words.len()));
    spec.into_iter()
        .flat_map(move |spec| filters_of(spec, words))
}

/// The same of one whose name is known.
pub(super) fn filters_of(
    spec: &'static Spec,
    words: Words<'_>,
) -> impl Iterator<Item = (FilterName, bool)> {
    let is_change = spec.scope > Scope::Read;
    keys_of(spec, words).filter_map(move |key| Some((known_name(key)?, is_change)))
}
