//! `MULTI` and what follows it: commands are checked and kept, and done together
//! at `EXEC`.
//!
//! What changes one filter is one commit with the questions around it. What
//! makes the filter, has it end or deletes it comes where it stands, as a commit
//! of its own. Filters lie in several lanes, so a transaction changes no more
//! than one.

use super::failure::Result;
use super::kept::Transaction;
use super::run::{Run, item_command};
use super::state::Session;
use crate::commands::errors::{self, excerpt};
use crate::commands::items::ItemVerb;
use crate::commands::table::{InTransaction, Keys, Spec, find};
use crate::protocol::pipeline::{Pipeline, Words};
use crate::server::listen::polls::give_way;
use crate::server::principal::Principal;
use std::collections::HashSet;
use std::time::Instant;

/// Bytes of kept commands beyond which they count against the memory of all.
const FREE_BYTES: usize = 128 << 10;

/// Filters whose items a transaction is about: each is asked by itself, and they
/// are all asked at once.
const MOST_FILTERS: usize = 1024;

/// Bytes of a reply to what is not about items, beside what was sent.
const REPLY_BYTES: usize = 512;

impl Session {
    pub(super) fn begin_transaction(&mut self) -> Result {
        if self.transaction.is_some() {
            return Err("ERR MULTI calls can not be nested".into());
        }
        self.transaction = Some(Transaction::begin());
        self.replies.ok();
        Ok(())
    }

    pub(super) fn discard(&mut self) -> Result {
        self.transaction.take().ok_or("ERR DISCARD without MULTI")?;
        self.replies.ok();
        Ok(())
    }

    /// Keeps a command that was checked.
    pub(super) fn queue(&mut self, spec: &'static Spec, words: Words<'_>) -> Result {
        let admission = &self.service.app.admission;
        let limits = &admission.limits;
        let holder = self.principal.as_ref().and_then(Principal::holder);
        let Some(transaction) = &mut self.transaction else {
            return Err("ERR EXEC without MULTI".into());
        };
        // Nothing of it will be done.
        if transaction.is_refused {
            self.replies.status("QUEUED");
            return Ok(());
        }
        let kept = transaction.commands.bytes();
        let hold = match kept > FREE_BYTES {
            true => admission.bodies.grow(holder, &mut transaction.held, kept),
            false => Ok(()),
        };
        let refusal = if spec.in_transaction != InTransaction::Queued {
            Some(format!(
                "ERR {} can't be part of a transaction: send it before MULTI, or after EXEC",
                spec.name
            ))
        } else if transaction.commands.words() + words.len() > limits.max_batch_items + 16
            || kept > limits.max_body_bytes
        {
            Some(
                "ERR a transaction has at most as many words, and bytes, as a command (--max-batch-items, --max-body-bytes)"
                    .to_owned(),
            )
        } else {
            hold.err().map(|refused| errors::shared(&refused))
        };
        if let Some(refusal) = refusal {
            transaction.refuse();
            return Err(refusal.into());
        }
        transaction.commands.push(words.iter());
        self.replies.status("QUEUED");
        Ok(())
    }

    /// Does what was kept.
    pub(super) async fn exec(&mut self) -> Result {
        let transaction = self.transaction.take().ok_or("ERR EXEC without MULTI")?;
        if transaction.is_refused {
            return Err("EXECABORT Transaction discarded because of previous errors.".into());
        }
        let kept = transaction.commands.into_pipeline();
        let (changed, reply_bytes) = About::of(&kept).await?;
        // The rest is held when it is worked on.
        let held = self.hold_reply(reply_bytes);
        held.map_err(|it| format!("EXECABORT Transaction discarded because of: {}", it.words))?;
        if let Some(address) = self.transaction_route(&kept).await? {
            return self.forward_transaction(&address, kept).await;
        }
        self.replies.array(kept.len());
        // There may be many commits: nobody waits longer for them than for one command.
        let until = self.until;
        self.until = self.caller().deadline;
        let mut next = 0;
        while next < kept.len() {
            let end = (next..kept.len()).find(|&at| is_boundary(kept.command(at)));
            let end = end.unwrap_or(kept.len());
            if end == next {
                self.one_of_transaction(kept.command(next)).await;
                // There may be many, and each may be done at once.
                give_way().await;
                next += 1;
                continue;
            }
            let mut run = Run::of_transaction(changed);
            for at in next..end {
                let words = kept.command(at);
                match item_command(words) {
                    Some((spec, verb)) => self.take(&mut run, spec, verb, words),
                    None => run.keep_place(at),
                }
                give_way().await;
            }
            let done = self.work(&run, kept.command(next).bytes()).await;
            Box::pin(self.answer(run, done, &kept)).await;
            next = end;
        }
        self.until = until;
        Ok(())
    }

    /// Does one command that stands by itself.
    pub(super) async fn one_of_transaction(&mut self, words: Words<'_>) {
        let spec = find(words.get(0));
        let (before, started) = (self.replies.len(), Instant::now());
        let done = match spec {
            Some(spec) => Box::pin(self.execute(spec, words)).await,
            None => Err("ERR unknown command".into()),
        };
        self.audit_rest(spec, words, &done);
        if let Err(failure) = done {
            self.replies.error(&failure.words);
        }
        self.count(spec, before);
        self.time(spec, before, started.elapsed());
    }
}

/// Whether a command comes where it stands: it tells of a filter as a whole, or
/// changes that.
fn is_boundary(words: Words<'_>) -> bool {
    let spec = find(words.get(0));
    item_command(words).is_none() && spec.is_some_and(|spec| spec.keys != Keys::None)
}

/// What a transaction is about.
#[derive(Default)]
struct About<'a> {
    /// The filter whose items it changes, if it does.
    changed: Option<&'a [u8]>,
    /// The filters about whose items it is.
    filters: HashSet<&'a [u8]>,
    /// Bytes of the replies to what is not about items, at most.
    reply_bytes: usize,
}

impl<'a> About<'a> {
    /// The filter whose items a transaction changes, and bytes of its replies to what is
    /// not about items.
    ///
    /// # Errors
    /// It changes several filters, or is about too many.
    async fn of(kept: &'a Pipeline) -> Result<(Option<&'a [u8]>, usize)> {
        let mut about = About::default();
        for index in 0..kept.len() {
            let words = kept.command(index);
            match item_command(words) {
                Some((_, verb)) => about.add(words.get(1), verb)?,
                None => {
                    let sent: usize = words.iter().map(<[u8]>::len).sum();
                    about.reply_bytes += REPLY_BYTES + sent;
                }
            }
            give_way().await;
        }
        match about.filters.len() <= MOST_FILTERS {
            true => Ok((about.changed, about.reply_bytes)),
            false => Err(format!(
                "EXECABORT Transaction discarded because of: ERR it is about the items of {} filters, {MOST_FILTERS} are allowed: send several transactions",
                about.filters.len()
            )
            .into()),
        }
    }

    fn add(&mut self, key: &'a [u8], verb: ItemVerb) -> Result {
        self.filters.insert(key);
        if verb.is_question() {
            return Ok(());
        }
        if let Some(other) = self.changed.filter(|&other| other != key) {
            return Err(format!(
                "EXECABORT Transaction discarded because of: ERR writes to more than one filter ({}, {}) can't be one transaction: use pipeline(transaction=False)",
                excerpt(other),
                excerpt(key)
            )
            .into());
        }
        self.changed = Some(key);
        Ok(())
    }
}
