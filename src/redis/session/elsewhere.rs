//! Commands about filters whose lanes other pods lead: those that came together
//! are passed on together, to several pods at once, and their replies are written
//! in the order of the commands. Questions are answered here, with what this
//! connection has changed; where they are to be about all that was acknowledged,
//! they go to the leaders, too.

use super::failure::Failure;
use super::passing::{LOST, split};
use super::places::{Place, filters_of};
use super::state::{Role, Session};
use super::together::Next;
use crate::http::LanePosition;
use crate::redis::commands::table::{Keys, Spec, Verb, find};
use crate::redis::protocol::batch::{Batch, KeptCommands, Words};
use crate::redis::protocol::pieces::Pieces;
use bytes::Bytes;
use futures_util::future::join_all;
use std::collections::{HashMap, HashSet};
use std::pin::Pin;
use std::sync::Arc;

/// The replies to the commands of one place, one each.
type Replies = Result<Vec<Bytes>, Failure>;

impl Session {
    /// Works on the commands of a batch from one on that belong together, if some of
    /// them are to be worked on elsewhere.
    pub(super) async fn go_elsewhere(&mut self, batch: &Batch, from: usize) -> Next {
        if from < self.together.here_to {
            return Next::Here(self.together.here_to);
        }
        let app = Arc::clone(&self.service.app);
        let (Some(cluster), Ok(engine)) = (app.cluster(), self.engine()) else {
            return Next::Here(batch.len());
        };
        let (mut places, mut of_commands) = (Vec::new(), Vec::new());
        let (mut known, mut changed) = (HashMap::new(), HashSet::new());
        for at in from..batch.len() {
            let words = batch.command(at);
            let Some(spec) = find(words.get(0)).filter(|spec| is_about_one(spec, words)) else {
                break;
            };
            let is_alone = is_alone(spec.verb);
            if is_alone && at > from {
                break;
            }
            let about = filters_of(spec, words).next();
            let place = match about.filter(|_| spec.takes(words.len())) {
                // It is refused, wherever that is.
                None => Place::Local,
                Some((name, is_change)) => {
                    let lane = engine.lane_of(&name);
                    if is_change {
                        self.note_change(lane);
                        changed.insert(lane);
                    }
                    // Behind a change a question is answered where that is done.
                    let is_for_leader = changed.contains(&lane);
                    let known_as = (lane, is_for_leader || self.is_strong);
                    let place = match known.get(&known_as) {
                        Some(place) => Place::clone(place),
                        None => {
                            let place = self.place(cluster, &engine, &name, is_for_leader).await;
                            known.insert(known_as, place.clone());
                            place
                        }
                    };
                    match self.is_strong && !is_change && place == Place::Here {
                        true => {
                            let passed = self.barrier(&engine, lane).await;
                            passed.map_or_else(Place::Nowhere, |()| place)
                        }
                        false => place,
                    }
                }
            };
            let number = places.iter().position(|known| *known == place);
            of_commands.push(number.unwrap_or(places.len()));
            if number.is_none() {
                places.push(place);
            }
            if is_alone {
                break;
            }
        }
        let next = from + of_commands.len();
        if places.iter().all(Place::is_here) {
            self.together.here_to = next.max(from + 1);
            return Next::Here(self.together.here_to);
        }
        self.work_at(batch, from, &places, &of_commands).await;
        Next::Done(next)
    }

    /// Has commands worked on at their places, and writes the replies.
    async fn work_at(&mut self, batch: &Batch, from: usize, places: &[Place], of: &[usize]) {
        let passing = &self.passing();
        let mut worked: Vec<(usize, Replies, Vec<LanePosition>)> = Vec::new();
        // What is asked here comes first: changes that stand behind it may be done
        // elsewhere. All others at once.
        for is_local in [true, false] {
            let numbered = places.iter().enumerate();
            let of_step = numbered.filter(|(_, place)| (**place == Place::Local) == is_local);
            let works = of_step.map(|(number, place)| {
                let mine = (0..of.len()).filter(|&at| of.get(at) == Some(&number));
                let commands = batch.of_these(mine.map(|at| from + at));
                let beside = self.beside();
                async move {
                    match place {
                        Place::Local | Place::Here => {
                            (number, beside.replies_to(commands).await, Vec::new())
                        }
                        Place::At(address) => {
                            match passing.pass(address, Pieces::of(commands)).await {
                                Ok(replies) => {
                                    (number, Ok(split(replies.bytes)), replies.positions)
                                }
                                Err(failure) => (number, Err(failure), Vec::new()),
                            }
                        }
                        Place::Nowhere(failure) => (number, Err(failure.clone()), Vec::new()),
                    }
                }
            });
            let done = join_all(works).await;
            worked.extend(done);
        }
        worked.sort_by_key(|(number, ..)| *number);
        let mut replies = Vec::new();
        for (_, of_place, positions) in worked {
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
            if !places.get(place).is_some_and(Place::is_here) {
                self.count(find(batch.command(from + at).get(0)), before);
            }
        }
        // It is sent in any case: what was asked for may have been done.
        let _ = self.hold_reply(self.replies.len());
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
        Ok(split(self.replies.into_bytes().into()))
    }
}

impl Place {
    fn is_here(&self) -> bool {
        matches!(self, Place::Local | Place::Here)
    }
}

/// Whether a command names one filter, so that it goes where that is led.
fn is_about_one(spec: &Spec, words: Words<'_>) -> bool {
    match spec.keys {
        Keys::None => false,
        Keys::All => words.len() <= 2,
        Keys::First | Keys::Second => true,
    }
}

/// Whether a command, or its reply, is large, so that it goes by itself.
fn is_alone(verb: Verb) -> bool {
    matches!(verb, Verb::CfScanDump | Verb::CfLoadChunk)
}
