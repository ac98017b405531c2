//! Commands about filters whose lanes other pods lead: those that came together
//! are passed on together, to several pods at once, and their replies are written
//! in the order of the commands. Questions are answered here, with what this
//! connection has changed; where they are to be about all that was acknowledged,
//! they go to the leaders, too.

use super::failure::Failure;
use super::state::{Role, Session};
use crate::engine::{Engine, FilterName};
use crate::http::{App, Cluster, LanePosition, NotPassed, PassedCommands, PassedReplies};
use crate::redis::commands::errors::excerpt;
use crate::redis::commands::items::ItemVerb;
use crate::redis::commands::table::{Keys, find};
use crate::redis::protocol::batch::{Batch, KeptCommands, Words};
use crate::redis::protocol::encode::{Version, put_command};
use crate::redis::protocol::replies::reply_length;
use bytes::Bytes;
use futures_util::future::join_all;
use std::collections::HashMap;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Instant;

/// Bytes of commands that are looked at together.
const MOST_BYTES: usize = 1 << 20;

/// Where a command is worked on.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Place {
    Here,
    At(Arc<str>),
    Nowhere(Failure),
}

/// What passes commands on, for one connection.
#[derive(Clone)]
struct Passing {
    app: Arc<App>,
    key: Option<Arc<str>>,
    version: Version,
    is_strong: bool,
}

/// The replies to the commands of one place, one each.
type Replies = Result<Vec<Bytes>, Failure>;

impl Session {
    /// Works on the commands of a batch from one on that belong together, if some of
    /// them are to be worked on elsewhere, and says which one comes next. `None`: the
    /// first is worked on here.
    pub(super) async fn go_elsewhere(&mut self, batch: &Batch, from: usize) -> Option<usize> {
        let app = Arc::clone(&self.service.app);
        let cluster = app.cluster()?;
        let engine = self.engine().ok()?;
        let end = match is_about_items(batch.command(from)) {
            true => batch.len(),
            false => from + 1,
        };
        let (mut places, mut known) = (Vec::new(), HashMap::new());
        let (mut of_commands, mut bytes) = (Vec::new(), 0);
        for at in from..end {
            let words = batch.command(at);
            let Some((name, is_change)) = about_one_filter(words) else {
                break;
            };
            let lane = engine.lane_of(&name);
            // Behind a change a question is answered where that is done.
            let is_for_leader = is_change || known.contains_key(&(lane, true));
            let place = match known.get(&(lane, is_for_leader)) {
                Some(&place) => place,
                None => {
                    let place = self.place(cluster, &engine, &name, is_for_leader).await;
                    let number = places.iter().position(|known| *known == place);
                    let number = number.unwrap_or(places.len());
                    if number == places.len() {
                        places.push(place);
                    }
                    known.insert((lane, is_for_leader), number);
                    number
                }
            };
            if is_change {
                self.note_change(lane);
            }
            of_commands.push(place);
            bytes += words.iter().map(<[u8]>::len).sum::<usize>();
            if bytes > MOST_BYTES {
                break;
            }
        }
        if places.iter().all(|place| *place == Place::Here) {
            return None;
        }
        let next = from + of_commands.len();
        self.work_at(batch, from, &places, &of_commands).await;
        Some(next)
    }

    /// Has commands worked on at their places, all of these at once, and writes the
    /// replies.
    async fn work_at(&mut self, batch: &Batch, from: usize, places: &[Place], of: &[usize]) {
        let passing = self.passing();
        let works = places.iter().enumerate().map(|(number, place)| {
            let mine = (0..of.len()).filter(|&at| of.get(at) == Some(&number));
            let mut commands = KeptCommands::default();
            mine.for_each(|at| commands.push(batch.command(from + at)));
            let (passing, beside) = (passing.clone(), self.beside());
            async move {
                match place {
                    Place::Here => (beside.replies_to(commands.into_batch()).await, Vec::new()),
                    Place::At(address) => {
                        match passing.pass(address, &commands.into_batch()).await {
                            Ok(replies) => (Ok(split(&replies.bytes)), replies.positions),
                            Err(failure) => (Err(failure), Vec::new()),
                        }
                    }
                    Place::Nowhere(failure) => (Err(failure.clone()), Vec::new()),
                }
            }
        });
        let worked: Vec<(Replies, Vec<LanePosition>)> = join_all(works).await;
        let mut replies = Vec::new();
        for (of_place, positions) in worked {
            self.note_positions(&positions);
            replies.push(of_place.map(Vec::into_iter));
        }
        for (at, &place) in of.iter().enumerate() {
            let before = self.replies.len();
            match replies.get_mut(place) {
                Some(Ok(replies)) => match replies.next() {
                    Some(reply) => self.replies.raw(&reply),
                    None => self.replies.error(LOST),
                },
                Some(Err(failure)) => self.replies.error(&failure.words),
                None => {}
            }
            // What was worked on here is counted.
            if places.get(place) != Some(&Place::Here) {
                self.count(find(batch.command(from + at).get(0)), before);
            }
        }
        // It is sent in any case: what was asked for may have been done.
        let _ = self.hold_reply(self.replies.len());
    }

