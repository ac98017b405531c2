//! Commands about filters whose lanes other pods lead: those that came together
//! are forwarded together, to several pods at once, and their replies are written
//! in the order of the commands. Questions are answered here, with what this
//! connection has changed; where they are to be about all that was acknowledged,
//! they go to the leaders, too.

use super::failure::{Failure, Result};
use super::routes::{CommandRoute, CommandRoutes, about_filters};
use super::state::{Role, Session};
use crate::commands::table::{Keys, Verb, find};
use crate::engine::EngineError;
use crate::protocol::pieces::Pieces;
use crate::protocol::pipeline::{KeptCommands, Pipeline, Words};
use crate::protocol::replies::reply_length;
use crate::server::cluster::commands::{CommandReplies, CommandsHead, NotForwarded};
use crate::server::cluster::route::LOOK_EVERY;
use bytes::Bytes;
use futures_util::future::join_all;
use std::collections::{BTreeMap, HashSet};
use std::pin::Pin;
use std::sync::Arc;
use std::time::Instant;
use tokio::time::sleep;

/// Of a command whose reply did not come.
const LOST: &str = "ERR the pod that leads the filter did not answer: it may have been done or not; ask for the items before it is sent again";

/// Commands of a pipeline, by where they are worked on.
type Routes = Vec<(CommandRoute, Vec<usize>)>;

/// What came of commands, each with whether it was worked on here.
type Worked = BTreeMap<usize, (bool, Result<Bytes>)>;

impl Session {
    /// Works on the commands of a pipeline from one on that belong together, if some of
    /// them are to be worked on elsewhere, and says which one comes next.
    pub(super) async fn forward(&mut self, pipeline: &Pipeline, from: usize) -> Option<usize> {
        if from < self.here_to {
            return None;
        }
        self.here_to = pipeline.len();
        let app = Arc::clone(&self.service.app);
        let (cluster, engine) = (app.cluster()?, self.engine().ok()?);
        let mut finding = CommandRoutes::new(cluster, engine.clone());
        let mut routes = Routes::new();
        let mut next = from;
        while next < pipeline.len() {
            let words = pipeline.command(next);
            let is_alone = match goes(words) {
                Goes::Nowhere => break,
                Goes::Alone if next > from => break,
                goes => goes == Goes::Alone,
            };
            self.add_to_route(&mut finding, pipeline, next, &mut routes)
                .await;
            next += 1;
            if is_alone {
                break;
            }
        }
        if routes.iter().all(|(route, _)| route.is_here()) {
            self.here_to = next.max(from + 1);
            return None;
        }
        let (mut replies, mut again_since) = (BTreeMap::new(), None::<Instant>);
        loop {
            let worked = self.work_along(pipeline, routes).await;
            let again = not_led(pipeline, &worked);
            replies.extend(worked);
            // All but what the commands take that are asked for the first time.
            let waited = again_since.map_or(LOOK_EVERY, |since| since.elapsed());
            self.patience = self.patience.saturating_sub(waited);
            // Another pod has given a lane away. Who has it hears so in a moment.
            if again.is_empty() || self.patience.is_zero() || self.role != Role::OfClient {
                break;
            }
            again_since = Some(Instant::now());
            sleep(LOOK_EVERY).await;
            finding = CommandRoutes::new(cluster, engine.clone());
            routes = Routes::new();
            for at in again {
                self.add_to_route(&mut finding, pipeline, at, &mut routes)
                    .await;
            }
        }
        self.write_replies(pipeline, replies);
        self.here_to = next;
        Some(next)
    }

    /// Adds a command to those that are worked on where it is.
    async fn add_to_route(
        &mut self,
        finding: &mut CommandRoutes<'_>,
        pipeline: &Pipeline,
        at: usize,
        routes: &mut Routes,
    ) {
        let route = match about_filters(pipeline.command(at)).next() {
            // It is refused, wherever that is.
            None => CommandRoute::Local,
            Some((name, is_change)) => finding.of(self, &name, is_change).await,
        };
        match routes.iter_mut().find(|(known, _)| *known == route) {
            Some((_, commands)) => commands.push(at),
            None => routes.push((route, vec![at])),
        }
    }

