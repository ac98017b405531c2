//! One command: checked, then queued or done.

use super::failure::Result;
use super::state::{Role, Session};
use crate::commands::describe;
use crate::commands::errors::{self, NO_AUTH};
use crate::commands::help;
use crate::commands::items::ItemVerb;
use crate::commands::table::{InTransaction, Keys, Spec, Verb, find};
use crate::protocol::decode::{Bounds, Dropped};
use crate::protocol::pipeline::{Pipeline, Words};
use crate::server::cluster::route::LEADER_PATIENCE;
use crate::server::listen::polls::{Work, give_way, set_work};
use std::time::{Duration, Instant};

/// Words, and bytes of them, of a command that is about no key. What these reply
/// follows from what they were asked, some of it many times over.
const MOST_WORDS: usize = 128;
const MOST_BYTES: usize = 64 << 10;

/// Keys that are looked at before others have the thread.
const KEYS_AT_ONCE: usize = 4096;

impl Session {
    /// Works on the commands of a pipeline from one on that can be worked on
    /// together, and says which one comes next.
    pub(crate) async fn go_on(&mut self, pipeline: &Pipeline, from: usize) -> usize {
        let words = pipeline.command(from);
        let spec = find(words.get(0));
        set_work(spec.map_or(Work::Unknown, |spec| Work::Command(spec.name)));
        if from == 0 {
            (self.patience, self.here_to) = (LEADER_PATIENCE, 0);
            self.since = Some(Instant::now());
        }
        let is_free = self.is_known() && self.transaction.is_none();
        // The session that it is beside has found out that they are worked on here.
        let may_go = self.role != Role::Beside && self.service.app.cluster().is_some();
        let mut here_to = pipeline.len();
        if is_free && may_go {
            if let Some(next) = Box::pin(self.forward(pipeline, from)).await {
                return next;
            }
            here_to = self.here_to;
        }
        let works_on_items = spec.is_some_and(|spec| ItemVerb::of(spec.verb).is_some());
        if works_on_items && is_free {
            return self.run(pipeline, from..here_to).await;
        }
        let (before, started) = (self.replies.len(), Instant::now());
        let done = Box::pin(self.one(spec, words)).await;
        self.audit_rest(spec, words, &done);
        if let Err(failure) = done {
            self.replies.error(&failure.words);
            self.is_over |= failure.ends;
        }
        // What is queued is counted when it is done.
        if self.transaction.is_none() || !self.reply(before).starts_with(b"+QUEUED") {
            self.count(spec, before);
            let took = started.elapsed();
            self.time(spec, before, took);
            self.remember_slow(spec, words, 0, took);
        }
        from + 1
    }

    /// Answers a command that was not kept.
    pub(crate) fn refuse_dropped(&mut self, why: Dropped) {
        if let Some(transaction) = &mut self.transaction {
            transaction.refuse();
        }
        let limits = &self.service.app.admission.limits;
        let most = Bounds::of_known(limits.max_batch_items, limits.max_body_bytes);
        self.replies.error(&match why {
            Dropped::TooManyWords => format!(
                "ERR a command has at most {} words on this server (16 more than --max-batch-items); send fewer items at once",
                most.kept_words
            ),
            Dropped::TooLarge => format!(
                "ERR a command has at most {} bytes on this server (--max-body-bytes); send fewer items at once",
                most.kept_bytes
            ),
            Dropped::NoMemory => "TRYAGAIN the commands in memory have reached their bound (--max-buffered-bytes); nothing was done".to_owned(),
        });
    }

    pub(super) fn count(&self, spec: Option<&Spec>, before: usize) {
        if !self.counts {
            return;
        }
        let is_success = !self.reply(before).starts_with(b"-");
        self.service.count(spec.map(|spec| spec.verb), is_success);
    }

    /// The reply that begins there.
    fn reply(&self, before: usize) -> &[u8] {
        self.replies.bytes().get(before..).unwrap_or_default()
    }

    /// Counts how long a command took that was worked on here, and whether it failed.
    pub(super) fn time(&self, spec: Option<&Spec>, before: usize, took: Duration) {
        if let Some(spec) = spec {
            self.service.timings.observe(spec.verb, 1, took);
            self.count_error(spec.verb, before);
        }
    }