    /// Where a command about a filter is worked on, after whatever it waits for.
    async fn place(
        &mut self,
        cluster: &Cluster,
        engine: &Engine,
        name: &FilterName,
        is_for_leader: bool,
    ) -> Place {
        let lane = engine.lane_of(name);
        let place = match (is_for_leader || self.is_strong, self.role) {
            (false, _) => {
                let noted = self.positions.get(&lane).copied().unwrap_or_default();
                let reached = engine.reached(lane, noted).await;
                return reached.map_or_else(|error| Place::Nowhere(error.into()), |()| Place::Here);
            }
            (true, Role::OfClient) => match cluster.leader_elsewhere(engine, name).await {
                Ok(Some(address)) => Place::At(address),
                Ok(None) => Place::Here,
                Err(error) => Place::Nowhere(error.into()),
            },
            (true, Role::Beside | Role::OfPod) => Place::Here,
        };
        match is_for_leader || place != Place::Here {
            true => place,
            false => {
                let passed = engine.barrier(lane).await;
                passed.map_or_else(|error| Place::Nowhere(error.into()), |()| Place::Here)
            }
        }
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
        let (mut change, mut first) = (None, None);
        for at in 0..batch.len() {
            let words = batch.command(at);
            for (name, is_change) in about_filters(words) {
                let place = match self.place(cluster, &engine, &name, is_change).await {
                    Place::Nowhere(failure) => return Err(failure),
                    place => place,
                };
                let of_kind = match is_change || self.is_strong {
                    true => &mut change,
                    false => &mut first,
                };
                if is_change {
                    self.note_change(engine.lane_of(&name));
                }
                let known = of_kind.get_or_insert_with(|| (place.clone(), name.clone()));
                if known.0 != place {
                    return Err(format!(
                        "EXECABORT Transaction discarded because of: ERR different pods of the cluster lead {} and {}: send the commands without MULTI",
                        excerpt(known.1.as_str().as_bytes()),
                        excerpt(name.as_str().as_bytes())
                    )
                    .into());
                }
            }
        }
        Ok(match change {
            Some((Place::At(address), _)) => Some(address),
            _ => None,
        })
    }

    /// Has another pod do a transaction.
    pub(super) async fn exec_elsewhere(
        &mut self,
        address: &str,
        batch: &Batch,
    ) -> Result<(), Failure> {
        let mut commands = KeptCommands::default();
        commands.push_words([&b"MULTI"[..]]);
        (0..batch.len()).for_each(|at| commands.push(batch.command(at)));
        commands.push_words([&b"EXEC"[..]]);
        let replies = self.passing().pass(address, &commands.into_batch()).await?;
        self.note_positions(&replies.positions);
        let all = split(&replies.bytes);
        let done = all.last().filter(|_| all.len() == batch.len() + 2);
        self.replies.raw(done.ok_or(LOST)?);
        Ok(())
    }

