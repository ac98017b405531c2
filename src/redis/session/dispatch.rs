//! One command: checked, then queued or done.

use super::failure::Failure;
use super::kept;
use super::state::{Role, Session};
use super::together::{Next, Together};
use crate::http::{Work, note_work};
use crate::redis::commands::describe;
use crate::redis::commands::errors::{self, NO_AUTH};
use crate::redis::commands::items::ItemVerb;
use crate::redis::commands::table::{Keys, Spec, Verb, find};
use crate::redis::protocol::batch::{Batch, Words};
use crate::redis::protocol::decode::Dropped;

/// Words, and bytes of them, of a command that is about no key. What these reply
/// follows from what they were asked, some of it many times over.
const MOST_WORDS: usize = 128;
const MOST_BYTES: usize = 64 << 10;

impl Session {
    /// Works on the commands of a batch from one on that can be worked on
    /// together, and says which one comes next.
    pub(in crate::redis) async fn go_on(&mut self, batch: &Batch, from: usize) -> usize {
        let words = batch.command(from);
        let spec = find(words.get(0));
        note_work(spec.map_or(Work::Unknown, |spec| Work::Command(spec.name)));
        let mut here_to = batch.len();
        if from == 0 {
            self.together = Together::default();
        }
        let is_free = self.is_known() && self.transaction.is_none();
        // The session that it is beside has found out that they are worked on here.
        let may_go = self.role != Role::Beside && self.service.app.cluster().is_some();
        if is_free && may_go {
            match Box::pin(self.go_elsewhere(batch, from)).await {
                Next::Done(next) => return next,
                Next::Here(to) => here_to = to,
            }
        }
        let works_on_items = spec.is_some_and(|spec| ItemVerb::of(spec.verb).is_some());
        if works_on_items && is_free {
            return self.run(batch, from..here_to).await;
        }
        let before = self.replies.len();
        if let Err(failure) = Box::pin(self.one(spec, words)).await {
            self.replies.error(&failure.words);
            self.is_over |= failure.ends;
        }
        self.count(spec, before);
        from + 1
    }

    /// Answers a command that was not kept.
    pub(in crate::redis) fn refuse_dropped(&mut self, why: Dropped) {
        if let Some(transaction) = &mut self.transaction {
            transaction.refuse();
        }
        let most = self.service.app.admission.limits.max_body_bytes;
        self.replies.error(&match why {
            Dropped::TooLarge => format!(
                "ERR a command has at most {most} bytes on this server (--max-body-bytes); send fewer items at once"
            ),
            Dropped::NoMemory => "TRYAGAIN the commands in memory have reached their bound (--max-buffered-bytes); nothing was done".to_owned(),
        });
    }

    pub(super) fn count(&self, spec: Option<&Spec>, before: usize) {
        if !self.counts {
            return;
        }
        let first = self.replies.bytes().get(before);
        self.service
            .count(spec.map(|spec| spec.verb), first != Some(&b'-'));
    }

    /// Checks one command, and does it or queues it.
    async fn one(&mut self, spec: Option<&'static Spec>, words: Words<'_>) -> Result<(), Failure> {
        let done = self.try_one(spec, words).await;
        self.audit_rest(spec, words, &done);
        done
    }

    async fn try_one(
        &mut self,
        spec: Option<&'static Spec>,
        words: Words<'_>,
    ) -> Result<(), Failure> {
        let checked = self.check(spec, words);
        if checked.is_err()
            && let Some(transaction) = &mut self.transaction
        {
            transaction.refuse();
        }
        let spec = checked?;
        if self.transaction.is_some() && !kept::acts_at_once(spec.verb) {
            return self.queue(spec, words);
        }
        self.execute(spec, words).await
    }

    /// # Errors
    /// There is no such command, or the caller may not send it.
    fn check(
        &self,
        spec: Option<&'static Spec>,
        words: Words<'_>,
    ) -> Result<&'static Spec, Failure> {
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
        for key in keys_of(spec, words) {
            self.permit_key(key)?;
        }
        Ok(spec)
    }

    /// Does a command that may be done.
    pub(super) async fn execute(
        &mut self,
        spec: &'static Spec,
        words: Words<'_>,
    ) -> Result<(), Failure> {
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