    /// Counts the reply that begins there, if it is an error.
    pub(super) fn count_error(&self, verb: Verb, before: usize) {
        let reply = self.reply(before);
        if reply.starts_with(b"-") {
            self.service.timings.count_error(verb, reply);
        }
    }

    /// Checks one command, and does it or queues it.
    async fn one(&mut self, spec: Option<&'static Spec>, words: Words<'_>) -> Result {
        let checked = self.check(spec, words).await;
        if checked.is_err()
            && let Some(transaction) = &mut self.transaction
        {
            transaction.refuse();
        }
        let spec = checked?;
        if self.transaction.is_some() && spec.in_transaction != InTransaction::AtOnce {
            return self.queue(spec, words);
        }
        self.execute(spec, words).await
    }

    /// # Errors
    /// There is no such command, or the caller may not send it.
    async fn check(&self, spec: Option<&'static Spec>, words: Words<'_>) -> Result<&'static Spec> {
        let is_open = spec.is_some_and(|spec| {
            matches!(
                spec.verb,
                Verb::Hello | Verb::Auth | Verb::Quit | Verb::Reset
            )
        });
        if !self.is_known() && !is_open {
            return Err(NO_AUTH.into());
        }
        let spec = spec.ok_or_else(|| errors::unknown_command(words))?;
        if !spec.takes(words.len()) {
            return Err(errors::arity(spec).into());
        }
        self.permit(spec)?;
        if spec.keys == Keys::None && is_long(words) {
            return Err(errors::too_long(spec, MOST_WORDS, MOST_BYTES).into());
        }
        for (at, key) in keys_of(spec, words).enumerate() {
            if at % KEYS_AT_ONCE == 0 {
                give_way().await;
            }
            self.permit_key(key)?;
        }
        Ok(spec)
    }

    /// Does a command that may be done.
    pub(super) async fn execute(&mut self, spec: &'static Spec, words: Words<'_>) -> Result {
        if words.get(1).eq_ignore_ascii_case(b"help")
            && let Some(help) = help::lines(spec.name)
        {
            if words.len() > 2 {
                return Err(errors::arity_of(spec.name, words.get(1)).into());
            }
            self.replies.array(help.len());
            help.iter().for_each(|line| self.replies.status(line));
            return Ok(());
        }
        match spec.verb {
            Verb::Ping | Verb::Echo => self.echo(words)?,
            Verb::Hello => self.hello(words)?,
            Verb::Auth => self.auth(words)?,
            Verb::Select => self.select(words)?,
            Verb::Quit => self.quit(),
            Verb::Reset => self.reset(),
            Verb::Client => self.client(words)?,
            Verb::Command => {
                self.hold_reply(words.len() * describe::MOST_BYTES)?;
                describe::command(words, &mut self.replies);
            }
            Verb::Multi => self.begin_transaction()?,
            Verb::Exec => self.exec().await?,
            Verb::Discard => self.discard()?,
            Verb::Watch => return Err("ERR WATCH is not supported".into()),
            Verb::Unwatch => self.replies.ok(),
            Verb::SlowLog => self.slow_log(words)?,
            Verb::Latency => self.latency(words)?,
            Verb::Info
            | Verb::Config
            | Verb::Cluster
            | Verb::ReadOnly
            | Verb::ReadWrite
            | Verb::Role
            | Verb::Wait
            | Verb::Time
            | Verb::Module
            | Verb::Acl => self.about_server(spec, words).await?,
            _ => {
                let admission = &self.service.app.admission;
                let place = admission.place(spec.scope, self.holder()).await;
                let _place = place.map_err(|refused| errors::shared(&refused))?;
                self.about_filters(spec, words).await?;
            }
        }
        Ok(())
    }
}

fn is_long(words: Words<'_>) -> bool {
    let bytes = || words.iter().map(<[u8]>::len).sum::<usize>();
    words.len() > MOST_WORDS || bytes() > MOST_BYTES
}

/// The words of a command that are keys.
pub(super) fn keys_of<'a>(spec: &Spec, words: Words<'a>) -> impl Iterator<Item = &'a [u8]> {
    let (from, most) = match spec.keys {
        Keys::None => (0, 0),
        Keys::First => (1, 1),
        Keys::All => (1, usize::MAX),
        Keys::Second => (2, 1),
    };
    words.from(from).iter().take(most)
}