    /// Does the same with each of several filters, wherever that is, and adds the
    /// numbers up that come of it.
    pub(super) async fn sum<'a>(
        &mut self,
        verb: &'a [u8],
        keys: impl Iterator<Item = &'a [u8]>,
    ) -> Result<i64, Failure> {
        let mut commands = KeptCommands::default();
        keys.for_each(|key| commands.push_words([verb, key]));
        let mut each = self.beside();
        (each.role, each.counts) = (self.role, false);
        (each.shown, each.is_strong) = (self.shown.clone(), self.is_strong);
        each.positions.clone_from(&self.positions);
        each.work_through(&commands.into_batch()).await;
        self.positions.append(&mut each.positions);
        self.audited += each.audited;
        let mut sum = 0;
        for reply in split(each.replies.bytes()) {
            let text = String::from_utf8_lossy(&reply);
            match text.trim_end().split_at_checked(1) {
                Some((":", number)) => sum += number.parse::<i64>().unwrap_or_default(),
                Some(("-", words)) => return Err(words.to_owned().into()),
                _ => return Err(LOST.into()),
            }
        }
        Ok(sum)
    }

    /// Whether filters may be led by other pods, and commands be passed on to them.
    pub(super) fn may_pass_on(&self) -> bool {
        self.role == Role::OfClient && self.service.app.cluster().is_some()
    }

    /// Waits until this pod has everything that the connection has changed.
    pub(super) async fn reach_all(&mut self) -> Result<(), Failure> {
        let engine = self.engine()?;
        for (&lane, &position) in &self.positions {
            engine.reached(lane, position).await?;
        }
        Ok(())
    }

    /// Works on commands one after another.
    pub(in crate::redis) fn work_through<'a>(
        &'a mut self,
        batch: &'a Batch,
    ) -> Pin<Box<dyn Future<Output = ()> + Send + 'a>> {
        Box::pin(async move {
            let mut next = 0;
            while next < batch.len() {
                next = self.go_on(batch, next).await;
            }
        })
    }

    async fn replies_to(mut self, batch: Batch) -> Replies {
        self.work_through(&batch).await;
        Ok(split(self.replies.bytes()))
    }

    fn passing(&self) -> Passing {
        Passing {
            app: Arc::clone(&self.service.app),
            key: self.shown.clone(),
            version: self.replies.version(),
            is_strong: self.is_strong,
        }
    }

    fn note_change(&mut self, lane: u32) {
        self.positions.entry(lane).or_default();
    }

    pub(super) fn note_positions(&mut self, positions: &[LanePosition]) {
        for position in positions {
            let noted = self.positions.entry(position.lane).or_default();
            *noted = position.sequence.max(*noted);
        }
    }
}

impl Passing {
    async fn pass(&self, address: &str, batch: &Batch) -> Result<PassedReplies, Failure> {
        let mut bytes = Vec::new();
        for at in 0..batch.len() {
            put_command(&mut bytes, batch.command(at).iter());
        }
        let commands = PassedCommands {
            bytes: bytes.into(),
            version: match self.version {
                Version::Resp2 => 2,
                Version::Resp3 => 3,
            },
            is_strong: self.is_strong,
            until: Instant::now() + self.app.admission.limits.request_timeout,
        };
        let Some(cluster) = self.app.cluster() else {
            return Err(LOST.into());
        };
        let passed = cluster.pass_commands(address, self.key.as_deref(), commands);
        passed.await.map_err(|why| match why {
            NotPassed::Engine(error) => error.into(),
            NotPassed::Refused { may_pass, detail } => {
                let code = if may_pass { "TRYAGAIN" } else { "ERR" };
                format!(
                    "{code} the pod that leads the filter takes no commands of this one: {detail}"
                )
                .into()
            }
        })
    }
}

/// Of a command whose reply did not come.
const LOST: &str = "ERR the pod that leads the filter did not answer: it may have been done or not; ask for the items before it is sent again";

/// The replies that bytes are, one after another.
fn split(bytes: &[u8]) -> Vec<Bytes> {
    let (mut all, mut rest) = (Vec::new(), bytes);
    while let Some((reply, others)) = reply_length(rest).and_then(|it| rest.split_at_checked(it)) {
        all.push(Bytes::copy_from_slice(reply));
        rest = others;
    }
    all
}

fn is_about_items(words: Words<'_>) -> bool {
    find(words.get(0)).is_some_and(|spec| ItemVerb::of(spec.verb).is_some())
}

/// The filters that a command is about, and whether it changes them. What can't be
/// a command is about none: it is refused wherever it is worked on.
fn about_filters(words: Words<'_>) -> impl Iterator<Item = (FilterName, bool)> {
    let spec = find(words.get(0)).filter(|spec| spec.takes(words.len()));
    let keys = spec.into_iter().flat_map(move |spec| {
        let is_change = spec.scope > crate::access::Scope::Read;
        super::dispatch::keys_of(spec, words).map(move |key| (key, is_change))
    });
    keys.filter_map(|(key, is_change)| {
        let name = FilterName::parse(std::str::from_utf8(key).ok()?).ok()?;
        Some((name, is_change))
    })
}

/// The same of a command that is about one alone.
fn about_one_filter(words: Words<'_>) -> Option<(FilterName, bool)> {
    let spec = find(words.get(0))?;
    match spec.keys {
        Keys::All if words.len() > 2 => None,
        _ => about_filters(words).next(),
    }
}
