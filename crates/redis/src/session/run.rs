//! Commands on items that follow each other, worked on together.
//!
//! Questions that follow each other are grouped by their filters, and so are
//! changes; questions among changes to the same filter are one command with
//! them. Replies are written in the order of the commands. Nothing is waited
//! for: a run has what has come.

use super::failure::{Failure, Result};
use super::group::{Became, Group, GroupDone};
use super::state::{Session, known_name, name_of};
use crate::access::Scope;
use crate::commands::errors;
use crate::commands::items::{self, ItemCommand, ItemVerb};
use crate::commands::table::{Spec, Verb, find};
use crate::engine::{ItemOp, ItemResult};
use crate::protocol::pipeline::{Pipeline, Words};
use crate::server::listen::polls::give_way;
use crate::timings::SLOWER_THAN;
use bytes::Bytes;
use foldhash::fast::RandomState;
use futures_util::future::join_all;
use std::collections::HashMap;
use std::iter::repeat_n;
use std::ops::Range;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Items, and bytes of them, with which a run ends.
const MAX_ITEMS: usize = 65_536;
const MAX_BYTES: usize = 1 << 20;

/// Bytes of the longest reply about one item.
const REPLY_BYTES: usize = 24;

/// Replies, or entries of a list, that are written before others have the thread.
const ENTRIES_AT_ONCE: usize = 4096;

/// Groups of questions that are worked on at once. What tokio lets a task do in a poll is used up by
/// 128 waits: all beyond would be polled in vain, again and again.
const GROUPS_AT_ONCE: usize = 64;

/// Groups among which the one of a key is looked for one by one.
const FEW_GROUPS: usize = 8;

