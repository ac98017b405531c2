//! Lines of the audit log: one for each filter that a command ends, replaces or
//! gives another end, also if that was refused.

use super::failure::Failure;
use super::state::Session;
use crate::access::audit::{Outcome, TARGET};
use crate::engine::{EngineError, FilterName};
use crate::http::Principal;
use crate::redis::commands::errors;
use crate::redis::commands::table::{Spec, Verb};

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
        &self,
        filter: &FilterName,
        action: &str,
        note: Option<&str>,
        error: Option<&EngineError>,
    ) {
        let outcome = match error {
            None => Outcome::Done,
            Some(error) if error.may_be_done() => Outcome::Unknown,
            Some(EngineError::Store(_)) => Outcome::Failed,
            Some(_) => Outcome::Refused,
        };
        let reason = error.map(errors::engine);
        self.line(Some(filter), action, note, outcome, reason.as_deref());
    }

    /// Tells of an act that was refused before anything was done.
    pub(super) fn audit_refusal(&self, spec: &Spec, key: &[u8], failure: &Failure) {
        let Some(action) = action(spec.verb) else {
            return;
        };
        // What can't be a name is not written down.
        let text = std::str::from_utf8(key).ok();
        let filter = text.and_then(|text| FilterName::parse(text).ok());
        let reason = Some(&*failure.words);
        self.line(filter.as_ref(), action, None, Outcome::Refused, reason);
    }

    fn line(
        &self,
        filter: Option<&FilterName>,
        action: &str,
        note: Option<&str>,
        outcome: Outcome,
        reason: Option<&str>,
    ) {
        tracing::info!(
            target: TARGET,
            action,
            caller = self.principal.as_ref().and_then(Principal::name),
            filter = filter.map(FilterName::as_str),
            note,
            outcome = outcome.name(),
            reason,
            connection = self.info.id,
            "command"
        );
    }
}
