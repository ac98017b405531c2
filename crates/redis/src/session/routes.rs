//! Where commands about filters are worked on in a cluster: changes by the pods that
//! lead, questions here, unless they are to be about all that was acknowledged.

use super::dispatch::keys_of;
use super::failure::{Failure, Result};
use super::state::{Session, known_name};
use crate::access::Scope;
use crate::commands::errors::excerpt;
use crate::commands::table::{Spec, find};
use crate::engine::{Engine, EngineError, FilterName};
use crate::protocol::pipeline::{Pipeline, Words};
use crate::server::cluster::pod::Cluster;
use crate::server::listen::polls::give_way;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Instant;

/// Where a command is worked on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum CommandRoute {
    /// Here, whoever leads: it asks for what this pod has.
    Local,
    /// Here, by the pod that leads.
    Here,
    At(Arc<str>),
    Nowhere(Failure),
}

impl CommandRoute {
    pub(super) fn is_here(&self) -> bool {
        matches!(self, CommandRoute::Local | CommandRoute::Here)
    }
}

/// The routes of commands that came together: each lane is asked for once.
pub(super) struct CommandRoutes<'a> {
    cluster: &'a Cluster,
    engine: Engine,
    known: HashMap<(u32, Asks), CommandRoute>,
    /// Lanes that commands before this one change.
    changed: HashSet<u32>,
}

/// What a command asks of a lane.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Asks {
    /// What this pod has.
    Own,
    /// What the pod that leads has.
    Leader,
    /// The same, with all that was acknowledged.
    Strong,
}

impl<'a> CommandRoutes<'a> {
    pub(super) fn new(cluster: &'a Cluster, engine: Engine) -> CommandRoutes<'a> {
        CommandRoutes {
            cluster,
            engine,
            known: HashMap::new(),
            changed: HashSet::new(),
        }
    }

    /// Where a command about a filter is worked on, after whatever it waits for.
    pub(super) async fn of(
        &mut self,
        session: &mut Session,
        name: &FilterName,
        is_change: bool,
    ) -> CommandRoute {
        let lane = self.engine.lane_of(name);
        if is_change {
            session.remember_change(lane);
            self.changed.insert(lane);
        }
        let asks = match session.is_strong && !is_change {
            true => Asks::Strong,
            // Behind a change a question is answered where that is done.
            false if self.changed.contains(&lane) => Asks::Leader,
            false => Asks::Own,
        };
        if let Some(known) = self.known.get(&(lane, asks)) {
            return known.clone();
        }
        let route = self.find(session, name, asks).await;
        let route = route.unwrap_or_else(|error| CommandRoute::Nowhere(error.into()));
        self.known.insert((lane, asks), route.clone());
        route
    }

    async fn find(
        &self,
        session: &mut Session,
        name: &FilterName,
        asks: Asks,
    ) -> Result<CommandRoute, EngineError> {
        let (cluster, engine) = (self.cluster, &self.engine);
        if asks == Asks::Own {
            let lane = engine.lane_of(name);
            let known = session.positions.get(&lane).copied().unwrap_or_default();
            engine.reached(lane, known).await?;
            return Ok(CommandRoute::Local);
        }
        // For all of them together: a client that sends many does not wait many times.
        let began = Instant::now();
        let (by, until) = (&session.forwarded_by, began + session.patience);
        let route = match asks {
            Asks::Strong => cluster.strong_route(engine, name, by, until).await,
            Asks::Own | Asks::Leader => cluster.route(engine, name, by, until).await,
        };
        session.patience = session.patience.saturating_sub(began.elapsed());
        Ok(route?.map_or(CommandRoute::Here, CommandRoute::At))
    }
}

impl Session {
    /// The pod that a transaction is done on, if it is another one.
    ///
    /// # Errors
    /// Several pods would have to do it, or none can.
    pub(super) async fn transaction_route(&mut self, kept: &Pipeline) -> Result<Option<Arc<str>>> {
        let app = Arc::clone(&self.service.app);
        let Some(cluster) = app.cluster() else {
            return Ok(None);
        };
        let mut routes = CommandRoutes::new(cluster, self.engine()?);
        let mut first: Option<(CommandRoute, FilterName)> = None;
        for at in 0..kept.len() {
            for (name, is_change) in about_filters(kept.command(at)) {
                let route = match routes.of(self, &name, is_change).await {
                    CommandRoute::Nowhere(failure) => return Err(failure),
                    CommandRoute::Local => continue,
                    route => route,
                };
                let (known, other) = first.get_or_insert_with(|| (route.clone(), name.clone()));
                if *known != route {
                    return Err(format!(
                        "EXECABORT Transaction discarded because of: ERR different pods of the cluster lead {} and {}: send the commands without MULTI",
                        excerpt(other.as_str().as_bytes()),
                        excerpt(name.as_str().as_bytes())
                    )
                    .into());
                }
            }
            give_way().await;
        }
        Ok(match first {
            Some((CommandRoute::At(address), _)) => Some(address),
            _ => None,
        })
    }
}

/// The filters that a command is about, and whether it changes them. What can't be
/// a command is about none: it is refused wherever it is worked on.
pub(super) fn about_filters(words: Words<'_>) -> impl Iterator<Item = (FilterName, bool)> {
    let spec = find(words.get(0)).filter(|spec| spec.takes(words.len()));
    spec.into_iter().flat_map(move |spec: &'static Spec| {
        let is_change = spec.scope > Scope::Read;
        keys_of(spec, words).filter_map(move |key| Some((known_name(key)?, is_change)))
    })
}
