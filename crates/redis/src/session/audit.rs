//! Lines of the audit log: one for each filter that a command ends, replaces or
//! gives another end, also if that was refused.

use super::dispatch::keys_of;
use super::failure::Result;
use super::state::{Session, known_name};
use crate::access::audit::{AuditOutcome, TARGET};
use crate::commands::errors::{self, UNSUPPORTED_OPTION};
use crate::commands::table::{Spec, Verb};
use crate::engine::{EngineError, FilterName};
use crate::protocol::pipeline::Words;
use std::mem;

/// Filters of a command that was refused which have lines of their own: one command
/// may name a hundred thousand.
const MOST_LINES: usize = 100;

/// What a command is called there; `None`: it is not told of.
fn action(verb: Verb) -> Option<&'static str> {
    Some(match verb {
        Verb::Del | Verb::Unlink | Verb::FlushAll | Verb::FlushDb => "delete_filter",
        Verb::Expire | Verb::PExpire | Verb::ExpireAt | Verb::PExpireAt | Verb::Persist => {
            "patch_filter"
        }
        Verb::CfCompact => "compact_filter",
        Verb::CfLoadChunk => "restore_filter",
        _ => return None,
    })
}

impl Session {
    /// Tells what became of an act.
    pub(super) fn audit(
        &mut self,
        filter: &FilterName,
        action: &str,
        note: Option<&str>,
        error: Option<&EngineError>,
    ) {
        let outcome = match error {
            None => AuditOutcome::Done,
            Some(error) if error.may_be_done() => AuditOutcome::Unknown,
            Some(EngineError::Store(_)) => AuditOutcome::Failed,
            Some(_) => AuditOutcome::Refused,
        };
        let reason = error.map(errors::engine);
        self.audited += 1;
        self.line(Some(filter), action, note, outcome, reason.as_deref());
    }

    /// Tells what became of the rest of a command that was not done: one line for
    /// each of its filters that has none yet. Then the next command begins.
    pub(super) fn audit_rest(&mut self, spec: Option<&Spec>, words: Words<'_>, done: &Result) {
        let audited = mem::take(&mut self.audited);
        let action = spec.and_then(|spec| Some((spec, action(spec.verb)?)));
        // Who is not known could fill the log.
        let (Some((spec, action)), Err(failure), true) = (action, done, self.is_known()) else {
            return;
        };
        // Its quotation may be anything, also an item.
        let reason = match failure.words.starts_with(UNSUPPORTED_OPTION) {
            true => UNSUPPORTED_OPTION,
            false => &failure.words,
        };
        let refuse = |filter: Option<FilterName>, note: Option<&str>| {
            let outcome = AuditOutcome::Refused;
            self.line(filter.as_ref(), action, note, outcome, Some(reason));
        };
        let mut keys = keys_of(spec, words).skip(audited);
        for key in keys.by_ref().take(MOST_LINES) {
            // What can't be a name is not written down.
            refuse(known_name(key), None);
        }
        let more = keys.count();
        if more > 0 {
            refuse(None, Some(&format!("filters={more}")));
        }
        if audited == 0 && keys_of(spec, words).next().is_none() {
            refuse(None, None);
        }
    }

    fn line(
        &self,
        filter: Option<&FilterName>,
        action: &str,
        note: Option<&str>,
        outcome: AuditOutcome,
        reason: Option<&str>,
    ) {
        let caller = self.principal.clone().unwrap_or_default();
        if outcome == AuditOutcome::Refused && !caller.may_log_refusal() {
            return;
        }
        tracing::info!(
            target: TARGET,
            action,
            caller = caller.name(),
            filter = filter.map(FilterName::as_str),
            note,
            outcome = outcome.name(),
            reason,
            connection = self.info.id,
            "command"
        );
    }
}