    /// Has commands worked on along their routes.
    async fn work_along(&mut self, pipeline: &Pipeline, routes: Routes) -> Worked {
        let mut replies = Worked::new();
        // What is asked here comes first: changes that stand behind it may be done
        // elsewhere. All others at once.
        let is_local = |(route, _): &(CommandRoute, _)| *route == CommandRoute::Local;
        let (local, others): (Vec<_>, Vec<_>) = routes.into_iter().partition(is_local);
        for routes in [local, others] {
            let this = &*self;
            let works = routes.into_iter().map(async |(route, commands)| {
                let some = pipeline.of_these(commands.iter().copied());
                let worked = match &route {
                    CommandRoute::Local | CommandRoute::Here => Ok(this.work_beside(some).await),
                    CommandRoute::At(address) => this.forward_to(address, Pieces::of(some)).await,
                    CommandRoute::Nowhere(failure) => Err(failure.clone()),
                };
                (route.is_here(), commands, worked)
            });
            for (is_here, commands, worked) in join_all(works).await {
                let mut worked = worked.map(|it| {
                    self.remember_positions(&it.positions);
                    split(it.bytes)
                });
                replies.extend(commands.into_iter().map(|at| {
                    let reply = worked.as_mut().map_err(|failure| failure.clone());
                    let reply = reply.and_then(|all| all.next().ok_or(LOST.into()));
                    (at, (is_here, reply))
                }));
            }
        }
        replies
    }

    /// Writes the replies to commands that were worked on along their routes.
    fn write_replies(&mut self, pipeline: &Pipeline, replies: Worked) {
        for (at, (is_here, reply)) in replies {
            let before = self.replies.len();
            match reply {
                Ok(reply) => self.replies.raw(&reply),
                Err(failure) => self.replies.error(&failure.words),
            }
            // What was worked on here is counted.
            if !is_here {
                self.count(find(pipeline.command(at).get(0)), before);
            }
        }
        // It is sent in any case: what was asked for may have been done.
        let _ = self.hold_reply(self.replies.len());
    }

    async fn work_beside(&self, pipeline: Pipeline) -> CommandReplies {
        let mut beside = self.beside();
        beside.work_through(&pipeline).await;
        CommandReplies {
            bytes: beside.replies.into_bytes().into(),
            positions: Vec::new(),
        }
    }

    /// Has another pod work on commands.
    ///
    /// # Errors
    /// It did not, or it is not known whether it did.
    async fn forward_to(
        &self,
        address: &str,
        commands: impl Iterator<Item = Bytes> + Send + Sync + 'static,
    ) -> Result<CommandReplies> {
        let app = &self.service.app;
        let cluster = app.cluster().ok_or(LOST)?;
        let longest = Instant::now() + app.admission.limits.request_timeout;
        let head = CommandsHead {
            token: self.shown.clone(),
            version: self.replies.version as u8,
            is_strong: self.is_strong,
            // Who leads has what it has changed itself, and others may be asked, too.
            positions: self.positions_of(&self.engine()?, self.positions.keys()),
            forwarded_by: self.forwarded_by.clone(),
            until: self.caller().deadline.unwrap_or(longest),
        };
        let forwarded = cluster.forward_commands(address, &head, commands).await;
        forwarded.map_err(|why| match why {
            NotForwarded::Engine(error) => error.into(),
            NotForwarded::Refused { may_retry, detail } => {
                let code = if may_retry { "TRYAGAIN" } else { "ERR" };
                format!(
                    "{code} the pod that leads the filter takes no commands of this one: {detail}"
                )
                .into()
            }
        })
    }