/// See the module.
#[derive(Default)]
pub(super) struct Run<'a> {
    slots: Vec<Slot>,
    groups: Vec<Group<'a>>,
    /// The key of each group, and what is asked where groups of questions have
    /// one kind of it.
    keys: Vec<(&'a [u8], Option<ItemOp>)>,
    /// Where the group of a key is, if there are many.
    by_key: HashMap<(&'a [u8], bool), usize, RandomState>,
    /// The group of the last command.
    last: usize,
    /// Whether there is a change; `None` before the first command.
    has_changes: Option<bool>,
    /// In a transaction, the only filter that it changes.
    changed_key: Option<Option<&'a [u8]>>,
    items: usize,
    bytes: usize,
}

/// The place of a command among the replies.
enum Slot {
    /// A command of a group.
    Asked {
        verb: Verb,
        item_verb: ItemVerb,
        group: usize,
        index: usize,
        items: Range<usize>,
    },
    /// One that is not asked for.
    Refused(Verb, Failure),
    /// One about so many items of a filter that can't be.
    Missing(Verb, ItemVerb, usize),
    /// Another command of a transaction, by its position.
    Other(usize),
}

impl Slot {
    /// Of what is worked on with the run.
    fn verb(&self) -> Option<Verb> {
        match self {
            Slot::Asked { verb, .. } | Slot::Refused(verb, _) | Slot::Missing(verb, ..) => {
                Some(*verb)
            }
            Slot::Other(_) => None,
        }
    }
}

impl<'a> Run<'a> {
    /// A part of a transaction that changes this filter alone.
    pub(super) fn of_transaction(changed_key: Option<&'a [u8]>) -> Run<'a> {
        Run {
            changed_key: Some(changed_key),
            has_changes: Some(changed_key.is_some()),
            ..Run::default()
        }
    }

    /// Whether a command may be part of it.
    fn takes(&self, verb: ItemVerb, key: &[u8]) -> bool {
        if self.items >= MAX_ITEMS || self.bytes >= MAX_BYTES {
            return false;
        }
        match (self.has_changes, verb.is_question()) {
            (None, _) | (Some(false), true) | (Some(true), false) => true,
            (Some(false), false) => false,
            // Only among changes to the same filter.
            (Some(true), true) => self.group_of(key, None).is_some(),
        }
    }

    /// The kind of question that a group is for; `None`: anything.
    fn kind(&self, verb: ItemVerb, key: &[u8]) -> Option<ItemOp> {
        let is_changed = match self.changed_key {
            Some(changed) => changed == Some(key),
            None => self.has_changes == Some(true),
        };
        (!is_changed).then(|| verb.op())
    }

    fn group_of(&self, key: &[u8], kind: Option<ItemOp>) -> Option<usize> {
        let wanted = (key, kind);
        if self.keys.get(self.last) == Some(&wanted) {
            return Some(self.last);
        }
        match self.keys.len() <= FEW_GROUPS {
            true => self.keys.iter().position(|known| *known == wanted),
            false => self
                .by_key
                .get(&(key, kind == Some(ItemOp::Count)))
                .copied(),
        }
    }

    /// The group of a key, which is new if there is none.
    ///
    /// # Errors
    /// The key can't name a filter.
    fn group(&mut self, key: &'a [u8], kind: Option<ItemOp>) -> Result<usize> {
        if let Some(group) = self.group_of(key, kind) {
            return Ok(group);
        }
        let mut group = Group::new(name_of(key)?);
        group.is_one_commit = self.changed_key == Some(Some(key));
        self.groups.push(group);
        self.keys.push((key, kind));
        let count = self.keys.len();
        if count > FEW_GROUPS {
            let known = self.keys.iter().enumerate().skip(self.by_key.len());
            let entries = known.map(|(at, &(key, kind))| ((key, kind == Some(ItemOp::Count)), at));
            self.by_key.extend(entries);
        }
        Ok(count - 1)
    }

    /// Keeps the place of another command of a transaction.
    pub(super) fn keep_place(&mut self, index: usize) {
        self.slots.push(Slot::Other(index));
    }

    fn push(&mut self, spec: &Spec, command: ItemCommand, words: Words<'a>) -> Result<Slot> {
        let (verb, key) = (command.verb, words.get(1));
        if command.creates.is_none() && known_name(key).is_none() {
            self.items += command.items.len();
            return Ok(Slot::Missing(spec.verb, verb, command.items.len()));
        }
        let group = self.group(key, self.kind(verb, key))?;
        self.last = group;
        let places = words.places().get(command.items).unwrap_or_default();
        let bytes = places.iter().map(ExactSizeIterator::len).sum::<usize>();
        let Some(grouped) = self.groups.get_mut(group) else {
            return Err("ERR no group".into());
        };
        let (index, items) = grouped.push(verb, places, command.creates);
        self.items += items.len();
        self.bytes += bytes;
        Ok(Slot::Asked {
            verb: spec.verb,
            item_verb: verb,
            group,
            index,
            items,
        })
    }
}

/// A command on items, and what is asked of them.
pub(super) fn item_command(words: Words<'_>) -> Option<(&'static Spec, ItemVerb)> {
    let spec = find(words.get(0))?;
    Some((spec, ItemVerb::of(spec.verb)?))
}

impl Session {
    /// Works on the first of some commands of a pipeline that make a run, and says which
    /// one comes next.
    pub(super) async fn run(&mut self, pipeline: &Pipeline, range: Range<usize>) -> usize {
        let mut run = Run::default();
        let mut next = range.start;
        while next < range.end {
            let words = pipeline.command(next);
            let Some((spec, verb)) = item_command(words) else {
                break;
            };
            // Of a command without a key nothing is asked.
            if words.len() > 1 {
                if !run.takes(verb, words.get(1)) {
                    break;
                }
                let has_changes = run.has_changes.unwrap_or(false);
                run.has_changes = Some(has_changes || !verb.is_question());
            }
            self.take(&mut run, spec, verb, words);
            next += 1;
        }
        // They may have as many items as there may be.
        give_way().await;
        let started = Instant::now();
        let done = self.work(&run, pipeline.command(range.start).bytes()).await;
        let took = started.elapsed();
        if took > SLOWER_THAN {
            let all = (range.start..next).map(|at| pipeline.command(at));
            if let Some(words) = all.max_by_key(|words| words.len()) {
                let others = next - range.start - 1;
                self.remember_slow(find(words.get(0)), words, others, took);
            }
        }
        self.answer(run, done, pipeline).await;
        next
    }

    /// Takes a command into a run, or notes why not.
    pub(super) fn take<'a>(
        &self,
        run: &mut Run<'a>,
        spec: &'static Spec,
        verb: ItemVerb,
        words: Words<'a>,
    ) {
        let most = self.service.app.admission.limits.max_batch_items;
        let taken = items::parse(spec, verb, words, most)
            .map_err(Failure::from)
            .and_then(|command| {
                // In a transaction that was looked at before.
                if run.changed_key.is_none() {
                    self.permit(spec)?;
                    self.permit_key(words.get(1))?;
                }
                run.push(spec, command, words)
            });
        let slot = taken.unwrap_or_else(|failure| Slot::Refused(spec.verb, failure));
        run.slots.push(slot);
    }

    /// Has the engine work on the groups of a run.
    pub(super) async fn work(&mut self, run: &Run<'_>, bytes: &Bytes) -> Vec<GroupDone> {
        if run.groups.is_empty() {
            self.time_run(run, Duration::ZERO);
            return Vec::new();
        }
        let started = Instant::now();
        let worked = match self.hold_reply(run.items * REPLY_BYTES) {
            Ok(()) => self.try_work(run, bytes).await,
            Err(refused) => Err(refused),
        };
        let done = match worked {
            Ok(done) => done,
            Err(refused) => {
                let refused = Arc::new(refused);
                let groups = run.groups.iter();
                groups.map(|group| group.refused(&refused)).collect()
            }
        };
        let is_change = run.has_changes == Some(true);
        let took = started.elapsed();
        self.service.observe_run(is_change, took);
        self.time_run(run, took);
        done
    }

    /// Counts the times of the commands of a run.
    fn time_run(&self, run: &Run<'_>, took: Duration) {
        let count = u32::try_from(run.slots.len()).unwrap_or(u32::MAX);
        let each = took / count.max(1);
        for some in run.slots.chunk_by(|one, next| one.verb() == next.verb()) {
            if let Some(verb) = some.first().and_then(Slot::verb) {
                self.service.timings.observe(verb, some.len() as u64, each);
            }
        }
    }

    /// # Errors
    /// None of it could be begun.
    async fn try_work(&self, run: &Run<'_>, bytes: &Bytes) -> Result<Vec<GroupDone>> {
        let (admission, holder) = (&self.service.app.admission, self.holder());
        let is_change = run.has_changes == Some(true);
        let scope = if is_change { Scope::Write } else { Scope::Read };
        let _place = admission.place(scope, holder).await?;
        let deadline = Instant::now() + admission.limits.request_timeout;
        let turn = admission
            .turn(holder, deadline, run.bytes, is_change)
            .await?;
        let engine = self.engine()?.in_turn(turn);
        let transfers = &self.service.transfers;
        if let [group] = run.groups.as_slice() {
            return Ok(vec![group.work(&engine, transfers, bytes).await]);
        }
        let mut done = Vec::with_capacity(run.groups.len());
        // Changes of many filters share commits. A transaction changes one.
        let at_once = match is_change && run.changed_key.is_none() {
            true => run.groups.len().max(1),
            false => GROUPS_AT_ONCE,
        };
        for some in run.groups.chunks(at_once) {
            let working = some.iter().map(async |group| {
                // Each may be done at once.
                give_way().await;
                // Kilobytes of state, that most need for a moment only.
                Box::pin(group.work(&engine, transfers, bytes)).await
            });
            done.extend(join_all(working).await);
        }
        Ok(done)
    }

    /// Writes the replies to a run.
    pub(super) async fn answer(&mut self, run: Run<'_>, done: Vec<GroupDone>, pipeline: &Pipeline) {
        let (mut hits, mut misses) = (0, 0);
        for (at, slot) in run.slots.into_iter().enumerate() {
            if at % ENTRIES_AT_ONCE == 0 {
                give_way().await;
            }
            let before = self.replies.len();
            let (verb, is_success) = match slot {
                Slot::Refused(verb, failure) => {
                    self.replies.error(&failure.words);
                    (verb, false)
                }
                Slot::Missing(verb, item_verb, items) => {
                    misses += u64::from(item_verb.is_question());
                    (verb, self.reply_missing(item_verb, items).await)
                }
                Slot::Other(index) => {
                    self.one_of_transaction(pipeline.command(index)).await;
                    give_way().await;
                    continue;
                }
                Slot::Asked {
                    verb,
                    item_verb,
                    group,
                    index,
                    items,
                } => {
                    let done = done.get(group);
                    let is_success = match done.and_then(|done| done.became.get(index)) {
                        Some(Became::Done) => {
                            hits += u64::from(item_verb.is_question());
                            let results = done.and_then(|done| done.results.get(items));
                            self.reply_done(item_verb, results.unwrap_or_default())
                                .await
                        }
                        Some(Became::Missing) => {
                            misses += u64::from(item_verb.is_question());
                            self.reply_missing(item_verb, items.len()).await
                        }
                        Some(Became::Failed(failure)) => {
                            self.is_over |= failure.ends;
                            self.replies.error(&failure.words);
                            false
                        }
                        None => {
                            self.replies.error(errors::NOT_FOUND);
                            false
                        }
                    };
                    (verb, is_success)
                }
            };
            if !is_success {
                self.count_error(verb, before);
            }
            if self.counts {
                self.service.count(Some(verb), is_success);
            }
        }
        self.service.count_found(hits, misses);
    }

    /// Writes the reply to a command that was done; whether it is one of success.
    async fn reply_done(&mut self, verb: ItemVerb, results: &[ItemResult]) -> bool {
        if verb.has_list() {
            return self.reply_list(verb, results.iter().copied()).await;
        }
        match results {
            [result] => items::reply(verb, *result, &mut self.replies),
            // There always is one.
            _ => {
                self.replies.error("ERR no result");
                false
            }
        }
    }

    /// The same for one about so many items of a filter that there is not.
    async fn reply_missing(&mut self, verb: ItemVerb, items: usize) -> bool {
        if verb == ItemVerb::MExists {
            let none = repeat_n(ItemResult::Found(false), items);
            return self.reply_list(verb, none).await;
        }
        items::reply_missing(verb, &mut self.replies)
    }

    async fn reply_list(
        &mut self,
        verb: ItemVerb,
        mut results: impl ExactSizeIterator<Item = ItemResult>,
    ) -> bool {
        self.replies.array(results.len());
        while results.len() > 0 {
            for result in results.by_ref().take(ENTRIES_AT_ONCE) {
                items::reply_one_of_many(verb, result, &mut self.replies);
            }
            give_way().await;
        }
        true
    }
}