    /// Has another pod do a transaction.
    pub(super) async fn forward_transaction(&mut self, address: &str, kept: Pipeline) -> Result {
        let commands = kept.len();
        let alone = |word: &'static [u8]| {
            let mut one = KeptCommands::default();
            one.push([word]);
            Pieces::of(one.into_pipeline())
        };
        let pieces = alone(b"MULTI")
            .chain(Pieces::of(kept))
            .chain(alone(b"EXEC"));
        let replies = self.forward_to(address, pieces).await?;
        self.remember_positions(&replies.positions);
        let all: Vec<Bytes> = split(replies.bytes).collect();
        let done = all.last().filter(|_| all.len() == commands + 2);
        self.replies.raw(done.ok_or(LOST)?);
        Ok(())
    }

    /// Does the same with each of several filters, wherever that is, and adds the
    /// numbers up that come of it.
    pub(super) async fn sum<'a>(
        &mut self,
        verb: &'a [u8],
        keys: impl Iterator<Item = &'a [u8]>,
    ) -> Result<i64> {
        let mut commands = KeptCommands::default();
        keys.for_each(|key| commands.push([verb, key]));
        let mut each = self.beside();
        (each.role, each.counts) = (self.role, false);
        (each.shown, each.is_strong) = (self.shown.clone(), self.is_strong);
        each.positions.clone_from(&self.positions);
        each.work_through(&commands.into_pipeline()).await;
        self.positions.append(&mut each.positions);
        self.changed.append(&mut each.changed);
        self.audited += each.audited;
        let mut sum = 0;
        for reply in split(each.replies.into_bytes().into()) {
            let text = String::from_utf8_lossy(&reply);
            match text.trim_end().split_at_checked(1) {
                Some((":", number)) => sum += number.parse::<i64>().unwrap_or_default(),
                Some(("-", words)) => return Err(words.to_owned().into()),
                _ => return Err(LOST.into()),
            }
        }
        Ok(sum)
    }

    /// Whether filters may be led by other pods, and commands be forwarded to them.
    pub(super) fn may_forward(&self) -> bool {
        self.role == Role::OfClient && self.service.app.cluster().is_some()
    }

    /// Waits until this pod has everything that the connection has changed.
    pub(super) async fn reach_all(&mut self) -> Result {
        let engine = self.engine()?;
        for (&lane, &position) in &self.positions {
            engine.reached(lane, position).await?;
        }
        Ok(())
    }

    /// Works on commands one after another.
    pub(crate) fn work_through<'a>(
        &'a mut self,
        pipeline: &'a Pipeline,
    ) -> Pin<Box<dyn Future<Output = ()> + Send + 'a>> {
        Box::pin(async move {
            let mut next = 0;
            while next < pipeline.len() {
                next = self.go_on(pipeline, next).await;
            }
        })
    }
}

/// How a command goes to where its filter is led.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Goes {
    /// It does not: it names no filter, or several.
    Nowhere,
    WithOthers,
    /// It, or its reply, is large.
    Alone,
}

fn goes(words: Words<'_>) -> Goes {
    let Some(spec) = find(words.get(0)) else {
        return Goes::Nowhere;
    };
    match (spec.keys, spec.verb) {
        (_, Verb::CfScanDump | Verb::CfLoadChunk) => Goes::Alone,
        (Keys::First | Keys::Second, _) => Goes::WithOthers,
        (Keys::All, _) if words.len() <= 2 => Goes::WithOthers,
        (Keys::All | Keys::None, _) => Goes::Nowhere,
    }
}

/// Commands that another pod refused because it led their lanes no more, unless a later one
/// about the same filter was done.
fn not_led(pipeline: &Pipeline, worked: &Worked) -> Vec<usize> {
    let refusal = Failure::from(EngineError::NotLeading).words;
    let is_refused = |reply: &Result<Bytes>| {
        let reply = reply.as_ref().ok().and_then(|it| it.get(1..));
        reply.is_some_and(|it| it.starts_with(refusal.as_bytes()))
    };
    if !worked.values().any(|(_, reply)| is_refused(reply)) {
        return Vec::new();
    }
    let (mut again, mut done) = (Vec::new(), HashSet::new());
    for (&at, (_, reply)) in worked.iter().rev() {
        let mut names = about_filters(pipeline.command(at)).map(|(name, _)| name);
        match is_refused(reply) {
            true if names.all(|it| !done.contains(&it)) => again.push(at),
            _ => done.extend(names),
        }
    }
    again.reverse();
    again
}

/// The replies that bytes are, one after another.
fn split(mut bytes: Bytes) -> impl Iterator<Item = Bytes> {
    std::iter::from_fn(move || Some(bytes.split_to(reply_length(&bytes)?)))
}
